# SPDX-License-Identifier: MIT
"""The project's RPMs, made by Debian's rpmbuild: installed into a root, used, upgraded, removed."""
from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from roots import HERE, TOP, Root, digest, kept, of_build, release

from cases import run_tests  # the folder is on the path by now
from path import build_folder

BUILD = TOP / "packaging" / "build"
SPEC = TOP / "packaging" / "rpm" / "libautobuf.spec"
FOLDER = build_folder() / "packages" / f"{HERE}-rpm"


class Spec(unittest.TestCase):
    def test_it_can_be_read(self) -> None:
        names = subprocess.run(["rpmspec", "--query", "--queryformat", "%{name} %{version}\\n", SPEC],
                               capture_output=True, text=True, check=True).stdout.splitlines()
        version = re.search(r"version: '(.*)'", (TOP / "meson.build").read_text())[1]
        self.assertEqual({name for name in names if "debug" not in name},
                         {f"{name} {version}" for name in ("libautobuf", "libautobuf-devel", "autobuf", "python3-autobuf")})


class Made(unittest.TestCase):
    """In a bare root, where nothing is but what packaging/build installs."""

    def setUp(self) -> None:
        if os.geteuid():
            self.skipTest("roots are root's to make")
        parts = [file for name in ("completions", "docs", "include", "lib", "preload", "python", "tools") for file in (TOP / name).rglob("*")]
        state = digest(SPEC, BUILD, TOP / "meson.build", TOP / "meson_options.txt", *(file for file in parts if file.is_file()))
        files = kept(FOLDER, state, lambda: subprocess.run([BUILD, "rpm", FOLDER], capture_output=True, text=True, env=of_build()))
        self.made = {re.match(r"(.*)-\d[^-]*-[^-]*$", file.stem)[1]: file for file in files
                     if file.suffix == ".rpm" and not file.stem.endswith(".src") and "debug" not in file.stem}
        self.root = self.enterContext(Root(suite=release(), shares={"/packages": FOLDER}))
        self.root.sh("apt-get -qq install --no-install-recommends rpm libcap2 libcap2-bin gcc libc6-dev >/dev/null")

    def rpm(self, *args: object) -> str:
        """Debian's rpm knows nothing of what dpkg has installed."""
        return self.root.well("rpm", "--nodeps", "--force-debian", *args)

    def test_installed_used_upgraded_removed(self) -> None:
        root, files = self.root, [f"/packages/{file.name}" for file in self.made.values()]
        self.assertEqual(set(self.made), {"libautobuf", "libautobuf-devel", "autobuf", "python3-autobuf"})
        python = f"rpm --query --list --package /packages/{self.made['python3-autobuf'].name} | sed -n 's,/autobuf$,,p'"
        root.sh(f"mkdir -p /usr/share/licenses $({python})")  # of the packages filesystem and python3, where RPM is at home
        before = [name for name in root.files() if "/rpm" not in name]
        self.rpm("--install", *files)
        self.used()
        self.rpm("--upgrade", "--force", *files)
        self.used()
        self.rpm("--erase", *self.made)
        left = [name for name in root.files() if "/rpm" not in name]
        self.assertEqual((set(left) - set(before), set(before) - set(left)), (set(), set()))

    def used(self) -> None:
        """As an engineer and as a programmer would."""
        root = self.root
        self.assertIn("tcp_wmem", root.sh("LD_LIBRARY_PATH=/usr/lib64 autobuf explain --as-user --rate 400M --rtt 100"))
        root.sh("cd /tmp; cc -o oneshot /src/examples/oneshot.c -L/usr/lib64 -lautobuf; "
                "AUTOBUF=off LD_LIBRARY_PATH=/usr/lib64 ./oneshot 127.0.0.1 2>&1 | grep -q AUTOBUF=off; rm oneshot")
        self.assertEqual(root.sh("find /etc/systemd -name '*autobuf*'"), "")

    def test_what_they_need(self) -> None:
        def needs(name: str) -> str:
            return self.root.well("rpm", "--query", "--requires", "--package", f"/packages/{self.made[name].name}")
        version = subprocess.run(["rpmspec", "--query", "--srpm", "--queryformat", "%{version}-%{release}", SPEC],
                                 capture_output=True, text=True, check=True).stdout
        self.assertRegex(needs("libautobuf-devel"), rf"(?m)^libautobuf\S* = {re.escape(version)}$")
        self.assertNotIn("libautobuf.so", needs("autobuf"))


class Whole(unittest.TestCase):
    def test_build_leaves_nothing_behind(self) -> None:
        """Neither mounts nor files, nor anything below the folder but packages."""
        if os.geteuid():
            self.skipTest("installs Debian, as root: tests/run --all")
        mounts = pathlib.Path("/proc/mounts").read_text()
        with tempfile.TemporaryDirectory() as name:
            subprocess.run([BUILD, "deb", "--suite", release(), name], check=True, capture_output=True)
            self.assertEqual({file.suffix for file in pathlib.Path(name).iterdir()},
                             {".deb", ".dsc", ".xz", ".changes", ".buildinfo"})
        self.assertEqual(pathlib.Path("/proc/mounts").read_text(), mounts)


if __name__ == "__main__":
    sys.exit(run_tests(("rpm", "rpmspec", "debootstrap"), on_path=False))
