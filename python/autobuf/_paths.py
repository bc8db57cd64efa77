# SPDX-License-Identifier: MIT
"""Entries of the path store, as far as the programs of this package hand them on."""
from __future__ import annotations

import ctypes
import dataclasses

from ._errors import check
from ._event import Bottleneck
from ._handle import whole
from ._library import library
from ._path import Method, PathFlag, Unsure
from ._struct import UNSET, Struct, inner, text, u32, u64

MESSAGE_BYTES = 200
"""AUTOBUF_PATHS_MESSAGE_BYTES."""


class Prefix(ctypes.Structure):
    """The addresses that begin with the same bits; version 0: all."""

    _fields_ = [("address", ctypes.c_uint8 * 16), ("version", ctypes.c_uint32), ("bits", ctypes.c_uint32)]

    @classmethod
    def parse(cls, words: str) -> Prefix:
        """ValueError: it is neither an address nor a prefix."""
        prefix = cls()
        if library.autobuf_prefix_parse(whole(words).encode(), ctypes.byref(prefix)) < 0:
            raise ValueError(f"{words!r} is no prefix")
        return prefix


@dataclasses.dataclass(frozen=True)
class Entry(Struct):
    name = "autobuf_paths_entry"
    method: Method = u32(Method)
    remote: Prefix = inner(Prefix)
    local: Prefix = inner(Prefix)
    device: str | None = text(16)
    flags: PathFlag = u32(PathFlag)
    bottleneck: Bottleneck = u32(Bottleneck)
    samples: int = u32()
    packet_bytes: int = u32()
    tx_unsure: Unsure = u32(Unsure)
    rx_unsure: Unsure = u32(Unsure)
    rtt_min_ns: int | None = u64(UNSET)
    rtt_median_ns: int | None = u64(UNSET)
    tx_rate_bit_per_s: int = u64()
    tx_rate_low_bit_per_s: int = u64()
    tx_rate_high_bit_per_s: int = u64()
    rx_rate_bit_per_s: int = u64()
    rx_rate_low_bit_per_s: int = u64()
    rx_rate_high_bit_per_s: int = u64()
    tx_bdp_bytes: int = u64()
    rx_bdp_bytes: int = u64()
    learned_s: int = u64()
    expires_s: int | None = u64(UNSET)

    def message(self) -> bytes:
        """As the command and the daemon take it. ValueError, or Error with errno EINVAL: no store would have it."""
        message = ctypes.create_string_buffer(MESSAGE_BYTES)
        check(library.autobuf_paths_entry_encode(ctypes.byref(self.to_c()), message, MESSAGE_BYTES))
        return message.raw
