#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds the programs that the scripts here try, all at once, before any of them looks at the time.

Each script builds for itself what is missing, and says so if that fails: here nothing is told.
"""
from __future__ import annotations

import functools
import itertools
import os
import pathlib
import sys
import unittest
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "net")]

import debs  # noqa: E402
import libssh2  # noqa: E402
import ncftp  # noqa: E402
import openssh  # noqa: E402
from cases import ALL  # noqa: E402

OLDEST, MIDDLE, NEWEST = openssh.VERSIONS[0], openssh.VERSIONS[-2], openssh.VERSIONS[-1]


BUILDS: tuple[tuple[Callable[[], object], ...], ...] = (
    (lambda: openssh.prefix(NEWEST), lambda: openssh.prefix(NEWEST, stock=True)),
    (ncftp.modules, ncftp.prefix),
    tuple(lambda stock=stock: libssh2.prefix(libssh2.VERSIONS[0], stock) for stock in (False, True)),
)
"""What fetches the same source is one chain."""
MORE: tuple[tuple[Callable[[], object], ...], ...] = (
    (lambda: openssh.prefix(OLDEST), lambda: openssh.prefix(OLDEST, stock=True), debs.packages),
    (lambda: openssh.prefix(MIDDLE, upstreams=False), lambda: openssh.prefix(NEWEST, ahead=False)),
    (lambda: ncftp.prefix(stock=True),),
    tuple(lambda make=make, stock=stock: make(stock) for stock in (False, True)
          for make in (functools.partial(libssh2.prefix, libssh2.VERSIONS[-1]), libssh2.curl)),
)
"""For tests/run --all."""


def one_after_the_other(builds: Iterable[Callable[[], object]]) -> list[str]:
    """Why those failed that did."""
    failures = []
    for build in builds:
        try:
            build()
        except (Exception, unittest.SkipTest) as error:
            failures.append(f"{type(error).__name__}: {error}")
    return failures


def main() -> int:
    """Whoever tries what was not built tells of it: here it is no failure."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        failures = list(itertools.chain(*pool.map(one_after_the_other, BUILDS + (MORE if ALL in os.environ else ()))))
    for failure in failures:
        print("\n".join(f"# {line}" for line in failure.splitlines()))
    print(f"1..1\nok 1 - {len(failures)} builds failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
