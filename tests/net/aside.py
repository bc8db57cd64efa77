# SPDX-License-Identifier: MIT
"""Work beside tests that measure time: it takes only what they leave of the processors.

It is in a control group of its own whose cpu.idle is set, so that it gives way at once to whoever wakes up. (The policy SCHED_IDLE does
not: where sessions are grouped, kernel.sched_autogroup_enabled, it holds within a session only.) Its nice value has the kernel count
its time apart (proc_stat(5), nice).
"""
from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator

BESIDE = "AUTOBUF_TESTS_ASIDE"
"""In the environment of tests: there is such work beside them."""
LEAST_NICE = 19
ROOTS = (pathlib.Path("/sys/fs/cgroup/cpu"), pathlib.Path("/sys/fs/cgroup"), pathlib.Path("/srv/cgroup"),
         pathlib.Path("/srv/cgroup2"))
"""The last two are tests/for_everybody's, for a root in which nobody has mounted any."""
NAME = "autobuf-tests."
BREATH_S = 5.0
KEEPER = """
import contextlib, os, select, signal, sys, time
folder, breath_s = sys.argv[1], float(sys.argv[2])
def told(within):
    return select.select([0], [], [], within)[0]
while not told(breath_s):
    with contextlib.suppress(OSError), open(folder + "/cpu.idle", "r+") as idle:
        if idle.read() == "1\\n":
            idle.write("0")
            idle.flush()
            if not told(0.02):
                idle.write("1")
sys.stdin.buffer.read()
for tries in range(600):
    with contextlib.suppress(FileNotFoundError):
        try:
            os.rmdir(folder)
        except OSError:
            with open(folder + "/cgroup.procs") as processes:
                for pid in processes.read().split() if tries >= 20 else ():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGTERM if tries < 100 else signal.SIGKILL)
            time.sleep(0.1)
            continue
    break
"""
"""Removes a group when this process is gone, and ends what is still in it. Before, it lets one that gives way breathe now and then:
a task that the kernel has preempted there in the middle of an RCU reader would otherwise hold up whoever waits for RCU, as all that
makes or removes a network device does, for minutes."""


class Group:
    """A control group. It goes with this process."""

    def __init__(self, folder: pathlib.Path, breath_s: float = BREATH_S) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)  # one whose keeper was killed, too, may have left it
        self.keeper = subprocess.Popen([sys.executable, "-I", "-c", KEEPER, str(folder), str(breath_s)], stdin=subprocess.PIPE,
                                       stdout=subprocess.DEVNULL, start_new_session=True)

    def close(self) -> None:
        self.keeper.stdin.close()
        self.keeper.wait()


class IdleGroup(Group):
    """One that gives way."""

    def __init__(self, folder: pathlib.Path, breath_s: float = BREATH_S) -> None:
        super().__init__(folder, breath_s)
        try:
            self.give_way(True)
        except OSError:
            self.close()
            raise

    def give_way(self, whether: bool) -> None:
        """From False on for good."""
        if not whether:
            with contextlib.suppress(BrokenPipeError):
                self.keeper.stdin.write(b"0")
                self.keeper.stdin.flush()
        with (self.folder / "cpu.idle").open("r+") as file:  # where it is none of the kernel's, nothing is made
            file.write(str(int(whether)))

    def enter(self) -> None:
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))


def group() -> IdleGroup | None:
    """A new one; None: this machine has none for us."""
    for root in ROOTS:
        with contextlib.suppress(OSError):
            return IdleGroup(pathlib.Path(tempfile.mktemp(prefix=NAME, dir=root)))
    return None


class Aside:
    """Has work() done, a generator, in a process of its own; it goes with this one. What it yields must be picklable.

    Where nothing can give way, it begins when somebody waits for it. always: it also gives way then, to other runs.
    """

    def __init__(self, work: Callable[[], Iterable], always: bool = False) -> None:
        self.work, self.always = work, always
        self.said = tempfile.TemporaryFile("w+")
        self.group = group()
        self.process: multiprocessing.Process | None = None
        if self.group:
            self.begin()

    def begin(self) -> None:
        self.reader, inside = multiprocessing.Pipe(duplex=False)
        self.parent = os.getpid()
        sys.stdout.flush()
        self.process = multiprocessing.get_context("fork").Process(target=self.run, args=(inside,), daemon=False)
        self.process.start()
        inside.close()
        self.reader.recv()  # it is in its group

    def run(self, inside) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: os._exit(1))  # whatever its threads wait for; the group's keeper ends what it has begun
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
        if os.getppid() != self.parent:  # it has ended already
            os._exit(1)
        if self.group:
            self.group.enter()
            os.nice(LEAST_NICE)
        for descriptor in (1, 2):
            os.dup2(self.said.fileno(), descriptor)
        inside.send(None)
        for result in self.work():
            inside.send(result)

    def results(self) -> Iterator[object]:
        """What it has yielded, and what it will, once each: unless it always gives way, it is at full speed while it is waited for. It may
        be left, and gone on with later."""
        if not self.process:
            self.begin()
        if self.group and not self.always:
            self.group.give_way(False)
        try:
            while True:
                yield self.reader.recv()
        except EOFError:
            pass
        finally:
            if self.group and not self.always:
                self.group.give_way(True)

    def leave(self) -> None:
        """Ends it as it is: at its exit, this process would wait for it."""
        if self.process:
            self.process.terminate()
            self.process.join()
        if self.group:
            self.group.close()

    def end(self) -> bool:
        """Waits, prints what it has said, and tells whether it came to its end."""
        for _ in self.results():
            pass
        self.process.join()
        if self.group:
            self.group.close()
        self.said.seek(0)
        print(self.said.read(), end="", flush=True)
        return self.process.exitcode == 0
