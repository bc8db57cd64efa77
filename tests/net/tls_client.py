#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A TLS client that sends and receives what its arguments say: run inside a namespace.

usage: tls_client.py [--raw] ADDRESS PORT ACTION...

--raw: TCP without TLS. The actions, one after the other:

    >TEXT   sends it; \\r, \\n and the like are as in Python
    +N      sends again what was sent before it, cut or repeated to N bytes; stops early if the peer
            is gone
    <       receives a line, and prints it
    <N      receives N bytes, and ignores them
    .       receives until the peer closes, and prints how many bytes there were
    !       closes by a reset

At the end it closes the connection without TLS's close_notify.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import sys

TIMEOUT_S = 20.0


class Client:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.pending = b""
        self.said = b""

    def receive(self) -> bytes:
        data = self.sock.recv(65536)
        if not data:
            raise EOFError("the peer has closed")
        return data

    def hear(self, count: int | None) -> bytes:
        """So many bytes, or a line."""
        while len(self.pending) < count if count is not None else b"\n" not in self.pending:
            self.pending += self.receive()
        end = self.pending.index(b"\n") + 1 if count is None else count
        data, self.pending = self.pending[:end], self.pending[end:]
        return data

    def drain(self) -> int:
        count = len(self.pending)
        with contextlib.suppress(EOFError, ConnectionError, ssl.SSLError):
            while True:
                count += len(self.receive())
        return count

    def act(self, action: str) -> None:
        kind, rest = action[0], action[1:]
        if kind == ">":
            self.said = rest.encode("latin-1").decode("unicode_escape").encode("latin-1")
            self.sock.sendall(self.said)
        elif kind == "+":
            count = int(rest)
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                self.sock.sendall((self.said * (count // len(self.said) + 1))[:count])
        elif kind == "<" and rest:
            self.hear(int(rest))
        elif kind == "<":
            print(self.hear(None).decode("latin-1").rstrip("\r\n"), flush=True)
        elif kind == ".":
            print(self.drain(), flush=True)
        elif kind == "!":
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.sock.close()
        else:
            raise ValueError(action)


def main() -> int:
    words = sys.argv[1:]
    raw = words[0] == "--raw"
    address, port, *actions = words[raw:]
    with socket.create_connection((address, int(port)), TIMEOUT_S) as sock:
        if raw:
            client = Client(sock)
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            client = Client(context.wrap_socket(sock))
        for action in actions:
            client.act(action)
        client.sock.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
