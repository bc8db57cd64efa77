#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The small examples on emulated paths: tune, flowloop, live, lineserver. test_bulk.py has the others.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select
the tests whose names contain one of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import random
import re
import socket
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import test_bulk  # noqa: E402
from cases import on_time, run_tests, thorough  # noqa: E402
from path import Path, wait_line, wait_listening  # noqa: E402
from test_bulk import CORE, LONG, RMEM, WMEM, BulkTest  # noqa: E402
from test_probe import copy_for_everybody  # noqa: E402

PORT = 7900
SIZE = 16_000_000
SMALL_WMEM = {"net.ipv4.tcp_wmem": "4096 16384 524288"}
"""Autotuning ends far below the product of LONG, which is 5 MB; setsockopt() may go further."""
FILES = ("examples/tune", "examples/flowloop", "examples/live", "examples/lineserver", "tools/autobuf")

# Takes one connection, and says how much came and what its hash is.
SINK = """
import hashlib, socket, sys
listener = socket.create_server(("", int(sys.argv[1])))
s = listener.accept()[0]
total, digest = 0, hashlib.sha256()
while data := s.recv(262144):
    total += len(data)
    digest.update(data)
print(total, digest.hexdigest(), flush=True)
"""

# Says each line of argv[3:], and prints what comes back until the end of the connection.
TALK = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=10)
s.sendall("".join(line + "\\n" for line in sys.argv[3:]).encode())
said = b""
try:
    while data := s.recv(65536):
        said += data
except ConnectionResetError:
    pass  # it hung up with some of the lines unread
print(said.decode(), end="")
"""

folder = ""


def setUpModule() -> None:
    global folder
    folder = copy_for_everybody(*FILES)


def example(name: str) -> str:
    return os.path.join(folder, "examples", name)


class Senders(BulkTest):
    def long_hosts(self) -> Path:
        self.core(CORE)
        return self.hosts(LONG, {**SMALL_WMEM, **RMEM})

    def transfer(self, path: Path, name: str, data: bytes, *args: str) -> str:
        """What an example prints that sends data to a sink, which has to get it unchanged."""
        sink = path.popen("b", [sys.executable, "-c", SINK, str(PORT)])
        wait_listening(path, "b", PORT, sink)
        file = pathlib.Path(folder, "data")
        file.write_bytes(data)
        with file.open("rb") as stdin:
            done = path.run("a", [example(name), path.addr["b"], str(PORT), *args], unprivileged=True, stdin=stdin)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(wait_line(sink, lambda line: True), f"{len(data)} {hashlib.sha256(data).hexdigest()}")
        sink.wait(10)
        return done.stdout

    def data(self, size: int) -> bytes:
        return random.Random(4711).randbytes(size)

    @on_time
    def test_tune(self) -> None:
        path = self.long_hosts()
        text = self.transfer(path, "tune", self.data(SIZE), os.path.join(folder, "data"))
        found = re.fullmatch(r"send: set: SO_SNDBUF (\d+) .*\nreceive: .*\n(\d+) bytes sent\n", text)
        self.assertTrue(found, text)
        self.between(int(found.group(1)), 2_000_000, 4_194_304, "SO_SNDBUF")  # 1.35 products, or wmem_max
        self.assertEqual(int(found.group(2)), SIZE)

    @thorough
    def test_tune_short(self) -> None:
        path = self.long_hosts()
        before = self.echoes(path)
        text = self.transfer(path, "tune", self.data(100_000), os.path.join(folder, "data"))
        self.assertRegex(text, r"\Asend: kernel: .*\n.*\n100000 bytes sent\n\Z")
        self.assertEqual(self.echoes(path), before)

    @on_time
    def test_flowloop(self) -> None:
        path = self.long_hosts()
        before = self.echoes(path)
        text = self.transfer(path, "flowloop", self.data(SIZE))
        found = re.fullmatch(r"(\d+) bytes sent; limited by: ([a-z-]+); measured; (\d+) changes\n", text)
        self.assertTrue(found, text)
        self.assertEqual(int(found.group(1)), SIZE)
        self.assertIn(found.group(2), ("idle", "path", "sender", "send-buffer", "peer"))
        self.assertGreaterEqual(int(found.group(3)), 1)
        self.assertGreater(self.echoes(path), before)

    @thorough
    def test_flowloop_short(self) -> None:
        path = self.long_hosts()
        before = self.echoes(path)
        text = self.transfer(path, "flowloop", self.data(50_000))
        self.assertRegex(text, r"\A50000 bytes sent; limited by: [a-z-]+; not measured; 0 changes\n\Z")
        self.assertEqual(self.transfer(path, "flowloop", b"").split(" ")[0], "0")
        self.assertEqual(self.echoes(path), before)

    @on_time
    def test_live(self) -> None:
        path = self.long_hosts()
        before = self.echoes(path)
        text = self.transfer(path, "live", self.data(SIZE))
        self.assertRegex(text, r"(?m)^limited by: send-buffer; [\d.]+ Mbit/s; round trip 1\d\d\.\d ms$")
        for line in text.splitlines():
            self.assertRegex(line, r"\A(limited by: [a-z-]+; [\d.]+ Mbit/s; round trip [\d.]+ ms|change: .*)\Z")
        self.assertEqual(self.echoes(path), before)  # it sends nothing of its own

    @on_time
    @thorough
    def test_live_with_low_delay(self) -> None:
        self.core(CORE)
        path = self.hosts("rate=50M,delay=25ms,queue=2M", {**WMEM, **RMEM})
        text = self.transfer(path, "live", self.data(2 * SIZE), "low-delay")
        self.assertRegex(text, r"(?m)^change: pace none -> [\d.]+ Mbit/s: ")
        paces = [float(pace) for pace in re.findall(r"(?m)^change: pace .* -> ([\d.]+) Mbit/s", text)]
        self.between(paces[-1], 20, 60, "pace")

    def test_nobody_there(self) -> None:
        path = self.hosts("rate=100M,delay=1ms")
        file = pathlib.Path(folder, "data")
        file.write_bytes(b"data")
        for name, args in (("tune", [str(file)]), ("flowloop", []), ("live", [])):
            with self.subTest(name), file.open("rb") as stdin:
                done = path.run("a", [example(name), path.addr["b"], "9", *args], unprivileged=True, stdin=stdin)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn("Connection refused", done.stderr)
                self.assertEqual(path.run("a", [example(name)]).returncode, 2)


class Reset(unittest.TestCase):
    def test_flowloop_tells_of_it_while_it_waits_for_input(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server, \
                subprocess.Popen([example("flowloop"), "127.0.0.1", str(server.getsockname()[1])], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True) as program:
            self.addCleanup(program.kill)
            program.stdin.write("line\n")
            program.stdin.flush()
            connection = server.accept()[0]
            self.assertEqual(connection.recv(100), b"line\n")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
            self.assertEqual(program.wait(60), 1)
            self.assertIn("Connection reset", program.stderr.read())


class LineServer(BulkTest):
    def talk(self, path: Path, host: str, *lines: str) -> str:
        done = path.run("a", [sys.executable, "-c", TALK, host, str(PORT), *lines])
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    @on_time
    def test_measured_in_both_directions(self) -> None:
        path = self.path(ab="rate=20M,delay=10ms", ba="rate=80M,delay=10ms")
        server = path.popen("b", [example("lineserver"), str(PORT)], unprivileged=True, stderr=subprocess.PIPE)
        wait_listening(path, "b", PORT, server)
        for host, target in ((path.addr["b"], path.addr["b"]), (path.addr6["b"], f"[{path.addr6['b']}]")):
            self.assertEqual(self.talk(path, host, "ECHO one", "other", "ECHO two", "QUIT"),
                             "ECHO one\nWHAT\nECHO two\n")
            done = path.run("a", [os.path.join(folder, "tools/autobuf"), "measure", "--json", f"{target}:{PORT}"])
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            found = json.loads(done.stdout)
            self.near(found["tx_rate_bit_per_s"], 20e6, 0.1, "there")
            self.near(found["rx_rate_bit_per_s"], 80e6, 0.1, "back")
        self.assertIsNone(server.poll())

    def test_lines_around_an_exchange(self) -> None:
        path = self.path(both="rate=100M,delay=1ms")
        server = path.popen("b", [example("lineserver"), str(PORT)], unprivileged=True, stderr=subprocess.PIPE)
        wait_listening(path, "b", PORT, server)
        said = self.talk(path, path.addr["b"], "ECHO before", "AUTOBUF HELLO 1 train=1000 budget=1000",
                         "AUTOBUF RESULT bytes=0 nsec=0 rtt=1000", "ECHO after", "QUIT")
        self.assertRegex(said, r"\AECHO before\nAUTOBUF HELLO 1 .*\nAUTOBUF RESULT .*\nECHO after\n\Z")
        self.assertIn("x" * 100, self.talk(path, path.addr["b"], "ECHO " + "x" * 3000, "QUIT"))
        self.assertEqual(self.talk(path, path.addr["b"], "x" * 10000), "")  # too long a line: it hangs up
        self.assertEqual(self.talk(path, path.addr["b"], "ECHO still there", "QUIT"), "ECHO still there\n")
        self.assertIsNone(server.poll())


if __name__ == "__main__":
    sys.exit(run_tests(("ip", "nsenter", "setpriv", "taskset"), FILES))
