#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""An FTP server for one session at a time, that says SITE AUTOBUF and does it oddly: strange_ftp.py WAY SIZE.

It has one file of SIZE bytes, by PASV and RETR, and takes any by STOR. Prints "listening", then each
command that it was told.
"""
from __future__ import annotations

import socket
import sys
import time

HELLO = "211 AUTOBUF 1 maxrcv=4194304 maxsnd=4194304 train=463360 budget=463360"
LINE = " " + "x" * 97 + "\r\n"


def train(size: int, end: str = "211 AUTOBUF\r\n", told: int | None = None) -> str:
    lines = LINE * (size // len(LINE))
    return f"211-AUTOBUF TRAIN {told or len(lines) + len(end)}\r\n{lines}{end}"


class Session:
    def __init__(self, control: socket.socket, way: str, size: int) -> None:
        self.control, self.way, self.size = control, way, size
        self.lines = control.makefile("rb")
        self.data: socket.socket | None = None

    def say(self, text: str) -> None:
        self.control.sendall(text.encode() if text.endswith("\n") else f"{text}\r\n".encode())

    def run(self) -> None:
        self.say("220 strange")
        for line in self.lines:
            command = line.decode(errors="replace").strip()
            print(command, flush=True)
            verb = command.split()[0].upper() if command else ""
            handler = getattr(self, f"do_{verb.lower()}", None)
            if command.upper().startswith("SITE AUTOBUF"):
                if self.autobuf(command[12:].split()):
                    return
            elif verb == "QUIT":
                self.say("221 bye")
                return
            elif handler:
                handler(command[len(verb):].strip())
            else:
                self.say("500 unknown")

    def autobuf(self, words: list[str]) -> bool:
        """True: the session is over."""
        if not words:
            return self.hello()
        if words[0] == "TRAIN":
            return self.train(int(words[1]))
        if words[0] == "SINK":
            return self.sink(int(words[1]))
        if words[0] == "SET":
            self.say({"set-lie": "200 AUTOBUF rcv=18446744073709551615 snd=1", "set-no": "504 never"}.get(
                self.way, "200 AUTOBUF rcv=0 snd=0"))
        return False

    def hello(self) -> bool:
        replies = {"unknown": "500 never heard", "other": "211 AUTOBUFFER 1 x", "version": "211 AUTOBUF 2 train=9",
                   "help": "214-Commands\r\n A\r\n B\r\n214 end", "garbage": "\x00\xff\x01\x02", "empty": "",
                   "long": "211 AUTOBUF 1 " + "x" * 100000, "numbers": "211 AUTOBUF 1 maxrcv=-1 train=99999999999999999999"}
        if self.way == "gone":
            return True
        if self.way == "421":
            self.say("421 enough")
            return True
        self.say(replies.get(self.way, HELLO))
        return False

    def train(self, size: int) -> bool:
        if self.way == "refuses":
            self.say("452 no")
        elif self.way == "short":
            self.say(train(size // 2, told=size))
        elif self.way == "at-once":
            self.say(f"211-AUTOBUF TRAIN {size}\r\n211 sorry\r\n")
        elif self.way == "surplus":
            self.say(train(size + 20000, told=size))
        elif self.way == "endless":
            for _ in range(20000):
                self.say(LINE * 10)
        elif self.way == "larger":
            self.say(f"211-AUTOBUF TRAIN 99999999\r\n{LINE}211 end\r\n")
        elif self.way == "cut":
            self.say(train(size)[:size // 2])
            return True
        elif self.way == "stops":
            self.say(train(size)[:size // 2])
            time.sleep(3600)
        else:
            self.say(train(size))
        return False

    def sink(self, size: int) -> bool:
        if self.way == "sink-no":
            self.say("550 no")
            return False
        if self.way == "sink-early":
            self.say("350 go\r\n211 bytes=1 nsec=1\r\n")
            self.lines.read(size)
            return False
        self.say("350 go")
        self.lines.read(size)
        if self.way == "sink-cut":
            return True
        readings = {"sink-fast": f"211 bytes={size} nsec=1", "sink-huge": "211 bytes=99999999999 nsec=5",
                    "sink-slow": f"211 bytes={size} nsec=999999999999", "sink-odd": "250 whatever",
                    "sink-lie": f"211 bytes={size} nsec=1000 rate=9999999999999 low=1 high=2 sure=1"}
        self.say(readings.get(self.way, f"211 bytes={size - 1448} nsec={(size - 1448) * 20}"))
        return False

    def do_user(self, _: str) -> None:
        self.say("331 password")

    def do_pass(self, _: str) -> None:
        self.say("230 in")

    def do_feat(self, _: str) -> None:
        words = {"unsaid": "SITE OTHER", "bufsize": "UTF8", "bufsize-like": "UTF8",
                 "alike": "SITE AUTOBUFFER\r\n XAUTOBUF\r\n SITE AUTOBUF_2"}
        self.say(f"211-Features\r\n {words.get(self.way, 'SITE AUTOBUF')}\r\n SIZE\r\n REST STREAM\r\n PASV\r\n211 End")

    def do_help(self, _: str) -> None:
        sizes = {"bufsize": " BUFSIZE", "bufsize-like": " RETRBUFSIZEX XBUFSIZE BUFSIZEMEASURE"}
        self.say(f"214-SITE\r\n{sizes.get(self.way, ' UMASK')}\r\n214 end")

    def do_type(self, _: str) -> None:
        self.say("200 ok")

    do_mode = do_noop = do_clnt = do_type

    def do_pwd(self, _: str) -> None:
        self.say('257 "/"')

    def do_cwd(self, _: str) -> None:
        self.say("250 ok")

    def do_size(self, name: str) -> None:
        self.say(f"213 {self.size}" if name == "f" else "550 none")

    def do_site(self, _: str) -> None:
        self.say("200 ok")

    def do_pasv(self, _: str) -> None:
        self.data = socket.create_server(("0.0.0.0", 0))
        host = self.control.getsockname()[0].replace(".", ",")
        if self.way == "elsewhere":
            host = "10,77,0,9"
        port = self.data.getsockname()[1]
        self.say(f"227 Passive ({host},{port >> 8},{port & 255})")

    def do_retr(self, _: str) -> None:
        self.say("150 here")
        connection, _addr = self.data.accept()
        with connection:
            left, block = self.size, bytes(1 << 16)
            while left > 0:
                left -= connection.send(block[:min(left, len(block))])
        self.say("226 done")

    def do_stor(self, _: str) -> None:
        self.say("150 here")
        connection, _addr = self.data.accept()
        with connection:
            while connection.recv(1 << 16):
                pass
        self.say("226 done")


def main() -> None:
    with socket.create_server(("0.0.0.0", 21), reuse_port=True) as listener:
        print("listening", flush=True)
        while True:
            control, _ = listener.accept()
            with control:
                try:
                    Session(control, sys.argv[1], int(sys.argv[2])).run()
                except OSError:
                    pass


if __name__ == "__main__":
    main()
