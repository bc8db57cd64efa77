# SPDX-License-Identifier: MIT
"""A transfer of which one end takes what is free, alone, beside one with the kernel's own congestion control, and beside another of its kind."""
from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator

from case import PORT, Case, path, qdisc
from packages import Kernel

PATH = (20, 40, 1)
"""Mbit/s, ms, BDP of queue: so few packets that a machine takes minutes."""
LEAST_ALONE = 0.95
LEAST_OTHER = 0.95
LEAST_JAIN = 0.9
MOST_SHORT = 1.25
"""Of the time that short transfers take, beside a scavenger; the goal is 1.1 (docs/BENCHMARKS.md)."""
SHORT_BYTES, SHORTS, SHORT_PAUSE_MS = 60000, 25, 200
LEAST_AFTER = 0.9
"""7 s after the other's end; of 2 s docs/BENCHMARKS.md tells."""
PAYLOAD = 1448 / 1514
SENDS, RECEIVES = "sends", "receives"
RECEIVES_SINCE = (5, 15)
"""Linux; before that no window that is open is closed."""
OFF = "env AUTOBUF=off "


def at(*whens_ms: int) -> str:
    """Bytes that each transfer has had acknowledged, at these times after the first line of it."""
    text, before = "", 0
    for when in whens_ms:
        text += f"usleep {(when - before) * 1000}\necho '@ {when}'\n" + \
                "on a ss -tinOH state established | sed -n 's/.*:\\(76[0-9]*\\) .*bytes_acked:\\([0-9]*\\).*/= \\1 \\2/p'\n"
        before = when
    return text


def moves(port: int, end: str, seconds: float, cc: str = "cubic") -> str:
    """end: which one takes what is free: SENDS or RECEIVES; "": neither."""
    how = "--tune live --intent scavenger" if end else "--tune none"
    return f"""on b as_nobody {'' if end == RECEIVES else OFF}bulk recv --port {port} >/dev/null 2>&1 &
listening b {port}
on a as_nobody {'' if end == SENDS else OFF}bulk send --json --cc {cc} {how} --seconds {seconds} --port {port} 10.0.2.1 >/tmp/{port} 2>&1 &
"""


def begin(mbit: float, rtt_ms: float, bdps: float) -> str:
    both = qdisc(mbit, rtt_ms, bdps)
    return "echo '% path'\n" + path(both, both) + "ip netns exec a ip tcp_metrics flush\n"


END = "killall bulk 2>/dev/null\nwait\nsed 's/^/# /' /tmp/76*\nrm /tmp/76*\n"


class Counts:
    """Of one path."""

    def __init__(self, said: str, mbit: float):
        self.mbit = mbit * PAYLOAD
        self.bytes = {int(part.split("\n")[0]): {int(port): int(count) for port, count in re.findall(r"^= (\d+) (\d+)$", part, re.M)}
                      for part in re.split(r"^@ ", said, flags=re.M)[1:]}

    def share(self, port: int, begin_ms: int, end_ms: int) -> float:
        """Of the path."""
        moved = self.bytes[end_ms][port] - self.bytes[begin_ms].get(port, 0)
        return moved * 8 / 1e3 / (end_ms - begin_ms) / self.mbit


def paths(said: str, mbit: float) -> list[Counts]:
    return [Counts(part, mbit) for part in said.split("% path\n")[1:]]


def alone(end: str, mbit: float, rtt_ms: float, bdps: float, cc: str = "cubic") -> Case:
    def check(said: str) -> None:
        count, = paths(said, mbit)
        got = count.share(PORT, 5000, 20000)
        print(f"# {end}, {cc}, alone, {mbit:g} x {rtt_ms:g}: {got:.3f} of the path after 5 s, {count.share(PORT, 500, 5000):.3f} before", flush=True)
        if got < LEAST_ALONE:
            raise AssertionError(f"{got:.3f} of the path")

    return Case(f"{end}, {cc}, alone, {mbit:g} x {rtt_ms:g}, {bdps:g} BDP",
                begin(mbit, rtt_ms, bdps) + moves(PORT, end, 22, cc) + at(500, 5000, 20000) + END, check)


def beside(end: str, mbit: float, rtt_ms: float, bdps: float, late: bool, cc: str = "cubic") -> Case:
    """cubic, or bbr, alone; then beside a scavenger that is there already, or comes 4 s later."""
    ours, theirs = PORT, PORT + 1
    script = begin(mbit, rtt_ms, bdps) + moves(theirs, "", 22, cc) + at(2000, 20000) + END + begin(mbit, rtt_ms, bdps)
    if late:
        script += moves(theirs, "", 26, cc) + "usleep 4000000\n" + moves(ours, end, 40)
    else:
        script += moves(ours, end, 40) + "usleep 6000000\n" + moves(theirs, "", 22, cc)

    def check(said: str) -> None:
        alone, both = paths(said, mbit)
        kept = both.share(theirs, 6000, 20000) / alone.share(theirs, 2000, 20000)
        after = both.share(ours, 29000, 32000)
        print(f"# {end}, {cc} {'before' if late else 'after'} it, {mbit:g} x {rtt_ms:g}: {kept:.3f} of what {cc} has alone; "
              f"the scavenger {both.share(ours, 6000, 20000):.3f} of the path, and {after:.3f} after it", flush=True)
        if kept < LEAST_OTHER or after < LEAST_AFTER:
            raise AssertionError(f"{cc} keeps {kept:.3f}; after it {after:.3f} of the path")

    return Case(f"{end}, beside {cc}, {'after' if late else 'before'} it, {mbit:g} x {rtt_ms:g}, {bdps:g} BDP",
                script + at(6000, 20000, 29000, 32000) + END, check)


def two(end: str, mbit: float, rtt_ms: float, bdps: float) -> Case:
    """Two scavengers, the second 5 s later."""
    def check(said: str) -> None:
        count, = paths(said, mbit)
        shares = [count.share(port, 5000, 15000) for port in (PORT, PORT + 1)]
        jain = sum(shares) ** 2 / (2 * sum(each ** 2 for each in shares))
        print(f"# {end}, two, {mbit:g} x {rtt_ms:g}: {shares[0]:.3f} and {shares[1]:.3f} of the path; Jain's index {jain:.3f}", flush=True)
        if jain < LEAST_JAIN:
            raise AssertionError(f"Jain's index {jain:.3f}")

    return Case(f"{end}, two, {mbit:g} x {rtt_ms:g}, {bdps:g} BDP",
                begin(mbit, rtt_ms, bdps) + moves(PORT, end, 40) + "usleep 5000000\n" + moves(PORT + 1, end, 40) +
                at(5000, 15000) + END, check)


def shorts() -> str:
    """Short transfers, one after the other."""
    return f"""on b as_nobody {OFF}bulk recv --port {PORT + 2} >/dev/null 2>&1 &
listening b {PORT + 2}
echo '% shorts'
for i in $(seq {SHORTS}); do
    on a as_nobody {OFF}bulk send --json --cc cubic --tune none --bytes {SHORT_BYTES} --port {PORT + 2} 10.0.2.1
    usleep {SHORT_PAUSE_MS}000
done
"""


def short_times_s(said: str) -> list[float]:
    """Of each time that they were made, the median of what they took."""
    return [statistics.median(json.loads(line)["elapsed_ns"] for line in part.splitlines() if line.startswith("{")) / 1e9
            for part in said.split("% shorts\n")[1:]]


def beside_short(end: str, mbit: float, rtt_ms: float, bdps: float) -> Case:
    def check(said: str) -> None:
        alone, both = short_times_s(said)
        print(f"# {end}, short transfers, {mbit:g} x {rtt_ms:g}: {alone:.3f} s alone, {both:.3f} s beside it: {both / alone:.3f}", flush=True)
        if both > MOST_SHORT * alone:
            raise AssertionError(f"short transfers take {both / alone:.3f} as long")

    return Case(f"{end}, beside short transfers, {mbit:g} x {rtt_ms:g}, {bdps:g} BDP",
                begin(mbit, rtt_ms, bdps) + shorts() + "killall bulk\nwait\n" + begin(mbit, rtt_ms, bdps) +
                moves(PORT, end, 30) + "usleep 6000000\n" + shorts() + END, check)


def cases(kernel: Kernel, quick: bool) -> Iterator[Case]:
    if quick:
        return
    for end in (SENDS, RECEIVES) if kernel.number >= RECEIVES_SINCE else (SENDS,):
        yield alone(end, *PATH)
        if end == SENDS:
            yield alone(end, *PATH, "bbr")
            yield beside(end, *PATH, False, "bbr")
        yield beside_short(end, *PATH)
        for late in (False, True):
            yield beside(end, *PATH, late)
        yield two(end, *PATH)
