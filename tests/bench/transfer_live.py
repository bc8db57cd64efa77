# SPDX-License-Identifier: MIT
"""Is a transfer that `live` manages ever slower than one with kernel defaults?

Long transfers on the paths of `transfer`, with its congestion controls and limits, run in the same way.
"""
from __future__ import annotations

import itertools
import pathlib

from transfer import CCS, LIMITS, PATHS, QUICK_SECONDS, Cell, run_cells

SECONDS = 6


def run(quick: bool, out: pathlib.Path) -> None:
    if quick:
        cells = [Cell(*p, "cubic", "6.18", "long", False, 1, QUICK_SECONDS) for p in PATHS]
    else:
        cells = [Cell(*p, cc, limits, "long", False, 1, SECONDS)
                 for limits, p, cc in itertools.product(LIMITS, PATHS, CCS)]
        cells += [Cell(*p, "cubic", "6.18", size, reverse, 1, SECONDS)
                  for p, (size, reverse) in itertools.product(
                      PATHS, (("1MB", False), ("10MB", False), ("long", True)))]
    cells.sort(key=lambda cell: cell.limits)
    run_cells(cells, "live", "transfer-live-quick" if quick else "transfer-live", False, out)
