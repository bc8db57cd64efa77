# SPDX-License-Identifier: MIT
"""What `autobuf watch` says is free, beside traffic that gives way, and what a new connection then has; what a search in line finds."""
from __future__ import annotations

from collections.abc import Iterator

from case import PORT, Case, between, objects, path, qdisc
from packages import Kernel

NEAR = 1.5
"""A new connection has as much as was told, but for so much; the goal is 1.25 (docs/BENCHMARKS.md)."""
SHORT_BYTES, SHORT_PAUSE_MS = 60000, 150
IP_OF_PAYLOAD = 1500 / 1448
WRITES_MBIT = 8
OWN = PORT
NEW = PORT + 1
CROSS = PORT + 2


def sends(port: int, seconds: float, cc: str, out: str) -> str:
    return f"on a as_nobody bulk send --json --cc {cc} --tune none --seconds {seconds} --port {port} 10.0.2.1 >{out} 2>&1 &\n"


def receives(port: int) -> str:
    return f"on b as_nobody bulk recv --port {port} >/dev/null 2>&1 &\nlistening b {port}\n"


def greedy(count: int, cc: str) -> str:
    return "".join(receives(CROSS + i) + sends(CROSS + i, 30, cc, "/dev/null") for i in range(count))


def short(count: int) -> str:
    """Transfers that end after a few round trips, one after the other, of so many programs."""
    return "".join(receives(CROSS + i) + f"(for i in $(seq 100); do on a as_nobody bulk send --cc cubic --tune none --bytes {SHORT_BYTES} "
                   f"--port {CROSS + i} 10.0.2.1; usleep {SHORT_PAUSE_MS}000; done) >/dev/null 2>&1 &\n" for i in range(count))


def drop_tail(mbit: float, rtt_ms: float, bdps: float) -> str:
    both = qdisc(mbit, rtt_ms, bdps)
    return path(both, both)


def fair_queue(mbit: float, rtt_ms: float) -> str:
    return path(f"handle 1: tbf rate {mbit:g}mbit burst 3028 limit 1000000", f"netem delay {rtt_ms:g}ms limit 10000") + \
        "tc -n r qdisc add dev rb parent 1: fq_codel\n"


def beside(what: str, link: str, cross: str) -> Case:
    """A connection of 10 s that is watched, and then one that sets out anew."""
    script = link + "ip netns exec a ip tcp_metrics flush\n" + cross + "usleep 2000000\n" + receives(OWN) + \
        sends(OWN, 30, "cubic", "/dev/null") + f"""usleep 300000
own=$(on a ss -Htnp state established "dport = :{OWN}" | sed -n 's/.*pid=\\([0-9]*\\).*/\\1/p')
on a autobuf watch --json "$own" >/tmp/watched &
usleep 10000000
killall autobuf
tail -n 1 /tmp/watched
kill "$own"
""" + receives(NEW) + sends(NEW, 10, "cubic", "/tmp/new") + "wait $!\ncat /tmp/new\nkillall bulk 2>/dev/null\nwait\nrm /tmp/new /tmp/watched\n"

    def check(said: str) -> None:
        watched, anew = objects(said)
        free, got = watched["available"], anew["rate_bit_per_s"] * IP_OF_PAYLOAD
        low, high = (free[f"tx_{end}_bit_per_s"] for end in ("low", "high"))
        print(f"# {what}: {free['kind']} {low / 1e6:.1f} to {(high or 0) / 1e6:.1f} Mbit/s, a new one has {got / 1e6:.1f}", flush=True)
        between(got, low / NEAR, (high or low) * NEAR, what)

    return Case(what, script, check)


def in_line(mbit: float, rtt_ms: float) -> Case:
    """A program that sends less than the path takes, for which its flow searches what else is free."""
    what = f"in line, {mbit:g} x {rtt_ms:g}"
    script = drop_tail(mbit, rtt_ms, 2) + "ip netns exec a ip tcp_metrics flush\n" + receives(OWN) + \
        f"on a as_nobody bulk send --json --cc cubic --tune live --rate {WRITES_MBIT * 1e6:.0f} --seconds 25 --port {OWN} 10.0.2.1\n" + \
        "killall bulk 2>/dev/null\nwait\n"

    def check(said: str) -> None:
        low, high = (objects(said)[0][f"free_{end}_bit_per_s"] / 1e6 for end in ("low", "high"))
        print(f"# {what}: {low:.1f} to {high:.1f} Mbit/s", flush=True)
        between(low, WRITES_MBIT * (1.1 if mbit > 2 * WRITES_MBIT else 0.9), mbit, what)
        if mbit < 2 * WRITES_MBIT:
            between(high, 0.95 * mbit, 1.5 * mbit, what)

    return Case(what, script, check)


def cases(_: Kernel, quick: bool) -> Iterator[Case]:
    if quick:
        return
    for mbit in (12, 40):
        yield in_line(mbit, 40)
    for bdps in (0.3, 2):
        link = drop_tail(20, 40, bdps)
        yield beside(f"one cubic, {bdps:g} BDP", link, greedy(1, "cubic"))
        yield beside(f"four cubic, {bdps:g} BDP", link, greedy(4, "cubic"))
        yield beside(f"one bbr, {bdps:g} BDP", link, greedy(1, "bbr"))
        yield beside(f"short transfers, {bdps:g} BDP", link, short(2))
    yield beside("one cubic, fq_codel", fair_queue(20, 40), greedy(1, "cubic"))
