# SPDX-License-Identifier: MIT
"""Debian's curl with libssh2, alone and under `autobuf run`, and curl and libssh2 with our patches; with an unpatched sshd; a plain TCP
transfer beside them. git clone is libgit2's, by pygit2: a repository with one file that cannot be compressed.

The ways of a scene run in turn, each on a path of its own. Linux 6.18's limits. A rate is that of the copy, without the
login. Files are in memory, and compared.
"""
from __future__ import annotations

import contextlib
import filecmp
import pathlib
import statistics
import subprocess
from collections.abc import Callable
from typing import Any

import daemon
import path
import report
import ssh
from kept import Kept, digest_with

import libssh2
import openssh
import strangers

MB = 1 << 20
Argv = list[object]


def alone(argv: Argv) -> Argv:
    return argv


def under_run(argv: Argv) -> Argv:
    return [path.built("tools/autobuf"), "run", "--", *argv]


def patched(argv: Argv) -> Argv:
    program = libssh2.curl() if argv[0] == "curl" else argv[0]
    return ["env", f"LD_LIBRARY_PATH={libssh2.prefix(libssh2.VERSIONS[-1]) / 'lib'}", program, *argv[1:]]


WAYS = {"alone": alone, "autobuf run": under_run, "patched": patched}
GETS, PUT = ("sftp get", "scp get"), ("sftp put",)
CLONE = ("git clone",)
SCENES = (ssh.Scene(400, 100, 2, 200, GETS + CLONE, (), True), ssh.Scene(400, 100, 2, 40, PUT, ()),
          ssh.Scene(100, 20, 2, 100, GETS + PUT, ()), ssh.Scene(1000, 0.5, 8, 400, GETS + PUT, (), times=5))
SERVER = "b"


def raised(p: path.Path) -> contextlib.AbstractContextManager[object]:
    """Of a server whose sshd waits with poll() a third of tcp_wmem stays unused, so that 4 MB are 223 Mbit/s over 100 ms."""
    p.sysctl(SERVER, "net.ipv4.tcp_wmem", "4096 16384 16777216")
    return contextlib.nullcontext()


SERVERS = {"": lambda p: contextlib.nullcontext(), "the server's tcp_wmem raised to 16 MB": raised,
           "autobufd on the server": lambda p: daemon.daemon(p, SERVER, daemon.WITHHOLDS)}


def repository(file: pathlib.Path) -> pathlib.Path:
    """Of that file; as cheap to send as to copy."""
    folder = file.parent / "repository"
    for words in (("init", "-q"), ("config", "core.compression", "0"), ("add", file.name), ("commit", "-qm", "One file")):
        subprocess.run(["git", f"--git-dir={folder}", f"--work-tree={file.parent}", "-c", "user.name=a", "-c", "user.email=a@example.org",
                        *words], check=True)
    return folder


def head(folder: pathlib.Path) -> str:
    return subprocess.run(["git", f"--git-dir={folder}", "rev-parse", "HEAD^{tree}"], check=True, capture_output=True, text=True).stdout


def clone(client: openssh.Client, how: Callable[[Argv], Argv]) -> float:
    """Seconds, without the login."""
    place = client.place.folder
    ours, copy = repository(place / "there" / "big"), place / "here" / "copy"
    (place / "there" / ".gitconfig").write_text("[safe]\ndirectory = *\n")  # of the user who serves it, and does not own it
    done = client.path.run("a", list(map(str, how(strangers.Libgit2(client).argv("get", ours.name, copy)))), timeout=600)
    if done.returncode or head(ours) != head(copy):
        raise RuntimeError(f"git clone: {done.stderr}")
    return float(done.stdout)


def measure(scene: ssh.Scene, what: str, how: Callable[[Argv], Argv], server: str) -> dict[str, Any]:
    where = openssh.prefix(ssh.VERSION, True)
    scheme, way = what.split()
    with ssh.link(scene) as p, contextlib.ExitStack() as stack:
        ssh.LIMITED.of_ends(p)
        stack.enter_context(SERVERS[server](p))
        for side in "ab":
            p.route(side, congctl=scene.cc)
        with openssh.pair(p, where, where) as client:
            ssh.fill(scene, client.place.folder / "there")
            if what in CLONE:
                return {"seconds": clone(client, how)}
            big, copy = client.place.folder / "there" / "big", client.place.folder / "here" / "copy"
            if way == "put":
                big, copy = copy, client.place.folder / "there" / "copy"
                (client.place.folder / "there" / "big").rename(big)
            curl = {"sftp": strangers.CurlSftp, "scp": strangers.Curl}[scheme](client)
            file = copy if way == "get" else big
            argv = [*how(curl.argv(way, "big" if way == "get" else "copy", file)), "-w", "%{stderr}%{time_pretransfer} %{time_total}"]
            done = p.run("a", list(map(str, argv)), timeout=600)
            if done.returncode or not filecmp.cmp(big, copy, shallow=False):
                raise RuntimeError(f"{what}: {done.stderr}")
            login, total = map(float, done.stderr.split())
    return {"seconds": total - login}


def title(scene: ssh.Scene, server: str) -> str:
    return ", ".join(filter(None, (scene.title(), server)))


def rows(scene: ssh.Scene, runs: Kept, times: int, server: str) -> list[list[str]]:
    def mbit(seconds: list[float]) -> float:
        return scene.mb * MB * 8 / 1e6 / statistics.median(seconds)

    bulks = [ssh.get(runs, f"{scene.title()} | bulk | {i}", lambda: ssh.bulk(scene))["seconds"]
             for i in range(times if scene.bulk else 0)]
    build = digest_with("openssh-patch", "libssh2-patch", "curl-patch")
    plain = f"{mbit(bulks):.0f}" if bulks else ""
    table = []
    for what in scene.what:
        taken: dict[str, list[float]] = {name: [] for name in WAYS}
        for i in range(times):
            for name, how in WAYS.items():
                taken[name].append(ssh.get(runs, f"{title(scene, server)} | {what} | {name} | {i}",
                                           lambda: measure(scene, what, how, server), build)["seconds"])
        base, *others = map(mbit, taken.values())
        table.append([what, f"{base:.1f}", *(text for rate in others for text in (f"{rate:.1f}", f"{rate / base:.2f}")), plain])
    return table


def run(quick: bool, out: pathlib.Path) -> None:
    name = "curl-quick" if quick else "curl"
    runs = Kept(out / f"{name}.jsonl")
    text, chart = f"# curl with libssh2, sshd {ssh.VERSION}: medians\n\n{report.machine()}, Linux 6.18's limits\n", []
    with ssh.LIMITED.of_machine():
        for scene, server in [*((scene, "") for scene in SCENES), *((SCENES[0]._replace(bulk=False), server) for server in SERVERS if server)]:
            table = rows(scene, runs, 1 if quick else scene.times, server)
            text += f"\n## {title(scene, server)}\n\n" + report.table(
                ["what", "alone, Mbit/s", "autobuf run", "/ alone", "patched", "/ alone", "plain TCP"], table)
            if scene.mbit == SCENES[0].mbit:
                chart += [[f"{what}, {server or 'stock server'}", alone, run, patched] for what, alone, run, _, patched, *_ in table]
    (out / f"{name}.md").write_text(text)
    report.bars(out / f"{name}.svg", f"{SCENES[0].mbit} Mbit/s x {SCENES[0].rtt_ms} ms, cubic", tuple(WAYS), chart)
    print(text)
