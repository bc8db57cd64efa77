# SPDX-License-Identifier: MIT
"""Root file systems in memory, to make packages in and to install them.

    with Root(over="/", shares={"/packages": folder}) as root:
        root.well("dpkg", "--install", "/packages/autobuf-ssh_1_amd64.deb")
        path.run("a", root.argv("autobuf-ssh", "-V"))

A root is in mount and process namespaces of its own. It is gone, with all processes in it, when the process is that
made it, however that ends. On the disk is only what a later run need not make again, below the build folder: packages,
and each release as debootstrap installs it.
"""
from __future__ import annotations

import hashlib
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests" / "net")]

import cache  # noqa: E402
from path import build_folder, wait_line  # noqa: E402

ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
               "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}


def release() -> str:
    """The name of the release of Debian that this is."""
    found = re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(), re.M)
    return found[1] if found else ""


HERE = "here"
"""This system, which may not be as new as a root of its release."""


def of_build() -> dict[str, str]:
    """The environment of a build, whose tests are the usual ones: all of them take ten minutes each time."""
    return {name: value for name, value in os.environ.items() if name != "AUTOBUF_TESTS_ALL"}


def lintian(*args: str | pathlib.Path) -> subprocess.CompletedProcess:
    """What this system's lintian says. It leaves temporary files behind, so it has a folder for them that is removed."""
    with tempfile.TemporaryDirectory(prefix="autobuf-tests.") as where:
        return subprocess.run(["lintian", "--allow-root", *args], capture_output=True, text=True, env=os.environ | {"TMPDIR": where})


def digest(*files: pathlib.Path) -> str:
    """Changes with any of the files."""
    found = hashlib.sha256()
    for file in sorted(files):
        found.update(str(file).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()


def kept(where: pathlib.Path, state: str, make: Callable[[], subprocess.CompletedProcess]) -> list[pathlib.Path]:
    """What is in a folder, made anew if it is of another state. RuntimeError with what was said if that fails."""
    stamp = where / "state"
    where.mkdir(parents=True, exist_ok=True)
    if not (stamp.is_file() and stamp.read_text() == state):
        for file in where.iterdir():
            file.unlink()
        done = make()
        if done.returncode:
            raise RuntimeError((done.stdout + done.stderr)[-4000:])
        (where / "said").write_text(done.stdout + done.stderr)
        stamp.write_text(state)
    return sorted(where.iterdir())


def next_version(file: pathlib.Path, into: pathlib.Path, conffile: str = "", version: str = "") -> pathlib.Path:
    """The same package with a higher version, and a line more in one of its configuration files."""
    tree = into / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    subprocess.run(["dpkg-deb", "--raw-extract", file, tree], check=True)
    control = tree / "DEBIAN" / "control"
    text = control.read_text()
    now = re.search(r"^Version: (.*)$", text, re.M)[1]
    control.write_text(text.replace(now, version or f"{now}.1"))  # where packages depend on each other, too
    if conffile:
        with (tree / conffile).open("a") as out:
            out.write("# one line more\n")
    made = into / f"{file.name.split('_')[0]}-next.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, made], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(tree)
    return made


def mirrors() -> dict[str, str]:
    """Where this system's apt finds its release, and its security fixes if it reads them; whether it has their lists or not."""
    found: dict[str, str] = {}
    for options in ([], ["--no-release-info"]):  # only a list that was read tells which release "stable" is
        done = subprocess.run(["apt-get", "indextargets", *options, "--format", "$(COMPONENT) $(REPO_URI) $(RELEASE) $(CODENAME)",
                               "Created-By: Packages"], capture_output=True, text=True, check=True)
        for component, address, *names in map(str.split, done.stdout.splitlines()):
            if address.startswith("mirror+file:"):  # a list of them, as in Debian's cloud images, which debootstrap cannot read
                address = pathlib.Path(address.removeprefix("mirror+file:").rstrip("/")).read_text().split()[0]
            if component == "main":
                found = dict.fromkeys(names, address) | found
    name = release()
    if not name or name not in found:
        raise RuntimeError(f"the system's apt names no archive of Debian's release {name or '(none)'}")
    return {suffix: found[name + suffix] for suffix in ("", "-security") if name + suffix in found}


NEVER_RELEASED = ("sid", "unstable")
"""They have no suite of security fixes."""
UNTOLD = {"/proc", "/dev", "/run", "/tmp", "/src", "/sources", "/packages", "/var/log", "/var/cache", "/var/lib/apt", "/root",
          "/home"}
UNTOLD_OF_DPKG = tuple(f"/var/lib/dpkg/{name}" for name in ("alternatives", "available", "lock", "status", "triggers",
                                                            "updates"))
"""Folders and files that any installation changes."""


def is_removed(name: str) -> bool:
    """Of the upper folder of an overlay: the lower one has it."""
    found = os.lstat(name)
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


class Root:
    """over: a folder that is seen through, and not changed. Otherwise suite is installed by debootstrap.

    In each: /src, the project, read-only; /sources, what was fetched of the archive; and shares, folders of this system
    by their names in the root.
    """

    def __init__(self, over: str = "", suite: str = "", shares: Mapping[str, pathlib.Path] | None = None) -> None:
        self.over, self.suite, self.shares = over, suite or HERE, shares or {}
        self.memory = build_folder() / "root"
        """Where its memory is mounted: for nobody else, so always the same."""
        self.root = self.memory / "root"
        self.keeper: subprocess.Popen | None = None

    def __enter__(self) -> Root:
        self.memory.mkdir(parents=True, exist_ok=True)
        script = 'mount -t tmpfs -o mode=755 root "$0" && echo ready && exec cat'
        self.keeper = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child",
             "sh", "-c", script, self.memory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/")
        wait_line(self.keeper, lambda line: line == "ready")
        self.pid = int(pathlib.Path(f"/proc/{self.keeper.pid}/task/{self.keeper.pid}/children").read_text())
        try:
            self.fill()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.keeper.kill()
        self.keeper.communicate()

    def enter(self, *cmd: object) -> list[str]:
        """A command that sees the memory, and is not in the root. Without --root it would leave a chroot in which this runs: the
        root folder of a mount namespace is the system's."""
        return ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--root", "--wd", "--", *map(str, cmd)]

    def outside(self, script: str, *args: object, tells: bool = False) -> None:
        """A script that sees the memory, and is not in the root. tells: what it does, or what was wrong, on standard error."""
        done = subprocess.run(self.enter("sh", "-ec", script, TOP, *args), stdout=subprocess.PIPE,
                              stderr=None if tells else subprocess.STDOUT, text=True)
        if done.returncode:
            raise RuntimeError(f"{script}: {done.stdout[-4000:]}")

    def see_through(self, lower: str) -> None:
        self.outside('cd "$2"; mkdir root up work; '
                     'mount -t overlay root -o "lowerdir=$1,upperdir=up,workdir=work" root', lower, self.memory)

    def fill(self) -> None:
        if self.over:
            self.see_through(self.over)
        else:
            bare = build_folder() / "packages" / f"{self.suite}.tar"
            bare.parent.mkdir(exist_ok=True)
            with cache.alone("debootstrap"):
                if not bare.exists():
                    self.outside('"$0/scripts/quietly" debootstrap --variant=minbase "$1" "$2/base" "$3" && '
                                 'tar -C "$2" --one-file-system -cf "$4.new" base && mv "$4.new" "$4"',
                                 self.suite, self.memory, mirrors()[""], bare, tells=True)
                else:
                    self.outside('tar -C "$1" -xpf "$2"', self.memory, bare)
            self.see_through(f"{self.memory}/base")
        self.mount()
        if not self.over:
            self.configure()

    def mount(self) -> None:
        """What every root has, and the folders that it shares."""
        self.outside('cd "$1"; mkdir -p proc dev run tmp src sources; '
                     'mount -t proc proc proc; mount --rbind /dev dev; mount -t tmpfs -o mode=755 run run; '
                     'mount -t tmpfs -o mode=1777 tmp tmp; mkdir -p run/lock; '
                     'mount --bind "$2" src; mount -o remount,ro,bind src; mount --bind "$3" sources',
                     self.root, TOP, self.sources())
        for name, folder in self.shares.items():
            folder.mkdir(parents=True, exist_ok=True)
            self.outside('mkdir -p "$1"; mount --bind "$2" "$1"', f"{self.root}{name}", folder)

    @staticmethod
    def sources() -> pathlib.Path:
        where = build_folder() / "sources"
        where.mkdir(parents=True, exist_ok=True)
        return where

    def configure(self) -> None:
        """apt, as this system's has it, for the root's release."""
        lines = [f"deb {address} {self.suite}{suffix} main" for suffix, address in mirrors().items()
                 if not suffix or self.suite not in NEVER_RELEASED]
        self.write("/etc/apt/sources.list", "\n".join(lines) + "\n")
        dump = subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=True).stdout
        self.write("/etc/apt/apt.conf.d/99tests", "".join(
            line + "\n" for line in dump.splitlines() if re.match(r"Acquire::(Check-|https?::Proxy)", line)))
        self.well("apt-get", "-qq", "update")

    def fresh(self) -> None:
        """The root as it was at first."""
        self.outside('umount -R "$1/root"; rm -rf "$1/root" "$1/up" "$1/work"', self.memory)
        self.see_through(self.over or f"{self.memory}/base")
        self.mount()
        if not self.over:
            self.configure()

    # -- inside --

    def argv(self, *cmd: object, **env: str) -> list[str]:
        """A command in the root, for whatever network namespace it is started in."""
        words = [f"{name}={value}" for name, value in (ENVIRONMENT | env).items()]
        return self.enter("chroot", self.root, "env", "-i", *words, *cmd)

    def run(self, *cmd: object, **env: str) -> subprocess.CompletedProcess:
        return subprocess.run(self.argv(*cmd, **env), capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def well(self, *cmd: object, **env: str) -> str:
        """What a command says that has to succeed."""
        done = self.run(*cmd, **env)
        if done.returncode:
            raise AssertionError(f"{' '.join(map(str, cmd))}: {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def sh(self, script: str) -> str:
        return self.well("sh", "-ec", script)

    def write(self, name: str, data: str | bytes) -> None:
        subprocess.run(self.argv("sh", "-c", 'cat >"$0"', name), check=True,
                       input=data.encode() if isinstance(data, str) else data)

    def read(self, name: str) -> bytes:
        return subprocess.run(self.argv("cat", name), capture_output=True, check=True).stdout

    def files(self) -> list[str]:
        """Every file that a package could leave behind, and, with "gone:" before it, every one that it has removed. What
        happens below the root meanwhile does not count."""
        seen = pathlib.Path(f"/proc/{self.pid}/root")
        upper, lower = f"{seen}{self.memory}/up", f"{seen}{self.over.rstrip('/') if self.over else f'{self.memory}/base'}"
        found = self.sh("find /run -name '*autobuf*'").splitlines()
        for folder, folders, files in os.walk(upper):
            place = folder.removeprefix(upper)
            folders[:] = [name for name in folders if f"{place}/{name}" not in UNTOLD and name != "__pycache__"]
            for name in (*folders, *files):
                if name.endswith(("-", "-old")) or f"{place}/{name}".startswith(UNTOLD_OF_DPKG):
                    continue
                if is_removed(f"{folder}/{name}"):
                    found.append(f"gone:{place}/{name}")
                elif not os.path.lexists(f"{lower}{place}/{name}"):
                    found.append(f"{place}/{name}")
        return sorted(found)
