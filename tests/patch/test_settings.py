# SPDX-License-Identifier: MIT
"""sshd's settings, which can keep nobody out, and the memory that all of a host's sshd share."""
from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from openssh import PATCHES, SERIES, USER, VERSIONS, Client, pair, prefix

from at_once import beside  # the folder is on the path by now
from cases import PathTest, run_tests
from path import build_folder

NEWEST = os.environ.get("AUTOBUF_OPENSSH", VERSIONS[-1])
MB = 1 << 20
UNIT = 4 * MB
DEFAULTS = (1, 64 * MB, 256 * MB)
"""With a host of 1 GB, whose 25 percent are 256 MB."""


def build_program() -> pathlib.Path:
    """settings.c, linked with a built OpenSSH."""
    tree, program = prefix(NEWEST) / "tree", build_folder() / "openssh" / "settings"
    program.parent.mkdir(exist_ok=True)
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-DHAVE_CONFIG_H", "-D_GNU_SOURCE", "-I.",
                    "-Iopenbsd-compat/include", pathlib.Path(__file__).parent / "settings.c", "-o", program, "libssh.a",
                    "openbsd-compat/libopenbsd-compat.a", "autobuf/lib/libautobuf.a", "-lcrypto", "-lz"],
                   cwd=tree, check=True)
    return program


class Program(unittest.TestCase):
    program: pathlib.Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.program = build_program()

    def folder(self) -> pathlib.Path:
        return pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def values(self, *args, text: str | bytes = "") -> tuple[tuple[int, ...], str]:
        """AutoBuffer, AutoBufferMax and AutoBufferHost, and the log."""
        data = text.encode() if isinstance(text, str) else text
        done = subprocess.run([self.program, *map(str, args)], input=data, capture_output=True, check=True)
        return tuple(map(int, done.stdout.split())), done.stderr.decode()


class Parser(Program):
    def parsed(self, text: str | bytes) -> tuple[tuple[int, ...], str]:
        return self.values("parse", 1 << 30, text=text)

    def test_values(self) -> None:
        on, most, host = DEFAULTS
        for text, wanted in (("", DEFAULTS),
                             ("\n\n# AutoBuffer no\n", DEFAULTS),
                             ("AutoBuffer no", (0, most, host)),
                             ("AUTOBUFFER YES\nautobuffermax 3m\n", (1, 3 * MB, host)),
                             (" AutoBufferMax = 1G # as much as it may be\r\n", (on, 1 << 30, host)),
                             ("AutoBufferMax 1\n", (on, 1, host)),
                             ("AutoBufferHost 100%\n", (on, most, (1 << 30) // 100 * 100)),
                             ("AutoBufferHost 1%", (on, most, (1 << 30) // 100)),
                             ("AutoBufferHost=1.5G\n", (on, most, 3 << 29)),
                             ("AutoBufferHost\t64G\n", (on, most, 64 << 30))):
            with self.subTest(text):
                values, log = self.parsed(text)
                self.assertEqual(log, "")
                # 25% of the host are counted as 25 times a hundredth
                self.assertEqual(values[:2], wanted[:2])
                self.assertLessEqual(abs(values[2] - wanted[2]), 100)

    def test_a_wrong_line_is_told_and_does_nothing(self) -> None:
        for text, wanted in (("AutoBuffer", "there is no value"),
                             ("AutoBuffer maybe", "neither yes nor no"),
                             ("AutoBuffer yes no", "more than one value"),
                             ("AutoBufferMax 0", "no size"),
                             ("AutoBufferMax -1", "no size"),
                             ("AutoBufferMax 2G", "no size"),
                             ('AutoBufferMax "3M"', "no size"),
                             ("AutoBufferMax 99999999999999999999", "no size"),
                             ("AutoBufferHost 0%", "neither a size nor 1%"),
                             ("AutoBufferHost 101%", "neither a size nor 1%"),
                             ("AutoBufferHost 9999999%", "neither a size nor 1%"),
                             ("AutoBufferHost -5%", "neither a size nor 1%"),
                             ("AutoBufferHost 0", "neither a size nor 1%"),
                             ("AutoBufferHost 5x", "neither a size nor 1%"),
                             ("Match User x", "unknown keyword"),
                             ("AutoBuffe no", "unknown keyword"),
                             ("AutoBuffer " + "n" * 300, "too long"),
                             (b"AutoBuffer no\0", "no text"),
                             (b"\xff\xfe\x80 \xff", "unknown keyword")):
            with self.subTest(text):
                data = text if isinstance(text, bytes) else text.encode()
                values, log = self.parsed(b"# x\n" + data + b"\nAutoBuffer no\n")
                self.assertEqual(values[:2], (0, 64 * MB))
                self.assertLessEqual(abs(values[2] - 256 * MB), 100)
                self.assertRegex(log, rf"^FILE line 2 is ignored: .*{re.escape(wanted)}")
                self.assertEqual(log.count("\n"), 1)

    def test_the_first_line_of_a_keyword_counts(self) -> None:
        values, log = self.parsed("AutoBufferMax 2M\nautobuffermax 3M\n")
        self.assertEqual(values[1], 2 * MB)
        self.assertIn("FILE line 2 is ignored: it is set in a line before", log)

    def test_however_much_is_wrong_the_log_stays_short(self) -> None:
        _, log = self.parsed("x\n" * 5000)
        self.assertEqual(log.count("\n"), 8)


class File(Program):
    def test_what_is_read(self) -> None:
        """A file that is as it should be, by a link too, and none."""
        folder = self.folder()
        file, link = folder / "file", folder / "link"
        self.assertEqual(self.values("read", folder / "none")[0][:2], (1, 64 * MB))
        self.assertEqual(self.values("read", folder / "none")[1], "")
        file.write_text("AutoBuffer no\n")
        link.symlink_to(file)
        for name in (file, link):
            values, log = self.values("read", name)
            self.assertEqual((values[0], log), (0, ""))

    def test_what_is_not_read(self) -> None:
        folder = self.folder()
        pipe, theirs, open_, large = (folder / name for name in ("pipe", "theirs", "open", "large"))
        os.mkfifo(pipe)
        for file in (theirs, open_, large):
            file.write_text("AutoBuffer no\n")
        os.chown(theirs, 65534, 65534)
        open_.chmod(0o664)
        large.write_text("AutoBuffer no\n" + "# x\n" * 4096)
        for file, wanted in ((folder, "no plain file"), (pipe, "no plain file"), (theirs, "others than root"),
                             (open_, "others than root"), (large, "too large")):
            with self.subTest(file.name):
                values, log = self.values("read", file)
                self.assertEqual(values[:2], (1, 64 * MB))
                self.assertIn(f"{file} is ignored: ", log)
                self.assertIn(wanted, log)

    def test_a_quarter_of_this_host(self) -> None:
        text = pathlib.Path("/proc/meminfo").read_text()
        total = int(re.search(r"MemTotal:\s*(\d+)", text)[1]) * 1024
        limit = pathlib.Path("/sys/fs/cgroup/memory.max")
        if limit.exists() and (bound := limit.read_text().strip()) != "max":
            total = min(total, int(bound))
        values, _ = self.values("read", "/nowhere")
        self.assertLessEqual(abs(values[2] - total // 4), 100)


class Process:
    """One of those that share."""

    def __init__(self, program: pathlib.Path, file: pathlib.Path, units: int) -> None:
        self.process = subprocess.Popen([program, "host", file, str(units * UNIT)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.opened = int(self.process.stdout.readline())

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def ask(self, command: str) -> None:
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def answer(self) -> float:
        """In units."""
        return int(self.process.stdout.readline()) / UNIT

    def have(self, units: float, second: int = 0) -> float:
        self.ask(f"have {int(units * UNIT)} {second}")
        return self.answer()

    def keep(self, units: float) -> float:
        self.ask(f"keep {int(units * UNIT)}")
        return self.answer()

    def child(self) -> None:
        self.ask("child")
        self.answer()

    def kill(self) -> None:
        """Without a chance to give anything back."""
        self.process.kill()
        self.process.communicate()


class Host(Program):
    def setUp(self) -> None:
        self.file = self.folder() / "lock"

    def process(self, units: int) -> Process:
        return self.enterContext(Process(self.program, self.file, units))

    def test_one_has_what_there_is_in_whole_units(self) -> None:
        one = self.process(10)
        self.assertEqual([one.have(units) for units in (0, 0.1, 1, 1.5, 9, 10)], [0, 1, 1, 2, 9, 10])
        self.assertEqual(one.have(1000), 10)
        self.assertEqual(self.file.stat().st_size, 0)
        self.assertEqual(self.process(0).have(5), 0)

    def test_together_they_have_no_more(self) -> None:
        one, two = self.process(10), self.process(10)
        self.assertEqual((one.have(7), two.have(7)), (7, 3))
        self.assertEqual((one.have(8, 100), two.have(4, 100)), (7, 3))
        self.assertEqual(one.keep(5.5), 7)  # it may keep one more than it needs
        self.assertEqual(one.keep(3.5), 4)
        self.assertEqual(two.have(7, 200), 6)

    def test_what_a_process_had_is_free_once_it_has_ended(self) -> None:
        one, two = self.process(10), self.process(10)
        self.assertEqual((one.have(10), two.have(10)), (10, 0))
        one.kill()
        self.assertEqual(two.have(10, 0), 0)  # it looks again after a second
        self.assertEqual(two.have(10, 1), 10)

    def test_the_less_it_finds_the_less_it_looks(self) -> None:
        one, two = self.process(10), self.process(10)
        one.have(10)
        for second in range(100):
            self.assertEqual(two.have(1, second), 0)
        one.kill()
        found = [second for second in range(100, 120) if two.have(1, second)]
        # After 1, 2, 4, 8, 16, 16, ... seconds: at 95 s, and then at 111 s.
        self.assertEqual(found[0], 111)

    def test_a_child_takes_nothing_with_it(self) -> None:
        one, two = self.process(10), self.process(10)
        one.have(10)
        one.child()
        self.assertEqual(two.have(1), 0)

    def test_many_at_once_have_all_and_no_more(self) -> None:
        many = [self.process(64) for _ in range(16)]
        for each in many:
            each.ask(f"have {64 * UNIT} 0")
        self.assertEqual(sum(each.answer() for each in many), 64)

    def test_a_large_host(self) -> None:
        """256 GB, of which a quarter: processes find room within some seconds, until nine tenths are taken."""
        for each in [self.process(16384) for _ in range(100)]:
            self.assertIn(150, (each.have(150, second) for second in range(100)))

    def test_one_with_a_smaller_bound_uses_a_part(self) -> None:
        large, small = self.process(10), self.process(4)
        self.assertEqual(small.have(10), 4)
        self.assertEqual(large.have(10), 6)

    def test_a_file_that_is_not_ours_alone_is_not_used(self) -> None:
        where = self.folder()
        for name in ("theirs", "open", "twice", "target"):
            (where / name).touch(0o600)
        os.chown(where / "theirs", 65534, 65534)
        (where / "open").chmod(0o644)
        os.link(where / "twice", where / "once")
        (where / "link").symlink_to(where / "target")
        os.mkfifo(where / "pipe", 0o600)
        for name in ("theirs", "open", "twice", "link", "pipe", "", "no/where"):
            with self.subTest(name):
                self.file = where / name
                self.assertLess(self.process(10).opened, 0)


@beside
class Stock(PathTest):
    """No page, and no file that is installed, has a line with which stock programs would not start."""

    def blocks(self) -> list[list[str]]:
        """The blocks of the page that have the name of a file in their first line."""
        text = (PATCHES / "README.md").read_text()
        found = [re.sub("(?m)^    ", "", block).splitlines() for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.M)]
        return [[line for line in block if line] for block in found if block]

    def accepted(self, program: str, lines: list[str]) -> subprocess.CompletedProcess:
        where = prefix(NEWEST, stock=True)
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as config:
            config.write("\n".join(lines) + "\n")
            config.flush()
            argv = ["sbin/sshd", "-t", "-f", config.name] if program == "sshd" else ["bin/ssh", "-G", "-F", config.name, "x"]
            return subprocess.run([where / argv[0], *argv[1:]], capture_output=True, text=True)

    def test_stock_programs_accept_what_the_page_proposes(self) -> None:
        kinds = {r"# .*(\.ssh/config|ssh_config)": "ssh", r"# .*sshd_config": "sshd", r"# .*autobuf\.conf": ""}
        seen = []
        for block in self.blocks():
            kind = next((kind for pattern, kind in kinds.items() if re.match(pattern, block[0])), None)
            if kind is None:
                self.assertFalse([line for line in block if re.match(r"\s*AutoBuffer", line)], "whose file is this?")
                continue
            seen.append(kind)
            if kind:
                done = self.accepted(kind, block)
                self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ssh", seen)
        self.assertIn("", seen)

    def test_the_page_s_settings_are_right(self) -> None:
        program = build_program()
        texts = ["\n".join(block) for block in self.blocks() if re.match(r"# .*autobuf\.conf", block[0])]
        example = (PATCHES / "autobuf.conf").read_text()
        for text in (*texts, example, re.sub("(?m)^#(?=Auto)", "", example)):
            done = subprocess.run([program, "parse", str(1 << 30)], input=text, capture_output=True, text=True, check=True)
            self.assertEqual(done.stderr, "", text)

    def test_they_refuse_what_the_page_warns_of(self) -> None:
        for program, lines in (("sshd", ["AutoBuffer no"]), ("ssh", ["AutoBufferMax 128M"]),
                               ("ssh", ["IgnoreUnknown Other", "IgnoreUnknown AutoBuffer*", "AutoBuffer no"])):
            self.assertNotEqual(self.accepted(program, lines).returncode, 0, lines)

    def test_they_accept_what_is_installed(self) -> None:
        for program in ("ssh", "sshd"):
            text = (prefix(NEWEST) / "etc" / f"{program}_config").read_text()
            done = self.accepted(program, text.splitlines())
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("AutoBuffer", text)

    def test_sshd_has_no_option_of_ours(self) -> None:
        for patch in SERIES:
            self.assertNotRegex(patch.read_text(), r"(?m)^\+\+\+ .*(servconf\.|sshd_config)", patch)

    def test_what_is_not_authenticated_runs_no_line_of_ours(self) -> None:
        """Nor are there other requests to the monitor, or another sandbox."""
        for patch in SERIES:
            self.assertNotRegex(patch.read_text(), r"(?m)^\+\+\+ b/(monitor|sandbox|sshd|auth|kex|privsep)", patch)


@beside
class Server(PathTest):
    def ends(self, settings: list[str] | None, link: str = "rate=200M,delay=2ms,queue=1M", **kw) -> Client:
        p = self.path(both=link)
        where = prefix(NEWEST)
        return self.enterContext(pair(p, where, where, server_settings=settings, **kw))

    def login(self, ssh: Client) -> str:
        """Logs in; what the log says of it."""
        before = len(ssh.server.log.read_text())
        done = ssh.run("ssh", ssh.remote(), "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        return ssh.server.log.read_text()[before:]

    def test_settings_hold_from_the_next_login_on(self) -> None:
        ssh = self.ends([], log="DEBUG")
        conf = ssh.place.folder / "autobuf.conf"
        self.assertIn(f"autobuf: settings: AutoBufferMax {64 * MB}, AutoBufferHost", self.login(ssh))
        conf.write_text("AutoBufferMax 5M\nAutoBufferHost 1G\n")
        log = self.login(ssh)
        self.assertEqual(log.count(f"autobuf: settings: AutoBufferMax {5 * MB}, AutoBufferHost {1 << 30}"), 1)
        self.assertIn(f"windows up to {5 * MB} bytes", log)
        conf.write_text("AutoBuffer no\n")
        self.assertNotIn("autobuf: ", self.login(ssh))

    def test_whatever_is_in_it_a_user_can_log_in(self) -> None:
        for user in (USER, "root"):
            ssh = self.ends([], log="INFO", user=user)
            conf = ssh.place.folder / "autobuf.conf"
            for text, wanted in (("AutoBufferMax lots\n", "line 1 is ignored"), (os.urandom(5000), "ignored"),
                                 ("x" * 100000, "is ignored: it is too large")):
                with self.subTest(user=user, wanted=wanted):
                    conf.write_bytes(text if isinstance(text, bytes) else text.encode())
                    self.assertIn(wanted, self.login(ssh))
            conf.write_text("AutoBuffer no\n")
            conf.chmod(0o666)
            self.assertEqual(self.login(ssh).count("is ignored: others than root can write it"), 1)

    def test_the_environment_switches_it_off(self) -> None:
        ssh = self.ends(None, log="DEBUG", wrap=["env", "AUTOBUF=off"])
        self.assertNotIn("autobuf: ", self.login(ssh))

    def test_the_environment_makes_it_tell(self) -> None:
        """At LogLevel INFO, and each line once."""
        for wrap, wanted in (([], 0), (["env", "AUTOBUF=log"], 1)):
            log = self.login(self.ends(None, log="INFO", wrap=wrap))
            self.assertEqual(log.count("autobuf: settings: "), wanted)
            self.assertEqual(log.count("autobuf: transport: RTT "), wanted)
            self.assertNotIn("autobuf[", log)

    def test_and_clients(self) -> None:
        """scp is two programs, each with lines of its own; a line is only of a change."""
        ssh = self.ends(None, "rate=300M,delay=40ms,queue=6M", client_options=["LogLevel=INFO"])
        here, there = ssh.place.folder / "here", ssh.place.folder / "there"
        (there / "get").write_bytes(bytes(40 * MB))
        for how, options, value in (("neither", [], ""), ("log", [], "log"), ("-v", ["-v"], "")):
            with self.subTest(how):
                done = ssh.run("scp", *options, ssh.remote("get"), here / "got", env=os.environ | {"AUTOBUF": value})
                self.assertEqual(done.returncode, 0, done.stderr)
                lines = [line for line in done.stderr.splitlines() if "autobuf: " in line]
                if how == "neither":
                    self.assertEqual(lines, [])
                    continue
                self.assertEqual([line for line in lines if not re.match("autobuf: " if value else "debug1: autobuf: ", line)], [])
                self.assertEqual(len([line for line in lines if "transport: RTT" in line]), 1)
                changes = re.findall(r"channel 0: window (\d+) -> (\d+): .", done.stderr)
                self.assertEqual(changes[0][0], str(2 * MB))
                for (_, after), (before, next_) in zip(changes, changes[1:]):
                    self.assertEqual(before, after)
                    self.assertNotEqual(before, next_)

    def test_without_the_file_of_the_host_windows_stay(self) -> None:
        """The folder of the pid file is this prefix. A folder in the file's place is a mistake that no root survives."""
        where = prefix(NEWEST)
        hide = ["unshare", "--mount", "sh", "-c", f'touch "{where}/autobuf-windows.lock" && chmod 600 "{where}/autobuf-windows.lock" '
                f'&& mount --bind /dev/null "{where}/autobuf-windows.lock" && exec "$@"', "sh"]
        ssh = self.ends(None, log="INFO", wrap=hide)
        log = self.login(ssh)
        self.assertRegex(log, r"autobuf: windows do not grow, because .*/autobuf-windows\.lock cannot be used: ")
        self.assertEqual(log.count("do not grow"), 1)


if __name__ == "__main__":
    sys.exit(run_tests(("ip", "setpriv", "unshare"), ("tests/net/pathemu",)))
