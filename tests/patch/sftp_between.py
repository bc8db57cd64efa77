# SPDX-License-Identifier: MIT
"""Between a client and a real sftp-server, for test_sftp.py: scp -D and sftp -D start it, with SERVER LOG [WAY...].

A round trip takes as long as it has to: what the client sends until it waits for an answer is taken, then all of it is
passed on, then all the answers are passed back. So the round trips are counted, whatever the machine does meanwhile.
LOG gets a line in JSON for each: the requests, the types of the answers, how many handles are open afterwards, and
how many requests had the number of another one.

WAY changes what the client sees:
  reversed           the answers of a round trip come in the other order
  stream             the answers come one by one, each as soon as the client waits: what is asked for while data flow
                     is seen; a line of LOG is not a round trip then
  without=NAME       the server has not got this extension
  handles=N          limits@openssh.com tells that N handles may be open
  deny=TYPE,PART     requests of TYPE that have PART in their path are refused and not passed on
  fail=TYPE,PART     they are carried out, but the answer is that they failed
  first=TYPE         the first request of TYPE is refused and not passed on
  open=N             so is each OPEN while N files are open
  grow=PART,BYTES    a file that has PART in its path grows by so many bytes when it is opened
  hang=N             the server closes its end instead of the answers of the N-th round trip
  twice, id, kind    each answer comes twice; has another id; has another type
  long[=N,AT]        data are longer than was asked for: by a byte; or by N, those from the AT-th answer on
  short[=N]          data are half as long, those of the N-th answer or all
"""
from __future__ import annotations

import json
import os
import select
import struct
import subprocess
import sys

NAMES = {1: "INIT", 3: "OPEN", 4: "CLOSE", 5: "READ", 6: "WRITE", 7: "LSTAT", 8: "FSTAT", 9: "SETSTAT",
         10: "FSETSTAT", 11: "OPENDIR", 12: "READDIR", 13: "REMOVE", 14: "MKDIR", 15: "RMDIR", 16: "REALPATH",
         17: "STAT", 18: "RENAME", 19: "READLINK", 20: "SYMLINK", 200: "EXTENDED"}
VERSION, STATUS, HANDLE, DATA, EXTENDED_REPLY = 2, 101, 102, 103, 201
DENIED, FAILURE = 3, 4

def string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def first_string(packet: bytes) -> bytes:
    size, = struct.unpack(">I", packet[5:9])
    return packet[9:9 + size]


def status(code: int, ident: bytes) -> bytes:
    return bytes([STATUS]) + ident + struct.pack(">I", code) + string(b"") + string(b"")


def asleep(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "S"
    except OSError:
        return False


class Client:
    def __init__(self) -> None:
        self.pid, self.bytes, self.ended = os.getppid(), b"", False

    def readable(self) -> bool:
        return bool(select.select([0], [], [], 0)[0])

    def whole(self) -> bool:
        """It sent requests, and none in part."""
        at = 0
        while at + 4 <= len(self.bytes):
            at += 4 + struct.unpack(">I", self.bytes[at:at + 4])[0]
        return 0 < at == len(self.bytes)

    def batch(self, more: bool) -> list[bytes]:
        """What it sends until it waits; with more to tell it, perhaps nothing."""
        while not self.ended:
            if self.readable():
                came = os.read(0, 1 << 20)
                self.ended = not came
                self.bytes += came
            elif (self.whole() or more and not self.bytes) and asleep(self.pid) and not self.readable():
                break
            elif not self.bytes and not more:
                select.select([0], [], [], 1)
            else:
                os.sched_yield()
        packets = []
        while self.whole():
            size, = struct.unpack(">I", self.bytes[:4])
            packets.append(self.bytes[4:4 + size])
            self.bytes = self.bytes[4 + size:]
        return packets

    def send(self, packets: list[bytes]) -> None:
        data = b"".join(string(packet) for packet in packets)
        while data:
            data = data[os.write(1, data):]


class Server:
    def __init__(self, program: str) -> None:
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, packet: bytes) -> bytes:
        self.process.stdin.write(string(packet))
        self.process.stdin.flush()
        size, = struct.unpack(">I", self.process.stdout.read(4))
        return self.process.stdout.read(size)


class Between:
    def __init__(self, server: Server, log, ways: list[str]) -> None:
        self.server, self.log, self.rounds, self.data = server, log, 0, 0
        self.ways = [way.partition("=")[::2] for way in ways]
        self.flags = {name for name, _ in self.ways}
        self.asked: set[str] = set()
        """Types of requests."""
        self.paths: dict[bytes, str] = {}
        """Of handles that are open."""

    def value(self, name: str) -> str:
        return next((value for key, value in self.ways if key == name), "")

    def describe(self, packet: bytes) -> list:
        """Type, name, and what more distinguishes it."""
        kind = NAMES.get(packet[0], str(packet[0]))
        if kind == "INIT":
            return [kind, ""]
        text = first_string(packet)
        name = self.paths.get(text, "?") if kind in ("CLOSE", "READ", "WRITE", "FSTAT", "FSETSTAT", "READDIR") else \
            text.decode(errors="surrogateescape")
        rest = packet[9 + len(text):]
        if kind == "READ":
            return [kind, name, *struct.unpack(">QI", rest)]
        if kind == "WRITE":
            return [kind, name, *struct.unpack(">QI", rest[:12])]
        if kind == "OPEN":
            return [kind, name, struct.unpack(">I", rest[:4])[0], rest[4:].hex()]
        return [kind, name, rest.decode(errors="surrogateescape") if kind in ("RENAME", "EXTENDED") else rest.hex()]

    def hit(self, way: str, told: list) -> bool:
        return any(key == way and value.split(",")[0] == told[0] and value.split(",")[1] in told[1]
                   for key, value in self.ways)

    def grow(self, told: list) -> None:
        part, _, size = self.value("grow").partition(",")
        if part and told[0] == "OPEN" and part in told[1]:
            with open(told[1], "ab") as file:
                file.write(b"grown" * (int(size) // 5))

    def answer(self, packet: bytes, told: list) -> bytes:
        ident = packet[1:5]
        self.grow(told)
        is_first, many = told[0] not in self.asked, int(self.value("open") or 1 << 30)
        self.asked.add(told[0])
        if self.hit("deny", told) or is_first and self.value("first") == told[0]:
            return status(DENIED, ident)
        if told[0] == "OPEN" and len(self.paths) >= many:
            return status(FAILURE, ident)
        reply = self.server.ask(packet)
        if reply[0] == HANDLE:
            self.paths[first_string(reply)] = told[1]
        if told[0] == "CLOSE":
            self.paths.pop(first_string(packet), None)
        if self.hit("fail", told):
            return status(FAILURE, ident)
        if reply[0] == VERSION:
            return self.version(reply)
        if reply[0] == EXTENDED_REPLY and told[1] == "limits@openssh.com" and self.value("handles"):
            return reply[:29] + struct.pack(">Q", int(self.value("handles")))
        return self.strange(reply)

    def version(self, reply: bytes) -> bytes:
        rest, kept = reply[5:], reply[:5]
        while rest:
            name = rest[4:4 + struct.unpack(">I", rest[:4])[0]]
            value_at = 4 + len(name)
            end = value_at + 4 + struct.unpack(">I", rest[value_at:value_at + 4])[0]
            if not any(key == "without" and value == name.decode() for key, value in self.ways):
                kept += rest[:end]
            rest = rest[end:]
        return kept

    def strange(self, reply: bytes) -> bytes:
        if "id" in self.flags and self.rounds > 3:
            return reply[:1] + struct.pack(">I", struct.unpack(">I", reply[1:5])[0] ^ 0x40000000) + reply[5:]
        if "kind" in self.flags and self.rounds > 3:
            return bytes([HANDLE if reply[0] != HANDLE else DATA]) + reply[1:5] + string(b"x" * 300)
        if reply[0] == DATA:
            data = first_string(reply)
            self.data += 1
            more, _, at = (self.value("long") or "1,1").partition(",")
            if "long" in self.flags and self.data >= int(at):
                return reply[:5] + string(data + b"x" * int(more))
            if "short" in self.flags and self.value("short") in ("", str(self.data)):
                return reply[:5] + string(data[:(len(data) + 1) // 2])
        return reply

    def round(self, batch: list[bytes]) -> list[bytes]:
        self.rounds += 1
        told, replies = [], []
        for packet in batch:
            told.append(self.describe(packet))
            replies.append(self.answer(packet, told[-1]))
        self.log.write(json.dumps({"asked": told, "answers": [reply[0] for reply in replies],
                                   "open": len(self.paths), "twice": len(batch) - len({packet[1:5] for packet in batch})})
                       + "\n")
        self.log.flush()
        if self.rounds == int(self.value("hang") or 0):
            sys.exit(0)
        if "reversed" in self.flags:
            replies.reverse()
        return [reply for reply in replies for _ in range(2 if "twice" in self.flags and self.rounds > 1 else 1)]


def main() -> None:
    client = Client()
    with open(sys.argv[2], "w") as log:
        between = Between(Server(sys.argv[1]), log, sys.argv[3:])
        waiting: list[bytes] = []
        while (batch := client.batch(bool(waiting))) or waiting and not client.ended:
            waiting += between.round(batch)
            now = 1 if "stream" in between.flags else len(waiting)
            client.send(waiting[:now])
            del waiting[:now]


if __name__ == "__main__":
    main()
