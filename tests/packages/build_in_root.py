# SPDX-License-Identifier: MIT
"""packaging/build in a bare root: build_in_root.py deb|rpm SUITE FOLDER. SUITE '': this system's release."""
from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from roots import Root, release

BUILD = "AUTOBUF_BUILD"
"""In the environment of tests: where a root as it was installed is kept for the next time."""


def made(kind: str, suite: str, folder: str) -> int:
    print(f"build: makes a bare root of {suite or release()}", file=sys.stderr, flush=True)
    with Root(suite=suite or release(), shares={"/packages": pathlib.Path(folder)}) as root:
        # What is said for whoever is in the root is not for whoever made it.
        return subprocess.run(root.argv("/src/packaging/build", kind, "--here", "/packages"),
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode


def main() -> int:
    for ending in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(ending, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="autobuf-build.") as where:
        os.environ.setdefault(BUILD, where)
        try:
            return made(*sys.argv[1:])
        except RuntimeError as error:
            print(f"build: {error}", file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
