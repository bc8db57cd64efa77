#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""autobufd --undo: every connection and listener is put back as it was, however the daemon ended.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select the tests whose names
contain one of them.
"""
from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from at_once import beside  # noqa: E402
from cases import run_tests, thorough  # noqa: E402
from daemons import (BINARIES, BUF_LOCK, NO_PACE, NOBODY, PORT, PROGRAMS, SMALL, WAIT_S, DaemonTest,  # noqa: E402
                     setUpModule)
from path import Path, built, wait_line  # noqa: E402
from test_bulk import LONG, RMEM, WMEM  # noqa: E402

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

# Takes what is sent, and says the lock, the window clamp and the receive buffer when it is asked.
TAKER = f"""
import socket, sys, threading
l = socket.socket()
l.bind(("", {PORT}))
l.listen()
print("listens", flush=True)
s, _ = l.accept()
def say():
    for _ in sys.stdin:
        print(s.getsockopt(socket.SOL_SOCKET, {BUF_LOCK}), s.getsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP),
              s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF), flush=True)
threading.Thread(target=say, daemon=True).start()
while s.recv(1 << 20):
    pass
"""


@beside
class Undo(DaemonTest):
    """What was set can be put back once the daemon has ended, however it ended."""

    def setUp(self) -> None:
        super().setUp()
        self.state = self.folder / "state"
        self.rules = f"state={self.state}\n[all]\n"

    def undo(self, path: Path, *args: str, side: str = "a") -> subprocess.CompletedProcess:
        return path.run(side, [built("tools/autobufd"), "--undo", "--config", str(self.file), *args])

    def killed_and_undone(self, path: Path, daemon: subprocess.Popen) -> None:
        daemon.kill()
        daemon.wait()
        done = self.undo(path)
        self.assertEqual(done.returncode, 0, done.stderr)

    def kept(self) -> int:
        """Sockets: the file has a line for each, and another one each time that it is paced, or not any more."""
        return len({line.split()[0] for line in self.state.read_text().splitlines()[1:]})

    def pace(self) -> int:
        """Of the newest line: what the program allows of a socket that is paced; 0: it is not."""
        lines = self.state.read_text().splitlines()[1:]
        return int(lines[-1].split()[7]) if lines else 0

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
                self.until(lambda: self.ask(sender, "buffer") >= 4 * before, "its buffer does not grow")
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
        self.assertEqual(self.ask(sender, "bbr"), 0)

    def test_a_pace_that_a_killed_daemon_left(self) -> None:
        """It is none of the program's, and what the program itself has set is not the daemon's."""
        own, fixed = 6_000_000, "mode=fixed\nsndbuf=1400000\n"
        path, sender, _, _ = self.begin("rate=40M,delay=20ms,queue=2M")
        for sets_own in (False, True):
            daemon = self.daemon(path, f"state={self.state}\n[all]\nintent=low-delay\n")
            self.until(self.pace)
            if sets_own:
                self.assertEqual(self.ask(sender, "own"), own)
                self.until(lambda: self.pace() == own)
            self.until(lambda: self.ask(sender, "pace") not in (NO_PACE, own))
            daemon.kill()
            daemon.wait()
            daemon = self.daemon(path, f"{self.rules}{fixed}")
            self.until(lambda: self.ask(sender, "pace") == (own if sets_own else NO_PACE))
            self.until(lambda: not self.pace())
            self.stop(daemon)
        self.assertEqual(self.ask(sender, "pace"), own)

    @thorough
    def test_a_pace_that_its_program_has_changed(self) -> None:
        """What the program set after it was taken up is newer than what is kept of how it was before."""
        own = 6_000_000
        path, sender, _, _ = self.begin("rate=40M,delay=20ms,queue=2M")
        daemon = self.daemon(path, f"state={self.state}\n[all]\nintent=low-delay\n")
        self.until(self.pace)
        self.assertEqual(self.ask(sender, "own"), own)
        self.until(lambda: self.pace() == own)
        self.until(lambda: self.ask(sender, "pace") not in (NO_PACE, own))
        self.killed_and_undone(path, daemon)
        self.assertEqual(self.ask(sender, "pace"), own)

    def test_a_pace_of_a_rule_is_not_the_program_s(self) -> None:
        """Also where the flow of a daemon that was killed had set a lower one."""
        rule = 60_000_000
        path, sender, _, _ = self.begin("rate=40M,delay=20ms,queue=2M")
        daemon = self.daemon(path, f"state={self.state}\n[all]\nintent=low-delay\npace={rule}\n")
        self.until(self.pace)
        self.until(lambda: self.ask(sender, "pace") < rule // 8)
        self.killed_and_undone(path, daemon)
        self.assertEqual(self.ask(sender, "pace"), NO_PACE)

    @thorough
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
        listener, locks = self.listener(path)
        self.assertEqual(locks(), 2)
        daemon = self.daemon(path, self.rules, side="b")
        self.line(daemon, "receive: kernel: given back to autotuning")
        self.stop(daemon)
        self.assertEqual(locks(), 0)
        done = self.undo(path, side="b")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(locks(), 2)

    @thorough
    def test_a_window_that_was_held(self) -> None:
        """By a daemon that ends, and by one that is killed; then by --undo, or the next daemon, which holds it anew."""
        path = self.hosts("rate=20M,delay=20ms,queue=100K", {**WMEM, **RMEM})
        taker = path.popen("b", [sys.executable, "-c", TAKER], stdin=subprocess.PIPE)
        wait_line(taker, lambda line: line == "listens")
        self.locked(path)
        rules = f"{self.rules}intent=scavenger\n"
        is_open = lambda: (seen := self.sizes(taker))[0] == 0 and seen[1] >= seen[2] // 2  # noqa: E731
        is_held = lambda: (seen := self.sizes(taker))[0] == 2 and seen[1] < 150000  # noqa: E731

        daemon = self.daemon(path, rules, side="b")
        self.until(is_held, "no window is held")
        self.stop(daemon)
        self.assertTrue(is_open(), self.sizes(taker))
        for after in ("", self.rules, f"state={self.state}\n[all]\nremote=0.0.0.0/0\nmode=off\n"):
            daemon = self.daemon(path, rules, side="b")
            self.until(is_held, "no window is held")
            daemon.kill()
            daemon.wait()
            self.assertEqual(self.sizes(taker)[0], 2)
            if after:
                daemon = self.daemon(path, after, side="b")
                self.until(is_open, f"it stays held: {after}")
                self.stop(daemon)
            else:
                done = self.undo(path, side="b")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(is_open(), self.sizes(taker))

    def sizes(self, listener: subprocess.Popen, *options: str) -> list[int]:
        """Send buffer, receive buffer and locks of a listener, which its program sets first."""
        self.tell(listener, " ".join(options))
        return [int(word) for word in wait_line(listener, lambda line: True).split()]

    @thorough
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

    @thorough
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

    def sender_to_half(self) -> tuple[Path, subprocess.Popen, Callable[[], None]]:
        """A sender whose peer can close its own side, and that call."""
        path = self.hosts(LONG, {**WMEM, **RMEM})
        peer = path.popen("b", [sys.executable, "-c", HALF], stdin=subprocess.PIPE)
        wait_line(peer, lambda line: line == "listens")

        def close_half() -> None:
            self.tell(peer, "")
            wait_line(peer, lambda line: line == "half")
            self.until(lambda: path.run("a", ["ss", "-tnH", "state", "close-wait"]).stdout, "no FIN comes")
        return path, self.locked(path), close_half

    @thorough
    def test_a_connection_that_was_half_closed_before(self) -> None:
        """As any other, as long as its program sends."""
        path, sender, close_half = self.sender_to_half()
        before = self.ask(sender, "buffer")
        close_half()
        daemon = self.daemon(path, self.rules)
        self.line(daemon, "given back to autotuning")
        deadline = time.monotonic() + WAIT_S
        while self.ask(sender, "buffer") < 4 * before:
            self.assertLess(time.monotonic(), deadline)
        self.stop(daemon)
        self.assertEqual(self.undo(path).returncode, 0)
        self.assertEqual((self.ask(sender, "buffer"), self.ask(sender, "locks")), (before, 1))

    def test_a_connection_that_is_half_closed(self) -> None:
        """Its program goes on sending."""
        path, sender, close_half = self.sender_to_half()
        before = self.ask(sender, "buffer")
        daemon = self.daemon(path, f"state={self.state}\n[all]\nmode=fixed\nsndbuf=1500000\n")
        self.line(daemon, "sets SO_SNDBUF 1500000")
        close_half()
        self.stop(daemon)
        done = self.undo(path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, f"\\[{sender.pid}\\]:.*: put back as it was\n")
        self.assertEqual((self.ask(sender, "buffer"), self.ask(sender, "locks")), (before, 1))

    def test_a_connection_that_its_program_has_half_closed(self) -> None:
        """It receives, and is put back also if another daemon came in between, which drops what is of no use."""
        path, sender, _, _ = self.begin(LONG, SMALL)
        before, rules = self.ask(sender, "buffer"), f"state={self.state}\n[all]\nmode=fixed\nsndbuf=1500000\n"
        daemon = self.daemon(path, rules)
        self.line(daemon, "sets SO_SNDBUF 1500000")
        self.tell(sender, "shut")
        self.until(lambda: path.run("a", ["ss", "-tnH", "state", "fin-wait-2"]).stdout, "no FIN leaves")
        self.stop(daemon)
        with self.state.open("a") as state:
            state.writelines(f"{2 ** 60 + i} 0 100000 100000 0 0 0 -\n" for i in range(70))
        daemon = self.daemon(path, rules)
        self.until(lambda: self.kept() < 70, "nothing is dropped")
        self.stop(daemon)
        self.assertEqual(self.undo(path).returncode, 0)
        self.assertEqual(self.ask(sender, "buffer"), before)

    def test_one_daemon_at_a_time(self) -> None:
        """Also where nobody has named the file."""
        if os.geteuid() != 0:
            self.skipTest("needs root to mount")
        path = self.path(both="rate=50M,delay=10ms")
        self.file.write_text("store=off\nlearned=off\nstatus=off\n[all]\nmode=off\n")
        command = [built("tools/autobufd"), "--config", str(self.file)]
        first = path.popen("a", ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /run && mkdir /run/autobufd && exec "$@"', "sh",
                                 *command], stderr=subprocess.STDOUT)
        wait_line(first, lambda line: "autobufd: begins with " in line)
        second = path.run("a", ["nsenter", f"--mount=/proc/{first.pid}/ns/mnt", f"--root=/proc/{first.pid}/root", *command], timeout=WAIT_S)
        self.assertEqual((second.returncode, second.stderr),
                         (1, "autobufd: /run/autobufd/state: an autobufd is running and has it open\n"))
        self.stop(first)

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

    def test_a_file_of_another_user(self) -> None:
        """Nothing of it is set; of the service's user root takes it, but no size that no rule could force."""
        if os.geteuid() != 0:
            self.skipTest("needs root to give a file away")
        path, sender, _ = self.locked_sender()
        daemon = self.daemon(path, self.rules)
        self.line(daemon, "given back to autotuning")
        self.stop(daemon)
        head, line = self.state.read_text().splitlines()[:2]
        words = line.split()
        self.state.write_text("\n".join((head, " ".join((*words[:2], str(2 ** 31 - 1), *words[3:])), "")))
        os.chown(self.state, NOBODY, NOBODY)
        for args in ((), ("--undo",)):
            done = path.run("a", [built("tools/autobufd"), "--config", str(self.file), *args])
            self.assertEqual((done.returncode, done.stderr),
                             (1, f"autobufd: {self.state}: it or its folder is another user's, or others may write to it\n"))
        self.assertEqual(self.ask(sender, "locks"), 0)
        done = path.run("a", ["unshare", "--mount", "sh", "-c",
                              f'mount -t tmpfs none /run && install -d -o {NOBODY} /run/autobufd && exec "$@"', "sh",
                              built("tools/autobufd"), "--undo", "--config", str(self.file)])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.ask(sender, "locks"), 1)
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
        settable = 2 * int(pathlib.Path("/proc/sys/net/core/wmem_max").read_text())
        self.assertLessEqual(self.ask(sender, "buffer"), max(memory // 64, settable))
        self.assertEqual((self.state.stat().st_uid, self.kept()), (NOBODY, 0))

    def test_a_disk_that_is_full(self) -> None:
        """What cannot be kept is not changed."""
        if os.geteuid() != 0:
            self.skipTest("needs root to mount")
        path, sender, before = self.locked_sender()
        small = self.folder / "small"
        small.mkdir()
        daemon = self.daemon(path, f"state={small}/state\n[none]\nprogram=none\n", prefix=(
            "unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o size=4k,mode=755 none {small} && exec "$@"', "sh"))
        inside = pathlib.Path(f"/proc/{daemon.pid}/root{small}/state")
        with inside.open("a") as file:
            file.write("x" * (4095 - inside.stat().st_size) + "\n")
        self.write(f"state={small}/state\n[all]\n")
        daemon.send_signal(signal.SIGHUP)
        wait_line(daemon, lambda line: "No space left on device: what a socket was like cannot be kept" in line, WAIT_S)
        self.assertEqual((self.ask(sender, "buffer"), self.ask(sender, "locks")), (before, 1))
        self.stop(daemon)


if __name__ == "__main__":
    sys.exit(run_tests(PROGRAMS, BINARIES))
