# SPDX-License-Identifier: MIT
"""What the tests of autobufd share: a daemon on an emulated path, and programs that know nothing of it."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import schema
import test_live
from path import Path, PathError, built, wait_line

TOP = pathlib.Path(__file__).resolve().parents[2]
WAIT_S = 20.0
SMALL = 65536
PORT = test_live.PORT
NO_PACE = test_live.NO_PACE
BUF_LOCK = 72
NOBODY = 65534
NAMED = r"autobufd: (\S+)\[(\d+)\]:(\d+) (\S+) -> (\S+): \[(.*?)\] (.*)"
PROGRAMS = ("ip", "ss", "nsenter", "setpriv", "taskset")
BINARIES = ("examples/bulk", "tools/autobuf", "tools/autobufd")
"""What every test of the daemon needs."""

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

setUpModule = test_live.setUpModule


def control_groups() -> str:
    """Where those of version 2 are mounted; "": nowhere."""
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        device, place, kind, *_ = line.split()
        if kind == "cgroup2":
            return place
    return ""


def program(child: subprocess.Popen) -> str:
    return pathlib.Path(f"/proc/{child.pid}/comm").read_text().strip()


class DaemonTest(test_live.Asked):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="autobuf-tests.")))
        os.chmod(self.folder, 0o755)
        self.file = self.folder / "autobufd.conf"

    def write(self, rules: str) -> None:
        """Rules that touch no file of this machine, and leave small sizes to what samples find, unless they say so."""
        off = [f"{name}=off\n" for name in ("state", "store", "learned") if f"{name}=" not in rules]
        off += ["bpf=no\n"] if "bpf=" not in rules else []
        self.file.write_text("".join(off) + rules)

    def daemon(self, path: Path, rules: str, *args: str, prefix: tuple[str, ...] = (), side: str = "a", tool: str = "tools/autobufd",
               **kw) -> subprocess.Popen:
        """A running daemon; its log is its standard output here."""
        self.write(rules)
        for name in (tool, "lib/libautobuf.so.0"):  # who it runs as may not be able to see the build
            if not (self.folder / os.path.basename(name)).exists():  # else another one may be running
                shutil.copy(built(name), self.folder)
        child = path.popen(side, [*prefix, str(self.folder / os.path.basename(tool)), "--config", str(self.file), *args],
                           stderr=subprocess.STDOUT, env=os.environ | {"LD_LIBRARY_PATH": str(self.folder)}, **kw)
        self.said: list[str] = []
        wait_line(child, lambda line: self.said.append(line) or "autobufd: begins with " in line)
        return child

    def line(self, daemon: subprocess.Popen, words: str) -> re.Match:
        """The first line from now on that has these words."""
        said = wait_line(daemon, lambda line: self.said.append(line) or words in line, WAIT_S)
        found = re.fullmatch(NAMED, said)
        self.assertIsNotNone(found, said)
        return found

    def stop(self, daemon: subprocess.Popen) -> None:
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(WAIT_S), 0)

    def everything(self, daemon: subprocess.Popen) -> str:
        """What the last daemon has said, which has ended."""
        with contextlib.suppress(PathError):  # its output ends
            wait_line(daemon, self.said.append)
        return "\n".join(self.said)

    def until(self, what: Callable[[], object], why: str = "") -> None:
        deadline = time.monotonic() + WAIT_S
        while not what():
            self.assertLess(time.monotonic(), deadline, why)

    def locked(self, path: Path, size: int = SMALL) -> subprocess.Popen:
        """Another sender on a path that begin() has made."""
        child = path.popen("a", [sys.executable, "-c", test_live.SENDER, path.addr["b"], str(size)], stdin=subprocess.PIPE)
        wait_line(child, lambda line: True)
        return child

    def listener(self, path: Path) -> tuple[subprocess.Popen, Callable[[], int]]:
        """One in b that has locked its receive buffer, and which sides a connection has locked that it now accepts."""
        child = path.popen("b", [sys.executable, "-c", LISTENER, str(SMALL)])
        wait_line(child, lambda line: line == "listens")

        def locks() -> int:
            path.run("a", [sys.executable, "-c", "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])))",
                           path.addr["b"], str(PORT)])
            return int(wait_line(child, lambda line: True))
        return child, locks


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
