# SPDX-License-Identifier: MIT
"""Repeats the figures of "User-Space Auto-Tuning for TCP Flow Control" (seed of DRS FTP).

1 Gbit/s, 0.5, 25, 50 and 100 ms, 1 to 8 streams that together move 128 messages of 1 MB. Time is by the wall
clock, from the start of the first stream to the end of the last. The paper's three cases, and ours:

    no tuning        the kernel as it comes: Linux 6.18's limits, no setsockopt()
    kernel only      limits raised (ESnet's 64 MB), no setsockopt()
    user and kernel  limits raised, and the best of a sweep of fixed sizes
    libautobuf       Linux 6.18's limits, without privilege

and Figure 5: one stream at 0.5 ms, buffers of 8 KB to 64 MB. No tuning and libautobuf are run in turn,
three times each. A run that failed is counted beside the figure.
"""
from __future__ import annotations

import pathlib
import statistics

import report
from transfer import LIMITS, Cell, rates_of, transfer

MBIT = 1000
RTTS_MS = (0.5, 25, 50, 100)
STREAMS = (1, 2, 4, 8)
HAND_BYTES = (1048576, 4194304, 16777216)
FIGURE_5_BYTES = tuple(8192 << shift for shift in range(0, 14))

# What the paper says in numbers, in Mbit/s; its figures themselves are pictures. Default buffers: at 25
# ms "less than 20 for a single process with all kernels", then equations, for 50 and 100 ms.
PAPER_KERNEL_ONLY = {(50, 8): "310 (DRS)", (100, 8): "180 (DRS)"}


def paper_untuned(rtt_ms: float, streams: int) -> str:
    if rtt_ms < 25:
        return "-"
    if rtt_ms == 25:
        return f"< {20 * streams}"
    return " / ".join(f"{streams * factor / rtt_ms:.0f}" for factor in (214, 467, 355))


def cell(rtt_ms: float, streams: int, limits: str) -> Cell:
    return Cell(MBIT, rtt_ms, 2, "cubic", limits, "128MiB", False, streams, 0)


def rate(results: list[dict]) -> float | None:
    rates = rates_of(results)
    return statistics.median(rates) if rates else None


def fastest(sizes: dict[int, list[dict]]) -> int:
    """Of the runs of each size."""
    return max(sizes, key=lambda n: rate(sizes[n]) or 0)


def told(results: list[dict], *more: str) -> str:
    """Their rate, with more about it in parentheses, and how many of them it is of, if some failed."""
    good = len(rates_of(results))
    text = f"{rate(results) or 0:.0f}" + (f" ({', '.join(word for word in more if word)})" if any(more) else "")
    return report.of_runs(text, good, len(results))


def ratio(results: list[dict], base: list[dict]) -> str:
    ours, none = rate(results), rate(base)
    return f"{ours / none:.2f}" if ours and none else ""


def run(quick: bool, out: pathlib.Path) -> None:
    rtts, streams, times = (RTTS_MS[::2], (1, 4), 1) if quick else (RTTS_MS, STREAMS, 3)
    grid = [(rtt, count) for rtt in rtts for count in streams]
    none: dict = {key: [] for key in grid}
    ours: dict = {key: [] for key in grid}
    kernel, hand = {}, {}
    with LIMITS["6.18"].of_machine():
        for key in grid:
            for _ in range(times):
                none[key].append(transfer(cell(*key, "6.18"), "none"))
                ours[key].append(transfer(cell(*key, "6.18"), "autobuf"))
            print(key, "none", rate(none[key]), "autobuf", rate(ours[key]), flush=True)
    with LIMITS["esnet"].of_machine():
        for key in grid:
            kernel[key] = [transfer(cell(*key, "esnet"), "none")]
            hand[key] = {n: [transfer(cell(*key, "esnet"), f"naive:{n}")] for n in HAND_BYTES}
            print(key, "kernel only", rate(kernel[key]), "by hand", {n: rate(runs) for n, runs in hand[key].items()}, flush=True)
        sweep = {n: [transfer(cell(0.5, 1, "esnet"), f"naive:{n}")] for n in FIGURE_5_BYTES}
    show(grid, none, kernel, hand, ours, sweep, out)


def show(grid, none, kernel, hand, ours, sweep, out: pathlib.Path) -> None:
    head = ["ms", "streams", "no tuning", "kernel only", "user and kernel (size)", "libautobuf",
            "its ratio to no tuning", "paper, no tuning (2.2 / 2.4 / 2.4 DRS)", "paper, kernel only"]
    body = []
    for key in grid:
        base, size = none[key], fastest(hand[key])
        failed = sum(not rate(runs) for runs in hand[key].values())
        body.append([*key, told(base), told(kernel[key], ratio(kernel[key], base)),
                     told(hand[key][size], ratio(hand[key][size], base), f"{size >> 20} MB", f"{failed} sizes failed" if failed else ""),
                     told(ours[key]), ratio(ours[key], base) or "-", paper_untuned(*key), PAPER_KERNEL_ONLY.get(key, "-")])
    best = sweep[fastest(sweep)]
    text = report.machine() + "\n\nMbit/s; in parentheses the ratio to no tuning.\n\n"
    text += report.table(head, body) + "\nFigure 5: one stream, 0.5 ms, buffers set by hand.\n\n"
    text += report.table(["buffer", "Mbit/s", "of the best"], [
        [f"{n >> 10} KB" if n < 1 << 20 else f"{n >> 20} MB", told(runs), ratio(runs, best) or "-"] for n, runs in sweep.items()])
    (out / "figures.md").write_text(text)
    rows = [(i, f'"{key[0]} ms x {key[1]}"', *(rate(runs) or "NaN" for runs in (
        none[key], kernel[key], hand[key][fastest(hand[key])], ours[key]))) for i, key in enumerate(grid)]
    report.gnuplot(out / "figures.svg", report.block("rates", rows) + """
set title "128 MB over 1 Gbit/s, cubic: delay x streams"
set ylabel "Mbit/s"
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.9
set xtics rotate by 45 right
set key top right
plot $rates using 3:xtic(2) title "no tuning", '' using 4 title "kernel only", \\
     '' using 5 title "user and kernel", '' using 6 title "libautobuf"
""")
    print(text)
