#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""autobufd: the connections of programs that know nothing of it, on emulated paths.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select the tests whose names
contain one of them. The tests check decisions; the benchmarks show rates.
"""
from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import schema  # noqa: E402
import test_bulk  # noqa: E402
import test_live  # noqa: E402
import test_paths  # noqa: E402
from cases import run_tests  # noqa: E402
from path import Path, built, wait_line, wait_listening  # noqa: E402
from test_bulk import CORE, LONG, RMEM, WMEM  # noqa: E402

TOP = pathlib.Path(__file__).resolve().parents[2]
WAIT_S = 20.0
SMALL = 65536
PORT = test_live.PORT
NO_PACE = test_live.NO_PACE
BUF_LOCK = 72
NOBODY = 65534
NAMED = r"autobufd: (\S+)\[(\d+)\]:(\d+) (\S+) -> (\S+): \[(.*?)\] (.*)"

# Listens with a receive buffer of argv[1] bytes, then tells of each connection which sides are locked.
LISTENER = f"""
import socket, sys
l = socket.socket()
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(sys.argv[1]))
l.bind(("", {PORT}))
l.listen()
print("listens", flush=True)
while True:
    s, _ = l.accept()
    print(s.getsockopt(socket.SOL_SOCKET, {BUF_LOCK}), flush=True)
    s.close()
"""

# Says the sizes of its listener when it is asked, after it has set those that it was told.
SIZES = f"""
import socket, sys
l = socket.socket()
l.bind(("", {PORT}))
l.listen()
for line in sys.stdin:
    words = line.split()
    for name, value in zip(words[::2], words[1::2]):
        l.setsockopt(socket.SOL_SOCKET, getattr(socket, name), int(value))
    print(*(l.getsockopt(socket.SOL_SOCKET, o) for o in (socket.SO_SNDBUF, socket.SO_RCVBUF, {BUF_LOCK})), flush=True)
"""

# Takes what is sent, and once it is told so sends nothing more itself.
HALF = f"""
import socket, sys, threading
l = socket.socket()
l.bind(("", {PORT}))
l.listen()
print("listens", flush=True)
s, _ = l.accept()
def shut():
    sys.stdin.readline()
    s.shutdown(socket.SHUT_WR)
    print("half", flush=True)
threading.Thread(target=shut, daemon=True).start()
while s.recv(1 << 20, socket.MSG_TRUNC):
    pass
"""

# Takes what any number of senders send, or sends to any number of takers.
CROWD = f"""
import select, socket, sys
l = socket.socket()
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind(("", {PORT}))
l.listen(100)
peers, poll, data = {{}}, select.poll(), bytes(1 << 18)
poll.register(l, select.POLLIN)
while True:
    for fd, event in poll.poll():
        if fd == l.fileno():
            s, _ = l.accept()
            s.setblocking(False)
            peers[s.fileno()] = s
            poll.register(s, select.POLLIN if sys.argv[1] == "take" else select.POLLOUT)
            continue
        try:
            if sys.argv[1] == "take" and peers[fd].recv(1 << 20, socket.MSG_TRUNC) or sys.argv[1] == "send" and peers[fd].send(data):
                continue
        except BlockingIOError:
            continue
        except ConnectionError:
            pass
        poll.unregister(fd)
        peers.pop(fd).close()
"""

# Takes all that such a crowd sends.
TAKER = f"""
import socket, sys
s = socket.create_connection((sys.argv[1], {PORT}))
print("connected", flush=True)
while s.recv(1 << 20, socket.MSG_TRUNC):
    pass
"""

setUpModule = test_live.setUpModule


def program(child: subprocess.Popen) -> str:
    return pathlib.Path(f"/proc/{child.pid}/comm").read_text().strip()


class DaemonTest(test_live.Asked):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="autobuf-tests.")))
        os.chmod(self.folder, 0o755)
        self.file = self.folder / "autobufd.conf"

    def write(self, rules: str) -> None:
        """Rules that touch no file of this machine unless they say so."""
        off = [f"{name}=off\n" for name in ("state", "store", "learned") if f"{name}=" not in rules]
        self.file.write_text("".join(off) + rules)

    def daemon(self, path: Path, rules: str, *args: str, prefix: tuple[str, ...] = (), side: str = "a", **kw) -> subprocess.Popen:
        """A running daemon; its log is its standard output here."""
        self.write(rules)
        for name in ("tools/autobufd", "lib/libautobuf.so.0"):  # who it runs as may not be able to see the build
            if not (self.folder / os.path.basename(name)).exists():  # else another one may be running
                shutil.copy(built(name), self.folder)
        child = path.popen(side, [*prefix, str(self.folder / "autobufd"), "--config", str(self.file), *args],
                           stderr=subprocess.STDOUT, env=os.environ | {"LD_LIBRARY_PATH": str(self.folder)}, **kw)
        self.said: list[str] = []
        wait_line(child, lambda line: self.said.append(line) or "autobufd: begins with " in line)
        return child

    def line(self, daemon: subprocess.Popen, words: str) -> re.Match:
        """The first line from now on that has these words."""
        said = wait_line(daemon, lambda line: words in line, WAIT_S)
        found = re.fullmatch(NAMED, said)
        self.assertIsNotNone(found, said)
        return found

    def stop(self, daemon: subprocess.Popen) -> None:
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(WAIT_S), 0)

    def locked(self, path: Path, size: int = SMALL) -> subprocess.Popen:
        """Another sender on a path that begin() has made."""
        child = path.popen("a", [sys.executable, "-c", test_live.SENDER, path.addr["b"], str(size)], stdin=subprocess.PIPE)
        wait_line(child, lambda line: True)
        return child


class Connections(DaemonTest):
    def test_a_sender_that_locked_its_buffer(self) -> None:
        path, sender, fd, _ = self.begin(LONG, SMALL)
        before = self.ask(sender, "buffer")
        daemon = self.daemon(path, "[everything]\n")
        given = self.line(daemon, "given back to autotuning")
        self.assertEqual((int(given[2]), int(given[3]), given[6]), (sender.pid, fd, "everything"))
        self.assertTrue(given[4].startswith(path.addr["a"] + ":"), given[4])
        self.assertEqual(given[5], f"{path.addr['b']}:{PORT}")
        while self.ask(sender, "buffer") < 4 * before:
            pass
        self.stop(daemon)

    def test_a_listener_that_locked_its_buffer(self) -> None:
        path = self.hosts("rate=50M,delay=10ms", {**WMEM, **RMEM})
        listener = path.popen("b", [sys.executable, "-c", LISTENER, str(SMALL)])
        wait_line(listener, lambda line: line == "listens")

        def locks() -> int:
            path.run("a", [sys.executable, "-c", "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])))",
                           path.addr["b"], str(PORT)])
            return int(wait_line(listener, lambda line: True))

        self.assertEqual(locks(), 2)
        daemon = self.daemon(path, "[all]\n", side="b")
        self.assertEqual(int(self.line(daemon, "receive: kernel: given back to autotuning")[2]), listener.pid)
        self.assertEqual(locks(), 0)
        self.stop(daemon)

    def test_what_the_kernel_reaches_is_left_to_it(self) -> None:
        path, sender, fd, _ = self.begin("rate=50M,delay=10ms")
        daemon = self.daemon(path, "[all]\n")
        other = self.locked(path)
        self.assertEqual(int(self.line(daemon, "given back")[2]), other.pid)  # the first one was seen before
        self.assertLessEqual(self.ask(sender, "buffer"), 4194304)
        self.assertEqual(self.ask(sender, "pace"), NO_PACE)
        self.stop(daemon)
        self.assertNotIn(f"[{sender.pid}]", daemon.stdout.read())

    def test_a_pace_ends_with_the_daemon(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            path, sender, fd, _ = self.begin("rate=50M,delay=25ms,queue=2M")
            daemon = self.daemon(path, "[all]\nintent=low-delay\n")
            self.line(daemon, "pace none ->")
            self.assertLess(self.ask(sender, "pace"), 100e6)
            daemon.send_signal(number)
            self.assertEqual(daemon.wait(WAIT_S), 0)
            self.assertEqual(self.ask(sender, "pace"), NO_PACE)

    def test_a_connection_ends_when_its_owner_closes_it(self) -> None:
        path, sender, fd, sink = self.begin(LONG, SMALL)
        wait_line(sink, lambda line: line == "begin")
        daemon = self.daemon(path, "[all]\n")
        self.line(daemon, "given back")
        self.tell(sender, "close")
        wait_line(sink, lambda line: line == "end", WAIT_S)
        self.assertIsNone(daemon.poll())
        self.tell(sender, "connect")  # the same descriptor, another connection
        again = self.line(daemon, "given back")
        self.assertEqual((int(again[2]), int(again[3])), (sender.pid, fd))
        self.stop(daemon)

    def test_processes_that_end_or_stand_still(self) -> None:
        path, sender, fd, _ = self.begin(LONG, SMALL)
        daemon = self.daemon(path, "[all]\n")
        self.line(daemon, "given back")
        sender.send_signal(signal.SIGSTOP)
        other = self.locked(path)
        self.assertEqual(int(self.line(daemon, "given back")[2]), other.pid)
        sender.kill()
        other.kill()
        third = self.locked(path)
        self.assertEqual(int(self.line(daemon, "given back")[2]), third.pid)
        self.stop(daemon)

    def test_a_connection_that_another_process_goes_on_with(self) -> None:
        path, sender, fd, _ = self.begin(LONG, SMALL)
        daemon = self.daemon(path, "[all]\n")
        self.line(daemon, "given back")
        heir = path.popen("a", [sys.executable, "-c", """
import os, socket, sys
pid = os.pidfd_open(int(sys.argv[1]))
import ctypes
s = socket.socket(fileno=ctypes.CDLL(None).syscall(438, pid, int(sys.argv[2]), 0))
print("has it", flush=True)
s.setblocking(True)
os.kill(int(sys.argv[1]), 9)
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
while True:
    s.send(bytes(65536))
""", str(sender.pid), str(fd)])
        wait_line(heir, lambda line: line == "has it")
        self.assertEqual(int(self.line(daemon, f"[{heir.pid}]:")[2]), heir.pid)
        self.stop(daemon)


class Rules(DaemonTest):
    def test_the_first_that_matches_counts(self) -> None:
        path, sender, fd, _ = self.begin(LONG, SMALL)
        here, there = path.addr["a"], path.addr["b"]
        name = program(sender)
        rows = ((f"remote={there}", True), (f"remote={there[:-1]}3", False), (f"remote=10.77.0.0/16\nremote_port={PORT}", True),
                (f"remote_port=1-{PORT - 1},{PORT + 1}-65535", False), (f"local={here}/32", True), ("local=fd77::/64", False),
                (f"user={os.geteuid()}", True), ("user=4000000000", False), (f"program={name}", True), ("program=other", False),
                ("unit=no-such.service", False))
        before = self.ask(sender, "buffer")
        for conditions, holds in rows:
            with self.subTest(conditions):
                daemon = self.daemon(path, f"[first]\n{conditions}\n[second]\n", "--dry-run")
                self.assertEqual(self.line(daemon, "dry run: send: kernel: given back")[6], "first" if holds else "second")
                self.stop(daemon)
                self.assertEqual(self.ask(sender, "buffer"), before)

    def test_what_no_rule_wants_is_left_alone(self) -> None:
        path, sender, fd, _ = self.begin(LONG, SMALL)
        before = self.ask(sender, "buffer")
        marker = "[marker]\nprogram=bulk\n"
        for rules in (f"[off]\nremote_port={PORT}\nmode=off\n{marker}", f"stop_ports={PORT}\n{marker}", marker,
                      f"[off]\nprogram={program(sender)}\nmode=off\n{marker}"):
            with self.subTest(rules):
                daemon = self.daemon(path, rules)
                server = path.popen("b", [test_bulk.example("bulk"), "recv"])
                wait_listening(path, "b", test_bulk.PORT)
                bulk = path.popen("a", [test_bulk.example("bulk"), "send", "--tune", "naive:65536", "--seconds", "10", path.addr["b"]])
                self.assertEqual(self.line(daemon, "given back")[1], "bulk")  # so it has seen the other one, too
                for child in (bulk, server):
                    child.kill()
                    child.wait()
                self.stop(daemon)
                self.assertEqual(self.ask(sender, "buffer"), before)

    def test_fixed_sizes(self) -> None:
        self.core(CORE)
        path, sender, fd, _ = self.begin(LONG, SMALL)
        daemon = self.daemon(path, "[all]\nmode=fixed\nsndbuf=1M\npace=80M\ncc=reno\n")
        self.line(daemon, "sets congestion control reno, was cubic")
        self.line(daemon, "sets SO_SNDBUF 1000000")
        self.line(daemon, "sets a pace of bit/s: 80000000")
        self.assertEqual(self.ask(sender, "buffer"), 2000000)
        self.assertEqual(self.ask(sender, "pace"), 10000000)
        self.stop(daemon)
        self.assertEqual(self.ask(sender, "buffer"), 2000000)
        daemon = self.daemon(path, "[all]\nmode=fixed\nsndbuf=1500000\ncc=no-such\n")
        self.line(daemon, "congestion control no-such: No such file or directory")
        self.line(daemon, "sets SO_SNDBUF 1500000")
        self.stop(daemon)

    def test_fixed_sizes_beyond_what_anybody_may_set(self) -> None:
        self.core(CORE)
        path, sender, fd, _ = self.begin(LONG)
        for side, option, buffer in (("a", "SNDBUF", "tb"), ("b", "RCVBUF", "rb")):
            with self.subTest(option):
                daemon = self.daemon(path, f"[all]\nmode=fixed\n{option.lower()}=9M\n", side=side)
                while self.line(daemon, f"sets SO_{option}FORCE 9000000")[5] == "?":  # the listener comes first
                    pass
                self.stop(daemon)
                listed = path.run(side, ["ss", "-tmnH", "state", "established"]).stdout
                self.assertIn(f"{buffer}18000000,", listed)

    def test_what_a_rule_cannot_do_is_said(self) -> None:
        path = self.path(both="rate=50M,delay=10ms")
        self.write("bpf=no\n[one]\nremote=192.0.2.1\nmode=fixed\nsndbuf=1M\n[two]\nmode=fixed\nrcvbuf=1M\n")
        daemon = path.popen("a", [built("tools/autobufd"), "--config", str(self.file)], stderr=subprocess.STDOUT)
        self.assertIn("does nothing before the SYN of connections: bpf=no", wait_line(daemon, lambda line: True, WAIT_S))
        self.assertIn("[two]: rcvbuf holds in full for what a listening", wait_line(daemon, lambda line: True, WAIT_S))
        self.assertIn("begins with 2 rules", wait_line(daemon, lambda line: True, WAIT_S))
        self.stop(daemon)

    def test_rules_are_read_again(self) -> None:
        path, sender, fd, _ = self.begin(LONG, SMALL)
        daemon = self.daemon(path, "[off]\nmode=off\n")
        self.file.write_text("[all]\nmode=sometimes\nnonsense\n")
        daemon.send_signal(signal.SIGHUP)
        for words in (":2: mode=sometimes: it takes auto", ":3: this is neither", "the rules stay as they were"):
            wait_line(daemon, lambda line: words in line, WAIT_S)
        self.write("[all]\n")
        daemon.send_signal(signal.SIGHUP)
        wait_line(daemon, lambda line: "reads the rules again" in line, WAIT_S)
        self.assertEqual(self.line(daemon, "given back")[6], "all")
        self.write("[other]\ncc=reno\n")
        daemon.send_signal(signal.SIGHUP)
        self.assertEqual(self.line(daemon, "sets congestion control reno")[6], "other")
        self.stop(daemon)

    def test_a_known_path(self) -> None:
        self.core(CORE)
        path, sender, fd, _ = self.begin(LONG)
        store = self.folder / "paths"
        set_it = path.run("a", [built("tools/autobuf"), "paths", "set", "--store", str(store), "--rate", "400M", "--rtt", "100", path.addr["b"]])
        self.assertEqual(set_it.returncode, 0, set_it.stderr)
        daemon = self.daemon(path, "[all]\nmode=path\n", prefix=("env", f"AUTOBUF_PATHS={store}"))
        self.line(daemon, "the path store knows")
        self.stop(daemon)


class Undo(DaemonTest):
    """What was set can be put back once the daemon has ended, however it ended."""

    def setUp(self) -> None:
        super().setUp()
        self.state = self.folder / "state"
        self.rules = f"state={self.state}\n[all]\n"

    def undo(self, path: Path, *args: str, side: str = "a") -> subprocess.CompletedProcess:
        return path.run(side, [built("tools/autobufd"), "--undo", "--config", str(self.file), *args])

    def kept(self) -> int:
        return len(self.state.read_text().splitlines()) - 1

    def locked_sender(self) -> tuple[Path, subprocess.Popen, int]:
        path, sender, fd, _ = self.begin(LONG, SMALL)
        if self.ask(sender, "locks") != 1:
            self.skipTest("needs SO_BUF_LOCK (Linux 5.15)")
        return path, sender, self.ask(sender, "buffer")

    def test_a_sender(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number):
                path, sender, before = self.locked_sender()
                daemon = self.daemon(path, self.rules)
                self.line(daemon, "given back to autotuning")
                while self.ask(sender, "buffer") < 4 * before:
                    pass
                daemon.send_signal(number)
                daemon.wait(WAIT_S)
                self.assertEqual(self.kept(), 1)
                shown = self.undo(path, "--dry-run")
                self.assertRegex(shown.stderr, f"\\[{sender.pid}\\]:.*: dry run: put back as it was\n")
                self.assertGreaterEqual(self.ask(sender, "buffer"), 4 * before)
                done = self.undo(path)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stderr, f"\\[{sender.pid}\\]:.*: put back as it was\n")
                self.assertEqual((self.ask(sender, "buffer"), self.ask(sender, "locks")), (before, 1))
                self.assertEqual(self.kept(), 0)
                again = self.undo(path)
                self.assertEqual((again.returncode, again.stderr), (0, ""))
                self.state.unlink()

    def test_it_is_kept_before_it_is_told(self) -> None:
        """So one that is killed by whoever reads of it has kept it."""
        path, sender, before = self.locked_sender()
        sender.kill()
        sender.wait()
        daemon = self.daemon(path, f"status=off\n{self.rules}")  # a socket that cannot be made would be told, too
        log = os.open(f"/proc/{daemon.pid}/fd/1", os.O_WRONLY | os.O_NONBLOCK)
        try:
            while os.write(log, b"\n" * 4096):
                pass
        except BlockingIOError:
            os.close(log)
        other = self.locked(path)
        deadline = time.monotonic() + WAIT_S
        while not self.kept():  # the daemon waits for its log to be read, or soon will
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual(int(self.line(daemon, "given back")[2]), other.pid)
        daemon.kill()
        daemon.wait()
        self.assertEqual(self.undo(path).returncode, 0)
        self.assertEqual((self.ask(other, "buffer"), self.ask(other, "locks")), (before, 1))

    def test_after_a_second_daemon(self) -> None:
        """It is as it was before the first one."""
        path, sender, before = self.locked_sender()
        daemon = self.daemon(path, self.rules)
        self.line(daemon, "given back to autotuning")
        daemon.kill()
        daemon.wait()
        daemon = self.daemon(path, f"state={self.state}\n[all]\nmode=fixed\nsndbuf=1500000\npace=80M\ncc=bbr\n")
        self.line(daemon, "sets congestion control bbr")
        self.line(daemon, "sets SO_SNDBUF 1500000")
        self.assertEqual(self.ask(sender, "bbr"), 1)
        self.stop(daemon)
        done = self.undo(path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.ask(sender, "buffer"), self.ask(sender, "locks"), self.ask(sender, "pace")), (before, 1, NO_PACE))

    def test_a_congestion_control(self) -> None:
        path, sender, fd, _ = self.begin(LONG)
        daemon = self.daemon(path, f"state={self.state}\n[all]\nmode=fixed\ncc=bbr\n")
        self.line(daemon, "sets congestion control bbr")
        self.stop(daemon)
        self.assertEqual(self.ask(sender, "bbr"), 1)
        done = self.undo(path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.ask(sender, "bbr"), self.ask(sender, "locks")), (0, 0))

    def test_a_listener(self) -> None:
        path = self.hosts("rate=50M,delay=10ms", {**WMEM, **RMEM})
        listener = path.popen("b", [sys.executable, "-c", LISTENER, str(SMALL)])
        wait_line(listener, lambda line: line == "listens")

        def locks() -> int:
            path.run("a", [sys.executable, "-c", "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])))",
                           path.addr["b"], str(PORT)])
            return int(wait_line(listener, lambda line: True))

        self.assertEqual(locks(), 2)
        daemon = self.daemon(path, self.rules, side="b")
        self.line(daemon, "receive: kernel: given back to autotuning")
        self.stop(daemon)
        self.assertEqual(locks(), 0)
        done = self.undo(path, side="b")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(locks(), 2)

    def sizes(self, listener: subprocess.Popen, *options: str) -> list[int]:
        """Send buffer, receive buffer and locks of a listener, which its program sets first."""
        self.tell(listener, " ".join(options))
        return [int(word) for word in wait_line(listener, lambda line: True).split()]

    def test_a_listener_that_was_taken_up_again(self) -> None:
        """By the same daemon with other rules, and by a second one."""
        path = self.hosts("rate=50M,delay=10ms", {**WMEM, **RMEM})
        listener = path.popen("b", [sys.executable, "-c", SIZES], stdin=subprocess.PIPE)
        before = self.sizes(listener)
        rules = f"state={self.state}\n[all]\nmode=fixed\nsndbuf="
        daemon = self.daemon(path, f"{rules}500000\n", side="b")
        self.line(daemon, "sets SO_SNDBUF 500000")
        self.write(f"{rules}400000\n")
        daemon.send_signal(signal.SIGHUP)
        self.line(daemon, "sets SO_SNDBUF 400000")
        self.stop(daemon)
        daemon = self.daemon(path, f"{rules}300000\n", side="b")
        self.line(daemon, "sets SO_SNDBUF 300000")
        self.stop(daemon)
        self.assertEqual(self.sizes(listener), [600000, before[1], 1])
        done = self.undo(path, side="b")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.sizes(listener), before)

    def test_a_listener_whose_program_changed_one_side(self) -> None:
        path = self.hosts("rate=50M,delay=10ms", {**WMEM, **RMEM})
        listener = path.popen("b", [sys.executable, "-c", SIZES], stdin=subprocess.PIPE)
        before = self.sizes(listener, "SO_SNDBUF", "20000", "SO_RCVBUF", "20000")
        self.assertEqual(before[2], 3)
        daemon = self.daemon(path, self.rules, side="b")
        self.line(daemon, "given back to autotuning")
        given = self.sizes(listener)
        self.assertEqual(given[2], 0)
        changed = self.sizes(listener, "SO_RCVBUF", "30000")
        self.assertEqual((changed[0], changed[2]), (given[0], 2))
        self.line(daemon, "given back to autotuning")
        self.stop(daemon)
        self.assertEqual(self.sizes(listener)[2], 0)
        done = self.undo(path, side="b")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.sizes(listener), [before[0], changed[1], 3])

    def test_a_connection_that_is_half_closed(self) -> None:
        """Its program goes on sending."""
        path = self.hosts(LONG, {**WMEM, **RMEM})
        peer = path.popen("b", [sys.executable, "-c", HALF], stdin=subprocess.PIPE)
        wait_line(peer, lambda line: line == "listens")
        sender = self.locked(path)
        before = self.ask(sender, "buffer")
        daemon = self.daemon(path, f"state={self.state}\n[all]\nmode=fixed\nsndbuf=1500000\n")
        self.line(daemon, "sets SO_SNDBUF 1500000")
        self.tell(peer, "")
        wait_line(peer, lambda line: line == "half")
        while not path.run("a", ["ss", "-tnH", "state", "close-wait"]).stdout:
            pass
        self.stop(daemon)
        done = self.undo(path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, f"\\[{sender.pid}\\]:.*: put back as it was\n")
        self.assertEqual((self.ask(sender, "buffer"), self.ask(sender, "locks")), (before, 1))

    def test_what_stands_in_its_way(self) -> None:
        path, sender, before = self.locked_sender()
        daemon = self.daemon(path, self.rules)
        self.line(daemon, "given back to autotuning")
        done = self.undo(path)
        self.assertEqual((done.returncode, done.stderr), (1, f"autobufd: {self.state}: an autobufd is running and has it open\n"))
        self.stop(daemon)
        elsewhere = self.undo(path, side="b")
        self.assertEqual((elsewhere.returncode, elsewhere.stderr),
                         (1, f"autobufd: {self.state}: it is of an autobufd in another network namespace\n"))
        self.assertEqual(self.kept(), 1)
        off = path.run("a", [built("tools/autobufd"), "--undo", "--config", str(self.file)], env=os.environ | {"AUTOBUF": "off"})
        self.assertEqual((off.returncode, off.stderr), (1, "autobufd: not all is put back: AUTOBUF=off in its environment\n"))
        self.assertEqual(self.kept(), 1)
        sender.kill()
        sender.wait()
        gone = self.undo(path)
        self.assertEqual((gone.returncode, gone.stderr), (0, ""))
        self.state.unlink()
        nothing = self.undo(path)
        self.assertEqual((nothing.returncode, nothing.stderr), (0, "autobufd: nothing was kept, so there is nothing to put back\n"))
        self.state.write_text("something else\n")
        for args in ((), ("--undo",)):
            other = path.run("a", [built("tools/autobufd"), "--config", str(self.file), *args])
            self.assertEqual((other.returncode, other.stderr), (1, f"autobufd: {self.state}: it is not a state file of this version\n"))
        self.assertEqual(self.state.read_text(), "something else\n")

    def test_a_disk_that_is_full(self) -> None:
        """What cannot be kept is not changed."""
        if os.geteuid() != 0:
            self.skipTest("needs root to mount")
        path, sender, before = self.locked_sender()
        small = self.folder / "small"
        small.mkdir()
        daemon = self.daemon(path, f"state={small}/state\n[none]\nprogram=none\n", prefix=(
            "unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o size=4k none {small} && exec "$@"', "sh"))
        inside = pathlib.Path(f"/proc/{daemon.pid}/root{small}/state")
        with inside.open("a") as file:
            file.write("x" * (4095 - inside.stat().st_size) + "\n")
        self.write(f"state={small}/state\n[all]\n")
        daemon.send_signal(signal.SIGHUP)
        wait_line(daemon, lambda line: "No space left on device: what a socket was like cannot be kept" in line, WAIT_S)
        self.assertEqual((self.ask(sender, "buffer"), self.ask(sender, "locks")), (before, 1))
        self.stop(daemon)


class Watched(DaemonTest):
    """A daemon that is asked for its state."""

    def setUp(self) -> None:
        super().setUp()
        self.socket = self.folder / "status.sock"

    def watched(self, path: Path, rules: str = "[all]\n", args: tuple[str, ...] = (), **kw) -> subprocess.Popen:
        daemon = self.daemon(path, f"status={self.socket}\n{rules}", *args, **kw)
        deadline = time.monotonic() + WAIT_S
        while True:  # it listens soon after its first line
            try:
                self.get("/metrics")
                return daemon
            except (FileNotFoundError, ConnectionRefusedError):
                self.assertLess(time.monotonic(), deadline)

    def client(self, timeout: float | None = WAIT_S) -> socket.socket:
        """A socket in the file system is in no network namespace."""
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(timeout)
        try:
            client.connect(str(self.socket))
        except OSError:  # callers try again, and again
            client.close()
            raise
        return self.enterContext(client)

    def get(self, page: str, method: str = "GET") -> tuple[str, str]:
        """The head and the body."""
        client, answer = self.client(), b""
        client.sendall(f"{method} {page} HTTP/1.0\r\n\r\n".encode())
        while part := client.recv(65536):
            answer += part
        client.close()
        head, body = answer.decode("ascii").split("\r\n\r\n", 1)
        self.assertEqual(int(re.search("^Content-Length: (.*)\r?$", head, re.M)[1]), len(body))
        return head, body

    def metrics(self) -> dict[str, float]:
        head, body = self.get("/metrics")
        self.assertIn(" 200 OK\r\nContent-Type: text/plain; version=0.0.4", head)
        return {name: float(value) for name, value in re.findall("^([^#\n]+) (\\S+)$", body, re.M)}

    def flows(self) -> dict:
        answer = json.loads(self.get("/flows")[1])
        schema.check(self, answer, "flows")
        return answer


class Status(Watched):
    def test_what_is_asked_is_told(self) -> None:
        path, sender, fd, _ = self.begin(LONG, SMALL)
        daemon = self.watched(path)
        given = self.line(daemon, "given back to autotuning")
        line = self.file.read_text().splitlines().index("[all]") + 1
        flow, = self.flows()["flows"]
        self.assertEqual((flow["pid"], flow["fd"], flow["program"], flow["user"]), (sender.pid, fd, program(sender), os.geteuid()))
        self.assertEqual((flow["local"], flow["peer"]), (given[4], given[5]))
        self.assertEqual((flow["mode"], flow["rule"], flow["rule_line"], flow["dry_run"]), ("auto", "all", line, False))
        self.assertIn("given back to autotuning", flow["action"])
        first = self.metrics()
        self.assertEqual((first["autobufd_tended"], first["autobufd_rules"], first["autobufd_config_generation"]), (1, 1, 1))
        self.assertEqual(first['autobufd_actions_total{kind="given_back"}'], 1)
        self.assertGreater(first["autobufd_resident_memory_bytes"], 100000)
        while (now := self.metrics())["autobufd_sweeps_total"] <= first["autobufd_sweeps_total"]:
            pass
        for name in ("autobufd_sweeps_total", 'autobufd_cpu_seconds_total{part="sweeps"}', 'autobufd_clients_total{end="answered"}'):
            self.assertGreater(now[name], first[name], name)
        self.assertEqual(self.socket.stat().st_mode & 0o7777, 0o660)
        self.stop(daemon)
        self.assertFalse(self.socket.exists())

    def test_curl_can_ask(self) -> None:
        if not shutil.which("curl"):
            self.skipTest("needs curl")
        path = self.path(both="rate=50M,delay=10ms")
        daemon = self.watched(path)

        def curl(page: str, *args: str) -> subprocess.CompletedProcess:
            return subprocess.run(["curl", "-sS", *args, "--unix-socket", str(self.socket), f"http://localhost{page}"],
                                  capture_output=True, text=True, timeout=WAIT_S)

        self.assertIn("\nautobufd_rules 1\n", curl("/metrics", "--fail").stdout)
        self.assertEqual(json.loads(curl("/flows", "--fail").stdout)["flows"], [])
        for page, args, code in (("/", (), "404"), ("/flows", ("-X", "POST"), "405"), ("/metrics", (), "200")):
            self.assertEqual(curl(page, *args, "-o", "/dev/null", "-w", "%{http_code}").stdout, code)
        self.stop(daemon)

    def test_clients_that_dawdle_or_crowd(self) -> None:
        path, sender, fd, _ = self.begin(LONG, SMALL)
        daemon = self.watched(path)
        self.line(daemon, "given back")
        crowd = []
        for i in range(100):  # eight come in, some wait in the backlog, and for the others there is no room
            client = self.enterContext(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            try:
                client.connect(str(self.socket))
                client.send((b"", b"GET /fl", b"x" * 4096, b"GET /flows HTTP/1.0\r\n\r\n")[i % 4])  # and none reads
                crowd.append(client)
            except (BlockingIOError, BrokenPipeError):
                pass
        self.assertGreater(len(crowd), 8)
        other = self.locked(path)
        self.assertEqual(int(self.line(daemon, "given back")[2]), other.pid)
        for client in crowd:  # each is let go, also those that say nothing and are not closed here
            client.settimeout(WAIT_S)
            try:
                while client.recv(65536):
                    pass
            except ConnectionResetError:  # more was sent than was read
                pass
        told = self.metrics()
        self.assertGreater(told['autobufd_clients_total{end="dropped"}'], 0)
        self.assertEqual(told["autobufd_tended"], 2)
        self.stop(daemon)

    def test_systemd_is_told(self) -> None:
        path = self.path(both="rate=50M,delay=10ms")
        here = self.enterContext(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        here.bind(str(self.folder / "notify"))
        here.settimeout(WAIT_S)

        def told() -> dict[str, str]:
            return dict(line.split("=", 1) for line in here.recv(4096).decode().split("\n"))

        daemon = self.watched(path, prefix=("env", f"NOTIFY_SOCKET={self.folder / 'notify'}"))
        self.assertEqual(told(), {"READY": "1", "STATUS": "Looks after 0 connections by 1 rule."})
        for rules, line in (("[a]\nprogram=none\nmode=off\n[b]\n", "Looks after 0 connections by 2 rules."),
                            ("[a]\nnonsense\n", "The new rules are wrong, and the old ones stay.")):
            self.write(f"status={self.socket}\n{rules}")
            before = time.monotonic_ns() // 1000
            daemon.send_signal(signal.SIGHUP)
            reloading = told()
            self.assertEqual(reloading["RELOADING"], "1")
            self.assertLessEqual(before, int(reloading["MONOTONIC_USEC"]))
            self.assertLessEqual(int(reloading["MONOTONIC_USEC"]), time.monotonic_ns() // 1000)
            self.assertEqual(told(), {"READY": "1", "STATUS": line})
        now = self.metrics()
        self.assertEqual((now["autobufd_config_generation"], now['autobufd_errors_total{what="rules"}']), (2, 1))
        self.stop(daemon)
        self.assertEqual(told()["STOPPING"], "1")

    def test_the_place_of_its_socket(self) -> None:
        path = self.path(both="rate=50M,delay=10ms")
        daemon = self.watched(path)
        second = path.popen("a", [str(self.folder / "autobufd"), "--config", str(self.file)], stderr=subprocess.STDOUT,
                            env=os.environ | {"LD_LIBRARY_PATH": str(self.folder)})
        wait_line(second, lambda line: f"{self.socket}: Address already in use" in line, WAIT_S)
        self.metrics()
        self.stop(second)
        self.assertTrue(self.socket.exists())
        daemon.kill()
        daemon.wait()
        self.assertTrue(self.socket.exists())  # nobody listens there any more
        daemon = self.watched(path)
        self.metrics()
        for where in (self.folder / "other.sock", "off"):
            self.write(f"status={where}\n[all]\n")
            daemon.send_signal(signal.SIGHUP)
            wait_line(daemon, lambda line: "reads the rules again" in line, WAIT_S)
            self.assertFalse(self.socket.exists())
            self.assertEqual((self.folder / "other.sock").exists(), where != "off")
        self.stop(daemon)

    def test_top(self) -> None:
        path, sender, fd, _ = self.begin(LONG, SMALL)
        daemon = self.watched(path)
        self.line(daemon, "given back")

        def top(*args: str) -> subprocess.CompletedProcess:
            return subprocess.run([built("tools/autobuf"), "top", "--socket", str(self.socket), "--count", "2", "--interval", "100", *args],
                                  capture_output=True, text=True, timeout=WAIT_S)

        done = top("--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(done.stdout.splitlines()), 2)
        for line in done.stdout.splitlines():
            flow, = json.loads(line)["flows"]
            self.assertEqual((flow["pid"], flow["peer"]), (sender.pid, f"{path.addr['b']}:{PORT}"))
        done = top()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count(f"[{sender.pid}]:{fd} "), 2, done.stdout)
        self.assertEqual(done.stdout.count("given back to autotuning"), 2, done.stdout)
        self.assertTrue(done.stdout.replace("\n", "").isprintable())
        self.stop(daemon)
        done = top()
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("autobufd does not run here", done.stderr)


class Learning(Watched):
    """What connections teach, and programs say, is known to later ones."""

    SHORT = {"net.ipv4.tcp_wmem": "4096 16384 131072"}  # a tenth of what 50 Mbit/s x 100 ms holds, with overhead
    EASY = "rate=20M,delay=20ms,queue=100K"
    PATH = "rate=50M,delay=50ms,queue=400K"

    def setUp(self) -> None:
        super().setUp()
        self.store = self.folder / "paths"
        self.into = self.folder / "learned.sock"

    def entries(self) -> list[dict]:
        return test_paths.entries(self.store) if self.store.exists() else []

    def moved(self, flows: int, bytes: int, key: str = "sent_bytes") -> None:
        """Until so many connections have moved so much each."""
        deadline = time.monotonic() + 2 * WAIT_S
        while len([flow for flow in self.flows()["flows"] if flow[key] >= bytes]) < flows:
            self.assertLess(time.monotonic(), deadline)

    def until(self, what, why: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while not what():
            self.assertLess(time.monotonic(), deadline, why)

    def test_what_one_connection_taught_the_next_one_uses(self) -> None:
        path, sender, fd, _ = self.begin(self.PATH)
        daemon = self.watched(path, f"store={self.store}\n[all]\nmode=path\n")
        self.moved(1, 10_000_000)
        self.tell(sender, "close")
        self.until(self.entries, "nothing was learned")
        (entry,) = self.entries()
        self.assertEqual((entry["remote"], entry["method"], entry["flags"], entry["rx"]), (f"{path.addr['b']}/32", 5, 1, 0))
        self.between(entry["tx"], 18e6, 51e6, "the rate")  # of 50 Mbit/s a queue of 400 KB leaves half, or more
        self.between(entry["rtt_min_ns"], 100e6, 120e6, "the round-trip time")
        self.between(entry["expires_s"] - entry["learned_s"], 86400, 86400, "how long it holds")
        self.assertEqual(self.store.stat().st_mode & 0o777, 0o644)
        for name, value in self.SHORT.items():
            path.sysctl("a", name, value)
        daemon.send_signal(signal.SIGHUP)  # it reads the limits anew, too
        wait_line(daemon, lambda line: "reads the rules again" in line, WAIT_S)
        self.tell(sender, "connect")
        self.assertIn("send: set", self.line(daemon, "the path store knows it")[7])
        told = self.metrics()
        self.assertEqual(told['autobufd_learned_total{from="connections"}'], 1)
        self.stop(daemon)

    def test_what_a_receiver_learns(self) -> None:
        path, sender, fd, _ = self.begin("rate=50M,delay=20ms,queue=100K")
        daemon = self.watched(path, f"store={self.store}\n[all]\n", side="b")
        self.moved(1, 6_000_000, "received_bytes")
        self.tell(sender, "close")
        self.tell(sender, "connect")  # the sink closes a connection when the next one comes
        self.until(self.entries, "nothing was learned")
        (entry,) = self.entries()
        self.assertEqual((entry["remote"], entry["method"], entry["flags"], entry["tx"]), (f"{path.addr['a']}/32", 5, 2, 0))
        self.between(entry["rx"], 5e6, 51e6, "the rate")  # with a queue of 100 KB much is lost
        self.stop(daemon)

    def test_what_teaches_nothing(self) -> None:
        path, sender, fd, _ = self.begin(self.EASY)
        for rules, args in (("[all]\npace=20M\n", ()), ("[all]\nintent=low-delay\n", ()), ("[all]\ndivide=1M\n", ()),
                            ("[all]\n", ("--dry-run",)), ("dry_run=yes\n[all]\n", ())):
            with self.subTest(rules, args=args):
                self.write(f"status={self.socket}\nstore={self.store}\n{rules}")
                daemon = self.watched(path, f"store={self.store}\nlearned={self.into}\n{rules}", args=args)
                (flow,) = self.flows_of(1)
                self.moved(1, flow["sent_bytes"] + 3_000_000)
                self.assertEqual(self.into.exists(), "dry" not in rules and not args)
                self.stop(daemon)  # which learns from all that it looked after
                self.assertEqual(self.entries(), [])

    def flows_of(self, count: int) -> list[dict]:
        self.until(lambda: len(self.flows()["flows"]) == count, "not looked after")
        return self.flows()["flows"]

    def test_a_daemon_that_ends_keeps_what_it_knows(self) -> None:
        path, sender, fd, _ = self.begin(self.EASY)
        daemon = self.watched(path, f"store={self.store}\n[all]\n")
        self.moved(1, 6_000_000)
        self.stop(daemon)
        self.assertEqual([entry["remote"] for entry in self.entries()], [f"{path.addr['b']}/32"])

    def hand_in(self, remote: str = "192.0.2.1", message: bytes | None = None) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hand:
            hand.sendto(self.message(remote) if message is None else message, str(self.into))

    def message(self, remote: str) -> bytes:
        """As lib/paths/message.c describes it."""
        now = int(time.time())
        key = bytes([4, 32]) + socket.inet_aton(remote) + bytes(12) + bytes([1, 255]) + bytes(32)
        small = struct.pack("<7I", 1, 0, 0, 10, 1500, 0, 0)
        large = struct.pack("<12Q", 40_000_000, 40_000_000, *6 * [100_000_000], 500_000, 500_000, now, now + 3600)
        record = key + small + large
        return b"AUTOBUFL" + struct.pack("<2I", 1, 184) + record + struct.pack("<2I", zlib.crc32(record), 0)

    @staticmethod
    def files_of(daemon: subprocess.Popen) -> list[str]:
        """What it has open; sockets that it borrows come and go."""
        files = []
        for fd in os.listdir(f"/proc/{daemon.pid}/fd"):
            try:
                files.append(os.readlink(f"/proc/{daemon.pid}/fd/{fd}"))
            except FileNotFoundError:
                pass
        return files

    def test_what_programs_hand_in(self) -> None:
        path, sender, fd, _ = self.begin(self.EASY, SMALL)
        daemon = self.watched(path, f"store={self.store}\nlearned={self.into}\n[all]\n")
        self.hand_in()
        self.until(self.entries, "not kept")
        self.assertEqual([(entry["remote"], entry["method"]) for entry in self.entries()], [("192.0.2.1/32", 1)])
        for bad in (b"", b"x", self.message("192.0.2.2")[:-1], self.message("192.0.2.2") + b"x", bytes(60000), self.message("224.0.0.1")):
            self.until(lambda: self.tries(bad), "no room")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hand, (self.folder / "handed").open("w") as file:
            hand.connect(str(self.into))
            socket.send_fds(hand, [b"x"], 3 * [file.fileno()])
        self.until(lambda: self.metrics()['autobufd_untaken_total{reason="malformed"}'] == 6, "not counted")
        self.assertEqual(self.metrics()['autobufd_untaken_total{reason="not_valid"}'], 1)
        self.until(lambda: str(self.folder / "handed") not in self.files_of(daemon), "descriptors stay open")
        self.assertEqual(self.flows()["turned_away"], 7)
        self.stop(daemon)
        self.assertFalse(self.into.exists())

    def tries(self, message: bytes) -> bool:
        """The kernel's queue is short."""
        try:
            self.hand_in(message=message)
            return True
        except BlockingIOError:
            return False

    def test_a_flood(self) -> None:
        """Others are looked after meanwhile."""
        path, sender, fd, _ = self.begin(self.EASY, SMALL)
        daemon = self.watched(path, f"store={self.store}\nlearned={self.into}\n[all]\n")
        self.line(daemon, "given back")
        path.popen("a", [sys.executable, "-c", """
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect(sys.argv[1])
try:
    while True:
        s.send(bytes.fromhex(sys.argv[2]))
except ConnectionError:  # the daemon has ended
    pass
""", str(self.into), self.message("192.0.2.1").hex()])

        def come() -> float:
            told = self.metrics()
            return told['autobufd_learned_total{from="programs"}'] + told['autobufd_untaken_total{reason="too_many"}']

        self.until(lambda: come() > 50, "no flood")
        other = self.locked(path)
        self.assertEqual(int(self.line(daemon, "given back")[2]), other.pid)
        before = come()
        self.until(lambda: come() > before, "it has ended")
        self.stop(daemon)

    def test_its_place_is_taken(self) -> None:
        path = self.path(both="rate=50M,delay=10ms")
        self.into.write_text("mine")
        daemon = self.daemon(path, f"status=off\nstore={self.store}\nlearned={self.into}\n[all]\n")
        wait_line(daemon, lambda line: f"{self.into}: File exists" in line, WAIT_S)
        self.stop(daemon)
        self.assertEqual(self.into.read_text(), "mine")

    def test_a_store_that_cannot_be_written(self) -> None:
        """It is said once, and the care goes on."""
        if os.geteuid() != 0:
            self.skipTest("needs root to mount")
        path, sender, fd, _ = self.begin(self.EASY, SMALL)
        place = self.folder / "place"
        place.mkdir()
        later = b"AUTOBUFP" + struct.pack("<I", 2) + bytes(112)
        later += struct.pack("<I", zlib.crc32(later))
        fill = "head -c 8192 /dev/zero > fill 2>/dev/null"
        for made, said in (("mount -o remount,ro $PWD", "Read-only file system"), (fill, "No space left on device"),
                           (f"printf '{''.join(f'{chr(92)}{byte:03o}' for byte in later)}' > paths", "a later version"),
                           ("echo > paths; chown 4242 paths", "Operation not permitted")):
            with self.subTest(said):
                daemon = self.watched(path, f"store={place}/paths\nlearned={self.into}\n[all]\n", prefix=(
                    "unshare", "--mount", "sh", "-c",
                    f'mount -t tmpfs -o size=4k none {place} && (cd {place} && ({made}; true)) && exec "$@"', "sh"))
                failed = 'autobufd_errors_total{what="store"}'
                for count in (1, 2):
                    self.until(lambda: self.tries(self.message("192.0.2.1")), "no room")
                    self.until(lambda: self.metrics()[failed] == count, "no error")
                other = self.locked(path)
                self.assertEqual(int(self.line(daemon, f"[{other.pid}]:")[2]), other.pid)
                daemon.send_signal(signal.SIGTERM)
                self.assertEqual(daemon.wait(WAIT_S), 0)

    def test_as_a_service(self) -> None:
        """Its user owns the store's folder. Root hands in what a transfer measured; all who read know it."""
        if os.geteuid() != 0:
            self.skipTest("needs root to mount")
        path = self.hosts("rate=50M,delay=20ms,queue=1M")
        self.serve(path)
        daemon = self.daemon(path, "status=off\nstore=/var/lib/autobuf/paths\nlearned=/run/autobufd/learned.sock\n[all]\n", prefix=(
            "unshare", "--mount", "sh", "-c", "mount -t tmpfs none /run && mount -t tmpfs none /var/lib && umask 077 && "
            f"install -d -m 755 -o {NOBODY} /run/autobufd /var/lib/autobuf && exec setpriv --reuid {NOBODY} --regid {NOBODY} "
            '--clear-groups "$@"', "sh"))
        inside = f"/proc/{daemon.pid}/root"
        self.store = pathlib.Path(f"{inside}/var/lib/autobuf/paths")
        self.until(pathlib.Path(f"{inside}/run/autobufd/learned.sock").exists, "no socket")

        def transfer(user: int) -> int:
            """How many echoes it sent."""
            before = self.echoes(path)
            done = path.run("a", ["nsenter", f"--mount=/proc/{daemon.pid}/ns/mnt", "setpriv", "--reuid", str(user), "--regid", str(user),
                                  "--clear-groups", "env", "-u", "AUTOBUF_PATHS", f"HOME={self.folder}", f"XDG_CACHE_HOME={self.folder}",
                                  test_bulk.example("bulk"), "send", "--tune", "autobuf", "--intent", "low-delay", "--seconds", "1",
                                  path.addr["b"]], env=os.environ | {"LD_LIBRARY_PATH": str(self.folder)})
            self.assertEqual(done.returncode, 0, done.stderr)
            return self.echoes(path) - before

        self.assertGreater(transfer(0), 4)
        self.until(self.entries, "not kept")
        self.assertEqual(self.store.stat().st_uid, NOBODY)
        for user in (0, NOBODY, 4242):
            self.assertEqual(transfer(user), 0, user)
        self.assertFalse((self.folder / "autobuf").exists())  # the user's own store
        listed = subprocess.run(["nsenter", f"--mount=/proc/{daemon.pid}/ns/mnt", built("tools/autobuf"), "paths", "set", "--store",
                                 "/var/lib/autobuf/paths",
                                 "--rate", "1G", "--rtt", "10", "192.0.2.9"], capture_output=True, text=True)
        self.assertEqual(listed.returncode, 0, listed.stderr)  # root writes into it as well
        self.assertEqual(len(self.entries()), 2)
        self.store.unlink()
        self.assertGreater(transfer(NOBODY), 4)  # and then the daemon, to which nothing of root's is in the way
        self.until(self.entries, "not kept")
        self.stop(daemon)


class Divide(Watched):
    """A total of window, shared by the connections of a rule."""

    TOTAL = 2000000  # far less than LONG takes, also where this machine is slow
    COUNT = 8

    def crowd(self, what: str) -> Path:
        path = self.hosts(LONG, {**WMEM, **RMEM})
        path.popen("b", [sys.executable, "-c", CROWD, what])
        wait_listening(path, "b", PORT)
        return path

    def until_divided(self, windows) -> None:
        """Until no two of the windows are far from each other, and their sum is no more than the total."""
        deadline = time.monotonic() + 2 * WAIT_S
        seen: list[list[int]] = []
        while True:
            seen = [*seen, windows()][-20:]
            mean = [sum(each) / len(seen) for each in zip(*seen)]
            if (len(seen) == 20 and len(mean) == self.COUNT and 0.5 * self.TOTAL < sum(mean) < 1.1 * self.TOTAL
                    and max(mean) < 2 * min(mean)):
                return
            self.assertLess(time.monotonic(), deadline, mean)

    def test_senders(self) -> None:
        path = self.crowd("take")
        senders = [self.locked(path, 0) for _ in range(self.COUNT)]
        if self.ask(senders[0], "locks") != 0:
            self.skipTest("needs SO_BUF_LOCK (Linux 5.15)")
        daemon = self.watched(path, f"state={self.folder}/state\n[all]\ndivide={self.TOTAL}\n")
        self.until_divided(lambda: [flow["in_flight_bytes"] for flow in self.flows()["flows"]])
        self.assertIn(1, [self.ask(sender, "locks") for sender in senders])
        daemon.kill()
        daemon.wait()
        undone = path.run("a", [built("tools/autobufd"), "--undo", "--config", str(self.file)])
        self.assertEqual(undone.returncode, 0, undone.stderr)
        self.assertEqual({self.ask(sender, "locks") for sender in senders}, {0})
        daemon = self.watched(path, f"[all]\ndivide={self.TOTAL}\n")
        deadline = time.monotonic() + 2 * WAIT_S
        while 1 not in [self.ask(sender, "locks") for sender in senders]:
            self.assertLess(time.monotonic(), deadline)
        self.stop(daemon)
        self.assertEqual({self.ask(sender, "locks") for sender in senders}, {0})

    def test_receivers(self) -> None:
        path = self.crowd("send")

        def windows() -> list[int]:
            listed = path.run("b", ["ss", "-tinH", "state", "established", f"sport = {PORT}"]).stdout
            return [int(count) * int(segment) for segment, count in re.findall(r" mss:(\d+) .* unacked:(\d+)", listed)]

        daemon = self.watched(path, f"[all]\ndivide={self.TOTAL}\n")
        for _ in range(self.COUNT):
            wait_line(path.popen("a", [sys.executable, "-c", TAKER, path.addr["b"]]), lambda line: True)
        self.until_divided(windows)
        self.stop(daemon)
        deadline = time.monotonic() + 2 * WAIT_S
        while sum(windows()) < 1.2 * self.TOTAL:  # half of what the path holds
            self.assertLess(time.monotonic(), deadline)

    def test_a_dry_run(self) -> None:
        path, sender, fd, _ = self.begin(LONG)
        daemon = self.daemon(path, f"[all]\ndivide={SMALL}\n", "--dry-run")
        self.assertIn("its share of divide=0.07 MB among 1", self.line(daemon, "dry run: window of 0.07 MB")[7])
        self.assertEqual(self.ask(sender, "locks"), 0)
        self.stop(daemon)


class Care(DaemonTest):
    def test_a_dry_run_sets_nothing(self) -> None:
        if not shutil.which("strace"):
            self.skipTest("needs strace")
        path, sender, fd, _ = self.begin(LONG, SMALL)
        before = self.ask(sender, "buffer")
        trace = self.folder / "trace"
        daemon = self.daemon(path, "[all]\ncc=reno\npace=80M\n", "--dry-run", prefix=("strace", "-D", "-f", "-y", "-o", str(trace), "-e",
                                                                           "trace=setsockopt,pidfd_getfd"))
        self.line(daemon, "dry run: sets congestion control reno")
        self.line(daemon, "dry run: send: kernel: given back to autotuning")
        self.assertEqual(self.ask(sender, "buffer"), before)
        self.stop(daemon)
        deadline = time.monotonic() + WAIT_S
        while "+++ exited" not in trace.read_text() and time.monotonic() < deadline:
            pass
        calls = trace.read_text()
        borrowed = set(re.findall(r"pidfd_getfd\(.*\) = (\d+)", calls))
        self.assertTrue(borrowed, calls)
        for call in re.findall(r"setsockopt\((\d+)<(.*?)>", calls):  # the others are of sockets of its own
            self.assertNotIn(f"{path.addr['a']}:", call[1], calls)

    def test_a_descriptor_is_held_only_during_a_look(self) -> None:
        """So a FIN leaves when its program closes: the daemon never waits for anything while it has a duplicate."""
        if not shutil.which("strace"):
            self.skipTest("needs strace")
        path, sender, fd, sink = self.begin(LONG, SMALL)
        trace = self.folder / "trace"
        daemon = self.daemon(path, f"store={self.folder}/paths\nlearned={self.folder}/learned.sock\n[all]\nmode=path\n", prefix=(
            "strace", "-D", "-f", "-o", str(trace), "-e", "trace=pidfd_getfd,close,ppoll,poll,select,flock,fsync,fdatasync,nanosleep"))
        self.line(daemon, "given back")
        self.tell(sender, "close")
        wait_line(sink, lambda line: line == "end", WAIT_S)
        self.stop(daemon)
        deadline = time.monotonic() + WAIT_S
        while "+++ exited" not in trace.read_text() and time.monotonic() < deadline:
            pass
        held: set[str] = set()
        looks = 0
        for call, first, result in re.findall(r"^\d+ +(\w+)\((?:\{fd=)?([^,)]*).* = (-?\d+)", trace.read_text(), re.M):
            if call == "pidfd_getfd" and int(result) >= 0:
                held.add(result)
                looks += 1
            elif call == "close":
                held.discard(first)
            elif call != "pidfd_getfd":
                self.assertEqual(held, set(), f"{call} while a descriptor is borrowed")
        self.assertGreater(looks, 0)
        self.assertEqual(held, set())

    def test_processes_of_others(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("needs a second user")
        path, sender, fd, _ = self.begin(LONG, SMALL)
        before = self.ask(sender, "buffer")
        daemon = self.daemon(path, "[all]\n", unprivileged=True)
        own = path.popen("a", [sys.executable, "-c", test_live.SENDER, path.addr["b"], str(SMALL)], stdin=subprocess.PIPE,
                         unprivileged=True)
        self.assertEqual(int(self.line(daemon, "given back")[2]), own.pid)
        self.assertEqual(self.ask(sender, "buffer"), before)
        self.stop(daemon)

    def test_with_the_capabilities_of_its_service(self) -> None:
        """Those of the unit are enough for processes of other users, buffers beyond net.core.wmem_max included."""
        if os.geteuid() != 0:
            self.skipTest("needs root to give them")
        self.core(test_bulk.OLDER_CORE)
        unit = (TOP / "packaging" / "systemd" / "autobufd.service.in").read_text()
        names = re.search("^AmbientCapabilities=(.*)$", unit, re.M)[1].split()
        self.assertEqual(re.search("^CapabilityBoundingSet=(.*)$", unit, re.M)[1].split(), names)
        caps = ",".join(["-all"] + [f"+{name.removeprefix('CAP_').lower()}" for name in names])
        path, sender, fd, _ = self.begin(LONG, SMALL)
        daemon = self.daemon(path, "[all]\n", prefix=(
            "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", f"--bounding-set={caps}", f"--inh-caps={caps}",
            f"--ambient-caps={caps}", "--no-new-privs"))
        self.assertEqual(int(self.line(daemon, "given back")[2]), sender.pid)
        while self.ask(sender, "buffer") <= 4194304:
            pass
        self.stop(daemon)

    def test_usage(self) -> None:
        path = self.path(both="rate=50M,delay=10ms")
        tool = built("tools/autobufd")
        for words, status, said in ((("--no-such",), 2, "--no-such"), (("x",), 2, "it takes options only"), (("--config",), 2, ""),
                                    (("--config", "/no/such/file"), 1, "/no/such/file: No such file"), (("--help",), 0, ""),
                                    (("--version",), 0, "")):
            done = path.run("a", [tool, *words])
            self.assertEqual(done.returncode, status, words)
            self.assertIn(said, done.stderr)
        self.file.write_text("[a]\nmode=fixed\n")
        done = path.run("a", [tool, "--check", "--config", str(self.file)])
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, f"autobufd: {self.file}:1: [a]: mode fixed sets nothing without sndbuf, rcvbuf, cc or pace\n")
        self.file.write_text("[a]\nmode=fixed\nsndbuf=1M\n")
        done = path.run("a", [tool, "--check", "--config", str(self.file)])
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


if __name__ == "__main__":
    sys.exit(run_tests(("ip", "ss", "nsenter", "setpriv", "taskset"), ("examples/bulk", "tools/autobuf", "tools/autobufd")))
