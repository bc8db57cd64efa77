# SPDX-License-Identifier: MIT
"""Programs in machines of tests/kernels, whose clock is virtual: the same figures each time, so each is run once."""
from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import path
from kept import Kept

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kernels"))
import machine  # noqa: E402
import packages  # noqa: E402


class Way(NamedTuple):
    """How runs of one kind are made."""
    script: Callable[[list], str]
    """Of runs, one after the other in one machine."""
    results: Callable[[str, list], list]
    """Of each, in what the script said: Mbit/s, or whatever JSON can hold."""
    programs: Sequence[str]
    archives: Callable[[], tuple[pathlib.Path, ...]] = tuple


class Bench:
    """Results, kept in a file: a benchmark that was cut goes on where it was. The first transfer of a machine takes 1% to 3% longer
    than the same one after it, so the first run of a machine is made twice, and counted once."""

    def __init__(self, name: str, kernel: str, out: pathlib.Path) -> None:
        self.name = name
        self.kernel = packages.fetch(packages.wanted()[kernel])
        self.kept = Kept(out / f"{name}.jsonl")

    def results(self, way: Way, runs: Sequence) -> list:
        """Of each run, which is a NamedTuple."""
        keys = [f"{self.kernel.version}: {json.dumps(run)}" for run in runs]
        left = {key: run for key, run in zip(keys, runs, strict=True) if not self.kept.has(key)}
        if left:
            build = path.build_folder()
            made = [*left.values()][:1] + [*left.values()]
            said = machine.boot(self.kernel, build, f". /lib.sh\n{way.script(made)}",
                                build / f"kernel-{self.name}.log", way.programs, way.archives())
            _, *results = way.results(said, made)
            for key, result in zip(left, results, strict=True):
                self.kept.add(key, result)
                print(key, f"{result:.1f}" if isinstance(result, float) else result, flush=True)
        return [self.kept.of(key) for key in keys]
