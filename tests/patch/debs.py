# SPDX-License-Identifier: MIT
"""The packages of the patched OpenSSH, kept below the build folder."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys

PATCHES = pathlib.Path(__file__).resolve().parents[2] / "openssh-patch"
sys.path.append(str(PATCHES.parent / "tests" / "packages"))

from roots import HERE, TOP, Root, digest, kept  # noqa: E402

from path import build_folder  # noqa: E402  the folder is on the path by now

DEB = PATCHES / "deb"


def folder(suite: str, replace: bool = False) -> pathlib.Path:
    """Where the packages for a release are kept, or those for this system."""
    return build_folder() / "packages" / (suite + "-replace" * replace)


def shares(suite: str = HERE) -> dict[str, pathlib.Path]:
    """What a root needs in which they are made or installed."""
    return {"/packages": folder(suite), "/packages-replace": folder(suite, True)}


def state() -> str:
    """Changes with whatever packages are made of, but for the distribution's source."""
    files = [file for file in PATCHES.rglob("*") if file.is_file() and file.name != "README.md"]
    return digest(*files, TOP / "meson.build", *(file for file in (TOP / "lib").rglob("*.*") if file.is_file()),
                  *(TOP / "include").rglob("*.h"))


def packages(root: Root | None = None, replace: bool = False) -> dict[str, pathlib.Path]:
    """The packages by their names, for this system or for a root, where they are made if there are none of this state."""
    where = folder(root.suite if root else HERE, replace)
    options = ["--replace"] * replace

    def make() -> subprocess.CompletedProcess:
        if root:
            return root.run("/src/openssh-patch/deb", *options, "/packages" + "-replace" * replace,
                            AUTOBUF_SOURCES="/sources")
        env = os.environ | {"AUTOBUF_SOURCES": str(build_folder() / "sources")}
        return subprocess.run([DEB, *options, where], env=env, capture_output=True, text=True)

    return {file.name.split("_")[0]: file for file in kept(where, state(), make) if file.suffix == ".deb"}
