# SPDX-License-Identifier: MIT
"""autobuf probe, and autobuf measure in band, against what the kernel's own qdiscs do."""
from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from case import ETHERNET_BYTES, Case, between, near, objects, path, qdisc
from packages import Kernel

PORT = 7411


class Cell(NamedTuple):
    name: str
    there: str
    """tc's words for the qdisc towards the peer; back: towards us."""
    back: str
    mbit: float
    """As the qdisc says it: it counts the Ethernet header. back_mbit: the same for the way back."""
    back_mbit: float
    rtt_ms: float
    more: str = ""
    """Shell commands, once the path is there."""
    share: float = 0.2
    """How much the value may be off without a flag."""
    clean: bool = False
    """Nothing is wrong with the path: the interval holds the truth. On all others together it does so in nine of ten."""
    jitters: bool = False
    """netem holds a packet back behind one that it delays, so nobody knows the minimum RTT."""
    peer: str = "10.0.2.1"
    packet_bytes: int = 1500
    inband: bool = True
    """False: measured by echoes alone."""

    def rtt_ns(self) -> float:
        """Of a small echo, which takes its time on the wire."""
        small_bits = 8 * (SMALL_BYTES + ETHERNET_BYTES)
        return self.rtt_ms * 1e6 + small_bits * 1e3 * (1 / self.mbit + 1 / self.back_mbit)


def clean(mbit: float, rtt_ms: float) -> Cell:
    both = qdisc(mbit, rtt_ms)
    return Cell(f"{mbit} x {rtt_ms}", both, both, mbit, mbit, rtt_ms, share=0.03, clean=True)


def netem(name: str, words: str = "", mbit: float = 100, rtt_ms: float = 20, jitter: str = "", **kw) -> Cell:
    both = qdisc(mbit, rtt_ms, more=words, jitter=jitter)
    return Cell(f"{name}, {mbit} x {rtt_ms}", both, both, mbit, mbit, rtt_ms, **kw)


def first(name: str, there: str, mbit: float, rtt_ms: float, more: str = "", **kw) -> Cell:
    """What shapes comes first; all the delay is on the way back, where 1 Gbit/s is the rate."""
    return Cell(f"{name}, {mbit} x {rtt_ms}", there, f"netem rate 1000mbit delay {rtt_ms:g}ms limit 20000", mbit, 1000,
                rtt_ms, more, **kw)


def at_each_end(command: str) -> str:
    """A command for each network device, which is $2 in namespace $1."""
    return f"for end in 'a a0' 'r ra' 'r rb' 'b b0'; do set -- $end; {command}; done\n"


POLICE = """tc -n r qdisc add dev ra ingress
tc -n r filter add dev ra parent ffff: matchall action police rate 50mbit burst 100k conform-exceed drop
"""
NOT_CLEAN = "all that are not clean"
LEAST_HELD = 10
"""Of fewer intervals nine of ten says nothing."""
SMALL_BYTES = 64
"""Of the echoes that measure the RTT, with their IP header."""
QUICK = [clean(10, 20), clean(100, 100)]
CLEAN = [clean(mbit, rtt_ms) for mbit in (1, 10, 100, 400, 1000) for rtt_ms in (2, 20, 100, 200)]
IMPAIRED = [
    *(netem(f"loss of {percent}%", f"loss {percent}%") for percent in (0.1, 1, 5)),
    *(netem(f"jitter of {ms} ms, {kind}", jitter=f"{ms}ms distribution {kind}", jitters=True)
      for ms in (1, 5) for kind in ("normal", "pareto")),
    netem("jitter of 1 ms, normal", mbit=1000, jitter="1ms distribution normal", jitters=True),
    netem("duplicates, 2%", "duplicate 2%"),
    netem("reordering of 2%", "reorder 2%"),
    *(netem(f"packets held for {us} microseconds", f"slot {us}us {us}us", mbit=mbit)
      for us in (50, 250) for mbit in (100, 1000)),
    first("tbf", "tbf rate 50mbit burst 16kb limit 400kb", 50, 40),
    first("tbf with a burst of 64 KB", "tbf rate 50mbit burst 64kb limit 400kb", 50, 40),
    # A train that fits into what a policer lets through sees the link behind it. Echoes see the loss.
    first("policer with a burst of 100 KB", "netem rate 1000mbit limit 20000", 1000, 40, POLICE, inband=False),
    netem("fq at the sender", more="tc -n a qdisc add dev a0 root fq\n"),
    netem("fq_codel at the sender", more="tc -n a qdisc add dev a0 root fq_codel\n"),
    netem("GRO", mbit=1000, more=at_each_end('on $1 ethtool -K $2 gro on 2>/dev/null')),
    Cell("asymmetric, 100 and 5 x 40", qdisc(100, 40), qdisc(5, 40), 100, 5, 40),
    Cell("asymmetric, 5 and 100 x 40", qdisc(5, 40), qdisc(100, 40), 5, 100, 40),
    netem("IPv6", peer="fd00:2::1"),
    *(netem(f"MTU {mtu}", more=at_each_end(f"ip -n $1 link set $2 mtu {mtu}"), packet_bytes=mtu) for mtu in (1280, 9000)),
]


def check_way(result: dict, way: str, mbit: float, cell: Cell, held: list[bool]) -> None:
    """The interval holds the truth (held: whether it did on paths that are not clean), and the value is near it, or says
    that it is a bound, or unsure."""
    truth = mbit * 1e6 * cell.packet_bytes / (cell.packet_bytes + ETHERNET_BYTES)
    low, value, high = (result[f"{way}_rate_{what}bit_per_s"] for what in ("low_", "", "high_"))
    if value is None:
        raise AssertionError(f"no {way} rate")
    if result[f"{way}_at_least"]:
        high = float("inf")
    if cell.clean:
        between(truth, 0.98 * low, 1.02 * high, f"{way}: truth, of the interval")
    else:
        held.append(0.95 * low <= truth <= 1.05 * high)
    if not result[f"{way}_at_least"] and not result[f"{way}_unsure"]:
        near(value, truth, cell.share, f"{way} rate")


def probe_of(cell: Cell, held: list[bool]) -> Case:
    def check(said: str) -> None:
        result = objects(said)[0]
        if not cell.inband:
            between(result["loss_permille"], 50, 999, "loss")
            return
        check_way(result, "tx", min(cell.mbit, cell.back_mbit), cell, held)
        if not cell.jitters:
            near(result["rtt_min_ns"], cell.rtt_ns(), 0.05, "RTT")

    return Case(f"echoes, {cell.name}",
                path(cell.there, cell.back) + cell.more + f"on a as_nobody autobuf probe --json {cell.peer}\n", check)


def measure_of(cell: Cell, held: list[bool]) -> Case:
    def check(said: str) -> None:
        result = objects(said)[0]
        check_way(result, "tx", cell.mbit, cell, held)
        check_way(result, "rx", cell.back_mbit, cell, held)

    target = f"[{cell.peer}]" if ":" in cell.peer else cell.peer
    return Case(f"in band, {cell.name}", path(cell.there, cell.back) + cell.more + f"""
for ns in a b; do on $ns sysctl -qw net.ipv4.tcp_congestion_control=cubic; done
on b as_nobody autobuf serve --bind {cell.peer} --port {PORT} >/dev/null &
listening b {PORT}
on a as_nobody autobuf measure --json {target}:{PORT}
kill $!
wait
""", check)


def cases(_: Kernel, quick: bool) -> Iterator[Case]:
    held: list[bool] = []

    def check_all(_: str) -> None:
        if len(held) < LEAST_HELD:
            raise AssertionError(f"{len(held)} intervals are too few: it comes after the others")
        between(sum(held) / max(1, len(held)), 0.9, 1, f"of {len(held)} intervals so many held the truth")

    for cell in QUICK if quick else CLEAN + IMPAIRED:
        group = NOT_CLEAN if cell in IMPAIRED else ""
        yield probe_of(cell, held)._replace(group=group)
        if cell.inband and (not quick or cell == QUICK[-1]):
            yield measure_of(cell, held)._replace(group=group)
    if not quick:
        yield Case(NOT_CLEAN, ":\n", check_all)  # a shell takes nothing in parentheses for an error
