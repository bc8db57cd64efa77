# SPDX-License-Identifier: MIT
"""Programs that know nothing of the library, each sending in its own way, while autobuf watch --tune manages them."""
from __future__ import annotations

from collections.abc import Iterator

from case import PORT, Case, objects, path, qdisc, was_watched, watched
from packages import Kernel

PROGRAMS = ("tests/zoo/writer",)
LEAST_GAINS = {"poll": 1.4, "retry": 1.05, "late": 1.2, "write8k": 1.4, "write1m": 1.3, "sendfile": 1.15}
"""On 400 x 100, where anybody may set a larger buffer. A sendfile() stores three times what its buffer should hold, and one that tries
again fills all of it."""
LEAST = 0.985
LEAST_BY_CHANCE = 0.92
"""With bbr and a queue of half a BDP, where its random phases decide: alone it has 62.5 or 65.5 Mbit/s (6.12), as often the one as
the other."""
SETTABLE = (6, 18)
"""From there on anybody may set a send buffer of 8 MB, where autotuning's ends at 4."""


def one(kind: str, cc: str, mbit: float, rtt_ms: float, bdps: float, tuned: str) -> str:
    """tuned: "no", "user" or "root"."""
    both = qdisc(mbit, rtt_ms, bdps)
    who = "" if tuned == "root" else "as_nobody"
    begin = f"""until pid=$(pidof writer); do usleep 1000; done
on a {who} autobuf watch --json --tune "$pid" >/tmp/watch 2>&1 &
watch=$!
"""
    end = """wait $watch
grep '"change"' /tmp/watch | sed 's/^/# /'
""" + watched("/tmp/watch")
    return path(both, both) + f"""
on b nc -l -p {PORT} >/dev/null &
listening b {PORT}
on a {who} writer {kind} 10.0.2.1 {PORT} 8 {cc} >/tmp/writer &
writer=$!
{begin if tuned != "no" else ""}wait $writer
cat /tmp/writer
{end if tuned != "no" else ""}killall nc 2>/dev/null
wait
"""


def managed(kind: str, cc: str, mbit: float, rtt_ms: float, bdps: float, who: str, least: float) -> Case:
    def check(said: str) -> None:
        was_watched(said)
        alone, tuned = (each["rate_bit_per_s"] for each in objects(said))
        print(f"# alone {alone / 1e6:.1f} Mbit/s, managed {tuned / 1e6:.1f}: {tuned / alone:.3f}", flush=True)
        if tuned < least * alone:
            raise AssertionError(f"{tuned / alone:.3f} of {alone / 1e6:.1f} Mbit/s, not {least:g}")

    return Case(f"{kind}, {mbit:g} x {rtt_ms:g}, a queue of {bdps:g} BDP, {cc}, {who}",
                one(kind, cc, mbit, rtt_ms, bdps, "no") + one(kind, cc, mbit, rtt_ms, bdps, who), check, PROGRAMS)


def cases(kernel: Kernel, quick: bool) -> Iterator[Case]:
    gains = {"user": kernel.number >= SETTABLE, "root": kernel.number >= (6, 16)}
    if quick:
        if gains["user"]:
            yield managed("write8k", "cubic", 400, 100, 2, "user", 1.5)
            yield managed("late", "cubic", 400, 100, 2, "user", LEAST_GAINS["late"])
        return
    for kind in LEAST_GAINS:
        for cc in ("cubic", "bbr"):
            for who in ("user", "root"):
                yield managed(kind, cc, 400, 100, 2, who, LEAST_GAINS[kind] if gains[who] else LEAST)
            yield managed(kind, cc, 100, 200, 0.5, "user", LEAST_BY_CHANCE if cc == "bbr" else LEAST)
            yield managed(kind, cc, 100, 20, 2, "user", LEAST)
