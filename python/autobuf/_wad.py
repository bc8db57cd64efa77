# SPDX-License-Identifier: MIT
"""Rules of WAD, the work-around daemon of the Net100 project (Dunigan, 2003), as rules of autobufd."""
from __future__ import annotations

import argparse
import errno
import re
import socket
import sys
from collections.abc import Iterator

from ._errors import written

LINE_BYTES, NAME_BYTES, WORD_CHARACTERS, RULES_MOST = 190, 49, 63, 100_000
"""As autobufd takes them."""
TEXT_BYTES, WRONG_MOST = 16_000_000, 1000
SIZE_MOST = 0x3fffffff
BLANKS = " \t\r\n\f\v"
NAMES = ("src_addr", "src_port", "dst_addr", "dst_port", "mode", "sndbuf", "rcvbuf", "wadai", "wadmd", "maxssth", "divide", "floyd")
DROPPED = {
    "wadai": "Linux has no additive increase for one socket; cc= names a congestion control that grows faster",
    "wadmd": "Linux has no multiplicative decrease for one socket; cc= names a congestion control that falls less",
    "maxssth": "limited slow start is no longer in Linux; cubic leaves slow start before it loses (HyStart)"}
"""Settings without an equivalent, of which 0 asks for nothing, and why there is none."""


def is_address(text: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, text)
            return True
        except OSError:
            pass
    return False


class Section:
    """The settings of one, and the rule that is made of them."""

    def __init__(self, name: str, wrong: Wrong) -> None:
        self.name, self.wrong = name, wrong
        self.values: dict[str, tuple[str, int]] = {}
        """Each with the number of its line."""

    def take(self, line: int, name: str, value: str) -> None:
        if name not in NAMES:
            self.wrong.say(line, f"{name}: WAD has no such setting")
        elif not re.fullmatch(rf"[!-~]{{1,{WORD_CHARACTERS}}}", value):
            self.wrong.say(line, f"{name}: a value is a word of at most {WORD_CHARACTERS} characters")
        else:
            self.values[name] = (value, line)

    def number(self, name: str, most: int, right: str) -> int:
        """0: not given."""
        value, line = self.values.get(name, ("0", 0))
        if re.fullmatch("[0-9]+", value) and int(value) <= most:
            return int(value)
        self.wrong.say(line, f"{name}: {value}: it takes {right}")
        return 0

    def address(self, name: str, setting: str) -> Iterator[str]:
        value, line = self.values.get(name, ("::", 0))
        if value in ("0.0.0.0", "::"):  # any
            return
        if not is_address(value):
            self.wrong.say(line, f"{name}: {value}: it takes an address")
        yield f"{setting}={value}"

    def port(self, name: str, setting: str) -> Iterator[str]:
        if port := self.number(name, 65535, "a port"):
            yield f"{setting}={port}"

    def mode(self) -> Iterator[str]:
        """Mode 1 overrides what a program has set, 2 takes sizes from measurements; else programs that set nothing are tuned.

        divide: what the connections at a time share, instead of each having it.
        """
        snd, rcv = (self.number(name, SIZE_MOST, f"bytes, at most {SIZE_MOST}") for name in ("sndbuf", "rcvbuf"))
        mode, divide = self.number("mode", 2, "0, 1 or 2"), self.number("divide", 1, "0 or 1")
        if divide:
            yield "mode=auto"
            yield f"divide={snd or rcv}" if snd or rcv else "# divide 1: there is no size to share"
            if snd and rcv and snd != rcv:
                yield f"# rcvbuf {rcv}: one total for what is sent and for what is received"
        elif mode == 1 and (snd or rcv):
            yield "mode=fixed"
            yield from (f"{name}={size}" for name, size in (("sndbuf", snd), ("rcvbuf", rcv)) if size)
        else:
            yield f"mode={'path' if mode == 2 else 'auto'}"
            if snd:
                yield f"# sndbuf {snd}: the kernel tunes now; what limits is enlarged as far as it pays"
            if rcv:
                yield f"# rcvbuf {rcv}: the same"

    def rule(self) -> Iterator[str]:
        yield f"[{self.name}]"
        yield from self.address("src_addr", "local")
        yield from self.port("src_port", "local_port")
        yield from self.address("dst_addr", "remote")
        yield from self.port("dst_port", "remote_port")
        yield from self.mode()
        if floyd := self.number("floyd", 2, "0, 1 or 2"):  # Floyd's table, of RFC 3649
            yield "cc=highspeed"
            yield f"# floyd {floyd}: HighSpeed TCP (RFC 3649), module tcp_highspeed"
        for name, why in DROPPED.items():
            if (value := self.values.get(name, ("0", 0))[0]) != "0":
                yield f"# {name} {value}: {why}"


class Wrong:
    """What is wrong with a file, as lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []

    def say(self, line: int, text: str) -> None:
        if len(self.lines) < WRONG_MOST:
            self.lines.append((line, re.sub("[^ -~]", "?", text)))


def settings(text: bytes, wrong: Wrong) -> Iterator[tuple[int, str, str | None]]:
    """The number of a line, from 1 on, and a section's name and None, or a setting and its value, as autobufd reads them."""
    for line, raw in enumerate(text.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        words = raw.decode("latin-1").strip(BLANKS)
        if len(raw) > LINE_BYTES:
            wrong.say(line, f"the line is longer than {LINE_BYTES} characters")
        elif b"\0" in raw:
            wrong.say(line, f"there is a zero in the first {LINE_BYTES} characters")
        elif words.startswith("["):
            name, end, _ = words[1:].partition("]")
            if not end:
                wrong.say(line, "a section's name ends with ]")
            elif not 0 < len(name) <= NAME_BYTES:
                wrong.say(line, f"a section has a name of 1 to {NAME_BYTES} characters")
            yield line, name, None
        elif words and words[0] not in ";#":
            setting = re.split(r"(?<=[ \t\r\f\v]);", words, maxsplit=1)[0]  # the rest is a comment
            found = re.fullmatch(r"([^=:]*)[=:](.*)", setting)
            if found:
                yield line, found[1].strip(BLANKS), found[2].strip(BLANKS)
            else:
                wrong.say(line, "this is neither [name] nor name=value")


def convert(text: bytes) -> tuple[str, list[tuple[int, str]]]:
    """The rules of an autobufd.conf, in which a comment says of each setting that is not taken over why; and what is wrong,
    with the numbers of the lines. Both are latin-1.
    """
    wrong = Wrong()
    section: Section | None = None
    rules: list[list[str]] = []
    for line, name, value in settings(text, wrong):
        if value is None:
            rules += [[*section.rule()]] if section else []
            if len(rules) == RULES_MOST:
                wrong.say(line, f"autobufd takes {RULES_MOST} rules at most")
                section = None
                break
            section = Section(name, wrong)
        elif section:
            section.take(line, name, value)
        else:
            wrong.say(line, f"{name}: belongs into a section")
    rules += [[*section.rule()]] if section else []
    return "\n".join("".join(f"{line}\n" for line in rule) for rule in rules), wrong.lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="autobuf-import-wad", description="Prints the rules of a wad.conf as rules of autobufd.")
    parser.add_argument("FILE")
    name = parser.parse_args().FILE
    try:
        with open(name, "rb") as file:
            text = file.read(TEXT_BYTES + 1)
        if len(text) > TEXT_BYTES:
            raise OSError(errno.EFBIG, f"it has more than {TEXT_BYTES} bytes")
        rules, wrong = convert(text)
    except OSError as error:
        print(f"autobufd: {name}: {error.strerror}", file=sys.stderr)
        return 1
    for line, said in wrong:
        print(f"autobufd: {name}:{line}: {said}", file=sys.stderr)
    return 1 if wrong else written("autobufd", rules.encode("latin-1"))
