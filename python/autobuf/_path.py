# SPDX-License-Identifier: MIT
"""What is known of a path, and the ways to measure it."""
from __future__ import annotations

import ctypes
import dataclasses
import enum
from typing import Any

from ._errors import Error, FewError, ResolveError, check, error
from ._event import Log, Word, log_option
from ._handle import Address, Socket, Stepped, descriptor, like, sockaddr, whole
from ._library import library, unsigned
from ._live import Available
from ._struct import UNSET, Struct, pointer, reserved, text, u32, u64


class Method(Word):
    """Who says it. str() gives the library's word, such as "icmp"."""
    NONE = 0
    ICMP = 1
    GIVEN = 2
    INBAND = 3
    IMPORTED = 4
    PASSIVE = 5


class PathFlag(enum.IntFlag):
    """The rate of this direction is a lower bound; nobody measured the path to this peer, but to hosts of the same network;
    it is a lower bound because an echo sees only the slower direction; full packets were lost without
    an ICMP error, and smaller ones answered."""
    TX_AT_LEAST = 1
    RX_AT_LEAST = 2
    NEIGHBOURS = 4
    TX_ECHOED = 8
    RX_ECHOED = 16
    BLACK_HOLE = 32


class Unsure(Word):
    """Why a rate may be more than a fifth off: "jitter", "batches" or "pauses"."""
    NOT = 0
    JITTER = 1
    BATCHES = 2
    PAUSES = 3


@dataclasses.dataclass(frozen=True)
class Path(Struct):
    """What is known of a path: tx from here to the peer, rx from the peer to here. None: not known.

    A rate is the capacity of the narrowest link and counts IP bytes, headers included. An echo sees only the slower
    direction, so ICMP reports that rate for both. bdp: the bandwidth-delay product.
    """

    name = "autobuf_path"
    method: Method = u32(Method)
    flags: PathFlag = u32(PathFlag)
    samples: int = u32()
    rtt_min_ns: int | None = u64(UNSET)
    rtt_median_ns: int | None = u64(UNSET)
    tx_rate_bit_per_s: int | None = u64(0)
    tx_rate_low_bit_per_s: int | None = u64(0)
    tx_rate_high_bit_per_s: int | None = u64(0)
    rx_rate_bit_per_s: int | None = u64(0)
    rx_rate_low_bit_per_s: int | None = u64(0)
    rx_rate_high_bit_per_s: int | None = u64(0)
    tx_bdp_bytes: int | None = u64(0)
    rx_bdp_bytes: int | None = u64(0)
    cost_bytes: int = u64()
    elapsed_ns: int = u64()
    measured_ns: int | None = u64(UNSET)
    packet_bytes: int | None = u32(int, 0)
    loss_permille: int = u32()
    tx_unsure: Unsure = u32(Unsure)
    rx_unsure: Unsure = u32(Unsure)

    @classmethod
    def given(cls, rate_bit_per_s: int, rtt_ns: int) -> Path:
        """A path that the caller knows, with this IP-level rate in both directions."""
        return cls.filled(lambda c: check(library.autobuf_path_given(c, unsigned(rate_bit_per_s), unsigned(rtt_ns))))


def payload_bytes(ip_bytes: int, packet_bytes: int | None = None) -> int:
    """The TCP payload in so many IP bytes, in packets of packet_bytes (None: 1500)."""
    return int(library.autobuf_payload_bytes(unsigned(ip_bytes), unsigned(packet_bytes or 0, 32)))


def bwdelay(peer: Address) -> int:
    """Measures the path to peer: how many bytes of TCP payload it holds. Takes at most 2 s, and the resolver's time.

    ResolveError; NoReplyError; FewError; OffError; Error with errno EACCES: ICMP sockets are not permitted.
    """
    if not isinstance(peer, str):
        return check(library.bwdelay_addr(*sockaddr(peer)))
    try:
        name = whole(peer).encode("idna")
    except UnicodeError as wrong:
        raise ResolveError(ResolveError.code, f"{peer!r}: {wrong}") from wrong
    return check(library.bwdelay(name))


def bwdelay_apply(sock: Socket, product_bytes: int) -> bool:
    """Sets what a socket needs for a BDP, before connect() or listen(). True: it set something."""
    if not 0 < product_bytes < 1 << 63:
        raise ValueError("a BDP is above 0")
    return bool(check(library.bwdelay_apply(descriptor(sock), product_bytes)))


def _measured(measure: Any) -> Path:
    """What a measuring call has put into a struct; a FewError takes it along."""
    c = Path().to_c()
    result = measure(ctypes.byref(c))
    if result < 0:
        failed = error(result)
        failed.path = Path.from_c(c) if isinstance(failed, FewError) else None
        raise failed
    return Path.from_c(c)


AVAILABLE = 1  # AUTOBUF_PROBE_AVAILABLE


@dataclasses.dataclass(frozen=True)
class ProbeOptions(Struct):
    name = "autobuf_probe_options"
    packet_bytes: int | None = u32(int, 0)
    budget_bytes: int | None = u32(int, 0)
    mark: int | None = u32(int, 0)
    timeout_ns: int | None = u64(0)
    bdp_low_bytes: int | None = u64(0)
    bdp_high_bytes: int | None = u64(0)
    silence_ns: int | None = u64(0)
    source: bytes | None = pointer()
    log: Log | None = log_option()
    log_user: None = pointer()
    device: str | None = text(16)
    source_len: int = u32()
    flags: int | None = u32(int, 0)


class Probe(Stepped):
    """A measurement of a path with ICMP echoes, for a loop of the caller's own:

        with autobuf.Probe(host) as probe:
            while not probe.step():
                poll.poll(probe.wait_ms())    # registered: probe, for probe.events
            path = probe.result()

    peer: a host or an address, whose port is ignored. packet_bytes: the largest IP packet to send; None: what the
    path takes. budget_bytes: the most IP bytes to send, 1,000 to 1,000,000; None: 1,000,000. mark: SO_MARK.
    timeout_ns: at most 2 s; None: 2 s. bdp_low_bytes, bdp_high_bytes: only a BDP between them matters; see
    plan_worth(). silence_ns: gives up if nothing answers for so long; None: 1 s. source: the address to send from.
    device: to send from. available: afterwards try what is free, for available(), within the same budget.

    Error with errno EACCES: neither ping sockets (net.ipv4.ping_group_range) nor raw sockets are permitted; EINVAL:
    an option is out of range. ResolveError.
    """

    family = "autobuf_probe"

    def __init__(self, peer: Address, *, packet_bytes: int | None = None, budget_bytes: int | None = None,
                 mark: int | None = None, timeout_ns: int | None = None, bdp_low_bytes: int | None = None,
                 bdp_high_bytes: int | None = None, silence_ns: int | None = None, source: Address | None = None,
                 device: str | None = None, available: bool = False, log: Log | None = None) -> None:
        super().__init__(*_probe_arguments(
            peer, packet_bytes=packet_bytes, budget_bytes=budget_bytes, mark=mark, timeout_ns=timeout_ns,
            bdp_low_bytes=bdp_low_bytes, bdp_high_bytes=bdp_high_bytes, silence_ns=silence_ns, source=source,
            flags=AVAILABLE if available else 0, device=device, log=log))

    def fileno(self) -> int:
        """The descriptor to poll. It is always the same."""
        return int(self._call("fd"))

    @property
    def events(self) -> int:
        """select.POLLIN, select.POLLOUT or both: what to poll it for until the next step()."""
        return int(self._call("events"))

    def step(self, at_ns: int | None = None) -> bool:
        """Receives what has arrived and sends what is due, without blocking. True: the measurement is finished.

        Error: the network reported one (EHOSTUNREACH, ...); NoReplyError; ForkedError. Then it can only be closed.
        """
        return super().step(at_ns)

    def result(self) -> Path:
        """What is known so far; NoReplyError: nothing; FewError: only the RTT, which its path has."""
        return _measured(lambda c: self._call("result", c))

    def available(self) -> Available:
        """What other traffic leaves free, by echoes: low both ways, high in the direction with less."""
        c = Available().to_c()
        check(self._call("available", ctypes.byref(c)))
        return Available.from_c(c)


def _probe_arguments(peer: Address, source: Address | None = None, **options: Any) -> list[Any]:
    packed, length = sockaddr(source)
    held = ProbeOptions(source=packed, source_len=length, **options).to_c()
    return [*sockaddr(peer), ctypes.pointer(held)]


@like(Probe)
def probe(peer: Address, **options: Any) -> Path:
    """Measures the path to peer; the arguments are those of Probe. Blocks for 2 s at most; other threads go on.

    The errors are those of Probe, its step() and its result().
    """
    arguments = _probe_arguments(peer, **options)
    return _measured(lambda c: library.autobuf_probe(*arguments, c))


class Direction(enum.IntFlag):
    """What to measure in band: TX what is sent from here, RX what comes from the peer."""
    TX = 1
    RX = 2


@dataclasses.dataclass(frozen=True)
class InbandOptions(Struct):
    name = "autobuf_inband_options"
    budget_bytes: int | None = u32(int, 0)
    timeout_ns: int | None = u64(0)
    log: Log | None = log_option()
    log_user: None = pointer()
    prefix: str | None = text(32)
    dress: int = u32()
    flags: Direction | None = u32(Direction, 0)


def inband(sock: Socket, *, directions: Direction | None = None, budget_bytes: int | None = None,
           timeout_ns: int | None = None, prefix: str | None = None, log: Log | None = None) -> Path:
    """Measures over a connected TCP socket, each direction by itself, with a peer that knows the exchange.

    Call it where the application has nothing under way. directions: None: both. budget_bytes: the most IP bytes to
    send in each direction, 6,000 to 480,000; None: 480,000. timeout_ns: begins no round later; at most 30 s; None:
    5 s. prefix: what lines begin with; None: AUTOBUF. Blocks; other threads go on.

    UnsupportedError, NoReplyError, FewError, RelayedError, ProtocolError, Error. Its `usable` is False if the connection has to be
    closed. If there is no error, the connection is as usable as before.
    """
    options = InbandOptions(budget_bytes, timeout_ns, log, None, prefix, 0, directions).to_c()
    usable = ctypes.c_int()
    try:
        return _measured(lambda c: library.autobuf_inband(descriptor(sock), ctypes.byref(options), c,
                                                          ctypes.byref(usable)))
    except Error as failed:
        failed.usable = bool(usable)
        raise
