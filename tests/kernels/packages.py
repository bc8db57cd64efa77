# SPDX-License-Identifier: MIT
"""Debian's kernels, as packages: which there are (LIST), and their files (tests/cache.py)."""
from __future__ import annotations

import fnmatch
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent))

import cache  # noqa: E402
from archive import Archive, Missing  # noqa: E402

FLAVOUR = "cloud-amd64"
FRESH_S = 7 * 86400
"""For so long nobody asks the archive for a newer one."""


class Wanted(NamedTuple):
    """A line of LIST."""
    name: str
    version: str
    """A shell pattern."""
    suites: tuple[str, ...]
    quick: bool


def wanted() -> dict[str, Wanted]:
    found = {}
    for line in (HERE / "LIST").read_text().splitlines():
        words = line.partition("#")[0].split()
        if words:
            found[words[0]] = Wanted(words[0], words[1], tuple(words[2].split(",")), "quick" in words[3:])
    return found


class Kernel(NamedTuple):
    name: str
    version: str
    folder: pathlib.Path
    """With vmlinuz and modules/, an ordinary lib/modules/VERSION."""

    @property
    def number(self) -> tuple[int, ...]:
        return tuple(map(int, re.findall(r"\d+", self.version.partition("-")[0])))


def versions(archive: Archive) -> list[str]:
    names = archive.names("linux-image-")
    found = [match[1] for name in names if (match := re.fullmatch(rf"linux-image-(\d.*)-{FLAVOUR}", name))]
    return sorted((v for v in found if "." in v[2:]), key=lambda v: [int(n) for n in re.findall(r"\d+", v)])


def download(archive: Archive, version: str) -> list[pathlib.Path]:
    """The packages that together hold the kernel: from 6.19 on the image is in parts."""
    there = set(archive.names("linux-"))
    names = [f"linux-{part}-{version}-{FLAVOUR}" for part in ("binary", "modules", "image")]
    if names[0] not in there:
        names = names[2:]
    gone = [name for name in names if name not in there]
    if gone:  # an archive keeps some parts of an old kernel longer than others
        raise Missing(f"the archive has no {', '.join(gone)}")
    return archive.download(*names)


def unpack(packages: list[pathlib.Path], folder: pathlib.Path) -> None:
    """vmlinuz and modules/ of a kernel, modules uncompressed, as its modprobe finds them."""
    tree = folder / "tree"
    for package in packages:
        subprocess.run(["dpkg-deb", "-x", package, tree], check=True)
    modules = next(iter(sorted(tree.glob("**/lib/modules/*/kernel")))).parent
    image = next(iter([*tree.glob("boot/vmlinuz-*"), *modules.glob("vmlinuz")]))
    shutil.move(image, folder / "image")
    (folder / "lib" / "modules").mkdir(parents=True)
    shutil.move(modules, folder / "lib" / "modules" / modules.name)
    shutil.rmtree(tree)
    packed = list(folder.glob("lib/modules/**/*.ko.xz"))
    if packed:
        subprocess.run(["xz", "-d", *packed], check=True)
    subprocess.run(["depmod", "-b", folder, modules.name], check=True, capture_output=True)
    (folder / "image").rename(folder / "vmlinuz")  # the last act: it is whole


def newest(archive: Archive, want: Wanted) -> str:
    fitting = [v for v in versions(archive) if fnmatch.fnmatch(v.partition("+")[0].partition("-")[0], want.version)]
    if not fitting:
        raise Missing(f"no {want.version} in {', '.join(want.suites)}")
    return fitting[-1]


def fetch(want: Wanted) -> Kernel:
    """A kernel of LIST, as it was kept in the last week, or as the archive has it; raises Missing."""
    stamp = cache.folder() / f"kernel-{want.name}.version"
    known = stamp.read_text() if stamp.is_file() else ""
    if known and time.time() - stamp.stat().st_mtime < FRESH_S:
        return Kernel(want.name, known, kept(want, known))
    with tempfile.TemporaryDirectory(prefix="autobuf-tests.") as folder:
        try:
            archive = Archive(pathlib.Path(folder), want.suites)
            version = newest(archive, want)
            kernel = Kernel(want.name, version, kept(want, version, archive))
        except Missing:  # it may have been removed, or there is no network
            if not known:
                raise
            return Kernel(want.name, known, kept(want, known))
    stamp.write_text(version)
    return kernel


def kept(want: Wanted, version: str, archive: Archive | None = None) -> pathlib.Path:
    def make(place: pathlib.Path) -> None:
        with tempfile.TemporaryDirectory(prefix="autobuf-tests.") as folder:
            unpack(download(archive or Archive(pathlib.Path(folder), want.suites), version), place)

    return cache.kept(f"kernel-{version}", cache.digest(["1"]), make)
