# SPDX-License-Identifier: MIT
"""FTP servers of Debian on the emulated path, and ncFTP, stock and patched.

    with Path(both="rate=400M,delay=50ms,queue=10M") as p, Place() as place:
        with Server(p, "b", "module", place) as server:
            Client(p, "a", server).get("file")

Servers are unpacked, not installed: they exclude each other, and would be started. Each has its own
configuration and, in a mount namespace, its own users; nothing of the machine's is used or changed.
Of each, user "transfer" with password "secret" (vsftpd, inetutils: anonymous) has a root in which
/pub is place.there.
"""
from __future__ import annotations

import contextlib
import ctypes
import ftplib
import functools
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests" / "net")]

import cache  # noqa: E402
from archive import ran  # noqa: E402
from compiled import PLAIN  # noqa: E402
from path import NOBODY, Path, build_folder, wait_listening  # noqa: E402
from place import ALONE, MemoryFolder, drop  # noqa: E402

PACKAGES = ("proftpd-core", "proftpd-mod-crypto", "proftpd-dev", "vsftpd", "inetutils-ftpd")
USER, PASSWORD = "transfer", "secret"
PORT = 21
KINDS = ("module", "proftpd", "inetutils", "vsftpd")


def folder() -> pathlib.Path:
    return build_folder() / "ftp"


@functools.cache
@cache.alone("ftp-root")
def root() -> pathlib.Path:
    """Where the servers are unpacked."""
    where = folder() / "root"
    done = where / "done"
    if not done.exists():
        ran(TOP / "scripts" / "debian-unpack", where, *PACKAGES)
        done.touch()
    return where


@functools.cache
@cache.alone("ftp-modules")
def modules() -> pathlib.Path:
    """A folder with all modules that Debian ships, and mod_autobuf, built of the present sources."""
    where, configuration = folder() / "modules", folder() / "pkgconfig"
    configuration.mkdir(parents=True, exist_ok=True)
    text = (root() / "usr/share/pkgconfig/proftpd.pc").read_text()
    (configuration / "proftpd.pc").write_text(text.replace("/usr/include", f"{root()}/usr/include"))
    build = folder() / "module"
    env = os.environ | {"PKG_CONFIG_PATH": str(configuration)}
    if not (build / "build.ninja").exists():
        shutil.rmtree(build, ignore_errors=True)
        subprocess.run(["meson", "setup", "-Dwerror=true", "-Doptimization=0", "-Dproftpd=enabled", "-Dtests=false", "-Dtools=false",
                        "-Dexamples=false", "-Ddocs=false", build, TOP], check=True, env=env,
                       stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "--quiet", "-C", build, "proftpd-module/mod_autobuf.so"], check=True, env=env,
                   stdout=subprocess.DEVNULL)
    where.mkdir(exist_ok=True)
    for module in [*(root() / "usr/lib/proftpd").glob("*.so"), build / "proftpd-module/mod_autobuf.so"]:
        link = where / module.name
        link.unlink(missing_ok=True)
        link.symlink_to(module)
    return where


def state_of(stock: bool) -> str:
    """Changes with whatever a build of ncFTP is made of."""
    patches = TOP / "ncftp-patch"
    files = [patches / "build", patches / "UPSTREAM"]
    if not stock:
        files += [*patches.glob("*.[ch]"), *patches.glob("*.patch"), patches / "series", TOP / "meson.build",
                  *(file for file in (TOP / "lib").rglob("*.*") if file.is_file()), *(TOP / "include").rglob("*.h")]
    return cache.digest([str(stock), PLAIN, cache.compiler(), str(cache.folder())], files)


@functools.cache
def prefix(stock: bool = False) -> pathlib.Path:
    """Where a build of ncFTP is installed; made if there is none of this state."""
    def make(place: pathlib.Path) -> None:
        ran(TOP / "ncftp-patch" / "build", *(["--stock"] if stock else []), place / "ncftp",
            env=os.environ | {"AUTOBUF_SOURCES": str(cache.sources()), "CFLAGS": PLAIN})

    return cache.kept("ncftp-stock" if stock else "ncftp", state_of(stock), make) / "ncftp"


class Place(MemoryFolder):
    """With a folder for the client, and the server's root, of which pub/ is "there"."""

    def __init__(self) -> None:
        super().__init__("ftp")
        self.here, self.root = self.folder / "here", self.folder / "root"
        self.there = self.root / "pub"
        for one in (self.here, self.root, self.there, self.folder / "empty"):
            one.mkdir()
            one.chmod(0o755)
        for one in (self.here, self.there):
            one.chmod(0o777)

    def make(self, name: str, size: int) -> pathlib.Path:
        """A file on the server, of bytes that tell where they stand."""
        file = self.there / name
        block = b"".join(i.to_bytes(4, "big") for i in range(262144))
        with file.open("wb") as out:
            for _ in range(size // len(block)):
                out.write(block)
            out.write(block[:size % len(block)])
        file.chmod(0o666)
        return file


class Server:
    """A real server on one side of a path. Of ProFTPD, options are lines of its configuration."""

    def __init__(self, p: Path, side: str, kind: str, place: Place, options: Iterable[str] = (),
                 load: Iterable[str] = (), wrap: Iterable[str] = (), debug: int = 0) -> None:
        self.path, self.side, self.kind, self.place = p, side, kind, place
        self.log = place.folder / f"log-{kind}-{side}"
        self.anonymous = kind in ("inetutils", "vsftpd")
        argv = getattr(self, kind if kind != "module" else "proftpd")(list(options), list(load), debug)
        files = {}
        for name, add in (("passwd", f"{USER}:x:{NOBODY}:{NOBODY}:{USER}:{place.root}:/bin/sh\n"
                                     f"ftp:x:{NOBODY}:{NOBODY}:ftp:{place.root}:/bin/sh\n"),
                          ("ftpusers", "root\n"), ("shells", "/bin/sh\n")):
            etc = pathlib.Path("/etc", name)
            kept = etc.read_text() if etc.exists() else ""
            files[name] = "".join(line for line in kept.splitlines(True) if not line.startswith("ftp:")) + add
        # The namespace's first process stays, and goes with the test, which who changes credentials does not.
        run = '"$@" && exec sleep infinity' if kind == "inetutils" else '"$@" & wait $!'
        with self.log.open("w") as log_file:
            self.process = p.popen(side, [*ALONE, "sh", "-c", f'{place.own_etc(files)} && {{ {run}; }}', "sh", *wrap, *argv],
                                   stdout=log_file, stderr=log_file)
        wait_listening(p, side, PORT, self.process, self.log)

    def proftpd(self, options: list[str], load: list[str], debug: int) -> list[str]:
        place = self.place
        users = place.folder / "users"
        hashed = subprocess.run(["openssl", "passwd", "-6", PASSWORD], text=True, check=True,
                                stdout=subprocess.PIPE).stdout.strip()
        users.write_text(f"{USER}:{hashed}:{NOBODY}:{NOBODY}:{USER}:{place.root}:/bin/sh\n")
        users.chmod(0o600)
        if self.kind == "module":
            load = [*load, "mod_autobuf.c"]
        # By default ProFTPD looks up the host's own name, which may have no address. It listens on all addresses in both cases.
        lines = [f"DefaultAddress {self.path.addr[self.side]}",
                 f"ModulePath {modules()}", *(f"LoadModule {name}" for name in load),
                 'ServerName "test"', "ServerType standalone", f"Port {PORT}", "UseIPv6 on", "User nobody",
                 "Group nogroup", "AuthOrder mod_auth_file.c", f"AuthUserFile {users}", "RequireValidShell off",
                 "UseFtpUsers off", "UseReverseDNS off", "WtmpLog off", "DelayEngine off", "MaxInstances 300",
                 f"PidFile {place.folder}/pid", "ScoreboardFile none", f"SystemLog {self.log}",
                 "TransferLog none", "AllowOverwrite on", "AllowStoreRestart on", "AllowRetrieveRestart on",
                 "DefaultRoot ~", *options]
        configuration = place.folder / "proftpd.conf"
        configuration.write_text("\n".join(lines) + "\n")
        return [str(root() / "usr/sbin/proftpd"), "--nodaemon", "-d", str(debug), "-c", str(configuration)]

    def vsftpd(self, options: list[str], _load: list[str], _debug: int) -> list[str]:
        configuration = self.place.folder / "vsftpd.conf"
        lines = ["listen=YES", "background=NO", "anonymous_enable=YES", "local_enable=NO", "write_enable=YES",
                 "anon_upload_enable=YES", "anon_other_write_enable=YES", "anon_mkdir_write_enable=YES",
                 "ftp_username=ftp", f"anon_root={self.place.root}", "allow_writeable_chroot=YES",
                 f"secure_chroot_dir={self.place.folder}/empty", "xferlog_enable=NO", "anon_umask=022",
                 "no_anon_password=NO", "isolate_network=NO", "seccomp_sandbox=NO", *options]
        configuration.write_text("\n".join(lines) + "\n")
        return [str(root() / "usr/sbin/vsftpd"), str(configuration)]

    def inetutils(self, options: list[str], _load: list[str], _debug: int) -> list[str]:
        return [str(root() / "usr/sbin/ftpd"), "-D", "-A", f"--pidfile={self.place.folder}/pid",
                *options]

    @property
    def login(self) -> tuple[str, str]:
        return ("anonymous", "me@example.com") if self.anonymous else (USER, PASSWORD)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@contextlib.contextmanager
def inside(p: Path, side: str) -> Iterator[None]:
    """Sockets that are made here are on a side of the path."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net", "rb") as back, open(p.ns[side], "rb") as there:
        if libc.setns(there.fileno(), 0) < 0:
            raise OSError(ctypes.get_errno(), "setns")
        try:
            yield
        finally:
            libc.setns(back.fileno(), 0)


class Control(ftplib.FTP):
    """A control connection in clear, out of a namespace: for commands by hand, and lies."""

    def __init__(self, server: Server, side: str = "a", user: bool = True, address: str | None = None,
                 patience: float = 30) -> None:
        super().__init__(timeout=patience)
        self.trust_server_pasv_ipv4_address = False
        self.path, self.side = server.path, side
        with inside(self.path, side):
            self.connect(address or server.path.addr[server.side], PORT)
        if user:
            self.login(*server.login)

    def ntransfercmd(self, cmd: str, rest: int | None = None) -> tuple:
        with inside(self.path, self.side):
            return super().ntransfercmd(cmd, rest)

    def raw(self, data: bytes) -> None:
        self.sock.sendall(data)

    def __exit__(self, *_: object) -> None:
        self.close()


class Client:
    """ncFTP on one side of a path. force=False: it may not set buffers beyond the limits."""

    def __init__(self, p: Path, side: str, server: Server, stock: bool = False, force: bool = True,
                 options: Iterable[str] = ()) -> None:
        self.path, self.side, self.server, self.force = p, side, server, force
        self.where, self.options = prefix(stock), list(options)
        self.env = os.environ | {"HOME": str(server.place.here), "NCFTPDIR": str(server.place.here)}

    def argv(self, program: str, *args: str, wrap: Iterable[str] = ()) -> list[str]:
        user, password = self.server.login
        return [*drop(self.force), *wrap, str(self.where / "bin" / program), "-u", user, "-p", password,
                *(["-V"] if program in ("ncftpget", "ncftpput") and "-v" not in args else []), *self.options, *args]

    def run(self, program: str, *args: str, wrap: Iterable[str] = (), **kw) -> subprocess.CompletedProcess:
        return self.path.run(self.side, self.argv(program, *map(str, args), wrap=wrap), env=self.env, **kw)

    def get(self, *names: str, options: Iterable[str] = (), **kw) -> subprocess.CompletedProcess:
        host = self.path.addr[self.server.side]
        return self.run("ncftpget", *options, host, str(self.server.place.here), *(f"pub/{name}" for name in names), **kw)

    def put(self, *files: str, options: Iterable[str] = (), **kw) -> subprocess.CompletedProcess:
        host = self.path.addr[self.server.side]
        return self.run("ncftpput", *options, host, "/pub", *files, **kw)
