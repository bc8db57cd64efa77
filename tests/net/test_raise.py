#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""autobufd's raise=: the limits of autotuning follow what connections need, and are put back.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select the tests whose names
contain one of them.
"""
from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from cases import run_tests, thorough  # noqa: E402
from daemons import BINARIES, PORT, PROGRAMS, WAIT_S, DaemonTest, setUpModule  # noqa: E402, F401
from path import Path, built, wait_line, wait_listening  # noqa: E402

LONG = "rate=200M,delay=40ms,queue=2M"
"""2 MB fill it; the limits below hold a quarter of that."""
TOOK = 524288
LIMITS = {"net.ipv4.tcp_wmem": f"4096 16384 {TOOK}", "net.ipv4.tcp_rmem": f"4096 131072 {TOOK}"}
MOST = 64_000_000


class Raise(DaemonTest):
    def limit(self, path: Path, name: str) -> int:
        return int(path.run("a", ["sysctl", "-n", f"net.ipv4.{name}"]).stdout.split()[2])

    def begin_raising(self, rules: str, *args: str) -> tuple[Path, subprocess.Popen]:
        path = self.hosts(LONG, LIMITS)
        path.run("b", ["sysctl", "-qw", "net.ipv4.tcp_wmem=4096 16384 33554432", "net.ipv4.tcp_rmem=4096 131072 33554432"])
        daemon = self.daemon(path, rules, *args)
        server = path.popen("b", [built("examples/bulk"), "recv", "--port", str(PORT)])
        wait_listening(path, "b", PORT, server)
        return path, daemon

    def send(self, path: Path, *args: str) -> subprocess.Popen:
        return path.popen("a", [built("examples/bulk"), "send", "--tune", "none", "--cc", "cubic", "--seconds", "60", "--port", str(PORT), *args,
                                path.addr["b"]])

    def test_as_far_as_a_sender_needs(self) -> None:
        path, daemon = self.begin_raising(f"raise={MOST}\n[all]\n")
        sender = self.send(path)
        for was in (TOOK, 2 * TOOK, 4 * TOOK):
            wait_line(daemon, lambda line: f"net.ipv4.tcp_wmem: {was} -> {2 * was} bytes" in line, WAIT_S)
        self.assertGreaterEqual(self.limit(path, "tcp_wmem"), 8 * TOOK)
        self.assertLess(self.limit(path, "tcp_wmem"), MOST)  # the path is full before
        self.assertEqual(self.limit(path, "tcp_rmem"), TOOK)
        sender.kill()
        sender.wait()
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(WAIT_S), 0)
        self.assertEqual(self.limit(path, "tcp_wmem"), TOOK)

    @thorough
    def test_as_far_as_a_receiver_needs(self) -> None:
        path, daemon = self.begin_raising(f"raise={MOST}\n[all]\n")
        self.send(path, "--reverse")
        wait_line(daemon, lambda line: f"net.ipv4.tcp_rmem: {TOOK} -> {2 * TOOK} bytes" in line, WAIT_S)
        self.assertEqual(self.limit(path, "tcp_wmem"), TOOK)

    @thorough
    def test_never_beyond_what_is_allowed(self) -> None:
        path, daemon = self.begin_raising(f"raise={3 * TOOK}\n[all]\n")
        self.send(path)
        wait_line(daemon, lambda line: f"{2 * TOOK} -> {3 * TOOK} bytes" in line, WAIT_S)
        self.assertEqual(self.limit(path, "tcp_wmem"), 3 * TOOK)

    @thorough
    def test_a_daemon_that_is_killed(self) -> None:
        path, daemon = self.begin_raising(f"raise={MOST}\n[all]\n")
        self.send(path)
        wait_line(daemon, lambda line: "net.ipv4.tcp_wmem" in line, WAIT_S)
        daemon.kill()
        daemon.wait()
        self.until(lambda: self.limit(path, "tcp_wmem") == TOOK, "its broker does not put it back")

    def test_a_broker_that_is_killed(self) -> None:
        """The daemon can put nothing back without it, and leaves that to --undo."""
        path, daemon = self.begin_raising(f"state={self.folder}/state\nraise={MOST}\n[all]\n")
        sender = self.send(path)
        wait_line(daemon, lambda line: "net.ipv4.tcp_wmem" in line, WAIT_S)
        broker, = pathlib.Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()
        sender.kill()
        sender.wait()
        os.kill(int(broker), signal.SIGKILL)
        daemon.wait(WAIT_S)
        self.assertIn("net.ipv4.tcp_wmem stays raised", self.everything(daemon))
        self.assertGreater(self.limit(path, "tcp_wmem"), TOOK)
        done = path.run("a", [built("tools/autobufd"), "--undo", "--config", str(self.file)])
        self.assertEqual((done.returncode, self.limit(path, "tcp_wmem")), (0, TOOK), done.stderr)

    @thorough
    def test_somebody_else(self) -> None:
        path, daemon = self.begin_raising(f"raise={MOST}\n[all]\n")
        self.send(path)
        wait_line(daemon, lambda line: "net.ipv4.tcp_wmem" in line, WAIT_S)
        daemon.send_signal(signal.SIGSTOP)
        path.run("a", ["sysctl", "-qw", "net.ipv4.tcp_wmem=4096 16384 600000"])
        daemon.send_signal(signal.SIGCONT)
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(WAIT_S)
        self.assertEqual(self.limit(path, "tcp_wmem"), 600000)

    @thorough
    def test_a_dry_run(self) -> None:
        path, daemon = self.begin_raising(f"raise={MOST}\ndry_run=yes\n[all]\n")
        self.send(path)
        wait_line(daemon, lambda line: f"dry run: net.ipv4.tcp_wmem: {TOOK} -> {2 * TOOK} bytes" in line, WAIT_S)
        self.assertEqual(self.limit(path, "tcp_wmem"), TOOK)

    @thorough
    def test_advice(self) -> None:
        path, daemon = self.begin_raising(f"raise={3 * TOOK}\n[all]\n", "--advise")
        self.send(path)
        wait_line(daemon, lambda line: f"dry run: net.ipv4.tcp_wmem: {TOOK} -> {2 * TOOK} bytes" in line, WAIT_S)
        self.stop(daemon)
        said = self.everything(daemon)
        self.assertRegex(said, rf"# At {TOOK} bytes ended, while no queue stood:\n#   bulk -> {re.escape(path.addr['b'])}, up to \S+ Mbit/s at an RTT of ")
        self.assertIn(f"\nnet.ipv4.tcp_wmem = 4096 16384 {2 * TOOK}", said)
        self.assertNotIn("tcp_rmem =", said)
        self.assertEqual(self.limit(path, "tcp_wmem"), TOOK)


if __name__ == "__main__":
    sys.exit(run_tests(PROGRAMS, BINARIES))
