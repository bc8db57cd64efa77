# SPDX-License-Identifier: MIT
"""Runs suites of tests that tests/run has named, and counts.

A suite is a command that prints TAP. What looks at the time has the machine for itself, one suite after the other; all else runs
beside it, and takes what it leaves of the processors (net/aside.py), also those cases of a file that say nothing of time
(net/at_once.py). The tiers, and what each suite proves: README.md.
"""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "kernels"), str(HERE / "net")]

import cache  # noqa: E402
import packages  # noqa: E402
from aside import BESIDE, Aside  # noqa: E402
from at_once import LANE  # noqa: E402
from cases import WHOLE  # noqa: E402
from compiled import ALL, BUILDS, cases_of, set_up  # noqa: E402
from path import machine_lock  # noqa: E402

TOP = HERE.parent
BUILD = os.environ["AUTOBUF_BUILD"]
SILENT_S, SILENT_ALL_S = 1800, 24 * 3600
"""A suite that tells of no case for so long hangs. Nobody has more patience than tests/kernels/run with a machine."""
GRACE_S = 60
"""For one that is told to end."""
WITH_PARENT = ("setpriv", "--pdeathsig", "TERM")
WORKERS = os.cpu_count() or 1
SLOWEST = 10

MADE_OF = ("include", "lib", "tools", "preload", "examples", "meson.build", "meson_options.txt", "tests/net", "tests/*.py")
"""What every suite tries, or needs. Of others also their own folder, and the rest of the tree where MORE names it."""
MORE = {"patch": ("openssh-patch", "ncftp-patch", "wuftp-patch", "libssh2-patch", "curl-patch", "proftpd-module", "scripts",
                  "tests/packages"),
        "packages": ("debian", "packaging", "completions", "docs", "python", "proftpd-module", "scripts"),
        "python": ("python", "tests/fuzz"), "net": ("python",), "kernels": ("tests/zoo", "tests/unit"),
        "cross": ("tests/unit", "tests/sim", "tests/fuzz", "tests/pair"),
        "compiled": ("tests", "docs", "python", "completions", "scripts", "debian", "packaging", "CONTRIBUTING.md", "README.md", "openssh-patch",
                     "ncftp-patch", "wuftp-patch", "libssh2-patch", "curl-patch", "proftpd-module")}


def with_imported(script: pathlib.Path) -> set[pathlib.Path]:
    """A script of tests, and those that it imports, at any depth."""
    found, unread = set(), [script]
    while unread:
        found.add(script := unread.pop())
        unread += {script.with_name(f"{name}.py") for name in re.findall(r"^(?:import|from) (test_\w+)", script.read_text(), re.M)} - found
    return found


class Suite(NamedTuple):
    name: str
    argv: tuple[str | pathlib.Path, ...]
    every: bool = True
    """tests/run has it; otherwise only tests/run --all."""
    aside: bool = False
    """It looks neither at the time nor at an emulated path that others would disturb."""
    build: str = "gcc"
    folder: str = "compiled"
    lane: str = ""
    """Of its cases: LANE."""

    def digest(self) -> str:
        """Of all that it tries, and of this system's kernel. Scenes of other suites are left out."""
        names = (*MADE_OF, *MORE.get(self.folder, ()), f"tests/{self.folder}")
        files = {file for name in names for place in TOP.glob(name)
                 for file in ([place] if place.is_file() else place.rglob("*"))
                 if file.is_file() and "__pycache__" not in file.parts}
        if self.folder != "compiled":
            script = pathlib.Path(self.argv[1])
            files -= set((TOP / "tests" / "net").glob("test_*.py")) - (with_imported(script) if script.exists() else set())
        return cache.digest([self.name, os.uname().release, self.lane, *map(str, self.argv)], files)

    @property
    def waits(self) -> bool:
        """Most of the time: its scenes are on paths, or it runs programs that wait for each other."""
        return self.folder == "net" or (bool(self.lane) and self.folder != "compiled")

    def is_named(self, word: str) -> bool:
        """By its folder, or its file."""
        return word in (self.folder, self.file, self.name)

    @property
    def file(self) -> str:
        return self.name.partition(",")[0]

    @property
    def record(self) -> pathlib.Path:
        """Of how it ended when it passed."""
        return BUILDS["gcc"].folder / "passed" / f"{self.name.replace('/', '-')}.json"


APART = ("compiled", "cross", "kernels", "run")
"""Folders whose suites leave this machine's network alone, and need not wait until another run has done with it."""
BUILT_ASIDE = {"patch": "patch/made", "sanitize": "sanitized"}
"""Suites that build what others try: those of a folder, or of a build."""
ASIDE = ("net/everybody", "net/at_once", "patch/drift", "patch/source", "patch/wuftpd", "patch/regress", "patch/packages")
"""Files that are aside as a whole."""
LONG = ("net/run_programs", "python/path", "patch/clients", "patch/drift", "patch/packages", "patch/regress", "packages/rpm", "net/bench")
"""Only tests/run --all has them."""


def releases() -> list[str]:
    """Of OpenSSH that there are patches for."""
    return sorted(re.findall(r"^version: (\S+)", (TOP / "openssh-patch" / "UPSTREAM").read_text(), re.M))


def scripts(folder: str, aside: bool = False) -> Iterator[Suite]:
    """A file of which some cases may run beside others is two suites; one that takes an hour is one for each release."""
    for script in sorted((HERE / folder).glob("test_*.py")):
        name = f"{folder}/{script.stem.removeprefix('test_')}"
        suite = Suite(name, (sys.executable, script), name not in LONG, aside or name in ASIDE, folder=folder)
        if name == "patch/regress":
            yield from (suite._replace(name=f"{name},{each}", argv=(*suite.argv, each.replace(".", "_"))) for each in releases())
        elif suite.aside or "@beside" not in script.read_text():
            yield suite
        else:
            yield suite._replace(lane="alone")
            yield suite._replace(name=f"{name},beside", aside=True, lane="beside")


def compiled(name: str, *args: str, **kw) -> Suite:
    return Suite(name, (sys.executable, HERE / "compiled.py", *args), **kw)


def suites() -> list[Suite]:
    """All, in the order in which they begin: what takes longest is the first of those aside."""
    kernels = (sys.executable, HERE / "kernels" / "run")
    return [
        compiled("unit", "gcc"),
        Suite("patch/made", (sys.executable, HERE / "patch" / "made.py"), aside=True, folder="patch"),
        Suite("kernels", kernels, aside=True, folder="kernels"),
        compiled("sanitized", "--set-up", "sanitize", "--no-suite", "source",
                 *(() if ALL in os.environ else ("--suite", "unit", "--suite", "fuzz", "--no-suite", "slow")), aside=True, lane="beside"),
        *scripts("packages", aside=True),
        compiled("outside", "gcc", "--suite", "outside", aside=True),
        compiled("pair", "gcc", "--suite", "pair", every=False, aside=True),
        compiled("threads", "gcc", "--suite", "threads", every=False, aside=True),
        compiled("clang", "--set-up", "clang", every=False, aside=True),
        *scripts("python", aside=True),
        *(Suite(f"run/{name}", (sys.executable, HERE / f"test_{name}.py"), aside=True, folder="run") for name in ("cache", "suites")),
        *scripts("net"),
        Suite("sanitized/probe", (sys.executable, HERE / "net" / "test_probe.py"), every=False, build="sanitize", folder="net"),
        *scripts("patch"),
        Suite("kernels/faults", (sys.executable, HERE / "kernels" / "test_faults.py"), folder="kernels"),
        *(Suite(f"kernels/{name}", (*kernels, "--share", "--kernel", name), every=False, aside=True, folder="kernels") for name in packages.wanted()),
        Suite("cross", (sys.executable, HERE / "cross" / "run"), every=False, aside=True, folder="cross"),
    ]


class Count:
    def __init__(self) -> None:
        self.passed = 0
        self.failed: list[str] = []
        self.skipped: list[str] = []

    def add(self, others: Count) -> None:
        self.passed += others.passed
        self.failed += others.failed
        self.skipped += others.skipped

    def add_tap(self, said: str, label: str) -> int:
        """The cases of a TAP stream; returns how many there were."""
        cases = cases_of(said)
        for verdict, text in cases:
            if re.search("# skip", text, re.I):
                self.skipped.append(f"{label}: {text}")
            elif verdict == "ok":
                self.passed += 1
            else:
                self.failed.append(f"{label}: {text}")
        return len(cases)


class Report(NamedTuple):
    name: str
    count: Count
    took_s: float
    cpu_s: float = 0.0
    """Of the processors' time."""
    again: tuple[str, ...] = ()
    """Cases that are to be run once more, with the machine for themselves."""


class Run:
    """A suite while it runs. It ends with this process."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.began = time.monotonic()
        self.cpu_s = 0.0
        self.said = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([*WITH_PARENT, *suite.argv], stdin=subprocess.DEVNULL, stdout=self.said, stderr=subprocess.STDOUT,
                                        env=os.environ | {"AUTOBUF_BUILD": BUILD + BUILDS[suite.build].suffix, LANE: suite.lane})

    def ended(self, patience_s: float) -> bool:
        """Whether it has, within that time; then it is known how much of the processors it took."""
        with contextlib.closing(os.fdopen(os.pidfd_open(self.process.pid))) as pidfd:
            if not select.select([pidfd], [], [], patience_s)[0]:
                return False
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_s = used.ru_utime + used.ru_stime
        return True

    def wait(self) -> int | None:
        """Its exit status; None: it told nothing for too long, and was ended."""
        silent_s, told = SILENT_ALL_S if ALL in os.environ else SILENT_S, -1
        while told != (told := os.fstat(self.said.fileno()).st_size):
            if self.ended(silent_s):
                return self.process.returncode
        self.process.terminate()
        if not self.ended(GRACE_S):
            self.process.kill()
            self.ended(GRACE_S)
        return None

    def end(self) -> Report:
        """What it came to."""
        count, label, status = Count(), self.suite.name, self.wait()
        took_s = time.monotonic() - self.began
        with self.said:
            self.said.seek(0)
            said = self.said.read()
        print(f"\n--- {label}, {took_s:.0f} s, of processors {self.cpu_s:.0f} s\n{said}", flush=True)
        report = Report(label, count, took_s, self.cpu_s, tuple(re.findall(r"^# again: (\S+)$", said, re.M)))
        if status == 77:
            count.skipped.append(f"{label}: {said.strip()[-200:]}")
            return report
        cases, plans = count.add_tap(said, label), [int(number) for number in re.findall(r"^1\.\.(\d+)", said, re.M)]
        if status is None:
            count.failed.append(f"{label}: hung: it told nothing more, and was ended")
        if not count.failed:
            if status:
                count.failed.append(f"{label}: exit status {status}")
            elif not plans or (cases != sum(plans) and not count.skipped):  # a class that is skipped tells one case
                count.failed.append(f"{label}: {cases} cases, planned: {plans}")
        return report


def run(suite: Suite) -> Report:
    """Runs a suite; of all, one that has passed on the same tree is not run again."""
    digest = suite.digest()
    with contextlib.suppress(OSError, ValueError):
        kept = json.loads(suite.record.read_text()) if ALL in os.environ else {}
        if kept.get("digest") == digest:
            count = Count()
            count.passed, count.skipped = kept["passed"], kept["skipped"]
            print(f"\n--- {suite.name}: passed on this tree before, {kept['took_s']:.0f} s", flush=True)
            return Report(suite.name, count, 0.0)
    report = Run(suite).end()
    if not report.again:
        keep(suite, report.count, digest, report.took_s)
    return report


def keep(suite: Suite, count: Count, digest: str, took_s: float) -> None:
    """Of all: that it has passed. What was only skipped has not: what it lacked may come."""
    if ALL in os.environ and count.passed and not count.failed:
        suite.record.parent.mkdir(exist_ok=True)
        suite.record.write_text(json.dumps({"digest": digest, "passed": count.passed, "skipped": count.skipped, "took_s": took_s}))


def run_aside(chosen: Sequence[Suite]) -> Iterator[Report]:
    """Scenes on paths, which wait most of the time, run beside what keeps processors busy."""
    with ThreadPoolExecutor(max_workers=WORKERS) as busy, ThreadPoolExecutor(max_workers=WORKERS) as waiting:
        for done in as_completed([(waiting if suite.waits else busy).submit(run, suite) for suite in chosen]):
            yield done.result()


class Lanes:
    """Suites that have the machine for themselves, in turn, and beside them the others."""

    def __init__(self, chosen: Sequence[Suite]) -> None:
        self.chosen = chosen
        self.reports: list[Report] = []
        self.left = [suite.name for suite in chosen]
        """Those that have not ended yet."""
        self.aside: Aside | None = None

    @property
    def are_apart(self) -> bool:
        return all(suite.folder in APART for suite in self.chosen)

    def run(self) -> None:
        beside = [suite for suite in self.chosen if suite.aside]
        self.aside = Aside(lambda: run_aside(beside), always=self.are_apart) if beside else None
        if self.aside and self.aside.group:
            os.environ[BESIDE] = "1"
        for suite in self.chosen:
            if not suite.aside:
                if needed := {BUILT_ASIDE.get(suite.folder), BUILT_ASIDE.get(suite.build)} & set(self.left):
                    self.wait_for(needed)
                self.note(run(suite))
        if self.aside:
            for report in self.aside.results():
                self.note(report)
            self.aside.end()
        os.environ.pop(BESIDE, None)
        names = {suite.name: suite for suite in self.chosen}
        for report in [report for report in self.reports if report.again]:
            suite, both = names[report.name], Count()
            self.reports.append(Run(suite._replace(name=f"{report.name},again", argv=(*suite.argv, *report.again), lane="")).end())
            both.add(report.count)
            both.add(self.reports[-1].count)
            keep(suite, both, suite.digest(), report.took_s)

    def note(self, report: Report) -> None:
        self.reports.append(report)
        self.left.remove(report.name)

    def wait_for(self, names: set[str]) -> None:
        """Until these have ended, which run aside."""
        for report in self.aside.results():
            self.note(report)
            if not names & set(self.left):
                return


def chosen_of(words: Sequence[str]) -> list[Suite]:
    """The suites that are wanted: by name, by folder, or those of the tier."""
    known = suites()
    wrong = [word for word in words if not any(suite.is_named(word) for suite in known)]
    if wrong:
        print(f"run: no suite {wrong[0]}; there are: {' '.join(suite.name for suite in known if suite.lane != 'beside')}", file=sys.stderr)
        sys.exit(2)
    if words:
        return [suite for suite in known if {suite.file, suite.name} & set(words) or
                ((suite.every or ALL in os.environ) and any(suite.is_named(word) for word in words))]
    return [suite for suite in known if (suite.name != "kernels" if ALL in os.environ else suite.every)]


def tell(reports: Sequence[Report], left: Sequence[str], took_s: float) -> int:
    """The report of a run; returns its exit status."""
    count = Count()
    for report in reports:
        count.add(report.count)
    count.failed += [f"{name}: did not come to its end" for name in left]
    for name in count.skipped:
        print(f"skipped: {name}")
    for name in count.failed:
        print(f"failed: {name}")
    slowest = sorted(reports, key=lambda report: -report.took_s)[:SLOWEST]
    print("the slowest, in seconds (of processors):", ", ".join(f"{report.name} {report.took_s:.0f} ({report.cpu_s:.0f})" for report in slowest))
    print(f"{took_s:.0f} s in all, {sum(report.cpu_s for report in reports):.0f} s of processors")
    print(f"{count.passed} passed, {len(count.failed)} failed, {len(count.skipped)} skipped")
    return 1 if count.failed else 0


def main() -> int:
    began = time.monotonic()
    lanes = Lanes(chosen_of(sys.argv[1:]))
    os.environ[WHOLE] = "1"
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        print("--- build", flush=True)
        if failure := set_up(BUILDS["gcc"]):
            print(f"{failure}\n0 passed, 1 failed, 0 skipped")
            return 1
        print(f"{time.monotonic() - began:.0f} s", flush=True)
        with contextlib.nullcontext() if lanes.are_apart else machine_lock():
            lanes.run()
    except KeyboardInterrupt:
        if lanes.aside:
            lanes.aside.leave()
        print(f"run: interrupted; did not come to their end: {', '.join(lanes.left)}", file=sys.stderr)
        return 130
    return tell(lanes.reports, lanes.left, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
