# SPDX-License-Identifier: MIT
"""The builds of the project that are tested, and meson's tests in them, as TAP.

    tests/compiled.py [--set-up] gcc|sanitize|clang [ARGUMENT-OF-MESON-TEST...]

--set-up: the build is not there yet; what the tests need is built, with AUTOBUF_TESTS_ALL in the environment all.
"""
from __future__ import annotations

import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import NamedTuple, TextIO

HERE = pathlib.Path(__file__).resolve().parent.parent
TOP = pathlib.Path(os.environ.get("AUTOBUF_TESTS_TREE", HERE))
"""Where the tree is for everybody who builds in it, whatever tests/for_everybody has it seen as."""
ALL = "AUTOBUF_TESTS_ALL"
"""In the environment of tests: take the time to try everything."""
LANE = "AUTOBUF_TESTS_LANE"
"""In the environment of tests: "beside" others (net/at_once.py)."""


PLAIN = "-g -O0" if ALL in os.environ else "-O0"
"""Options for what others have written, OpenSSH for one. Names of source files, which -g keeps, are what valgrind's findings are known
by."""


class Build(NamedTuple):
    compiler: str
    suffix: str
    """Of the folder's name."""
    options: tuple[str, ...] = ()

    @property
    def folder(self) -> pathlib.Path:
        named = pathlib.Path(f"{os.environ.get('AUTOBUF_BUILD', HERE / 'build')}{self.suffix}")
        return TOP / named.relative_to(HERE) if named.is_relative_to(HERE) else named


BUILDS = {
    "gcc": Build("gcc", ""),
    "sanitize": Build("gcc", "-sanitize", ("-Doptimization=0", "-Db_sanitize=address,undefined")),
    "clang": Build("clang", "-clang"),
}


def logged(log: TextIO, *command: str | pathlib.Path, **environment: str) -> bool:
    return subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, env=os.environ | environment).returncode == 0


TAKEN: list[int] = []
"""Descriptors that hold the builds that this process uses."""


def take(folder: pathlib.Path) -> bool:
    """Whether nobody else uses a build; then nobody does until it is set up, and after that this process, to its end."""
    TAKEN.append(os.open(folder / ".taken", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
    try:
        fcntl.flock(TAKEN[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fcntl.flock(TAKEN[-1], fcntl.LOCK_SH)  # once the other one has set it up
        return False
    return True


def set_up(build: Build, everything: bool = True) -> str:
    """Sets a build up, and has it made; warnings are errors. Returns why it failed, or "".

    A folder that is there may have been set up for another purpose, and before packages came that are here now, so it is set up
    anew. What is compiled the same way stays. What is installed is used, or nothing: a part that is left out would take its tests
    along. ProFTPD is not installed, for its package starts a server: tests/patch builds the module beside one that is only unpacked.
    While another run uses the folder, it stays as that has set it up.
    """
    folder = build.folder
    folder.mkdir(parents=True, exist_ok=True)
    if not take(folder):
        return ""
    try:
        return set_up_anew(build, everything)
    finally:
        fcntl.flock(TAKEN[-1], fcntl.LOCK_SH)


def set_up_anew(build: Build, everything: bool) -> str:
    folder = build.folder
    (folder / "build.ninja").unlink(missing_ok=True)
    shutil.rmtree(folder / "meson-private", ignore_errors=True)
    proftpd = subprocess.run(["pkg-config", "--exists", "proftpd"]).returncode == 0
    compiler = f"ccache {build.compiler}" if shutil.which("ccache") else build.compiler
    with (folder / "compile.log").open("w+") as log:
        if not (logged(log, "meson", "setup", "-Dwerror=true", "-Dauto_features=enabled", *build.options,
                       f"-Dproftpd={'en' if proftpd else 'dis'}abled", folder, TOP, CC=compiler) and
                (not everything or logged(log, "ninja", "-C", folder, CCACHE_NOHASHDIR="1"))):
            log.seek(0)
            return log.read() or "it said nothing"
    return ""


def cases_of(said: str) -> list[tuple[str, str]]:
    """Verdict and name of each case of a TAP stream."""
    return re.findall(r"^(not ok|ok) \d+ *-? *(.*)$", said, re.M)


def run_meson(build: Build, args: list[str]) -> int:
    """Runs tests, whose programs are built first where they are not. Tells each case of each test once, by the test's name and its own."""
    patience = "10" if ALL in os.environ else "4"  # times 30 s, in which the slowest end here unless the machine is busy
    processes = str((os.cpu_count() or 1) + 1)  # the longest of them waits most of the time
    base = f"tests-{os.getpid()}"  # others may run in the same folder
    log = build.folder / "meson-logs" / f"{base}.json"
    done = subprocess.run(["meson", "test", "-C", build.folder, "--logbase", base, "-t", patience, "--num-processes", processes, *args],
                          env=os.environ | {"CMOCKA_MESSAGE_OUTPUT": "TAP", "CCACHE_NOHASHDIR": "1"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    told: list[tuple[str, str, str]] = []
    for line in log.read_text().splitlines() if log.is_file() else ():
        test = json.loads(line)
        name, said = test["name"].rpartition("/")[2].strip(), test.get("stdout", "")
        cases = cases_of(said)
        if test["result"] == "SKIP":
            cases = [("ok", f"# SKIP {' '.join(said.split())[-200:]}")]
        elif test["result"] == "OK":
            cases = cases or [("ok", f"# {test['duration']:.1f} s")]
        elif not any(verdict == "not ok" for verdict, _ in cases):
            cases.append(("not ok", test["result"]))
        told += [(name, verdict, text) for verdict, text in cases]
        if test["result"] not in ("OK", "SKIP"):
            print("\n".join(f"# {line}" for line in (said + test.get("stderr", "")).splitlines()[-100:]))
    failed = {name for name, verdict, _ in told if verdict != "ok"}
    if os.environ.get(LANE) == "beside":  # where others change this machine's limits meanwhile
        print("".join(f"# again: {name}\n" for name in sorted(failed)), end="")
        told = [one for one in told if one[0] not in failed]
    elif not told or (done.returncode and not failed):
        print("\n".join(f"# {line}" for line in done.stdout.splitlines()[-30:]))
        told.append(("meson", "not ok", f"test ended with {done.returncode}"))
    for number, (name, verdict, text) in enumerate(told, 1):
        print(f"{verdict} {number} - {name}: {text}")
    print(f"1..{len(told)}")
    return any(verdict != "ok" for _, verdict, _ in told)


def main() -> int:
    first, name, *args = sys.argv[1:] if sys.argv[1:2] == ["--set-up"] else ["", *sys.argv[1:]]
    if first and (failure := set_up(BUILDS[name], everything=ALL in os.environ)):
        print(f"1..1\nnot ok 1 - {name}: it cannot be set up")
        print("\n".join(f"# {line}" for line in failure.splitlines()[-100:]))
        return 1
    return run_meson(BUILDS[name], args)


if __name__ == "__main__":
    sys.exit(main())
