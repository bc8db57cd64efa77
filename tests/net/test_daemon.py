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
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import test_bulk  # noqa: E402
import test_live  # noqa: E402
from cases import run_tests  # noqa: E402
from path import Path, built, wait_line, wait_listening  # noqa: E402
from test_bulk import CORE, LONG, RMEM, WMEM  # noqa: E402

TOP = pathlib.Path(__file__).resolve().parents[2]
WAIT_S = 20.0
SMALL = 65536
PORT = test_live.PORT
NO_PACE = test_live.NO_PACE
BUF_LOCK = 72
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

setUpModule = test_live.setUpModule


def program(child: subprocess.Popen) -> str:
    return pathlib.Path(f"/proc/{child.pid}/comm").read_text().strip()


class DaemonTest(test_live.Asked):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="autobuf-tests.")))
        os.chmod(self.folder, 0o755)
        self.file = self.folder / "autobufd.conf"

    def daemon(self, path: Path, rules: str, *args: str, prefix: tuple[str, ...] = (), side: str = "a", **kw) -> subprocess.Popen:
        """A running daemon; its log is its standard output here."""
        self.file.write_text(rules if "state=" in rules else f"state=off\n{rules}")
        for name in ("tools/autobufd", "lib/libautobuf.so.0"):  # who it runs as may not be able to see the build
            shutil.copy(built(name), self.folder)
        child = path.popen(side, [*prefix, str(self.folder / "autobufd"), "--config", str(self.file), *args],
                           stderr=subprocess.STDOUT, env=os.environ | {"LD_LIBRARY_PATH": str(self.folder)}, **kw)
        wait_line(child, lambda line: "autobufd: begins with " in line)
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

    def test_what_a_rule_cannot_do_is_said(self) -> None:
        path = self.path(both="rate=50M,delay=10ms")
        self.file.write_text("[one]\nremote=192.0.2.1\nmode=fixed\nsndbuf=1M\n[two]\nmode=fixed\nrcvbuf=1M\n")
        daemon = path.popen("a", [built("tools/autobufd"), "--config", str(self.file)], stderr=subprocess.STDOUT)
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
        self.file.write_text("[all]\n")
        daemon.send_signal(signal.SIGHUP)
        wait_line(daemon, lambda line: "reads the rules again" in line, WAIT_S)
        self.assertEqual(self.line(daemon, "given back")[6], "all")
        self.file.write_text("[other]\ncc=reno\n")
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
        self.file.write_text(f"state={small}/state\n[all]\n")
        daemon.send_signal(signal.SIGHUP)
        wait_line(daemon, lambda line: "No space left on device: what a socket was like cannot be kept" in line, WAIT_S)
        self.assertEqual((self.ask(sender, "buffer"), self.ask(sender, "locks")), (before, 1))
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
