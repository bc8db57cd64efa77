# SPDX-License-Identifier: MIT
"""OpenSSH with the patches: real programs on the emulated path."""
from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from openssh import PATCHES, SERIES, TOP, USER, VERSIONS, Client, apply, pair, prefix, programs, upstream

from at_once import alone, beside  # the folder is on the path by now
from cases import PathTest, on_time, run_tests, some, thorough
from path import build_folder, wait_line, wait_listening
from place import Other, blamed

SETTLED_S, STILL_S = 0.6, 2
PAUSE_S = 0.01
"""Between two looks at what tells of no event."""
NEWEST = os.environ.get("AUTOBUF_OPENSSH", VERSIONS[-1])
"""The release that is tested, where not all of them are."""
MB = 1 << 20
COMPAT = "openbsd-compat/include"
LONG = "rate=300M,delay=40ms,queue=6M"
"""3 MB: more than a stock window."""
SHORT = "rate=200M,delay=5ms,queue=1M"

WINDOW = re.compile(r"autobuf: channel (\d+): window (\d+) -> (\d+)")


def write(file: pathlib.Path, size: int, seed: int = 0) -> None:
    """Bytes that do not repeat in any window."""
    with file.open("wb") as out:
        for block in range((size + MB - 1) // MB):
            word = hashlib.sha256(f"{seed} {block}".encode()).digest()
            data = b"".join(hashlib.sha256(word + i.to_bytes(4, "little")).digest() for i in range(1024)) * 32
            out.write(data[:min(MB, size - block * MB)])


def windows(log: str) -> dict[int, int]:
    """The largest window of each channel, from a log."""
    found: dict[int, int] = {}
    for channel, _, after in WINDOW.findall(log):
        found[int(channel)] = max(found.get(int(channel), 0), int(after))
    return found


class OpenSSH(PathTest):
    link = LONG
    log: pathlib.Path | None = None
    """The server's."""
    python = "/usr/bin/python3"
    """One that every user may run, with the modules of Debian's packages."""

    def ends(self, server: str = NEWEST, client: str = NEWEST, server_stock: bool = False,
             client_stock: bool = False, link: str | None = None, **kw) -> Client:
        p = self.path(both=link or self.link)
        for side in "ab":
            p.route(side, congctl="cubic")
        ssh = self.enterContext(pair(p, prefix(server, server_stock), prefix(client, client_stock), **kw))
        self.here, self.there, self.log = ssh.place.folder / "here", ssh.place.folder / "there", ssh.server.log
        return ssh

    def same(self, a: pathlib.Path, b: pathlib.Path) -> None:
        done = subprocess.run(["cmp", a, b], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def until(self, condition, what: str, seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                self.untimely(what)
            time.sleep(PAUSE_S)

    def own_kb(self, pid: int) -> int:
        """Memory of a process of its own; 0 if there is none."""
        with contextlib.suppress(OSError):
            if own := re.search(r"RssAnon:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()):
                return int(own[1])
        return 0

    def settled_kb(self, pids) -> int:
        """Memory of its own of the largest of these processes, once it does not change any more."""
        last, same = -1, 0
        for _ in range(4000):
            now = max(map(self.own_kb, pids()), default=0)
            same = same + 1 if now == last else 0
            last = now
            if same == SETTLED_S / PAUSE_S:
                return now
            time.sleep(PAUSE_S)
        self.untimely("memory does not settle")

    def well(self, done: subprocess.CompletedProcess) -> subprocess.CompletedProcess:
        self.assertEqual(done.returncode, 0, f"{done.args}: {done.stderr}{self.log.read_text() if self.log else ''}")
        return done

    def get_and_put(self, ssh: Client, size: int) -> tuple[str, str]:
        """Both ways, compared; the logs."""
        write(self.there / "get", size, 1)
        write(self.here / "put", size, 2)
        got = self.well(ssh.run("scp", ssh.remote("get"), self.here / "got"))
        put = self.well(ssh.run("scp", self.here / "put", ssh.remote("put")))
        self.same(self.there / "get", self.here / "got")
        self.same(self.here / "put", self.there / "put")
        return got.stderr, put.stderr


@beside
class Series(PathTest):
    def patched(self, version: str) -> pathlib.Path:
        """Upstream's source with the series applied. Each hunk has one place only, for its few lines of context."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        upstream(version, folder)
        for patch in SERIES:
            for file, hunk in self.hunks(patch):
                text = (folder / file).read_text(errors="surrogateescape")
                self.assertEqual(f"\n{text}".count("\n" + hunk), 1, f"{patch.name}, {file}: {hunk}")
            failed, exact = apply(folder, [patch])
            self.assertEqual(failed, [])
            self.assertTrue(exact or version != VERSIONS[-1], "the line numbers are those of the newest release")
        return folder

    def hunks(self, patch: pathlib.Path) -> Iterator[tuple[str, str]]:
        """The file of each hunk, and the lines that have to be there."""
        for part in re.split(r"^--- .*\n", patch.read_text(), flags=re.M)[1:]:
            file, *hunks = re.split(r"^@@ .*\n", part, flags=re.M)
            for hunk in hunks:
                self.assertNotRegex(hunk, "(?m)^[^ +]", "a line of upstream is removed")
                yield file.split("b/")[1].strip(), "".join(line[1:] for line in hunk.splitlines(True) if line[0] == " ")

    def test_all_apply_without_fuzz(self) -> None:
        for version in VERSIONS:
            with self.subTest(version):
                self.patched(version)

    def test_each_patch_has_a_header(self) -> None:
        for patch in SERIES:
            head = patch.read_text().split("\n--- ")[0]
            for field in ("Description: ", "Author: ", "Forwarded: ", "Last-Update: "):
                self.assertIn(field, head, patch)

    def test_without_the_library_the_programs_are_upstreams(self) -> None:
        """After the preprocessor there is no difference but line numbers."""
        for version in some(*VERSIONS[::-1]):
            with self.subTest(version):
                self.is_upstreams(version)

    def is_upstreams(self, version: str) -> None:
        stock = prefix(version, stock=True) / "tree"
        ours = self.patched(version)
        sources = sorted({file for patch in SERIES for file, _ in self.hunks(patch) if file.endswith(".c")})
        self.assertGreater(len(sources), 8)
        subprocess.run(["cp", stock / "config.h", ours], check=True)
        if (stock / COMPAT).is_dir():  # configure makes it, from 10.1p1 on
            subprocess.run(["cp", "-r", stock / COMPAT, ours / COMPAT], check=True)
        for file in sources:
            said = [subprocess.run(["cc", "-E", "-P", "-w", "-D__LINE__=0", "-I.", f"-I{COMPAT}", "-DHAVE_CONFIG_H",
                                    "-D_GNU_SOURCE", '-DSSHDIR="x"', file], cwd=tree, capture_output=True, text=True)
                    for tree in (stock, ours)]
            self.assertEqual([done.returncode for done in said], [0, 0], said[1].stderr)
            self.assertTrue(said[0].stdout)
            self.assertEqual(said[0].stdout, said[1].stdout, file)


    def test_the_request_has_a_name_that_can_be_nobody_elses(self) -> None:
        """RFC 4251, section 6: behind the @ is a domain of its maker. RFC 2606: .invalid is nobody's."""
        said = {file: re.findall(r"autobuf@[\w.-]+", file.read_text())
                for file in (PATCHES / "autobuf-ssh.h", PATCHES / "0004-channels.patch", TOP / "docs" / "OPENSSH.md")}
        for file, names in said.items():
            self.assertEqual({name.rstrip(".") for name in names}, {"autobuf@libautobuf.invalid"}, file)


@beside
class Install(PathTest):
    """What is built of upstream's source has none of the corrections that a distribution has added since."""

    def test_a_build_says_what_it_is_not_for(self) -> None:
        for stock in (False, True):
            self.assertIn("not for a host that strangers can reach", (prefix(NEWEST, stock) / "said").read_text())

    def test_so_does_the_first_paragraph_of_the_page(self) -> None:
        first = (PATCHES / "README.md").read_text().split("\n\n")[1]
        self.assertIn("not for a host that strangers can reach", " ".join(first.replace("> ", "").split()))

    def test_the_first_configuration_leaves_the_port_of_ssh_alone(self) -> None:
        where = prefix(NEWEST)
        done = subprocess.run([where / "sbin" / "sshd", "-T", "-f", where / "etc" / "sshd_config"], capture_output=True,
                              text=True)
        self.assertEqual(re.findall(r"^port .*", done.stdout, re.M), ["port 2222"], done.stderr)


    def refused(self, *args) -> str:
        """What build says of a command that it does not carry out."""
        into = self.enterContext(tempfile.TemporaryDirectory())
        done = subprocess.run([PATCHES / "build", *args, into], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(os.listdir(into), [])
        return done.stderr

    def test_what_build_cannot_mean_is_refused(self) -> None:
        for args in (["--upstream"], ["--upstream", "10.2p1"], ["--upstream", "--source", "/", "10.0p1"], ["--other"],
                     ["--source"]):
            with self.subTest(args):
                self.assertIn("usage: ", self.refused(*args))
        self.assertIn("there is no series for OpenSSH 8.4p1", self.refused("8.4p1"))
        self.assertIn("there is no /nowhere", self.refused("--source", "/nowhere"))

    def test_a_copy_is_held_to_what_it_says_it_is(self) -> None:
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "x").mkdir()
        subprocess.run(["tar", "-czf", folder / "x.tar.gz", "-C", folder, "x"], check=True)
        self.assertIn("is no source of OpenSSH", self.refused("--source", folder / "x.tar.gz"))
        for name in (f"openssh-{NEWEST}.tar.gz", f"openssh_{NEWEST}.orig.tar.gz"):
            (folder / "x.tar.gz").rename(folder / name)
            self.assertIn("its SHA-256 differs", self.refused("--source", folder / name))
            (folder / name).rename(folder / "x.tar.gz")
        (folder / "x" / "version.h").write_text('#define SSH_VERSION "OpenSSH_8.4"\n#define SSH_PORTABLE "p1"\n')
        self.assertIn("there is no series for OpenSSH 8.4p1", self.refused("--source", folder / "x"))
        self.assertFalse((PATCHES.parent / "version.h").exists())  # nothing is unpacked into this tree


@beside
class Distribution(OpenSSH):
    """The source that build takes by default."""

    @thorough
    def test_what_is_built_says_which_version_it_is_and_transfers(self) -> None:
        for version in VERSIONS:
            with self.subTest(version):
                where = prefix(version, upstreams=False)
                done = subprocess.run([where / "bin" / "ssh", "-V"], capture_output=True, text=True)
                self.assertRegex(done.stderr, r"^OpenSSH_[\d.]+p\d Debian-\S+, ")
                self.assertNotIn("not for a host", (where / "said").read_text())
                p = self.path(both=self.link)
                ssh = self.enterContext(pair(p, where, where, client_options=["LogLevel=DEBUG"]))
                self.here, self.there = ssh.place.folder / "here", ssh.place.folder / "there"
                got, _ = self.get_and_put(ssh, 24 * MB)
                self.assertGreater(windows(got).get(0, 0), 2 * MB)


@beside
class Buffers(PathTest):
    def counts(self, version: str) -> dict[str, list[int]]:
        """What the cases of sshbuf.c counted."""
        tree = prefix(version) / "tree"
        program = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "sshbuf"
        built = subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-DHAVE_CONFIG_H", "-D_GNU_SOURCE", "-I.",
                                f"-I{COMPAT}", pathlib.Path(__file__).parent / "sshbuf.c", "-o", program, "libssh.a",
                                "openbsd-compat/libopenbsd-compat.a", "autobuf/lib/libautobuf.a", "-lcrypto", "-lz"],
                               cwd=tree, capture_output=True, text=True)
        self.assertEqual(built.returncode, 0, built.stderr)
        done = subprocess.run([program], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        rows = [line.rsplit(" ", 4) for line in done.stdout.splitlines()]
        return {name: list(map(int, numbers)) for name, *numbers in rows}

    @thorough
    def test_memory_follows_what_is_held_at_a_bounded_cost(self) -> None:
        """Of each case: changes of memory, bytes moved for each byte, memory in percent of the data, memory left."""
        bounds = {"to the top": (30, 4, 150, 128 * MB),
                  "a window as in stock": (40, 20, 105, 2 * MB + 64 * 1024),
                  "all of a window as in stock behind": (50, 6, 130, 2 * MB + MB // 2),
                  "62 MB behind": (30, 4, 210, 128 * MB),
                  "all of a window behind": (30, 4, 150, 80 * MB),
                  "all of the largest window behind": (30, 4, 150, 120 * MB),
                  "drained": (60, 4, 401, 2 * MB),
                  "drained but for a byte": (60, 4, 401, 2 * MB),
                  "back and forth": (160, 4, 401, 9 * MB),
                  "back and forth at a quarter": (120, 4, 401, 80 * MB)}
        for version in some(*VERSIONS[::-1]):
            counts = self.counts(version)
            self.assertEqual(set(counts), set(bounds))
            for name, most in bounds.items():
                for what, got, bound in zip(("changes", "moved", "percent", "left"), counts[name], most):
                    with self.subTest(case=name, of=version, what=what):
                        self.between(got, 1, bound, what)


@beside
class Transfers(OpenSSH):
    @alone
    def test_windows_grow_as_far_as_the_path_needs(self) -> None:
        ssh = self.ends(client_options=["LogLevel=DEBUG"], log="DEBUG")
        got, _ = self.get_and_put(ssh, 40 * MB)
        product = 300e6 / 8 * 0.08
        for what, log in (("get", got), ("put", ssh.server.log.read_text())):
            self.assertIn("the peer queues little", log)
            self.between(windows(log).get(0, 0), product, 4.5 * product, f"{what}: window")

    def test_pairs_of_patched_and_stock(self) -> None:
        for server_stock, client_stock in some((True, False), (False, True)):
            with self.subTest(server="stock" if server_stock else "patched"):
                ssh = self.ends(server_stock=server_stock, client_stock=client_stock, log="DEBUG",
                                client_options=["LogLevel=DEBUG"])
                got, _ = self.get_and_put(ssh, 24 * MB)
                log = ssh.server.log.read_text() if client_stock else got
                self.assertNotIn("the peer queues little", log)
                self.between(windows(log).get(0, 0), 2 * MB + 1, 8 * MB, "window")

    @thorough
    def test_versions_with_each_other(self) -> None:
        kinds = [(version, stock) for version in VERSIONS for stock in (False, True)]
        for server, server_stock in kinds:
            for client, client_stock in kinds:
                with self.subTest(server=server, server_stock=server_stock, client=client, client_stock=client_stock):
                    ssh = self.ends(server, client, server_stock, client_stock, link=SHORT)
                    self.get_and_put(ssh, 8 * MB)

    @thorough
    def test_keys_are_exchanged_again_in_mid_transfer(self) -> None:
        for at in ("client", "server"):
            with self.subTest(at):
                limit = {f"{at}_options": ["RekeyLimit 16M" if at == "server" else "RekeyLimit=16M"]}
                ssh = self.ends(log="DEBUG", **limit)
                self.get_and_put(ssh, 72 * MB)
                log = ssh.server.log.read_text()
                self.assertGreaterEqual(log.count("SSH2_MSG_NEWKEYS received"), 2 + 2 * 3, "rekeyed")
                self.assertGreater(windows(log).get(0, 0), 2 * MB)

    def copies_over_one(self, ssh, count: int, size: int) -> int:
        """So many copies at once over one connection; the most by which its windows were enlarged, together."""
        control = str(ssh.place.folder / "control")
        write(self.there / "many", size)
        log = self.here / "log"
        master = ssh.popen("ssh", "-v", "-E", str(log), "-M", "-S", control, "-N", ssh.remote())
        self.until(lambda: os.path.exists(control), "no control socket")
        copies = []
        for i in range(count):
            out = (self.here / f"many{i}").open("wb")
            copies.append((ssh.popen("ssh", "-S", control, ssh.remote(), "cat many", stdout=out), out))
        for copy, out in copies:
            self.assertEqual(copy.wait(60), 0)
            out.close()
        for i in range(count):
            self.same(self.there / "many", self.here / f"many{i}")
        master.terminate()
        master.wait()
        grown: dict[str, int] = {}
        worst = 0
        for line in log.read_text().splitlines():
            if change := WINDOW.search(line):
                grown[change[1]] = int(change[3]) - 2 * MB
            elif freed := re.search(r"channel (\d+): free:", line):
                grown.pop(freed[1], None)
            worst = max(worst, sum(grown.values()))
        return worst

    @alone
    @thorough
    def test_twenty_channels(self) -> None:
        ssh = self.ends(client_options=[f"AutoBufferMax={16 * MB}"])
        self.assertLessEqual(self.copies_over_one(ssh, 20, 6 * MB), 16 * MB)

    @alone
    @thorough
    def test_channels_that_grow_share(self) -> None:
        """Three channels on a path of 15 MB, of which each could use all that they may have together."""
        ssh = self.ends(link="rate=600M,delay=100ms", client_options=[f"AutoBufferMax={4 * MB}"])
        self.between(self.copies_over_one(ssh, 3, 30 * MB), 1, 4 * MB, "growth")

    @alone
    def test_a_slow_reader_does_not_make_the_window_grow(self) -> None:
        """The path holds 3 MB; who reads takes a tenth of its rate."""
        ssh = self.ends(client_options=["LogLevel=DEBUG"])
        write(self.there / "big", 12 * MB)
        slow = "import hashlib, sys\nwhile b := sys.stdin.buffer.read(65536):\n for _ in range(600): hashlib.sha256(b)"
        done = ssh.path.run("a", ["sh", "-c", '"$@" | python3 -c "$SLOW"', "sh", *ssh.argv("ssh", ssh.remote(), "cat big")],
                            env=os.environ | {"SLOW": slow}, timeout=240)
        self.well(done)
        self.assertIn("autobuf: transport", done.stderr)
        self.assertEqual(windows(done.stderr), {})

    def test_a_forwarded_port(self) -> None:
        ssh = self.ends()
        p = ssh.path
        server = p.popen("b", [str(build_folder() / "examples" / "bulk"), "recv", "--bind", "127.0.0.1"])
        wait_listening(p, "b", 7500, server)
        log = self.here / "log"
        client = ssh.popen("ssh", "-v", "-E", str(log), "-N", "-L", "7501:127.0.0.1:7500", ssh.remote())
        wait_listening(p, "a", 7501, client, log)
        for reverse in ([], ["--reverse"]):
            done = p.run("a", [str(build_folder() / "examples" / "bulk"), "send", "--bytes", str(24 * MB), "--port", "7501",
                               "--tune", "none", *reverse, "127.0.0.1"])
            self.well(done)
        self.assertGreater(max(windows(log.read_text()).values(), default=0), 2 * MB)

    @thorough
    def test_through_a_jump_host_windows_grow_by_their_own_round_trips(self) -> None:
        ssh = self.ends(client_options=["LogLevel=DEBUG"])
        config = ssh.place.folder / "config"
        config.write_text("".join(f"{option.replace('=', ' ', 1)}\n" for option in ssh.options[3::2]))
        write(self.there / "get", 40 * MB)
        done = self.well(ssh.path.run("a", [str(ssh.where / "bin" / "scp"), "-F", str(config), "-J", ssh.remote(),
                                            f"{USER}@127.0.0.1:get", str(self.here / "got")]))
        self.same(self.there / "get", self.here / "got")
        self.assertIn("RTTs are those of channel data", done.stderr)
        self.assertGreater(max(windows(done.stderr).values(), default=0), 2 * MB)

    @thorough
    def test_a_chroot_does_not_hide_the_limits(self) -> None:
        ssh = self.ends(server_options=["ChrootDirectory /mnt", "ForceCommand internal-sftp"], log="DEBUG")
        write(self.there / "get", 4 * MB)
        self.well(ssh.run("scp", ssh.remote("/there/get"), self.here / "got"))
        self.same(self.there / "get", self.here / "got")
        self.assertIn("autobuf: transport: RTT", ssh.server.log.read_text())

    def test_sshd_forces_the_send_buffer_where_it_may(self) -> None:
        for force in (True, False):
            with self.subTest(force=force):
                ssh = self.ends(log="DEBUG", force=force)
                write(self.there / "get", 30 * MB)
                self.well(ssh.run("scp", ssh.remote("get"), self.here / "got"))
                self.same(self.there / "get", self.here / "got")
                forced = re.search(r"autobuf: login: send buffer (\d+)", ssh.server.log.read_text())
                self.assertEqual(forced is not None, force)
                if forced:  # a quarter of AutoBufferMax
                    self.between(int(forced[1]), 5_000_000, 16 * MB, "send buffer")

    @thorough
    def test_root_logs_in(self) -> None:
        ssh = self.ends(user="root", log="DEBUG")
        write(self.there / "get", 8 * MB)
        self.well(ssh.run("scp", ssh.remote(str(self.there / "get")), self.here / "got"))
        self.same(self.there / "get", self.here / "got")


@beside
class Requests(OpenSSH):
    link = SHORT

    def sftp(self, ssh: Client, batch: str, *options: str) -> subprocess.CompletedProcess:
        return self.well(ssh.run("sftp", *options, "-b", "-", ssh.remote(), input=batch))

    def test_short_and_sparse_files(self) -> None:
        ssh = self.ends()
        request = 255 * 1024
        sizes = (0, 1, request - 1, request, request + 1, 3 * request, 9 * request + 7)
        for size in sizes:
            write(self.there / f"get{size}", size)
            write(self.here / f"put{size}", size)
        with (self.there / "sparse").open("wb") as out:
            out.truncate(5 * MB)
            out.seek(3 * MB)
            out.write(b"x")
        self.sftp(ssh, "".join(f"get get{s} {self.here}/got{s}\nput {self.here}/put{s} put{s}\n" for s in sizes) +
                  f"get sparse {self.here}/sparse\n")
        for size in sizes:
            self.same(self.there / f"get{size}", self.here / f"got{size}")
            self.same(self.here / f"put{size}", self.there / f"put{size}")
        self.same(self.there / "sparse", self.here / "sparse")

    def test_a_transfer_goes_on_where_it_was_cut(self) -> None:
        ssh = self.ends()
        write(self.there / "get", 5 * MB)
        write(self.here / "put", 5 * MB)
        for whole, part in ((self.there / "get", self.here / "got"), (self.here / "put", self.there / "put")):
            part.write_bytes(whole.read_bytes()[:1234567])
            os.chmod(part, 0o666)
        self.sftp(ssh, f"get -a get {self.here}/got\nput -a {self.here}/put put\n")
        self.same(self.there / "get", self.here / "got")
        self.same(self.here / "put", self.there / "put")

    def outstanding(self, ssh: Client, *options: str) -> tuple[int, int]:
        """Most requests, and bytes of each, as the program tells."""
        done = self.sftp(ssh, f"get get {self.here}/got\n", "-vvv", *options)
        seen = re.findall(r"Request range (\d+) -> (\d+) \(\d+/(\d+)\)", done.stderr)
        self.assertTrue(seen, "no requests in the log")
        return max(int(n) for *_, n in seen), max(int(b) - int(a) + 1 for a, b, _ in seen)

    def test_what_was_asked_for_wins(self) -> None:
        ssh = self.ends()
        write(self.there / "get", 12 * MB)
        self.assertEqual(self.outstanding(ssh, "-R", "3"), (3, 255 * 1024))
        self.assertEqual(self.outstanding(ssh, "-X", "nrequests=5"), (5, 255 * 1024))
        requests, size = self.outstanding(ssh, "-B", "8192")
        self.assertEqual(size, 8192)
        self.assertGreaterEqual(requests, 64)

    @thorough
    def test_a_file_begins_with_as_many_as_a_window(self) -> None:
        ssh = self.ends()
        write(self.there / "get", 12 * MB)
        first = re.compile(r"Received reply.*R:(\d+)")
        for options, wanted in (((), 8), (("-o", "AutoBuffer=no", "-o", "AutoBufferMax=32M"), 1), (("-oautobuffer no",), 1)):
            done = self.sftp(ssh, f"get get {self.here}/got\n", "-vvv", *options)
            self.assertEqual(int(first.search(done.stderr).group(1)), wanted, options)

    @thorough
    def test_a_short_file_is_asked_for_together_with_its_end(self) -> None:
        ssh = self.ends()
        write(self.there / "get", 1000)
        asked = re.compile(r"Request range (\d+) -> \d+|(Received) reply")
        for options, wanted in (((), ["0", "1000", ""]), (("-oAutoBuffer=no",), ["0", "", "1000"])):
            done = self.sftp(ssh, f"get get {self.here}/got\n", "-vvv", *options)
            seen = [start for start, _ in asked.findall(done.stderr)]
            self.assertEqual(seen[:3] if options == () else seen[:2], wanted if options == () else wanted[:2], done.stderr)
            self.same(self.there / "get", self.here / "got")

    @thorough
    def test_a_file_that_is_longer_or_shorter_than_it_said(self) -> None:
        """Files of /proc and /sys have sizes of 0 and 4096, whatever is in them."""
        ssh = self.ends(user="root")
        for name in ("/proc/sys/kernel/ostype", "/sys/kernel/fscaps"):
            self.sftp(ssh, f"get {name} {self.here}/got\n")
            self.assertEqual((self.here / "got").read_text(), pathlib.Path(name).read_text())

    @thorough
    def test_from_one_host_to_another(self) -> None:
        ssh = self.ends()
        write(self.there / "from", 9 * MB)
        self.well(ssh.run("scp", "-3", ssh.remote("from"), ssh.remote("to")))
        self.same(self.there / "from", self.there / "to")

    @thorough
    def test_old_servers_get_more_requests_where_they_help(self) -> None:
        """Without limits@openssh.com a request is 32 KB, and 64 of them are 2 MB; the path holds 3 MB."""
        ssh = self.ends(link=LONG)
        write(self.there / "get", 60 * MB)
        requests, _ = self.outstanding(ssh, "-B", "32768")
        self.assertGreater(requests, 64)


    def at_a_hostile_server(self, command: str, *options: str) -> int:
        """The most requests outstanding, of 64 bytes each."""
        program = [sys.executable, pathlib.Path(__file__).parent / "strange_sftp.py", self.folder / "count", str(4 * MB)]
        self.well(subprocess.run([prefix(NEWEST) / "bin" / "sftp", *options, "-b", "-", "-D", " ".join(map(str, program))],
                                 input=command, capture_output=True, text=True, timeout=120))
        return int((self.folder / "count").read_text())

    def test_a_server_of_tiny_requests_gets_two_thousand_at_most(self) -> None:
        """Its limits@openssh.com allows 64 bytes each; what the user asked for is the user's."""
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        write(self.folder / "put", 4 * MB)
        # An upload waits once there is one more, in upstream's source too.
        for command, most in ((f"get x {self.folder}/got\n", 2048), (f"put {self.folder}/put x\n", 2049)):
            with self.subTest(command):
                self.between(self.at_a_hostile_server(command), 65, most, "requests")
        self.assertEqual((self.folder / "got").stat().st_size, 4 * MB)
        self.assertEqual(self.at_a_hostile_server(f"get x {self.folder}/got\n", "-R", "3000"), 3000)


class Reader:
    """A process that reads a pipe to its end, as long as it may, and tells the checksum."""

    def __init__(self, pipe) -> None:
        self.process = subprocess.Popen(["sha256sum"], stdin=pipe, stdout=subprocess.PIPE, text=True)
        pipe.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def seen(self) -> int:
        """Bytes, among them some kB that are its own program's."""
        return int(re.search(r"^rchar: (\d+)", pathlib.Path(f"/proc/{self.process.pid}/io").read_text(), re.M).group(1))

    def may(self, read: bool) -> None:
        self.process.send_signal(signal.SIGCONT if read else signal.SIGSTOP)

    def checksum(self) -> str:
        return self.process.communicate(timeout=20)[0].split()[0]


@beside
class Held(OpenSSH):
    """A local reader that stalls leaves a window's data with us."""

    link = "rate=200M,delay=200ms,queue=20M"
    """10 MB: a window has 20."""
    base = 6 * 1024
    """kB that a client has without any data, with room to spare."""

    def grow(self, log: pathlib.Path, channel: int, size: int) -> None:
        self.until(lambda: log.exists() and windows(log.read_text()).get(channel, 0) >= size,
                   f"the window of channel {channel} does not grow to {size}", 60)

    def stall(self, ssh: Client, reader: Reader) -> None:
        """Nothing is read any more, and what the peer may send has come: nothing moves on the path."""
        reader.may(read=False)
        last, same = -1, 0
        for _ in range(20000):
            now = ssh.path.truth()["ba"]["bytes"]
            same = same + 1 if now == last else 0
            last = now
            if same == STILL_S / PAUSE_S:
                return
            time.sleep(PAUSE_S)
        self.untimely("the peer goes on sending")

    def test_a_reader_that_stalls_and_goes_on(self) -> None:
        ssh = self.ends()
        log, size = self.here / "log", 200 * MB
        write(self.there / "big", size)
        sender = ssh.popen("ssh", "-v", "-E", str(log), ssh.remote(), "cat big; read line", stdin=subprocess.PIPE)
        reader = self.enterContext(Reader(sender.stdout))
        self.grow(log, 0, 15 * MB)
        self.stall(ssh, reader)
        window = max(map(int, re.findall(r"channel 0: window \d+ -> (\d+)", log.read_text())))
        held = self.settled_kb(lambda: [sender.pid])
        self.between(held, 12 * 1024, window / 1024 * 1.25 + self.base, "kB held")
        reader.may(read=True)
        self.until(lambda: reader.seen >= size, "the rest does not come", 60)
        # Below 2 MB nothing is given back.
        self.between(self.settled_kb(lambda: [sender.pid]), 1024, 2 * 1024 + self.base, "kB after it")
        sender.stdin.write("\n")
        sender.stdin.flush()
        self.assertEqual(sender.wait(20), 0)
        self.assertEqual(reader.checksum(), hashlib.sha256((self.there / "big").read_bytes()).hexdigest())

    @thorough
    def test_channels_in_turn_hold_no_more_together(self) -> None:
        """One has grown, held its window for a reader that stalled, and is slow now; then the next one grows."""
        most, stock = 16 * MB, 2 * MB
        ssh = self.ends(client_options=[f"AutoBufferMax={most}"])
        control, log = str(ssh.place.folder / "control"), self.here / "log"
        # As fast as it can until a line comes; then 2.5 MB/s, for which a window of 4 MB is enough.
        source = ("import select, sys, time\nout = sys.stdout.buffer\n"
                  "while not select.select([0], [], [], 0)[0]: out.write(bytes(1 << 16))\n"
                  "while True: out.write(bytes(50000)), out.flush(), time.sleep(0.02)\n")
        (self.there / "source").write_text(source)
        master = ssh.popen("ssh", "-v", "-E", str(log), "-M", "-S", control, "-N", ssh.remote())
        self.until(lambda: os.path.exists(control), "no control socket", 60)
        channels: list[int] = []
        for turn in range(2):
            copy = ssh.popen("ssh", "-S", control, ssh.remote(), f"{self.python} source", stdin=subprocess.PIPE)
            reader = self.enterContext(Reader(copy.stdout))
            self.until(lambda: set(windows(log.read_text())) - set(channels), "no window grows", 60)
            channels += set(windows(log.read_text())) - set(channels)
            self.grow(log, channels[-1], 10 * MB)
            self.stall(ssh, reader)
            held = self.settled_kb(lambda: [master.pid])
            self.between(held, 8 * 1024, (most + 2 * stock) / 1024 * 1.25 + self.base, f"kB held in turn {turn}")
            if turn == 0:
                reader.may(read=True)
                copy.stdin.write("\n")
                copy.stdin.flush()
                self.until(lambda: int(WINDOW.findall(log.read_text())[-1][2]) <= 5 * MB, "its window stays", 90)
                # It shrinks as its data are read, and no more credit is granted.
                end = reader.seen + most
                self.until(lambda: reader.seen >= end, "no data come", 60)
                reader.may(read=False)


@beside
class Options(OpenSSH):
    link = SHORT

    def test_values(self) -> None:
        ssh = str(prefix(NEWEST) / "bin" / "ssh")
        for given, wanted in (([], ("yes", 64 * MB)), (["AutoBuffer=no"], ("no", 64 * MB)), (["AutoBuffer=true"], ("yes", 64 * MB)),
                              (["AutoBuffer=scavenger"], ("scavenger", 64 * MB)),
                              (["AutoBufferMax=3M"], ("yes", 3 * MB)), (["AutoBufferMax=1G"], ("yes", 1024 * MB))):
            done = subprocess.run([ssh, "-F", "none", *(w for o in given for w in ("-o", o)), "-G", "host"],
                                  capture_output=True, text=True)
            self.assertIn(f"autobuffer {wanted[0]}\n", done.stdout)
            self.assertIn(f"autobuffermax {wanted[1]}\n", done.stdout)
        for wrong in ("0", "-1", "2G", "1.5x", "x", "99999999999999999999"):
            done = subprocess.run([ssh, "-F", "none", "-o", f"AutoBufferMax={wrong}", "-G", "host"],
                                  capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0, wrong)

    @alone
    @thorough
    @on_time
    def test_one_that_yields(self) -> None:
        """Beside another transfer of the same direction, which then has three quarters of the path; and it has the rest."""
        ssh = self.ends(server_stock=True, client_options=["AutoBuffer=scavenger"], link="rate=20M,delay=20ms,queue=100K")
        other = Other(ssh.path)
        for way in ("put", "get"):
            alone_bit_per_s = other.bit_per_s(way)
            write((self.there if way == "get" else self.here) / way, 24 * MB)
            files = [ssh.remote("get"), self.here / "got"] if way == "get" else [self.here / "put", ssh.remote("put")]
            began = time.monotonic()
            scp = ssh.popen("scp", *files)
            beside_bit_per_s = other.bit_per_s(way)
            self.assertEqual(scp.wait(60), 0)
            took_s = time.monotonic() - began
            self.between(beside_bit_per_s / alone_bit_per_s, 0.75, 1.1, f"{way}: the other, of what it has alone")
            self.between(24 * MB * 8 / took_s / 20e6, 0.25, 1, f"{way}: the path's share")

    @thorough
    def test_off_is_off(self) -> None:
        ssh = self.ends(server_settings=["AutoBuffer no"], client_options=["AutoBuffer=no", "LogLevel=DEBUG"], log="DEBUG",
                        link=LONG)
        got, put = self.get_and_put(ssh, 12 * MB)
        for log in (got, put, ssh.server.log.read_text()):
            self.assertNotIn("autobuf", re.sub(r"\S*/\S*", "", log))  # but in names of files

    def messages(self, stock: bool) -> list[str]:
        """The types of what a client sends and gets, up to the data (whose pieces depend on time)."""
        ssh = self.ends(client_stock=stock, client_options=["AutoBuffer=no"] * (not stock) + ["LogLevel=DEBUG3"],
                        server_stock=True)
        done = self.well(ssh.run("ssh", ssh.remote(), "cat; echo done"))  # which waits for the client's end of data
        return re.findall(r"debug3: (?:send|receive) packet: type \d+", done.stderr)

    @alone
    def test_off_sends_what_stock_sends(self) -> None:
        stock, off = self.messages(True), self.messages(False)
        self.assertTrue(stock)
        self.assertEqual(sorted(off), sorted(stock))

    def test_a_stranger_is_not_told(self) -> None:
        """One request of the type, to OpenSSH only, after authentication."""
        ssh = self.ends(log="DEBUG2")
        self.well(ssh.run("ssh", ssh.remote(), "true"))
        log = ssh.server.log.read_text()
        self.assertEqual(log.count("rtype autobuf@libautobuf.invalid want_reply 0"), 1)
        self.assertGreater(log.index("rtype autobuf@libautobuf.invalid"), log.index("Accepted key"))


@beside
class StrangePeers(OpenSSH):
    link = "rate=100M,delay=5ms,queue=1M"

    def peer(self, ssh: Client, scene: str, *more: str) -> subprocess.Popen:
        here = str(pathlib.Path(__file__).parent / "strange_peer.py")
        args = ["serve", str(ssh.place.folder / "key")] if scene == "serve" else [
            scene, ssh.path.addr["b"], USER, str(ssh.place.folder / "key"), *more]
        return ssh.path.popen("b" if scene == "serve" else "a", [self.python, here, *args])

    @alone
    def test_a_window_beyond_the_cap_costs_a_server_no_memory(self) -> None:
        ssh = self.ends()
        peer = self.peer(ssh, "huge")
        wait_line(peer, lambda line: line == "stopped")
        self.between(self.settled_kb(lambda: [pid for pid, _ in programs(ssh.where, ssh.path)]), 1024, 8 * 1024, "kB")

    @alone
    @thorough
    def test_nor_a_client(self) -> None:
        ssh = self.ends(client_options=["Ciphers=aes128-ctr"])
        peer = self.peer(ssh, "serve")
        wait_line(peer, lambda line: line == "listening")
        with open("/dev/zero", "rb") as endless:
            sender = ssh.popen("ssh", "-p", "2200", ssh.remote(), "take", stdin=endless)
            wait_line(peer, lambda line: line == "stopped")
            self.between(self.settled_kb(lambda: [sender.pid]), 1024, 8 * 1024, "kB")

    def test_a_peer_that_never_adjusts(self) -> None:
        ssh = self.ends()
        done = self.peer(ssh, "never").communicate(timeout=60)[0]
        self.assertEqual(done, f"got {2 * MB}\nalive yes\n")

    @thorough
    def test_a_peer_that_adjusts_by_a_byte(self) -> None:
        ssh = self.ends()
        write(self.there / "numbers", MB)
        data = (self.there / "numbers").read_bytes()[:32768 + 500]
        done = self.peer(ssh, "bytewise").communicate(timeout=60)[0]
        self.assertEqual(done, f"got {len(data)} {hashlib.sha256(data).hexdigest()}\nalive yes\n")

    def test_a_peer_that_says_nothing_of_itself_is_not_trusted_with_a_large_window(self) -> None:
        """Whatever it calls itself. The path holds 4 MB, so a larger window would help."""
        for name in ("SSH-2.0-OpenSSH_4.3", "SSH-2.0-OpenSSH_5.0", "SSH-2.0-Foreign_1.0"):
            with self.subTest(name):
                ssh = self.ends(link="rate=100M,delay=160ms,queue=8M", log="DEBUG")
                self.assertEqual(self.peer(ssh, "sends", name).communicate(timeout=120)[0], "alive yes\n")
                log = ssh.server.log.read_text()
                self.assertIn(f"remote software version {name[8:]}", log)
                self.assertIn("the peer would copy what it queues", log)
                self.between(windows(log).get(0, 0), 2 * MB + 1, 8 * MB, "window")

    @thorough
    def test_a_peer_that_announces_itself_too_often(self) -> None:
        ssh = self.ends()
        self.assertEqual(self.peer(ssh, "announces").communicate(timeout=60)[0], "alive yes\n")


@beside
class Sandbox(OpenSSH):
    link = SHORT

    def test_the_unauthenticated_part_is_confined(self) -> None:
        ssh = self.ends()
        talker = ssh.path.popen("a", [sys.executable, "-c",
                                      "import socket\n"
                                      f"s = socket.create_connection(('{ssh.path.addr['b']}', 22))\n"
                                      "s.sendall(b'SSH-2.0-OpenSSH_test\\r\\n')\n"
                                      "while b'SSH-2.0' not in s.recv(1000): pass\n"
                                      "print('there', flush=True)\n"
                                      "s.recv(100000)\ns.recv(100000)\n"], stdin=subprocess.PIPE)
        wait_line(talker, lambda line: line == "there")
        modes = set()
        for _ in range(2000):
            for pid, _ in programs(ssh.where, ssh.path):
                with contextlib.suppress(OSError):
                    status = pathlib.Path(f"/proc/{pid}/status").read_text()
                    modes.add(re.search(r"^Seccomp:\s*(\d)", status, re.M).group(1))
            if "2" in modes:
                return
        self.fail(f"no process with a seccomp filter; modes {modes}")


@beside
class Memory(OpenSSH):
    link = "rate=40M,delay=5ms,queue=1M"

    @thorough
    def test_valgrind_has_nothing_to_say(self) -> None:
        """Of both ends; of leaks, only of ours."""
        if NEWEST.startswith("9."):
            self.skipTest("its seccomp filter knows no valgrind, and is in the same program as the rest of sshd")
        reports = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        reports.chmod(0o777)
        # The unauthenticated part is left out: its seccomp filter knows no valgrind.
        check = ["valgrind", "-q", "--vgdb=no", "--error-exitcode=99", "--leak-check=full", "--show-leak-kinds=definite",
                 "--errors-for-leak-kinds=none",
                 "--trace-children=yes", "--trace-children-skip=*sshd-auth,/bin/*,/usr/bin/*",
                 f"--log-file={reports}/%p"]
        ssh = self.ends(wrap=check)
        write(self.there / "get", 2 * MB)
        write(self.here / "put", 2 * MB)
        for args in ((ssh.remote("get"), self.here / "got"), (self.here / "put", ssh.remote("put"))):
            self.well(ssh.run("scp", *args, wrap=check, timeout=240))
        self.same(self.there / "get", self.here / "got")
        self.same(self.here / "put", self.there / "put")
        children = pathlib.Path(f"/proc/{ssh.server.pid}/task/{ssh.server.pid}/children")
        self.until(lambda: not children.read_text(), "sessions go on")
        ssh.server.stop()
        said = [file.read_text() for file in reports.iterdir()]
        self.assertGreaterEqual(len(said), 6, "processes: scp, ssh, sshd and its parts")
        for text in said:
            for paragraph in re.split(r"==\d+== \n", text):
                if "are definitely lost" not in paragraph or blamed(paragraph):
                    self.assertEqual(paragraph.strip(), "")


if __name__ == "__main__":
    sys.exit(run_tests(("ip", "setpriv", "taskset", "nsenter", "unshare", "valgrind"),
                       ("tests/net/pathemu", "examples/bulk"),
                       shared=(lambda: prefix(NEWEST), lambda: prefix(NEWEST, stock=True))))
