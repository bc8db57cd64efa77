# SPDX-License-Identifier: MIT
"""Figures 1 to 3 of "Dynamic Right-Sizing" (Fisk and Feng 2001), in virtual time: tests/sim/drs.

A static credit window of 64 KB and a right-sized one, on a path of 100 ms. The path holds seven times 64 KB,
as the paper's path seems to have done. The result is that the right-sized window finds this size.
"""
from __future__ import annotations

import pathlib
import subprocess

import path
import report

WINDOW_BYTES = 65536


def run(quick: bool, out: pathlib.Path) -> None:
    del quick  # it takes no time at all
    done = subprocess.run([path.built("tests/sim/drs")], text=True, check=True, capture_output=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    ways = {way: [tuple(map(float, line[1:])) for line in lines if line[0] == way]
            for way in ("static", "sized")}
    body = []
    for ms in (500, 1000, 2000, 5000, 10000, 19000):
        at = {way: next(row for row in rows if row[0] >= ms) for way, rows in ways.items()}
        body.append([f"{ms / 1000:g}", *(f"{at[way][1] / 1e6:.2f}" for way in ways),
                     f"{at['sized'][1] / at['static'][1]:.2f}",
                     *(f"{at[way][2] / 1024:.0f}" for way in ways), f"{at['sized'][3] / 1024:.0f}"])
    half = {way: [row for row in rows if row[0] >= 10000] for way, rows in ways.items()}
    rate = {way: (rows[-1][1] - rows[0][1]) * 8 / (rows[-1][0] - rows[0][0]) / 1e3
            for way, rows in half.items()}
    text = report.table(["s", "static, MB", "right-sized, MB", "ratio", "static in flight, KB",
                         "right-sized in flight, KB", "its window, KB"], body)
    text += (f"\nFrom 10 s on: {rate['static']:.1f} and {rate['sized']:.1f} Mbit/s, "
             f"{rate['sized'] / rate['static']:.2f} to 1 (paper: 7 to 1).\n")
    (out / "rightsize.md").write_text(text)
    script = "".join(report.block(way, rows) for way, rows in ways.items())
    report.gnuplot(out / "rightsize.svg", script + """
set multiplot layout 1,2
set xlabel "s"
set key top left
set title "Progress (Figure 1)"
set ylabel "MB"
plot $static using ($1/1000):($2/1e6) with lines lw 2 title "static 64 KB", \\
     $sized using ($1/1000):($2/1e6) with lines lw 2 title "right-sized"
set title "Flight and window (Figures 2 and 3)"
set ylabel "KB"
set key center right
plot $static using ($1/1000):($3/1024) with lines title "static: in flight", \\
     $sized using ($1/1000):($3/1024) with lines title "right-sized: in flight", \\
     $sized using ($1/1000):($4/1024) with lines dt 2 title "right-sized: window"
unset multiplot
""")
    print(text)
