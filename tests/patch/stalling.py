# SPDX-License-Identifier: MIT
"""Peers that make an sshd hold data, for test_bounds.py. Each answers each line of standard input with a line.

stalling.py sink PORT        Accepts connections. "hold": those that there are are read no more; later ones are.
                             "stop": no later ones either.
stalling.py source PORT...   "open I N": opens N connections to the port of number I, on this host. It sends on all of its
                             connections as much as they take.
stalling.py strangers HOST   "open N": opens N connections to sshd, and sends all of the largest packet but its end.
"""
from __future__ import annotations

import os
import resource
import selectors
import socket
import struct
import sys

BLOCK = bytes(1 << 18)
PACKET = 256 * 1024
"""The largest that OpenSSH takes."""
KEPT = 64 * 1024
"""What a socket here may hold: with thousands of them TCP would come to the limit of the host's memory, and stop."""


class Loop:
    def __init__(self) -> None:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self.selector = selectors.DefaultSelector()
        self.watch(0, selectors.EVENT_READ, self.command)
        self.kept: list[socket.socket] = []
        self.commands = b""

    def watch(self, what, events: int, call) -> None:
        self.selector.register(what, events, call)

    def command(self, _) -> None:
        data = os.read(0, 1000)
        if not data:
            sys.exit()
        *lines, self.commands = (self.commands + data).split(b"\n")
        for line in lines:
            self.obey(*line.decode().split())
            print("done", flush=True)

    def obey(self, word: str, *args: str) -> None:
        raise NotImplementedError

    def run(self) -> None:
        while True:
            for key, _ in self.selector.select():
                key.data(key.fileobj)


class Sink(Loop):
    def __init__(self, port: str) -> None:
        super().__init__()
        self.reads = True
        self.listener = socket.create_server(("127.0.0.1", int(port)), backlog=1000)
        self.watch(self.listener, selectors.EVENT_READ, self.accept)

    def accept(self, _) -> None:
        connection, _ = self.listener.accept()
        self.kept.append(connection)
        if self.reads:
            self.watch(connection, selectors.EVENT_READ, self.read)

    def read(self, connection: socket.socket) -> None:
        try:
            ended = not connection.recv(1 << 20)
        except OSError:
            ended = True
        if ended:
            self.selector.unregister(connection)

    def obey(self, word: str, *args: str) -> None:
        self.reads = word == "hold"
        for connection in self.kept:
            if connection in self.selector.get_map():
                self.selector.unregister(connection)


class Source(Loop):
    def __init__(self, *ports: str) -> None:
        super().__init__()
        self.ports = list(map(int, ports))

    def obey(self, word: str, *args: str) -> None:
        for _ in range(int(args[1])):
            connection = socket.create_connection(("127.0.0.1", self.ports[int(args[0])]))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KEPT)
            connection.setblocking(False)
            self.kept.append(connection)
            self.watch(connection, selectors.EVENT_WRITE, self.write)

    def write(self, connection: socket.socket) -> None:
        try:
            connection.send(BLOCK)
        except BlockingIOError:
            pass
        except OSError:
            self.selector.unregister(connection)


class Strangers(Loop):
    def __init__(self, host: str) -> None:
        super().__init__()
        self.host = host

    def obey(self, word: str, *args: str) -> None:
        for _ in range(int(args[0])):
            connection = socket.create_connection((self.host, 22))
            self.kept.append(connection)
            connection.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")
            while b"\n" not in connection.recv(1000):
                pass
            connection.sendall(struct.pack(">IB", PACKET - 4, 4) + bytes(PACKET - 100))


if __name__ == "__main__":
    {"sink": Sink, "source": Source, "strangers": Strangers}[sys.argv[1]](*sys.argv[2:]).run()
