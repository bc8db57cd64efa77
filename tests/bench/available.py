# SPDX-License-Identifier: MIT
"""What other traffic leaves free, in virtual time: tests/sim/test_available_sim and tests/sim/test_stretch_sim.

10 to 200 Mbit/s (stretches: 5 to 1000), 25, 50 and 75% of other traffic (stretches: none, too), queues of 0.3 and 2 BDP. A range holds
the truth, which is what was free over the time that it names, or is a lower bound below it.
"""
from __future__ import annotations

import os
import pathlib
import re
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

import path
import report

LINE = re.compile(r"(MISS|    ) ([a-z ]+): .*, (CBR|Poisson|Pareto) [0-9.]+(, C known)?: ([0-9.]+) to ([0-9.]+), truth ([0-9.]+),")
KINDS = {"cubic": "a cubic sender", "less than is free": "a sender of less than is free", "in line": "the same, searched in line",
         "a narrower link": "cubic, a narrower link behind", "a policer": "cubic, a policer",
         "stretches": "autobuf measure --available: stretches"}
DRAWN = ("cubic", "in line", "stretches")


class Run(NamedTuple):
    kind: str
    cross: str
    held: bool
    low: float
    high: float
    """0: unknown. Both of the truth."""


def runs_of(simulation: str) -> list[Run]:
    done = subprocess.run([path.built(f"tests/sim/{simulation}")], env={**os.environ, "AUTOBUF_SIM_SHOW": "1"}, text=True,
                          check=True, capture_output=True)
    found = [match.groups() for match in map(LINE.match, done.stderr.splitlines()) if match]
    return [Run(kind, cross, miss != "MISS", float(low) / float(truth), float(high) / float(truth))
            for miss, kind, cross, _, low, high, truth in found if float(truth) > 0]


def row(name: str, cross: str, runs: Sequence[Run]) -> list[object]:
    both = [run for run in runs if run.low and run.high]
    return [name, cross, len(runs), f"{100 * sum(run.held for run in runs) / len(runs):.0f}%",
            f"{report.quantile([run.low for run in runs], 0.5):.2f}", f"{100 * len(both) / len(runs):.0f}%",
            f"{report.quantile([run.high / run.low for run in both], 0.5):.2f}" if both else ""]


def chart(runs: Sequence[Run], svg: pathlib.Path) -> None:
    script, plots = "", []
    for at, kind in enumerate(DRAWN):
        for end in ("low", "high"):
            ratios = sorted(ratio for run in runs if run.kind == kind and (ratio := getattr(run, end)))
            script += report.block(f"{end}{at}", [[100 * i / len(ratios), ratio] for i, ratio in enumerate(ratios)])
            told = f'title "{KINDS[kind]}"' if end == "low" else "dt 2 notitle"
            plots.append(f"${end}{at} with lines lw 2 lc {at + 1} {told}")
    report.gnuplot(svg, script + f"""
set title "Bounds of what is free (dashed: the high one, where it is known), of the truth"
set xlabel "% of the runs"
set yrange [0:3]
set key top left
plot 1 with lines lc rgb 'black' notitle, {', '.join(plots)}
""")


def run(quick: bool, out: pathlib.Path) -> None:
    del quick  # it takes a minute
    runs = runs_of("test_available_sim") + runs_of("test_stretch_sim")
    rows = [row(name, cross, some) for kind, name in KINDS.items() for cross in ("CBR", "Poisson", "Pareto")
            if (some := [each for each in runs if each.kind == kind and each.cross == cross])]
    text = report.table(["", "other traffic", "runs", "hold the truth", "low / truth, median", "both bounds", "high / low, median"], rows)
    (out / "available.md").write_text(text)
    chart(runs, out / "available.svg")
    print(text)
