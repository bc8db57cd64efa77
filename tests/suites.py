# SPDX-License-Identifier: MIT
"""Runs every suite that tests/run has built, and counts."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "kernels"), str(HERE / "net")]

import packages  # noqa: E402
from aside import BESIDE, Aside  # noqa: E402
from cases import WHOLE  # noqa: E402

BUILD = pathlib.Path(os.environ["AUTOBUF_BUILD"])

SANITIZED_TOOL_SUITES = ("test_probe.py",)
LONGEST = "writers"
"""Of the suites of tests/kernels: on a kernel that has it, it takes as long as all others."""
TIMELESS = ("drift", "settings", "source")
"""Scripts of tests/patch that look neither at the time nor at an emulated path."""

SILENT_S, SILENT_ALL_S = 3 * 3600, 24 * 3600
"""A script that tells of no case for so long hangs. Nobody has more patience than tests/kernels/run with a machine: 40 minutes,
and 16 hours with all cases."""
GRACE_S = 60
"""For one that is told to end."""

WITH_PARENT = ("setpriv", "--pdeathsig", "TERM")

ALL = "AUTOBUF_TESTS_ALL"
"""In the environment of tests: take the time to try everything."""


class Count:
    def __init__(self) -> None:
        self.passed = 0
        self.failed: list[str] = []
        self.skipped: list[str] = []

    def add(self, others: Count) -> None:
        self.passed += others.passed
        self.failed += others.failed
        self.skipped += others.skipped


def count_tap(output: str, label: str, count: Count) -> int:
    """Counts the cases of a TAP stream; returns how many there were."""
    cases = re.findall(r"^(not ok|ok) \d+ *-? *(.*)$", output, re.M)
    for verdict, text in cases:
        if re.search("# skip", text, re.I):
            count.skipped.append(f"{label}: {text}")
        elif verdict == "ok":
            count.passed += 1
        else:
            count.failed.append(f"{label}: {text}")
    return len(cases)


def run_meson(build: pathlib.Path, label: str, count: Count, *args: str) -> None:
    """The tests that meson knows of, in one build folder."""
    patience = "10" if ALL in os.environ else "4"  # times 30 s, in which the slowest end here unless the machine is busy
    processes = str((os.cpu_count() or 1) + 1)  # the longest of them waits most of the time
    log = build / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    failed_before = len(count.failed)
    done = subprocess.run(["meson", "test", "-C", str(build), "--no-rebuild", "--print-errorlogs", "-t", patience,
                           "--num-processes", processes, *args],
                          env=os.environ | {"CMOCKA_MESSAGE_OUTPUT": "TAP"}, check=False)
    for line in log.read_text().splitlines() if log.is_file() else ():
        test = json.loads(line)
        name, failures = f"{label}: {test['name']}", len(count.failed)
        if test["result"] == "SKIP":
            count.skipped.append(f"{name}: {test.get('stdout', '').strip()[-200:]}")
            continue
        cases = count_tap(test.get("stdout", ""), name, count)
        if test["result"] == "OK":
            count.passed += cases == 0
        elif len(count.failed) == failures:
            count.failed.append(f"{name}: {test['result']}")
    if not log.is_file() or (done.returncode and len(count.failed) == failed_before):
        count.failed.append(f"{label}: meson test ended with {done.returncode}")


class Script:
    """A file of cases, which prints TAP, while it runs. It ends with this process."""

    def __init__(self, script: pathlib.Path, build: pathlib.Path, label: str, *args: str) -> None:
        self.label = label
        self.began = time.monotonic()
        self.said = tempfile.TemporaryFile("w+")
        argv = [*WITH_PARENT, sys.executable, str(script), *args]
        self.process = subprocess.Popen(argv, stdout=self.said, stderr=subprocess.STDOUT,
                                        env=os.environ | {"AUTOBUF_BUILD": str(build)})

    def wait(self) -> int | None:
        """Its exit status; None: it told nothing for too long, and was ended."""
        silent_s, told = SILENT_ALL_S if ALL in os.environ else SILENT_S, -1
        while told != (told := os.fstat(self.said.fileno()).st_size):
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.process.wait(silent_s)
        self.process.terminate()
        try:
            self.process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return None

    def end(self, count: Count) -> None:
        status, failures, skips = self.wait(), len(count.failed), len(count.skipped)
        self.said.seek(0)
        said = self.said.read()
        print(f"\n--- {self.label}, {time.monotonic() - self.began:.0f} s\n{said}", flush=True)
        if status == 77:
            count.skipped.append(f"{self.label}: {said.strip()[-200:]}")
            return
        cases, plans = count_tap(said, self.label, count), [int(number) for number in re.findall(r"^1\.\.(\d+)", said, re.M)]
        if status is None:
            count.failed.append(f"{self.label}: hung: it told nothing more, and was ended")
        if len(count.failed) > failures:
            return
        if status:
            count.failed.append(f"{self.label}: exit status {status}")
        elif not plans or (cases != sum(plans) and len(count.skipped) == skips):  # a class that is skipped tells one case
            count.failed.append(f"{self.label}: {cases} cases, planned: {plans}")


def run_script(script: pathlib.Path, build: pathlib.Path, label: str, count: Count) -> None:
    Script(script, build, label).end(count)


def machines() -> dict[str, list[str]]:
    """What runs at once of tests/kernels: the quick kernels, each in machines by itself; all of them in turn."""
    if ALL in os.environ:
        return {"kernels": []}
    names = [want.name for want in packages.wanted().values() if want.quick]
    return ({f"kernels: {name}, {LONGEST}": ["--kernel", name, LONGEST] for name in names} |
            {f"kernels: {name}": ["--kernel", name, "--without", LONGEST] for name in names})


def scripts(folder: str, names: Sequence[str] = ()) -> list[pathlib.Path]:
    """Those of a folder of tests: these, or all."""
    return [script for script in sorted((HERE / folder).glob("test_*.py"))
            if not names or script.stem.removeprefix("test_") in names]


def run_kernels() -> Count:
    """In virtual time: that the others come first makes it longer, and nothing else."""
    count = Count()
    for kernel in [Script(HERE / "kernels" / "run", BUILD, label, *args) for label, args in machines().items()]:
        kernel.end(count)
    return count


def run_timeless() -> Count:
    """What looks neither at the time nor at an emulated path: builds, and tests of what was built."""
    count = Count()
    subprocess.run([*WITH_PARENT, sys.executable, str(HERE / "patch" / "made.py")], check=False)
    for script in scripts("patch", TIMELESS):
        run_script(script, BUILD, f"patch: {script.stem.removeprefix('test_')}", count)
    return count


def end_aside(aside: Aside, label: str, count: Count) -> None:
    counted = aside.end()
    if counted is None:
        count.failed.append(f"{label}: ended before they were over")
    else:
        count.add(counted)


def run_on_paths(count: Count) -> None:
    """One at a time, and packages first. What looks at no time takes what they leave of the processors."""
    timeless = Aside(run_timeless)
    if timeless.group:
        os.environ[BESIDE] = "1"
    for script in scripts("packages"):  # whose build runs unit tests
        run_script(script, BUILD, f"packages: {script.stem.removeprefix('test_')}", count)
    for script in scripts("net"):
        run_script(script, BUILD, f"net: {script.stem}", count)
        if script.name in SANITIZED_TOOL_SUITES:
            run_script(script, pathlib.Path(f"{BUILD}-sanitize"), f"net, sanitized: {script.stem}", count)
    for script in scripts("python"):
        run_script(script, BUILD, f"python: {script.stem.removeprefix('test_')}", count)
    end_aside(timeless, "builds", count)  # the others try what was built
    kernels = Aside(run_kernels)  # not sooner: they would take as much as the builds, which are waited for here
    for script in scripts("patch"):
        if script.stem.removeprefix("test_") not in TIMELESS:
            run_script(script, BUILD, f"patch: {script.stem.removeprefix('test_')}", count)
    os.environ.pop(BESIDE, None)
    end_aside(kernels, "kernels", count)
    run_script(HERE / "kernels" / "test_faults.py", BUILD, "kernels: faults", count)


def main() -> int:
    count = Count()
    os.environ[WHOLE] = "1"
    if sys.argv[1:] == ["--all"]:
        os.environ[ALL] = "1"
    run_meson(BUILD, "unit", count)
    run_meson(pathlib.Path(f"{BUILD}-sanitize"), "sanitized", count, "--no-suite", "source")
    run_on_paths(count)
    if ALL in os.environ:
        run_script(HERE / "cross" / "run", BUILD, "cross", count)
    for name in count.skipped:
        print(f"skipped: {name}")
    for name in count.failed:
        print(f"failed: {name}")
    print(f"{count.passed} passed, {len(count.failed)} failed, {len(count.skipped)} skipped")
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
