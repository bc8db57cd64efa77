# SPDX-License-Identifier: MIT
"""scp and sftp with the patches: what they ask an SFTP server, and in how many round trips.

No path is needed: a real sftp-server answers, and sftp_between.py counts round trips and plays servers of other kinds.
"""
from __future__ import annotations

import functools
import hashlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import unittest
from collections.abc import Callable, Sequence
from typing import NamedTuple

from openssh import VERSIONS, prefix

from at_once import beside  # the folder is on the path by now
from cases import run_tests, some, thorough
from place import MemoryFolder, left_by_killed

NEWEST = os.environ.get("AUTOBUF_OPENSSH", VERSIONS[-1])
TESTED = some(*VERSIONS[::-1])
"""In each run the newest."""
BETWEEN = pathlib.Path(__file__).parent / "sftp_between.py"
ODD = ("a b", "-dash", "star*", "que?ry", "[set]", "back\\slash", "new\nline", "\xfc\u4e16", "'quote\"", "~tilde",
       "semi;colon")
HANDLE, WRITES = 102, 2
"""Type of an answer; flag of OPEN."""


def fill(folder: pathlib.Path, files: dict[str, int]) -> None:
    """Files of so many bytes, each with its own."""
    for name, size in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        word = hashlib.sha256(name.encode(errors="surrogateescape")).digest()
        file.write_bytes((word * (size // 32 + 1))[:size])


def many(count: int) -> dict[str, int]:
    return {f"{i:04}": 1024 * (i % 16) + i % 2 for i in range(count)}


class Run(NamedTuple):
    code: int
    said: list[str]
    """Lines, in any order."""
    rounds: list[dict]
    tree: dict[str, tuple]
    """Of both sides: kind and mode; time, if it is not that of the transfer; what is in it."""

    def asked(self) -> list[list]:
        return [request for line in self.rounds for request in line["asked"]]

    def types(self) -> list[list[str]]:
        return [[request[0] for request in line["asked"]] for line in self.rounds]

    def changes(self) -> list[list]:
        """The requests that could change something on the server, and did not fail as an opening of a folder does."""
        return sorted(request for line in self.rounds for request, answer in zip(line["asked"], line["answers"])
                      if request[0] in ("WRITE", "SETSTAT", "FSETSTAT", "REMOVE", "MKDIR", "RMDIR", "RENAME", "SYMLINK")
                      or request[0] == "OPEN" and request[2] & WRITES and answer == HANDLE)


class Scene(NamedTuple):
    name: str
    there: dict[str, int]
    here: dict[str, int]
    argv: tuple[str, ...]
    more: Callable[[pathlib.Path, pathlib.Path], None] = lambda here, there: None


def links(here: pathlib.Path, there: pathlib.Path) -> None:
    for side in (here, there):
        (side / "d" / "to file").symlink_to("a")
        (side / "d" / "to folder").symlink_to("e")
        (side / "d" / "to nothing").symlink_to("nothing")


def times(here: pathlib.Path, there: pathlib.Path) -> None:
    for side in (here, there):
        for i, file in enumerate(sorted(side.rglob("*"))):
            os.chmod(file, 0o755 if file.is_dir() else (0o640, 0o600, 0o755, 0o444)[i % 4])
            os.utime(file, (1_000_000_000 + i, 1_100_000_000 + i))


TREE = {"d/a": 5000, "d/b": 0, "d/e/f": 70000, "d/e/g": 1, "d/e/h/i": 300, "d/z": 64 * 1024, "d/y": 400_000, "d/x": 12}
FOLDER = {f"d/{name}": size for name, size in many(40).items()}
SCENES = (
    Scene("get", {"a": 300_000}, {}, ("scp", "x:there/a", "here/b")),
    Scene("get a large file", {"a": 30_000_000}, {}, ("scp", "x:there/a", "here/b")),
    Scene("get -r of large files", {"d/a": 3_000_000, "d/b": 2_500_001, "d/c": 400_000, "d/e": 7_000_000}, {},
          ("scp", "-r", "x:there/d", "here/b")),
    Scene("get into a folder", {"a": 5}, {}, ("scp", "x:there/a", "here")),
    Scene("get an empty file", {"a": 0}, {}, ("scp", "x:there/a", "here/b")),
    Scene("get what is missing", {}, {}, ("scp", "x:there/a", "here/b")),
    Scene("get a folder as a file", {"d/a": 1}, {}, ("scp", "x:there/d", "here/b")),
    Scene("get several", {"a": 1, "b": 70000}, {}, ("scp", "x:there/a", "x:there/missing", "x:there/b", "here")),
    Scene("get by a pattern", {"a1": 1, "a2": 70000, "b": 3}, {}, ("scp", "x:there/a*", "here")),
    Scene("get a link", {"d/a": 5, "d/e/f": 1}, {"d/a": 1, "d/e/f": 1}, ("scp", "x:there/d/to file", "here/b"), links),
    Scene("get where nothing can be", {"a": 5}, {}, ("scp", "x:there/a", "here/missing/b")),
    Scene("get -p", {"a": 300_000}, {}, ("scp", "-p", "x:there/a", "here/b"), times),
    Scene("get odd names", {name: 10 + i for i, name in enumerate(ODD)}, {}, ("scp", "-r", "x:there", "here/t")),
    Scene("get -r", TREE, TREE, ("scp", "-r", "x:there/d", "here/t"), links),
    Scene("get -rp", TREE, {}, ("scp", "-rp", "x:there/d/", "here"), times),
    Scene("get -r of a file", {"a": 5}, {}, ("scp", "-r", "x:there/a", "here")),
    Scene("get -r of many", FOLDER, {"d/0007": 20_000}, ("scp", "-r", "x:there/d", "here")),
    Scene("get -r onto folders", FOLDER, {"d/0007/x": 1, "d/0030/x": 1}, ("scp", "-r", "x:there/d", "here")),
    Scene("put", {}, {"a": 300_000}, ("scp", "here/a", "x:there/b")),
    Scene("put a small file", {}, {"a": 100_000}, ("scp", "here/a", "x:there/b")),
    Scene("put an empty file", {}, {"a": 0}, ("scp", "here/a", "x:there/b")),
    Scene("put what is missing", {}, {}, ("scp", "here/a", "x:there/b")),
    Scene("put onto a longer one", {"b": 500_000}, {"a": 300_000}, ("scp", "here/a", "x:there/b")),
    Scene("put into a folder", {"d/b": 1}, {"a": 3}, ("scp", "here/a", "x:there/d")),
    Scene("put into a folder/", {"d/b": 1}, {"a": 3}, ("scp", "here/a", "x:there/d/")),
    Scene("put into a folder that is a link", {"d/a": 1, "d/e/f": 1}, {"d/a": 3, "d/e/f": 1},
          ("scp", "here/d/a", "x:there/d/to folder"), links),
    Scene("put into a missing folder", {}, {"a": 3}, ("scp", "here/a", "x:there/d/b")),
    Scene("put into a missing folder/", {}, {"a": 3}, ("scp", "here/a", "x:there/d/")),
    Scene("put a folder without -r", {}, {"d/a": 3}, ("scp", "here/d", "x:there/b")),
    Scene("put several", {}, {"a": 3, "b": 70000}, ("scp", "here/a", "here/b", "x:there/d")),
    Scene("put -p", {}, {"a": 300_000}, ("scp", "-p", "here/a", "x:there/b"), times),
    Scene("put odd names", {}, {name: 10 + i for i, name in enumerate(ODD)}, ("scp", "-r", "here", "x:there/t")),
    Scene("put -r", TREE, TREE, ("scp", "-r", "here/d", "x:there/t"), links),
    Scene("put -rp", {}, TREE, ("scp", "-rp", "here/d", "x:there"), times),
    Scene("put -r onto others", {"d/0007": 20_000, "d/0030/x": 1}, FOLDER, ("scp", "-r", "here/d", "x:there")),
    Scene("sftp put -r", {}, {"d/a": 10, "d/b": 3000, "d/c/d": 5, "d/c/e": 0, "d/f": 200_000}, ("sftp", "-b", "batch", "x"),
          lambda here, there: here.parent.joinpath("batch").write_text("cd there\nput -r here/d d\n") and None),
    Scene("sftp", TREE, {"p/q": 7, "p/r/s": 400, "o": 100_000, "half": 9000, "whole": 10_000},
          ("sftp", "-b", "batch", "x"), lambda here, there: here.parent.joinpath("batch").write_text(
              "cd there\n-get nothing\nget d/a here/a\nget -r d here/d\nls -n d\nput here/o\nput -r here/p p\n"
              "rename p/q p/t\n-put here/nothing\nls -1 d/e\nrm d/b\nget -a d/z here/half\nmkdir new\nput here/o new\n"
              "put -p here/whole w\nchmod 600 w\nls -1 .\nget d/x here/x\n") and times(here, there)),
)


class Sftp(unittest.TestCase):
    def run_scene(self, scene: Scene, version: str = NEWEST, stock: bool = False, ways: Sequence[str] = (),
                  options: Sequence[str] = (), env: dict[str, str] | None = None, ahead: bool = True) -> Run:
        with MemoryFolder("sftp") as place:
            base = place.folder
            here, there, log = base / "here", base / "there", base / "log"
            for side, files in ((here, scene.here), (there, scene.there)):
                side.mkdir()
                fill(side, files)
            scene.more(here, there)
            where = prefix(version, stock, ahead=ahead)
            server = base / "server"
            words = [sys.executable, "-I", "-S", str(BETWEEN), str(where / "libexec" / "sftp-server"), str(log), *ways]
            server.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
            server.chmod(0o755)
            program, *args = scene.argv
            done = subprocess.run([where / "bin" / program, "-D", server, *options, *args], cwd=base, timeout=60,
                                  env=os.environ | {"TZ": "UTC"} | (env or {}), capture_output=True)
            self.assertGreaterEqual(done.returncode, 0, done.stderr)
            said = (done.stderr + done.stdout).decode(errors="surrogateescape")
            said = said.replace(str(base), "BASE").replace(str(where), "").splitlines()
            rounds = [json.loads(line.replace(str(base), "BASE")) for line in log.read_text().splitlines()]\
                if log.exists() else []
            with_times = "-p" in scene.argv or "-rp" in scene.argv
            return Run(done.returncode, sorted(said), rounds, self.tree(base, with_times))

    def tree(self, base: pathlib.Path, with_times: bool) -> dict[str, tuple]:
        found = {}
        for side in ("here", "there"):
            for file in (base / side).rglob("*"):
                st = file.lstat()
                what = os.readlink(file) if file.is_symlink() else file.read_bytes() if file.is_file() else ""
                when = st.st_mtime if with_times and st.st_mtime < 1_200_000_000 else 0
                found[str(file.relative_to(base))] = (oct(st.st_mode), when, what)
        return found

    def same_as_stock(self, scene: Scene, version: str = NEWEST, ways: Sequence[str] = ()) -> tuple[Run, Run]:
        """What a user can see, and what a server keeps, is the same. Returns stock's and ours."""
        stock, ours = (self.run_scene(scene, version, stock, ways) for stock in (True, False))
        what = f"{scene.name}, {version}, {ways}"
        self.assertEqual(ours.said, stock.said, what)
        self.assertEqual(ours.code, stock.code, f"{what}: {ours.said}")
        self.assertEqual(ours.tree, stock.tree, what)
        self.assertEqual(ours.changes(), stock.changes(), what)
        if stock.rounds and not ways:
            self.assertEqual(ours.rounds[-1]["open"], 0, what)
        self.assertLessEqual(len(ours.rounds), len(stock.rounds), what)
        self.assertEqual([line["asked"] for line in ours.rounds if line["twice"]], [], f"{what}: numbers")
        return stock, ours


class Places(Sftp):
    def test_what_a_killed_run_has_left_goes(self) -> None:
        def is_killed(*_: pathlib.Path) -> None:
            os.kill(os.getpid(), signal.SIGKILL)
        self.assertEqual(left_by_killed("sftp", lambda: self.run_scene(scene("get")._replace(more=is_killed))), [])


def scene(name: str) -> Scene:
    return next(scene for scene in SCENES if scene.name == name)


@beside
class Same(Sftp):
    """Whatever is transferred: as stock, in no more round trips."""

    def test_each_scene(self) -> None:
        for version in TESTED:
            for one in SCENES:
                self.same_as_stock(one, version)

    @thorough
    def test_a_server_that_answers_in_another_order(self) -> None:
        for name in ("get", "get -r", "get -r of many", "put", "put -rp", "put -r onto others", "sftp", "sftp put -r"):
            self.same_as_stock(scene(name), ways=["reversed"])

    @thorough
    def test_answers_that_come_one_by_one(self) -> None:
        for name in ("get a large file", "get -r of large files", "get -r of many", "put", "put -r onto others"):
            stock, ours = (self.run_scene(scene(name), stock=stock, ways=["stream"]) for stock in (True, False))
            self.assertEqual((ours.code, ours.said, ours.tree), (stock.code, stock.said, stock.tree))
            self.assertEqual(ours.changes(), stock.changes())
            self.assertEqual(ours.rounds[-1]["open"], 0)

    @thorough
    def test_a_server_without_limits(self) -> None:
        for name in ("get", "get -r", "put", "put into a folder", "put -r"):
            self.same_as_stock(scene(name), ways=["without=limits@openssh.com"])

    @thorough
    def test_one_file_that_fails_among_many(self) -> None:
        for name, part, kinds in (
                ("get -r of many", "/0012", ("OPEN", "READ", "CLOSE")),
                ("put -r onto others", "/0012", ("OPEN", "WRITE", "FSETSTAT", "CLOSE", "SETSTAT")),
                ("put -rp", "there/d/", ("FSETSTAT", "MKDIR", "SETSTAT")),
                ("get", "/", ("LSTAT", "STAT", "OPEN", "READ", "CLOSE")),
                ("put a small file", "/", ("STAT", "OPEN", "WRITE", "FSETSTAT", "CLOSE"))):
            for kind in kinds:
                for how in ("deny", "fail"):
                    self.same_as_stock(scene(name), ways=[f"{how}={kind},{part}"])

    def test_an_error_before_a_success(self) -> None:
        """The requests behind the one that is refused are on their way then."""
        for version in TESTED:
            for name, ways in (("put", ("first=WRITE", "fail=WRITE,/b")), ("get", ("first=READ", "fail=READ,/a"))):
                for way in ways:
                    stock, ours = (self.run_scene(scene(name), version, stock, [way]) for stock in (True, False))
                    self.assertEqual((ours.code, ours.said), (stock.code, stock.said), f"{name}, {version}, {way}")
                    self.assertNotEqual(ours.code, 0)

    @thorough
    def test_a_server_that_allows_few_handles_and_does_not_say_so(self) -> None:
        for few in (1, 5):
            self.same_as_stock(scene("get -r of many"), ways=["without=limits@openssh.com", f"open={few}"])

    @thorough
    def test_a_folder_that_cannot_be_read(self) -> None:
        for kind in ("OPENDIR", "READDIR", "REALPATH"):
            self.same_as_stock(scene("get -r"), ways=[f"deny={kind},there/d"])

    @thorough
    def test_short_answers(self) -> None:
        for name in ("get", "get -r of many"):
            self.same_as_stock(scene(name), ways=["short"])

    @thorough
    def test_files_that_have_grown_since_they_were_listed(self) -> None:
        """So many that their new ends together are more than the client keeps."""
        for size, ways in ((5, ("reversed", "stream", "short")), (300_000, ("reversed", "stream"))):
            for version in TESTED:
                _, ours = self.same_as_stock(scene("get -r of many"), version, [f"grow=/d/,{size}"])
                self.assertEqual((ours.code, ours.rounds[-1]["open"]), (0, 0))
                for way in ways:
                    stock, ours = (self.run_scene(scene("get -r of many"), version, stock, [f"grow=/d/,{size}", way])
                                   for stock in (True, False))
                    self.assertEqual((ours.code, ours.said, ours.tree), (stock.code, stock.said, stock.tree), way)
                    self.assertEqual((ours.code, ours.rounds[-1]["open"]), (0, 0), way)

    def test_a_connection_that_ends(self) -> None:
        """Of an upload no more than two files are left unfinished."""
        for name in ("get", "get -r of many", "put", "put -r onto others"):
            for at in (1, 2, 3, 4, 5, 9):
                ours = self.run_scene(scene(name), ways=[f"hang={at}"])
                if len(ours.rounds) == at:
                    self.assertNotEqual(ours.code, 0, ours.said)
                    self.assertIn("Connection closed", "".join(ours.said))
                whole = [file for file, (_, _, what) in ours.tree.items() if file.startswith("there/d/") and
                         ours.tree.get("here" + file[5:], (0, 0, None))[2] == what]
                begun = {request[1] for request in ours.asked() if request[0] == "OPEN" and request[2] & WRITES}
                if name.startswith("put -r"):
                    self.assertLessEqual(len(begun - {f"BASE/{file}" for file in whole}), 2)


@beside
class RoundTrips(Sftp):
    def test_how_many_there_are(self) -> None:
        """Stock's number, and ours. Older releases set a folder's attributes even if it was there before."""
        for name, stock_count, count in (("get", 9, 5), ("put", 8, 4), ("put -p", 9, 4), ("put into a folder", 7, 5),
                                         ("get -r of many", 166, 9), ("put -r onto others", 160, 46)):
            for version in TESTED:
                stock, ours = self.same_as_stock(scene(name), version)
                more = name == "put -r onto others" and version in ("9.2p1", "10.0p1")
                self.assertEqual((len(stock.rounds), len(ours.rounds)), (stock_count + more, count + more),
                                 f"{name}, {version}")

    def test_what_a_connection_begins_with(self) -> None:
        for name, wanted in (("get", ["LSTAT", "STAT", "EXTENDED"]), ("put", ["STAT", "OPEN", "EXTENDED"]),
                             ("put into a folder/", ["STAT", "EXTENDED"]), ("sftp", ["REALPATH", "EXTENDED"])):
            ours = self.run_scene(scene(name))
            self.assertEqual(ours.types()[:2], [["INIT"], wanted])

    @thorough
    def test_the_end_of_a_large_file_is_asked_for_early(self) -> None:
        for ways, early in (([], True), (["without=lsetstat@openssh.com"], False)):
            ours = self.run_scene(scene("get a large file"), ways=["stream", *ways])
            reads = [request[2] for request in ours.asked() if request[0] == "READ"]
            self.assertEqual(reads.index(30_000_000) < len(reads) - 1, early, ways)

    def test_late_short_answers_of_a_large_file(self) -> None:
        """What is left of such a part is asked for when the end is known already."""
        for number in (100, 110, 115):
            ours = self.run_scene(scene("get a large file"), ways=["stream", f"short={number}"])
            self.assertEqual((ours.code, ours.said), (0, []), number)
            self.assertEqual(ours.tree["here/b"][2], ours.tree["there/a"][2], number)

    def test_many_small_files_take_few(self) -> None:
        files = {f"d/{name}": size for name, size in many(300).items()}
        get = self.run_scene(Scene("get", files, {}, ("scp", "-r", "x:there/d", "here")))
        put = self.run_scene(Scene("put", {}, files, ("scp", "-r", "here/d", "x:there")))
        for one in (get, put):
            self.assertEqual((one.code, one.said), (0, []))
            self.assertEqual(sum(file.startswith("here/d/") for file in one.tree), 300)
            for file in files:
                self.assertEqual(one.tree[f"here/{file}"][2], one.tree[f"there/{file}"][2])
        self.assertLess(len(get.rounds), 40)
        self.assertLess(len(put.rounds), 300 + 12)

    @thorough
    def test_only_of_openssh_s_own_server_a_folder_is_asked_for_in_parallel(self) -> None:
        for ways, parallel in (([], True), (["without=expand-path@openssh.com"], False)):
            ours = self.run_scene(scene("get -r of many"), ways=ways)
            self.assertEqual(any(types.count("READDIR") > 1 for types in ours.types()), parallel)
            self.assertTrue(any(types.count("OPEN") > 10 for types in ours.types()))

    @thorough
    def test_a_write_is_only_opened_early_on_a_server_that_leaves_folders_alone(self) -> None:
        for missing in ("limits@openssh.com", "lsetstat@openssh.com", "expand-path@openssh.com"):
            _, ours = self.same_as_stock(scene("put"), ways=[f"without={missing}"])
            self.assertNotIn("OPEN", ours.types()[1])
            self.assertIn("STAT", ours.types()[1])

    @thorough
    def test_handles_are_few(self) -> None:
        for ways, most in ((["handles=1000"], 65), (["handles=64"], 17), (["handles=8"], 3), (["handles=1"], 2),
                           (["handles=0"], 17), (["without=limits@openssh.com"], 17)):
            files = {f"d/{name}": 100 for name in many(100)}
            ours = self.run_scene(Scene("get", files, {}, ("scp", "-r", "x:there/d", "here")), ways=ways)
            self.assertEqual((ours.code, ours.said), (0, []))
            self.assertLessEqual(max(line["open"] for line in ours.rounds), most, ways)

    @thorough
    def test_no_more_is_asked_for_early_than_2_mb_and_a_byte_of_each_file(self) -> None:
        for size, least in ((64 * 1024, 30), (40_000, 50), (1000, 64)):
            files = {f"d/{name}": size for name in many(100)}
            ours = self.run_scene(Scene("get", files, {}, ("scp", "-r", "x:there/d", "here")), ways=["handles=1000"])
            self.assertEqual((ours.code, ours.said), (0, []))
            reads = [[request[3] for request in line["asked"] if request[0] == "READ"] for line in ours.rounds]
            self.assertGreaterEqual(max(map(len, reads)), 2 * least, size)
            self.assertLessEqual(max(map(sum, reads)), 2 * 1024 * 1024 + 64, size)

    @thorough
    def test_a_server_is_asked_for_no_extension_that_it_has_not_got(self) -> None:
        ours = self.run_scene(scene("get"), ways=["without=limits@openssh.com"])
        self.assertNotIn("EXTENDED", [request[0] for request in ours.asked()])


@beside
class Off(Sftp):
    def test_off_sends_what_stock_sends(self) -> None:
        for name in ("get", "get -r", "put", "put -rp", "sftp"):
            stock = self.run_scene(scene(name), stock=True)
            for options, env in ((["-oAutoBuffer=no"], {}), ([], {"AUTOBUF": "off"})):
                off = self.run_scene(scene(name), options=options, env=env)
                self.assertEqual(off.rounds, stock.rounds, f"{name} {options} {env}")
                self.assertEqual((off.code, off.said, off.tree), (stock.code, stock.said, stock.tree))

    def test_numbers_of_the_user_are_kept(self) -> None:
        stock, ours = (self.run_scene(scene("put -rp"), stock=stock, options=["-Xnrequests=1"])
                       for stock in (True, False))
        self.assertEqual(ours.rounds, stock.rounds)


@beside
class WithoutAhead(Sftp):
    """build --without-ahead."""

    @thorough
    def test_no_program_has_what_sends_early(self) -> None:
        for ahead in (True, False):
            for name in ("scp", "sftp"):
                self.assertEqual(b"autobuf_ahead" in (prefix(NEWEST, ahead=ahead) / "bin" / name).read_bytes(), ahead, name)

    @thorough
    def test_nothing_is_asked_before_its_turn(self) -> None:
        """Everything is transferred as by stock, with as many requests for the data of a file as the path needs."""
        for one in SCENES:
            stock, ours = self.run_scene(one, stock=True), self.run_scene(one, ahead=False)
            self.assertEqual((ours.code, ours.said, ours.tree), (stock.code, stock.said, stock.tree), one.name)
            self.assertEqual(ours.changes(), stock.changes(), one.name)
            self.assertLessEqual(len(ours.rounds), len(stock.rounds), one.name)
            data = {"READ", "WRITE"}
            self.assertEqual([types for types in ours.types() if not data & set(types)],
                             [types for types in stock.types() if not data & set(types)], one.name)
            self.assertEqual([types for types in ours.types() if len(types) > 1 and set(types) - data], [], one.name)


@beside
class Strange(Sftp):
    def test_answers_that_were_not_asked_for_end_the_transfer(self) -> None:
        for name in ("get", "get -r of many", "put", "put -r onto others"):
            for way, told in (("twice", "ID mismatch|Unexpected|find request"),
                              ("id", "ID mismatch|Unexpected|find request"),
                              ("kind", "Expected SSH2_FXP|Unexpected|more data|parse|decode|unexpected")):
                ours = self.run_scene(scene(name), ways=[way])
                self.assertNotEqual(ours.code, 0, f"{name} {way}")
                self.assertRegex("\n".join(ours.said), told, f"{name} {way}")

    @thorough
    def test_more_data_than_was_asked_for(self) -> None:
        for name in ("get", "get -r of many"):
            ours = self.run_scene(scene(name), ways=["long"])
            self.assertNotEqual(ours.code, 0)
            self.assertIn("Received more data than asked for", "".join(ours.said))

    def test_no_more_than_8_mb_of_answers_are_kept(self) -> None:
        """All answers but the first are too long, and are here before the second is wanted."""
        for size, told in ((150_000, "Received more data than asked for"),
                           (245_000, "The server sent more than was asked for")):
            ours = self.run_scene(scene("get -r of many"), ways=[f"long={size},2"])
            self.assertNotEqual(ours.code, 0)
            self.assertIn(told, "".join(ours.said), size)


if __name__ == "__main__":
    sys.exit(run_tests(("ip",), shared=[functools.partial(prefix, version, stock) for version in TESTED for stock in (False, True)]))
