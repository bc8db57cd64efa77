# SPDX-License-Identifier: MIT
"""What the files of cases on the emulated path share: their base class, and a main() that prints TAP."""
from __future__ import annotations

import os
import shutil
import sys
import unittest
from collections.abc import Sequence

from path import Path, built, machine_lock, unavailable


class PathTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.enterClassContext(machine_lock())

    def path(self, *args, **kw) -> Path:
        return self.enterContext(Path(*args, **kw))

    def near(self, got: float, want: float, share: float, what: str) -> None:
        self.assertTrue(abs(got - want) <= share * want,
                        f"{what}: {got:.6g}, expected {want:.6g} within {share:.0%}")

    def between(self, got: float, low: float, high: float, what: str) -> None:
        self.assertTrue(low <= got <= high, f"{what}: {got:.6g}, expected {low:.6g} to {high:.6g}")


class Tap(unittest.TextTestResult):
    def __init__(self) -> None:
        super().__init__(unittest.runner._WritelnDecorator(sys.stderr), False, 0)
        self.subtests: list[str] = []

    def say(self, test: unittest.TestCase, verdict: str, more: str = "") -> None:
        name = test.id().removeprefix("__main__.")
        print(f"{verdict} {self.testsRun} - {name}{more}", flush=True)

    def failed(self, test: unittest.TestCase, err) -> None:
        self.subtests = []  # told by this one
        self.say(test, "not ok")
        for line in self._exc_info_to_string(err, test).splitlines():
            print(f"# {line}", flush=True)

    def addSuccess(self, test) -> None:
        if self.subtests:
            self.say(test, "not ok")
            print("\n".join(f"# {line}" for line in self.subtests), flush=True)
        else:
            self.say(test, "ok")
        self.subtests = []

    def addSubTest(self, test, subtest, err) -> None:
        super().addSubTest(test, subtest, err)
        if err:
            self.subtests += [str(subtest), *self._exc_info_to_string(err, test).splitlines()]

    def stopTest(self, test) -> None:
        # unittest reports no outcome of its own for a test of which a part has failed
        if self.subtests:
            self.addSuccess(test)
        super().stopTest(test)

    def addError(self, test, err) -> None:
        super().addError(test, err)
        self.failed(test, err)

    def addFailure(self, test, err) -> None:
        super().addFailure(test, err)
        self.failed(test, err)

    def addSkip(self, test, reason) -> None:
        super().addSkip(test, reason)
        self.say(test, "ok", " # SKIP " + " ".join(reason.split()))


def run_tests(tools: Sequence[str], files: Sequence[str] = ()) -> int:
    """The tests of the main module, if the tools are installed, the files built and a path can be made.

    0, 1 when a test failed, 77 when nothing could be tried. Arguments select the tests whose names
    contain one of them.
    """
    missing = [name for name in tools if not shutil.which(name)]
    unbuilt = [name for name in files if not os.path.exists(built(name))]
    if missing:
        reason = f"not installed: {', '.join(missing)}"
    else:
        reason = f"not built: {', '.join(unbuilt)}" if unbuilt else unavailable()
    if reason:
        print(f"1..0 # SKIP {reason}")
        return 77
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{word}*" for word in sys.argv[1:]] or None
    suite = loader.loadTestsFromModule(sys.modules["__main__"])
    print(f"1..{suite.countTestCases()}", flush=True)
    result = Tap()
    with machine_lock():
        suite.run(result)
    return 0 if result.wasSuccessful() else 1
