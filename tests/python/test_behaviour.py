#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Python binding on this host: results, errors, handles, callbacks. Only loopback. Prints TAP; exits 0, or 1 if a
test failed.
"""
from __future__ import annotations

import contextlib
import dataclasses
import errno
import gc
import inspect
import os
import pathlib
import re
import select
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import weakref
from collections.abc import Iterator
from unittest import mock

import binding  # first: it says where the package is
import autobuf
from autobuf import _errors, _library
from cases import run_tests

MS = 1_000_000
PATH = autobuf.Path.given(400_000_000, 100 * MS)
NOBODY = ("127.0.0.1", 9)
SMALL = 4096
"""A buffer that a flow gives back to autotuning, and tells its log."""


@contextlib.contextmanager
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname()) as here:
            with listener.accept()[0] as there:
                yield here, there


@contextlib.contextmanager
def permitted(test: unittest.TestCase) -> Iterator[None]:
    """A skip where nobody may open ICMP sockets."""
    try:
        yield
    except autobuf.Error as error:
        if error.errno != errno.EACCES:
            raise
        test.skipTest("ICMP sockets are not permitted")


def limits() -> autobuf.Limits:
    """Those of Linux 6.18, without force."""
    return autobuf.Limits(flags=autobuf.LimitsFlag.RCV_AUTOTUNING | autobuf.LimitsFlag.WINDOW_SCALING,
                          snd_settable_bytes=4194304, rcv_settable_bytes=4194304, tcp_wmem_min_bytes=4096,
                          tcp_wmem_default_bytes=16384, tcp_wmem_max_bytes=4194304, tcp_rmem_min_bytes=4096,
                          tcp_rmem_default_bytes=131072, tcp_rmem_max_bytes=33554432, tcp_mem_bytes=1 << 30,
                          page_bytes=4096)


def grow(window: autobuf.RightSize, rounds: int = 20) -> int:
    """Has the window grow: each round trip consumes what it allows. Virtual time."""
    now_ns = size = 0
    for _ in range(rounds):
        window.rtt(10 * MS)
        for _ in range(10):
            now_ns += MS
            size = window.consumed(max(size, 65536) // 10, now_ns)
    return size


class Failures(unittest.TestCase):
    def fails(self, number: int, call, *args, **kw) -> autobuf.Error:
        with self.assertRaises(autobuf.Error) as raised:
            call(*args, **kw)
        self.assertEqual(raised.exception.errno, number)
        self.assertTrue(raised.exception.strerror)
        return raised.exception

    def test_each_code_has_a_class(self) -> None:
        for kind in autobuf.Error.__subclasses__():
            error = _errors.error(-kind.code)
            self.assertIs(type(error), kind)
            self.assertEqual((error.errno, str(error)), (kind.code, f"[Errno {kind.code}] {error.strerror}"))
        for number in (-1, -4095, -4107, -2 ** 31):
            self.assertIs(type(_errors.error(number)), autobuf.Error)
        self.assertTrue(issubclass(autobuf.Error, OSError))

    def test_a_descriptor_that_is_no_tcp_socket(self) -> None:
        with socket.socket(type=socket.SOCK_DGRAM) as udp, open(os.devnull) as file, socket.socket() as tcp:
            gone = socket.socket()
            gone.close()
            for call in (autobuf.Flow, autobuf.Live, autobuf.tune, autobuf.socket_state, autobuf.unlock,
                         lambda sock: autobuf.apply(sock, autobuf.Plan()), lambda sock: autobuf.bwdelay_apply(sock, 1)):
                self.fails(errno.EOPNOTSUPP, call, udp)
                self.fails(errno.ENOTSOCK, call, file)
                self.fails(errno.EBADF, call, gone)
            self.fails(errno.ENOTCONN, autobuf.Live, tcp)

    def test_options_out_of_range(self) -> None:
        with socket.socket() as sock:
            for option in ({"budget_bytes": 1}, {"streams": 65536}, {"intent": 3}):
                self.fails(errno.EINVAL, autobuf.Flow, sock, **option)
                self.fails(errno.EINVAL, autobuf.tune, sock, **option)
            for option in ({"packet_bytes": 5}, {"device": "no-such-device"}):
                self.assertRaises(OSError, autobuf.Probe, NOBODY, **option)
        self.fails(errno.EINVAL, autobuf.Path.given, 0, 1)
        self.fails(errno.EINVAL, autobuf.RightSize, window_bytes=2, cap_bytes=1)

    def test_numbers_are_not_cut_off(self) -> None:
        with socket.socket() as sock:
            for option in ({"expected_bytes": -1}, {"expected_bytes": 2 ** 64}, {"mark": 2 ** 32}, {"intent": -1}):
                with self.assertRaisesRegex(ValueError, next(iter(option))):
                    autobuf.Flow(sock, **option)
            with autobuf.Flow(sock) as flow, self.assertRaises(ValueError):
                flow.step(-1)
            for call in (autobuf.plan_make, autobuf.plan_worth):
                known = [autobuf.Limits(), autobuf.SocketState()]
                known[:0] = [PATH] * (call is autobuf.plan_make)
                self.assertRaises(ValueError, call, *known, 2 ** 32)
                self.assertRaises(ValueError, call, *known, 0, -1)
            self.assertRaises(ValueError, autobuf.unlock, sock, 2 ** 32 + 1)
            self.assertRaises(ValueError, autobuf.bwdelay_apply, sock, 0)
            self.assertRaises(ValueError, autobuf.bwdelay_apply, sock, 2 ** 63)
        self.assertRaises(ValueError, autobuf.socket_state, 2 ** 32)
        for call in (autobuf.Path.given, autobuf.payload_bytes):
            for numbers in ((-1, 1), (1, -1)):
                self.assertRaises(ValueError, call, *numbers)
        with autobuf.RightSize() as window:
            for call in (window.consumed, window.granted, window.received):
                self.assertRaises(ValueError, call, -1)
                self.assertRaises(ValueError, call, 1, -1)
                self.assertRaises(TypeError, call, 1.5)
            self.assertRaises(ValueError, window.rtt, -1)
            self.assertRaises(ValueError, window.gap, 2 ** 64)

    def test_what_is_of_another_type(self) -> None:
        with socket.socket() as sock:
            for option in ({"expected_bytes": 1.5}, {"log": 3}, {"log": "text"}, {"mark": "1"}, {"expected": 1}):
                with self.subTest(option):
                    self.assertRaises(TypeError, autobuf.Flow, sock, **option)
                    self.assertRaises(TypeError, autobuf.tune, sock, **option)
            self.assertRaises(TypeError, autobuf.RightSize, window_bytes=1.5)
        self.assertRaises(AttributeError, autobuf.Flow, "a text")

    def test_names_without_an_address(self) -> None:
        error = self.fails(autobuf.ResolveError.code, autobuf.bwdelay, "")
        self.assertIsInstance(error, autobuf.ResolveError)
        with socket.socket(socket.AF_INET6) as sock:
            self.assertRaises(autobuf.ResolveError, autobuf.Flow, sock, NOBODY)
        self.assertRaises(ValueError, autobuf.bwdelay, "127.0.0.1\0.example.org")
        self.assertRaises(ValueError, autobuf.probe, "127.0.0.1\0.example.org")


class Results(unittest.TestCase):
    def test_addresses_of_both_families(self) -> None:
        for address, packed in (("127.0.0.1", "0200 0000 7f000001 0000000000000000"),
                                (("127.0.0.1", 7411), "0200 1cf3 7f000001 0000000000000000"),
                                (("::1", 7411), "0a00 1cf3 00000000" + "00" * 15 + "01 00000000"),
                                (("::1", 7411, 0), "0a00 1cf3 00000000" + "00" * 15 + "01 00000000"),
                                (("fe80::1", 7411, 5, 2), "0a00 1cf3 00000005 fe80" + "00" * 13 + "01 02000000")):
            wanted = bytes.fromhex(packed)
            if sys.byteorder == "little":
                self.assertEqual(autobuf._handle.sockaddr(address), (wanted, len(wanted)), address)

    def test_nothing_in_a_result_can_be_changed(self) -> None:
        for result in (PATH, autobuf.Plan(), autobuf.limits_host()):
            with self.assertRaises(dataclasses.FrozenInstanceError):
                result.flags = 1  # type: ignore[misc]

    def test_none_is_unknown(self) -> None:
        path = autobuf.Path()
        self.assertEqual((path.rtt_min_ns, path.tx_rate_bit_per_s, path.measured_ns, path.packet_bytes),
                         (None, None, None, None))
        self.assertEqual((path.samples, path.cost_bytes, path.method), (0, 0, autobuf.Method.NONE))

    def test_a_given_path(self) -> None:
        self.assertEqual((PATH.tx_rate_bit_per_s, PATH.rtt_min_ns, PATH.tx_bdp_bytes, PATH.method),
                         (400_000_000, 100 * MS, 5_000_000, autobuf.Method.GIVEN))
        self.assertEqual(autobuf.payload_bytes(1500), 1448)
        self.assertEqual(autobuf.payload_bytes(5760, 576), 5240)

    def test_how_many_streams_pay(self) -> None:
        found = autobuf.Available(kind=autobuf.Kind.AVAILABLE, tx_high_bit_per_s=400_000_000)
        self.assertEqual(autobuf.streams(found, PATH, 2796202), 2)
        self.assertEqual(autobuf.streams(found, PATH, 2796202, 10_000_000), 35)
        self.assertIsNone(autobuf.streams(found, PATH))
        self.assertEqual(str(autobuf.Cause.NO_QUEUE), "no-queue")
        self.assertEqual(str(autobuf.Cause.NONE), "")

    def test_the_limits_of_this_host(self) -> None:
        found = autobuf.limits_host()
        wmem = pathlib.Path("/proc/sys/net/ipv4/tcp_wmem").read_text().split()
        self.assertEqual([found.tcp_wmem_min_bytes, found.tcp_wmem_default_bytes, found.tcp_wmem_max_bytes],
                         [int(word) for word in wmem])

    def test_a_plan_and_its_words(self) -> None:
        with socket.socket() as sock:
            state = autobuf.socket_state(sock)
            self.assertEqual((state.stage, state.locks, state.rtt_min_ns), (autobuf.Stage.NEW, autobuf.Lock(0), None))
            plan = autobuf.plan_make(PATH, limits(), state, autobuf.Intent.SENDS)
            self.assertEqual((plan.snd_reason, plan.rcv_reason), (autobuf.Reason.SET, autobuf.Reason.KERNEL))
            self.assertEqual(plan.intent, autobuf.Intent.SENDS)
            self.assertRegex(plan.explain(), r"\Asend: set: SO_SNDBUF \d+ .*\nreceive: kernel: .*\n\Z")
            self.assertEqual(plan.sysctl(limits()), [])
            older = dataclasses.replace(limits(), snd_settable_bytes=212992)
            capped = autobuf.plan_make(PATH, older, state)
            self.assertEqual(capped.snd_reason, autobuf.Reason.CAPPED)
            self.assertRegex("\n".join(capped.sysctl(older)), r"(?m)^net\.core\.wmem_max=\d+$")
            low, high = autobuf.plan_worth(limits(), state) or (0, 0)
            self.assertTrue(1_000_000 < low < high < 16_000_000, (low, high))
            self.assertIsNone(autobuf.plan_worth(limits(), state, expected_bytes=1000))

    def test_apply_and_unlock(self) -> None:
        with socket.socket() as sock:
            before = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            self.assertFalse(autobuf.apply(sock, autobuf.Plan()))
            self.assertEqual(sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF), before)
            self.assertTrue(autobuf.apply(sock, autobuf.Plan(snd_request_bytes=32768)))
            self.assertEqual(sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF), 65536)
            self.assertEqual(autobuf.socket_state(sock).locks, autobuf.Lock.SND)
            self.assertEqual(autobuf.unlock(sock, autobuf.Lock.RCV), autobuf.Lock(0))
            self.assertEqual(autobuf.unlock(sock), autobuf.Lock.SND)
            self.assertEqual(autobuf.socket_state(sock.fileno()).locks, autobuf.Lock(0))

    def test_tune(self) -> None:
        with socket.socket() as sock:
            done = autobuf.tune(sock, NOBODY, path=PATH, expected_bytes=10 ** 9)
            self.assertEqual((done.measured, done.error, done.limits, done.live), (False, None, None, None))
            self.assertEqual(done.path, PATH)
            self.assertEqual(done.plan.snd_wanted_bytes, autobuf.payload_bytes(5_000_000))
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
            events: list[autobuf.Event] = []
            done = autobuf.tune(sock, log=events.append)
            self.assertEqual(done.changes, 1)
            self.assertEqual(autobuf.socket_state(sock).locks, autobuf.Lock(0))
            given = [event for event in events if event.what == autobuf.What.GIVEN_BACK]
            self.assertEqual([(event.side, event.reason) for event in given], [(autobuf.Lock.RCV, autobuf.Reason.KERNEL)])
            self.assertGreater(given[0].after_bytes, SMALL)
            self.assertIsNone(given[0].rtt_ns)
            self.assertIn("receive: kernel: given back to autotuning", str(given[0]))
            self.assertNotIn("\n", "".join(map(str, events)))

    def test_the_flow_of_a_connection(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as sock:
            where = listener.getsockname()
            with autobuf.Flow(sock, where, path=PATH, intent=autobuf.Intent.SENDS) as flow:
                sock.connect(where)
                sock.sendall(bytes(10000))
                for _ in range(3):
                    self.assertIn(flow.step(flow.deadline_ns), (False, True))
                state = flow.state()
                self.assertEqual(state.path, PATH)
                self.assertEqual(state.plan.intent, autobuf.Intent.SENDS)
                self.assertGreater(state.limits.tcp_wmem_max_bytes, 0)
                self.assertGreater(state.live.snd_buf_bytes, 0)
                self.assertGreater(state.live.sent_bytes, 0)
                self.assertIn(flow.tell(autobuf.Path.given(1_000_000, MS)), (False, True))
                self.assertEqual(flow.state().path.tx_rate_bit_per_s, 1_000_000)
                sock.close()
                with self.assertRaises(autobuf.Error) as raised:
                    flow.step(flow.deadline_ns)
                self.assertIn(raised.exception.errno, (errno.EBADF, errno.ENOTSOCK, errno.ESTALE))

    def test_a_connection_looked_after(self) -> None:
        with connection() as (here, there), connection() as (other, _):
            with autobuf.Live(here, look_only=True, intent=autobuf.Intent.LOW_DELAY) as live:
                here.sendall(b"text")
                live.step(live.deadline_ns)
                state = live.state()
                self.assertEqual(state.snd_buf_bytes, here.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF))
                self.assertEqual((state.changes, state.pacing_bit_per_s), (0, 0))
                self.assertIsInstance(state.bottleneck, autobuf.Bottleneck)
                self.assertEqual(live.available(), autobuf.Available(cause=autobuf.Cause.SHORT))
                with here.dup() as copy:
                    live.move(copy)
                    live.step(live.deadline_ns)
                    with self.assertRaises(autobuf.Error) as raised:
                        live.move(other)
                self.assertEqual(raised.exception.errno, errno.ESTALE)

    def test_the_time_to_wait(self) -> None:
        with socket.socket() as sock, autobuf.Flow(sock) as flow:
            now = autobuf.now_ns()
            for deadline_ns, wait_ms in ((now - 1, 0), (now, 0), (now + 1, 1), (now + MS, 1), (now + MS + 1, 2),
                                         (2 ** 64 - 1, None)):
                with mock.patch.object(flow, "_call", return_value=deadline_ns), \
                     mock.patch.object(autobuf._handle, "now_ns", return_value=now):
                    self.assertEqual(flow.wait_ms(), wait_ms)

    def test_a_window_grows(self) -> None:
        with autobuf.RightSize(window_bytes=65536, cap_bytes=1 << 24) as window:
            self.assertEqual(window.state().rtt_ns, None)
            self.assertGreater(grow(window), 1 << 20)
            state = window.state()
            self.assertEqual((state.rtt_ns, state.rtt_min_ns), (10 * MS, 10 * MS))
            self.assertGreater(state.best_byte_per_s, 0)
            window.granted(1000)
            window.received(1000)
            window.gap()
            window.rtt(None)
            self.assertLessEqual(window.consumed(0), 1 << 24)

    def test_a_measurement_by_steps(self) -> None:
        with permitted(self):
            probe = autobuf.Probe("127.0.0.1", budget_bytes=20000, source="127.0.0.1")
        with probe:
            fd, poll = probe.fileno(), select.poll()
            while not probe.step():
                poll.register(probe, probe.events)
                poll.poll(probe.wait_ms())
            path = probe.result()
            self.assertEqual(probe.fileno(), fd)
        self.assertEqual(path.method, autobuf.Method.ICMP)
        self.assertLessEqual(path.cost_bytes, 20000)
        self.assertTrue(0 < path.rtt_min_ns <= path.rtt_median_ns)

    def test_what_is_known_comes_with_the_error(self) -> None:
        # 1,000 bytes are the small echoes, and no train.
        with permitted(self), self.assertRaises(autobuf.FewError) as raised:
            autobuf.probe("127.0.0.1", budget_bytes=1000)
        path = raised.exception.path
        self.assertGreater(path.rtt_min_ns, 0)
        self.assertIsNone(path.tx_rate_bit_per_s)

    def test_in_band_with_a_stranger(self) -> None:
        # It answers from another thread: so other threads run while the call blocks.
        def answer(sock: socket.socket) -> None:
            sock.recv(1000)
            sock.sendall(b"500 what?\r\n")

        with connection() as (here, there):
            stranger = threading.Thread(target=answer, args=(there,))
            stranger.start()
            with self.assertRaises(autobuf.UnsupportedError) as raised:
                autobuf.inband(here)
            stranger.join()
            self.assertIs(raised.exception.usable, True)
            there.sendall(b"more")
            self.assertEqual(here.recv(100), b"more")
            there.close()
            with self.assertRaises(autobuf.Error) as raised:
                autobuf.inband(here)
            self.assertIs(raised.exception.usable, False)


class Handles(unittest.TestCase):
    def each(self) -> Iterator[autobuf._handle.Handle]:
        with connection() as (here, _), socket.socket() as new:
            yield autobuf.Flow(here)
            yield autobuf.Flow(new, NOBODY)
            yield autobuf.Live(here)
            yield autobuf.RightSize()
            try:
                probe = autobuf.Probe("127.0.0.1")
            except autobuf.Error as error:
                self.assertEqual(error.errno, errno.EACCES)
            else:
                yield probe

    USES = ({"step": (), "wait_ms": (), "fileno": (), "result": (), "state": (), "gap": (), "consumed": (1,), "rtt": (1,),
             "received": (1,), "granted": (1,), "tell": (PATH,), "move": (0,), "available": (), "deadline_ns": None, "events": None})

    def uses(self, handle: autobuf._handle.Handle) -> Iterator[object]:
        for name, arguments in self.USES.items():
            if hasattr(type(handle), name):
                yield lambda: getattr(handle, name) if arguments is None else getattr(handle, name)(*arguments)

    def test_after_the_end(self) -> None:
        for handle in self.each():
            self.assertFalse(handle.closed)
            handle.close()
            handle.close()
            self.assertTrue(handle.closed)
            for use in self.uses(handle):
                with self.assertRaisesRegex(ValueError, "closed"):
                    use()

    def test_at_the_end_of_a_block(self) -> None:
        for handle in self.each():
            with self.assertRaises(ZeroDivisionError), handle as same:
                self.assertIs(same, handle)
                1 / 0
            self.assertTrue(handle.closed)

    def test_a_descriptor_goes_with_its_handle(self) -> None:
        with permitted(self):
            probe = autobuf.Probe("127.0.0.1")
        probe.itself = probe  # only the collector frees it
        fd, gone = probe.fileno(), weakref.ref(probe)
        os.fstat(fd)
        del probe
        gc.collect()
        self.assertIsNone(gone())
        self.assertRaises(OSError, os.fstat, fd)

    def test_also_if_the_log_goes_to_who_holds_it(self) -> None:
        class Holder:
            def __init__(self) -> None:
                self.probe = autobuf.Probe("127.0.0.1", log=self.note)

            def note(self, text: str) -> None:
                pass

        with permitted(self):
            holder = Holder()
        gone = weakref.ref(holder.probe)
        del holder
        gc.collect()
        self.assertIsNone(gone())

    def test_every_use_is_one_that_is_tried(self) -> None:
        for kind in (autobuf.Flow, autobuf.Live, autobuf.Probe, autobuf.RightSize):
            methods = {name for name, _ in inspect.getmembers(kind, lambda member: inspect.isfunction(member) or
                                                              isinstance(member, property)) if name[0] != "_"}
            self.assertLessEqual(methods, {*self.USES, "close", "closed"})

    def test_of_the_parent(self) -> None:
        for handle in self.each():
            pid = os.fork()
            if pid == 0:
                status = 1
                with contextlib.suppress(BaseException):
                    handle.close() if isinstance(handle, autobuf.RightSize) else self.child(handle)
                    status = 0
                os._exit(status)
            self.assertEqual(os.waitpid(pid, 0)[1], 0, handle)
            self.assertFalse(handle.closed)
            handle.close()

    def child(self, handle: autobuf._handle.Stepped) -> None:
        with self.assertRaises(autobuf.ForkedError):
            handle.step(2 ** 63)
        handle.close()

    def test_at_the_end_of_the_process(self) -> None:
        script = """if True:
            import atexit, socket, sys, threading, autobuf
            begun = threading.Event()
            # Last of all that is done at the end: a thread still looks after its connection, once more at least.
            atexit.register(begun.wait, 10)
            atexit.register(begun.clear)
            listener = socket.create_server(("127.0.0.1", 0))
            sock = socket.create_connection(listener.getsockname())
            events = []
            flow = autobuf.Flow(sock, log=events.append)
            live = autobuf.Live(sock, log=events.append)
            cycle = [autobuf.RightSize()]
            cycle.append(cycle)
            class Holder:
                def __init__(self):
                    self.flow = autobuf.Flow(sock, log=self.log)
                def log(self, event):
                    pass
            holder, sys.mine = Holder(), Holder()
            def look():
                while True:
                    mine.step(mine.deadline_ns)
                    begun.set()
            mine = autobuf.Live(sock)
            threading.Thread(target=look, daemon=True).start()
            begun.wait()
        """
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertEqual(done.stderr, "")

    def test_off(self) -> None:
        script = """if True:
            import socket, autobuf
            assert autobuf.is_off() and not autobuf.log_own()
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            done = autobuf.tune(sock, ("127.0.0.1", 9))
            assert done.plan.snd_reason == autobuf.Reason.OFF and not done.measured and not done.changes, done
            flow = autobuf.Flow(sock)
            assert flow.deadline_ns is None and flow.wait_ms() is None and not flow.step()
            assert not autobuf.unlock(sock) and not autobuf.bwdelay_apply(sock, 10 ** 6)
            try:
                autobuf.bwdelay("127.0.0.1")
            except autobuf.OffError:
                print("off")
        """
        done = subprocess.run([sys.executable, "-c", script], env=os.environ | {"AUTOBUF": "off"}, text=True,
                              stdout=subprocess.PIPE, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "off\n"))
        self.assertFalse(autobuf.is_off())


class Callbacks(unittest.TestCase):
    def test_it_lives_as_long_as_its_handle(self) -> None:
        events: list[autobuf.Event] = []
        window = autobuf.RightSize(log=lambda event: events.append(event))
        gc.collect()
        grow(window)
        self.assertGreater(len(events), 3)
        for before, after in zip(events, events[1:]):
            self.assertEqual((before.what, before.after_bytes), (autobuf.What.WINDOW, after.before_bytes))
            self.assertEqual(str(before), f"window {before.before_bytes} -> {before.after_bytes}: {before.why}")
        window.close()

    def test_an_exception_is_told_and_the_call_goes_on(self) -> None:
        def fail(event: autobuf.Event) -> None:
            raise ZeroDivisionError(event)

        with mock.patch.object(sys, "unraisablehook") as hook, autobuf.RightSize(log=fail) as window:
            self.assertGreater(grow(window), 1 << 20)
        self.assertGreater(len(hook.call_args_list), 3)
        for call in hook.call_args_list:
            self.assertIs(call.args[0].exc_type, ZeroDivisionError)

    def test_it_may_not_use_its_own_handle(self) -> None:
        failures = []

        def misuse(event: autobuf.Event) -> None:
            for use in (window.state, window.close, lambda: window.consumed(1)):
                try:
                    use()
                except RuntimeError as error:
                    failures.append(str(error))

        with autobuf.RightSize(log=misuse) as window:
            grow(window)
        self.assertGreaterEqual(len(failures), 3)
        self.assertEqual(set(failures), {"this RightSize is in use"})

    def test_two_threads_cannot_use_a_handle_at_once(self) -> None:
        inside, leave = threading.Event(), threading.Event()

        def wait(event: autobuf.Event) -> None:
            inside.set()
            leave.wait()

        window = autobuf.RightSize(log=wait)
        other = threading.Thread(target=grow, args=(window,))
        other.start()
        inside.wait()
        for use in (window.state, window.close, window.gap):
            self.assertRaises(RuntimeError, use)
        leave.set()
        other.join()
        window.state()
        window.close()

    def test_options_outlive_the_call(self) -> None:
        with connection() as (here, _):
            flows = [autobuf.Flow(here, path=autobuf.Path.given(10 ** 6 + number, MS), log=lambda event: None)
                     for number in range(50)]
            gc.collect()
            for number, flow in enumerate(flows):
                self.assertEqual(flow.state().path.tx_rate_bit_per_s, 10 ** 6 + number)
                flow.close()


class Loading(unittest.TestCase):
    def fails(self, library: str) -> str:
        done = subprocess.run([sys.executable, "-c", "import autobuf"], env=os.environ | {"AUTOBUF_LIBRARY": library},
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        last = done.stderr.splitlines()[-1]
        self.assertTrue(last.startswith("ImportError: "), done.stderr)
        return last

    def test_no_library(self) -> None:
        self.assertRegex(self.fails("/no/such/library"), "/no/such/library.*Install it.*AUTOBUF_LIBRARY")

    def test_not_this_library(self) -> None:
        self.assertRegex(self.fails("libc.so.6"), "bwdelay.*Install it")

    def test_another_version(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source, library = pathlib.Path(folder, "other.c"), pathlib.Path(folder, "other.so")
            source.write_text("".join(f"void {name}(void) {{}}\n" for name in _library.PROTOTYPES
                                      if name != "autobuf_version") +
                              'const char *autobuf_version(void) { return "0.2.0"; }\n')
            subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", library, source], check=True)
            self.assertRegex(self.fails(str(library)), rf"other\.so is libautobuf 0\.2\.0; this package is for {re.escape(_library.VERSION)}")

    def test_the_loaders_own(self) -> None:
        env = {name: value for name, value in os.environ.items() if name != "AUTOBUF_LIBRARY"}
        done = subprocess.run([sys.executable, "-c", "import autobuf; print(autobuf.now_ns() > 0)"],
                              env=env | {"LD_LIBRARY_PATH": os.path.dirname(binding.LIBRARY)}, stdout=subprocess.PIPE,
                              text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "True\n"))


class Surface(unittest.TestCase):
    def test_all_names(self) -> None:
        public = {name for name, value in vars(autobuf).items() if name[0] != "_" and not inspect.ismodule(value)}
        self.assertEqual(public | {"__version__"}, set(autobuf.__all__))
        self.assertEqual(len(autobuf.__all__), len(set(autobuf.__all__)))

    def test_what_the_calls_take(self) -> None:
        for call, model in ((autobuf.tune, autobuf.Flow), (autobuf.probe, autobuf.Probe)):
            self.assertEqual(inspect.signature(call).parameters, inspect.signature(model).parameters)

    def test_the_lines_of_its_page(self) -> None:
        found = re.search(r"(?s)```python\n(.*?)```", (binding.PACKAGE / "README.md").read_text())
        address = '("192.0.2.1", 7500)'
        self.assertIn(address, found.group(1))
        with socket.create_server(("127.0.0.1", 0)) as listener, mock.patch("builtins.print") as said:
            exec(found.group(1).replace(address, repr(listener.getsockname())), {"blocks": [b"some", b"text"]})
            with listener.accept()[0] as sock:
                self.assertEqual(sock.makefile().read(), "sometext")
        self.assertRegex(said.call_args.args[0], r"\Asend: ")


if __name__ == "__main__":
    sys.exit(run_tests((), on_path=False))
