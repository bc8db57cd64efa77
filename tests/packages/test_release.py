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

from roots import TOP, Root, of_build

from cases import run_tests, thorough  # the folder is on the path by now

PLACES = {"meson.build": r"(?<=  version: ')\d+", "include/autobuf/error.h": r"(?<=VERSION_MINOR )\d+",
          "debian/changelog": r"(?<=libautobuf \()\d+", "packaging/rpm/libautobuf.spec": r"(?<=Version:        )\d+",
          "python/autobuf/_library.py": r'(?<=^VERSION = ")\d+', "CHANGELOG.md": r"(?<=## \[)\d+",
          "docs/man/autobuf_live.3": r'(?<="libautobuf )\d+'}
"""Where a version is said, and what of it is to be changed."""
VERSION = re.search(r"^  version: '(.*)',", (TOP / "meson.build").read_text(), re.M)[1]
TARBALL = f"libautobuf-{VERSION}.tar.xz"
SUITES = ("bookworm", "trixie")
FILES = {TARBALL, "libautobuf.wrap", "notes.md", "bwdelay.c", "bwdelay.h", "autobuf.c", "autobuf.h", "SHA256SUMS"}


class Tree(unittest.TestCase):
    """A clone of the project, with what is not committed yet."""

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


class Release(Tree):
    def test_a_version_that_does_not_agree_is_named(self) -> None:
        done = self.release("--check")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name, what in PLACES.items():
            with self.subTest(name):
                file = self.tree / name
                text = file.read_text()
                changed = re.sub(what, "77", text, count=1, flags=re.M)
                self.assertNotEqual(changed, text)
                file.write_text(changed)
                done = self.release("--check")
                self.assertEqual(done.returncode, 1)
                self.assertIn("says", done.stderr)
                self.assertRegex(done.stderr, r"\b77\.\d+\.\d+" if "MINOR" not in what else r"\b\d+\.77\.\d+")
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

    def test_one_place_wins(self) -> None:
        file = self.tree / "meson.build"
        file.write_text(file.read_text().replace(f"version: '{VERSION}'", "version: '7.8.9'"))
        before = {name: (self.tree / name).read_text() for name in PLACES}
        done = self.release("--set")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        written = {name for name, text in before.items() if (self.tree / name).read_text() != text}
        self.assertEqual(written, set(PLACES) - {"meson.build", "debian/changelog", "CHANGELOG.md"})
        self.assertIn("#define AUTOBUF_VERSION_MINOR 8\n", (self.tree / "include/autobuf/error.h").read_text())
        self.assertIn(f"debian/changelog says {VERSION}, meson.build 7.8.9", self.release("--check").stderr)

    @thorough
    def test_a_draft_builds_and_can_be_used(self) -> None:
        out = self.folder / "out"
        made = []
        for _ in range(2):
            done = self.release("--draft", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("gpg --armor --detach-sign", done.stdout)
            made.append({file.name: file.read_bytes() for file in out.iterdir()})
        self.assertEqual(set(made[0]), FILES)
        self.assertEqual(made[0], made[1])
        done = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=out, capture_output=True, text=True)
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, len(FILES) - 1), done.stderr)
        notes = made[0]["notes.md"].decode()
        self.assertTrue(notes.startswith(f"## [{VERSION}] - "), notes[:80])
        self.assertEqual(notes.count("\n## ["), 0)
        for pair in ("bwdelay", "autobuf"):
            subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", out / f"{pair}.c"], check=True)

        user = self.folder / "user"
        shutil.copytree(TOP / "tests" / "outside" / "subproject", user)
        shutil.copy(TOP / "tests" / "outside" / "outside.c", user)
        (user / "subprojects" / "packagefiles").mkdir(parents=True)
        shutil.copy(out / "libautobuf.wrap", user / "subprojects")
        shutil.copy(out / TARBALL, user / "subprojects" / "packagefiles")
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


class Installed(Tree):
    """All of its files, from bare roots of each release of Debian that it has packages for."""

    @thorough
    def test_installed_from(self) -> None:
        if os.geteuid():
            self.skipTest("roots are root's to make")
        out = self.folder / "out"
        done = self.release("--draft", out, *SUITES)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for suite in SUITES:
            with self.subTest(suite), Root(suite=suite, shares={"/release": out}) as root:
                root.sh(f"cd /release && sha256sum --check --strict --quiet SHA256SUMS && cd {suite} && "
                        "apt-get -qq install --no-install-recommends ./autobuf_*.deb ./autobufd_*.deb ./libautobuf0_*.deb gcc libc6-dev >/dev/null")
                self.assertEqual(root.well("autobuf", "--version"), f"autobuf {VERSION}\n")
                self.assertIn("tcp_wmem", root.well("autobuf", "explain", "--as-user", "--rate", "400M", "--rtt", "100"))
                root.well("autobufd", "--check")
                root.sh("cp /src/tests/pair/pair.c /release/*.[ch] /tmp && cd /tmp && cc pair.c bwdelay.c -o pair && ./pair || [ $? = 77 ]")
                self.made_again(root)

    def made_again(self, root: Root) -> None:
        """The pairs, from the tarball, with what README.md names for building."""
        needs = re.search(r"apt install (gcc .*)", (TOP / "README.md").read_text())[1]
        root.sh(f"apt-get -qq install --no-install-recommends {needs} >/dev/null; cd /tmp; tar -xf /release/{TARBALL}; "
                "cd libautobuf-*; meson setup build >/dev/null; ninja -C build amalgamation >/dev/null; "
                "for file in bwdelay.c bwdelay.h autobuf.c autobuf.h; do cmp build/$file /release/$file; done")


if __name__ == "__main__":
    os.environ.pop("DESTDIR", None)
    sys.exit(run_tests(("git", "meson", "ninja", "xz"), on_path=False))
