# SPDX-License-Identifier: MIT
"""An open connection, tuned while it runs: rate and round-trip time over time.

Ten times a second the emulator says what it delivered and how long its queue was. Rates are of payload; the
round-trip time is that of the path plus the queue's delay. Each run has a path of its own, and the ways of
tuning run in turn.
"""
from __future__ import annotations

import pathlib
import statistics
import subprocess
import time
from typing import NamedTuple

import path
import report
from transfer import LIMITS

PAYLOAD = 1448 / 1500
TICK_S = 0.1
TIMES, QUICK_TIMES = 3, 1

DEFAULT = ("default", ("--tune", "none"))
BY_HAND = ("by hand, 4 MB", ("--tune", "naive:4194304"))
LIVE = ("live", ("--tune", "live"))
LOW_DELAY = ("live, low-delay", ("--tune", "live", "--intent", "low-delay"))
ATTACHED = ("watch --tune, from 5 s on", ("--tune", "none"))

ATTACH_S = 5.0
Sample = tuple[float, float, float]
"""Seconds since the start, Mbit/s of payload, round-trip time in ms: means of a tick."""


class Scene(NamedTuple):
    mbit: float
    rtt_ms: float
    queue_bytes: int
    seconds: float
    privileged: bool = False
    changes: tuple[tuple[float, float, float], ...] = ()
    """At a time: from then on this rate, this round-trip time."""


class Emulated:
    """Samples of what the path does while a transfer runs."""

    def __init__(self, scene: Scene, p: path.Path) -> None:
        self.scene, self.p = scene, p
        self.mbit, self.rtt_ms = scene.mbit, scene.rtt_ms
        self.todo = list(scene.changes)
        self.samples: list[Sample] = []

    def change(self, now: float) -> None:
        while self.todo and now >= self.todo[0][0]:
            _, self.mbit, self.rtt_ms = self.todo.pop(0)
            self.p.change("both", rate=f"{self.mbit}M", delay=f"{self.rtt_ms / 2}ms")

    def run(self, at_tick) -> list[Sample]:
        begin = last = time.monotonic()
        self.p.reset()
        while last - begin < self.scene.seconds:
            time.sleep(max(0.0, TICK_S - (time.monotonic() - last)))
            seen = self.p.truth()["ab"]
            self.p.reset()
            now = time.monotonic()
            rate = seen["delivered_bytes"] * 8 / (now - last) / 1e6 * PAYLOAD
            queue_ms = seen["queue_mean_bytes"] * 8 / self.mbit / 1e3
            self.samples.append((now - begin, rate, self.rtt_ms + queue_ms))
            last = now
            self.change(now - begin)
            at_tick(now - begin)
        return self.samples


def transfer(scene: Scene, cc: str, way: tuple[str, tuple[str, ...]]) -> list[Sample]:
    limits, bulk = LIMITS["6.18"], path.built("examples/bulk")
    user = not scene.privileged
    with path.Path(both=f"rate={scene.mbit}M,delay={scene.rtt_ms / 2}ms,"
                        f"queue={scene.queue_bytes}") as p:
        for side in ("a", "b"):
            p.sysctl(side, "net.ipv4.tcp_rmem", limits.tcp_rmem)
            p.sysctl(side, "net.ipv4.tcp_wmem", limits.tcp_wmem)
            p.route(side, congctl=cc)
        p.popen("b", [bulk, "recv"], unprivileged=user)
        path.wait_listening(p, "b", 7500)
        sender = p.popen("a", [bulk, "send", "--seconds", str(scene.seconds + 2), *way[1],
                               p.addr["b"]], unprivileged=user, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
        watching: list[subprocess.Popen] = []

        def attach(now: float) -> None:
            if way is ATTACHED and now >= ATTACH_S and not watching:
                # as root it may look at anybody's process, but not force: what any user may set
                watching.append(p.popen("a", ["setpriv", "--bounding-set=-net_admin",
                                              "--inh-caps=-all", "--",
                                              path.built("tools/autobuf"), "watch", "--tune",
                                              "--json", str(sender.pid)],
                                        stdout=subprocess.DEVNULL))

        return Emulated(scene, p).run(attach)


def mean(samples: list[Sample], column: int, begin: float, end: float) -> float:
    return statistics.fmean(s[column] for s in samples if begin < s[0] <= end)


def runs(scene: Scene, cc: str, ways, times: int) -> dict[str, list[list[Sample]]]:
    results: dict[str, list[list[Sample]]] = {way[0]: [] for way in ways}
    for _ in range(times):
        for way in ways:
            results[way[0]].append(transfer(scene, cc, way))
    return results


def median(results: list[list[Sample]], column: int, begin: float, end: float) -> float:
    return statistics.median(mean(samples, column, begin, end) for samples in results)


def cost() -> str:
    """Processor time of one step, and of watching one connection for ten seconds at 100 ms."""
    step_ns = statistics.median(
        int(subprocess.run([path.built("tests/bench/live_cost")], capture_output=True,
                           check=True).stdout) for _ in range(5))
    return (f"A step takes {step_ns / 1e3:.1f} us of processor time: at 100 ms, ten steps a second, "
            f"{step_ns * 10 / 1e9:.5%} of a core ({step_ns * 20 / 1e9:.5%} for low delay, which looks "
            "twice as often).\n")


LONG = Scene(400, 100, 10000000, 10)
FORCED = Scene(1000, 100, 12500000, 10, privileged=True)
DEEP = Scene(100, 50, 4000000, 10)
RATES = Scene(100, 50, 4000000, 20, changes=((5, 50, 50), (10, 100, 50), (15, 200, 50)))
RTTS = Scene(100, 50, 4000000, 15, changes=((5, 100, 100), (10, 100, 25)))


def grows(times: int) -> tuple[list, dict]:
    body, kept = [], {}
    for cc in ("cubic", "bbr", "reno"):
        results = runs(LONG, cc, (DEFAULT, BY_HAND, LIVE, ATTACHED), times)
        kept[cc] = results
        for name, begin in ((DEFAULT[0], 2), (LIVE[0], 2), (ATTACHED[0], 5.5)):
            rate, hand = (median(results[n], 1, begin, 10) for n in (name, BY_HAND[0]))
            base = median(results[DEFAULT[0]], 1, begin, 10)
            body.append(["400 x 100", cc, name, f"from {begin} s", f"{rate:.0f}", f"{hand:.0f}",
                         f"{rate / hand:.3f}", f"{rate / base:.2f}",
                         f"{median(results[name], 2, begin, 10) / 100:.2f}"])
            print(*body[-1], flush=True)
    payload = 1000 * PAYLOAD
    for cc in ("cubic", "bbr", "reno"):
        results = runs(FORCED, cc, (DEFAULT, LIVE), times)
        kept[f"forced {cc}"] = results
        base = median(results[DEFAULT[0]], 1, 3, 10)
        for name in (DEFAULT[0], LIVE[0]):
            rate = median(results[name], 1, 3, 10)
            body.append(["1000 x 100, CAP_NET_ADMIN", cc, name, "from 3 s", f"{rate:.0f}",
                         f"{payload:.0f} (payload)", f"{rate / payload:.3f}", f"{rate / base:.2f}",
                         f"{median(results[name], 2, 3, 10) / 100:.2f}"])
            print(*body[-1], flush=True)
    return body, kept


def delays(times: int) -> tuple[list, dict]:
    """Low delay: what the path is from when to when, rate and round-trip time there."""
    spans = {
        "steady": (DEEP, [(2, 10, 100, 50), (0, 10, 100, 50)]),
        "long": (LONG, [(2, 10, 400, 100)]),
        "rate": (RATES, [(2, 5, 100, 50), (6, 10, 50, 50), (11, 15, 100, 50), (16, 20, 200, 50)]),
        "round-trip time": (RTTS, [(2, 5, 100, 50), (6, 10, 100, 100), (11, 15, 100, 25)]),
    }
    body, kept = [], {}
    for name, (scene, parts) in spans.items():
        for cc in ("cubic", "bbr"):
            results = kept[name, cc] = runs(scene, cc, (DEFAULT, LOW_DELAY),
                                            times if cc == "cubic" else 1)
            for begin, end, mbit, rtt_ms in parts:
                base = median(results[DEFAULT[0]], 1, begin, end)
                for way in (DEFAULT[0], LOW_DELAY[0]):
                    rate = median(results[way], 1, begin, end)
                    rtt = median(results[way], 2, begin, end)
                    body.append([name, cc, f"{mbit} x {rtt_ms}", f"{begin} to {end} s", way,
                                 f"{rate:.1f}", f"{rate / base:.3f}", f"{rtt:.1f}",
                                 f"{rtt / rtt_ms:.2f}"])
                    print(*body[-1], flush=True)
    return body, kept


def draw(grown: dict, delayed: dict, out: pathlib.Path) -> None:
    ways = (DEFAULT[0], BY_HAND[0], LIVE[0], ATTACHED[0])
    blocks = "".join(report.block(f"w{i}", grown["cubic"][way][0]) for i, way in enumerate(ways))
    report.gnuplot(out / "live.svg", blocks + """
set title "400 Mbit/s x 100 ms, cubic, Linux 6.18's limits, no privilege"
set xlabel "s"
set ylabel "Mbit/s of payload"
set yrange [0:420]
set key bottom right
plot """ + ", ".join(f"$w{i} using 1:2 with lines lw 2 title '{way}'"
                     for i, way in enumerate(ways)) + "\n")
    for name, key, title in (
            ("live-rate", "rate", "100, 50 (from 5 s), 100 (10 s), 200 Mbit/s (15 s) x 50 ms"),
            ("live-rtt", "round-trip time", "100 Mbit/s x 50, 100 (from 5 s), 25 ms (10 s)")):
        results = delayed[key, "cubic"]
        blocks = "".join(report.block(f"w{i}", results[way][0])
                         for i, way in enumerate((DEFAULT[0], LOW_DELAY[0])))
        lines = [f"$w{i} using 1:{{column}} with lines lw 2 title '{way}'"
                 for i, way in enumerate((DEFAULT[0], LOW_DELAY[0]))]
        report.gnuplot(out / f"{name}.svg", blocks + f"""
set multiplot layout 2,1 title "{title}, cubic, queue of 4 MB"
set ylabel "Mbit/s of payload"
set yrange [0:*]
plot {", ".join(lines).format(column=2)}
set ylabel "round-trip time, ms"
set logscale y
set yrange [20:*]
set xlabel "s"
plot {", ".join(lines).format(column=3)}
unset multiplot
""")


def run(quick: bool, out: pathlib.Path) -> None:
    times, mem_max = QUICK_TIMES if quick else TIMES, LIMITS["6.18"].mem_max
    with path.global_sysctls({"net.core.rmem_max": mem_max, "net.core.wmem_max": mem_max}):
        rates, grown = grows(times)
        rtts, delayed = delays(times)
    text = report.machine() + "\n\n" + cost() + "\n"
    text += report.table(["path", "cc", "way", "", "Mbit/s", "by hand", "ratio to that",
                          "ratio to default", "mean RTT, of the path's"], rates)
    text += "\n" + report.table(["what changes", "cc", "path", "from, to", "way", "Mbit/s",
                                 "ratio to default", "mean RTT, ms", "of the path's"], rtts)
    (out / "live.md").write_text(text)
    draw(grown, delayed, out)
    print(text)
