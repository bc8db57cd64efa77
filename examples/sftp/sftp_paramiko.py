#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""SFTP with paramiko at the speed of the path: a window of twice what "autobuf explain" says that the path holds, at most 4 MB.

    sftp_paramiko.py [--stock] [--bdp BYTES] [--key FILE] [--accept-any-host] get|put USER@HOST:REMOTE LOCAL
"""
from __future__ import annotations

import argparse
import json
import subprocess

import paramiko

STOCK_BYTES = 2 << 20
"""paramiko's window, and that of most servers: 168 Mbit/s over 100 ms."""
MOST_BYTES = 4 << 20
"""Each read moves all that waits in paramiko's buffer: a larger window takes more of the processor than it brings."""


def bdp_bytes(host: str) -> int:
    """What the path holds from the server to here; 0: not known."""
    try:
        done = subprocess.run(["autobuf", "explain", "--json", host], stdout=subprocess.PIPE, text=True)
    except FileNotFoundError:
        return 0
    return json.loads(done.stdout).get("rx_bdp_bytes") or 0 if done.stdout else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stock", action="store_true", help="the library's own sizes, for comparison")
    parser.add_argument("--bdp", type=int, help="bytes that the path holds; otherwise autobuf is asked")
    parser.add_argument("--key")
    parser.add_argument("--accept-any-host", action="store_true", help="for trying it: trust whoever answers")
    parser.add_argument("direction", choices=("get", "put"))
    parser.add_argument("remote")
    parser.add_argument("local")
    args = parser.parse_args()
    user, _, rest = args.remote.partition("@")
    host, _, name = rest.partition(":")

    window = STOCK_BYTES
    if not args.stock:
        # Twice: the server can send on only once a round trip after what it sent was read here.
        bdp = args.bdp if args.bdp is not None else bdp_bytes(host)
        window = min(max(2 * bdp, STOCK_BYTES), MOST_BYTES)
    client = paramiko.SSHClient()
    if args.accept_any_host:
        client.set_missing_host_key_policy(paramiko.WarningPolicy())
    else:
        client.load_system_host_keys()
    client.connect(host, username=user, key_filename=args.key)
    sftp = paramiko.SFTPClient.from_transport(client.get_transport(), window_size=window)
    if args.direction == "get":
        sftp.open(name).close()  # get() empties the local file before it opens the remote one
        sftp.get(name, args.local)  # asks for the whole file at once
    else:
        sftp.put(args.local, name)  # does not wait for answers; the window is the server's
    client.close()


if __name__ == "__main__":
    main()
