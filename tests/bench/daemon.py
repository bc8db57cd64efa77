# SPDX-License-Identifier: MIT
"""autobufd: what it is worth to programs that lock their buffers, what it costs, and whether a connection's end waits.

Transfers run in turn on an emulated path of 400 Mbit/s x 40 ms, cubic, with and without the daemon; of several runs the
medians. Sockets are connections over loopback in a network namespace of their own, two of them each.
"""
from __future__ import annotations

import contextlib
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import path
import report
from transfer import LIMITS

SECONDS = 6.0
TIMES, QUICK_TIMES = 5, 1
ENDS, QUICK_ENDS = 200, 30
SOCKETS = (1000, 16000)
WATCHED_S = 10.0
PORT = 7700
PATH = "rate=400M,delay=20ms,queue=4M"
SHARED_PATH = "rate=400M,delay=50ms,queue=10M"
SHARED_BYTES = 4_000_000  # of 5 MB that the path holds
SHARERS = 8
SHARED_S, SHARED_FROM_S = 20.0, 5.0

# Both print the time at which data moved or ended. argv: address, buffer to lock or 0, seconds.
SENDER = """
import socket, sys, time
s = socket.socket()
if int(sys.argv[2]):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, int(sys.argv[2]))
s.connect((sys.argv[1], 7700))
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
# One connection after another, each with so much data that it is looked after; prints when it was closed.
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


@contextlib.contextmanager
def daemon(emulated: path.Path | None, side: str, rules: str = "[all]\n") -> Iterator[subprocess.Popen | None]:
    """A running daemon in a side of a path; without a path in this process's namespace."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write("state=off\nstatus=off\n" + rules)
        file.flush()
        argv = [path.built("tools/autobufd"), "--config", file.name]
        child = subprocess.Popen(emulated.argv(side, argv) if emulated else argv, stderr=subprocess.PIPE, text=True)
        child.stderr.readline()  # it begins
        try:
            yield child
        finally:
            child.terminate()
            child.communicate()


def rate(locked_send: int, locked_receive: int, side: str) -> float:
    """Mbit/s from the second second on; side: where a daemon runs, "" for nowhere."""
    with path.Path(both=PATH) as p, contextlib.ExitStack() as stack:
        for end in "ab":
            p.sysctl(end, "net.ipv4.tcp_rmem", LIMITS["6.18"].tcp_rmem)
            p.sysctl(end, "net.ipv4.tcp_wmem", LIMITS["6.18"].tcp_wmem)
            p.route(end, congctl="cubic")
        receiver = p.popen("b", [sys.executable, "-c", RECEIVER, str(locked_receive)])
        path.wait_line(receiver, lambda line: line == "listens")
        if side:
            log = stack.enter_context(daemon(p, side))
            if locked_receive:
                log.stderr.readline()  # the listener's buffer was given back
        p.run("a", [sys.executable, "-c", SENDER, p.addr["b"], str(locked_send), str(SECONDS)])
        return float(path.wait_line(receiver, lambda line: True)) / 1e6


def rates(times: int) -> list[list[str]]:
    rows = []
    for name, sends, receives, side in (("sets nothing", 0, 0, "a"), ("sender sets 64 KB", 65536, 0, "a"),
                                        ("listener sets 64 KB", 0, 65536, "b")):
        alone, under, free = [], [], []
        for _ in range(times):
            alone.append(rate(sends, receives, ""))
            under.append(rate(sends, receives, side))
            free.append(rate(0, 0, ""))
        a, u, f = (statistics.median(values) for values in (alone, under, free))
        rows.append([name, f"{a:.1f}", f"{u:.1f}", f"{u / a:.2f}", f"{f:.1f}", f"{u / f:.3f}"])
        print(rows[-1], flush=True)
    return rows


def ends(count: int, with_daemon: bool) -> list[float]:
    """Milliseconds from a close() to the end at the peer, less half a round trip."""
    with path.Path(both="rate=100M,delay=10ms,queue=1M") as p, contextlib.ExitStack() as stack:
        for end in "ab":
            p.route(end, congctl="cubic")
        receiver = p.popen("b", [sys.executable, "-c", ENDS_HERE])
        path.wait_line(receiver, lambda line: line == "listens")
        if with_daemon:
            stack.enter_context(daemon(p, "a", "interval=10\n[all]\n"))
        sender = p.popen("a", [sys.executable, "-c", CLOSER, p.addr["b"], str(count)], stdin=subprocess.PIPE)
        took = []
        for _ in range(count):
            closed = float(path.wait_line(sender, lambda line: True, 30))
            ended = float(path.wait_line(receiver, lambda line: True, 30))
            took.append((ended - closed) * 1000 - 10)
            sender.stdin.write("\n")
            sender.stdin.flush()
        return took


def in_flight(p: path.Path) -> list[int]:
    listed = p.run("a", ["ss", "-tinH", "state", "established", f"dport = {PORT}"]).stdout
    flights = re.findall(r" mss:(\d+).*?(?: unacked:(\d+)|$)", listed, re.M)
    return [int(segment) * int(count or 0) for segment, count in flights]


def divided(side: str, total: int, blocks: bool) -> list[str]:
    """What many connections have in flight together while a daemon at their senders, or at their receivers, divides that."""
    with path.Path(both=SHARED_PATH) as p, contextlib.ExitStack() as stack:
        for end in "ab":
            p.sysctl(end, "net.ipv4.tcp_rmem", LIMITS["6.18"].tcp_rmem)
            p.sysctl(end, "net.ipv4.tcp_wmem", LIMITS["6.18"].tcp_wmem)
            p.route(end, congctl="cubic")
        receiver = p.popen("b", [sys.executable, "-c", TAKES])
        path.wait_line(receiver, lambda line: line == "listens")
        if side:
            stack.enter_context(daemon(p, side, f"[all]\ndivide={total}\n"))
        for _ in range(SHARERS):
            argv = [SENDER, p.addr["b"], "0"] if blocks else [POLLER, p.addr["b"]]
            p.popen("a", [sys.executable, "-c", *argv, str(SHARED_S + 10)])
        began, samples = time.monotonic(), []
        while (now := time.monotonic() - began) < SHARED_S:
            if now >= SHARED_FROM_S:
                samples.append(in_flight(p))
            time.sleep(0.05)
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


def crowd(sockets: int) -> list[str]:
    """What a daemon costs beside so many idle sockets: one sweep, and all of it at an interval of 100 ms."""
    with path.Path(both="rate=100M,delay=10ms") as p:
        for end in "ab":
            p.run(end, ["ip", "link", "set", "lo", "up"])
        many = p.popen("a", [sys.executable, "-c", CROWD, str(sockets // 2)], stdin=subprocess.PIPE)
        path.wait_line(many, lambda line: line == "there", 60)
        with daemon(p, "a", "interval=100\n[all]\n") as child:
            time.sleep(2)
            before, _ = cost(child.pid)
            began = time.monotonic()
            time.sleep(WATCHED_S)
            after, resident = cost(child.pid)
            took = time.monotonic() - began
        with daemon(p, "a", "interval=10000\n[all]\n") as child:
            time.sleep(1)
            empty = cost(child.pid)[0]
            time.sleep(10)
            sweep = cost(child.pid)[0] - empty
        return [f"{sockets:,}", f"{sweep * 1000:.1f}", f"{100 * (after - before) / took:.2f}%", f"{resident:.1f}"]


def run(quick: bool, out: pathlib.Path) -> None:
    os.environ["LD_LIBRARY_PATH"] = path.built("lib")
    with path.machine_lock():
        text = report.machine() + "\n\n"
        text += report.table(["program", "alone, Mbit/s", "with autobufd", "/ alone", "one that sets nothing", "/ that"],
                             rates(QUICK_TIMES if quick else TIMES)) + "\n"
        rows = []
        for with_daemon in (False, True):
            took = ends(QUICK_ENDS if quick else ENDS, with_daemon)
            rows.append(["with autobufd" if with_daemon else "without", len(took),
                         *(f"{report.quantile(took, q):.2f}" for q in (0.5, 0.99, 1))])
        text += report.table(["", "connections", "median, ms", "99%", "most"], rows) + "\n"
        text += report.table(["divides", "sum of windows / total", "5% to 95%", "Jain's index", "5%", "of the means"],
                             [[name, *divided(side, SHARED_BYTES, blocks)]
                              for name, side, blocks in (("nobody", "", False), ("at senders that poll", "a", False),
                                                         ("at senders whose writes block", "a", True),
                                                         ("at the receivers", "b", False))]) + "\n"
        text += report.table(["sockets", "a sweep, ms of processor", "of a core, every 100 ms", "resident, MB"],
                             [crowd(sockets) for sockets in SOCKETS])
    (out / "daemon.md").write_text(text)
    print(text)
