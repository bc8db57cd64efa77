# SPDX-License-Identifier: MIT
"""Programs of Debian that nobody patched, while `autobuf watch --tune` looks after them, in virtual time.

Each program of tests/zoo sends 400 MB alone, looked after as its own user (ProFTPD: by our module), and with a
send buffer of each size forced on it. The kernel is the newest, the queue two products. A machine gives the same
figures each time, so each is run once, after a first run that is not counted. Quick: 400 Mbit/s x 100 ms, cubic.
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
BYTES = 400_000_000
PATHS = ((400, 100), (1000, 50), (1000, 100))
SMALL = (100, 50)
SMALL_BYTES = 100_000_000


def rates(said: str, runs: list[Run]) -> list[float]:
    return [run.rate_bit_per_s(each) / 1e6 for run, each in zip(runs, answers(said), strict=True)]


WAY = Way(script, rates, PROGRAMS, all_archives)


def run(quick: bool, out: pathlib.Path) -> None:
    bench = Bench("zoo", KERNEL, out)
    text, chart = f"Linux {bench.kernel.version}\n", []
    for mbit, rtt_ms in PATHS[:1] if quick else PATHS:
        for cc in ("cubic",) if quick else ("cubic", "bbr"):
            rows = []
            for program in SENDERS:
                alone = Run(program, cc, mbit, rtt_ms, BYTES)
                none, after, *forced = bench.results(WAY, [alone, tuned(alone), *(alone._replace(sndbuf=size) for size in SIZES)])
                best = max(none, *forced)
                row = [program, f"{none:.0f}", f"{after:.0f}", f"{best:.0f}", f"{after / none:.2f}", f"{after / best:.3f}"]
                if not quick:
                    small = Run(program, cc, *SMALL, SMALL_BYTES)
                    before, with_us = bench.results(WAY, [small, tuned(small)])
                    row.append(f"{with_us / before:.3f}")
                rows.append(row)
                if (mbit, cc) == (PATHS[0][0], "cubic"):
                    chart.append([program.replace(":", ", "), none, after, best])
            head = ["sender", "alone, Mbit/s", "looked after", "best size", "/ alone", "/ best size"]
            text += f"\n{mbit} Mbit/s x {rtt_ms} ms, {cc}\n\n"
            text += report.table(head + [f"{SMALL[0]} x {SMALL[1]}: / alone"] * (not quick), rows)
    (out / "zoo.md").write_text(text)
    report.bars(out / "zoo.svg", "400 Mbit/s x 100 ms, cubic, 400 MB", ("alone", "looked after", "best fixed size"), chart)
    print(text)
