#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What tests/kernels/run makes of a host without QEMU or room, of a kernel that does not start, and of one that hangs.

Prints TAP. Exits with 1 if a case failed, 77 if nothing could be tried.
"""
from __future__ import annotations

import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(1, str(HERE.parent))

import machine  # noqa: E402
import packages  # noqa: E402
from case import BUILD  # noqa: E402
from suites import SUITES  # noqa: E402
from tap import Tap  # noqa: E402

NAME = "newest"
SHORT_S = 60
"""More than a machine needs to start."""


def run(*args: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, HERE / "run", "--kernel", NAME, *args], capture_output=True, text=True,
                          env=os.environ | environment)


def left(pid: int) -> list[str]:
    """Machines of a process, and their files; others may run theirs beside."""
    job = BUILD / "kernels" / f"job-{pid}"
    found = subprocess.run(["pgrep", "-af", machine.QEMU], capture_output=True, text=True).stdout
    return [line for line in found.splitlines() if f"{job}/" in line] + [str(job)] * job.exists()


def children_s() -> float:
    """What processes that have ended took of the processors."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def failure(kernel: packages.Kernel, text: str, patience_s: float) -> str:
    """Why a job failed."""
    try:
        said = machine.boot(kernel, BUILD, text, BUILD / "kernel-fault.log", patience_s=patience_s)
    except machine.Failed as error:
        return str(error)
    raise AssertionError(f"it did not fail: {said[-200:]}")


def check(holds: object, what: str) -> None:
    if not holds:
        raise AssertionError(what)


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SHORT_S
    while not holds():
        check(time.monotonic() < deadline, what)
        time.sleep(0.1)


def names_of_cases(kernel: packages.Kernel) -> None:
    """Of each suite and kernel: each stands once."""
    for want in packages.wanted().values():
        one = kernel if want.name == NAME else kernel._replace(version=want.version)
        for suite, cases in SUITES.items():
            for quick in (False, True):
                names = [case.name for case in cases(one, quick)]
                check(len(names) == len(set(names)), f"{want.name}: {suite}: {sorted(names)}")


def no_qemu(_: packages.Kernel) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in machine.PROGRAMS:
            pathlib.Path(folder, name).symlink_to(shutil.which(name))
        done = run(PATH=folder)
    check(done.returncode == 0 and f"# SKIP no {machine.QEMU}" in done.stdout, done.stdout + done.stderr)
    check(done.stdout.endswith("0 passed, 0 failed, 1 skipped\n"), done.stdout)


def no_such_kernel(_: packages.Kernel) -> None:
    """One whose suite no archive has."""
    try:
        packages.fetch(packages.Wanted("none", "0.1", ("nowhere",), False))
    except (packages.Missing, subprocess.CalledProcessError):
        return
    raise AssertionError("there was one")


def no_room(kernel: packages.Kernel) -> None:
    """A build folder whose file system is full."""
    with tempfile.TemporaryDirectory() as folder:
        script = f"""mount -t tmpfs -o size=1m none {folder} && ln -s {BUILD}/tools {BUILD}/examples {BUILD}/tests {folder} &&
ln -s {BUILD}/lib {folder} && mkdir -p {folder}/kernels && ln -s {BUILD}/kernels/kernels {folder}/kernels/kernels &&
AUTOBUF_BUILD={folder} exec {sys.executable} {HERE / "run"} --kernel {NAME} host"""
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True)
    check(done.returncode == 1 and "No space left on device" in done.stdout, done.stdout[-600:] + done.stderr[-600:])
    check("Traceback" not in done.stderr, done.stderr[-600:])


def no_kernel(kernel: packages.Kernel) -> None:
    """An image that is none, and one that is cut off."""
    with tempfile.TemporaryDirectory() as folder:
        copy = kernel._replace(folder=pathlib.Path(folder))
        copy.folder.joinpath("lib").symlink_to(kernel.folder / "lib")
        image = (kernel.folder / "vmlinuz").read_bytes()
        for content in (b"no kernel\n", image[:len(image) // 2]):
            copy.folder.joinpath("vmlinuz").write_bytes(content)
            said = failure(copy, "echo never", SHORT_S)
            check(said.startswith(f"{kernel.version}: "), said)


def hangs(kernel: packages.Kernel) -> None:
    begin_s = children_s()
    said = failure(kernel, "echo here; while :; do :; done", SHORT_S)
    check(f"not at its end after {SHORT_S} s of a processor's time" in said, said)
    check(children_s() - begin_s < 2 * SHORT_S, "it took too long")
    check(not left(os.getpid()), f"left: {left(os.getpid())}")


def is_killed(kernel: packages.Kernel) -> None:
    """What a killed run leaves goes with it, or at the beginning of the next one."""
    process = subprocess.Popen([sys.executable, HERE / "run", "--kernel", NAME, "host"], stdout=subprocess.DEVNULL)
    wait_until(lambda: len(left(process.pid)) == 2, "it did not start")
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: len(left(process.pid)) == 1, "its machine runs")
    check(machine.boot(kernel, BUILD, "echo here", BUILD / "kernel-fault.log") == "here\n", "the next one")
    check(not left(process.pid), f"left: {left(process.pid)}")


QUICK: tuple[Callable[[packages.Kernel], None], ...] = (names_of_cases, no_qemu, no_such_kernel, no_room)
SLOW: tuple[Callable[[packages.Kernel], None], ...] = (no_kernel, hangs, is_killed)


def main() -> int:
    if machine.missing():
        print(f"1..0 # SKIP {machine.missing()}")
        return 77
    try:
        kernel = packages.fetch(packages.wanted()[NAME])
    except (packages.Missing, OSError, subprocess.CalledProcessError) as error:
        print(f"1..0 # SKIP {error}")
        return 77
    tap = Tap()
    for case in QUICK + SLOW:
        if case in SLOW and "AUTOBUF_TESTS_ALL" not in os.environ:
            tap.tell(case.__name__, skip="takes minutes: tests/run --all")
            continue
        try:
            case(kernel)
            tap.tell(case.__name__)
        except AssertionError as error:
            tap.tell(case.__name__, str(error) or "?")
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
