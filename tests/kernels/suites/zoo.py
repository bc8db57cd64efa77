# SPDX-License-Identifier: MIT
"""Programs of Debian that nobody patched, while autobuf watch --tune manages them, or under autobuf run."""
from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from case import BUILD, PORT, Case, path, qdisc, was_watched
from packages import Kernel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "zoo"))

from suites.writers import SETTABLE  # noqa: E402
from zoo_root import MODULE, PLACE, UNREACHED, archives, zoo  # noqa: E402

PROGRAMS = ("tests/zoo/forced.so", "preload/libautobuf-run.so")

SETUP = f"""
zoo={PLACE}
if [ ! -e $zoo/proc/self ]; then
    mount -t proc proc $zoo/proc
    mount --bind /dev $zoo/dev
    cp /usr/bin/forced.so /usr/lib/autobuf/* $zoo/usr/lib
    cp /usr/bin/autobuf $zoo/usr/bin
    mkdir $zoo/usr/preload
    cp /usr/bin/libautobuf-run.so $zoo/usr/preload
    chmod 1777 $zoo/tmp
    modprobe -a tls aesni-intel
fi

# in_zoo NAMESPACE WORD...: as a user without any capability
in_zoo()
{{
    ns=$1 under=
    shift
    [ "$ns" != a ] || under=$sender_under
    on "$ns" chroot $zoo /usr/bin/setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all \\
        /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp WORK=/tmp/files SERVER="$server" PORT={PORT} \\
        BYTES="$bytes" MODULES=/zoo/modules $forced $under "$@"
}}

now_ns() {{ chroot $zoo /usr/bin/date +%s%N; }}

# move PROGRAM SENDER TUNED SIDE: from a to b; says how long it took
move()
{{
    rm -rf $zoo/tmp/files
    mkdir -p $zoo/tmp/files/got
    head -c "$bytes" /dev/zero >$zoo/tmp/files/file
    chown -R nobody:nogroup $zoo/tmp/files
    case $2 in
    serve) server=10.0.1.1 at=a to=b ;;
    move) server=10.0.2.1 at=b to=a ;;
    esac
    in_zoo $at /zoo/zoo "$1" serve >/tmp/served 2>&1 &
    serving=$!
    until on $at ss -Hltn "sport = :{PORT}" | grep -q .; do
        kill -0 $serving 2>/dev/null || {{ cat /tmp/served; return; }}
        usleep 1000
    done
    watching=
    # Its user has a shell already: only the command's own start counts.
    if [ "$3" != no ]; then
        who=as_nobody
        [ "$3" = user ] || who=
        rm -f /tmp/ready /tmp/whom
        touch /tmp/ready
        chmod 666 /tmp/ready
        mkfifo -m 666 /tmp/whom
        on "$4" $who sh -c 'echo >/tmp/ready && read -r pid </tmp/whom && exec autobuf watch --json --tune "$pid"' \\
            >/tmp/watched 2>&1 &
        watching=$!
        until [ -s /tmp/ready ] || ! kill -0 $watching; do usleep 1000; done
    fi
    begin_ns=$(now_ns)
    in_zoo $to /zoo/zoo "$1" move >/tmp/moved 2>&1 &
    moving=$!
    # In each run, for this takes the machine's only CPU, too.
    until pid=$(bulk "$4") && [ "$pid" ] || ! kill -0 $moving 2>/dev/null; do usleep 50000; done
    [ ! "$watching" ] || [ ! "$pid" ] || echo "$pid" 1<>/tmp/whom # which does not wait for a shell that has failed
    wait $moving && echo "took $(($(now_ns) - begin_ns))" || cat /tmp/moved /tmp/served
    for pid in $(ip netns pids a) $(ip netns pids b); do kill "$pid"; done 2>/dev/null
    wait
    [ "$watching" ] || return 0
    grep '"change"' /tmp/watched | sed 's/^/# /'
    echo "watched $(grep -c '"limited"' /tmp/watched)"
}}

# bulk SIDE: the process in a that sends bulk data, or in b that receives them
bulk()
{{
    case $1 in
    a) on a ss -Htnp state established | awk '$2 > 50000' ;;
    b) on b ss -OHtnpi state established | grep 'bytes_received:[0-9]\\{{6,\\}}' ;;
    esac | sed -n 's/.*[(,]pid=\\([0-9]*\\),.*/\\1/p' | head -1
}}
"""
"""Needs bytes; forced, which may be words for env; and sender_under, which may be a command that runs what sends."""


class Run(NamedTuple):
    program: str
    cc: str
    mbit: float
    rtt_ms: float
    bytes: int
    tuned: str = "no"
    """Who manages it: "no", its own "user", "root", or what sends is under "autobuf run"."""
    sndbuf: int = 0
    """Forced on the sender; 0: what it does by itself."""
    bdps: float = 2
    """Of the queue."""
    side: str = "a"
    """Which is managed: "a", which sends, or "b"."""

    @property
    def script(self) -> str:
        both = qdisc(self.mbit, self.rtt_ms, self.bdps)
        under = self.tuned if self.tuned.startswith("autobuf run") else ""
        size = forced = ""
        if self.sndbuf and self.program in UNREACHED:  # as large, from the beginning on
            size = f"on a sysctl -qw net.ipv4.tcp_wmem='4096 {2 * self.sndbuf} {2 * self.sndbuf}'"
        elif self.sndbuf:
            forced = f"LD_PRELOAD=/usr/lib/forced.so ZOO_SNDBUF={self.sndbuf}"
        return SETUP + path(both, both) + f"""
for ns in a b; do on $ns sysctl -qw net.ipv4.tcp_congestion_control={self.cc}; done
{size}
bytes={self.bytes} forced='{forced}' sender_under='{under}'
move {self.program} {zoo(self.program, "sender")} {"no" if under else self.tuned} {self.side}
"""

    def rate_bit_per_s(self, said: str) -> float:
        """Of the whole program's time, or the reason why there is none."""
        if not (took := re.search(r"^took (\d+)$", said, re.M)):
            raise AssertionError(said.strip()[-600:] or "it said nothing")
        if self.tuned in ("user", "root"):
            was_watched(said)
        return 8e9 * self.bytes / int(took[1])


def all_archives() -> tuple[pathlib.Path, ...]:
    return archives(BUILD / "zoo")


def answers(said: str) -> list[str]:
    """What each run said, of those that ran one after the other."""
    return re.split(r"^--- run\n", said, flags=re.M)[1:]


def script(runs: list[Run]) -> str:
    return "".join(f"echo '--- run'\n{run.script}" for run in runs)


def tuned(alone: Run) -> Run:
    """The same, managed by its own user or its module."""
    return alone._replace(program=MODULE) if MODULE.startswith(f"{alone.program}:") else alone._replace(tuned="user")


def received(alone: Run) -> Run:
    """The same, with the receiver managed."""
    return alone._replace(tuned="user", side="b")


def managed(alone: Run, least: float, after: Callable[[Run], Run] = tuned) -> Case:
    runs = [alone, after(alone)]

    def check(said: str) -> None:
        without, with_us = (run.rate_bit_per_s(each) for run, each in zip(runs, answers(said), strict=True))
        print(f"# alone {without / 1e6:.1f} Mbit/s, managed {with_us / 1e6:.1f}: {with_us / without:.3f}", flush=True)
        if with_us < least * without:
            raise AssertionError(f"{with_us / without:.3f} of {without / 1e6:.1f} Mbit/s, not {least:g}")

    side = ", its receiver" * (runs[1].side == "b")
    return Case(f"{alone.program}{side}, {alone.mbit:g} x {alone.rtt_ms:g}, {alone.cc}", script(runs), check, PROGRAMS, all_archives)


GAINS = {"nginx:sendfile": 1.1, "rsync": 1.1, "netcat": 1.3}
"""On 400 x 100, of 400 MB."""


def cases(kernel: Kernel, quick: bool) -> Iterator[Case]:
    """The smaller part; benchmark zoo has all."""
    if quick:
        return
    for program, gain in GAINS.items():
        for cc in ("cubic", "bbr"):
            yield managed(Run(program, cc, 400, 100, 400_000_000), gain if kernel.number >= SETTABLE else 0.985)
            yield managed(Run(program, cc, 100, 50, 100_000_000), 0.985)
        yield managed(Run(program, "cubic", 400, 100, 100_000_000), 0.985, received)
