# SPDX-License-Identifier: MIT
"""Finds libautobuf, and says what its functions take and return."""
from __future__ import annotations

import ctypes
import operator
import os
from typing import Any

VERSION = "0.9.0"
LIBRARY = "libautobuf.so.0"

LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def unsigned(value: Any, bits: int = 64) -> int:
    """value, if it is a whole number that fits: ctypes itself would cut it off without a word."""
    number = operator.index(value)
    if not 0 <= number < 1 << bits:
        raise ValueError(f"{number} is not in the range of 0 to {(1 << bits) - 1}")
    return number


_int, _i64, _u32, _u64 = ctypes.c_int, ctypes.c_int64, ctypes.c_uint32, ctypes.c_uint64
_string, _pointer, _size = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t

PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "bwdelay": (_i64, [_string]),
    "bwdelay_addr": (_i64, [_pointer, _u32]),
    "bwdelay_apply": (_int, [_int, _i64]),
    "autobuf_strerror": (_string, [_int]),
    "autobuf_version": (_string, []),
    "autobuf_now_ns": (_u64, []),
    "autobuf_is_off": (_int, []),
    "autobuf_log_own": (_int, []),
    "autobuf_path_given": (_int, [_pointer, _u64, _u64]),
    "autobuf_method_name": (_string, [_u32]),
    "autobuf_paths_entry_encode": (_int, [_pointer, _pointer, _u32]),
    "autobuf_prefix_parse": (_int, [_string, _pointer]),
    "autobuf_unsure_name": (_string, [_u32]),
    "autobuf_payload_bytes": (_u64, [_u64, _u32]),
    "autobuf_probe": (_int, [_pointer, _u32, _pointer, _pointer]),
    "autobuf_probe_open": (_int, [_pointer, _pointer, _u32, _pointer]),
    "autobuf_probe_fd": (_int, [_pointer]),
    "autobuf_probe_events": (_int, [_pointer]),
    "autobuf_probe_deadline_ns": (_u64, [_pointer]),
    "autobuf_probe_step": (_int, [_pointer, _u64]),
    "autobuf_probe_result": (_int, [_pointer, _pointer]),
    "autobuf_probe_available": (_int, [_pointer, _pointer]),
    "autobuf_probe_close": (None, [_pointer]),
    "autobuf_inband": (_int, [_int, _pointer, _pointer, _pointer]),
    "autobuf_limits_host": (_int, [_pointer]),
    "autobuf_socket_state": (_int, [_int, _pointer]),
    "autobuf_plan_make": (_int, [_pointer, _pointer, _pointer, _u32, _u64, _pointer]),
    "autobuf_plan_worth": (_int, [_pointer, _pointer, _u32, _u64, _pointer, _pointer]),
    "autobuf_plan_explain": (_int, [_pointer, _pointer, _size]),
    "autobuf_plan_sysctl": (_int, [_pointer, _pointer, _u32, _pointer, _size]),
    "autobuf_reason_name": (_string, [_u32]),
    "autobuf_bottleneck_name": (_string, [_u32]),
    "autobuf_cause_name": (_string, [_u32]),
    "autobuf_streams": (_int, [_pointer, _pointer, _u64, _u64]),
    "autobuf_tune": (_int, [_int, _pointer, _u32, _pointer, _pointer]),
    "autobuf_apply": (_int, [_int, _pointer]),
    "autobuf_unlock": (_int, [_int, _u32]),
    "autobuf_flow_open": (_int, [_pointer, _int, _pointer, _u32, _pointer]),
    "autobuf_flow_deadline_ns": (_u64, [_pointer]),
    "autobuf_flow_step": (_int, [_pointer, _u64]),
    "autobuf_flow_move": (_int, [_pointer, _int]),
    "autobuf_flow_tell": (_int, [_pointer, _pointer]),
    "autobuf_flow_state": (_int, [_pointer, _pointer]),
    "autobuf_flow_close": (None, [_pointer]),
    "autobuf_rightsize_open": (_int, [_pointer, _pointer]),
    "autobuf_rightsize_consumed": (_u64, [_pointer, _u64, _u64]),
    "autobuf_rightsize_rtt": (None, [_pointer, _u64]),
    "autobuf_rightsize_granted": (None, [_pointer, _u64, _u64]),
    "autobuf_rightsize_received": (None, [_pointer, _u64, _u64]),
    "autobuf_rightsize_gap": (None, [_pointer, _u64]),
    "autobuf_rightsize_state": (_int, [_pointer, _pointer]),
    "autobuf_rightsize_close": (None, [_pointer]),
}


def _load() -> ctypes.CDLL:
    name = os.environ.get("AUTOBUF_LIBRARY") or LIBRARY
    try:
        found = ctypes.CDLL(name)
        for function, (result, arguments) in PROTOTYPES.items():
            getattr(found, function).restype = result
            getattr(found, function).argtypes = arguments
    except (OSError, AttributeError) as error:
        raise ImportError(f"{error}: autobuf needs the C library libautobuf {VERSION}. Install it (meson install, "
                          "ldconfig), or set AUTOBUF_LIBRARY to the path of its libautobuf.so.0.") from error
    version: str = found.autobuf_version().decode()
    if version.split(".")[:2] != VERSION.split(".")[:2]:  # before 1.0 a minor version may change anything
        raise ImportError(f"{name} is libautobuf {version}; this package is for {VERSION}")
    return found


library = _load()
