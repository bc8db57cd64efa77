#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""python/autobuf/_import.py: other programs' measurements as entries of the path store. Prints TAP; exits 0, or 1 if a test failed."""
from __future__ import annotations

import ctypes
import ipaddress
import json
import shutil
import subprocess
import sys
import time
import unittest

import binding  # first: it says where the package is
import autobuf
from autobuf._import import (ELSEWHERE, EXPORTED, FAILED, LIMITED, NO_ADDRESS, NO_RATE, NO_RTT, NOT_UNDERSTOOD, OLD, OTHER_TEST, Host,
                             own_addresses, read)
from autobuf._library import library
from autobuf._paths import Entry, Prefix
from cases import run_tests
from mutated import mutated

NOW_S, HOLDS_S = 1_700_000_000, 604_800
HERE = {bytes(Prefix.parse(address)) for address in ("192.0.2.1", "2001:db8::1")}
MEASURED, TRUSTED = Host(HERE, NOW_S, HOLDS_S), Host(HERE, NOW_S, HOLDS_S, True)
MS = 1_000_000


def iperf(place: str, local: str, remote: str, more: dict | None = None, sent: float = 0, received: float = 0, us: int = 20000, **end) -> str:
    """What `iperf3 -J` says, as far as it is read."""
    return json.dumps({
        "start": {"connected": [{"local_host": local, "remote_host": remote}], "timestamp": {"timesecs": 1699999000}, place: {"host": "x"},
                  "tcp_mss_default": 1448, "test_start": {"protocol": "TCP", "num_streams": 1, **(more or {})}},
        "end": {"sum_sent": {"bits_per_second": sent}, "sum_received": {"bits_per_second": received},
                "streams": [{"sender": {"min_rtt": us}}], **end}})


CLIENT, SERVER = "connecting_to", "accepted_connection"


def archived(source: str, to: str, spec: dict, kind: str, **result) -> str:
    """A document of a perfSONAR archive."""
    return json.dumps({
        "meta": {"source": {"ip": source}, "destination": {"ip": to}}, "pscheduler": {"start_time": "2023-11-14T21:00:00Z", "tool": "iperf3"},
        "test": {"type": kind, "spec": spec}, "result": {"succeeded": True, **result}})


def run(source: str, to: str, tool: str, kind: str, **result) -> str:
    """What an archiver of pScheduler gets."""
    return json.dumps({
        "run": {"start-time": "2023-11-14T22:00:00.5+01:00"}, "tool": {"name": tool},
        "test": {"type": kind, "spec": {"source": source, "dest": to}}, "result": {"succeeded": True, **result}})


def ping(source: str, to: str) -> str:
    return archived(source, to, {}, "rtt", rtt={"min": 0.04})


def hits(*documents: str) -> str:
    """As a search answers."""
    return f'{{"took":3,"hits":{{"total":{{"value":4}},"hits":[{",".join(documents)}]}}}}'


def source(document: str) -> str:
    return f'{{"_source":{document}}}'


def of_run(start: str, kind: str, **result) -> str:
    return json.dumps({"pscheduler": {"start_time": start}, "test": {"type": kind, "spec": {"source": "192.0.2.1", "dest": "192.0.2.9"}},
                       "result": result})


PATHS = {  # rates in IP bytes: 1500 for 1448 of payload, over IPv6 1520
    "a client of iperf3": (iperf(CLIENT, "192.0.2.1", "192.0.2.9", None, 99e6, 96.533e6), "192.0.2.9", 99999654, 0, 20 * MS, 1699999000),
    "integers": (iperf(CLIENT, "192.0.2.1", "192.0.2.9", {"reverse": 0}, 0, 144800000, 1), "192.0.2.9", 150000000, 0, 1000, 1699999000),
    "addresses of IPv4 on a socket of IPv6": (
        iperf(CLIENT, "::ffff:192.0.2.1", "::ffff:192.0.2.9", None, 0, 144.8e6), "192.0.2.9", 150000000, 0, 20 * MS, 1699999000),
    "IPv6": (iperf(CLIENT, "2001:db8::1", "2001:db8::9", None, 0, 144.8e6), "2001:db8::9", 152000000, 0, 20 * MS, 1699999000),
    "a server that sends, who knows the time, and its client, who knows the rate": (
        iperf(SERVER, "192.0.2.1", "192.0.2.9", {"reverse": 1}, 155e6) + iperf(CLIENT, "192.0.2.9", "192.0.2.1", {"reverse": 1}, 155e6, 144.8e6, 0),
        "192.0.2.9", 150000000, 0, 20 * MS, 1699999000),
    "both ends, where that is the client": (
        iperf(SERVER, "192.0.2.9", "192.0.2.1", {"reverse": 1}, 155e6) + iperf(CLIENT, "192.0.2.1", "192.0.2.9", {"reverse": 1}, 155e6, 144.8e6, 0),
        "192.0.2.9", 0, 150000000, 20 * MS, 1699999000),
    "both ways": (
        iperf(CLIENT, "192.0.2.1", "192.0.2.9", None, 0, 144.8e6, sum_received_bidir_reverse={"bits_per_second": 14.48e6}),
        "192.0.2.9", 150000000, 15000000, 20 * MS, 1699999000),
    "the least of several connections": (
        iperf(CLIENT, "192.0.2.1", "192.0.2.9", None, 0, 144.8e6, streams=[{"sender": {"min_rtt": us}} for us in (900, 0, 800)]),
        "192.0.2.9", 150000000, 0, 800000, 1699999000),
    "an archive's document, from here, and a ping": (
        archived("192.0.2.1", "192.0.2.9", {}, "throughput", throughput=144.8e6, mss=1448) + ping("192.0.2.1", "192.0.2.9"),
        "192.0.2.9", 150000000, 0, 40 * MS, 1699995600),
    "to here, and a ping from there": (
        f'[{archived("192.0.2.9", "192.0.2.1", {}, "throughput", throughput=144.8e6, mss=1448)},{ping("192.0.2.9", "192.0.2.1")}]',
        "192.0.2.9", 0, 150000000, 40 * MS, 1699995600),
    "in reverse": (
        archived("192.0.2.1", "192.0.2.9", {"reverse": True}, "throughput", throughput=144.8e6) + f'\n{ping("192.0.2.9", "192.0.2.1")}\n',
        "192.0.2.9", 0, 150000000, 40 * MS, 1699995600),
    "both, the highest of each, as a search answers": (
        hits(source(archived("192.0.2.9", "192.0.2.1", {}, "throughput", throughput=72.4e6)),
             source(archived("192.0.2.1", "192.0.2.9", {}, "throughput", throughput=144.8e6)),
             source(archived("192.0.2.1", "192.0.2.9", {}, "throughput", throughput=14.48e6)), source(ping("192.0.2.1", "192.0.2.9"))),
        "192.0.2.9", 150000000, 75000000, 40 * MS, 1699995600),
    "round trips of the connections": (
        archived("192.0.2.1", "192.0.2.9", {}, "throughput", throughput=144.8e6, streams={"json": [{"rtt": 32000}]},
                 intervals={"json": [{"streams": [{"rtt": 30000}, {"rtt": 31000}]}]}), "192.0.2.9", 150000000, 0, 30 * MS, 1699995600),
    "what an archiver gets: what arrived": (
        run("192.0.2.1", "192.0.2.9", "iperf3", "throughput", summary={
            "streams": [{"rtt": 30000}], "summary": {"throughput-bits": 2e8, "receiver-throughput-bits": 144.8e6}}),
        "192.0.2.9", 150000000, 0, 30 * MS, 1699995600),
    "a ping there": (
        run("192.0.2.1", "192.0.2.9", "nuttcp", "throughput", summary={"streams": [{"rtt": 30}], "summary": {"throughput-bits": 144.8e6}}) +
        run("192.0.2.1", "192.0.2.9", "ping", "rtt", min="PT0.04S"), "192.0.2.9", 150000000, 0, 40 * MS, 1699995600),
    "minutes, and an offset without its own": (
        of_run("2023-11-14T16:00:00-05", "rtt", min="PT1M0.5S") + of_run("2023-11-14T20:00:00.25", "throughput", throughput=144.8e6),
        "192.0.2.9", 150000000, 0, 60500 * MS, 1699995600),
}
"""Each text, the peer, tx and rx bit/s, the minimum RTT in ns, and when it was learned."""


def entry(remote: str, local: str | None = None, device: str | None = None, learned_s: float = 5, expires_s: float | None = None, **more) -> dict:
    """As `autobuf paths export` prints it."""
    return {"remote": remote, "local": local, "device": device, "method": "icmp", "rtt_min_ns": 20000000, "rtt_median_ns": None,
            "tx_rate_bit_per_s": 1000, "tx_rate_low_bit_per_s": 900, "tx_rate_high_bit_per_s": 1100, "rx_rate_bit_per_s": None,
            "rx_rate_low_bit_per_s": None, "rx_rate_high_bit_per_s": None, "tx_at_least": False, "rx_at_least": True,
            "tx_echoed": False, "rx_echoed": True, "tx_unsure": "batches",
            "rx_unsure": None, "packet_bytes": 1400, "samples": 12, "bottleneck": "path", "learned_s": learned_s, "expires_s": expires_s,
            "tx_bdp_bytes": 5, "rx_bdp_bytes": None, **more}


def paths(*entries: object) -> str:
    return json.dumps({"paths": entries})


ALL_OF_IT = paths(entry("0.0.0.0/0", method="given"))
LEFT_OUT = {
    "a number": ("[7]", NOT_UNDERSTOOD),
    "another object": ('{"rtt":1}', NOT_UNDERSTOOD),
    "what was exported, but nobody says so": (ALL_OF_IT, EXPORTED),
    "that in an array": (f"[{ALL_OF_IT}]", EXPORTED),
    "that as the answer to a search": (hits(ALL_OF_IT), EXPORTED),
    "that as a document": (hits(source(ALL_OF_IT)), NOT_UNDERSTOOD),
    "a network": (ping("192.0.2.1", "198.51.100.0/24"), NO_ADDRESS),
    "all that there is": (ping("192.0.2.1", "0.0.0.0/0"), NO_ADDRESS),
    "a network that this host is in": (ping("192.0.2.0/24", "198.51.100.1"), NO_ADDRESS),
    "no more than its beginning": (ping("192.0.2.1\0", "198.51.100.1"), NO_ADDRESS),
    "no text": (ping("\udc80", "198.51.100.1"), NO_ADDRESS),
    "no time": (json.dumps({"meta": {"source": {"ip": "192.0.2.1"}, "destination": {"ip": "192.0.2.9"}}, "test": {"type": "throughput"},
                            "result": {"throughput": 1e8}}), NOT_UNDERSTOOD),
    "a month that there is not": (of_run("2023-13-14T21:00:00Z", "rtt", min=0.04), NOT_UNDERSTOOD),
    "no rate": (archived("192.0.2.1", "192.0.2.9", {}, "throughput", throughput="1e8"), NOT_UNDERSTOOD),
    "a rate below 0": (archived("192.0.2.1", "192.0.2.9", {}, "throughput", throughput=-5), NOT_UNDERSTOOD),
    "a rate that no network has": (archived("192.0.2.1", "192.0.2.9", {}, "throughput", throughput=1e16), NOT_UNDERSTOOD),
    "a time that no path has": (archived("192.0.2.1", "192.0.2.9", {}, "rtt", rtt={"min": 1001}), NOT_UNDERSTOOD),
    "months": (archived("192.0.2.1", "192.0.2.9", {}, "rtt", min="P1M"), NOT_UNDERSTOOD),
    "a duration without its unit": (archived("192.0.2.1", "192.0.2.9", {}, "rtt", min="PT1"), NOT_UNDERSTOOD),
    "no number": (archived("192.0.2.1", "192.0.2.9", {}, "rtt", min="PTnanS"), NOT_UNDERSTOOD),
    "true": (archived("192.0.2.1", "192.0.2.9", {}, "rtt", min=True), NOT_UNDERSTOOD),
    "a trace": (archived("192.0.2.1", "192.0.2.9", {}, "trace", throughput=1e8), OTHER_TEST),
    "UDP": (archived("192.0.2.1", "192.0.2.9", {"udp": True}, "throughput", throughput=1e8), OTHER_TEST),
    "UDP of iperf3": ('{"start":{"timestamp":{"timesecs":1},"test_start":{"protocol":"UDP"}},"end":{}}', OTHER_TEST),
    "iperf3 -b": (iperf(CLIENT, "192.0.2.1", "192.0.2.9", {"target_bitrate": 10000000}, 0, 10e6), LIMITED),
    "iperf3 -w": (iperf(CLIENT, "192.0.2.1", "192.0.2.9", None, 0, 10e6).replace('"tcp_mss_default"', '"sock_bufsize": 65536, "tcp_mss_default"'), LIMITED),
    "a bandwidth of pScheduler": (archived("192.0.2.1", "192.0.2.9", {"bandwidth": "10M"}, "throughput", throughput=1e7), LIMITED),
    "a window of pScheduler": (archived("192.0.2.1", "192.0.2.9", {"window-size": 65536}, "throughput", throughput=1e7), LIMITED),
    "iperf3 that found no server": ('{"start":{},"error":"unable to connect"}', FAILED),
    "a run that failed": ('{"test":{"type":"rtt"},"result":{"succeeded":false}}', FAILED),
    "a name": (archived("192.0.2.1", "host.example", {}, "throughput", throughput=1e8), NO_ADDRESS),
    "two families": (archived("192.0.2.1", "2001:db8::9", {}, "throughput", throughput=1e8), NO_ADDRESS),
    "others": (archived("192.0.2.8", "192.0.2.9", {}, "throughput", throughput=1e8), ELSEWHERE),
    "itself": (archived("192.0.2.1", "192.0.2.1", {}, "throughput", throughput=1e8), ELSEWHERE),
    "long ago": (of_run("2023-11-07T22:13:20Z", "rtt", min=0.04), OLD),
    "what the sender alone has counted": (iperf(SERVER, "192.0.2.1", "192.0.2.9", {"reverse": 1}, 155e6), NO_RATE),
    "a ping alone": (ping("192.0.2.1", "192.0.2.9"), NO_RATE),
    "a rate alone": (archived("192.0.2.1", "192.0.2.9", {}, "throughput", throughput=1e8), NO_RTT),
}

REFUSED = (
    f"[{ALL_OF_IT}]", "[]",  # it is one object
    paths(7), paths({}), paths(entry("192.0.2.0/24", tx_bdp_bytes=1e15)), paths(entry("192.0.2.1/24")), paths(entry("any")),
    paths(entry("192.0.2.0/24", "2001:db8::/32")), paths(entry("192.0.2.0/24", device="a/b")),
    paths(entry("192.0.2.0/24", device="0123456789abcdef")), paths(entry("192.0.2.0/24", device=17 * "a")),
    paths(entry("192.0.2.0/24", device="\udc80")), paths(entry("192.0.2.0/24", device="eth0\0x")), paths(entry("192.0.2.0/24\0")),
    paths(entry("192.0.2.0/24", device=5)), paths(entry("192.0.2.0/24", learned_s=-5)), paths(entry("192.0.2.0/24", samples=True)),
    paths(entry("192.0.2.0/24", method="none")), paths(entry("192.0.2.0/24", method=None)),
    paths({name: value for name, value in entry("192.0.2.0/24").items() if name != "expires_s"}))
"""Of a file that is said to be exported: what no store would have."""


class Import(unittest.TestCase):
    def test_a_result_becomes_a_path(self) -> None:
        for name, (text, remote, tx, rx, rtt_ns, learned_s) in PATHS.items():
            with self.subTest(name):
                (found,), left_out = read(text.encode(), MEASURED)
                self.assertFalse(left_out)
                at_least = (autobuf.PathFlag.TX_AT_LEAST if tx else 0) | (autobuf.PathFlag.RX_AT_LEAST if rx else 0)
                self.assertEqual(bytes(found.remote), bytes(Prefix.parse(remote)))
                self.assertEqual((found.method, found.tx_rate_bit_per_s, found.rx_rate_bit_per_s, found.rtt_min_ns, found.learned_s),
                                 (autobuf.Method.IMPORTED, tx, rx, rtt_ns, learned_s))
                self.assertEqual((found.expires_s, found.flags), (learned_s + HOLDS_S, at_least))
                self.assertEqual((found.tx_bdp_bytes, found.rx_bdp_bytes), (int(tx * rtt_ns / 8e9), int(rx * rtt_ns / 8e9)))

    def test_what_says_nothing_is_left_out_with_the_reason(self) -> None:
        for name, (text, reason) in LEFT_OUT.items():
            with self.subTest(name):
                self.assertEqual(read(text.encode(), MEASURED), ([], {reason: 1}))

    def test_a_clock_that_is_ahead_makes_nothing_hold_longer(self) -> None:
        (found,), _ = read((of_run("2199-01-01T00:00:00Z", "throughput", throughput=1e8) + ping("192.0.2.1", "192.0.2.9")).encode(), MEASURED)
        self.assertEqual((found.learned_s, found.expires_s), (NOW_S, NOW_S + HOLDS_S))

    def test_what_is_no_json_is_refused(self) -> None:
        for text in (b"", b" ", b"{", b"[1,", b'{"a":1}}', b"nul", b"7", b'{"a":"\xff"}', b'{"a":1e999}', b'{"a":' + 999 * b"9" + b"}",
                     b'{"a":NaN}', b"[Infinity]", b"[-Infinity]", b"\xef\xbb\xbf[]"):
            with self.subTest(text), self.assertRaises(ValueError):
                read(text, MEASURED)

    def test_depth_has_an_end(self) -> None:
        for text in (100_000 * b"[", 100_000 * b"[" + 100_000 * b"]", 100_000 * b'{"a":'):
            with self.assertRaises(ValueError):
                read(text, MEASURED)

    def test_entries_are_as_they_were(self) -> None:
        text = paths(entry("2001:db8::/32", device="eth0"), entry("192.0.2.0/24", "198.51.100.0/24", None, 1699999999, 1700000001))
        (one, other), left_out = read(text.encode(), TRUSTED)
        self.assertFalse(left_out)
        self.assertEqual((bytes(one.remote), one.device), (bytes(Prefix.parse("2001:db8::/32")), "eth0"))
        self.assertEqual((one.learned_s, one.expires_s), (5, None))
        wanted = {"method": autobuf.Method.ICMP, "remote": Prefix.parse("192.0.2.0/24"), "local": Prefix.parse("198.51.100.0/24"), "device": None,
                  "flags": autobuf.PathFlag.RX_AT_LEAST | autobuf.PathFlag.RX_ECHOED, "bottleneck": autobuf.Bottleneck.PATH,
                  "tx_unsure": autobuf.Unsure.BATCHES,
                  "samples": 12, "packet_bytes": 1400, "rtt_min_ns": 20 * MS, "tx_rate_bit_per_s": 1000, "tx_rate_low_bit_per_s": 900,
                  "tx_rate_high_bit_per_s": 1100, "tx_bdp_bytes": 5, "learned_s": 1699999999, "expires_s": 1700000001}
        self.assertEqual(other.message(), Entry(**wanted).message())

    def test_entries_that_the_store_would_refuse_are_left_out(self) -> None:
        for text in REFUSED:
            with self.subTest(text):
                self.assertEqual(read(text.encode(), TRUSTED), ([], {NOT_UNDERSTOOD: 1}))
        self.assertEqual(read(paths(entry("192.0.2.0/24", expires_s=NOW_S)).encode(), TRUSTED), ([], {OLD: 1}))

    def test_of_the_same_path_the_newest_entry_counts(self) -> None:
        for times in ((7, 9, 8), (9, 7, 8)):
            (found,), _ = read(paths(*(entry("192.0.2.9", learned_s=at_s) for at_s in times)).encode(), TRUSTED)
            self.assertEqual(found.learned_s, 9)

    @unittest.skipUnless(shutil.which("ip"), "no ip")
    def test_own_addresses(self) -> None:
        said = json.loads(subprocess.run(["ip", "-json", "address"], capture_output=True, check=True).stdout)
        wanted = {str(ipaddress.ip_address(one["local"])) for interface in said for one in interface["addr_info"]}
        self.assertEqual(own_addresses(), {bytes(Prefix.parse(address)) for address in wanted})

    def test_the_program(self) -> None:
        """One message an entry; what is exported is believed only if that is said."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        measured = archived("127.0.0.1", "192.0.2.9", {}, "throughput", throughput=1e8) + ping("127.0.0.1", "192.0.2.9")
        measured = measured.replace("2023-11-14T21:00:00Z", now)
        for text, options, length, said in ((ALL_OF_IT, ["--exported"], 200, ""), (ALL_OF_IT, [], 0, f"autobuf: -: 1 left out: {EXPORTED}\n"),
                                            (measured, ["--hours", "1"], 200, ""), (measured, ["--exported"], 0, f"2 left out: {NOT_UNDERSTOOD}")):
            done = subprocess.run([binding.PACKAGE / "autobuf-paths-import", *options, "-"], input=text.encode(), capture_output=True)
            self.assertEqual((done.returncode, len(done.stdout)), (0, length), done.stderr)
            self.assertIn(said, done.stderr.decode())
        done = subprocess.run([binding.PACKAGE / "autobuf-paths-import", "-"], input=b"\n{", capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertTrue(done.stderr.startswith(b"autobuf: -: line 2: "), done.stderr)

    def test_no_bytes_make_an_entry_that_is_not_sound(self) -> None:
        """What another program has measured is of one host, is no person's word, and has an end."""
        words = [b"null", b"true", b"false", b"1e16", b"-1", b"0", b"[", b"]", b"{", b"}", b'"given"', b'"icmp"', b'"::ffff:192.0.2.1"',
                 b'"192.0.2.1"', b"1", b'"PT0.04S"', b",", b'"0.0.0.0/0"', b'"10.0.0.0/8"', b"5", b".5", b"e3", b" ",
                 b'"eth0"', b'"error":null,', b'"reverse":1,',
                 b'"udp":true,', b'"_source":', b"+01:00", b"Z", b"\\u0000", b"\\ud800", b"\xff", b'"paths":', b"[" * 2000]
        count = 0
        for text in mutated("import", words, 4000):
            for host in (MEASURED, TRUSTED):
                try:
                    entries, _ = read(text, host)
                except ValueError:
                    continue
                count += len(entries)
                for found in entries:
                    self.sound(found, host.exported)
                keys = [found.message()[16:68] for found in entries]
                self.assertEqual(len(set(keys)), len(keys), text)
        self.assertGreater(count, 500)

    def sound(self, found: Entry, exported: bool) -> None:
        c = found.to_c()
        self.assertEqual(library.autobuf_paths_entry_encode(ctypes.byref(c), bytes(200), 200), 200)
        self.assertTrue(found.method and found.rtt_min_ns is not None and (found.tx_rate_bit_per_s or found.rx_rate_bit_per_s), found)
        self.assertTrue(found.learned_s <= NOW_S and (found.expires_s is None or found.expires_s > NOW_S), found)
        if not exported:
            self.assertEqual((found.method, found.remote.bits, found.local.version, found.device),
                             (autobuf.Method.IMPORTED, {4: 32, 6: 128}[found.remote.version], 0, None))
            self.assertTrue(found.expires_s is not None and found.expires_s <= NOW_S + HOLDS_S, found)


if __name__ == "__main__":
    sys.exit(run_tests((), on_path=False))
