#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`autobuf serve` and `autobuf measure` on emulated paths: what they measure, and which hostile peers they withstand.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select the
tests whose names contain one of them. As in test_probe.py, rates are the median of three
measurements and may be 25% off, times 10 ms and a wall clock 1 s too late.
"""

from __future__ import annotations

import ast
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from at_once import beside  # noqa: E402
from cases import PathTest, run_tests, thorough  # noqa: E402
import schema  # noqa: E402
from path import DEVICE, Path, built, wait_line, wait_listening  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
TOOL = "tools/autobuf"
PORT = 7411
MS = 1_000_000
LATE_NS = 10 * MS
SLACK_S = 1.0
SILENT_S = 3.0  # a client's time to say HELLO
RATE_SHARE = 0.25
CROWD = ("--per-address", "2500")  # of clients that have one address
CPU_S = 1.0  # more than any client may cost
CHEAP_BYTES = 64_000
MOST_BYTES = 500_000
HANDSHAKE_BYTES = 1_500  # of the connection, and of lines
HELLO = b"AUTOBUF HELLO 1 train=463360 budget=463360\r\n"
RESULTS = [f"{side}_{what}" for side in ("tx", "rx") for what in (
    "rate_bit_per_s", "rate_low_bit_per_s", "rate_high_bit_per_s", "at_least", "echoed", "unsure")]
KEYS = ["version", "method", "rtt_min_ns", "rtt_median_ns", *RESULTS, "unsure", "tx_bdp_bytes", "rx_bdp_bytes",
        "samples", "loss_permille", "mtu_bytes", "pmtu_black_hole", "window_scaling", "cost_bytes", "elapsed_ns",
        "host", "obstacles", "plan"]

# Passes all on, as `ssh -L`, `kubectl port-forward` or socat do.
FORWARDER = """
import socket, sys, threading
def copy(source, to):
    while data := source.recv(1 << 20):
        to.sendall(data)
    to.shutdown(socket.SHUT_WR)
listener = socket.create_server((sys.argv[1], int(sys.argv[3])))
while True:
    near, _ = listener.accept()
    far = socket.create_connection((sys.argv[2], int(sys.argv[3])))
    for pair in ((near, far), (far, near)):
        threading.Thread(target=copy, args=pair, daemon=True).start()
"""


def status_of(pid: int) -> dict[str, str]:
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return {key: value.strip() for key, value in
            (line.split(":", 1) for line in text.splitlines() if ":" in line)}


def cpu_s(pid: int) -> float:
    """What a process has used so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class InbandTest(PathTest):
    def serve(self, path: Path, *args: str, cc: str = "cubic", **kw) -> subprocess.Popen:
        for side in "ab":
            path.route(side, congctl=cc)
        server = path.popen("b", [built(TOOL), "serve", *args], **kw)
        wait_listening(path, "b", PORT, server)
        return server

    def run_measure(self, path: Path, target: str | None = None,
                    *args: str) -> subprocess.CompletedProcess:
        for _ in range(3):  # "try again": a busy machine disturbs a measurement
            start = time.monotonic()
            done = path.run("a", [built(TOOL), "measure", *args, target or path.addr["b"]], timeout=60)
            done.wall_s = time.monotonic() - start
            if "could not tell the rate" not in done.stderr:
                break
        return done

    def measure(self, path: Path, target: str | None = None) -> dict:
        """A measurement that succeeds."""
        done = self.run_measure(path, target, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count("\n"), 1)
        result = json.loads(done.stdout)
        self.assertEqual(list(result), KEYS)
        schema.check(self, result, "path")
        self.assertEqual(result["method"], "inband")
        for side in ("tx", "rx"):
            rate = result[f"{side}_rate_bit_per_s"]
            unsure = result[f"{side}_unsure"] not in (None, "batches")  # a stream that comes in groups has a BDP
            self.assertEqual(rate is None or unsure, result[f"{side}_bdp_bytes"] is None)
            if rate is not None:
                self.assertLessEqual(result[f"{side}_rate_low_bit_per_s"], rate)
                self.assertLessEqual(rate, result[f"{side}_rate_high_bit_per_s"])
        return result

    def median(self, path: Path, target: str | None = None) -> list[dict]:
        return [self.measure(path, target) for _ in range(3)]

    def right_rates(self, runs: list[dict], there_mbit: float, back_mbit: float) -> None:
        for side, mbit in (("tx", there_mbit), ("rx", back_mbit)):
            rates = [run[f"{side}_rate_bit_per_s"] or 0 for run in runs]
            self.near(statistics.median(rates), mbit * 1e6, RATE_SHARE, f"{side} of {mbit}")

    def right_time(self, runs: list[dict], rtt_ms: float) -> None:
        for run in runs:
            self.between(run["rtt_min_ns"], rtt_ms * MS, rtt_ms * MS + LATE_NS, "RTT")
            self.assertLessEqual(run["elapsed_ns"], 6 * rtt_ms * MS + (0.5 + SLACK_S) * 1e9)


class Measuring(InbandTest):
    def test_each_direction_by_itself(self) -> None:
        for there, back, rtt_ms in ((100, 100, 20), (100, 10, 50), (10, 100, 30), (500, 50, 10),
                                    (1000, 1000, 20)):
            with self.subTest(there=there, back=back), \
                 Path(ab=f"rate={there}M,delay={rtt_ms / 2}ms",
                      ba=f"rate={back}M,delay={rtt_ms / 2}ms") as path:
                self.serve(path)
                runs, costs = [], []
                for _ in range(3):
                    path.reset()
                    runs.append(self.measure(path))
                    costs.append(max(way["bytes"] for way in path.truth().values()))
                self.right_rates(runs, there, back)
                self.right_time(runs, rtt_ms)
                most = CHEAP_BYTES if max(there, back) <= 100 else MOST_BYTES
                self.assertLessEqual(min(costs), most + HANDSHAKE_BYTES)  # what a busy machine disturbs costs more

    @thorough
    def test_congestion_controls(self) -> None:
        for cc in ("reno", "bbr"):
            with self.subTest(cc=cc), Path(both="rate=100M,delay=20ms") as path:
                self.serve(path, cc=cc)
                runs = self.median(path)
                for side in ("tx", "rx"):
                    rates = [run[f"{side}_rate_bit_per_s"] for run in runs]
                    self.assertLessEqual(statistics.median(rates), 125e6)
                    if not any(run[f"{side}_at_least"] for run in runs):
                        self.assertGreaterEqual(statistics.median(rates), 75e6)
                if cc == "reno":
                    self.right_rates(self.median(path), 100, 100)

    @thorough
    def test_loss(self) -> None:
        with Path(both="rate=50M,delay=10ms,loss=0.02", seed=3) as path:
            self.serve(path)
            self.right_rates(self.median(path), 50, 50)

    @thorough
    def test_packet_sizes(self) -> None:
        for mtu in (576, 9000):
            with self.subTest(mtu=mtu), Path(both="rate=50M,delay=10ms", mtu=mtu) as path:
                self.serve(path)
                self.right_rates(self.median(path), 50, 50)

    def test_ipv6(self) -> None:
        path = self.path(both="rate=100M,delay=10ms")
        if not path.has_ipv6:
            self.skipTest("no IPv6 here")
        self.serve(path)
        self.right_rates(self.median(path, f"[fd77::2]:{PORT}"), 100, 100)
        self.right_rates(self.median(path, "fd77::2"), 100, 100)

    def test_small_receive_buffers(self) -> None:
        path = self.path(both="rate=100M,delay=10ms")
        for side in "ab":
            path.sysctl(side, "net.ipv4.tcp_rmem", "4096 32768 32768")
        self.serve(path)
        for run in self.median(path):
            for key in ("tx_rate_bit_per_s", "rx_rate_bit_per_s"):
                self.assertLessEqual(run[key] or 0, 125e6)

    def test_text(self) -> None:
        path = self.path(ab="rate=100M,delay=10ms", ba="rate=20M,delay=10ms")
        self.serve(path)
        done = self.run_measure(path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"\A[ -~\n]+\n\Z")
        for label in ("round-trip time ", "capacity there ", "capacity back ", "cost "):
            self.assertIn(f"\n{label}", "\n" + done.stdout)


@beside
class Middleboxes(InbandTest):
    """What is between here and the server, and is no path."""

    def test_a_forwarder(self) -> None:
        path = self.path(both="rate=100M,delay=50ms")
        self.serve(path, "--transfer", "1")
        forwarder = path.popen("a", [sys.executable, "-c", FORWARDER, path.addr["a"], path.addr["b"], str(PORT)])
        wait_listening(path, "a", PORT, forwarder)
        done = self.run_measure(path, path.addr["a"], "--json")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"\Aautobuf: [^\n]*a proxy or port forwarding ends the connection: the path to the peer is not measured\n\Z")
        done = self.run_measure(path, path.addr["a"], "--json", "--transfer", "1")
        self.assertIn("a proxy or port forwarding", done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIsNone(json.loads(done.stdout)["tx_rate_bit_per_s"])

    @thorough
    def test_a_pmtu_black_hole(self) -> None:
        path = self.path(both="rate=100M,delay=10ms", mtu=1400)
        self.serve(path)
        for side in "ab":
            path.run(side, ["ip", "link", "set", DEVICE, "mtu", "1500"], check=True)
        done = self.run_measure(path, None, "--timeout", "300")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"answers short lines, but full packets do not arrive.*tcp_mtu_probing=1")
        found = json.loads(path.run("a", [built(TOOL), "explain", "--json", path.addr["b"]]).stdout)
        schema.check(self, found, "path")
        self.assertEqual((found["pmtu_black_hole"], found["mtu_bytes"], found["loss_permille"]), (True, 1280, 0))
        self.assertIn("tcp_mtu_probing=1", found["obstacles"][0]["change"])
        self.assertRegex(path.run("a", [built(TOOL), "probe", path.addr["b"]]).stdout, r"(?m)^largest packet +1280 bytes came back")

    def test_no_window_scaling(self) -> None:
        path = self.path(both="rate=100M,delay=20ms")
        path.sysctl("b", "net.ipv4.tcp_window_scaling", 0)  # as if a firewall had removed the option
        self.serve(path)
        found = self.measure(path)
        self.assertIs(found["window_scaling"], False)
        self.assertEqual((found["plan"]["snd_reason"], found["plan"]["snd_request_bytes"]), ("late", 0))
        self.assertLessEqual(found["plan"]["snd_window_bytes"], 65535)
        self.assertLessEqual(found["plan"]["rcv_window_bytes"], 65535)
        self.assertIn("65,535 bytes in flight", self.run_measure(path).stdout.replace("\n   ", " "))


@beside
class Failing(InbandTest):
    def test_usage(self) -> None:
        path = self.path(both="delay=1ms")
        for args in (["measure"], ["measure", "a", "b"], ["measure", "--rate", "1", "x"],
                     ["measure", "--port", "1", "x"], ["measure", "x:0"], ["measure", "x:65536"],
                     ["measure", "x:"], ["measure", "[::1"], ["measure", ":1"],
                     ["measure", "--timeout", "30001", "x"], ["serve", "x"], ["serve", "--json"],
                     ["serve", "--port", "0"], ["serve", "--port", "65536"],
                     ["serve", "--port", "1x"], ["serve", "--bind", ""],
                     ["serve", "--rate", "0"], ["serve", "--rate", "fast"], ["serve", "--rtt", "1"],
                     ["serve", "--clients", "0"], ["serve", "--clients", "1000001"],
                     ["serve", "--clients", "-1"], ["serve", "--per-address", "0"],
                     ["serve", "--per-address", "1k"], ["measure", "--clients", "1", "x"],
                     ["probe", "--per-address", "1", "x"], ["watch", "--clients", "1", "1"]):
            with self.subTest(args=args):
                done = path.run("a", [built(TOOL), *args])
                self.assertEqual((done.returncode, done.stdout), (2, ""))

    def test_nobody_there(self) -> None:
        path = self.path(both="delay=1ms")
        done = self.run_measure(path)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"refused.*7411.*autobuf serve")
        done = self.run_measure(path, "10.77.0.77", "--timeout", "300")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no connection within 300 ms", done.stderr)
        self.assertLess(done.wall_s, 0.3 + 3 + SLACK_S)

    def test_port_taken(self) -> None:
        path = self.path(both="delay=1ms")
        self.serve(path)
        done = path.run("b", [built(TOOL), "serve"])
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("in use", done.stderr)

    def test_port_not_permitted(self) -> None:
        path = self.path(both="delay=1ms")
        done = path.run("b", ["setpriv", "--bounding-set=-net_bind_service", "--inh-caps=-net_bind_service", "--",
                              built(TOOL), "serve", "--port", "80"])
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("cannot listen on port 80: Permission denied", done.stderr)

    def strange(self, path: Path, how: str) -> tuple[subprocess.CompletedProcess, bytes]:
        """Measures with a server of tests/net/strange_server.py; returns what that one was sent, too."""
        server = path.popen("b", [sys.executable, str(HERE / "strange_server.py"), str(PORT), how])
        wait_listening(path, "b", PORT, server)
        done = self.run_measure(path, None, "--json", "--timeout", "300")
        self.assertLess(done.wall_s, 2.3 + SLACK_S, how)
        return done, ast.literal_eval(wait_line(server, lambda line: True, 20))

    def test_peers_that_do_not_know_it(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        for how in ("ignorant", "another_version", "silent", "megabyte", "binary"):
            with self.subTest(how=how):
                done, seen = self.strange(path, how)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertEqual(seen, HELLO)  # and not a byte of payload
                if how in ("ignorant", "another_version"):
                    self.assertIn("does not know", done.stderr)
                if how == "silent":
                    self.assertIn("connected, but no answer within 300 ms", done.stderr)
                self.assertNotIn("ICMP", done.stderr)

    def test_peers_that_break_it(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        for how in ("too_long_train", "half_train", "half_closed", "stalled_train", "out_of_turn"):
            with self.subTest(how=how):
                done, seen = self.strange(path, how)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertTrue(seen.startswith(HELLO))
                self.assertLess(len(seen), 20_000)

    def test_peer_that_lies(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        done, _ = self.strange(path, "infinitely_fast")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        result = json.loads(done.stdout)
        self.assertIsNone(result["tx_rate_bit_per_s"])
        self.assertIsNotNone(result["rtt_min_ns"])


class Serving(InbandTest):
    def crowd(self, path: Path, *args: str) -> list[str]:
        return [sys.executable, str(HERE / "crowd.py"), path.addr["b"], str(PORT), *args]

    def hold(self, path: Path, count: int, *what: str, side: str = "b", **kw) -> None:
        """Clients that stay until the path ends."""
        child = path.popen(side, self.crowd(path, "hold", str(count), *what), stdin=subprocess.PIPE,
                           **kw)
        wait_line(child, lambda line: line.strip() == "held", 30)

    def ask(self, path: Path, side: str, count: int, address: str | None = None) -> str:
        """Clients that stay, too: + for each that was answered, - for each that was not let in."""
        argv = [sys.executable, str(HERE / "crowd.py"), address or path.addr["b"], str(PORT), "ask",
                str(count), "AUTOBUF HELLO 1\\r\\n"]
        child = path.popen(side, argv, stdin=subprocess.PIPE)
        return wait_line(child, lambda line: True, 30).strip()

    def receive_buffers(self, path: Path) -> list[int]:
        told = path.run("b", ["ss", "-Htnm", "state", "established", "sport", "=", f":{PORT}"])
        return [int(size) for size in re.findall(r"rb(\d+)", told.stdout)]

    def memory_kb(self, server: subprocess.Popen) -> int:
        return int(status_of(server.pid)["VmRSS"].split()[0])

    @beside
    def test_says_what_it_does(self) -> None:
        path = self.path(both="rate=100M,delay=2ms")
        server = self.serve(path, stderr=subprocess.STDOUT)
        wait_line(server, lambda line: line.startswith("autobuf: listening on 0.0.0.0 port 7411"), 10)
        path.popen("a", [sys.executable, "-c", f"import socket; socket.create_connection(('{path.addr['b']}', {PORT}))"]).wait()
        self.measure(path)  # the one before has said nothing: there is no line for it
        wait_line(server, lambda line: " sent " in line and self.assertRegex(
            line, rf"^autobuf: {path.addr['a']}: sent [\d.]+ [kM]B in [\d.]+ s$") is None, 10)

    @beside
    def test_privileges_are_gone(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("needs root")
        path = self.path(both="delay=1ms")
        status = status_of(self.serve(path).pid)
        self.assertEqual(set(status["Uid"].split()), {"65534"})
        self.assertEqual(set(status["Gid"].split()), {"65534"})
        self.assertEqual(status["Groups"], "")
        for key in ("CapPrm", "CapEff"):
            self.assertEqual(int(status[key], 16), 0, key)

    def test_socket_activation(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        # As systemd does by default, the socket is a blocking one.
        starter = ("import os, socket, sys\n"
                   f"s = socket.create_server(('', {PORT}))\n"
                   "os.dup2(s.fileno(), 3)\n"
                   "os.set_inheritable(3, True)\n"
                   "os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))\n"
                   "os.execv(sys.argv[1], [sys.argv[1], 'serve', '--port', '1'])\n")
        for side in "ab":
            path.route(side, congctl="cubic")
        server = path.popen("b", [sys.executable, "-c", starter, built(TOOL)])
        wait_listening(path, "b", PORT, server)
        self.hold(path, 3, "")
        self.right_rates(self.median(path), 100, 100)

    def test_thousand_clients(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        server = self.serve(path, *CROWD)
        self.hold(path, 1000, "AUTOBUF HELLO 1\\r\\n")
        self.right_rates(self.median(path), 100, 100)
        self.assertLess(self.memory_kb(server), 64_000)

    def test_more_clients_than_there_may_be(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        server = self.serve(path, *CROWD)
        self.hold(path, 2500, "")
        self.right_rates(self.median(path), 100, 100)
        files = len(os.listdir(f"/proc/{server.pid}/fd"))
        self.assertLess(files, 2100)

    def test_garbage_leaves_memory_flat(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        server = self.serve(path, *CROWD)
        path.run("b", self.crowd(path, "garbage", "1000"), timeout=120, check=True)
        before_kb = self.memory_kb(server)
        flood = path.popen("b", self.crowd(path, "garbage", "10000"))
        honest = self.measure(path)  # in the midst of it
        self.assertIsNotNone(honest["tx_rate_bit_per_s"])
        self.assertEqual(flood.wait(timeout=240), 0)
        self.assertLess(self.memory_kb(server), before_kb + 4_000)
        self.right_rates(self.median(path), 100, 100)

    def test_clients_that_never_read(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        server = self.serve(path, *CROWD)
        self.hold(path, 300, "AUTOBUF HELLO 1\\r\\n" + "AUTOBUF TRAIN 480000\\r\\n" * 40)
        self.right_rates(self.median(path), 100, 100)
        self.assertLess(self.memory_kb(server), 64_000)

    @beside
    def test_stalling_client_is_dropped(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        self.serve(path)
        waiter = ("import socket, sys\n"
                  f"s = socket.create_connection((sys.argv[1], {PORT}), timeout=20)\n"
                  "s.sendall(b'AUTOBUF HELLO 1\\r\\nAUTOBUF SINK 14480\\r\\n half')\n"
                  "try:\n"
                  "    while s.recv(1000): pass\n"
                  "except ConnectionResetError: pass\n"
                  "print('dropped')\n")
        done = path.run("a", [sys.executable, "-c", waiter, path.addr["b"]], timeout=30)
        self.assertEqual(done.stdout, "dropped\n")

    @beside
    def test_half_closed_client_costs_nothing(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        server = self.serve(path)
        for what in ("AUTOBUF TRAIN 480000\\r\\n" * 40, "AUTOBUF TRAIN 30000\\r\\nAUTOBUF RESULT\\r\\n"):  # in the midst, or at the end
            done = path.run("a", self.crowd(path, "half", "1", "AUTOBUF HELLO 1\\r\\n" + what), timeout=30)
            self.assertEqual(done.stdout, "dropped\n", what)
        self.assertLess(cpu_s(server.pid), CPU_S)

    @thorough
    def test_only_hello_is_a_hello(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        self.serve(path)
        for what in ("A", "AUTOBUF TRAIN 5000\\r\\n"):
            with self.subTest(what=what):
                done = path.run("a", self.crowd(path, "read", "1", what), timeout=30)
                self.between(float(done.stdout.split()[1]), SILENT_S, SILENT_S + SLACK_S, "life")

    @beside
    def test_window_opens_with_hello(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        self.serve(path)
        self.hold(path, 1, "")
        self.assertLess(max(self.receive_buffers(path)), 400_000)
        self.ask(path, "b", 1)
        self.assertGreater(max(self.receive_buffers(path)), 500_000)

    @thorough
    def test_small_segments_take_no_memory(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        server = self.serve(path, *CROWD)
        before_kb = self.memory_kb(server)
        # All that the budget takes, but for the last bytes: 3,750 segments each, of which each has a time.
        self.hold(path, 80, "AUTOBUF HELLO 1\\r\\nAUTOBUF SINK 100000\\r\\n" + "x" * 100_000,
                  "AUTOBUF SINK 100000\\r\\n" + "x" * 100_000,
                  "AUTOBUF SINK 80000\\r\\n" + "x" * 79_000, side="a",
                  env={**os.environ, "SEGMENT_BYTES": "88"})
        self.assertLess(self.memory_kb(server), before_kb + 6_000)
        self.right_rates(self.median(path), 100, 100)

    @beside
    def test_lines_are_bounded(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        self.serve(path)
        done = path.run("b", self.crowd(path, "read", "400",
                                        "AUTOBUF HELLO 1\\r\\nAUTOBUF RESULT\\r\\n"), timeout=30)
        lines, seconds = done.stdout.split()
        self.assertEqual(int(lines), 512)
        self.assertLess(float(seconds), SILENT_S)

    def test_rate_of_all_clients(self) -> None:
        path = self.path(both="rate=1G,delay=1ms")
        server = self.serve(path, "--rate", "8M")
        done = path.run("a", self.crowd(path, "take", "2000000", "AUTOBUF HELLO 1\\r\\n" +
                                        "AUTOBUF TRAIN 480000\\r\\n" * 40), timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        # 2 MB of payload at 1 MB a second; what one client is sent at once may come before its time
        self.between(float(done.stdout), 2 - 0.5, 2 + 2 * SLACK_S, "seconds")
        self.assertLess(cpu_s(server.pid), CPU_S)

    def test_clients_of_one_address(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        self.serve(path)
        self.assertEqual(self.ask(path, "b", 40), "+" * 32 + "-" * 8)
        self.right_rates(self.median(path), 100, 100)

    @beside
    def test_networks_of_ipv6_are_one_address(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        if not path.has_ipv6:
            self.skipTest("no IPv6 here")
        self.serve(path, "--per-address", "2")
        self.assertEqual(self.ask(path, "b", 3, "fd77::2"), "++-")
        self.assertEqual(self.ask(path, "a", 1, "fd77::2"), "-")
        self.assertEqual(self.ask(path, "a", 3), "++-")

    @beside
    def test_fewer_clients(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        server = self.serve(path, "--clients", "3")
        self.assertEqual(self.ask(path, "b", 3), "+++")
        files = len(os.listdir(f"/proc/{server.pid}/fd"))
        self.assertEqual(self.ask(path, "b", 10), "+" * 10)  # the oldest leave
        self.assertEqual(len(os.listdir(f"/proc/{server.pid}/fd")), files)
        self.assertIsNotNone(self.measure(path)["tx_rate_bit_per_s"])

    @beside
    def test_only_who_connected_is_sent_anything(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        self.serve(path)
        path.reset()
        self.hold(path, 10, "AUTOBUF HELLO 1\\r\\nAUTOBUF TRAIN 480000 10.77.0.1 7500\\r\\n")
        self.assertEqual(path.truth()["ba"]["packets"], 0)

    @beside
    def test_binds_where_it_is_told(self) -> None:
        path = self.path(both="delay=1ms")
        server = path.popen("b", [built(TOOL), "serve", "--bind", "127.0.0.1", "--port", "7499"])
        wait_listening(path, "b", 7499, server)
        rows = path.run("b", ["cat", "/proc/net/tcp", "/proc/net/tcp6"]).stdout
        ours = re.findall(r"([0-9A-F]+):1D4B ", rows)  # 7499
        self.assertEqual(ours, ["0100007F"])


if __name__ == "__main__":
    sys.exit(run_tests(("ip", "nsenter", "setpriv", "taskset"), (TOOL,)))
