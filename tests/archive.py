# SPDX-License-Identifier: MIT
"""Packages of Debian's archive, of any suite and architecture, without an installation.

The archives are those that this system's apt configuration names; lists and sources are private ones, the
system's are not touched. apt checks the signature of each suite, and by it each package.
"""
from __future__ import annotations

import pathlib
import re
import subprocess
import unittest

KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Missing(unittest.SkipTest):
    """What cannot be had of the archive; says why. A case that needs it is skipped."""


UNREACHED = re.compile("cannot fetch|cannot read|no source of|names no archive|Could not resolve|Unable to fetch|Failed to fetch|Unable to locate")


def ran(*command: str | pathlib.Path, **kw) -> str:
    """What a command that makes something of the archive's told on standard error. Raises Missing if the archive is why it fails,
    RuntimeError otherwise."""
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **kw)
    if done.returncode:
        end = done.stderr.strip()[-1000:]
        raise Missing(end) if UNREACHED.search(end) else RuntimeError(f"{' '.join(map(str, command))}: {end}")
    return done.stderr


def uri_of(suite: str) -> str:
    """Where this system's apt has the distribution, or its security fixes; "": it knows no such archive."""
    said = subprocess.run(["apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI) $(ORIGIN)",
                           "Created-By: Packages"], capture_output=True, text=True, check=True).stdout
    known = [line.split() for line in said.splitlines()]
    security = suite.endswith("-security")
    for words in known:
        if (words[1] == "main" and words[0].endswith("-security") == security
                and (len(words) < 4 or words[3] == "Debian" or words[3].startswith("$"))):
            return words[2]
    return ""


class Archive:
    """Private lists of some suites, for one architecture."""

    def __init__(self, cache: pathlib.Path, suites: tuple[str, ...], architecture: str = "amd64") -> None:
        self.folder = cache / "apt" / "+".join(suites)
        self.architecture = architecture
        for name in ("lists/partial", "cache/archives/partial", "parts", "deb"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        if not pathlib.Path(KEYS).is_file():
            raise Missing(f"no {KEYS} (package debian-archive-keyring)")
        places = [(uri, suite) for suite in suites if (uri := uri_of(suite))]
        if not places:
            raise Missing(f"apt's configuration names no archive for {', '.join(suites)}")
        self.folder.joinpath("sources.list").write_text("".join(
            f"deb [arch={architecture} signed-by={KEYS}] {uri} {suite} main\n" for uri, suite in places))
        self.folder.joinpath("status").write_text("")  # what this system has installed does not matter
        self.apt("apt-get", "update")

    def apt(self, program: str, *args: str, check: bool = False) -> str:
        options = {"Dir::Etc::sourcelist": "sources.list", "Dir::Etc::sourceparts": "parts",
                   "Dir::State::lists": "lists", "Dir::State::status": "status", "Dir::Cache": "cache"}
        done = subprocess.run([program, "-qq", *(f"-o{key}={self.folder / value}" for key, value in options.items()),
                               f"-oAPT::Architecture={self.architecture}",
                               f"-oAPT::Architectures::={self.architecture}",
                               "-oAPT::Sandbox::User=root", "-oAcquire::Languages=none", *args],
                              cwd=self.folder / "deb", capture_output=True, text=True)
        if check and done.returncode:
            raise Missing(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"{program} failed")
        return done.stdout

    def names(self, prefix: str) -> list[str]:
        """Of the packages that there are."""
        return self.apt("apt-cache", "pkgnames", prefix).split()

    def download(self, *names: str) -> list[pathlib.Path]:
        """The files of packages, of their newest versions."""
        self.apt("apt-get", "download", *names, check=True)
        return sorted(file for name in names for file in (self.folder / "deb").glob(f"{name}_*.deb"))
