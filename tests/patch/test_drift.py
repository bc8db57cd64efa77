# SPDX-License-Identifier: MIT
"""The series against the sources of OpenSSH that the distribution's archive offers now, with its own patches."""
from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from openssh import SOURCE, VERSIONS, apply, number, upstream

from cases import run_tests  # the folder is on the path by now
from path import build_folder

RELEASES = ("bookworm", "trixie")
ROLLING = ("testing", "sid")
SUITES = ("", *(name + suffix for name in RELEASES for suffix in ("", "-security", "-backports")), *ROLLING)
"""The first: what the system's own apt knows."""


ABSENT = "no source of", "names no archive", "cannot read", "cannot fetch"
"""What debian-source says where there is nothing to try the series on."""
UNREACHABLE = re.compile("resolv|[Cc]onnect|timed out", re.A)


class Drift(unittest.TestCase):
    unreachable = ""
    """Why no archive could be reached: once is enough, for it may take minutes to find out."""

    def folder(self) -> pathlib.Path:
        return pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def newest(self, suite: str) -> tuple[str, pathlib.Path]:
        """Version and unpacked source of what a suite offers."""
        if Drift.unreachable:
            self.skipTest(Drift.unreachable)
        done = subprocess.run([SOURCE, "--newest", "openssh", "", build_folder() / "sources", *suite.split()],
                              capture_output=True, text=True)
        if done.returncode:
            reason = "; ".join(done.stderr.splitlines()[-3:])
            if not any(word in reason for word in ABSENT):
                self.fail(reason)
            if UNREACHABLE.search(done.stderr):
                Drift.unreachable = reason
            self.skipTest(reason)
        version, description = done.stdout.split()
        tree = self.folder() / "source"
        subprocess.run(["dpkg-source", "--extract", description, tree], check=True, capture_output=True)
        return version, tree

    def offered(self, suite: str) -> None:
        version, tree = self.newest(suite)
        failed, _ = apply(tree)
        if number(re.sub(r"^\d+:|-[^-]*$", "", version)) > number(VERSIONS[-1]):
            self.skipTest(f"{version} is not supported yet; of the series these fail: {', '.join(failed) or 'none'}")
        self.assertEqual(failed, [], f"the series does not apply to {version}")

    def test_a_hunk_that_fails_is_named(self) -> None:
        version, tree = VERSIONS[-1], self.folder()
        try:
            upstream(version, tree)
        except subprocess.CalledProcessError:
            self.skipTest(f"upstream's source of {version} cannot be had")
        file = tree / "channels.c"
        text = file.read_text()
        changed = text.replace("\tchannel_close_fds(ssh, c);\n\tsshbuf_free(c->input);", "\t/* moved */\n")
        self.assertNotEqual(text, changed)
        file.write_text(changed)
        failed, _ = apply(tree)
        self.assertEqual([re.sub(r" at \d+$", "", hunk) for hunk in failed],
                         ["0004-channels.patch: channels.c: Hunk #1 FAILED"])


def add(suite: str) -> None:
    name = f"test_the_newest_of_{suite or 'this_system'}".replace("-", "_")
    setattr(Drift, name, lambda self: self.offered(suite))


for each in SUITES:
    add(each)

if __name__ == "__main__":
    sys.exit(run_tests(("apt-get", "dpkg-source", "patch")))
