# SPDX-License-Identifier: MIT
"""The programs of examples/sftp whose libraries are here, with --stock and sized, with an unpatched and a patched sshd; a plain TCP
transfer beside them.

The ways of a scene run in turn, each on a path of its own. Linux 6.18's limits. A rate is that of the copy, without the
login: the time of an empty file on the same path is taken off. Files are in memory, and compared.
"""
from __future__ import annotations

import filecmp
import os
import pathlib
import statistics
import subprocess
import time
from typing import Any

import report
import ssh
from kept import Kept, digest_with

import openssh
import recipes
from strangers import Missing

MB = 1 << 20
WAYS = ("get", "put")
SCENES = (ssh.Scene(400, 100, 2, 100, WAYS, (), True), ssh.Scene(100, 20, 2, 100, WAYS, (), True))
QUICK_MB = 40
SLOW_MB = 4
"""Of an upload that waits for each answer before it asks for more: 2.6 Mbit/s over 100 ms."""


def here() -> dict[str, recipes.Recipe]:
    found = {}
    for name, kind in recipes.RECIPES.items():
        try:
            found[name] = kind()
        except Missing as missing:
            print(f"{name} is left out: {missing}", flush=True)
    return found


def measure(scene: ssh.Scene, recipe: recipes.Recipe, what: str, stock: bool, server_stock: bool, mb: int) -> dict[str, Any]:
    where = openssh.prefix(ssh.VERSION, server_stock)
    with ssh.link(scene) as p:
        ssh.LIMITED.of_ends(p)
        for side in "ab":
            p.route(side, congctl=scene.cc)
        with openssh.pair(p, where, where) as client:
            folder = client.place.folder
            sizes = ["--stock"] if stock else ["--bdp", int(scene.mbit * scene.rtt_ms * 125)]

            def copy(name: str) -> float:
                source, target = (folder / side / f"{name}-{side}" for side in (("there", "here") if what == "get" else ("here", "there")))
                source.write_bytes(os.urandom(mb * MB) if name == "big" else b"")
                near, far = (target, source) if what == "get" else (source, target)
                argv = recipe.argv("--accept-any-host", "--key", folder / "key", *sizes, what, client.remote(far.name), near)
                began = time.monotonic()
                done = p.run("a", argv, timeout=900, env=os.environ | {"HOME": str(folder)})
                took = time.monotonic() - began
                if done.returncode or not filecmp.cmp(source, target, shallow=False):
                    raise RuntimeError(f"{what}: {done.stderr}")
                return took

            login = copy("empty")
            total = copy("big")
    if total <= login:
        raise RuntimeError(f"{what}: this machine is too busy: the login took {login:.1f} s, a copy with its own {total:.1f} s")
    return {"seconds": total - login, "mbit": mb * MB * 8 / 1e6 / (total - login), "login_s": login}


def rows(scene: ssh.Scene, runs: Kept, times: int, server_stock: bool, found: dict[str, recipes.Recipe]) -> list[list[str]]:
    table, build = [], digest_with("openssh-patch", "examples/sftp")
    for name, recipe in found.items():
        row = [name]
        for what in WAYS:
            rates: dict[bool, list[float]] = {True: [], False: []}
            for i in range(times):
                for stock in rates:
                    mb = SLOW_MB if stock and what == "put" and recipe.waits else scene.mb
                    title = f"{scene.title()} | {server_stock} | {name} | {what} | {stock} | {i}"
                    try:
                        rates[stock].append(ssh.get(runs, title, lambda: measure(scene, recipe, what, stock, server_stock, mb), build)["mbit"])
                    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                        print(f"{title} has failed: {error}", flush=True)
            before, after = (statistics.median(some) if some else 0 for some in rates.values())
            row += [f"{rate:.1f}" if rate else "failed" for rate in (before, after)] + [f"{after / before:.2f}" if before else ""]
        table.append(row)
    return table


def run(quick: bool, out: pathlib.Path) -> None:
    file = "sftp-quick" if quick else "sftp"
    runs, found = Kept(out / f"{file}.jsonl"), here()
    text = f"# SFTP libraries, sshd {ssh.VERSION}: medians, Mbit/s\n\n{report.machine()}, Linux 6.18's limits\n"
    with ssh.LIMITED.of_machine():
        for scene in SCENES:
            scene = scene._replace(mb=QUICK_MB) if quick else scene
            times = 1 if quick else scene.times
            bulks = [ssh.get(runs, f"{scene.title()} | bulk | {i}", lambda: ssh.bulk(scene))["seconds"] for i in range(times)]
            plain = scene.mb * MB * 8 / 1e6 / statistics.median(bulks)
            for server_stock in (True, False):
                server = "an unpatched" if server_stock else "a patched"
                text += f"\n## {scene.title()}, {server} sshd; plain TCP {plain:.0f}\n\n" + report.table(
                    ["library", "get --stock", "sized", "/ stock", "put --stock", "sized", "/ stock"], rows(scene, runs, times, server_stock, found))
                (out / f"{file}.md").write_text(text)
    print(text)
