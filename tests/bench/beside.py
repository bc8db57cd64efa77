# SPDX-License-Identifier: MIT
"""autobufd beside bpftune, of Debian 13, on its kernel and the newest, in virtual time: nobody, each of them alone, and both at once.

Programs of tests/zoo send, and tests/zoo/writer and reader, with and without a buffer of 64 KB that they set. They run in the
host's network namespace, or in a container: a further one, and a cgroup. bpftune acts on all namespaces of its kernel, so
autobufd runs at both ends too. Each run begins with fresh daemons, and with the sysctls of a fresh kernel. A machine gives the
same figures each time, so each is run once, after a first run that is not counted. Quick: tests/zoo/writer in the host, 400 Mbit/s x 100 ms.
"""
from __future__ import annotations

import json
import pathlib
import re
from typing import NamedTuple

import path
import report
from virtual import Bench, Way  # which puts the folder of kernels on the path
from case import PORT, plain_path
from suites.zoo import PROGRAMS, SETUP, answers, zoo  # which puts zoo_root there
from zoo_root import here_archive, packages, root_archive

SUITE = "trixie"
KERNELS = ("6.12", "newest")
RIVAL = "bpftune"
RAISES = "autobufd, raise=64M"
WAYS = ("nobody", RIVAL, "autobufd", RAISES, "both")
LOCK_BYTES = 65536
SENDERS = ("nginx:sendfile", "rsync", "curl", "netcat")
OWN = ("writer", "reader")
PLACES = ("host", "container")
PATHS = ((400, 100, 80_000_000, 5), (100, 50, 30_000_000, 3))
"""Mbit/s, ms; bytes of a program; seconds of a writer or a reader."""
NEEDED = ("tests/zoo/reader", "tests/zoo/writer", "tools/autobufd", *PROGRAMS)

TOOLS = f"port={PORT}\n{SETUP}" + """
names='/proc/sys/net/core/*mem* /proc/sys/net/ipv4/tcp_*mem'

# Each sysctl of a namespace, but those of its devices.
sysctls()
{
    on $1 dash -c "find /proc/sys/net/core /proc/sys/net/ipv4 /proc/sys/net/ipv6 -path '*/conf/*' -prune -o -type f -print |
        xargs grep -H '' 2>/dev/null" | sort
}

if [ ! -d /sys/fs/cgroup/box ]; then
    mount --make-rshared /
    mount -t bpf bpf /sys/fs/bpf
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mount -t tracefs tracefs /sys/kernel/tracing
    mount --rbind /sys $zoo/sys
    mkdir /sys/fs/cgroup/box
    mount --rbind /run $zoo/run
    ip netns attach host 1
    sysctls host >/tmp/fresh
    printf 'state=off\\nstatus=off\\n[all]\\n' >/tmp/rules
fi

# What a daemon left in the sysctls.
refresh()
{
    sysctls host >/tmp/now
    grep -Fxv -f /tmp/now /tmp/fresh | while IFS=: read -r file value; do echo "$value" >"$file"; done
    ip tcp_metrics flush
}

# It says that it works before it does: it is there once it takes no more of the processor.
begin_bpftune()
{
    chroot $zoo /usr/sbin/bpftune -s >/tmp/bpftune 2>&1 &
    rival=$! before=
    until now=$(cut -d' ' -f14,15 /proc/$rival/stat 2>/dev/null) && [ "$now" = "$before" ]; do
        kill -0 $rival || return
        before=$now
        usleep 1000000
    done
}

# What stands before the rules
begin_autobufd()
{
    { [ -z "$1" ] || echo "$1"; cat /tmp/rules; } >/tmp/rules.now
    for ns in a b; do
        nsenter --net=/run/netns/$ns autobufd --config /tmp/rules.now 2>/tmp/autobufd.$ns &
        until grep -q 'begins with' /tmp/autobufd.$ns; do usleep 1000; done
    done
}

# Until there is no /tmp/sampling: sysctls of a namespace, and pages of its kernel's sockets, ten times a second.
sample()
{
    on $1 dash -c "while [ -e /tmp/sampling ]; do
        echo \\$(cat $names) @ \\$(grep ^TCP: /proc/net/sockstat)
        usleep 100000
    done" >/tmp/samples.$1
}

daemons_tell()
{
    for pid in $(pidof bpftune) $(pidof autobufd); do
        echo "resident $(cat /proc/$pid/comm) $(sed -n 's/^VmRSS:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/$pid/status)"
    done
    for pid in $(pidof bpftune); do  # a map or a program has a number, and may have several descriptors
        for fd in /proc/$pid/fdinfo/*; do
            sed -n 's/^\\(memlock\\|map_id\\|prog_id\\):[^0-9]*//p' $fd | tr '\\n' ' '
            grep -o '^map_id\\|^prog_id' $fd || echo
        done | grep _id | sort -u | awk '{ sum += $1 } END { print "maps bpftune", sum / 1024 }'
    done
    for file in /tmp/bpftune /tmp/autobufd.a /tmp/autobufd.b; do
        [ -s $file ] || continue
        echo "lines ${file#/tmp/} $(wc -l <$file) $(sort -u $file | wc -l)"
        sort $file | uniq -c | head -40 | sed "s,^,# ${file#/tmp/}: ,"
    done
}

box() { [ $place != container ] || echo 0 >/sys/fs/cgroup/box/cgroup.procs; }

served() { until on $1 ss -Hltn "sport = :$2" | grep -q .; do usleep 1000; done; }

# program NAME SENDER: from a to b; says how long it took
program()
{
    rm -rf $zoo/tmp/files
    mkdir -p $zoo/tmp/files/got
    head -c "$bytes" /dev/zero >$zoo/tmp/files/file
    chown -R nobody:nogroup $zoo/tmp/files
    case $2 in
    serve) server=10.0.1.1 at=a to=b ;;
    move) server=10.0.2.1 at=b to=a ;;
    esac
    (box; in_zoo $at /zoo/zoo "$1" serve) >/tmp/served 2>&1 &
    served $at $port
    begin_ns=$(now_ns)
    (box; in_zoo $to /zoo/zoo "$1" move) >/tmp/moved 2>&1 && echo "took $(($(now_ns) - begin_ns))" || cat /tmp/moved /tmp/served
    killall nginx rsync nc.openbsd 2>/dev/null
}

# own KIND SECONDS LOCK: a writer, or a reader that has listened for a second, in a
own()
{
    if [ $1 = writer ]; then
        on b as_nobody reader $port all $(($2 + 1)) >/dev/null &
        served b $port
        (box; on a as_nobody writer poll 10.0.2.1 $port $2 cubic ${3:+$3 after})
    else
        (box; on a as_nobody reader $port all $2 $3) >/tmp/reader &
        reading=$!
        served a $port
        usleep 1000000
        on b as_nobody writer poll 10.0.1.1 $port $(($2 + 1)) cubic >/dev/null 2>&1 &
        wait $reading
        cat /tmp/reader
    fi
    killall reader writer 2>/dev/null
}
"""


class Run(NamedTuple):
    what: str
    mbit: float
    rtt_ms: float
    amount: float
    """Bytes of a program, seconds of a writer or a reader."""
    place: str
    way: str = WAYS[0]
    locked: bool = False

    @property
    def moves(self) -> str:
        lock = str(LOCK_BYTES) if self.locked else ""
        if self.what in OWN:
            return f"own {self.what} {self.amount} '{lock}'\n"
        forced = f"LD_PRELOAD=/usr/lib/forced.so ZOO_SNDBUF={lock}" if lock else ""
        return f"bytes={self.amount} forced='{forced}' sender_under=\nprogram {self.what} {zoo(self.what, 'sender')}\n"

    @property
    def script(self) -> str:
        begin = {"nobody": "", RIVAL: "begin_bpftune\n", "autobufd": "begin_autobufd\n", RAISES: "begin_autobufd raise=64M\n",
                 "both": "begin_bpftune\nbegin_autobufd\n"}
        return f"""place={self.place} a_is_host={"yes" if self.place == "host" else ""}
end_path
refresh
rm -f /tmp/bpftune /tmp/autobufd.*
{plain_path(self.mbit, self.rtt_ms)}for ns in host a b; do sysctls $ns >/tmp/before.$ns; done
{begin[self.way]}: >/tmp/sampling
for ns in a b; do sample $ns & done
{self.moves}rm /tmp/sampling
daemons_tell
kill $(pidof bpftune autobufd) 2>/dev/null
wait
for ns in host a b; do
    sysctls $ns | grep -Fxv -f /tmp/before.$ns | sed "s/^/sysctl $ns /"
    [ $ns = host ] || cut -d@ -f1 /tmp/samples.$ns | uniq | wc -l | sed "s/^/states $ns /"
done
cut -d@ -f2 /tmp/samples.a | awk '{{ sum += $NF; if ($NF > most + 0) most = $NF }} END {{ print "pages", most + 0, sum / NR }}'
"""


def result(said: str, run: Run) -> dict:
    """What one run said: rates in Mbit/s, memory in MB, sysctls that changed, and how often, and the daemons' lines."""
    if run.what in OWN:
        rates = [json.loads(line)["rate_bit_per_s"] / 1e6 for line in said.splitlines() if line.startswith("{")]
    else:
        rates = [8e3 * run.amount / int(took) for took in re.findall(r"^took (\d+)$", said, re.M)]
    pages = re.search(r"^pages (\d+) (\S+)$", said, re.M)
    if len(rates) != 1 or not pages:
        raise AssertionError(f"{run}: {said[-800:]}")
    resident = re.findall(r"^(?:resident|maps) (\S+) (\S+)$", said, re.M)
    return {
        "rate": rates[0],
        "sockets_mb": [float(number) * 4096 / 1e6 for number in pages.groups()],
        "daemons_mb": {name: sum(float(kb) for who, kb in resident if who == name) * 1024 / 1e6 for name, _ in resident},
        "resident_mb": {name: float(kb) * 1024 / 1e6 for name, kb in re.findall(r"^resident (\S+) (\S+)$", said, re.M)},
        "sysctls": [text for text in re.findall(r"^sysctl (.*)$", said, re.M) if run.place != "host" or not text.startswith("a ")],
        "changes": sum(int(count) - 1 for count in re.findall(r"^states . +(\d+)$", said, re.M)),
        "lines": {who: [int(count) for count in counts] for who, *counts in re.findall(r"^lines (\S+) +(\d+) +(\d+)$", said, re.M)},
        "told": re.findall(r"^# (autobufd.*)$", said, re.M),
    }


def archives() -> tuple[pathlib.Path, ...]:
    return root_archive(SUITE, packages(SENDERS) | {RIVAL}), here_archive(path.build_folder() / "beside")


WAY = Way(lambda runs: "".join(f"echo '--- run'\n{TOOLS if i == 0 else ''}{run.script}" for i, run in enumerate(runs)),
          lambda said, runs: [result(each, run) for run, each in zip(runs, answers(said), strict=True)], NEEDED, archives)


def cells(mbit: float, rtt_ms: float, size: int, seconds: float) -> list[Run]:
    return [Run(what, mbit, rtt_ms, seconds if what in OWN else size, place, locked=locked)
            for place in PLACES for what in (*OWN, *SENDERS) for locked in (False, True)]


def name(cell: Run) -> str:
    return f"{cell.what}{', sets 64 KB' if cell.locked else ''}"


def rate_row(cell: Run, found: dict[str, dict]) -> list[str]:
    rate = {way: each["rate"] for way, each in found.items()}
    ours = rate["autobufd"]
    return [cell.place, name(cell), *(f"{rate[way]:.1f}" for way in WAYS), f"{ours / rate['nobody']:.3f}", f"{ours / rate[RIVAL]:.3f}",
            f"{rate[RAISES] / rate[RIVAL]:.3f}", f"{rate['both'] / max(ours, rate[RIVAL]):.3f}"]


def memory_row(cell: Run, found: dict[str, dict]) -> list[str]:
    most, mean = ({way: each["sockets_mb"][i] for way, each in found.items()} for i in (0, 1))
    return [cell.place, name(cell), *(f"{most[way]:.1f} ({mean[way]:.1f})" for way in WAYS)]


def settings_rows(all_found: list[dict[str, dict]]) -> list[list[str]]:
    """Of each way over all cells: what it left in sysctls, and the most that it holds itself, and says."""
    rows = []
    for way in WAYS:
        here = [found[way] for found in all_found]
        changed = sorted({re.sub(r"^\S+ /proc/sys/(\S+?):.*", r"\1", text).replace("/", ".") for each in here for text in each["sysctls"]})
        held = [each["daemons_mb"] for each in here]
        resident = [each["resident_mb"] for each in here]
        acts = [sum(lines - 1 for who, (lines, _) in each["lines"].items() if who.startswith("autobufd")) for each in here]
        again = [sum(lines - different for who, (lines, different) in each["lines"].items() if who.startswith("autobufd"))
                 for each in here]
        who = {"nobody": set(), RAISES: {"autobufd"}, "both": {"autobufd", RIVAL}}.get(way, {way})
        rows.append([way, len(here), ", ".join(changed) or "none", max(each["changes"] for each in here),
                     *(", ".join(f"{daemon} {max(each.get(daemon, 0) for each in of):.1f}" for daemon in sorted(who)) or "-"
                       for of in (resident, held)),
                     *((max(acts), max(again)) if "autobufd" in who else ("-", "-"))])
    return rows


def tables(bench: Bench, quick: bool) -> str:
    text, all_found, ways = f"Linux {bench.kernel.version}\n", [], ["place", "program", *WAYS]
    for path_of in PATHS[:1] if quick else PATHS:
        rates, memory = [], []
        for cell in cells(*path_of)[:2 if quick else None]:
            found = dict(zip(WAYS, bench.results(WAY, [cell._replace(way=way) for way in WAYS]), strict=True))
            all_found.append(found)
            rates.append(rate_row(cell, found))
            memory.append(memory_row(cell, found))
        text += f"\n{path_of[0]} Mbit/s x {path_of[1]} ms, Mbit/s\n\n"
        text += report.table(ways + ["autobufd / nobody", f"autobufd / {RIVAL}", f"raise= / {RIVAL}", "both / better"], rates)
        text += "\nMemory of all sockets, MB: most (mean)\n\n" + report.table(ways, memory)
    return text + "\n" + report.table(["way", "runs", "sysctls changed", "values seen in a run", "resident, MB",
                                        "with maps in the kernel, MB", "autobufd's lines", "repeated"], settings_rows(all_found))


def run(quick: bool, out: pathlib.Path) -> None:
    text = "\n".join(tables(Bench("beside", kernel, out), quick) for kernel in (KERNELS[:1] if quick else KERNELS))
    (out / "beside.md").write_text(text)
    print(text)
