# SPDX-License-Identifier: MIT
"""libssh2 and curl, stock and patched, built once."""
from __future__ import annotations

import functools
import os
import pathlib

from openssh import TOP

import cache  # the folder is on the path by now
from archive import ran
from compiled import PLAIN

PATCHES, CURL = TOP / "libssh2-patch", TOP / "curl-patch"
VERSIONS = ("1.10.0", "1.11.1")


def made(kind: str, folder: pathlib.Path, files: list[pathlib.Path], *arguments: str | pathlib.Path, stock: bool) -> pathlib.Path:
    """Where a build is installed; made if there is none of this state."""
    flags = PLAIN.replace("-O0", "-O1")  # it enciphers what tests measure
    if not stock:
        files = [*files, TOP / "meson.build", *(file for file in (TOP / "lib").rglob("*.*") if file.is_file()),
                 *(TOP / "include").rglob("*.h")]
    state = cache.digest([kind, *map(str, arguments), str(stock), flags, cache.compiler(), str(cache.folder())], files)

    def make(place: pathlib.Path) -> None:
        ran(folder / "build", *["--stock"] * stock, *arguments, place / kind,
            env=os.environ | {"AUTOBUF_SOURCES": str(cache.sources()), "CFLAGS": flags})

    return cache.kept(kind + "-stock" * stock, state, make) / kind


@functools.cache
def prefix(version: str, stock: bool = False) -> pathlib.Path:
    own = PATCHES / version
    return made(f"libssh2-{version}", PATCHES,
                [PATCHES / "build", own / "UPSTREAM", *([] if stock else [*PATCHES.glob("autobuf*"), *PATCHES.glob("*.patch"), *own.glob("*.patch")])], version, stock=stock)


@functools.cache
def curl(stock: bool = False) -> pathlib.Path:
    """A program that finds a libssh2 in LD_LIBRARY_PATH, or that of the newest version."""
    return made("curl", CURL, [CURL / "build", CURL / "UPSTREAM", *([] if stock else CURL.glob("*.patch"))], prefix(VERSIONS[-1], stock),
                stock=stock) / "bin" / "curl"
