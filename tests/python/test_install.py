#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Python package as pip installs it, and what mypy says. Prints TAP; exits 0, or 1 if a test failed.

Both are Debian's: nothing is fetched.
"""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import binding  # first: it says where the package is
from cases import run_tests

PYTHON, MYPY = "/usr/bin/python3", "/usr/bin/mypy"


def run(*command: object, **kw) -> subprocess.CompletedProcess:
    return subprocess.run(list(map(str, command)), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, **kw)


class Installed(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="autobuf-python.")))
        # A build writes into its source.
        self.source = self.folder / "source"
        shutil.copytree(binding.PACKAGE, self.source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}

    def good(self, *command: object) -> str:
        done = run(*command, env=self.env, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_pip_install(self) -> None:
        needed = run(PYTHON, "-c", "import ensurepip, setuptools, venv, wheel", env=self.env)
        if needed.returncode:
            self.skipTest(f"{PYTHON}: {needed.stdout.strip().splitlines()[-1]}")
        python = self.folder / "venv/bin/python"
        self.good(PYTHON, "-m", "venv", "--system-site-packages", self.folder / "venv")
        self.good(python, "-m", "pip", "install", "--no-index", "--no-build-isolation", self.source)
        shown = self.good(python, "-m", "pip", "show", "--files", "autobuf")
        files = re.findall(r"(?m)^  (autobuf/[\w.]+)$", shown)
        self.assertEqual(sorted(files), sorted(f"autobuf/{file.name}" for file in
                                               (binding.PACKAGE / "autobuf").iterdir() if file.is_file()))
        self.assertEqual(set(re.findall(r"(?m)^  [./]+/bin/([\w-]+)$", shown)), {"autobuf-paths-import", "autobuf-import-wad"})
        rules = self.folder / "wad.conf"
        rules.write_text("[a]\nmode: 2\n")
        self.assertEqual(self.good(self.folder / "venv/bin/autobuf-import-wad", rules), "[a]\nmode=path\n")
        version = re.search(r"(?m)^Version: (.*)$", shown)
        self.assertEqual(self.good(python, "-c", "import autobuf; print(autobuf.__version__, autobuf.__file__)"),
                         f"{version and version.group(1)} {self.folder}/venv/lib/{self.library(python)}\n")

    def library(self, python: pathlib.Path) -> str:
        name = self.good(python, "-c", "import sys; print('python%d.%d' % sys.version_info[:2])").strip()
        return f"{name}/site-packages/autobuf/__init__.py"


@unittest.skipUnless(os.path.exists(MYPY), "no mypy")
class Typed(unittest.TestCase):
    def check(self, *arguments: object) -> subprocess.CompletedProcess:
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="autobuf-python."))
        return run(MYPY, "--strict", "--python-version", "3.10", "--cache-dir", folder, *arguments, cwd=binding.PACKAGE,
                   env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"})

    def test_package_and_examples(self) -> None:
        done = self.check("--disable-error-code", "import", "autobuf", *sorted((binding.PACKAGE / "examples").glob("*.py")))
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_what_a_program_may_pass(self) -> None:
        right = ["autobuf.tune(sock, ('::1', 1), intent=autobuf.Intent.SENDS)", "autobuf.Flow(3, 'host', log=print)",
                 "autobuf.Flow(sock, path=autobuf.Path())", "autobuf.probe('host', timeout_ns=1).tx_bdp_bytes or 0 + 1"]
        wrong = ["autobuf.tune(sock, expected=1)", "autobuf.tune(sock, log=3)", "autobuf.Flow('host')", "autobuf.probe(1)",
                 "autobuf.probe('host').rtt_min_ns + 1", "autobuf.RightSize().step()"]
        program = ["import socket, autobuf", "sock = socket.socket()", *right, *wrong]
        done = self.check("-c", "\n".join(program))
        told = {program[int(line) - 1] for line in re.findall(r"(?m)^<string>:(\d+): error: ", done.stdout)}
        self.assertEqual(told, set(wrong), done.stdout)


if __name__ == "__main__":
    sys.exit(run_tests((), on_path=False))
