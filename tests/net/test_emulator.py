#!/usr/bin/env python3
"""Is the emulated path what it says it is? Checked with ping, iperf3 and a UDP counter.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select
the tests whose names contain one of them. Times of arrival are the kernel's stamps; rates are
medians, so that a pause in which a shared machine did something else does not count. Each
tolerance is explained where it is used.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import cases  # noqa: E402
from cases import PathTest, run_tests, thorough  # noqa: E402
from path import (  # noqa: E402
    Path, PathError, TooLate, default_pathemu, global_sysctls, machine_lock, recover, wait_line,
    wait_listening)

PORT = 7600
LEN = 1500  # of an IP packet
HEADER = struct.Struct("!IQ")  # sequence number, CLOCK_REALTIME at sending
SO_TIMESTAMPNS = 35
SO_RCVBUFFORCE = 33
LATE_MS = 3.0
"""How much later than configured the median packet may be, on a machine shared with others."""


# ---- the UDP counter: this file, run inside a namespace ----


def udp_recv(family: str) -> None:
    """Count until a line comes on stdin, then print [[sequence, sent, arrived], ...]."""
    sock = socket.socket(socket.AF_INET6 if family == "6" else socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    sock.bind(("", PORT))
    sock.setblocking(False)
    got = []
    while True:
        ready = select.select([sock, sys.stdin], [], [])[0]
        try:
            while True:
                data, control, _, _ = sock.recvmsg(65535, 64)
                seconds, ns = struct.unpack("qq", control[0][2])
                got.append((*HEADER.unpack_from(data), seconds * 10**9 + ns))
        except BlockingIOError:
            pass
        if sys.stdin in ready:
            break
    print(json.dumps(got))


def udp_send(host: str, count: int, payload: int, interval_ns: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.connect((host, PORT))
    data = bytearray(payload)
    start = time.monotonic_ns()
    for i in range(count):
        while interval_ns and time.monotonic_ns() < start + i * interval_ns:
            pass
        HEADER.pack_into(data, 0, i, time.clock_gettime_ns(time.CLOCK_REALTIME))
        sock.send(data)


# ---- what the tests share ----


def other(side: str) -> str:
    return "b" if side == "a" else "a"


def settle(path: Path, way: str, packets: int, timeout: float = 20.0) -> dict:
    """The truth of a direction once that many packets have gone in, and come out or been lost."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        truth = path.truth()[way]
        gone = sum(truth[k] for k in ("delivered_packets", "drops_queue", "drops_loss"))
        if truth["packets"] >= packets and gone == truth["packets"]:
            return truth
    raise AssertionError(f"{packets} packets have not settled after {timeout} s: {truth}")


class Flow:
    """UDP packets from one side to the other: rows of (sequence, sent_ns, arrived_ns)."""

    def __init__(self, path: Path, side: str, count: int, length: int = LEN, interval_ns: int = 0,
                 ipv6: bool = False, meanwhile=None) -> None:
        way = side + other(side)
        host = (path.addr6 if ipv6 else path.addr)[other(side)]
        me = [sys.executable, os.path.abspath(__file__)]
        receiver = path.popen(other(side), [*me, "--udp-recv", "6" if ipv6 else "4"],
                              stdin=subprocess.PIPE)
        wait_listening(path, other(side), PORT, receiver, protocol="udp")
        path.reset()
        payload = length - (48 if ipv6 else 28)
        sender = path.popen(side, [*me, "--udp-send", host, str(count), str(payload),
                                   str(interval_ns)])
        if meanwhile:
            meanwhile()
        if sender.wait(30) != 0:
            raise AssertionError("the sender failed")
        self.truth = settle(path, way, count)
        self.rows = json.loads(receiver.communicate("stop\n", timeout=20)[0])
        self.length = length

    def offered(self) -> float:
        """Bit/s at which the sender sent."""
        sent = [row[1] for row in self.rows]
        return (len(sent) - 1) * self.length * 8e9 / (sent[-1] - sent[0])

    def rate(self, first: int = 0, last: int | None = None) -> float:
        """Bit/s, IP: the median over pairs of packets that are an eighth of the flow apart."""
        at = [row[2] for row in self.rows[first:last]]
        lag = max(1, len(at) // 8)
        gap_ns = statistics.median(at[i + lag] - at[i] for i in range(len(at) - lag))
        return lag * self.length * 8e9 / gap_ns

    def delays_ms(self) -> list[float]:
        return [(arrived - sent) / 1e6 for _, sent, arrived in self.rows]


def ping(path: Path, side: str = "a", count: int = 10, *args: str,
         ipv6: bool = False) -> tuple[int, list[float]]:
    """Exit code and the round-trip times in ms."""
    host = (path.addr6 if ipv6 else path.addr)[other(side)]
    done = path.run(side, ["ping", "-n", "-c", str(count), "-i", "0.02", "-W", "2", *args, host])
    times = [float(word[5:]) for word in done.stdout.split() if word.startswith("time=")]
    return done.returncode, times


def iperf(path: Path, seconds: float = 2.0, ipv6: bool = False, look=None) -> float:
    """Bit/s of payload that an unprivileged TCP transfer from a to b gets."""
    server = path.popen("b", ["iperf3", "-s", "-1"], unprivileged=True)
    wait_listening(path, "b", 5201, server)
    host = (path.addr6 if ipv6 else path.addr)["b"]
    client = path.popen("a", ["iperf3", "-c", host, "-t", str(seconds), "-J"], unprivileged=True)
    if look:
        look()
    result = json.loads(client.communicate(timeout=seconds + 20)[0])
    server.communicate(timeout=20)
    if "error" in result:
        raise AssertionError(result["error"])
    return result["end"]["sum_received"]["bits_per_second"]


class Shape(PathTest):
    """Each parameter by itself."""

    def test_rate(self) -> None:
        # 200 ms each; 3%. Less is no fault of the link when the sender or the emulator paused
        for rate, count in ((10, 167), (100, 1667), (400, 6667)):
            with self.subTest(rate=rate), Path(both=f"rate={rate}M,delay=5ms") as path:
                for _ in range(5):
                    flow = Flow(path, "a", count)
                    got = flow.rate() / 1e6
                    self.between(got, 0, 1.03 * rate, "rate")
                    if got >= 0.97 * rate:
                        break
                    if flow.offered() > 1.2e6 * rate and flow.truth["stall_max_ns"] < 2e6:
                        self.untimely(f"rate: {got:.6g}, expected {rate} within 3%")
                else:
                    self.skipTest(f"too busy a machine for {rate} Mbit/s")

    def test_delay(self) -> None:
        # RTT: never below, at most LATE_MS above
        for delay in (1, 50):
            path = self.path(both=f"delay={delay}ms")
            for ipv6 in (False, True):
                code, times = ping(path, ipv6=ipv6)
                self.assertEqual((code, len(times)), (0, 10))
                self.between(min(times), 2 * delay - 0.005, 2 * delay + LATE_MS, "least RTT")
                self.between(statistics.median(times), 2 * delay, 2 * delay + LATE_MS, "RTT")

    @thorough
    def test_directions_are_separate(self) -> None:
        # 3% and LATE_MS
        path = self.path(ab="rate=10M,delay=30ms", ba="rate=50M,delay=5ms")
        for side, rate, delay in (("a", 10, 30), ("b", 50, 5)):
            flow = Flow(path, side, rate * 17)
            self.near(flow.rate(), rate * 1e6, 0.03, "rate")
            first = delay + LEN * 8 / rate / 1e3
            lone = Flow(path, side, 5, interval_ns=20_000_000)  # a sender may lose its processor right before a packet
            self.between(min(flow.delays_ms() + lone.delays_ms()), first - 0.005, first + LATE_MS, "delay")
        self.assertEqual(path.truth()["ab"]["packets"], 0)

    @thorough
    def test_ipv6(self) -> None:
        path = self.path(both="rate=20M,delay=5ms")
        self.near(Flow(path, "a", 334, ipv6=True).rate(), 20e6, 0.03, "rate")

    @thorough
    def test_queue(self) -> None:
        # 100 packets fit; more only as far as it drained while the sender sent, which truth tells
        path = self.path(ab="rate=1M,queue=150K", ba="rate=1M")
        flow = Flow(path, "a", 150)
        self.assertEqual(flow.truth["queue_max_bytes"], 150000)
        self.assertEqual(flow.truth["drops_loss"], 0)
        self.assertEqual(len(flow.rows), 150 - flow.truth["drops_queue"])
        self.between(len(flow.rows), 100, 110, "delivered")
        self.near(flow.rate(), 1e6, 0.03, "rate")
        # the last waits for all before it: 12 ms a packet
        self.between(max(flow.delays_ms()), 1195, 1200 + 20 * LATE_MS, "longest wait")

    @thorough
    def test_loss(self) -> None:
        # four standard deviations; the truth itself exactly
        path = self.path(ab="loss=0.02", seed=4711)
        flow = Flow(path, "a", 5000)
        self.assertEqual(len(flow.rows), 5000 - flow.truth["drops_loss"])
        self.between(flow.truth["drops_loss"], 60, 140, "lost of 5000")

    @thorough
    def test_jitter(self) -> None:
        # 20 to 30 ms, uniform, packets far enough apart not to meet: median 25 within 2 + late
        path = self.path(ab="delay=20ms,jitter=10ms", seed=1)
        flow = Flow(path, "a", 100, 100, 12_000_000)
        delays = flow.delays_ms()
        self.assertEqual([row[0] for row in flow.rows], list(range(100)))
        self.between(min(delays), 19.995, 21 + LATE_MS, "least")
        self.between(max(delays), 28, 1000, "most")
        self.between(statistics.median(delays), 23, 27 + LATE_MS, "median")

    @thorough
    def test_reordering(self) -> None:
        # 10% of 1000 within four standard deviations; each of them 10 ms later, LATE_MS
        path = self.path(ab="delay=5ms,reorder=0.1,reorder_by=10ms", seed=1)
        flow = Flow(path, "a", 1000, 100, 1_000_000)
        self.assertEqual(sorted(row[0] for row in flow.rows), list(range(1000)))
        delays = flow.delays_ms()
        overtaken = [delays[i] for i in range(999)
                     if flow.rows[i][0] < max(row[0] for row in flow.rows[max(0, i - 40):i + 1])]
        self.between(len(overtaken), 62, 138, "overtaken")
        self.between(statistics.median(overtaken), 14.995, 15 + LATE_MS, "their delay")

    @thorough
    def test_token_bucket(self) -> None:
        # 60 KB at the peak are 60 * 200 / 190 = 63 KB: 42 packets, 2.5 ms. 10%; then 3%
        path = self.path(ab="rate=10M,burst=60K,peak=200M,delay=5ms")
        rates = []
        for _ in range(3):  # a pause of the machine can hide 2.5 ms, but hardly thrice
            flow = Flow(path, "a", 300)
            rates.append(flow.rate(0, 40))
            self.near(flow.rate(50), 10e6, 0.03, "sustained rate")
            if abs(rates[-1] - 200e6) <= 20e6:
                return
            path.change("ab", burst="0", peak="0")  # a new bucket is a full one
            path.change("ab", burst="60K", peak="200M")
        self.untimely(f"peak rates {rates}, expected 2e8 within 10%")

    @thorough
    def test_cross_traffic(self) -> None:
        # it takes no notice of losses, so TCP gets the other half: 15 to 26 of 50 Mbit/s
        path = self.path(both="rate=50M,delay=5ms", ab="cross=0.5,queue=100K")
        path.route("a", congctl="cubic")
        path.reset()
        start = time.monotonic()
        self.between(iperf(path), 15e6, 26e6, "rate of TCP")
        truth = path.truth()["ab"]
        elapsed = time.monotonic() - start
        self.near(truth["cross_packets"], elapsed * 25e6 / 8 / LEN, 0.05, "cross packets")

    @thorough
    def test_mtu(self) -> None:
        for mtu in (1280, 9000):
            path = self.path(both="delay=1ms", mtu=mtu)
            self.assertEqual(ping(path, "a", 1, "-M", "do", "-s", str(mtu - 28))[0], 0)
            self.assertNotEqual(ping(path, "a", 1, "-M", "do", "-s", str(mtu - 27))[0], 0)
            truth = path.truth()["ab"]
            self.assertEqual((truth["packets"], truth["bytes"]), (1, mtu))
            self.assertEqual(ping(path, "a", 1, "-M", "do", "-s", str(mtu - 48), ipv6=True)[0], 0)


class Truth(PathTest):
    """What the emulator says about itself, and being changed in mid-run."""

    @thorough
    def test_only_the_tests_own_packets(self) -> None:
        path = self.path(both="delay=1ms")
        ping(path, count=7)
        ping(path, count=5, ipv6=True)
        for way in path.truth().values():
            self.assertEqual((way["packets"], way["delivered_packets"]), (12, 12))
        path.reset()
        self.assertEqual(path.truth()["ab"]["packets"], 0)

    @thorough
    def test_change_reaches_what_waits(self) -> None:
        # 400 packets at 10 Mbit/s would last 480 ms; after 100 of them 40 Mbit/s. 5%
        path = self.path(ab="rate=10M,delay=5ms")

        def change() -> None:
            deadline = time.monotonic() + 10
            while path.truth()["ab"]["delivered_packets"] < 100 and time.monotonic() < deadline:
                pass
            path.change("ab", rate="40M")

        flow = Flow(path, "a", 400, meanwhile=change)
        self.near(flow.rate(0, 90), 10e6, 0.05, "rate before")
        self.near(flow.rate(250), 40e6, 0.05, "rate after")

    @thorough
    def test_change_of_delay_and_loss(self) -> None:
        path = self.path(both="delay=5ms")
        path.change("ba", delay="45ms")
        self.between(statistics.median(ping(path)[1]), 50, 50 + LATE_MS, "RTT")
        path.change("ab", loss=1)
        self.assertEqual(ping(path, "a", 1)[0], 1)
        path.change("both", loss=0, delay=0)
        self.between(statistics.median(ping(path)[1]), 0, LATE_MS, "RTT")

    def test_errors(self) -> None:
        path = self.path(both="delay=1ms")
        for bad in ({"rate": "fast"}, {"speed": "1M"}, {"loss": 2}, {"delay": '1"ms'}):
            with self.assertRaises(PathError):
                path.change("ab", **bad)
        with self.assertRaises(PathError):
            path.change("ac", rate="1M")
        self.assertEqual(ping(path, count=1)[0], 0)
        for args in (["--mtu", "9"], ["--both", "rate=x"], ["--nonsense"], ["more"], ["--ab"]):
            done = subprocess.run([default_pathemu(), *args], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr.count("\n"), 1)

    def test_ends_with_the_truth(self) -> None:
        for end in (signal.SIGTERM, signal.SIGINT, None):
            with Path(both="delay=1ms") as path:
                ping(path, count=3)
                if end:
                    os.kill(path.pid, end)
            self.assertEqual(path.final["ba"]["delivered_packets"], 3)

    def ticks(self, path: Path) -> int:
        with open(f"/proc/{path.pid}/stat") as stat:
            return sum(map(int, stat.read().rpartition(")")[2].split()[11:13]))

    def test_idle_uses_no_cpu(self) -> None:
        # in half a second of nothing: at most two ticks of 10 ms
        path = self.path(both="rate=1G,delay=50ms")
        ping(path, count=1)
        before = self.ticks(path)
        path.run("a", ["sleep", "0.5"])
        self.assertLessEqual(self.ticks(path) - before, 2)

    def test_with_company_it_sleeps_between_packets(self) -> None:
        # 100 pings, some milliseconds apart: it would look for a packet all the time otherwise
        spent = []
        for company in (False, True):
            with mock.patch.object(sys.modules["path"], "has_company", company), Path(both="delay=5ms") as path:
                before = self.ticks(path)
                status, rtts = ping(path, "a", 100, "-i", "0.001")
                spent.append(self.ticks(path) - before)
                self.assertEqual(status, 0)
                self.between(statistics.median(rtts), 10, 11, "RTT, ms")
        self.assertLess(spent[1], 0.5 * spent[0])


class Ends(PathTest):
    """The hosts at both ends: congestion control by route, sysctls, privilege."""

    @thorough
    def test_congestion_control_by_route(self) -> None:
        # both ends, unprivileged; TCP gets 85% of the rate (headers 4%, slow start the rest)
        other_cc = "reno"
        for ipv6 in (False, True):
            path = self.path(both="rate=50M,delay=5ms", ab="queue=200K")
            for side in "ab":
                path.route(side, congctl=other_cc)
                path.route(side, congctl="cubic", initcwnd=10)

            def look() -> None:
                for side in "ab":
                    deadline = time.monotonic() + 10
                    found = []
                    while len(found) < 2 and time.monotonic() < deadline:
                        lines = path.run(side, ["ss", "-tinHO", "state", "established"]).stdout
                        found = [line.split() for line in lines.splitlines()]
                    self.assertEqual(len(found), 2)
                    for words in found:
                        self.assertIn("cubic", words)
                        self.assertNotIn(other_cc, words)

            self.between(iperf(path, ipv6=ipv6, look=look), 42.5e6, 50e6, "rate of TCP")

    def test_sysctl_is_of_one_namespace(self) -> None:
        path = self.path()
        name = "net.ipv4.tcp_rmem"
        before = path.sysctl("b", name)
        path.sysctl("a", name, "4096 65536 131072")
        self.assertEqual(path.sysctl("a", name).split(), ["4096", "65536", "131072"])
        self.assertEqual(path.sysctl("b", name), before)
        with self.assertRaises(PathError):
            path.sysctl("a", "net.ipv4.no_such_thing", 1)

    def test_a_server_that_does_not_listen_is_quoted(self) -> None:
        """At once, if it has ended."""
        path = self.path()
        ends, stays = ["sh", "-c", "echo bad option >&2; exit 3"], ["sh", "-c", "echo so far >&2; echo; exec sleep 1000"]
        for command, timeout, how in ((ends, 1000, "and its server has ended with 3: bad option"), (stays, 0.1, "after 0.1 s: so far")):
            for logged in (False, True):
                with self.subTest(command, logged=logged), tempfile.NamedTemporaryFile() as log:
                    server = path.popen("b", command, stderr=log if logged else subprocess.PIPE)
                    if command is stays:
                        wait_line(server, lambda line: True)
                    with self.assertRaises(TooLate if command is stays else PathError) as caught:
                        wait_listening(path, "b", PORT, server, log.name if logged else None, timeout)
                    self.assertEqual(str(caught.exception), f"nothing listens on port {PORT} of b {how}")

    def test_unprivileged(self) -> None:
        path = self.path()
        show = ["sh", "-c", "id -u; id -G; grep CapEff /proc/self/status"]
        lines = path.run("a", show, unprivileged=True).stdout.split()
        self.assertEqual(int(lines[-1], 16), 0)
        if os.geteuid() == 0:
            self.assertEqual(lines[:2], ["65534", "65534"])
        self.assertNotEqual(int(path.run("a", show).stdout.split()[-1], 16), 0)


def wait_gone(pids: list[int], timeout: float = 10.0) -> list[int]:
    """Those of the processes that still run when the time is up."""
    deadline = time.monotonic() + timeout
    left = []
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        if not select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
            left.append(pid)
        os.close(fd)
    return left


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        direct = [int(word) for word in file.read().split()]
    return direct + [below for child in direct for below in children(child)]


def namespaces_in_use() -> set[str]:
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found.add(os.readlink(f"/proc/{pid}/ns/net"))
        except OSError:
            pass
    return found


PARENT = """
import os, sys
sys.path.insert(0, sys.argv[1])
from path import *
name, value = sys.argv[2:]
with global_sysctls({name: value} if value else {}), Path(both="delay=1ms") as path:
    for side, low in (("a", False), ("a", True), ("b", False), ("b", True)):
        child = path.popen(side, ["sh", "-c", "echo; exec sleep 1000"], unprivileged=low)
        wait_line(child, lambda line: True)
    for side in "ab":
        print(path.run(side, ["readlink", "/proc/self/ns/net"]).stdout.strip())
    print("up", flush=True)
    sys.stdin.read()
"""
WITH_FILES = """
import sys, tempfile
sys.path.insert(0, sys.argv[1])
from cases import own_folder
with own_folder():
    print(tempfile.mkdtemp(), flush=True)
    sys.stdin.read()
"""
SYSCTL = "net.core.optmem_max"  # nothing here depends on it


class Killed(unittest.TestCase):
    """Nothing is left when the process that made it all is killed."""

    def start(self, value: str = "") -> tuple[subprocess.Popen, list[int], set[str]]:
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, os.path.dirname(os.path.abspath(__file__)), SYSCTL,
             value], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(parent.communicate)
        self.addCleanup(parent.kill)
        spaces = {wait_line(parent, str.strip, 60), wait_line(parent, str.strip)}
        wait_line(parent, lambda line: line == "up")
        # a guardian, the emulator and four commands
        pids = children(parent.pid)
        self.assertEqual(len(pids), 6)
        return parent, pids, spaces

    def sysctl(self) -> int:
        with open("/proc/sys/" + SYSCTL.replace(".", "/")) as file:
            return int(file.read())

    def test_processes_and_namespaces(self) -> None:
        value = self.sysctl() if os.geteuid() == 0 else 0
        parent, pids, spaces = self.start(str(value + 4096) if value else "")
        self.assertEqual(len(spaces), 2)
        if value:
            self.assertEqual(self.sysctl(), value + 4096)
        parent.kill()
        self.assertEqual(wait_gone([parent.pid, *pids]), [])
        self.assertEqual(spaces & namespaces_in_use(), set())
        if value:
            self.assertEqual(self.sysctl(), value)

    def test_temporary_files(self) -> None:
        parent = subprocess.Popen([sys.executable, "-c", WITH_FILES, os.path.dirname(os.path.abspath(__file__))],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(parent.communicate)
        self.addCleanup(parent.kill)
        folder = os.path.dirname(wait_line(parent, str.strip, 60).strip())
        pids = children(parent.pid)
        self.assertNotEqual(os.listdir(folder), [])
        parent.kill()
        self.assertEqual(wait_gone([parent.pid, *pids]), [])
        self.assertFalse(os.path.exists(folder))

    def test_guardian_killed_too(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("global sysctls need root")
        value = self.sysctl()
        parent, pids, _ = self.start(str(value + 4096))
        with open(f"/proc/{parent.pid}/task/{parent.pid}/children") as file:
            direct = [int(word) for word in file.read().split()]
        for pid in direct:
            with open(f"/proc/{pid}/cmdline") as file:
                if "--guardian" in file.read():
                    os.kill(pid, signal.SIGKILL)
        parent.kill()
        self.assertEqual(wait_gone([parent.pid, *pids]), [])
        self.assertEqual(self.sysctl(), value + 4096)
        with machine_lock():
            recover()  # done already, unless an outer run holds the lock
            self.assertEqual(self.sysctl(), value)

    def test_restored_without_being_killed(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("global sysctls need root")
        value = self.sysctl()
        with self.assertRaises(KeyError), global_sysctls({SYSCTL: value + 4096}):
            self.assertEqual(self.sysctl(), value + 4096)
            with self.assertRaises(RuntimeError), global_sysctls({SYSCTL: value}):
                pass
            raise KeyError
        self.assertEqual(self.sysctl(), value)


IN_MOUNTS = """
set -e
mount -t tmpfs -o mode=755 none /mnt
{prepare}
mount --bind /mnt/tun /dev/net/tun
exec {run}
"""


class Elsewhere(PathTest):
    """Machines that differ from this one, as far as a mount namespace can show them."""

    def sh(self, prepare: str, run: str) -> subprocess.CompletedProcess:
        if os.geteuid() != 0:
            self.skipTest("needs root to change the device node")
        script = IN_MOUNTS.format(prepare=prepare, run=run)
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True,
                              text=True, timeout=60, stdin=subprocess.DEVNULL)
        if "unshare:" in done.stderr or "mount:" in done.stderr:
            self.skipTest(done.stderr.strip())
        return done

    def test_skips_without_tun(self) -> None:
        me = os.path.abspath(__file__)
        done = self.sh("touch /mnt/tun", f"{sys.executable} {me} test_delay")
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertRegex(done.stdout, r"1\.\.0 # SKIP .*/dev/net/tun")

    @thorough
    def test_ordinary_user(self) -> None:
        # build, source and this Python may lie where only root can look
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
        if not python:
            self.skipTest("no python3 in /usr")
        here = os.path.dirname(os.path.abspath(__file__))
        prepare = (f"mknod -m 666 /mnt/tun c 10 200; mkdir -p /mnt/build/tests/net; "
                   f"cp {here}/*.py /mnt; cp {default_pathemu()} /mnt/build/tests/net")
        run = ("env AUTOBUF_BUILD=/mnt/build PYTHONDONTWRITEBYTECODE=1 "
               "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all "
               f"{python} /mnt/test_emulator.py Ends test_delay test_loss test_processes")
        done = self.sh(prepare, run)
        if done.returncode == 77:
            self.skipTest(done.stdout.partition("SKIP ")[2].strip())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Judging(unittest.TestCase):
    """Of tests that failed: those on a path that was late are run again, and at last skipped if that explains their failure."""

    IN_VAIN = (TooLate("x"), TimeoutError("x"), subprocess.TimeoutExpired("x", 1))
    EXPLAINED = (cases.Untimely("x"), *IN_VAIN)
    OTHERS = (AssertionError("x"), PathError("x"), ValueError("x"))

    def outcome(self, error: Exception, late: str, fails: int, timeless: bool = False, crowded: str = "crowded") -> tuple[int, int, int]:
        """Of a test that fails so often: how often it was run, its failures, its skips."""
        runs = []

        class Failing(PathTest):
            beside = timeless

            def lateness(self) -> str:
                return late

            def test_it(self) -> None:
                runs.append(self)
                if len(runs) <= fails:
                    raise error

        result = unittest.TestResult()
        with contextlib.redirect_stdout(io.StringIO()), mock.patch.object(cases, "crowding", return_value=crowded if late else ""):
            Failing("test_it").run(result)
        return len(runs), len(result.failures) + len(result.errors), len(result.skipped)

    def test_what_failed_on_a_late_path_is_run_again(self) -> None:
        for error in (*self.EXPLAINED, *self.OTHERS):
            with self.subTest(error=error):
                self.assertEqual(self.outcome(error, "", 1), (1, 1, 0))
                self.assertEqual(self.outcome(error, "late", 0), (1, 0, 0))
                self.assertEqual(self.outcome(error, "late", 2), (3, 0, 0))
        self.assertEqual(self.outcome(unittest.SkipTest("not here"), "late", 1), (1, 0, 1))

    def test_only_what_concerns_time_is_skipped(self) -> None:
        for errors, timeless, failures in ((self.EXPLAINED, False, 0), (self.EXPLAINED, True, 1), (self.OTHERS, False, 1)):
            for error in errors:
                with self.subTest(error=error, timeless=timeless):
                    self.assertEqual(self.outcome(error, "late", 3, timeless), (3, failures, 1 - failures))
        for error in self.EXPLAINED:
            failures = int(error in self.IN_VAIN)
            self.assertEqual(self.outcome(error, "late", 3, crowded=""), (3, failures, 1 - failures))

    def test_which_assertions_concern_time(self) -> None:
        case = PathTest()
        for check in (lambda: case.near(1, 2, 0.1, "x"), lambda: case.between(3, 1, 2, "x"), lambda: case.untimely("x"),
                      lambda: case.assertLess(2, 1), lambda: case.assertLessEqual(2.0, 1), lambda: case.assertGreater(1, 2),
                      lambda: case.assertGreaterEqual(1, 2, "x"), lambda: case.assertAlmostEqual(1, 2, delta=0.5)):
            with self.assertRaises(cases.Untimely):
                check()
        for check in (lambda: case.assertLess({1}, {1}), lambda: case.assertEqual(1, 2), lambda: case.assertTrue(False)):
            with self.assertRaises(AssertionError) as caught:
                check()
            self.assertNotIsInstance(caught.exception, cases.UNTIMELY)
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as silent:
            with self.assertRaises(TooLate):
                wait_line(silent, lambda line: True, 0)
            silent.stdin.close()
            with self.assertRaises(PathError) as caught:
                wait_line(silent, lambda line: True)
            self.assertNotIsInstance(caught.exception, cases.UNTIMELY)


def main() -> int:
    if sys.argv[1:2] == ["--udp-recv"]:
        udp_recv(sys.argv[2])
        return 0
    if sys.argv[1:2] == ["--udp-send"]:
        udp_send(sys.argv[2], *map(int, sys.argv[3:]))
        return 0
    return run_tests(("ping", "iperf3", "ip", "ss", "nsenter", "setpriv"))


if __name__ == "__main__":
    sys.exit(main())
