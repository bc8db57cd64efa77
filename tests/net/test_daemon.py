#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""autobufd: the connections of programs that know nothing of it, on emulated paths.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select the tests whose names
contain one of them. The tests check decisions; the benchmarks show rates.
"""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import test_bulk  # noqa: E402
import test_live  # noqa: E402
from aside import Group  # noqa: E402
from at_once import alone, beside  # noqa: E402
from cases import run_tests, thorough  # noqa: E402
from daemons import (BINARIES, CROWD, NOBODY, NO_PACE, PORT, PROGRAMS, SMALL, TOP, WAIT_S, DaemonTest,  # noqa: E402
                     Watched, control_groups, program, setUpModule)
from path import Path, built, of_python, wait_line, wait_listening  # noqa: E402
from test_bulk import CORE, LONG, RMEM, WMEM  # noqa: E402

# Takes all that such a crowd sends.
TAKER = f"""
import socket, sys
s = socket.create_connection((sys.argv[1], {PORT}))
print("connected", flush=True)
while s.recv(1 << 20, socket.MSG_TRUNC):
    pass
"""

# Holds so many connections on loopback, both ends of each.
IDLE = """
import resource, socket, sys
count = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (2 * count + 100,) * 2)
l = socket.create_server(("127.0.0.1", 0))
held = [(socket.create_connection(l.getsockname()), l.accept()) for _ in range(count)]
print("holds them", flush=True)
sys.stdin.read()
"""

# Senders with a small buffer that they have locked, which take turns.
SENDERS = f"""
import itertools, socket, sys
senders = [socket.socket() for _ in range(int(sys.argv[2]))]
for s in senders:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, {SMALL})
    s.connect((sys.argv[1], {PORT}))
print("sends", flush=True)
for s in itertools.cycle(senders):
    s.send(bytes(65536))
"""


# Listens as systemd would, at argv[1], for a program that it becomes.
LISTENING = f"""
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o600)
os.chown(sys.argv[1], {NOBODY}, {NOBODY})
s.listen()
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
print("listens", flush=True)
os.execvp(sys.argv[2], sys.argv[2:])
"""


@beside
class Connections(DaemonTest):
    def test_a_sender_that_locked_its_buffer(self) -> None:
        path, sender, fd, _ = self.begin(LONG, SMALL)
        before = self.ask(sender, "buffer")
        daemon = self.daemon(path, "[everything]\n")
        given = self.line(daemon, "given back to autotuning")
        self.assertEqual((int(given[2]), int(given[3]), given[6]), (sender.pid, fd, "everything"))
        self.assertTrue(given[4].startswith(path.addr["a"] + ":"), given[4])
        self.assertEqual(given[5], f"{path.addr['b']}:{PORT}")
        self.until(lambda: self.ask(sender, "buffer") >= 4 * before, "its buffer does not grow")
        self.stop(daemon)

    def test_sweeps_that_are_far_apart(self) -> None:
        """What was there before, and one that had moved little when it was seen first."""
        path, old, fd, _ = self.begin(LONG, SMALL)
        daemon = self.daemon(path, "interval=1500\n[everything]\n")
        self.assertEqual(int(self.line(daemon, "given back to autotuning")[2]), old.pid)
        self.stop(daemon)

    def test_a_listener_that_locked_its_buffer(self) -> None:
        path = self.hosts("rate=50M,delay=10ms", {**WMEM, **RMEM})
        listener, locks = self.listener(path)
        self.assertEqual(locks(), 2)
        daemon = self.daemon(path, "[all]\n", side="b")
        self.assertEqual(int(self.line(daemon, "receive: kernel: given back to autotuning")[2]), listener.pid)
        self.assertEqual(locks(), 0)
        self.stop(daemon)

    @thorough
    def test_what_the_kernel_reaches_is_left_to_it(self) -> None:
        path, sender, fd, _ = self.begin("rate=50M,delay=10ms")
        daemon = self.daemon(path, "[all]\n")
        other = self.locked(path)
        self.assertEqual(int(self.line(daemon, "given back")[2]), other.pid)  # the first one was seen before
        self.assertLessEqual(self.ask(sender, "buffer"), 4194304)
        self.assertEqual(self.ask(sender, "pace"), NO_PACE)
        self.stop(daemon)
        said = self.everything(daemon)
        self.assertIn(f"[{other.pid}]", said)
        self.assertNotIn(f"[{sender.pid}]", said)

    def test_a_pace_ends_with_the_daemon(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            path, sender, fd, _ = self.begin("rate=50M,delay=25ms,queue=2M")
            daemon = self.daemon(path, "[all]\nintent=low-delay\n")
            self.line(daemon, "pace none ->")
            self.assertLess(self.ask(sender, "pace"), 100e6)
            daemon.send_signal(number)
            self.assertEqual(daemon.wait(WAIT_S), 0)
            self.assertEqual(self.ask(sender, "pace"), NO_PACE)

    def test_the_rules_hold_if_their_file_is_not_there_any_more(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("needs root for a mount")
        path = self.hosts(LONG, {**WMEM, **RMEM})
        self.write("status=off\n[all]\nmode=off\n")
        script = 'mount -t tmpfs none /etc && mkdir /etc/autobuf && cp "$1" /etc/autobuf/autobufd.conf && exec "$2"'
        daemon = path.popen("a", ["unshare", "--mount", "sh", "-c", script, "sh", str(self.file), built("tools/autobufd")],
                            stderr=subprocess.STDOUT)
        wait_line(daemon, lambda line: "autobufd: begins with " in line)
        etc = pathlib.Path(f"/proc/{daemon.pid}/root/etc/autobuf/autobufd.conf")
        rest = etc.read_text()
        etc.unlink()
        daemon.send_signal(signal.SIGHUP)
        wait_line(daemon, lambda line: "the rules stay as they were" in line)
        etc.write_text(rest)
        daemon.send_signal(signal.SIGHUP)
        wait_line(daemon, lambda line: "reads the rules again" in line)
        self.stop(daemon)

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


@beside
class Rules(DaemonTest):
    @thorough
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
                wait_listening(path, "b", test_bulk.PORT, server)
                bulk = path.popen("a", [test_bulk.example("bulk"), "send", "--tune", "naive:65536", "--seconds", "10", path.addr["b"]])
                self.assertEqual(self.line(daemon, "given back")[1], "bulk")  # so it has seen the other one, too
                for child in (bulk, server):
                    child.kill()
                    child.wait()
                self.stop(daemon)
                self.assertEqual(self.ask(sender, "buffer"), before)

    @thorough
    @alone
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

    @alone
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
        self.assertIn("withholds no small sizes of programs: bpf=no", wait_line(daemon, lambda line: True, WAIT_S))
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

    @alone
    def test_a_known_path(self) -> None:
        self.core(CORE)
        path, sender, fd, _ = self.begin(LONG, SMALL)
        store = self.folder / "paths"
        for where in ((), ("--from", path.addr["a"])):
            set_it = path.run("a", [built("tools/autobuf"), "paths", "set", "--store", str(store), "--rate", "400M", "--rtt", "100", *where, path.addr["b"]])
            self.assertEqual(set_it.returncode, 0, set_it.stderr)
            daemon = self.daemon(path, f"store={store}\n[all]\nmode=path\n", prefix=("env", "AUTOBUF_PATHS=off"))
            self.line(daemon, "the path store knows")
            self.stop(daemon)
            sender = self.locked(path)
        daemon = self.daemon(path, "store=off\n[all]\nmode=path\n", prefix=("env", f"AUTOBUF_PATHS={store}"))
        self.line(daemon, "given back")
        self.stop(daemon)
        self.assertNotIn("the path store knows", "".join(map(str, self.said)))

    @thorough
    @alone
    def test_no_size_beyond_max(self) -> None:
        """The path needs a buffer of 9.8 MB."""
        self.core({"net.core.rmem_max": 16777216, "net.core.wmem_max": 16777216})
        path, sender, fd, _ = self.begin(LONG)
        store = self.folder / "paths"
        set_it = path.run("a", [built("tools/autobuf"), "paths", "set", "--store", str(store), "--rate", "400M", "--rtt", "100", path.addr["b"]])
        self.assertEqual(set_it.returncode, 0, set_it.stderr)
        for most in (3_000_000, 0):
            daemon = self.daemon(path, f"store={store}\n[all]\nmode=path\n" + (f"max={most}\n" if most else ""))
            self.line(daemon, "send: capped: SO_SNDBUF 3000000 " if most else "send: set: SO_SNDBUF ")
            if most:
                self.assertEqual(self.ask(sender, "buffer"), 6_000_000)
            else:
                self.assertGreater(self.ask(sender, "buffer"), 6_000_000)
            self.stop(daemon)


class Divide(Watched):
    """A total of window, shared by the connections of a rule."""

    TOTAL = 2000000  # far less than LONG takes, also where this machine is slow
    COUNT = 8

    def crowd(self, what: str) -> Path:
        path = self.hosts(LONG, {**WMEM, **RMEM})
        server = path.popen("b", [sys.executable, "-c", CROWD, what])
        wait_listening(path, "b", PORT, server)
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

    @thorough
    def test_senders(self) -> None:
        path = self.crowd("take")
        senders = [self.locked(path, 0) for _ in range(self.COUNT)]
        if self.ask(senders[0], "locks") != 0:
            self.skipTest("needs SO_BUF_LOCK (Linux 5.15)")
        rules = f"[all]\ndivide={self.TOTAL}\n"
        kept = f"state={self.folder}/state\n{rules}"
        daemon = self.watched(path, kept)
        self.until_divided(lambda: [flow["in_flight_bytes"] for flow in self.flows()["flows"]])
        self.assertEqual({self.ask(sender, "locks") for sender in senders}, {0})
        self.assertNotIn(NO_PACE, [self.ask(sender, "pace") for sender in senders])
        daemon.kill()
        daemon.wait()
        undone = path.run("a", [built("tools/autobufd"), "--undo", "--config", str(self.file)])
        self.assertEqual(undone.returncode, 0, undone.stderr)
        self.assertEqual({self.ask(sender, "locks") for sender in senders}, {0})
        self.assertEqual({self.ask(sender, "pace") for sender in senders}, {NO_PACE})

        def until(what: Callable[[], bool]) -> None:
            deadline = time.monotonic() + 2 * WAIT_S
            while not what():
                self.assertLess(time.monotonic(), deadline)

        for killed in (False, True):
            daemon = self.watched(path, kept if killed else rules)
            until(lambda: NO_PACE not in [self.ask(sender, "pace") for sender in senders])
            if killed:  # the next one knows that the shares it finds are not what the programs chose
                daemon.kill()
                daemon.wait()
                daemon = self.watched(path, kept)
                until(lambda: len(self.flows()["flows"]) == self.COUNT)
                until(lambda: NO_PACE not in [self.ask(sender, "pace") for sender in senders])
            self.stop(daemon)
            self.assertEqual({self.ask(sender, "locks") for sender in senders}, {0})
            self.assertEqual({self.ask(sender, "pace") for sender in senders}, {NO_PACE})

    @thorough
    def test_a_pace_of_the_program(self) -> None:
        """It is the program's, whenever it was set, and no daemon takes it away; one that a killed daemon left goes."""
        own, share = 6_000_000, 200_000  # 6 MB/s over LONG are more than the share
        path = self.crowd("take")
        sender = self.locked(path, 0)
        rules = f"state={self.folder}/state\n[all]\ndivide={share}\n"

        def is_shared() -> bool:
            return self.ask(sender, "pace") < own

        for sets_own in (False, True):
            before = own if sets_own else NO_PACE
            daemon = self.watched(path, rules)
            self.until(is_shared, "no share")
            if sets_own:
                self.assertEqual(self.ask(sender, "own"), own)
                self.until(is_shared, "no share")
                self.until(lambda: f" {own} -\n" in (self.folder / "state").read_text(), "not noted")
            daemon.kill()
            daemon.wait()
            self.assertTrue(is_shared())
            daemon = self.watched(path, f"state={self.folder}/state\n[others]\nremote=192.0.2.1\n")
            self.until(lambda: self.ask(sender, "pace") == before, "what a killed daemon left stays")  # no rule chooses it any more
            self.stop(daemon)
            daemon = self.watched(path, rules)
            self.until(is_shared, "no share")
            self.stop(daemon)
            self.assertEqual(self.ask(sender, "pace"), before)

    def test_a_sender_that_has_locked_too_little(self) -> None:
        path = self.crowd("take")
        sender = self.locked(path)
        if self.ask(sender, "locks") != 1:
            self.skipTest("needs SO_BUF_LOCK (Linux 5.15)")
        before, share = self.ask(sender, "buffer"), 2 * SMALL
        daemon = self.watched(path, f"[all]\ndivide={share}\n")
        self.until(lambda: self.ask(sender, "buffer") == 3 * share, "its buffer stays")  # which anybody may set
        self.stop(daemon)
        self.assertEqual((self.ask(sender, "buffer"), self.ask(sender, "locks")), (before, 1))

    @thorough
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
        self.assertIn("its share of divide=65.5 kB among 1", self.line(daemon, "dry run: window of 65.5 kB")[7])
        self.assertEqual(self.ask(sender, "locks"), 0)
        self.stop(daemon)


class Shares(Watched):
    """No user keeps from others what there is only so much of."""

    @beside
    def test_a_user_with_many_connections(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("needs a second user")
        path = self.hosts(LONG, {**WMEM, **RMEM})
        server = path.popen("b", [sys.executable, "-c", CROWD, "take"])
        wait_listening(path, "b", PORT, server)
        senders = path.popen("a", [sys.executable, "-c", SENDERS, path.addr["b"], "20"], unprivileged=True)
        wait_line(senders, lambda line: line == "sends")
        daemon = self.watched(path, tool="tests/net/autobufd_few")  # of 16 that it can manage
        for _ in range(8):
            self.assertEqual(int(self.line(daemon, "given back to autotuning")[2]), senders.pid)
        wait_line(daemon, lambda line: f"user {NOBODY} has 8 of 16 managed connections, and may have no more" in line, WAIT_S)
        told = self.metrics()
        self.assertEqual((told["autobufd_managed"], told["autobufd_managed_most"]), (8, 16))
        self.assertEqual(told['autobufd_full_users{of="connections"}'], 1)
        other = self.locked(path)
        self.assertEqual(int(self.line(daemon, "given back to autotuning")[2]), other.pid)
        self.assertGreaterEqual(self.metrics()['autobufd_refused_total{reason="full"}'], 1)
        self.stop(daemon)
        self.assertEqual(self.everything(daemon).count("may have no more"), 0)  # it was said already

    @thorough
    def test_a_buffer_is_forced_beside_many_connections(self) -> None:
        """The library itself could not count what they all have."""
        self.core(test_bulk.OLDER_CORE)
        path, sender, fd, _ = self.begin(LONG, SMALL)
        idle = path.popen("a", [sys.executable, "-c", IDLE, "8000"], stdin=subprocess.PIPE)
        wait_line(idle, lambda line: line == "holds them", WAIT_S)
        daemon = self.watched(path)
        self.until(lambda: self.ask(sender, "buffer") > 4194304, "its buffer does not grow beyond tcp_wmem")
        self.until(lambda: self.metrics()["autobufd_forced_bytes"] > 4194304, "the sweeps do not count it")
        self.assertGreater(self.metrics()["autobufd_sockets"], 16000)
        self.stop(daemon)


@beside
class Care(DaemonTest):
    def test_a_dry_run_sets_nothing(self) -> None:
        if not shutil.which("strace"):
            self.skipTest("needs strace")
        path, sender, fd, _ = self.begin(LONG, SMALL)

        def state() -> list[int]:
            return [self.ask(sender, word) for word in ("buffer", "locks", "pace", "reno")]

        def options_set(*args: str) -> tuple[list[str], list[int]]:
            """Of the sender's connection, by a daemon that is traced, and its state then. The others are of sockets of its own."""
            trace = self.folder / f"trace{''.join(args)}"
            daemon = self.daemon(path, "[all]\ncc=reno\npace=80M\n", *args, prefix=(
                "strace", "-D", "-f", "-yy", "-o", str(trace), "-e", "trace=setsockopt,pidfd_getfd"))
            dry = "dry run: " if args else ""
            self.line(daemon, f"] {dry}sets congestion control reno")
            self.line(daemon, f"] {dry}send: kernel: given back to autotuning")
            now = state()
            self.stop(daemon)
            self.until(lambda: "+++ exited" in trace.read_text(), "strace does not end")
            self.assertRegex(trace.read_text(), r"pidfd_getfd\(.*\) = \d+")
            return re.findall(rf"setsockopt\(\d+<TCP:\[{re.escape(path.addr['a'])}:\d+->.*?\]>, \w+, (\w+)", trace.read_text()), now

        before = state()
        self.assertEqual(options_set("--dry-run"), ([], before))
        options, after = options_set()
        self.assertLessEqual({"TCP_CONGESTION", "SO_MAX_PACING_RATE"}, set(options))
        self.assertEqual(after[1:], [0, 10_000_000, 1])

    def test_off(self) -> None:
        """It looks, and touches nothing."""
        if not shutil.which("strace"):
            self.skipTest("needs strace")
        path, sender, fd, _ = self.begin(LONG, SMALL)
        before = [self.ask(sender, word) for word in ("buffer", "locks", "pace", "reno")]
        trace = self.folder / "trace"
        daemon = self.daemon(path, "[all]\ncc=reno\npace=80M\n", prefix=(
            "strace", "-D", "-ff", "-o", str(trace), "-e", "trace=pidfd_getfd,sendto", "env", "AUTOBUF=off"))
        self.assertIn("autobufd: withholds no small sizes of programs: AUTOBUF=off in its environment", self.said)
        self.assertIn("leaves all alone: AUTOBUF=off", self.said[-1])
        trace = pathlib.Path(f"{trace}.{daemon.pid}")  # its broker has one of its own
        self.until(lambda: trace.read_text().count("sendto(") > 20, "it sweeps no more")  # two for each
        self.stop(daemon)
        self.until(lambda: "+++ exited" in trace.read_text(), "strace does not end")
        self.assertNotIn("pidfd_getfd", trace.read_text())
        self.assertEqual([self.ask(sender, word) for word in ("buffer", "locks", "pace", "reno")], before)

    def test_a_sweep_that_finds_no_memory(self) -> None:
        if not shutil.which("strace"):
            self.skipTest("needs strace")
        path, sender, fd, _ = self.begin(LONG, SMALL)
        daemon = self.daemon(path, "[all]\n", prefix=("strace", "-D", "-f", "-o", "/dev/null", "-e", "trace=recvfrom",
                                                      "-e", "inject=recvfrom:error=ENOMEM:when=1..9"))
        self.assertEqual(int(self.line(daemon, "given back")[2]), sender.pid)
        self.stop(daemon)
        self.assertEqual(self.everything(daemon).count("sockets cannot be listed: Cannot allocate memory"), 1)

    def test_its_service_is_not_given_up(self) -> None:
        """systemd starts nothing a sixth time within ten seconds."""
        unit = (TOP / "packaging" / "systemd" / "autobufd.service.in").read_text()
        self.assertGreater(5 * int(re.search("^RestartSec=(.*)$", unit, re.M)[1]), 10)

    def test_a_descriptor_is_held_only_during_a_look(self) -> None:
        """So a FIN leaves when its program closes: the daemon never waits for anything while it has a duplicate."""
        if not shutil.which("strace"):
            self.skipTest("needs strace")
        path, sender, fd, sink = self.begin(LONG, SMALL)
        trace = self.folder / "trace"
        daemon = self.daemon(path, f"store={self.folder}/paths\nlearned={self.folder}/learned.sock\n[all]\nmode=path\n", prefix=(
            "strace", "-D", "-ff", "-o", str(trace), "-e", "trace=pidfd_getfd,close,ppoll,poll,select,flock,fsync,fdatasync,nanosleep"))
        trace = pathlib.Path(f"{trace}.{daemon.pid}")  # its broker has one of its own
        self.line(daemon, "given back")
        self.tell(sender, "close")
        wait_line(sink, lambda line: line == "end", WAIT_S)
        self.stop(daemon)
        deadline = time.monotonic() + WAIT_S
        while "+++ exited" not in trace.read_text() and time.monotonic() < deadline:
            pass
        held: set[str] = set()
        looks = 0
        for call, first, result in re.findall(r"^(\w+)\((?:\{fd=)?([^,)]*).* = (-?\d+)", trace.read_text(), re.M):
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

    def status(self, pid: int | str, key: str) -> str:
        return re.search(rf"^{key}:\s*(.*)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1]

    def unit(self, name: str, key: str) -> list[str]:
        return re.search(f"^{key}=(.*)$", (TOP / "packaging" / "systemd" / name).read_text(), re.M)[1].split()

    def as_a_service(self, names: list[str]) -> tuple[str, ...]:
        """What runs a program with these capabilities."""
        caps = ",".join(["-all"] + [f"+{name.removeprefix('CAP_').lower()}" for name in names])
        return ("setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", f"--bounding-set={caps}",
                f"--inh-caps={caps}", f"--ambient-caps={caps}", "--no-new-privs")

    def brokers(self) -> list[str]:
        """What the broker's unit has."""
        names = self.unit("autobufd-broker.service.in", "AmbientCapabilities")
        self.assertEqual(self.unit("autobufd-broker.service.in", "CapabilityBoundingSet"), names)
        return names

    def mends(self, daemon: subprocess.Popen, sender: subprocess.Popen) -> None:
        """Of another user, also beyond net.core.wmem_max. The daemon has no capability, and its filter."""
        self.assertEqual(int(self.line(daemon, "given back")[2]), sender.pid)
        self.until(lambda: self.ask(sender, "buffer") > 4194304, "its buffer does not grow beyond tcp_wmem")
        for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            self.assertEqual(int(self.status(daemon.pid, kind), 16), 0, kind)
        self.assertEqual(self.status(daemon.pid, "Seccomp"), "2")

    def without_broker(self, daemon: subprocess.Popen, broker: int) -> None:
        self.assertEqual(int(self.status(broker, "CapPrm"), 16), 1 << 2 | 1 << 12 | 1 << 19)  # DAC_READ_SEARCH, NET_ADMIN, SYS_PTRACE
        self.assertEqual(self.status(broker, "Seccomp"), "2")
        os.kill(broker, signal.SIGKILL)
        self.assertEqual(daemon.wait(WAIT_S), 1)
        self.assertIn("its broker has ended", self.everything(daemon))

    @alone
    def test_with_capabilities_and_a_broker_of_its_own(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("needs root to give them")
        self.core(test_bulk.OLDER_CORE)
        path, sender, fd, _ = self.begin(LONG, SMALL)
        daemon = self.daemon(path, "[all]\n", prefix=self.as_a_service(self.brokers()))
        self.mends(daemon, sender)
        broker, = pathlib.Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()
        self.without_broker(daemon, int(broker))

    def as_units(self, path: Path) -> tuple[Callable[..., subprocess.Popen], str, tuple[str, ...]]:
        """Starts a broker as its socket does, where that is, and what starts a daemon in its unit."""
        if os.geteuid() != 0 or not control_groups():
            self.skipTest("needs root to give capabilities, and control groups of version 2")
        unit = pathlib.Path(control_groups()) / f"autobuf-tests-{os.getpid()}.service"
        self.addCleanup(Group(unit).close)
        there = str(self.folder / "broker.sock")
        shutil.copy(built("tools/autobufd"), self.folder)
        shutil.copy(built("lib/libautobuf.so.0"), self.folder)

        def broker(*prefix: str) -> subprocess.Popen:
            child = path.popen("a", [sys.executable, "-c", LISTENING, there, *prefix, *self.as_a_service(self.brokers()),
                                     str(self.folder / "autobufd"), "--broker-of", unit.name],
                               stderr=subprocess.STDOUT, env=os.environ | {"LD_LIBRARY_PATH": str(self.folder)})
            wait_line(child, lambda line: line == "listens")
            return child

        self.assertEqual(self.unit("autobufd.service.in", "CapabilityBoundingSet"), [])
        return broker, there, ("sh", "-c", f'echo $$ >{unit}/cgroup.procs && exec "$@"', "sh", *self.as_a_service([]))

    @alone
    def test_as_its_two_units(self) -> None:
        self.core(test_bulk.OLDER_CORE)
        path, sender, fd, _ = self.begin(LONG, SMALL)
        begin, there, prefix = self.as_units(path)
        broker = begin()
        daemon = self.daemon(path, "[all]\n", "--broker", there, prefix=prefix)
        self.mends(daemon, sender)
        self.assertEqual(int(self.status(daemon.pid, "CapBnd"), 16), 0)
        self.assertEqual(pathlib.Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text(), "")
        seen = path.run("a", [*self.as_a_service([]), "ls", f"/proc/{daemon.pid}/fd"])
        self.assertIn("Permission denied", seen.stderr)  # by another process of its user
        self.stop(daemon)
        self.assertEqual(broker.wait(WAIT_S), 0)
        os.unlink(there)
        broker = begin()
        daemon = self.daemon(path, "[all]\n", "--broker", there, prefix=prefix)
        self.without_broker(daemon, broker.pid)

    def test_a_broker_serves_only_its_unit(self) -> None:
        path = self.path(both="rate=50M,delay=10ms")
        begin, there, prefix = self.as_units(path)
        broker = begin()
        self.write("[all]\n")
        daemon = path.popen("a", [*self.as_a_service([]), str(self.folder / "autobufd"), "--config", str(self.file), "--broker", there],
                            stderr=subprocess.STDOUT, env=os.environ | {"LD_LIBRARY_PATH": str(self.folder)})
        self.assertIn(f"{there}: the broker does not serve it", daemon.communicate(timeout=WAIT_S)[0])
        self.assertEqual((daemon.returncode, broker.wait(WAIT_S)), (1, 1))

    def allowed(self, unit: str) -> set[str]:
        """The system calls for which systemd does not kill."""
        said = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter"], capture_output=True, text=True, check=True).stdout
        groups = {name: re.findall(r"^ +([@\w-]+)$", words, re.M) for name, words in re.findall(r"^(@[\w-]+)\n((?: .*\n?)+)", said, re.M)}

        def calls(words: list[str]) -> set[str]:
            return {call for word in words for call in (calls(groups[word]) if word in groups else {word})}

        found = calls(["@default"])
        for words in re.findall("^SystemCallFilter=(.*)$", (TOP / "packaging" / "systemd" / unit).read_text(), re.M):
            found = found - calls(words[1:].split()) if words.startswith("~") else found | calls(words.split())
        return found

    def calls(self, trace: str) -> set[str]:
        """Those of the program that the first one became."""
        self.until(lambda: "+++ exited" in pathlib.Path(trace).read_text(), "strace does not end")
        return set(re.findall(r"^(\w+)\(", re.split(r'execve\("\S*/autobufd"', pathlib.Path(trace).read_text())[1], re.M))

    def test_system_calls_of_its_units(self) -> None:
        if not shutil.which("strace") or not shutil.which("systemd-analyze"):
            self.skipTest("needs strace and systemd-analyze")
        path, sender, fd, _ = self.begin(LONG, SMALL)
        begin, there, prefix = self.as_units(path)
        own = self.folder / "own"
        own.mkdir()
        os.chown(own, NOBODY, NOBODY)
        traces = str(self.folder / "broker"), str(self.folder / "daemon")
        broker = begin("strace", "-D", "-ff", "-o", traces[0])
        daemon = self.daemon(path, f"state={own}/state\nstore={own}/paths\nlearned={own}/learned.sock\nstatus={own}/status.sock\n"
                             "bpf=yes\n[all]\nmode=fixed\nsndbuf=5M\ncc=reno\n", "--broker", there,
                             prefix=(*prefix[:4], "strace", "-D", "-ff", "-o", traces[1], *prefix[4:]))
        self.line(daemon, "sets SO_SNDBUFFORCE 5000000")
        withholds = "autobufd: withholds small sizes of programs" in self.said
        daemon.send_signal(signal.SIGHUP)
        wait_line(daemon, lambda line: "reads the rules again" in line)
        self.stop(daemon)
        self.assertEqual(broker.wait(WAIT_S), 0)
        lends, asks = (self.calls(f"{trace}.{child.pid}") for trace, child in zip(traces, (broker, daemon)))
        self.assertIn("process_vm_readv", lends)
        self.assertEqual("bpf" in lends, withholds)
        self.assertIn("pidfd_getfd", asks)
        self.assertEqual((lends - self.allowed("autobufd-broker.service.in"), asks - self.allowed("autobufd.service.in")), (set(), set()))

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

    def test_rules_of_wad(self) -> None:
        """What they become can be used at once."""
        path = self.path(both="rate=50M,delay=10ms")
        tool, wad = built("tools/autobufd"), self.folder / "wad.conf"
        wad.write_text("[n]\ndst_addr: 131.243.2.93\nmode: 1\nsndbuf: 4000000\nwadai: 6\n")
        done = path.run("a", [tool, "--import-wad", str(wad)], env=of_python())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith("[n]\nremote=131.243.2.93\nmode=fixed\nsndbuf=4000000\n"), done.stdout)
        self.file.write_text(done.stdout)
        done = path.run("a", [tool, "--check", "--config", str(self.file)])
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        wad.write_text("[n]\nnonsense: 3\n")
        for file, said in ((wad, f"{wad}:2: nonsense: WAD has no such setting"), ("/no/such", "/no/such: No such file")):
            done = path.run("a", [tool, "--import-wad", str(file)], env=of_python())
            self.assertEqual(done.returncode, 1)
            self.assertIn(said, done.stderr)
        done = path.run("a", ["env", f"PATH={self.folder}", tool, "--import-wad", str(wad)])
        self.assertEqual((done.returncode, done.stderr), (
            1, "autobufd: autobuf-import-wad: No such file or directory: "
            "the Python package has it (python3-autobuf, or python/ of the sources, in PATH)\n"))


if __name__ == "__main__":
    sys.exit(run_tests(PROGRAMS, BINARIES))
