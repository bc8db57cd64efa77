#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""own_root.py COMMAND...: runs it where mounts can be private. As root.

In a chroot whose root folder is not where something is mounted, unshare --mount fails: it makes the mounts of its namespace private,
beginning with the one at /, and there is none at this /. So here that is done from the outside, in a namespace of the command's own,
and the root folder is mounted onto itself. Elsewhere nothing is changed.
"""
from __future__ import annotations

import ctypes
import os
import subprocess
import sys

CLONE_NEWNS = 0x20000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 1 << 18


def call(name: str, *args: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*args) < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def mount_root() -> None:
    folder = os.getcwd()
    try:
        call("unshare", CLONE_NEWNS)
        root = os.open("/", os.O_PATH | os.O_CLOEXEC)
        with open("/proc/self/ns/mnt", "rb") as own:
            call("setns", own.fileno(), CLONE_NEWNS)
    except OSError as error:  # as a container may forbid
        print(f"own_root.py: {error.strerror}", file=sys.stderr)
        return
    # Outside now: the root folder of a mount namespace is the system's. Whatever fails before chroot() must end this process.
    call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    os.fchdir(root)
    name = os.getcwdb()
    call("mount", name, name, None, MS_BIND | MS_REC, None)
    os.chroot(name)
    os.chdir(folder)


def main() -> int:
    if len(sys.argv) < 2:
        print("usage: own_root.py COMMAND...", file=sys.stderr)
        return 2
    if os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode:
        mount_root()
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
