#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The example tlsline on emulated paths: measuring in band, inside TLS.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select the
tests whose names contain one of them. As in test_probe.py, rates are the median of three
measurements and may be 25% off, times 10 ms.
"""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from cases import PathTest, run_tests, thorough  # noqa: E402
from path import Path, built, wait_listening  # noqa: E402

CLIENT = str(pathlib.Path(__file__).resolve().parent / "tls_client.py")
PROGRAM = "examples/tlsline"
PORT = 7412
MS = 1_000_000
LATE_NS = 10 * MS
RATE_SHARE = 0.25
KEYS = ["tx_rate_bit_per_s", "rx_rate_bit_per_s", "tx_at_least", "rx_at_least", "rtt_min_ns",
        "elapsed_ns"]
HELLO = ">AUTOBUF HELLO 1 train=463360 budget=463360\\r\\n"
ONLY_TLS_1_2 = """openssl_conf = begin
[begin]
ssl_conf = ssl
[ssl]
system_default = most
[most]
MaxProtocol = TLSv1.2
"""


class TlsTest(PathTest):
    def serve(self, path: Path) -> subprocess.Popen:
        for side in "ab":
            path.route(side, congctl="cubic")
        server = path.popen("b", [built(PROGRAM), "serve", "--port", str(PORT)],
                            stderr=subprocess.PIPE)
        wait_listening(path, "b", PORT, server)
        return server

    def measure(self, path: Path, **kw) -> dict:
        """What is measured; it says ECHO before and after, and fails if either is not answered."""
        done = path.run("a", [built(PROGRAM), "measure", path.addr["b"], str(PORT)], timeout=30,
                        **kw)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        result = json.loads(done.stdout)
        self.assertEqual(list(result), KEYS)
        return result

    def right(self, path: Path, tx_mbit: float, rx_mbit: float, rtt_ms: float, **kw) -> None:
        """Three clients of one server."""
        results = [self.measure(path, **kw) for _ in range(3)]
        for key, mbit in (("tx", tx_mbit), ("rx", rx_mbit)):
            rates = [r[f"{key}_rate_bit_per_s"] or 0 for r in results]
            self.near(statistics.median(rates), mbit * 1e6, RATE_SHARE, f"{key} rate")
            self.assertLess(sum(r[f"{key}_at_least"] for r in results), 2, f"{key} is a bound")
        for result in results:
            self.assertGreaterEqual(result["rtt_min_ns"], rtt_ms * MS)
            self.assertGreaterEqual(result["elapsed_ns"], result["rtt_min_ns"])
        self.between(statistics.median(r["rtt_min_ns"] for r in results), rtt_ms * MS,
                     rtt_ms * MS + LATE_NS, "RTT")

    def client(self, path: Path, *actions: str, raw: bool = False) -> list[str]:
        """The lines that a client of tls_client.py has heard."""
        done = path.run("a", [sys.executable, CLIENT, *(["--raw"] if raw else []), path.addr["b"],
                              str(PORT), *actions], timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def still_serves(self, path: Path, server: subprocess.Popen) -> None:
        self.assertEqual(self.client(path, ">ECHO on\\n", "<", ">QUIT\\n", "<"), ["ECHO on", "BYE"])
        self.assertIsNone(server.poll())


class Measures(TlsTest):
    def test_each_direction(self) -> None:
        for tx, rx, rtt_ms in ((100, 100, 20), (100, 10, 50), (500, 50, 10)):
            with self.subTest(tx=tx, rx=rx, rtt_ms=rtt_ms):
                delay = f"delay={rtt_ms / 2}ms"
                path = self.path(ab=f"rate={tx}M,{delay}", ba=f"rate={rx}M,{delay}")
                self.serve(path)
                self.right(path, tx, rx, rtt_ms)

    @thorough
    def test_tls_1_2(self) -> None:
        # each record has 7 bytes more of its own
        path = self.path(ab="rate=100M,delay=10ms", ba="rate=20M,delay=10ms")
        self.serve(path)
        with tempfile.NamedTemporaryFile("w", suffix=".cnf") as file:
            file.write(ONLY_TLS_1_2)
            file.flush()
            self.right(path, 100, 20, 20, env={**os.environ, "OPENSSL_CONF": file.name})

    @thorough
    def test_small_segments(self) -> None:
        path = self.path(both="rate=50M,delay=10ms", mtu=576)
        self.serve(path)
        self.right(path, 50, 50, 20)


class Withstands(TlsTest):
    def test_garbage(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        server = self.serve(path)
        self.client(path, ">not TLS at all\\r\\n\\r\\n", ".", raw=True)
        self.client(path, ">\\x16\\x03\\x01\\xff\\xff\\x01", "+20000", "!", raw=True)
        self.assertEqual(self.client(path, ">AUTOBUFF\\n", "<"), ["WHAT"])
        self.assertEqual(self.client(path, ">no end of line ", "+20000", "."), ["0"])
        heard = self.client(path, ">AUTOBUF nonsense\\n", "<", ">AUTOBUF TRAIN 100000\\n", "<",
                            ">ECHO on\\n", "<")
        self.assertRegex(heard[0], "^AUTOBUF ERROR 500 ")
        self.assertRegex(heard[1], "^AUTOBUF ERROR 503 ")
        self.assertEqual(heard[2], "ECHO on")
        self.still_serves(path, server)

    def test_gone_in_mid_train(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        server = self.serve(path)
        for end in ([], ["!"]):
            with self.subTest(end=end):
                heard = self.client(path, HELLO, "<", ">AUTOBUF TRAIN 100000\\r\\n", "<", "<5000",
                                    *end)
                self.assertRegex(heard[1], r"^AUTOBUF TRAIN \d+")
                heard = self.client(path, HELLO, "<", ">AUTOBUF SINK 100000\\r\\n", "+20000", *end)
                self.assertRegex(heard[0], "^AUTOBUF HELLO 1 ")
        self.still_serves(path, server)
        self.near(self.measure(path)["tx_rate_bit_per_s"], 100e6, RATE_SHARE, "rate")

    def test_payload_is_no_command(self) -> None:
        """And what follows the exchange in the same record is one again."""
        path = self.path(both="rate=100M,delay=5ms")
        server = self.serve(path)
        payload = "\\nQUIT\\nAUTOBUF TRAIN 5000\\n" * 20
        size = len(payload.encode().decode("unicode_escape"))
        everything = (f">AUTOBUF HELLO 1\\r\\nAUTOBUF SINK {size}\\r\\n{payload}"
                      "AUTOBUF RESULT\\r\\nECHO behind\\nQUIT\\n")
        heard = self.client(path, everything, "<", "<", "<", "<", "<", ".")
        for line, want in zip(heard, ("AUTOBUF HELLO 1 ", "AUTOBUF SINK",
                                      "AUTOBUF RESULT", "ECHO behind", "BYE", "0"), strict=True):
            self.assertTrue(line.startswith(want), line)
        self.still_serves(path, server)


if __name__ == "__main__":
    sys.exit(run_tests(("ip", "nsenter", "setpriv", "taskset"), (PROGRAM,)))
