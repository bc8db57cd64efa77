# SPDX-License-Identifier: MIT
"""The path store: how long a lookup takes, by how many entries there are, and what it costs to change one.

Each store is in memory once it was written. The yardstick is socket() and close(), which each connection makes anyway. Of
several runs the medians.
"""
from __future__ import annotations

import json
import pathlib
import subprocess
import tempfile

import path
import report

ENTRIES = (100, 10_000, 1_000_000)
ROUTES = {1: "agree", 8: "do not agree"}
RUNS, QUICK_RUNS = 5, 1


def row(file: pathlib.Path, entries: int, runs: int) -> list[str]:
    said = [json.loads(subprocess.run([path.built("tests/bench/paths_cost"), file, str(entries)], capture_output=True, text=True,
                                      check=True).stdout) for _ in range(runs)]

    def us(name: str) -> float:
        return report.quantile([each[name] for each in said], 0.5) / 1000

    return [f"{said[0]['entries']:,}", f"{file.stat().st_size / 1e6:.2f} MB", f"{us('write_ns') / 1e6:.2f} s",
            f"{us('median_ns'):.2f}", f"{us('p99_ns'):.2f}", f"{us('open_ns'):.1f}", f"{us('open_ns') / us('socket_ns'):.1f}"]


def changed(entries: int, routes: int, runs: int) -> list[str]:
    """The host's store of so many hosts: what it takes the daemon to add what it has learned, beside a new one of the same hosts."""
    with tempfile.TemporaryDirectory() as folder:
        said = [json.loads(subprocess.run([path.built("tests/bench/change_cost"), pathlib.Path(folder, "paths"), str(entries), str(routes)],
                                          capture_output=True, text=True, check=True).stdout) for _ in range(runs)]

    def s(name: str) -> float:
        return report.quantile([each[name] for each in said], 0.5) / 1e9

    return [f"{entries:,}", ROUTES[routes], f"{said[0]['entries']:,}", f"{s('change_ns'):.2f} s", f"{s('change_cpu_ns'):.2f} s",
            f"{s('new_cpu_ns'):.2f} s", f"{s('change_cpu_ns') / s('new_cpu_ns'):.1f}"]


def run(quick: bool, out: pathlib.Path) -> None:
    runs = QUICK_RUNS if quick else RUNS
    with tempfile.TemporaryDirectory() as folder:
        rows = [row(pathlib.Path(folder, "paths"), entries, runs) for entries in ENTRIES]
    text = report.machine() + "\n\n" + report.table(
        ["entries", "file", "written in", "lookup, us", "99% within, us", "open, look up, close, us", "of a socket()"], rows)
    if pathlib.Path(path.built("tests/bench/change_cost")).exists():
        text += "\n" + report.table(["hosts", "those of a network", "entries", "changed in", "CPU", "CPU, a new one", "ratio"],
                                    [changed(entries, routes, runs) for entries in ENTRIES[1:] for routes in ROUTES])
    (out / "paths.md").write_text(text)
    print(text)
