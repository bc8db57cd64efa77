#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The path store between transfers on an emulated path: what one has measured, the next one knows.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select the tests whose names
contain one of them.
"""
from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import test_bulk  # noqa: E402
from path import Path, PathError, built, of_python, wait_line, wait_listening  # noqa: E402
from cases import run_tests, thorough  # noqa: E402

RATE = 50_000_000
RTT_NS = 40_000_000
NOBODY = 65534
DAY_S = 86400
HEADER, RECORD = 128, 184
PYTHON = pathlib.Path(__file__).resolve().parents[2] / "python"

setUpModule = test_bulk.setUpModule
os.environ.update(of_python())


def entries(store: pathlib.Path) -> list[dict]:
    """A store read by its description in lib/paths/record.h, without the library."""
    data = store.read_bytes()
    magic, version, header, record, _flags, count = struct.unpack_from("<8sIIIIQ", data)
    assert (magic, version, header, record) == (b"AUTOBUFP", 1, HEADER, RECORD), data[:32]
    assert len(data) == HEADER + count * RECORD
    assert struct.unpack_from("<I", data, 124)[0] == zlib.crc32(data[:124])
    found = []
    for at in range(HEADER, len(data), RECORD):
        one = data[at:at + RECORD]
        assert struct.unpack_from("<I", one, 176)[0] == zlib.crc32(one[:176])
        address = ipaddress.ip_address(one[2:6] if one[0] == 4 else one[2:18])
        rtt_min, _median, tx, _low, _high, rx = struct.unpack_from("<6Q", one, 80)
        learned, expires = struct.unpack_from("<2Q", one, 160)
        found.append({"remote": f"{address}/{one[1]}", "method": one[52], "flags": one[56], "rtt_min_ns": rtt_min, "tx": tx, "rx": rx,
                      "learned_s": learned, "expires_s": expires})
    return found


class Store(test_bulk.BulkTest):
    def setUp(self) -> None:
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="autobuf-tests."))
        os.chown(folder, NOBODY, NOBODY)
        self.store = pathlib.Path(folder, "paths")

    def ready(self) -> Path:
        path = self.hosts("rate=50M,delay=20ms,queue=1M", test_bulk.LITTLE_WMEM)
        self.serve(path)
        return path

    def tuned(self, path: Path, store: str = "") -> tuple[int, str]:
        """A transfer that needs to know the path: how many echoes it sent, and its reason."""
        before = self.echoes(path)
        result = self.send(path, "--tune", "autobuf", "--seconds", "1",
                           env=os.environ | {"AUTOBUF_PATHS": store or str(self.store)})
        return self.echoes(path) - before, result["reason"]

    def test_what_one_transfer_has_measured_the_next_one_knows(self) -> None:
        path = self.ready()
        echoes, reason = self.tuned(path)
        self.assertGreater(echoes, 4)
        (entry,) = entries(self.store)
        self.assertEqual(entry["remote"], f"{path.addr['b']}/32")
        self.near(entry["tx"], RATE, 0.25, "the rate")
        self.between(entry["rtt_min_ns"], RTT_NS, 1.5 * RTT_NS, "the round-trip time")
        self.between(entry["learned_s"], time.time() - 60, time.time() + 1, "when")
        self.assertIn(entry["expires_s"] - entry["learned_s"], (DAY_S, 3600))
        self.assertEqual(self.tuned(path), (0, reason))
        self.assertEqual(entries(self.store), [entry])

    @thorough
    def test_nothing_is_kept_if_that_is_off(self) -> None:
        path = self.ready()
        for _ in range(2):
            self.assertGreater(self.tuned(path, "off")[0], 4)
        self.assertEqual(list(self.store.parent.iterdir()), [])

    def test_a_store_that_others_may_write_is_not_believed(self) -> None:
        path = self.ready()
        self.tuned(path)
        before = self.store.read_bytes()
        self.store.chmod(0o666)
        self.assertGreater(self.tuned(path)[0], 4)
        self.assertEqual(self.store.read_bytes(), before)

    def test_a_transfer_ends_as_well_where_nothing_can_be_kept(self) -> None:
        path = self.ready()
        self.assertGreater(self.tuned(path, "/proc/autobuf/paths")[0], 4)


# Says how many times 10 MB have come.
SINK = f"""
import socket
s = socket.create_server(("", {test_bulk.PORT})).accept()[0]
came = 0
while part := len(s.recv(1 << 20)):
    came += part
    if came // 10 ** 7 > (came - part) // 10 ** 7:
        print(came // 10 ** 7, flush=True)
"""
# Sends all it can. A line on its standard input gives it CAP_NET_ADMIN (12), or takes it, or is the path's rate; the last is empty.
SENDER = f"""
import ctypes, select, socket, sys
import autobuf
libc, header, sets = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
def may_force(whether):
    assert libc.capget(header, sets) == 0
    sets[0] = sets[0] | 1 << 12 if whether else sets[0] & ~(1 << 12)
    assert libc.capset(header, sets) == 0
s = socket.create_connection((sys.argv[1], {test_bulk.PORT}))
s.setblocking(False)
with autobuf.Flow(s, silent=True, log=lambda line: print(line, flush=True)) as flow:
    word = "begins"
    while word:
        print(word, flush=True)
        readable = False
        while not readable:
            flow.step()
            readable, writable, _ = select.select([0], [s], [], flow.wait_ms() / 1000)
            if writable:
                s.send(bytes(65536))
        word = sys.stdin.readline().strip()
        if word in ("may", "may not"):
            may_force(word == "may")
        elif word:
            flow.tell(autobuf.Path.given(int(word), 50 * 10 ** 6))
"""
LIMITS, TRIMS = "the send buffer is what limits", "what was added stands in the queue"


class Forced(test_bulk.BulkTest):
    @thorough
    def test_a_buffer_that_was_forced_before_connect_is_trimmed(self) -> None:
        """The store knows three times the rate that the path has by now: what is too much stands in its queue."""
        self.core(test_bulk.OLDER_CORE)
        path = self.hosts("rate=100M,delay=25ms,queue=4M", {"net.ipv4.tcp_wmem": "4096 16384 524288"})
        sink = path.popen("b", [sys.executable, "-c", SINK])
        wait_listening(path, "b", test_bulk.PORT, sink)
        store = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="autobuf-tests.")), "paths")
        subprocess.run([built("tools/autobuf"), "paths", "set", path.addr["b"], "--rate", "300M", "--rtt", "50",
                        "--store", str(store)], check=True)
        sends = f"head -c 80000000 /dev/zero | {built('examples/flowloop')} {path.addr['b']} {test_bulk.PORT}"
        done = path.run("a", ["sh", "-c", sends], timeout=60,
                        env=os.environ | {"AUTOBUF": "log", "AUTOBUF_PATHS": str(store)})
        self.assertEqual(done.returncode, 0, done.stderr)
        changes = [(int(a), int(b)) for a, b in re.findall(r"send buffer (\d+) -> (\d+):", done.stderr)]
        self.assertLess(min((b / a for a, b in changes), default=1), 0.8, done.stderr)

    def sends(self, wmem: int) -> tuple[Path, subprocess.Popen, subprocess.Popen]:
        """A path that holds 0.6 MB, who sends there, and who takes what comes."""
        path = self.hosts("rate=100M,delay=25ms,queue=4M", {"net.ipv4.tcp_wmem": f"4096 16384 {wmem}"})
        path.route("a", congctl="reno")  # which fills a queue at once
        sink = path.popen("b", [sys.executable, "-c", SINK])
        wait_listening(path, "b", test_bulk.PORT, sink)
        env = os.environ | {"AUTOBUF_LIBRARY": built("lib/libautobuf.so.0"), "PYTHONPATH": str(PYTHON)}
        sender = path.popen("a", [sys.executable, "-B", "-c", SENDER, path.addr["b"]], stdin=subprocess.PIPE, env=env)
        return path, sender, sink

    def say(self, sender: subprocess.Popen, *words: str) -> None:
        for word in words:
            sender.stdin.write(word + "\n")
            sender.stdin.flush()
            wait_line(sender, lambda line: line == word)

    def is_trimmed(self, sender: subprocess.Popen, sink: subprocess.Popen, times: int) -> bool:
        """Whether its buffer is, until so many times 10 MB have come."""
        said: list[str] = []
        wait_line(sink, lambda line: int(line) >= times, 30)
        sender.stdin.close()
        with contextlib.suppress(PathError):  # its output ends
            wait_line(sender, said.append)
        return any(TRIMS in line for line in said)

    @thorough
    def test_what_could_not_be_forced_is_not_trimmed(self) -> None:
        """As soon as it could be: a path was told that takes more than autotuning reaches, 3 MB."""
        self.core(test_bulk.OLDER_CORE)
        for word in ("may", "may not"):
            with self.subTest(word):
                _, sender, sink = self.sends(4194304)
                self.say(sender, word, "500000000", "may")
                self.assertEqual(self.is_trimmed(sender, sink, 6), word == "may")

    @thorough
    def test_nor_is_what_no_step_could_force(self) -> None:
        """Of the path's 0.6 MB autotuning reaches 0.2, and anybody may set 0.3."""
        self.core(test_bulk.OLDER_CORE)
        for word in ("may", "may not"):
            with self.subTest(word):
                path, sender, sink = self.sends(300000)
                self.say(sender, word)
                wait_line(sender, lambda line: LIMITS in line)
                self.say(sender, "may")
                path.change("ab", rate="20M")
                self.assertEqual(self.is_trimmed(sender, sink, 2), word == "may")


class Import(test_bulk.BulkTest):
    """What a real iperf3 tells, at either end."""

    def measured(self, path: Path, *args: str) -> dict[str, str]:
        """What the client on side a tells, and the server."""
        server = path.popen("b", ["iperf3", "--server", "--one-off", "--json"], stdout=subprocess.PIPE)
        wait_listening(path, "b", 5201, server)
        client = path.run("a", ["iperf3", "--client", path.addr["b"], "--json", "--time", "2", *args])
        self.assertEqual(client.returncode, 0, client.stdout)
        return {"a": client.stdout, "b": server.communicate(timeout=30)[0]}

    def imported(self, path: Path, side: str, said: str, status: int = 0) -> tuple[list[dict], str]:
        """By one side, or "" by a host that is neither."""
        store = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="autobuf-tests."))) / "paths"
        file = store.with_name("said")
        file.write_text(said)
        cmd = [built("tools/autobuf"), "paths", "import", str(file), "--json", "--store", str(store)]
        done = path.run(side, cmd) if side else subprocess.run(cmd, capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        if not status:
            self.assertEqual([one["remote"] for one in entries(store)], [path.addr["b" if side == "a" else "a"] + "/32"])
        return json.loads(done.stdout)["paths"], done.stderr

    @thorough
    def test_who_sent_knows_the_time_and_who_received_the_rate(self) -> None:
        path = self.hosts("rate=50M,delay=20ms,queue=1M")
        for args, sender, receiver in ((), "a", "b"), (("--reverse",), "b", "a"):
            said = self.measured(path, *args)
            with self.subTest(args):
                both = "\n".join(said.values())
                (there,), why = self.imported(path, sender, both)
                self.assertEqual((why, there["method"], there["remote"]), ("", "imported", path.addr[receiver]))
                self.between(there["tx_rate_bit_per_s"], 0.3 * RATE, 1.02 * RATE, "the rate")
                self.between(there["rtt_min_ns"], RTT_NS, 5.1 * RTT_NS, "the round-trip time, with the queue's")
                self.assertEqual((there["tx_at_least"], there["rx_rate_bit_per_s"], there["rx_at_least"]), (True, None, False))
                self.assertEqual(there["expires_s"] - there["learned_s"], 7 * DAY_S)
                self.between(there["learned_s"], time.time() - 60, time.time() + 1, "when")
                (back,), why = self.imported(path, receiver, both)
                self.assertEqual((why, back["remote"], back["tx_rate_bit_per_s"]), ("", path.addr[sender], None))
                self.assertEqual((back["rx_rate_bit_per_s"], back["rtt_min_ns"]), (there["tx_rate_bit_per_s"], there["rtt_min_ns"]))
                self.assertIn("1 left out: a path without a round-trip time", self.imported(path, receiver, said[receiver], 1)[1])
                self.assertIn("2 left out: not between this host and another", self.imported(path, "", both, 1)[1])
        self.assertIn("1 left out: a path without a rate", self.imported(path, "b", said["b"], 1)[1])  # it knows what it sent only

    def test_a_transfer_uses_it(self) -> None:
        path = self.hosts("rate=50M,delay=20ms,queue=1M", test_bulk.LITTLE_WMEM)
        said = self.measured(path)["a"]
        self.serve(path)
        store = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="autobuf-tests."))) / "paths"
        store.with_name("said").write_text(said)
        done = path.run("a", [built("tools/autobuf"), "paths", "import", str(store.with_name("said")), "--store", str(store)])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        store.parent.chmod(0o755)
        store.chmod(0o644)
        before = self.echoes(path)
        result = self.send(path, "--tune", "autobuf", "--seconds", "1",
                           env=os.environ | {"AUTOBUF_PATHS": str(store)})
        self.assertEqual(self.echoes(path), before, result)


class Command(unittest.TestCase):
    """`autobuf paths`: no network is needed."""

    def setUp(self) -> None:
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="autobuf-tests.")))
        self.env = {name: value for name, value in os.environ.items() if name not in ("AUTOBUF_PATHS", "HOME")}
        self.env["XDG_CACHE_HOME"] = str(self.folder)
        self.own = self.folder / "autobuf" / "paths"

    def run_it(self, *args: str, status: int = 0, said: str = "") -> str:
        """said: on its standard input."""
        done = subprocess.run([built("tools/autobuf"), "paths", *args], env=self.env, capture_output=True, text=True,
                              input=said, timeout=20)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(bool(done.stderr), bool(status), done.stderr)
        return done.stdout + done.stderr

    def test_what_is_set_is_shown_and_forgotten(self) -> None:
        store = ("--store", str(self.own))
        self.assertIn("No such file", self.run_it(*store, status=1))
        self.run_it("set", "192.0.2.0/24", "--rate", "400M", "--rtt", "100")
        self.run_it("set", "192.0.2.9", "--rate", "1G", "--rtt", "10", "--hours", "2", "--from", "10.0.0.0/8")
        self.run_it("set", "2001:db8::/32", "--rate", "10M", "--rtt", "20", "--from", "eth0")
        self.assertEqual([entry["remote"] for entry in entries(self.own)], ["192.0.2.0/24", "192.0.2.9/32", "2001:db8::/32"])
        listed = json.loads(self.run_it("--json", *store))["paths"]
        self.assertEqual([(one["remote"], one["local"], one["device"], one["tx_rate_bit_per_s"], one["rtt_min_ns"])
                          for one in listed],
                         [("192.0.2.0/24", None, None, 400_000_000, 100_000_000),
                          ("192.0.2.9", "10.0.0.0/8", None, 1_000_000_000, 10_000_000),
                          ("2001:db8::/32", None, "eth0", 10_000_000, 20_000_000)])
        self.assertEqual([one["expires_s"] and one["expires_s"] - one["learned_s"] for one in listed], [None, 7200, None])
        self.assertEqual([one["tx_bdp_bytes"] for one in listed], [5_000_000, 1_250_000, 25_000])
        self.assertIn("192.0.2.0/24: 400.0 Mbit/s, 100.000 ms, given by hand on ", self.run_it("show", "192.0.2.9", *store))
        self.assertIn("192.0.2.9 from 10.0.0.0/8: 1.0 Gbit/s", self.run_it("show", "192.0.2.9", "--from", "10.1.1.1", *store))
        self.assertIn("nothing is known", self.run_it("show", "2001:db8::1", *store, status=1))
        self.assertIn("through eth0: 10.0 Mbit/s", self.run_it("show", "2001:db8::1", "--from", "eth0", *store))
        self.run_it("set", "192.0.2.0/24", "--rate", "200M", "--rtt", "100")
        self.assertIn("200.0 Mbit/s", self.run_it("show", "192.0.2.1", *store))
        self.run_it("forget", "192.0.2.0/24")
        self.assertIn("not in the store", self.run_it("forget", "192.0.2.0/24", status=1))
        self.assertEqual([entry["remote"] for entry in entries(self.own)], ["192.0.2.9/32", "2001:db8::/32"])
        self.run_it("forget", "--all")
        self.assertEqual((entries(self.own), self.run_it(*store)), ([], ""))

    def test_what_is_exported_is_imported_as_it_was(self) -> None:
        self.run_it("set", "192.0.2.0/24", "--rate", "400M", "--rtt", "100")
        self.run_it("set", "192.0.2.9", "--rate", "1G", "--rtt", "10", "--hours", "2", "--from", "10.0.0.0/8")
        self.run_it("set", "2001:db8::/32", "--rate", "10M", "--rtt", "20", "--from", "eth0")
        store, other, file = ("--store", str(self.own)), ("--store", str(self.folder / "other")), self.folder / "exported"
        file.write_text(self.run_it("export", *store))
        listed = self.run_it("--json", *store)
        self.assertEqual(file.read_text(), listed)
        self.assertEqual(self.run_it("import", "--exported", str(file), "--json", *other), listed)
        self.assertEqual((self.folder / "other").read_bytes(), self.own.read_bytes())
        shutil.rmtree(self.own.parent)
        self.run_it("import", "--exported", str(file))  # which makes the user's own
        self.assertEqual((self.folder / "other").read_bytes(), self.own.read_bytes())

    def test_what_comes_by_standard_input_is_imported(self) -> None:
        """More than a pipe holds, too; not a file of that name."""
        self.run_it("set", "192.0.2.1", "--rate", "1G", "--rtt", "10")
        one, = json.loads(self.run_it("export", "--store", str(self.own)))["paths"]
        said = json.dumps({"paths": [one | {"remote": f"192.0.2.{last}"} for last in range(256)]})
        self.assertGreater(len(said), 1 << 16)
        other = self.folder / "other"
        self.run_it("import", "--exported", "-", "--store", str(other), said=said)
        self.assertEqual([entry["remote"] for entry in entries(other)], [f"192.0.2.{last}/32" for last in range(256)])
        self.assertIn("autobuf: -: line 2: ", self.run_it("import", "-", said='{\n"a": nonsense}', status=1))

    def test_a_home_that_is_another_user_s_or_missing(self) -> None:
        """sudo -E leaves root another user's HOME: nothing is made there, and nothing read."""
        self.run_it("set", "192.0.2.1", "--rate", "1G", "--rtt", "10")
        exported = self.run_it("export")
        home = self.folder / "home"
        del self.env["XDG_CACHE_HOME"]
        self.env["HOME"] = str(home)
        steps = (("set", "192.0.2.1", "--rate", "1G", "--rtt", "10"), ("import", "--exported", "-"), ("forget", "--all"), ("list",))
        for step in steps:
            self.run_it(*step, status=1, said=exported)
            self.assertFalse(home.exists(), step)
        if os.geteuid() != 0:
            self.skipTest("needs root to give a folder away")
        home.mkdir()
        os.chown(home, NOBODY, NOBODY)
        for step in steps:
            self.assertIn("not this user's alone", self.run_it(*step, status=1, said=exported))
            self.assertEqual(list(home.iterdir()), [], step)

    def test_what_the_store_knows_better_stays(self) -> None:
        def document(remote: str, kind: str, result: str) -> str:
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            return (f'{{"meta":{{"source":{{"ip":"127.0.0.1"}},"destination":{{"ip":"{remote}"}}}},"pscheduler":{{"start_time":"{now}"}},'
                    f'"test":{{"type":"{kind}"}},"result":{{"succeeded":true,{result}}}}}')

        self.run_it("set", "192.0.2.5", "--rate", "400M", "--rtt", "100")
        self.run_it("set", "192.0.2.9", "--rate", "400M", "--rtt", "100")
        file = self.folder / "archive"
        file.write_text("".join(document(f"192.0.2.{last}", "throughput", '"throughput":1e9') +
                                document(f"192.0.2.{last}", "rtt", '"rtt":{"min":0.05}') for last in (1, 5, 7, 11)))
        own = ("--store", str(self.own))
        done = subprocess.run([built("tools/autobuf"), "paths", "import", str(file)], env=self.env, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, f"autobuf: {file}: 1 left out: the store knows better\n"))
        self.assertEqual(len(done.stdout.splitlines()), 3)
        self.assertIn("192.0.2.1: at least 1.0 Gbit/s there, unknown back, 50.000 ms, imported on ", done.stdout)
        self.assertEqual([(entry["remote"], entry["method"], entry["tx"]) for entry in entries(self.own)],
                         [("192.0.2.1/32", 4, 1035911602), ("192.0.2.5/32", 2, 400_000_000), ("192.0.2.7/32", 4, 1035911602),
                          ("192.0.2.9/32", 2, 400_000_000), ("192.0.2.11/32", 4, 1035911602)])
        listed = json.loads(self.run_it("--json", *own))["paths"]
        self.assertEqual([one["expires_s"] and one["expires_s"] - one["learned_s"] for one in listed],
                         [7 * DAY_S, None, 7 * DAY_S, None, 7 * DAY_S])
        self.run_it("import", str(file), "--hours", "2", "--store", str(self.folder / "other"))
        listed = json.loads(self.run_it("--json", "--store", str(self.folder / "other")))["paths"]
        self.assertEqual([one["expires_s"] - one["learned_s"] for one in listed], 4 * [7200])

    def test_of_one_prefix_no_more_than_fit(self) -> None:
        self.run_it("set", "192.0.2.9", "--rate", "1G", "--rtt", "10", "--from", "eth0")
        self.run_it("set", "192.0.2.11", "--rate", "1G", "--rtt", "10")
        many, other = json.loads(self.run_it("export", "--store", str(self.own)))["paths"]
        file, wanted = self.folder / "many", self.folder / "wanted"
        file.write_text(json.dumps({"paths": [many | {"device": f"eth{n}"} for n in range(67)] + [other]}))
        done = subprocess.run([built("tools/autobuf"), "paths", "import", "--exported", str(file), "--json", "--store", str(wanted)],
                              env=self.env, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr),
                         (0, f"autobuf: {file}: 3 left out: the store has 64 others of the same prefix\n"))
        self.assertEqual(len(json.loads(done.stdout)["paths"]), 65)
        self.assertEqual(entries(wanted)[-1]["remote"], "192.0.2.11/32")

    def test_what_cannot_be_imported(self) -> None:
        file = self.folder / "file"
        self.assertIn("No such file", self.run_it("import", str(file), status=1))
        self.assertIn("Is a directory", self.run_it("import", str(self.folder), status=1))
        file.write_text('{\n"a": nonsense}')
        self.assertIn(f"{file}: line 2: ", self.run_it("import", str(file), status=1))
        file.write_text('{"a": 1}')
        self.assertIn("1 left out: not understood", self.run_it("import", str(file), status=1))
        file.write_text('[{"paths": [{"remote": "0.0.0.0/0", "method": "given"}]}]')
        self.assertIn("1 left out: if you trust whoever exported it, use --exported", self.run_it("import", str(file), status=1))
        with file.open("w") as out:
            out.truncate((64 << 20) + 1)
        self.assertIn("more than 64 MB", self.run_it("import", str(file), status=1))
        self.assertFalse(self.own.exists())

    def test_what_the_reader_says_counts_once_it_has_ended_well(self) -> None:
        """Whatever is found by its name: nothing is changed by what failed, was cut or is damaged."""
        self.run_it("set", "192.0.2.1", "--rate", "1G", "--rtt", "10")
        file, reader, before = self.folder / "exported", self.folder / "autobuf-paths-import", self.own.read_bytes()
        file.write_text(self.run_it("export").replace("192.0.2.1", "192.0.2.9"))
        read = f'{PYTHON}/autobuf-paths-import "$@"'
        self.env["PATH"] = f"{self.folder}:{self.env['PATH']}"
        for script, said in ((f"{read}; echo 'it failed' >&2; exit 3", "it failed\n"), (f"{read}; kill -9 $$", "autobuf-paths-import: Killed\n"),
                             (f"{read} | head -c 199", "autobuf-paths-import: the path store is damaged"),
                             (f"{read}; {read}", "Invalid argument\n"), ("echo nonsense", "autobuf-paths-import: the path store is damaged")):
            reader.write_text(f"#!/bin/sh\n{script}\n")
            reader.chmod(0o755)
            self.assertIn(said, self.run_it("import", "--exported", str(file), status=1), script)
            self.assertEqual(self.own.read_bytes(), before, script)
        reader.write_text(f"#!/bin/sh\n{read}\n")
        self.run_it("import", "--exported", str(file))
        self.assertEqual([entry["remote"] for entry in entries(self.own)], ["192.0.2.1/32", "192.0.2.9/32"])

    def test_without_the_python_package(self) -> None:
        self.env["PATH"] = str(self.folder)
        self.assertEqual(self.run_it("import", "file", status=1),
                         "autobuf: autobuf-paths-import: No such file or directory: the Python package has it (python3-autobuf, or python/ of the sources, in PATH)\n")
        self.assertFalse(self.own.exists())

    def test_what_cannot_be(self) -> None:
        for prefix in ("192.0.2.1/24", "host.invalid", "192.0.2.0/33", "::/0/0"):
            self.assertIn("no prefix", self.run_it("set", prefix, "--rate", "1M", "--rtt", "10", status=1))
        self.assertIn("no prefix", self.run_it("forget", "nonsense", status=1))
        self.assertIn("more than 1.1 TB", self.run_it("set", "192.0.2.1", "--rate", "1000G", "--rtt", "10000", status=1))
        for wrong, why in (("i" * 16, "no name of an interface"), ("a name", "no name of an interface"), ("10.0.0.5/8", "no name of an interface"), ("2001:db8::/32", "IPv6")):
            self.assertIn(why, self.run_it("set", "192.0.2.1", "--rate", "1M", "--rtt", "10", "--from", wrong, status=1))
        self.assertFalse(self.own.exists())
        self.own.parent.mkdir(exist_ok=True)
        self.own.write_bytes(b"no store")
        self.own.chmod(0o600)
        self.assertIn("damaged", self.run_it("--store", str(self.own), status=1))
        for action in (("set", "192.0.2.1", "--rate", "1M", "--rtt", "10"), ("forget", "--all")):
            self.assertIn("damaged", self.run_it(*action, "--store", str(self.own), status=1))
        self.assertEqual(self.own.read_bytes(), b"no store")
        self.own.chmod(0o622)
        self.run_it("--store", str(self.own), status=3)


HOST_STORE = "/var/lib/autobuf/paths"


class Host(unittest.TestCase):
    """The host's store, on a file system of the test's own at /var/lib."""

    def run_it(self, *steps: str, size: str = "4m", net: bool = False) -> list[tuple[int, str, str]]:
        """Each step, a line of a shell in which `paths` is the command: its exit status, stdout and stderr. net: in a network
        namespace of its own."""
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="autobuf-tests."))
        script = [f"mount -t tmpfs -o mode=755,size={size} none /var/lib || exit 99",
                  f'paths() {{ {built("tools/autobuf")} paths "$@"; }}']
        script += [f"( {step}\n) >{folder}/{at}.out 2>{folder}/{at}.err; echo $? >{folder}/{at}.status" for at, step in enumerate(steps)]
        done = subprocess.run(["unshare", "--mount", *(("--net",) if net else ()), "sh", "-c", "\n".join(script)],
                              capture_output=True, text=True, timeout=120)
        if done.returncode == 99 or "unshare:" in done.stderr:
            self.skipTest("no file system can be mounted here: " + done.stderr.strip())
        return [(int(pathlib.Path(folder, f"{at}.status").read_text()), pathlib.Path(folder, f"{at}.out").read_text(),
                 pathlib.Path(folder, f"{at}.err").read_text()) for at in range(len(steps))]

    def test_what_is_set_is_shown_and_forgotten(self) -> None:
        steps = self.run_it(
            "paths set 192.0.2.0/24 --rate 400M --rtt 100 --host", "paths set 2001:db8::1 --rate 1G --rtt 10 --host --from eth0",
            "paths --host --json", "paths show 192.0.2.7 --host", "paths forget 192.0.2.0/24 --host",
            "paths forget 192.0.2.0/24 --host", "paths --host", "paths forget --all --host", "paths --host",
            "stat -c %a:%n /var/lib/autobuf/*")
        self.assertEqual([status for status, _, _ in steps], [0, 0, 0, 0, 0, 1, 0, 0, 0, 0], steps)
        self.assertEqual([one["remote"] for one in json.loads(steps[2][1])["paths"]], ["192.0.2.0/24", "2001:db8::1"])
        self.assertIn("400.0 Mbit/s", steps[3][1])
        self.assertIn("not in the store", steps[5][2])
        self.assertIn("through eth0: 1.0 Gbit/s", steps[6][1])
        self.assertEqual(steps[8][1], "")
        for line in steps[9][1].split():
            self.assertIn(line.split(":")[0], ("600",) if line != f"644:{HOST_STORE}" else ("644",), line)

    def test_what_the_host_s_store_does_not_know_is_shown_of_the_user_s(self) -> None:
        cache = self.enterContext(tempfile.TemporaryDirectory(prefix="autobuf-tests."))
        own = f"unset AUTOBUF_PATHS; XDG_CACHE_HOME={cache}; export XDG_CACHE_HOME; paths"
        steps = self.run_it(
            f"{own} set 192.0.2.1 --rate 1M --rtt 10", f"{own} set 192.0.2.2 --rate 2M --rtt 10", f"{own} show 192.0.2.1",
            f"{own} set 192.0.2.2 --rate 3M --rtt 10 --host", f"{own} show 192.0.2.1", f"{own} show 192.0.2.2",
            f"{own} show 192.0.2.3", f"{own} show 192.0.2.1 --host", f"{own} show 192.0.2.1 --store {HOST_STORE}",
            f"rm {cache}/autobuf/paths; {own} show 192.0.2.1")
        self.assertEqual([status for status, _, _ in steps], [0, 0, 0, 0, 0, 0, 1, 1, 1, 1], steps)
        for at, rate in ((2, "1.0"), (4, "1.0"), (5, "3.0")):
            self.assertIn(f": {rate} Mbit/s", steps[at][1])
        for at in (6, 7, 8, 9):
            self.assertIn("nothing is known of the path", steps[at][2])

    def test_what_the_host_s_store_knows_of_the_other_direction(self) -> None:
        """A sender measures the path that a receiver has taught, unless the user's own store knows its direction."""
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="autobuf-tests."))
        tune = f"unset AUTOBUF_PATHS; XDG_CACHE_HOME={folder}; export XDG_CACHE_HOME; {built('tests/net/tune')}"
        steps = self.run_it(
            "ip link set lo up && echo 4096 16384 65536 >/proc/sys/net/ipv4/tcp_wmem && "
            "echo 4096 131072 131072 >/proc/sys/net/ipv4/tcp_rmem",
            f"mkdir /var/lib/autobuf {folder}/autobuf && paths set 127.0.0.1 --rate 1G --rtt 100 --store {folder}/whole && "
            f"""paths export --store {folder}/whole | sed 's/"given"/"passive"/; s/"tx_\\(rate\\|bdp\\)\\([^:]*\\)":[0-9]*/"tx_\\1\\2":null/g' """
            f">{folder}/back && paths import --exported {folder}/back --store {HOST_STORE} && paths --store {HOST_STORE}",
            f"{tune} --receives 127.0.0.1 9", f"{tune} 127.0.0.1 9", f"cp {folder}/whole {folder}/autobuf/paths",
            f"{tune} 127.0.0.1 9", f"paths --store {HOST_STORE}", net=True)
        self.assertEqual([status for status, _, _ in steps], 7 * [0], steps)
        self.assertIn("unknown there, 1.0 Gbit/s back", steps[1][1])
        receives, sends, knows = (json.loads(steps[at][1]) for at in (2, 3, 5))
        self.assertEqual([each["measured"] for each in (receives, sends, knows)], [0, 1, 0], steps)
        self.assertNotIn("unknown", (receives["rcv_reason"], knows["reason"]), steps)
        self.assertEqual(steps[1][1], 2 * steps[6][1])  # import tells it, and then it is listed

    def test_what_neighbours_have_in_common(self) -> None:
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="autobuf-tests."))
        own, file = f"--store {folder}/own", f"{folder}/exported"
        steps = self.run_it(
            f"for n in 1 2 3 4 5 6; do paths set 192.0.2.$n --rate 100M --rtt $((n == 3 ? 90 : 10)) --hours 9 {own}; done; "
            f"paths export {own} | sed 's/\"given\"/\"icmp\"/g' >{file}; rm {folder}/own; paths import --exported {file} {own} >{folder}/said",
            f"mkdir /var/lib/autobuf && cp {folder}/own {HOST_STORE}",
            "paths set 198.51.100.1 --rate 1G --rtt 10 --host", "paths --host", "paths show 192.0.2.77 --host",
            "paths forget 192.0.2.0/24 --host", "paths --host", f"paths import --exported {file} --host", "paths --host")
        self.assertEqual([(status, err) for status, _, err in steps], 9 * [(0, "")])

        def listed(step: int) -> list[str]:
            return [line.split(":")[0] for line in steps[step][1].splitlines()]

        both = ["192.0.2.0/24", *(f"192.0.2.{n}" for n in range(1, 7)), "198.51.100.1"]
        self.assertEqual(listed(3), both)
        self.assertIn("10.000 ms", steps[4][1])
        self.assertEqual(listed(6), ["198.51.100.1"])
        self.assertEqual(listed(8), both)

    def test_as_root_in_a_folder_of_the_daemon_s_user(self) -> None:
        """All that is there is that user's afterwards, and no link there leads root anywhere."""
        names = [f"{HOST_STORE}{end}" for end in ("", ".lock", ".new", ".damaged")]
        links = "; ".join(f"ln -sf /var/lib/root/precious {name}" for name in names)
        steps = self.run_it(
            f"install -d -o {NOBODY} -g {NOBODY} /var/lib/autobuf; install -d /var/lib/root; echo all >/var/lib/root/precious",
            "paths set 192.0.2.1 --rate 1G --rtt 10 --host", f"stat -c %u:%n {HOST_STORE}*", "paths --host",
            links, "paths set 192.0.2.2 --rate 1G --rtt 10 --host", "cat /var/lib/root/precious")
        self.assertEqual([steps[at][0] for at in (0, 1, 2, 3, 4)], 5 * [0], steps)
        self.assertEqual(sorted(steps[2][1].split()), [f"{NOBODY}:{name}" for name in names[:2]])
        self.assertIn("192.0.2.1:", steps[3][1])
        self.assertNotEqual(steps[5][0], 0)
        self.assertEqual(steps[6][1], "all\n", steps)

    def test_each_fault_is_said_and_the_store_stays(self) -> None:
        newer = (f"{sys.executable} -c 'import struct, zlib; f = open(\"{HOST_STORE}\", \"r+b\"); head = bytearray(f.read(124)); "
                 "head[8] = 2; f.seek(0); f.write(head + struct.pack(\"<I\", zlib.crc32(head)))'")
        for name, step, status, said in (
                ("damaged", f"truncate -s 200 {HOST_STORE}", 0,
                 f"{HOST_STORE} was damaged: it is {HOST_STORE}.damaged now, and a new one was begun"),
                ("newer", newer, 1, f"{HOST_STORE}: a later version"),
                ("another's", f"chown 65534 {HOST_STORE}", 3, f"{HOST_STORE}: Operation not permitted"),
                ("writable by others", f"chmod 666 {HOST_STORE}", 3, f"{HOST_STORE}: Operation not permitted"),
                ("read-only", "mount -o remount,ro /var/lib", 1, f"{HOST_STORE}: Read-only file system"),
                ("disk full", "dd if=/dev/zero of=/var/lib/fill bs=4k status=none || true", 1, f"{HOST_STORE}: No space left on device")):
            with self.subTest(name):
                steps = self.run_it("paths set 192.0.2.1 --rate 1G --rtt 10 --host", step, f"cksum {HOST_STORE}",
                                    "paths set 192.0.2.2 --rate 1G --rtt 10 --host", f"cksum {HOST_STORE}",
                                    "paths --host", f"find {HOST_STORE}.new 2>/dev/null", size="1m")
                self.assertEqual([steps[at][0] for at in (0, 1, 2, 3, 4)], [0, 0, 0, status, 0], steps)
                self.assertIn(f"autobuf: {said}", steps[3][2])
                self.assertEqual(len(steps[3][2].splitlines()), 1)
                self.assertEqual(steps[2][1] == steps[4][1], status != 0, steps)
                if not status:
                    self.assertEqual([line.split(":")[0] for line in steps[5][1].splitlines()], ["192.0.2.2"])
                self.assertEqual(steps[6][1], "", "left behind")


if __name__ == "__main__":
    sys.exit(run_tests(["ip", "iperf3"], ["tools/autobuf", "examples/bulk", "examples/oneshot", "examples/pollloop", "tests/net/tune", "tests/net/pathemu"]))
