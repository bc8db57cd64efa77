#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""autobufd: what it tells on its socket, to autobuf top and to Prometheus.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select the tests whose names
contain one of them.
"""
from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import test_probe  # noqa: E402
from at_once import alone, beside  # noqa: E402
from cases import run_tests  # noqa: E402
from daemons import BINARIES, PORT, PROGRAMS, SMALL, WAIT_S, Watched, program, setUpModule  # noqa: E402
from path import built, wait_line  # noqa: E402
from test_bulk import LONG  # noqa: E402


@beside
class Status(Watched):
    def test_what_is_asked_is_told(self) -> None:
        path, sender, fd, _ = self.begin(LONG, SMALL)
        daemon = self.watched(path)
        given = self.line(daemon, "given back to autotuning")
        line = self.file.read_text().splitlines().index("[all]") + 1
        flow, = self.flows()["flows"]
        self.assertEqual((flow["pid"], flow["fd"], flow["program"], flow["user"]), (sender.pid, fd, program(sender), os.geteuid()))
        self.assertEqual((flow["local"], flow["peer"]), (given[4], given[5]))
        self.assertEqual((flow["mode"], flow["rule"], flow["rule_line"], flow["dry_run"]), ("auto", "all", line, False))
        self.assertIn("given back to autotuning", flow["action"])
        first = self.metrics()
        self.assertEqual((first["autobufd_managed"], first["autobufd_rules"], first["autobufd_config_generation"]), (1, 1, 1))
        self.assertEqual(first['autobufd_actions_total{kind="given_back"}'], 1)
        self.assertGreater(first["autobufd_resident_memory_bytes"], 100000)
        self.until(lambda: self.metrics()["autobufd_sweeps_total"] > first["autobufd_sweeps_total"], "it sweeps no more")
        now = self.metrics()
        for name in ("autobufd_sweeps_total", 'autobufd_cpu_seconds_total{part="sweeps"}', 'autobufd_clients_total{end="answered"}'):
            self.assertGreater(now[name], first[name], name)
        self.assertEqual(self.socket.stat().st_mode & 0o7777, 0o660)
        self.stop(daemon)
        self.assertFalse(self.socket.exists())

    def test_curl_can_ask(self) -> None:
        if not shutil.which("curl"):
            self.skipTest("needs curl")
        path = self.path(both="rate=50M,delay=10ms")
        daemon = self.watched(path)

        def curl(page: str, *args: str) -> subprocess.CompletedProcess:
            return subprocess.run(["curl", "-sS", *args, "--unix-socket", str(self.socket), f"http://localhost{page}"],
                                  capture_output=True, text=True, timeout=WAIT_S)

        self.assertIn("\nautobufd_rules 1\n", curl("/metrics", "--fail").stdout)
        self.assertEqual(json.loads(curl("/flows", "--fail").stdout)["flows"], [])
        for page, args, code in (("/", (), "404"), ("/flows", ("-X", "POST"), "405"), ("/metrics", (), "200")):
            self.assertEqual(curl(page, *args, "-o", "/dev/null", "-w", "%{http_code}").stdout, code)
        self.stop(daemon)

    @alone
    def test_clients_that_dawdle_or_crowd(self) -> None:
        path, sender, fd, _ = self.begin(LONG, SMALL)
        daemon = self.watched(path)
        self.line(daemon, "given back")
        crowd = []
        for i in range(100):  # eight come in, some wait in the backlog, and for the others there is no room
            client = self.enterContext(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            try:
                client.connect(str(self.socket))
                client.send((b"", b"GET /fl", b"x" * 4096, b"GET /flows HTTP/1.0\r\n\r\n")[i % 4])  # and none reads
                crowd.append(client)
            except (BlockingIOError, BrokenPipeError):
                pass
        self.assertGreater(len(crowd), 8)
        other = self.locked(path)
        self.assertEqual(int(self.line(daemon, "given back")[2]), other.pid)
        for client in crowd:  # each is let go, also those that say nothing and are not closed here
            client.settimeout(WAIT_S)
            try:
                while client.recv(65536):
                    pass
            except ConnectionResetError:  # more was sent than was read
                pass
        told = self.metrics()
        self.assertGreater(told['autobufd_clients_total{end="dropped"}'], 0)
        self.assertEqual(told["autobufd_managed"], 2)
        self.stop(daemon)

    def test_systemd_is_told(self) -> None:
        path = self.path(both="rate=50M,delay=10ms")
        here = self.enterContext(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        here.bind(str(self.folder / "notify"))
        here.settimeout(WAIT_S)

        def told() -> dict[str, str]:
            return dict(line.split("=", 1) for line in here.recv(4096).decode().split("\n"))

        daemon = self.watched(path, prefix=("env", f"NOTIFY_SOCKET={self.folder / 'notify'}"))
        self.assertEqual(told(), {"READY": "1", "STATUS": "Looks after 0 connections by 1 rule."})
        for rules, line in (("[a]\nprogram=none\nmode=off\n[b]\n", "Looks after 0 connections by 2 rules."),
                            ("[a]\nnonsense\n", "The new rules are wrong, and the old ones stay.")):
            self.write(f"status={self.socket}\n{rules}")
            before = time.monotonic_ns() // 1000
            daemon.send_signal(signal.SIGHUP)
            reloading = told()
            self.assertEqual(reloading["RELOADING"], "1")
            self.assertLessEqual(before, int(reloading["MONOTONIC_USEC"]))
            self.assertLessEqual(int(reloading["MONOTONIC_USEC"]), time.monotonic_ns() // 1000)
            self.assertEqual(told(), {"READY": "1", "STATUS": line})
        now = self.metrics()
        self.assertEqual((now["autobufd_config_generation"], now['autobufd_errors_total{what="rules"}']), (2, 1))
        self.stop(daemon)
        self.assertEqual(told()["STOPPING"], "1")

    def test_the_place_of_its_socket(self) -> None:
        path = self.path(both="rate=50M,delay=10ms")
        daemon = self.watched(path)
        second = path.popen("a", [str(self.folder / "autobufd"), "--config", str(self.file)], stderr=subprocess.STDOUT,
                            env=os.environ | {"LD_LIBRARY_PATH": str(self.folder)})
        wait_line(second, lambda line: f"{self.socket}: Address already in use" in line, WAIT_S)
        self.metrics()
        self.stop(second)
        self.assertTrue(self.socket.exists())
        daemon.kill()
        daemon.wait()
        self.assertTrue(self.socket.exists())  # nobody listens there any more
        daemon = self.watched(path)
        self.metrics()
        for where in (self.folder / "other.sock", "off"):
            self.write(f"status={where}\n[all]\n")
            daemon.send_signal(signal.SIGHUP)
            wait_line(daemon, lambda line: "reads the rules again" in line, WAIT_S)
            self.assertFalse(self.socket.exists())
            self.assertEqual((self.folder / "other.sock").exists(), where != "off")
        self.stop(daemon)

    def test_top(self) -> None:
        path, sender, fd, _ = self.begin(LONG, SMALL)
        daemon = self.watched(path)
        self.line(daemon, "given back")

        def top(*args: str) -> subprocess.CompletedProcess:
            return subprocess.run([built("tools/autobuf"), "top", "--socket", str(self.socket), "--count", "2", "--interval", "100", *args],
                                  capture_output=True, text=True, timeout=WAIT_S)

        done = top("--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(done.stdout.splitlines()), 2)
        for line in done.stdout.splitlines():
            flow, = json.loads(line)["flows"]
            self.assertEqual((flow["pid"], flow["peer"]), (sender.pid, f"{path.addr['b']}:{PORT}"))
        done = top()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count(f"[{sender.pid}]:{fd} "), 2, done.stdout)
        self.assertEqual(done.stdout.count("given back to autotuning"), 2, done.stdout)
        self.assertTrue(done.stdout.replace("\n", "").isprintable())
        if os.geteuid() == 0:  # the socket is its owner's
            done = path.run("a", [test_probe.tool(), "top", "--socket", str(self.socket)], unprivileged=True)
            self.assertEqual((done.returncode, done.stdout), (3, ""))
            self.assertIn(f"{self.socket}: Permission denied", done.stderr)
        self.stop(daemon)
        done = top()
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("autobufd does not run here", done.stderr)


if __name__ == "__main__":
    sys.exit(run_tests(PROGRAMS, BINARIES))
