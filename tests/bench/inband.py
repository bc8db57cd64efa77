# SPDX-License-Identifier: MIT
"""Is the result of `autobuf measure` right? Compares the rate of each direction with that of the emulated path.

`autobuf serve` runs at one end, `autobuf measure` at the other; each run has a new path. Cost is what the
emulator counted in each direction, with the connection's own packets and acknowledgements. Time is from the
first line to the last answer; it is compared with six round trips and half a second.
"""
from __future__ import annotations

import json
import pathlib

import path
import report

PORT = 7411
PATHS = ((100, 100), (100, 10), (10, 100), (500, 50), (1000, 1000))
"""Mbit/s there and back."""
RTTS_MS = (1, 10, 50, 200)
ROUND_TRIPS = 6
EXTRA_MS = 500

# name, congestion control, emulator parameters, runs, RTTs
KINDS = (
    ("clean", "cubic", "", 20, RTTS_MS),
    ("clean", "reno", "", 11, RTTS_MS),
    ("clean", "bbr", "", 11, RTTS_MS),
    ("cross traffic 50%", "cubic", "cross=0.5", 20, (10, 50)),
    ("loss 2%", "cubic", "loss=0.02", 11, (10, 50)),
    ("jitter 2 ms", "cubic", "jitter=2ms", 11, (50,)),
    ("in batches of 60 us", "cubic", "batch=60us", 11, (50,)),
    ("a forwarder that wakes late", "cubic", "wake=200us,forward=8us", 11, (50,)),
    ("stalls of 5 ms", "cubic", "stall=5ms,stall_every=103ms", 11, (50,)),
)


def parameters(mbit: float, rtt_ms: float, extra: str) -> str:
    queue = max(int(2 * mbit * rtt_ms * 125), 60000)
    return f"rate={mbit}M,delay={rtt_ms / 2}ms,queue={queue}" + ("," + extra if extra else "")


def measure(there: float, back: float, rtt_ms: float, cc: str, extra: str, seed: int) -> dict:
    """One measurement over a new path."""
    with path.Path(ab=parameters(there, rtt_ms, extra), ba=parameters(back, rtt_ms, extra),
                   seed=seed) as p:
        for side in "ab":
            p.route(side, congctl=cc)
        server = p.popen("b", [path.built("tools/autobuf"), "serve"])
        path.wait_listening(p, "b", PORT, server)
        p.reset()
        done = p.run("a", [path.built("tools/autobuf"), "measure", "--json", p.addr["b"]],
                     timeout=40)
        truth = p.truth()
    if done.returncode:
        return {"error": done.stderr.strip()}
    found = json.loads(done.stdout)
    errors, bounds, missing = [], 0, 0
    for key, mbit in (("tx", there), ("rx", back)):
        rate = found[f"{key}_rate_bit_per_s"]
        if rate is None:
            missing += 1
        elif found[f"{key}_at_least"]:
            bounds += 1
            errors.append({"bound": rate / mbit / 1e6 - 1})
        else:
            errors.append({"error": rate / mbit / 1e6 - 1})
        if rate is not None:
            errors[-1] |= report.word(found, key, mbit * 1e6)
    return {"rates": errors, "bounds": bounds, "missing": missing,
            "elapsed_ms": found["elapsed_ns"] / 1e6, "rtt_ms": found["rtt_min_ns"] / 1e6,
            "bytes": max(truth[d]["bytes"] for d in ("ab", "ba"))}


def row_of(kind: str, cc: str, there: float, back: float, rtt_ms: float, runs: list[dict]) -> list:
    good = [r for r in runs if "rates" in r]
    errors = [abs(e["error"]) for r in good for e in r["rates"] if "error" in e]
    above = max((e["bound"] for r in good for e in r["rates"] if "bound" in e), default=None)
    bounds = sum(r["bounds"] for r in good)
    return [f"{kind}, {cc}", f"{there} / {back}", rtt_ms, len(runs),
            f"{100 * report.quantile(errors, 0.5):.2f}%" if errors else "",
            f"{100 * report.quantile(errors, 0.95):.2f}%" if errors else "",
            *report.words([e for r in good for e in r["rates"]]),
            f"{bounds} of {2 * len(good)}" + (f", {100 * above:+.1f}%" if above is not None else ""),
            len(runs) - len(good) + sum(r["missing"] for r in good),
            f"{max((r['bytes'] for r in good), default=0) / 1000:.0f} KB",
            f"{max((r['elapsed_ms'] for r in good), default=0):.0f}",
            f"{ROUND_TRIPS * rtt_ms + EXTRA_MS:.0f}"]


def run(quick: bool, out: pathlib.Path) -> None:
    head = ["path", "Mbit/s there / back", "ms", "runs", "error, median", "p95",
            *report.WORDS_HEAD, "bounds, the highest", "none", "sent at most", "ms at most", "six RTT and 500 ms"]
    body = []
    for kind, cc, extra, count, rtts_ms in KINDS:
        for there, back in PATHS:
            for rtt_ms in rtts_ms[:1] if quick else rtts_ms:
                runs = [measure(there, back, rtt_ms, cc, extra, seed)
                        for seed in range(1, (3 if quick else count) + 1)]
                body.append(row_of(kind, cc, there, back, rtt_ms, runs))
                print(" | ".join(map(str, body[-1])), flush=True)
                for found in runs:
                    if "error" in found:
                        print("   ", found["error"], flush=True)
    text = f"{report.machine()}\n\n" + report.table(head, body)
    (out / "inband.md").write_text(text)
    print(text)
