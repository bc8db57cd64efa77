# SPDX-License-Identifier: MIT
"""An open connection, tuned while it runs: rate and RTT over time.

Ten times a second the emulator says what it delivered and how long its queue was. Rates are of payload; the
RTT is that of the path plus the queue's delay. Each run has a path of its own, and the ways of
tuning run in turn. A run that failed is counted beside the median, and each row says how late the emulator was.
"""
from __future__ import annotations

import math
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
LATE_HEAD = "emulator late, us"
"""In the worst run of the row, by which it released 1 packet of 100, or more."""

DEFAULT = ("default", ("--tune", "none"))
BY_HAND = ("by hand, 4 MB", ("--tune", "naive:4194304"))
LIVE = ("live", ("--tune", "live"))
LOW_DELAY = ("live, low-delay", ("--tune", "live", "--intent", "low-delay"))
ATTACHED = ("watch --tune, from 5 s on", ("--tune", "none"))

ATTACH_S = 5.0
Sample = tuple[float, float, float]
"""Seconds since the start, Mbit/s of payload, RTT in ms: means of a tick."""


class Ran(NamedTuple):
    samples: list[Sample]
    late_us: float
    """By which the emulator released 1 packet of 100, or more."""
    failure: str = ""


class Scene(NamedTuple):
    mbit: float
    rtt_ms: float
    queue_bytes: int
    seconds: float
    privileged: bool = False
    changes: tuple[tuple[float, float, float], ...] = ()
    """At a time: from then on this rate, this RTT."""


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
        """Counts go on from one sample to the next: what came between two samples is in one tick or in the other."""
        begin = last = time.monotonic()
        seen = self.p.truth()["ab"]
        while last - begin < self.scene.seconds:
            time.sleep(max(0.0, TICK_S - (time.monotonic() - last)))
            before, seen = seen, self.p.truth()["ab"]
            now = time.monotonic()
            took_ns = seen["counted_ns"] - before["counted_ns"]
            rate = (seen["delivered_bytes"] - before["delivered_bytes"]) * 8e3 / took_ns * PAYLOAD
            queue_bytes = (queued(seen) - queued(before)) / took_ns
            self.samples.append((now - begin, rate, self.rtt_ms + queue_bytes * 8 / self.mbit / 1e3))
            last = now
            self.change(now - begin)
            at_tick(now - begin)
        return self.samples


def queued(truth: dict) -> int:
    """Bytes in the queue, times the nanoseconds that they were there."""
    return truth["queue_mean_bytes"] * truth["counted_ns"]


def transfer(scene: Scene, cc: str, way: tuple[str, tuple[str, ...]]) -> Ran:
    bulk = path.built("examples/bulk")
    user = not scene.privileged
    with path.Path(both=f"rate={scene.mbit}M,delay={scene.rtt_ms / 2}ms,"
                        f"queue={scene.queue_bytes}") as p:
        LIMITS["6.18"].of_ends(p)
        for side in ("a", "b"):
            p.route(side, congctl=cc)
        receiver = p.popen("b", [bulk, "recv"], unprivileged=user)
        path.wait_listening(p, "b", 7500, receiver)
        sender = p.popen("a", [bulk, "send", "--seconds", str(scene.seconds + 2), *way[1],
                               p.addr["b"]], unprivileged=user, stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE)
        watching: list[subprocess.Popen] = []

        def attach(now: float) -> None:
            if way is ATTACHED and now >= ATTACH_S and not watching:
                # as root it may watch anybody's process, but must not force: only what any user may set
                watching.append(p.popen("a", ["setpriv", "--bounding-set=-net_admin",
                                              "--inh-caps=-all", "--",
                                              path.built("tools/autobuf"), "watch", "--tune",
                                              "--json", str(sender.pid)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))

        samples = Emulated(scene, p).run(attach)
        running = {"bulk send": sender, "bulk recv": receiver} | {"autobuf watch": child for child in watching}
        ended = [f"{name} has ended with {child.poll()}: {child.stderr.read().strip() if child.stderr else ''}"
                 for name, child in running.items() if child.poll() is not None]
        if way is ATTACHED and not watching:
            ended.append("nobody was attached")
        return Ran(samples, p.lateness_ns()[0] / 1e3, "; ".join(ended))


def mean(samples: list[Sample], column: int, begin: float, end: float) -> float:
    return statistics.fmean(s[column] for s in samples if begin < s[0] <= end)


def runs(scene: Scene, cc: str, ways, times: int) -> dict[str, list[Ran]]:
    results: dict[str, list[Ran]] = {way[0]: [] for way in ways}
    for _ in range(times):
        for way in ways:
            results[way[0]].append(transfer(scene, cc, way))
            if failure := results[way[0]][-1].failure:
                print(f"{way[0]}, {cc}: failed: {failure}", flush=True)
    return results


def good(results: list[Ran]) -> list[Ran]:
    return [ran for ran in results if not ran.failure]


def median(results: list[Ran], column: int, begin: float, end: float) -> float:
    """nan: none has succeeded, nor has what is made of it."""
    return statistics.median([mean(ran.samples, column, begin, end) for ran in good(results)] or [math.nan])


def figure(value: float, digits: int) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def told(value: float, digits: int, results: list[Ran]) -> str:
    """A figure, and how many of the runs it is of if some failed."""
    return report.of_runs(figure(value, digits), len(good(results)), len(results))


def late(results: list[Ran]) -> str:
    return f"{max(ran.late_us for ran in results):.0f}"


def cost() -> str:
    """Processor time of one step, and of watching one connection at 100 ms."""
    said = [subprocess.run([path.built("tests/bench/live_cost")], capture_output=True, check=True).stdout.split() for _ in range(5)]
    warm_ns, step_ns = (statistics.median(map(int, values)) for values in zip(*said, strict=True))
    return (f"A step takes {step_ns / 1e3:.1f} us of processor time, of 1,000 connections in turn ({warm_ns / 1e3:.1f} us of one "
            f"again and again, which stays in the processor's cache): at 100 ms, ten steps a second, {step_ns * 10 / 1e9:.5%} of a "
            f"core ({step_ns * 20 / 1e9:.5%} for low delay, which looks twice as often). Nothing moves in these connections.\n")


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
            body.append(["400 x 100", cc, name, f"from {begin} s", told(rate, 0, results[name]), told(hand, 0, results[BY_HAND[0]]),
                         figure(rate / hand, 3), figure(rate / base, 2), figure(median(results[name], 2, begin, 10) / 100, 2),
                         late(results[name])])
            print(*body[-1], flush=True)
    payload = 1000 * PAYLOAD
    for cc in ("cubic", "bbr", "reno"):
        results = runs(FORCED, cc, (DEFAULT, LIVE), times)
        kept[f"forced {cc}"] = results
        base = median(results[DEFAULT[0]], 1, 3, 10)
        for name in (DEFAULT[0], LIVE[0]):
            rate = median(results[name], 1, 3, 10)
            body.append(["1000 x 100, CAP_NET_ADMIN", cc, name, "from 3 s", told(rate, 0, results[name]),
                         f"{payload:.0f} (payload)", figure(rate / payload, 3), figure(rate / base, 2),
                         figure(median(results[name], 2, 3, 10) / 100, 2), late(results[name])])
            print(*body[-1], flush=True)
    return body, kept


def delays(times: int) -> tuple[list, dict]:
    """Low delay: the rate and the RTT of the path, from when to when."""
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
                                 told(rate, 1, results[way]), figure(rate / base, 3), figure(rtt, 1),
                                 figure(rtt / rtt_ms, 2), late(results[way])])
                    print(*body[-1], flush=True)
    return body, kept


def first(results: list[Ran]) -> list[Sample]:
    """Of the first run that succeeded; a chart without a line if there is none."""
    return next((ran.samples for ran in good(results)), [(0.0, math.nan, math.nan)])


def draw(grown: dict, delayed: dict, out: pathlib.Path) -> None:
    ways = (DEFAULT[0], BY_HAND[0], LIVE[0], ATTACHED[0])
    blocks = "".join(report.block(f"w{i}", first(grown["cubic"][way])) for i, way in enumerate(ways))
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
        blocks = "".join(report.block(f"w{i}", first(results[way]))
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
    times = QUICK_TIMES if quick else TIMES
    with LIMITS["6.18"].of_machine():
        rates, grown = grows(times)
        rtts, delayed = delays(times)
    text = report.machine() + "\n\n" + cost() + "\n"
    text += report.table(["path", "cc", "way", "", "Mbit/s", "by hand", "ratio to that",
                          "ratio to default", "mean RTT, of the path's", LATE_HEAD], rates)
    text += "\n" + report.table(["what changes", "cc", "path", "from, to", "way", "Mbit/s",
                                 "ratio to default", "mean RTT, ms", "of the path's", LATE_HEAD], rtts)
    (out / "live.md").write_text(text)
    draw(grown, delayed, out)
    print(text)
