# SPDX-License-Identifier: MIT
"""Programs that know nothing of the library and receive, while autobuf watch --tune manages them."""
from __future__ import annotations

import re
from collections.abc import Iterator

from case import PORT, Case, objects, path, qdisc, was_watched, watched
from packages import Kernel
from suites.writers import SETTABLE

PROGRAMS = ("tests/zoo/reader", "tests/zoo/writer")
MOST_HELD = 1.5
"""A window scale that 200 kB bring gives 262."""
SECONDS = 8
DISK, PAUSED, QUICK = 20_000_000, 0, 1_000_000_000
"""Bytes per second that a program reads."""


def one(rate: int, rcvbuf: int, mbit: float, rtt_ms: float, tuned: str) -> str:
    """tuned: "no", "user" or "root"; rcvbuf: set by the program, 0: not."""
    both = qdisc(mbit, rtt_ms, 2)
    who = "" if tuned == "root" else "as_nobody"
    watch = "" if tuned == "no" else f"on b {who} autobuf watch --json --tune $(pidof reader) >/tmp/watch 2>&1 &"
    return path(both, both) + f"""
on b {who} reader {PORT} {rate} {SECONDS} {rcvbuf or ''} >/tmp/reader &
reader=$!
listening b {PORT}
on a as_nobody writer poll 10.0.2.1 {PORT} {SECONDS + 4} cubic >/dev/null 2>&1 &
{watch}
wait $reader
cat /tmp/reader
killall writer autobuf 2>/dev/null
wait
[ {tuned} = no ] || grep '"change"' /tmp/watch | sed 's/^/# /'
""" + (watched("/tmp/watch") if tuned != "no" else "")


def two(rate: int, rcvbuf: int, mbit: float, rtt_ms: float, who: str, name: str, check) -> Case:
    """check takes what the program said alone and managed, and what was changed."""
    def answer(said: str) -> None:
        was_watched(said)
        alone, tuned = objects(re.sub(r"^# .*", "", said, flags=re.M))
        changes = re.findall(r"^# (.*)", said, re.M)
        print(f"# alone {alone}, managed {tuned}, {changes}", flush=True)
        check(alone, tuned, changes)

    return Case(f"{name}, {mbit:g} x {rtt_ms:g}, {who}",
                one(rate, rcvbuf, mbit, rtt_ms, "no") + one(rate, rcvbuf, mbit, rtt_ms, who), answer, PROGRAMS)


def reads_as_alone(alone: dict, tuned: dict, changes: list[str]) -> None:
    """And nothing is enlarged for it. A lock is given back before anybody can know that the program is slow. How large a buffer
    autotuning makes for it differs by 1.7 from run to run; for one that pauses it makes none larger."""
    if len(changes) > 1 or not all('"what":"given-back"' in change for change in changes):
        raise AssertionError(changes)
    if tuned["read_bytes"] < 0.98 * alone["read_bytes"]:
        raise AssertionError(f"{tuned['read_bytes']} bytes read, {alone['read_bytes']} alone")
    if not alone["read_bytes"] and tuned["held_bytes"] > MOST_HELD * alone["held_bytes"]:
        raise AssertionError(f"{tuned['held_bytes']} bytes unread, {alone['held_bytes']} alone")


def is_faster(alone: dict, tuned: dict, changes: list[str]) -> None:
    """Or the other cases would hold whatever is done. The window scale that it has from its buffer allows 1.9."""
    if not changes or tuned["rate_bit_per_s"] < 1.3 * alone["rate_bit_per_s"]:
        raise AssertionError(f"{tuned['rate_bit_per_s'] / alone['rate_bit_per_s']:.2f} of the rate")


def cases(kernel: Kernel, quick: bool) -> Iterator[Case]:
    if quick:
        return
    for who in ("user", "root"):
        yield two(DISK, 0, 400, 100, who, "a slow disk", reads_as_alone)
        yield two(PAUSED, 0, 400, 100, who, "a paused program", reads_as_alone)
        yield two(PAUSED, 200_000, 400, 100, who, "a paused program, with SO_RCVBUF", reads_as_alone)
        if kernel.number >= SETTABLE:  # on others SO_RCVBUF is 208 KB at most, less than any of these needs
            yield two(DISK, 3_000_000, 400, 100, who, "a slow disk, with SO_RCVBUF", reads_as_alone)
            yield two(QUICK, 1_100_000, 400, 100, who, "a quick program, with SO_RCVBUF", is_faster)
