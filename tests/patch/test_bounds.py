# SPDX-License-Identifier: MIT
"""What sshd can be made to hold, patched and stock: memory of its own, of all its processes.

    sudo python3 tests/patch/test_bounds.py --table

makes the table of docs/SECURITY-MODEL.md.
"""
from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import re
import subprocess
import sys
import time

from openssh import Client, programs
from test_openssh import MB, PAUSE_S, OpenSSH

from at_once import alone, beside  # the folder is on the path by now
from cases import run_tests, some, thorough
from path import wait_line, wait_listening

PEERS = str(pathlib.Path(__file__).parent / "stalling.py")
LONG = "rate=300M,delay=250ms,queue=20M"
"""19 MB: the window of a channel that is read at once has 38. A machine that is too busy for the rate comes to 12 at least."""
NEAR = "delay=1ms,queue=4M"
MOST = 64 * MB
"""AutoBufferMax, by default."""
FIRST = 2 * MB
"""A window begins with so much, in stock OpenSSH too."""
SPARE = 2 * MB
"""What differs from run to run, for each connection."""
FILES = ["sh", "-c", 'ulimit -S -n "$(ulimit -H -n)" && exec "$@"', "sh"]
"""As many open files as may be."""
CHANGE = re.compile(r"autobuf: channel \d+: window (?:\d+ -> |stays at )(\d+): (.*)")


def cleaned(scene):
    """Nothing of a scene is left when it ends: the next one counts its own processes only."""
    @functools.wraps(scene)
    def run(self: Held, *args) -> int:
        try:
            return scene(self, *args)
        finally:
            self.doCleanups()
    return run


@beside
class Held(OpenSSH):
    """A peer that sends as much as it may, to readers that read no more, through forwarded ports."""

    link = NEAR

    def ask(self, peer: subprocess.Popen, *words) -> None:
        peer.stdin.write(" ".join(map(str, words)) + "\n")
        peer.stdin.flush()
        wait_line(peer, lambda line: line == "done", 120)

    def peer(self, ssh: Client, side: str, *args) -> subprocess.Popen:
        return ssh.path.popen(side, [self.python, PEERS, *map(str, args)], stdin=subprocess.PIPE)

    def server(self, stock: bool, link: str, settings: list[str] | None = None) -> Client:
        ssh = self.ends(server_stock=stock, link=link, log="DEBUG", server_settings=settings,
                        wrap=FILES)
        for side in "ab":
            ssh.path.sysctl(side, "net.ipv4.tcp_rmem", "4096 131072 67108864")
            # What sshd has passed on stays with the kernel: with 1,000 channels TCP would come to the limit of its memory.
            most = 67108864 if side == "a" else 262144
            ssh.path.sysctl(side, "net.ipv4.tcp_wmem", f"4096 16384 {most}")
            ssh.path.sysctl(side, "net.ipv4.tcp_slow_start_after_idle", 0)
            ssh.path.route(side, initcwnd=1000, initrwnd=2000)
        return ssh

    def connect(self, ssh: Client, count: int) -> None:
        """So many connections, each with a forwarded port to a process that reads."""
        self.sink = self.peer(ssh, "b", "sink", 7500)
        wait_listening(ssh.path, "b", 7500, self.sink)
        ports = range(7501, 7501 + count)
        self.source = self.peer(ssh, "a", "source", *ports)
        self.clients = [ssh.path.popen("a", [*FILES, *ssh.argv(
            "ssh", "-N", "-L", f"{port}:127.0.0.1:7500", ssh.remote())]) for port in ports]
        for port, client in zip(ports, self.clients):
            wait_listening(ssh.path, "a", port, client, timeout=60)

    def own_bytes(self, ssh: Client) -> int:
        """Of all processes of this sshd: those in its namespace."""
        space = os.readlink(f"/proc/{ssh.server.pid}/ns/pid")
        total = 0
        for pid, name in programs(ssh.server.where, ssh.path):
            with contextlib.suppress(OSError):
                if name.startswith("sshd") and os.readlink(f"/proc/{pid}/ns/pid") == space:
                    total += self.own_kb(pid) * 1024
        return total

    def held_bytes(self, ssh: Client) -> int:
        """Once it does not change any more: nothing comes for two seconds."""
        last, since = -1, time.monotonic()
        for _ in range(100000):
            now = self.own_bytes(ssh)
            if abs(now - last) > 16 * 1024:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > 2:
                return now
            time.sleep(PAUSE_S)
        self.untimely("memory does not settle")

    # ---- what the peers do ----

    @cleaned
    def strangers(self, stock: bool, connections: int) -> int:
        """None of them is authenticated."""
        ssh = self.server(stock, NEAR)
        self.ask(self.peer(ssh, "a", "strangers", ssh.path.addr["b"]), "open", connections)
        return self.held_bytes(ssh)

    @cleaned
    def stalled(self, stock: bool, connections: int, channels: int) -> int:
        """So many channels of each connection, of which nothing is ever read."""
        ssh = self.server(stock, NEAR)
        self.connect(ssh, connections)
        self.ask(self.sink, "stop")
        for i in range(connections):
            self.ask(self.source, "open", i, channels)
        self.until(lambda: self.own_bytes(ssh) >= connections * channels * FIRST, "not all windows are filled", 900)
        return self.held_bytes(ssh)

    def changes(self, ssh: Client, start: int) -> list[tuple[int, str]]:
        """The windows since then, with why."""
        return [(int(size), why) for size, why in CHANGE.findall(ssh.server.log.read_text()[start:])]

    def grow(self, ssh: Client, number: int) -> str:
        """Another channel of a connection, which is read until its window is large; the limit that it met, or ''."""
        start = len(ssh.server.log.read_text())
        self.ask(self.source, "open", number, 1)
        limits = ("AutoBufferMax", "AutoBufferHost")
        self.until(lambda: any(size >= 12 * MB or why in limits for size, why in self.changes(ssh, start)),
                   "no window grows", 60)
        self.ask(self.sink, "hold")
        return next((why for _, why in self.changes(ssh, start) if why in limits), "")

    @cleaned
    def grown(self, channels: int) -> int:
        """Channels of one connection: the first ones are read until all windows are as large as they may be together."""
        ssh = self.server(False, LONG)
        self.connect(ssh, 1)
        opened = 0
        while self.grow(ssh, 0) != "AutoBufferMax":
            opened += 1
            self.assertLess(opened, channels, "the connection's bound is not met")
        self.ask(self.sink, "stop")
        self.ask(self.source, "open", 0, max(0, channels - opened - 1))
        self.until(lambda: self.own_bytes(ssh) >= channels * FIRST, "not all windows are filled", 900)
        return self.held_bytes(ssh)

    @cleaned
    def grown_connections(self, connections: int, host: str) -> int:
        """With a channel each, whose windows grow one after the other."""
        ssh = self.server(False, LONG, [f"AutoBufferHost {host}"])
        self.connect(ssh, connections)
        for i in range(connections):
            self.grow(ssh, i)
        self.ask(self.sink, "stop")
        return self.held_bytes(ssh)

    # ---- tests ----

    def test_before_authentication_nothing_is_different(self) -> None:
        for connections in some(10, 100):
            with self.subTest(connections):
                stock, ours = (self.strangers(stock, connections) for stock in (True, False))
                self.between(stock, connections * 256 * 1024, connections * 20 * MB, "bytes, stock")
                self.between(ours, 0.9 * stock, 1.1 * stock, "bytes")

    def hold_what_stock_holds(self, connections: int, channels: int) -> None:
        """Those that were never read."""
        stock, ours = (self.stalled(stock, connections, channels) for stock in (True, False))
        self.between(stock, connections * channels * FIRST, connections * (channels + 3) * 1.5 * FIRST, "stock")
        self.between(ours, connections * channels * FIRST, stock * 1.05 + connections * SPARE, "bytes")

    def hold_no_more_than_the_bound(self, channels: int) -> None:
        """Of one connection."""
        stock, never = (self.stalled(stock, 1, channels) for stock in (True, False))
        grown = self.grown(channels)
        self.between(grown, never + MOST / 2, stock * 1.05 + MOST * 1.25 + SPARE, "bytes")

    def test_channels_that_were_never_read_hold_what_stock_holds(self) -> None:
        for connections, channels in some((3, 10), (1, 10), (1, 100)):
            with self.subTest(connections=connections, channels=channels):
                self.hold_what_stock_holds(connections, channels)

    def test_a_connection_holds_no_more_than_its_bound(self) -> None:
        for channels in some(10, 100):
            with self.subTest(channels):
                self.hold_no_more_than_the_bound(channels)

    @alone  # what many hold puts TCP's memory of this host under pressure, so that others' buffers stay small
    @thorough
    def test_many_channels_and_connections(self) -> None:
        self.hold_what_stock_holds(1, 1000)
        self.hold_what_stock_holds(50, 10)
        self.hold_no_more_than_the_bound(1000)

    def test_all_connections_hold_no_more_than_the_host_s_bound(self) -> None:
        """Two use up what there is; the third one's window grows when one of them has ended."""
        stock = self.stalled(True, 3, 1)
        ssh = self.server(False, LONG, ["AutoBufferHost 24M"])
        self.connect(ssh, 3)
        self.assertEqual([self.grow(ssh, i) for i in range(2)][1], "AutoBufferHost")
        start = len(ssh.server.log.read_text())
        self.ask(self.source, "open", 2, 1)
        self.until(lambda: self.changes(ssh, start), "no word of the third one", 60)
        self.assertEqual({why for _, why in self.changes(ssh, start)}, {"AutoBufferHost"})
        most = max(self.own_bytes(ssh) for _ in range(50))
        self.between(most, stock + 12 * MB, stock + 24 * MB + 3 * SPARE, "bytes")
        self.clients[0].kill()
        self.until(lambda: self.changes(ssh, start)[-1][0] >= 8 * MB, "its window does not grow", 60)

    @alone
    @thorough
    def test_fifty_connections(self) -> None:
        stock = self.stalled(True, 50, 1)
        self.between(self.grown_connections(50, "256M"), stock + 128 * MB, stock * 1.05 + 256 * MB + 50 * SPARE, "bytes")


def table() -> None:
    """Each cell once, in MB."""
    def cell(call, *args) -> str:
        test = Held()
        test.setUp()
        return f"{getattr(test, call)(*args) / 1e6:.0f}"

    print("| who | connections | channels of each | stock | patched | patched, windows grown before |")
    print("|---|---:|---:|---:|---:|---:|", flush=True)
    for connections in (10, 50):
        print(f"| not authenticated | {connections} | | {cell('strangers', True, connections)} | "
              f"{cell('strangers', False, connections)} | |", flush=True)
    for connections, channels in ((1, 10), (1, 100), (1, 1000), (50, 1)):
        grown = cell("grown", channels) if connections == 1 else ""
        print(f"| authenticated | {connections} | {channels} | {cell('stalled', True, connections, channels)} | "
              f"{cell('stalled', False, connections, channels)} | {grown} |", flush=True)
    print(f"| the same, `AutoBufferHost 256M` | 50 | 1 | | | {cell('grown_connections', 50, '256M')} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        Held.setUpClass()
        try:
            table()
        finally:
            Held.doClassCleanups()
        sys.exit()
    sys.exit(run_tests(("ip", "setpriv", "unshare"), ("tests/net/pathemu",)))
