# SPDX-License-Identifier: MIT
"""scripts/release, in a clone: versions that agree, the same tarball each time, one that builds, a wrap that is used."""
from __future__ import annotations

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from roots import TOP, of_build

from cases import run_tests, thorough  # the folder is on the path by now

PLACES = {"meson.build": r"(?<=  version: ')0", "include/autobuf/error.h": r"(?<=VERSION_MINOR )1",
          "debian/changelog": r"(?<=libautobuf \()0", "packaging/rpm/libautobuf.spec": r"(?<=Version:        )0",
          "python/autobuf/_library.py": r'(?<=^VERSION = ")0', "CHANGELOG.md": r"(?<=## \[)0",
          "docs/man/autobuf_live.3": r'(?<="libautobuf )0'}
"""Where a version is said, and what of it is to be changed."""


class Release(unittest.TestCase):
    def setUp(self) -> None:
        if not (TOP / ".git").exists():
            self.skipTest("not a clone")
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.tree = self.folder / "tree"
        self.git("clone", "--quiet", TOP, self.tree)
        # What is not committed yet is tested too.
        for name in self.git("-C", TOP, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
            if name and (TOP / name).is_file():
                (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(TOP / name, self.tree / name)
        self.commit("what is here")

    def git(self, *args: object) -> str:
        return subprocess.run(["git", *args], capture_output=True, text=True, check=True).stdout

    def commit(self, why: str) -> None:
        self.git("-C", self.tree, "add", "--all")
        self.git("-C", self.tree, "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet",
                 "--allow-empty", "-m", why)

    def release(self, *args: object) -> subprocess.CompletedProcess:
        return subprocess.run([self.tree / "scripts" / "release", *args], capture_output=True, text=True, env=of_build())

    def test_a_version_that_does_not_agree_is_named(self) -> None:
        done = self.release("--check")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name, what in PLACES.items():
            with self.subTest(name):
                file = self.tree / name
                text = file.read_text()
                changed = re.sub(what, "7", text, count=1, flags=re.M)
                self.assertNotEqual(changed, text)
                file.write_text(changed)
                done = self.release("--check")
                self.assertEqual(done.returncode, 1)
                self.assertIn("says", done.stderr)
                self.assertIn("7.1.0" if "MINOR" not in what else "0.7.0", done.stderr)
                file.write_text(text)

    def test_what_is_not_ready_is_refused(self) -> None:
        out = self.folder / "out"
        changes = self.tree / "CHANGELOG.md"
        changes.write_text(re.sub(r"(## \[\S+\] - ).*", r"\1Unreleased", changes.read_text(), count=1))
        self.assertIn("where the day of", self.release(out).stderr)
        changes.write_text(changes.read_text().replace("] - Unreleased", "] - 2026-11-22", 1))
        debian = self.tree / "debian" / "changelog"
        debian.write_text(re.sub(r"\) \w+;", ") UNRELEASED;", debian.read_text(), count=1))
        self.assertIn("UNRELEASED", self.release(out).stderr)
        debian.write_text(debian.read_text().replace("UNRELEASED", "unstable", 1))
        self.assertIn("not committed", self.release(out).stderr)
        self.assertEqual(self.release().returncode, 2)
        self.assertEqual(self.release("--other", out).returncode, 2)
        self.assertFalse(any(out.iterdir()) if out.exists() else False)

    @thorough
    def test_a_draft_builds_and_can_be_used(self) -> None:
        version = re.search(r"version: '(.*)'", (TOP / "meson.build").read_text())[1]
        tarball = f"libautobuf-{version}.tar.xz"
        sums = []
        for _ in range(2):
            out = self.folder / "out"
            done = self.release("--draft", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("gpg --armor --detach-sign", done.stdout)
            sums.append(hashlib.sha256((out / tarball).read_bytes()).hexdigest())
        self.assertEqual(sums[0], sums[1])
        self.assertEqual((out / f"{tarball}.sha256").read_text(), f"{sums[0]}  {tarball}\n")

        user = self.folder / "user"
        shutil.copytree(TOP / "tests" / "outside" / "subproject", user)
        shutil.copy(TOP / "tests" / "outside" / "outside.c", user)
        (user / "subprojects" / "packagefiles").mkdir(parents=True)
        shutil.copy(out / "libautobuf.wrap", user / "subprojects")
        shutil.copy(out / tarball, user / "subprojects" / "packagefiles")
        for command in (["meson", "setup", "--wrap-mode=forcefallback", user / "build", user],
                        ["ninja", "-C", user / "build"], [user / "build" / "outside"]):
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @thorough
    def test_a_tarball_that_fails_its_tests_is_no_release(self) -> None:
        test = self.tree / "tests" / "unit" / "meson.build"
        test.write_text(test.read_text() + "\ntest('fails', find_program('false'), suite: 'unit')\n")
        self.commit("a test that fails")
        out = self.folder / "out"
        self.assertIn("tests failed", self.release("--draft", out).stderr)
        self.assertEqual(list(out.iterdir()), [])


if __name__ == "__main__":
    os.environ.pop("DESTDIR", None)
    sys.exit(run_tests(("git", "meson", "ninja", "xz"), on_path=False))
