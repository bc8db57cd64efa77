#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A run of suites: which are chosen, what each comes to, what is tried again, and what is not run twice."""
from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pathlib
import sys
import tempfile
import time
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
os.environ.setdefault("AUTOBUF_BUILD", str(HERE.parent / "build"))
sys.path[:0] = [str(HERE), str(HERE / "net")]

import compiled  # noqa: E402
import suites  # noqa: E402
from cases import run_tests  # noqa: E402
from compiled import ALL  # noqa: E402

PASSES = "print('ok 1 - one # 0 s\\nok 2 - two # SKIP no reason\\n1..2')"
FAILS = "print('not ok 1 - one\\n1..1'); raise SystemExit(1)"
AGAIN = """
import os, sys
print("ok 1 - by itself\\n1..1" if sys.argv[1:] == ["Class.case"] else "ok 1 - one\\n# again: Class.case\\n1..1")
"""


class SuitesTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(mock.patch.dict(os.environ, {"AUTOBUF_BUILD": str(self.folder)}))
        self.enterContext(mock.patch.object(suites, "BUILD", str(self.folder)))
        os.environ.pop(ALL, None)

    def suite(self, name: str, text: str, **kw) -> suites.Suite:
        script = self.folder / f"{name}.py"
        script.write_text(text)
        return suites.Suite(name, (sys.executable, script), **kw)

    def said(self, call, *args) -> tuple[object, str]:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            return call(*args), out.getvalue()


class One(SuitesTest):
    def end(self, text: str) -> suites.Count:
        return self.said(suites.Run(self.suite("one", text)).end)[0].count

    def test_cases_are_counted(self) -> None:
        count = self.end(PASSES)
        self.assertEqual((count.passed, count.failed, count.skipped), (1, [], ["one: two # SKIP no reason"]))
        self.assertEqual(self.end(FAILS).failed, ["one: one"])

    def test_what_ends_badly_or_too_soon_has_failed(self) -> None:
        for text, why in (("raise SystemExit(3)", "exit status 3"), ("", "0 cases, planned: []"),
                          ("print('ok 1 - one\\n1..2')", "1 cases, planned: [2]"), ("print('1..0')\nraise SystemExit(1)", "exit status 1")):
            with self.subTest(text):
                self.assertEqual(self.end(text).failed, [f"one: {why}"])

    def test_what_cannot_be_tried_is_skipped(self) -> None:
        self.assertEqual(self.end("print('1..0 # SKIP no TUN')\nraise SystemExit(77)").skipped, ["one: 1..0 # SKIP no TUN"])

    def test_it_is_ended_if_it_tells_nothing_any_more(self) -> None:
        text = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: signal.pause()\n"
        with mock.patch.multiple(suites, SILENT_S=1, GRACE_S=1):
            self.assertEqual(self.end(text).failed, ["one: hung: it told nothing more, and was ended"])

    def test_who_goes_on_to_tell_does_not_hang(self) -> None:
        run = suites.Run.__new__(suites.Run)
        run.said, run.process, left = self.enterContext(tempfile.TemporaryFile("w+")), mock.Mock(returncode=0), [3]

        def ended(_: float) -> bool:
            if left[0]:
                left[0] -= 1
                print("ok", file=run.said, flush=True)
                return False
            return True

        run.ended = ended
        self.assertEqual((run.wait(), left[0]), (0, 0))
        run.process.terminate.assert_not_called()


class Whole(SuitesTest):
    def run_all(self, *chosen: suites.Suite) -> tuple[int, str]:
        lanes = suites.Lanes(chosen)
        _, said = self.said(lanes.run)
        status, report = self.said(suites.tell, lanes.reports, lanes.left, 1.0)
        return status, said + report

    def test_the_last_line_counts_both_lanes(self) -> None:
        status, said = self.run_all(self.suite("front", PASSES), self.suite("beside", PASSES, aside=True))
        self.assertEqual((status, said.splitlines()[-1]), (0, "2 passed, 0 failed, 2 skipped"))
        status, said = self.run_all(self.suite("front", PASSES), self.suite("beside", FAILS, aside=True))
        self.assertEqual((status, said.splitlines()[-1]), (1, "1 passed, 1 failed, 1 skipped"))
        self.assertIn("failed: beside: one\n", said)

    def test_what_failed_beside_others_is_run_once_more(self) -> None:
        status, said = self.run_all(self.suite("beside", AGAIN, aside=True))
        self.assertEqual((status, said.splitlines()[-1]), (0, "2 passed, 0 failed, 0 skipped"))

    def test_of_all_what_has_passed_once_more_is_not_run_again(self) -> None:
        beside = self.suite("beside", AGAIN, aside=True)
        with mock.patch.dict(os.environ, {ALL: "1"}):
            self.run_all(beside)
            report, _ = self.said(suites.run, beside)
        self.assertEqual((report.count.passed, report.again), (2, ()))

    def test_a_suite_that_never_came_to_its_end_has_failed(self) -> None:
        self.assertEqual(self.said(suites.tell, [], ["lost"], 1.0)[0], 1)

    def test_of_all_what_has_passed_is_not_run_twice(self) -> None:
        mark = self.folder / "mark"
        text = f"open({str(mark)!r}, 'a').write('.')\n{PASSES}"
        passes, fails = self.suite("passes", text), self.suite("fails", f"open({str(mark)!r}, 'a').write('x')\n{FAILS}")
        for environment, runs in (({}, "..xx"), ({ALL: "1"}, ".xx")):
            mark.unlink(missing_ok=True)
            with mock.patch.dict(os.environ, environment):
                counts = [self.said(suites.run, suite)[0].count for suite in (passes, passes, fails, fails)]
            self.assertEqual(mark.read_text(), runs)
            self.assertEqual([(count.passed, len(count.skipped)) for count in counts], [(1, 1), (1, 1), (0, 0), (0, 0)])
        with mock.patch.dict(os.environ, {ALL: "1"}), mock.patch.object(suites.Suite, "digest", return_value="another tree"):
            self.said(suites.run, passes)
        self.assertEqual(mark.read_text(), ".xx.")

    def test_of_all_what_was_only_skipped_is_run_again(self) -> None:
        """What it lacked may have come."""
        skips = self.suite("skips", "print('it lacks much'); raise SystemExit(77)")
        with mock.patch.dict(os.environ, {ALL: "1"}):
            self.assertEqual(len(self.said(suites.run, skips)[0].count.skipped), 1)
            (self.folder / "skips.py").write_text(FAILS)
            self.assertEqual(len(self.said(suites.run, skips)[0].count.failed), 1)

    def test_a_build_that_another_run_uses_is_not_set_up_anew(self) -> None:
        self.enterContext(mock.patch.object(compiled, "TAKEN", []))
        self.assertTrue(compiled.take(self.folder))
        fcntl.flock(compiled.TAKEN[0], fcntl.LOCK_SH)
        self.assertFalse(compiled.take(self.folder))
        for each in compiled.TAKEN:
            os.close(each)
        self.assertTrue(compiled.take(self.folder))
        os.close(compiled.TAKEN[-1])

    def test_who_is_interrupted_leaves_no_process(self) -> None:
        child = self.folder / "child"
        text = f"import os, signal\nopen({str(child)!r}, 'w').write(str(os.getpid()))\nsignal.pause()"
        pids = []
        for aside in (False, True):
            with self.subTest(aside=aside):
                child.unlink(missing_ok=True)
                waits = self.suite("waits", text, aside=aside)
                runner = os.fork()
                if runner == 0:
                    with open(os.devnull, "w") as nowhere:
                        os.dup2(nowhere.fileno(), 1)
                        os.dup2(nowhere.fileno(), 2)
                    suites.Lanes([waits]).run()
                deadline = time.monotonic() + 30
                while not (child.exists() and child.read_text()):
                    self.assertLess(time.monotonic(), deadline)
                pid = int(child.read_text())
                os.kill(runner, 15)
                os.waitpid(runner, 0)
                while pathlib.Path(f"/proc/{pid}/exe").exists():
                    self.assertLess(time.monotonic(), deadline)
                pids.append(pid)
        self.assertEqual(len(set(pids)), 2)


class Chosen(SuitesTest):
    def names(self, *words: str) -> set[str]:
        return {suite.name for suite in suites.chosen_of(words)}

    def test_by_tier(self) -> None:
        each = self.names()
        self.assertLessEqual({"unit", "sanitized", "kernels", "net/probe", "net/probe,beside", "patch/openssh"}, each)
        self.assertEqual(each & {"clang", "cross", "patch/regress,9.2p1", "kernels/5.10", "sanitized/probe"}, set())
        with mock.patch.dict(os.environ, {ALL: "1"}):
            whole = self.names()
        self.assertEqual(each - whole, {"kernels"})  # one kernel's quick cases, which are among all of its cases
        self.assertLessEqual({"clang", "cross", "patch/regress,9.2p1", "kernels/5.10", "sanitized/probe"}, whole)

    def test_by_name(self) -> None:
        self.assertEqual(self.names("net/probe"), {"net/probe", "net/probe,beside"})
        self.assertEqual({name.partition(",")[0] for name in self.names("patch/regress", "unit")}, {"patch/regress", "unit"})
        self.assertLess(self.names("net/probe"), self.names("net"))

    def test_a_wrong_name_is_told(self) -> None:
        with self.assertRaises(SystemExit) as ended:
            self.said(suites.chosen_of, ["net/no_such"])
        self.assertEqual(ended.exception.code, 2)

    def test_each_script_is_a_suite(self) -> None:
        scripts = {path for folder in ("net", "patch", "packages", "python") for path in (HERE / folder).glob("test_*.py")}
        self.assertEqual(scripts - {suite.argv[1] for suite in suites.suites()}, set())

    def test_a_digest_changes_with_what_a_suite_tries(self) -> None:
        tree = self.folder / "tree"
        (tree / "lib").mkdir(parents=True)
        (tree / "patch").mkdir()
        (tree / "lib" / "a.c").write_text("1")
        with mock.patch.object(suites, "TOP", tree):
            suite = self.suite("one", PASSES, folder="net")
            before = suite.digest()
            (tree / "patch" / "b").write_text("not its own")
            self.assertEqual(suite.digest(), before)
            (tree / "lib" / "a.c").write_text("2")
            self.assertNotEqual(suite.digest(), before)

    def test_a_digest_changes_with_what_a_script_imports(self) -> None:
        net = self.folder / "tree" / "tests" / "net"
        net.mkdir(parents=True)
        for name, text in (("one", "import test_two\n"), ("two", "from test_three import a\n"), ("three", ""), ("other", "")):
            (net / f"test_{name}.py").write_text(text)
        with mock.patch.object(suites, "TOP", self.folder / "tree"):
            suite = suites.Suite("net/one", (sys.executable, net / "test_one.py"), folder="net")
            before = suite.digest()
            (net / "test_other.py").write_text("# another suite's\n")
            self.assertEqual(suite.digest(), before)
            (net / "test_three.py").write_text("a = 1\n")
            self.assertNotEqual(suite.digest(), before)


if __name__ == "__main__":
    sys.exit(run_tests(("setpriv",), on_path=False))
