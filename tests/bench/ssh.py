# SPDX-License-Identifier: MIT
"""OpenSSH, stock and with the patches: time, processor time, memory, keystrokes.

Both are built from the same source. The variants of a scene run in turn, each run on a path of its own, and
medians are compared. Linux 6.18's limits. Times are by the wall clock, of the whole program with its login; of a
transfer through -L, whose login came before, of the transfer alone.
"""
from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import re
import resource
import select
import statistics
import sys
import threading
import time
from typing import Any, NamedTuple

import path
import report
from kept import Kept, build_digest
from transfer import LIMITS

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "patch"))
import openssh  # noqa: E402

openssh.OPTIMIZED = True
VERSION = openssh.VERSIONS[-1]
MB = 1 << 20
KEY_TIMES = 2
HERTZ = os.sysconf("SC_CLK_TCK")
FORWARDED = "-L, login not in its time"
LIMITED = LIMITS["6.18"]


class Way(NamedTuple):
    name: str
    server_stock: bool
    client_stock: bool
    force: bool = True


STOCK = Way("stock", True, True)
PATCHED = Way("patched", False, False)
UNFORCED = Way("patched, no CAP_NET_ADMIN", False, False, False)
OLD_SERVER = Way("patched client, stock server", True, False)
OLD_CLIENT = Way("stock client, patched server", False, True)


class Scene(NamedTuple):
    mbit: float
    rtt_ms: float
    queue: float
    """In BDPs."""
    mb: int
    what: tuple[str, ...]
    ways: tuple[Way, ...]
    bulk: bool = False
    """The time that a plain TCP transfer needs, too."""
    cc: str = "cubic"
    times: int = 3

    def title(self) -> str:
        size = f"{self.mb} MB" if self.mb else "1,000 files of 1 to 16 KB"
        return f"{self.mbit:g} Mbit/s x {self.rtt_ms:g} ms, {size}, {self.cc}"


BOTH = (STOCK, PATCHED)
SCENES = (
    Scene(400, 100, 2, 400, ("login", "get", "put"), (STOCK, PATCHED, UNFORCED, OLD_SERVER, OLD_CLIENT), True),
    Scene(400, 100, 2, 400, ("cat", FORWARDED), BOTH),
    Scene(1000, 100, 2, 200, ("get", "put"), (STOCK, PATCHED, OLD_SERVER, OLD_CLIENT)),
    Scene(1000, 0.5, 8, 800, ("get", "put", "cat"), BOTH),
    Scene(400, 100, 2, 400, ("get", "put"), BOTH, True, "bbr", 2),
    Scene(100, 200, 2, 400, ("login", "get", "put"), BOTH, True, times=2),
    Scene(100, 2, 2, 0, ("scp -r get", "scp -r put", "sftp get -R"), BOTH, times=2),
    Scene(100, 50, 2, 0, ("scp -r get", "scp -r put"), BOTH, times=1),
)


# ---- one run ----


class Watch:
    """The most memory that each program of a build ever had, while this is open."""

    def __init__(self, folders: set[pathlib.Path]) -> None:
        self.folders, self.peak_kb = folders, {}
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def look(self) -> None:
        for folder in self.folders:
            for pid, name in openssh.programs(folder):
                with contextlib.suppress(OSError, AttributeError):
                    status = pathlib.Path(f"/proc/{pid}/status").read_text()
                    peak = int(re.search(r"VmHWM:\s*(\d+)", status).group(1))
                    self.peak_kb[name] = max(self.peak_kb.get(name, 0), peak)

    def run(self) -> None:
        while not self.stop.wait(0.1):
            self.look()

    def __enter__(self) -> Watch:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()


def children_s(pid: int) -> float:
    """Processor time of a process and of all that it has waited for."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / HERTZ


def commands(scene: Scene, ssh: openssh.Client, what: str) -> None:
    place = ssh.place.folder
    here, there = place / "here", place / "there"
    run = {
        "login": lambda: ssh.run("ssh", ssh.remote(), "true"),
        "get": lambda: ssh.run("scp", ssh.remote("big"), "/dev/null", timeout=600),
        "put": lambda: ssh.run("scp", there / "big", ssh.remote("/dev/null"), timeout=600),
        "cat": lambda: ssh.path.run("a", ["sh", "-c", 'exec "$@" >/dev/null', "sh",
                                          *ssh.argv("ssh", ssh.remote(), "cat big")], timeout=600),
        FORWARDED: lambda: ssh.path.run("a", [path.built("examples/bulk"), "send", "--tune", "none", "--port", "7501",
                                         "--bytes", str(scene.mb * MB), "127.0.0.1"], timeout=600),
        "scp -r get": lambda: ssh.run("scp", "-qr", ssh.remote("many"), here / "got", timeout=600),
        "scp -r put": lambda: ssh.run("scp", "-qr", there / "many", ssh.remote("put"), timeout=600),
        "sftp get -R": lambda: ssh.run("sftp", "-q", "-b", "-", ssh.remote(), input=f"get -R many {here}/got2\n",
                                       timeout=600),
    }[what]
    done = run()
    if done.returncode:
        raise RuntimeError(f"{what}: {done.stderr}")


def fill(scene: Scene, there: pathlib.Path) -> None:
    if scene.mb:
        block = os.urandom(MB)
        with (there / "big").open("wb") as out:
            for _ in range(scene.mb):
                out.write(block)
    else:
        (there / "many").mkdir()
        for i in range(1000):
            (there / "many" / f"{i}").write_bytes(os.urandom(1024 * (i % 16 + 1)))


def link(scene: Scene) -> path.Path:
    queue = max(int(scene.queue * scene.mbit * scene.rtt_ms * 125), 40000)
    return path.Path(both=f"rate={scene.mbit}M,delay={scene.rtt_ms / 2}ms,queue={queue}")


def measure(scene: Scene, way: Way, what: str) -> dict[str, Any]:
    where = [openssh.prefix(VERSION, stock) for stock in (way.server_stock, way.client_stock)]
    with link(scene) as p:
        LIMITED.of_ends(p)
        for side in "ab":
            p.route(side, congctl=scene.cc)
        with openssh.pair(p, *where, force=way.force) as ssh:
            fill(scene, ssh.place.folder / "there")
            if what == FORWARDED:
                sink = p.popen("b", [path.built("examples/bulk"), "recv", "--bind", "127.0.0.1"])
                path.wait_listening(p, "b", 7500, sink)
                forwards = ssh.popen("ssh", "-N", "-L", "7501:127.0.0.1:7500", ssh.remote())
                path.wait_listening(p, "a", 7501, forwards)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            server_before = children_s(ssh.server.pid)
            begin = time.monotonic()
            with Watch(set(where)) as watch:
                commands(scene, ssh, what)
                seconds = time.monotonic() - begin
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            server_s = settled(lambda: children_s(ssh.server.pid)) - server_before
            client_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "client_s": client_s, "server_s": server_s, "peak_kb": watch.peak_kb}


def settled(value) -> float:
    """A number that a process still adds to, once it stays the same for a second."""
    last, since = value(), time.monotonic()
    while time.monotonic() - since < 1:
        time.sleep(0.05)
        now = value()
        if now != last:
            last, since = now, time.monotonic()
    return last


def bulk(scene: Scene) -> dict[str, Any]:
    with link(scene) as p:
        LIMITED.of_ends(p)
        for side in "ab":
            p.route(side, congctl=scene.cc)
        server = p.popen("b", [path.built("examples/bulk"), "recv"])
        path.wait_listening(p, "b", 7500, server)
        done = p.run("a", [path.built("examples/bulk"), "send", "--tune", "live", "--json", "--bytes",
                           str(scene.mb * MB), p.addr["b"]], timeout=600)
    return {"seconds": json.loads(done.stdout)["elapsed_ns"] / 1e9}


# ---- keystrokes ----


def keystrokes(way: Way, mbit: float, rtt_ms: float, direction: str) -> dict[str, Any]:
    """Milliseconds to the echo of a key, by itself and while the same connection carries a file."""
    with path.Path(both=f"rate={mbit}M,delay={rtt_ms / 2}ms,queue={int(2 * mbit * rtt_ms * 125)}") as p:
        LIMITED.of_ends(p)
        for side in "ab":
            p.route(side, congctl="cubic")
        where = [openssh.prefix(VERSION, stock) for stock in (way.server_stock, way.client_stock)]
        with openssh.pair(p, *where) as ssh:
            control = str(ssh.place.folder / "control")
            master = ssh.popen("ssh", "-M", "-S", control, "-N", ssh.remote())
            while not os.path.exists(control):
                time.sleep(0.05)
            keys = ssh.popen("ssh", "-S", control, ssh.remote(), "cat", stdin=-1, text=False, bufsize=0)
            alone = [echo_ms(keys) for _ in range(10)]
            load = ["ssh", "-S", control, ssh.remote()]
            if direction == "get":
                ssh.popen(*load, "cat /dev/zero", stdout=-3)
            else:
                ssh.popen(*load, "cat >/dev/null", stdin=open("/dev/zero", "rb"), stdout=-3)
            begin = time.monotonic()
            while time.monotonic() - begin < 4:  # slow start and what follows it
                echo_ms(keys)
            p.reset()
            loaded = [echo_ms(keys) for _ in range(40)]
            truth = p.truth()["ba" if direction == "get" else "ab"]
            keys.kill()
            master.kill()
    return {"alone_ms": statistics.median(alone), "loaded_ms": statistics.median(loaded),
            "loaded_p95_ms": report.quantile(loaded, 0.95),
            "queue_ms": truth["queue_mean_bytes"] * 8 / mbit / 1e3,
            "mbit": truth["delivered_bytes"] * 8 / 1e3 / sum(loaded) if loaded else 0}


def echo_ms(keys) -> float:
    begin = time.monotonic()
    keys.stdin.write(b"x")
    if not select.select([keys.stdout], [], [], 30)[0]:
        raise RuntimeError("no echo in 30 s")
    os.read(keys.stdout.fileno(), 1)
    return (time.monotonic() - begin) * 1e3


# ---- all runs, and what they say ----


@functools.cache
def build_of(way: Way) -> str:
    """Changes with what its two ends are built of, and with what else takes part."""
    ends = [openssh.state_of(VERSION, stock) for stock in (way.server_stock, way.client_stock)]
    return hashlib.sha256(" ".join([*ends, build_digest()]).encode()).hexdigest()[:16]


def get(runs: Kept, name: str, make, build: str | None = None) -> dict[str, Any]:
    def measured() -> dict[str, Any]:
        result = make()
        print(name, result.get("seconds", result), flush=True)
        return result

    return runs.get(name, measured, build)


def scene_rows(scene: Scene, runs: Kept, times: int) -> list[list[str]]:
    taken: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for i in range(times):
        for what in scene.what:
            for way in (STOCK,) if what == "login" else scene.ways:
                name = f"{scene.title()} | {way.name} | {what} | {i}"
                taken.setdefault((what, way.name), []).append(
                    get(runs, name, lambda: measure(scene, way, what), build_of(way)))
        if scene.bulk:
            taken.setdefault(("plain TCP, live", ""), []).append(get(runs, f"{scene.title()} | bulk | {i}", lambda: bulk(scene)))
    median = {key: statistics.median(run["seconds"] for run in some) for key, some in taken.items()}
    rows = []
    for (what, way), some in taken.items():
        stock = median.get((what, STOCK.name))
        ratio = f"{stock / median[what, way]:.2f}" if stock and way != STOCK.name else ""
        rate = "" if what == "login" or not scene.mb else f"{scene.mb * MB * 8 / 1e6 / median[what, way]:.0f}"
        cpu = "" if "client_s" not in some[0] or what == FORWARDED else " + ".join(
            f"{statistics.median(run[side] for run in some):.1f}" for side in ("client_s", "server_s"))
        peaks: dict[str, int] = {}
        for run in some:
            for program, kb in run.get("peak_kb", {}).items():
                peaks[program] = max(peaks.get(program, 0), kb)
        memory = ", ".join(f"{program} {kb / 1024:.0f}" for program, kb in sorted(peaks.items())
                           if program in ("scp", "sftp", "ssh", "sshd-session", "sftp-server"))
        rows.append([what, way, f"{median[what, way]:.2f}", rate, ratio, cpu, memory])
    return rows


def key_rows(runs: Kept, times: int) -> list[list[str]]:
    rows = []
    for mbit, rtt_ms in ((100, 50), (10, 40)):
        for direction in ("get", "put"):
            for way in BOTH:
                some = [get(runs, f"keys {mbit} x {rtt_ms} | {way.name} | {direction} | {i}",
                            lambda: keystrokes(way, mbit, rtt_ms, direction), build_of(way)) for i in range(times)]
                value = {key: statistics.median(run[key] for run in some) for key in some[0]}
                rows.append([f"{mbit} x {rtt_ms}, {direction}", way.name, f"{value['mbit']:.0f}",
                             f"{value['alone_ms']:.0f}", f"{value['loaded_ms']:.0f}", f"{value['loaded_p95_ms']:.0f}",
                             f"{value['queue_ms']:.0f}"])
    return rows


def run(quick: bool, out: pathlib.Path) -> None:
    name = "ssh-quick" if quick else "ssh"
    runs = Kept(out / f"{name}.jsonl")
    text = (f"# OpenSSH {VERSION}, {openssh.CIPHER}, {'one' if quick else 'two or three'} of each: medians\n\n"
            f"{report.machine()}, Linux 6.18's limits\n")
    with LIMITED.of_machine():
        for scene in SCENES:
            text += f"\n## {scene.title()}\n\n" + report.table(
                ["what", "way", "s", "Mbit/s", "stock's time / this", "CPU s, client + server", "peak MB"],
                scene_rows(scene, runs, 1 if quick else scene.times))
        text += "\n## Keystrokes: ms to the echo\n\n" + report.table(
            ["path, load", "way", "Mbit/s", "alone", "loaded", "p95", "of it queue"],
            key_rows(runs, 1 if quick else KEY_TIMES))
    (out / f"{name}.md").write_text(text)
    print(text)
