#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Open connections on emulated paths: `bulk --tune live`, and `autobuf watch`.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select the
tests whose names contain one of them. The tests check decisions; the benchmarks show rates.
"""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import schema  # noqa: E402
import test_bulk  # noqa: E402
import test_probe  # noqa: E402
from at_once import alone, beside  # noqa: E402
from cases import run_tests, some, thorough  # noqa: E402
from path import Path, wait_line, wait_listening  # noqa: E402
from test_bulk import CORE, LONG, RMEM, WMEM, BulkTest  # noqa: E402

PORT = 7600
WAIT_S = 20.0
NO_PACE = 2 ** 64 - 1
KEYS = ["pid", "fd", "local", "peer", "window_scaling", "available", "limited", "rtt_ns", "rtt_min_ns",
        "sent_bytes", "received_bytes", "sent_bit_per_s", "received_bit_per_s", "in_flight_bytes", "cwnd_bytes",
        "peer_window_bytes", "notsent_bytes", "snd_buf_bytes", "rcv_buf_bytes", "pacing_bit_per_s",
        "mtu_bytes", "loss_permille", "retransmits", "changes"]
NULLABLE = ("rtt_ns", "rtt_min_ns", "peer_window_bytes", "pacing_bit_per_s", "mtu_bytes")

# Sends for ever, with buffers of argv[2] bytes if that is not 0; each word on stdin is a question.
SENDER = """
import os, select, socket, struct, sys
def connect():
    s = socket.socket()
    if int(sys.argv[2]):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, int(sys.argv[2]))
    for option, value in zip(sys.argv[3::2], sys.argv[4::2]):  # of SOL_SOCKET, by its number
        s.setsockopt(socket.SOL_SOCKET, int(option), int(value) if value.isdecimal() else value.encode())
    s.connect((sys.argv[1], 7600))
    s.setblocking(False)
    return s
def answer(word):
    global s
    if word == "pace":
        print(struct.unpack("Q", s.getsockopt(socket.SOL_SOCKET, 47, 8))[0], flush=True)
    elif word == "own":
        s.setsockopt(socket.SOL_SOCKET, 47, struct.pack("Q", 6000000))
        print(struct.unpack("Q", s.getsockopt(socket.SOL_SOCKET, 47, 8))[0], flush=True)
    elif word == "buffer":
        print(s.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF), flush=True)
    elif word == "locks":
        print(s.getsockopt(socket.SOL_SOCKET, 72), flush=True)
    elif word in ("bbr", "reno"):
        print(int(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\\0") == word.encode()), flush=True)
    elif word == "shut":
        s.shutdown(socket.SHUT_WR)
        sends.clear()
    elif word == "close":
        s.close()
        s = None
    elif word == "connect":
        s = connect()
        sends.add(True)
    else:
        return False
    return True
s = connect()
sends = {True}
print(s.fileno(), flush=True)
data = bytes(65536)
while True:
    ready = select.select([0], [s] if s and sends else [], [])
    if ready[0] and not all(answer(word) for word in os.read(0, 100).decode().split() or [""]):  # two may come at once
        break
    if sends and s in ready[1]:  # not the one that was closed just now
        try:
            s.send(data)
        except BlockingIOError:  # others may have changed its buffer since
            pass
"""
# Says when a connection begins and ends.
SINK = """
import socket
l = socket.create_server(("", 7600))
while True:
    s, _ = l.accept()
    print("begin", flush=True)
    try:
        while s.recv(1 << 20):
            pass
    except OSError:
        pass
    print("end", flush=True)
"""


def setUpModule() -> None:
    test_bulk.setUpModule()
    test_probe.setUpModule()


class Live(BulkTest):
    def test_a_send_buffer_that_limits_is_enlarged(self) -> None:
        self.core(CORE)
        path = self.hosts(LONG, {**WMEM, **RMEM})
        self.serve(path)
        for options in some((), ("--reverse",)):
            with self.subTest(options=options):
                result = self.send(path, "--seconds", "6", "--tune", "live", *options)
                self.assertEqual(result["reason"], "set")
                self.assertEqual(result["snd_buf_bytes"], 8388608)

    def test_what_the_kernel_reaches_is_left_to_it(self) -> None:
        self.core(CORE)
        path = self.hosts("rate=100M,delay=10ms", {**WMEM, **RMEM})
        self.serve(path)
        for cc in some("cubic", "bbr", "reno"):
            with self.subTest(cc=cc):
                for side in "ab":
                    path.route(side, congctl=cc)
                result = self.send(path, "--seconds", "2", "--tune", "live")
                self.assertEqual(result["reason"], "kernel")
                self.assertLessEqual(result["snd_buf_bytes"], 4194304)

    def test_low_delay_keeps_the_queue_short(self) -> None:
        self.core(CORE)
        path = self.hosts("rate=50M,delay=25ms,queue=2M", {**WMEM, **RMEM})
        self.serve(path)
        for options in some((), ("--reverse",)):
            with self.subTest(options=options):
                default = self.send(path, "--seconds", "4", *options)
                live = self.send(path, "--seconds", "4", "--tune", "live", "--intent", "low-delay",
                                 *options)
                self.assertEqual(live["reason"], "set")
                self.assertLess(live["rtt_mean_ns"], 0.6 * default["rtt_mean_ns"])
                self.assertGreater(live["rate_bit_per_s"], 0.7 * default["rate_bit_per_s"])

    def test_short_transfers_end(self) -> None:
        path = self.hosts("rate=50M,delay=10ms")
        self.serve(path)
        for size in ("1", "1000", "100000"):
            for intent in ("throughput", "low-delay"):
                with self.subTest(size=size, intent=intent):
                    result = self.send(path, "--bytes", size, "--tune", "live", "--intent", intent)
                    self.assertEqual(result["bytes"], int(size))


class Asked(BulkTest):
    """With a process that the test can ask what its socket is like."""

    def begin(self, both: str, buffer: int = 0, options: tuple[str, ...] = ()) -> tuple[Path, subprocess.Popen, int, subprocess.Popen]:
        path = self.hosts(both, {**WMEM, **RMEM})
        sink = path.popen("b", [sys.executable, "-c", SINK])
        wait_listening(path, "b", PORT, sink)
        sender = path.popen("a", [sys.executable, "-c", SENDER, path.addr["b"], str(buffer), *options],
                            stdin=subprocess.PIPE)
        return path, sender, int(wait_line(sender, lambda line: True)), sink

    def ask(self, sender: subprocess.Popen, word: str) -> int:
        self.tell(sender, word)
        return int(wait_line(sender, lambda line: True))

    def tell(self, sender: subprocess.Popen, word: str) -> None:
        sender.stdin.write(word + "\n")
        sender.stdin.flush()


@beside
class Watch(Asked):
    def watch(self, path: Path, *args: str, **kw) -> subprocess.Popen:
        return path.popen("a", [test_probe.tool(), "watch", "--json", *args], **kw)

    def line(self, watch: subprocess.Popen, predicate=lambda d: "limited" in d) -> dict:
        return json.loads(wait_line(watch, lambda line: predicate(json.loads(line)), WAIT_S))

    def stop(self, watch: subprocess.Popen, number: int = signal.SIGTERM) -> None:
        watch.send_signal(number)
        self.assertEqual(watch.wait(WAIT_S), 0)

    def test_what_it_tells(self) -> None:
        path, sender, fd, _ = self.begin("rate=50M,delay=10ms")
        watch = self.watch(path, f"{sender.pid}:{fd}")
        schema.check(self, self.line(watch, lambda d: True), "watched")
        seen = self.line(watch, lambda d: d.get("sent_bit_per_s", 0) > 1e6)
        self.assertEqual(list(seen), KEYS)
        schema.check(self, seen, "report")
        for key in KEYS:
            if key not in ("local", "peer", "window_scaling", "available", "limited") + NULLABLE:
                self.assertIs(type(seen[key]), int, key)
        self.assertEqual((seen["pid"], seen["fd"]), (sender.pid, fd))
        self.assertEqual(seen["peer"], f"{path.addr['b']}:{PORT}")
        self.assertTrue(seen["local"].startswith(path.addr["a"] + ":"))
        self.between(seen["rtt_min_ns"], 19e6, 60e6, "least RTT")
        self.assertIsNone(seen["pacing_bit_per_s"])
        self.assertEqual(seen["mtu_bytes"], 1500)
        # All of the path is free, and the sender fills it. Whether a queue shows depends on how long its own is.
        free = self.line(watch, lambda d: (d.get("available", {}).get("tx_low_bit_per_s") or 0) > 30e6)["available"]
        self.assertIn(free["kind"], ("available", "share"))
        self.between(free["tx_low_bit_per_s"], 30e6, 51e6, "at least free")
        self.between(free["tx_high_bit_per_s"] or 50e6, 45e6, 60e6, "at most free")
        self.between(free["over_ns"], 0.15e9, 10e9, "for so long")
        self.assertIsNone(free["rx_low_bit_per_s"])
        self.stop(watch)

    def test_it_does_not_interrupt_what_it_watches(self) -> None:
        path, sender, fd, _ = self.begin("rate=50M,delay=10ms")
        for words, policy in (((), os.SCHED_BATCH), (("chrt", "--idle", "0"), os.SCHED_IDLE)):
            with self.subTest(words):
                watch = path.popen("a", [*words, test_probe.tool(), "watch", "--json", f"{sender.pid}:{fd}"])
                self.line(watch)
                self.assertEqual(os.sched_getscheduler(watch.pid), policy)
                self.assertEqual(os.sched_getscheduler(sender.pid), os.SCHED_OTHER)
                self.stop(watch)

    @thorough
    def test_loss(self) -> None:
        path, sender, fd, _ = self.begin("rate=50M,delay=10ms,loss=0.02")
        watch = self.watch(path, f"{sender.pid}:{fd}")
        seen = self.line(watch, lambda d: d.get("loss_permille", 0) > 0)
        schema.check(self, seen, "report")
        self.between(seen["loss_permille"], 1, 200, "of 20 that are lost")
        self.assertGreater(seen["retransmits"], 0)
        self.stop(watch)

    @thorough
    def test_a_connection_that_stalls(self) -> None:
        path, sender, fd, _ = self.begin("rate=50M,delay=10ms")
        watch = self.watch(path, "--tune", f"{sender.pid}:{fd}")
        self.line(watch, lambda d: d.get("sent_bytes", 0) > 1e5)
        path.change("both", loss=1)
        seen = self.line(watch, lambda d: d.get("limited") == "stalled")
        schema.check(self, seen, "report")
        self.assertGreater(seen["in_flight_bytes"] + seen["notsent_bytes"], 0)
        path.change("both", loss=0)
        self.line(watch, lambda d: d.get("limited") not in ("stalled", "idle", "change", None))
        self.stop(watch)

    @thorough
    def test_no_window_scaling(self) -> None:
        path, sender, fd, _ = self.begin("rate=50M,delay=10ms")
        watch = self.watch(path, f"{sender.pid}:{fd}")
        self.assertIs(self.line(watch)["window_scaling"], True)
        self.stop(watch)
        path.sysctl("b", "net.ipv4.tcp_window_scaling", 0)
        for word in ("close", "connect"):
            self.tell(sender, word)
        watch = self.watch(path, str(sender.pid))
        seen = self.line(watch, lambda d: "limited" in d)
        self.assertIs(seen["window_scaling"], False)
        self.stop(watch)

    def test_a_disk_that_is_full(self) -> None:
        path, sender, fd, _ = self.begin("rate=50M,delay=10ms")
        with open("/dev/full", "w") as full:
            watch = self.watch(path, f"{sender.pid}:{fd}", stdout=full)
        self.assertEqual(watch.wait(WAIT_S), 1)

    def test_a_screen_on_a_terminal(self) -> None:
        path, sender, fd, _ = self.begin("rate=50M,delay=10ms")
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 13, 50, 0, 0))
        watch = path.popen("a", [test_probe.tool(), "watch", str(sender.pid)], stdout=theirs)
        os.close(theirs)
        shown, deadline = b"", time.monotonic() + WAIT_S
        while shown.count(b"limited by") < 3:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([ours], [], [], left)[0]:
                self.untimely(f"{shown}")
            shown += os.read(ours, 65536)
        self.stop(watch, signal.SIGINT)
        screen = shown.split(b"\x1b[H")[-2].replace(b"\x1b[K", b"").replace(b"\x1b[J", b"")
        lines = screen.decode().splitlines()
        self.assertLess(len(lines), 13)
        self.assertLessEqual(max(map(len, lines)), 50)
        self.assertIn(f"({sender.pid}): 1 TCP connection", lines[0])
        self.assertIn(f"fd {fd}  {path.addr['a']}:", screen.decode())

    def test_only_looks_unless_told_to_tune(self) -> None:
        path, sender, fd, _ = self.begin(LONG, 65536)
        before = self.ask(sender, "buffer")
        watch = self.watch(path, str(sender.pid))
        told = []
        self.assertEqual(self.line(watch, lambda d: told.append(d) or d.get("limited") == "send-buffer")["changes"], 0)
        self.line(watch)
        self.assertEqual([d for d in told if "change" in d], [])
        self.assertEqual(self.ask(sender, "buffer"), before)
        self.stop(watch)

    @alone
    def test_enlarges_a_buffer_that_the_program_set(self) -> None:
        path, sender, fd, _ = self.begin(LONG, 65536)
        before = self.ask(sender, "buffer")
        watch = self.watch(path, "--tune", str(sender.pid))
        self.assertIn("version", self.line(watch, lambda d: True))  # comes first
        change = self.line(watch, lambda d: "change" in d)
        self.assertEqual(list(change), ["pid", "fd", "change", "event"])
        schema.check(self, change, "change")
        self.assertEqual((change["event"]["what"], change["event"]["side"]), ("given-back", "send"))  # first of all
        self.line(watch, lambda d: d.get("snd_buf_bytes", 0) > 4 * before)
        self.stop(watch, signal.SIGINT)
        self.assertGreater(self.ask(sender, "buffer"), 4 * before)

    def test_a_pace_ends_with_the_watching(self) -> None:
        path, sender, fd, _ = self.begin("rate=50M,delay=25ms,queue=2M")
        self.assertEqual(self.ask(sender, "pace"), NO_PACE)
        watch = self.watch(path, "--tune", "--intent", "low-delay", f"{sender.pid}:{fd}")
        self.line(watch, lambda d: d.get("pacing_bit_per_s"))
        self.assertLess(self.ask(sender, "pace"), 100e6)
        self.stop(watch)
        self.assertEqual(self.ask(sender, "pace"), NO_PACE)

    @thorough
    def test_under_nohup_it_goes_on(self) -> None:
        path, sender, fd, _ = self.begin("rate=50M,delay=10ms")
        watch = path.popen("a", ["nohup", test_probe.tool(), "watch", "--json", str(sender.pid)], stderr=subprocess.DEVNULL)
        self.line(watch)
        watch.send_signal(signal.SIGHUP)
        for _ in range(3):  # one may have been told before
            self.line(watch)
        self.stop(watch)

    def test_a_reader_that_reads_no_more(self) -> None:
        path, sender, fd, _ = self.begin("rate=50M,delay=25ms,queue=2M")
        watch = self.watch(path, "--tune", "--intent", "low-delay", f"{sender.pid}:{fd}")
        fcntl.fcntl(watch.stdout, fcntl.F_SETPIPE_SZ, 4096)
        where, deadline = pathlib.Path(f"/proc/{watch.pid}/wchan"), time.monotonic() + WAIT_S
        while "pipe_write" not in where.read_text():
            if time.monotonic() > deadline:
                self.untimely(f"it waits in {where.read_text()}")
            select.select([], [], [], 0.1)
        self.assertLess(self.ask(sender, "pace"), 100e6)
        watch.send_signal(signal.SIGTERM)
        self.assertGreaterEqual(watch.wait(WAIT_S), 0)
        self.assertEqual(self.ask(sender, "pace"), NO_PACE)

    def test_the_connection_ends_when_its_owner_closes_it(self) -> None:
        path, sender, fd, sink = self.begin("rate=50M,delay=10ms")
        wait_line(sink, lambda line: line == "begin")
        watch = self.watch(path, "--tune", str(sender.pid))
        self.line(watch)
        self.tell(sender, "close")
        wait_line(sink, lambda line: line == "end", WAIT_S)
        self.assertIsNone(watch.poll())  # all the while, the watching goes on
        self.assertEqual(self.line(watch, lambda d: "end" in d)["end"], "closed")
        self.tell(sender, "connect")
        again = self.line(watch)
        self.assertEqual(again["peer"], f"{path.addr['b']}:{PORT}")
        self.stop(watch)

    def test_a_descriptor_that_is_used_again(self) -> None:
        path, sender, fd, sink = self.begin("rate=50M,delay=10ms")
        watch = self.watch(path, f"{sender.pid}:{fd}")
        self.line(watch)
        self.tell(sender, "close")
        wait_line(sink, lambda line: line == "end", WAIT_S)
        self.tell(sender, "connect")
        self.line(watch, lambda d: "end" in d)
        self.assertEqual(watch.wait(WAIT_S), 0)

    def test_a_process_that_ends(self) -> None:
        for args in ((), ("--tune", "--intent", "low-delay")):
            path, sender, fd, _ = self.begin("rate=50M,delay=10ms")
            watch = self.watch(path, *args, str(sender.pid))
            self.line(watch)
            sender.kill()
            self.assertEqual(watch.wait(WAIT_S), 0)

    def test_a_process_that_stands_still(self) -> None:
        path, sender, fd, _ = self.begin("rate=50M,delay=10ms")
        watch = self.watch(path, "--tune", str(sender.pid))
        self.line(watch)
        sender.send_signal(signal.SIGSTOP)
        self.line(watch, lambda d: d.get("limited") == "idle")
        sender.send_signal(signal.SIGCONT)
        self.line(watch, lambda d: d.get("limited") not in ("idle", None))
        self.stop(watch)

    @alone
    @thorough
    def test_out_of_another_network_namespace(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("needs CAP_SYS_ADMIN")
        path, sender, fd, _ = self.begin(LONG, 65536)
        with subprocess.Popen([test_probe.tool(), "watch", "--tune", "--json", str(sender.pid)],
                              stdout=subprocess.PIPE, text=True) as watch:
            self.line(watch, lambda d: "change" in d)
            self.stop(watch)

    def test_not_permitted(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("needs a second user")
        path, sender, fd, _ = self.begin("rate=50M,delay=10ms")
        for operand in (f"{sender.pid}:{fd}", str(sender.pid)):
            done = path.run("a", [test_probe.tool(), "watch", operand], unprivileged=True)
            self.assertEqual((done.returncode, done.stdout), (3, ""))
            self.assertIn("CAP_SYS_PTRACE", done.stderr)

    def test_what_is_no_connection(self) -> None:
        path, sender, fd, _ = self.begin("rate=50M,delay=10ms")
        for operand, word in ((f"{sender.pid}:0", "no open TCP connection"),
                              (f"{sender.pid}:999", "no open TCP connection"),
                              ("2147483647", "No such process")):
            done = path.run("a", [test_probe.tool(), "watch", operand])
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(word, done.stderr)

    def test_usage(self) -> None:
        path = self.path(both="rate=50M,delay=10ms")
        for words in ((), ("0",), ("x",), ("1:",), ("1:x",), ("-1",), ("1", "2"), ("1:2:3",),
                      ("--rate", "1M", "1"), ("--tune", "--intent", "fast", "1"),
                      ("--intent", "low-delay", "1")):
            done = path.run("a", [test_probe.tool(), "watch", *words])
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("usage:", done.stderr)


@beside
class Slow(Asked):
    """`autobuf explain --pid`."""

    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.store = f"AUTOBUF_PATHS={folder.name}/paths"

    def explain(self, path: Path, *args: str, **kw) -> subprocess.CompletedProcess:
        return path.run("a", ["env", self.store, test_probe.tool(), "explain", *args], **kw)

    def seen(self, path: Path, sender: subprocess.Popen, what: str) -> dict:
        """Its connection, once slow start is over and this is its bottleneck."""
        deadline = time.monotonic() + WAIT_S
        while True:
            done = self.explain(path, "--json", "--bytes", "1G", "--pid", str(sender.pid))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            told = json.loads(done.stdout)
            schema.check(self, told, "explained")
            self.assertEqual((told["pid"], len(told["flows"]), told["left_out"]), (sender.pid, 1, 0))
            if any(what in obstacle["what"] for obstacle in told["flows"][0]["obstacles"]):
                return told["flows"][0]
            if time.monotonic() > deadline:
                self.untimely(done.stdout)

    def test_a_buffer_and_then_the_path(self) -> None:
        path, sender, fd, _ = self.begin("rate=50M,delay=25ms", 65536)
        before = self.ask(sender, "buffer")
        flow = self.seen(path, sender, "the send buffer: 131.1 kB, which the program has set")
        self.assertEqual((flow["fd"], flow["limited"], flow["method"]), (fd, "send-buffer", None))
        self.assertEqual(flow["obstacles"][0]["ways"]["run"], "all")
        self.between(flow["sent_bit_per_s"], 3e6, 25e6, "64 KB, and not more than 131 KB, in 50 ms")
        self.between(flow["expected_high_ns"], 8e18 / 25e6, 8e18 / 3e6, "for 1 GB")
        first = self.explain(path, "--pid", str(sender.pid)).stdout.splitlines()[0]
        self.assertIn(f"({sender.pid}): ", first)
        self.assertIn(f"bit/s to {path.addr['b']}:{PORT} (fd {fd}): the send buffer: ", first)
        self.assertEqual((self.ask(sender, "buffer"), flow["changes"]), (before, 0))
        sender.kill()

        known = ("--rate", "50M", "--rtt", "50", "set", path.addr["b"])
        self.assertEqual(path.run("a", ["env", self.store, test_probe.tool(), "paths", *known]).returncode, 0)
        sender = path.popen("a", [sys.executable, "-c", SENDER, path.addr["b"], "0"], stdin=subprocess.PIPE)
        wait_line(sender, lambda line: True)
        flow = self.seen(path, sender, "the path is full: it delivers ")
        self.assertEqual((flow["limited"], flow["method"], flow["tx_rate_bit_per_s"]), ("path", "given", 50000000))
        self.between(flow["sent_bit_per_s"], 35e6, 50e6, "of 48.3 Mbit/s")

    @thorough
    def test_what_cannot_be_told(self) -> None:
        path, sender, fd, _ = self.begin("rate=50M,delay=10ms")
        done = self.explain(path, "--pid", "2147483647")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("No such process", done.stderr)
        if os.geteuid() == 0:
            done = self.explain(path, "--pid", str(sender.pid), unprivileged=True)
            self.assertEqual((done.returncode, done.stdout), (3, ""))
            self.assertIn("CAP_SYS_PTRACE", done.stderr)
        self.tell(sender, "close")
        done = self.explain(path, "--pid", str(sender.pid), "--timeout", "100")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no open TCP connection", done.stderr)


if __name__ == "__main__":
    sys.exit(run_tests(("ip", "ss", "nsenter", "setpriv", "taskset"),
                       ("examples/bulk", "tools/autobuf")))
