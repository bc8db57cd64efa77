# SPDX-License-Identifier: MIT
"""What a flow sees of an open connection, and of the path that it fills."""
from __future__ import annotations

import dataclasses
import enum

from ._event import Bottleneck, Word
from ._struct import UNSET, Struct, u32, u64


@dataclasses.dataclass(frozen=True)
class LiveState(Struct):
    """The newest sample. Rates count payload. pacing_bit_per_s: the pacing rate that was set; 0: none."""

    name = "autobuf_live_state"
    bottleneck: Bottleneck = u32(Bottleneck)
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


class Kind(enum.IntEnum):
    """SHARE: what a new flow would get, as others give way or the queue serves each flow by itself."""

    NONE = 0
    AVAILABLE = 1
    SHARE = 2


class AvailableFlag(enum.IntFlag):
    """Which bound alone is known. ECHOED: low is free both ways, high holds for the direction with less."""

    TX_AT_LEAST = 1
    TX_AT_MOST = 2
    RX_AT_LEAST = 4
    RX_AT_MOST = 8
    ECHOED = 16


class Cause(Word):
    """Why a bound of what is free is not known. str() gives the library's word, such as "no-queue"; "" for NONE."""

    NONE = 0
    SHORT = 1
    RTT = 2
    COALESCING = 3
    PROGRAM = 4
    NO_QUEUE = 5
    CAPACITY = 6


@dataclasses.dataclass(frozen=True)
class Available(Struct):
    """What other traffic left free for about over_ns, until age_ns ago. Rates count IP bytes; None: not known."""

    name = "autobuf_available"
    kind: Kind = u32(Kind)
    flags: AvailableFlag = u32(AvailableFlag)
    cause: Cause = u32(Cause)
    tx_low_bit_per_s: int | None = u64(0)
    tx_high_bit_per_s: int | None = u64(0)
    rx_low_bit_per_s: int | None = u64(0)
    rx_high_bit_per_s: int | None = u64(0)
    over_ns: int = u64()
    age_ns: int = u64()
