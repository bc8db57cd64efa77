# SPDX-License-Identifier: MIT
"""What the tests on the emulated path share: their base class, and a main() that prints TAP."""
from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NoReturn

import aside
import path
from at_once import LANE, Again, may, run_beside
from path import Broken, Path, TooLate, built, machine_lock, unavailable


LATE_NS = 300_000
STALL_NS = 3_000_000
"""An emulator that released packets this late, or polled this seldom, was kept from its core: a path is then not what a
test takes it for. On a quiet machine these are 15 to 130 microseconds, and below 1 ms."""
WAITED_SHARE = 0.25
"""Of a test's time, in which some process waited for a processor: those that are tested wait, too, wherever the emulator is.
On a quiet machine it is below 0.1."""
LEFT_SHARE = 0.15
"""Of all processors' time, left for what gives way to all other (aside.py). On a quiet machine it is 0.35 to 0.9, but for what the
kernel does for such work."""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
"""In which the kernel counts the time of processors."""
TRIES = 3
ALL = "AUTOBUF_TESTS_ALL"
"""In the environment of tests: take the time to try everything."""
WHOLE = "AUTOBUF_TESTS_WHOLE"
"""In the environment of tests: all was built, so that what is missing has failed."""


# Runs a program in which the system call of number argv[1] fails with EPERM.
REFUSED = """
import ctypes, os, struct, sys
code = [(0x20, 0, 0, 0), (0x15, 0, 1, int(sys.argv[1])), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7fff0000)]
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, struct.pack("HxxxxxxQ", len(code), ctypes.addressof(text))) == 0
os.execvp(sys.argv[2], sys.argv[2:])
"""


def waited_s() -> float:
    """How long some process of this machine has waited for a processor, since it was started; nan: the kernel does not say."""
    try:
        said = pathlib.Path("/proc/pressure/cpu").read_text()
    except OSError:
        return math.nan
    return int(said.split("total=")[1].split()[0]) / 1e6


def left_s() -> float:
    """For how long some processor had nothing to do, or only work that gives way to all other (aside.py), in all. What the kernel did for
    such work is not in it."""
    _, _, nice, _, idle, waits, *_ = pathlib.Path("/proc/stat").read_text().split(maxsplit=6)
    return (int(nice) + int(idle) + int(waits)) * TICK_S


def now_s() -> tuple[float, float, float]:
    """The time, waited_s() and left_s()."""
    return time.monotonic(), waited_s(), left_s()


def crowding(began: tuple[float, float, float]) -> str:
    """How long processes have waited for others since then, if that was too much."""
    took_s, waits_s, free_s = (now - then for now, then in zip(now_s(), began))
    if aside.BESIDE in os.environ:  # what gives way waits all the time
        processors = os.cpu_count() or 1
        processors_s = took_s * processors
        if free_s + processors * TICK_S >= LEFT_SHARE * processors_s:
            return ""
        return f"of {processors_s:.1f} s of all processors, {free_s:.1f} s were left: this machine is too busy"
    if math.isnan(waits_s):
        return "others ran beside it, and the kernel does not say who waited for whom" if path.has_company else ""
    if waits_s <= WAITED_SHARE * took_s:
        return ""
    return f"processes waited {waits_s:.1f} of {took_s:.1f} s for a processor: this machine is too busy"


def thorough(cases: type | Callable) -> type | Callable:
    """Of a class, or of a single case: it is tried by tests/run --all, and when it is asked for by name. What it finds besides what the
    others of its file find is rare; tests/README.md tells which of them holds the promise in each run."""
    cases.thorough = True
    return cases


def is_thorough(case: unittest.TestCase) -> bool:
    return getattr(getattr(case, case._testMethodName), "thorough", getattr(case, "thorough", False))


def some(first, *others) -> tuple:
    """Values of a parameter that a case goes through: all of them in tests/run --all, otherwise the first."""
    return (first, *others) if ALL in os.environ else (first,)


class Untimely(AssertionError):
    """A figure is off, or something took too long."""


IN_VAIN = (TooLate, TimeoutError, subprocess.TimeoutExpired)
"""What had not come after many seconds. An emulator that was late by some milliseconds does not explain it, but one on a machine where
processes wait for others does."""
UNTIMELY = (Untimely, *IN_VAIN)
"""Failures that lateness can explain."""


def of_figures(assertion: Callable[..., None]) -> Callable[..., None]:
    """An assertion of unittest's that compares: between numbers, its failure is Untimely."""
    @functools.wraps(assertion)
    def compare(self: unittest.TestCase, first: object, *args, **kw) -> None:
        try:
            assertion(self, first, *args, **kw)
        except AssertionError as error:
            if isinstance(first, (int, float)):
                raise Untimely(*error.args) from None
            raise
    return compare


class PathTest(unittest.TestCase):
    """A test that fails while the emulator was too late, or while processes waited for others, is run again. What fails each
    time has failed. There is one exception: if the emulator was late to the end, and the last failure is one of UNTIMELY, the
    test is skipped, unless it says nothing of time (@beside).

    What must always hold, however late, is tested in virtual time (tests/sim) or without a path.
    """

    def __init_subclass__(cls, **kw) -> None:
        super().__init_subclass__(**kw)
        for name, method in list(vars(cls).items()):
            if name.startswith("test_") and callable(method):
                setattr(cls, name, on_time(method))

    @classmethod
    def setUpClass(cls) -> None:
        cls.enterClassContext(machine_lock())

    def setUp(self) -> None:
        Path.made.clear()

    def path(self, *args, **kw) -> Path:
        return self.enterContext(Path(*args, **kw))

    def lateness(self) -> str:
        """By how much a path of this test was late, if that was too much."""
        for path in Path.made:
            late_ns, stall_ns = path.lateness_ns()
            if late_ns > LATE_NS or stall_ns > STALL_NS:
                return (f"the emulator was late by {late_ns / 1e6:.1f} ms, and did not poll for {stall_ns / 1e6:.1f} ms: "
                        "this machine is too busy")
        return ""

    @contextlib.contextmanager
    def subTest(self, *args, **kw) -> Iterator[None]:
        """As unittest's, but that a failure ends the test, which then may be run again."""
        try:
            yield
        except Exception as error:
            error.add_note(f"in {' '.join(map(str, args))} {kw}")
            raise

    def echoes(self, path: Path, side: str = "a") -> int:
        """Echo requests that a side has sent, of both families."""
        text = path.run(side, ["cat", "/proc/net/snmp", "/proc/net/snmp6"]).stdout
        names, values = [line.split() for line in text.splitlines() if line.startswith("Icmp:")]
        count = int(values[names.index("OutEchos")])
        found = re.search(r"(?m)^Icmp6OutEchos\s+(\d+)", text)
        return count + (int(found.group(1)) if found else 0)

    assertLess = of_figures(unittest.TestCase.assertLess)
    assertLessEqual = of_figures(unittest.TestCase.assertLessEqual)
    assertGreater = of_figures(unittest.TestCase.assertGreater)
    assertGreaterEqual = of_figures(unittest.TestCase.assertGreaterEqual)
    assertAlmostEqual = of_figures(unittest.TestCase.assertAlmostEqual)

    def untimely(self, what: str) -> NoReturn:
        """As fail(), where a figure is off or something took too long."""
        raise Untimely(what)

    def near(self, got: float, want: float, share: float, what: str) -> None:
        if not abs(got - want) <= share * want:
            self.untimely(f"{what}: {got:.6g}, expected {want:.6g} within {share:.0%}")

    def between(self, got: float, low: float, high: float, what: str) -> None:
        if not low <= got <= high:
            self.untimely(f"{what}: {got:.6g}, expected {low:.6g} to {high:.6g}")


def on_time(method):
    """The test, run again where it failed on a path that was late, or while processes waited for others."""
    @functools.wraps(method)
    def run(self: PathTest) -> None:
        for tries in range(1, TRIES + 1):
            began = now_s()
            try:
                return method(self)
            except unittest.SkipTest:
                raise
            except Exception as error:  # what was not there in time may be anything: an empty answer is no number
                late, crowded = self.lateness(), crowding(began)
                busy = late or crowded
                excused = late and (crowded or not isinstance(error, IN_VAIN)) and isinstance(error, UNTIMELY) and not may(self)
                if not busy or (tries == TRIES and not excused):
                    raise
                failed = " ".join([*str(error).split("\n")[:1], *getattr(error, "__notes__", [])])
                if path.has_company:
                    print(f"# {self.id()}: once more, by itself: {busy}: {failed}", flush=True)
                    raise Again(Again.__name__) from None
                if tries == TRIES:
                    self.skipTest(f"{late}; tried {TRIES} times, at last: {failed}")
            print(f"# {self.id()}: once more: {busy}: {failed}", flush=True)
            self.tearDown()
            self.doCleanups()
            self.setUp()
    return run


class Tap(unittest.TextTestResult):
    def __init__(self) -> None:
        super().__init__(unittest.runner._WritelnDecorator(sys.stderr), False, 0)
        self.subtests: list[str] = []
        self.began: float | None = None
        """When the present test did; None: outside of any, where a class fails as a whole."""

    def startTest(self, test) -> None:
        self.began = time.monotonic()
        super().startTest(test)

    def say(self, test: unittest.TestCase, verdict: str, more: str = "") -> None:
        name = test.id().removeprefix("__main__.")
        took_s = time.monotonic() - self.began if self.began is not None else 0.0
        print(f"{verdict} {self.testsRun} - {name}{more or (f' # {took_s:.0f} s' if took_s > 1 else '')}", flush=True)

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
        self.began = None
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


def flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """The cases of a suite, and of those in it."""
    for part in suite:
        yield from flat(part) if isinstance(part, unittest.TestSuite) else (part,)


KEEPER = "import shutil, sys; sys.stdin.buffer.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"


@contextlib.contextmanager
def own_folder() -> Iterator[None]:
    """What tests make in the temporary folder is made in one of its own, which is removed also when this process is killed."""
    folder = tempfile.mkdtemp(prefix="autobuf-tests.")
    os.chmod(folder, 0o1777)
    keeper = subprocess.Popen([sys.executable, "-I", "-c", KEEPER, folder], stdin=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, start_new_session=True)
    before, tempfile.tempdir = tempfile.tempdir, folder
    try:
        yield
    finally:
        tempfile.tempdir = before
        keeper.stdin.close()
        keeper.wait()


def run_tests(tools: Sequence[str], files: Sequence[str] = (), on_path: bool = True,
              shared: Iterable[Callable[[], object]] = ()) -> int:
    """The tests of the main module, if the tools are installed, the files built and, on_path, a path can be made.

    shared make what cases that run beside each other must not make at once; of what fails the cases tell.

    0, 1 when a test failed, 77 when nothing could be tried. Arguments select the tests whose names
    contain one of them; without any, thorough ones are left out.
    """
    missing = [name for name in tools if not shutil.which(name)]
    unbuilt = [name for name in files if not os.path.exists(built(name))]
    reason, failure = f"not installed: {', '.join(missing)}" if missing else "", ""
    if unbuilt and not reason:
        reason = f"not built: {', '.join(unbuilt)}"
        failure = reason if WHOLE in os.environ else ""
    elif on_path and not reason:
        try:
            reason = unavailable()
        except Broken as error:
            failure = str(error)
    if failure:
        print(f"1..1\nnot ok 1 - what the cases need\n# {failure}")
        return 1
    if reason:
        print(f"1..0 # SKIP {reason}")
        return 77
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{word}*" for word in sys.argv[1:]] or None
    cases = list(flat(loader.loadTestsFromModule(sys.modules["__main__"])))
    if not sys.argv[1:] and ALL not in os.environ:
        every, cases = len(cases), [case for case in cases if not is_thorough(case)]
        print(f"# {len(cases)} of {every} cases; the others: tests/run --all")
    lane = os.environ.pop(LANE, "")  # of this file, not of what it starts
    if lane:
        cases = [case for case in cases if may(case) == (lane == "beside")]
    result = Tap()
    with own_folder(), machine_lock() if on_path else contextlib.nullcontext():
        for make in shared if cases else ():
            with contextlib.suppress(Exception, unittest.SkipTest):
                make()
        again = run_beside(filter(may, cases), result, Tap, lane == "beside")
        if lane == "beside":
            for case in again:
                print(f"# again: {case.id().removeprefix('__main__.')}")
            cases = [case for case in cases if case not in again]
        else:
            unittest.TestSuite([*again, *itertools.filterfalse(may, cases)]).run(result)
    print(f"1..{len(cases)}", flush=True)
    return 0 if result.wasSuccessful() else 1
