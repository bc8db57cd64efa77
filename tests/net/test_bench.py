#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the benchmarks tell is what was measured: runs that failed are counted, results are of this build, limits are those
that are named, and nothing outlives them.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select the tests whose names
contain one of them. No benchmark is run.
"""
from __future__ import annotations

import contextlib
import functools
import io
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
from collections.abc import Callable
from typing import NamedTuple
from unittest import mock

import path
from cases import PathTest, run_tests

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))

import daemon  # noqa: E402
import figures  # noqa: E402
import ftp  # noqa: E402
import kept  # noqa: E402
import live  # noqa: E402
import report  # noqa: E402
import run_cost  # noqa: E402
import ssh  # noqa: E402
import transfer  # noqa: E402
import virtual  # noqa: E402

PATIENCE_S = 30
CELL = transfer.Cell(100, 50, 2, "cubic", "6.18", "long", False, 1, 5)
FAILED = {"error": "nobody listens"}


def reached(mbit: float) -> dict:
    return {"rate_bit_per_s": mbit * 1e6, "rtt_mean_ns": 1, "reason": "kernel"}


class BenchTest(unittest.TestCase):
    def setUp(self) -> None:
        self.out = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.said = io.StringIO()
        for module in (figures, kept, transfer, virtual):  # not standard output, on which cases are told
            self.enterContext(mock.patch.object(module, "print", functools.partial(print, file=self.said), create=True))
        self.enterContext(mock.patch.object(report, "gnuplot"))

    def rows(self, text: str, first: str) -> list[list[str]]:
        """Those of tables that begin with this cell."""
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
        return [row for row in rows if row[0] == first]


class FailedRuns(BenchTest):
    def shown(self, ways: dict[str, list[dict]], with_sweep: bool = False) -> str:
        """What is told of a cell whose runs end so, the last one's way again and again."""
        def ends(_: transfer.Cell, tune: str) -> dict:
            runs = ways.get(tune, [FAILED])
            return runs.pop(0) if len(runs) > 1 else runs[0]
        with mock.patch.object(transfer, "transfer", ends):
            row = json.loads(json.dumps(transfer.measure(CELL, "autobuf", with_sweep)))
        transfer.show([row], "autobuf", "x", self.out)
        return (self.out / "x.md").read_text()

    def test_transfer_counts_them_beside_the_median(self) -> None:
        text = self.shown({"none": [FAILED, reached(50)], "autobuf": [reached(60)]})
        row = self.rows(text, "100")[-1]
        self.assertEqual(row[8:11], ["50.0 (2 of 3 runs)", "60.0", "1.2"])
        self.assertIn("1 runs failed", text)
        self.assertIn(FAILED["error"], text)

    def test_transfer_tells_of_a_cell_without_any_run(self) -> None:
        text = self.shown({"none": [reached(50)]})
        self.assertEqual(self.rows(text, "100")[-1][8:12], ["50.0", "none of 5 runs", "-", "-"])
        self.assertEqual(self.rows(text, "6.18")[0][1:5], ["100", "50", "0 of 1", "-"])

    def test_transfer_counts_failures_of_the_sweep(self) -> None:
        text = self.shown({"none": [reached(50)], "autobuf": [reached(50)], "naive:1048576": [reached(49)]}, True)
        self.assertEqual(self.rows(text, "100")[-1][11], "1.0 (1 of 3 runs by hand)")

    def test_a_pair_of_which_one_has_failed_is_none(self) -> None:
        default, ours = [FAILED, reached(50), reached(60)], [reached(50), reached(50), reached(60)]
        self.assertTrue(transfer.settled(default, ours))
        self.assertFalse(transfer.settled(default[:2], ours[:2]))

    def test_figures(self) -> None:
        key = (25, 1)
        figures.show([key], {key: [FAILED] * 3}, {key: [reached(80)]}, {key: {1 << 20: [FAILED], 4 << 20: [reached(90)]}},
                     {key: [reached(90), FAILED, reached(90)]}, {8192: [FAILED], 1 << 20: [reached(90)]}, self.out)
        text = (self.out / "figures.md").read_text()
        self.assertEqual(self.rows(text, "25")[0][2:7],
                         ["none of 3 runs", "80", "90 (4 MB, 1 sizes failed)", "90 (2 of 3 runs)", "-"])
        self.assertEqual(self.rows(text, "8 KB")[0][1:], ["none of 1 runs", "-"])

    def test_live(self) -> None:
        good, bad = live.Ran([(1.0, 95.0, 50.0)], 12.0), live.Ran([(1.0, 0.0, 50.0)], 900.0, "bulk send has ended")
        value = live.median([bad, good, good], 1, 0, 2)
        self.assertEqual(live.told(value, 1, [bad, good, good]), "95.0 (2 of 3 runs)")
        self.assertEqual(live.late([bad, good]), "900")
        self.assertTrue(math.isnan(live.median([bad], 1, 0, 2)))
        self.assertEqual(live.told(math.nan, 1, [bad]), "none of 1 runs")
        self.assertEqual(live.figure(math.nan / 95.0, 3), "-")


class Ticks(BenchTest):
    def test_no_byte_is_lost_between_two_looks(self) -> None:
        """Of 100 Mbit/s, whatever a look itself takes."""
        now_s = 0.0

        class Emulator:
            since_s = 0.0

            def truth(self) -> dict:
                nonlocal now_s
                now_s += 0.001
                counted_s = now_s - self.since_s
                return {"ab": {"delivered_bytes": round(counted_s * 12.5e6), "queue_mean_bytes": 12500,
                               "counted_ns": round(counted_s * 1e9)}}

            def reset(self) -> None:
                nonlocal now_s
                now_s += 0.001
                self.since_s = now_s

        def sleep(seconds: float) -> None:
            nonlocal now_s
            now_s += seconds

        with mock.patch.object(live, "time", types.SimpleNamespace(monotonic=lambda: now_s, sleep=sleep)):
            samples = live.Emulated(live.Scene(100, 50, 4000000, 2), Emulator()).run(lambda now: None)
        self.assertGreater(len(samples), 15)
        for _, mbit, rtt_ms in samples:
            self.assertAlmostEqual(mbit, 100 * live.PAYLOAD, delta=0.01)
            self.assertAlmostEqual(rtt_ms, 51, delta=0.01)


class Keeping(BenchTest):
    def setUp(self) -> None:
        super().setUp()
        self.build = self.out / "build"
        (self.build / "lib").mkdir(parents=True)
        self.enterContext(mock.patch.dict(os.environ, AUTOBUF_BUILD=str(self.build)))
        self.addCleanup(kept.build_digest.cache_clear)
        self.rebuild("one")
        self.file = self.out / "x.jsonl"

    def rebuild(self, library: str) -> None:
        (self.build / "lib" / "libautobuf.so").write_text(library)
        kept.build_digest.cache_clear()

    def get(self, make: Callable[[], object], name: str = "cell") -> object:
        return kept.Kept(self.file).get(name, make)

    def test_a_result_stays_as_long_as_the_build(self) -> None:
        self.assertEqual(self.get(lambda: 1), 1)
        self.assertEqual(self.get(self.fail), 1)
        self.rebuild("another")
        self.assertEqual(self.get(lambda: 2), 2)
        self.assertIn("another build", self.said.getvalue())
        self.assertEqual(self.get(self.fail), 2)
        self.rebuild("one")
        self.assertEqual(self.get(self.fail), 1)

    def test_results_without_a_build_do_not_count(self) -> None:
        self.file.write_text(json.dumps({"key": "cell"}) + "\n" + json.dumps(["cell", 7]) + '\n["cell", 8, "on')
        self.assertEqual(self.get(lambda: 1), 1)
        self.assertIn("3 results of no known build", self.said.getvalue())
        self.assertEqual(self.get(self.fail), 1)

    def test_transfer_measures_what_another_build_has_measured(self) -> None:
        with mock.patch.object(transfer, "transfer", return_value=reached(50)) as run, \
                mock.patch.object(transfer.Limits, "of_machine", contextlib.nullcontext):
            for library, runs in (("one", 4), ("one", 4), ("another", 8)):
                self.rebuild(library)
                transfer.run_cells([CELL], "autobuf", "x", False, self.out)
                self.assertEqual(run.call_count, runs, library)

    def test_ssh_keeps_by_what_openssh_is_built_of(self) -> None:
        ssh.build_of.cache_clear()
        self.addCleanup(ssh.build_of.cache_clear)
        with mock.patch.object(ssh.openssh, "state_of", lambda version, stock: f"{stock}"):
            self.assertNotEqual(ssh.build_of(ssh.STOCK), ssh.build_of(ssh.PATCHED))


class Virtual(BenchTest):
    class Run(NamedTuple):
        name: str

    def test_the_first_run_of_a_machine_is_not_counted(self) -> None:
        booted = []

        def boot(kernel, build, text, *_) -> str:
            booted.append(text.split("\n")[1].split())
            return " ".join(f"{word}{at}" for at, word in enumerate(booted[-1]))

        way = virtual.Way(lambda runs: " ".join(run.name for run in runs), lambda said, runs: said.split(), ())
        with mock.patch.object(virtual.packages, "fetch"), mock.patch.object(virtual.machine, "boot", boot):
            bench = virtual.Bench("x", "newest", self.out)
            bench.kernel = types.SimpleNamespace(version="1")
            self.assertEqual(bench.results(way, [self.Run("a"), self.Run("b")]), ["a1", "b2"])
            self.assertEqual(bench.results(way, [self.Run("b"), self.Run("c"), self.Run("d")]), ["b2", "c1", "d2"])
        self.assertEqual(booted, [["a", "a", "b"], ["c", "c", "d"]])


class Stop(Exception):
    """What follows is not to be run."""


class NamedLimits(PathTest):
    """"Linux 6.18's limits" are set, and put back."""
    NAMES = ("net.core.rmem_max", "net.core.wmem_max")

    def machine(self) -> list[str]:
        return [path._read_sysctl(name) for name in self.NAMES]

    def test_of_the_ends_of_a_path(self) -> None:
        p = self.path(both="rate=100M,delay=1ms")
        transfer.LIMITS["older"].of_ends(p)
        for side in "ab":
            self.assertEqual(p.sysctl(side, "net.ipv4.tcp_rmem").split(), transfer.LIMITS["older"].tcp_rmem.split())
            self.assertEqual(p.sysctl(side, "net.ipv4.tcp_wmem").split(), transfer.LIMITS["older"].tcp_wmem.split())

    def test_each_run_sets_them(self) -> None:
        scene = ssh.SCENES[0]
        for module, run in ((ssh, lambda: ssh.measure(scene, ssh.STOCK, "get")), (ssh, lambda: ssh.bulk(scene)),
                            (ssh, lambda: ssh.keystrokes(ssh.STOCK, 100, 50, "get")),
                            (ftp, lambda: ftp.transfer("", "module", "stock", False, 1)),
                            (daemon, lambda: daemon.rate(0, 0, "")), (daemon, lambda: daemon.divided("", 1, False))):
            with self.subTest(module.__name__), mock.patch.object(module.path, "Path") as made, \
                    mock.patch.object(ssh.openssh, "prefix"), mock.patch.object(transfer.Limits, "of_ends") as of_ends:
                made.return_value.__enter__.return_value.popen.side_effect = Stop
                of_ends.side_effect = Stop
                self.assertRaises(Stop, run)
                of_ends.assert_called_once()

    def test_each_benchmark_sets_those_of_the_machine(self) -> None:
        others = transfer.LIMITS["older"]  # a machine may have 6.18's itself
        before, wanted = self.machine(), [str(others.mem_max)] * 2
        for module, inner in ((ssh, "scene_rows"), (ftp, "speed"), (daemon, "rates")):
            with self.subTest(module.__name__):
                seen = []

                def look(*_: object) -> None:
                    seen.append(self.machine())
                    raise Stop

                self.assertIs(module.LIMITED, transfer.LIMITS["6.18"])
                with mock.patch.object(module, inner, look), mock.patch.object(module, "LIMITED", others), tempfile.TemporaryDirectory() as out:
                    self.assertRaises(Stop, module.run, True, pathlib.Path(out))
                self.assertEqual(seen, [wanted])
                self.assertEqual(self.machine(), before)


class Daemons(PathTest):
    def test_it_touches_no_file_of_this_machine(self) -> None:
        p = self.path(both="rate=100M,delay=1ms")
        with daemon.daemon(p, "a") as running:
            lines = (running.status.parent / "conf").read_text().split("[all]")[0].split()
            self.assertEqual(running.has("rules", 1), 1)
        self.assertEqual({"state=off", "store=off", "learned=off", "bpf=no"}, {line for line in lines if not line.startswith("status=")})

    def test_one_that_ends_or_looks_after_nobody_is_no_result(self) -> None:
        p = self.path(both="rate=100M,delay=1ms")
        with self.assertRaisesRegex(RuntimeError, "has ended"), daemon.daemon(p, "a") as running:
            running.process.kill()
            running.process.wait()
        with self.assertRaisesRegex(RuntimeError, "managed_total is 0"), daemon.daemon(p, "a") as running:
            running.has("managed_total", 1)
        with self.assertRaisesRegex(RuntimeError, "has ended"), daemon.daemon(p, "a", "nonsense\n"):
            pass

    def test_its_own_sweeps_are_counted(self) -> None:
        with mock.patch.multiple(daemon, WATCHED_S=1.0, SOCKETS={10: 1}):
            sockets, _, sweep_ms, each_ms, *_, most_s, _ = daemon.among(10, 1, False)
        self.assertEqual(sockets, "10")
        self.assertGreater(float(most_s), 0)
        self.assertGreater(float(sweep_ms), 0)
        self.assertGreaterEqual(int(each_ms), daemon.INTERVAL_MS // 2)


class Servers(unittest.TestCase):
    SERVER = "import signal, socket, sys; l = socket.create_server(('127.0.0.1', int(sys.argv[1])));\nwhile l.accept(): pass"

    def test_they_go_with_the_benchmark(self) -> None:
        reader, writer = os.pipe()
        parent = os.fork()
        if parent == 0:
            try:
                os.close(reader)
                with mock.patch.object(run_cost, "under_run", list), run_cost.servers(
                        lambda port: [sys.executable, "-c", self.SERVER, str(port)], (7656, 7657)) as pids:
                    os.write(writer, " ".join(map(str, pids)).encode() + b"\n")
                    signal.pause()
            finally:
                os._exit(1)
        os.close(writer)
        with os.fdopen(reader) as told:
            pids = told.readline().split()
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)
        self.assertEqual(len(pids), 2)
        deadline = time.monotonic() + PATIENCE_S
        try:
            while left := [pid for pid in pids if os.path.exists(f"/proc/{pid}/exe")]:
                self.assertLess(time.monotonic(), deadline, "they stay")
        finally:
            for pid in left:
                os.kill(int(pid), signal.SIGKILL)


class Costs(unittest.TestCase):
    def test_a_step_of_one_connection_and_of_many(self) -> None:
        said = subprocess.run([path.built("tests/bench/live_cost")], capture_output=True, text=True, check=True).stdout
        self.assertEqual([int(word) > 0 for word in said.split()], [True, True])
        self.assertIn("in turn", live.cost())


if __name__ == "__main__":
    sys.exit(run_tests(("ip", "nsenter", "setpriv", "taskset"),
                       ("examples/bulk", "tools/autobufd", "tests/net/pathemu", "tests/bench/live_cost")))
