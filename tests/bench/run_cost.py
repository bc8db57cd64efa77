# SPDX-License-Identifier: MIT
"""What `autobuf run` costs a program that it cannot help: requests per second over loopback, start-up time, memory.

The same server runs twice, as it is and under autobuf run. Clients ask the two in turn (A B B A ...), so both have the same
share of what else the machine does. Of each round there is a ratio, and of all rounds the median and the quartiles. Processor
time a request is what the kernel says that the server has used.
"""
from __future__ import annotations

import contextlib
import pathlib
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator

import path
import report

REDIS_PORTS, HTTP_PORTS, BULK_PORT = (7651, 7652), (7653, 7654), 7655
REDIS_REQUESTS, CLIENTS = 60_000, 50
WRK_SECONDS = 1
ROUNDS, QUICK_ROUNDS = 24, 6
STARTS, QUICK_STARTS = 400, 40
MEMORY_RUNS = 5
WITH_PARENT = ("setpriv", "--pdeathsig", "TERM", "--")
"""Before a command that does not outlive this process. nginx then ends its worker, too."""


def under_run(words: list[str]) -> list[str]:
    return [path.built("tools/autobuf"), "run", "--", *words]


def processor_ns(pid: int) -> int:
    """That a process and its children have used."""
    said = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout
    return sum(int(pathlib.Path(f"/proc/{each}/schedstat").read_text().split()[0]) for each in [pid, *map(int, said.split())])


def wait_port(port: int) -> None:
    for _ in range(500):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.01)
    raise RuntimeError(f"nobody listens on port {port}")


@contextlib.contextmanager
def servers(words: Callable[[int], list[str]], ports: tuple[int, int]) -> Iterator[list[int]]:
    """The server as it is, and under autobuf run; their process ids. They share the first core, and clients have the others."""
    core = str(min(path.split_cores()[1]))
    with contextlib.ExitStack() as stack:
        pids = []
        for port, wrap in zip(ports, (list, under_run), strict=True):
            argv = [*WITH_PARENT, "taskset", "-c", core, *wrap(words(port))]
            server = stack.enter_context(subprocess.Popen(argv, stdout=subprocess.DEVNULL))
            stack.callback(server.terminate)
            pids.append(server.pid)
            wait_port(port)
        yield pids


def client(*words: object) -> str:
    """What a client says, on the core that the servers do not have."""
    return subprocess.run([*WITH_PARENT, "taskset", "-c", str(max(path.split_cores()[0])), *map(str, words)], capture_output=True, text=True,
                          check=True).stdout


def ask_redis(port: int) -> tuple[float, int]:
    """Requests per second, and how many."""
    said = client("redis-benchmark", "-p", port, "-n", REDIS_REQUESTS, "-c", CLIENTS, "-t", "get", "--csv")
    return float(re.search(r'^"GET","([0-9.]+)"', said, re.M)[1]), REDIS_REQUESTS


def ask_http(port: int) -> tuple[float, int]:
    said = client("wrk", "-t", 1, "-c", CLIENTS, "-d", WRK_SECONDS, f"http://127.0.0.1:{port}/file")
    return float(re.search(r"Requests/sec:\s*([0-9.]+)", said)[1]), int(re.search(r"(\d+) requests in", said)[1])


def redis_words(port: int) -> list[str]:
    return ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]


def nginx_words(folder: pathlib.Path) -> Callable[[int], list[str]]:
    (folder / "file").write_bytes(b"x" * 1024)

    def words(port: int) -> list[str]:
        temporary = "".join(f"{kind}_temp_path {folder}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        configuration = folder / f"{port}.conf"
        configuration.write_text(
            f"daemon off; user root; worker_processes 1; pid {folder}/{port}.pid; events {{ }}\n"
            f"http {{ access_log off; keepalive_requests 1000000; sendfile on; {temporary}\n"
            f"server {{ listen 127.0.0.1:{port}; root {folder}; }} }}\n")
        return ["nginx", "-e", "stderr", "-c", str(configuration)]

    return words


def compared(name: str, words: Callable[[int], list[str]], ports: tuple[int, int], ask, rounds: int) -> list:
    """A row: requests per second and processor time a request, as it is and under autobuf run."""
    with servers(words, ports) as pids:
        for port in ports:
            ask(port)
        seen: list[list[tuple[float, float]]] = []
        for turn in range(rounds):
            both = [(0.0, 0.0)] * 2
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                before_ns = processor_ns(pids[which])
                rate, requests = ask(ports[which])
                both[which] = (rate, (processor_ns(pids[which]) - before_ns) / requests / 1000)
            seen.append(both)
    row = [name]
    for what in (0, 1):
        ratios = [ours[what] / alone[what] for alone, ours in seen]
        row += [f"{report.quantile([pair[0][what] for pair in seen], 0.5):.4g}",
                f"{report.quantile(ratios, 0.5):.4f} ({report.quantile(ratios, 0.25):.3f} to {report.quantile(ratios, 0.75):.3f})"]
    return row


def start_ms(words: list[str]) -> float:
    begin_ns = time.monotonic_ns()
    subprocess.run(words, check=True, close_fds=False)
    return (time.monotonic_ns() - begin_ns) / 1e6


def started(pairs: int) -> str:
    """In words, how much longer /bin/true takes."""
    alone, ours = [], []
    for turn in range(pairs):
        for way, words in ((alone, ["/bin/true"]), (ours, under_run(["/bin/true"])))[::1 if turn % 2 == 0 else -1]:
            way.append(start_ms(words))
    more = [b - a for a, b in zip(alone, ours, strict=True)]
    return (f"`/bin/true` takes {report.quantile(alone, 0.5):.2f} ms, under autobuf run {report.quantile(ours, 0.5):.2f} ms: "
            f"{report.quantile(more, 0.5):.2f} ms more (quartiles {report.quantile(more, 0.25):.2f} and "
            f"{report.quantile(more, 0.75):.2f}; {pairs} pairs)")


def private_dirty_kb(pid: int) -> int:
    return int(re.search(r"^Private_Dirty:\s+(\d+)", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1])


def memory_kb(wrap: Callable[[list[str]], list[str]]) -> int:
    """Of a program that receives bulk data on one connection."""
    receive = [path.built("tests/zoo/reader"), str(BULK_PORT), "all", "2"]
    with subprocess.Popen([*WITH_PARENT, *wrap(receive)], stdout=subprocess.DEVNULL) as reader:
        time.sleep(0.3)
        with subprocess.Popen([*WITH_PARENT, path.built("tests/zoo/writer"), "poll", "127.0.0.1", str(BULK_PORT), "3", "cubic"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            time.sleep(1.5)
            return private_dirty_kb(reader.pid)


def run(quick: bool, out: pathlib.Path) -> None:
    rounds = QUICK_ROUNDS if quick else ROUNDS
    load = " ".join(pathlib.Path("/proc/loadavg").read_text().split()[:3])
    with tempfile.TemporaryDirectory() as folder:
        rows = [compared("redis-benchmark, GET", redis_words, REDIS_PORTS, ask_redis, rounds),
                compared("wrk, nginx, 1 KB", nginx_words(pathlib.Path(folder)), HTTP_PORTS, ask_http, rounds)]
    start = started(QUICK_STARTS if quick else STARTS)
    memory = [report.quantile([memory_kb(wrap) for _ in range(MEMORY_RUNS)], 0.5) for wrap in (list, under_run)]
    text = (f"{report.machine()}; load before: {load}; {rounds} rounds; medians, and quartiles of the rounds' ratios\n\n" + report.table(
        ["load", "requests/s", "under autobuf run /", "processor, us a request", "under autobuf run /"], rows) +
        f"\n{start}.\n\nPrivate dirty memory of a program with one bulk connection: {memory[0]:.0f} KB, "
        f"under autobuf run {memory[1]:.0f} KB: {memory[1] - memory[0]:.0f} KB more.\n")
    (out / "run-cost.md").write_text(text)
    print(text)
