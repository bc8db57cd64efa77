# SPDX-License-Identifier: MIT
"""Cases in processes of their own: what each comes to is told as it is, and what was too busy is run again."""
from __future__ import annotations

import contextlib
import io
import os
import pathlib
import signal
import sys
import tempfile
import time
import unittest

import cases
import path
from at_once import AT_ONCE, Again, alone, beside, may, run_beside


@beside
class Sample(unittest.TestCase):
    """Taken apart by the cases below, and no case itself."""

    def passes(self) -> None:
        pass

    def fails(self) -> None:
        self.assertEqual("this", "that")

    def skips(self) -> None:
        self.skipTest("no reason")

    def ends(self) -> None:
        os._exit(0)

    def is_killed(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def is_busy(self) -> None:
        if path.has_company:
            raise Again(Again.__name__)

    def changes_the_machine(self) -> None:
        with path.global_sysctls({"net.core.wmem_max": 1}):
            pass

    @alone
    def wants_none_beside(self) -> None:
        pass

    def waits_for_others(self) -> None:
        """Each leaves a mark, and sees those of as many as are run at once."""
        pathlib.Path(os.environ["MARKS"], str(os.getpid())).touch()
        deadline = time.monotonic() + 30
        while len(os.listdir(os.environ["MARKS"])) < AT_ONCE:
            self.assertLess(time.monotonic(), deadline)


class AtOnce(unittest.TestCase):
    def told(self, *names: str) -> tuple[cases.Tap, list[str], list[unittest.TestCase]]:
        """Result, lines of it, and what is to be run again."""
        result, out = cases.Tap(), io.StringIO()
        with contextlib.redirect_stdout(out):
            again = run_beside([Sample(name) for name in names], result, cases.Tap)
        return result, [line for line in out.getvalue().splitlines() if not line.startswith("#")], again

    def test_verdicts_are_those_of_the_cases(self) -> None:
        for name, line, well in (("passes", "ok 1 - Sample.passes", True), ("fails", "not ok 1 - Sample.fails", False),
                                 ("skips", "ok 1 - Sample.skips # SKIP no reason", True)):
            with self.subTest(name):
                result, lines, again = self.told(name)
                self.assertEqual((lines, result.wasSuccessful(), again), ([line], well, []))

    def test_a_process_that_ends_without_a_verdict_has_failed(self) -> None:
        for name in ("ends", "is_killed"):
            with self.subTest(name):
                result, lines, _ = self.told(name)
                self.assertEqual(lines, [f"not ok 1 - Sample.{name}"])
                self.assertFalse(result.wasSuccessful())

    def test_each_has_a_number_of_its_own(self) -> None:
        result, lines, _ = self.told("passes", "fails", "passes", "skips", "passes")
        self.assertEqual([line.removeprefix("not ").split()[1] for line in lines], ["1", "2", "3", "4", "5"])
        self.assertEqual((result.testsRun, len(result.failures)), (5, 1))

    def test_what_was_too_busy_is_told_when_it_was_run_by_itself(self) -> None:
        result, lines, again = self.told("passes", "is_busy")
        self.assertEqual((lines, [case.id() for case in again]), (["ok 1 - Sample.passes"], [Sample("is_busy").id()]))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            unittest.TestSuite(again).run(result)
        self.assertEqual(out.getvalue(), "ok 2 - Sample.is_busy\n")

    def test_a_case_with_company_changes_nothing_of_the_machine(self) -> None:
        before = pathlib.Path("/proc/sys/net/core/wmem_max").read_text()
        _, lines, _ = self.told("changes_the_machine")
        self.assertEqual(lines, ["not ok 1 - Sample.changes_the_machine"])
        self.assertEqual(pathlib.Path("/proc/sys/net/core/wmem_max").read_text(), before)

    def test_they_run_at_once(self) -> None:
        os.environ["MARKS"] = self.enterContext(tempfile.TemporaryDirectory())
        result, lines, _ = self.told(*["waits_for_others"] * AT_ONCE)
        self.assertTrue(result.wasSuccessful(), lines)

    def test_a_case_may_be_left_out(self) -> None:
        self.assertEqual([may(Sample("passes")), may(Sample("wants_none_beside")), may(self)], [True, False, False])


if __name__ == "__main__":
    sys.exit(cases.run_tests((), on_path=False))
