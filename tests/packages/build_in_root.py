# SPDX-License-Identifier: MIT
"""packaging/build in a bare root: build_in_root.py deb|rpm SUITE FOLDER. SUITE '': this system's release."""
from __future__ import annotations

import pathlib
import sys

from roots import Root, release


def main() -> int:
    kind, suite, folder = sys.argv[1:]
    with Root(suite=suite or release(), shares={"/packages": pathlib.Path(folder)}) as root:
        done = root.run("/src/packaging/build", kind, "--here", "/packages")
    sys.stderr.write(done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
