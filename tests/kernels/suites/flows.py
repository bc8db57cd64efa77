# SPDX-License-Identifier: MIT
"""Many connections of one process over one path: together they take what there is, and each its part."""
from __future__ import annotations

from collections.abc import Iterator

from case import PORT, Case, objects, path, qdisc
from packages import Kernel

SECONDS = 6
LEAST_LOW_DELAY = 0.95
PACES_BBR = (6, 1)
"""Before (seen on 5.10) bbr, paced by a known path, has 0.87 of the rate; docs/BENCHMARKS.md."""


def together(flows: int, cc: str, mbit: float, rtt_ms: float, bdps: float, root: bool, ways: tuple[str, ...]) -> str:
    """bulk with so many streams, in each of these ways, each on a path of its own."""
    both = qdisc(mbit, rtt_ms, bdps)
    who = "" if root else "as_nobody "
    return "".join(path(both, both) + f"""
for ns in a b; do on $ns sysctl -qw net.ipv4.tcp_congestion_control={cc}; done
on b {who}bulk recv --port {PORT} >/dev/null 2>&1 &
listening b {PORT}
on a {who}bulk send --json --cc {cc} {options} --streams {flows} --seconds {SECONDS} --port {PORT} 10.0.2.1
kill $! 2>/dev/null
wait
""" for options in ways)


def told(result: dict) -> str:
    return (f"{result['rate_bit_per_s'] / 1e6:.1f} Mbit/s, RTT {result['rtt_mean_ns'] / 1e6:.1f} ms, "
            f"Jain's index {result['jain_index']:.3f}")


def throughput(flows: int, cc: str, mbit: float, rtt_ms: float, root: bool) -> Case:
    def check(said: str) -> None:
        none, live = objects(said)
        print(f"# none {told(none)}; live {told(live)}", flush=True)
        if live["rate_bit_per_s"] < 0.985 * none["rate_bit_per_s"]:
            raise AssertionError(f"{live['rate_bit_per_s'] / none['rate_bit_per_s']:.3f} of the rate")
        if live["jain_index"] < 0.95 * none["jain_index"]:
            raise AssertionError(f"Jain's index {live['jain_index']}, {none['jain_index']} without")

    return Case(f"{flows} flows, {mbit:g} x {rtt_ms:g}, {cc}{', CAP_NET_ADMIN' * root}",
                together(flows, cc, mbit, rtt_ms, 2, root, ("--tune none", "--tune live")), check)


def low_delay(flows: int, cc: str, mbit: float, rtt_ms: float, bdps: float, least: float) -> Case:
    def check(said: str) -> None:
        none, live = objects(said)
        print(f"# none {told(none)}; live {told(live)}", flush=True)
        if live["rate_bit_per_s"] < least * none["rate_bit_per_s"] or live["rtt_mean_ns"] > 1.3e6 * rtt_ms:
            raise AssertionError(f"{live['rate_bit_per_s'] / none['rate_bit_per_s']:.3f} of the rate at "
                                 f"{live['rtt_mean_ns'] / 1e6 / rtt_ms:.2f} of the path's RTT")

    return Case(f"{flows} flows, low delay, {mbit:g} x {rtt_ms:g}, {cc}",
                together(flows, cc, mbit, rtt_ms, bdps, False, ("--tune none", "--tune live --intent low-delay")), check)


def cases(kernel: Kernel, quick: bool) -> Iterator[Case]:
    if quick:
        return
    for cc in ("cubic", "bbr"):
        for flows in (4, 8):  # a queue of 4 MB
            yield low_delay(flows, cc, 100, 50, 6.4, 0.85 if cc == "bbr" and kernel.number < PACES_BBR else LEAST_LOW_DELAY)
        for flows in (8, 64):
            for root in (False, True):
                yield throughput(flows, cc, 400, 100, root)
