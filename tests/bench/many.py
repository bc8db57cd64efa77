# SPDX-License-Identifier: MIT
"""A thousand connections of one program that send at once: alone, beside autobufd, and under autobuf run.

Over an emulated path of 400 Mbit/s x 40 ms, cubic, Linux 6.18's limits, in turn; of several runs the medians. Rate and Jain's index
are of what arrives from a quarter of the time on; memory is what TCP holds for both ends, half way.
"""
from __future__ import annotations

import contextlib
import os
import pathlib
import statistics
import sys
import time

import daemon
import path
import report
from transfer import LIMITS

CONNECTIONS = 1000
SECONDS = 16.0
TIMES, QUICK_TIMES = 3, 1
LIMITED = LIMITS["6.18"]
LOCKED = 65536
QUIET_MB, QUIET_S = 10.0, 30.0
WAYS = ("alone", "autobufd", "autobuf run")
COLUMNS = {"Mbit/s in all": ".1f", "Jain's index": ".3f", "processor, s": ".1f", "autobufd's, s": ".2f", "TCP's memory, MB": ".0f",
           "autobufd's, MB": ".1f"}

# argv: address, connections, size to set or 0, seconds. Says how much processor time it took.
SENDS = """
import resource, select, socket, struct, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
poll, sockets = select.epoll(), {}
for _ in range(int(sys.argv[2])):
    s = socket.socket()
    if int(sys.argv[3]):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, int(sys.argv[3]))
    s.setblocking(False)
    s.connect_ex((sys.argv[1], 7700))
    sockets[s.fileno()] = s
    poll.register(s, select.EPOLLOUT)
end, data = time.monotonic() + float(sys.argv[4]), bytes(65536)
while time.monotonic() < end:
    for fd, _ in poll.poll(0.1):
        try:
            sockets[fd].send(data)
        except BlockingIOError:
            pass
print(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]), flush=True)
for s in sockets.values():  # or the kernel keeps what they have sent for minutes
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
print("closed", flush=True)
"""
# argv: connections, and for how long from when on, after the last of them, it counts. Says Mbit/s and Jain's index.
TAKES = """
import resource, select, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
server = socket.create_server(("", 7700), backlog=4096)
print("listens", flush=True)
poll, count, buffer = select.epoll(), {}, bytearray(1 << 18)
for _ in range(int(sys.argv[1])):
    s, _ = server.accept()
    s.setblocking(False)
    count[s.fileno()] = [s, 0]
    poll.register(s, select.EPOLLIN)
begin = time.monotonic() + float(sys.argv[3])
end = begin + float(sys.argv[2])
def take(counts):
    for fd, _ in poll.poll(0.1):
        got = count[fd][0].recv_into(buffer)
        count[fd][1] += got if counts else 0
        if not got:
            poll.unregister(fd)
while (now := time.monotonic()) < end:
    take(now >= begin)
bytes_each = [had for _, had in count.values()]
print(sum(bytes_each) * 8 / float(sys.argv[2]) / 1e6, sum(bytes_each) ** 2 / len(bytes_each) / max(sum(b * b for b in bytes_each), 1), flush=True)
while True:
    take(False)
"""


def tcp_mb() -> float:
    words = next(line for line in pathlib.Path("/proc/net/sockstat").read_text().splitlines() if line.startswith("TCP:")).split()
    return int(words[words.index("mem") + 1]) * os.sysconf("SC_PAGESIZE") / 1e6


def quiet() -> float:
    """TCP's memory, once what ended before has given it back."""
    until = time.monotonic() + QUIET_S
    while tcp_mb() > QUIET_MB and time.monotonic() < until:
        time.sleep(0.1)
    return tcp_mb()


def tried(way: str, locked: int) -> list[float]:
    """A figure for each of COLUMNS."""
    before = quiet()
    with path.Path(both=daemon.PATH) as p, contextlib.ExitStack() as stack:
        LIMITED.of_ends(p)
        for end in "ab":
            p.route(end, congctl="cubic")
        takes = p.popen("b", [sys.executable, "-c", TAKES, str(CONNECTIONS), str(SECONDS / 2), str(SECONDS / 4)])
        path.wait_line(takes, lambda line: line == "listens")
        running = stack.enter_context(daemon.daemon(p, "a")) if way == "autobufd" else None
        under = [path.built("tools/autobuf"), "run", "--"] if way == "autobuf run" else []
        sends = p.popen("a", [*under, sys.executable, "-c", SENDS, p.addr["b"], str(CONNECTIONS), str(locked), str(SECONDS)])
        time.sleep(SECONDS / 2)
        held = tcp_mb() - before
        rate, jain = map(float, path.wait_line(takes, lambda line: True, 2 * SECONDS).split())
        used = float(path.wait_line(sends, lambda line: True, 2 * SECONDS))
        cost, resident = daemon.cost(running.pid) if running else (0, 0)
        path.wait_line(sends, lambda line: line == "closed")
        if running:
            running.has("managed_total", 1)
    return [rate, jain, used, cost, held, resident]


def run(quick: bool, out: pathlib.Path) -> None:
    os.environ["LD_LIBRARY_PATH"] = path.built("lib")
    runs: dict[tuple[str, str], list[list[float]]] = {}
    with LIMITED.of_machine():
        for _ in range(QUICK_TIMES if quick else TIMES):
            for locked in (0, LOCKED):
                for way in WAYS:
                    figures = tried(way, locked)
                    runs.setdefault((way, f"{locked // 1024} KB" if locked else "nothing"), []).append(figures)
                    print(way, locked, figures, flush=True)
    rows = [[*cell, *(format(statistics.median(of), form) for of, form in zip(zip(*each), COLUMNS.values(), strict=True))]
            for cell, each in runs.items()]
    text = report.machine() + f", Linux 6.18's limits, {CONNECTIONS:,} connections\n\n" + report.table(["", "sets", *COLUMNS], rows)
    (out / "many.md").write_text(text)
    print(text)
