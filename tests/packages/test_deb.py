# SPDX-License-Identifier: MIT
"""The project's own packages for Debian: made, installed, used, upgraded, removed and purged."""
from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import unittest

from roots import HERE, TOP, Root, digest, kept, lintian, next_version, of_build

from cases import run_tests, thorough  # the folder is on the path by now
from path import build_folder, machine_lock

ALL = "AUTOBUF_TESTS_ALL" in os.environ
BUILD = TOP / "packaging" / "build"
OPTIONS = {} if ALL else {"DEB_BUILD_OPTIONS": "nocheck noopt noautodbgsym"}
"""What packages of this system are made with: their unit tests are those that tests/run has run."""
CONFFILE = "/etc/proftpd/conf.d/autobuf.conf"
CONFFILES = {"proftpd-mod-autobuf": CONFFILE, "autobufd": "/etc/autobuf/autobufd.conf"}
PROGRAMS = ("bulk", "flowloop", "lineserver", "live", "oneshot", "pollloop", "tune")
INSTALLED = ("libautobuf0", "libautobuf-dev", "autobuf", "autobuf-examples")
"""What brings a library at most. python3-autobuf would bring Python."""
LINTIAN = ("--fail-on", "error,warning", "--suppress-tags", "initial-upload-closes-no-bugs")
EARLIER = "0.0.9-1"
VERSION = re.search(r"^  version: '(.*)',", (TOP / "meson.build").read_text(), re.M)[1]


def folder(suite: str) -> pathlib.Path:
    return build_folder() / "packages" / f"{suite}-libautobuf"


def sources() -> list[pathlib.Path]:
    """All that packages are made of, but for tests of what is not a unit."""
    done = subprocess.run(["find", "completions", "debian", "docs", "examples", "include", "lib", "meson.build", "meson_options.txt",
                           "packaging", "preload", "proftpd-module", "python", "scripts", "tools", "tests/fuzz", "tests/python", "tests/unit", "tests/sim",
                           "-type", "f", "!", "-name", "*.pyc"], cwd=TOP, capture_output=True, text=True, check=True)
    return [TOP / name for name in done.stdout.split("\n") if name]


def made(root: Root | None = None) -> dict[str, pathlib.Path]:
    """The packages by their names, for this system or for a root; a test is skipped if the archive cannot be reached."""
    where = folder(root.suite if root else HERE)

    def make() -> subprocess.CompletedProcess:
        if root:
            return root.run("/src/packaging/build", "deb", "--here", "/packages")
        return subprocess.run([BUILD, "deb", "--here", where], capture_output=True, text=True, env=of_build() | OPTIONS)

    try:
        files = kept(where, digest(*sources()) + str(OPTIONS), make)
    except RuntimeError as error:
        if re.search("Could not resolve|Unable to fetch|Failed to fetch", str(error)):
            raise unittest.SkipTest(str(error)) from None
        raise
    return {file.name.split("_")[0]: file for file in files if file.suffix == ".deb" and "-dbgsym" not in file.name}


def dpkg_deb(*args: object) -> str:
    return subprocess.run(["dpkg-deb", *args], capture_output=True, text=True, check=True).stdout


def contents(package: str) -> dict[str, str]:
    """A package's files, but for its documents, and their modes."""
    rows = [line.split(None, 5) for line in dpkg_deb("--contents", made()[package]).splitlines()]
    names = {row[5].split(" -> ")[0].removeprefix("./"): row[0] for row in rows if not row[0].startswith("d")}
    return {name: mode for name, mode in names.items() if not name.startswith("usr/share/doc/")}


class Arguments(unittest.TestCase):
    def test_what_build_cannot_mean_is_refused(self) -> None:
        for args in ([], ["deb"], ["tar", "x"], ["deb", "--suite"], ["deb", "--suite", "trixie"], ["deb", "a", "b"],
                     ["rpm", "--here"], ["deb", "--other", "x"], ["deb", "--here", "--suite", "trixie", "x"], ["deb", ""]):
            with self.subTest(args), tempfile.TemporaryDirectory() as name:
                done = subprocess.run([BUILD, *args], capture_output=True, text=True, cwd=name)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("usage: ", done.stderr)
                self.assertEqual(os.listdir(name), [])


class Contents(unittest.TestCase):
    def test_build_says_what_it_does_and_how_to_install(self) -> None:
        names = [made()[package] for package in ("autobuf", "autobufd", "libautobuf0")]
        said = (folder(HERE) / "said").read_text()
        self.assertIn("\nbuild: builds the packages\n", f"\n{said}")
        self.assertIn(f"\n  sudo apt install {' '.join(map(str, names))}\n", said)

    @thorough
    def test_lintian_finds_nothing(self) -> None:
        """But that no bug of Debian asks for the package."""
        made()
        done = lintian(*LINTIAN, *folder(HERE).glob("*.changes"))
        self.assertEqual(done.stdout + done.stderr, "")
        self.assertEqual(done.returncode, 0)

    def test_what_is_in_them(self) -> None:
        command = contents("autobuf")
        units = {name for name in command if name.endswith(("autobuf-serve.service", "autobuf-serve.socket"))}
        self.assertEqual(len(units), 2)
        self.assertEqual(set(command) - units, {
            "usr/bin/autobuf", "usr/share/bash-completion/completions/autobuf", "usr/share/man/man1/autobuf.1.gz",
            "usr/share/man/man1/autobuf-paths.1.gz", "usr/share/man/man1/autobuf-run.1.gz", "usr/share/man/man1/autobuf-top.1.gz",
            "usr/share/zsh/site-functions/_autobuf", f"usr/lib/{sysconfig.get_config_var('MULTIARCH')}/autobuf/libautobuf-run.so"})
        self.assertEqual({name.removeprefix("usr/").removeprefix("lib/") for name in contents("autobufd")}, {
            "etc/autobuf/autobufd.conf", "sbin/autobufd", "systemd/system/autobufd.service", "systemd/system/autobufd-broker.service",
            "systemd/system/autobufd-broker.socket", "sysusers.d/autobufd.conf", "share/man/man5/autobufd.conf.5.gz", "share/man/man8/autobufd.8.gz"})
        self.assertEqual({pathlib.PurePath(name).name for name in contents("libautobuf0")},
                         {"libautobuf.so.0", f"libautobuf.so.{VERSION}"})
        development = set(contents("libautobuf-dev"))
        headers = {f"usr/include/autobuf/{file.name}" for file in (TOP / "include" / "autobuf").glob("*.h")}
        self.assertEqual({name for name in development if name.startswith("usr/include/")}, headers)
        pages = {name for name in development if name.startswith("usr/share/man/")}
        self.assertGreater(len(pages), 100)
        self.assertIn("usr/share/man/man7/autobuf-inband.7.gz", pages)
        self.assertEqual({re.sub("usr/lib/[^/]*/", "", name) for name in development - headers - pages},
                         {"libautobuf.a", "libautobuf.so", "pkgconfig/autobuf.pc", "cmake/autobuf/autobufConfig.cmake",
                          "cmake/autobuf/autobufConfigVersion.cmake"})
        self.assertEqual(set(contents("proftpd-mod-autobuf")), {CONFFILE[1:], "usr/lib/proftpd/mod_autobuf.so",
                                                                "usr/share/proftpd-mod-autobuf/load.conf"})
        self.assertEqual(set(contents("autobuf-examples")), {f"usr/lib/autobuf/examples/{name}" for name in PROGRAMS})
        binding = {f"usr/lib/python3/dist-packages/{file.relative_to(TOP / 'python')}"
                   for name in ("*.py", "py.typed") for file in (TOP / "python" / "autobuf").glob(name)}
        found = set(contents("python3-autobuf"))
        programs = ("autobuf-paths-import", "autobuf-import-wad")
        binding |= {file for name in programs for file in (f"usr/bin/{name}", f"usr/share/man/man1/{name}.1.gz")}
        self.assertEqual({name for name in found if ".dist-info/" not in name}, binding)
        self.assertEqual(set(made()), {*INSTALLED, "autobufd", "python3-autobuf", "proftpd-mod-autobuf"})
        for package in made():
            self.assertEqual([name for name, mode in contents(package).items() if "s" in mode.lower()], [], "setuid")

    def test_the_object_that_is_preloaded_takes_nothing_from_glibc_alone(self) -> None:
        """The linker of another C library, as a child may have, ends a program of which a function is missing."""
        with tempfile.TemporaryDirectory() as folder:
            dpkg_deb("-x", made()["autobuf"], folder)
            (file,) = pathlib.Path(folder).rglob("libautobuf-run.so")
            said = subprocess.run(["nm", "-D", "--undefined-only", file], capture_output=True, text=True, check=True).stdout
        names = {line.split()[-1].split("@")[0] for line in said.splitlines()}
        self.assertIn("clock_gettime", names)
        special = {name for name in names if name.startswith("__") or name.endswith("_np")}
        self.assertLessEqual(special, {"__cxa_finalize", "__environ", "__errno_location", "__gmon_start__", "__stack_chk_fail"})

    def test_what_they_need(self) -> None:
        """The library is the one of the same build, or part of the package; the module goes with the server that it was compiled for."""
        version = dpkg_deb("--field", made()["libautobuf0"], "Version").strip()
        for package in ("libautobuf-dev", "autobuf-examples"):
            self.assertIn(f"libautobuf0 (= {version})", dpkg_deb("--field", made()[package], "Depends"))
        self.assertIn("libcap2", dpkg_deb("--field", made()["autobuf"], "Depends"))  # an option of the build
        self.assertRegex(dpkg_deb("--field", made()["proftpd-mod-autobuf"], "Depends"), r"proftpd-abi-1\.\d+\.\d+\w*\b")
        for package in ("autobuf", "autobufd", "proftpd-mod-autobuf"):
            self.assertNotIn("libautobuf0", dpkg_deb("--field", made()[package], "Depends"))

    def test_symbols_are_those_of_the_headers(self) -> None:
        """Of each public function there is the version that brought it, for what depends on the library."""
        symbols = dpkg_deb("--info", made()["libautobuf0"], "symbols")
        named = set(re.findall(r"^ (\w+)@AUTOBUF_", symbols, re.M))
        headers = "".join(file.read_text() for file in (TOP / "include" / "autobuf").glob("*.h"))
        self.assertEqual(named, set(re.findall(r"^AUTOBUF_API [^;]*?\b(\w+)\(", headers, re.M)))

    @thorough
    def test_the_same_source_makes_the_same_packages(self) -> None:
        first = {file.name: file.read_bytes() for file in made().values()}
        with tempfile.TemporaryDirectory() as name:
            subprocess.run([BUILD, "deb", "--here", name], check=True, env=of_build() | {"TZ": "Asia/Tokyo", "LC_ALL": "C"})
            for file, data in first.items():
                self.assertTrue(pathlib.Path(name, file).read_bytes() == data, file)


class Installed(unittest.TestCase):
    """In a root that is this system's but for what is changed in it."""

    def root(self, **kw) -> Root:
        if os.geteuid():
            self.skipTest("roots are root's to make")
        root = self.enterContext(Root(**kw, shares={"/packages": folder(kw.get("suite", HERE))}))
        self.made = made(root if "suite" in kw else None)
        if "suite" in kw:
            root.fresh()
        return root

    def alone(self, root: Root, groups: str, *cmd: object) -> subprocess.CompletedProcess:
        """A command in a network of its own, where these groups may have ping sockets."""
        set_up = ("ip link set lo up && echo $0 >/proc/sys/net/ipv4/ping_group_range && exec \"$@\"")
        return subprocess.run(["unshare", "--net", "sh", "-c", set_up, groups, *root.argv(*cmd)],
                              capture_output=True, text=True)

    def install(self, root: Root, groups: str, *files: str) -> None:
        done = self.alone(root, groups, "dpkg", "--install", *files)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def files(self, *packages: str) -> list[str]:
        return [f"/packages/{self.made[package].name}" for package in packages]

    def probe(self, root: Root, groups: str) -> subprocess.CompletedProcess:
        return self.alone(root, groups, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all",
                          "autobuf", "probe", "127.0.0.1")

    def capability(self, root: Root) -> None:
        """Only where nobody may have a ping socket, and nowhere once that has changed."""
        getcap = "/usr/sbin/getcap /usr/bin/autobuf || /sbin/getcap /usr/bin/autobuf"
        self.install(root, "1 0", *self.files("autobuf"))
        self.assertIn("cap_net_raw=p", root.sh(getcap))
        done = self.probe(root, "1 0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("203.0.113.9", root.sh("mkdir -m 700 /tmp/own; chown nobody /tmp/own; setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/tmp/own "
                                             "sh -c 'autobuf paths set --rate 1G --rtt 10 203.0.113.9 && autobuf paths list'; rm -r /tmp/own"))
        self.install(root, "0 2147483647", *self.files("autobuf"))
        self.assertEqual(root.sh(getcap), "")
        self.assertEqual(self.probe(root, "0 2147483647").returncode, 0)
        self.assertNotEqual(self.probe(root, "1 0").returncode, 0, "the test can fail")

    def module(self, root: Root) -> None:
        """What README.md of the package says: one line to uncomment, which is no harm once the package is gone."""
        package = self.files("proftpd-mod-autobuf")[0]
        root.sh(f"dpkg --install {package}")
        test = ("sh", "/src/debian/tests/proftpd")
        done = root.run(*test, AUTOPKGTEST_TMP="/tmp")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        root.sh("echo DefaultAddress 127.0.0.1 >>/etc/proftpd/proftpd.conf")  # the host's own name may have no address
        root.sh(f"sed -i 's/^#Include/Include/' {CONFFILE}; proftpd --configtest; dpkg --remove proftpd-mod-autobuf; "
                f"grep -q ^Include {CONFFILE}; proftpd --configtest; dpkg --install {package}")
        root.sh("rm /tmp/*.conf")

    def enabled(self, root: Root) -> str:
        return root.sh("find /etc/systemd -name '*autobuf*'")

    def whole_life(self, root: Root, *packages: str) -> None:
        """Upgraded from a version before, used, removed and purged."""
        before, users = root.files(), root.sh("cut -d: -f1 /etc/passwd").split()
        earlier = []
        with tempfile.TemporaryDirectory() as name:
            for package in packages:
                file = next_version(self.made[package], pathlib.Path(name), version=EARLIER)
                root.write(f"/tmp/{package}.deb", file.read_bytes())
                earlier.append(f"/tmp/{package}.deb")
        self.install(root, "1 0", *earlier)
        self.assertEqual(root.well("dpkg-query", "-W", "-f", "${Version}\\n", *packages).split(), [EARLIER] * len(packages))
        if "proftpd-mod-autobuf" in packages:
            root.sh(f"echo '# mine' >>{CONFFILE}")
        self.install(root, "1 0", *self.files(*packages))
        version = dpkg_deb("--field", self.made["autobuf"], "Version").strip()
        self.assertIn(f"{version.split('-')[0]}\n", root.well("autobuf", "--version"))
        self.capability(root)
        self.assertEqual(self.enabled(root), "")
        if "autobufd" in packages:
            root.sh("autobufd --check")
        for test in ("command", "link", *(["python"] if "python3-autobuf" in packages else [])):
            done = self.alone(root, "0 2147483647", "env", "AUTOPKGTEST_TMP=/tmp/of-tests", "sh", "-c",
                              f"rm -rf /tmp/of-tests; mkdir /tmp/of-tests; cd /src; debian/tests/{test}")
            self.assertEqual(done.returncode, 0, f"{test}: {done.stdout}{done.stderr}")
        root.sh("man -w autobuf autobuf_tune autobuf-inband >/dev/null || ! command -v man >/dev/null")
        root.well("dpkg", "--remove", *packages)
        left = set(root.files()) - set(before)
        books = ("/var/lib/dpkg/info/", "/var/lib/systemd/deb-systemd-helper-enabled")  # dpkg's and systemd's
        self.assertEqual({name for name in left if not name.startswith(books)},
                         {CONFFILES[package] for package in packages if package in CONFFILES} |
                         ({"/etc/autobuf"} if "autobufd" in packages else set()))
        root.well("dpkg", "--purge", *packages)
        self.assertEqual(root.files(), before)
        self.assertLessEqual(set(root.sh("cut -d: -f1 /etc/passwd").split()) - set(users), {"autobufd"})


class Here(Installed):
    def test_installed_used_upgraded_removed_purged(self) -> None:
        root = self.root(over="/")
        root.sh("command -v jq >/dev/null || apt-get -qq install jq >/dev/null")
        root.sh("rm -rf /etc/autobuf /var/lib/autobuf")  # this system's own, which purging would take
        self.whole_life(root, *INSTALLED, "autobufd")

    @thorough
    def test_what_is_known_of_paths_goes_with_the_last_that_uses_it(self) -> None:
        root = self.root(over="/")
        root.sh("rm -rf /etc/autobuf /var/lib/autobuf")
        for first, last in (("autobuf", "autobufd"), ("autobufd", "autobuf")):
            with self.subTest(first=first):
                root.well("dpkg", "--install", *self.files("libautobuf0", "autobuf", "autobufd"))
                root.sh("mkdir -p /var/lib/autobuf /run/autobufd; touch /var/lib/autobuf/paths")
                root.well("dpkg", "--purge", first)
                root.sh("test -e /var/lib/autobuf/paths")
                root.well("dpkg", "--purge", last)
                root.sh("! test -e /var/lib/autobuf; ! test -e /run/autobufd")

    @thorough
    def test_systemd_is_told_to_start_only_what_runs(self) -> None:
        root = self.root(over="/")
        root.sh("rm -f /usr/sbin/policy-rc.d; mkdir -p /run/systemd/system")
        # It does as if the units ran, or did not, and were never enabled.
        root.write("/usr/bin/systemctl", "#!/bin/sh\necho \"$*\" >>/run/told\n"
                   "case \"$*\" in *is-enabled*) exit 1 ;; *is-active*) [ -e /run/active ] ;; esac\n")
        root.sh("chmod 755 /usr/bin/systemctl")
        files = " ".join(self.files("libautobuf0", "autobuf", "autobufd"))

        def told(command: str) -> list[str]:
            root.sh(f"rm -f /run/told; {command} >&2; touch /run/told")
            return sorted(set(re.findall(r"\b(start|restart|enable|stop)\b.* (autobuf-serve|autobufd)", root.sh("cat /run/told"))))

        self.assertEqual(told(f"dpkg --install {files}"), [])
        units = ("autobuf-serve", "autobufd")
        self.assertEqual(told(f"touch /run/active; dpkg --install {files}"), [("restart", unit) for unit in units])
        self.assertEqual(told(f"rm /run/active; dpkg --install {files}"), [])
        self.assertEqual(told("touch /run/active; dpkg --remove autobuf autobufd"), [("stop", unit) for unit in units])


@thorough
class Bare(Installed):
    """In bare roots of each release, with packages that were made there."""

    def in_root(self, suite: str) -> None:
        root = self.root(suite=suite)
        packages = self.made
        paths = " ".join(self.files(*packages))
        # As README.md has it. What they need stays, so that the next comparison is of the packages alone.
        root.sh(f"apt-get -qq install --no-install-recommends {paths} jq gcc libc6-dev pkgconf proftpd-core man-db "
                "iproute2 >/dev/null")
        self.first_minutes(root)
        self.module(root)
        self.lintian(root)
        root.sh(f"apt-get -qq purge {' '.join(packages)} >/dev/null")
        self.assertEqual([name for name in root.files() if "autobuf" in name], [])
        self.whole_life(root, *packages)

    def lintian(self, root: Root) -> None:
        """The release's own, which knows its policy. It stays, as what the packages need does."""
        root.sh("apt-get -qq install --no-install-recommends lintian >/dev/null")
        done = root.run("lintian", "--allow-root", *LINTIAN, *(f"/packages/{file.name}" for file in
                                                               folder(root.suite).glob("*.changes")))
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def first_minutes(self, root: Root) -> None:
        """An engineer's, who reads no C, and a programmer's."""
        said = root.well("autobuf", "explain", "--as-user", "--rate", "400M", "--rtt", "100")
        self.assertIn("tcp_wmem", said)
        root.sh("autobuf explain --sysctl --rate 400M --rtt 100 >/tmp/90-autobuf.conf; "
                "grep -q '^net.ipv4.tcp_wmem = ' /tmp/90-autobuf.conf; rm /tmp/90-autobuf.conf")
        root.sh("cd /tmp; cc -o oneshot /usr/share/doc/autobuf-examples/examples/oneshot.c $(pkgconf --cflags --libs autobuf); "
                "AUTOBUF=off ./oneshot 127.0.0.1 2>&1 | grep -q AUTOBUF=off; rm oneshot")

    def test_debian_12(self) -> None:
        self.in_root("bookworm")

    def test_debian_13(self) -> None:
        self.in_root("trixie")

    def test_autopkgtest(self) -> None:
        """Debian's own way to test what is installed, the demo on the emulated path among it."""
        root = self.root(suite="bookworm")
        root.sh("apt-get -qq install --no-install-recommends autopkgtest >/dev/null")
        self.enterContext(machine_lock())  # the demo's limits are the machine's
        done = root.run("sh", "-c", f"autopkgtest --no-built-binaries "
                        f"{' '.join(self.files(*self.made))} /packages/*.dsc -- null")
        verdicts = dict(re.findall(r"^(\w+) +(PASS|FAIL|SKIP)", done.stdout + done.stderr, re.M))
        self.assertEqual(verdicts, dict.fromkeys(("command", "link", "python", "proftpd", "demo"), "PASS"),
                         done.stdout[-3000:] + done.stderr[-5000:])


if __name__ == "__main__":
    sys.exit(run_tests(("dpkg-deb", "lintian", "debootstrap", "ip"), on_path=False))
