# SPDX-License-Identifier: MIT
"""Programs that know nothing of the library, under autobuf run, as an ordinary user."""
from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from case import PORT, Case, objects, plain_path
from packages import Kernel

PROGRAMS = ("preload/libautobuf-run.so", "tests/zoo/reader", "tests/zoo/writer")
SETUP = """
[ -e /usr/preload ] || { mkdir /usr/preload && ln -s /usr/bin/libautobuf-run.so /usr/preload; }
"""
"""The object is where autobuf run looks for it: beside the command's folder."""
RUN = "autobuf run --"
KEEP = "autobuf run --keep-sizes --"
WAYS = ("", RUN, KEEP)
LOCK_BYTES = 65536
LOCKED_PATH = (400, 100)
LOCKED_SECONDS = 5
QUICK_PATH = (50, 200, 3)
LEAST_OF_UNLOCKED = 0.9
MOST_WHILE_LOCKED = 1 / 8
"""Of unlocked, if nobody mends it. A write() that blocks is no program for it: it stores 1 MB and more in such a buffer."""
MOST_WHILE_KEPT = 1.1
NEVER_BELOW = 0.98
NEVER_PATHS = ((10, 20, 3), (100, 50, 3), (1000, 0.5, 1))
"""Mbit/s, ms, seconds."""


class Program(NamedTuple):
    """One of tests/zoo that sends from a to b, or one in b that receives."""
    mbit: float
    rtt_ms: float
    seconds: float
    kind: str
    """Of writer, or "reader"."""
    under: str = ""
    """Words before the command: RUN."""
    lock_bytes: int = 0
    """The program sets SO_SNDBUF or SO_RCVBUF; 0: it does not."""
    when: str = "before"
    """A writer sets it: before it connects, "after", or on the "listener" that accepts its connection."""
    cc: str = "cubic"

    @property
    def script(self) -> str:
        return SETUP + plain_path(self.mbit, self.rtt_ms) + f"""
for ns in a b; do on $ns sysctl -qw net.ipv4.tcp_congestion_control={self.cc}; done
{self._receives() if self.kind == "reader" else self._sends()}killall nc reader writer 2>/dev/null
wait
"""

    def _receives(self) -> str:
        return f"""on b as_nobody {self.under} reader {PORT} all {self.seconds} {self.lock_bytes} >/tmp/reader &
reader=$!
listening b {PORT}
on a as_nobody writer poll 10.0.2.1 {PORT} {self.seconds + 1} {self.cc} >/dev/null 2>&1 &
wait $reader
cat /tmp/reader
"""

    def _sends(self) -> str:
        writer = f"on a as_nobody {self.under} writer {self.kind}"
        lock = f"{PORT} {self.seconds} {self.cc} {self.lock_bytes} {self.when}"
        if self.when == "listener":
            return f"""{writer} 10.0.1.1 {lock} &
writer=$!
listening a {PORT}
on b nc 10.0.1.1 {PORT} >/dev/null &
wait $writer
"""
        return f"""on b as_nobody reader {PORT} all {self.seconds + 1} >/dev/null &
listening b {PORT}
{writer} 10.0.2.1 {lock}
"""


def rates(said: str, runs: list[Program]) -> list[float]:
    """Mbit/s of each."""
    return [each["rate_bit_per_s"] / 1e6 for _, each in zip(runs, objects(said), strict=True)]


def case(name: str, runs: list[Program], check) -> Case:
    return Case(name, "".join(run.script for run in runs), check, PROGRAMS)


def locked(mbit: float, rtt_ms: float, seconds: float, kind: str, whens: tuple[str, ...]) -> Case:
    """The first is not locked; then each way to lock it: alone, under autobuf run, and with its size obeyed."""
    unlocked = Program(mbit, rtt_ms, seconds, kind)
    runs = [unlocked] + [unlocked._replace(lock_bytes=LOCK_BYTES, when=when, under=under)
                         for when in whens for under in WAYS]

    def check(said: str) -> None:
        free, *locks = rates(said, runs)
        wrong = []
        for at, when in enumerate(whens):
            alone, ours, kept = locks[len(WAYS) * at:len(WAYS) * (at + 1)]
            print(f"# {kind} unlocked {free:.1f} Mbit/s; locked {when} {alone:.1f}, {alone / free:.3f}; "
                  f"under autobuf run {ours:.1f}, {ours / free:.3f}; obeyed {kept:.1f}", flush=True)
            if alone > MOST_WHILE_LOCKED * free:
                wrong.append(f"locked {when}: {alone / free:.3f} of unlocked without autobuf run")
            if ours < LEAST_OF_UNLOCKED * free:
                wrong.append(f"locked {when}: {ours / free:.3f} of unlocked")
            if kept > MOST_WHILE_KEPT * alone:
                wrong.append(f"locked {when}: --keep-sizes has {kept / alone:.2f} of the locked rate")
        if wrong:
            raise AssertionError("\n".join(wrong))

    return case(f"{kind} locks {LOCK_BYTES // 1024} KB {', '.join(whens)}, {mbit:g} x {rtt_ms:g}", runs, check)


def mended(mbit: float, rtt_ms: float, seconds: float) -> Case:
    """A writer that locks its buffer, alone and under autobuf run, beside one that does not: slow start takes most of the time."""
    unlocked = Program(mbit, rtt_ms, seconds, "poll")
    alone = unlocked._replace(lock_bytes=LOCK_BYTES, when="after")
    runs = [unlocked, alone, alone._replace(under=RUN)]

    def check(said: str) -> None:
        free, without, ours = rates(said, runs)
        print(f"# unlocked {free:.1f} Mbit/s; locked {without:.1f}, under autobuf run {ours:.1f}: {ours / free:.2f}", flush=True)
        if without > free / 2 or ours < LEAST_OF_UNLOCKED * free:
            raise AssertionError(f"{without:.1f} and {ours:.1f} of {free:.1f} Mbit/s")

    return case(f"poll locks {LOCK_BYTES // 1024} KB, {mbit:g} x {rtt_ms:g}", runs, check)


def never_slower(mbit: float, rtt_ms: float, seconds: float, kind: str) -> Case:
    alone = Program(mbit, rtt_ms, seconds, kind)
    runs = [alone, alone._replace(under=RUN)]

    def check(said: str) -> None:
        without, ours = rates(said, runs)
        print(f"# {kind}, {mbit:g} x {rtt_ms:g}: {without:.2f} Mbit/s, under autobuf run {ours:.2f}: "
              f"{ours / without:.4f}", flush=True)
        if ours < NEVER_BELOW * without:
            raise AssertionError(f"{ours / without:.4f} of {without:.2f} Mbit/s")

    return case(f"{kind}, {mbit:g} x {rtt_ms:g}", runs, check)


def cases(_: Kernel, quick: bool) -> Iterator[Case]:
    if quick:
        yield mended(*QUICK_PATH)
        return
    yield locked(*LOCKED_PATH, LOCKED_SECONDS, "poll", ("before", "after", "listener"))
    yield locked(*LOCKED_PATH, LOCKED_SECONDS, "reader", ("before",))
    for path in NEVER_PATHS:
        for kind in ("poll", "write8k", "write1m", "sendfile", "reader"):
            yield never_slower(*path, kind)
