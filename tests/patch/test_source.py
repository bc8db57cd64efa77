# SPDX-License-Identifier: MIT
"""scripts/debian-source on machines of many kinds: their apt configurations, with archives in a folder. No network."""
from __future__ import annotations

import contextlib
import email.utils
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from openssh import SOURCE

from cases import run_tests, thorough  # the folder is on the path by now

KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
CODENAME = re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(), re.M)
DAY_S = 86400
ORIG = "thing_1.0.orig.tar.gz"
PACKAGES = "Package: thing\nArchitecture: all\nVersion: 1\nFilename: none\nSize: 1\nSHA256: " + "0" * 64 + "\n"
"""apt does not keep an empty list."""


def run(*argv: object, **kw) -> str:
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, **kw)
    if done.returncode:
        raise RuntimeError(f"{argv}: {done.stdout}{done.stderr}")
    return done.stdout


MACHINE = run("dpkg", "--print-architecture").strip() if shutil.which("dpkg") else ""


class Archive:
    """Suites with one source package each, signed by a key of its own."""

    def __init__(self, folder: pathlib.Path, suites: dict[str, str], home: pathlib.Path, origin: str = "Debian") -> None:
        self.folder, self.origin, self.home = folder, origin, home
        for suite, version in suites.items():
            self.add(suite, version)

    @property
    def uri(self) -> str:
        return f"file:{self.folder}"

    def source(self, version: str, pool: pathlib.Path) -> None:
        """A package with one file of upstream's and the distribution's own changelog."""
        tree = pool / "thing-1.0"
        (tree / "debian" / "source").mkdir(parents=True)
        if not (pool / ORIG).is_file():
            (tree / "file").write_text("text\n")
            run("tar", "-czf", pool / ORIG, "--exclude=debian", "-C", pool, "thing-1.0")
        else:
            run("tar", "-xzf", pool / ORIG, "-C", pool)
        (tree / "debian" / "source" / "format").write_text("3.0 (quilt)\n")
        (tree / "debian" / "changelog").write_text(
            f"thing ({version}) stable; urgency=low\n\n  * A change.\n\n"
            " -- Nobody <nobody@example.invalid>  Sun, 01 Nov 2026 00:00:00 +0000\n")
        (tree / "debian" / "control").write_text(
            "Source: thing\nMaintainer: Nobody <nobody@example.invalid>\n\nPackage: thing\nArchitecture: all\n"
            "Description: a thing\n")
        run("dpkg-source", "-b", "thing-1.0", cwd=pool)
        shutil.rmtree(tree)

    def add(self, suite: str, version: str) -> None:
        pool, dists = self.folder / "pool" / suite, self.folder / "dists" / suite
        pool.mkdir(parents=True)
        if version:
            self.source(version, pool)
        sums = ""
        listed = run("dpkg-scansources", f"pool/{suite}", cwd=self.folder)
        for name, text in (("main/source/Sources", listed), (f"main/binary-{MACHINE}/Packages", PACKAGES)):
            file = dists / name
            file.parent.mkdir(parents=True)
            file.write_text(text)
            sums += f" {hashlib.sha256(text.encode()).hexdigest()} {len(text.encode())} {name}\n"
        release = (f"Origin: {self.origin}\nLabel: {self.origin}\nSuite: {suite}\nCodename: {suite}\n"
                   f"Date: {email.utils.formatdate(time.time() - DAY_S, usegmt=True)}\nArchitectures: {MACHINE}\nComponents: main\n"
                   f"SHA256:\n{sums}")
        (dists / "Release").write_text(release)
        self.sign(dists)

    def sign(self, dists: pathlib.Path) -> None:
        run("gpg", "--batch", "--yes", "--clearsign", "-o", dists / "InRelease", dists / "Release",
            env=os.environ | {"GNUPGHOME": str(self.home)})


class Machine(unittest.TestCase):
    """With a stable suite at 1.0-1 and security fixes at 1.0-1+deb1."""

    @classmethod
    def setUpClass(cls) -> None:
        if not KEYRING.is_file() or not CODENAME:
            raise unittest.SkipTest("no Debian: no keyring of its archive, or no name of the release")
        cls.name = CODENAME[1]
        cls.root = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.root.chmod(0o755)
        home = cls.root / "gnupg"
        home.mkdir(mode=0o700)
        env = os.environ | {"GNUPGHOME": str(home)}
        run("gpg", "--batch", "--passphrase", "", "--quick-gen-key", "Test <test@example.invalid>", "default", "default",
            "never", env=env)
        cls.addClassCleanup(subprocess.run, ["gpgconf", "--kill", "all"], env=env, capture_output=True)
        cls.key, cls.armor = cls.root / "key.gpg", run("gpg", "--export", "--armor", env=env)
        cls.key.with_suffix(".asc").write_text(cls.armor)
        run("gpg", "--export", "-o", cls.key, env=env)
        name = cls.name
        cls.archive = Archive(cls.root / "debian", {name: "1.0-1", f"{name}-security": "1.0-1+deb1"}, home)
        cls.mirror = Archive(cls.root / "mirror", {name: "1.0-1", f"{name}-security": "1.0-1+deb1"}, home, "Local")
        cls.others = Archive(cls.root / "others", {name: "1.0-9"}, home, "Somebody")
        cls.bare = Archive(cls.root / "bare", {name: ""}, home)

    def machine(self, sources: str, form: str = "sources", update: bool = False, more: str = "") -> dict[str, str]:
        """An environment in which apt has these sources, and has read them or has not."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ("sources.list.d", "lists/partial", "cache/archives/partial", "out"):
            (folder / name).mkdir(parents=True)
        (folder / "sources.list.d" / f"test.{form}").write_text(sources)
        config = folder / "apt.conf"
        config.write_text(f'Dir::Etc::sourcelist "{folder}/none";\nDir::Etc::sourceparts "{folder}/sources.list.d";\n'
                          f'Dir::State::lists "{folder}/lists";\nDir::Cache "{folder}/cache";\n'
                          f'APT::Sandbox::User "root";\n{more}')
        self.out = folder / "out"
        env = os.environ | {"APT_CONFIG": str(config), "LC_ALL": "C"}
        if update:
            run("apt-get", "update", env=env)
        return env

    def stanza(self, uri: str, suites: str = "", key: str = "", more: str = "") -> str:
        return (f"Types: deb\nURIs: {uri}\nSuites: {suites or f'{self.name} {self.name}-security'}\nComponents: main\n"
                f"Signed-By: {key or self.key}\n{more}")

    def asked(self, env: dict[str, str], *suites: str) -> subprocess.CompletedProcess:
        return subprocess.run([SOURCE, "--newest", "thing", "", self.out, *suites], env=env, capture_output=True, text=True,
                              timeout=60)

    def newest(self, env: dict[str, str], *suites: str) -> str:
        done = self.asked(env, *suites)
        self.assertEqual(done.returncode, 0, done.stderr)
        version, description = done.stdout.split()
        self.assertTrue(pathlib.Path(description).is_file())
        return version

    def test_deb822_before_and_after_an_update(self) -> None:
        """A security suite that was never read counts as much as one that was."""
        for update in (False, True):
            with self.subTest(update=update):
                env = self.machine("# The system's.\n\n" + self.stanza(self.archive.uri, more="# A comment\n"), update=update)
                self.assertEqual(self.newest(env), "1.0-1+deb1")

    @thorough
    def test_one_line_entries(self) -> None:
        text = "".join(f"deb [ arch={MACHINE} signed-by={self.key} ] {self.archive.uri} {suite} main contrib\n"
                       for suite in (self.name, f"{self.name}-security"))
        self.assertEqual(self.newest(self.machine("# x\n\n" + text, "list")), "1.0-1+deb1")

    @thorough
    def test_a_key_within_the_entry(self) -> None:
        key = "".join(f"\n {line or '.'}" for line in self.armor.strip().splitlines())
        self.assertEqual(self.newest(self.machine(self.stanza(self.archive.uri, key=key))), "1.0-1+deb1")

    @thorough
    def test_a_local_mirror_with_an_origin_and_a_key_of_its_own(self) -> None:
        for update in (False, True):
            with self.subTest(update=update):
                self.assertEqual(self.newest(self.machine(self.stanza(self.mirror.uri), update=update)), "1.0-1+deb1")

    @thorough
    def test_a_list_of_mirrors(self) -> None:
        mirrors = self.root / "mirrors.list"
        mirrors.write_text(f"{self.archive.uri}\n")
        self.assertEqual(self.newest(self.machine(self.stanza(f"mirror+file:{mirrors}"))), "1.0-1+deb1")

    @thorough
    def test_an_archive_of_others_with_the_name_of_the_release(self) -> None:
        """It is no part of the distribution, wherever it is listed."""
        text = self.stanza(self.others.uri, self.name) + "\n" + self.stanza(self.archive.uri)
        self.assertEqual(self.newest(self.machine(text, update=True)), "1.0-1+deb1")

    @thorough
    def test_a_disc_is_not_asked_for(self) -> None:
        text = (f"deb cdrom:[Debian]/ {self.name} main\n" +
                "".join(f"deb [signed-by={self.key}] {self.archive.uri} {suite} main\n"
                        for suite in (self.name, f"{self.name}-security")))
        done = self.asked(self.machine(text, "list"))
        self.assertEqual((done.returncode, done.stdout.split()[:1]), (0, ["1.0-1+deb1"]), done.stderr)
        self.assertNotIn("cdrom", done.stderr)

    def test_a_key_that_the_system_does_not_trust(self) -> None:
        done = self.asked(self.machine(self.stanza(self.archive.uri, key=str(KEYRING))))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"cannot read {self.name}-security: ", done.stderr)

    def test_security_fixes_that_cannot_be_read_end_it(self) -> None:
        text = self.stanza(self.archive.uri, self.name) + "\n" + self.stanza("file:/nowhere", f"{self.name}-security")
        done = self.asked(self.machine(text))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"cannot read {self.name}-security: ", done.stderr)

    @thorough
    def test_nor_may_its_sources_be_missing(self) -> None:
        for broken in (False, True):
            with self.subTest(broken=broken):
                archive = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "partial"
                shutil.copytree(self.archive.folder, archive)
                dists = archive / "dists" / f"{self.name}-security"
                (dists / "main" / "source" / "Sources").unlink()
                if not broken:  # left out of the list, too
                    text = (dists / "Release").read_text()
                    (dists / "Release").write_text(re.sub(r".* main/source/Sources\n", "", text))
                    self.archive.sign(dists)
                done = self.asked(self.machine(self.stanza(f"file:{archive}")))
                self.assertNotEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"cannot read {self.name}-security: ", done.stderr)

    @thorough
    def test_no_suite_of_security_fixes_is_told(self) -> None:
        done = self.asked(self.machine(self.stanza(self.archive.uri, self.name)))
        self.assertEqual(done.stdout.split()[:1], ["1.0-1"], done.stderr)
        self.assertIn("names no suite of security fixes", done.stderr)

    @thorough
    def test_a_mirror_without_sources(self) -> None:
        done = self.asked(self.machine(self.stanza(self.bare.uri, self.name)))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no source of thing in:", done.stderr)

    @thorough
    def test_what_the_system_has_set_up_for_its_own_updates(self) -> None:
        """Hooks are for its own lists; a default release need not be among the suites that are asked for."""
        ran = self.root / "ran"
        more = "".join(f'APT::Update::{hook} {{ "touch {ran}"; }};\n'
                       for hook in ("Pre-Invoke", "Post-Invoke", "Post-Invoke-Success"))
        env = self.machine(self.stanza(self.archive.uri), more=more + 'APT::Default-Release "else";\n')
        self.assertEqual(self.newest(env), "1.0-1+deb1")
        self.assertFalse(ran.exists())

    @thorough
    def test_a_suite_that_apt_does_not_know(self) -> None:
        """It is looked for where the system's own release is, or its security fixes."""
        with contextlib.ExitStack() as stack:
            extra = self.archive.folder / "dists" / "later"
            stack.callback(shutil.rmtree, extra, True)
            stack.callback(shutil.rmtree, self.archive.folder / "pool" / "later", True)
            self.archive.add("later", "1.0-5")
            self.assertEqual(self.newest(self.machine(self.stanza(self.archive.uri)), "later"), "1.0-5")

    def test_no_network(self) -> None:
        for suites in ("", self.name):
            done = self.asked(self.machine(self.stanza("http://127.0.0.1:9/debian", suites)))
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, "onnect")

    @thorough
    def test_no_archive_at_all(self) -> None:
        done = self.asked(self.machine(""))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("names no archive", done.stderr)

    def test_a_tarball_by_its_checksum(self) -> None:
        env = self.machine(self.stanza(self.archive.uri))
        good = hashlib.sha256((self.archive.folder / "pool" / self.name / ORIG).read_bytes()).hexdigest()
        for wanted in (good, "0" * 64):
            done = subprocess.run([SOURCE, "thing", self.name, ORIG, wanted, self.out], env=env, capture_output=True, text=True)
            self.assertEqual(done.returncode == 0, wanted == good, done.stderr)
            self.assertEqual((self.out / ORIG).is_file(), wanted == good)
            (self.out / ORIG).unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(run_tests(("apt-get", "dpkg-source", "dpkg-scansources", "gpg", "gpgconf")))
