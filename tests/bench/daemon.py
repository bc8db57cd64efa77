# SPDX-License-Identifier: MIT
"""autobufd: what it is worth to programs that lock their buffers, what it costs, and whether a connection's end waits.

Transfers run in turn on an emulated path of 400 Mbit/s x 40 ms, cubic, Linux 6.18's limits, with and without the daemon; of
several runs the medians. Sockets are connections over loopback in a network namespace of their own, two of them each. A
daemon touches no file of this machine, and is asked at the end of each run whether it has managed what was measured.
"""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import path
import report
from transfer import LIMITS

SECONDS = 6.0
TIMES, QUICK_TIMES = 5, 1
LIMITED = LIMITS["6.18"]
PATIENCE_S = 20.0
ENDS, QUICK_ENDS = 200, 30
SOCKETS = {1000: 0.5, 16000: 1.0, 64000: 2.0}  # and the seconds within which a sender is to be mended beside them
CROWD_MOST = 8000  # connections of one process
SENDERS, QUICK_SENDERS = 10, 3
WATCHED_S = 10.0
INTERVAL_MS = 100
SO_SNDBUFFORCE = 32
GIVEN_BACK = 'actions_total{kind="given_back"}'
SWEEPS_CPU = 'cpu_seconds_total{part="sweeps"}'
PORT = 7700
PATH = "rate=400M,delay=20ms,queue=4M"
SHARED_PATH = "rate=400M,delay=50ms,queue=10M"
SHARED_BYTES = 4_000_000  # of 5 MB that the path holds
SHARERS = 8
WITHHOLDS = "bpf=yes\n[all]\n"
SHARED_S, SHARED_FROM_S = 20.0, 5.0

# Prints when it begins to send. argv: address, buffer to lock or 0, seconds, and the option, if it is not SO_SNDBUF.
SENDER = """
import socket, sys, time
s = socket.socket()
if int(sys.argv[2]):
    s.setsockopt(socket.SOL_SOCKET, *map(int, sys.argv[4:] or [socket.SO_SNDBUF]), int(sys.argv[2]))
s.connect((sys.argv[1], 7700))
print(time.monotonic(), flush=True)
end, data = time.monotonic() + float(sys.argv[3]), bytes(131072)
while time.monotonic() < end:
    s.sendall(data)
s.close()
"""
# One that waits until there is room. argv: address, seconds.
POLLER = """
import select, socket, sys, time
s = socket.create_connection((sys.argv[1], 7700))
end, data = time.monotonic() + float(sys.argv[2]), bytes(131072)
while time.monotonic() < end:
    select.select([], [s], [])
    s.send(data, socket.MSG_DONTWAIT)
"""
# Counts what arrives in each connection, second by second from the second one on: argv: buffer to lock or 0.
RECEIVER = """
import socket, sys, time
l = socket.socket()
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if int(sys.argv[1]):
    l.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(sys.argv[1]))
l.bind(("", 7700))
l.listen(64)
print("listens", flush=True)
while True:
    s, _ = l.accept()
    began, before, count, buffer = time.monotonic(), 0, 0, bytearray(1 << 20)
    last = began
    while got := s.recv_into(buffer):
        last = time.monotonic()
        if last - began < 1:
            before += got
        else:
            count += got
    print(count * 8 / max(last - began - 1, 1e-3), flush=True)
"""
# One connection after another, each with enough data to be managed; prints when it was closed.
CLOSER = """
import socket, sys, time
for _ in range(int(sys.argv[2])):
    s = socket.create_connection((sys.argv[1], 7700))
    end, data = time.monotonic() + 0.4, bytes(65536)
    while time.monotonic() < end:
        s.sendall(data)
    s.recv(1)
    print(time.monotonic(), flush=True)
    s.close()
    sys.stdin.readline()
"""
# Takes what comes, says when there is nothing more for now, and prints when the end came.
ENDS_HERE = """
import select, socket, time
l = socket.create_server(("", 7700))
print("listens", flush=True)
while True:
    s, _ = l.accept()
    while True:
        if select.select([s], [], [], 0.3)[0]:
            if not s.recv(1 << 20):
                break
        else:
            s.send(b"x")
            s.recv(1)
            break
    print(time.monotonic(), flush=True)
    s.close()
"""
# Takes from any number of connections at once.
TAKES = """
import socket, threading
def take(s):
    while s.recv(1 << 20, socket.MSG_TRUNC):
        pass
l = socket.create_server(("", 7700), backlog=64)
print("listens", flush=True)
while True:
    threading.Thread(target=take, args=(l.accept()[0],), daemon=True).start()
"""
# argv: how many connections. Every one moves a little, so none is empty.
CROWD = """
import resource, socket, sys
count = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
l = socket.create_server(("127.0.0.1", 0), backlog=4096)
kept = []
for _ in range(count):
    a = socket.create_connection(l.getsockname())
    b, _ = l.accept()
    kept += [a, b]
print("there", flush=True)
sys.stdin.readline()
"""


def calls() -> list[list[str]]:
    """What programs' calls cost: without a daemon, beside one that leaves their sizes alone, and one that withholds them."""
    rows = []
    for name, rules in (("no daemon", ""), ("sizes left alone", "bpf=yes\n[none]\nuser=4000000000\n"), ("sizes withheld", WITHHOLDS)):
        with path.Path(both=PATH) as p, contextlib.ExitStack() as stack:
            if rules:
                stack.enter_context(daemon(p, "a", rules))
            costs = [json.loads(p.run("a", [path.built("tests/bench/sockopt_cost")], check=True).stdout) for _ in range(5)]
        rows.append([name, *(f"{statistics.median(each[key] for each in costs):.0f}" for key in ("set_ns", "get_ns"))])
    return rows


class Daemon:
    """One that runs in a side of a path. What it says goes to a file, so that it never waits for a reader."""

    def __init__(self, emulated: path.Path, side: str, folder: pathlib.Path, rules: str) -> None:
        self.log, self.status = folder / "log", folder / "status"
        config = folder / "conf"
        bpf = "" if "bpf=" in rules else "bpf=no\n"
        config.write_text(f"state=off\nstore=off\nlearned=off\nstatus={self.status}\n{bpf}{rules}")
        with self.log.open("w") as log:
            self.process = emulated.popen(side, [path.built("tools/autobufd"), "--config", str(config)], stdout=log, stderr=log)
        self.until(self.answers)

    @property
    def pid(self) -> int:
        return self.process.pid

    def lives(self) -> None:
        if self.process.poll() is not None:
            raise RuntimeError(f"autobufd has ended with {self.process.returncode}: {self.log.read_text()[-500:]}")

    def until(self, what: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not what():
            self.lives()
            if time.monotonic() > deadline:
                raise RuntimeError(f"autobufd said no more than: {self.log.read_text()[-500:]}")
            time.sleep(0.01)

    def answers(self) -> bool:
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            return bool(self.metrics())
        return False

    def metrics(self) -> dict[str, float]:
        """Its counters, without autobufd_ before their names."""
        answer = b""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE_S)
            client.connect(str(self.status))
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            while part := client.recv(65536):
                answer += part
        return {name: float(value) for name, value in re.findall(r"^autobufd_([^#\s]+) (\S+)$", answer.decode("ascii"), re.M)}

    def has(self, what: str, least: int) -> int:
        """One of its counters, which is to be so much: else it has not done what is measured."""
        self.lives()
        if (count := int(self.metrics()[what])) < least:
            raise RuntimeError(f"autobufd: {what} is {count}, not {least}: {self.log.read_text()[-500:]}")
        return count


@contextlib.contextmanager
def daemon(emulated: path.Path, side: str, rules: str = "[all]\n") -> Iterator[Daemon]:
    """A daemon in a side of a path; fails if it does not live to the end."""
    with tempfile.TemporaryDirectory(prefix="autobuf-bench.") as folder:
        running = Daemon(emulated, side, pathlib.Path(folder), rules)
        try:
            yield running
            running.lives()
        finally:
            running.process.terminate()
            running.process.wait()


def rate(locked_send: int, locked_receive: int, side: str, rules: str = "[all]\n") -> float:
    """Mbit/s from the second second on; side: where a daemon runs, "" for nowhere."""
    with path.Path(both=PATH) as p, contextlib.ExitStack() as stack:
        LIMITED.of_ends(p)
        for end in "ab":
            p.route(end, congctl="cubic")
        if side and rules == WITHHOLDS:
            stack.enter_context(daemon(p, side, rules)).has("withheld_sizes_total", 0)
        receiver = p.popen("b", [sys.executable, "-c", RECEIVER, str(locked_receive)])
        path.wait_line(receiver, lambda line: line == "listens")
        if side and rules != WITHHOLDS:
            running = stack.enter_context(daemon(p, side))
            if locked_receive:
                running.until(lambda: running.metrics()[GIVEN_BACK])  # the listener's
        p.run("a", [sys.executable, "-c", SENDER, p.addr["b"], str(locked_send), str(SECONDS)], check=True)
        if side and rules != WITHHOLDS:
            running.has("managed_total", 1)
        return float(path.wait_line(receiver, lambda line: True)) / 1e6


def rates(times: int) -> list[list[str]]:
    rows = []
    for name, sends, receives, side, rules in (
            ("sets nothing", 0, 0, "a", "[all]\n"), ("sender sets 64 KB", 65536, 0, "a", "[all]\n"),
            ("listener sets 64 KB", 0, 65536, "b", "[all]\n"), ("sender's 64 KB are withheld", 65536, 0, "a", WITHHOLDS),
            ("listener's 64 KB are withheld", 0, 65536, "b", WITHHOLDS)):
        alone, under, free = [], [], []
        for _ in range(times):
            alone.append(rate(sends, receives, ""))
            under.append(rate(sends, receives, side, rules))
            free.append(rate(0, 0, ""))
        a, u, f = (statistics.median(values) for values in (alone, under, free))
        rows.append([name, f"{a:.1f}", f"{u:.1f}", f"{u / a:.2f}", f"{f:.1f}", f"{u / f:.3f}"])
        print(rows[-1], flush=True)
    return rows


def ends(count: int, with_daemon: bool) -> tuple[list[float], int]:
    """Milliseconds from a close() to the end at the peer, less half an RTT; and how many connections were managed."""
    with path.Path(both="rate=100M,delay=10ms,queue=1M") as p, contextlib.ExitStack() as stack:
        for end in "ab":
            p.route(end, congctl="cubic")
        receiver = p.popen("b", [sys.executable, "-c", ENDS_HERE])
        path.wait_line(receiver, lambda line: line == "listens")
        running = stack.enter_context(daemon(p, "a", "interval=10\n[all]\n")) if with_daemon else None
        sender = p.popen("a", [sys.executable, "-c", CLOSER, p.addr["b"], str(count)], stdin=subprocess.PIPE)
        took = []
        for _ in range(count):
            closed = float(path.wait_line(sender, lambda line: True, 30))
            ended = float(path.wait_line(receiver, lambda line: True, 30))
            took.append((ended - closed) * 1000 - 10)
            sender.stdin.write("\n")
            sender.stdin.flush()
        return took, running.has("managed_total", 1) if running else 0


def in_flight(p: path.Path) -> list[int]:
    listed = p.run("a", ["ss", "-tinH", "state", "established", f"dport = {PORT}"]).stdout
    flights = re.findall(r" mss:(\d+).*?(?: unacked:(\d+)|$)", listed, re.M)
    return [int(segment) * int(count or 0) for segment, count in flights]


def divided(side: str, total: int, blocks: bool) -> list[str]:
    """What many connections have in flight together while a daemon at their senders, or at their receivers, divides that."""
    with path.Path(both=SHARED_PATH) as p, contextlib.ExitStack() as stack:
        LIMITED.of_ends(p)
        for end in "ab":
            p.route(end, congctl="cubic")
        receiver = p.popen("b", [sys.executable, "-c", TAKES])
        path.wait_line(receiver, lambda line: line == "listens")
        running = stack.enter_context(daemon(p, side, f"[all]\ndivide={total}\n")) if side else None
        for _ in range(SHARERS):
            argv = [SENDER, p.addr["b"], "0"] if blocks else [POLLER, p.addr["b"]]
            p.popen("a", [sys.executable, "-c", *argv, str(SHARED_S + 10)])
        began, samples = time.monotonic(), []
        while (now := time.monotonic() - began) < SHARED_S:
            if now >= SHARED_FROM_S:
                samples.append(in_flight(p))
            time.sleep(0.05)
        if running:
            running.has("managed", SHARERS)
    samples = [each for each in samples if len(each) == SHARERS]
    sums = [sum(each) / total for each in samples]
    means = [statistics.mean(each) for each in zip(*samples, strict=True)]
    jains = [jain(each) for each in samples if sum(each)]
    return [f"{statistics.median(sums):.3f}", f"{report.quantile(sums, 0.05):.3f} to {report.quantile(sums, 0.95):.3f}",
            f"{statistics.median(jains):.3f}", f"{report.quantile(jains, 0.05):.3f}", f"{jain(means):.3f}"]


def jain(values: list[float]) -> float:
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


def cost(pid: int) -> tuple[float, float]:
    """Seconds of processor, and megabytes resident."""
    fields = pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return int(fields[0]) / 1e9, resident / 1000


def crowd(p: path.Path, sockets: int) -> None:
    """So many idle sockets over loopback."""
    p.run("a", ["ip", "link", "set", "lo", "up"])
    for first in range(0, sockets // 2, CROWD_MOST):
        count = min(CROWD_MOST, sockets // 2 - first)
        many = p.popen("a", [sys.executable, "-c", CROWD, str(count)], stdin=subprocess.PIPE)
        path.wait_line(many, lambda line: line == "there", 60)


def mended(p: path.Path, log: pathlib.Path, sender: subprocess.Popen, since: float) -> float:
    """Seconds from then on until the log says that its buffer was given back."""
    deadline = time.monotonic() + PATIENCE_S
    while not re.search(rf"\[{sender.pid}\]:.*given back", log.read_text()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"a sender is not mended within {PATIENCE_S} s: {log.read_text()[-500:]}")
        time.sleep(0.005)
    took = time.monotonic() - since
    sender.kill()
    sender.wait()
    return took


def sender(p: path.Path) -> tuple[subprocess.Popen, float]:
    """One that has locked 64 KB, by an option that nobody withholds, and when it began."""
    child = p.popen("a", [sys.executable, "-c", SENDER, p.addr["b"], "65536", "600", str(SO_SNDBUFFORCE)])
    return child, float(path.wait_line(child, lambda line: True, 30))


def among(sockets: int, senders: int, told: bool) -> list[str]:
    """What a daemon costs beside so many idle sockets at interval=100: one sweep, how often it sweeps in truth, and all of it; and
    how long a locked sender waits that was there before it, and others that come later. told: the kernel tells of those.
    However short the interval, sweeps take no more than a fortieth of a core (tools/daemon/managed.c): what many sockets cost is that
    it sweeps less often, and half as often while nothing moves. The senders come further apart than two sweeps."""
    with path.Path(both="rate=100M,delay=10ms") as p:
        LIMITED.of_ends(p)
        crowd(p, sockets)
        taker = p.popen("b", [sys.executable, "-c", TAKES])
        path.wait_line(taker, lambda line: line == "listens")
        old, _ = sender(p)
        began = time.monotonic()
        with daemon(p, "a", f"interval={INTERVAL_MS}\nbpf={'yes' if told else 'no'}\n[all]\n") as running:
            waited_old, waited = mended(p, running.log, old, began), []
            time.sleep(2)
            asked = running.metrics()
            before, began = cost(running.pid)[0], time.monotonic()
            time.sleep(WATCHED_S)
            (after, resident), took = cost(running.pid), time.monotonic() - began
            now = running.metrics()
            running.has("sockets", sockets)
            sweeps = now["sweeps_total"] - asked["sweeps_total"]
            between_s = took / max(sweeps, 1)
            for i in range(senders):  # at any moment between two sweeps
                time.sleep(between_s * (1 + i / senders))
                waited.append(mended(p, running.log, *sender(p)))
        sweep_s = now[SWEEPS_CPU] / now["sweeps_total"]
        return [f"{sockets:,}", "the kernel" if told else "sweeps", f"{sweep_s * 1000:.1f}", f"{between_s * 1000:.0f}", f"{100 * (after - before) / took:.2f}%",
                f"{resident:.1f}", f"{waited_old:.2f}", f"{statistics.median(waited):.2f}", f"{max(waited):.2f}", f"{SOCKETS[sockets]}"]


def run(quick: bool, out: pathlib.Path) -> None:
    os.environ["LD_LIBRARY_PATH"] = path.built("lib")
    with LIMITED.of_machine():
        text = report.machine() + ", Linux 6.18's limits\n\n"
        text += report.table(["program", "alone, Mbit/s", "with autobufd", "/ alone", "one that sets nothing", "/ that"],
                             rates(QUICK_TIMES if quick else TIMES)) + "\n"
        text += report.table(["SO_SNDBUF", "setsockopt(), ns", "getsockopt(), ns"], calls()) + "\n"
        rows = []
        for with_daemon in (False, True):
            took, managed = ends(QUICK_ENDS if quick else ENDS, with_daemon)
            rows.append(["with autobufd" if with_daemon else "without", len(took), managed,
                         *(f"{report.quantile(took, q):.2f}" for q in (0.5, 0.99, 1))])
        text += report.table(["", "connections", "managed", "median, ms", "99%", "most"], rows) + "\n"
        text += report.table(["divides", "sum of windows / total", "5% to 95%", "Jain's index", "5%", "of the means"],
                             [[name, *divided(side, SHARED_BYTES, blocks)]
                              for name, side, blocks in (("nobody", "", False), ("at senders that poll", "a", False),
                                                         ("at senders whose writes block", "a", True),
                                                         ("at the receivers", "b", False))]) + "\n"
        text += report.table(["sockets", "found by", "a sweep, ms of processor", f"a sweep each, ms (interval={INTERVAL_MS})", "of a core",
                              "resident, MB", "an old sender is mended after, s", "a new one", "most", "goal"],
                             [among(sockets, QUICK_SENDERS if quick else SENDERS, told) for sockets in SOCKETS for told in (False, True)])
    (out / "daemon.md").write_text(text)
    print(text)
