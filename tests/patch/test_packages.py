# SPDX-License-Identifier: MIT
"""openssh-patch/deb: packages of the patched OpenSSH, made, installed, used, upgraded, removed and purged."""
from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

from debs import DEB, PATCHES, packages, shares
from roots import HERE, TOP, Root, lintian, next_version, release

from cases import PathTest, run_tests  # the folder is on the path by now
from path import build_folder, wait_line, wait_listening

ALL = "AUTOBUF_TESTS_ALL" in os.environ
SUITES = ("bookworm", "trixie")
MB = 1 << 20
LONG = "rate=300M,delay=40ms,queue=6M"
"""3 MB: more than a stock window."""
PORT = 222
USER = "transfer"

# Listens where no further SYN is answered: its queue is full.
FULL = """
import socket, sys
l = socket.socket()
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind(("", int(sys.argv[1])))
l.listen(0)
waiting = []
while True:
    waiting.append(socket.socket())
    waiting[-1].settimeout(0.3)
    try:
        waiting[-1].connect(("127.0.0.1", int(sys.argv[1])))
    except TimeoutError:
        break
print("full", flush=True)
sys.stdin.read()
"""

CLIENT = {"usr/bin/autobuf-ssh", "usr/bin/autobuf-scp", "usr/bin/autobuf-sftp", "etc/autobuf-ssh/ssh_config",
          "usr/lib/autobuf-ssh/ssh-pkcs11-helper", "usr/lib/autobuf-ssh/ssh-sk-helper",
          *(f"usr/share/man/man1/autobuf-{name}.1.gz" for name in ("ssh", "scp", "sftp")),
          "usr/share/man/man5/autobuf-ssh_config.5.gz"}
SERVER = {"usr/sbin/autobuf-sshd", "usr/lib/autobuf-ssh/sftp-server", "etc/autobuf-ssh/sshd_config",
          "etc/autobuf-ssh/autobuf.conf", "etc/pam.d/autobuf-sshd", "lib/systemd/system/autobuf-sshd.service",
          "usr/lib/tmpfiles.d/autobuf-sshd.conf", "usr/share/man/man8/autobuf-sshd.8.gz",
          "usr/share/man/man5/autobuf-sshd_config.5.gz"}
SESSIONS = {"usr/lib/autobuf-ssh/sshd-session", "usr/lib/autobuf-ssh/sshd-auth"}
"""Programs of the server from 10.0p1 on."""
PAGES = {"usr/share/man/man5/autobuf.conf.5.gz"} if (PATCHES / "autobuf.conf.5").exists() else set()
REPLACED = ("openssh-client", "openssh-server", "openssh-sftp-server")
CONFFILES = {"autobuf-ssh": ["/etc/autobuf-ssh/ssh_config"],
             "autobuf-sshd": ["/etc/autobuf-ssh/autobuf.conf", "/etc/autobuf-ssh/sshd_config",
                              "/etc/pam.d/autobuf-sshd"]}


def made(root: Root | None = None, replace: bool = False) -> dict[str, pathlib.Path]:
    """The packages; a test is skipped if the archive cannot be reached."""
    try:
        return packages(root, replace)
    except RuntimeError as error:
        if re.search("cannot fetch|no source of|cannot read|Could not resolve", str(error)):
            raise unittest.SkipTest(str(error)) from None
        raise


def dpkg_deb(*args: object) -> str:
    return subprocess.run(["dpkg-deb", *args], capture_output=True, text=True, check=True).stdout


class Arguments(unittest.TestCase):
    def refused(self, *args: object) -> str:
        with tempfile.TemporaryDirectory() as into:
            done = subprocess.run([DEB, *args, into], capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(os.listdir(into), [])
        return done.stderr

    def test_what_deb_cannot_mean_is_refused(self) -> None:
        for args in (["--other"], ["--upstream"], ["--revision"], ["--revision", "x"], ["--revision", "0"],
                     ["--revision", "-1"], ["9.2p1", "9.2p1"]):
            with self.subTest(args):
                self.assertIn("usage: ", self.refused(*args))
        self.assertIn("there is no series for OpenSSH 8.4p1", self.refused("8.4p1"))
        self.assertIn("is no unpacked source package", self.refused("--source", "/"))
        done = subprocess.run([DEB, "--source"], capture_output=True, text=True)
        self.assertIn("usage: ", done.stderr)

    def test_a_source_without_the_distributions_patches_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            source = pathlib.Path(name)
            (source / "debian" / "patches").mkdir(parents=True)
            (source / "debian" / "changelog").write_text("openssh (1:9.2p1-2) bookworm; urgency=medium\n")
            (source / "debian" / "patches" / "series").write_text("a.patch\n")
            (source / "version.h").write_text('#define SSH_VERSION "OpenSSH_9.2"\n#define SSH_PORTABLE "p1"\n')
            self.assertIn("has to have the distribution's patches", self.refused("--source", source))


class Contents(unittest.TestCase):
    """The packages that are installed beside the system's OpenSSH, as files."""

    def unpacked(self) -> pathlib.Path:
        where = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for file in made().values():
            subprocess.run(["dpkg-deb", "--extract", file, where], check=True)
        return where

    def test_lintian_finds_no_error(self) -> None:
        done = lintian(*made().values())
        self.assertEqual(re.findall(r"^E: .*", done.stdout, re.M), [])
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_is_in_them(self) -> None:
        for name, wanted in (("autobuf-ssh", CLIENT), ("autobuf-sshd", SERVER | PAGES)):
            rows = [line.split(None, 5) for line in dpkg_deb("--contents", made()[name]).splitlines()]
            files = {row[5].removeprefix("./"): row[0] for row in rows if not row[0].startswith("d")}
            self.assertEqual({f for f in files if not f.startswith("usr/share/doc/")} - SESSIONS, wanted)
            self.assertEqual({f: mode for f, mode in files.items() if "s" in mode.lower()}, {}, "setuid, setgid")
            sessions = SESSIONS & set(files)
            self.assertEqual(sessions, SESSIONS if name == "autobuf-sshd" and release() != "bookworm" else set())
            self.assertEqual(sorted(dpkg_deb("--info", made()[name], "conffiles").split()), CONFFILES[name])

    def test_the_version_is_above_the_distributions_and_below_its_next(self) -> None:
        version = dpkg_deb("--field", made()["autobuf-ssh"], "Version").strip()
        base = version.removesuffix("+autobuf1")
        self.assertNotEqual(version, base)
        for lower, higher in ((base, version), (version, base[:-1] + str(int(base[-1]) + 1))):
            subprocess.run(["dpkg", "--compare-versions", lower, "lt", higher], check=True)

    def test_programs_name_their_own_paths(self) -> None:
        where = self.unpacked()
        text = {str(file.relative_to(where)): file.read_bytes()
                for folder in ("usr/bin", "usr/sbin", "usr/lib/autobuf-ssh") for file in (where / folder).iterdir()}
        for name in ("usr/bin/autobuf-scp", "usr/bin/autobuf-sftp"):
            self.assertTrue(b"\0/usr/bin/autobuf-ssh\0" in text[name], name)
        for name in ("usr/bin/autobuf-ssh", "usr/sbin/autobuf-sshd"):
            self.assertTrue(b"/etc/autobuf-ssh/ssh" in text[name], name)
        sshd = b"".join(data for name, data in text.items() if "sshd" in name)
        for wanted in (b"\0/run/autobuf-sshd.pid\0", b"\0/run/autobuf-sshd\0", b"autobuf-sshd\0"):
            self.assertTrue(wanted in sshd, wanted)
        for name, data in text.items():
            for foreign in (rb"/etc/ssh/[a-z]+", rb"/usr/bin/(ssh|scp|sftp)\0", rb"/run/sshd",
                            rb"/usr/lib/openssh/(?!ssh-keysign)", rb"/usr/libexec"):
                self.assertIsNone(re.search(foreign, data), f"{name}: {foreign}")

    def test_pages_are_named_as_their_programs(self) -> None:
        where = self.unpacked() / "usr/share/man"
        for page in where.rglob("*.gz"):
            text = subprocess.run(["zcat", page], capture_output=True, text=True, check=True).stdout
            name = page.name.split(".")[0]
            if name == "autobuf":
                continue
            self.assertRegex(text, rf"(?m)^\.Dt {name.upper()} ")
            self.assertEqual(re.findall(r"^\.Nm (\S+)", text, re.M)[0], name)
            self.assertEqual(re.findall(r"Xr (?:ssh|scp|sftp|ssh_config|sshd_config|sshd) [158]\b", text), [])
            self.assertEqual(re.findall(r"/run/sshd|/etc/ssh/sshd?_config\b|/usr/lib/openssh", text), [], page.name)


class Installed(PathTest):
    """Real programs on the emulated path, in a root that is this system's but for what is changed in it."""

    link = LONG

    def prepare(self, root: Root) -> None:
        """A user whose key is known, on a host that has keys."""
        root.sh(f"useradd --create-home --shell /bin/sh {USER}; mkdir -p /etc/ssh; rm -f /etc/ssh/ssh_host_*; "
                f"ssh-keygen -A; rm -rf /root/.ssh; mkdir -p /root/.ssh; "
                f"ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519; "
                f"install -d -o {USER} /home/{USER}/.ssh; "
                f"install -o {USER} /root/.ssh/id_ed25519.pub /home/{USER}/.ssh/authorized_keys")

    def root(self, **kw) -> Root:
        if os.geteuid():
            self.skipTest("roots are root's to make")
        return self.enterContext(Root(**kw, shares=shares(kw.get("suite", HERE))))

    def ends(self, root: Root, sshd: tuple[str, ...] = ("/usr/sbin/autobuf-sshd", "-D", "-e"), port: int = PORT):
        """sshd on side b of a path."""
        p = self.path(both=self.link)
        for side in "ab":
            p.route(side, congctl="cubic")
        log = self.enterContext(tempfile.NamedTemporaryFile("w"))
        self.server = p.popen("b", root.argv(*sshd), stderr=log, stdout=log)
        wait_listening(p, "b", port, self.server, log.name)
        return p

    def copy(self, p, root: Root, *args: str, wrong: str = "", scp: str = "autobuf-scp", port: int = PORT) -> str:
        """What scp says."""
        done = p.run("a", root.argv(scp, "-v", "-P", port, "-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes",
                                    "-o", "UserKnownHostsFile=/dev/null", *args))
        if wrong:
            self.assertNotEqual(done.returncode, 0, done.stderr)
            self.assertIn(wrong, done.stderr)
        else:
            self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def transfer(self, p, root: Root, size: int = 24 * MB, **kw) -> None:
        """Both ways, compared; the window has grown."""
        there = f"{USER}@{p.addr['b']}:"
        root.sh(f"for file in /tmp/put /home/{USER}/get; do head -c {size} /dev/urandom >$file; chmod a+r $file; done")
        said = self.copy(p, root, f"{there}get", "/tmp/got", **kw)
        self.copy(p, root, "/tmp/put", f"{there}put", **kw)
        root.sh(f"cmp /tmp/put /home/{USER}/put; cmp /tmp/got /home/{USER}/get; rm /tmp/put /tmp/got /home/{USER}/*t")
        self.grown(said)
        program = "/usr/bin/ssh" if kw.get("scp") == "scp" else "/usr/bin/autobuf-ssh"
        self.assertIn(f"Executing: program {program} ", said)

    def faster(self, p, root: Root, **kw) -> None:
        """A long transfer over a long path, where a stock window holds less than a third of it."""
        p.change("both", delay="100ms", queue="15M")
        root.sh(f"head -c {128 * MB} /dev/zero >/tmp/put")

        def seconds(autobuffer: str) -> float:
            start = time.monotonic()
            self.copy(p, root, "-o", f"AutoBuffer={autobuffer}", "/tmp/put", f"{USER}@{p.addr['b']}:put", **kw)
            return time.monotonic() - start

        with_us, without = seconds("yes"), seconds("no")
        print(f"# {without:.1f} s without, {with_us:.1f} s with: {without / with_us:.2f}", flush=True)
        self.assertLess(with_us, 0.75 * without)
        root.sh(f"rm /tmp/put /home/{USER}/put")

    def grown(self, said: str) -> None:
        windows = [int(after) for after in re.findall(r"autobuf: channel 0: window \d+ -> (\d+)", said)]
        self.assertGreater(max(windows, default=0), 2 * MB)

    def accounts(self, root: Root) -> str:
        return root.sh("sort /etc/passwd /etc/group /etc/shadow")

    def running(self, root: Root) -> str:
        return root.sh("find /proc -maxdepth 2 -name exe -lname '*autobuf*' 2>/dev/null || true")

    def whole_life(self, root: Root) -> None:
        """Installed beside, used, upgraded, removed, purged."""
        version = dpkg_deb("--field", made(root)["autobuf-ssh"], "Version").strip().split(":", 1)[1]
        self.prepare(root)
        before, accounts = root.files(), self.accounts(root)
        root.sh("dpkg --install /packages/autobuf-ssh_* /packages/autobuf-sshd_*")

        # 10.0p1 calls itself 10.0p2, as released.
        upstream, revision = version.rsplit("-", 1)
        self.assertRegex(root.well("autobuf-ssh", "-V"),
                         rf"^OpenSSH_{re.escape(upstream[:-1])}\d Debian-{re.escape(revision)}, ")
        self.assertEqual(self.running(root), "")
        root.sh("/usr/sbin/autobuf-sshd -t")
        self.known_settings(root)

        p = self.ends(root)
        self.assertEqual(root.sh("readlink /proc/$(cat /run/autobuf-sshd.pid)/exe"), "/usr/sbin/autobuf-sshd\n")
        self.transfer(p, root)
        if ALL:
            self.faster(p, root)
        self.ports(p, root)
        root.sh("cp /etc/pam.d/autobuf-sshd /tmp/pam; touch /tmp/file; "
                "echo account required pam_deny.so >>/etc/pam.d/autobuf-sshd")
        self.copy(p, root, "/tmp/file", f"{USER}@{p.addr['b']}:file", wrong="onnection closed")
        root.sh("cp /tmp/pam /etc/pam.d/autobuf-sshd")

        root.sh("echo '# mine' >>/etc/autobuf-ssh/sshd_config")
        self.upgrade_and_go_back(root)
        root.sh("dpkg --remove autobuf-ssh autobuf-sshd")
        self.server.wait(20)
        self.assertEqual(self.running(root), "")
        left = set(root.files()) - set(before)
        self.assertEqual({f for f in left if not f.startswith(("/var/lib/dpkg/info/", "/var/lib/systemd/"))},
                         {"/run/autobuf-windows.lock", "/etc/autobuf-ssh", *CONFFILES["autobuf-ssh"], *CONFFILES["autobuf-sshd"]})
        root.sh("dpkg --purge autobuf-ssh autobuf-sshd")
        self.assertEqual(root.files(), before)
        self.assertEqual(self.accounts(root), accounts)

    def ports(self, p, root: Root) -> None:
        """The client's own choice, and where it does not choose; a port where nothing answers is a queue that is full."""
        def port(*args: object, refused: bool = False, options: str = "-v", **env: str) -> str:
            done = p.run("a", root.argv("autobuf-ssh", options, "-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes", "-o",
                                        "UserKnownHostsFile=/dev/null", *args, "echo ${SSH_CONNECTION##* }", **env))
            self.assertEqual(done.returncode, 255 if refused else 0, done.stderr)
            self.said = done.stderr
            return done.stdout.strip()

        host = f"{USER}@{p.addr['b']}"
        self.assertEqual(port(host), "222")
        port("-p", 22, host, refused=True)
        usual = p.popen("b", root.argv("/usr/sbin/autobuf-sshd", "-D", "-p", "22", "-o", "PidFile=none"))
        wait_listening(p, "b", 22, usual)
        for words in (("-p", 22, host), ("-o", "Port=22", host), (f"ssh://{host}:22",)):
            self.assertEqual(port(*words), "22", words)
            self.assertNotIn(f"port {PORT}", self.said)
        self.assertEqual(port(host), "222")
        for words, number in (((), PORT), (("-o", "ProxyCommand=none"), PORT), (("-o", "ProxyCommand=x"), 22), (("-J", "other"), 22)):
            self.assertIn(f"\nport {number}\n", root.well("autobuf-ssh", "-G", *words, "somewhere"), words)
        root.sh("kill $(cat /run/autobuf-sshd.pid)")
        self.server.wait(20)
        self.assertEqual(port(host), "22")
        self.assertIn("autobuf: nobody answers at port 222: port 22", self.said)
        self.assertEqual(port(host, options="-n"), "22")
        self.assertNotIn("autobuf:", self.said)
        self.assertEqual(port(host, options="-n", AUTOBUF="log"), "22")
        self.assertIn("autobuf: nobody answers at port 222: port 22", self.said)
        full = p.popen("b", [sys.executable, "-c", FULL, str(PORT)])
        wait_line(full, lambda line: line == "full")
        began = time.monotonic()
        self.assertEqual(port(host), "22")
        self.assertLess(time.monotonic() - began, 1 + 10)
        full.kill()
        full.wait()
        self.server = p.popen("b", root.argv("/usr/sbin/autobuf-sshd", "-D", "-e"))
        wait_listening(p, "b", PORT, self.server)
        usual.terminate()
        usual.wait(20)

    def known_settings(self, root: Root) -> None:
        """The client obeys the system's settings, and has the system's known hosts."""
        root.sh("mkdir -p /etc/ssh/ssh_config.d; echo 'ConnectTimeout 77' >/etc/ssh/ssh_config.d/x.conf; "
                "[ -f /etc/ssh/ssh_config ] || echo 'Include /etc/ssh/ssh_config.d/*.conf' >/etc/ssh/ssh_config")
        said = root.well("autobuf-ssh", "-G", "somewhere")
        self.assertIn("connecttimeout 77\n", said)
        self.assertIn("globalknownhostsfile /etc/ssh/ssh_known_hosts", said)
        self.assertIn("autobuffer yes\n", said)
        root.sh("rm /etc/ssh/ssh_config.d/x.conf")

    def upgrade_and_go_back(self, root: Root) -> None:
        """What was changed stays, what was not is the package's."""
        with tempfile.TemporaryDirectory() as name:
            for package, conffile in (("autobuf-ssh", "ssh_config"), ("autobuf-sshd", "autobuf.conf")):
                file = next_version(made(root)[package], pathlib.Path(name), f"etc/autobuf-ssh/{conffile}")
                root.write(f"/tmp/{package}.deb", file.read_bytes())
        root.sh("dpkg --install /tmp/autobuf-ssh.deb /tmp/autobuf-sshd.deb")
        self.assertIn("# mine\n", root.well("cat", "/etc/autobuf-ssh/sshd_config"))
        for file in ("ssh_config", "autobuf.conf"):
            self.assertIn("# one line more\n", root.well("cat", f"/etc/autobuf-ssh/{file}"))
        root.sh("/usr/sbin/autobuf-sshd -t")
        root.sh("apt-get -qq install --allow-downgrades /packages/autobuf-ssh_*.deb /packages/autobuf-sshd_*.deb >/dev/null")
        self.assertIn("# mine\n", root.well("cat", "/etc/autobuf-ssh/sshd_config"))
        self.assertNotIn("# one line more", root.sh("cat /etc/autobuf-ssh/*"))
        root.sh("/usr/sbin/autobuf-sshd -t")


class Here(Installed):
    """Over this system."""

    def test_installed_used_upgraded_removed_purged(self) -> None:
        made()
        self.whole_life(self.root(over="/"))

    def test_systemd_is_told_to_start_only_what_runs(self) -> None:
        made()
        root = self.root(over="/")
        root.sh("rm -f /usr/sbin/policy-rc.d; mkdir -p /run/systemd/system")
        # It does as if the unit ran, or did not, and was never enabled.
        root.write("/usr/bin/systemctl", "#!/bin/sh\necho \"$*\" >>/run/told\n"
                   "case \"$*\" in *is-enabled*) exit 1 ;; *is-active*) [ -e /run/active ] ;; esac\n")
        root.sh("chmod 755 /usr/bin/systemctl")

        def told(command: str) -> list[str]:
            root.sh(f"rm -f /run/told; {command} >&2; touch /run/told")
            return re.findall(r"\b(start|restart|enable|stop)\b.* autobuf-sshd", root.sh("cat /run/told"))

        self.assertEqual(told("dpkg --install /packages/autobuf-sshd_*"), [])
        self.assertEqual(root.sh("find /etc/systemd -name 'autobuf-sshd*'"), "")
        self.assertEqual(told("touch /run/active; dpkg --install /packages/autobuf-sshd_*"), ["restart"])
        self.assertEqual(told("rm /run/active; dpkg --install /packages/autobuf-sshd_*"), [])
        self.assertEqual(told("touch /run/active; dpkg --remove autobuf-sshd"), ["stop"])

    def test_stock_programs_take_every_setting_that_is_installed(self) -> None:
        """Ours do, too. test_settings.py looks at those that README.md proposes. What stock ones do not take would lock an administrator out after an update."""
        made()
        root = self.root(over="/")
        self.prepare(root)
        stock = build_folder() / "packages" / "stock"
        if not (stock / "usr/sbin/sshd").exists():
            done = subprocess.run([TOP / "scripts" / "debian-unpack", stock, "openssh-client", "openssh-server"],
                                  capture_output=True, text=True)
            if done.returncode:
                self.skipTest(done.stderr)
        root.outside('mkdir "$2/stock" && mount --bind "$1" "$2/stock"', stock, root.root)
        root.sh("dpkg --install /packages/autobuf-ssh_* /packages/autobuf-sshd_*; mkdir -p /run/sshd; "
                "getent passwd sshd >/dev/null || useradd --system sshd")
        commands = {"ssh_config": ("-G", "-F", "/tmp/settings", "far.example.org"),
                    "sshd_config": ("-t", "-f", "/tmp/settings", "-h", "/etc/ssh/ssh_host_ed25519_key")}
        programs = {"ssh_config": ("/stock/usr/bin/ssh", "autobuf-ssh"),
                    "sshd_config": ("/stock/usr/sbin/sshd", "/usr/sbin/autobuf-sshd")}
        for kind, command in commands.items():
            root.write("/tmp/settings", root.sh(f"cat /etc/autobuf-ssh/{kind}"))
            for program in programs[kind]:
                root.well(program, *command)
        # The test can fail: these are refused.
        for kind, text in (("ssh_config", "AutoBufferMax 1M\n"), ("sshd_config", "AutoBufferMax 1M\n")):
            root.write("/tmp/settings", text)
            self.assertNotEqual(root.run(programs[kind][0], *commands[kind]).returncode, 0, kind)


class Bare(Installed):
    """In bare roots of each release, with packages that were made there."""

    def bare(self, suite: str, replace: bool = False) -> Root:
        """A bare root, once the packages for it are made."""
        root = self.root(suite=suite)
        made(root, replace)
        root.fresh()
        return root

    def beside(self, suite: str) -> None:
        root = self.bare(suite)
        root.sh("apt-get -qq install --no-install-recommends openssh-client >/dev/null")
        accounts = self.accounts(root)
        # As README.md has it. What they need stays, so that the next comparison is of the packages alone.
        root.sh("apt-get -qq install /packages/autobuf-ssh_*.deb /packages/autobuf-sshd_*.deb >/dev/null")
        root.sh("apt-get -qq purge autobuf-ssh autobuf-sshd >/dev/null")
        self.assertEqual([file for file in root.files() if "autobuf" in file], [])
        self.assertEqual(self.accounts(root), accounts)
        self.whole_life(root)

    def test_debian_12(self) -> None:
        self.beside("bookworm")

    def test_debian_13(self) -> None:
        self.beside("trixie")

    def archive(self, root: Root, stock: str, version: str) -> None:
        """A repository with the distribution's own packages, in a version to come."""
        root.sh("mkdir -p /tmp/stock /tmp/archive; cd /tmp/stock; apt-get -qq download " +
                " ".join(f"{package}={stock}" for package in REPLACED))
        with tempfile.TemporaryDirectory() as name:
            into = pathlib.Path(name)
            for package in root.sh("ls /tmp/stock").split():
                file = into / package
                file.write_bytes(root.read(f"/tmp/stock/{package}"))
                new = next_version(file, into, version=version)
                file.unlink()
                root.write(f"/tmp/archive/{new.name}", new.read_bytes())
            index = subprocess.run(["dpkg-scanpackages", "--multiversion", "."], cwd=into, capture_output=True,
                                   text=True, check=True)
        root.write("/tmp/archive/Packages", index.stdout)
        root.write("/etc/apt/sources.list.d/next.list", "deb [trusted=yes] file:/tmp/archive ./\n")
        root.sh("apt-get -qq update")

    def versions(self, root: Root) -> set[str]:
        return set(root.well("dpkg-query", "-W", "-f", "${Version}\\n", *REPLACED).split())

    def would_be(self, root: Root) -> list[str]:
        """What an upgrade would install of openssh."""
        return re.findall(r"^Inst (openssh-\S+)", root.sh("apt-get -s dist-upgrade"), re.M)

    def replaced(self, suite: str) -> None:
        root = self.bare(suite, replace=True)
        root.sh("apt-get -qq install --no-install-recommends openssh-server >/dev/null; mkdir -p /run/sshd")
        settings = "cd /etc/ssh; cat ssh_config sshd_config ssh_config.d/* sshd_config.d/* 2>/dev/null || true"
        before, stock = root.sh(settings), self.versions(root)
        root.sh("install -m 644 /packages-replace/autobuf-openssh.pref /etc/apt/preferences.d/; "
                "apt-get -qq install /packages-replace/openssh-client_*.deb /packages-replace/openssh-server_*.deb "
                "/packages-replace/openssh-sftp-server_*.deb >/dev/null")
        self.assertEqual(root.sh(settings), before)
        self.assertEqual(self.versions(root), {version + "+autobuf1" for version in stock})
        self.prepare(root)
        root.sh("sshd -t")
        p = self.ends(root, sshd=("/usr/sbin/sshd", "-D", "-e"), port=22)
        self.transfer(p, root, scp="scp", port=22)
        self.faster(p, root, scp="scp", port=22)
        self.server.kill()

        now = stock.pop()
        newer = re.sub(r"(\d+)$", lambda found: str(int(found[1]) + 1), now)
        self.archive(root, now, newer)
        self.assertEqual(root.sh("apt-cache madison openssh-server").split()[2], newer)
        self.assertEqual(self.would_be(root), [])
        root.sh("rm /etc/apt/preferences.d/autobuf-openssh.pref")
        self.assertEqual(set(self.would_be(root)), set(REPLACED))

        root.sh("rm /etc/apt/sources.list.d/next.list; apt-get -qq update; "
                "V=$(apt-cache madison openssh-server | awk 'NR == 1 { print $3 }'); "
                "apt-get -qq install --allow-downgrades openssh-client=$V openssh-server=$V openssh-sftp-server=$V "
                ">/dev/null; sshd -t; ssh -G somewhere")
        self.assertNotIn("autobuf", "".join(self.versions(root)))
        self.assertEqual(root.sh(settings), before)

    def test_replace_debian_12(self) -> None:
        self.replaced("bookworm")

    def test_replace_debian_13(self) -> None:
        self.replaced("trixie")


if __name__ == "__main__":
    sys.exit(run_tests(("ip", "setpriv", "taskset", "nsenter", "unshare", "dpkg-deb", "lintian", "debootstrap"),
                       ("tests/net/pathemu",)))
