#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What an FTP client measures over its control connection, both ends of which the library reads and writes itself.

Prints TAP. As in test_inband.py: rates are the median of three measurements and may be 25% off.
"""
from __future__ import annotations

import os
import re
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from cases import PathTest, run_tests, some, thorough  # noqa: E402
from path import Path, built, wait_listening  # noqa: E402

TOOL = "tests/net/ftp_control"
PORT = 2121
RATE_SHARE = 0.25
SMALL_WINDOWS = "4096 131072 1048576"
"""tcp_rmem: autotuning makes less of it than may be set, so a server's receive window can be too small."""


class Control(PathTest):
    def measure(self, p: Path, way: str) -> str:
        """What the client says."""
        server = p.popen("b", [built(TOOL), "serve", str(PORT)])
        wait_listening(p, "b", PORT, server)
        done = p.run("a", [built(TOOL), "measure", p.addr["b"], str(PORT), way])
        self.assertEqual((done.returncode, server.wait(10)), (0, 0), done.stdout + done.stderr)
        return done.stdout

    def rates(self, way: str, both: str, cc: str) -> list[tuple[bool, float]]:
        """Of three measurements: whether it is a lower bound, and Mbit/s."""
        p = self.path(both=both)
        for side in "ab":
            p.route(side, congctl=cc)
            p.sysctl(side, "net.ipv4.tcp_rmem", SMALL_WINDOWS)
        found = []
        for _ in range(3):
            said = self.measure(p, way)
            found += [(bool(least), float(rate)) for least, rate in re.findall(
                r"^path (?:to|from) the server: (at least )?([\d.]+) Mbit/s", said, re.M)]
            self.assertRegex(said, "(?m)^the server (sets|is not asked to set)")
        self.assertEqual(len(found), 3)
        return found

    def test_downloads(self):
        for rate, delay_ms, cc in some((400, 50, "cubic"), (100, 100, "reno"), (1000, 40, "cubic")):
            with self.subTest(rate=rate, delay_ms=delay_ms, cc=cc):
                found = self.rates("get", f"rate={rate}M,delay={delay_ms}ms,queue=4M", cc)
                self.near(statistics.median(mbit for _, mbit in found), rate, RATE_SHARE, "Mbit/s")

    @thorough
    def test_downloads_from_a_sender_that_paces(self):
        """bbr paces a train before it knows the path: what it shows is right, or is called a lower bound."""
        for least, mbit in self.rates("get", "rate=400M,delay=50ms,queue=4M", "bbr"):
            self.between(mbit, 0 if least else 400 * (1 - RATE_SHARE), 400 * (1 + RATE_SHARE), "Mbit/s")

    @thorough
    def test_uploads_to_a_server_whose_window_may_be_too_small(self):
        for rate, delay_ms, cc in ((400, 50, "cubic"), (100, 100, "reno")):
            with self.subTest(rate=rate, delay_ms=delay_ms, cc=cc):
                found = self.rates("put", f"rate={rate}M,delay={delay_ms}ms,queue=4M", cc)
                self.near(statistics.median(mbit for _, mbit in found), rate, RATE_SHARE, "Mbit/s")

    def test_other_uploads_are_not_measured_before(self):
        p = self.path(both="rate=400M,delay=50ms,queue=10M")
        said = self.measure(p, "put")
        self.assertIn("not measured before the transfer", said)
        self.assertLess(p.truth()["ab"]["bytes"], 1000)  # the handshake, and the end


if __name__ == "__main__":
    sys.exit(run_tests(("unshare", "ip"), (TOOL,)))
