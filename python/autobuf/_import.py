# SPDX-License-Identifier: MIT
"""Measurements of paths that other programs made, read as entries of the path store.

    iperf3      one object of `iperf3 -J`, of the client or of the server
    perfSONAR   documents of an archive, alone, in an array or as the archive answers a search ("hits"), and what
                pScheduler hands to an archiver; tests "throughput" and "rtt" count
    autobuf     what `autobuf paths export` wrote, and nothing else, if the caller says that the text is that

A text may hold several such values, one behind the other. What TCP reached is a lower bound of what the path can
carry, so rates of the first two are marked so: the highest of a path counts, and its minimum RTT.
"""
from __future__ import annotations

import argparse
import calendar
import collections
import ctypes
import dataclasses
import json
import math
import re
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from ._errors import Error, written
from ._event import Bottleneck
from ._path import Method, PathFlag, Unsure
from ._paths import Entry, Prefix

MOST_BYTES = 64 << 20
"""Of a text, which may take forty times as much memory while it is read."""
NS_PER_S = 1_000_000_000
RATE_MOST = 1e15
BDP_MOST = 1 << 40
RTT_LEAST_S, RTT_MOST_S = 1e-6, 1000.0
HEADERS = {4: 52, 6: 72}
"""Of IP and TCP, with the timestamp option, which the senders' MSS do not count."""
MSS_LEAST, MSS_MOST, MSS_USUAL = 88, 65483, 1448
NEVER_S = 1e12

NOT_UNDERSTOOD = "not understood"
"""Another kind of object, or a value is missing, of another type or out of range."""
OTHER_TEST = "of something else than TCP's rate and round-trip times"
FAILED = "the test had failed"
LIMITED = "the test was told to stay below a rate or a buffer size, so it says nothing of the path"
NO_ADDRESS = "an end has no address there"
ELSEWHERE = "not between this host and another"
OLD = "too old"
EXPORTED = "if you trust whoever exported it, use --exported"
NO_RATE = "a path without a rate"
NO_RTT = "a path without a round-trip time"


class LeftOut(Exception):
    """Why a result is, in one of the words above."""


# ------------------------------------------------------------------------------------ values


def number(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"{text[:20]}: it is no number of JSON, or too large")
    return found


DECODER = json.JSONDecoder(parse_float=number, parse_int=number, parse_constant=number)
BLANKS = re.compile(r"[ \t\r\n]*")


def values(text: bytes) -> Iterator[Any]:
    """The objects and arrays of a text. ValueError: there is none, or something else."""
    whole, end = text.decode(), 0
    while not end or end < len(whole):
        start = BLANKS.match(whole, end).end()  # type: ignore[union-attr]
        try:
            value, end = DECODER.raw_decode(whole, start)
        except json.JSONDecodeError as error:
            raise ValueError(f"line {error.lineno}: {error.msg}") from None
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        if not isinstance(value, (dict, list)):
            raise ValueError(f"line {1 + whole.count(chr(10), 0, start)}: it is neither an object nor an array")
        yield value
        end = BLANKS.match(whole, end).end()  # type: ignore[union-attr]


def at(value: Any, path: str) -> Any:
    """The value at "key.key.key", or at a number for an array's; None: there is none."""
    for key in path.split("."):
        if isinstance(value, list) and key.isdigit():
            value = value[int(key)] if int(key) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def text_at(value: Any, *paths: str) -> str | None:
    """The first text at one of these."""
    return next((found for path in paths if isinstance(found := at(value, path), str)), None)


def number_at(value: Any, path: str, least: float, most: float) -> float | None:
    """The number there, if it is from least to most."""
    found = at(value, path)
    return found if isinstance(found, float) and least <= found <= most else None


def seconds_at(value: Any, path: str) -> float | None:
    """A time in seconds, or an ISO 8601 duration of hours at most: "PT0.0254S"."""
    text = text_at(value, path)
    if text is None:
        return number_at(value, path, RTT_LEAST_S, RTT_MOST_S)
    if not re.fullmatch(r"PT([0-9]+(\.[0-9]*)?[HMS])+", text):
        return None
    seconds = sum(float(part) * {"H": 3600, "M": 60, "S": 1}[unit] for part, unit in re.findall("([0-9.]+)([HMS])", text))
    return seconds if RTT_LEAST_S <= seconds <= RTT_MOST_S else None


TIME = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]*)?"
                  r"(?:Z|([+-])([0-9]{2})(?::?([0-9]{2}))?)?")


def time_at(value: Any, path: str) -> int | None:
    """"2026-11-20T10:00:00Z", also with a fraction of a second, and with an offset from UTC as +01:00 or +01."""
    found = TIME.fullmatch(text_at(value, path) or "")
    if not found:
        return None
    sign, hours, minutes = found.groups()[6:]
    ahead_s = int(hours or 0) * 3600 + int(minutes or 0) * 60
    try:
        seconds = calendar.timegm(tuple(map(int, found.groups()[:6]))) - (-ahead_s if sign == "-" else ahead_s)
    except ValueError:  # a month that there is not
        return None
    return seconds if seconds >= 0 else None


# ------------------------------------------------------------------------------------ this host


class Interface(ctypes.Structure):
    """struct ifaddrs, as far as it is read."""


Interface._fields_ = [("next", ctypes.POINTER(Interface)), ("name", ctypes.c_char_p), ("flags", ctypes.c_uint),
                      ("address", ctypes.c_void_p)]
PLACES = {socket.AF_INET: (4, 8), socket.AF_INET6: (8, 24)}
"""Of the address in a struct sockaddr_in and sockaddr_in6."""


def own_addresses() -> set[bytes]:
    """Each as a Prefix of all its bits."""
    libc = ctypes.CDLL(None, use_errno=True)
    first = ctypes.POINTER(Interface)()
    if libc.getifaddrs(ctypes.byref(first)) < 0:
        raise OSError(ctypes.get_errno(), "the addresses of this host")
    found, interface = set(), first
    while interface:
        address = interface.contents.address
        family = ctypes.c_ushort.from_address(address).value if address else 0
        if address and family in PLACES:
            start, end = PLACES[socket.AddressFamily(family)]
            raw = ctypes.string_at(address, end)[start:]
            found.add(bytes(Prefix.parse(socket.inet_ntop(family, raw))))
        interface = interface.contents.next
    libc.freeifaddrs(first)
    return found


@dataclasses.dataclass(frozen=True)
class Host:
    """addresses: of this host, as own_addresses() has them; holds_s: how long after it was made a measurement of another
    program holds; exported: whoever imports the text says that `autobuf paths export` wrote it: any prefix, for ever, set
    by hand.
    """

    addresses: set[bytes]
    now_s: int
    holds_s: int
    exported: bool = False


# ------------------------------------------------------------------------------------ results


@dataclasses.dataclass
class Reading:
    """One end is sought by its address, and the rate is of what went from the source to the other. 0: not known."""

    source: str | None
    to: str | None
    at_s: int
    tx_bit_per_s: float = 0  # what arrived, payload of TCP
    rx_bit_per_s: float = 0  # the same, of what came back
    mss: float = 0
    rtt_s: float = 0


def address_of(text: str) -> Prefix:
    """An address alone; of one that stands for IPv4, that."""
    try:
        if "/" not in text:
            return Prefix.parse(text)
    except ValueError:
        pass
    raise LeftOut(NO_ADDRESS)


def entry_of(reading: Reading, host: Host) -> Entry:
    if reading.source is None or reading.to is None:
        raise LeftOut(NOT_UNDERSTOOD)
    source, to = address_of(reading.source), address_of(reading.to)
    if source.version != to.version:
        raise LeftOut(NO_ADDRESS)
    here = bytes(source) in host.addresses
    if here == (bytes(to) in host.addresses):
        raise LeftOut(ELSEWHERE)
    learned_s = min(reading.at_s, host.now_s)  # another host's clock may be ahead
    if learned_s + host.holds_s <= host.now_s:
        raise LeftOut(OLD)
    headers, mss = HEADERS[source.version], reading.mss or MSS_USUAL
    there, back = (int(min(rate * (mss + headers) / mss, RATE_MOST)) for rate in (reading.tx_bit_per_s, reading.rx_bit_per_s))
    tx, rx = (there, back) if here else (back, there)
    return Entry(
        method=Method.IMPORTED, remote=to if here else source, samples=1,
        flags=(PathFlag.TX_AT_LEAST if tx else PathFlag(0)) | (PathFlag.RX_AT_LEAST if rx else PathFlag(0)),
        packet_bytes=int(min(reading.mss + headers, 65535)) if reading.mss else 0,
        rtt_min_ns=int(reading.rtt_s * NS_PER_S) if reading.rtt_s else None,
        tx_rate_bit_per_s=tx, tx_rate_low_bit_per_s=tx, tx_rate_high_bit_per_s=tx,
        rx_rate_bit_per_s=rx, rx_rate_low_bit_per_s=rx, rx_rate_high_bit_per_s=rx,
        learned_s=learned_s, expires_s=learned_s + host.holds_s)


def rtts_of(streams: Any, path: str) -> Iterator[float]:
    """Of an array of streams, in microseconds there."""
    for stream in streams if isinstance(streams, list) else ():
        if us := number_at(stream, path, RTT_LEAST_S * 1e6, RTT_MOST_S * 1e6):
            yield us / 1e6


def is_limited(result: Any, *paths: str) -> bool:
    """Whether one of these is set: a rate or a size that the test was not to exceed."""
    return any(at(result, path) for path in paths)


def iperf(result: Any) -> Reading:
    """What arrived counts. What the sender counted is no lower bound: at its end a part of that still waits there."""
    protocol, at_s = text_at(result, "start.test_start.protocol"), number_at(result, "start.timestamp.timesecs", 0, NEVER_S)
    if "error" in result:
        raise LeftOut(FAILED)
    if protocol is None or at_s is None:
        raise LeftOut(NOT_UNDERSTOOD)
    if protocol != "TCP":
        raise LeftOut(OTHER_TEST)
    if is_limited(result, "start.sock_bufsize", "start.target_bitrate", "start.test_start.target_bitrate", "start.test_start.fqrate"):
        raise LeftOut(LIMITED)
    is_server = at(result, "start.accepted_connection") is not None
    is_reverse = bool(number_at(result, "start.test_start.reverse", 0, 1))
    rate, other = (number_at(result, f"end.{name}.bits_per_second", 1, RATE_MOST) or 0
                   for name in ("sum_received", "sum_received_bidir_reverse"))
    if is_server != is_reverse:
        rate, other = other, rate
    return Reading(text_at(result, "start.connected.0.local_host"), text_at(result, "start.connected.0.remote_host"), int(at_s),
                   rate, other, number_at(result, "start.tcp_mss_default", MSS_LEAST, MSS_MOST) or 0,
                   min(rtts_of(at(result, "end.streams"), "sender.min_rtt"), default=0))


def rtts_of_test(document: Any) -> Iterator[float]:
    """What iperf3 told pScheduler, in microseconds. Other tools' have other units."""
    if text_at(document, "pscheduler.tool", "tool.name", "tool") != "iperf3":
        return
    for path in ("result.streams.json", "result.summary.streams"):
        yield from rtts_of(at(document, path), "rtt")
    for path in ("result.intervals.json", "result.intervals"):
        intervals = at(document, path)
        for interval in intervals if isinstance(intervals, list) else ():
            yield from rtts_of(at(interval, "streams"), "rtt")


def first(found: Iterable[Any]) -> Any:
    """The first that is there."""
    for value in found:
        if value is not None:
            return value
    raise LeftOut(NOT_UNDERSTOOD)


def perfsonar(document: Any) -> Reading:
    kind = text_at(document, "test.type")
    if kind is None:
        raise LeftOut(NOT_UNDERSTOOD)
    if kind not in ("throughput", "rtt") or at(document, "test.spec.udp") is True:
        raise LeftOut(OTHER_TEST)
    if at(document, "result.succeeded") is False:
        raise LeftOut(FAILED)
    reading = Reading(
        text_at(document, "meta.source.ip", "test.spec.source"), text_at(document, "meta.destination.ip", "test.spec.dest"),
        first(time_at(document, path) for path in ("pscheduler.start_time", "run.start-time", "schedule.start", "@timestamp")))
    if kind == "rtt":
        reading.rtt_s = first(seconds_at(document, path) for path in ("result.rtt.min", "result.min"))
        return reading
    if is_limited(document, "test.spec.bandwidth", "test.spec.window-size"):
        raise LeftOut(LIMITED)
    rate = first(number_at(document, path, 1, RATE_MOST) for path in (
        "result.summary.summary.receiver-throughput-bits", "result.summary.summary.throughput-bits", "result.throughput"))
    if at(document, "test.spec.reverse") is True:
        reading.rx_bit_per_s = rate
    else:
        reading.tx_bit_per_s = rate
    reading.mss = number_at(document, "result.mss", MSS_LEAST, MSS_MOST) or 0
    reading.rtt_s = min(rtts_of_test(document), default=0)
    return reading


# ------------------------------------------------------------------------------------ what was exported


MOST = {
    "rtt_min_ns": RTT_MOST_S * NS_PER_S, "rtt_median_ns": RTT_MOST_S * NS_PER_S, "tx_bdp_bytes": BDP_MOST, "rx_bdp_bytes": BDP_MOST,
    "samples": 2 ** 32 - 1, "packet_bytes": 65535, "learned_s": NEVER_S, "expires_s": NEVER_S,
    **{f"{way}_rate{which}_bit_per_s": RATE_MOST for way in ("tx", "rx") for which in ("", "_low", "_high")}}
"""Of each number of an entry; null: not known."""
BOTTLENECKS = {str(bottleneck): bottleneck for bottleneck in Bottleneck}
DIRECTIONS = PathFlag.TX_AT_LEAST, PathFlag.RX_AT_LEAST, PathFlag.TX_ECHOED, PathFlag.RX_ECHOED
METHODS = {str(method): method for method in Method if method}
UNSURE = {str(unsure): unsure for unsure in Unsure}


def exported(value: Any, now_s: int) -> Entry:
    if not isinstance(value, dict) or not {"remote", "local", "device", *MOST} <= value.keys():
        raise LeftOut(NOT_UNDERSTOOD)
    numbers = {name: value[name] for name in MOST if value[name] is not None}
    texts = {name: value[name] for name in ("remote", "local", "device") if value[name] is not None}
    if not all(isinstance(number, float) and 0 <= number <= MOST[name] for name, number in numbers.items()) or \
            not all(isinstance(text, str) for text in texts.values()):
        raise LeftOut(NOT_UNDERSTOOD)
    try:
        entry = Entry(
            method=METHODS[text_at(value, "method") or ""], remote=Prefix.parse(texts["remote"]),
            local=Prefix.parse(texts["local"]) if "local" in texts else Prefix(), device=texts.get("device"),
            flags=PathFlag(sum(flag for flag in DIRECTIONS if at(value, str(flag.name).lower()) is True)),
            bottleneck=BOTTLENECKS.get(text_at(value, "bottleneck") or "", Bottleneck(0)),
            tx_unsure=UNSURE.get(text_at(value, "tx_unsure") or "", Unsure.NOT),
            rx_unsure=UNSURE.get(text_at(value, "rx_unsure") or "", Unsure.NOT),
            **{name: int(number) for name, number in numbers.items()})
    except (KeyError, ValueError):
        raise LeftOut(NOT_UNDERSTOOD) from None
    if entry.expires_s is not None and entry.expires_s <= now_s:
        raise LeftOut(OLD)
    return dataclasses.replace(entry, learned_s=min(entry.learned_s, now_s))


# ------------------------------------------------------------------------------------ all


def results(value: Any, is_exported: bool) -> Iterator[Any]:
    """The single ones of an object or array."""
    hits, entries = at(value, "hits.hits"), at(value, "paths")
    if is_exported:
        yield from entries if isinstance(entries, list) else (None,)
    elif isinstance(hits, list):
        yield from hits
    else:
        yield from value if isinstance(value, list) else (value,)


def entry_in(value: Any, host: Host) -> Entry:
    if host.exported:
        return exported(value, host.now_s)
    if isinstance(at(value, "paths"), list):
        raise LeftOut(EXPORTED)
    value = value.get("_source", value) if isinstance(value, dict) else value  # how a search answers with a document
    if isinstance(at(value, "test"), dict) and isinstance(at(value, "result"), dict):
        return entry_of(perfsonar(value), host)
    if isinstance(at(value, "start"), dict) and (isinstance(at(value, "end"), dict) or "error" in value):
        return entry_of(iperf(value), host)
    raise LeftOut(NOT_UNDERSTOOD)


def combined(one: Entry, other: Entry) -> Entry:
    """Of the same path: of lower bounds the highest, else what was learned last."""
    if one.method is not Method.IMPORTED or other.method is not Method.IMPORTED:
        return other if other.learned_s > one.learned_s else one
    tx, rx = max(one.tx_rate_bit_per_s, other.tx_rate_bit_per_s), max(one.rx_rate_bit_per_s, other.rx_rate_bit_per_s)
    rtts_ns = [entry.rtt_min_ns for entry in (one, other) if entry.rtt_min_ns is not None]
    return dataclasses.replace(
        one, rtt_min_ns=min(rtts_ns, default=None), flags=one.flags | other.flags,
        tx_rate_bit_per_s=tx, tx_rate_low_bit_per_s=tx, tx_rate_high_bit_per_s=tx,
        rx_rate_bit_per_s=rx, rx_rate_low_bit_per_s=rx, rx_rate_high_bit_per_s=rx,
        packet_bytes=max(one.packet_bytes, other.packet_bytes), samples=min(one.samples + other.samples, 2 ** 32 - 1),
        learned_s=max(one.learned_s, other.learned_s),
        expires_s=max(one.expires_s or 0, other.expires_s or 0))


def useful(entry: Entry) -> Entry:
    """With the BDP, of an entry that has what a path needs."""
    if not entry.tx_rate_bit_per_s and not entry.rx_rate_bit_per_s:
        raise LeftOut(NO_RATE)
    if entry.rtt_min_ns is None:
        raise LeftOut(NO_RTT)
    if entry.method is not Method.IMPORTED:
        return entry
    tx, rx = (int(min(rate * entry.rtt_min_ns / (8 * NS_PER_S), BDP_MOST)) for rate in (entry.tx_rate_bit_per_s, entry.rx_rate_bit_per_s))
    return dataclasses.replace(entry, tx_bdp_bytes=tx, rx_bdp_bytes=rx)


def read(text: bytes, host: Host) -> tuple[list[Entry], collections.Counter[str]]:
    """One entry for each path, and how often something was left out for which reason. ValueError: it is no JSON."""
    found: dict[tuple[bytes, bytes, str], Entry] = {}
    left_out: collections.Counter[str] = collections.Counter()
    for value in values(text):
        for result in results(value, host.exported):
            try:
                entry = entry_in(result, host)
                entry.message()
            except LeftOut as why:
                left_out[str(why)] += 1
                continue
            except (Error, ValueError):  # which no store would have
                left_out[NOT_UNDERSTOOD] += 1
                continue
            key = (bytes(entry.remote), bytes(entry.local), entry.device or "")
            found[key] = combined(found[key], entry) if key in found else entry
    entries = []
    for entry in found.values():
        try:
            entries.append(useful(entry))
        except LeftOut as why:
            left_out[str(why)] += 1
    return entries, left_out


def read_file(name: str) -> bytes:
    with open(0 if name == "-" else name, "rb", closefd=name != "-") as file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES >> 20} MB")
    return text


def main() -> int:
    """Writes the entries as messages."""
    parser = argparse.ArgumentParser(prog="autobuf-paths-import", description="What autobuf paths import has read for it.")
    parser.add_argument("--exported", action="store_true", help="autobuf paths export printed FILE")
    parser.add_argument("--hours", type=int, default=168, help="how long a measurement holds (default: %(default)s)")
    parser.add_argument("FILE", help="-: standard input")
    want = parser.parse_args()
    try:
        entries, left_out = read(read_file(want.FILE), Host(own_addresses(), int(time.time()), want.hours * 3600, want.exported))
    except (OSError, ValueError) as error:
        print(f"autobuf: {want.FILE}: {error.strerror if isinstance(error, OSError) else error}", file=sys.stderr)
        return 1
    for reason, count in left_out.items():
        print(f"autobuf: {want.FILE}: {count} left out: {reason}", file=sys.stderr)
    return written("autobuf", b"".join(entry.message() for entry in entries))
