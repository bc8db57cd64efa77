#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The examples on emulated paths: bulk with every way of tuning, oneshot, pollloop.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select
the tests whose names contain one of them. The tests check decisions and counts; rates are only compared
with what the path allows. The benchmarks show how fast each way of tuning is.
"""

from __future__ import annotations

import errno
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from path import Path, global_sysctls, wait_line, wait_listening  # noqa: E402
from cases import PathTest, run_tests, some, thorough  # noqa: E402
from test_probe import ALL, MS, NONE, PING_GROUPS, copy_for_everybody  # noqa: E402

PORT = 7500
KEYS = ["bytes", "elapsed_ns", "rate_bit_per_s", "rtt_min_ns", "rtt_mean_ns", "snd_buf_bytes",
        "rcv_buf_bytes", "reason", "jain_index", "free_low_bit_per_s", "free_high_bit_per_s"]
NAIVE = 1048576
FAST = "rate=200M,delay=2ms"
LONG = "rate=400M,delay=50ms,queue=10M"

# Linux 6.18's limits, and those of most kernels before it.
CORE = {"net.core.rmem_max": 4194304, "net.core.wmem_max": 4194304}
OLDER_CORE = {"net.core.rmem_max": 212992, "net.core.wmem_max": 212992}
WMEM = {"net.ipv4.tcp_wmem": "4096 16384 4194304"}
RMEM = {"net.ipv4.tcp_rmem": "4096 131072 33554432"}
LITTLE_WMEM = {"net.ipv4.tcp_wmem": "4096 16384 65536"}
"""Autotuning ends below most paths: it pays to measure them, whatever setsockopt() may do."""
OLDER_RMEM = {"net.ipv4.tcp_rmem": "4096 131072 6291456"}

folder = ""


def setUpModule() -> None:
    global folder
    folder = copy_for_everybody("examples/bulk", "examples/oneshot", "examples/pollloop", "tests/net/tune")


def example(name: str) -> str:
    return os.path.join(folder, "examples", name)


class BulkTest(PathTest):
    """What the tests share."""

    def hosts(self, both: str, local: dict | None = None) -> Path:
        """A path; everybody there may use ping sockets."""
        path = self.path(both=both)
        for side in "ab":
            path.sysctl(side, PING_GROUPS, ALL)
            path.route(side, congctl="cubic")
            for name, value in (local or {}).items():
                path.sysctl(side, name, value)
        return path

    def core(self, values: dict) -> None:
        if os.geteuid() != 0:
            self.skipTest("global sysctls need root")
        self.enterContext(global_sysctls(values))

    def serve(self, path: Path, unprivileged: bool = True) -> subprocess.Popen:
        child = path.popen("b", [example("bulk"), "recv"], unprivileged=unprivileged,
                           stderr=subprocess.PIPE)
        wait_listening(path, "b", PORT, child)
        return child

    def send(self, path: Path, *args: str, host: str | None = None, unprivileged: bool = True,
             **kw) -> dict:
        done = path.run("a", [example("bulk"), "send", "--json", *args, host or path.addr["b"]],
                        unprivileged=unprivileged, timeout=15, **kw)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count("\n"), 1)
        result = json.loads(done.stdout)
        self.assertEqual(list(result), KEYS)
        for key in KEYS:
            self.assertIs(type(result[key]), {"reason": str, "jain_index": float}.get(key, int), key)
        self.between(result["jain_index"], 0, 1, "Jain's index")
        self.assertAlmostEqual(result["rate_bit_per_s"],
                               result["bytes"] * 8e9 / result["elapsed_ns"], delta=1)
        return result


class Transfers(BulkTest):
    """Every way through bulk."""

    def test_exact_bytes(self) -> None:
        self.core(CORE)
        size = 2_000_003  # not a multiple of the streams nor of a write
        path = self.hosts(FAST, {**WMEM, **RMEM})
        self.serve(path)
        reasons = {"none": "off", f"naive:{NAIVE}": "set", "autobuf": "kernel"}
        for tune, reason in reasons.items():
            for options in ((), ("--reverse",)):
                for streams in some(4, 1):
                    for host in some(path.addr["b"], path.addr6["b"]):
                        with self.subTest(tune=tune, options=options, streams=streams, host=host):
                            result = self.send(path, "--bytes", str(size), "--tune", tune,
                                               "--streams", str(streams), *options, host=host)
                            self.assertEqual(result["bytes"], size)
                            self.assertEqual(result["reason"], reason)
                            self.between(result["rate_bit_per_s"], 1e6, 200e6, "rate")
                            self.between(result["rtt_min_ns"], 4 * MS, 200 * MS, "least RTT")
                            self.assertLessEqual(result["rtt_min_ns"], result["rtt_mean_ns"])
                            self.assertGreater(result["jain_index"], 0.9999)
                            if tune.startswith("naive"):
                                self.assertEqual(result["snd_buf_bytes"], 2 * NAIVE)

    @thorough
    def test_small_counts(self) -> None:
        path = self.hosts(FAST)
        self.serve(path)
        for size, streams in ((1, 1), (255, 1), (256, 1), (257, 3), (4, 4), (131072, 1)):
            for options in ((), ("--reverse",)):
                with self.subTest(size=size, streams=streams, options=options):
                    result = self.send(path, "--bytes", str(size), "--streams", str(streams),
                                       *options)
                    self.assertEqual(result["bytes"], size)

    def test_more_streams_than_bytes(self) -> None:
        path = self.hosts(FAST)
        self.serve(path)
        for options in ((), ("--reverse",)):
            with self.subTest(options=options):
                command = [example("bulk"), "send", "--json", "--bytes", "1", "--streams", "2"]
                child = path.popen("a", [*command, *options, path.addr["b"]],
                                   stderr=subprocess.PIPE)
                try:
                    out, err = child.communicate(timeout=3)
                except subprocess.TimeoutExpired:
                    self.untimely("does not end")
                self.assertEqual((child.returncode, err), (0, ""))
                self.assertEqual(json.loads(out)["bytes"], 1)

    @thorough
    def test_seconds(self) -> None:
        # no less than was asked for, nor much more
        path = self.hosts(FAST)
        self.serve(path)
        for options in ((), ("--reverse",)):
            result = self.send(path, "--seconds", "0.5", *options)
            self.between(result["elapsed_ns"], 0.45e9, 2e9, "time")
            self.between(result["rate_bit_per_s"], 20e6, 200e6, "rate")

    def test_text(self) -> None:
        path = self.hosts(FAST)
        self.serve(path)
        done = path.run("a", [example("bulk"), "send", "--bytes", "1000000", path.addr["b"]],
                        unprivileged=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"\A1\.0 MB in [\d.]+ s: [\d.]+ Mbit/s, [ -~]+\n\Z")

    @thorough
    def test_congestion_control(self) -> None:
        path = self.path(both=FAST)  # without cubic by route, which would come before the option
        self.serve(path, unprivileged=False)
        for options, side in (((), "a"), (("--reverse",), "b")):
            child = path.popen("a", [example("bulk"), "send", "--json", "--cc", "reno",
                                     "--seconds", "1", *options, path.addr["b"]])
            words: list[str] = []
            while "reno" not in words and child.poll() is None:
                words = path.run(side, ["ss", "-tinHO", "state", "established"]).stdout.split()
            self.assertIn("reno", words)
            self.assertEqual(child.wait(20), 0)
        done = path.run("a", [example("bulk"), "send", "--cc", "nonsense", path.addr["b"]])
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertTrue(done.stderr.strip())

    @thorough
    def test_low_delay(self) -> None:
        # a queue of 300 ms, which the default fills; paced it stays all but empty
        path = self.hosts("rate=100M,delay=25ms,queue=4M")
        self.serve(path)
        for _ in range(3):
            result = self.send(path, "--tune", "live", "--intent", "low-delay", "--seconds", "2.5")
            self.assertEqual(result["reason"], "set")
            if result["rtt_mean_ns"] < 80 * MS and result["rate_bit_per_s"] > 60e6:
                return
        self.untimely(f"{result}")

    @thorough
    def test_a_receiver_takes_what_is_free(self) -> None:
        """Beside another transfer it yields, and has the path again afterwards; its sender is the kernel's own."""
        self.core(CORE)
        path = self.hosts("rate=20M,delay=20ms,queue=100K", {**WMEM, **RMEM})
        self.serve(path)
        alone = self.send(path, "--seconds", "6")["rate_bit_per_s"]
        for _ in range(3):
            ours = path.popen("a", [example("bulk"), "send", "--json", "--tune", "live", "--intent", "scavenger",
                                    "--seconds", "14", path.addr["b"]], env={**os.environ, "AUTOBUF": "off"})
            beside = self.send(path, "--seconds", "6")["rate_bit_per_s"]
            got = json.loads(ours.communicate(timeout=30)[0])["rate_bit_per_s"]
            if beside > 0.75 * alone and 0.35 * alone < got < 0.75 * alone:
                return
        self.untimely(f"{beside / alone:.2f} beside it; {got / alone:.2f} of the path in 14 s")

    def test_usage(self) -> None:
        wrong = ("", "nonsense", "send", "send a b", "send --tune nonsense a", "send --bytes 0 a",
                 "send --bytes 1 --seconds 1 a", "send --seconds 0 a", "send --streams 0 a",
                 "send --streams 65 a", "send --tune naive:0 a", "send --tune naive a",
                 "send --cc 0123456789abcdefg a", "send --intent fast a", "recv a",
                 "recv --nonsense")
        path = self.path()
        for words in wrong:
            with self.subTest(words=words):
                done = path.run("a", [example("bulk"), *words.split()], timeout=10)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn("usage: bulk", done.stderr)

    def test_failures_end(self) -> None:
        # nobody listens; the server is killed, or stops being one, in the middle
        path = self.hosts(FAST)
        command = [example("bulk"), "send", "--seconds", "20", path.addr["b"]]
        done = path.run("a", command, timeout=10)
        self.assertEqual(done.returncode, 1)
        self.assertIn("refused", done.stderr)
        for options in ([], ["--reverse"]):
            server = self.serve(path)
            child = path.popen("a", [*command, *options], stderr=subprocess.PIPE)
            path.reset()
            deadline = time.monotonic() + 10
            while path.truth()["ba" if options else "ab"]["bytes"] < 1_000_000:
                self.assertLess(time.monotonic(), deadline)
            server.send_signal(signal.SIGKILL)
            server.wait(10)
            self.assertEqual(child.wait(10), 1)
            self.assertTrue(child.stderr.read().strip())


class Decisions(BulkTest):
    """What autobuf_tune() decides, without privilege unless said otherwise."""

    def tune(self, path: Path, *args: str, host: str | None = None, unprivileged: bool = True, **kw) -> dict:
        done = path.run("a", [os.path.join(folder, "tests", "net", "tune"), *args, host or path.addr["b"], str(PORT)],
                        unprivileged=unprivileged, timeout=15, **kw)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def check_set(self, path: Path, *options: str) -> None:
        """As much is set as may be; in one of three measurements, for a busy machine tears trains apart: too much or half is seen."""
        for _ in range(3):
            result = self.tune(path, *options)
            self.assertEqual(result["measured"], 1)
            if (result["reason"], result["snd_buf_bytes"]) == ("set", 8388608):
                break
        self.assertEqual((result["reason"], result["snd_buf_bytes"]), ("set", 8388608))

    def test_set_where_autotuning_is_short(self) -> None:
        self.core(CORE)
        path = self.hosts(LONG, {**WMEM, **RMEM})
        self.serve(path)
        for options in ((), ("--connected",)):
            with self.subTest(options=options):
                before = self.echoes(path)
                self.check_set(path, *options)
                self.assertGreater(self.echoes(path) - before, 10)

    @thorough
    def test_shallow_queues_change_no_decision(self) -> None:
        """With a queue well below the product rates scatter; what is decided must not."""
        self.core(CORE)
        for queue in (500000, 1000000):
            with self.subTest(queue=queue):
                self.check_set(self.hosts(f"rate=400M,delay=50ms,queue={queue}", {**WMEM, **RMEM}))

    def test_one_round_trip_is_enough(self) -> None:
        """A clear answer ends the measurement: 5 small echoes and one train of 10."""
        self.core(CORE)
        for both in ("rate=50M,delay=20ms,queue=1M", LONG):
            with self.subTest(both=both):
                path = self.hosts(both, {**WMEM, **RMEM})
                fewest = 1000
                for _ in range(3):  # a busy machine tears a train apart
                    before = self.echoes(path)
                    self.tune(path)
                    fewest = min(fewest, self.echoes(path) - before)
                self.assertEqual(fewest, 15)

    def test_a_silent_peer_costs_little(self) -> None:
        """It answers no echo: 0.3 s, then the socket is left alone."""
        self.core(CORE)
        path = self.hosts(LONG, {**WMEM, **RMEM})
        path.sysctl("b", "net.ipv4.icmp_echo_ignore_all", 1)
        result = self.tune(path)
        self.assertEqual((result["result"], result["reason"]), (0, "unknown"))
        self.assertLess(result["measured"], 0)
        self.between(result["elapsed_ns"], 300 * MS, 600 * MS, "wait")
        self.between(self.echoes(path), 5, 30, "echoes")

    def test_left_to_the_kernel(self) -> None:
        self.core(CORE)
        path = self.hosts("rate=100M,delay=5ms", {**WMEM, **RMEM})
        self.serve(path)
        for options in ((), ("--connected",)):
            with self.subTest(options=options):
                for _ in range(3):  # a product 40 times too high is seen on a busy machine
                    result = self.tune(path, *options)
                    if result["reason"] == "kernel":
                        break
                self.assertEqual((result["result"], result["reason"]), (0, "kernel"))
        self.assertGreater(self.echoes(path), 5)

    def test_nothing_is_sent_where_nothing_could_change(self) -> None:
        rows = (("a short transfer", CORE, ["--bytes", "1000000"], "kernel"),
                ("nothing larger can be set", OLDER_CORE, [], "unknown"),
                ("a receiver under old limits", OLDER_CORE, ["--receives"], "kernel"))
        for name, core, options, reason in rows:
            with self.subTest(name), global_sysctls(core):
                path = self.hosts(LONG, {**WMEM, **OLDER_RMEM})
                self.serve(path)
                for connected in ([], ["--connected"]):
                    result = self.tune(path, *options, *connected)
                    self.assertEqual((result["result"], result["measured"], result["reason"]), (0, 0, reason))
                self.assertEqual(self.echoes(path), 0)

    def test_by_force(self) -> None:
        self.core(OLDER_CORE)
        path = self.hosts(LONG, {**WMEM, **RMEM})
        result = self.tune(path, unprivileged=False)
        self.assertEqual(result["reason"], "set")
        # of 7.24 MB, which hold the product, 1.35 times as much
        self.between(result["snd_buf_bytes"], 0.8 * 9.8e6, 1.2 * 9.8e6, "buffer")

    def test_off(self) -> None:
        self.core(CORE)
        path = self.hosts(LONG, {**WMEM, **RMEM})
        result = self.tune(path, env={**os.environ, "AUTOBUF": "off"})
        self.assertEqual((result["result"], result["reason"]), (0, "off"))
        self.assertEqual(self.echoes(path), 0)

    def test_not_permitted(self) -> None:
        # a measurement that fails is no failure, and takes no time
        self.core(CORE)
        path = self.hosts(LONG, {**WMEM, **RMEM})
        path.sysctl("a", PING_GROUPS, NONE)
        result = self.tune(path)
        self.assertEqual((result["result"], result["reason"]), (0, "unknown"))
        self.assertLess(result["measured"], 0)
        self.assertEqual(self.echoes(path), 0)

    def test_a_route_that_swallows_everything(self) -> None:
        # the kernel has EINVAL for it; but no argument was wrong
        self.core(CORE)
        path = self.hosts(LONG, {**WMEM, **RMEM})
        for command in ("route add blackhole 10.97.0.0/24", "-6 route add blackhole fd97::/64"):
            self.assertEqual(path.run("a", ["ip", *command.split()]).returncode, 0, command)
        for host in ("10.97.0.1", "fd97::1"):
            with self.subTest(host=host):
                result = self.tune(path, host=host)
                self.assertEqual((result["result"], result["measured"], result["reason"]), (0, -errno.EINVAL, "unknown"))


class Flows(BulkTest):
    """What a flow does beside a transfer, without privilege unless said otherwise."""

    def test_measures_where_the_transfer_comes_near_its_limit(self) -> None:
        self.core(CORE)
        for options in some((), ("--reverse",)):
            with self.subTest(options=options):
                path = self.hosts(LONG, {**WMEM, **RMEM})
                self.serve(path)
                result = self.send(path, "--tune", "autobuf", "--seconds", "3", *options)
                self.assertEqual((result["reason"], result["snd_buf_bytes"]), ("set", 8388608))
                self.between(self.echoes(path, "b" if options else "a"), 15, 800, "echoes")
                self.assertEqual(self.echoes(path, "a" if options else "b"), 0)

    def test_sends_nothing_before(self) -> None:
        rows = some(("the path is small", CORE, "rate=50M,delay=20ms,queue=1M", ["--seconds", "1"]),
                ("the transfer ends too early", CORE, LONG, ["--bytes", "1500000"]),
                ("it is short", CORE, LONG, ["--bytes", "1000000"]),
                ("it is short, from there", CORE, LONG, ["--bytes", "1000000", "--reverse"]),
                ("it is short, for low delay", CORE, LONG, ["--bytes", "1000000", "--intent", "low-delay"]))
        for name, core, both, options in rows:
            with self.subTest(name), global_sysctls(core):
                path = self.hosts(both, {**WMEM, **RMEM})
                self.serve(path)
                result = self.send(path, "--tune", "autobuf", *options)
                self.assertEqual(result["reason"], "kernel")
                self.assertEqual((self.echoes(path, "a"), self.echoes(path, "b")), (0, 0))

    def test_says_what_is_in_the_way(self) -> None:
        # SO_SNDBUF goes no further than 425984: nothing larger can be set, and nothing is sent
        self.core(OLDER_CORE)
        path = self.hosts(LONG, {**WMEM, **OLDER_RMEM})
        self.serve(path)
        for options in some((), ("--reverse",)):
            result = self.send(path, "--tune", "autobuf", "--seconds", "4", *options)
            self.assertEqual(result["reason"], "capped")
            self.assertGreater(result["snd_buf_bytes"], 425984)  # autotuning went on
        self.assertEqual((self.echoes(path, "a"), self.echoes(path, "b")), (0, 0))

    @thorough
    def test_by_force(self) -> None:
        self.core(OLDER_CORE)
        path = self.hosts(LONG, {**WMEM, **RMEM})
        self.serve(path)
        result = self.send(path, "--tune", "autobuf", "--seconds", "3", unprivileged=False)
        self.assertEqual(result["reason"], "set")
        self.between(result["snd_buf_bytes"], 0.8 * 9.8e6, 1.2 * 9.8e6, "buffer")

    @thorough
    def test_streams_share_a_measurement(self) -> None:
        self.core(CORE)
        for options in ((), ("--reverse",)):
            with self.subTest(options=options):
                path = self.hosts(LONG, {**RMEM, "net.ipv4.tcp_wmem": "4096 16384 1048576"})
                self.serve(path)
                result = self.send(path, "--tune", "autobuf", "--seconds", "3", "--streams", "4", *options)
                self.assertEqual(result["reason"], "set")
                # one measurement sends at most 1 MB; four would send more than that in all
                self.between(self.echoes(path) + self.echoes(path, "b"), 15, 700, "echoes")

    @thorough
    def test_a_peer_that_answers_no_echo(self) -> None:
        """The transfer does not wait, and what limits it is enlarged all the same."""
        self.core(CORE)
        path = self.hosts(LONG, {**WMEM, **RMEM})
        path.sysctl("b", "net.ipv4.icmp_echo_ignore_all", 1)
        self.serve(path)
        result = self.send(path, "--tune", "autobuf", "--seconds", "4")
        self.assertEqual((result["reason"], result["snd_buf_bytes"]), ("set", 8388608))
        self.between(self.echoes(path), 5, 30, "echoes")

    def test_off(self) -> None:
        self.core(CORE)
        path = self.hosts(LONG, {**WMEM, **RMEM})
        self.serve(path)
        result = self.send(path, "--tune", "autobuf", "--seconds", "0.5",
                           env={**os.environ, "AUTOBUF": "off"})
        self.assertEqual(result["reason"], "off")
        self.assertEqual(self.echoes(path), 0)

    @thorough
    def test_log(self) -> None:
        # a program that has no log of its own
        self.core(CORE)
        path = self.hosts(LONG, {**WMEM, **RMEM})
        self.serve(path)
        file = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "log")
        os.chmod(os.path.dirname(file), 0o777)
        self.send(path, "--tune", "autobuf", "--seconds", "3", env={**os.environ, "AUTOBUF": f"log={file}"})
        said = pathlib.Path(file).read_text()
        self.assertRegex(said, r"(?m)^autobuf\[\d+\]: send: set: ")
        self.assertEqual(os.stat(file).st_mode & 0o777, 0o600)

    @thorough
    def test_not_permitted(self) -> None:
        # a measurement that fails is no failure of the transfer
        self.core(CORE)
        path = self.hosts(LONG, {**WMEM, **RMEM})
        path.sysctl("a", PING_GROUPS, NONE)
        self.serve(path)
        result = self.send(path, "--tune", "autobuf", "--seconds", "4")
        self.assertEqual((result["reason"], result["snd_buf_bytes"]), ("set", 8388608))
        self.assertEqual(self.echoes(path), 0)


GARBAGE = """
import os, random, socket, struct, sys
host, port, held = sys.argv[1], int(sys.argv[2]), []
chance = random.Random(4711)

def connect():
    s = socket.create_connection((host, port), timeout=20)
    return s

def talk(data, reset=False, read=False):
    s = connect()
    try:
        s.sendall(data)
        if read:
            s.recv(1000)
    except OSError:
        pass  # it may hang up in the middle
    if reset:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()

talk(b"")
talk(b"", reset=True)
talk(b"\\n")
talk(b"x" * 1000000)
talk(b"BULK1 " + b"1" * 1000000 + b"\\n")
for size in (1, 10, 159, 160, 161, 5000):
    for _ in range(4):
        talk(chance.randbytes(size) + b"\\n", reset=chance.random() < 0.5)
for line in ("BULK1", "BULK1 0 0 0 0 0 0 1", "BULK2 0 0 0 0 0 0 1 -", "BULK1 2 0 0 0 0 0 1 -",
             "BULK1 0 9 0 0 0 0 1 -", "BULK1 0 0 7 0 0 0 1 -", "BULK1 1 0 0 0 0 0 1 -",
             "BULK1 1 1 0 99999999999 1 1 1 -", "BULK1 1 0 0 0 1 99999999999999999999 1 -",
             "BULK1 99999999999999999999 0 0 0 0 0 1 -", "BULK1 -1 0 0 0 0 0 1 -",
             "BULK1 1 0 0 0 1000 0 1 nonsense", "BULK1 0 0 0 0 0 0 1 - more",
             "BULK1 0 0 0 0 0 0 0 -", "BULK1 0 0 0 0 0 0 65 -",
             "BULK1 0 0 0 0 0 0 1 01234567890123456789"):
    talk(line.encode() + b"\\n", read=True)
# in the middle of honest ones
talk(b"BULK1 1 0 0 0 1000000000000 0 1 -\\n", reset=True, read=True)
talk(b"BULK1 0 0 0 0 1000000000000 0 1 -\\n" + b"d" * 300000, reset=True)
talk(b"BULK1 0 0 0 0 10 0 1 -\\n" + b"d" * 300000)
# and some that never say a word
for _ in range(20):
    held.append(connect())
    held[-1].sendall(b"BULK1 0 0"[:chance.randrange(9)])
print("done", flush=True)
sys.stdin.read()
"""


class Server(BulkTest):
    """bulk recv among strangers."""

    def ticks(self, pid: int) -> int:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
        return sum(map(int, stat.rpartition(")")[2].split()[11:13]))

    def test_garbage(self) -> None:
        path = self.hosts(FAST)
        server = self.serve(path)
        child = path.popen("a", [sys.executable, "-c", GARBAGE, path.addr["b"], str(PORT)],
                           stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_line(child, lambda line: line == "done", 30)
        self.assertIsNone(server.poll())
        for options in ((), ("--reverse",)):  # the silent ones are still there
            self.assertEqual(self.send(path, "--bytes", "500000", *options)["bytes"], 500000)
        before = self.ticks(server.pid)
        path.run("a", ["sleep", "0.5"])
        self.assertLessEqual(self.ticks(server.pid) - before, 20)  # of 50: it looks each 10 ms
        self.assertEqual(child.communicate("stop\n", timeout=20)[1], "")
        self.assertEqual(self.send(path, "--bytes", "500000")["bytes"], 500000)
        self.assertIsNone(server.poll())

    def test_several_at_once(self) -> None:
        path = self.hosts(FAST)
        self.serve(path)
        command = [example("bulk"), "send", "--json", "--bytes", "1000000", path.addr["b"]]
        children = [path.popen("a", [*command, *options], unprivileged=True)
                    for options in ([], ["--reverse"], ["--streams", "3"])]
        for child in children:
            self.assertEqual(json.loads(child.communicate(timeout=20)[0])["bytes"], 1_000_000)
            self.assertEqual(child.returncode, 0)


class OtherExamples(BulkTest):
    def test_oneshot(self) -> None:
        path = self.hosts("rate=100M,delay=10ms")
        body = "<p>as long as the path needs</p>\n" * 1000
        pathlib.Path(folder, "index.html").write_text(body)
        for host in (path.addr["b"], path.addr6["b"]):
            server = path.popen("b", [sys.executable, "-m", "http.server", "--bind", host, "--",
                                      "8080"], cwd=folder, stderr=subprocess.PIPE)
            wait_listening(path, "b", 8080, server)
            for _ in range(4):  # a busy machine can spoil some
                done = path.run("a", [example("oneshot"), host, "8080"], unprivileged=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stdout, r"\AHTTP/1\.\d 200 ")
                self.assertTrue(done.stdout.endswith(body))
                held = re.search(r"the path holds (\d+) bytes", done.stderr)
                if held and 0.12e6 < int(held.group(1)) < 0.5e6:
                    break
            self.assertTrue(held, done.stderr)
            self.between(int(held.group(1)), 0.12e6, 0.5e6, "product")  # 0.24 MB
            self.assertIn("left to the kernel", done.stderr)
            server.terminate()
            server.wait(10)

    def test_oneshot_without_permission(self) -> None:
        # fetches all the same
        path = self.hosts("rate=100M,delay=10ms")
        path.sysctl("a", PING_GROUPS, NONE)
        pathlib.Path(folder, "index.html").write_text("body")
        server = path.popen("b", [sys.executable, "-m", "http.server", "--bind", path.addr["b"], "8080"],
                            cwd=folder, stderr=subprocess.PIPE)
        wait_listening(path, "b", 8080, server)
        done = path.run("a", [example("oneshot"), path.addr["b"], "8080"], unprivileged=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.endswith("body"))
        self.assertIn("ping sockets", done.stderr)

    def test_pollloop(self) -> None:
        path = self.hosts("rate=100M,delay=20ms")
        for host in (path.addr["b"], path.addr6["b"]):
            for _ in range(4):  # a busy machine can spoil some
                done = path.run("a", [example("pollloop"), host], unprivileged=True)
                found = re.fullmatch(
                    r"([\d.]+) Mbit/s, ([\d.]+) ms, \d+ bytes; .* (\d+) times .*\n", done.stdout)
                if found and 50 < float(found.group(1)) < 200 and float(found.group(2)) < 60:
                    break
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(found, done.stdout)
            self.between(float(found.group(1)), 50, 200, "rate")
            self.between(float(found.group(2)), 40, 60, "RTT")
            self.between(int(found.group(3)), 5, 200, "ticks")  # of 10 ms, in three round trips
        path.change("both", loss=1)
        done = path.run("a", [example("pollloop"), path.addr["b"]], unprivileged=True, timeout=10)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("answer", done.stderr)


if __name__ == "__main__":
    sys.exit(run_tests(("ip", "ss", "nsenter", "setpriv", "taskset"),
                       ("examples/bulk", "examples/oneshot", "examples/pollloop")))
