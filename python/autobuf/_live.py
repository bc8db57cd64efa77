# SPDX-License-Identifier: MIT
"""Manages an open connection while it carries data."""
from __future__ import annotations

import ctypes
import dataclasses

from ._errors import check
from ._event import Limiter, Log, log_option
from ._handle import Socket, Stepped, descriptor
from ._library import library
from ._plan import Intent
from ._struct import UNSET, Struct, pointer, reserved, u32, u64


@dataclasses.dataclass(frozen=True)
class LiveState(Struct):
    """The newest sample. Rates count payload. pacing_bit_per_s: the pacing rate that was set; 0: none."""

    name = "autobuf_live_state"
    limiter: Limiter = u32(Limiter)
    changes: int = u32()
    retransmits: int = u32()
    rtt_ns: int | None = u64(UNSET)
    rtt_min_ns: int | None = u64(UNSET)
    sent_bit_per_s: int = u64()
    received_bit_per_s: int = u64()
    snd_buf_bytes: int = u64()
    rcv_buf_bytes: int = u64()
    in_flight_bytes: int = u64()
    cwnd_bytes: int = u64()
    peer_window_bytes: int = u64()
    notsent_bytes: int = u64()
    pacing_bit_per_s: int = u64()
    sent_bytes: int = u64()
    received_bytes: int = u64()
    packet_bytes: int | None = u32(int, 0)
    resent_permille: int = u32()


@dataclasses.dataclass(frozen=True)
class LiveOptions(Struct):
    name = "autobuf_live_options"
    intent: Intent = u32(Intent)
    log: Log | None = log_option()
    log_user: None = pointer()
    flags: int = u32()
    reserved: int = reserved()
    most_bytes: int | None = u64(0)


class Live(Stepped):
    """Manages a connected TCP socket: enlarges a buffer that is its bottleneck, and never measures.

    look_only: sets nothing. most_bytes: the largest buffer to set, as setsockopt() takes it; None: what the host
    allows. Call step() from the loop that moves the data. It returns True if it set something. The socket stays the
    caller's; a descriptor that was closed and used again is not touched.

    Error with errno EOPNOTSUPP: not a TCP socket; ENOTCONN; EBADF; ENOTSOCK. Of step() too, after which it can only
    be closed.
    """

    family = "autobuf_live"

    def __init__(self, sock: Socket, *, intent: Intent = Intent.THROUGHPUT, look_only: bool = False,
                 most_bytes: int | None = None, log: Log | None = None) -> None:
        options = LiveOptions(intent, log, flags=int(look_only), most_bytes=most_bytes).to_c()
        super().__init__(descriptor(sock), ctypes.byref(options))

    def move(self, sock: Socket) -> None:
        """Reports that the same connection has another descriptor from now on. Error with errno ESTALE: it is another."""
        check(self._call("move", descriptor(sock)))

    def state(self) -> LiveState:
        return LiveState.filled(lambda c: check(self._call("state", c)))
