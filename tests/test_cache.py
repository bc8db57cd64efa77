#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What is kept for another clone: once made it is there, if it is whole, and stays within its bound."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "net"))
sys.path.insert(0, str(HERE))

import cache  # noqa: E402
from cases import run_tests  # noqa: E402

USES = """
import sys
sys.path.insert(0, sys.argv[1])
import cache
cache.kept("used", "1", lambda place: None)
print("held", flush=True)
sys.stdin.read()
"""


class Cache(unittest.TestCase):
    def setUp(self) -> None:
        where = self.enterContext(tempfile.TemporaryDirectory())
        self.enterContext(mock.patch.dict(os.environ, {"AUTOBUF_CACHE": where}))
        self.enterContext(mock.patch.object(cache, "HELD", {}))
        self.addCleanup(lambda: [os.close(fd) for fd in cache.HELD.values()])
        self.made: list[pathlib.Path] = []

    def make(self, place: pathlib.Path) -> None:
        self.made.append(place)
        (place / "folder").mkdir()
        (place / "folder" / "file").write_bytes(bytes(100_000))
        (place / "link").symlink_to("folder/file")

    def kept(self, state: str = "1", kind: str = "kind") -> pathlib.Path:
        return cache.kept(kind, state, self.make)

    def test_what_is_whole_is_not_made_again(self) -> None:
        self.assertEqual(self.kept(), self.kept())
        self.kept("2")
        self.assertEqual(len(self.made), 2)

    def test_what_was_cut_or_changed_is_made_again(self) -> None:
        for harm in (lambda place: os.truncate(place / "folder" / "file", 10),
                     lambda place: (place / "folder" / "file").write_bytes(b"1" + bytes(99_999)),
                     lambda place: (place / "folder" / "file").unlink(),
                     lambda place: ((place / "link").unlink(), (place / "link").symlink_to("elsewhere")),
                     lambda place: (place / cache.FILES).unlink(),
                     lambda place: (place / cache.FILES).write_text("no list\n")):
            place = self.kept()
            count = len(self.made)
            harm(place)
            self.assertEqual(self.kept(), place)
            self.assertEqual(len(self.made), count + 1)
            self.assertEqual((place / "folder" / "file").read_bytes(), bytes(100_000))

    def test_what_its_programs_leave_there_does_no_harm(self) -> None:
        (self.kept() / "more").touch()
        self.kept()
        self.assertEqual(len(self.made), 1)

    def test_what_another_makes_may_vanish_meanwhile(self) -> None:
        place = self.kept()
        with mock.patch.object(cache.os, "walk", lambda _: [(str(place / "folder"), [], ["file", "gone"])]):
            self.assertGreater(cache.size(place), 0)

    def test_what_could_not_be_made_leaves_nothing(self) -> None:
        with self.assertRaises(ZeroDivisionError):
            cache.kept("kind", "1", lambda place: (self.make(place), 1 // 0))
        self.assertEqual([each for each in cache.folder().iterdir() if each.is_dir()], [])

    def test_over_its_bound_what_was_not_used_for_long_goes(self) -> None:
        places = [self.kept(state) for state in "123"]
        for age, place in enumerate(places):
            os.utime(place / cache.FILES, (1000 + age, 1000 + age))
        for fd in cache.HELD.values():
            os.close(fd)
        cache.HELD.clear()
        cache.shrink(places[0], most_bytes=2 * cache.size(places[0]))
        self.assertEqual([place.exists() for place in places], [True, False, True])

    def test_what_another_process_uses_stays(self) -> None:
        with subprocess.Popen([sys.executable, "-c", USES, HERE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
            self.assertEqual(user.stdout.readline(), b"held\n")
            place = cache.folder() / "used-1"
            cache.shrink(self.kept(), most_bytes=0)
            self.assertTrue(place.is_dir())
            user.stdin.close()
        cache.shrink(self.kept(), most_bytes=0)
        self.assertFalse(place.exists())

    def test_one_process_at_a_time_is_alone(self) -> None:
        def other() -> int:
            return subprocess.run(["flock", "--nonblock", cache.folder() / "what.lock", "true"]).returncode

        with cache.alone("what"):
            self.assertEqual(other(), 1)
        self.assertEqual(other(), 0)

    def test_a_digest_changes_with_texts_and_files(self) -> None:
        file = cache.folder() / "file"
        file.write_text("one")
        one = cache.digest(["a", "b"], [file])
        file.write_text("two")
        self.assertEqual(len({one, cache.digest(["a", "b"], [file]), cache.digest(["ab"], [file]), cache.digest(["a", "b"])}), 4)


if __name__ == "__main__":
    sys.exit(run_tests((), on_path=False))
