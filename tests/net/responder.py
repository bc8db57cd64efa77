#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""An ICMP echo peer that answers as no kernel does: run inside a namespace, with raw sockets.

usage: responder.py 4|6 MODE [ADDRESS]

The kernel's own answers have to be off (icmp_echo_ignore_all). MODE is one of

    honest       one right reply each: shows that this program itself is fast enough
    hostile      before each right reply garbage, a wrong token, a truncated and a lengthened one,
                 a sequence number never sent; the right one twice; every third group of up to
                 three in reversed order
    garbage      all of that without the right replies
    unreachable  for each echo the right reply, then that it cannot be delivered
    nowhere      only that it cannot be delivered
    narrow:N     as a router before a link that takes N bytes: larger ones are answered by "too
                 big", smaller ones by the right reply
    hole:N       the same, but larger ones are dropped without an error
    shrinking    each full-size echo is "too big" by one byte, and answered nevertheless
    forge        no answers at all: replies to ADDRESS, with tokens and identifiers by chance,
                 8 every millisecond
    accuse       before each right reply errors that quote no more of it than the 8 bytes that a host off
                 the path can guess: it was too big, and could not be delivered
    blame        no answers at all: errors to ADDRESS about echoes that it never sent: they could
                 not be delivered, or were too big

Prints "ready" once it listens. Ends when it is killed.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import socket
import struct
import sys
from collections.abc import Callable

TOKEN = slice(8, 24)  # of the ICMP message: the token of the run
FORGED_BYTES = 1480
ME4, ME6 = "10.77.0.2", "fd77::2"


def checksum(data: bytes) -> int:
    """RFC 1071: a sum with end-around carry is the whole number modulo 65535."""
    return 0xFFFF - int.from_bytes(data + b"\0" * (len(data) % 2), "big") % 0xFFFF


class Peer:
    """Echo requests in, ICMP messages out."""

    def __init__(self, ipv6: bool) -> None:
        self.ipv6 = ipv6
        family = socket.AF_INET6 if ipv6 else socket.AF_INET
        protocol = socket.IPPROTO_ICMPV6 if ipv6 else socket.IPPROTO_ICMP
        self.sock = socket.socket(family, socket.SOCK_RAW, protocol)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self.sock.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
        self.sock.setblocking(False)
        self.random = random.Random(4711)

    def requests(self) -> list[tuple[bytes, bytes, tuple]]:
        """Up to three: IP header (IPv4; without options), ICMP message, where from."""
        found = []
        while len(found) < 3:
            try:
                data, sender = self.sock.recvfrom(2048)
            except BlockingIOError:
                break
            header, message = (b"", data) if self.ipv6 else (data[:20], data[20:])
            if len(message) >= 8 and message[0] == (128 if self.ipv6 else 8):
                found.append((header, message, sender))
        return found

    def send(self, message: bytes, to: tuple) -> None:
        """The kernel fills in IPv6's checksum alone."""
        if not self.ipv6 and len(message) >= 4:
            message = message[:2] + b"\0\0" + message[4:]
            message = message[:2] + struct.pack("!H", checksum(message)) + message[4:]
        try:
            self.sock.sendto(message, to)
        except OSError:  # a queue is full, or the kernel will not send such a thing
            pass

    def right(self, message: bytes) -> bytes:
        return bytes([129 if self.ipv6 else 0, 0, 0, 0]) + message[4:]

    def wrong(self, message: bytes) -> list[bytes]:
        """What must not count."""
        reply = self.right(message)
        chance = self.random.randbytes
        never = struct.pack("!H", struct.unpack_from("!H", reply, 6)[0] + 20000 & 0xFFFF)
        return [
            reply[:4] + chance(self.random.randrange(1, 1400)),
            reply[:self.random.randrange(1, 8)],
            bytes([self.random.choice((14, 16, 200))]) + reply[1:],
            reply[:TOKEN.start] + chance(16) + reply[TOKEN.stop:],
            reply[:self.random.randrange(8, len(reply))],
            reply + chance(8),
            reply[:6] + never + reply[8:],
            reply[:1] + b"\1" + reply[2:],
        ]

    def error(self, header: bytes, message: bytes, sender: tuple, most: int = 0, quoted: int = 500) -> bytes:
        """Unreachable (by administration), or with most: too big; quotes the packet, or so much of it."""
        if self.ipv6:  # whose header raw sockets do not show
            header = struct.pack("!IHBB", 6 << 28, len(message), socket.IPPROTO_ICMPV6, 64)
            header += socket.inet_pton(socket.AF_INET6, sender[0])
            header += socket.inet_pton(socket.AF_INET6, ME6)
            begin = struct.pack("!BBHI", 2 if most else 1, 0 if most else 1, 0, most)
        else:
            begin = struct.pack("!BBHHH", 3, 4 if most else 13, 0, 0, most)
        return begin + header + message[:quoted]

    def total(self, message: bytes) -> int:
        return len(message) + (40 if self.ipv6 else 20)

    # -- modes: each takes a group of requests --

    def honest(self, group: list) -> None:
        for _, message, sender in group:
            self.send(self.right(message), sender)

    def hostile(self, group: list) -> None:
        self.garbage(group)
        if self.random.randrange(3) == 0:
            group = group[::-1]
        for _, message, sender in group:
            self.send(self.right(message), sender)
            self.send(self.right(message), sender)

    def garbage(self, group: list) -> None:
        for _, message, sender in group:
            for wrong in self.wrong(message):
                self.send(wrong, sender)

    def unreachable(self, group: list) -> None:
        self.honest(group)
        self.nowhere(group)

    def nowhere(self, group: list) -> None:
        for header, message, sender in group:
            self.send(self.error(header, message, sender), sender)

    def narrow(self, group: list, most: int, tell: bool = True) -> None:
        for header, message, sender in group:
            if self.total(message) <= most:
                self.send(self.right(message), sender)
            elif tell:
                self.send(self.error(header, message, sender, most), sender)

    def accuse(self, group: list) -> None:
        for header, message, sender in group:
            for most in (68, 0):
                self.send(self.error(header, message, sender, most, quoted=8), sender)
        self.honest(group)

    def shrinking(self, group: list) -> None:
        for header, message, sender in group:
            if self.total(message) > 600:
                self.send(self.error(header, message, sender, self.total(message) - 1), sender)
            self.send(self.right(message), sender)

    def answer(self, act: Callable[[list], None]) -> None:
        while True:
            group = self.requests()
            if group:
                act(group)
            else:
                select.select([self.sock], [], [])

    def blame(self, address: str) -> None:
        to = (address, 0, 0, 0) if self.ipv6 else (address, 0)
        header = struct.pack("!BBHIBBH", 0x45, 0, 1500, 0, 64, socket.IPPROTO_ICMP, 0)
        if not self.ipv6:
            header += socket.inet_aton(address) + socket.inet_aton(ME4)
        while True:
            echo = bytes([128 if self.ipv6 else 8]) + b"\0\0\0" + self.random.randbytes(500)
            self.send(self.error(header, echo, to, self.random.choice((0, 1280, 600))), to)
            select.select([], [], [], 0.001)

    def forge(self, address: str) -> None:
        to = (address, 0, 0, 0) if self.ipv6 else (address, 0)
        begin = self.right(bytes(8))[:4]
        while True:
            for sequence in range(8):
                self.send(begin + self.random.randbytes(2) + bytes([0, sequence]) +
                          self.random.randbytes(self.random.choice((44, FORGED_BYTES)) - 8), to)
            select.select([], [], [], 0.001)


def main() -> None:
    peer = Peer(sys.argv[1] == "6")
    mode, _, number = sys.argv[2].partition(":")
    if mode not in ("forge", "blame"):
        with contextlib.suppress(PermissionError):  # late answers would be taken for the path's
            os.setpriority(os.PRIO_PROCESS, 0, -15)
    print("ready", flush=True)
    if mode in ("forge", "blame"):
        getattr(peer, mode)(sys.argv[3])
    elif mode in ("narrow", "hole"):
        peer.answer(lambda group: peer.narrow(group, int(number), mode == "narrow"))
    else:
        peer.answer(getattr(peer, mode))


if __name__ == "__main__":
    main()
