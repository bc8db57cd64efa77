# SPDX-License-Identifier: MIT
"""Patched OpenSSH and the SSH programs of others: PuTTY, Dropbear, libssh, libssh2, asyncssh, Go, paramiko."""
from __future__ import annotations

import collections
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable

import strangers
from openssh import VERSIONS, Client, Place, prefix
from strangers import Missing
from test_openssh import LONG, MB, NEWEST, SHORT, OpenSSH, windows, write

from at_once import alone, beside  # the folder is on the path by now
from cases import on_time, run_tests, some

STRANGERS_MOST = 12 * MB
"""The largest window for a peer that has not made itself known."""
BOUNDED = "rate=600M,delay=100ms,queue=20M"
"""15 MB: more than that."""
CLIENTS = {"plink": strangers.Plink, "pscp": strangers.Pscp, "pscp_by_scp": strangers.PscpOld, "psftp": strangers.Psftp,
           "dbclient": strangers.Dbclient, "scp_over_dbclient": strangers.ScpOverDbclient,
           "libssh": strangers.Libssh, "libssh2_scp": strangers.Curl, "libssh2_sftp": strangers.CurlSftp,
           "asyncssh_sftp": strangers.Asyncssh, "asyncssh_scp": strangers.AsyncsshScp,
           "go_sftp": strangers.Go, "go_cat": strangers.GoCat}
SERVERS = {"dropbear": strangers.Dropbear, "asyncssh": strangers.AsyncsshServer, "go": strangers.GoServer,
           "paramiko": strangers.ParamikoServer}
BY_CHANCE = ("1", "2", "93", "94", "96", "97")
"""Messages of which there are as many as time makes: data, credit, padding, and those at the end of a connection."""


def messages(log: str) -> collections.Counter:
    """Directions and types of all others."""
    found = re.findall(r"debug3: (send|receive) packet: type (\d+)", log)
    return collections.Counter((way, kind) for way, kind in found if kind not in BY_CHANCE)


class Strangers(OpenSSH):
    def told_nothing_wrong(self, log: str) -> None:
        wrong = [line for line in log.splitlines() if not line.startswith("debug") and
                 re.search(r"error|fatal|bad |corrupt|too much|rcvd|unexpected|mismatch|Broken|timeout", line)]
        self.assertEqual(wrong, [])

    def bounded(self, log: str) -> int:
        """The largest window of a log, of which none is larger than a stranger may have."""
        self.assertNotIn("the peer queues little", log)
        largest = max(windows(log).values(), default=0)
        self.assertLessEqual(largest, STRANGERS_MOST)
        return largest


@beside
class Clients(Strangers):
    def client(self, kind, rekey: int | None = None, **kw) -> strangers.Stranger:
        """A client whose server is ours."""
        try:
            return kind(self.ends(**kw), rekey)
        except Missing as missing:
            self.skipTest(str(missing))

    def copied(self, client: strangers.Stranger, way: str, file: pathlib.Path) -> None:
        """A failure, not an error: on a path that was late it is tried again."""
        try:
            self.well(client.copy(way, way, file))
        except subprocess.TimeoutExpired as error:
            arrived = self.here / "got" if way == "get" else self.there / "put"
            size = arrived.stat().st_size if arrived.exists() else 0
            self.untimely(f"{way}: {size} bytes in {error.timeout} s; {client.ssh.server.log.read_text()[-1000:]}")

    def both_ways(self, client: strangers.Stranger, size: int) -> str:
        """Both ways, compared; the server's log."""
        write(self.there / "get", size, 1)
        write(self.here / "put", size, 2)
        for way, file in (("get", self.here / "got"), ("put", self.here / "put")):
            self.copied(client, way, file)
        self.same(self.there / "get", self.here / "got")
        self.same(self.here / "put", self.there / "put")
        log = client.ssh.server.log.read_text()
        self.told_nothing_wrong(log)
        return log

    def transfers(self, name: str) -> None:
        for version in some(*VERSIONS[::-1]):
            with self.subTest(version):
                client = self.client(CLIENTS[name], server=version, log="DEBUG")
                largest = self.bounded(self.both_ways(client, client.size))
                if client.fills:
                    self.assertGreater(largest, 2 * MB)

    def exchanges_keys_again(self, name: str) -> None:
        kind = CLIENTS[name]
        limit = kind.size // 3
        for at in ("server", "client") if kind.rekeys else ("server",):
            with self.subTest(at):
                client = self.client(kind, limit if at == "client" else None, link=SHORT, log="DEBUG",
                                     server_options=[f"RekeyLimit {limit}"] * (at == "server"))
                log = self.both_ways(client, kind.size)
                # Two logins. Some clients count only what they send.
                wanted = 2 + (4 if at == "server" else 2)
                self.assertGreaterEqual(log.count("SSH2_MSG_NEWKEYS received"), wanted, "rekeyed")
                self.bounded(log)

    def messages_of_stock(self, name: str) -> None:
        said = []
        for kind in ({"server_stock": True}, {"wrap": ["env", "AUTOBUF=off"]}, {}):
            client = self.client(CLIENTS[name], link=SHORT, log="DEBUG3", **kind)
            said.append(messages(self.both_ways(client, 1000)))
        self.assertTrue(said[0])
        self.assertEqual(said[1], said[0], "off")
        self.assertEqual(said[2], said[0], "a stranger is not told")

    @alone
    def test_a_path_of_more_than_the_bound(self) -> None:
        client = self.client(strangers.Libssh, link=BOUNDED, log="DEBUG")
        # A client that nobody tunes fills 3.5 MB of its host's 4 MB; the channel's window is to be the limit, not that.
        client.ssh.path.sysctl("a", "net.ipv4.tcp_wmem", "4096 16384 67108864")
        client.ssh.path.sysctl("b", "net.ipv4.tcp_rmem", "4096 131072 67108864")
        write(self.here / "put", 160 * MB)
        self.copied(client, "put", self.here / "put")
        self.same(self.here / "put", self.there / "put")
        self.assertGreater(self.bounded(client.ssh.server.log.read_text()), 8 * MB)


@beside
class Servers(Strangers):
    def served(self, name: str, stock: bool = False, link: str = LONG, options=()) -> Client:
        """Clients of ours, whose server is another one."""
        p = self.path(both=link)
        for side in "ab":
            p.route(side, congctl="cubic")
        where = prefix(NEWEST, stock)
        place = self.enterContext(Place(where / "bin" / "ssh-keygen"))
        try:
            server = SERVERS[name](p, "b", where, place)
        except Missing as missing:
            self.skipTest(str(missing))
        self.addCleanup(server.stop)
        self.unknown = server.status
        self.here, self.there = place.folder / "here", place.folder / "there"
        return Client(p, "a", where, server, options=["Ciphers=aes128-ctr", *options])

    def well(self, done: subprocess.CompletedProcess) -> subprocess.CompletedProcess:
        """scp may say that it does not know how the other side ended."""
        if done.returncode != 1 or not self.unknown or "debug1: Exit status -1\n" not in done.stderr:
            return super().well(done)
        return done

    def transfers(self, name: str) -> None:
        ssh = self.served(name, options=["LogLevel=DEBUG"])
        for log in self.get_and_put(ssh, 24 * MB):
            self.bounded(log)
        for file in (self.here / "got", self.there / "put"):
            file.unlink()
        batch = f"get get {self.here}/got\nput {self.here}/put put\n"
        self.well(ssh.run("sftp", "-b", "-", ssh.remote(), input=batch))
        self.same(self.there / "get", self.here / "got")
        self.same(self.here / "put", self.there / "put")
        with (self.here / "got").open("wb") as out:
            self.bounded(self.well(ssh.run("ssh", ssh.remote(), "cat get", stdout=out, stderr=subprocess.PIPE)).stderr)
        with (self.here / "put").open("rb") as data:
            self.well(ssh.run("ssh", ssh.remote(), "cat >put2", stdin=data, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE))
        self.same(self.there / "get", self.here / "got")
        self.same(self.here / "put", self.there / "put2")

    def exchanges_keys_again(self, name: str) -> None:
        ssh = self.served(name, link=SHORT, options=["LogLevel=DEBUG", "RekeyLimit=8M"])
        for log in self.get_and_put(ssh, 24 * MB):
            self.assertGreaterEqual(log.count("SSH2_MSG_NEWKEYS received"), 1 + 2, "rekeyed")
            self.bounded(log)

    def messages_of_stock(self, name: str) -> None:
        said = []
        for stock, options in ((True, []), (False, ["AutoBuffer=no"]), (False, [])):
            ssh = self.served(name, stock, SHORT, ["LogLevel=DEBUG3", *options])
            write(self.there / "get", 1000)
            said.append(messages(self.well(ssh.run("ssh", ssh.remote(), "cksum get")).stderr))
        self.assertTrue(said[0])
        self.assertEqual(said[1], said[0], "AutoBuffer=no")
        self.assertEqual(said[2], said[0], "a stranger is not told")


def add(group: type[Strangers], names: Iterable[str]) -> None:
    for name in names:
        for part in ("transfers", "exchanges_keys_again", "messages_of_stock"):
            def test(self, name: str = name, part: str = part) -> None:
                getattr(self, part)(name)
            test = on_time(test)
            setattr(group, f"test_{name}_{part}", alone(test) if part == "messages_of_stock" else test)


add(Clients, CLIENTS)
add(Servers, SERVERS)

if __name__ == "__main__":
    sys.exit(run_tests(("ip", "setpriv", "taskset", "nsenter", "unshare"), ("tests/net/pathemu",),
                       shared=(lambda: prefix(NEWEST), lambda: prefix(NEWEST, stock=True))))
