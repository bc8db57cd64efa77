# SPDX-License-Identifier: MIT
"""The effect of the intent low-delay: rate and mean RTT, compared with kernel defaults.

The paths have a queue of several BDPs, in both directions. The variants run in turn, and medians count. For low delay
the path is set by hand: an echo sees only the slower direction, so nothing is paced after it.
The RTT is the mean of TCP_INFO's tcpi_rtt, read about every 10 ms, from the first byte to
the last.
"""
from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import tempfile
from typing import Any

import path
import report
from transfer import LIMITS

SECONDS = 10
TIMES, QUICK_TIMES = 3, 1
# rate in Mbit/s, RTT in ms, queue in bytes
PATHS = ((100, 50, 4000000), (10, 40, 500000), (400, 20, 5000000), (20, 100, 1000000))
WAYS = {"default": ["--tune", "none"],
        "throughput": ["--tune", "autobuf"],
        "low-delay": ["--tune", "autobuf", "--intent", "low-delay"]}


def knowing(p: tuple, folder: str) -> dict[str, str]:
    """An environment in which the path store knows this path."""
    store = pathlib.Path(folder, "paths")
    store.parent.chmod(0o755)
    subprocess.run([path.built("tools/autobuf"), "paths", "--store", str(store), "--rate", f"{p[0]}M", "--rtt", str(p[1]),
                    "set", "10.77.0.0/24"], check=True)
    return os.environ | {"AUTOBUF_PATHS": str(store)}


def transfer(p: tuple, cc: str, reverse: bool, words: list[str]) -> dict[str, Any]:
    mbit, rtt_ms, queue = p
    bulk = path.built("examples/bulk")
    with tempfile.TemporaryDirectory() as folder, \
            path.Path(both=f"rate={mbit}M,delay={rtt_ms / 2}ms,queue={queue}") as emulated:
        env = knowing(p, folder) if "low-delay" in words else dict(os.environ)
        LIMITS["6.18"].of_ends(emulated)
        for side in ("a", "b"):
            emulated.sysctl(side, "net.ipv4.ping_group_range", "0 65534")
            emulated.route(side, congctl=cc)
        server = emulated.popen("b", [bulk, "recv"], unprivileged=True, env=env)
        path.wait_listening(emulated, "b", 7500, server)
        done = emulated.run("a", [bulk, "send", "--json", "--seconds", str(SECONDS), *words,
                                  *(["--reverse"] if reverse else []), emulated.addr["b"]],
                            unprivileged=True, timeout=120, env=env)
    return json.loads(done.stdout)


def median(results: list[dict[str, Any]], key: str) -> float:
    return statistics.median(r[key] for r in results) / 1e6


def run(quick: bool, out: pathlib.Path) -> None:
    body = []
    cells = [(p, cc, reverse) for p in PATHS[:1 if quick else None] for cc in ("cubic", "bbr")
             for reverse in (False, True)]
    with LIMITS["6.18"].of_machine():
        for p, cc, reverse in cells:
            results: dict[str, list] = {way: [] for way in WAYS}
            for _ in range(QUICK_TIMES if quick else TIMES):
                for way, words in WAYS.items():
                    results[way].append(transfer(p, cc, reverse, words))
            base = median(results["default"], "rate_bit_per_s")
            for way, runs in results.items():
                rate = median(runs, "rate_bit_per_s")
                rtt = median(runs, "rtt_mean_ns")
                body.append([p[0], p[1], p[2] // 1000, cc, "peer" if reverse else "here", way,
                             f"{rate:.1f}", f"{rate / base:.3f}", f"{rtt:.1f}",
                             f"{rtt / p[1]:.2f}"])
                print(*body[-1], flush=True)
    head = ["Mbit/s", "ms", "queue, KB", "cc", "from", "way", "Mbit/s reached", "ratio",
            "mean RTT, ms", "of the path's"]
    (out / "delay.md").write_text(f"{report.machine()}\n\n{report.table(head, body)}")
    print((out / "delay.md").read_text())
