# SPDX-License-Identifier: MIT
"""What is tried on each kernel."""
from __future__ import annotations

from collections.abc import Callable, Iterator

from case import Case
from packages import Kernel
from suites import available, daemon, flows, host, never, probe, readers, run, scavenger, units, watch, windows, writers, zoo

SUITES: dict[str, Callable[[Kernel, bool], Iterator[Case]]] = {
    "host": host.cases, "units": units.cases, "probe": probe.cases, "windows": windows.cases,
    "watch": watch.cases, "writers": writers.cases, "readers": readers.cases, "flows": flows.cases, "zoo": zoo.cases,
    "run": run.cases, "scavenger": scavenger.cases, "available": available.cases, "daemon": daemon.cases, "never": never.cases,
}
