#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The path store between transfers on an emulated path: what one has measured, the next one knows.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select the tests whose names
contain one of them.
"""
from __future__ import annotations

import ipaddress
import os
import pathlib
import struct
import sys
import tempfile
import time
import unittest
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import test_bulk  # noqa: E402
from path import Path  # noqa: E402
from cases import run_tests  # noqa: E402

RATE = 50_000_000
RTT_NS = 40_000_000
NOBODY = 65534
DAY_S = 86400
HEADER, RECORD = 128, 184

setUpModule = test_bulk.setUpModule


def entries(store: pathlib.Path) -> list[dict]:
    """A store read by its description in lib/paths/record.h, without the library."""
    data = store.read_bytes()
    magic, version, header, record, _flags, count = struct.unpack_from("<8sIIIIQ", data)
    assert (magic, version, header, record) == (b"AUTOBUFP", 1, HEADER, RECORD), data[:32]
    assert len(data) == HEADER + count * RECORD
    assert struct.unpack_from("<I", data, 124)[0] == zlib.crc32(data[:124])
    found = []
    for at in range(HEADER, len(data), RECORD):
        one = data[at:at + RECORD]
        assert struct.unpack_from("<I", one, 176)[0] == zlib.crc32(one[:176])
        address = ipaddress.ip_address(one[2:6] if one[0] == 4 else one[2:18])
        rtt_min, _median, tx, _low, _high, rx = struct.unpack_from("<6Q", one, 80)
        learned, expires = struct.unpack_from("<2Q", one, 160)
        found.append({"remote": f"{address}/{one[1]}", "method": one[52], "rtt_min_ns": rtt_min, "tx": tx, "rx": rx,
                      "learned_s": learned, "expires_s": expires})
    return found


class Store(test_bulk.BulkTest):
    def setUp(self) -> None:
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="autobuf-tests."))
        os.chown(folder, NOBODY, NOBODY)
        self.store = pathlib.Path(folder, "paths")

    def ready(self) -> Path:
        path = self.hosts("rate=50M,delay=20ms,queue=1M")
        self.serve(path)
        return path

    def low_delay(self, path: Path, store: str = "") -> tuple[int, str]:
        """A transfer that needs to know the path: how many echoes it sent, and its reason."""
        before = self.echoes(path)
        result = self.send(path, "--tune", "autobuf", "--intent", "low-delay", "--seconds", "1",
                           env=os.environ | {"AUTOBUF_PATHS": store or str(self.store)})
        return self.echoes(path) - before, result["reason"]

    def test_what_one_transfer_has_measured_the_next_one_knows(self) -> None:
        path = self.ready()
        echoes, reason = self.low_delay(path)
        self.assertGreater(echoes, 4)
        (entry,) = entries(self.store)
        self.assertEqual(entry["remote"], f"{path.addr['b']}/32")
        self.near(entry["tx"], RATE, 0.25, "the rate")
        self.between(entry["rtt_min_ns"], RTT_NS, 1.5 * RTT_NS, "the round-trip time")
        self.between(entry["learned_s"], time.time() - 60, time.time() + 1, "when")
        self.assertIn(entry["expires_s"] - entry["learned_s"], (DAY_S, 3600))
        self.assertEqual(self.low_delay(path), (0, reason))
        self.assertEqual(entries(self.store), [entry])

    def test_nothing_is_kept_if_that_is_off(self) -> None:
        path = self.ready()
        for _ in range(2):
            self.assertGreater(self.low_delay(path, "off")[0], 4)
        self.assertEqual(list(self.store.parent.iterdir()), [])

    def test_a_store_that_others_may_write_is_not_believed(self) -> None:
        path = self.ready()
        self.low_delay(path)
        before = self.store.read_bytes()
        self.store.chmod(0o666)
        self.assertGreater(self.low_delay(path)[0], 4)
        self.assertEqual(self.store.read_bytes(), before)

    def test_a_transfer_ends_as_well_where_nothing_can_be_kept(self) -> None:
        path = self.ready()
        self.assertGreater(self.low_delay(path, "/proc/autobuf/paths")[0], 4)


if __name__ == "__main__":
    sys.exit(run_tests(["ip"], ["examples/bulk", "examples/oneshot", "examples/pollloop", "tests/net/tune", "tests/net/pathemu"]))
