# SPDX-License-Identifier: MIT
"""Debian's curl with libssh2, alone and under `autobuf run`, with an unpatched sshd; a plain TCP transfer beside it.

The ways of a scene run in turn, each on a path of its own. Linux 6.18's limits. A rate is that of the copy, without the
login. Files are in memory, and compared.
"""
from __future__ import annotations

import filecmp
import pathlib
import statistics
from typing import Any

import path
import report
import ssh
from kept import Kept

import openssh
import strangers

MB = 1 << 20
RUN = (path.built("tools/autobuf"), "run", "--")
WAYS = {"alone": (), "autobuf run": RUN}
GETS, PUT = ("sftp get", "scp get"), ("sftp put",)
SCENES = (ssh.Scene(400, 100, 2, 200, GETS, (), True), ssh.Scene(400, 100, 2, 40, PUT, ()),
          ssh.Scene(100, 20, 2, 100, GETS + PUT, ()), ssh.Scene(1000, 0.5, 8, 400, GETS + PUT, (), times=5))


def measure(scene: ssh.Scene, what: str, wrap: tuple[str, ...]) -> dict[str, Any]:
    where = openssh.prefix(ssh.VERSION, True)
    scheme, way = what.split()
    with ssh.link(scene) as p:
        ssh.LIMITED.of_ends(p)
        for side in "ab":
            p.route(side, congctl=scene.cc)
        with openssh.pair(p, where, where) as client:
            ssh.fill(scene, client.place.folder / "there")
            big, copy = client.place.folder / "there" / "big", client.place.folder / "here" / "copy"
            if way == "put":
                big, copy = copy, client.place.folder / "there" / "copy"
                (client.place.folder / "there" / "big").rename(big)
            curl = {"sftp": strangers.CurlSftp, "scp": strangers.Curl}[scheme](client)
            file = copy if way == "get" else big
            argv = [*wrap, *map(str, curl.argv(way, "big" if way == "get" else "copy", file)),
                    "-w", "%{stderr}%{time_pretransfer} %{time_total}"]
            done = p.run("a", argv, timeout=600)
            if done.returncode or not filecmp.cmp(big, copy, shallow=False):
                raise RuntimeError(f"{what}: {done.stderr}")
            login, total = map(float, done.stderr.split())
    return {"seconds": total - login}


def rows(scene: ssh.Scene, runs: Kept, times: int) -> list[list[str]]:
    def mbit(seconds: list[float]) -> float:
        return scene.mb * MB * 8 / 1e6 / statistics.median(seconds)

    bulks = [ssh.get(runs, f"{scene.title()} | bulk | {i}", lambda: ssh.bulk(scene))["seconds"]
             for i in range(times if scene.bulk else 0)]
    plain = f"{mbit(bulks):.0f}" if bulks else ""
    table = []
    for what in scene.what:
        taken: dict[str, list[float]] = {name: [] for name in WAYS}
        for i in range(times):
            for name, wrap in WAYS.items():
                taken[name].append(ssh.get(runs, f"{scene.title()} | {what} | {name} | {i}",
                                           lambda: measure(scene, what, wrap))["seconds"])
        alone, run_rate = map(mbit, taken.values())
        table.append([what, f"{alone:.1f}", f"{run_rate:.1f}", f"{run_rate / alone:.2f}", plain])
    return table


def run(quick: bool, out: pathlib.Path) -> None:
    name = "curl-quick" if quick else "curl"
    runs = Kept(out / f"{name}.jsonl")
    text = f"# curl with libssh2, sshd {ssh.VERSION}: medians\n\n{report.machine()}, Linux 6.18's limits\n"
    with ssh.LIMITED.of_machine():
        for scene in SCENES:
            text += f"\n## {scene.title()}\n\n" + report.table(
                ["what", "alone, Mbit/s", "autobuf run", "/ alone", "plain TCP"], rows(scene, runs, 1 if quick else scene.times))
    (out / f"{name}.md").write_text(text)
    print(text)
