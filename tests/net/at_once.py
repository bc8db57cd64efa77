# SPDX-License-Identifier: MIT
"""Cases that run beside each other, each in a process of its own.

They say nothing of time, ask no more of a path than two others leave, change nothing that is the machine's, and
look at no processes but their own. One that fails while the machine is too busy to judge by is run again when it
has the machine for itself, and what comes of that counts. In the lane beside (suites.py) the machine is always too busy.
"""
from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterable

import path

AT_ONCE = 3
"""A case on the emulated path waits for two thirds of its time, or more."""
LANE = "AUTOBUF_TESTS_LANE"
"""In the environment of tests: "beside", only such cases, and those that fail are named, for somebody to run them again; "alone", only
the others."""
AGAIN = 99
"""The status of a process whose case is to be run again."""


class Again(unittest.SkipTest):
    """The machine was too busy to judge by a case, which had company."""


def beside(cases: type | Callable) -> type | Callable:
    """Of a class, or of a single case: each may run beside others."""
    cases.beside = True
    return cases


def alone(case: Callable) -> Callable:
    """Of a case in such a class: not this one."""
    case.beside = False
    return case


def may(case: unittest.TestCase) -> bool:
    return getattr(getattr(case, case._testMethodName), "beside", getattr(case, "beside", False))


def in_child(case: unittest.TestCase, make_result: Callable[[], unittest.TestResult]) -> int:
    """Runs a case in a process that was made for it, and goes with its parent; the status to exit with."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
    path.has_company = True
    result = make_result()
    unittest.TestSuite([case]).run(result)
    if any(reason.startswith(Again.__name__) for _, reason in result.skipped):
        return AGAIN
    return 0 if result.wasSuccessful() else 1


class Processes:
    """Those that run now, each with its case and what it has said."""

    def __init__(self, make_result: Callable[[], unittest.TestResult]) -> None:
        self.make_result = make_result
        self.running: dict[int, tuple[unittest.TestCase, object]] = {}

    def start(self, case: unittest.TestCase) -> None:
        said = tempfile.TemporaryFile("w+")
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.dup2(said.fileno(), 1)
                sys.stdout = said
                status = in_child(case, self.make_result)
                said.flush()
            finally:
                os._exit(status)
        self.running[pid] = case, said

    def end_one(self) -> tuple[unittest.TestCase, int, str]:
        """Waits for the first that ends: its case, status and what it said."""
        pid, status = os.wait()
        case, said = self.running.pop(pid)
        with said:
            said.seek(0)
            return case, os.waitstatus_to_exitcode(status), said.read()

    def kill(self) -> None:
        for pid in self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


def run_beside(cases: Iterable[unittest.TestCase], result: unittest.TestResult,
               make_result: Callable[[], unittest.TestResult], busy: bool = False) -> list[unittest.TestCase]:
    """Runs cases, and tells of each as if result had; returns those that are to be run again. busy: the machine always is."""
    waiting, again, processes = list(cases), [], Processes(make_result)
    try:
        while waiting or processes.running:
            while waiting and len(processes.running) < AT_ONCE:
                processes.start(waiting.pop(0))
            case, status, said = processes.end_one()
            if status == AGAIN or (status and busy):
                again.append(case)
                said = "".join(line for line in said.splitlines(True) if line.startswith("#"))
            else:
                result.testsRun += 1
                said, verdicts = re.subn(r"^(not ok|ok) \d+", rf"\1 {result.testsRun}", said, flags=re.M)
                if status or not verdicts:
                    result.failures.append((case, said))
                if not verdicts:
                    said += f"not ok {result.testsRun} - {case.id().removeprefix('__main__.')}\n# its process ended with {status}\n"
            print(said, end="", flush=True)
    finally:
        processes.kill()
    return again
