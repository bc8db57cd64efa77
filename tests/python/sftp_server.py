# SPDX-License-Identifier: MIT
"""An SFTP server by paramiko that takes any key: sftp_server.py PORT HOST_KEY. Runs with Debian's python3-paramiko."""
from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "patch"))

import paramiko  # noqa: E402
import paramiko_server  # noqa: E402


class Keys(paramiko_server.Open):
    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.AUTH_SUCCESSFUL


if __name__ == "__main__":
    paramiko_server.Open = Keys
    paramiko_server.main(*sys.argv[1:])
