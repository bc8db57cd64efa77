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
    """How much the value may be off without a flag; the interval holds the truth."""
    peer: str = "10.0.2.1"
    packet_bytes: int = 1500


def clean(mbit: float, rtt_ms: float) -> Cell:
    both = qdisc(mbit, rtt_ms)
    return Cell(f"{mbit} x {rtt_ms}", both, both, mbit, mbit, rtt_ms, share=0.03)


def netem(name: str, words: str = "", mbit: float = 100, rtt_ms: float = 20, jitter: str = "", **kw) -> Cell:
    both = qdisc(mbit, rtt_ms, more=words, jitter=jitter)
    return Cell(f"{name}, {mbit} x {rtt_ms}", both, both, mbit, mbit, rtt_ms, **kw)


def first(name: str, there: str, mbit: float, rtt_ms: float, more: str = "") -> Cell:
    """What shapes comes first; all the delay is on the way back, where 1 Gbit/s is the rate."""
    return Cell(f"{name}, {mbit} x {rtt_ms}", there, f"netem rate 1000mbit delay {rtt_ms:g}ms limit 20000", mbit, 1000,
                rtt_ms, more)


def at_each_end(command: str) -> str:
    """A command for each network device, which is $2 in namespace $1."""
    return f"for end in 'a a0' 'r ra' 'r rb' 'b b0'; do set -- $end; {command}; done\n"


POLICE = """tc -n r qdisc add dev ra ingress
tc -n r filter add dev ra parent ffff: matchall action police rate 50mbit burst 100k conform-exceed drop
"""
QUICK = [clean(mbit, rtt_ms) for mbit in (10, 100) for rtt_ms in (20, 100)]
CLEAN = [clean(mbit, rtt_ms) for mbit in (1, 10, 100, 400, 1000) for rtt_ms in (2, 20, 100, 200)]
IMPAIRED = [
    *(netem(f"loss of {percent}%", f"loss {percent}%") for percent in (0.1, 1, 5)),
    *(netem(f"jitter of {ms} ms, {kind}", jitter=f"{ms}ms distribution {kind}")
      for ms in (1, 5) for kind in ("normal", "pareto")),
    netem("jitter of 1 ms, normal", mbit=1000, jitter="1ms distribution normal"),
    netem("duplicates, 2%", "duplicate 2%"),
    netem("reordering of 2%", "reorder 98% 50%"),
    *(netem(f"packets held for {us} microseconds", f"slot {us}us {us}us", mbit=mbit)
      for us in (50, 250) for mbit in (100, 1000)),
    first("tbf", "tbf rate 50mbit burst 16kb limit 400kb", 50, 40),
    first("tbf with a burst of 64 KB", "tbf rate 50mbit burst 64kb limit 400kb", 50, 40),
    first("policer with a burst of 100 KB", "netem rate 1000mbit limit 20000", 50, 40, POLICE),
    netem("fq at the sender", more="tc -n a qdisc add dev a0 root fq\n"),
    netem("fq_codel at the sender", more="tc -n a qdisc add dev a0 root fq_codel\n"),
    netem("GRO", mbit=1000, more=at_each_end('on $1 ethtool -K $2 gro on 2>/dev/null')),
    Cell("asymmetric, 100 and 5 x 40", qdisc(100, 40), qdisc(5, 40), 100, 5, 40),
    Cell("asymmetric, 5 and 100 x 40", qdisc(5, 40), qdisc(100, 40), 5, 100, 40),
    netem("IPv6", peer="fd00:2::1"),
    *(netem(f"MTU {mtu}", more=at_each_end(f"ip -n $1 link set $2 mtu {mtu}"), packet_bytes=mtu) for mtu in (1280, 9000)),
]


def check_way(result: dict, way: str, mbit: float, cell: Cell) -> None:
    """The interval holds the truth, and the value is near it or says that it is a bound."""
    truth = mbit * 1e6 * cell.packet_bytes / (cell.packet_bytes + ETHERNET_BYTES)
    low, value, high = (result[f"{way}_rate_{what}bit_per_s"] for what in ("low_", "", "high_"))
    between(truth, 0.98 * low, 1.02 * high, f"{way}: truth, of the interval")
    if not result[f"{way}_at_least"]:
        near(value, truth, cell.share, f"{way} rate")


def probe_of(cell: Cell) -> Case:
    def check(said: str) -> None:
        result = objects(said)[0]
        check_way(result, "tx", cell.mbit, cell)
        near(result["rtt_min_ns"], cell.rtt_ms * 1e6, 0.05 if cell.mbit > 1 else 0.5, "round-trip time")

    return Case(f"echoes, {cell.name}",
                path(cell.there, cell.back) + cell.more + f"on a as_nobody autobuf probe --json {cell.peer}\n", check)


def measure_of(cell: Cell) -> Case:
    def check(said: str) -> None:
        result = objects(said)[0]
        check_way(result, "tx", cell.mbit, cell)
        check_way(result, "rx", cell.back_mbit, cell)

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
    if quick:
        yield from map(probe_of, QUICK)
        yield from map(measure_of, QUICK[-1:])
        return
    for cell in CLEAN + IMPAIRED:
        yield probe_of(cell)
        yield measure_of(cell)
