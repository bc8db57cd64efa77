#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program with bwdelay.c and bwdelay.h added to it, on emulated paths.

Builds the target amalgamation and compiles tests/pair/pair.c with it, by one command line without any
other file of the project. Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments
select the tests whose names contain one of them. A product is the median of three and may be 25%
off, as in test_probe.py.
"""

from __future__ import annotations

import errno
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from path import Path, build_folder  # noqa: E402
from cases import PathTest, run_tests, thorough  # noqa: E402

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "pair" / "pair.c"
PRODUCT_SHARE = 0.25
PAYLOAD = 1448 / 1500
PING_GROUPS = "net.ipv4.ping_group_range"

program = ""


def setUpModule() -> None:
    """The program, where everybody can run it."""
    global program
    folder = unittest.enterModuleContext(tempfile.TemporaryDirectory(prefix="autobuf-tests."))
    subprocess.run(["ninja", "-C", str(build_folder()), "amalgamation"], check=True,
                   stdout=subprocess.DEVNULL)
    for name in ("bwdelay.c", "bwdelay.h"):
        shutil.copy(build_folder() / name, folder)
    shutil.copy(SOURCE, folder)
    program = os.path.join(folder, "pair")
    subprocess.run(["cc", "-O2", "-o", program, f"{program}.c", os.path.join(folder, "bwdelay.c")],
                   check=True)
    subprocess.run(["chmod", "-R", "a+rX", folder], check=True)


UNSURE = "too few replies came, or agree"


class Pair(PathTest):
    def measure(self, path: Path, host: str, unprivileged: bool = False) -> float:
        """The median of three products that the program tells, in bytes of payload."""
        products = []
        for _ in range(3):
            for _ in range(3):  # a busy machine has no answer for some
                done = path.run("a", [program, host], timeout=20, unprivileged=unprivileged)
                if UNSURE not in done.stderr:
                    break
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            product, applied = map(int, done.stdout.split())
            self.assertIn(applied, (0, 1))
            products.append(product)
        return statistics.median(products)

    def product(self, mbit_per_s: int, rtt_ms: int) -> float:
        return mbit_per_s * 1e3 * rtt_ms / 8 * PAYLOAD

    def test_product(self) -> None:
        for rate, delay in ((10, 25), (50, 20), (100, 50)):
            with self.subTest(rate=rate, delay=delay):
                path = self.path(both=f"rate={rate}M,delay={delay}ms")
                self.near(self.measure(path, path.addr["b"]), self.product(rate, 2 * delay),
                          PRODUCT_SHARE, "product")

    def test_ipv6(self) -> None:
        path = self.path(both="rate=50M,delay=20ms")
        if not path.has_ipv6:
            self.skipTest("no IPv6 here")
        self.near(self.measure(path, path.addr6["b"]), self.product(50, 40), PRODUCT_SHARE,
                  "product")

    def test_ping_socket(self) -> None:
        # no privilege, but ping sockets
        path = self.path(both="rate=50M,delay=20ms")
        path.sysctl("a", PING_GROUPS, "0 65534")
        self.near(self.measure(path, path.addr["b"], unprivileged=True), self.product(50, 40),
                  PRODUCT_SHARE, "product")

    @thorough
    def test_nothing_is_kept(self) -> None:
        """autobuf_tune() of bwdelay.c measures each time, and leaves no path store behind."""
        path = self.path(both="rate=50M,delay=20ms")
        with tempfile.TemporaryDirectory(prefix="autobuf-tests.") as home:
            for _ in range(2):
                done = path.run("a", ["env", f"HOME={home}", f"AUTOBUF_PATHS={home}/paths", program, path.addr["b"], "tune"], timeout=20)
                self.assertEqual((done.returncode, done.stdout.split()[:1]), (0, ["1"]), done.stdout + done.stderr)
            self.assertEqual(os.listdir(home), [])

    def test_next_address(self) -> None:
        """Of a host with two, of which a router says that the first cannot be reached."""
        path = self.path(both="rate=50M,delay=20ms")
        path.sysctl("b", "net.ipv4.ip_forward", 1)
        for side, command in (("a", "route add 10.98.0.0/23 via 10.77.0.2"), ("b", "route add unreachable 10.98.0.0/24"),
                              ("b", "address add 10.98.1.1/32 dev lo"), ("b", "link set lo up")):
            self.assertEqual(path.run(side, ["ip", *command.split()]).returncode, 0, command)
        files = ("mount -t tmpfs none /etc && echo multi on >/etc/host.conf && echo hosts: files >/etc/nsswitch.conf && "
                 "printf '%s two.example\n' 10.98.0.1 10.98.1.1 >/etc/hosts || exit 99")
        done = path.run("a", ["unshare", "--mount", "sh", "-c", f'{files}; exec "$1" two.example', "sh", program], timeout=20)
        if done.returncode == 99 or "unshare:" in done.stderr:
            self.skipTest("no file system can be mounted here: " + done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        product = self.product(50, 40)
        self.between(int(done.stdout.split()[0]), product / 2, 2 * product, "product, measured once")
        told = path.run("a", ["cat", "/proc/net/snmp"]).stdout
        names, values = [line.split() for line in told.splitlines() if line.startswith("Icmp:")]
        self.assertGreater(int(values[names.index("InDestUnreachs")]), 0, "the first was not tried")

    def test_not_permitted(self) -> None:
        path = self.path(both="rate=50M,delay=20ms")
        path.sysctl("a", PING_GROUPS, "1 0")
        done = path.run("a", [program, path.addr["b"]], timeout=20, unprivileged=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"bwdelay(): {-errno.EACCES} ({os.strerror(errno.EACCES)}", done.stdout)
        self.assertEqual(path.truth()["ab"]["packets"], 0)


if __name__ == "__main__":
    sys.exit(run_tests(("cc", "ninja", "ip", "nsenter", "setpriv", "taskset"), ("build.ninja",)))
