# SPDX-License-Identifier: MIT
"""Python's own suites of tests (Debian: libpython3.N-testsuite), and what each of their cases came to."""
from __future__ import annotations

import json
import subprocess
from collections.abc import Collection, Iterable, Sequence

from path import PathError, wait_line

CASE_S = 300
"""A case that takes longer does not end."""
NO_END = "no-end"
"""Of a case that does not end, or that ends its process."""

# Runs cases of a module, and prints a line as each begins and ends; what they print themselves goes to standard error.
RUNNER = """
import json, os, signal, sys, tempfile, unittest
from test import support

asked = json.load(sys.stdin)
out = os.fdopen(os.dup(1), "w", 1)
os.dup2(2, 1)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in what a shell runs in the background
support.use_resources, support.verbose = ["network"] if asked["module"] == "test_socketserver" else [], False  # of its own host

class Result(unittest.TestResult):
    def tell(self, verdict, test):
        print(verdict, test.id(), file=out)

    def startTest(self, test):
        super().startTest(test)
        self.verdict = "ok"
        self.tell("begins", test)

    def stopTest(self, test):
        super().stopTest(test)
        self.tell(self.verdict, test)

    def note(self, verdict, test):
        if not isinstance(test, unittest.TestCase):  # a class or a module as a whole
            self.tell(verdict, test)
        elif self.verdict == "ok":
            self.verdict = verdict

    def addError(self, test, err): self.note("error", test)
    def addFailure(self, test, err): self.note("failed", test)
    def addSkip(self, test, reason): self.note("skipped", test)
    def addExpectedFailure(self, test, err): self.note("expected-failure", test)
    def addUnexpectedSuccess(self, test): self.note("unexpected-success", test)
    def addSubTest(self, test, subtest, err): err and self.note("failed", test)

def flat(suite):
    for part in suite:
        yield from flat(part) if isinstance(part, unittest.TestSuite) else (part,)

with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    cases = flat(unittest.defaultTestLoader.loadTestsFromName("test." + asked["module"]))
    if asked["only"]:
        cases = [case for case in cases if case.id() in asked["only"]]
    unittest.TestSuite(case for case in cases if case.id() not in asked["done"]).run(Result())
    os.chdir("/")
print("end", file=out)
"""


def go_on(module: str, under: Sequence[str], only: Collection[str], found: dict[str, str]) -> bool:
    """Runs the cases of which nothing was found yet; whether all of them came to an end."""
    done = [*found]
    with subprocess.Popen([*under, "/usr/bin/python3", "-c", RUNNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as process:
        case = ""
        try:
            json.dump({"module": module, "only": [*only], "done": done}, process.stdin)
            process.stdin.close()
            while (line := wait_line(process, bool, CASE_S)) != "end":
                verdict, _, case = line.partition(" ")
                found[case] = verdict
            return True
        except PathError:
            if len(found) == len(done):
                raise
            if found[case] == "begins":
                found[case] = NO_END
            return False
        finally:
            process.kill()


def verdicts(modules: Iterable[str], under: Sequence[str], only: Collection[str] = ()) -> dict[str, str]:
    """What each case of these modules (test_socket), or only some cases of them, came to.

    under: the words before python3. Killed, they must end all that they have started. The cases that are left when one does not
    end are run in another process.
    """
    found: dict[str, str] = {}
    for module in modules:
        while not go_on(module, under, only, found):
            pass
    return found
