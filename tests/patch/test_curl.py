#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""libssh2 and curl with the patches, against OpenSSH's stock sshd on the emulated path."""
from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pathlib
import shutil
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import libssh2
import openssh
from openssh import Place, Server

from cases import PathTest, run_tests, some, thorough


FAR, LOSSY = "rate=400M,delay=50ms,queue=10M", "rate=100M,delay=10ms,queue=1M,loss=0.02"
SMALL_BYTES = 1 << 20
"""Of the file system there/small on the server."""
SSHD = openssh.VERSIONS[-1]


class Program(NamedTuple):
    """A curl, and the libssh2 that it finds."""
    curl: pathlib.Path | str
    library: pathlib.Path


def system(stock: bool) -> Program:
    """The system's curl, with either libssh2."""
    return Program(shutil.which("curl") or "curl", libssh2.prefix(libssh2.VERSIONS[0], stock) / "lib")


def patched(version: str) -> Program:
    return Program(libssh2.curl(), libssh2.prefix(version) / "lib")


def stock(version: str) -> Program:
    return Program(libssh2.curl(stock=True), libssh2.prefix(version, stock=True) / "lib")


class Ended(NamedTuple):
    code: int
    said: str
    seconds: float


class CurlTest(PathTest):
    @contextlib.contextmanager
    def between(self, both: str, size: int, *options: str) -> Iterator[None]:
        """A server on side b, and a file of some size on each side."""
        where = openssh.prefix(SSHD, stock=True)
        self.link = self.path(both=both)
        for side in "ab":
            self.link.route(side, congctl="cubic")
        with Place(where / "bin" / "ssh-keygen") as self.place:
            self.here, self.there = self.place.folder / "here" / "file", self.place.folder / "there" / "file"
            (self.there.parent / "small").mkdir()
            data = os.urandom(min(size, 1 << 20))
            for file in (self.here, self.there):
                file.write_bytes((data * (size // len(data) + 1))[:size])
                file.chmod(0o666)
            full = ["sh", "-c", f'mount -t tmpfs -o size={SMALL_BYTES},mode=777 none /mnt/there/small && exec "$@"', "sh"]
            self.server = Server(self.link, "b", where, self.place, options, wrap=full)
            try:
                yield
            finally:
                self.server.stop()

    def argv(self, program: Program, *args: str) -> list[str]:
        key = self.place.folder / "key"
        return ["env", f"LD_LIBRARY_PATH={program.library}", str(program.curl), "-sS", "-k", "--key", str(key), "--pubkey", f"{key}.pub", *args]

    def url(self, name: str) -> str:
        return f"sftp://{openssh.USER}@{self.link.addr['b']}//mnt/there/{name}"

    def run_curl(self, program: Program, *args: str) -> Ended:
        began = time.monotonic()
        done = self.link.run("a", self.argv(program, *args), timeout=300)
        return Ended(done.returncode, done.stderr, time.monotonic() - began)

    def get(self, program: Program) -> float:
        """The seconds of a download, which has to be what is there."""
        done = self.run_curl(program, "-o", str(self.here), self.url("file"))
        self.same(done)
        return done.seconds

    def put(self, program: Program) -> float:
        done = self.run_curl(program, "-T", str(self.here), self.url("file"))
        self.same(done)
        return done.seconds

    def same(self, done: Ended) -> None:
        self.assertEqual((done.code, done.said), (0, ""))
        digests = [hashlib.sha256(file.read_bytes()).digest() for file in (self.here, self.there)]
        self.assertEqual(*digests)


class Far(CurlTest):
    def test_reads_ahead(self) -> None:
        with self.between(FAR, 20_000_000):
            self.assertLess(self.get(system(stock=False)), 0.75 * self.get(system(stock=True)))

    @thorough
    def test_versions(self) -> None:
        for version in libssh2.VERSIONS:
            with self.subTest(version), self.between(FAR, 60_000_000):
                self.assertLess(self.get(patched(version)), 0.5 * self.get(stock(version)))
                self.assertLess(self.put(patched(version)), 0.2 * self.put(stock(version)))


@thorough
class Contents(CurlTest):
    def test_loss(self) -> None:
        for version in libssh2.VERSIONS:
            with self.subTest(version), self.between(LOSSY, 5_000_000):
                self.get(patched(version))
                self.put(patched(version))

    def test_new_keys(self) -> None:
        """While the send buffer limits, so that a packet is often sent in part when the server asks for them."""
        for version in libssh2.VERSIONS:
            with self.subTest(version), self.between("rate=3M,delay=20ms,queue=25K", 3_000_000, "RekeyLimit 500K"):
                self.link.sysctl("a", "net.ipv4.tcp_wmem", "4096 16384 65536")
                self.put(patched(version))

    def test_sizes(self) -> None:
        """Of nothing, of a request, and of a byte more or less."""
        for size in (1, 29_999, 30_000, 30_001, 409_600, 2_000_003):
            with self.subTest(size), self.between("rate=100M,delay=2ms,queue=1M", size):
                self.get(patched(libssh2.VERSIONS[0]))
                self.put(patched(libssh2.VERSIONS[0]))


@thorough
class Failing(CurlTest):
    """What a user and a script see is what they saw."""

    def failed(self, version: str, *args: str) -> Ended:
        """With the patches and without: the same code and message."""
        ended = [self.run_curl(program(version), *args) for program in (stock, patched)]
        self.assertEqual(ended[0][:2], ended[1][:2])
        self.assertNotEqual(ended[0].code, 0)
        return ended[1]

    def test_a_disk_that_is_full(self) -> None:
        """At once, and so late that only closing the file tells."""
        for version in libssh2.VERSIONS:
            for size in (20_000_000, SMALL_BYTES + 100_000):
                with self.subTest(version, size=size), self.between("rate=100M,delay=10ms,queue=1M", size):
                    self.failed(version, "-T", str(self.here), self.url("small/file"))

    def test_a_file_that_may_not_be_written(self) -> None:
        for version in libssh2.VERSIONS:
            with self.subTest(version), self.between("rate=100M,delay=2ms,queue=1M", 100_000):
                self.failed(version, "-T", str(self.here), self.url("nowhere/file"))

    def test_a_server_that_dies(self) -> None:
        for version, upload in ((version, upload) for version in libssh2.VERSIONS for upload in (False, True)):
            ended = []
            for program in (stock, patched):
                with self.subTest(version, upload=upload), self.between("rate=20M,delay=10ms,queue=1M", 20_000_000):
                    wanted = ("-T", str(self.here), self.url("put")) if upload else ("-o", str(self.here) + ".got", self.url("file"))
                    client = self.link.popen("a", self.argv(program(version), *wanted), stderr=-1, text=True)
                    file = self.there.parent / "put" if upload else pathlib.Path(f"{self.here}.got")
                    until = time.monotonic() + 60
                    while not (file.exists() and file.stat().st_size > 500_000):
                        self.assertLess(time.monotonic(), until)
                        time.sleep(0.01)
                    self.server.stop()
                    _, said = client.communicate(timeout=60)
                    ended.append((client.returncode, said))
            # Whichever call comes first, send() or recv(), tells of a connection that was reset: 55 or 79.
            with self.subTest(version, upload=upload):
                self.assertTrue({code for code, _ in ended} <= {55, 79}, ended)


if __name__ == "__main__":
    builds = [functools.partial(libssh2.prefix, version, stock) for version in some(*libssh2.VERSIONS) for stock in (False, True)]
    sys.exit(run_tests(("unshare", "curl", "cmake"), shared=tuple(builds)))
