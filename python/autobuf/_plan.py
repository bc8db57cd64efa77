# SPDX-License-Identifier: MIT
"""The limits of this host, the state of a socket, and what to set."""
from __future__ import annotations

import ctypes
import dataclasses
import enum
import itertools
from collections.abc import Callable

from ._errors import check
from ._event import Lock, Reason
from ._handle import Socket, descriptor
from ._library import library, unsigned
from ._path import Path
from ._struct import UNSET, Struct, reserved, u32, u64


class Intent(enum.IntFlag):
    """THROUGHPUT: the highest rate; LOW_DELAY: no queue; SCAVENGER: what others leave. Add SENDS or RECEIVES if only one direction carries bulk."""
    THROUGHPUT = 0
    LOW_DELAY = 1
    SCAVENGER = 2
    SENDS = 16
    RECEIVES = 32


class LimitsFlag(enum.IntFlag):
    RCV_AUTOTUNING = 1
    WINDOW_SCALING = 2
    FORCE = 4
    NO_UNLOCK = 8
    ASSUMED = 16


class Stage(enum.IntEnum):
    NEW = 0
    LISTENING = 1
    CONNECTED = 2


class SocketFlag(enum.IntFlag):
    """Window scaling was not negotiated."""
    UNSCALED = 1


class PlanFlag(enum.IntFlag):
    SND_FORCE = 1
    SND_UNLOCK = 2
    RCV_UNLOCK = 4
    SND_AT_LEAST = 8
    RCV_AT_LEAST = 16
    RCV_FORCE = 32
    SND_ECHOED = 64


class Sysctl(enum.IntFlag):
    """What limits a window."""
    WMEM_MAX = 1
    TCP_RMEM = 2
    WINDOW_SCALING = 4
    TCP_MEM = 8
    MODERATE_RCVBUF = 16


@dataclasses.dataclass(frozen=True)
class Limits(Struct):
    """The limits of this host. settable: as setsockopt() takes it; all others: as getsockopt() shows it, twice that.

    request_most_bytes: a plan requests no larger buffer; None: no such bound.
    """

    name = "autobuf_limits"
    flags: LimitsFlag = u32(LimitsFlag)
    snd_settable_bytes: int = u64()
    rcv_settable_bytes: int = u64()
    tcp_wmem_min_bytes: int = u64()
    tcp_wmem_default_bytes: int = u64()
    tcp_wmem_max_bytes: int = u64()
    tcp_rmem_min_bytes: int = u64()
    tcp_rmem_default_bytes: int = u64()
    tcp_rmem_max_bytes: int = u64()
    tcp_mem_bytes: int | None = u64(0)
    page_bytes: int | None = u64(0)
    tcp_used_bytes: int = u64()
    forced_bytes: int | None = u64(UNSET, 0)
    request_most_bytes: int | None = u64(0)


@dataclasses.dataclass(frozen=True)
class SocketState(Struct):
    """The state of a TCP socket. Windows are the largest that the window scale allows; None: not fixed, or unknown."""

    name = "autobuf_socket"
    stage: Stage = u32(Stage)
    locks: Lock = u32(Lock)
    mss_bytes: int | None = u32(int, 0)
    snd_buf_bytes: int = u64()
    rcv_buf_bytes: int = u64()
    snd_window_max_bytes: int | None = u64(0)
    rcv_window_max_bytes: int | None = u64(0)
    rtt_min_ns: int | None = u64(UNSET)
    flags: SocketFlag = u32(SocketFlag)
    reserved: int = u32()


@dataclasses.dataclass(frozen=True)
class Plan(Struct):
    """What to set, and what that gives. Windows are TCP payload; None: not known. Requests are for setsockopt().

    A request, pacing or clamp of 0: leave that alone. wanted: what the path needs; window: what this plan gives;
    kernel: what autotuning gives without it; needed: the size, as getsockopt() shows it, that holds what is wanted;
    block: the smallest window of programs whose writes block; retry: that of those that try again every few milliseconds.
    """

    name = "autobuf_plan"
    intent: Intent = u32(Intent)
    flags: PlanFlag = u32(PlanFlag)
    snd_reason: Reason = u32(Reason)
    rcv_reason: Reason = u32(Reason)
    snd_sysctl: Sysctl = u32(Sysctl)
    rcv_sysctl: Sysctl = u32(Sysctl)
    reserved: int = reserved()
    rtt_ns: int | None = u64(UNSET)
    snd_wanted_bytes: int | None = u64(0)
    snd_request_bytes: int = u64()
    snd_window_bytes: int | None = u64(0)
    snd_kernel_bytes: int | None = u64(0)
    snd_needed_bytes: int | None = u64(0)
    snd_pacing_bit_per_s: int = u64()
    rcv_wanted_bytes: int | None = u64(0)
    rcv_request_bytes: int = u64()
    rcv_window_bytes: int | None = u64(0)
    rcv_kernel_bytes: int | None = u64(0)
    rcv_needed_bytes: int | None = u64(0)
    rcv_clamp_bytes: int = u64()
    snd_block_bytes: int | None = u64(0)
    snd_retry_bytes: int | None = u64(0)

    def explain(self) -> str:
        """Two lines of plain English, one for each side."""
        c = ctypes.byref(self.to_c())
        return _text(lambda buf, size: int(library.autobuf_plan_explain(c, buf, size)))

    def sysctl(self, limits: Limits) -> list[str]:
        """The lines that an administrator would have to set, as sysctl(8) takes them."""
        c = ctypes.byref(self.to_c()), ctypes.byref(limits.to_c())
        lines = (_text(lambda buf, size: int(library.autobuf_plan_sysctl(*c, index, buf, size)))
                 for index in itertools.count())
        return list(itertools.takewhile(bool, lines))


def _text(write: Callable[[ctypes.Array[ctypes.c_char] | None, int], int]) -> str:
    """What a call writes that returns the length as snprintf(3) does."""
    buf = ctypes.create_string_buffer(check(write(None, 0)) + 1)
    check(write(buf, len(buf)))
    return buf.value.decode()


def limits_host() -> Limits:
    """Reads the limits of this host, in the network namespace of this thread. Error: socket(2) failed."""
    return Limits.filled(lambda c: check(library.autobuf_limits_host(c)))


def socket_state(sock: Socket) -> SocketState:
    """The state of a socket; Error with errno EOPNOTSUPP: it is not a TCP socket; EBADF, ENOTSOCK."""
    return SocketState.filled(lambda c: check(library.autobuf_socket_state(descriptor(sock), c)))


def plan_make(path: Path, limits: Limits, state: SocketState, intent: Intent = Intent.THROUGHPUT,
              expected_bytes: int | None = None) -> Plan:
    """Decides what to set on a socket, for so many bytes (None: unknown). It sets nothing."""
    wanted = unsigned(intent, 32), unsigned(expected_bytes or 0)
    known = [ctypes.byref(struct.to_c()) for struct in (path, limits, state)]
    return Plan.filled(lambda c: check(library.autobuf_plan_make(*known, *wanted, c)))


def plan_worth(limits: Limits, state: SocketState, intent: Intent = Intent.THROUGHPUT,
               expected_bytes: int | None = None) -> tuple[int, int] | None:
    """Whether measuring the path can pay: the range of BDPs that matters, for Probe; None: it cannot."""
    low, high = ctypes.c_uint64(), ctypes.c_uint64()
    worth = check(library.autobuf_plan_worth(ctypes.byref(limits.to_c()), ctypes.byref(state.to_c()),
                                             unsigned(intent, 32), unsigned(expected_bytes or 0),
                                             ctypes.byref(low), ctypes.byref(high)))
    return (low.value, high.value) if worth else None


def apply(sock: Socket, plan: Plan) -> bool:
    """Sets what a plan requests. True: it set something. On failure the socket is as it was.

    ClampedError: the plan was made for other limits; Error with errno EPERM: a forced size without CAP_NET_ADMIN;
    EOPNOTSUPP: not a TCP socket; and those of setsockopt(2).
    """
    return bool(check(library.autobuf_apply(descriptor(sock), ctypes.byref(plan.to_c()))))


def unlock(sock: Socket, sides: Lock = Lock.SND | Lock.RCV) -> Lock:
    """Gives sides whose buffers were set back to autotuning, best before connect() or listen().

    The sides that were locked and are not any more. LATE with them: the window scale is fixed already, and keeps the
    receive window small. Error with errno ENOPROTOOPT: the kernel is older than Linux 5.15.
    """
    return Lock(check(library.autobuf_unlock(descriptor(sock), unsigned(sides, 32))))
