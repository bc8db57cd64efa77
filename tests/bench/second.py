# SPDX-License-Identifier: MIT
"""The second transfer to a host, whose path autobufd has learned from a first one of about 20 MB, in virtual time.

tests/zoo/writer sends for 5 s, slow start included, from an ordinary user: alone; beside autobufd, which knows nothing; beside it, after it
has learned the path at both ends; and with limits that somebody raised to 64 MB by hand at both ends. The queue is of two BDP. A machine
gives the same figures each time, so each is run once, after a first run that is not counted. Quick: one path, one writer, Linux 6.12.
"""
from __future__ import annotations

import pathlib
from typing import NamedTuple

import report
from virtual import Bench, Way  # which puts the folder of kernels on the path
from case import PORT, objects, plain_path

KERNELS = ("6.12", "newest")
PATHS = ((400, 100), (1000, 50), (100, 50))
KINDS = ("poll", "write8k", "write1m", "sendfile")
CONTROLS = ("cubic", "bbr")
ALONE, FIRST, SECOND, RAISED = WAYS = ("alone", "first", "second", "raised")
FIRST_BYTES = 20e6
SECONDS = 5
RAISE = "".join(f"on {host} sysctl -qw net.ipv4.tcp_wmem='4096 16384 67108864' net.ipv4.tcp_rmem='4096 131072 67108864'\n" for host in "ab")
NEEDED = ("tests/zoo/reader", "tests/zoo/writer", "tools/autobufd")


class Run(NamedTuple):
    kind: str
    cc: str
    mbit: float
    rtt_ms: float
    way: str

    def sends(self, for_s: float, out: str) -> str:
        return f"""on b as_nobody reader {PORT} all {for_s + 2} >/dev/null &
listening b {PORT}
on a as_nobody writer {self.kind} 10.0.2.1 {PORT} {for_s} {self.cc} >{out}
killall reader 2>/dev/null
wait $!
"""

    def script(self, number: int) -> str:
        text = f"echo '@@ {number}'\nkillall autobufd 2>/dev/null\n{plain_path(self.mbit, self.rtt_ms)}ip netns exec a ip tcp_metrics flush\n"
        if self.way == RAISED:
            text += RAISE
        for host in "ab" if self.way in (FIRST, SECOND) else "":
            text += f"""rm -f /tmp/store.{host}*
: >/tmp/daemon.{host}
printf 'state=off\\nstatus=off\\nstore=/tmp/store.{host}\\n[all]\\n' >/tmp/rules.{host}
on {host} autobufd --config /tmp/rules.{host} 2>/tmp/daemon.{host} &
until grep -q 'begins with' /tmp/daemon.{host}; do usleep 1000; done
"""
        if self.way == SECOND:
            for_s = 8 * self.rtt_ms / 1e3 + FIRST_BYTES * 8e-6 / self.mbit
            text += self.sends(for_s, "/dev/null") + "usleep 1000000\nip netns exec a ip tcp_metrics flush\n"
        return text + self.sends(SECONDS, "/tmp/sent") + "cat /tmp/sent\n"


def script(runs: list[Run]) -> str:
    return "".join(run.script(number) for number, run in enumerate(runs))


def rates(said: str, _: list[Run]) -> list[float]:
    return [objects(part)[0]["rate_bit_per_s"] / 1e6 for part in said.split("@@ ")[1:]]


def run(quick: bool, out: pathlib.Path) -> None:
    text = ""
    for name in KERNELS[:1] if quick else KERNELS:
        bench = Bench("second", name, out)
        for mbit, rtt_ms in PATHS[:1] if quick else PATHS:
            rows = []
            for cc in CONTROLS[:1] if quick else CONTROLS:
                for kind in KINDS[:1] if quick else KINDS:
                    alone, first, second, raised = bench.results(Way(script, rates, NEEDED), [Run(kind, cc, mbit, rtt_ms, way) for way in WAYS])
                    rows.append([f"{kind}, {cc}", f"{alone:.0f}", f"{first:.0f}", f"{second:.0f}", f"{raised:.0f}", f"{first / raised:.3f}",
                                 f"{second / raised:.3f}"])
            text += f"\nLinux {bench.kernel.version}, {mbit} Mbit/s x {rtt_ms} ms\n\n" + report.table(
                ["writer", "alone, Mbit/s", "first", "second", "raised by hand", "first / raised", "second / raised"], rows)
    (out / "second.md").write_text(text)
    print(text)
