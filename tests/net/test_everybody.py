#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/for_everybody: other users get at a tree that lies in a private folder, and in a chroot it can mount. Prints TAP."""
from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from cases import run_tests  # noqa: E402

LOOK = ("sh", "-c", "pwd; echo \"$AUTOBUF_BUILD\"; "
        "setpriv --reuid=65534 --regid=65534 --clear-groups cat \"$AUTOBUF_BUILD/file\" \"$0/file\"")

IN_CHROOT = """
for name in /*; do
    if [ -L "$name" ]; then
        cp -P "$name" "$0$name"
    elif [ -d "$name" ]; then
        mkdir "$0$name"
        mount --rbind "$name" "$0$name"
    fi
done
touch "$0/in-it"
! chroot "$0" unshare --mount true 2>"$0/said" || echo "it is no such chroot"
exec chroot "$0" "$@"
"""
"""The root folder of this one is no mount."""


class Chroot(unittest.TestCase):
    def test_mounts_are_private_in_it(self) -> None:
        if os.geteuid():
            self.skipTest("mounts need root")
        before = pathlib.Path("/proc/mounts").read_text()
        with tempfile.TemporaryDirectory() as name:
            work = "mount -t tmpfs mine /mnt; unshare --mount mount -t tmpfs mine /srv; ls /in-it; grep -o '^mine /[a-z]* ' /proc/mounts"
            done = subprocess.run(["unshare", "--mount", "sh", "-ec", IN_CHROOT, name, HERE.parent / "own_root.py", "sh", "-c", work],
                                  capture_output=True, text=True)
            self.assertEqual((done.stdout, done.stderr), ("/in-it\nmine /mnt \n", ""))
        self.assertEqual(pathlib.Path("/proc/mounts").read_text(), before)


class Tree(unittest.TestCase):
    def setUp(self) -> None:
        if os.geteuid():
            self.skipTest("mounts need root")
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.top = self.folder / "a tree"
        (self.top / "tests").mkdir(parents=True)
        for name in ("run", "for_everybody", "own_root.py"):
            shutil.copy(HERE.parent / name, self.top / "tests")
        self.elsewhere = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.elsewhere.chmod(0o755)
        for where in (self.top / "build-tests", self.elsewhere):
            where.mkdir(exist_ok=True)
            (where / "file").write_text(f"{where.name}\n")

    def look(self, mode: int, **build: pathlib.Path) -> list[str]:
        self.folder.chmod(mode)
        env = {name: value for name, value in os.environ.items() if name != "AUTOBUF_BUILD"}
        done = subprocess.run([self.top / "tests" / "for_everybody", *LOOK, self.elsewhere], capture_output=True, text=True,
                              env=env | build, cwd="/")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def seen_at_srv(self) -> tuple[int, int] | None:
        """What is there: nothing, or the tree that these tests are of."""
        with contextlib.suppress(FileNotFoundError):
            found = os.stat("/srv/libautobuf")
            return found.st_dev, found.st_ino
        return None

    def test_where_everybody_is_let_in_nothing_is_moved(self) -> None:
        self.assertEqual(self.look(0o755), [str(self.top), f"{self.top}/build-tests", "build-tests", self.elsewhere.name])

    def test_in_a_private_folder_it_is_seen_at_srv(self) -> None:
        before = self.seen_at_srv()
        self.assertEqual(self.look(0o700), ["/srv/libautobuf", "/srv/libautobuf/build-tests", "build-tests", self.elsewhere.name])
        self.assertEqual(self.seen_at_srv(), before)

    def test_a_build_folder_elsewhere_stays_there(self) -> None:
        self.assertEqual(self.look(0o700, AUTOBUF_BUILD=self.elsewhere),
                         ["/srv/libautobuf", str(self.elsewhere), self.elsewhere.name, self.elsewhere.name])

    def test_the_pair_of_a_tree_that_is_seen_at_two_places(self) -> None:
        """The build was set up at one, and is run at the other."""
        script = 'mount --bind "$0" "$1"; "$0/scripts/amalgamate.py" "$0" "$2/bwdelay.c" "$2/bwdelay.h" "$1"/lib/*/*.c'
        found = []
        for place in (HERE.parents[1], self.top):
            done = subprocess.run(["unshare", "--mount", "sh", "-ec", script, HERE.parents[1], place, self.elsewhere],
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            found.append((self.elsewhere / "bwdelay.c").read_bytes())
        self.assertEqual(found[0], found[1])


if __name__ == "__main__":
    sys.exit(run_tests(("setpriv", "unshare", "mount"), on_path=False))
