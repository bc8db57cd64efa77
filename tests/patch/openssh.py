# SPDX-License-Identifier: MIT
"""OpenSSH, stock and patched, built once and run on the emulated path.

    with Path(both="rate=400M,delay=50ms,queue=10M") as p:
        server = Server(p, "b", prefix(VERSIONS[-1]))
        client = Client(p, "a", prefix(VERSIONS[-1], stock=True), server)
        client.run("scp", client.remote("/dev/null"), "copy")

A server has its own configuration, keys and, in a mount namespace, user "transfer" with an ordinary
shell, and the folder of both ends at /mnt; nothing of the machine's is used or changed.
"""
from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests" / "net")]

import cache  # noqa: E402
from archive import Missing, ran  # noqa: E402
from compiled import PLAIN  # noqa: E402
from path import NOBODY, Path, build_folder, wait_listening  # noqa: E402
from place import ALONE, MemoryFolder, drop  # noqa: E402

PATCHES = TOP / "openssh-patch"
SOURCE = TOP / "scripts" / "debian-source"
USER = "transfer"
PORT = 22
CIPHER = "aes128-gcm@openssh.com"


# ---- sources ----


def number(version: str) -> list[int]:
    """10.0p1 comes after 9.2p1."""
    return list(map(int, re.findall(r"\d+", version)))


def releases() -> dict[str, dict[str, str]]:
    """What UPSTREAM says of each release, the oldest first."""
    told = [dict(line.split(": ", 1) for line in text.splitlines()) for text in (PATCHES / "UPSTREAM").read_text().split("\n\n")]
    return {facts["version"]: facts for facts in told}


RELEASES = releases()
VERSIONS = tuple(RELEASES)


SERIES = [PATCHES / name for name in (PATCHES / "series").read_text().split()]


def apply(tree: pathlib.Path, patches: Iterable[pathlib.Path] = SERIES) -> tuple[list[str], bool]:
    """Applies patches without fuzz; the hunks that fail, and whether each other one was on its line."""
    failed, exact = [], True
    for patch in patches:
        done = subprocess.run(["patch", "-p1", "-F0", "-f", "--no-backup-if-mismatch", "-i", patch], cwd=tree,
                              capture_output=True, text=True)
        file = ""
        for line in done.stdout.splitlines():
            if found := re.match(r"patching file '?([^ ']+)", line):
                file = found[1]
            elif found := re.match(r"(Hunk #\d+) (FAILED at \d+)", line):
                failed.append(f"{patch.name}: {file}: {found[1]} {found[2]}")
            elif "can't find file" in line or "No file to patch" in line:
                failed.append(f"{patch.name}: {line}")
        exact = exact and "offset" not in done.stdout
        if done.returncode and not failed:
            failed.append(f"{patch.name}: {done.stdout} {done.stderr}")
    return failed, exact


def upstream(version: str, folder: pathlib.Path) -> None:
    """Upstream's source of a release."""
    facts, archive = RELEASES[version], cache.sources()
    subprocess.run([SOURCE, "openssh", facts["suites"], facts["file"], facts["sha256"], archive], check=True)
    subprocess.run(["tar", "-xf", archive / facts["file"], "-C", folder, "--strip-components=1"], check=True)


# ---- builds ----

OPTIMIZED = False
"""Build as users do, in folders apart; without it a build takes 86 s of a processor, not 142, and what a program does is the same."""


def state_of(version: str, stock: bool) -> str:
    """Changes with whatever a build is made of: source, series, library, compiler, and where it is kept."""
    files = [PATCHES / "build", PATCHES / "source.sh", PATCHES / "UPSTREAM"]
    if not stock:
        files += [*PATCHES.glob("autobuf*"), *SERIES, PATCHES / "series", TOP / "meson.build",
                  *(file for file in (TOP / "lib").rglob("*.*") if file.is_file()), *(TOP / "include").rglob("*.h")]
    return cache.digest([version, str(stock), "" if OPTIMIZED else PLAIN, cache.compiler(), str(cache.folder())], files)


@functools.cache
def site(source: str) -> pathlib.Path:
    """Has configure keep what it finds: stock and patched, it is the same. Only for this process; packages come and go."""
    file = build_folder() / "openssh" / f"{source}.site"
    found = file.with_suffix(".cache")
    file.parent.mkdir(parents=True, exist_ok=True)
    found.unlink(missing_ok=True)
    file.write_text(f"cache_file='{found}'\n")
    return file


def environment(source: str, folder: pathlib.Path) -> dict[str, str]:
    """What a build in a folder is told."""
    env = {"AUTOBUF_SOURCES": str(cache.sources()), "AUTOBUF_TREE": str(folder / "tree")}
    if not OPTIMIZED:
        env |= {"CFLAGS": PLAIN, "CONFIG_SITE": str(site(source))}
    return os.environ | env


@functools.cache
def prefix(version: str, stock: bool = False, upstreams: bool = True, ahead: bool = True) -> pathlib.Path:
    """Where a build of upstream's source, or of the distribution's, is installed; made if there is none of this
    state. ahead=False: one that sends no SFTP request before its turn. The built source is in tree/, what the build told in said. Nobody writes there.

    RuntimeError with the end of what it told if it fails, Missing if its source cannot be had.
    """
    source = version + "-distribution" * (not upstreams)
    name = source + "-stock" * stock + "-without-ahead" * (not ahead) + "-optimized" * OPTIMIZED

    def make(place: pathlib.Path) -> None:
        folder = place / name
        options = ["--stock"] * stock + ["--without-ahead"] * (not ahead) + ["--upstream"] * upstreams
        said = ran(PATCHES / "build", *options, version, folder, env=environment(source, folder))
        (folder / "said").write_text(said)

    if name in FAILED:
        raise FAILED[name]
    try:
        return cache.kept(f"openssh-{name}", state_of(version, stock), make) / name
    except (RuntimeError, Missing) as error:
        FAILED[name] = error
        raise


FAILED: dict[str, Exception] = {}
"""It takes long to fail, and is tried once by a script."""


def programs(where: pathlib.Path, p: Path) -> Iterator[tuple[int, str]]:
    """Number and name of each process that runs a program of a build at an end of a path, in whatever namespace of processes."""
    ends = {os.stat(namespace).st_ino for namespace in p.ns.values()}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # Seen out of another root, only the end of the path is as it is here.
            exe = process.joinpath("exe").readlink()
            if ([folder.name for folder in exe.parents[1:3]] == [where.name, where.parent.name]
                    and process.joinpath("ns", "net").stat().st_ino in ends):
                yield int(process.name), exe.name


# ---- files that both ends share ----


class Place(MemoryFolder):
    """With a key pair, readable by whoever logs in."""

    def __init__(self, keygen: pathlib.Path) -> None:
        super().__init__("ssh")
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", self.folder / "key"], check=True)
        (self.folder / "key.pub").chmod(0o644)
        for name in ("here", "there"):
            (self.folder / name).mkdir()
            (self.folder / name).chmod(0o777)

    def etc_with_user(self, home: pathlib.Path) -> str:
        """As own_etc(): the host's users, and USER."""
        users = pathlib.Path("/etc/passwd").read_text()
        return self.own_etc({"passwd": f"{users}{USER}:x:{NOBODY}:{NOBODY}:{USER}:{home}:/bin/sh\n"})


# ---- the two ends ----


class Server:
    """A real sshd on one side of a path. force=False: it may not set buffers beyond the limits. settings: the lines of
    its autobuf.conf, place.folder/autobuf.conf; None: as installed, all defaults."""

    def __init__(self, p: Path, side: str, where: pathlib.Path, place: Place,
                 options: Iterable[str] = (), force: bool = True, log: str = "ERROR",
                 wrap: Iterable[str] = (), settings: Iterable[str] | None = None) -> None:
        self.path, self.side, self.where, self.place = p, side, where, place
        config = place.folder / f"sshd_config-{where.name}"
        lines = [f"Port {PORT}", f"HostKey {where}/etc/ssh_host_ed25519_key", "PidFile none", "UsePAM no",
                 f"AuthorizedKeysFile {place.folder}/key.pub", "StrictModes no", "PermitRootLogin yes",
                 f"Subsystem sftp {where}/libexec/sftp-server", f"LogLevel {log}", "MaxStartups 200",
                 "MaxSessions 200", *options]
        if not where.name.startswith("9."):
            lines.append("PerSourcePenalties no")
        config.write_text("\n".join(lines) + "\n")
        self.log = place.folder / f"log-{where.name}"
        script = f'{place.etc_with_user(place.folder / "there")} && mount --bind "{place.folder}" /mnt && '
        if settings is not None:
            own = place.folder / "autobuf.conf"
            own.write_text("".join(f"{line}\n" for line in settings))
            script += f'mount --bind "{own}" "{where}/etc/autobuf.conf" && '
        script += 'exec "$@"'
        with self.log.open("w") as log_file:
            self.process = p.popen(side, [*ALONE, "sh", "-c", script, "sh", *drop(force), *wrap,
                                          str(where / "sbin" / "sshd"), "-D", "-e", "-f", str(config)],
                                   stderr=log_file)
        wait_listening(p, side, PORT, self.process, self.log)

    @property
    def pid(self) -> int:
        """Of the daemon."""
        return int(pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text())

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


class Client:
    """Programs of one build on the other side. force=False: they may not set buffers beyond the limits."""

    def __init__(self, p: Path, side: str, where: pathlib.Path, server: Server, user: str = USER,
                 options: Iterable[str] = (), force: bool = True) -> None:
        self.path, self.side, self.where, self.server, self.user = p, side, where, server, user
        self.place, self.force = server.place, force
        chosen = [f"IdentityFile={self.place.folder}/key", "IdentitiesOnly=yes", "UserKnownHostsFile=/dev/null",
                  "GlobalKnownHostsFile=/dev/null", "StrictHostKeyChecking=no", "BatchMode=yes",
                  "LogLevel=ERROR", f"Ciphers={CIPHER}", *options]
        last = {option.split("=")[0]: option for option in chosen}  # for ssh it is the first that counts
        self.options = ["-F", "none", *(word for option in last.values() for word in ("-o", option))]

    def remote(self, name: str = "") -> str:
        return f"{self.user}@{self.path.addr[self.server.side]}" + (f":{name}" if name else "")

    def argv(self, program: str, *args: str) -> list[str]:
        return [*drop(self.force), str(self.where / "bin" / program), *self.options, *map(str, args)]

    def run(self, program: str, *args: str, wrap: Iterable[str] = (), **kw) -> subprocess.CompletedProcess:
        return self.path.run(self.side, [*wrap, *self.argv(program, *args)], **kw)

    def popen(self, program: str, *args: str, **kw) -> subprocess.Popen:
        return self.path.popen(self.side, self.argv(program, *args), **kw)


@contextlib.contextmanager
def pair(p: Path, server_prefix: pathlib.Path, client_prefix: pathlib.Path, server_options=(),
         client_options=(), force: bool = True, user: str = USER, log: str = "ERROR", wrap=(), server_settings=None):
    """A server on side b, and a client of it on side a."""
    with Place(server_prefix / "bin" / "ssh-keygen") as place:
        server = Server(p, "b", server_prefix, place, server_options, force, log, wrap, server_settings)
        try:
            yield Client(p, "a", client_prefix, server, user, client_options, force)
        finally:
            server.stop()
