# SPDX-License-Identifier: MIT
"""Programs under `autobuf run`, in virtual time: those of tests/zoo, and programs that lock a small buffer.

Each program of tests/zoo sends alone, as an ordinary user under autobuf run, and with a send buffer of 4 MB forced on it, the
most that anybody may set. Where autotuning is enough, the last is left out. Then a sender and a receiver that set a size
themselves. The kernel is the newest, queues are of two BDPs; a machine gives the same figures each time, so each is run
once, after a first run that is not counted. Quick: 400 Mbit/s x 100 ms, cubic.
"""
from __future__ import annotations

import pathlib

import report
import zoo
from suites.run import KEEP, PROGRAMS, RUN, Program, rates
from suites.zoo import Run
from virtual import Bench, Way
from zoo_root import SENDERS, UNREACHED

REACHED = tuple(program for program in SENDERS if program not in UNREACHED)
CCS = ("cubic", "bbr")
LONG = ((400, 100, 200_000_000), (1000, 50, 200_000_000))
"""Mbit/s, ms, bytes."""
NEAR = ((10, 20, 5_000_000), (100, 50, 25_000_000), (1000, 0.5, 100_000_000))
"""Paths on which autotuning is enough."""
LOCKED_PATHS = ((400, 100), (100, 100), (10, 20))
LOCKED_BYTES = (65536, 262144, 1048576)
LOCKED_KINDS = ("poll", "write8k", "reader")
LOCKED_SECONDS = 5
LOCKED_WAY = Way(lambda runs: "".join(each.script for each in runs), rates, PROGRAMS)


def long_row(bench: Bench, program: str, cc: str, mbit: float, rtt_ms: float, size: int) -> list:
    alone = Run(program, cc, mbit, rtt_ms, size)
    none, ours, *forced = bench.results(zoo.WAY, [alone, alone._replace(tuned=RUN),
                                               *(alone._replace(sndbuf=sndbuf) for sndbuf in zoo.SIZES)])
    best = max(none, *forced)
    return [program, f"{none:.0f}", f"{ours:.0f}", f"{best:.0f}", f"{ours / none:.2f}", f"{ours / best:.3f}"]


def near_row(bench: Bench, program: str, cc: str) -> list:
    """All in one machine, the fastest path last: a machine's first second is slower, which only that path shows."""
    runs = [Run(program, cc, *path_of, tuned=tuned) for path_of in NEAR for tuned in ("no", RUN)]
    rates_mbit = bench.results(zoo.WAY, runs)
    row = [program]
    for none, ours in zip(rates_mbit[::2], rates_mbit[1::2], strict=True):
        row += [f"{none:.3g}", f"{ours / none:.3f}"]
    return row


def locked_rows(bench: Bench, mbit: float, rtt_ms: float) -> list[list]:
    rows = []
    for kind in LOCKED_KINDS:
        free = Program(mbit, rtt_ms, LOCKED_SECONDS, kind)
        for size in LOCKED_BYTES:
            alone = free._replace(lock_bytes=size)
            unlocked, none, ours, kept = bench.results(
                LOCKED_WAY, [free, alone, alone._replace(under=RUN), alone._replace(under=KEEP)])
            rows.append([f"{mbit:g} x {rtt_ms:g}", kind, f"{size // 1024} KB", f"{unlocked:.1f}", f"{none:.1f}",
                         f"{none / unlocked:.3f}", f"{ours:.1f}", f"{ours / unlocked:.3f}", f"{kept / none:.3f}"])
    return rows


def run(quick: bool, out: pathlib.Path) -> None:
    bench = Bench("run", zoo.KERNEL, out)
    text = f"Linux {bench.kernel.version}\n"
    head = ["sender", "alone, Mbit/s", "autobuf run", "best size", "/ alone", "/ best size"]
    first, locked = [], []
    for cc in CCS[:1] if quick else CCS:
        for mbit, rtt_ms, size in LONG[:1] if quick else LONG:
            rows = [long_row(bench, program, cc, mbit, rtt_ms, size) for program in REACHED]
            first = first or rows
            text += f"\n{mbit:g} Mbit/s x {rtt_ms:g} ms, {cc}, {size // 1_000_000} MB\n\n" + report.table(head, rows)
        if not locked:
            locked = [row for each in LOCKED_PATHS[:1 if quick else None] for row in locked_rows(bench, *each)]
        if not quick:
            paths = [word for mbit, rtt_ms, _ in NEAR for word in (f"{mbit:g} x {rtt_ms:g}, Mbit/s", "/ alone")]
            text += f"\nWhere autotuning is enough, {cc}\n\n"
            text += report.table(["sender", *paths], [near_row(bench, program, cc) for program in REACHED])
    text += f"\nPrograms that set a size, cubic, {LOCKED_SECONDS} s\n\n" + report.table(
        ["path", "program", "its size", "without a size, Mbit/s", "with it", "/ without a size", "autobuf run",
         "/ without a size", "--keep-sizes / with it"], locked)
    (out / "run.md").write_text(text)
    report.bars(out / "run.svg", "400 Mbit/s x 100 ms, cubic, 200 MB", ("alone", "autobuf run", "best fixed size"),
                [(row[0].replace(":", ", "), *row[1:4]) for row in first])
    report.bars(out / "run-locked.svg", "400 Mbit/s x 100 ms, cubic, a size that the program sets",
                ("without a size", "with it", "autobuf run"),
                [(f"{row[1]}, {row[2]}", row[3], row[4], row[6]) for row in locked if row[0] == "400 x 100"])
    print(text)
