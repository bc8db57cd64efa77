#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Work beside tests: it gives way until it is waited for, and what it comes to is told."""
from __future__ import annotations

import contextlib
import io
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest
from collections.abc import Iterator
from unittest import mock

import aside as aside_module
import cases
from aside import BESIDE, LEAST_NICE, NAME, ROOTS, Aside, Group, IdleGroup, group

PATIENCE_S = 30


def is_idle(pid: int) -> bool:
    """Whether a process is in a group that gives way."""
    line, = (line for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines() if NAME in line)
    root, = (root for root in ROOTS if pathlib.Path(f"{root}/{line.split(':')[2]}/cpu.idle").exists())
    return pathlib.Path(f"{root}/{line.split(':')[2]}/cpu.idle").read_text() == "1\n"


def state() -> tuple[bool, int]:
    return is_idle(os.getpid()), os.getpriority(os.PRIO_PROCESS, 0)


def soon(is_so) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if is_so():
            return True
    return False


def groups() -> list[str]:
    return [name for root in ROOTS if root.exists() for name in os.listdir(root) if name.startswith(NAME)]


def with_child(begun: int) -> Iterator[bool]:
    """Whether this process and a child of it come to take part while they run."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
        began = is_idle(os.getpid()), is_idle(child.pid)
        os.close(begun)
        over = soon(lambda: not is_idle(os.getpid()) and not is_idle(child.pid))
        child.kill()
    yield began == (True, True) and over


def ended(aside: Aside) -> tuple[list, bool, str]:
    """What it has yielded, whether it came to its end, and what it said."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        return [*aside.results()], aside.end(), out.getvalue()


class Beside(unittest.TestCase):
    def setUp(self) -> None:
        self.before = groups()
        if not (made := group()):
            self.skipTest("no control group can be made here")
        made.close()
        self.folder = made.folder

    def test_a_group_breathes_until_it_takes_part(self) -> None:
        made = IdleGroup(self.folder, 0.01)
        self.addCleanup(made.close)
        idle = self.folder / "cpu.idle"
        for value in ("1\n", "0\n", "1\n", "0\n"):
            self.assertTrue(soon(lambda: idle.read_text() == value), value)
        made.give_way(False)
        self.assertTrue(soon(lambda: idle.read_text() == "0\n"))
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            self.assertEqual(idle.read_text(), "0\n")

    def test_a_group_goes_with_who_made_it(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number):
                reader, writer = os.pipe()
                maker = os.fork()
                if maker == 0:
                    try:
                        kept = Group(self.folder)
                        os.write(writer, b"made\n")
                        signal.pause()
                    finally:
                        os._exit(1)
                os.close(writer)
                with os.fdopen(reader) as told:
                    self.assertEqual(told.readline(), "made\n")
                self.assertTrue(self.folder.exists())
                os.kill(maker, number)
                os.waitpid(maker, 0)
                self.assertTrue(soon(lambda: not self.folder.exists()))

    def test_a_group_that_was_left(self) -> None:
        self.folder.mkdir()
        Group(self.folder).close()
        self.assertFalse(self.folder.exists())

    def test_it_gives_way(self) -> None:
        aside = Aside(lambda: iter([state()]))
        self.assertTrue(aside.reader.poll(PATIENCE_S))  # before anybody waits for it
        self.assertEqual(ended(aside)[0], [(True, LEAST_NICE)])
        self.assertEqual(groups(), self.before)

    def test_who_waits_for_it_has_it_take_part(self) -> None:
        reader, writer = os.pipe()
        aside = Aside(lambda: with_child(writer))
        os.close(writer)
        with os.fdopen(reader) as begun:
            self.assertEqual(begun.read(), "")
        self.assertEqual(ended(aside)[0], [True])

    def test_one_that_always_gives_way_does_so_then_too(self) -> None:
        reader, writer = os.pipe()

        def work() -> Iterator[object]:
            yield 1
            os.read(reader, 1)
            yield state()
        aside = Aside(work, always=True)
        results = aside.results()
        self.assertEqual(next(results), 1)
        os.write(writer, b"1")
        self.assertEqual(next(results), (True, LEAST_NICE))
        self.assertEqual(ended(aside)[1], True)

    def test_results_come_one_by_one(self) -> None:
        reader, writer = os.pipe()

        def work() -> Iterator[int]:
            yield 1
            os.read(reader, 1)
            yield 2
        aside = Aside(work)
        self.assertEqual(next(aside.results()), 1)  # while the other is waited for
        os.write(writer, b"1")
        self.assertEqual(ended(aside)[:2], ([2], True))

    def test_what_it_says_is_told_at_the_end(self) -> None:
        def work() -> Iterator[int]:
            print("said", flush=True)
            subprocess.run(["echo", "by a child"], check=True)
            yield 7
        self.assertEqual(ended(Aside(work)), ([7], True, "said\nby a child\n"))

    def test_work_that_fails(self) -> None:
        results, well, said = ended(Aside(lambda: iter([7]) if 1 // 0 else ()))
        self.assertEqual((results, well), ([], False))
        self.assertIn("ZeroDivisionError", said)

    def test_where_nothing_gives_way_it_begins_when_it_is_waited_for(self) -> None:
        with mock.patch.object(aside_module, "group", return_value=None):
            aside = Aside(lambda: iter([7]))
        self.assertIsNone(aside.process)
        self.assertEqual(ended(aside)[:2], ([7], True))

    def test_what_it_has_left_goes_too(self) -> None:
        def leaves() -> Iterator[int]:
            yield subprocess.Popen(["sleep", "1000"], start_new_session=True, stdout=subprocess.DEVNULL).pid
        (pid,), _, _ = ended(Aside(leaves))
        self.assertFalse(pathlib.Path(f"/proc/{pid}/exe").exists())
        self.assertEqual(groups(), self.before)

    def test_it_is_left(self) -> None:
        begins = time.monotonic()
        aside = Aside(lambda: iter([signal.pause()]))
        aside.leave()
        self.assertEqual(aside.process.exitcode, 1)
        self.assertLess(time.monotonic() - begins, PATIENCE_S)
        self.assertEqual(groups(), self.before)

    def test_it_goes_with_its_parent(self) -> None:
        reader, writer = os.pipe()
        parent = os.fork()
        if parent == 0:
            try:
                os.close(reader)
                os.write(writer, f"{Aside(lambda: iter([signal.pause()])).process.pid}\n".encode())
                signal.pause()
            finally:
                os._exit(1)
        os.close(writer)
        with os.fdopen(reader) as told:
            pid = int(told.readline())
            os.kill(parent, signal.SIGKILL)
            os.waitpid(parent, 0)
            self.assertEqual(told.read(), "")  # nobody holds it any more
        self.assertTrue(soon(lambda: not pathlib.Path(f"/proc/{pid}/exe").exists()))
        self.assertTrue(soon(lambda: groups() == self.before))


class Crowding(unittest.TestCase):
    def crowding(self, free_share: float) -> str:
        """Of 10 s in which processes waited all the time."""
        free_s = 10 * free_share * (os.cpu_count() or 1)
        with mock.patch.object(cases, "now_s", return_value=(110.0, 60.0, 1000.0 + free_s)):
            return cases.crowding((100.0, 50.0, 1000.0))

    def test_what_waits_counts(self) -> None:
        with mock.patch.dict(os.environ):
            os.environ.pop(BESIDE, None)
            self.assertIn("10.0 of 10.0 s", self.crowding(0.9))

    def test_beside_work_that_gives_way_what_is_left_counts(self) -> None:
        with mock.patch.dict(os.environ, {BESIDE: "1"}):
            self.assertEqual(self.crowding(0.2), "")
            self.assertIn("too busy", self.crowding(0.1))

    def test_what_is_left_grows_with_the_time(self) -> None:
        began_s, before_s = time.monotonic(), cases.left_s()
        self.assertTrue(soon(lambda: cases.left_s() > before_s))
        self.assertLess(cases.left_s() - before_s, (time.monotonic() - began_s + 1) * (os.cpu_count() or 1))


if __name__ == "__main__":
    sys.exit(cases.run_tests((), on_path=False))
