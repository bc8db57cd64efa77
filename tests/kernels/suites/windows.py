# SPDX-License-Identifier: MIT
"""What a plan expects, against what the kernel gives."""
from __future__ import annotations

from collections.abc import Iterator

from case import PORT, Case, between, objects, plain_path
from packages import Kernel


PROGRAMS = ("tests/net/window",)
BLOCKING_MOST = 4
"""Times the expected window. Calls that block may store more than the buffer's size, and this path holds about so much."""
SHOWS_LOCKS = (5, 15)
"""From there on SO_BUF_LOCK tells that a program has set a buffer, also on a connection, whose buffer has grown before."""


def window_script(wmem: int, rmem: int, send: str, recv: str, seconds: object) -> str:
    return (plain_path(400, 100) + f"""
for ns in a b; do
    on $ns sysctl -qw net.ipv4.tcp_wmem="4096 16384 {wmem}" net.ipv4.tcp_rmem="4096 131072 {rmem}"
    on $ns sysctl -qw net.ipv4.tcp_congestion_control=cubic
done
on b as_nobody window recv {PORT} {recv} >/tmp/recv 2>&1 &
listening b {PORT}
on a as_nobody window send 10.0.2.1 {PORT} {send} {seconds}
wait
cat /tmp/recv
""")


def cases(kernel: Kernel, quick: bool) -> Iterator[Case]:
    none = "none before 1 1"

    def sends(how: str, stage: str, rate: float, wmem: int, writes: str = "poll") -> Case:
        def check(said: str) -> None:
            sent = objects(said)[0]
            most = BLOCKING_MOST if writes == "block" else 1.05
            between(sent["a_round_trip"] / sent["window"], 0.95, most, f"in a round trip, of {sent['window']} ({sent['reason']})")

        return Case(f"send, {how}, {stage}, {rate / 1e6:g} Mbit/s, at most {wmem / 1e6:g} MB, {writes}",
                    window_script(wmem, 33554432, f"{how} {stage} {rate:.0f} 100", none, f"5 {writes}"), check, PROGRAMS)

    def receives(how: str, stage: str, rate: float, rmem: int) -> Case:
        def check(said: str) -> None:
            sent, got = objects(said)[:2]
            # What fits in a stored buffer depends on the packets that come, from 6.6 on; a plan promises no more
            # than what fits of those that take the most memory.
            between(sent["peer_window"], 0.95 * got["window"], 2 * got["window"], f"advertised ({got['reason']})")

        return Case(f"receive, {how}, {stage}, {rate / 1e6:g} Mbit/s, at most {rmem / 1e6:g} MB",
                    window_script(16777216, rmem, none, f"{how} {stage} {rate:.0f} 100", 2.5), check, PROGRAMS)

    if quick:
        return
    yield sends("plan", "before", 30e6, 4000000)
    yield receives("plan", "before", 20e6, 4000000)
    for stage in ("before", "after"):
        for writes in ("poll", "block", "retry"):
            yield sends("plan", stage, 62e6, 1000000, writes)
        if stage == "before" or kernel.number >= SHOWS_LOCKS:
            yield sends("40000", stage, 30e6, 1000000)
        yield receives("plan", stage, 20e6, 1000000)
        yield receives("plan", stage, 62e6, 1000000)
        yield receives("40000", stage, 20e6, 1000000)
