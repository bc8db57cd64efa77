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


def of_runs(text: str, good: int, runs: int) -> str:
    """A figure, and how many of the runs it is of, if some have failed."""
    if not good:
        return f"none of {runs} runs"
    return text if good == runs else f"{text} ({good} of {runs} runs)"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; the first column left-aligned, numbers right-aligned."""
    lines = ["| " + " | ".join(head) + " |",
             "|" + "|".join([" --- "] + [" ---: "] * (len(head) - 1)) + "|"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def word(found: dict, way: str, rate: float) -> dict[str, bool]:
    """How good the word of a measurement was in a direction, whose true rate (bit/s) was this: whether the interval
    holds it (or is a lower bound below it), is wider than 1.3 from end to end, the value is off by more than a fifth
    without a flag, and whether there was a flag: "at least", or "unsure"."""
    value, low, high = (found[f"{way}_rate_{what}bit_per_s"] for what in ("", "low_", "high_"))
    bound = found[f"{way}_at_least"] and not found[f"{way}_echoed"]
    flagged = bool(bound or found[f"{way}_unsure"])
    return {"held": 0.99 * low <= rate and (bound or 1.01 * high >= rate), "wide": high > 1.3 * low,
            "wrong": not flagged and abs(value / rate - 1) > 0.2, "flagged": flagged}


WORDS = ("held", "wide", "wrong", "flagged")
WORDS_HEAD = ("interval holds it", "wider than 1.3", "wrong without a word", "flagged")


def words(runs: Sequence[dict]) -> list[str]:
    """For each of WORDS the share of runs."""
    return [f"{100 * sum(run[what] for run in runs) / len(runs):.0f}%" if runs else "" for what in WORDS]


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


def bars(svg: pathlib.Path, title: str, names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A chart of rates: each row is a group, its name and a bar for each of names."""
    plots = [f"{'$rates' if at == 0 else repr('')} using {at + 3}{':xtic(2)' if at == 0 else ''} title \"{name}\""
             for at, name in enumerate(names)]
    gnuplot(svg, block("rates", [[at, f'"{name}"', *rates] for at, (name, *rates) in enumerate(rows)]) + f"""
set title "{title}"
set ylabel "Mbit/s"
set yrange [0:*]
set xtics rotate by -40
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.9
set key outside top horizontal
plot {', '.join(plots)}
""")
