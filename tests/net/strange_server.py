# SPDX-License-Identifier: MIT
"""A peer of `autobuf measure` that answers one client wrongly, run inside a namespace.

    strange_server.py PORT HOW

Prints what the client had sent by the end, as one Python literal. HOW is one of the functions below.
"""
from __future__ import annotations

import socket
import sys

HELLO = b"AUTOBUF HELLO 1 train=480000 budget=480000\r\n"
SUNK = b"AUTOBUF ERROR 452 no\r\n"
PAYLOAD = b" payload\r\n" * 1448


class Peer:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.seen = b""

    def hear(self, until: bytes) -> None:
        while until not in self.seen:
            got = self.connection.recv(65536)
            if not got:
                raise EOFError
            self.seen += got

    def say(self, *what: bytes) -> None:
        for part in what:
            self.connection.sendall(part)

    def greet(self) -> None:
        self.hear(b"HELLO")
        self.say(HELLO)
        self.hear(b"SINK")


def ignorant(peer: Peer) -> None:
    peer.hear(b"\r\n")
    peer.say(b"500 What do you want?\r\n")


def silent(peer: Peer) -> None:
    peer.hear(b"\r\n")


def another_version(peer: Peer) -> None:
    peer.hear(b"\r\n")
    peer.say(b"AUTOBUF HELLO 7 train=480000 budget=480000\r\n")


def binary(peer: Peer) -> None:
    peer.hear(b"\r\n")
    peer.say(bytes(range(256)) * 100)


def megabyte(peer: Peer) -> None:
    peer.hear(b"\r\n")
    peer.say(b"x" * 1000000)


def too_long_train(peer: Peer) -> None:
    peer.greet()
    peer.say(SUNK, b"AUTOBUF TRAIN 100000000\r\n", PAYLOAD * 10)


def half_train(peer: Peer) -> None:
    peer.greet()
    peer.say(SUNK, b"AUTOBUF TRAIN 14000\r\n", PAYLOAD[:7000])
    raise EOFError


def half_closed(peer: Peer) -> None:
    peer.greet()
    peer.connection.shutdown(socket.SHUT_WR)


def stalled_train(peer: Peer) -> None:
    peer.greet()
    peer.say(SUNK, b"AUTOBUF TRAIN 14000\r\n", PAYLOAD[:7000])


def out_of_turn(peer: Peer) -> None:
    peer.greet()
    peer.say(b"AUTOBUF RESULT\r\n")


def infinitely_fast(peer: Peer) -> None:
    peer.greet()
    trains = 0
    while b"AUTOBUF RESULT" not in peer.seen:
        for _ in range(trains, peer.seen.count(b"AUTOBUF SINK")):
            peer.say(b"AUTOBUF SINK bytes=14000 nsec=0 rate=9999999999999999999 "
                     b"high=9999999999999999999\r\nAUTOBUF ERROR 452 no\r\n" if trains == 0 else
                     b"AUTOBUF SINK rate=9999999999999999999 high=9999999999999999999\r\n")
            trains += 1
        peer.seen += peer.connection.recv(65536)
    peer.say(b"AUTOBUF RESULT rate=9999999999999999999\r\n")


def main() -> None:
    listener = socket.create_server(("", int(sys.argv[1])))
    connection, _ = listener.accept()
    listener.close()  # or who waits for the next server would find this one
    connection.settimeout(20)
    peer = Peer(connection)
    try:
        globals()[sys.argv[2]](peer)
        while got := connection.recv(65536):
            peer.seen += got
    except (EOFError, OSError):
        pass
    connection.close()
    print(repr(peer.seen), flush=True)


if __name__ == "__main__":
    main()
