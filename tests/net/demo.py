# SPDX-License-Identifier: MIT
"""What examples/demo shows, after everything is installed and built."""
from __future__ import annotations

import json
import os
import pathlib
import sys

import path

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import report  # noqa: E402

RATE, RTT_MS = "400M", 100
SECONDS = 15
NAIVE = 1048576
CC = "cubic"

# Linux 6.18's, whatever this kernel's are.
GLOBAL = {"net.core.rmem_max": 4194304, "net.core.wmem_max": 4194304}
LOCAL = {"net.ipv4.tcp_rmem": "4096 131072 33554432", "net.ipv4.tcp_wmem": "4096 16384 4194304",
         "net.ipv4.ping_group_range": "0 65534"}

WAYS = (
    ("kernel defaults", "none"),
    (f"naive setsockopt({NAIVE})", f"naive:{NAIVE}"),
    ("libautobuf", "autobuf"),
)


def prepare(p: path.Path) -> None:
    for side in ("a", "b"):
        for name, value in LOCAL.items():
            p.sysctl(side, name, value)
        p.route(side, congctl=CC)


def show_probe(p: path.Path) -> None:
    for command in ("probe", "explain"):
        words = [path.built("tools/autobuf"), command, p.addr["b"]]
        print(f"$ autobuf {command} {p.addr['b']}")
        done = p.run("a", words, unprivileged=True)
        print(done.stdout + done.stderr, flush=True)


def transfer(tune: str) -> dict:
    """One transfer over a path of its own, for a kernel remembers what it learnt of the last."""
    with path.Path(both=f"rate={RATE},delay={RTT_MS // 2}ms,queue=10M") as p:
        prepare(p)
        server = p.popen("b", [path.built("examples/bulk"), "recv"], unprivileged=True)
        path.wait_listening(p, "b", 7500, server)
        done = p.run("a", [path.built("examples/bulk"), "send", "--tune", tune, "--seconds",
                           str(SECONDS), "--json", p.addr["b"]], unprivileged=True)
    if done.returncode:
        sys.exit(f"demo: the transfer failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def draw(rates: list[float], svg: pathlib.Path) -> None:
    rows = [(i, f'"{name}"', f"{rate:.1f}")
            for i, ((name, _), rate) in enumerate(zip(WAYS, rates))]
    report.gnuplot(svg, report.block("rates", rows) + f"""
set title "{RATE}bit/s, {RTT_MS} ms, {CC}, {SECONDS} s"
set style fill solid 0.8
set boxwidth 0.6
set yrange [0:*]
set ylabel "Mbit/s"
unset key
plot $rates using 1:3:xtic(2) with boxes lc rgb '#3366aa', \\
     $rates using 1:3:3 with labels offset 0,0.7
""")


def main() -> int:
    svg = pathlib.Path(os.environ.get("AUTOBUF_BUILD", ".")) / "demo.svg"
    with path.machine_lock(), path.global_sysctls(GLOBAL):
        print(f"A path of {RATE}bit/s and {RTT_MS} ms, {CC}, Linux 6.18's limits, no privilege.\n")
        with path.Path(both=f"rate={RATE},delay={RTT_MS // 2}ms,queue=10M") as p:
            prepare(p)
            show_probe(p)
        results = [transfer(tune) for _, tune in WAYS]
    rates = [r["rate_bit_per_s"] / 1e6 for r in results]
    print(f"{'transfer of ' + str(SECONDS) + ' s':28} {'Mbit/s':>8} {'x default':>10} "
          f"{'RTT ms':>8}  plan")
    for (name, _), r, rate in zip(WAYS, results, rates):
        print(f"{name:28} {rate:8.1f} {rate / rates[0]:10.2f} {r['rtt_mean_ns'] / 1e6:8.1f}  "
              f"{r['reason']}")
    draw(rates, svg)
    print(f"\nchart: {os.path.relpath(svg)}")  # of the tree, wherever it is seen
    return 0


if __name__ == "__main__":
    sys.exit(main())
