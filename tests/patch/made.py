#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds the programs that the scripts here try, all at once, before any of them looks at the time.

Each script builds for itself what is missing, and says so if that fails: here nothing is told.
"""
from __future__ import annotations

import contextlib
import os
import pathlib
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "net")]

import debs  # noqa: E402
import ncftp  # noqa: E402
import openssh  # noqa: E402

OLDEST, MIDDLE, NEWEST = openssh.VERSIONS[0], openssh.VERSIONS[-2], openssh.VERSIONS[-1]


def one_after_the_other(builds: Iterable[Callable[[], object]]) -> None:
    for build in builds:
        with contextlib.suppress(Exception):
            build()


def main() -> int:
    chains = [  # what fetches the same source is one chain
        (lambda: openssh.prefix(OLDEST), lambda: openssh.prefix(OLDEST, stock=True), debs.packages),
        (lambda: openssh.prefix(NEWEST), lambda: openssh.prefix(NEWEST, stock=True)),
        (lambda: openssh.prefix(MIDDLE, upstreams=False),),
        (ncftp.modules, ncftp.prefix, lambda: ncftp.prefix(stock=True)),
    ]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        list(pool.map(one_after_the_other, chains))
    return 0


if __name__ == "__main__":
    sys.exit(main())
