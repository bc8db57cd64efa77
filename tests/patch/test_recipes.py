#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The programs of examples/sftp and a stock sshd, both in a network namespace of their own: contents, and what has to fail."""
from __future__ import annotations

import hashlib
import os
import pathlib
import subprocess
import sys
import unittest
from collections.abc import Sequence

import openssh
from recipes import RECIPES
from strangers import Missing

from cases import run_tests, thorough  # the folder is on the path by now

HOST = "127.0.0.1"
BDP_BYTES = 5 << 20
"""For which a recipe opens several channels, or a larger window."""
SIZES = (0, 1, (32 << 10) - 1, (32 << 10) + 1, (12 << 20) + 17)
"""Of blocks, and of more channels than one."""
COPY_S = 120
WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")


class Loopback:
    """A network namespace for both ends, as openssh.Server takes a path."""

    def __init__(self) -> None:
        self.keeper = subprocess.Popen([*WITH_PARENT, "unshare", "--net", "sh", "-c", "ip link set lo up && echo && exec cat"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if not self.keeper.stdout.readline():
            raise RuntimeError("no network namespace")
        self.ns = {"b": f"/proc/{self.keeper.pid}/ns/net"}

    def argv(self, command: Sequence[object]) -> list[str]:
        return [*WITH_PARENT, "nsenter", f"--net={self.ns['b']}", *map(str, command)]

    def popen(self, side: str, command: Sequence[str], **kw) -> subprocess.Popen:
        return subprocess.Popen(self.argv(command), **kw)

    def run(self, side: str, command: Sequence[str], **kw) -> subprocess.CompletedProcess:
        return subprocess.run(self.argv(command), text=True, capture_output=True, stdin=subprocess.DEVNULL, **kw)

    def close(self) -> None:
        self.keeper.communicate()


@thorough
class Recipes(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.where = openssh.prefix(openssh.VERSIONS[-1], stock=True)
        cls.net = Loopback()
        cls.addClassCleanup(cls.net.close)
        cls.place = cls.enterClassContext(openssh.Place(cls.where / "bin" / "ssh-keygen"))
        cls.addClassCleanup(openssh.Server(cls.net, "b", cls.where, cls.place).stop)
        cls.here, cls.there = cls.place.folder / "here", cls.place.folder / "there"
        (cls.place.folder / ".ssh").mkdir()

    def setUp(self) -> None:
        self.know((self.where / "etc" / "ssh_host_ed25519_key.pub").read_text())
        for file in (*self.here.iterdir(), *self.there.iterdir()):
            file.unlink()

    def know(self, key: str) -> None:
        """Makes it the only key of the host in known_hosts."""
        (self.place.folder / ".ssh" / "known_hosts").write_text(f"{HOST} {' '.join(key.split()[:2])}\n")

    def recipe(self, name: str):
        try:
            return RECIPES[name]()
        except Missing as missing:
            self.skipTest(str(missing))

    def copy(self, recipe, way: str, remote: str, local: pathlib.Path, *options: object) -> subprocess.CompletedProcess:
        argv = recipe.argv("--key", self.place.folder / "key", *options, way, f"{openssh.USER}@{HOST}:{remote}", local)
        return self.net.run("a", argv, timeout=COPY_S, env=os.environ | {"HOME": str(self.place.folder)})

    def copies(self, name: str) -> None:
        recipe = self.recipe(name)
        for size, *options in (*((size, "--bdp", BDP_BYTES) for size in SIZES), (SIZES[-1], "--stock")):
            data = os.urandom(size)
            for way, source, target in (("get", self.there / "file", self.here / "copy"), ("put", self.here / "file", self.there / "copy")):
                with self.subTest(way, size=size, options=options):
                    source.write_bytes(data)
                    target.write_bytes(b"what was there, and is longer than a byte")
                    target.chmod(0o666)
                    near, far = (target, source) if way == "get" else (source, target)
                    done = self.copy(recipe, way, far.name, near, *options)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(*(hashlib.sha256(file).hexdigest() for file in (data, target.read_bytes())))

    def refuses_another_host_key(self, name: str) -> None:
        recipe = self.recipe(name)
        (self.there / "file").write_bytes(b"secret")
        self.know((self.place.folder / "key.pub").read_text())
        done = self.copy(recipe, "get", "file", self.here / "got", "--bdp", 0)
        self.assertNotEqual(done.returncode, 0)
        self.assertFalse((self.here / "got").exists())
        self.assertEqual(self.copy(recipe, "get", "file", self.here / "got", "--accept-any-host", "--bdp", 0).returncode, 0)

    def fails_without_its_file(self, name: str) -> None:
        recipe = self.recipe(name)
        for options in (("--stock",), ("--bdp", BDP_BYTES)):
            with self.subTest(options=options):
                for kept in (self.here / "kept", self.there / "kept"):
                    kept.write_bytes(b"kept")
                    kept.chmod(0o666)
                for way, remote, local in (("get", "absent", self.here / "kept"), ("put", "kept", self.here / "absent"),
                                           ("put", "kept", self.here), ("put", "no/such/folder", self.here / "kept")):
                    self.assertNotEqual(self.copy(recipe, way, remote, local, *options).returncode, 0, way)
                self.assertEqual({(side / "kept").read_bytes() for side in (self.here, self.there)}, {b"kept"})


for recipe_name in RECIPES:
    for part in ("copies", "refuses_another_host_key", "fails_without_its_file"):
        def test(self, name: str = recipe_name, part: str = part) -> None:
            getattr(self, part)(name)
        setattr(Recipes, f"test_{recipe_name.lower()}_{part}", test)

if __name__ == "__main__":
    sys.exit(run_tests(("ip", "nsenter", "setpriv", "unshare"), on_path=False))
