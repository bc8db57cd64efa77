# SPDX-License-Identifier: MIT
"""scripts/quietly: what somebody sees who waits for a build."""
from __future__ import annotations

import subprocess
import sys
import unittest

from roots import TOP

from cases import run_tests  # the folder is on the path by now

QUIETLY = TOP / "scripts" / "quietly"


class Quietly(unittest.TestCase):
    def start(self, script: str) -> subprocess.Popen:
        step = subprocess.Popen([QUIETLY, "sh", "-c", script], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)
        self.addCleanup(step.communicate)
        return step

    def test_a_long_step_tells_its_newest_line(self) -> None:
        step = self.start("echo one; printf 'two\\r\\033[1m50%%\\n'; read line; echo three")
        self.assertEqual(step.stderr.readline(), "  10 s: two[1m50%\n")
        self.assertEqual(step.communicate("end\n"), ("", ""))
        self.assertEqual(step.returncode, 0)

    def test_a_step_that_fails_tells_all(self) -> None:
        step = self.start("seq 500; echo two >&2; exit 3")
        numbers = "".join(f"{number}\n" for number in range(1, 501))
        # Whoever reads to the end is not kept until the next ten seconds are over.
        out, said = step.communicate(timeout=9)
        self.assertEqual((out, said, step.returncode), ("", f"{numbers}two\nfailed: sh -c seq 500; echo two >&2; exit 3\n", 1))

    def test_a_step_that_is_interrupted_leaves_nothing(self) -> None:
        step = self.start("kill $PPID; exit 0")
        self.assertEqual(step.communicate(timeout=9), ("", ""))
        self.assertEqual(step.returncode, 1)


if __name__ == "__main__":
    sys.exit(run_tests((), on_path=False))
