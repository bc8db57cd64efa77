#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""autobufd's part in the kernel: small sizes that programs set are withheld, and the programs know nothing of it.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select the tests whose names
contain one of them. Where there is no BPF, each is skipped with the daemon's own reason.
"""
from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pathlib
import platform
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import daemons  # noqa: E402
from aside import Group  # noqa: E402
from cases import REFUSED, run_tests, thorough  # noqa: E402
from daemons import CROWD, PORT, SMALL, TOP, WAIT_S, control_groups  # noqa: E402
from path import Path, built, wait_line, wait_listening  # noqa: E402
from test_bulk import CORE, LONG, OLDER_CORE, RMEM, WMEM  # noqa: E402

SHORT = "rate=50M,delay=1ms"
BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "s390x": 351, "ppc64le": 361}.get(platform.machine(), -1)
BPF_PROG_QUERY = 16
KINDS = (3, 21, 22)
"""BPF_CGROUP_SOCK_OPS, BPF_CGROUP_GETSOCKOPT, BPF_CGROUP_SETSOCKOPT."""
MPTCP = 262
SO_RCVBUFFORCE = 33
SO_BUF_LOCK = 72
RCV = 2
FORCED = 1 << 21
ROOMY = 1 << 30
"""More than anybody may set."""
ABSENT = ("built without", "it takes Linux", "it takes a kernel", "it takes CAP", "control groups of version 2")

# Connects as argv[1] says, tells what the socket is like, and takes all that comes.
CLIENT = """
import json, socket, struct, sys
wish = json.loads(sys.argv[1])
if wish.get("group"):
    open(wish["group"], "w").write("0")
s = socket.socket(socket.AF_INET6 if ":" in wish["to"] else socket.AF_INET)
for option in "SO_SNDBUF", "SO_RCVBUF":
    if wish.get(option):
        s.setsockopt(socket.SOL_SOCKET, getattr(socket, option), wish[option])
if wish.get("clamp"):
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, wish["clamp"])
s.connect((wish["to"], wish["port"]))
if wish.get("half"):
    assert not s.recv(1)
if wish.get("late"):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, wish["late"])
for level, option, value in wish.get("then", ()):
    s.setsockopt(level, option, value)
def state(s):
    return {"scale": s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[6] >> 4,
            "SO_SNDBUF": s.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF), "SO_RCVBUF": s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
            "sk_rcvbuf": struct.unpack("9I", s.getsockopt(socket.SOL_SOCKET, 55, 36))[1], "locks": s.getsockopt(socket.SOL_SOCKET, 72)}
print(json.dumps(state(s)), flush=True)
while wish.get("stays") and s.recv(1 << 20, socket.MSG_TRUNC):
    pass
"""

# Listens with a size, takes one connection, and tells what that is like.
SERVER = CLIENT[CLIENT.index("def state"):CLIENT.index("print(")].join(["""
import json, socket, struct, sys
l = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
l.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if len(sys.argv) > 1:
    l.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(sys.argv[1]))
l.bind(("::", """ + str(PORT) + """))
l.listen()
""", """
while True:
    s, _ = l.accept()
    print(json.dumps(state(s)), flush=True)
"""])

# Sends nothing, and says so.
HALF = f"""
import socket
kept, l = [], socket.create_server(("", {PORT + 1}))
while True:
    kept.append(l.accept()[0])
    kept[-1].shutdown(socket.SHUT_WR)
"""

setUpModule = daemons.setUpModule


def attached() -> set[int]:
    """The programs of these kinds at the root of the control groups, by number."""
    found, place = set(), os.open(control_groups(), os.O_RDONLY)
    for kind in KINDS:
        numbers = (ctypes.c_uint32 * 64)()
        query = (ctypes.c_uint32 * 32)(place, kind)
        ctypes.cast(ctypes.byref(query, 16), ctypes.POINTER(ctypes.c_uint64))[0] = ctypes.addressof(numbers)
        query[6] = len(numbers)
        if ctypes.CDLL(None, use_errno=True).syscall(BPF, BPF_PROG_QUERY, query, ctypes.c_size_t(ctypes.sizeof(query))):
            raise OSError(ctypes.get_errno(), "BPF_PROG_QUERY")
        found |= set(numbers[:query[6]])
    os.close(place)
    return found


def held(daemon: subprocess.Popen) -> set[int]:
    """The programs that it has attached, by number; others may attach theirs meanwhile."""
    own = f"/proc/{daemon.pid}/task/{daemon.pid}/children"
    places = [pathlib.Path(f"/proc/{pid}") for pid in (daemon.pid, *pathlib.Path(own).read_text().split())]
    found = set()
    for place in places:
        for fd in (place / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it goes on with its work, and closes others
                if os.readlink(fd) == "anon_inode:bpf_link":
                    found |= {int(number) for number in re.findall(r"^prog_id:\s+(\d+)", (place / "fdinfo" / fd.name).read_text(), re.M)}
    return found


class WithholdTest(daemons.Watched):
    def acts(self, path: Path, rules: str, *args: str, **kw) -> subprocess.Popen:
        """A daemon that withholds sizes."""
        daemon = self.daemon(path, f"bpf=yes\n{rules}", *args, **kw)
        line, = (line for line in self.said if "sizes of programs" in line)
        why = line.removeprefix("autobufd: withholds no small sizes of programs: ")
        if why.startswith(ABSENT):
            self.skipTest(why)
        self.assertEqual(line, "autobufd: withholds small sizes of programs")
        return daemon

    def ends(self, *sizes: int) -> Path:
        path = self.hosts(SHORT, {**WMEM, **RMEM})
        self.server = self.serve(path, "b", *sizes)
        return path

    def serve(self, path: Path, side: str, *sizes: int) -> subprocess.Popen:
        server = path.popen(side, [sys.executable, "-c", SERVER, *map(str, sizes)])
        wait_listening(path, side, PORT, server)
        return server

    def connect(self, path: Path, side: str = "a", to: str | None = None, **wish) -> dict:
        wish = {"to": to or path.addr["b"], "port": PORT} | wish
        done = path.run(side, [sys.executable, "-c", CLIENT, json.dumps(wish)])
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def scales(self, path: Path) -> tuple[int, int]:
        """Of a socket whose buffer is locked, where nothing acts, and of one whose is not."""
        small, free = (self.connect(path, SO_RCVBUF=size)["scale"] for size in (SMALL, 0))
        self.assertLess(small, free)
        return small, free


class Kernel(unittest.TestCase):
    """Without a path, so that it fails also where the others would be skipped."""

    def test_it_takes_the_program(self) -> None:
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("state=off\nstatus=off\n[all]\n")
            file.flush()
            with subprocess.Popen(["unshare", "--net", built("tools/autobufd"), "--config", file.name], stderr=subprocess.PIPE,
                                  text=True) as daemon:
                first = daemon.stderr.readline()
                daemon.kill()
        self.assertIn("small sizes of programs", first)
        self.assertNotIn("the kernel does not take", first)


class Sizes(WithholdTest):
    def test_small_sizes_are_withheld(self) -> None:
        """The program reads what it would read otherwise; the socket is as one whose sizes nobody has set."""
        path = self.ends()
        wishes = ({}, {"SO_RCVBUF": SMALL}, {"SO_RCVBUF": 4 * SMALL, "SO_SNDBUF": SMALL}, {"SO_SNDBUF": 1}, {"late": SMALL},
                  {"SO_RCVBUF": SMALL, "clamp": 20000}, {"clamp": 20000}, {"SO_SNDBUF": ROOMY})
        before = [self.connect(path, **wish) for wish in wishes]
        free = before[0]
        daemon = self.acts(path, "[all]\n")
        for wish, was in zip(wishes, before, strict=True):
            with self.subTest(wish):
                withheld = wish and "clamp" not in wish and wish.get("SO_SNDBUF") != ROOMY
                as_free = {name: free[name] for name in ("scale", "sk_rcvbuf", "locks")}
                self.assertEqual(self.connect(path, **wish), was | (as_free if withheld else {}))
        self.stop(daemon)
        self.assertEqual(self.connect(path, SO_RCVBUF=SMALL), before[1])

    def test_a_side_that_is_locked_later(self) -> None:
        """Also by the daemon, which forces a size and sets a clamp: what was withheld is not set in its place."""
        path = self.ends()
        forced = [(socket.SOL_SOCKET, SO_RCVBUFFORCE, FORCED), (socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, FORCED)]
        held = [(socket.SOL_SOCKET, SO_BUF_LOCK, RCV), (socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, 4 * SMALL)]
        small, free = self.connect(path, SO_RCVBUF=SMALL), self.connect(path)
        daemon = self.acts(path, "[all]\n")
        now = self.connect(path, SO_RCVBUF=SMALL, then=forced)
        self.assertEqual((now["sk_rcvbuf"], now["SO_RCVBUF"], now["locks"]), (2 * FORCED, 2 * FORCED, RCV))
        now = self.connect(path, SO_RCVBUF=SMALL, then=held)
        self.assertEqual((now["sk_rcvbuf"], now["SO_RCVBUF"], now["locks"]), (free["sk_rcvbuf"], free["sk_rcvbuf"], RCV))
        now = self.connect(path, SO_RCVBUF=SMALL, then=[*held, (socket.SOL_SOCKET, SO_BUF_LOCK, 0)])
        self.assertEqual((now["sk_rcvbuf"], now["SO_RCVBUF"], now["locks"]), (free["sk_rcvbuf"], small["SO_RCVBUF"], 0))
        self.stop(daemon)

    def test_a_peer_that_sends_no_more(self) -> None:
        """The ends are known then, too, and nothing decides again."""
        path = self.ends()
        half = path.popen("b", [sys.executable, "-c", HALF])
        wait_listening(path, "b", PORT + 1, half)
        daemon = self.acts(path, "[there]\nremote=10.77.0.0/24\nmode=off\n[all]\n")
        for wish in ({}, {"half": True}):
            self.assertEqual(self.connect(path, port=PORT + 1, late=SMALL, **wish)["locks"], 2, wish)
        self.again(daemon, "[all]\n")
        self.assertEqual(self.connect(path, port=PORT + 1, late=SMALL, half=True)["locks"], 0)
        self.stop(daemon)

    def test_near_peers(self) -> None:
        """A peer on this host: the size is no bottleneck, and the program may rely on it."""
        path = self.ends()
        self.serve(path, "a")
        here = path.addr["a"]
        before = self.connect(path, to=here, SO_RCVBUF=SMALL, SO_SNDBUF=SMALL)
        daemon = self.acts(path, "[all]\n")
        self.assertEqual(self.connect(path, to=here, SO_RCVBUF=SMALL, SO_SNDBUF=SMALL), before)
        self.assertEqual(self.connect(path, to=here, late=SMALL)["locks"], 2)
        self.again(daemon, "[all]\nintent=low-delay\n")
        self.assertEqual(self.connect(path, to=here, SO_RCVBUF=SMALL, SO_SNDBUF=SMALL)["locks"], 0)
        self.stop(daemon)

    def test_what_a_listener_sets(self) -> None:
        """It is withheld for its connections, too, and set on those that a rule leaves alone."""
        path = self.hosts(SHORT, {**WMEM, **RMEM})
        daemon = self.acts(path, f"[other]\nremote=10.77.0.9\nmode=off\n[all]\n", side="b")
        server = self.serve(path, "b", SMALL)
        rows = []
        for rules in ("[all]\n", f"[client]\nremote={path.addr['a']}\nmode=off\n[all]\n"):
            self.again(daemon, rules)
            self.connect(path)
            rows.append(json.loads(wait_line(server, lambda line: True)))
        self.assertEqual([row["SO_RCVBUF"] for row in rows], [2 * SMALL, 2 * SMALL])
        self.assertEqual([row["locks"] for row in rows], [0, 2])
        self.assertEqual(rows[1]["sk_rcvbuf"], 2 * SMALL)
        self.assertEqual(rows[1]["scale"], rows[0]["scale"])
        self.stop(daemon)

    @thorough
    def test_a_listener_that_takes_mptcp(self) -> None:
        """Its connections of plain TCP have autotuning, unless rules about ends might leave some alone."""
        path = self.hosts(SHORT, {**WMEM, **RMEM})
        if path.run("b", ["sysctl", "-n", "net.mptcp.enabled"]).stdout.strip() != "1":
            self.skipTest("the kernel has no MPTCP")
        daemon = self.acts(path, "[all]\n", side="b")
        for rules, locks in (("[all]\n", 0), ("[client]\nremote=10.77.9.0/24\nmode=off\n[all]\n", 2), (f"stop_ports={PORT}\n[all]\n", 2)):
            with self.subTest(rules):
                self.again(daemon, rules)
                server = self.serve(path, "b", SMALL, MPTCP)
                self.connect(path)
                self.assertEqual(json.loads(wait_line(server, lambda line: True))["locks"], locks)
                server.kill()
                server.wait()
        self.stop(daemon)

    @thorough
    def test_a_route_with_a_window(self) -> None:
        path = self.ends()
        path.route("a", window=20000)
        before = self.connect(path)
        daemon = self.acts(path, "[all]\n")
        self.assertEqual(self.connect(path, SO_RCVBUF=SMALL)["scale"], before["scale"])
        self.stop(daemon)

    @thorough
    def test_no_limit_of_setsockopt_counts(self) -> None:
        """Where a program may set little, the scale is that of autotuning."""
        self.core(OLDER_CORE)
        path = self.ends()
        small, free = self.scales(path)
        daemon = self.acts(path, "[all]\n")
        self.assertEqual(self.connect(path, SO_RCVBUF=SMALL)["scale"], free)
        self.stop(daemon)

    @thorough
    def test_a_window_that_then_opens(self) -> None:
        """What a receiver has locked before connect() is given back to autotuning in full, or set as a rule says."""
        self.core(CORE)
        path = self.hosts(LONG, {**WMEM, **RMEM})
        server = path.popen("b", [sys.executable, "-c", CROWD, "send"])
        wait_listening(path, "b", PORT, server)
        small, free = self.scales(path)
        wish = {"to": path.addr["b"], "port": PORT, "SO_RCVBUF": SMALL, "stays": True}
        for rules in ("[all]\n", "[all]\nmode=fixed\nrcvbuf=2M\n"):
            with self.subTest(rules):
                daemon = self.acts(path, rules)
                self.assertNotIn("rcvbuf holds", "".join(self.said))
                client = path.popen("a", [sys.executable, "-c", CLIENT, json.dumps(wish)])
                self.assertEqual(json.loads(wait_line(client, lambda line: True))["scale"], free)
                window, deadline = 0, time.monotonic() + 2 * WAIT_S
                while window <= 4 * (65535 << small):
                    self.assertLess(time.monotonic(), deadline, window)
                    listed = path.run("b", ["ss", "-tinH", "state", "established", f"sport = {PORT}"]).stdout
                    window = max([int(seen) for seen in re.findall(r" snd_wnd:(\d+)", listed)] or [0])
                client.kill()
                client.wait()
                self.stop(daemon)

    @thorough
    def test_rules(self) -> None:
        path = self.ends()
        small, free = self.scales(path)
        here, there = path.addr["a"], path.addr["b"]
        comm = path.run("a", [sys.executable, "-c", "print(open('/proc/self/comm').read().strip())"]).stdout.strip()
        rows = [("", True), (f"remote={there}", True), (f"remote={there[:-1]}3", False), (f"remote=10.77.0.0/16\nremote_port={PORT}", True),
                (f"remote_port=1-{PORT - 1},{PORT + 1}-65535", False), (f"remote_port=1,2,3,4,5,6,7,{PORT}", True),
                (f"local={here}/32\nlocal_port=1024-65535", True), ("local_port=1-1023", False), ("remote=fd77::/64", False),
                (f"user={os.geteuid()}", True), ("user=4000000000", False), (f"program={comm}", True), (f"program={comm[:-1]}", False),
                ("unit=no-such.service", False), ("mode=path", True), ("mode=off", False), ("mode=fixed\nrcvbuf=1M", True),
                ("mode=fixed\nsndbuf=1M", False), ("divide=1M", False), ("dry_run=yes", False)]
        daemon = self.acts(path, "[none]\nuser=4000000000\n")
        for conditions, holds in rows:
            with self.subTest(conditions):
                self.again(daemon, f"[first]\n{conditions}\n")
                self.assertEqual(self.connect(path, SO_RCVBUF=SMALL)["scale"], free if holds else small)
        for rules, holds in (("[a]\nremote_port=1\nmode=off\n[b]\n", True), (f"[a]\nprogram={comm}\nmode=off\n[b]\n", False),
                             (f"stop_ports={PORT}\n[a]\n", False), ("stop_ports=1\n[a]\n", True), ("dry_run=yes\n[a]\n", False),
                             ("".join(f"[{i}]\nremote_port={i}\nmode=off\n" for i in range(1, 256)) + "[all]\n", True),
                             ("".join(f"[{i}]\nremote_port={i}\nmode=off\n" for i in range(1, 257)) + "[all]\n", False)):
            with self.subTest(rules[:60]):
                self.again(daemon, rules)
                self.assertEqual(self.connect(path, SO_RCVBUF=SMALL)["scale"], free if holds else small)
        self.stop(daemon)

    @thorough
    def test_units(self) -> None:
        path = self.ends()
        small, free = self.scales(path)
        group = pathlib.Path(control_groups()) / "autobuf-tests.service"
        if os.geteuid() != 0:
            self.skipTest("needs root to make a control group")
        self.addCleanup(Group(group).close)
        daemon = self.acts(path, "[none]\nuser=4000000000\n")
        for unit, holds in ((group.name, True), (group.name[:-1], False), (group.name + "x", False), ("x" * 63, False)):
            with self.subTest(unit):
                self.again(daemon, f"[first]\nunit={unit}\n")
                self.assertEqual(self.connect(path, group=str(group / "cgroup.procs"), SO_RCVBUF=SMALL)["scale"], free if holds else small)
        self.stop(daemon)

    def again(self, daemon: subprocess.Popen, rules: str) -> None:
        self.file.write_text(f"state=off\nstatus=off\n{rules}")
        daemon.send_signal(signal.SIGHUP)
        wait_line(daemon, lambda line: "reads the rules again" in line, WAIT_S)

    @thorough
    def test_ipv6(self) -> None:
        path = self.ends()
        if not path.has_ipv6:
            self.skipTest("needs IPv6")
        small, free = self.scales(path)
        there = path.addr6["b"]
        rows = ((there, f"remote={there}", True), (there, "remote=fd77::/64\nlocal=fd77::/64", True), (there, "remote=fd77:0:0:1::/64", False),
                (there, "local=fd78::/32", False), (there, "remote=10.77.0.0/16", False),
                (f"::ffff:{path.addr['b']}", f"remote={path.addr['b']}\nlocal={path.addr['a']}", True),
                (f"::ffff:{path.addr['b']}", "remote=::/0", False))
        daemon = self.acts(path, "[none]\nuser=4000000000\n")
        for to, conditions, holds in rows:
            with self.subTest(to, conditions=conditions):
                self.again(daemon, f"[first]\n{conditions}\n")
                self.assertEqual(self.connect(path, to=to, SO_RCVBUF=SMALL)["scale"], free if holds else small)
        self.stop(daemon)

    def test_other_namespaces_are_left_alone(self) -> None:
        path = self.ends()
        server = path.popen("a", [sys.executable, "-c", SERVER])
        wait_listening(path, "a", PORT, server)
        small, free = self.scales(path)
        daemon = self.acts(path, "[all]\n")
        self.assertEqual(self.connect(path, side="b", to=path.addr["a"], SO_RCVBUF=SMALL)["scale"], small)
        self.assertEqual(self.connect(path, SO_RCVBUF=SMALL)["scale"], free)
        both = self.acts(path, "[all]\n", side="b")
        self.assertEqual(self.connect(path, side="b", to=path.addr["a"], SO_RCVBUF=SMALL)["scale"], free)
        self.stop(daemon)
        self.stop(both)


class Told(WithholdTest):
    """A connection that begins to move bulk data is managed before the next sweep."""

    def test_one_that_sends_and_one_that_receives(self) -> None:
        path = self.hosts(LONG, {**WMEM, **RMEM})
        server = path.popen("b", [sys.executable, "-c", CROWD, "send"])
        wait_listening(path, "b", PORT, server)
        for side, program in (("b", server), ("a", None)):
            with self.subTest(side):
                daemon = self.acts(path, f"interval=10000\nstatus={self.socket}\n[all]\n", side=side)
                client = path.popen("a", [sys.executable, "-c", CLIENT,
                                          json.dumps({"to": path.addr["b"], "port": PORT, "stays": True})])
                wait_line(client, lambda line: True)
                self.until(lambda: self.metrics()["autobufd_managed"], "nobody tells of it")
                (flow,) = self.flows()["flows"]
                self.assertEqual((flow["pid"], self.metrics()["autobufd_sweeps_total"]), ((program or client).pid, 1))
                client.kill()
                client.wait()
                self.stop(daemon)


class Attached(WithholdTest):
    def test_nothing_stays(self) -> None:
        if not control_groups():
            self.skipTest("control groups of version 2: not mounted")
        path = self.ends()
        small, free = self.scales(path)
        for number in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number):
                daemon = self.acts(path, "[all]\n")
                mine = held(daemon)
                self.assertEqual((len(mine), mine - attached()), (3, set()))
                daemon.send_signal(number)
                daemon.wait(WAIT_S)
                deadline = time.monotonic() + WAIT_S
                while mine & attached():
                    self.assertLess(time.monotonic(), deadline)
                self.assertEqual(self.connect(path, SO_RCVBUF=SMALL)["scale"], small)

    @thorough
    def test_what_attaches_nothing(self) -> None:
        path = self.ends()
        small, free = self.scales(path)
        for args, rules, why in ((("--dry-run",), "bpf=yes\n[all]\n", "a dry run"), ((), "bpf=no\n[all]\n", "bpf=no")):
            with self.subTest(why):
                daemon = self.daemon(path, rules, *args)
                self.assertIn(f"autobufd: withholds no small sizes of programs: {why}", self.said)
                self.assertEqual(held(daemon), set())
                self.assertEqual(self.connect(path, SO_RCVBUF=SMALL)["scale"], small)
                self.stop(daemon)

    @thorough
    def test_what_is_refused(self) -> None:
        """It is said, and all else is done."""
        caps = "-bpf,-perfmon,-sys_admin"
        for prefix, why in ((("setpriv", f"--bounding-set={caps}", f"--inh-caps={caps}"), "it takes CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"),
                            ((sys.executable, "-c", REFUSED, str(BPF)), "the kernel does not take the programs: Operation not permitted")):
            with self.subTest(why):
                path, sender, fd, _ = self.begin(LONG, SMALL)
                daemon = self.daemon(path, "bpf=yes\n[all]\nremote_port=1-65535\n[never]\nmode=fixed\nrcvbuf=1M\n", prefix=prefix)
                lines = [line for line in self.said if "sizes of programs" in line]
                self.assertEqual(lines[0].split(": ", 2)[2], why)
                self.assertIn("[never]: rcvbuf holds in full for what a listening socket accepts later", "\n".join(self.said))
                self.assertEqual(int(self.line(daemon, "given back to autotuning")[2]), sender.pid)
                self.stop(daemon)

    def test_with_the_capabilities_of_its_page(self) -> None:
        """Those that autobufd(8) gives the unit are enough, and are given up at once."""
        page = (TOP / "docs" / "man" / "autobufd.8").read_text()
        ambient, bounding = (",".join(["-all"] + [f"+{name.removeprefix('CAP_').lower()}" for name in
                                                  re.search(f"^{kind}=(.*CAP_SYS_PTRACE.*)$", page, re.M)[1].split()])
                             for kind in ("AmbientCapabilities", "CapabilityBoundingSet"))
        path = self.ends()
        small, free = self.scales(path)
        daemon = self.acts(path, "[all]\n", prefix=(
            "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", f"--bounding-set={bounding}",
            f"--inh-caps={ambient}", f"--ambient-caps={ambient}", "--no-new-privs"))
        status = pathlib.Path(f"/proc/{daemon.pid}/status").read_text()
        for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            held = int(re.search(f"^{kind}:\\s*(\\w+)$", status, re.M)[1], 16)
            self.assertEqual(held, 0, kind)
        self.assertEqual(self.connect(path, SO_RCVBUF=SMALL)["scale"], free)
        self.stop(daemon)
        daemon = self.daemon(path, "bpf=no\n[all]\n")  # as root
        status = pathlib.Path(f"/proc/{daemon.pid}/status").read_text()
        self.assertEqual(int(re.search("^CapPrm:\\s*(\\w+)$", status, re.M)[1], 16) & (1 << 38 | 1 << 39), 0)
        self.stop(daemon)

    @thorough
    def test_what_is_told(self) -> None:
        path = self.ends()
        self.stop(self.acts(path, "[all]\n"))
        daemon = self.watched(path, "bpf=yes\n[all]\n")
        self.assertEqual((self.metrics()["autobufd_withheld_sizes_total"], self.flows()["withheld_sizes"]), (0, 0))
        for size in (SMALL, 0, SMALL):
            self.connect(path, SO_RCVBUF=size)
        deadline = time.monotonic() + WAIT_S
        while self.metrics()["autobufd_withheld_sizes_total"] < 2:
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual(self.flows()["withheld_sizes"], 2)
        self.stop(daemon)
        daemon = self.watched(path, "bpf=no\n[all]\n")
        self.assertNotIn("autobufd_withheld_sizes_total", self.metrics())
        self.assertIsNone(self.flows()["withheld_sizes"])
        self.stop(daemon)


if __name__ == "__main__":
    sys.exit(run_tests(("ip", "ss", "nsenter", "setpriv", "taskset", "unshare"), ("tools/autobufd",)))
