# SPDX-License-Identifier: MIT
"""What libautobuf is worth, kernel by kernel, in virtual time: Debian's kernels in machines, netem, default limits.

All cells in which libautobuf may never be slower: tests/kernels/suites/never.py. A machine gives the same figures
each time, so each cell is run once. Quick: 400 Mbit/s x 100 ms, cubic, 10 s.
"""
from __future__ import annotations

import itertools
import pathlib
import sys
from collections.abc import Iterable

import path
import report
from kept import Kept

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kernels"))
import machine  # noqa: E402
import packages  # noqa: E402
from case import answers  # noqa: E402
from suites.never import LOW_DELAY, PATHS, WAYS, Cell, cells, results  # noqa: E402

PATIENCE_S = 4 * 3600
"""Of a machine with the four longest cells: many times what they take."""
MAIN = (Cell(400, 100, "cubic", "--seconds 10"), Cell(400, 100, "cubic", "--seconds 10", root=True))
CALM = tuple(Cell(100, 20, cc, "--seconds 10") for cc in ("cubic", "bbr"))


def measured(kernel: packages.Kernel, cells: Iterable[Cell], ways: dict[str, str], kept: Kept) -> dict[Cell, dict]:
    """What bulk said, way by way; kept, if an earlier run has it. One machine for those that are not: to start it takes longer
    than a short cell."""
    keys = {cell: f"{kernel.version}: {', '.join(ways)}: {cell.name}" for cell in cells}
    missing = [cell for cell, key in keys.items() if not kept.has(key)]
    if missing:
        build = path.build_folder()
        text = ". /lib.sh\n" + "".join(f"begin {i}\n{cell.script(ways)}" for i, cell in enumerate(missing))
        said = machine.boot(kernel, build, text, build / f"kernel-{kernel.name}.log", patience_s=PATIENCE_S)
        for i, part in answers(said).items():
            cell = missing[int(i)]
            found = results(part, ways)
            kept.add(keys[cell], found)
            print(keys[cell], {way: f"{result['rate_bit_per_s'] / 1e6:.1f}" for way, result in found.items()}, flush=True)
    return {cell: kept.of(key) for cell, key in keys.items()}


def at_once(cell: Cell) -> tuple:
    """Cells that are alike in this share a machine."""
    return cell.mbit, cell.rtt_ms, cell.cc, cell.much


def ratio(result: dict, way: str) -> float:
    return result[way]["rate_bit_per_s"] / result["none"]["rate_bit_per_s"]


def run(quick: bool, out: pathlib.Path) -> None:
    kept = Kept(out / "kernels.jsonl")
    kernels = []
    for want in packages.wanted().values():
        try:
            kernels.append(packages.fetch(want))
        except packages.Missing as error:
            print(f"{want.name}: {error}")
    worth, calm, least, chart = [], [], [], []
    for kernel in kernels:
        user, root = measured(kernel, MAIN, WAYS, kept).values()
        none = user["none"]["rate_bit_per_s"] / 1e6
        worth.append([kernel.version, f"{none:.0f}", *(f"{ratio(user, way):.2f}" for way in ("autobuf", "live")),
                      *(f"{ratio(root, way):.2f}" for way in ("autobuf", "live"))])
        chart.append([kernel.name, none, *(each[way]["rate_bit_per_s"] / 1e6 for each in (user, root)
                                             for way in ("autobuf", "live"))])
        if quick:
            continue
        for cell, each in measured(kernel, CALM, LOW_DELAY, kept).items():
            rtts = (each[way]["rtt_mean_ns"] / 1e6 / cell.rtt_ms for way in LOW_DELAY)
            calm.append([kernel.version, cell.cc, f"{each['none']['rate_bit_per_s'] / 1e6:.1f}", f"{ratio(each, 'low delay'):.3f}",
                         *(f"{rtt:.2f}" for rtt in rtts)])
        all_cells = {}
        for _, alike in itertools.groupby(cells(), at_once):
            all_cells |= measured(kernel, alike, WAYS, kept)
        for path_of in PATHS:
            here = {cell: each for cell, each in all_cells.items() if (cell.mbit, cell.rtt_ms) == path_of}
            worst = min(((ratio(each, way), cell.name, way) for cell, each in here.items() for way in ("autobuf", "live")))
            gains = sorted(ratio(each, way) for each in here.values() for way in ("autobuf", "live"))
            least.append([kernel.version, f"{path_of[0]} x {path_of[1]}", f"{worst[0]:.3f}", f"{worst[1]}, {worst[2]}",
                          f"{report.quantile(gains, 0.5):.3f}", f"{gains[-1]:.2f}"])
    text = "400 Mbit/s x 100 ms, cubic, 10 s; ratios to none in the same machine.\n\n"
    text += report.table(["kernel", "none, Mbit/s", "autobuf", "live", "autobuf, CAP_NET_ADMIN", "live, CAP_NET_ADMIN"],
                         worth)
    if least:
        text += "\nIntent low-delay, 100 Mbit/s x 20 ms, 10 s; mean round-trip times as multiples of the path's.\n\n"
        text += report.table(["kernel", "congestion control", "none, Mbit/s", "low delay", "none's time", "low delay's"], calm)
        text += "\nAll cells: the least ratio to none, and where it is; median and largest.\n\n"
        text += report.table(["kernel", "path", "least", "where", "median", "largest"], least)
    (out / "kernels.md").write_text(text)
    report.bars(out / "kernels.svg", "400 Mbit/s x 100 ms, cubic, 10 s, each kernel's own limits",
                ("none", "autobuf", "live", "autobuf, CAP\\\\_NET\\\\_ADMIN", "live, CAP\\\\_NET\\\\_ADMIN"), chart)
    print(text)
