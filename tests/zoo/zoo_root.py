# SPDX-License-Identifier: MIT
"""Programs of Debian that move bulk data, unpatched, and a root file system with all of them for a machine of tests/kernels."""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in ("patch", "kernels", "packages")]

import ncftp  # noqa: E402
from machine import archive as pack  # noqa: E402
from roots import Root, release  # noqa: E402

SENDERS = ("nginx:sendfile", "nginx:write", "nginx:tls", "apache:mmap", "apache:sendfile", "vsftpd", "proftpd", "rsync",
           "ssh:rsync", "ssh:scp", "python", "node", "curl", "iperf3", "netcat", "socat")
UNPACKED = ("vsftpd",)
"""Not installed: two servers of FTP exclude each other."""
MODULE = "proftpd:module"
"""Looks after itself; the others need somebody who does."""
PLACE = "/zoo"
"""Where the root is in the machine; below it, this folder is /zoo too."""


def zoo(program: str, what: str) -> str:
    return subprocess.run([HERE / "zoo", program, what], capture_output=True, text=True, check=True).stdout.strip()


def packages() -> list[str]:
    return sorted({package for program in SENDERS for package in zoo(program, "packages").split()})


def fill(root: Root) -> None:
    root.write("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n")  # no server is started by its installation
    root.sh("chmod +x /usr/sbin/policy-rc.d")
    root.well("apt-get", "-qq", "-y", "--no-install-recommends", "install", *(set(packages()) - set(UNPACKED)))
    root.sh(f"cd /tmp; apt-get -qq download {' '.join(UNPACKED)}; "
            "for file in *.deb; do dpkg --fsys-tarfile $file | tar -C / -x --keep-directory-symlink; done")
    root.sh("sed -i 's,^nobody:.*,nobody:x:65534:65534::/:/bin/sh,' /etc/passwd; apt-get clean; "
            "rm -rf /var/lib/apt/lists/* /var/cache/* /usr/share/doc /usr/share/man /usr/share/locale /usr/share/info")


def root_archive(cache: pathlib.Path) -> pathlib.Path:
    """The root as an initramfs for a machine, made once for a set of packages."""
    made, stamp = cache / "root.cpio", cache / "root.packages"
    wanted = " ".join([release(), *packages()])
    if not (stamp.is_file() and stamp.read_text() == wanted):
        with Root(suite=release()) as root:
            fill(root)
            root.outside('cd "$1"; mkdir -p seen"$3"; mount --bind root seen"$3"; cd seen; '
                         'find ".$3" -xdev -print0 | cpio --quiet -0 -o -H newc >"$2.new"; mv "$2.new" "$2"',
                         root.memory, made, PLACE)
        stamp.write_text(wanted)
    return made


def archives(cache: pathlib.Path) -> tuple[pathlib.Path, ...]:
    """What a machine needs: the root, and in it this folder, with the module for ProFTPD."""
    cache.mkdir(parents=True, exist_ok=True)
    here = cache / "here.cpio"
    with tempfile.TemporaryDirectory() as folder:
        there = pathlib.Path(folder) / PLACE.lstrip("/") / "zoo"
        shutil.copytree(HERE, there)
        (there / "modules").mkdir()
        shutil.copy(ncftp.modules() / "mod_autobuf.so", there / "modules")
        pack(pathlib.Path(folder), cache / f"here.{os.getpid()}")
    os.replace(cache / f"here.{os.getpid()}", here)  # another may be reading it
    return root_archive(cache), here
