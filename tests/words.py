#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What programs say where they cannot do what is asked: wrong addresses, a full disk, no HOME, too little privilege.

Needs no path and no network. Prints TAP; exits 0, or 1 if a test failed.
"""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "tests" / "net"))

from cases import run_tests  # noqa: E402
from path import build_folder  # noqa: E402

TOOL, DAEMON = (build_folder() / "tools" / name for name in ("autobuf", "autobufd"))
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") if os.geteuid() == 0 else ()
WAIT_S = 20


def run(*words: object, env: dict[str, str] | None = None, **kw) -> subprocess.CompletedProcess:
    return subprocess.run(list(map(str, words)), text=True, env=os.environ | (env or {}), timeout=WAIT_S,
                          stderr=subprocess.PIPE, **{"stdout": subprocess.PIPE} | kw)


def ended(*words: object, until: str) -> tuple[int, str]:
    """The status of a program and what it said, which is sent SIGTERM when it has said that."""
    with subprocess.Popen(list(map(str, words)), text=True, stderr=subprocess.PIPE) as child:
        said = ""
        for line in child.stderr:
            said += line
            if until in line:
                break
        child.terminate()
        return child.wait(WAIT_S), said + child.stderr.read()


class Addresses(unittest.TestCase):
    def test_why_there_is_none(self) -> None:
        link_local, device = "a link-local address needs its device, as in fe80::1%eth0", "this host has no such network device"
        for words, said in (
                (("explain", "fe80::1"), link_local), (("probe", "fe80::1"), link_local), (("measure", "fe80::1"), link_local),
                (("measure", "[fe80::1]:7411"), link_local), (("serve", "--bind", "fe80::1"), link_local),
                (("explain", "fe80::1%no-such"), device), (("measure", "[fe80::1%no-such]:1"), device),
                (("serve", "--bind", "fe80::1%no-such"), device),
                (("explain", "-4", "::1"), "this is an IPv6 address, and -4 asks for IPv4"),
                (("explain", "-6", "127.0.0.1"), "this is an IPv4 address, and -6 asks for IPv6"),
                (("measure", "-4", "[::1]:7411"), "this is an IPv6 address, and -4 asks for IPv4"),
                (("measure", "-6", "127.0.0.1:7411"), "this is an IPv4 address, and -6 asks for IPv6")):
            with self.subTest(words):
                done = run(TOOL, *words)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
                self.assertTrue(done.stderr.endswith(f": {said}\n"), done.stderr)


class FullDisk(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="autobuf-tests.")))
        self.store = ("--store", str(self.folder / "paths"))
        self.assertEqual(run(TOOL, "paths", "set", "192.0.2.1", "--rate", "1G", "--rtt", "10", *self.store).returncode, 0)

    def tell(self, *words: object, status: int = 1, **kw) -> None:
        with self.subTest(words), open("/dev/full", "w") as full:
            done = run(*words, stdout=full, **kw)
            self.assertEqual(done.returncode, status)
            self.assertRegex(done.stderr, r"\Aautobufd?: cannot write all of the output: No space left on device\n\Z")

    def test_of_the_command(self) -> None:
        path = ("--rate", "1G", "--rtt", "100")
        for words in (("--help",), ("--version",), ("serve", "--help"), ("explain",), ("explain", *path), ("explain", "--json", *path),
                      ("paths", *self.store), ("paths", "--json", *self.store), ("paths", "export", *self.store),
                      ("paths", "show", "192.0.2.1", *self.store)):
            self.tell(TOOL, *words)

    def test_of_the_daemon(self) -> None:
        if not DAEMON.exists():
            self.skipTest("built without autobufd")
        for word in ("--help", "--version"):
            self.tell(DAEMON, word)
        told = self.enterContext(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        told.bind(str(self.folder / "notify"))
        told.settimeout(WAIT_S)
        with open("/dev/full", "w") as full, subprocess.Popen([DAEMON, "--dry-run", "--config", "/dev/null"], stderr=full,
                                                              env=os.environ | {"NOTIFY_SOCKET": told.getsockname()}) as child:
            self.assertIn(b"READY=1", told.recv(4096))
            child.terminate()
            self.assertEqual(child.wait(WAIT_S), 1)

    def test_of_the_programs_in_python(self) -> None:
        rules, exported = self.folder / "wad.conf", self.folder / "exported"
        rules.write_text("[a]\nmode: 2\n")
        exported.write_text(run(TOOL, "paths", "export", *self.store).stdout)
        env = {"AUTOBUF_LIBRARY": str(build_folder() / "lib" / "libautobuf.so.0")}
        self.tell(sys.executable, TOP / "python" / "autobuf-import-wad", rules, env=env)
        self.tell(sys.executable, TOP / "python" / "autobuf-paths-import", "--exported", exported, env=env)


class Home(unittest.TestCase):
    def test_without_a_place_for_paths(self) -> None:
        words = (TOOL, "paths", "set", "192.0.2.1", "--rate", "1M", "--rtt", "1")
        for home, said in (("", "there is no place for a path store: HOME and XDG_CACHE_HOME are unset or not this user's alone, "
                                "or AUTOBUF_PATHS=off; --store FILE names one"),
                           ("/proc/no-such", "/proc/no-such/.cache/autobuf/paths: No such file or directory; --store FILE names another")):
            with self.subTest(home):
                done = run(*words, env={"HOME": home, "XDG_CACHE_HOME": "", "AUTOBUF_PATHS": ""})
                self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"autobuf: {said}\n"))


class Signals(unittest.TestCase):
    def test_the_first_process_of_a_container_ends(self) -> None:
        outer = subprocess.Popen(["unshare", "--pid", "--net", "--fork", "--kill-child", TOOL, "serve"], text=True,
                                 stderr=subprocess.PIPE)
        self.addCleanup(outer.communicate)
        self.addCleanup(outer.kill)
        line = outer.stderr.readline()
        if "unshare" in line:
            self.skipTest(line.strip())
        self.assertRegex(line, "listening on .* port 7411")
        inner = int(pathlib.Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text())
        os.kill(inner, signal.SIGTERM)
        self.assertEqual(outer.wait(WAIT_S), 128 + signal.SIGTERM)


class Daemon(unittest.TestCase):
    def test_a_dry_run_of_an_ordinary_user(self) -> None:
        if not DAEMON.exists():
            self.skipTest("built without autobufd")
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="autobuf-tests.")))
        folder.chmod(0o755)  # the build folder may be where nobody else comes
        status, said = ended(*NOBODY, shutil.copy(DAEMON, folder), "--dry-run", "--config", "/dev/null", until="begins with")
        self.assertEqual(status, 0)
        self.assertEqual(re.sub(r"autobufd: ", "", said).splitlines(), [
            "without CAP_SYS_PTRACE it sees no program of another user, and without CAP_NET_ADMIN it sets no buffer above "
            "net.core.[rw]mem_max: root has both",
            "withholds no small sizes of programs: a dry run", "begins with 0 rules"])


class Scripts(unittest.TestCase):
    def test_what_they_cannot_mean_is_refused(self) -> None:
        """Before they install or make anything."""
        for name in ("examples/demo", "packaging/build", "openssh-patch/build", "openssh-patch/deb", "ncftp-patch/build",
                     "libssh2-patch/build", "curl-patch/build", "scripts/release", "tests/run"):
            with self.subTest(name):
                done = run(TOP / name, "--foo", stdin=subprocess.DEVNULL)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn("usage", done.stderr)


if __name__ == "__main__":
    sys.exit(run_tests((), on_path=False))
