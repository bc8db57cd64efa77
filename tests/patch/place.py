# SPDX-License-Identifier: MIT
"""What the tests of patched programs share: a folder in memory, and processes that go with a test."""
from __future__ import annotations

import os
import pathlib
import shutil
import tempfile

ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
"""What a server's processes do not outlive, as long as the first of them keeps its credentials."""


class MemoryFolder:
    """A folder in memory, named by the process that made it. What a killed run left is removed."""

    memory = pathlib.Path("/dev/shm")

    def __init__(self, kind: str) -> None:
        for left in self.memory.glob(f"autobuf-{kind}-*-*"):
            if not pathlib.Path("/proc", left.name.split("-")[2]).exists():
                shutil.rmtree(left, ignore_errors=True)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"autobuf-{kind}-{os.getpid()}-", dir=self.memory))
        self.folder.chmod(0o755)

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def drop(force: bool) -> list[str]:
    """The command before one that may, or may not, set buffers beyond the limits."""
    return [] if force else ["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin"]
