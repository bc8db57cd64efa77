# SPDX-License-Identifier: MIT
"""Is the result of `autobuf probe` right? Compares its rate and BDP with those of the emulated path.

The true rate is the configured one. The true RTT is that of the configured delays plus the
emulator's own mean lateness in that run. The BDP is as the library defines it (rate x RTT
of a full-size segment and its acknowledgement, in IP bytes). Each run has a new path.

With --busy N it measures clean paths alone, 100 times each (quick: 20), while N processes keep the processors busy. Planned:
how many of the runs whose rate is unsure have a plan all the same.
"""
from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import path
import report

PACKET = 1500
ACK = 52
MBITS = (1, 10, 100, 400, 1000)
RTTS_MS = (1, 10, 50, 100, 200)

# name, emulator parameters
KINDS = (
    ("clean", ""),
    ("cross traffic 50%", "cross=0.5"),
    ("loss 2%", "loss=0.02"),
    ("jitter 2 ms", "jitter=2ms"),
    ("in batches of 60 us", "batch=60us"),
    ("in batches of 250 us", "batch=250us"),
    ("a forwarder that wakes late", "wake=200us,forward=8us"),
    ("stalls of 5 ms", "stall=5ms,stall_every=103ms"),
)
BUSY_CELLS = ((400, 100), (50, 20), (1000, 10))
QUICK_CELLS = ((1, 100), (10, 10), (100, 50), (400, 100), (1000, 1), (1000, 50))


def cells(quick: bool) -> list[tuple[int, int]]:
    if quick:
        return list(QUICK_CELLS)
    return [(mbit, rtt) for mbit in MBITS for rtt in RTTS_MS
            if mbit * rtt * 125 >= 4 * PACKET]


def truth_of(mbit: int, rtt_ms: float, counted: dict) -> tuple[float, float]:
    """Rate (bit/s) and BDP (IP bytes) as the emulator made them."""
    late_ns = counted["ab"]["late_mean_ns"] + counted["ba"]["late_mean_ns"]
    seconds = rtt_ms / 1e3 + late_ns / 1e9
    return mbit * 1e6, mbit * 1e6 * seconds / 8 + PACKET + ACK


def measure(mbit: int, rtt_ms: float, extra: str, seed: int) -> dict:
    """One probe over a new path."""
    queue = max(int(2 * mbit * rtt_ms * 125), 40000)
    parameters = f"rate={mbit}M,delay={rtt_ms / 2}ms,queue={queue}"
    with path.Path(both=parameters + ("," + extra if extra else ""), seed=seed) as p:
        done = p.run("a", [path.built("tools/autobuf"), "probe", "--json", p.addr["b"]], timeout=10)
        counted = p.truth()
    if not done.stdout:
        return {"error": done.stderr.strip()}
    found = json.loads(done.stdout)
    rate, bdp = truth_of(mbit, rtt_ms, counted)
    result = {"at_least": found["tx_at_least"] and not found["tx_echoed"], "unsure": found["unsure"], "rate_bit_per_s": found["tx_rate_bit_per_s"],
              "planned": bool(found["unsure"] and (found["plan"] or not done.returncode)), "cost_bytes": found["cost_bytes"],
              "elapsed_ms": found["elapsed_ns"] / 1e6,
              "late_p95_us": max(counted[d]["late_p95_ns"] for d in ("ab", "ba")) / 1e3}
    if found["tx_rate_bit_per_s"] is None:
        return result | {"error": "no rate"}
    return result | {"rate_error": found["tx_rate_bit_per_s"] / rate - 1,
                     "product_error": found["tx_bdp_bytes"] / bdp - 1 if found["tx_bdp_bytes"] else None} | report.word(found, "tx", rate)


def summary(kind: str, mbit: int, rtt_ms: float, runs: list[dict]) -> dict:
    good = [r for r in runs if "rate_error" in r]

    def errors(key: str, q: float) -> float | None:
        values = [abs(r[key]) for r in good if r[key] is not None]
        return round(100 * report.quantile(values, q), 2) if values else None

    return {
        "kind": kind, "mbit_per_s": mbit, "rtt_ms": rtt_ms, "runs": len(runs),
        "no_rate": len(runs) - len(good), "at_least": sum(r.get("at_least") is True for r in runs),
        "rate_error_median_percent": errors("rate_error", 0.5),
        "rate_error_p95_percent": errors("rate_error", 0.95),
        "product_error_median_percent": errors("product_error", 0.5),
        "product_error_p95_percent": errors("product_error", 0.95),
        "cost_bytes_max": max((r.get("cost_bytes", 0) for r in runs), default=0),
        "elapsed_ms_max": round(max((r.get("elapsed_ms", 0) for r in runs), default=0), 1),
        "late_p95_us": round(max((r.get("late_p95_us", 0) for r in runs), default=0), 1),
        "words": report.words(good), "planned": sum(r["planned"] for r in good),
    }


def chart(rows: list[dict], svg: pathlib.Path) -> None:
    script, plots = "", []
    labels = sorted({(r["mbit_per_s"], r["rtt_ms"]) for r in rows})
    for number, (kind, _) in enumerate(KINDS):
        data = [(labels.index((r["mbit_per_s"], r["rtt_ms"])) + 0.1 * (number - 3.5),
                 max(r["rate_error_median_percent"] or 0.01, 0.01),
                 max(r["rate_error_p95_percent"] or 0.01, 0.01))
                for r in rows if r["kind"] == kind]
        if data:
            script += report.block(f"kind{number}", data)
            plots.append(f"$kind{number} using 1:2:2:3 with yerrorbars pt 7 ps 0.6 title '{kind}'")
    tics = ", ".join(f"'{m} x {d}' {i}" for i, (m, d) in enumerate(labels))
    report.gnuplot(svg, script + f"""
set title "Error of the rate: median, and up to the 95th percentile of runs"
set logscale y
set yrange [0.008:200]
set ylabel "error, percent"
set xlabel "Mbit/s x ms"
set xtics rotate by 60 right ({tics})
set key outside top horizontal
plot {", ".join(plots)}
""")


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def run(quick: bool, out: pathlib.Path, busy: int = 0) -> None:
    rows = []
    for kind, extra in [(f"beside {busy} busy loops", "")] if busy else KINDS:
        repeat = (20 if quick else 100) if busy else 5 if quick else (20 if kind == "clean" else 11)
        for mbit, rtt_ms in BUSY_CELLS if busy else cells(quick):
            with busy_loops(busy):
                runs = [measure(mbit, rtt_ms, extra, seed) for seed in range(1, repeat + 1)]
            rows.append(summary(kind, mbit, rtt_ms, runs) | {"all": runs})
            print({k: v for k, v in rows[-1].items() if k != "all"}, flush=True)
    head = ["path", "Mbit/s", "ms", "runs", "rate error median", "p95", "product error median",
            "p95", *report.WORDS_HEAD, "planned", "at least", "no rate", "sent at most", "time at most"]
    body = [[r["kind"], r["mbit_per_s"], r["rtt_ms"], r["runs"],
             f'{r["rate_error_median_percent"]}%', f'{r["rate_error_p95_percent"]}%',
             f'{r["product_error_median_percent"]}%', f'{r["product_error_p95_percent"]}%',
             *r["words"], r["planned"], r["at_least"], r["no_rate"], f'{r["cost_bytes_max"] / 1000:.0f} KB',
             f'{r["elapsed_ms_max"]:.0f} ms'] for r in rows]
    result = {"benchmark": "accuracy", "machine": report.machine(), "quick": quick, "rows": rows}
    name = "accuracy-busy" if busy else "accuracy"
    (out / f"{name}.json").write_text(json.dumps(result) + "\n")
    (out / f"{name}.md").write_text(f"{report.machine()}\n\n" + report.table(head, body))
    if not busy:
        chart(rows, out / "accuracy.svg")
    print((out / f"{name}.md").read_text())
