# SPDX-License-Identifier: MIT
"""Dynamic Right-Sizing of any credit window: an SSH channel, a stream, a queue of requests."""
from __future__ import annotations

import ctypes
import dataclasses

from ._errors import check
from ._event import Log, log_option
from ._handle import Handle, moment
from ._library import unsigned
from ._struct import UNSET, Struct, pointer, reserved, u32, u64


@dataclasses.dataclass(frozen=True)
class RightSizeState(Struct):
    """measured: how many round trips. sender_low_bytes, sender_high_bytes: the sender's window lies between them."""

    name = "autobuf_rightsize_state"
    measured: int = u32()
    window_bytes: int = u64()
    rtt_ns: int | None = u64(UNSET)
    rtt_min_ns: int | None = u64(UNSET)
    rate_byte_per_s: int | None = u64(0)
    best_byte_per_s: int | None = u64(0)
    sender_low_bytes: int | None = u64(0)
    sender_high_bytes: int | None = u64(0)


@dataclasses.dataclass(frozen=True)
class RightSizeOptions(Struct):
    name = "autobuf_rightsize_options"
    reserved: int = reserved()
    window_bytes: int | None = u64(0)
    cap_bytes: int | None = u64(0)
    log: Log | None = log_option()
    log_user: None = pointer()


class RightSize(Handle):
    """Says how large a window to keep open, from what the application consumed and when. It has no socket.

    window_bytes: the first and smallest window; None: 65,536. cap_bytes: the largest; None: 67,108,864. Times are
    nanoseconds of any monotonic clock; None: now. Error with errno EINVAL: cap_bytes is below window_bytes.
    """

    family = "autobuf_rightsize"

    def __init__(self, *, window_bytes: int | None = None, cap_bytes: int | None = None,
                 log: Log | None = None) -> None:
        super().__init__(ctypes.pointer(RightSizeOptions(0, window_bytes, cap_bytes, log).to_c()))

    def consumed(self, count_bytes: int, at_ns: int | None = None) -> int:
        """Reports what the application consumed. Returns the window to keep open, in bytes: grant this much, less
        the credit that is still outstanding.
        """
        return int(self._call("consumed", moment(at_ns), unsigned(count_bytes)))

    def rtt(self, rtt_ns: int | None) -> None:
        """Reports the current RTT; None is ignored."""
        self._call("rtt", unsigned(rtt_ns or 0))

    def granted(self, count_bytes: int, at_ns: int | None = None) -> None:
        """Reports credit that was granted. With received() it stands in for an unknown RTT."""
        self._call("granted", moment(at_ns), unsigned(count_bytes))

    def received(self, count_bytes: int, at_ns: int | None = None) -> None:
        """Reports what arrived, whether consumed or not."""
        self._call("received", moment(at_ns), unsigned(count_bytes))

    def gap(self, at_ns: int | None = None) -> None:
        """Reports a pause of the stream. What was being measured is dropped."""
        self._call("gap", moment(at_ns))

    def state(self) -> RightSizeState:
        return RightSizeState.filled(lambda c: check(self._call("state", c)))
