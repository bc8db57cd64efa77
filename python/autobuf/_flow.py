# SPDX-License-Identifier: MIT
"""One handle for the life of a connection, and tuning a socket in one call."""
from __future__ import annotations

import ctypes
import dataclasses
import errno
from collections.abc import Callable
from typing import Any

from ._errors import Error, check, error
from ._event import Log, log_option
from ._handle import Address, Socket, Stepped, descriptor, like, peer_of
from ._library import library, unsigned
from ._live import Available, LiveState
from ._path import Path
from ._plan import Intent, Limits, Plan, Stage, socket_state
from ._struct import Struct, i32, pointer, reserved, u32, u64

SILENT, NO_STORE, OBSERVE, AVAILABLE = 1, 2, 4, 8
"""AUTOBUF_FLOW_*."""


@dataclasses.dataclass(frozen=True)
class Options(Struct):
    name = "autobuf_options"
    intent: Intent = u32(Intent)
    expected_bytes: int | None = u64(0)
    timeout_ns: int | None = u64(0)
    log: Log | None = log_option()
    log_user: None = pointer()
    budget_bytes: int | None = u32(int, 0)
    mark: int | None = u32(int, 0)
    streams: int | None = u32(int, 0)
    flags: int = u32()
    path: Path | None = pointer()
    most_bytes: int | None = u64(0)
    limits: Limits | None = pointer()


@dataclasses.dataclass(frozen=True)
class AppliedPointers(Struct):
    name = "autobuf_applied"
    measured: int = i32()
    path: None = pointer()
    limits: None = pointer()
    plan: None = pointer()
    live: None = pointer()
    changes: int = u32()
    reserved: int = reserved()
    available: None = pointer()


@dataclasses.dataclass(frozen=True)
class Applied:
    """What was found and done. measured: the path was; error: why measuring failed; plan: the newest one;
    changes: how often something was set; limits, live, available: only of a flow.
    """

    measured: bool
    error: Error | None
    path: Path
    plan: Plan
    changes: int
    limits: Limits | None = None
    live: LiveState | None = None
    available: Available | None = None


def _applied(fill: Callable[[Any], int], flow: bool) -> Applied:
    path, plan, limits, live, available = (kind().to_c() for kind in (Path, Plan, Limits, LiveState, Available))
    c = AppliedPointers.empty()
    c.path, c.plan = ctypes.addressof(path), ctypes.addressof(plan)
    if flow:  # tune() would read the limits even where a short transfer does not need them
        c.limits, c.live, c.available = (ctypes.addressof(struct) for struct in (limits, live, available))
    changed = check(fill(ctypes.byref(c)))
    return Applied(c.measured > 0, error(c.measured) if c.measured < 0 else None, Path.from_c(path), Plan.from_c(plan),
                   c.changes if flow else changed, Limits.from_c(limits) if flow else None,
                   LiveState.from_c(live) if flow else None, Available.from_c(available) if flow else None)


def _arguments(sock: Socket, peer: Address | None = None, silent: bool = False, flags: int = 0, **options: Any) -> list[Any]:
    return [descriptor(sock), *peer_of(sock, peer), ctypes.pointer(Options(flags=flags | silent, **options).to_c())]


class Flow(Stepped):
    """Manages one TCP connection for its whole life. No call blocks, and no transfer waits for a measurement:

        with socket.socket() as sock, autobuf.Flow(sock, address) as flow:
            sock.connect(address)
            for data in blocks:
                sock.sendall(data)
                flow.step()

    sock: new, listening or connected. peer: the address that it will connect to; None: not known, or connected.
    expected_bytes: how much will be transferred; None: unknown. timeout_ns: most time for measuring, at most 2 s;
    None: 2 s, but 0.3 s if nothing answers. budget_bytes: most to send for measuring, 1,000 to 1,000,000; None:
    1,000,000. mark: SO_MARK of the echoes; None: the socket's. streams: connections that share the transfer and the
    path; None: 1. silent: never measures. path: the path, which is then not measured. most_bytes: the largest buffer
    to set, as setsockopt() takes it; None: what the host allows. limits: this host's, which are then not read; None:
    they are. log: is told what was measured, decided and set.

    Error with errno EINVAL: an option is out of range; EOPNOTSUPP: not a TCP socket; EBADF; ENOTSOCK. The socket is
    then as it was.
    """

    family = "autobuf_flow"

    def __init__(self, sock: Socket, peer: Address | None = None, *, intent: Intent = Intent.THROUGHPUT,
                 expected_bytes: int | None = None, timeout_ns: int | None = None, budget_bytes: int | None = None,
                 mark: int | None = None, streams: int | None = None, silent: bool = False, path: Path | None = None,
                 most_bytes: int | None = None, limits: Limits | None = None,
                 log: Log | None = None) -> None:
        super().__init__(*_arguments(
            sock, peer, silent, intent=intent, expected_bytes=expected_bytes, timeout_ns=timeout_ns,
            budget_bytes=budget_bytes, mark=mark, streams=streams, path=path, most_bytes=most_bytes, limits=limits, log=log))

    def step(self, at_ns: int | None = None) -> bool:
        """Does what is due. True: it set something. Before deadline_ns it returns False at once.

        Error with errno EBADF, ENOTSOCK or ESTALE: the descriptor is gone, and the flow can only be closed; ForkedError;
        with another errno the socket is as it was, and the flow goes on. That the connection has ended is no error
        here, for data may be left to read.
        """
        try:
            return super().step(at_ns)
        except Error as wrong:
            if wrong.errno != errno.ENOTCONN:
                raise
            return False

    def tell(self, path: Path) -> bool:
        """Reports a path that became known elsewhere. True: it set something. The flow measures no more."""
        return bool(check(self._call("tell", ctypes.byref(path.to_c()))))

    def state(self) -> Applied:
        """What is known and was done so far."""
        return _applied(lambda c: int(self._call("state", c)), flow=True)


class Live(Stepped):
    """Manages a connected TCP socket: enlarges a buffer that is its bottleneck, and never measures.

    look_only: sets nothing. search: what is free beyond what the program sends is searched with its own data, which are
    late by at most 2% of the time since the connection began. most_bytes: the largest buffer to set, as setsockopt()
    takes it; None: what the host allows. Call step() from the loop that moves the data. It returns True if it set
    something. The socket stays the caller's; a descriptor that was closed and used again is not touched.

    Error with errno EOPNOTSUPP: not a TCP socket; ENOTCONN; EBADF; ENOTSOCK. Of step() too, after which it can only
    be closed.
    """

    family = "autobuf_flow"

    def __init__(self, sock: Socket, *, intent: Intent = Intent.THROUGHPUT, look_only: bool = False,
                 search: bool = False, most_bytes: int | None = None, log: Log | None = None) -> None:
        if socket_state(sock).stage != Stage.CONNECTED:
            raise error(-errno.ENOTCONN)
        flags = SILENT | NO_STORE | (OBSERVE if look_only else 0) | (AVAILABLE if search else 0)
        super().__init__(*_arguments(sock, flags=flags, intent=intent, most_bytes=most_bytes, log=log))

    def move(self, sock: Socket) -> None:
        """Says that the same connection has another descriptor from now on. Error with errno ESTALE: it is another."""
        check(self._call("move", descriptor(sock)))

    def state(self) -> LiveState:
        return LiveState.from_c(self._filled("live", LiveState().to_c()))

    def available(self) -> Available:
        """What other traffic leaves free, as far as what is sent shows."""
        return Available.from_c(self._filled("available", Available().to_c()))

    def _filled(self, member: str, struct: Any) -> Any:
        c = AppliedPointers.empty()
        setattr(c, member, ctypes.addressof(struct))
        check(self._call("state", ctypes.byref(c)))
        return struct


def streams(available: Available, path: Path, window_bytes: int | None = None, most_bit_per_s: int | None = None) -> int | None:
    """How many connections, sending at once, take what is free; None: not known.

    window_bytes: the window of one, in payload. most_bit_per_s: what limits one besides, such as loss. 1: more do not
    pay, because one takes it, or because they would only take from others.
    """
    return check(library.autobuf_streams(ctypes.byref(available.to_c()), ctypes.byref(path.to_c()),
                                         unsigned(window_bytes or 0), unsigned(most_bit_per_s or 0))) or None


@like(Flow)
def tune(sock: Socket, peer: Address | None = None, **options: Any) -> Applied:
    """The blocking form of a flow; the arguments are those of Flow.

    Call it before connect(), with the address that it will connect to; before listen(), without; or once it is
    connected, without. It measures if that can pay, usually for one round trip, then plans and sets. If measuring
    fails, it goes on. On an Error the socket is as it was.
    """
    arguments = _arguments(sock, peer, **options)
    return _applied(lambda c: int(library.autobuf_tune(*arguments, c)), flow=False)
