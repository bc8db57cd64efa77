# SPDX-License-Identifier: MIT
"""Debian's kernels, as packages: which there are (LIST), and their files in a cache folder.

The archives are those that this system's apt configuration names; lists and sources are private ones, the
system's are not touched. apt checks the signature of each suite, and by it each package.
"""
from __future__ import annotations

import fnmatch
import pathlib
import re
import shutil
import subprocess
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
FLAVOUR = "cloud-amd64"


class Missing(Exception):
    """A kernel that cannot be had; says why."""


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


def uri_of(suite: str) -> str:
    """Where this system's apt has the distribution, or its security fixes."""
    said = subprocess.run(["apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI) $(ORIGIN)",
                           "Created-By: Packages"], capture_output=True, text=True, check=True).stdout
    known = [line.split() for line in said.splitlines()]
    security = suite.endswith("-security")
    for words in known:
        if (words[1] == "main" and words[0].endswith("-security") == security
                and (len(words) < 4 or words[3] == "Debian" or words[3].startswith("$"))):
            return words[2]
    raise Missing(f"apt's configuration names no archive for {suite}")


class Archive:
    """Private lists of some suites."""

    def __init__(self, cache: pathlib.Path, suites: tuple[str, ...]) -> None:
        self.folder = cache / "apt" / "+".join(suites)
        for name in ("lists/partial", "cache/archives/partial", "parts", "deb"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        if not pathlib.Path(KEYS).is_file():
            raise Missing(f"no {KEYS} (package debian-archive-keyring)")
        self.folder.joinpath("sources.list").write_text("".join(
            f"deb [arch=amd64 signed-by={KEYS}] {uri_of(suite)} {suite} main\n" for suite in suites))
        self.apt("apt-get", "update")

    def apt(self, program: str, *args: str, check: bool = False) -> str:
        options = {"Dir::Etc::sourcelist": "sources.list", "Dir::Etc::sourceparts": "parts",
                   "Dir::State::lists": "lists", "Dir::Cache": "cache"}
        done = subprocess.run([program, "-qq", *(f"-o{key}={self.folder / value}" for key, value in options.items()),
                               "-oAPT::Sandbox::User=root", "-oAcquire::Languages=none", *args],
                              cwd=self.folder / "deb", capture_output=True, text=True)
        if check and done.returncode:
            raise Missing(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"{program} failed")
        return done.stdout

    def versions(self) -> list[str]:
        names = self.apt("apt-cache", "pkgnames", "linux-image-").split()
        found = [match[1] for name in names if (match := re.fullmatch(rf"linux-image-(\d.*)-{FLAVOUR}", name))]
        return sorted((v for v in found if "." in v[2:]), key=lambda v: [int(n) for n in re.findall(r"\d+", v)])

    def download(self, version: str) -> list[pathlib.Path]:
        """The packages that together hold the kernel: from 6.19 on the image is in parts."""
        there = set(self.apt("apt-cache", "pkgnames", "linux-").split())
        names = [f"linux-{part}-{version}-{FLAVOUR}" for part in ("binary", "modules", "image")]
        if names[0] not in there:
            names = names[2:]
        gone = [name for name in names if name not in there]
        if gone:  # an archive keeps some parts of an old kernel longer than others
            raise Missing(f"the archive has no {', '.join(gone)}")
        self.apt("apt-get", "download", *names, check=True)
        return sorted(file for name in names for file in (self.folder / "deb").glob(f"{name}_*.deb"))


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


def fetch(want: Wanted, cache: pathlib.Path) -> Kernel:
    """A kernel of LIST, from the cache if it is there; raises Missing."""
    folder = cache / "kernels"
    stamp = folder / f"{want.name}.version"
    if not stamp.is_file():
        archive = Archive(cache, want.suites)
        fitting = [v for v in archive.versions() if fnmatch.fnmatch(v.partition("+")[0].partition("-")[0], want.version)]
        if not fitting:
            raise Missing(f"no {want.version} in {', '.join(want.suites)}")
        version, place = fitting[-1], folder / fitting[-1]
        if not (place / "vmlinuz").is_file():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            unpack(archive.download(version), place)
        stamp.write_text(version)
    version = stamp.read_text()
    return Kernel(want.name, version, folder / version)
