# SPDX-License-Identifier: MIT
"""Programs of Debian that nobody patched, while `autobuf watch --tune` looks after them, in virtual time.

Each program of tests/zoo sends 400 MB alone, looked after as its own user (ProFTPD: by our module), and with a
send buffer of each size forced on it. The kernel is the newest, the queue two products. A machine gives the same
figures each time, so each is run once. Quick: 400 Mbit/s x 100 ms, cubic.
"""
from __future__ import annotations

import json
import pathlib
import sys

import path
import report

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kernels"))
import machine  # noqa: E402
import packages  # noqa: E402
from suites.zoo import FORCED, Run, all_archives, answers, script, tuned  # noqa: E402  which puts zoo_root on the path
from zoo_root import SENDERS  # noqa: E402

KERNEL = "newest"
SIZES = (4_194_304, )
"""For SO_SNDBUF: the most that anybody may set. Smaller ones were tried, and none was better."""
BYTES = 400_000_000
PATHS = ((400, 100), (1000, 50), (1000, 100))
SMALL = (100, 50)
SMALL_BYTES = 100_000_000


def measured(kernel: packages.Kernel, runs: list[Run], done: dict[str, float], log: pathlib.Path) -> list[float]:
    """Mbit/s of each run; from the log, if an earlier benchmark has them."""
    keys = [f"{kernel.version}: {json.dumps(run)}" for run in runs]
    if not all(key in done for key in keys):
        build = path.build_folder()
        said = machine.boot(kernel, build, f". /lib.sh\n{script(runs)}", build / "kernel-zoo.log", (FORCED,), all_archives())
        for key, run, each in zip(keys, runs, answers(said), strict=True):
            done[key] = run.rate_bit_per_s(each) / 1e6
            with log.open("a") as out:
                print(json.dumps([key, done[key]]), file=out)
            print(key, f"{done[key]:.1f}", flush=True)
    return [done[key] for key in keys]


def run(quick: bool, out: pathlib.Path) -> None:
    log = out / "zoo.jsonl"
    done = dict(map(json.loads, log.read_text().splitlines())) if log.is_file() else {}
    kernel = packages.fetch(packages.wanted()[KERNEL], path.build_folder() / "kernels")
    text, chart = f"Linux {kernel.version}\n", []
    for mbit, rtt_ms in PATHS[:1] if quick else PATHS:
        for cc in ("cubic",) if quick else ("cubic", "bbr"):
            rows = []
            for program in SENDERS:
                alone = Run(program, cc, mbit, rtt_ms, BYTES)
                none, after, *forced = measured(kernel, [alone, tuned(alone), *(alone._replace(sndbuf=size) for size in SIZES)],
                                                done, log)
                best = max(none, *forced)
                row = [program, f"{none:.0f}", f"{after:.0f}", f"{best:.0f}", f"{after / none:.2f}", f"{after / best:.3f}"]
                if not quick:
                    small = Run(program, cc, *SMALL, SMALL_BYTES)
                    before, with_us = measured(kernel, [small, tuned(small)], done, log)
                    row.append(f"{with_us / before:.3f}")
                rows.append(row)
                if (mbit, cc) == (PATHS[0][0], "cubic"):
                    chart.append([len(chart), program.replace(":", ", "), none, after, best])
            head = ["sender", "alone, Mbit/s", "looked after", "best size", "/ alone", "/ best size"]
            text += f"\n{mbit} Mbit/s x {rtt_ms} ms, {cc}\n\n"
            text += report.table(head + [f"{SMALL[0]} x {SMALL[1]}: / alone"] * (not quick), rows)
    (out / "zoo.md").write_text(text)
    report.gnuplot(out / "zoo.svg", report.block("rates", [[i, f'"{name}"', *rates] for i, name, *rates in chart]) + """
set title "400 Mbit/s x 100 ms, cubic, 400 MB"
set ylabel "Mbit/s"
set yrange [0:*]
set xtics rotate by -40
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.9
set key outside top horizontal
plot $rates using 3:xtic(2) title "alone", '' using 4 title "looked after", '' using 5 title "best fixed size"
""")
    print(text)
