#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`autobuf measure --transfer` and `autobuf serve --transfer` on emulated paths: the rates, and which hostile peers they
withstand.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select the tests whose names
contain one of them.
"""

from __future__ import annotations

import ast
import json
import os
import resource
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from at_once import beside  # noqa: E402
from cases import PathTest, run_tests, thorough  # noqa: E402
import schema  # noqa: E402
from path import Path, built, wait_line, wait_listening  # noqa: E402

TOOL = "tools/autobuf"
PORT = 7411
GAIN = 2
"""Where the default's send buffer holds 0.7 of 4.8 MB, and the tuned one all."""
MEMORY_KB = 8_000
RATE_SHARE = 0.25
ASK = b"AUTOBUF TRANSFER 1 1\r\n"
HELLO = b"AUTOBUF HELLO 1\r\n"

# A client in a namespace: connects, runs the code of the test with s, a socket, and prints what that leaves in out.
CLIENT = """
import socket, sys, time
def connect():
    return socket.create_connection((sys.argv[1], {port}), timeout=20)
def line(s):
    got = b''
    while not got.endswith(b'\\n'):
        more = s.recv(1)
        if not more:
            break
        got += more
    return got
def ends(s):
    try:
        while s.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return 'ended'
s = connect()
{code}
print(repr(out), flush=True)
{after}
"""

# A server that answers one connection after another with what its argument says, for a measurement, too.
OLD_SERVER = """
import socket, sys
listener = socket.create_server(('', {port}))
while True:
    s, _ = listener.accept()
    s.settimeout(20)
    told = s.recv(1000)
    if told.startswith(b'AUTOBUF TRANSFER'):
        s.sendall({answer!r})
        s.close()
        continue
    while told:
        for part in told.splitlines():
            if part.startswith(b'AUTOBUF HELLO'):
                s.sendall(b'AUTOBUF HELLO 1 train=480000 budget=480000\\r\\n')
            elif part.startswith(b'AUTOBUF TRAIN'):
                s.sendall(b'AUTOBUF ERROR 452 no\\r\\n')
            elif part.startswith(b'AUTOBUF SINK'):
                s.sendall(b'AUTOBUF SINK\\r\\n')
            elif part.startswith(b'AUTOBUF RESULT'):
                s.sendall(b'AUTOBUF RESULT\\r\\n')
        told = s.recv(1000000)
    s.close()
"""


class TransferTest(PathTest):
    def serve(self, path: Path, *args: str, **kw) -> subprocess.Popen:
        for side in "ab":
            path.route(side, congctl="cubic")
        server = path.popen("b", [built(TOOL), "serve", *args], **kw)
        wait_listening(path, "b", PORT, server)
        return server

    def measure(self, path: Path, seconds: int, *args: str) -> subprocess.CompletedProcess:
        return path.run("a", [built(TOOL), "measure", "--transfer", str(seconds), *args, path.addr["b"]],
                        timeout=60 + 8 * seconds)

    def transfers(self, path: Path, seconds: int, *args: str) -> dict[tuple[str, bool], dict]:
        """Four that succeed."""
        for _ in range(3):  # "try again"
            done = self.measure(path, seconds, "--json", *args)
            if "could not tell the rate" not in done.stderr:
                break
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        result = json.loads(done.stdout)
        schema.check(self, result, "path")
        self.assertEqual([(t["direction"], t["tuned"]) for t in result["transfers"]],
                         [("send", False), ("send", True), ("receive", False), ("receive", True)])
        for t in result["transfers"]:
            self.assertIsNone(t["error"])
            self.assertGreaterEqual(t["elapsed_ns"], seconds * 10**9)
            self.assertEqual(t["rate_bit_per_s"], int(t["bytes"] * 8e9 / t["elapsed_ns"]))
        return {(t["direction"], t["tuned"]): t for t in result["transfers"]}

    def client(self, path: Path, code: str, after: str = "", side: str = "a") -> subprocess.Popen:
        text = CLIENT.format(port=PORT, code=code, after=after)
        return path.popen(side, [sys.executable, "-c", text, path.addr["b"]], stdin=subprocess.PIPE)

    def told(self, path: Path, code: str, side: str = "a") -> object:
        """What such a client prints; its connections are closed by then."""
        client = self.client(path, code, side=side)
        said = self.said(client)
        self.assertEqual(client.wait(20), 0)
        return said

    def said(self, client: subprocess.Popen) -> object:
        return ast.literal_eval(wait_line(client, lambda line: True, 40))

    def hold(self, path: Path, side: str = "a") -> subprocess.Popen:
        """A client that is sent a transfer of a minute, as slowly as may be, until its standard input ends."""
        client = self.client(path, "s.sendall(b'AUTOBUF TRANSFER 1 60 receive=1\\r\\n'); out = line(s)",
                             "import threading\n"
                             "threading.Thread(target=lambda: ends(s), daemon=True).start()\n"
                             "sys.stdin.read()", side)
        self.assertRegex(self.said(client), rb"^AUTOBUF TRANSFER 1 \d+ receive=1\r\n$")
        return client


class Transferring(TransferTest):
    def test_gains_where_the_kernel_s_limit_is_less_than_the_path(self) -> None:
        path = self.path(both="rate=400M,delay=50ms,queue=10M")
        for side in "ab":
            path.sysctl(side, "net.ipv4.tcp_wmem", "4096 16384 1048576")  # 0.7 MB of 4.8 MB
        self.serve(path, "--transfer", "10")
        ran = self.transfers(path, 4)
        for way in ("send", "receive"):
            default, tuned = ran[way, False], ran[way, True]
            self.assertEqual(default["limited"], "send-buffer")
            self.assertGreaterEqual(tuned["rate_bit_per_s"], GAIN * default["rate_bit_per_s"], way)
            self.assertLessEqual(tuned["rate_bit_per_s"], 400e6)
            self.between(default["rtt_min_ns"], 100e6, 110e6, "round trip")
            self.assertGreater(tuned["in_flight_bytes"], default["in_flight_bytes"])

    @thorough
    def test_nobody_is_busy_while_the_path_is_what_limits(self) -> None:
        """A program that looks again and again fills more of a buffer than one that waits: another default than the kernel's."""
        path = self.path(both="rate=10M,delay=20ms,queue=100k")
        self.serve(path, "--transfer", "10")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.transfers(path, 2)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertLess(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2, "of 8 s")

    @beside
    @thorough
    def test_is_never_worse_on_a_short_path(self) -> None:
        path = self.path(both="rate=50M,delay=5ms,queue=200k")
        self.serve(path, "--transfer", "10")
        ran = self.transfers(path, 3)
        for way in ("send", "receive"):
            for tuned in (False, True):
                self.near(ran[way, tuned]["rate_bit_per_s"], 48e6, RATE_SHARE, f"{way} {tuned}")

    @beside
    def test_text(self) -> None:
        path = self.path(both="rate=50M,delay=5ms")
        self.serve(path, "--transfer", "1")
        done = self.measure(path, 60)  # the server grants fewer
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"\A[ -~\n]+\n\Z")
        self.assertLessEqual(max(map(len, done.stdout.split("\n"))), 80)
        for row in ("transfers of 1 s ", "sending, default ", "sending, tuned ", "receiving, default ",
                    "receiving, tuned ", "sending: ", "receiving: "):
            self.assertIn(f"\n{row}", done.stdout)

    @beside
    @thorough
    def test_ipv6(self) -> None:
        path = self.path(both="rate=50M,delay=5ms")
        if not path.has_ipv6:
            self.skipTest("no IPv6 here")
        self.serve(path, "--transfer", "5")
        done = path.run("a", [built(TOOL), "measure", "--json", "--transfer", "1", f"[fd77::2]:{PORT}"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([t["error"] for t in json.loads(done.stdout)["transfers"]], [None] * 4)

    def test_what_other_traffic_leaves(self) -> None:
        """Evenly spaced traffic one way, and none the other."""
        path = self.path(both="rate=50M,delay=10ms,queue=300K", ab="cross=0.5,cross_spacing=constant")
        self.serve(path, "--transfer", "1")
        path.reset()
        done = path.run("a", [built(TOOL), "measure", "--available", "--json", path.addr["b"]], timeout=60)
        result = json.loads(done.stdout)
        schema.check(self, result, "path")
        free = result["available"]
        # A queue that hosts make by being late lowers the low bound, and may hide the high one.
        self.assertLessEqual(free["tx_low_bit_per_s"], 27e6, free)
        self.assertGreaterEqual(free["tx_low_bit_per_s"], 12e6, free)
        self.assertGreaterEqual(free["tx_high_bit_per_s"] or 50e6, 23e6, free)
        self.assertLessEqual(free["rx_low_bit_per_s"], 51e6, free)
        self.assertGreaterEqual(free["rx_low_bit_per_s"], 25e6, free)
        # Half a second of the path, with headers; the measurement before it; acknowledgements.
        for way in ("ab", "ba"):
            self.assertLessEqual(path.truth()[way]["bytes"], 1.2 * 50e6 / 8 / 2 + 480_000 + 200_000)

    @beside
    def test_the_server_s_rate_bounds_what_it_sends(self) -> None:
        path = self.path(both="rate=100M,delay=1ms")
        self.serve(path, "--transfer", "5", "--rate", "10M")
        path.reset()
        ran = self.transfers(path, 2)
        sent = path.truth()["ba"]["bytes"]
        for tuned in (False, True):
            self.assertLessEqual(ran["receive", tuned]["rate_bit_per_s"], 10.5e6)
        # Two transfers of at most 2 + 2 s, the measurement, and acknowledgements of what was sent there.
        self.assertLessEqual(sent, 2 * 4 * 10e6 / 8 * 1.05 + 500_000 + 4 * 100e6 / 8 * 0.05)


@beside
class Refusing(TransferTest):
    def refused(self, path: Path, seconds: int, *words: str) -> None:
        """The path is measured all the same."""
        done = self.measure(path, seconds)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no transfer: ", done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertIn("round-trip time", done.stdout)
        self.assertNotIn("sending", done.stdout)
        done = self.measure(path, seconds, "--json")
        self.assertEqual(done.returncode, 1)
        result = json.loads(done.stdout)
        schema.check(self, result, "path")
        self.assertTrue(all(t["error"] and t["rate_bit_per_s"] is None for t in result["transfers"]))

    def test_a_server_that_allows_none(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        self.serve(path)
        self.refused(path, 1, "serve --transfer")
        done = path.run("a", [built(TOOL), "measure", "--available", path.addr["b"]], timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("could not tell what is free: the server allows no transfers", done.stderr)
        self.assertIn("round-trip time", done.stdout)

    @thorough
    def test_a_server_that_does_not_know_them(self) -> None:
        for answer, words in ((b"AUTOBUF ERROR 500 unknown\r\n", "does not know transfers"),
                              (b"", "closed the connection"), (b"\x1b[2J\xff\n", "")):
            with self.subTest(answer=answer), Path(both="rate=100M,delay=5ms") as path:
                server = path.popen("b", [sys.executable, "-c", OLD_SERVER.format(port=PORT, answer=answer)])
                wait_listening(path, "b", PORT, server)
                self.refused(path, 1, words)

    def test_busy(self) -> None:
        path = self.path(both="rate=100M,delay=5ms")
        self.serve(path, "--transfer", "60", "--rate", "8M")
        client = self.hold(path)
        self.refused(path, 1, "busy")
        other = self.hold(path, "b")  # from another address
        self.assertIn(b"ERROR 421", self.told(path, f"s.sendall({ASK!r}); out = line(s)", "b"))
        for held in (client, other):
            held.stdin.close()
            held.wait(20)
        self.assertEqual(len(self.transfers(path, 1)), 4)

    def test_usage(self) -> None:
        path = self.path(both="delay=1ms")
        for args in (["measure", "--transfer", "0", "x"], ["measure", "--transfer", "61", "x"],
                     ["measure", "--transfer", "1.5", "x"], ["serve", "--transfer", "0"],
                     ["serve", "--transfer", "61"], ["probe", "--transfer", "1", "x"]):
            with self.subTest(args=args):
                done = path.run("a", [built(TOOL), *args])
                self.assertEqual((done.returncode, done.stdout), (2, ""))
        for command in ("measure", "serve"):
            self.assertIn("--transfer SECONDS", path.run("a", [built(TOOL), command, "--help"]).stdout)


@beside
class Withstanding(TransferTest):
    def memory_kb(self, server: subprocess.Popen) -> int:
        with open(f"/proc/{server.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    def cpu_s(self, server: subprocess.Popen) -> float:
        with open(f"/proc/{server.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @thorough
    def test_first_lines_byte_by_byte(self) -> None:
        path = self.path(both="delay=1ms")
        self.serve(path, "--transfer", "5")
        slowly = ("s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n"
                  "for i in range(len(what)): s.sendall(what[i:i+1]); time.sleep(0.01)\n"
                  "out = line(s)")  # the pauses make the bytes packets of their own; nothing waits for them
        for what, answer in ((HELLO, b"AUTOBUF HELLO 1 "), (ASK, b"AUTOBUF TRANSFER 1 1\r\n"),
                             (b"AUTOBUF TRANSFER 1 99\r\n", b"AUTOBUF ERROR 501 "),
                             (b"AUTOBUF TRAIN 5000\r\n", b"AUTOBUF ERROR 503 ")):
            with self.subTest(what=what):
                self.assertTrue(self.told(path, f"what = {what!r}\n{slowly}").startswith(answer))

    def test_hostile_clients(self) -> None:
        path = self.path(both="rate=100M,delay=1ms")
        server = self.serve(path, "--transfer", "1", "--per-address", "200")
        before_kb = self.memory_kb(server)
        resets = ("s.sendall(b'AUTOBUF TRANSFER 1 0 receive=1 pace=1 low=1000000000 high=1000000000\\r\\n'); line(s)\n"
                  "s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))\n"
                  "s.close(); out = 'ended'")  # while the next chunk is hours away
        for code, answer in (
                (resets, "ended"),
                ("s.sendall(b'AUTOBUF TRANSFER 1 ' + b'1' * 10000); out = line(s)[:17]", None),
                ("s.sendall(b'AUTOBUF TRANSFER 1 5'); s.shutdown(socket.SHUT_WR); out = ends(s)", "ended"),
                ("s.sendall(b'AUTOBUF TRANSFER '); out = ends(s)", "ended"),  # silence
                (f"s.sendall({ASK!r}); line(s); out = ends(s)", "ended"),  # and no payload
                (f"s.sendall({ASK!r}); line(s); s.shutdown(socket.SHUT_WR); out = ends(s)", "ended"),
                ("s.sendall(b'AUTOBUF TRANSFER 1 1 receive=1\\r\\n'); line(s); s.shutdown(socket.SHUT_WR); out = ends(s)",
                 "ended"),
                ("s.sendall(b'AUTOBUF TRANSFER 1 1 receive=1\\r\\nAUTOBUF REPORT 1\\r\\n'); out = ends(s)", "ended"),
                ("s.sendall(b'AUTOBUF TRANSFER 1 1 receive=1\\r\\n' + b'x' * 10000); out = ends(s)", "ended"),
                ("s.sendall(b'AUTOBUF TRANSFER 1 0 pace=1 high=1000000000000 bytes=9\\r\\n'); line(s)\n"
                 "try: s.sendall(bytes(3000000))\n"  # a stretch that has no end
                 "except ConnectionError: pass\n"
                 "out = ends(s)", "ended"),
                ("s.sendall(b'AUTOBUF TRANSFER 1 0 receive=1 pace=1000000000000 high=1000000000000\\r\\n'); line(s)\n"
                 "import select; p = select.poll(); p.register(s, 0); out = 'ended' if p.poll(20000) else 'stays'",
                 "ended"),
                ("s.sendall(b'AUTOBUF TRANSFER 1 1 receive=1\\r\\n'); line(s)\n"
                 "import select; p = select.poll(); p.register(s, 0); out = 'ended' if p.poll(20000) else 'stays'",
                 "ended"),  # it never reads
                (resets, "ended")):
            with self.subTest(code=code):
                told = self.told(path, code)
                if answer is None:
                    self.assertIn(told, (b"", b"AUTOBUF ERROR 501"))  # a reset may overtake the answer
                else:
                    self.assertEqual(told, answer)
        self.told(path, "them = [connect() for _ in range(100)]\n"
                        "for each in them: each.sendall(b'AUTOBUF TRANSFER 1 1 receive=1\\r\\n')\n"
                        "out = sum(b'421' in line(each) for each in them)\n"
                        "assert out == 99, out")
        self.assertLess(self.memory_kb(server), before_kb + MEMORY_KB)
        self.assertLess(self.cpu_s(server), 5)
        self.assertEqual(len(self.transfers(path, 1)), 4)

    def test_others_measure_meanwhile(self) -> None:
        path = self.path(both="rate=100M,delay=1ms")
        self.serve(path, "--transfer", "60", "--rate", "8M")
        self.hold(path)
        for _ in range(3):
            done = path.run("b", [built(TOOL), "measure", "--json", "127.0.0.1"])
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(self.told(path, f"s.sendall({HELLO!r}); out = line(s)").startswith(b"AUTOBUF HELLO"))

    @thorough
    def test_says_what_was_transferred(self) -> None:
        path = self.path(both="rate=20M,delay=1ms")
        server = self.serve(path, "--transfer", "1", stderr=subprocess.STDOUT)
        self.transfers(path, 1)
        for deed in ("received", "received", "sent", "sent"):
            self.assertRegex(wait_line(server, lambda line: "transfer" in line, 20),
                             rf"^autobuf: {path.addr['a']}: transfer, {deed} [\d.]+ [kM]B in [\d.]+ s$")


if __name__ == "__main__":
    sys.exit(run_tests(("ip", "nsenter", "setpriv", "taskset"), (TOOL,)))
