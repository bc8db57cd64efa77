# SPDX-License-Identifier: MIT
"""The programs of examples/sftp, each made with what is installed or was fetched before: nothing here fetches.

    recipe = RECIPES["paramiko"]()                       # Missing: its library or its tools are not here
    argv = recipe.argv("get", "user@host:name", file)    # and --key, --bdp and the like before the direction
"""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import strangers
from openssh import TOP
from strangers import PYTHON, Missing, find, quietly

from path import build_folder  # the folder is on the path by now

EXAMPLES = TOP / "examples" / "sftp"


def made() -> pathlib.Path:
    folder = build_folder() / "recipes"
    folder.mkdir(exist_ok=True, parents=True)
    return folder


class Recipe:
    program: list[object]
    waits = False
    """Whether the library's own upload has one request at a time."""

    def argv(self, *args: object) -> list[str]:
        return list(map(str, [*self.program, *args]))


class Python(Recipe):
    module: str

    def __init__(self) -> None:
        if subprocess.run([PYTHON, "-c", f"import {self.module}"], capture_output=True).returncode:
            raise Missing(f"not installed: python3-{self.module}")
        self.program = [PYTHON, EXAMPLES / f"sftp_{self.module}.py"]


class Paramiko(Python):
    module = "paramiko"


class Asyncssh(Python):
    module = "asyncssh"


class Go(Recipe):
    """With the modules that go.mod names, by the first go of PATH, which may be newer than Debian's; or else with Debian's packages."""

    waits = True

    def __init__(self) -> None:
        go = shutil.which("go") or find("go")[0]
        self.program = [made() / "sftp-go"]
        build = [go, "build", "-o", *self.program]
        try:
            quietly([*build, "."], cwd=EXAMPLES / "go", env=os.environ | {"GOPROXY": "off", "GOTOOLCHAIN": "local"})
        except RuntimeError:
            quietly([*build, "sftp.go"], cwd=EXAMPLES / "go", env=strangers.go_environment())


class Node(Recipe):
    """Debian has no ssh2."""

    def __init__(self) -> None:
        (node,) = find("node")
        folder = made() / "node"
        if not (folder / "node_modules" / "ssh2").is_dir():
            raise Missing(f"no ssh2: npm install --prefix {folder} ssh2")
        for name in ("package.json", "sftp.js"):
            shutil.copy(EXAMPLES / "node" / name, folder)
        self.program = [node, folder / "sftp.js"]


class Rust(Recipe):
    def __init__(self) -> None:
        (cargo,) = find("cargo")
        target = made() / "rust"
        if subprocess.run([cargo, "fetch", "--offline"], cwd=EXAMPLES / "rust", capture_output=True).returncode:
            raise Missing(f"no russh: cargo fetch in {EXAMPLES}/rust")
        quietly([cargo, "build", "--release", "--offline", "--target-dir", target], cwd=EXAMPLES / "rust")
        self.program = [target / "release" / "sftp"]


class Java(Recipe):
    def __init__(self) -> None:
        mvn, javac, java = find("mvn", "javac", "java")
        classes = made() / "java"
        path = classes / "path"
        resolve = [mvn, "-o", "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={path}"]
        if subprocess.run(resolve, cwd=EXAMPLES / "java", capture_output=True).returncode:
            raise Missing(f"no sshj: mvn dependency:build-classpath in {EXAMPLES}/java")
        quietly([javac, "-cp", path.read_text(), "-d", classes, "Sftp.java"], cwd=EXAMPLES / "java")
        self.program = [java, "-cp", f"{classes}:{path.read_text()}", "Sftp"]


RECIPES = {"paramiko": Paramiko, "asyncssh": Asyncssh, "Go": Go, "ssh2": Node, "russh": Rust, "sshj": Java}
