# SPDX-License-Identifier: MIT
"""The intent `scavenger` beside Linux's own tcp_lp (Low Priority) and bbr, each as the one that yields, in virtual time.

Linux 6.12, a queue of one BDP. Alone; while cubic, or bbr, sends that came 6 s later; and how long short transfers of 60 KB take beside
it. Ratios are to what that cubic or bbr, or those transfers, have alone. Quick: 20 Mbit/s x 40 ms.
"""
from __future__ import annotations

import pathlib
from typing import NamedTuple

import report
from virtual import Bench, Way
from case import PORT
from suites.scavenger import END, PAYLOAD, SENDS, Counts, at, begin, moves, short_times_s, shorts

KERNEL = "6.12"
PATHS = ((20, 40), (10, 100), (50, 20))
WAYS = {"libautobuf, `scavenger`": (SENDS, "cubic"), "tcp_lp": ("", "lp"), "bbr": ("", "bbr"), "cubic": ("", "cubic")}
SCENES = ("alone", "cubic", "bbr", "short")
ALLOWED = "sysctl -qw net.ipv4.tcp_allowed_congestion_control='reno cubic bbr lp'\n"
"""To anybody: tcp_lp is not, by itself."""


class Run(NamedTuple):
    scene: str
    way: str
    """"": nobody yields."""
    mbit: float
    rtt_ms: float

    def script(self, number: int) -> str:
        text = f"echo '@@ {number}'\n" + begin(self.mbit, self.rtt_ms, 1)
        if self.way:
            end, cc = WAYS[self.way]
            text += ALLOWED + moves(PORT, end, 26, cc)
        if self.scene == "alone":
            return text + at(5000, 20000) + END
        text += "usleep 6000000\n"
        if self.scene == "short":
            return text + shorts() + END.replace("sed 's/^/# /' /tmp/76*\n", "").replace("rm", "rm -f")
        return text + moves(PORT + 1, "", 22, self.scene) + at(6000, 20000) + END

    def result(self, said: str) -> float:
        """Mbit/s of the one that sends besides, or alone; or seconds."""
        if self.scene == "short":
            return short_times_s(said)[0]
        count = Counts(said, self.mbit)
        if self.scene == "alone":
            return count.share(PORT, 5000, 20000) * self.mbit * PAYLOAD
        return count.share(PORT + 1, 6000, 20000) * self.mbit * PAYLOAD


def script(runs: list[Run]) -> str:
    return "".join(run.script(number) for number, run in enumerate(runs))


def results(said: str, runs: list[Run]) -> list[float]:
    parts = said.split("@@ ")[1:]
    return [run.result(part) for run, part in zip(runs, parts, strict=True)]


def run(quick: bool, out: pathlib.Path) -> None:
    bench = Bench("scavenger", KERNEL, out)
    text = f"Linux {bench.kernel.version}\n"
    for mbit, rtt_ms in PATHS[:1] if quick else PATHS:
        rows = []
        nobody = bench.results(Way(script, results, ()), [Run(scene, "", mbit, rtt_ms) for scene in SCENES[1:]])
        for way in WAYS:
            alone, *beside = bench.results(Way(script, results, ()), [Run(scene, way, mbit, rtt_ms) for scene in SCENES])
            rows.append([way, f"{alone / (mbit * PAYLOAD):.2f}", *(f"{got / none:.2f}" for got, none in zip(beside, nobody, strict=True))])
        text += f"\n{mbit} Mbit/s x {rtt_ms} ms\n\n" + report.table(
            ["", "alone, of the path", "cubic keeps", "bbr keeps", "short transfers take"], rows)
    (out / "scavenger.md").write_text(text)
    print(text)
