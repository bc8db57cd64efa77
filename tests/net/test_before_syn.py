#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""autobufd's part in the kernel: window scales of connections whose programs know nothing of it.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select the tests whose names
contain one of them. Where there is no BPF, each is skipped with the daemon's own reason.
"""
from __future__ import annotations

import ctypes
import json
import os
import pathlib
import platform
import re
import signal
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
BPF_CGROUP_SOCK_OPS = 3
ABSENT = ("built without", "it takes Linux", "it takes a kernel", "it takes CAP", "control groups of version 2")

# Connects as argv[1] says, tells what the socket is like, and takes all that comes.
CLIENT = """
import json, socket, sys
wish = json.loads(sys.argv[1])
if wish.get("group"):
    open(wish["group"], "w").write("0")
s = socket.socket(socket.AF_INET6 if ":" in wish["to"] else socket.AF_INET)
if wish.get("rcvbuf"):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, wish["rcvbuf"])
if wish.get("clamp"):
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, wish["clamp"])
s.connect((wish["to"], wish["port"]))
print(json.dumps({"scale": s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[6] >> 4,
                  "buffer": s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
                  "locks": s.getsockopt(socket.SOL_SOCKET, 72),
                  "clamp": s.getsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP)}), flush=True)
while wish.get("stays") and s.recv(1 << 20, socket.MSG_TRUNC):
    pass
"""

SERVER = f"""
import socket
l = socket.create_server(("::", {PORT}), family=socket.AF_INET6, dualstack_ipv6=True)
while True:
    l.accept()
"""

setUpModule = daemons.setUpModule


def attached() -> set[int]:
    """The programs for sock_ops at the root of the control groups, by number."""
    numbers = (ctypes.c_uint32 * 64)()
    place = os.open(control_groups(), os.O_RDONLY)
    query = (ctypes.c_uint32 * 32)(place, BPF_CGROUP_SOCK_OPS)
    ctypes.cast(ctypes.byref(query, 16), ctypes.POINTER(ctypes.c_uint64))[0] = ctypes.addressof(numbers)
    query[6] = len(numbers)
    failed = ctypes.CDLL(None, use_errno=True).syscall(BPF, BPF_PROG_QUERY, query, ctypes.c_size_t(ctypes.sizeof(query)))
    os.close(place)
    if failed:
        raise OSError(ctypes.get_errno(), "BPF_PROG_QUERY")
    return set(numbers[:query[6]])


def held(daemon: subprocess.Popen) -> set[int]:
    """The programs that it has attached, by number; others may attach theirs meanwhile."""
    own = f"/proc/{daemon.pid}/task/{daemon.pid}/children"
    places = [pathlib.Path(f"/proc/{pid}") for pid in (daemon.pid, *pathlib.Path(own).read_text().split())]
    links = [place / "fdinfo" / fd.name for place in places for fd in (place / "fd").iterdir() if os.readlink(fd) == "anon_inode:bpf_link"]
    return {int(number) for info in links for number in re.findall(r"^prog_id:\s+(\d+)", info.read_text(), re.M)}


class BeforeSynTest(daemons.Watched):
    def acts(self, path: Path, rules: str, *args: str, **kw) -> subprocess.Popen:
        """A daemon that acts before the SYN."""
        daemon = self.daemon(path, rules, *args, **kw)
        line, = (line for line in self.said if "before the SYN" in line)
        why = line.removeprefix("autobufd: does nothing before the SYN of connections: ")
        if why.startswith(ABSENT):
            self.skipTest(why)
        self.assertEqual(line, "autobufd: acts before the SYN of connections")
        return daemon

    def ends(self) -> Path:
        path = self.hosts(SHORT, {**WMEM, **RMEM})
        server = path.popen("b", [sys.executable, "-c", SERVER])
        wait_listening(path, "b", PORT, server)
        return path

    def connect(self, path: Path, side: str = "a", to: str | None = None, **wish) -> dict:
        wish = {"to": to or path.addr["b"], "port": PORT} | wish
        done = path.run(side, [sys.executable, "-c", CLIENT, json.dumps(wish)])
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def scales(self, path: Path) -> tuple[int, int]:
        """Of a socket whose buffer is locked, where nothing acts, and of one whose is not."""
        small, free = (self.connect(path, rcvbuf=size)["scale"] for size in (SMALL, 0))
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
        self.assertIn("before the SYN of connections", first)
        self.assertNotIn("the kernel does not take", first)


class Scale(BeforeSynTest):
    def test_the_scale_alone_becomes_larger(self) -> None:
        path = self.ends()
        wishes = ({"rcvbuf": SMALL}, {"rcvbuf": 4 * SMALL}, {"rcvbuf": SMALL, "clamp": 16 * SMALL}, {"rcvbuf": SMALL, "clamp": 20000},
                  {"clamp": 20000}, {})
        before = [self.connect(path, **wish) for wish in wishes]
        free = before[-1]["scale"]
        daemon = self.acts(path, "[all]\n")
        for wish, was in zip(wishes, before):
            with self.subTest(wish):
                raised = wish.get("rcvbuf") and wish.get("clamp") != 20000
                self.assertEqual(self.connect(path, **wish), was | ({"scale": free} if raised else {}))
        self.stop(daemon)
        self.assertEqual(self.connect(path, rcvbuf=SMALL), before[0])

    @thorough
    def test_a_route_with_a_window(self) -> None:
        path = self.ends()
        path.route("a", window=20000)
        before = self.connect(path, rcvbuf=SMALL)
        daemon = self.acts(path, "[all]\n")
        self.assertEqual(self.connect(path, rcvbuf=SMALL), before)
        path.route("a", window=None)
        self.assertGreater(self.connect(path, rcvbuf=SMALL)["scale"], before["scale"])
        self.stop(daemon)

    @thorough
    def test_no_limit_of_setsockopt_counts(self) -> None:
        """Where a program may set little, the scale is that of autotuning."""
        self.core(OLDER_CORE)
        path = self.ends()
        small, free = self.scales(path)
        daemon = self.acts(path, "[all]\n")
        self.assertEqual(self.connect(path, rcvbuf=SMALL)["scale"], free)
        self.stop(daemon)

    @thorough
    def test_a_window_that_then_opens(self) -> None:
        """What a receiver has locked before connect() is given back to autotuning in full, or set as a rule says."""
        self.core(CORE)
        path = self.hosts(LONG, {**WMEM, **RMEM})
        server = path.popen("b", [sys.executable, "-c", CROWD, "send"])
        wait_listening(path, "b", PORT, server)
        small, free = self.scales(path)
        wish = {"to": path.addr["b"], "port": PORT, "rcvbuf": SMALL, "stays": True}
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
                self.assertEqual(self.connect(path, rcvbuf=SMALL)["scale"], free if holds else small)
        for rules, holds in (("[a]\nremote_port=1\nmode=off\n[b]\n", True), (f"[a]\nprogram={comm}\nmode=off\n[b]\n", False),
                             (f"stop_ports={PORT}\n[a]\n", False), ("stop_ports=1\n[a]\n", True), ("dry_run=yes\n[a]\n", False),
                             ("".join(f"[{i}]\nremote_port={i}\nmode=off\n" for i in range(1, 256)) + "[all]\n", True),
                             ("".join(f"[{i}]\nremote_port={i}\nmode=off\n" for i in range(1, 257)) + "[all]\n", False)):
            with self.subTest(rules[:60]):
                self.again(daemon, rules)
                self.assertEqual(self.connect(path, rcvbuf=SMALL)["scale"], free if holds else small)
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
                self.assertEqual(self.connect(path, group=str(group / "cgroup.procs"), rcvbuf=SMALL)["scale"], free if holds else small)
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
                self.assertEqual(self.connect(path, to=to, rcvbuf=SMALL)["scale"], free if holds else small)
        self.stop(daemon)

    def test_other_namespaces_are_left_alone(self) -> None:
        path = self.ends()
        server = path.popen("a", [sys.executable, "-c", SERVER])
        wait_listening(path, "a", PORT, server)
        small, free = self.scales(path)
        daemon = self.acts(path, "[all]\n")
        self.assertEqual(self.connect(path, side="b", to=path.addr["a"], rcvbuf=SMALL)["scale"], small)
        self.assertEqual(self.connect(path, rcvbuf=SMALL)["scale"], free)
        both = self.acts(path, "[all]\n", side="b")
        self.assertEqual(self.connect(path, side="b", to=path.addr["a"], rcvbuf=SMALL)["scale"], free)
        self.stop(daemon)
        self.stop(both)


class Attached(BeforeSynTest):
    def test_nothing_stays(self) -> None:
        if not control_groups():
            self.skipTest("control groups of version 2: not mounted")
        path = self.ends()
        small, free = self.scales(path)
        for number in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number):
                daemon = self.acts(path, "[all]\n")
                mine, = held(daemon)
                self.assertIn(mine, attached())
                daemon.send_signal(number)
                daemon.wait(WAIT_S)
                deadline = time.monotonic() + WAIT_S
                while mine in attached():
                    self.assertLess(time.monotonic(), deadline)
                self.assertEqual(self.connect(path, rcvbuf=SMALL)["scale"], small)

    @thorough
    def test_what_attaches_nothing(self) -> None:
        path = self.ends()
        small, free = self.scales(path)
        for args, rules, why in ((("--dry-run",), "[all]\n", "a dry run"), ((), "bpf=no\n[all]\n", "bpf=no")):
            with self.subTest(why):
                daemon = self.daemon(path, rules, *args)
                self.assertIn(f"autobufd: does nothing before the SYN of connections: {why}", self.said)
                self.assertEqual(held(daemon), set())
                self.assertEqual(self.connect(path, rcvbuf=SMALL)["scale"], small)
                self.stop(daemon)

    @thorough
    def test_what_is_refused(self) -> None:
        """It is said, and all else is done."""
        caps = "-bpf,-perfmon,-sys_admin"
        for prefix, why in ((("setpriv", f"--bounding-set={caps}", f"--inh-caps={caps}"), "it takes CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"),
                            ((sys.executable, "-c", REFUSED, str(BPF)), "the kernel does not take the program: Operation not permitted")):
            with self.subTest(why):
                path, sender, fd, _ = self.begin(LONG, SMALL)
                daemon = self.daemon(path, "[all]\nremote_port=1-65535\n[never]\nmode=fixed\nrcvbuf=1M\n", prefix=prefix)
                lines = [line for line in self.said if "before the SYN" in line]
                self.assertEqual(lines[0].split(": ", 1)[1], f"does nothing before the SYN of connections: {why}")
                self.assertIn("[never]: rcvbuf holds in full for what a listening socket accepts later", "\n".join(self.said))
                self.assertEqual(int(self.line(daemon, "given back to autotuning")[2]), sender.pid)
                self.stop(daemon)

    def test_with_the_capabilities_of_its_page(self) -> None:
        """Those that autobufd(8) gives the unit are enough, and are given up at once."""
        page = (TOP / "docs" / "man" / "autobufd.8").read_text()
        names = re.search("^AmbientCapabilities=(.*CAP_BPF.*)$", page, re.M)[1].split()
        caps = ",".join(["-all"] + [f"+{name.removeprefix('CAP_').lower()}" for name in names])
        path = self.ends()
        small, free = self.scales(path)
        daemon = self.acts(path, "[all]\n", prefix=(
            "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", f"--bounding-set={caps}", f"--inh-caps={caps}",
            f"--ambient-caps={caps}", "--no-new-privs"))
        status = pathlib.Path(f"/proc/{daemon.pid}/status").read_text()
        for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            held = int(re.search(f"^{kind}:\\s*(\\w+)$", status, re.M)[1], 16)
            self.assertEqual(held, 0, kind)
        self.assertEqual(self.connect(path, rcvbuf=SMALL)["scale"], free)
        self.stop(daemon)
        daemon = self.daemon(path, "bpf=no\n[all]\n")  # as root
        status = pathlib.Path(f"/proc/{daemon.pid}/status").read_text()
        self.assertEqual(int(re.search("^CapPrm:\\s*(\\w+)$", status, re.M)[1], 16) & (1 << 38 | 1 << 39), 0)
        self.stop(daemon)

    @thorough
    def test_what_is_told(self) -> None:
        path = self.ends()
        self.stop(self.acts(path, "[all]\n"))
        daemon = self.watched(path)
        self.assertEqual((self.metrics()["autobufd_window_scales_total"], self.flows()["window_scales"]), (0, 0))
        for size in (SMALL, 0, SMALL):
            self.connect(path, rcvbuf=size)
        deadline = time.monotonic() + WAIT_S
        while self.metrics()["autobufd_window_scales_total"] < 2:
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual(self.flows()["window_scales"], 2)
        self.stop(daemon)
        daemon = self.watched(path, "bpf=no\n[all]\n")
        self.assertNotIn("autobufd_window_scales_total", self.metrics())
        self.assertIsNone(self.flows()["window_scales"])
        self.stop(daemon)


if __name__ == "__main__":
    sys.exit(run_tests(("ip", "ss", "nsenter", "setpriv", "taskset", "unshare"), ("tools/autobufd",)))
