# SPDX-License-Identifier: MIT
"""Programs in machines of tests/kernels, whose clock is virtual: the same figures each time, so each is run once."""
from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import path

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
    """Results, kept in a file: a benchmark that was cut goes on where it was."""

    def __init__(self, name: str, kernel: str, out: pathlib.Path) -> None:
        self.name = name
        self.kernel = packages.fetch(packages.wanted()[kernel], path.build_folder() / "kernels")
        self.log = out / f"{name}.jsonl"
        self.done = dict(map(json.loads, self.log.read_text().splitlines())) if self.log.is_file() else {}

    def results(self, way: Way, runs: Sequence) -> list:
        """Of each run, which is a NamedTuple."""
        keys = [f"{self.kernel.version}: {json.dumps(run)}" for run in runs]
        left = {key: run for key, run in zip(keys, runs, strict=True) if key not in self.done}
        if left:
            build = path.build_folder()
            said = machine.boot(self.kernel, build, f". /lib.sh\n{way.script([*left.values()])}",
                                build / f"kernel-{self.name}.log", way.programs, way.archives())
            for key, result in zip(left, way.results(said, [*left.values()]), strict=True):
                self.done[key] = result
                with self.log.open("a") as log:
                    print(json.dumps([key, result]), file=log)
                print(key, f"{result:.1f}" if isinstance(result, float) else result, flush=True)
        return [self.done[key] for key in keys]
