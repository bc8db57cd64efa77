#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""autobufd: what it learns of paths, and what programs hand in.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select the tests whose names
contain one of them.
"""
from __future__ import annotations

import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import time
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import test_bulk  # noqa: E402
import test_paths  # noqa: E402
from at_once import beside  # noqa: E402
from cases import run_tests, thorough  # noqa: E402
from daemons import BINARIES, NOBODY, PROGRAMS, SMALL, WAIT_S, Watched, setUpModule  # noqa: E402
from path import DEVICE, built, wait_line  # noqa: E402


class Learning(Watched):
    """What connections teach, and programs say, is known to later ones."""

    SHORT = {"net.ipv4.tcp_wmem": "4096 16384 131072"}  # a tenth of what 50 Mbit/s x 100 ms holds, with overhead
    EASY = "rate=20M,delay=20ms,queue=100K"
    PATH = "rate=50M,delay=50ms,queue=400K"

    def setUp(self) -> None:
        super().setUp()
        self.store = self.folder / "paths"
        self.into = self.folder / "learned.sock"

    def entries(self) -> list[dict]:
        return test_paths.entries(self.store) if self.store.exists() else []

    def moved(self, flows: int, bytes: int, key: str = "sent_bytes") -> None:
        """Until so many connections have moved so much each."""
        deadline = time.monotonic() + 2 * WAIT_S
        while len([flow for flow in self.flows()["flows"] if flow[key] >= bytes]) < flows:
            self.assertLess(time.monotonic(), deadline)

    def test_what_one_connection_taught_the_next_one_uses(self) -> None:
        path, sender, fd, _ = self.begin(self.PATH)
        daemon = self.watched(path, f"store={self.store}\n[all]\nmode=path\n")
        self.moved(1, 10_000_000)
        self.tell(sender, "close")
        self.until(self.entries, "nothing was learned")
        (entry,) = self.entries()
        self.assertEqual((entry["remote"], entry["method"], entry["flags"], entry["rx"]), (f"{path.addr['b']}/32", 5, 1, 0))
        self.between(entry["tx"], 18e6, 51e6, "the rate")  # of 50 Mbit/s a queue of 400 KB leaves half, or more
        self.between(entry["rtt_min_ns"], 100e6, 120e6, "the round-trip time")
        self.between(entry["expires_s"] - entry["learned_s"], 86400, 86400, "how long it holds")
        self.assertEqual(self.store.stat().st_mode & 0o777, 0o644)
        for name, value in self.SHORT.items():
            path.sysctl("a", name, value)
        daemon.send_signal(signal.SIGHUP)  # it reads the limits anew, too
        wait_line(daemon, lambda line: "reads the rules again" in line, WAIT_S)
        self.tell(sender, "connect")
        self.assertIn("send: set", self.line(daemon, "the path store knows it")[7])
        told = self.metrics()
        self.assertEqual(told['autobufd_learned_total{from="connections"}'], 1)
        self.stop(daemon)

    def test_what_a_receiver_learns(self) -> None:
        path, sender, fd, _ = self.begin("rate=50M,delay=20ms,queue=100K")
        daemon = self.watched(path, f"store={self.store}\n[all]\n", side="b")
        self.moved(1, 6_000_000, "received_bytes")
        self.tell(sender, "close")
        self.tell(sender, "connect")  # the sink closes a connection when the next one comes
        self.until(self.entries, "nothing was learned")
        (entry,) = self.entries()
        self.assertEqual((entry["remote"], entry["method"], entry["flags"], entry["tx"]), (f"{path.addr['a']}/32", 5, 2, 0))
        self.between(entry["rx"], 5e6, 51e6, "the rate")  # with a queue of 100 KB much is lost
        self.stop(daemon)

    @thorough
    def test_what_teaches_nothing(self) -> None:
        path, sender, fd, _ = self.begin(self.EASY)
        for rules, args in (("[all]\npace=20M\n", ()), ("[all]\nintent=low-delay\n", ()), ("[all]\ndivide=1M\n", ()),
                            ("[all]\n", ("--dry-run",)), ("dry_run=yes\n[all]\n", ())):
            with self.subTest(rules, args=args):
                self.write(f"status={self.socket}\nstore={self.store}\n{rules}")
                daemon = self.watched(path, f"store={self.store}\nlearned={self.into}\n{rules}", args=args)
                (flow,) = self.flows_of(1)
                self.moved(1, flow["sent_bytes"] + 3_000_000)
                self.assertEqual(self.into.exists(), "dry" not in rules and not args)
                self.stop(daemon)  # which learns from all that it looked after
                self.assertEqual(self.entries(), [])

    @thorough
    def test_a_connection_that_may_go_another_way_teaches_nothing(self) -> None:
        for name, options in (("SO_MARK", ("36", "7")), ("SO_BINDTODEVICE", ("25", DEVICE))):
            with self.subTest(name):
                path, sender, fd, _ = self.begin(self.EASY, options=options)
                daemon = self.watched(path, f"store={self.store}\n[all]\n")
                self.moved(1, 6_000_000)
                self.stop(daemon)
                self.assertEqual(self.entries(), [])

    def flows_of(self, count: int) -> list[dict]:
        self.until(lambda: len(self.flows()["flows"]) == count, "not looked after")
        return self.flows()["flows"]

    @beside
    def test_a_daemon_that_ends_keeps_what_it_knows(self) -> None:
        path, sender, fd, _ = self.begin(self.EASY)
        daemon = self.watched(path, f"store={self.store}\n[all]\n")
        self.moved(1, 6_000_000)
        self.stop(daemon)
        self.assertEqual([entry["remote"] for entry in self.entries()], [f"{path.addr['b']}/32"])

    def hand_in(self, remote: str = "192.0.2.1", message: bytes | None = None) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hand:
            hand.sendto(self.message(remote) if message is None else message, str(self.into))

    def message(self, remote: str) -> bytes:
        """As lib/paths/record.h describes it."""
        now = int(time.time())
        key = bytes([4, 32]) + socket.inet_aton(remote) + bytes(12) + bytes([1, 255]) + bytes(32)
        small = struct.pack("<7I", 1, 0, 0, 10, 1500, 0, 0)
        large = struct.pack("<12Q", 40_000_000, 40_000_000, *6 * [100_000_000], 500_000, 500_000, now, now + 3600)
        record = key + small + large
        return b"AUTOBUFL" + struct.pack("<2I", 1, 184) + record + struct.pack("<2I", zlib.crc32(record), 0)

    @staticmethod
    def files_of(daemon: subprocess.Popen) -> list[str]:
        """What it has open; sockets that it borrows come and go."""
        files = []
        for fd in os.listdir(f"/proc/{daemon.pid}/fd"):
            try:
                files.append(os.readlink(f"/proc/{daemon.pid}/fd/{fd}"))
            except FileNotFoundError:
                pass
        return files

    @beside
    def test_what_programs_hand_in(self) -> None:
        path, sender, fd, _ = self.begin(self.EASY, SMALL)
        daemon = self.watched(path, f"store={self.store}\nlearned={self.into}\n[all]\n")
        self.hand_in()
        self.until(self.entries, "not kept")
        self.assertEqual([(entry["remote"], entry["method"]) for entry in self.entries()], [("192.0.2.1/32", 1)])
        for bad in (b"", b"x", self.message("192.0.2.2")[:-1], self.message("192.0.2.2") + b"x", bytes(60000), self.message("224.0.0.1")):
            self.until(lambda: self.tries(bad), "no room")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hand, (self.folder / "handed").open("w") as file:
            hand.connect(str(self.into))
            socket.send_fds(hand, [b"x"], 3 * [file.fileno()])
        self.until(lambda: self.metrics()['autobufd_rejected_total{reason="malformed"}'] == 6, "not counted")
        self.assertEqual(self.metrics()['autobufd_rejected_total{reason="not_valid"}'], 1)
        self.until(lambda: str(self.folder / "handed") not in self.files_of(daemon), "descriptors stay open")
        self.assertEqual(self.flows()["rejected"], 7)
        self.stop(daemon)
        self.assertFalse(self.into.exists())

    def tries(self, message: bytes) -> bool:
        """The kernel's queue is short."""
        try:
            self.hand_in(message=message)
            return True
        except BlockingIOError:
            return False

    def test_a_flood(self) -> None:
        """Others are looked after meanwhile."""
        path, sender, fd, _ = self.begin(self.EASY, SMALL)
        daemon = self.watched(path, f"store={self.store}\nlearned={self.into}\n[all]\n")
        self.line(daemon, "given back")
        path.popen("a", [sys.executable, "-c", """
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect(sys.argv[1])
try:
    while True:
        s.send(bytes.fromhex(sys.argv[2]))
except ConnectionError:  # the daemon has ended
    pass
""", str(self.into), self.message("192.0.2.1").hex()])

        def come() -> float:
            told = self.metrics()
            return told['autobufd_learned_total{from="programs"}'] + told['autobufd_rejected_total{reason="too_many"}']

        self.until(lambda: come() > 50, "no flood")
        other = self.locked(path)
        self.assertEqual(int(self.line(daemon, "given back")[2]), other.pid)
        before = come()
        self.until(lambda: come() > before, "it has ended")
        self.stop(daemon)

    @beside
    def test_its_place_is_taken(self) -> None:
        path = self.path(both="rate=50M,delay=10ms")
        self.into.write_text("mine")
        daemon = self.daemon(path, f"status=off\nstore={self.store}\nlearned={self.into}\n[all]\n")
        wait_line(daemon, lambda line: f"{self.into}: File exists" in line, WAIT_S)
        self.stop(daemon)
        self.assertEqual(self.into.read_text(), "mine")

    @beside
    def test_a_store_that_cannot_be_written(self) -> None:
        """It is said once, and the care goes on."""
        if os.geteuid() != 0:
            self.skipTest("needs root to mount")
        path, sender, fd, _ = self.begin(self.EASY, SMALL)
        place = self.folder / "place"
        place.mkdir()
        later = b"AUTOBUFP" + struct.pack("<I", 2) + bytes(112)
        later += struct.pack("<I", zlib.crc32(later))
        fill = "head -c 8192 /dev/zero > fill 2>/dev/null"
        for made, said in (("mount -o remount,ro $PWD", "Read-only file system"), (fill, "No space left on device"),
                           (f"printf '{''.join(f'{chr(92)}{byte:03o}' for byte in later)}' > paths", "a later version"),
                           ("echo > paths; chown 4242 paths", "Operation not permitted")):
            with self.subTest(said):
                daemon = self.watched(path, f"store={place}/paths\nlearned={self.into}\n[all]\n", prefix=(
                    "unshare", "--mount", "sh", "-c",
                    f'mount -t tmpfs -o size=4k none {place} && (cd {place} && ({made}; true)) && exec "$@"', "sh"))
                failed = 'autobufd_errors_total{what="store"}'
                for count in (1, 2):
                    self.until(lambda: self.tries(self.message("192.0.2.1")), "no room")
                    self.until(lambda: self.metrics()[failed] == count, "no error")
                other = self.locked(path)
                self.assertEqual(int(self.line(daemon, f"[{other.pid}]:")[2]), other.pid)
                daemon.send_signal(signal.SIGTERM)
                self.assertEqual(daemon.wait(WAIT_S), 0)

    def test_as_a_service(self) -> None:
        """Its user owns the store's folder. Root hands in what a transfer measured; all who read know it."""
        if os.geteuid() != 0:
            self.skipTest("needs root to mount")
        path = self.hosts("rate=50M,delay=20ms,queue=1M", test_bulk.LITTLE_WMEM)
        self.serve(path)
        daemon = self.daemon(path, "status=off\nstore=/var/lib/autobuf/paths\nlearned=/run/autobufd/learned.sock\n[all]\n", prefix=(
            "unshare", "--mount", "sh", "-c", "mount -t tmpfs none /run && mount -t tmpfs none /var/lib && umask 077 && "
            f"install -d -m 755 -o {NOBODY} /run/autobufd /var/lib/autobuf && exec setpriv --reuid {NOBODY} --regid {NOBODY} "
            '--clear-groups "$@"', "sh"))
        inside, enter = f"/proc/{daemon.pid}/root", ["nsenter", f"--target={daemon.pid}", "--mount", "--root", "--wd"]
        self.store = pathlib.Path(f"{inside}/var/lib/autobuf/paths")
        self.until(pathlib.Path(f"{inside}/run/autobufd/learned.sock").exists, "no socket")

        def transfer(user: int) -> int:
            """How many echoes it sent."""
            before = self.echoes(path)
            done = path.run("a", [*enter, "setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups",
                                  "env", "-u", "AUTOBUF_PATHS", f"HOME={self.folder}", f"XDG_CACHE_HOME={self.folder}",
                                  test_bulk.example("bulk"), "send", "--tune", "autobuf", "--seconds", "1",
                                  path.addr["b"]], env=os.environ | {"LD_LIBRARY_PATH": str(self.folder)})
            self.assertEqual(done.returncode, 0, done.stderr)
            return self.echoes(path) - before

        self.assertGreater(transfer(0), 4)
        self.until(self.entries, "not kept")
        self.assertEqual(self.store.stat().st_uid, NOBODY)
        for user in (0, NOBODY, 4242):
            self.assertEqual(transfer(user), 0, user)
        self.assertFalse((self.folder / "autobuf").exists())  # the user's own store
        listed = subprocess.run([*enter, built("tools/autobuf"), "paths", "set", "--store", "/var/lib/autobuf/paths",
                                 "--rate", "1G", "--rtt", "10", "192.0.2.9"], capture_output=True, text=True)
        self.assertEqual(listed.returncode, 0, listed.stderr)  # root writes into it as well
        self.assertEqual(len(self.entries()), 2)
        self.store.unlink()
        self.assertGreater(transfer(NOBODY), 4)  # and then the daemon, to which nothing of root's is in the way
        self.until(self.entries, "not kept")
        self.stop(daemon)


if __name__ == "__main__":
    sys.exit(run_tests(PROGRAMS, BINARIES))
