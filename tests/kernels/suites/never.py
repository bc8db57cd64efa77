# SPDX-License-Identifier: MIT
"""Never slower than without us: bulk in its three ways, one after the other, each on a path of its own."""
from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from case import PORT, Case, objects, plain_path
from packages import Kernel

WAYS = {"none": "--tune none", "autobuf": "--tune autobuf", "live": "--tune live"}
LOW_DELAY = {"none": "--tune none", "low delay": "--tune live --intent low-delay"}
PATHS = ((10, 20), (100, 100), (400, 100), (1000, 50))
SHORT = "--bytes 1000000"
LEAST_SHORT = 0.92
"""Slow start ends early or not by chance: without us 7 of 20 took 7.7% longer than the others (6.16, 100 x 100, cubic)."""
FIRST = f"--tune none {SHORT}"
"""The first transfer of a machine takes 1% to 3% longer than the same one after it, so this one is not counted."""


class Cell(NamedTuple):
    mbit: float
    rtt_ms: float
    cc: str
    much: str
    """Of bulk: --bytes N or --seconds S."""
    reverse: bool = False
    root: bool = False

    @property
    def name(self) -> str:
        return (f"{self.mbit:g} x {self.rtt_ms:g}, {self.cc}, {self.much.removeprefix('--')}"
                f"{', reverse' * self.reverse}{', CAP_NET_ADMIN' * self.root}")

    def script(self, ways: dict[str, str]) -> str:
        who = "" if self.root else "as_nobody "
        runs = (f"{FIRST} >/dev/null", *(f"{options} {self.much}" for options in ways.values()))
        return "".join(plain_path(self.mbit, self.rtt_ms) + f"""
for ns in a b; do on $ns sysctl -qw net.ipv4.tcp_congestion_control={self.cc}; done
on b {who}bulk recv --port {PORT} >/dev/null 2>&1 &
listening b {PORT}
on a {who}bulk send --json --cc {self.cc} {'--reverse' * self.reverse} --port {PORT} 10.0.2.1 {run}
kill $! 2>/dev/null
wait
""" for run in runs)


def results(said: str, ways: dict[str, str]) -> dict[str, dict]:
    """What bulk said of each way."""
    return dict(zip(ways, objects(said), strict=True))


def never_slower(cell: Cell) -> Case:
    def check(said: str) -> None:
        rates = {way: result["rate_bit_per_s"] for way, result in results(said, WAYS).items()}
        least = LEAST_SHORT if cell.much == SHORT else 0.985
        for way in WAYS:
            if rates[way] < least * rates["none"]:
                raise AssertionError(f"{way}: {rates[way] / rates['none']:.3f} of the default's "
                                     f"{rates['none'] / 1e6:.1f} Mbit/s")

    return Case(cell.name, cell.script(WAYS), check)


def low_delay(cell: Cell) -> Case:
    """Hardly slower, and no longer queue than without it."""
    def check(said: str) -> None:
        none, ours = results(said, LOW_DELAY).values()
        if ours["rate_bit_per_s"] < 0.9 * none["rate_bit_per_s"]:
            raise AssertionError(f"{ours['rate_bit_per_s'] / none['rate_bit_per_s']:.3f} of the default's rate")
        if ours["rtt_mean_ns"] > 1.02 * none["rtt_mean_ns"]:
            raise AssertionError(f"RTT {ours['rtt_mean_ns'] / none['rtt_mean_ns']:.3f} of the default's")

    return Case(f"low delay, {cell.name}", cell.script(LOW_DELAY), check)


def cells() -> Iterator[Cell]:
    """All that have to hold. A kernel takes hours for them: tests/bench/run kernels."""
    for mbit, rtt_ms in PATHS:
        for cc in ("cubic", "bbr", "reno"):
            for much in (SHORT, "--bytes 10000000", "--seconds 10"):
                for reverse in (False, True):
                    for root in (False, True):
                        yield Cell(mbit, rtt_ms, cc, much, reverse, root)


def cases(_: Kernel, quick: bool) -> Iterator[Case]:
    if quick:
        return
    for cell in cells():
        if cell.much != "--seconds 10":
            yield never_slower(cell)
    for cc in ("cubic", "bbr"):
        yield never_slower(Cell(400, 100, cc, "--seconds 10"))
        yield low_delay(Cell(100, 20, cc, "--seconds 10"))
