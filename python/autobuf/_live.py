# SPDX-License-Identifier: MIT
"""What a flow sees of an open connection."""
from __future__ import annotations

import dataclasses

from ._event import Bottleneck
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
