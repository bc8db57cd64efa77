# SPDX-License-Identifier: MIT
"""What the tests of patched programs share: a folder in memory, and processes that go with a test."""
from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping

from path import Path, built, wait_listening  # the folder is on the path by now

ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
"""What a server's processes do not outlive, as long as the first of them keeps its credentials."""


HOSTS = "of-the-host"
OTHER_PORT = 7500


class MemoryFolder:
    """A folder in memory, named by the process that made it. What a killed run left is removed."""

    memory = pathlib.Path("/dev/shm")

    def __init__(self, kind: str) -> None:
        for left in self.memory.glob(f"autobuf-{kind}-*-*"):
            if not pathlib.Path("/proc", left.name.split("-")[2]).exists():
                shutil.rmtree(left, ignore_errors=True)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"autobuf-{kind}-{os.getpid()}-", dir=self.memory))
        self.folder.chmod(0o755)

    def own_etc(self, files: Mapping[str, str]) -> str:
        """How a script begins in a mount namespace of its own, for an /etc with these files in place of the host's. They are not mounted
        over those: who renames another file onto one, as whoever adds a user does, takes what is mounted there away in every namespace."""
        etc = pathlib.Path(tempfile.mkdtemp(prefix="etc-", dir=self.folder))
        etc.chmod(0o755)
        etc.joinpath(HOSTS).mkdir()
        for entry in os.scandir("/etc"):
            if entry.name not in files:
                target = os.readlink(entry) if entry.is_symlink() else f"{HOSTS}/{entry.name}"
                etc.joinpath(entry.name).symlink_to(os.path.join("/etc", target))
        for name, text in files.items():
            etc.joinpath(name).write_text(text)
        return f'mount --bind /etc "{etc}/{HOSTS}" && mount --rbind "{etc}" /etc'

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class Other:
    """Transfers by cubic beside those of a test, from side a."""

    def __init__(self, p: Path) -> None:
        self.path, self.program = p, built("examples/bulk")
        self.server = p.popen("b", [self.program, "recv", "--port", str(OTHER_PORT)], stderr=subprocess.DEVNULL)
        wait_listening(p, "b", OTHER_PORT, self.server)

    def bit_per_s(self, way: str, seconds: float = 6) -> float:
        """way: "put", or "get" for one that comes from side b."""
        done = self.path.run("a", [self.program, "send", "--json", "--cc", "cubic", "--seconds", str(seconds), *["--reverse"] * (way == "get"),
                                   "--port", str(OTHER_PORT), self.path.addr["b"]], check=True)
        return json.loads(done.stdout)["rate_bit_per_s"]


def left_by_killed(kind: str, fill: Callable[[], object]) -> list[str]:
    """What a process leaves in memory that is killed once it has filled a folder of a kind, when somebody else makes one."""
    before = set(os.listdir(MemoryFolder.memory))
    child = os.fork()
    if child == 0:
        try:
            fill()
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WTERMSIG(status) != signal.SIGKILL:
        raise AssertionError("it has ended before it was killed")
    with MemoryFolder(kind):
        left = {name for name in set(os.listdir(MemoryFolder.memory)) - before if name.startswith(f"autobuf-{kind}")}
    at_work = {name for name in left if pathlib.Path("/proc", *name.split("-")[2:3], "exe").exists()}  # beside this one
    return sorted(left - at_work)


FRAME = re.compile(r"==\d+== +(?:at|by) 0x[0-9A-F]+: (.*)")
OURS = re.compile(r"autobuf|\bab_", re.I)


def blamed(report: str) -> list[str]:
    """What valgrind has found, if a frame of it is ours: by its function, source or object. The folders of an object do not count,
    for any program lies below one of the project's name."""
    findings = re.split(r"\n(?:==\d+== \n)+", report)
    return [finding for finding in findings if any(OURS.search(re.sub(r"\(in .*/", "(in ", frame)) for frame in FRAME.findall(finding))]


def drop(force: bool) -> list[str]:
    """The command before one that may, or may not, set buffers beyond the limits."""
    return [] if force else ["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin"]
