#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""autobuf(1) on emulated paths: what it measures, what it withstands, how it ends.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select
the tests whose names contain one of them. Rates are the median of three measurements and may be
25% off, times 10 ms and a wall clock 1 s too late: enough for a machine shared with others. The
benchmarks show how exact they are.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pathlib
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Sequence

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import schema  # noqa: E402
from at_once import beside  # noqa: E402
from cases import PathTest, run_tests, thorough  # noqa: E402
from path import Path, built, wait_line, wait_listening  # noqa: E402
from test_emulator import ping  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
MS = 1_000_000
LATE_NS = 10 * MS
SLACK_S = 1.0
RATE_SHARE = 0.25
BUDGET_BYTES = 1_000_000
CHEAP_BYTES = 64_000
PING_GROUPS = "net.ipv4.ping_group_range"
ALL, NONE = "0 65534", "1 0"

RATES = [f"{side}_{what}" for side in ("tx", "rx") for what in (
    "rate_bit_per_s", "rate_low_bit_per_s", "rate_high_bit_per_s", "at_least", "echoed", "unsure")]
KEYS = ["version", "method", "rtt_min_ns", "rtt_median_ns", *RATES, "unsure", "tx_bdp_bytes", "rx_bdp_bytes",
        "samples", "loss_permille", "mtu_bytes", "pmtu_black_hole", "window_scaling", "cost_bytes", "elapsed_ns",
        "host", "obstacles", "plan"]
REASONS = {"set", "kernel", "capped", "unknown", "larger", "late", "off"}
UNSURE = "could not tell the rate"
DOUBTS = {None, "jitter", "batches", "pauses"}
NEVER_NULL = {"samples", "cost_bytes", "elapsed_ns", "snd_request_bytes", "rcv_request_bytes"}
BAR = re.compile(r" *[\d.]+ [kMGT]?bit/s ([>|]) #* \d+")

folder = ""


def copy_for_everybody(*names: str) -> str:
    """A folder, for the module's life, with files of the build: that may be closed to others."""
    copies = unittest.enterModuleContext(tempfile.TemporaryDirectory(prefix="autobuf-tests."))
    for name in (*names, "lib/libautobuf.so.0"):
        if os.path.exists(built(name)):
            target = pathlib.Path(copies, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(built(name), target)
    subprocess.run(["chmod", "-R", "a+rX", copies], check=True)
    return copies


def setUpModule() -> None:
    global folder
    folder = copy_for_everybody("tools/autobuf")


def tool() -> str:
    return os.path.join(folder, "tools/autobuf")


class ToolTest(PathTest):
    """What the tests of the command share."""

    def run_tool(self, path: Path, *args: str, **kw) -> subprocess.CompletedProcess:
        return self.run_until_sure(path, [tool(), *args], **kw)

    def run_until_sure(self, path: Path, argv: list[str], **kw) -> subprocess.CompletedProcess:
        for attempt in range(3):  # "try again": a busy machine disturbs a measurement
            if attempt:
                path.reset()
            start = time.monotonic()
            done = path.run("a", argv, timeout=20, **kw)
            done.wall_s = time.monotonic() - start
            if UNSURE not in done.stderr:
                break
        return done

    def probe(self, path: Path, host: str, *args: str, unprivileged: bool = False) -> dict:
        """A measurement that has an answer, though perhaps an unsure one."""
        done = self.run_tool(path, "probe", "--json", *args, host, unprivileged=unprivileged)
        result = self.parse(done.stdout)
        if result["unsure"]:
            self.assertIsNone(result["plan"])
            self.assertRegex(done.stderr, rf"{UNSURE} .*; try autobuf measure, or again\n$")
        self.assertEqual((done.returncode, bool(done.stderr)), (int(bool(result["unsure"])), bool(result["unsure"])))
        return result

    def parse(self, text: str) -> dict:
        """The one line of JSON, as DESIGN.md has it, and what holds of every one."""
        self.assertEqual(text.count("\n"), 1)
        result = json.loads(text)
        self.assertEqual([key for key in result if key != "available"], KEYS)
        schema.check(self, result, "path")
        numbers = {**{key: result[key] for key in KEYS[2:-3]}, **(result["plan"] or {})}
        for key in ("sysctl", "snd_reason", "rcv_reason", "tx_unsure", "rx_unsure", "unsure"):
            numbers.pop(key, None)
        for key in ("tx_unsure", "rx_unsure"):
            self.assertIn(result[key], DOUBTS)
        for key, value in numbers.items():
            if value is not None or key in NEVER_NULL:
                self.assertIs(type(value), bool if key.endswith(("at_least", "echoed", "black_hole", "lock", "force")) else int, key)
                self.assertGreaterEqual(value, 0, key)
        for key in ("snd_reason", "rcv_reason") if result["plan"] else ():
            self.assertIn(result["plan"][key], REASONS)
        for line in result["plan"]["sysctl"] if result["plan"] else ():
            self.assertRegex(line, r"^net\.[a-z0-9_.]+=\d+( \d+ \d+)?$")
        for key in RATES[:4] + ["tx_bdp_bytes"]:
            if result["method"] == "icmp":  # an echo sees both directions as one
                self.assertEqual(result[key], result["r" + key[1:]], key)
            self.assertEqual(result[key] is None, result["tx_rate_bit_per_s"] is None or key == "tx_bdp_bytes" and bool(result["tx_unsure"]), key)
        if result["tx_rate_bit_per_s"] is not None:
            self.assertLessEqual(result["tx_rate_low_bit_per_s"], result["tx_rate_bit_per_s"])
            self.assertLessEqual(result["tx_rate_bit_per_s"], result["tx_rate_high_bit_per_s"])
        if result["rtt_min_ns"] is not None:
            self.assertLessEqual(result["rtt_min_ns"], result["rtt_median_ns"])
        self.assertLessEqual(result["cost_bytes"], BUDGET_BYTES)
        return result

    def sent(self, path: Path, result: dict) -> dict:
        """The truth of what went out, once it agrees with the cost that the tool told."""
        deadline = time.monotonic() + 5
        while True:
            truth = path.truth()["ab"]
            if truth["bytes"] == result["cost_bytes"] or time.monotonic() > deadline:
                break
        self.assertEqual(truth["bytes"], result["cost_bytes"])
        self.assertGreaterEqual(truth["packets"], result["samples"])
        return truth

    def right_time(self, result: dict, rtt_ms: float) -> None:
        self.between(result["rtt_min_ns"], rtt_ms * MS, rtt_ms * MS + LATE_NS, "RTT")
        limit_ns = (1 + SLACK_S) * 1e9 + 2 * rtt_ms * MS
        self.assertLessEqual(result["elapsed_ns"], limit_ns)

    def median(self, results: list[dict], rate: float, rtt_ms: float) -> None:
        """Three measurements of one path."""
        for result in results:
            self.assertGreaterEqual(result["rtt_min_ns"], rtt_ms * MS)
        self.near(statistics.median(r["tx_rate_bit_per_s"] or 0 for r in results), rate,
                  RATE_SHARE, "rate")
        self.between(statistics.median(r["rtt_min_ns"] for r in results), rtt_ms * MS,
                     rtt_ms * MS + LATE_NS, "RTT")

    def fails(self, done: subprocess.CompletedProcess, code: int, limit_s: float,
              text: str) -> None:
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertRegex(done.stderr, text)
        self.assertLessEqual(done.wall_s, limit_s)

    def respond(self, path: Path, mode: str, *args: str, ipv6: bool = False) -> subprocess.Popen:
        """Side b answers echoes by tests/net/responder.py instead of its kernel. A flood is to be killed before the next."""
        if not args:
            name = "net.ipv6.icmp.echo_ignore_all" if ipv6 else "net.ipv4.icmp_echo_ignore_all"
            path.sysctl("b", name, 1)
        child = path.popen("b", [sys.executable, str(HERE / "responder.py"), "6" if ipv6 else "4",
                                 mode, *args])
        wait_line(child, lambda line: line == "ready")
        return child

    def wait_packets(self, path: Path, least: int, way: str = "ab", key: str = "packets") -> None:
        deadline = time.monotonic() + 10
        while path.truth()[way][key] < least:
            self.assertLess(time.monotonic(), deadline, "no packets")

    def start(self, path: Path, *args: str) -> subprocess.Popen:
        return path.popen("a", [tool(), *args], stderr=subprocess.PIPE)

    def state(self, pid: int) -> str:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]

    def wait_state(self, pid: int, wanted: str) -> None:
        deadline = time.monotonic() + 10
        while self.state(pid) not in wanted:
            self.assertLess(time.monotonic(), deadline, "no such state")

    def stop(self, child: subprocess.Popen) -> None:
        self.wait_state(child.pid, "S")  # in poll()
        os.kill(child.pid, signal.SIGSTOP)
        self.wait_state(child.pid, "T")


class Measures(ToolTest):
    """Known paths."""

    def test_by_every_kind_of_socket(self) -> None:
        rate, rtt_ms, costs = 100e6, 20, []
        path = self.path(both="rate=100M,delay=10ms")
        for ipv6 in (False, True):
            for unprivileged in (False, True):
                with self.subTest(ipv6=ipv6, unprivileged=unprivileged):
                    path.sysctl("a", PING_GROUPS, ALL if unprivileged else NONE)
                    results = []
                    for _ in range(3):
                        path.reset()
                        host = (path.addr6 if ipv6 else path.addr)["b"]
                        result = self.probe(path, host, unprivileged=unprivileged)
                        self.sent(path, result)
                        self.assertEqual(result["method"], "icmp")
                        self.right_time(result, rtt_ms)
                        self.near(result["tx_bdp_bytes"], result["tx_rate_bit_per_s"] *
                                  result["rtt_min_ns"] / 8e9 + 1500, 0.02, "product")
                        results.append(result)
                    self.median(results, rate, rtt_ms)
                    costs += [r["cost_bytes"] for r in results]
        self.assertLessEqual(min(costs), CHEAP_BYTES)  # what a busy machine disturbs costs more

    @thorough
    def test_faster_and_slower(self) -> None:
        for mbit, delay_ms in ((10, 5), (400, 20)):
            with self.subTest(mbit=mbit):
                path = self.path(both=f"rate={mbit}M,delay={delay_ms}ms")
                results = [self.probe(path, path.addr["b"]) for _ in range(3)]
                self.median(results, mbit * 1e6, 2 * delay_ms)

    def test_the_smaller_direction(self) -> None:
        for slow, fast in (("ab", "ba"), ("ba", "ab")):
            path = self.path(**{slow: "rate=20M,delay=5ms", fast: "rate=200M,delay=15ms"})
            self.median([self.probe(path, path.addr["b"]) for _ in range(3)], 20e6, 20)

    def test_small_mtu(self) -> None:
        # the emulator carries nothing larger; each fragment would cost a header more
        for mtu in (1280, 576):
            with self.subTest(mtu=mtu):
                path = self.path(both="rate=50M,delay=10ms", mtu=mtu)
                hosts = [path.addr["b"]] + ([path.addr6["b"]] if path.has_ipv6 else [])
                for host in hosts:
                    results = []
                    for _ in range(3):
                        path.reset()
                        results.append(self.probe(path, host))
                        truth = self.sent(path, results[-1])
                        self.assertLessEqual(truth["bytes"], truth["packets"] * mtu)
                    self.median(results, 50e6, 20)

    @thorough
    def test_small_route_mtu(self) -> None:
        path = self.path(both="rate=50M,delay=10ms")
        path.route("a", mtu=1300)
        self.median([self.probe(path, path.addr["b"]) for _ in range(3)], 50e6, 20)

    def test_budget_and_timeout(self) -> None:
        path = self.path(both="rate=400M,delay=20ms")
        for budget in ("1000", "20k", "200k"):
            path.reset()
            result = self.probe(path, path.addr["b"], "--budget", budget)
            self.assertLessEqual(result["cost_bytes"], float(budget.replace("k", "e3")))
            self.sent(path, result)
        path.change("both", delay="150ms")
        done = self.run_tool(path, "probe", "--timeout", "200", path.addr["b"])
        self.fails(done, 1, 0.2 + SLACK_S, "answer")
        result = self.probe(path, path.addr["b"], "--timeout", "450")
        self.assertLessEqual(result["elapsed_ns"], 450 * MS + SLACK_S * 1e9)
        self.assertIsNone(result["tx_rate_bit_per_s"])  # no time for a train

    @thorough
    def test_a_host_that_is_late_misleads_nobody(self) -> None:
        """At its own end of the path packets are held back, passed on late, or not at all for some time: the rate is
        right, or called doubtful. Of three runs one may be wrong."""
        for late in ("batch=60us", "batch=250us", "wake=200us,forward=8us", "stall=5ms,stall_every=37ms"):
            for mbit in (100, 800):
                with self.subTest(late, mbit=mbit):
                    path = self.path(ab=f"rate={mbit}M,delay=10ms", ba=f"rate={mbit}M,delay=10ms,{late}")
                    runs = [self.probe(path, path.addr["b"]) for _ in range(3)]
                    wrong = [r["tx_rate_bit_per_s"] for r in runs if r["tx_echoed"] and not r["tx_unsure"] and
                             abs(r["tx_rate_bit_per_s"] / mbit / 1e6 - 1) > 0.25]
                    self.assertLess(len(wrong), 2, wrong)

    @thorough
    def test_a_rate_that_cannot_be_told_has_no_plan(self) -> None:
        path = self.path(both="rate=100M,delay=10ms,cross=0.5")
        result = self.probe(path, path.addr["b"])  # which looks at status, sentence and plan
        self.assertTrue(result["unsure"], result)
        self.assertIsNone(result["tx_bdp_bytes"])
        self.assertLessEqual(result["tx_rate_low_bit_per_s"], 100e6)
        self.assertGreaterEqual(result["tx_rate_high_bit_per_s"], 100e6)
        for command in ("probe", "explain"):
            done = self.run_tool(path, command, path.addr["b"])
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertRegex(done.stdout, r"(?m)^capacity +unsure: \w+: .*bit/s to .*bit/s$")
            self.assertNotRegex(done.stdout, r"(?m)^bandwidth-delay|SO_SNDBUF|SO_RCVBUF")
            self.assertEqual("this host: " in done.stdout, command == "explain")
            self.assertRegex(done.stderr, UNSURE)
        done = self.run_tool(path, "explain", "--sysctl", path.addr["b"])
        self.assertEqual((done.returncode, done.stdout), (1, ""))

    def test_chosen_family(self) -> None:
        path = self.path(both="delay=1ms")
        for option, host, other in (("-4", path.addr["b"], path.addr6["b"]),
                                    ("-6", path.addr6["b"], path.addr["b"])):
            self.probe(path, host, option)
            self.fails(self.run_tool(path, "probe", option, other), 1, SLACK_S, "address")


@beside
class Available(ToolTest):
    def test_what_other_traffic_leaves(self) -> None:
        """Evenly spaced traffic on the way back, which is the faster one."""
        path = self.path(ab="rate=20M,delay=10ms,queue=300K", ba="rate=50M,delay=10ms,queue=300K,cross=0.8,cross_spacing=constant")
        for _ in range(6):
            path.reset()
            result = self.parse(self.run_tool(path, "probe", "--available", "--json", path.addr["b"]).stdout)
            free = result["available"]
            self.assertTrue(free["echoed"])
            # A queue that hosts make by being late lowers the low bound, and may hide the high one.
            self.assertLessEqual(free["tx_low_bit_per_s"] or 0, 11.5e6, free)
            self.assertGreaterEqual(free["tx_high_bit_per_s"] or 20e6, 9.5e6, free)
            self.assertEqual((free["tx_low_bit_per_s"], free["tx_high_bit_per_s"]), (free["rx_low_bit_per_s"], free["rx_high_bit_per_s"]))
            self.assertLessEqual(path.truth()["ab"]["bytes"], 1_000_000)
            if free["tx_low_bit_per_s"]:
                break
        else:
            self.untimely(f"never a lower bound: {free}")
        done = self.run_tool(path, "probe", "--available", path.addr["b"])
        self.assertRegex(done.stdout, r"\nfree, worse direction +([\d.]+ [kM]bit/s to|at (least|most)|unknown \()")

    def test_within_the_budget(self) -> None:
        path = self.path(both="rate=20M,delay=10ms")
        done = self.run_tool(path, "probe", "--available", "--json", "--budget", "200k", path.addr["b"])
        self.sent(path, self.parse(done.stdout))
        self.assertLessEqual(path.truth()["ab"]["bytes"], 200_000)


class Privilege(ToolTest):
    """Who may measure."""

    def test_not_permitted(self) -> None:
        path = self.path(both="delay=1ms")
        path.sysctl("a", PING_GROUPS, NONE)
        for host in (path.addr["b"], path.addr6["b"]):
            done = self.run_tool(path, "probe", "--json", host, unprivileged=True)
            self.fails(done, 3, SLACK_S, r"(?s)ping_group_range.*setcap.*autobuf measure")
        done = self.run_tool(path, "explain", path.addr["b"], unprivileged=True)
        self.assertEqual(done.returncode, 3)
        self.assertIn("ping_group_range", done.stderr)
        self.assertRegex(done.stdout, r"(?s)this host: Linux \d.*programs may set.*any program")
        self.assertEqual(path.truth()["ab"]["packets"], 0)

    @staticmethod
    def sources() -> list[pathlib.Path]:
        """Those of the command, in place of what needs libraries what does without."""
        files = sorted((TOP / "tools").glob("*.c"))
        without = [file.stem.removesuffix("_without") for file in files if file.stem.endswith("_without")]
        return [file for file in files if file.stem.endswith("_without") or file.stem.split("_")[0] not in without]

    def permitted_copy(self, capabilities: str = "cap_net_raw+p") -> str:
        """Statically linked: the loader takes no library from $ORIGIN for such a program."""
        if os.geteuid() != 0 or not shutil.which("setcap"):
            self.skipTest("setcap is not here, or not permitted")
        if os.statvfs(folder).f_flag & os.ST_NOSUID:
            self.skipTest(f"{folder} is mounted nosuid")
        archive, copy = built("lib/libautobuf.a"), os.path.join(folder, "permitted")
        if not shutil.which("cc") or not os.path.exists(archive):
            self.skipTest("no compiler, or no static library")
        if b"__asan_init" in pathlib.Path(archive).read_bytes():
            self.skipTest("a sanitizer's run-time library is not for a program with privilege of its own")
        done = subprocess.run(
            ["cc", "-D_GNU_SOURCE", '-DRUN_DIR="/nowhere"', '-DRUN_LIBDIR="lib"', "-I", TOP / "include",
             *self.sources(), archive, "-o", copy],
            capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        os.chmod(copy, 0o755)
        done = subprocess.run(["setcap", capabilities, copy], capture_output=True, text=True)
        if done.returncode:
            self.skipTest(f"setcap: {done.stderr.strip()}")
        return copy

    def test_watch_does_not_lend_the_file_s_privilege(self) -> None:
        # who may run it must not see, or tune, what another user's process has
        copy = self.permitted_copy("cap_sys_ptrace,cap_net_admin+ep")
        path = self.path(both="delay=1ms")
        other = path.popen("a", ["sleep", "1000"])
        for command in (["watch"], ["watch", "--tune"]):
            done = path.run("a", [copy, *command, f"{other.pid}:0"], unprivileged=True)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual(done.stdout, "")
        done = path.run("a", [copy, "explain", "--pid", str(other.pid)], unprivileged=True)
        self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)

    def test_run_does_not_lend_the_file_s_owner(self) -> None:
        copy, shows = self.permitted_copy(), os.path.join(folder, "shows")
        os.chmod(copy, 0o4755)
        done = subprocess.run(["cc", "-static", "-x", "c", "-", "-o", shows], capture_output=True, text=True,
                              input='#include <stdio.h>\n#include <unistd.h>\nint main(void) { return printf("%d %d\\n", getuid(), geteuid()) < 0; }')
        self.assertEqual(done.returncode, 0, done.stderr)
        os.chmod(shows, 0o755)
        done = self.path(both="delay=1ms").run("a", [copy, "run", shows], unprivileged=True)
        self.assertEqual((done.returncode, done.stdout), (0, "65534 65534\n"), done.stderr)

    def test_raises_what_is_permitted(self) -> None:
        # and only around socket(): permitted, not effective, before and after
        copy = self.permitted_copy()
        path = self.path(both="rate=100M,delay=5ms")
        path.sysctl("a", PING_GROUPS, NONE)
        for host in (path.addr["b"], path.addr6["b"]):
            done = path.run("a", [copy, "probe", "--json", host], unprivileged=True)
            self.assertEqual(done.returncode, int(UNSURE in done.stderr), done.stderr)
            self.parse(done.stdout)
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        # traced by root, or else the kernel would ignore the file's capability
        drop = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
                "--inh-caps=-all", "--"]
        log = os.path.join(folder, "strace")
        done = path.run("a", ["strace", "-o", log, "-e", "trace=execve,capset,socket,sendmmsg", *drop, copy, "probe", path.addr["b"]])
        if "ptrace" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, int(UNSURE in done.stderr), done.stderr)
        calls = pathlib.Path(log).read_text().rpartition("execve(")[2].splitlines()
        calls = [call for call in calls if call.startswith(("capset", "socket(AF_INET, SOCK_RAW",
                                                            "sendmmsg"))]
        at = next(i for i, call in enumerate(calls) if "SOCK_RAW" in call)
        self.assertIn("effective=1<<CAP_NET_RAW,", calls[at - 1])
        self.assertNotIn("= -1", calls[at])
        self.assertIn("effective=0,", calls[at + 1])
        sends = next(i for i, call in enumerate(calls) if call.startswith("sendmmsg"))
        self.assertIn("effective=0, permitted=0,", calls[sends - 1])
        self.assertEqual(at, 1, calls)
        self.assertFalse([call for call in calls[sends:] if call.startswith("capset")])


class Failures(ToolTest):
    """Paths over which nothing, or not everything, comes."""

    def test_nothing_answers(self) -> None:
        # neither a path that loses all nor a host that is not there
        for both, host in (("delay=5ms,loss=1", Path.addr["b"]), ("delay=5ms", "10.77.0.9")):
            with self.subTest(host=host):
                path = self.path(both=both)
                self.fails(self.run_tool(path, "probe", host), 1, 2.5, "answer")
                before = path.truth()["ab"]["packets"]
                self.between(before, 5, 20, "packets sent")
                path.change("both", loss=0)
                self.assertEqual(ping(path, count=3)[0], 0)
                self.assertEqual(path.truth()["ab"]["packets"], before + 3)

    def test_loss(self) -> None:
        # one in three is lost in all
        path = self.path(both="rate=20M,delay=20ms,loss=0.2", seed=7)
        rates, losses = [], []
        for _ in range(8):
            path.reset()
            done = self.run_tool(path, "probe", "--json", path.addr["b"])
            self.assertLessEqual(done.wall_s, 1 + 2 * 0.04 + SLACK_S)
            if done.returncode == 1:
                self.assertTrue(done.stderr.strip())
                continue
            self.assertEqual(done.returncode, 0, done.stderr)
            result = self.parse(done.stdout)
            self.right_time(result, 40)
            self.sent(path, result)
            rates.append(result["tx_rate_bit_per_s"])
            losses.append(result["loss_permille"])
        found = [rate for rate in rates if rate]
        self.assertGreaterEqual(len(found), 4, rates)
        self.near(statistics.median(found), 20e6, RATE_SHARE, "rate")
        self.between(statistics.median(losses), 200, 500, "loss, in thousandths")

    def test_unreachable(self) -> None:
        # said by this host's own routes; no route at all
        path = self.path(both="delay=5ms")
        for command in ("route add unreachable 10.99.0.0/24", "-6 route add unreachable fd99::/64"):
            self.assertEqual(path.run("a", ["ip", *command.split()]).returncode, 0, command)
        for host in ("10.99.0.1", "fd99::1", "10.96.0.1", "fd96::1"):
            with self.subTest(host=host):
                self.fails(self.run_tool(path, "probe", host), 1, SLACK_S, host)
        self.assertEqual(path.truth()["ab"]["packets"], 0)
        for value, reasons in (("off", {"off"}), ("", {"unknown"})):
            done = path.run("a", [tool(), "explain", "--json", "10.99.0.1"], env=os.environ | {"AUTOBUF": value})
            plan = json.loads(done.stdout)["plan"]
            self.assertEqual((done.returncode, {plan["snd_reason"], plan["rcv_reason"]}), (1, reasons), done.stderr)

    def test_prohibited_by_a_route(self) -> None:
        # EACCES as well, which neither sockets for everybody nor setcap would cure
        path = self.path(both="delay=5ms")
        for command in ("route add prohibit 10.97.0.0/24", "-6 route add prohibit fd97::/64"):
            self.assertEqual(path.run("a", ["ip", *command.split()]).returncode, 0, command)
        for host in ("10.97.0.1", "fd97::1"):
            with self.subTest(host=host):
                done = self.run_tool(path, "probe", host)
                self.fails(done, 1, SLACK_S, r"\A(?!.*setcap)")

    def test_unreachable_behind_a_router(self) -> None:
        # b is the router, and says so by ICMP. For each a path of its own: a kernel soon tires of it
        for groups in (ALL, NONE):
            path = self.path(both="delay=20ms")
            path.sysctl("a", PING_GROUPS, groups)
            path.sysctl("b", "net.ipv4.ip_forward", 1)
            path.sysctl("b", "net.ipv6.conf.all.forwarding", 1)
            for side, command in (("a", "route add 10.98.0.0/24 via 10.77.0.2"),
                                  ("a", "-6 route add fd98::/64 via fd77::2"),
                                  ("b", "route add unreachable 10.98.0.0/24"),
                                  ("b", "-6 route add unreachable fd98::/64")):
                self.assertEqual(path.run(side, ["ip", *command.split()]).returncode, 0, command)
            for host in ("10.98.0.1", "fd98::1"):
                with self.subTest(host=host, groups=groups):
                    done = self.run_tool(path, "probe", host)
                    self.fails(done, 1, 0.5 + SLACK_S, "(?i)route|unreachable")

    @thorough
    def test_mtu_changes_meanwhile(self) -> None:
        # as when another connection of this host learns it
        for ipv6 in (False, True):
            for groups in (NONE, ALL):
                with self.subTest(ipv6=ipv6, groups=groups):
                    path = self.path(ab="rate=10M,delay=100ms")
                    path.sysctl("a", PING_GROUPS, groups)
                    child = self.start(path, "probe", "--json",
                                       (path.addr6 if ipv6 else path.addr)["b"])
                    self.wait_packets(path, 1)
                    path.route("a", mtu=1280)
                    out, err = child.communicate(timeout=10)
                    self.assertEqual((child.returncode, err), (0, ""))
                    result = self.parse(out)
                    self.right_time(result, 100)
                    self.near(result["tx_rate_bit_per_s"], 10e6, 0.5, "rate")

    @thorough
    def test_interface_goes_down(self) -> None:
        for least in (1, 6):
            with self.subTest(packets=least):
                path = self.path(both="rate=50M,delay=100ms")
                start = time.monotonic()
                child = self.start(path, "probe", "--json", path.addr["b"])
                self.wait_packets(path, least)
                down = path.run("a", ["ip", "link", "set", "path0", "down"])
                self.assertEqual(down.returncode, 0, down.stderr)
                out, err = child.communicate(timeout=10)
                self.assertLessEqual(time.monotonic() - start, 2.5)
                self.assertIn(child.returncode, (0, 1), err)
                if child.returncode == 0:
                    self.parse(out)
                else:
                    self.assertTrue(err.strip())

    @thorough
    def test_stopped_until_the_deadline_is_over(self) -> None:
        # in the pings, and in the first train
        for least in (1, 6):
            with self.subTest(packets=least):
                path = self.path(both="rate=50M,delay=100ms")
                child = self.start(path, "probe", "--json", "--timeout", "900", path.addr["b"])
                self.wait_packets(path, least)
                begun = time.monotonic()  # by now, however late this machine started it
                self.stop(child)
                while time.monotonic() < begun + 1.1:
                    before = path.truth()["ab"]["packets"]
                self.assertEqual(self.state(child.pid), "T")
                os.kill(child.pid, signal.SIGCONT)
                out, err = child.communicate(timeout=10)
                self.assertIn(child.returncode, (0, 1), err)
                if child.returncode == 0:
                    self.parse(out)
                self.assertEqual(ping(path, count=1)[0], 0)
                self.assertEqual(path.truth()["ab"]["packets"], before + 1)


class Hostile(ToolTest):
    """Peers and bystanders who lie."""

    # slow enough for a responder in Python: 1.2 ms a packet
    WAY = {"ab": "rate=10M,delay=10ms", "ba": "delay=10ms"}
    RATE, RTT_MS = 10e6, 20

    def right_at_last(self, path: Path, host: str, rates: float = 1 + RATE_SHARE,
                      codes: Sequence[int] = (0,)) -> None:
        """Sane each time, and right in one of some: a responder in Python has pauses of its own."""
        results = []
        for _ in range(6):
            path.reset()
            done = self.run_tool(path, "probe", "--json", host)
            if UNSURE in done.stderr:
                continue
            self.assertIn(done.returncode, codes, done.stderr)
            if done.returncode:
                continue
            results.append(self.parse(done.stdout))
            self.sent(path, results[-1])
            self.assertGreaterEqual(results[-1]["rtt_min_ns"], self.RTT_MS * MS)
            rate = results[-1]["tx_rate_bit_per_s"] or 0
            if (results[-1]["rtt_min_ns"] <= self.RTT_MS * MS + LATE_NS and
                    self.RATE / rates <= rate <= self.RATE * rates):
                return
        self.untimely(f"never right: {results}")

    def test_honest_responder(self) -> None:
        # what the others are compared with
        for ipv6 in (False, True):
            path = self.path(**self.WAY)
            self.respond(path, "honest", ipv6=ipv6)
            self.right_at_last(path, (path.addr6 if ipv6 else path.addr)["b"])

    def test_hostile_responder(self) -> None:
        for ipv6 in (False, True):
            for groups in (NONE, ALL):
                with self.subTest(ipv6=ipv6, groups=groups):
                    path = self.path(**self.WAY)
                    path.sysctl("a", PING_GROUPS, groups)
                    self.respond(path, "hostile", ipv6=ipv6)
                    # what comes reversed is no reading, and little else may remain
                    self.right_at_last(path, (path.addr6 if ipv6 else path.addr)["b"], rates=4)

    def test_nothing_but_garbage(self) -> None:
        for ipv6 in (False, True):
            path = self.path(**self.WAY)
            self.respond(path, "garbage", ipv6=ipv6)
            done = self.run_tool(path, "probe", (path.addr6 if ipv6 else path.addr)["b"])
            self.fails(done, 1, 1 + SLACK_S, "answer")

    @thorough
    def test_router_that_says_no(self) -> None:
        # prohibited by an administrator there, which is nothing that setcap here could cure
        for ipv6 in (False, True):
            for groups in (ALL, NONE):
                with self.subTest(ipv6=ipv6, groups=groups):
                    path = self.path(**self.WAY)
                    path.sysctl("a", PING_GROUPS, groups)
                    self.respond(path, "nowhere", ipv6=ipv6)
                    done = self.run_tool(path, "probe", (path.addr6 if ipv6 else path.addr)["b"])
                    self.fails(done, 1, 0.5 + SLACK_S, r"\A(?!.*(setcap|nothing answered))")

    @thorough
    def test_router_that_contradicts_the_answer(self) -> None:
        # an answer counts more, if it is read first: between two calls both may come
        for ipv6 in (False, True):
            with self.subTest(ipv6=ipv6):
                path = self.path(**self.WAY)
                self.respond(path, "unreachable", ipv6=ipv6)
                self.right_at_last(path, (path.addr6 if ipv6 else path.addr)["b"], codes=(0, 1))

    @thorough
    def test_answer_and_contradiction_at_once(self) -> None:
        # both are there when the tool looks next
        for ipv6 in (False, True):
            for groups in (ALL, NONE):
                with self.subTest(ipv6=ipv6, groups=groups):
                    path = self.path(**self.WAY)
                    path.sysctl("a", PING_GROUPS, groups)
                    self.respond(path, "unreachable", ipv6=ipv6)
                    child = self.start(path, "probe", "--json",
                                       (path.addr6 if ipv6 else path.addr)["b"])
                    self.wait_packets(path, 1)
                    self.stop(child)
                    sent = path.truth()["ab"]["packets"]
                    self.wait_packets(path, 2 * sent, way="ba", key="delivered_packets")
                    os.kill(child.pid, signal.SIGCONT)
                    out, err = child.communicate(timeout=10)
                    self.assertEqual((child.returncode, err), (0, ""))
                    self.parse(out)

    @thorough
    def test_narrower_further_on(self) -> None:
        # told or not: full-size packets do not get through
        for mode in ("narrow:1280", "hole:1280", "hole:600"):
            for ipv6 in (False, True):
                if ipv6 and mode == "hole:600":
                    continue  # below IPv6's minimum
                with self.subTest(mode=mode, ipv6=ipv6):
                    path = self.path(**self.WAY)
                    self.respond(path, mode, ipv6=ipv6)
                    self.right_at_last(path, (path.addr6 if ipv6 else path.addr)["b"])

    def test_shrinking_path(self) -> None:
        # each packet a reason to begin anew: bounded by time and budget all the same
        for groups in (NONE, ALL):
            path = self.path(**self.WAY)
            path.sysctl("a", PING_GROUPS, groups)
            self.respond(path, "shrinking")
            result = self.probe(path, path.addr["b"])
            self.assertGreaterEqual(result["rtt_min_ns"], self.RTT_MS * MS)
            self.assertLessEqual(result["elapsed_ns"], (1 + SLACK_S) * 1e9 + 2 * self.RTT_MS * MS)
            self.sent(path, result)

    def test_forger(self) -> None:
        # side b sends what somebody off the path would send in its name
        for groups in (NONE, ALL):
            with self.subTest(groups=groups):
                path = self.path(**self.WAY)
                path.sysctl("a", PING_GROUPS, groups)
                flood = self.respond(path, "forge", path.addr["a"])
                self.right_at_last(path, path.addr["b"])
                truth = path.truth()  # of the last attempt
                self.assertGreater(truth["ba"]["packets"], 3 * truth["ab"]["packets"])
                flood.kill()

    def test_forged_errors(self) -> None:
        # such an error quotes the packet that it is about; this one was never sent
        for ipv6 in (False, True):
            for groups in (NONE, ALL):
                with self.subTest(ipv6=ipv6, groups=groups):
                    path = self.path(**self.WAY)
                    addr = path.addr6 if ipv6 else path.addr
                    path.sysctl("a", PING_GROUPS, groups)
                    flood = self.respond(path, "blame", addr["a"], ipv6=ipv6)
                    # They must not end it. What the flood itself costs on the way back is
                    # cross traffic, and rightly part of what is measured.
                    for _ in range(3):
                        path.reset()
                        done = self.run_tool(path, "probe", "--json", addr["b"])
                        self.assertEqual(done.returncode, int(UNSURE in done.stderr), done.stderr)
                        found = self.parse(done.stdout)
                        self.sent(path, found)
                        self.assertGreaterEqual(found["rtt_min_ns"], self.RTT_MS * MS)
                    flood.kill()

    def test_errors_that_quote_too_little_are_nobodys(self) -> None:
        # Side b sends what a host off the path would guess, and knows the identifier. For a raw socket nobody
        # compares that; for a ping socket the kernel does, and takes its own path MTU from who knows it.
        for ipv6 in (False, True):
            for groups in (NONE, ALL):
                with self.subTest(ipv6=ipv6, groups=groups):
                    path = self.path(**self.WAY)
                    host = (path.addr6 if ipv6 else path.addr)["b"]
                    path.sysctl("a", PING_GROUPS, groups)
                    self.respond(path, "accuse", ipv6=ipv6)
                    self.right_at_last(path, host)
                    path.reset()
                    done = self.run_tool(path, "probe", "--json", "--intent", "low-delay", host)
                    self.assertEqual(done.returncode, int(UNSURE in done.stderr), done.stderr)
                    self.assertTrue(self.parse(done.stdout)["tx_echoed"])
                    truth = path.truth()["ab"]
                    least = 1000 if groups == NONE else 400
                    self.assertGreater(truth["bytes"] / truth["packets"], least, "size of packets")
                    if groups == NONE and not ipv6:
                        said = path.run("a", ["ip", "route", "get", host]).stdout
                        self.assertNotIn("mtu", said, "TCP is not misled either")

    def test_a_peer_that_answers_late_claims_a_long_path(self) -> None:
        # with the right to force a buffer, and in a namespace, where net.ipv4.tcp_mem is not visible
        path = self.path(both="rate=500M,delay=400ms")
        for _ in range(3):
            found = self.probe(path, path.addr["b"])
            if found["unsure"]:  # a machine that is busy: no plan, then
                continue
            self.assertGreater(found["tx_bdp_bytes"], 17_000_000, "claimed")
            self.assertLessEqual(found["plan"]["snd_request_bytes"], 16_000_000, "believed")

    def test_a_run_whose_packets_shrank_neither_paces_nor_holds(self) -> None:
        path = self.path(**self.WAY)
        self.respond(path, "narrow:600")
        for _ in range(3):
            done = self.run_tool(path, "probe", "--json", "--intent", "low-delay", path.addr["b"])
            self.assertEqual(done.returncode, 0, done.stderr)
            found = self.parse(done.stdout)
            self.assertEqual((found["tx_at_least"], found["tx_echoed"]), (True, False))
            self.assertEqual((found["plan"]["snd_request_bytes"], found["plan"]["rcv_request_bytes"]), (0, 0))
            path.run("a", ["ip", "route", "flush", "cache"])  # what the kernel has learned
            done = self.run_tool(path, "probe", "--intent", "low-delay", path.addr["b"])
            self.assertRegex(done.stdout, r"capacity +at least")
            self.assertNotIn("paced", done.stdout)
            path.run("a", ["ip", "route", "flush", "cache"])


class Words(ToolTest):
    """Text, usage, terminals."""

    def plain(self, done: subprocess.CompletedProcess) -> str:
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"\A[ -~\n]+\n\Z")
        if not done.stdout.startswith("{"):
            self.assertLess(max(map(len, done.stdout.splitlines())), 80)
        return done.stdout

    def test_explain(self) -> None:
        path = self.path(both="rate=100M,delay=10ms")
        text = self.plain(self.run_tool(path, "explain"))
        self.assertRegex(text, r"(?m)^this host: ")
        self.assertRegex(text, r"(?ms)^send: unknown: .*\nreceive: unknown: ")
        self.assertEqual(path.truth()["ab"]["packets"], 0)
        text = self.plain(self.run_tool(path, "explain", "--rate", "100M", "--rtt", "20"))
        self.assertRegex(text, r"(?m)^capacity +100.0 Mbit/s")
        self.assertRegex(text, r"(?ms)^send: \w+: .*\nreceive: \w+: ")
        text = self.plain(self.run_tool(path, "explain", "--rate", "100M", "--rtt", "20",
                                        "--intent", "low-delay"))
        self.assertRegex(text, r"(?ms)^send: .*paced\s+at\s+9\d\.\d\s+Mbit/s")
        self.assertEqual(path.truth()["ab"]["packets"], 0)
        text = self.plain(self.run_tool(path, "explain", path.addr["b"]))
        self.assertRegex(text, r"(?m)^round-trip time +2\d\.")
        self.assertRegex(text, r"(?m)^this host: ")

    def test_explain_json(self) -> None:
        path = self.path(both="rate=100M,delay=10ms")
        path.sysctl("a", "net.ipv4.tcp_wmem", "4096 16384 4194304")
        result = self.parse(self.plain(self.run_tool(path, "explain", "--json")))
        self.assertIsNone(result["method"])
        self.assertEqual(result["plan"]["snd_reason"], "unknown")
        result = self.parse(self.plain(self.run_tool(
            path, "explain", "--json", "--rate", "400M", "--rtt", "100")))
        self.assertEqual((result["method"], result["tx_bdp_bytes"]), ("given", 5_000_000))
        self.assertIn(result["plan"]["snd_reason"], ("set", "capped"))
        result = self.parse(self.plain(self.run_tool(path, "explain", "--json", path.addr["b"])))
        self.assertEqual((result["method"], result["plan"]["snd_reason"]), ("icmp", "kernel"))
        result = self.parse(self.plain(self.run_tool(
            path, "explain", "--json", "--intent", "low-delay", path.addr["b"])))
        plan = result["plan"]  # nobody knows which direction was measured
        self.assertEqual((plan["snd_pacing_bit_per_s"], plan["rcv_clamp_bytes"]), (None, None))

    @thorough
    def test_explain_says_what_echoes_cannot_see(self) -> None:
        """More down than up: a receive buffer of 6 MB holds 500 Mbit/s back to 168, of which echoes show 20."""
        path = self.path(ab="rate=20M,delay=75ms,queue=1M", ba="rate=500M,delay=75ms,queue=10M")
        path.sysctl("a", "net.ipv4.tcp_rmem", "4096 131072 6291456")
        result = self.parse(self.plain(self.run_tool(path, "explain", "--json", path.addr["b"])))
        self.assertEqual([result[f"{side}_{what}"] for side in ("tx", "rx") for what in ("at_least", "echoed")], 4 * [True])
        said = [one for one in result["obstacles"] if "tcp_rmem limits receiving to 16" in one["what"]]
        self.assertEqual([one["change"] for one in said], [f"autobuf measure {path.addr['b']}"], result["obstacles"])
        text = self.plain(self.run_tool(path, "explain", path.addr["b"]))
        self.assertRegex(text, r"(?m)^  any program .* 19\.\d Mbit/s\+ .* 19\.\d Mbit/s\+$")

    @thorough
    def test_explain_names_loss(self) -> None:
        """1% each way: cubic has 2.4 to 3 Mbit/s of 200. Echoes that show it at all show it within a factor of two."""
        path = self.path(both="rate=200M,delay=30ms,queue=3M,loss=0.01")
        path.route("a", congctl="cubic")
        for _ in range(3):
            result = self.parse(self.plain(self.run_tool(path, "explain", "--json", path.addr["b"])))
            self.assertEqual(result["host"]["congestion_control"], "cubic")
            said = [one["what"] for one in result["obstacles"] if one["what"].startswith("loss may limit one connection with cubic")]
            self.assertEqual(len(said), result["loss_permille"] > 0, result["obstacles"])
            if said:
                return
        self.untimely("no echo was lost")

    def test_explain_names_the_sysctl(self) -> None:
        path = self.path(both="delay=1ms")
        path.sysctl("a", "net.ipv4.tcp_rmem", "4096 131072 6291456")
        path.sysctl("a", "net.ipv4.tcp_window_scaling", 0)
        result = self.parse(self.plain(self.run_tool(
            path, "explain", "--json", "--rate", "10G", "--rtt", "300")))
        self.assertEqual(result["plan"]["sysctl"], ["net.ipv4.tcp_window_scaling=1"])
        path.sysctl("a", "net.ipv4.tcp_window_scaling", 1)
        args = ("--rate", "500M", "--rtt", "100")  # which needs no more than a host has memory for that is busy otherwise
        lines = self.parse(self.plain(self.run_tool(path, "explain", "--json", *args)))
        lines = lines["plan"]["sysctl"]
        self.assertIn("net.ipv4.tcp_rmem=4096 131072 ", " ".join(lines))
        text = self.plain(self.run_tool(path, "explain", *args))
        for line in lines:  # and rounded up to a size that an administrator would write
            name, needed = line.split("=")
            told = re.search(rf'sysctl -w "{name}=([\d ]+)"', text)
            values = told[1].split()
            self.assertEqual(values[:-1], needed.split()[:-1])
            self.between(int(values[-1]), int(needed.split()[-1]), 1.5 * int(needed.split()[-1]), name)

    @thorough
    def test_explain_tells_what_this_host_does(self) -> None:
        """Facts of the kernel, made true first: each is named, with the line that changes it."""
        path = self.path(both="rate=100M,delay=20ms", seed=3)
        addr = path.addr["b"]
        path.sysctl("a", "net.ipv4.tcp_sack", 0)
        path.sysctl("a", "net.ipv4.tcp_no_ssthresh_metrics_save", 0)
        path.sysctl("a", "net.ipv4.tcp_slow_start_after_idle", 1)
        path.route("a", congctl="reno")
        path.change("ab", loss=0.02)
        server = path.popen("b", [built("examples/bulk"), "recv"])
        wait_listening(path, "b", 7500, server)
        done = path.run("a", [built("examples/bulk"), "send", "--bytes", "2000000", addr])
        self.assertEqual(done.returncode, 0, done.stderr)
        path.change("ab", loss=0)
        self.assertIn("ssthresh", path.run("a", ["ip", "tcp_metrics", "show", addr]).stdout)
        text = self.plain(self.run_tool(path, "explain", addr))
        self.assertRegex(text, rf"(?s)remembers an earlier loss \(tcp_metrics\).*ip tcp_metrics flush {addr}")
        self.assertRegex(text, r"(?s)selective acknowl.*net\.ipv4\.tcp_sack=1")
        self.assertRegex(text, r"(?s)round trips.*net\.ipv4\.tcp_slow_start_after_idle=0")
        shares = [int(share) for share in re.findall(r"(?m)^ *(\d+)%", text)]
        self.assertEqual(shares, sorted(shares, reverse=True))
        self.assertLessEqual(len(text.splitlines()), 30, text)
        path.run("a", ["ip", "tcp_metrics", "flush", addr])
        self.assertNotIn("tcp_metrics", self.plain(self.run_tool(path, "explain", addr)))

    def test_explain_asks_for_the_route_that_is_taken(self) -> None:
        """-I leaves by a device whose route has a window, though another route is preferred."""
        path = self.path(both="rate=100M,delay=20ms")
        addr = path.addr["b"]
        for words in (("dev", "path0", "window", "50000", "metric", "100"), ("dev", "lo", "metric", "10")):
            done = path.run("a", ["ip", "route", "add", f"{addr}/32", *words])
            self.assertEqual(done.returncode, 0, done.stderr)
        text = self.plain(self.run_tool(path, "explain", "-I", "path0", addr))
        self.assertIn("limits the receive window", text.replace("\n       ", " "))
        receives = re.search(r"(?m)^  (?:any program|programs as they are) .* ([\d.]+) Mbit/s$", text)
        self.assertLess(float(receives[1]), 11)  # 50,000 bytes in 40 ms

    def test_explain_counts_what_the_queue_drops(self) -> None:
        path = self.path(both="rate=100M,delay=20ms")
        addr = path.addr["b"]
        self.assertNotIn("dropped", self.plain(self.run_tool(path, "explain", addr)))
        done = path.run("a", ["tc", "qdisc", "replace", "dev", "path0", "root", "tbf", "rate",
                              "100mbit", "burst", "3000", "limit", "6000"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.run_tool(path, "probe", addr)  # its trains are longer than the queue
        dropped = re.search(r"dropped (\d+)", path.run(
            "a", ["tc", "-s", "qdisc", "show", "dev", "path0"]).stdout)
        self.assertGreater(int(dropped[1]), 0)
        text = self.plain(self.run_tool(path, "explain", addr))
        told = re.search(r"the queue of path0 \(tbf\) has dropped (\d+) packets", text)
        self.assertGreaterEqual(int(told[1]), int(dropped[1]))

    def test_without_proc(self) -> None:
        """Nothing of /proc/sys can be read: the kernel's usual limits, and the scratch socket's."""
        if os.geteuid() != 0:
            self.skipTest("hiding /proc needs root")
        path = self.path(both="rate=100M,delay=10ms")
        # the run-time linker finds $ORIGIN by /proc as well
        hidden = ["env", f"LD_LIBRARY_PATH={built('lib')}", "unshare", "--mount", "sh", "-c",
                  'mount -t tmpfs none /proc && exec "$@"', "sh"]
        if "Sanitizer" in path.run("a", [*hidden, built("tools/autobuf"), "--version"]).stderr:
            self.skipTest("the leak sanitizer needs /proc")
        for words in (("probe", "--json", path.addr["b"]), ("explain", "--json", path.addr["b"])):
            with self.subTest(words=words):
                done = self.run_until_sure(path, [*hidden, built("tools/autobuf"), *words])
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                found = self.parse(done.stdout)
                self.near(found["tx_rate_bit_per_s"], 100e6, 0.25, "rate")
                self.assertEqual(found["plan"]["snd_window_bytes"], 4194304 // 3 * 2)
                self.assertEqual(found["plan"]["snd_reason"], "kernel")
                self.assertEqual((found["host"]["tcp_wmem_max_bytes"], found["host"]["tcp_rmem_max_bytes"]), (None, None))
        text = self.plain(path.run("a", [*hidden, built("tools/autobuf"), "explain"]))
        self.assertRegex(text, r"(?m)^this host: ")
        self.assertRegex(text, r"(?m)^  autotuning gives  unknown: /proc/sys cannot be read$")
        done = path.run("a", [*hidden, built("tools/autobuf"), "explain", "--sysctl", "--rate", "1G", "--rtt", "100"])
        self.assertEqual((done.returncode, done.stdout), (1, ""))

    def test_off(self) -> None:
        path = self.path(both="delay=1ms")
        done = self.run_tool(path, "explain", "--json", "--rate", "1G", "--rtt", "99",
                             env={**os.environ, "AUTOBUF": "off"})
        plan = self.parse(self.plain(done))["plan"]
        self.assertEqual((plan["snd_reason"], plan["rcv_reason"]), ("off", "off"))
        self.assertEqual((plan["snd_request_bytes"], plan["sysctl"]), (0, []))

    def test_probe_text(self) -> None:
        path = self.path(both="rate=100M,delay=10ms")
        text = self.plain(self.run_tool(path, "probe", path.addr["b"]))
        for begin in ("round-trip time", "capacity", "bandwidth-delay product", "cost", "send: ", "receive: "):
            self.assertRegex(text, f"(?m)^{begin}")
        self.assertFalse([line for line in text.splitlines() if BAR.fullmatch(line)])

    def test_usage(self) -> None:
        """What is wrong, as tests/unit/autobuf/test_arguments.c has it; the exit status is this test's."""
        path = self.path()
        for words in ("", "nonsense", "probe", "explain --rate 1M", "probe --budget 999 a", "probe -I no-such-device a",
                      "run --max 1 true", "paths nonsense", "top --count 0"):
            with self.subTest(words=words):
                done = self.run_tool(path, *words.split())
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertNotEqual(done.stderr, "")
        for words in ("--help", "--version", "probe --help", "explain --help", "watch --help", "serve --help",
                      "measure --help"):
            self.plain(self.run_tool(path, *words.split()))

    def test_source(self) -> None:
        """-I: an address, a device, or what this host has not; -B: the address that it has anyway."""
        path = self.path(both="rate=100M,delay=10ms")
        peer = path.addr["b"]
        own = path.addr["a"]
        for words in (("-I", own), ("-I", "path0"), ("-B",), ("-B", "-I", "path0")):
            with self.subTest(words=words):
                result = self.parse(self.plain(self.run_tool(path, "probe", "--json", *words, peer)))
                self.near(result["tx_rate_bit_per_s"], 100e6, RATE_SHARE, "rate")
        for words in (("-I", "lo"), ("-I", "192.0.2.1"), ("-I", "2001:db8::1")):
            with self.subTest(words=words):
                done = self.run_tool(path, "probe", "--timeout", "500", *words, peer)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(path.truth()["ab"]["packets"] > 0, True)

    def test_explain_for_others(self) -> None:
        """Programs that leave their buffers to the kernel; the file that helps them, as sysctl(8) takes it."""
        path = self.path(both="delay=1ms")
        path.sysctl("a", "net.ipv4.tcp_wmem", "4096 16384 4194304")
        path.sysctl("a", "net.ipv4.tcp_rmem", "4096 131072 33554432")
        words = ("explain", "--rate", "400M", "--rtt", "100")
        text = self.plain(self.run_tool(path, *words))
        self.assertRegex(text, r"(?m)^  programs as they are +2\.8 MB +223\.7 Mbit/s +4\.8 MB +386\.\d Mbit/s$")
        self.assertRegex(text, r"(?m)^  with libautobuf +4\.8 MB +386\.\d Mbit/s ")
        self.assertRegex(text, r"42%  programs without libautobuf: net\.ipv4\.tcp_wmem")
        self.assertNotRegex(text, r"(?m)^ +programs.*1342")
        told = self.plain(self.run_tool(path, *words, "--sysctl"))
        self.assertRegex(told, r"(?m)^net\.ipv4\.tcp_wmem = 4096 16384 8388608$")
        self.assertNotIn("tcp_rmem", told)
        file = pathlib.Path(copy_for_everybody()) / "90-autobuf.conf"
        file.write_text(told)
        self.assertEqual(self.run_tool(path, "explain", "--check", str(file)).returncode, 1)
        done = path.run("a", ["sysctl", "-p", str(file)])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("enough", self.plain(self.run_tool(path, *words, "--sysctl")))
        checked = json.loads(self.run_tool(path, "explain", "--check", "--json", str(file)).stdout)
        schema.check(self, checked, "checked")
        self.assertEqual([line["now"] for line in checked["lines"]], ["4096 16384 8388608"])
        self.assertNotIn("programs without", self.plain(self.run_tool(path, *words)))

    def test_explain_as_user(self) -> None:
        """What an ordinary user would be told, also where root asks; several connections; a short transfer."""
        path = self.path(both="delay=1ms")
        path.sysctl("a", "net.ipv4.tcp_wmem", "4096 16384 4194304")
        words = ("explain", "--json", "--rate", "10G", "--rtt", "100")
        for more in ((), ("--as-user",)):
            result = self.parse(self.plain(self.run_tool(path, *words, *more)))
            forces = result["host"]["may_force"] and not more
            self.assertEqual(result["plan"]["snd_force"], forces)
        result = self.parse(self.plain(self.run_tool(path, "explain", "--json", "--rate", "400M", "--rtt", "100",
                                                     "--streams", "4")))
        self.assertEqual((result["tx_bdp_bytes"], result["plan"]["snd_reason"]), (5_000_000, "kernel"))
        result = self.parse(self.plain(self.run_tool(path, *words, "--bytes", "1k")))
        self.assertEqual(result["plan"]["snd_request_bytes"], 0)

    def test_output_that_cannot_be_written(self) -> None:
        path = self.path()
        with open("/dev/full", "w") as full:
            done = self.run_tool(path, "explain", stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("No space left on device", done.stderr)

    def on_terminal(self, path: Path, *args: str, out: bool = True, err: bool = True) -> tuple:
        """What a terminal gets, and what the pipe in place of the other stream."""
        master, slave = os.openpty()
        child = path.popen("a", [tool(), *args], stdout=slave if out else subprocess.PIPE,
                           stderr=slave if err else subprocess.PIPE)
        os.close(slave)
        text, deadline = b"", time.monotonic() + 10
        with contextlib.closing(os.fdopen(master, "rb", buffering=0)) as file:
            while select.select([file], [], [], max(0, deadline - time.monotonic()))[0]:
                try:
                    text += file.read(65536)
                except OSError as error:  # how a pty says that the other end is closed
                    self.assertEqual(error.errno, errno.EIO)
                    break
        rest = child.communicate(timeout=10)
        self.assertEqual(child.returncode, 0, (text, rest))
        return text.decode(), rest[0] if err else rest[1]

    def test_terminal(self) -> None:
        path = self.path(both="rate=100M,delay=50ms")
        text, _ = self.on_terminal(path, "probe", path.addr["b"])
        progress, _, rest = text.rpartition("\r\x1b[K")
        self.assertRegex(progress, r"\d+ trains, \d+ of \d+ answered, [\d.]+ k?B sent")
        rest = rest.replace("\r\n", "\n")
        self.assertRegex(rest, r"\A[ -~\n]+\n\Z")
        marks = [found.group(1) for found in map(BAR.fullmatch, rest.splitlines()) if found]
        self.assertGreaterEqual(len(marks), 3)
        self.assertEqual(marks.count(">"), 1)

    def test_half_a_terminal(self) -> None:
        # no progress in a file, and none on the terminal that shows only the result
        path = self.path(both="rate=100M,delay=5ms")
        seen, piped = self.on_terminal(path, "probe", path.addr["b"], out=False)
        self.assertEqual(seen, "")
        self.assertRegex(piped, r"\A[ -~\n]+\n\Z")
        seen, piped = self.on_terminal(path, "probe", path.addr["b"], err=False)
        self.assertEqual(piped, "")
        self.assertRegex(seen, r"\A[ -~\r\n]+\n\Z")
        seen, _ = self.on_terminal(path, "probe", "--json", path.addr["b"])
        self.parse(seen.replace("\r\n", "\n"))


if __name__ == "__main__":
    sys.exit(run_tests(("ping", "ip", "nsenter", "setpriv", "taskset"), ("tools/autobuf",)))
