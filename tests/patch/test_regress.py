# SPDX-License-Identifier: MIT
"""OpenSSH's own regression suite, on the patched source: upstream's and the distribution's."""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from openssh import VERSIONS, number, prefix

from cases import run_tests  # the folder is on the path by now

TOUCHED = ("connect proxy-connect exit-status transfer stderr-data stderr-after-eof broken-pipe yes-head rekey integrity "
           "scp scp3 scp-uri sftp sftp-cmds sftp-badcmds sftp-batch sftp-chroot sftp-glob sftp-perm sftp-uri reexec "
           "dynamic-forward forwarding multiplex cfgparse sshcfgparse cfgmatch channel-timeout connection-timeout")
"""The scripts that use what the patches change: channels, packets, sshbufs, options, the monitor, SFTP."""
STRICT = "9.6p1"
"""From here on a key exchange is strict. With a server before it PuTTY refuses ChaCha20 (0.80; Debian's 0.78-2+deb12u2), whoever
has patched it: Terrapin, CVE-2023-48795."""
ALONE = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", 'ip link set lo up && mount -t tmpfs home ~/.ssh && exec "$@"', "sh")
"""The suite's servers have fixed ports, and it leaves agents behind. Those of 10.1p1 and later have a folder in ~/.ssh, which is
therefore in memory."""
PLACES = ("BUILDDIR", "abs_top_srcdir", "abs_top_builddir")
"""Of a tree, where it was built, as its Makefile names them. Sockets there would have too long a name."""


class Suite(unittest.TestCase):
    def make(self, version: str, upstreams: bool, *targets: str) -> str:
        folder = self.enterContext(tempfile.TemporaryDirectory())
        tree = shutil.copytree(prefix(version, upstreams=upstreams) / "tree", pathlib.Path(folder, "tree"), symlinks=True)
        settings = pathlib.Path("~/.ssh").expanduser()
        if not settings.exists():
            settings.mkdir()
            self.addCleanup(settings.rmdir)
        done = subprocess.run([*ALONE, "make", "-C", tree, *(f"{name}={tree}" for name in PLACES), *targets], capture_output=True, text=True,
                              env=os.environ | {"TEST_SSH_UNSAFE_PERMISSIONS": "1", "TMPDIR": folder},
                              stdin=subprocess.DEVNULL)
        failed = re.findall("^(?:failed|FAIL|make.*Error).*", done.stdout + done.stderr, re.M)
        self.assertEqual(done.returncode, 0, "\n".join(failed) + done.stdout[-2000:] + done.stderr[-2000:])
        return done.stdout

    def upstreams(self, version: str) -> None:
        older = ["INTEROP_TESTS=putty-transfer putty-kex conch-ciphers"] if number(version) < number(STRICT) else []
        self.assertIn("all tests passed", self.make(version, True, "tests", *older))

    def distributions(self, version: str) -> None:
        """Not all, which takes a quarter of an hour once more."""
        folder = prefix(version, upstreams=False) / "tree" / "regress"
        scripts = [name for name in TOUCHED.split() if (folder / f"{name}.sh").is_file()]
        said = self.make(version, False, "t-exec", "unit", f"LTESTS={' '.join(scripts)}")
        self.assertIn("unit tests passed", said)


def add(version: str, whose: str) -> None:
    def test(self: Suite) -> None:
        getattr(self, whose)(version)
    setattr(Suite, f"test_{whose}_{version}".replace(".", "_"), test)


for each in VERSIONS:
    add(each, "upstreams")
    add(each, "distributions")

if __name__ == "__main__":
    sys.exit(run_tests(("ip", "unshare", "make"), on_path=False))
