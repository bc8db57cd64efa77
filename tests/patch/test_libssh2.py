# SPDX-License-Identifier: MIT
"""Unpatched curl with libssh2 under `autobuf run`, and an unpatched sshd: as fast as the path, and it fails as without."""
from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys

import strangers
from openssh import prefix, programs
from test_openssh import MB, NEWEST, OpenSSH, write

from cases import on_time, run_tests, thorough
from path import built

FAR = "rate=100M,delay=25ms,queue=2M"
FARTHER = "rate=100M,delay=50ms,queue=2M"
LOSSY = "rate=100M,delay=25ms,queue=2M,loss=0.02"
RUN = [built("tools/autobuf"), "run", "--"]
ENDED = ((55, "curl: (N) Failed sending data to the peer\n"), (79, "curl: (N) Error in the SSH layer\n"))
"""curl's words for a server that is gone: found while it sends, or while it waits for an answer, which under run is seldom."""


class Libssh2(OpenSSH):
    link = FAR

    def curl(self, scheme: str = "sftp", **kw) -> strangers.Curl:
        kind = {"sftp": strangers.CurlSftp, "scp": strangers.Curl}[scheme]
        try:
            return kind(self.ends(server_stock=True, client_stock=True, **kw))
        except strangers.Missing as missing:
            self.skipTest(str(missing))

    def rate(self, curl: strangers.Curl, way: str, name: str, file: pathlib.Path, wrap: list[str]) -> float:
        """Mbit/s of a copy after the login. Compares the files."""
        argv = [*wrap, *map(str, curl.argv(way, name, file)), "-w", "%{stderr}%{time_pretransfer} %{time_total}"]
        login, total = map(float, self.well(curl.ssh.path.run("a", argv, timeout=strangers.COPY_S)).stderr.split())
        self.same(self.there / name, file)
        return file.stat().st_size * 8 / 1e6 / (total - login)

    def faster(self, curl: strangers.Curl, way: str, size: int, times: float) -> None:
        write((self.there if way == "get" else self.here) / way, size)
        file = self.here / ("got" if way == "get" else "put")
        without, run = (self.rate(curl, way, way, file, wrap) for wrap in ([], RUN))
        self.assertGreater(run, times * without, f"{way}: {without:.1f} Mbit/s, {run:.1f} under autobuf run")

    @on_time
    def test_get(self) -> None:
        self.faster(self.curl(link=FARTHER), "get", 40 * MB, 2)  # 30 Mbit/s alone

    @thorough
    @on_time
    def test_get_with_loss(self) -> None:
        self.faster(self.curl(link=LOSSY), "get", 4 * MB, 0.6)  # each loss halves it, when it comes

    @thorough
    @on_time
    def test_put(self) -> None:
        self.faster(self.curl(), "put", 12 * MB, 3)

    @thorough
    @on_time
    def test_get_by_scp(self) -> None:
        """It is left alone."""
        self.faster(self.curl("scp"), "get", 40 * MB, 0.9)

    def broken(self, curl: strangers.Curl, way: str, file: pathlib.Path, wrap: list[str]) -> tuple[int, str]:
        """Status and message of a copy whose server is killed on the way."""
        file.unlink(missing_ok=True)
        arrives = file if way == "get" else self.there / "file"
        copy = curl.ssh.path.popen("a", [*wrap, *map(str, curl.argv(way, "file", self.here / "file"))], stderr=subprocess.PIPE)
        self.until(lambda: arrives.exists() and arrives.stat().st_size > MB, "it does not begin")
        for pid, name in list(programs(curl.ssh.server.where, curl.ssh.path)):
            if name in ("sshd-session", "sftp-server"):
                with contextlib.suppress(ProcessLookupError):  # one ends when the other has
                    os.kill(pid, signal.SIGKILL)
        return copy.wait(), re.sub(r"\d+", "N", copy.stderr.read())

    @thorough
    @on_time
    def test_a_server_that_dies(self) -> None:
        for way in "get", "put":
            with self.subTest(way):
                curl = self.curl(link="rate=30M,delay=10ms")
                write((self.there if way == "get" else self.here) / "file", 60 * MB)
                file = (self.here if way == "get" else self.there) / "file"
                without, run = (self.broken(curl, way, file, wrap) for wrap in ([], RUN))
                self.assertIn(without, ENDED)
                self.assertIn(run, ENDED if way == "put" else (without,))


if __name__ == "__main__":
    sys.exit(run_tests(("ip", "setpriv", "taskset", "nsenter", "unshare"), ("tests/net/pathemu",),
                       shared=(lambda: prefix(NEWEST, stock=True),)))
