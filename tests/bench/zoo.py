# SPDX-License-Identifier: MIT
"""Programs of Debian that nobody patched, while `autobuf watch --tune` manages them, in virtual time.

Each program of tests/zoo sends alone, managed as its own user (ProFTPD: by our module), and with a send buffer of each size
forced on it. The kernel is the newest, the queue of two BDP. A machine gives the same figures each time, so each is run once,
after a first run that is not counted. Quick: 400 MB over 400 Mbit/s x 100 ms, cubic.
"""
from __future__ import annotations

import pathlib

import report
from virtual import Bench, Way
from suites.zoo import PROGRAMS, Run, all_archives, answers, script, tuned  # which puts zoo_root on the path
from zoo_root import SENDERS

KERNEL = "newest"
SIZES = (4_194_304, )
"""For SO_SNDBUF: the most that anybody may set. Smaller ones were tried, and none was better."""
MB = 1_000_000
PATHS = ((400, 100, 400 * MB), (400, 100, 100 * MB), (1000, 50, 200 * MB), (1000, 100, 400 * MB))
"""Mbit/s, ms, bytes."""
SMALL = (100, 50)
SMALL_BYTES = 100 * MB


def rates(said: str, runs: list[Run]) -> list[float]:
    return [run.rate_bit_per_s(each) / 1e6 for run, each in zip(runs, answers(said), strict=True)]


WAY = Way(script, rates, PROGRAMS, all_archives)


def run(quick: bool, out: pathlib.Path) -> None:
    bench = Bench("zoo", KERNEL, out)
    text, chart = f"Linux {bench.kernel.version}\n", []
    for mbit, rtt_ms, size in PATHS[:1] if quick else PATHS:
        for cc in ("cubic",) if quick else ("cubic", "bbr"):
            rows = []
            for program in SENDERS:
                alone = Run(program, cc, mbit, rtt_ms, size)
                none, after, *forced = bench.results(WAY, [alone, tuned(alone), *(alone._replace(sndbuf=sndbuf) for sndbuf in SIZES)])
                best = max(none, *forced)
                row = [program, f"{none:.0f}", f"{after:.0f}", f"{best:.0f}", f"{after / none:.2f}", f"{after / best:.3f}"]
                if not quick:
                    small = Run(program, cc, *SMALL, SMALL_BYTES)
                    before, with_us = bench.results(WAY, [small, tuned(small)])
                    row.append(f"{with_us / before:.3f}")
                rows.append(row)
                if (mbit, rtt_ms, size) == PATHS[0] and cc == "cubic":
                    chart.append([program.replace(":", ", "), none, after, best])
            head = ["sender", "alone, Mbit/s", "managed", "best size", "/ alone", "/ best size"]
            text += f"\n{mbit} Mbit/s x {rtt_ms} ms, {cc}, {size // MB} MB\n\n"
            text += report.table(head + [f"{SMALL[0]} x {SMALL[1]}: / alone"] * (not quick), rows)
    (out / "zoo.md").write_text(text)
    report.bars(out / "zoo.svg", "400 Mbit/s x 100 ms, cubic, 400 MB", ("alone", "managed", "best fixed size"), chart)
    print(text)
