#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the window that a plan expects with the window that the kernel then gives, on real sockets.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select the
tests whose names contain one of them. The path holds 5 MB, more than any window here, so the bytes in
flight, or those that the peer advertises, are the window itself, as TCP_INFO shows it. A stored buffer
counts memory, so how much of it becomes window depends on the sizes of packets: a send window may be
20% off, a receive window twice what is expected, but not below it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from path import Path, built, global_sysctls, wait_line, wait_listening  # noqa: E402
from cases import PathTest, run_tests, some, thorough  # noqa: E402

PORT = 7600
LONG = "rate=400M,delay=50ms,queue=10M"
CORE = {"net.core.rmem_max": 4194304, "net.core.wmem_max": 4194304}
SND_SHARE = 0.2
RCV_MOST = 2.0

Ends = tuple[dict, dict]


class Window(PathTest):
    def setUp(self) -> None:
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("global sysctls need root")
        self.enterContext(global_sysctls(CORE))

    def run_ends(self, wmem: int, rmem: int, send: tuple, recv: tuple, seconds: float = 2.5,
                 both: str = LONG, unprivileged: bool = True) -> Ends:
        """(HOW, STAGE, RATE, RTT_MS) of each end; what the sender and the receiver tell. Only the receiver may have privilege."""
        path: Path = self.path(both=both)
        for side in "ab":
            path.sysctl(side, "net.ipv4.tcp_wmem", f"4096 16384 {wmem}")
            path.sysctl(side, "net.ipv4.tcp_rmem", f"4096 131072 {rmem}")
            path.route(side, congctl="cubic")
        program = built("tests/net/window")
        server = path.popen("b", [program, "recv", str(PORT), *map(str, recv)], unprivileged=unprivileged)
        wait_listening(path, "b", PORT, server)
        done = path.run("a", [program, "send", path.addr["b"], str(PORT), *map(str, send),
                              str(seconds)], unprivileged=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), json.loads(wait_line(server, lambda line: True, 20))

    NONE = ("none", "before", 1, 1)

    def check_send(self, how: str, stage: str, rate: float, reason: str, wmem: int,
                   expected: float) -> None:
        sent, _ = self.run_ends(wmem, 33554432, (how, stage, int(rate), 100), self.NONE)
        self.assertEqual(sent["reason"], reason)
        self.near(sent["window"], expected, 0.1, "planned")
        self.near(sent["in_flight"], sent["window"], SND_SHARE, "in flight")

    @thorough
    def test_send_left_to_the_kernel(self) -> None:
        self.check_send("plan", "before", 30e6, "kernel", 1000000, 0.667e6)

    def test_send_set(self) -> None:
        """A given product of 0.75 MB, or 1.8 MB, is let have 1.35 times as much; the path holds more."""
        for stage, rate, window in some(("before", 62e6, 1.01e6), ("after", 62e6, 1.01e6), ("before", 150e6, 2.44e6)):
            with self.subTest(stage=stage, rate=rate):
                self.check_send("plan", stage, rate, "set", 1000000, window)

    @thorough
    def test_send_capped(self) -> None:
        """By net.core.wmem_max: 8 MB stored."""
        self.check_send("plan", "before", 800e6, "capped", 1000000, 5.59e6)

    @thorough
    def test_send_given_back(self) -> None:
        self.check_send("40000", "after", 30e6, "kernel", 1000000, 0.667e6)

    def check_receive(self, how: str, stage: str, rate: float, reason: str, rmem: int,
                      expected: float, seconds: float = 2.5, unprivileged: bool = True) -> None:
        sent, got = self.run_ends(16777216, rmem, self.NONE, (how, stage, int(rate), 100), seconds, unprivileged=unprivileged)
        self.assertEqual(got["reason"], reason)
        self.near(got["window"], expected, 0.1, "planned")
        self.between(sent["peer_window"], 0.9 * got["window"], RCV_MOST * got["window"],
                     "advertised")
        self.between(sent["in_flight"], 0.8 * got["window"], RCV_MOST * got["window"], "in flight")

    @thorough
    def test_receive_left_to_the_kernel(self) -> None:
        for stage in ("before", "after"):
            with self.subTest(stage=stage):
                self.check_receive("plan", stage, 20e6, "kernel", 1000000, 0.5e6)

    def test_receive_set(self) -> None:
        for stage in some("before", "after"):
            with self.subTest(stage=stage):
                self.check_receive("plan", stage, 62e6, "set", 1000000, 1.5e6)

    def test_receive_forced(self) -> None:
        """Beyond net.core.rmem_max, as far as the window scale goes that this sysctl has made; without privilege to half of it."""
        for stage in some("after", "flow"):
            with self.subTest(stage=stage):
                seconds = 6 if stage == "flow" else 2.5
                self.check_receive("plan", stage, 350e6, "set", 1000000, 8.39e6, seconds, unprivileged=False)
                self.check_receive("plan", stage, 350e6, "capped", 1000000, 4.19e6, seconds)

    def test_receive_given_back(self) -> None:
        """A small buffer locked, and taken off by the plan: on a listener, once accepted, and while data flow."""
        for stage in some("after", "before", "flow"):
            with self.subTest(stage=stage):
                self.check_receive("40000", stage, 20e6, "kernel", 1000000, 0.5e6, 6 if stage == "flow" else 2.5)

    @thorough
    def test_unlocked(self) -> None:
        """autobuf_unlock() alone opens what was locked, before and after accept(), and while data flow."""
        for stage, seconds in (("before", 2.5), ("after", 2.5), ("flow", 6)):
            with self.subTest(stage=stage):
                sent, _ = self.run_ends(16777216, 4000000, self.NONE,
                                        ("unlock:40000", stage, 1, 1), seconds)
                self.assertGreater(sent["in_flight"], 1e6)
        locked, _ = self.run_ends(16777216, 4000000, self.NONE, ("40000", "before", 1000000, 1))
        self.assertLess(locked["in_flight"], 200e3)

    def test_low_delay_holds_the_receive_window(self) -> None:
        """Just above the product: to the clamp once data have come. Before, the kernel replaces it by what the buffer
        gives, which is hardly more; so it does once accepted, if the first data come after the clamp was set."""
        for stage, most in some(("data", 1.01), ("before", 1.25), ("after", 1.25)):
            with self.subTest(stage=stage):
                sent, got = self.run_ends(16777216, 33554432, self.NONE,
                                          ("low-delay", stage, 60000000, 100))
                self.assertEqual(got["reason"], "set")
                self.near(got["clamp"], 0.724e6 * 1.15, 0.02, "clamp")
                self.between(sent["in_flight"], 0.724e6, most * got["clamp"], "in flight")


class OtherLimits(PathTest):
    """The unit tests that touch real sockets, on a host with other limits than this one."""

    def test_unit_tests(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("global sysctls need root")
        for most in some(212992, 67108864):
            with global_sysctls({"net.core.rmem_max": most, "net.core.wmem_max": most}):
                for name in ("apply", "limits", "tune"):
                    with self.subTest(limit=most, name=name):
                        done = subprocess.run([built(f"tests/unit/test_{name}")], text=True,
                                              capture_output=True, timeout=60, check=False)
                        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    sys.exit(run_tests(("ip", "nsenter", "setpriv", "taskset"), ("tests/net/window", "tests/unit/test_apply")))
