#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Python's own tests of sockets and asyncio under autobuf run: each case comes out as without it.

Prints TAP. Exits 0, 1 when a test failed, 77 when nothing could be tried. Arguments select the tests whose names contain
one of them. The tests are Debian's package libpython3.*-testsuite; each run of them has a loopback device of its own.
"""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

from at_once import beside  # noqa: E402
from cases import run_tests  # noqa: E402
from path import built  # noqa: E402
from test_run import clean  # noqa: E402

PYTHON = "/usr/bin/python3"
COMMAND = built("tools/autobuf")
OBJECT = "libautobuf-run.so"
TRIES = 3
"""A case that comes out in another way each time has failed: those that look at the time do so now and then, also without us."""
PATIENCE_S = 300
RUNNER = """
import gc, sys, unittest
from test import support

support.use_resources = []  # none of another host
told = open(sys.argv[1], "w")
cases = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[2:])

class Result(unittest.TestResult):
    def addSubTest(self, test, subtest, error):
        if error:
            print(test.id(), "in a part", file=told, flush=True)

for kind in ("Success", "Failure", "Error", "Skip", "ExpectedFailure", "UnexpectedSuccess"):
    setattr(Result, "add" + kind, lambda self, test, *why, kind=kind: print(test.id(), kind, file=told, flush=True))

def each(suite):
    for case in suite:
        if not isinstance(case, unittest.TestCase):
            yield from each(case)
        elif "VSOCK" not in case.id():  # which hangs in some virtual machines
            yield case

cases = unittest.TestSuite(each(cases))
gc.freeze()  # many a case collects all garbage, and would look at all that is here
cases.run(Result())
if "libautobuf-run.so" in open("/proc/self/maps").read():
    print("object", "Loaded", file=told, flush=True)
"""
AROUND = "ip link set lo up; exec \"$@\""


class Run:
    """Of some tests of Python's: their outcomes, by their names."""

    def __init__(self, names: list[str], *under: object) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.told = pathlib.Path(self.folder.name, "told")
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", AROUND, "sh", *map(str, under), PYTHON, "-c", RUNNER,
             str(self.told), *names], cwd=self.folder.name, env=clean(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True)

    def outcomes(self) -> tuple[dict[str, str], str]:
        """And what was said on standard error."""
        with self.folder, self.process:
            try:
                _, said = self.process.communicate(timeout=PATIENCE_S)
            finally:
                self.process.kill()
            told = self.told.read_text().splitlines() if self.told.exists() else []
            return dict(line.split(" ", 1) for line in told), said


@beside
class Python(unittest.TestCase):
    def setUp(self) -> None:
        if os.geteuid():
            self.skipTest("network namespaces are root's to make")
        if subprocess.run([PYTHON, "-c", "import test.test_socket"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("needs the package libpython3.*-testsuite")

    def compare(self, *names: str, least: int) -> None:
        wanted = list(names)
        for _ in range(TRIES):
            without, ours = Run(wanted), Run(wanted, COMMAND, "run", "--")
            (expected, why), (got, said) = without.outcomes(), ours.outcomes()
            self.assertEqual(got.pop("object", why + said), "Loaded")
            self.assertGreaterEqual(sum(how == "Success" for how in expected.values()), least, why)
            differ = {name: (expected.get(name), got.get(name)) for name in sorted(expected.keys() | got.keys())
                      if expected.get(name) != got.get(name)}
            if not differ:
                return
            wanted, least = [name for name in differ if name.startswith("test.")] or list(names), 0
        self.fail(f"without, and under autobuf run: {differ}\n{said[-2000:]}")

    def test_socket(self) -> None:
        self.compare("test.test_socket", least=400)

    def test_asyncio(self) -> None:
        self.compare(*(f"test.test_asyncio.test_{name}" for name in
                       ("base_events", "buffered_proto", "events", "sendfile", "server", "sock_lowlevel", "streams", "unix_events")),
                     least=500)


if __name__ == "__main__":
    sys.exit(run_tests(["ip", "setpriv", "unshare"], ["tools/autobuf", f"preload/{OBJECT}"]))
