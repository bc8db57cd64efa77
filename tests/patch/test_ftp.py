# SPDX-License-Identifier: MIT
"""mod_autobuf in ProFTPD, and ncFTP with the patches: real programs on the emulated path."""
from __future__ import annotations

import contextlib
import ftplib
import functools
import io
import os
import pathlib
import re
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import threading
import time
import unittest
from collections.abc import Iterable

from ncftp import KINDS, TOP, Client, Control, Place, Server, inside, modules, prefix, root

from at_once import alone, beside  # the folder is on the path by now
from cases import PathTest, on_time, run_tests, some, thorough
from path import Path, global_sysctls, wait_line
from place import ALONE, Other, blamed

ALL = "AUTOBUF_TESTS_ALL" in os.environ
FAR = "rate=400M,delay=50ms,queue=10M"
"""4.8 MB: more than autotuning's send buffer holds."""
SMALL_WINDOWS = "4096 131072 1048576"
"""tcp_rmem: autotuning makes less of it than may be set, so an upload's server can gain, too."""
NEAR = "rate=200M,delay=5ms,queue=1M"
PAYS = 80_000_000
"""Bytes for which measuring on FAR pays."""
PACKAGE = "/usr/share/proftpd-mod-autobuf"
ADDRESS = "DefaultAddress 127.0.0.1"
"""By default ProFTPD looks up the host's own name, which may have no address."""
HELLO = "211 AUTOBUF 1 "
STRANGE = str(pathlib.Path(__file__).with_name("strange_ftp.py"))
GIVE_UP_S = 20
"""Within which either end is through with a peer that says nothing any more."""


class FtpTest(PathTest):
    def link(self, both: str) -> Path:
        p = self.path(both=both)
        for side in "ab":
            p.route(side, congctl="cubic")
        self.place = self.enterContext(Place())
        return p

    def server(self, kind: str = "module", both: str = NEAR, p: Path | None = None, **kw) -> Server:
        return self.enterContext(Server(p or self.link(both), "b", kind, self.place, **kw))

    def control(self, server: Server, **kw) -> Control:
        return self.enterContext(Control(server, **kw))

    def same(self, a: pathlib.Path, b: pathlib.Path) -> None:
        done = subprocess.run(["cmp", a, b], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def fetches(self, c: Control, size: int = 300_000) -> None:
        """An ordinary transfer works on this session."""
        file = self.place.make("ordinary", size)
        got: list[bytes] = []
        c.retrbinary("RETR pub/ordinary", got.append)
        self.assertEqual(b"".join(got), file.read_bytes())


def data_buffers(p: Path, side: str) -> list[tuple[int, int, int]]:
    """Receive and send buffer, stored, and local port, of each data connection on a side."""
    done = p.run(side, ["ss", "-tnmH", "state", "established"])
    found = []
    for head, memory in zip(*[iter(done.stdout.splitlines())] * 2):
        ports = [int(end.rsplit(":", 1)[1]) for end in head.split()[2:4]]
        sizes = re.search(r"rb(\d+),t\d+,tb(\d+)", memory)
        if sizes and 21 not in ports:
            found.append((int(sizes[1]), int(sizes[2]), ports[0]))
    return found


@beside
class Module(FtpTest):
    """SITE AUTOBUF as ProFTPD answers it."""

    def test_is_told_of(self):
        with Control(self.server(), user=False) as c:
            self.assertIn("\n SITE AUTOBUF\n", c.sendcmd("FEAT"))
            with self.assertRaisesRegex(ftplib.error_perm, "^530 "):
                c.sendcmd("SITE AUTOBUF")
            c.login(*("transfer", "secret"))
            self.assertTrue(c.sendcmd("site autobuf").startswith(HELLO))
            self.assertIn("CHMOD", c.sendcmd("SITE HELP"))
            self.fetches(c)

    def test_engine_off(self):
        with Control(self.server(options=["AutobufEngine off"])) as c:
            self.assertNotIn("AUTOBUF", c.sendcmd("FEAT"))
            with self.assertRaisesRegex(ftplib.error_perm, "^500 "):
                c.sendcmd("SITE AUTOBUF")
            self.fetches(c)

    def test_limited_by_configuration(self):
        limit = "<Limit SITE_AUTOBUF>\nDenyAll\n</Limit>"
        with Control(self.server(options=[limit])) as c:
            with self.assertRaisesRegex(ftplib.error_perm, "^550 "):
                c.sendcmd("SITE AUTOBUF")
            self.fetches(c)

    def test_configuration_is_checked(self):
        place = self.enterContext(Place())
        for line, good in (("AutobufMax 16 MB", True), ("AutobufMax 65536", True), ("AutobufMax 1", False),
                           ("AutobufMax many", False), ("AutobufMax -5", False), ("AutobufMax", False),
                           ("AutobufMax 1 2 3", False), ("AutobufEngine maybe", False),
                           ("AutobufEngine", False), ("AutobufEngine on", True)):
            with self.subTest(line):
                file = place.folder / "conf"
                file.write_text(f"{ADDRESS}\nModulePath {modules()}\nLoadModule mod_autobuf.c\nScoreboardFile none\n"
                                f"User nobody\nGroup nogroup\n{line}\n")
                done = subprocess.run([root() / "usr/sbin/proftpd", "-t", "-c", file], capture_output=True)
                self.assertEqual(done.returncode == 0, good, done.stderr)

    def test_configuration_of_the_package(self):
        """Its line loads the module, and keeps no server from starting once the package is gone."""
        place = self.enterContext(Place())
        there, file = place.folder / "there", place.folder / "conf"
        line = (TOP / "debian/conf/autobuf.conf").read_text().replace("#Include", "Include").replace(PACKAGE, str(there))
        self.assertIn(f"\nInclude {there}/", line)
        file.write_text(f"{ADDRESS}\nModulePath {modules()}\nScoreboardFile none\nUser nobody\nGroup nogroup\n{line}"
                        "<IfModule mod_autobuf.c>\nAutobufEngine on\nAutobufMax many\n</IfModule>\n")
        check = [root() / "usr/sbin/proftpd", "-t", "-c", file]
        self.assertEqual(subprocess.run(check, capture_output=True).returncode, 0)
        there.mkdir()
        shutil.copy(TOP / "debian/conf/load.conf", there)
        self.assertIn(b"AutobufMax", subprocess.run(check, capture_output=True).stderr)  # it is there, and says what is wrong

    def test_train_is_one_reply(self):
        with Control(self.server()) as c:
            c.sendcmd("SITE AUTOBUF")
            reply = c.sendcmd("SITE AUTOBUF TRAIN 14480").split("\n")
            self.assertTrue(reply[0].startswith("211-AUTOBUF TRAIN "))
            self.assertEqual(reply[-1], "211 AUTOBUF")
            self.assertTrue(all(line.startswith(" ") and len(line) < 511 for line in reply[1:-1]))
            self.between(sum(len(line) + 2 for line in reply), 14000, 14480, "bytes")
            self.fetches(c)

    @alone
    def test_sink(self):
        with Control(self.server()) as c:
            c.sendcmd("SITE AUTOBUF")
            self.assertTrue(c.sendcmd("SITE AUTOBUF SINK 28960").startswith("350 "))
            c.raw(b" " * 28958 + b"\r\n")
            reading = dict(word.split("=") for word in c.getresp().split()[1:])
            rate = int(reading["bytes"]) / 1448 * 1500 * 8e9 / int(reading["nsec"])
            self.near(rate, 200e6, 0.5, "rate by bytes and time")
            self.fetches(c)

    def test_answers(self):
        rows = (("SITE AUTOBUF TRAIN", 501), ("SITE AUTOBUF TRAIN 480001", 501),
                ("SITE AUTOBUF TRAIN -1", 501), ("SITE AUTOBUF SINK many", 501),
                ("SITE AUTOBUF SET 1 x", 501), ("SITE AUTOBUF PAINT", 500), ("SITE AUTOBUF SINK 480001", 501))
        with Control(self.server()) as c:
            with self.assertRaisesRegex(ftplib.error_perm, "^503 SITE AUTOBUF comes first"):
                c.sendcmd("SITE AUTOBUF TRAIN 14480")
            c.sendcmd("SITE AUTOBUF")
            for line, code in rows:
                with self.subTest(line), self.assertRaisesRegex(ftplib.error_perm, f"^{code} "):
                    c.sendcmd(line)
            self.fetches(c)

    @thorough
    def test_too_many_complaints(self):
        with Control(self.server()) as c:
            c.sendcmd("SITE AUTOBUF")
            with self.assertRaises((EOFError, ConnectionError, ftplib.error_temp)):
                for _ in range(30):
                    with contextlib.suppress(ftplib.error_perm):
                        c.sendcmd("SITE AUTOBUF PAINT")

    def test_budget(self):
        with Control(self.server()) as c:
            c.sendcmd("SITE AUTOBUF")
            sent = 0
            with self.assertRaisesRegex(ftplib.error_temp, "^452 "):
                for _ in range(100):
                    sent += len(c.sendcmd("SITE AUTOBUF TRAIN 60000"))
            self.between(sent, 100_000, 480_000, "bytes of trains")
            self.fetches(c)

    def test_incomplete_sink(self):
        """What is left of it would be read as commands."""
        with Control(self.server()) as c:
            c.sendcmd("SITE AUTOBUF")
            c.sendcmd("SITE AUTOBUF SINK 5000")
            c.raw(b"DELE pub/x\r\n" * 10)
            begin = time.monotonic()
            with self.assertRaisesRegex(ftplib.error_temp, "^421 "):
                c.getresp()
            self.assertLess(time.monotonic() - begin, GIVE_UP_S)
            with self.assertRaises((EOFError, ConnectionError)):
                c.sendcmd("NOOP")

    def test_sink_is_left(self):
        server = self.server()
        with Control(server) as c:
            c.sendcmd("SITE AUTOBUF")
            c.sendcmd("SITE AUTOBUF SINK 5000")
            c.raw(b" " * 100)
        with Control(server) as c:
            self.fetches(c)

    @thorough
    def test_pipelined_sink(self):
        """Commands that are there already are commands."""
        with Control(self.server()) as c:
            c.sendcmd("SITE AUTOBUF")
            c.raw(b"SITE AUTOBUF SINK 6\r\nNOOP\r\nNOOP\r\n")
            with self.assertRaisesRegex(ftplib.error_perm, "^503 "):
                c.getresp()
            self.assertTrue(c.getresp().startswith("200 "))
            self.assertTrue(c.getresp().startswith("200 "))
            self.fetches(c)

    def data_during(self, c: Control, p: Path) -> tuple[int, int, int]:
        """The server's buffers, while a file is on its way."""
        self.place.make("large", PAYS)
        with c.transfercmd("RETR pub/large") as data:
            data.recv(100_000)
            found = data_buffers(p, "b")
        with contextlib.suppress(ftplib.Error, EOFError):
            c.voidresp()
        self.assertEqual(len(found), 1)
        return found[0]

    def wish(self, c: Control, size: int = 5_000_000) -> str:
        """As a client does: a wish without a train before it is worth nothing."""
        c.sendcmd("SITE AUTOBUF")
        c.sendcmd("SITE AUTOBUF TRAIN 10000")
        return c.sendcmd(f"SITE AUTOBUF SET {size} {size}")

    def test_set(self):
        for passive in (True, False):
            with self.subTest(passive=passive):
                p = self.link(FAR)
                with Server(p, "b", "module", self.place) as server, Control(server) as c:
                    c.set_pasv(passive)
                    reply = self.wish(c)
                    self.assertRegex(reply, r"^200 AUTOBUF rcv=0 snd=[1-9]\d+$")
                    took = int(reply.split("snd=")[1])
                    self.assertEqual(self.data_during(c, p)[1], 2 * took)

    def test_set_within_limits(self):
        """A largest size below what autotuning reaches: nothing is set, and that is told."""
        p = self.link(FAR)
        with Control(self.server(p=p, options=["AutobufMax 64 KB"])) as c:
            hello = c.sendcmd("SITE AUTOBUF")
            self.assertIn(" maxsnd=65536", hello)
            self.assertEqual(c.sendcmd("SITE AUTOBUF SET 5000000 5000000"), "200 AUTOBUF rcv=0 snd=0")
            self.assertNotEqual(self.data_during(c, p)[1], 131072)

    def test_set_before_anything_was_measured(self):
        p = self.link(FAR)
        with Control(self.server(p=p)) as c:
            c.sendcmd("SITE AUTOBUF")
            self.assertEqual(c.sendcmd("SITE AUTOBUF SET 5000000 5000000"), "200 AUTOBUF rcv=0 snd=0")

    @alone
    def test_set_has_a_bound(self):
        """Whatever a client says, also where the host allows much more."""
        self.enterContext(global_sysctls({"net.core.wmem_max": 64 << 20}))
        p = self.link(FAR)
        for options, most in ((), 16_000_000), (["AutobufMax 5 MB"], 5 << 20):
            with (self.subTest(most=most), Server(p, "b", "module", self.place, options=list(options)) as server,
                  Control(server) as c):
                took = int(self.wish(c, 1 << 30).split("snd=")[1])
                self.between(took, 4 << 20, most, "send buffer")
                self.assertLessEqual(self.data_during(c, p)[1], 2 * most)

    def queued(self, p: Path) -> int:
        """Memory of what waits in the data connection's send buffer, once it does not change any more."""
        last, same = -1, 0
        for _ in range(2000):
            done = p.run("b", ["ss", "-tnmH", "state", "established", "sport", "!=", ":21"])
            now = max((int(w) for w in re.findall(r",w(\d+),", done.stdout)), default=0)
            same = same + 1 if now == last and now else 0
            last = now
            if same == 100:
                return now
        self.untimely("the queue does not settle")

    def test_a_client_that_never_reads_pins_little(self):
        p = self.link(FAR)
        with Control(self.server(p=p)) as c:
            self.wish(c, 1 << 30)
            self.place.make("large", PAYS)
            with c.transfercmd("RETR pub/large"):
                self.between(self.queued(p), 1, 2_000_000, "bytes queued")

    def test_administrator_wins(self):
        p = self.link(FAR)
        with Control(self.server(p=p, options=["SocketOptions sndbuf 100000"])) as c:
            self.wish(c)
            self.assertLess(self.data_during(c, p)[1], 8388608)

    def test_set_is_for_the_control_peer(self):
        """A data connection to another host, where the administrator allows that, is left alone."""
        p = self.link(FAR)
        p.run("a", ["ip", "addr", "add", "10.77.0.3/32", "dev", "path0"], check=True)
        server = self.server(p=p, options=["AllowForeignAddress on"])
        for own in (True, False):
            with self.subTest(own=own), Control(server) as c:
                self.wish(c)
                self.place.make("large", PAYS)
                address = p.addr["a"] if own else "10.77.0.3"
                with inside(p, "a"):
                    listener = socket.create_server((address, 0))
                c.sendport(address, listener.getsockname()[1])
                c.sendcmd("RETR pub/large")
                with listener, listener.accept()[0] as data:
                    data.recv(100_000)
                    found = data_buffers(p, "b")
                self.assertEqual([sizes[1] == 8388608 for sizes in found], [own])

    def test_no_foreign_port(self):
        """Without that, as ProFTPD has it: nothing goes elsewhere."""
        with Control(self.server()) as c:
            self.wish(c)
            with self.assertRaisesRegex(ftplib.error_perm, "^500 "):
                c.sendcmd("PORT 10,77,0,9,100,100")

    def test_ipv6(self):
        server = self.server()
        with inside(server.path, "a"):
            c = Control(server, address=server.path.addr6["b"])
        with c:
            self.assertIn("SITE AUTOBUF", c.sendcmd("FEAT"))
            self.wish(c)
            c.sendcmd("SITE AUTOBUF TRAIN 14480")
            for passive in (True, False):  # EPSV, EPRT
                c.set_pasv(passive)
                self.fetches(c)

    @thorough
    def test_epsv(self):
        with Control(self.server()) as c:
            self.wish(c)
            c.voidcmd("TYPE I")
            port = int(c.sendcmd("EPSV").split("|")[3])
            file = self.place.make("ordinary", 300_000)
            with inside(c.path, "a"):
                data = socket.create_connection((c.path.addr["b"], port))
            c.sendcmd("RETR pub/ordinary")
            with data, data.makefile("rb") as stream:
                self.assertEqual(stream.read(), file.read_bytes())
            c.voidresp()

    def test_tls(self):
        """With mod_tls on the control connection, and on the data connections as well."""
        place_options = self.tls_options()
        for protect in (False, True):
            with self.subTest(protect=protect):
                server = Server(self.link(NEAR), "b", "module", self.place, load=["mod_tls.c"],
                                options=place_options)
                with server, Secure(server) as c:
                    c.prot_p() if protect else c.prot_c()
                    self.assertTrue(c.sendcmd("SITE AUTOBUF").startswith(HELLO))
                    self.assertTrue(c.sendcmd("SITE AUTOBUF TRAIN 14480").endswith("\n211 AUTOBUF"))
                    self.assertTrue(c.sendcmd("SITE AUTOBUF SINK 14480").startswith("350 "))
                    c.sock.sendall(b" " * 14480)
                    self.assertTrue(c.getresp().startswith("211 bytes="))
                    c.sendcmd("SITE AUTOBUF SET 5000000 5000000")
                    self.fetches(c)

    @thorough
    def test_tls_incomplete_sink(self):
        server = self.server(load=["mod_tls.c"], options=self.tls_options())
        with Secure(server) as c:
            c.sendcmd("SITE AUTOBUF")
            c.sendcmd("SITE AUTOBUF SINK 5000")
            begin = time.monotonic()
            with self.assertRaisesRegex(ftplib.error_temp, "^421 "):
                c.getresp()
            self.assertLess(time.monotonic() - begin, GIVE_UP_S)

    def tls_options(self) -> list[str]:
        keys = self.enterContext(Place()).folder
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test", "-days", "2",
                        "-keyout", keys / "key", "-out", keys / "cert"], check=True, capture_output=True)
        return ["TLSEngine on", f"TLSRSACertificateFile {keys}/cert", f"TLSRSACertificateKeyFile {keys}/key",
                "TLSRequired off", "TLSOptions NoSessionReuseRequired"]

    def test_abort_and_resume(self):
        with Control(self.server(both=FAR)) as c:
            self.wish(c)
            file = self.place.make("large", PAYS)
            c.voidcmd("TYPE I")
            data = c.transfercmd("RETR pub/large")
            first = data.recv(100_000)
            c.putcmd("ABOR")
            data.close()
            codes = [self.code(c), self.code(c)]
            self.assertEqual(codes, ["426", "226"])
            rest: list[bytes] = []
            begin = PAYS - 1_000_000
            c.retrbinary("RETR pub/large", rest.append, rest=begin)
            self.assertTrue(file.read_bytes().startswith(first))
            self.assertTrue(file.read_bytes()[begin:] == b"".join(rest))

    def code(self, c: Control) -> str:
        try:
            return c.getmultiline()[:3]
        except ftplib.Error as error:
            return str(error)[:3]

    @thorough
    def test_restart_point_is_kept(self):
        with Control(self.server()) as c:
            c.sendcmd("SITE AUTOBUF")
            file = self.place.make("ordinary", 50_000)
            c.voidcmd("TYPE I")
            c.sendcmd("REST 49990")
            with c.transfercmd("RETR pub/ordinary") as data:
                self.assertEqual(data.recv(100), file.read_bytes()[49990:])
            c.voidresp()

    @thorough
    def test_an_upload_that_goes_on_is_looked_after_as_one_that_begins(self):
        """Of REST the server knows where an upload goes on, not how long it is."""
        server = self.server(debug=3)

        def said(c: Control, rest: int | None) -> list[str]:
            before = len(server.log.read_text())
            c.storbinary("STOR pub/up", io.BytesIO(bytes(2_000_000)), rest=rest)
            return re.findall(r"mod_autobuf/\S+: (receive: \w+)", server.log.read_text()[before:])

        with Control(server) as c:
            c.sendcmd("SITE AUTOBUF")
            self.place.make("up", 1_000)
            begins, goes_on = said(c, None), said(c, 1_000)
        self.assertEqual((goes_on[0], begins[0]), ("receive: unknown", "receive: unknown"))  # if it were short: kernel

    def signals(self, sizes: Iterable[int], options: Iterable[str] = (), passive: bool = True, **kw) -> tuple[int, int]:
        """How many that ask for a look were handled while files were sent, and after how many of them ProFTPD slept."""
        trace = self.enterContext(Place()).folder / "trace"
        server = self.server(both=FAR, options=[f"TraceLog {trace}", "Trace signal:20", *options], **kw)
        with Control(server) as c:
            c.set_pasv(passive)
            for size in sizes:
                self.fetches(c, size)
        said: dict[str, str] = {}
        for line in trace.read_text().splitlines(keepends=True):
            process = line.split("[")[1].split("]")[0]
            said[process] = said.get(process, "") + line
        slept = r"interrupted system call.*\n(?:.*(?:blocked|interrupted system call).*\n)*.*handling SIGUSR2"
        return (sum(words.count("handling SIGUSR2") for words in said.values()),
                sum(len(re.findall(slept, words)) for words in said.values()))

    def test_sendfile_is_looked_at_from_its_first_round_trip_on(self) -> None:
        """A second passed between the first look and the next one, for what the first call moved had not been counted yet."""
        trace = self.enterContext(Place()).folder / "trace"
        with Control(self.server(both=FAR, options=[f"TraceLog {trace}", "Trace signal:20"])) as c:
            self.fetches(c, 8_000_000)
        times = [60 * float(each[1]) + float(each[2].replace(",", ".")) for each in
                 re.finditer(r"^\S+ \d+:(\d+):(\d+,\d+) .*handling SIGUSR2", trace.read_text(), re.M)]
        self.assertGreater(len(times), 3)
        self.assertLess((times[1] - times[0]) % 3600, 0.7)

    def looks(self, signals: tuple[int, int]) -> None:
        """Many a second for some seconds, and no more than 100."""
        self.assertGreater(signals[0], 5)
        self.assertLess(signals[0], 1000)
        self.assertEqual(signals[1], 0)

    def test_a_file_that_sendfile_sends_is_looked_at_many_times_a_second(self):
        self.looks(self.signals((40_000_000, 8_000_000, 6_000_000, 4_000_000, 2_000_000)))

    @thorough
    def test_and_over_an_active_connection(self):
        self.looks(self.signals((40_000_000, 4_000_000), passive=False))

    @thorough
    def test_and_where_tls_is_offered(self):
        self.looks(self.signals((40_000_000, 4_000_000), self.tls_options(), load=["mod_tls.c"]))

    @thorough
    def test_no_signals_where_sendfile_is_not_used(self):
        self.assertEqual(self.signals((20_000_000,), ["UseSendfile off"]), (0, 0))

    @thorough
    def test_many_sessions(self):
        server = self.server()
        errors: list[BaseException] = []

        def session() -> None:
            try:
                with Control(server) as c:
                    c.sendcmd("SITE AUTOBUF")
                    c.sendcmd("SITE AUTOBUF TRAIN 14480")
                    c.sendcmd("SITE AUTOBUF SET 0 1000000")
                    got: list[bytes] = []
                    c.retrbinary("RETR pub/ordinary", got.append)
                    assert sum(map(len, got)) == 100_000
            except BaseException as error:  # pylint: disable=broad-except
                errors.append(error)

        self.place.make("ordinary", 100_000)
        threads = [threading.Thread(target=session) for _ in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])

    @thorough
    def test_beside_all_modules(self):
        """Every module that Debian ships and that serves without more of a configuration, or a database."""
        place = self.enterContext(Place())
        names = sorted(file.stem for file in modules().glob("mod_*.so"))
        self.assertGreater(len(names), 30)
        names = [name for name in names if name != "mod_autobuf" and "sql" not in name and name != "mod_auth_otp"]
        loads: list[str] = []
        for _ in range(3):  # some need others
            loads += [name for name in names if name not in loads and self.loads(place, [*loads, name])]
        self.assertGreater(len(loads), 30, set(names) - set(loads))
        self.assertTrue(self.loads(place, ["mod_autobuf", *loads]))
        with Control(self.server(load=[f"{name}.c" for name in loads])) as c:
            self.wish(c)
            c.sendcmd("SITE AUTOBUF TRAIN 14480")
            self.fetches(c)

    def loads(self, place: Place, names: list[str]) -> bool:
        file = place.folder / "conf"
        file.write_text(f"{ADDRESS}\nModulePath {modules()}\nScoreboardFile none\nUser nobody\nGroup nogroup\n" +
                        "".join(f"LoadModule {name}.c\n" for name in names))
        return subprocess.run([root() / "usr/sbin/proftpd", "-t", "-c", file], capture_output=True,
                              check=False).returncode == 0

    @thorough
    def test_valgrind(self):
        logs = self.enterContext(Place()).there  # where anybody may write
        log = logs / "valgrind.%p"
        wrap = ["valgrind", "--vgdb=no", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite",
                "--show-leak-kinds=definite", f"--log-file={log}"]
        server = self.server(both="rate=50M,delay=5ms,queue=1M", wrap=wrap)
        with Control(server, patience=60) as c:
            self.wish(c)
            c.sendcmd("SITE AUTOBUF TRAIN 14480")
            c.sendcmd("SITE AUTOBUF SINK 2000")
            c.raw(b" " * 2000)
            c.getresp()
            for passive in (True, False):
                c.set_pasv(passive)
                self.fetches(c)
            c.quit()
        deadline = time.monotonic() + 60
        while "ERROR SUMMARY" not in (said := "".join(file.read_text() for file in logs.glob("valgrind.*"))):
            self.assertLess(time.monotonic(), deadline, f"the session does not end, or is not looked at: {said}")
        self.assertEqual(blamed(said), [])


class Blamed(unittest.TestCase):
    """Which of valgrind's findings are ours."""

    def test_a_finding_is_ours_by_its_frames(self):
        for frame, ours in (("pr_proctitle_init (in /srv/libautobuf/build/ftp/root/usr/sbin/proftpd)", False),
                            ("main (in /srv/lib autobuf/proftpd)", False), ("main (main.c:12)", False),
                            ("ab_keep (keep.c:12)", True), ("autobuf_ftp_new (site.c:12)", True), ("look (mod_autobuf.c:12)", True),
                            ("??? (in /usr/lib/proftpd/mod_autobuf.so)", True), ("FTPAutobufStep (in /usr/bin/ncftpget)", True)):
            with self.subTest(frame):
                finding = f"==69== 1 bytes are lost\n==69==    at 0x48465EF: calloc (in /a/b.so)\n==69==    by 0x16E80E: {frame}"
                report = f"==69== Command: /srv/libautobuf/proftpd\n==69== \n{finding}\n==69== \n==69== ERROR SUMMARY: 1"
                self.assertEqual(blamed(report), [finding] * ours)


class Secure(ftplib.FTP_TLS):
    """Control, with AUTH TLS."""

    def __init__(self, server: Server) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        super().__init__(context=context, timeout=30)
        self.path, self.side = server.path, "a"
        with inside(self.path, self.side):
            self.connect(server.path.addr[server.side], 21)
        self.login(*server.login)

    ntransfercmd_inside = ftplib.FTP_TLS.ntransfercmd

    def ntransfercmd(self, cmd, rest=None):
        with inside(self.path, self.side):
            return self.ntransfercmd_inside(cmd, rest)

    def __exit__(self, *_: object) -> None:
        self.close()


@beside
class NcFtp(FtpTest):
    """The patched client, against servers as they are."""

    def ok(self, done: subprocess.CompletedProcess) -> str:
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def log_of(self, client: Client, size: int, put: bool = False, options=()) -> str:
        """Transfers a file, and checks it; what the client says."""
        there = client.server.place.make("f", size)
        here = client.server.place.here / "f"
        said = ("-d", "stdout", *options)
        if not put:
            here.unlink(missing_ok=True)
            text = self.ok(client.get("f", options=said))
        else:
            there.replace(here)
            text = self.ok(client.put(str(here), options=said))
        self.same(here, there)
        return text

    def test_every_server_every_way(self):
        for kind in KINDS:
            p = self.link(NEAR)
            with Server(p, "b", kind, self.place) as server:
                for stock in some(False, True):
                    client = Client(p, "a", server, stock=stock)
                    for mode in ("-F", "-E"):
                        for put in (False, True):
                            with self.subTest(kind=kind, stock=stock, mode=mode, put=put):
                                self.log_of(client, 500_000, put, [mode])

    @alone
    def test_no_locked_buffers(self):
        """20 MB over 100 ms: 64 KB at a time take 15 s."""
        for kind in ("proftpd", "inetutils"):
            p = self.link(FAR)
            with Server(p, "b", kind, self.place) as server:
                with self.subTest(kind):
                    begin = time.monotonic()
                    self.log_of(Client(p, "a", server), 20_000_000)
                    self.assertLess(time.monotonic() - begin, 9)

    def is_far(self, way: str, logs: list[str]) -> None:
        """What sessions have measured of FAR. A train of 15 KB is over in 0.3 ms, and one that a host tears may be wrong."""
        rates = [float(re.search(rf"path {way} the server: ([\d.]+) Mbit/s", log)[1]) for log in logs]
        self.near(statistics.median(rates), 400, 0.25, f"Mbit/s, the median of {rates}")

    @alone
    def test_measures_and_tells(self):
        p = self.link(FAR)
        with Server(p, "b", "module", self.place) as server:
            client = Client(p, "a", server, force=False)
            logs = [self.log_of(client, PAYS) for _ in range(3)]
            self.is_far("from", logs)
            for log in logs:
                self.assertRegex(log, r"the server sets: receive buffer 0, send buffer [1-9]")
            log = self.log_of(client, PAYS, put=True)
            self.assertNotIn("path to the server: ", log)  # it was measured beside the data, by echoes
            self.assertRegex(log, "Cmd: STOR(.|\n)*send: (set|larger|capped)")

    @alone
    @thorough
    def test_a_server_whose_window_may_be_too_small_is_told(self):
        p = self.link(FAR)
        for side in "ab":
            p.sysctl(side, "net.ipv4.tcp_rmem", SMALL_WINDOWS)
        with Server(p, "b", "module", self.place) as server:
            logs = [self.log_of(Client(p, "a", server, force=False), PAYS, put=True) for _ in range(3)]
            self.is_far("to", logs)
            for log in logs:
                self.assertRegex(log, r"the server sets: receive buffer [1-9]\d*, send buffer 0")

    @alone
    @thorough
    def test_a_size_that_nobody_asked_for_is_asked_for_where_it_can_pay(self):
        for both, asked in ((FAR, True), (NEAR, False)):
            p = self.link(both)
            with Server(p, "b", "module", self.place) as server, self.subTest(both):
                log = self.log_of(Client(p, "a", server, force=False), PAYS if asked else 500_000, options=["-Z"])
                self.assertEqual(re.findall("Cmd: SIZE", log), ["Cmd: SIZE"] * asked)
                self.assertEqual("path from the server: " in log, asked)

    def sent_before_data(self, client: Client, size: int, options=()) -> list[str]:
        """The log of a download to its RETR."""
        self.place.make("f", size)
        here = str(self.place.here)
        argv = client.argv("ncftpget", "-d", "stdout", *options, self.host(client), here, "pub/f")
        process = client.path.popen(client.side, ["stdbuf", "-oL", *argv], env=client.env)
        lines: list[str] = []
        wait_line(process, lambda line: lines.append(line) or "RETR" in line)
        process.kill()
        process.wait()
        return lines

    def host(self, client: Client) -> str:
        return client.path.addr[client.server.side]

    def test_keeps_quiet(self):
        """Where it cannot pay, or is not wanted."""
        rows = (("short", 1_000_000, ()), ("off", PAYS, ("-o", "noAUTOBUF")), ("a size", PAYS, ("-B", "100000")))
        p = self.link(FAR)
        with Server(p, "b", "module", self.place) as server:
            client = Client(p, "a", server)
            for name, size, options in rows:
                with self.subTest(name):
                    lines = self.sent_before_data(client, size, options)
                    self.assertEqual([line for line in lines if re.search("(Cmd|>).*SITE AUTOBUF", line)], [])
            self.assertTrue([line for line in self.sent_before_data(client, PAYS) if "path from" in line])
            client.env["AUTOBUF"] = "off"
            self.assertFalse([line for line in self.sent_before_data(client, PAYS) if "path from" in line])

    @alone
    @thorough
    @on_time
    def test_one_that_yields(self):
        """Beside another transfer of the same direction, which then has three quarters of the path; and it has the rest."""
        p = self.link("rate=20M,delay=20ms,queue=100K")
        with Server(p, "b", "module", self.place) as server:
            client, other = Client(p, "a", server), Other(p)
            self.place.make("f", 24_000_000)
            own = self.place.here / "own"
            own.write_bytes(bytes(24_000_000))
            for way in ("put", "get"):
                alone_bit_per_s = other.bit_per_s(way)
                words = [str(self.place.here), "pub/f"] if way == "get" else ["/pub", str(own)]
                argv = client.argv("ncftpget" if way == "get" else "ncftpput", "-o", "AUTOBUF=scavenger", self.host(client), *words)
                began = time.monotonic()
                process = p.popen("a", argv, env=client.env, stdout=subprocess.DEVNULL)
                beside_bit_per_s = other.bit_per_s(way)
                self.assertEqual(process.wait(60), 0)
                took_s = time.monotonic() - began
                self.between(beside_bit_per_s / alone_bit_per_s, 0.75, 1.1, f"{way}: the other, of what it has alone")
                self.between(24e6 * 8 / took_s / 20e6, 0.25, 1, f"{way}: the path's share")

    @thorough
    def test_explicit_size(self):
        p = self.link(NEAR)
        with Server(p, "b", "module", self.place) as server:
            client = Client(p, "a", server)
            place = self.place
            place.make("f", 30_000_000)
            argv = client.argv("ncftpget", "-B", "50000", p.addr["b"], str(place.here), "pub/f")
            process = p.popen("a", argv, env=client.env)
            while not (found := data_buffers(p, "a")) and process.poll() is None:
                pass
            process.wait()
            self.assertEqual([sizes[0] for sizes in found], [100000])

    def test_resume_and_append(self):
        p = self.link(NEAR)
        with Server(p, "b", "module", self.place) as server:
            client, place = Client(p, "a", server), self.place
            there, here = place.make("f", 2_000_000), place.here / "f"
            here.write_bytes(there.read_bytes()[:700_000])
            os.utime(here, ns=(there.stat().st_mtime_ns,) * 2)
            self.ok(client.get("f", options=["-z"]))
            self.same(here, there)
            self.ok(client.put(str(here), options=["-A"]))
            self.assertEqual(there.read_bytes(), here.read_bytes() * 2)

    @thorough
    def test_other_programs(self):
        """ncftp itself, and ncftpls."""
        p = self.link(NEAR)
        with Server(p, "b", "module", self.place) as server:
            client = Client(p, "a", server)
            there = self.place.make("f", 400_000)
            url = f"ftp://{p.addr['b']}/pub/"
            self.assertIn("f", self.ok(client.run("ncftpls", url)).split())
            ncftp = [str(client.where / "bin" / "ncftp"), "-u", "transfer", "-p", "secret", p.addr["b"]]
            commands = f"lcd {self.place.here}\nshow so-bufsize\nget pub/f\nquit\n"
            done = p.run("a", ncftp, input=commands, env=client.env)
            self.same(self.place.here / "f", there)
            self.assertIn("auto", self.ok(done))

    @thorough
    def test_a_job_that_goes_on_in_the_background(self):
        """ncftpbatch takes over what ncftp knew of a session, but for what only that process had."""
        p = self.link(NEAR)
        with Server(p, "b", "module", self.place) as server:
            client = Client(p, "a", server)
            there = self.place.make("f", 400_000)
            commands = self.place.folder / "commands"
            commands.write_text(f"set save-passwords yes\nlcd {self.place.here}\nls pub\nbgget pub/f\nquit\n")
            # The job goes with its namespace, whose first process stays.
            ncftp = [client.where / "bin" / "ncftp", "-u", "transfer", "-p", "secret", p.addr["b"]]
            p.popen("a", [*ALONE, "sh", "-c", '"$@" <"$0"; exec sleep infinity', commands, *ncftp], env=client.env)
            log = p.popen("a", ["tail", "-n", "+1", "-F", self.place.here / "spool" / "log"], stderr=subprocess.DEVNULL)
            wait_line(log, lambda line: "Done with" in line)
            self.same(self.place.here / "f", there)

    @thorough
    def test_an_upload_without_a_timeout(self):
        p = self.link(NEAR)
        with Server(p, "b", "module", self.place) as server:
            self.log_of(Client(p, "a", server), 3_000_000, put=True, options=["-t", "0,15,15"])

    SMALL_ECHOES = """import socket
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
print("listening", flush=True)
while True:
    packet, peer = s.recvfrom(65535)
    echo = bytearray(packet[(packet[0] & 15) * 4:])
    if echo[0] == 8 and len(packet) <= 300:
        echo[0] = 0
        total = int.from_bytes(echo[2:4], "big") + 0x800
        echo[2:4] = ((total & 0xffff) + (total >> 16)).to_bytes(2, "big")
        s.sendto(echo, peer)
"""

    @alone
    @thorough
    def test_a_path_that_answers_no_large_echoes_is_asked_once(self):
        p = self.link(FAR)
        p.sysctl("b", "net.ipv4.icmp_echo_ignore_all", "1")
        wait_line(p.popen("b", [sys.executable, "-c", self.SMALL_ECHOES]), lambda line: line == "listening")
        sent = []
        with Server(p, "b", "proftpd", self.place) as server:
            for count in (1, 3):
                files = [self.place.make(f"f{i}", PAYS) for i in range(count)]
                here = [str(file.replace(self.place.here / file.name)) for file in files]
                before = self.echoes(p)
                self.ok(Client(p, "a", server, force=False).put(*here))
                sent.append(self.echoes(p) - before)
        self.assertGreater(sent[0], 1)
        self.assertLess(sent[1], 2 * sent[0], sent)

    def strange(self, way: str, put: bool, size: int = PAYS) -> tuple[subprocess.CompletedProcess, list[str], float]:
        """What ncFTP makes of a strange server; the commands that it was sent; seconds."""
        p = self.link(FAR)
        if put:
            p.sysctl("a", "net.ipv4.tcp_rmem", SMALL_WINDOWS)
        server = p.popen("b", [sys.executable, STRANGE, way, str(size)])
        wait_line(server, lambda line: line == "listening")

        class Fake:  # what Client needs of a server
            side, place, login = "b", self.place, ("u", "p")

        client = Client(p, "a", Fake, force=False)
        begin = time.monotonic()
        if put:
            with (self.place.here / "f").open("wb") as out:
                out.truncate(size)
            done = client.run("ncftpput", "-r", "0", "-t", "15", p.addr["b"], "/", str(self.place.here / "f"))
        else:
            done = client.run("ncftpget", "-r", "0", "-t", "15", p.addr["b"], str(self.place.here), "f")
        elapsed = time.monotonic() - begin
        server.kill()
        commands = []
        with contextlib.suppress(Exception):
            wait_line(server, commands.append)
        return done, commands, elapsed

    def comes(self, ways: Iterable[str], put: bool = False) -> list[list[str]]:
        """Whatever a server says, the file comes; the commands that each was sent."""
        asked = []
        for way in ways:
            with self.subTest(way):
                done, commands, elapsed = self.strange(way, put)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("SITE AUTOBUF", commands)
                self.assertLess(elapsed, 30)
            asked.append(commands)
        return asked

    @thorough
    def test_strange_hellos(self):
        for commands in self.comes(("unknown", "other", "version", "help", "numbers")):
            self.assertEqual([line for line in commands if line.startswith("SITE AUTOBUF ")], [])

    @thorough
    def test_strange_trains(self):
        self.comes(("refuses", "short", "at-once", "surplus", "larger", "set-lie", "set-no"))

    @thorough
    def test_strange_sinks(self):
        self.comes(("sink-no", "sink-fast", "sink-huge", "sink-slow", "sink-lie", "sink-early"), put=True)

    def ends(self, ways: Iterable[str], put: bool = False) -> None:
        """Out of step: the session ends, in time, and with an error."""
        for way in ways:
            with self.subTest(way):
                done, commands, elapsed = self.strange(way, put)
                self.assertIn("SITE AUTOBUF", commands)
                self.assertLess(elapsed, 50)
                self.assertGreater(done.returncode, 0)

    @thorough
    def test_hopeless_hellos(self):
        self.ends(("gone", "421", "garbage", "long", "empty"))

    @thorough
    def test_hopeless_trains(self):
        self.ends(("endless", "cut", "stops"))

    @thorough
    def test_hopeless_sinks(self):
        self.ends(("sink-cut", "sink-odd"), put=True)

    @thorough
    def test_unsaid(self):
        """A server that does not say it is sent nothing."""
        for way in ("unsaid", "alike"):
            with self.subTest(way):
                done, commands, _ = self.strange(way, put=False)
                self.assertEqual(done.returncode, 0)
                self.assertEqual([line for line in commands if "AUTOBUF" in line], [])

    @thorough
    def test_sizes_of_other_servers(self):
        for way, sent in (("bufsize", True), ("bufsize-like", False)):
            with self.subTest(way):
                p_done, commands, _ = self.strange(way, put=False)
                self.assertEqual(p_done.returncode, 0)
                self.assertEqual(any(re.fullmatch(r"SITE BUFSIZE [1-9]\d+", line) for line in commands), sent)

    @thorough
    def test_valgrind(self):
        p = self.link("rate=100M,delay=30ms,queue=2M")
        with Server(p, "b", "module", self.place) as server:
            client = Client(p, "a", server)
            self.place.make("f", 3_000_000)
            log = self.place.folder / "valgrind.log"
            wrap = ["valgrind", "-q", "--vgdb=no", "--leak-check=full", "--errors-for-leak-kinds=definite", f"--log-file={log}"]
            host, here = p.addr["b"], str(self.place.here)
            self.ok(client.run("ncftpget", host, here, "pub/f", wrap=wrap))
            text = log.read_text()
            self.ok(client.run("ncftpput", host, "/pub", f"{here}/f", wrap=wrap))
            text += log.read_text()
            self.assertEqual(blamed(text), [])


if __name__ == "__main__":
    sys.exit(run_tests(("unshare", "ss", "valgrind", "openssl", "apt-get"),
                       shared=(modules, *(functools.partial(prefix, stock) for stock in some(False, True)))))
