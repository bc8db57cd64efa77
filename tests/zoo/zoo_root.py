# SPDX-License-Identifier: MIT
"""Programs of Debian that move bulk data, unpatched, and a root file system with all of them for a machine of tests/kernels."""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in (".", "patch", "kernels", "packages")]

import cache  # noqa: E402
import ncftp  # noqa: E402
from machine import archive as pack  # noqa: E402
from roots import Root, release  # noqa: E402

SENDERS = ("nginx:sendfile", "nginx:write", "nginx:tls", "nginx:ktls", "apache:mmap", "apache:sendfile", "vsftpd", "proftpd",
           "rsync", "ssh:rsync", "ssh:scp", "python", "node", "caddy", "samba", "curl", "iperf3", "netcat", "socat")
UNREACHED = ("caddy",)
"""What is preloaded does not reach it: Go makes system calls itself."""
UNPACKED = ("vsftpd",)
"""Not installed: two servers of FTP exclude each other."""
MODULE = "proftpd:module"
"""Manages its own connections; another program must manage those of the others."""
PLACE = "/zoo"
"""Where the root is in the machine; below it, this folder is /zoo too."""


def zoo(program: str, what: str) -> str:
    return subprocess.run([HERE / "zoo", program, what], capture_output=True, text=True, check=True).stdout.strip()


def packages(programs: Iterable[str] = SENDERS) -> set[str]:
    return {package for program in programs for package in zoo(program, "packages").split()}


def fill(root: Root, installed: Iterable[str], unpacked: Iterable[str]) -> None:
    root.write("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n")  # no server is started by its installation
    root.sh("chmod +x /usr/sbin/policy-rc.d")
    root.well("apt-get", "-qq", "-y", "--no-install-recommends", "install", *installed)
    if unpacked:
        root.sh(f"cd /tmp; apt-get -qq download {' '.join(unpacked)}; "
                "for file in *.deb; do dpkg --fsys-tarfile $file | tar -C / -x --keep-directory-symlink; done")
    root.sh("sed -i 's,^nobody:.*,nobody:x:65534:65534::/:/bin/sh,' /etc/passwd; apt-get clean; "
            "rm -rf /var/lib/apt/lists/* /var/cache/* /usr/share/doc /usr/share/man /usr/share/locale /usr/share/info")


def root_archive(suite: str, wanted: set[str]) -> pathlib.Path:
    """A root with these packages as an initramfs for a machine, kept for a set of them."""
    def make(place: pathlib.Path) -> None:
        with Root(suite=suite) as root:
            fill(root, wanted - set(UNPACKED), wanted & set(UNPACKED))
            root.outside('cd "$1"; mkdir -p seen"$3"; mount --bind root seen"$3"; cd seen; '
                         'find ".$3" -xdev -print0 | cpio --quiet -0 -o -H newc >"$2"', root.memory, place / "root.cpio", PLACE)

    return cache.kept("zoo", cache.digest([suite, *sorted(wanted)], [HERE / "zoo_root.py"]), make) / "root.cpio"


def here_archive(folder: pathlib.Path, modules: Iterable[pathlib.Path] = ()) -> pathlib.Path:
    """This folder, for the root."""
    folder.mkdir(parents=True, exist_ok=True)
    here, new = folder / "here.cpio", folder / f"here.{os.getpid()}"
    with tempfile.TemporaryDirectory() as tree:
        there = pathlib.Path(tree) / PLACE.lstrip("/") / "zoo"
        shutil.copytree(HERE, there)
        (there / "modules").mkdir()
        for module in modules:
            shutil.copy(module, there / "modules")
        pack(pathlib.Path(tree), new)
    os.replace(new, here)  # another may be reading it
    return here


def archives(folder: pathlib.Path) -> tuple[pathlib.Path, ...]:
    """What a machine needs: the root, and in it this folder, with the module for ProFTPD."""
    return root_archive(release(), packages()), here_archive(folder, (ncftp.modules() / "mod_autobuf.so",))
