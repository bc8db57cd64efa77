# SPDX-License-Identifier: MIT
"""What all handles share, and what they are opened with: descriptors, addresses, times."""
from __future__ import annotations

import ctypes
import inspect
import socket
import struct
import threading
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar, Union, cast

from ._errors import ResolveError, check
from ._library import library, unsigned
from ._struct import UNSET

P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H", bound="Handle")


class HasFileno(Protocol):
    def fileno(self) -> int: ...


Socket = Union[int, HasFileno]
"""A TCP socket: a socket.socket, anything else with a fileno(), or a descriptor."""
Address = Union[str, tuple[Any, ...]]
"""A host, or an address as socket.connect() takes it. A name is resolved, which takes the resolver's time."""


def descriptor(sock: Socket) -> int:
    fd = sock if isinstance(sock, int) else sock.fileno()
    if not -1 <= fd < 1 << 31:
        raise ValueError(f"{fd} is no descriptor")
    return fd


def whole(host: str) -> str:
    """host, unless C would see only a part of it."""
    if "\0" in host:
        raise ValueError("there is a NUL in the host's name")
    return host


def sockaddr(address: Address | None, family: int = 0) -> tuple[bytes | None, int]:
    """A struct sockaddr and its length; NULL and 0 for None."""
    if address is None:
        return None, 0
    host, port, *more = (address, 0) if isinstance(address, str) else address
    whole(host)
    found: Any
    try:
        family, *_, found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise ResolveError(ResolveError.code, f"{host}: {error.strerror if isinstance(error, OSError) else error}") from error
    packed = struct.pack("=H", family) + struct.pack("!H", found[1])
    if family == socket.AF_INET:
        packed += socket.inet_pton(family, found[0]) + bytes(8)
    else:
        flow, scope = (*more, 0)[:2] if more else found[2:]
        numeric = found[0].partition("%")[0]
        packed += struct.pack("!I", flow) + socket.inet_pton(family, numeric) + struct.pack("=I", scope)
    return packed, len(packed)


def peer_of(sock: Socket, peer: Address | None) -> tuple[bytes | None, int]:
    return sockaddr(peer, getattr(sock, "family", 0))


def now_ns() -> int:
    """The clock of every now_ns and deadline_ns: CLOCK_MONOTONIC in nanoseconds."""
    return int(library.autobuf_now_ns())


def moment(at_ns: int | None) -> int:
    """The time of a call; None: now."""
    return now_ns() if at_ns is None else unsigned(at_ns)


def is_off() -> bool:
    """AUTOBUF=off is in the environment: the library changes nothing."""
    return bool(library.autobuf_is_off())


def log_own() -> bool:
    """For a program that shows what its log callbacks are told: with AUTOBUF=log the library then no longer does.

    True: AUTOBUF=log is in the environment. Call it before the first handle.
    """
    return bool(library.autobuf_log_own())


def like(model: Callable[P, object]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Says that a function takes the same arguments as the model, which names them."""
    def say(function: Callable[..., T]) -> Callable[P, T]:
        shown = inspect.signature(model).replace(return_annotation=function.__annotations__["return"])
        setattr(function, "__signature__", shown)  # for help()
        return cast("Callable[P, T]", function)
    return say


class Handle:
    """A handle of the library, closed by close(), at the end of a `with` block, or once nobody refers to it.

    One thread at a time may use it. Anything else is a RuntimeError, also a use by the handle's own log callback.
    After close() each use is a ValueError. In a forked child step() and tell() are a ForkedError. The end of the process
    closes none: another thread may still be at work with it.
    """

    family: ClassVar[str]

    def __init__(self, *arguments: Any) -> None:
        self._pointer = ctypes.c_void_p()
        self._lock = threading.Lock()
        self._arguments = arguments
        """Kept, because the library calls the log callback that is among them. Pointers, for up to 3.11 the collector of cycles
        sees nothing behind byref()."""
        check(getattr(library, f"{self.family}_open")(ctypes.byref(self._pointer), *arguments))
        self._finalize = weakref.finalize(self, getattr(library, f"{self.family}_close"), self._pointer)
        self._finalize.atexit = False

    def _call(self, name: str, *arguments: Any) -> Any:
        self._only_user()
        try:
            return getattr(library, f"{self.family}_{name}")(self._pointer, *arguments)
        finally:
            self._lock.release()

    def _only_user(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(f"this {type(self).__name__} is in use")
        if not self._finalize.alive:
            self._lock.release()
            raise ValueError(f"this {type(self).__name__} is closed")

    def close(self) -> None:
        """Closes the handle, never the socket. It may be called again."""
        if self._finalize.alive:
            self._only_user()
            self._finalize.detach()
            getattr(library, f"{self.family}_close")(self._pointer)
            self._lock.release()

    @property
    def closed(self) -> bool:
        return not self._finalize.alive

    def __enter__(self: H) -> H:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Stepped(Handle):
    """A handle with work to do from time to time: call step() whenever deadline_ns has passed."""

    @property
    def deadline_ns(self) -> int | None:
        """The time, as now_ns() tells it, at which to call step() next; None: there is nothing to do."""
        deadline_ns: int = self._call("deadline_ns")
        return None if deadline_ns == UNSET else deadline_ns

    def wait_ms(self) -> int | None:
        """The time until deadline_ns as select.poll.poll() takes it: in milliseconds, rounded up; None: for ever."""
        deadline_ns = self.deadline_ns
        return None if deadline_ns is None else max(0, -((now_ns() - deadline_ns) // 1_000_000))

    def step(self, at_ns: int | None = None) -> bool:
        """Does what is due at a time; None: now. Before deadline_ns it does nothing, and does not block."""
        return bool(check(self._call("step", moment(at_ns))))
