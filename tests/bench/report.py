# SPDX-License-Identifier: MIT
"""What all benchmarks print: the machine, quantiles, tables, charts."""
from __future__ import annotations

import math
import pathlib
import platform
import subprocess
from collections.abc import Sequence


def machine() -> str:
    """One line on the machine that was measured on."""
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    cores = len([line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                 if line.startswith("processor")])
    return f"{platform.system()} {platform.release().split('-')[0]}, {cores} x {model}"


def quantile(values: Sequence[float], q: float) -> float:
    """The nearest-rank quantile; q = 0.5 is the median of an odd number."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)]


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; the first column left-aligned, numbers right-aligned."""
    lines = ["| " + " | ".join(head) + " |",
             "|" + "|".join([" --- "] + [" ---: "] * (len(head) - 1)) + "|"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def gnuplot(svg: pathlib.Path, script: str) -> None:
    """Run a gnuplot script that draws to svg; without gnuplot there is no chart."""
    prologue = (f"set terminal svg size 900,520 font 'sans,13' background 'white'\n"
                f"set output '{svg}'\nset grid ytics lc rgb '#dddddd'\nset border 3\n"
                "set tics nomirror out\n")
    try:
        subprocess.run(["gnuplot"], input=prologue + script, text=True, check=True)
    except FileNotFoundError:
        print("no chart: gnuplot is not installed")


def block(name: str, rows: Sequence[Sequence[object]]) -> str:
    """Rows as an inline data block of gnuplot."""
    return (f"${name} << EOD\n" + "\n".join(" ".join(str(c) for c in row) for row in rows)
            + "\nEOD\n")
