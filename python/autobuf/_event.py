# SPDX-License-Identifier: MIT
"""What the library has seen, decided or done, as a log callback is told."""
from __future__ import annotations

import ctypes
import dataclasses
import enum
from collections.abc import Callable
from typing import Any

from ._library import LOG, library
from ._struct import UNSET, Struct, char_pointer, i32, pointer, u32, u64


class Word(enum.IntEnum):
    """What the library has a word for, which str() gives."""

    def __str__(self) -> str:
        name = getattr(library, f"autobuf_{type(self).__name__.lower()}_name")
        return (name(self) or b"").decode()


class What(enum.IntEnum):
    NOTE = 0
    KNOWN = 1
    MEASURED = 2
    LEFT = 3
    SET = 4
    GIVEN_BACK = 5
    RESIZED = 6
    PACED = 7
    UNSENT = 8
    WINDOW = 9


class Bottleneck(Word):
    """What limits a connection. str() gives the library's word, such as "send-buffer"."""
    UNKNOWN = 0
    IDLE = 1
    SENDER = 2
    PATH = 3
    SND_BUFFER = 4
    PEER = 5
    RCV_BUFFER = 6
    RECEIVER = 7
    STALLED = 8


class Lock(enum.IntFlag):
    """Sides whose buffers were set, so that autotuning is off. LATE: only in a result; see unlock()."""
    SND = 1
    RCV = 2
    LATE = 4


class Reason(Word):
    """Why a side is planned as it is. str() gives the library's word, such as "kernel"."""
    UNKNOWN = 0
    KERNEL = 1
    SET = 2
    CAPPED = 3
    LARGER = 4
    LATE = 5
    OFF = 6


@dataclasses.dataclass(frozen=True)
class Event(Struct):
    """What was seen, decided or done; autobuf_error(3) says which fields belong to which `what`. str() says it in English."""

    name = "autobuf_event"
    what: What = u32(What)
    side: Lock = u32(Lock)
    reason: Reason = u32(Reason)
    bottleneck: Bottleneck = u32(Bottleneck)
    error: int = i32()
    before_bytes: int = u64()
    after_bytes: int = u64()
    before_bit_per_s: int = u64()
    after_bit_per_s: int = u64()
    rtt_ns: int | None = u64(UNSET, 0)
    why: str | None = char_pointer()
    text: str | None = char_pointer()

    def __str__(self) -> str:
        return self.text or ""


Log = Callable[[Event], object]
"""Is told each event."""


def _callback(value: Any) -> Any:
    if not callable(value):
        raise TypeError(f"a log has to be callable, not {value!r}")
    layout = type(Event.empty())

    def told(user: Any, event: int) -> None:
        seen = Event.from_c(layout.from_address(event))
        value(dataclasses.replace(seen, rtt_ns=seen.rtt_ns or None))

    return LOG(told)


def log_option() -> Any:
    return pointer(LOG, _callback)
