# SPDX-License-Identifier: MIT
"""Is a transfer with libautobuf ever slower than without it?

Compares `autobuf` with kernel defaults, in pairs that run in turn, by the wall clock, with the time for
measuring; and with the best of a sweep of fixed sizes ("tuned by hand") under the same limits. A cell has
two pairs. As long as their ratios differ by more than 1% it gets more, up to five. The ratio of medians
counts. Each transfer has a path of its own, because a kernel remembers what it learnt. A run that failed is
counted beside the median. Results are kept line by line in transfer.jsonl: a benchmark that was interrupted
continues where it stopped, if the build is the same.
"""
from __future__ import annotations

import contextlib
import itertools
import json
import pathlib
import statistics
from typing import Any, NamedTuple

import path
import report
from kept import Kept

PAIRS_LEAST, PAIRS_MOST = 2, 5
AGREE = 0.01
QUICK_SECONDS = 5
SWEEP_BYTES = (212992, 1048576, 4194304, 16777216)

# rate in Mbit/s, RTT in ms, queue in BDPs
PATHS = ((10, 20, 2), (100, 50, 2), (100, 200, 1), (400, 100, 2), (1000, 1, 2), (1000, 100, 1))
CCS = ("cubic", "bbr", "reno")
SIZES = {"64KB": 65536, "1MB": 1000000, "10MB": 10000000, "long": 0, "128MiB": 134217728, "150MB": 150000000}
GRID_SIZES = ("64KB", "1MB", "10MB", "long")


class Limits(NamedTuple):
    """The sysctls of a kind of host."""
    mem_max: int
    tcp_rmem: str
    tcp_wmem: str
    seconds: int
    """Of a long transfer. Where nothing is ever measured, its length decides nothing."""

    def of_machine(self) -> contextlib.AbstractContextManager[None]:
        """Those that namespaces share, for a while; they are put back also if this process is killed."""
        return path.global_sysctls({"net.core.rmem_max": self.mem_max, "net.core.wmem_max": self.mem_max})

    def of_ends(self, p: path.Path) -> None:
        """Those of the two ends of a path."""
        for side in "ab":
            p.sysctl(side, "net.ipv4.tcp_rmem", self.tcp_rmem)
            p.sysctl(side, "net.ipv4.tcp_wmem", self.tcp_wmem)


LIMITS = {
    "6.18": Limits(4194304, "4096 131072 33554432", "4096 16384 4194304", 10),
    "older": Limits(212992, "4096 131072 6291456", "4096 16384 4194304", 5),
    "esnet": Limits(67108864, "4096 87380 33554432", "4096 65536 33554432", 10),
}


class Cell(NamedTuple):
    mbit: int
    rtt_ms: float
    queue: float
    cc: str
    limits: str
    size: str
    reverse: bool
    streams: int
    seconds: int

    def key(self) -> str:
        return " ".join(map(str, self))


WIDE = Cell(400, 100, 2, "cubic", "esnet", "150MB", False, 1, 0)
"""Autotuning reaches far more than the path holds, and the length is known: nothing is to be measured."""


def transfer(cell: Cell, tune: str) -> dict[str, Any]:
    """One transfer; the answer of bulk, or {"error": ...}."""
    queue = max(int(cell.queue * cell.mbit * cell.rtt_ms * 125), 40000)
    words = ["--tune", tune, "--json", "--streams", str(cell.streams)]
    words += ["--bytes", str(SIZES[cell.size])] if SIZES[cell.size] else \
        ["--seconds", str(cell.seconds)]
    words += ["--reverse"] if cell.reverse else []
    bulk = path.built("examples/bulk")
    with path.Path(both=f"rate={cell.mbit}M,delay={cell.rtt_ms / 2}ms,queue={queue}") as p:
        LIMITS[cell.limits].of_ends(p)
        for side in ("a", "b"):
            p.sysctl(side, "net.ipv4.ping_group_range", "0 65534")
            p.route(side, congctl=cell.cc)
        server = p.popen("b", [bulk, "recv"], unprivileged=True)
        path.wait_listening(p, "b", 7500, server)
        done = p.run("a", [bulk, "send", *words, p.addr["b"]], unprivileged=True, timeout=120)
    return json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr.strip()}


def rates_of(results: list[dict[str, Any]]) -> list[float]:
    return [r["rate_bit_per_s"] / 1e6 for r in results if "rate_bit_per_s" in r]


def settled(default: list[dict[str, Any]], ours: list[dict[str, Any]]) -> bool:
    """Whether the pairs so far agree, of which neither has failed."""
    ratios = [rates_of([b])[0] / rates_of([a])[0] for a, b in zip(default, ours, strict=True) if rates_of([a]) and rates_of([b])]
    return len(ratios) >= PAIRS_LEAST and max(ratios) - min(ratios) <= AGREE * max(ratios)


def sweep(cell: Cell, reached: float) -> dict[str, list]:
    """Fixed sizes, once each; the best of them again, if it is above what is reached already."""
    results = {f"naive:{n}": [transfer(cell, f"naive:{n}")]
               for n in SWEEP_BYTES if n <= LIMITS[cell.limits].mem_max}
    best = max(results, key=lambda way: max(rates_of(results[way]), default=0), default=None)
    if best and max(rates_of(results[best]), default=0) > 1.02 * reached:
        results[best] += [transfer(cell, best), transfer(cell, best)]
    return results


def measure(cell: Cell, our_way: str, with_sweep: bool) -> dict[str, Any]:
    results: dict[str, list] = {"none": [], our_way: []}
    while len(results["none"]) < PAIRS_MOST and not settled(results["none"], results[our_way]):
        for way in ("none", our_way):
            results[way].append(transfer(cell, way))
    if with_sweep and cell.size == "long" and (cell.cc, cell.reverse, cell.streams) == (
            "cubic", False, 1):
        results |= sweep(cell, max(rates_of(results[our_way]), default=0))
    rates = {way: statistics.median(rates_of(runs)) if rates_of(runs) else None
             for way, runs in results.items()}
    best = max((rate for rate in rates.values() if rate), default=None)
    ours, default = rates[our_way], rates["none"]
    return {
        "key": cell.key(), "cell": cell._asdict(), "rates_mbit_per_s": rates,
        "ratio": round(ours / default, 3) if ours and default else None,
        "of_best": round(ours / best, 3) if ours and best else None,
        "reason": next((r["reason"] for r in results[our_way] if "reason" in r), None),
        "runs": {way: [round(rate, 1) for rate in rates_of(runs)] for way, runs in results.items()},
        "tried": {way: len(runs) for way, runs in results.items()},
        "rtt_ms": {way: round(next((r["rtt_mean_ns"] for r in runs if "rtt_mean_ns" in r), 0) / 1e6, 1)
                   for way, runs in results.items()},
        "errors": [r["error"] for runs in results.values() for r in runs if "error" in r],
    }


def grid(quick: bool) -> list[Cell]:
    """The cells; those of one limit set together, for it is global and set once."""
    if quick:
        return [Cell(*p, "cubic", limits, size, False, 1, QUICK_SECONDS)
                for limits in LIMITS for p in (PATHS[0], PATHS[3]) for size in ("1MB", "long")] + [WIDE]
    cells = [Cell(*p, cc, limits, size, False, 1, LIMITS[limits].seconds)
             for limits, p, cc, size in itertools.product(LIMITS, PATHS, CCS, GRID_SIZES)]
    cells += [Cell(*p, "cubic", limits, "long", True, 1, LIMITS[limits].seconds)
              for limits in LIMITS for p in PATHS]
    cells += [Cell(*p, "cubic", limits, "long", False, streams, LIMITS[limits].seconds)
              for limits in LIMITS for p in (PATHS[1], PATHS[3]) for streams in (2, 4, 8)]
    return sorted([*cells, WIDE], key=lambda cell: cell.limits)


def summary(rows: list[dict[str, Any]]) -> str:
    """The least, median and largest ratio of each path and limit set, and of the best by hand."""
    body = []
    for limits, p in itertools.product(LIMITS, PATHS):
        here = [r for r in rows if r["cell"]["limits"] == limits and (r["cell"]["mbit"], r["cell"]["rtt_ms"]) == p[:2]]
        if not here:
            continue
        ratios = sorted(r["ratio"] for r in here if r["ratio"])
        swept = [r["of_best"] for r in here if len(r["rates_mbit_per_s"]) > 2 and r["of_best"]]
        told = (ratios[0], statistics.median(ratios), ratios[-1]) if ratios else ()
        body.append([limits, p[0], p[1], len(here) if len(ratios) == len(here) else f"{len(ratios)} of {len(here)}",
                     *([f"{ratio:.3f}" for ratio in told] or ["-"] * 3), f"{min(swept):.3f}" if swept else "-",
                     ", ".join(sorted({r["reason"] for r in here if r["reason"]}))])
    return report.table(["limits", "Mbit/s", "ms", "cells", "least ratio", "median", "largest",
                         "of the best by hand, least", "reasons"], body)


def of_best(row: dict[str, Any], our_way: str) -> str:
    """Our share of the best rate, and how many runs of the sweep it is compared with, if some have failed."""
    swept = [way for way in row["tried"] if way not in ("none", our_way)]
    good, tried = sum(len(row["runs"][way]) for way in swept), sum(row["tried"][way] for way in swept)
    return f"{row['of_best'] or '-'}" + (f" ({good} of {tried} runs by hand)" if good < tried else "")


def failures(rows: list[dict[str, Any]]) -> str:
    """What each run said that failed."""
    told = [f"- {row['key']}: {error}" for row in rows for error in row["errors"]]
    return "\n".join(["", f"{len(told)} runs failed:", "", *told, ""]) if told else ""


def show(rows: list[dict[str, Any]], our_way: str, name: str, out: pathlib.Path) -> None:
    head = ["Mbit/s", "ms", "queue", "cc", "limits", "size", "from", "streams", "default",
            our_way, "ratio", "of the best", "reason"]
    body = []
    for r in rows:
        c, rates = r["cell"], r["rates_mbit_per_s"]
        body.append([c["mbit"], c["rtt_ms"], c["queue"], c["cc"], c["limits"], c["size"],
                     "peer" if c["reverse"] else "here", c["streams"],
                     *(report.of_runs(f"{rates[way] or 0:.1f}", len(r["runs"][way]), r["tried"][way]) for way in ("none", our_way)),
                     r["ratio"] or "-", of_best(r, our_way), r["reason"] or "-"])
    (out / f"{name}.md").write_text(
        f"{report.machine()}\n\n{summary(rows)}\n{report.table(head, body)}{failures(rows)}")
    data = [(i, r["ratio"]) for i, r in enumerate(sorted(
        (r for r in rows if r["ratio"]), key=lambda r: r["ratio"]))]
    report.gnuplot(out / f"{name}.svg", report.block("ratios", data) + """
set title "Rate with libautobuf / with kernel defaults, every cell, sorted"
set ylabel "ratio"
set xlabel "cell"
set logscale y
set arrow from graph 0, first 0.97 to graph 1, first 0.97 nohead lc rgb '#cc3333'
plot $ratios using 1:2 with points pt 7 ps 0.6 notitle
""")


def run(quick: bool, out: pathlib.Path) -> None:
    run_cells(grid(quick), "autobuf", "transfer-quick" if quick else "transfer", not quick, out)


def run_cells(all_cells: list[Cell], our_way: str, name: str, with_sweep: bool,
              out: pathlib.Path) -> None:
    """Cells of one limit set come together. Goes on where an earlier run of that name was cut."""
    kept = Kept(out / f"{name}.jsonl")
    rows = []

    def measured(cell: Cell) -> dict[str, Any]:
        row = measure(cell, our_way, with_sweep)
        print({k: v for k, v in row.items() if k != "cell"}, flush=True)
        return row

    for limits, cells in itertools.groupby(all_cells, key=lambda cell: cell.limits):
        with LIMITS[limits].of_machine():
            rows += [kept.get(cell.key(), lambda cell=cell: measured(cell)) for cell in cells]
    show(rows, our_way, name, out)
    print((out / f"{name}.md").read_text())
