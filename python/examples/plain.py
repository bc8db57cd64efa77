#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sends a file over a plain socket, with a flow beside it, and says what that did. usage: plain.py HOST PORT FILE"""
from __future__ import annotations

import os
import socket
import sys
from typing import BinaryIO

import autobuf


def send(file: BinaryIO, address: tuple[str, int]) -> autobuf.Applied:
    size = os.fstat(file.fileno()).st_size
    host = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]
    with socket.socket(host[0]) as sock:
        with autobuf.Flow(sock, host[4], intent=autobuf.Intent.SENDS, expected_bytes=size) as flow:
            sock.connect(host[4])
            while data := file.read(65536):
                sock.sendall(data)
                flow.step()  # does nothing before it is due
            return flow.state()


def main(host: str, port: str, name: str) -> None:
    with open(name, "rb") as file:
        done = send(file, (host, int(port)))
    print(f"limited by: {done.live.bottleneck if done.live else None}; {done.changes} changes")
    print(done.plan.explain(), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
