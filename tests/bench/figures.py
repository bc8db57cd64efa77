# SPDX-License-Identifier: MIT
"""Repeats the figures of "User-Space Auto-Tuning for TCP Flow Control" (seed of DRS FTP).

1 Gbit/s, 0.5, 25, 50 and 100 ms, 1 to 8 streams that together move 128 messages of 1 MB. Time is by the wall
clock, from the start of the first stream to the end of the last. The paper's three cases, and ours:

    no tuning        the kernel as it comes: Linux 6.18's limits, no setsockopt()
    kernel only      limits raised (ESnet's 64 MB), no setsockopt()
    user and kernel  limits raised, and the best of a sweep of fixed sizes
    libautobuf       Linux 6.18's limits, without privilege

and Figure 5: one stream at 0.5 ms, buffers of 8 KB to 64 MB. No tuning and libautobuf are run in turn,
three times each.
"""
from __future__ import annotations

import pathlib
import statistics

import path
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


def with_limits(limits: str):
    mem_max = LIMITS[limits].mem_max
    return path.global_sysctls({"net.core.rmem_max": mem_max, "net.core.wmem_max": mem_max})


def rate(results: list[dict]) -> float:
    return statistics.median(rates_of(results) or [0])


def run(quick: bool, out: pathlib.Path) -> None:
    rtts, streams, times = (RTTS_MS[::2], (1, 4), 1) if quick else (RTTS_MS, STREAMS, 3)
    grid = [(rtt, count) for rtt in rtts for count in streams]
    none: dict = {key: [] for key in grid}
    ours: dict = {key: [] for key in grid}
    kernel, hand = {}, {}
    with with_limits("6.18"):
        for key in grid:
            for _ in range(times):
                none[key].append(transfer(cell(*key, "6.18"), "none"))
                ours[key].append(transfer(cell(*key, "6.18"), "autobuf"))
            print(key, "none", rate(none[key]), "autobuf", rate(ours[key]), flush=True)
    with with_limits("esnet"):
        for key in grid:
            kernel[key] = rate([transfer(cell(*key, "esnet"), "none")])
            hand[key] = max((rate([transfer(cell(*key, "esnet"), f"naive:{n}")]), n)
                            for n in HAND_BYTES)
            print(key, "kernel only", kernel[key], "by hand", hand[key], flush=True)
        sweep = [(n, rate([transfer(cell(0.5, 1, "esnet"), f"naive:{n}")]))
                 for n in FIGURE_5_BYTES]
    show(grid, none, kernel, hand, ours, sweep, out)


def show(grid, none, kernel, hand, ours, sweep, out: pathlib.Path) -> None:
    head = ["ms", "streams", "no tuning", "kernel only", "user and kernel (size)", "libautobuf",
            "its ratio to no tuning", "paper, no tuning (2.2 / 2.4 / 2.4 DRS)", "paper, kernel only"]
    body = []
    for key in grid:
        base = rate(none[key])
        body.append([*key, f"{base:.0f}", f"{kernel[key]:.0f} ({kernel[key] / base:.2f})",
                     f"{hand[key][0]:.0f} ({hand[key][0] / base:.2f}, {hand[key][1] >> 20} MB)",
                     f"{rate(ours[key]):.0f}", f"{rate(ours[key]) / base:.2f}",
                     paper_untuned(*key), PAPER_KERNEL_ONLY.get(key, "-")])
    best = max(value for _, value in sweep)
    text = report.machine() + "\n\nMbit/s; in parentheses the ratio to no tuning.\n\n"
    text += report.table(head, body) + "\nFigure 5: one stream, 0.5 ms, buffers set by hand.\n\n"
    text += report.table(["buffer", "Mbit/s", "of the best"], [
        [f"{n >> 10} KB" if n < 1 << 20 else f"{n >> 20} MB", f"{value:.0f}", f"{value / best:.2f}"]
        for n, value in sweep])
    (out / "figures.md").write_text(text)
    rows = [(i, *row) for i, row in enumerate(
        (f'"{key[0]} ms x {key[1]}"', rate(none[key]), kernel[key], hand[key][0], rate(ours[key]))
        for key in grid)]
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
