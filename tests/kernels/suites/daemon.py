# SPDX-License-Identifier: MIT
"""Programs that lock a small buffer, while autobufd manages all connections of their host, without rules."""
from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from case import BUILD, PORT, Case, near, objects, path, plain_path, qdisc
from packages import Kernel

PROGRAMS = ("tests/zoo/reader", "tests/zoo/writer", "tools/autobufd")
LOCK_BYTES = 65536
LOCKED_PATHS = ((400, 40, 6), (200, 100, 6))
QUICK_PATH = (50, 200, 4)
LEAST_MENDED = 4
"""7.5 there, of which slow start takes most of the time."""
"""Mbit/s, ms, seconds."""
WITHHOLDS = "# autobufd: withholds small sizes of programs\n"
LEAST_WITHHELD = 0.98
"""The size is never set, so the transfer is that of a program that sets none."""
LEAST_OF_UNLOCKED = 0.85
"""Of the whole time: it takes two sweeps and a slow start until the connection is what it would have been."""
MOST_WHILE_LOCKED = 1 / 8
NEVER_BELOW = 0.98
SHARED_PATH = (200, 100)
SHARED_BYTES = 1_200_000
SHARERS = 4
SHARED_FROM_S, SHARED_S = 4, 3
SHARED_OFF = 0.05
WRITERS = ("poll", "late", "write8k", "sendfile")
LEAST_JAIN = 0.95
FORCED_PATH = (400, 100, 8)
SHORT_RMEM = "on b sysctl -qw net.ipv4.tcp_rmem='4096 131072 6291456'\n"
"""As before Linux 6.16."""
SENDER_BYTES = 33_554_432
LEAST_BY_FORCE = 1.15
"""Alone 228 Mbit/s on 5.10, 280 later, and 341 to 344 with it: of the whole time, from the first byte on."""
NEVER_PATHS = ((10, 20, 4), (100, 50, 4))
SOON = (400, 100, 2, 5)
"""Mbit/s, ms, BDP of queue, seconds from connect() on."""
LEAST_SOON = 0.96
"""Of what limits have that somebody raised to 64 MB at both ends: 0.97 to 0.99 on 6.12."""
FAR = "netem delay 80ms limit 200000"
OTHER_PATHS = (
    ("a path that is just full, 100 x 216", path(qdisc(100, 216, 0.5), qdisc(100, 216, 0.5)), 6, "cubic"),
    ("acknowledgements over 2 Mbit/s, 300 x 60", path(qdisc(300, 60, 1), qdisc(2, 60, 20)), 5, "bbr"),
    ("fq_codel, 150 x 80", path("handle 1: tbf rate 150mbit burst 32kb limit 4mb", FAR) + "tc -n r qdisc add dev rb parent 1:1 fq_codel\n", 6,
     "cubic"))
"""What autotuning gives is 1.07 BDP of the first, so a buffer twice as large would overflow its queue: 0.89 of the rate."""
HARDLY_A_QUEUE = ("a token bucket with hardly a queue, 200 x 80", path("tbf rate 200mbit burst 250kb latency 8ms", FAR), 6, "cubic")
"""95 to 162 Mbit/s without a daemon: what so short a queue drops is chance."""
TAUGHT_PATH = (400, 100, 8)
TAUGHT_WRITERS = ("poll", "write8k", "sendfile")
ROOMY_BYTES = 33_554_432
"""tcp_rmem since Linux 6.16; before, the peer's window limits there."""
LEAST_TAUGHT = 0.8
TAUGHT_OFF = 0.02


MOUNT = "mkdir -p /run/groups; mount -t cgroup2 groups /run/groups\n"


class Program(NamedTuple):
    """A writer of tests/zoo that sends from a to b, or a reader in b; both as an ordinary user."""
    mbit: float
    rtt_ms: float
    seconds: float
    daemon: bool = False
    reads: bool = False
    """The program in question is the reader, which listens."""
    lock_bytes: int = 0
    groups: bool = False
    """Control groups of version 2 are mounted, so that the daemon can withhold the size."""

    @property
    def script(self) -> str:
        where = "b" if self.reads else "a"
        begin = f"""{MOUNT if self.groups else ""}nsenter --net=/run/netns/{where} autobufd 2>/tmp/daemon &
until grep -q 'begins with' /tmp/daemon; do usleep 1000; done
""" if self.daemon else ""
        given = "until grep -q 'receive: ' /tmp/daemon; do usleep 1000; done\n" if self.daemon and self.lock_bytes and not self.groups else ""
        run = f"""on b as_nobody reader {PORT} all {self.seconds} {self.lock_bytes} >/tmp/reader &
reader=$!
listening b {PORT}
{given}on a as_nobody writer poll 10.0.2.1 {PORT} {self.seconds + 1} cubic >/dev/null 2>&1 &
wait $reader
cat /tmp/reader
""" if self.reads else f"""on b as_nobody reader {PORT} all {self.seconds + 1} >/dev/null &
listening b {PORT}
on a as_nobody writer poll 10.0.2.1 {PORT} {self.seconds} cubic {self.lock_bytes} after
"""
        return plain_path(self.mbit, self.rtt_ms) + f""": >/tmp/daemon
for ns in a b; do on $ns sysctl -qw net.ipv4.tcp_congestion_control=cubic; done
{begin}{run}killall autobufd reader writer 2>/dev/null
wait
umount /run/groups 2>/dev/null
sed 's/^/# /' /tmp/daemon
"""


def rates(said: str) -> list[float]:
    return [each["rate_bit_per_s"] / 1e6 for each in objects(said)]


def case(name: str, runs: list[Program], check) -> Case:
    return Case(name, "".join(run.script for run in runs), check, PROGRAMS)


def locked(mbit: float, rtt_ms: float, seconds: float, reads: bool) -> Case:
    free = Program(mbit, rtt_ms, seconds, reads=reads)
    alone = free._replace(lock_bytes=LOCK_BYTES)
    kind = "a listener" if reads else "a writer"

    def check(said: str) -> None:
        unlocked, without, ours = rates(said)
        print(f"# {kind}, {mbit:g} x {rtt_ms:g}: unlocked {unlocked:.1f} Mbit/s; locked {without / unlocked:.3f}; "
              f"with autobufd {ours / unlocked:.3f}", flush=True)
        if without > MOST_WHILE_LOCKED * unlocked:
            raise AssertionError(f"locked: {without / unlocked:.3f} of unlocked without autobufd")
        if ours < LEAST_OF_UNLOCKED * unlocked:
            raise AssertionError(f"{ours / unlocked:.3f} of unlocked")

    return case(f"{kind} locks {LOCK_BYTES // 1024} KB, {mbit:g} x {rtt_ms:g}", [free, alone, alone._replace(daemon=True)], check)


def withheld(mbit: float, rtt_ms: float, seconds: float, reads: bool) -> Case:
    free = Program(mbit, rtt_ms, seconds, reads=reads)
    kind = "a listener" if reads else "a writer"

    def check(said: str) -> None:
        unlocked, ours = rates(said)
        print(f"# {kind}, {mbit:g} x {rtt_ms:g}: unlocked {unlocked:.1f} Mbit/s; withheld {ours / unlocked:.3f}", flush=True)
        if WITHHOLDS not in said or ours < LEAST_WITHHELD * unlocked:
            raise AssertionError(f"{ours / unlocked:.3f} of unlocked")

    return case(f"{kind}'s {LOCK_BYTES // 1024} KB are withheld, {mbit:g} x {rtt_ms:g}",
                [free, free._replace(lock_bytes=LOCK_BYTES, daemon=True, groups=True)], check)


def mended(mbit: float, rtt_ms: float, seconds: float) -> Case:
    """A writer that locks its buffer, alone and beside autobufd."""
    alone = Program(mbit, rtt_ms, seconds, lock_bytes=LOCK_BYTES)

    def check(said: str) -> None:
        without, ours = rates(said)
        print(f"# locked {without:.1f} Mbit/s, with autobufd {ours:.1f}: {ours / without:.2f}", flush=True)
        if ours < LEAST_MENDED * without:
            raise AssertionError(f"{ours / without:.2f} of {without:.1f} Mbit/s")

    return case(f"a writer locks {LOCK_BYTES // 1024} KB, {mbit:g} x {rtt_ms:g}", [alone, alone._replace(daemon=True)], check)


def fetches(mbit: float, rtt_ms: float, seconds: float) -> Case:
    """A reader that connects, with a buffer that it locks before: unless the size is withheld its window is small for ever."""
    def script(lock_bytes: int, daemon: bool) -> str:
        begin = f"""{MOUNT}nsenter --net=/run/netns/b autobufd >/tmp/daemon 2>&1 &
until grep -q 'begins with' /tmp/daemon; do usleep 1000; done
""" if daemon else ": >/tmp/daemon\n"
        return plain_path(mbit, rtt_ms) + f"""{begin}on a as_nobody writer poll 10.0.1.1 {PORT} {seconds + 1} cubic 0 listener >/dev/null 2>&1 &
listening a {PORT}
on b as_nobody reader {PORT} all {seconds} {lock_bytes} 10.0.1.1
killall autobufd writer 2>/dev/null
wait
umount /run/groups 2>/dev/null
sed 's/^/# /' /tmp/daemon
"""

    def check(said: str) -> None:
        unlocked, without, ours = rates(said)
        print(f"# a reader that connects, {mbit:g} x {rtt_ms:g}: unlocked {unlocked:.1f} Mbit/s; locked {without / unlocked:.3f}; "
              f"with autobufd {ours / unlocked:.3f}", flush=True)
        if WITHHOLDS not in said:
            raise AssertionError("it withholds nothing")
        if without > MOST_WHILE_LOCKED * unlocked:
            raise AssertionError(f"locked: {without / unlocked:.3f} of unlocked without autobufd")
        if ours < LEAST_WITHHELD * unlocked:
            raise AssertionError(f"{ours / unlocked:.3f} of unlocked")

    return Case(f"a reader locks {LOCK_BYTES // 1024} KB and connects, {mbit:g} x {rtt_ms:g}",
                script(0, False) + script(LOCK_BYTES, False) + script(LOCK_BYTES, True), check, PROGRAMS)


def never_slower(mbit: float, rtt_ms: float, seconds: float, reads: bool) -> Case:
    alone = Program(mbit, rtt_ms, seconds, reads=reads)

    def check(said: str) -> None:
        without, ours = rates(said)
        print(f"# {without:.2f} Mbit/s, with autobufd {ours:.2f}: {ours / without:.4f}", flush=True)
        if ours < NEVER_BELOW * without:
            raise AssertionError(f"{ours / without:.4f} of {without:.2f} Mbit/s")

    return case(f"{'reader' if reads else 'writer'}, {mbit:g} x {rtt_ms:g}", [alone, alone._replace(daemon=True)], check)


def beside(what: str, link: str, seconds: float, cc: str, least: float, other: str = "", chance: bool = False) -> Case:
    """A writer with autobufd at both ends, beside the same one without it where other was done before. chance: the rate only counts if
    the daemon sets a send buffer."""
    begin = """for ns in a b; do
    nsenter --net=/run/netns/$ns autobufd --config /tmp/rules 2>/tmp/daemon.$ns &
    until grep -q 'begins with' /tmp/daemon.$ns; do usleep 1000; done
done
"""
    script = "printf 'state=off\\nstatus=off\\n[all]\\n' >/tmp/rules\n" + "".join(link + f"""
for ns in a b; do on $ns sysctl -qw net.ipv4.tcp_congestion_control={cc}; done
ip tcp_metrics flush
{first}on b as_nobody reader {PORT} all {seconds + 1} >/dev/null &
listening b {PORT}
on a as_nobody writer poll 10.0.2.1 {PORT} {seconds} {cc}
killall autobufd reader 2>/dev/null
wait
cat /tmp/daemon.? 2>/dev/null | sed 's/^/# /'
""" for first in (other, begin))

    def check(said: str) -> None:
        without, ours = rates(said)
        enlarges = re.search(r"send buffer \d+ -> ", said)
        print(f"# {what}: {without:.1f} Mbit/s, with autobufd {ours:.1f}: {ours / without:.3f}{'' if enlarges else ', no send buffer'}", flush=True)
        if ours < least * without and (enlarges or not chance):
            raise AssertionError(f"{ours / without:.3f} of {without:.1f} Mbit/s")

    return Case(f"{what}, {cc}", script, check, PROGRAMS)


RAISED = """for ns in a b; do
    on $ns sysctl -qw net.ipv4.tcp_wmem='4096 16384 67108864' net.ipv4.tcp_rmem='4096 131072 67108864'
done
"""


def forced(mbit: float, rtt_ms: float, seconds: float) -> Case:
    """A reader whose window no program can make as large as the path, on a host with the limits of kernels before 6.16."""
    limits = f"""{SHORT_RMEM}on a sysctl -qw net.ipv4.tcp_wmem='4096 16384 {SENDER_BYTES}'
for ns in a b; do on $ns sysctl -qw net.ipv4.tcp_congestion_control=cubic; done
"""
    run = f"""listening b {PORT}
on a as_nobody writer poll 10.0.2.1 {PORT} {seconds + 1} cubic >/dev/null 2>&1 &
wait $reader
cat /tmp/reader
killall autobufd reader writer 2>/dev/null
wait
sed 's/^/# /' /tmp/daemon
"""
    begin = """on b autobufd 2>/tmp/daemon &
until grep -q 'begins with' /tmp/daemon; do usleep 1000; done
"""
    reader = f"on b as_nobody reader {PORT} all {seconds} >/tmp/reader &\nreader=$!\n"

    def check(said: str) -> None:
        without, ours = rates(said)
        print(f"# {without:.1f} Mbit/s, with autobufd {ours:.1f}: {ours / without:.3f}", flush=True)
        if ours < LEAST_BY_FORCE * without:
            raise AssertionError(f"{ours / without:.3f} of {without:.1f} Mbit/s")

    return Case(f"a reader with a tcp_rmem of 6 MB, {mbit:g} x {rtt_ms:g}",
                "most=$(sysctl -n net.core.rmem_max)\nsysctl -qw net.core.rmem_max=212992\n" +
                "".join(plain_path(mbit, rtt_ms) + limits + ": >/tmp/daemon\n" + daemon + reader + run for daemon in ("", begin)) +
                "sysctl -qw net.core.rmem_max=$most\n", check, PROGRAMS)


def divided(reads: bool, kind: str = "poll") -> Case:
    """Connections that share a total of window, which is less than the path holds, and so no queue's. A write that blocks goes beyond
    a send buffer."""
    ports = range(PORT, PORT + SHARERS)
    count = f"on a ss -tinH state established 'dport >= {PORT}' | grep -o 'bytes_acked:[0-9]*' | sed 's/.*://;s/^/= /'"
    script = plain_path(*SHARED_PATH) + f""": >/tmp/daemon
printf '[all]\ndivide={SHARED_BYTES}\n' >/tmp/rules
for ns in a b; do on $ns sysctl -qw net.ipv4.tcp_congestion_control=cubic; done
on {"b" if reads else "a"} autobufd --config /tmp/rules 2>/tmp/daemon &
until grep -q 'begins with' /tmp/daemon; do usleep 1000; done
for port in {" ".join(map(str, ports))}; do
    on b as_nobody reader $port all {SHARED_FROM_S + SHARED_S + 2} >/dev/null &
    listening b $port
    on a as_nobody writer {kind} 10.0.2.1 $port {SHARED_FROM_S + SHARED_S + 2} cubic >/dev/null 2>&1 &
done
usleep {SHARED_FROM_S * 1000000}
{count}
usleep {SHARED_S * 1000000}
{count}
killall autobufd reader writer 2>/dev/null
wait
sed 's/^/# /' /tmp/daemon
"""

    who = "readers" if reads else f"writers ({kind})"

    def check(said: str) -> None:
        counts = [int(number) for number in re.findall(r"^= (\d+)$", said, re.M)]
        if len(counts) != 2 * SHARERS:
            raise AssertionError(f"{len(counts)} counts")
        windows = [(late - early) / SHARED_S * SHARED_PATH[1] / 1e3 for early, late in zip(counts, counts[SHARERS:])]
        jain = sum(windows) ** 2 / (SHARERS * sum(window ** 2 for window in windows))
        print(f"# {who} in a round trip: {' '.join(f'{window / 1e3:.0f}' for window in windows)} KB; "
              f"sum / total {sum(windows) / SHARED_BYTES:.3f}; Jain's index {jain:.4f}", flush=True)
        near(sum(windows), SHARED_BYTES, SHARED_OFF, "the sum of windows")
        if jain < LEAST_JAIN:
            raise AssertionError(f"Jain's index {jain:.3f}")

    return Case(f"{SHARERS} {who} divide {SHARED_BYTES // 1000} KB", script, check, PROGRAMS)


def teaches(who: str, where: str, limits: str, sends, words: str) -> Case:
    """What autobufd learns there of one connection, the next one to that host begins with. sends: for so many seconds."""
    mbit, rtt_ms, seconds = TAUGHT_PATH
    script = plain_path(mbit, rtt_ms) + f""": >/tmp/daemon
{limits}rm -f /tmp/store*
printf 'store=/tmp/store\n[all]\nmode=path\n' >/tmp/rules
on {where} autobufd --config /tmp/rules 2>/tmp/daemon &
until grep -q 'begins with' /tmp/daemon; do usleep 1000; done
{sends(seconds)}for i in $(seq 500); do [ -s /tmp/store ] && break; usleep 10000; done
wait $!
killall reader 2>/dev/null
{sends(2)}killall autobufd reader 2>/dev/null
wait
sed 's/^/# /' /tmp/daemon
"""

    def check(said: str) -> None:
        known = re.findall(rf"the path store knows it: (\S+) Mbit/s{words}: set", said)
        print(f"# {who}: the next connection knows {known}", flush=True)
        if len(known) != 1 or not LEAST_TAUGHT * mbit < float(known[0][0]) <= mbit:
            raise AssertionError(f"{known} of {mbit} Mbit/s: {said[-800:]}")
        near(float(known[0][1]), rtt_ms, TAUGHT_OFF, "the RTT")

    return Case(f"{who} teaches {mbit:g} x {rtt_ms:g}", script, check, PROGRAMS)


def taught(kind: str) -> Case:
    """The path limits a writer once its buffer is larger, and the next connection to that host begins with what it needs."""
    def sends(for_s: float) -> str:
        return f"""on b as_nobody reader {PORT} all {for_s + 2} >/dev/null &
listening b {PORT}
on a as_nobody writer {kind} 10.0.2.1 {PORT} {for_s} cubic >/dev/null
"""

    return teaches(f"a writer ({kind})", "a", f"on b sysctl -qw net.ipv4.tcp_rmem='4096 131072 {ROOMY_BYTES}'\n", sends,
                   r", (\S+) ms; send")


def taught_reader() -> Case:
    """No packet is lost, so a reader does not know that the path limits; but it needed more than autotuning gives."""
    def sends(for_s: float) -> str:
        return f"""on b as_nobody reader {PORT} all {for_s + 1} >/dev/null &
listening b {PORT}
on a as_nobody writer poll 10.0.2.1 {PORT} {for_s} cubic >/dev/null
"""

    return teaches("a reader", "b", f"{SHORT_RMEM}on a sysctl -qw net.ipv4.tcp_wmem='4096 16384 {SENDER_BYTES}'\n", sends,
                   r" back, (\S+) ms; .*receive")


def yama() -> Case:
    """kernel.yama.ptrace_scope: up to 2 the daemon's privilege is enough; 3 is for good, so that this comes after all that acts on others."""
    mbit, rtt_ms, seconds = QUICK_PATH
    writer = f"on a as_nobody writer poll 10.0.2.1 {PORT} {seconds} cubic {LOCK_BYTES} after\n"

    def scope(number: int) -> str:
        return f"""sysctl -qw kernel.yama.ptrace_scope={number}
: >/tmp/daemon
on a autobufd 2>/tmp/daemon &
until grep -q 'begins with' /tmp/daemon; do usleep 1000; done
on b as_nobody reader {PORT} all {seconds + 1} >/dev/null &
listening b {PORT}
{writer}killall autobufd reader 2>/dev/null
wait
echo = scope {number}
sed 's/^/# /' /tmp/daemon
"""

    def check(said: str) -> None:
        rate, logs = rates(said), re.split(r"^= scope \d\n", said, flags=re.M)[1:]
        print(f"# scopes 1, 2, 3: {', '.join(f'{each:.1f}' for each in rate)} Mbit/s", flush=True)
        for number, log in enumerate(logs, 1):
            acts, refused = "send: " in log, "may not be touched" in log
            if (acts, refused) != (number < 3, number == 3):
                raise AssertionError(f"scope {number}: acts {acts}, refused {refused}: {log[-500:]}")
        if len(logs) != 3 or rate[2] > rate[0] / 2:
            raise AssertionError(f"{len(logs)} scopes, {rate} Mbit/s")

    return Case("Yama", plain_path(mbit, rtt_ms) + "".join(scope(number) for number in (1, 2, 3)), check, PROGRAMS)


WITHHOLD = (BUILD / "tools" / "kernel.bpf.o").is_file()
"""Where autobufd was built with libbpf."""
SEES_LOCKS = (5, 15)
"""Before, nobody can see that a buffer is locked, and nothing can be given back, nor be done before a SYN."""


CLAMPS_LAST = (6, 1)
"""Before (seen on 5.10) autotuning goes beyond the window clamp of receivers."""


def cases(kernel: Kernel, quick: bool) -> Iterator[Case]:
    if quick:
        return
    for each in LOCKED_PATHS if kernel.number >= SEES_LOCKS else ():
        yield locked(*each, False)
        yield locked(*each, True)
        if WITHHOLD:
            yield fetches(*each)
            yield withheld(*each, False)
            yield withheld(*each, True)
    yield forced(*FORCED_PATH)
    mbit, rtt_ms, products, seconds = SOON
    for cc in ("cubic", "bbr"):
        both = qdisc(mbit, rtt_ms, products)
        yield beside(f"the first seconds, {mbit} x {rtt_ms}", path(both, both), seconds, cc, LEAST_SOON, RAISED)
    for each in OTHER_PATHS:
        yield beside(*each, NEVER_BELOW)
    yield beside(*HARDLY_A_QUEUE, NEVER_BELOW, chance=True)
    for kind in WRITERS:
        yield divided(False, kind)
    for kind in TAUGHT_WRITERS:
        yield taught(kind)
    yield taught_reader()
    if kernel.number >= CLAMPS_LAST:
        yield divided(True)
    for each in NEVER_PATHS:
        for reads in (False, True):
            yield never_slower(*each, reads)
    if kernel.number >= SEES_LOCKS:
        yield yama()
