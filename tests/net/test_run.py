#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""autobuf run: programs do the same under it as without, and what it is asked to do is done.

Prints TAP. Exits 0, 1 when a test failed, 77 when no path can be made here. Arguments select the tests whose names
contain one of them. How much faster a program is under it: tests/kernels/run run, in virtual time.
"""
from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable, Iterator

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from at_once import beside  # noqa: E402
from cases import REFUSED, run_tests, some, thorough  # noqa: E402
from path import Path, built, wait_listening  # noqa: E402
from test_bulk import CORE, BulkTest  # noqa: E402
from test_probe import ALL, PING_GROUPS  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
OBJECT = built("preload/libautobuf-run.so")
COMMAND, BULK = built("tools/autobuf"), built("examples/bulk")
CALLS = built("tests/net/run_calls")
CHECKED = built("tests/net/run_calls_checked")
DIFFERS = "locks"
NOBODY = 65534
PORT = 7700
SYS_CLOSE = {"x86_64": 3, "aarch64": 57}[platform.machine()]
SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}[platform.machine()]
REPORT = re.compile(r"^autobuf\[(\d+)\]: (\S+) (?:sent ([\d.]+) (bytes|MB))?(?:,)?(?: ?received ([\d.]+) (bytes|MB))? in ([\d.]+) s, "
                    r"([\d.]+) Mbit/s; limited by: ([^;]+)(?:; free: [^;]+)?; set: ([^;]+)(?:; the kernel alone: .*)?$", re.M)


def clean() -> dict[str, str]:
    """The environment without what this command reads."""
    left = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOBUF", "LD_PRELOAD", "ASAN_OPTIONS"))}
    return left | {"AUTOBUF_PATHS": "off"}


def plain(*command: object, **kw) -> subprocess.CompletedProcess:
    kw.setdefault("env", clean())
    kw.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, **kw)


def under(*command: object, options: tuple[str, ...] = (), **kw) -> subprocess.CompletedProcess:
    return plain(COMMAND, "run", *options, "--", *command, **kw)


def scenes() -> list[str]:
    return plain(CALLS).stdout.split()


OFTEN_MISSING = ("-static", "-static-pie", "-m32", "-fsanitize=address", "-fsanitize=thread")


def compiled(folder: str, name: str, source: str, *options: str, compiler: str = "gcc") -> str:
    """A program of this C; a skip where the compiler lacks what an option takes."""
    target = os.path.join(folder, name)
    done = subprocess.run([compiler, "-x", "c", "-", "-o", target, *options], input=source, capture_output=True, text=True)
    if done.returncode and not set(options) & set(OFTEN_MISSING):
        raise AssertionError(f"{name}: {done.stderr}")
    if done.returncode:
        raise unittest.SkipTest(f"{name}: the compiler cannot: {done.stderr.strip()[-150:]}")
    return target


@beside
class Same(unittest.TestCase):
    """Each scene of run_calls.c prints the same under it, and ends in the same way."""

    def compare(self, scene: str, *options: str, calls: str = CALLS) -> None:
        with self.subTest(scene, options=options):
            without, ours = plain(calls, scene), under(calls, scene, options=options)
            self.assertEqual(ours.stdout, without.stdout)
            self.assertEqual((ours.returncode, ours.stderr), (without.returncode, without.stderr))
            self.assertEqual((without.returncode, without.stderr), (-signal.SIGPIPE if scene == "sigpipe" else 0, ""))

    @thorough
    def test_scenes(self) -> None:
        self.assertIn(DIFFERS, scenes())
        for scene in scenes():
            if scene != DIFFERS:
                self.compare(scene)

    @thorough
    def test_functions_that_check_their_buffers(self) -> None:
        for scene in ("other_calls", "transfers", "reads_all", "descriptors"):
            self.compare(scene, calls=CHECKED)

    def test_each_call_is_counted(self) -> None:
        """What it moved: 7,000 bytes one way, and 1,000 back."""
        for calls in (CALLS, CHECKED):
            said = under(calls, "other_calls", options=("--report",)).stderr
            self.assertEqual(len(REPORT.findall(said)), 2, said)
            for moved in ("sent 7000 bytes, received 1000 bytes in ", "sent 1000 bytes, received 7000 bytes in "):
                self.assertIn(moved, said)

    @thorough
    def test_with_sizes_kept(self) -> None:
        for scene in ("sizes", "descriptors", "transfers", "children", "threads"):
            self.compare(scene, "--keep-sizes")

    def test_while_it_looks_after_all(self) -> None:
        """Peers on this host are left alone otherwise."""
        for scene in scenes():
            if scene != DIFFERS:
                self.compare(scene, "--intent", "low-delay")

    @thorough
    def test_what_they_print_is_not_nothing(self) -> None:
        self.assertIn("transfer 8", plain(CALLS, "transfers").stdout)
        self.assertIn("read: 40000000 bytes", plain(CALLS, "transfers").stdout)
        self.assertEqual(plain(CALLS, "sigpipe").returncode, -signal.SIGPIPE)


@beside
class LittleStack(unittest.TestCase):
    """Of a thread with the least that there may be, and of a signal handler with 8 KB."""
    WAYS = ((), ("--intent", "low-delay"), ("--keep-sizes",), ("--report", "--intent", "low-delay"), 
            ("--probe", "--intent", "low-delay", "--keep-sizes"))
    """Options. With a path store that knows the peer, and with none, all is done that takes stack."""

    def ways(self) -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
        """With an environment for each."""
        known, empty = (f"{self.enterContext(tempfile.TemporaryDirectory())}/paths" for _ in range(2))
        for local in ((), ("--from", "lo")):
            done = plain(COMMAND, "paths", "--store", known, "--rate", "400M", "--rtt", "100", *local, "set", "127.0.0.0/8")
            self.assertEqual(done.returncode, 0, done.stderr)
        for options in self.WAYS:
            for store in (known, empty):
                for log in ({}, {"AUTOBUF": "log"}):
                    pathlib.Path(empty).unlink(missing_ok=True)
                    yield options, clean() | {"AUTOBUF_PATHS": store} | log

    def test_it_is_enough(self) -> None:
        for scene in ("little_thread", "little_handler"):
            without = plain(CALLS, scene)
            self.assertEqual(without.returncode, 0, without.stderr)
            for options, environment in self.ways():
                with self.subTest(scene, options=options, environment=environment):
                    done = under(CALLS, scene, options=options, env=environment)
                    self.assertEqual((done.returncode, done.stdout), (0, without.stdout))

    def test_ours_is_at_most_4_kb(self) -> None:
        def depth(done: subprocess.CompletedProcess) -> int:
            self.assertEqual(done.returncode, 0, done.stderr)
            return int(done.stdout.rsplit("depth: ")[1])

        for where in ("thread", "handler"):
            without = depth(plain(CALLS, "depth", where))
            for options, environment in self.ways():
                with self.subTest(where, options=options, environment=environment):
                    self.assertLessEqual(depth(under(CALLS, "depth", where, options=options, env=environment)) - without, 4096)


TALKS = """
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sends a MB to itself over loopback; by itself, as a child, and as a program that the child becomes. None of it asks for options. */
static int talks(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), server;
    static char data[65536];
    socklen_t length = sizeof here;
    long received = 0;
    ssize_t got;

    listen(listener, 1);
    getsockname(listener, (struct sockaddr *)&here, &length);
    connect(client, (struct sockaddr *)&here, length);
    server = accept(listener, NULL, NULL);
    for (int i = 0; i < 16; i++) {
        if (write(client, data, sizeof data) != sizeof data)
            return 1;
        for (size_t left = sizeof data; left && (got = read(server, data, left)) > 0; left -= (size_t)got)
            received += got;
    }
    close(client);
    close(server);
    close(listener);
    return received != 16 * sizeof data;
}

int main(int argc, char **argv)
{
    int status = talks();

    if (argc == 1 && fork() == 0) {
        if (talks())
            _exit(2);
        execl(argv[0], argv[0], "child", NULL);
        _exit(3);
    }
    if (argc == 1 && (wait(&status) < 0 || status))
        printf("child: %d\\n", status);
    else
        puts(argc == 1 ? "parent" : "child");
    return status != 0;
}
"""
KILLED = REFUSED.replace("0x50001", "0x80000000")
"""As REFUSED, and the system call kills."""
KILLS = {"madvise": {"x86_64": 28, "aarch64": 233}, "getsockopt": {"x86_64": 55, "aarch64": 209},
         "setsockopt": {"x86_64": 54, "aarch64": 208}, "prctl": {"x86_64": 157, "aarch64": 167}}


@beside
class Filtered(unittest.TestCase):
    """A filter of system calls that was there before a program started kills it for no call of ours."""

    def setUp(self) -> None:
        self.talks = compiled(self.enterContext(tempfile.TemporaryDirectory()), "talks", TALKS, "-Wall", "-Werror")

    def filtered(self, call: str, *command: object) -> tuple[str, ...]:
        return sys.executable, "-c", KILLED, str(KILLS[call][platform.machine()]), *command

    def check(self, done: subprocess.CompletedProcess, said: str = "") -> None:
        self.assertEqual((done.returncode, done.stdout), (0, "child\nparent\n"), done.stderr)
        self.assertRegex(done.stderr, said or "^$")

    def test_a_program_that_another_has_filtered(self) -> None:
        for call in KILLS:
            with self.subTest(call):
                self.check(plain(*self.filtered(call, self.talks)))
                for options in ((), ("--intent", "low-delay", "--report")):
                    self.check(under(*self.filtered(call, self.talks), options=options))

    def test_a_service_that_is_filtered(self) -> None:
        """SystemCallFilter= of systemd."""
        for call in KILLS:
            with self.subTest(call):
                self.check(plain(*self.filtered(call, COMMAND, "run", "--", self.talks)),
                           rf"^autobuf run: {self.talks} cannot be reached: its system calls are filtered; autobufd\(8\) .*\n$")

    def test_without_a_filter(self) -> None:
        """Two report: a process that has made itself another program does not."""
        self.check(under(self.talks, options=("--report",)), r"^(autobuf\S+ \S+ sent 1.0 MB.*\nautobuf\S+ \S+ received 1.0 MB.*\n){2}$")


BELOW = """
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static pid_t sender;

/* The peer is descriptor 50 of this process. */
static void reset(void)
{
    struct linger at_once = {1, 0};

    setsockopt(50, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(50);
}

/* Resets the connection, or reads all of it. */
static void *act_once_it_waits(void *unused)
{
    static char data[65536];
    char name[64], state = 0;

    snprintf(name, sizeof name, "/proc/self/task/%d/stat", sender);
    while (state != 'S') {
        FILE *file = fopen(name, "r");

        if (!file || fscanf(file, "%*d %*s %c", &state) != 1)
            abort();
        fclose(file);
    }
    if (!getenv("READS"))
        reset();
    else
        while (read(50, data, sizeof data) > 0)
            ;
    return unused;
}

static void fill(int fd, ssize_t (*next)(int, const void *, size_t, int))
{
    static char data[65536];

    while (next(fd, data, sizeof data, MSG_DONTWAIT) > 0)
        ;
}

/* After the second part the peer resets the connection, or this end shuts it, or the third has to wait until the peer acts. */
ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    static int parts;
    ssize_t (*next)(int, const void *, size_t, int) = dlsym(RTLD_NEXT, "send");
    ssize_t sent = next(fd, data, bytes, flags);
    pthread_t other;

    if (bytes != 512 * 1024 || ++parts != 2)
        return sent;
    if (getenv("SHUTS")) {
        shutdown(fd, SHUT_WR);
    } else if (getenv("FILLS")) {
        fill(fd, next);
        sender = gettid();
        if (pthread_create(&other, NULL, act_once_it_waits, NULL))
            abort();
    } else {
        reset();
    }
    return sent;
}
"""


@beside
class Parts(unittest.TestCase):
    """Calls that are made in parts."""

    PROGRAM = ("import os, signal, socket\n"
               "l = socket.create_server(('127.0.0.1', 0)); s = socket.create_connection(l.getsockname())\n"
               "c, _ = l.accept(); os.dup2(c.fileno(), 50); c.close()\n"
               "if os.getenv('SHUTS'): signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
               "for _ in range(3):\n"
               "    try: print(os.write(s.fileno(), bytes(8 << 20)), flush=True)\n"
               "    except OSError as error: print(type(error).__name__)\n")

    ONCE = PROGRAM[:PROGRAM.index("for _")] + ("import ctypes\n"
            "libc = ctypes.CDLL(None, use_errno=True); libc.write.restype = ctypes.c_ssize_t; ctypes.set_errno(77)\n"
            "print(libc.write(s.fileno(), bytes(8 << 20), ctypes.c_size_t(8 << 20)), ctypes.get_errno(), flush=True); os._exit(0)\n")

    def writes(self, program: str = PROGRAM, **environment: str) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as folder:
            below = compiled(folder, "below.so", BELOW, "-D_GNU_SOURCE", "-shared", "-fPIC")
            return under(sys.executable, "-c", program, options=("--intent", "low-delay"),
                         env=clean() | {"LD_PRELOAD": below} | environment)

    def test_a_reset_between_two_parts_is_the_next_calls(self) -> None:
        done = self.writes()
        self.assertEqual(done.stdout.split(), ["1048576", "ConnectionResetError", "BrokenPipeError"], done.stderr)

    def test_a_reset_of_a_part_that_sends_nothing_is_too(self) -> None:
        done = self.writes(FILLS="1")
        self.assertEqual(done.stdout.split(), ["1048576", "ConnectionResetError", "BrokenPipeError"], done.stderr)

    def test_a_part_that_finds_no_room_leaves_errno(self) -> None:
        done = self.writes(self.ONCE, FILLS="1", READS="1")
        self.assertEqual(done.stdout.split(), [str(8 << 20), "77"], done.stderr)

    def test_a_shutdown_between_two_parts_is_too(self) -> None:
        done = self.writes(SHUTS="1")
        self.assertEqual((done.stdout.split(), done.returncode), (["1048576"], -signal.SIGPIPE), done.stderr)


COUNTS_SENDFILE = """
#include <dlfcn.h>
#include <stdio.h>
#include <sys/types.h>

static int calls;

ssize_t sendfile64(int out, int in, off_t *offset, size_t bytes)
{
    ssize_t (*next)(int, int, off_t *, size_t) = dlsym(RTLD_NEXT, "sendfile64");

    calls += bytes == 512 * 1024;
    return next(out, in, offset, bytes);
}

__attribute__((destructor)) static void end(void)
{
    printf("%d parts\\n", calls);
}
"""


@beside
class WholeFiles(unittest.TestCase):
    """A sendfile() of all that a file holds is made in parts, however much it asks for."""

    PROGRAM = ("import os, socket, sys, tempfile, threading\n"
               "l = socket.create_server(('127.0.0.1', 0)); s = socket.create_connection(l.getsockname()); c, _ = l.accept()\n"
               "f = tempfile.TemporaryFile(); f.truncate(8 << 20)\n"
               "reader = threading.Thread(target=lambda: [0 for _ in iter(lambda: c.recv(1 << 20), b'')]); reader.start()\n"
               "print(os.sendfile(s.fileno(), f.fileno(), 1 << 20 if sys.argv[1:] else 0, 2**63 - 1 - (1 << 20)), flush=True)\n"
               "s.close(); reader.join()\n")

    def test_from_an_offset(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            counts = compiled(folder, "counts.so", COUNTS_SENDFILE, "-D_GNU_SOURCE", "-shared", "-fPIC")
            for arguments, bytes, parts in (((), 8 << 20, 17), (("from 1 MB",), 7 << 20, 15)):  # the last one sends nothing
                done = under(sys.executable, "-c", self.PROGRAM, *arguments, options=("--intent", "low-delay"),
                             env=clean() | {"LD_PRELOAD": counts})
                self.assertEqual(done.stdout.split(), [str(bytes), str(parts), "parts"], done.stderr)


EXECS = """
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SELF "/proc/self/exe"

/* Becomes itself with one step less, in another way each time. None of them works before. */
static void replace(int step, char *next)
{
    char *argv[] = {"argument 0", next, "argument 2", NULL}, *env[] = {"MORE=yes", NULL, NULL, NULL};

    if (getenv("LD_PRELOAD")) {
        env[1] = getenv("AUTOBUF_RUN") - strlen("AUTOBUF_RUN=");
        env[2] = getenv("LD_PRELOAD") - strlen("LD_PRELOAD=");
    }
    printf("%d\\n", execl("/nowhere/at/all", argv[0], next, NULL) == -1 ? errno : 0);
    fflush(stdout);
    switch (step) {
    case 9: execl(SELF, argv[0], next, argv[2], NULL); break;
    case 8: execlp(SELF, argv[0], next, argv[2], NULL); break;
    case 7: execle(SELF, argv[0], next, argv[2], NULL, env); break;
    case 6: execve(SELF, argv, env); break;
    case 5: execv(SELF, argv); break;
    case 4: execvp(SELF, argv); break;
    case 3: execvpe(SELF, argv, env); break;
    case 2: fexecve(open(SELF, O_RDONLY), argv, env); break;
    case 1: execveat(AT_FDCWD, SELF, argv, env, 0); break;
    }
}

int main(int argc, char **argv)
{
    int step = atoi(argv[1]), status;
    char next[2] = {(char)('0' + step - 1), 0};
    pid_t child = step == 5 ? vfork() : 0;

    if (child) {
        wait(&status);
        return status;
    }
    printf("%d of %s: %s, %s\\n", step, argv[0], argc > 2 ? argv[2] : "", getenv("MORE") ? getenv("MORE") : "");
    if (step)
        replace(step, next);
    return step;
}
"""


@beside
class Replaced(unittest.TestCase):
    """A process that makes itself another program."""

    def test_in_every_way(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = compiled(folder, "execs", EXECS, "-D_GNU_SOURCE")
            without, ours = plain(program, "9"), under(program, "9", options=("--intent", "low-delay"))
        self.assertEqual((without.returncode, without.stdout.count("argument 2, ")), (0, 9), without.stdout)
        self.assertEqual((ours.returncode, ours.stdout, ours.stderr), (0, without.stdout, ""))

    LOSES = ("import os, subprocess, sys\n"
             "env = dict(os.environ); old = env.pop('LD_PRELOAD', '')\n"
             "if sys.argv[1] != 'none': env['LD_PRELOAD'] = '/lib/other.so' + (':' + old if sys.argv[1] == 'appended' else '')\n"
             "if sys.argv[2] == 'child':\n"
             "    for _ in range(2): subprocess.run(['/bin/true'], env=env)\n"
             "else: os.execve('/bin/true', ['true'], env)\n")

    def test_with_another_object_in_its_place(self) -> None:
        """Is said once, as trickle does it to its program and others to their children."""
        line = (r"autobuf run: /bin/true cannot be reached: LD_PRELOAD was replaced; autobufd\(8\) reaches it from outside, "
                r"and so does autobuf watch --tune PID")
        for how in ("replaced", "appended", "none"):
            for way in ("itself", "child"):
                with self.subTest(how=how, way=way):
                    done = under(sys.executable, "-c", self.LOSES, how, way)
                    self.assertEqual(done.returncode, 0)
                    self.assertEqual(len(re.findall(line, done.stderr)), how == "replaced", done.stderr)


FORKS_IN_A_LOOK = """
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static _Atomic int forked;
static pthread_t thread;

static int is_store(const char *file)
{
    size_t length = strlen(file);

    return length > 14 && !strcmp(file + length - 14, "/autobuf/paths");
}

/* Says in how many descriptors a child has the path store. */
static void *fork_and_count(void *unused)
{
    pid_t child = fork();

    forked = 1;
    if (child == 0) {
        int count = 0;

        for (int fd = 0; fd < 1024; fd++) {
            char name[32], file[4096];
            ssize_t length;

            snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
            length = readlink(name, file, sizeof file - 1);
            file[length < 0 ? 0 : length] = 0;
            count += is_store(file);
        }
        printf("a child has %d\\n", count);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return unused;
}

__attribute__((destructor)) static void end(void)
{
    if (thread)
        pthread_join(thread, NULL);
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A look at a connection opens the path store. Another thread forks then, and has some time for it. */
int open64(const char *file, int flags, ...)
{
    static _Atomic int opened;
    int (*next)(const char *, int, ...) = dlsym(RTLD_NEXT, "open64"), fd;
    double until_s = now_s() + 0.02;
    va_list list;

    va_start(list, flags);
    fd = next(file, flags, va_arg(list, int));
    va_end(list);
    if (fd >= 0 && is_store(file) && !opened++) {
        if (pthread_create(&thread, NULL, fork_and_count, NULL))
            abort();
        while (!forked && now_s() < until_s)
            sched_yield();
    }
    return fd;
}
"""


SIGNALS_IN_A_FORK = """
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t forks, asked, inside, early, later;

/* The object asks who it is while it forgets what its parent did; a signal comes just then. */
pid_t getpid(void)
{
    if (forks) {
        asked++;
        inside = 1;
        raise(SIGUSR1);
        inside = 0;
    }
    return (pid_t)syscall(SYS_getpid);
}

static void handle(int signal)
{
    if (inside)
        early += signal == SIGUSR1;
    else
        later++;
}

int main(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), server;
    static char data[65536];
    socklen_t length = sizeof here;

    signal(SIGUSR1, handle);
    listen(listener, 1);
    getsockname(listener, (struct sockaddr *)&here, &length);
    connect(client, (struct sockaddr *)&here, length);
    server = accept(listener, NULL, NULL);
    for (int i = 0; i < 100; i++)
        if (write(client, data, sizeof data) < 0 || recv(server, data, sizeof data, MSG_WAITALL) < 0)
            return 1;
    forks = 1;
    if (fork() == 0) {
        forks = 0;
        printf("flows: %d, early: %d, later: %d\\n", asked > 1, early, later);
        return 0;
    }
    forks = 0;
    wait(NULL);
    return 0;
}
"""


@beside
class Forks(unittest.TestCase):
    PROGRAM = ("import socket, threading\n"
               "l = socket.create_server(('127.0.0.1', 0)); s = socket.create_connection(l.getsockname())\n"
               "c, _ = l.accept()\n"
               "def read():\n"
               "    while c.recv(1 << 16): pass\n"
               "t = threading.Thread(target=read); t.start()\n"
               "for _ in range(1000): s.sendall(bytes(65536))\n"
               "s.close(); t.join()\n")

    def test_in_a_look_of_another_thread(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            below = compiled(folder, "below.so", FORKS_IN_A_LOOK, "-D_GNU_SOURCE", "-shared", "-fPIC")
            store = pathlib.Path(folder, "autobuf", "paths")
            store.parent.mkdir()
            store.write_bytes(b"a")
            done = under(sys.executable, "-c", self.PROGRAM, options=("--intent", "low-delay"),
                         env=clean() | {"LD_PRELOAD": below, "XDG_CACHE_HOME": folder, "AUTOBUF_PATHS": ""})
        self.assertEqual((done.returncode, done.stdout), (0, "a child has 0\n"), done.stderr)

    def test_signals_wait_until_a_child_has_forgotten_the_flows(self) -> None:
        """Their handlers may write, and would find the flows half forgotten."""
        with tempfile.TemporaryDirectory() as folder:
            program = compiled(folder, "forks", SIGNALS_IN_A_FORK, "-rdynamic")
            done = under(program, options=("--intent", "low-delay"))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "flows: 1, early: 0, later: 1\n", ""))


@beside
class Checked(unittest.TestCase):
    """tests/threads has the thread sanitizer's part."""

    @thorough
    def test_memcheck_has_nothing_to_say(self) -> None:
        if not shutil.which("valgrind"):
            self.skipTest("valgrind is not installed")
        check = ("valgrind", "-q", "--vgdb=no", "--error-exitcode=9", CALLS)
        for scene in ("sizes", "descriptors", "threads", "storm", "errnos"):
            with self.subTest(scene):
                done = under(*check, scene, options=("--report", "--intent", "low-delay"))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual([line for line in done.stderr.splitlines() if line.startswith("==")], [])
        self.assertEqual(under(*check, "wrong_calls").returncode, 9, "it would say something")


WITHHELD = "--intent", "low-delay"
"""Sizes of connections to this host are withheld, too."""


@beside
class Sizes(unittest.TestCase):
    """Which sizes are locked: 1 is the send buffer, 2 the receive buffer."""

    def locks(self, *options: str, **environment: str) -> list[int]:
        said = under(CALLS, "locks", options=options, env=clean() | environment).stdout
        found = [int(number) for number in re.findall(r"^(?:before connect|accepted|after connect): (-?\d+)$", said, re.M)]
        self.assertEqual(len(found), 3, said)
        if -1 in found:
            self.skipTest("this kernel does not say what is locked: before Linux 5.15")
        return found

    def test_small_ones_are_not_applied(self) -> None:
        self.assertEqual(self.locks(*WITHHELD), [0, 0, 0])

    def test_they_are_where_the_program_is_obeyed(self) -> None:
        self.assertEqual(self.locks("--keep-sizes"), [3, 3, 3])
        self.assertEqual(self.locks(AUTOBUF="off"), [3, 3, 3])

    def test_larger_than_autotuning_is_applied(self) -> None:
        program = ("import socket; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30); "
                   "print(s.getsockopt(socket.SOL_SOCKET, 72))")
        settable = int(pathlib.Path("/proc/sys/net/core/wmem_max").read_text())
        most = int(pathlib.Path("/proc/sys/net/ipv4/tcp_wmem").read_text().split()[2])
        self.assertEqual(int(under(sys.executable, "-c", program).stdout), 1 if 2 * settable >= most else 0)

    def test_off_leaves_all_alone(self) -> None:
        """No line is reported either."""
        program = ("import socket, threading\n"
                   "l = socket.create_server(('127.0.0.1', 0)); s = socket.create_connection(l.getsockname()); c, _ = l.accept()\n"
                   "t = threading.Thread(target=lambda: c.recv(20_000_000, socket.MSG_WAITALL)); t.start()\n"
                   "s.sendall(bytes(20_000_000)); t.join()\n")
        self.assertIn("sent 20.0 MB", under(sys.executable, "-c", program, options=("--report",)).stderr)
        self.assertEqual(under(sys.executable, "-c", program, options=("--report",), env=clean() | {"AUTOBUF": "off"}).stderr, "")

    ASKS_FOR_FILTERS = ("import ctypes, socket\n"
                        "libc = ctypes.CDLL(None, use_errno=True)\n"
                        "assert libc.prctl(22, 2, None) == -1 and ctypes.get_errno() == 14\n"
                        "assert libc.syscall(ctypes.c_long({seccomp}), 0, 1, None) == -1 and ctypes.get_errno() == 22\n"
                        "assert libc.syscall(ctypes.c_long({seccomp}), 1, 0, None) == -1 and ctypes.get_errno() == 14\n"
                        "s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)\n"
                        "print(s.getsockopt(socket.SOL_SOCKET, 72))\n")

    def test_a_program_that_only_asks_for_filters(self) -> None:
        """As libraries do, to see what the kernel knows: it is looked after."""
        self.locks()
        program = self.ASKS_FOR_FILTERS.format(seccomp=SYS_SECCOMP)
        self.assertEqual([run(sys.executable, "-c", program).stdout for run in (plain, under)], ["1\n", "0\n"])

    INHERITS = ("import os, socket, sys\n"
                "if len(sys.argv) == 2:\n"
                "    l = socket.create_server(('127.0.0.1', 0)); s = socket.socket()\n"
                "    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096); s.connect(l.getsockname()); s.set_inheritable(True)\n"
                "    os.execvp(sys.argv[1], [sys.argv[1], 'run', '--intent', 'low-delay', '--', sys.executable, '-c', {itself!r}, str(s.fileno()), ''])\n"
                "s = socket.socket(fileno=int(sys.argv[1]))\n"
                "s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)\n"
                "print(s.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF), s.getsockopt(socket.SOL_SOCKET, 72))\n")

    def test_of_a_connection_that_came_with_a_small_one(self) -> None:
        """inetd, or systemd, may have set it: autotuning gets it back, or the program's own size would be less than without."""
        self.locks()
        itself = self.INHERITS.split("\n", 5)[5]
        done = plain(sys.executable, "-c", "import os, socket, sys\n" + self.INHERITS.split("\n", 1)[1].format(
            itself="import socket, sys\n" + itself), COMMAND)
        self.assertEqual((done.returncode, done.stdout), (0, "200000 0\n"), done.stderr)

    MPTCP = ("import socket\n"
             "l = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)\n"
             "for option in (socket.SO_SNDBUF, socket.SO_RCVBUF): l.setsockopt(socket.SOL_SOCKET, option, 65536)\n"
             "l.bind(('127.0.0.1', 0)); l.listen()\n"
             "s = socket.create_connection(l.getsockname()); c, _ = l.accept()\n"
             "m = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262); m.connect(l.getsockname()); d, _ = l.accept()\n"
             "for x in (s, m): x.sendall(bytes(500_000)); x.shutdown(socket.SHUT_WR)\n"
             "for x in (c, d):\n"
             "    while x.recv(1 << 20): pass\n"
             "print([(x.getsockopt(1, 38), x.getsockopt(1, 72), x.getsockopt(1, socket.SO_SNDBUF)) for x in (c, d)])\n")

    def test_of_a_listener_that_takes_mptcp(self) -> None:
        """What it accepts from a peer without MPTCP is a TCP connection with the listener's sizes."""
        if not pathlib.Path("/proc/sys/net/mptcp/enabled").exists():
            self.skipTest("this kernel has no MPTCP")
        self.locks()
        (tcp, locked, size), (mptcp, _, other) = eval(plain(sys.executable, "-c", self.MPTCP).stdout)
        self.assertEqual((tcp, locked, size, mptcp), (6, 3, 131072, 262))
        ours = eval(under(sys.executable, "-c", self.MPTCP, options=WITHHELD).stdout)
        self.assertEqual(ours, [(6, 0, 131072), (262, 0, other)])

    CLAMP = ("import socket, sys\n"
             "l = socket.create_server(('127.0.0.1', 0)); s = socket.socket()\n"
             "def clamp(s): s.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, 30000)\n"
             "def size(s): s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)\n"
             "for step in sys.argv[1].split()[:2]: {'clamp': clamp, 'size': size}.get(step, id)(l), {'clamp': clamp, 'size': size}.get(step, id)(s)\n"
             "s.connect(l.getsockname()); c, _ = l.accept()\n"
             "if 'late' in sys.argv[1]: s.sendall(b'x'); c.sendall(c.recv(1)); s.recv(1); clamp(s); clamp(c)\n"
             "print([(x.getsockopt(socket.SOL_SOCKET, 72), x.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)) for x in (s, c, s.dup())])\n")

    def test_of_a_receive_window_that_the_program_clamps_itself(self) -> None:
        """Autotuning would move the clamp, so such a program's size is applied."""
        self.locks()
        for steps in ("size", "clamp", "clamp size", "size clamp", "size late"):
            with self.subTest(steps):
                alone, ours = (eval(run(sys.executable, "-c", self.CLAMP, steps).stdout)
                               for run in (plain, functools.partial(under, options=WITHHELD)))
                self.assertEqual([size for _, size in alone], [size for _, size in ours])
                self.assertEqual([lock for lock, _ in ours], [2 if " " in steps else 0] * 3)


@beside
class Near(unittest.TestCase):
    """Sizes of connections to this host are as the program sets them, whenever it does."""

    PROGRAM = ("import socket, sys, threading\n"
               "def sizes(s, bytes):\n"
               "    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, bytes); s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, bytes)\n"
               "def state(s):\n"
               "    locks, *sizes = (s.getsockopt(socket.SOL_SOCKET, o) for o in (72, socket.SO_SNDBUF, socket.SO_RCVBUF))\n"
               "    return locks, *(sizes if locks else ())\n"
               "when, family, host = sys.argv[1:]; l = socket.socket(getattr(socket, family)); s = socket.socket(l.family)\n"
               "if when == 'first': sizes(l, 65536); sizes(s, 65536)\n"
               "l.bind((host, 0)); l.listen()\n"
               "if when == 'listening': sizes(l, 65536); sizes(s, 65536)\n"
               "copy = s.dup()\n"
               "if when == 'later': s.setblocking(False); s.connect_ex(l.getsockname()); sizes(s, 65536)\n"
               "else: s.connect(l.getsockname())\n"
               "c, _ = l.accept(); s.setblocking(True); s.sendall(b'1'); c.recv(1)\n"
               "if when == 'connected': sizes(s, 65536); sizes(c, 65536)\n"
               "def read(f):\n"
               "    while f.recv(1 << 16): pass\n"
               "reader = threading.Thread(target=read, args=(c,)); reader.start()\n"
               "for _ in range(100): s.sendall(bytes(100_000)); copy.sendall(bytes(100_000))\n"
               "print(state(s), state(copy), state(c)); s.shutdown(socket.SHUT_WR); reader.join()\n")

    def test_they_are_applied(self) -> None:
        for when, family, host in (("first", "AF_INET", "0.0.0.0"), ("listening", "AF_INET", "127.0.0.1"), ("later", "AF_INET6", "::1"),
                                   ("listening", "AF_INET6", "::"), ("connected", "AF_INET", "0.0.0.0")):
            with self.subTest(when, family=family, host=host):
                without, ours = (run(sys.executable, "-c", self.PROGRAM, when, family, host) for run in (plain, under))
                self.assertIn("(3, 131072, 131072)", without.stdout, without.stderr)
                self.assertEqual((ours.returncode, ours.stdout, ours.stderr), (0, without.stdout, ""))

    def test_they_are_said(self) -> None:
        said = under(sys.executable, "-c", self.PROGRAM, "first", "AF_INET", "0.0.0.0", env=clean() | {"AUTOBUF": "log"}).stderr
        self.assertRegex(said, r"(?m)^autobuf\[\d+\]: fd \d+: SO_SNDBUF SO_RCVBUF of the program set: its peer is near$")


@beside
class Command(unittest.TestCase):
    @unittest.skipUnless(shutil.which("readelf"), "needs readelf")
    def test_the_object_calls_nothing_to_know_its_thread(self) -> None:
        """__tls_get_addr() may allocate, and signal handlers ask, too."""
        said = subprocess.run(["readelf", "-rW", OBJECT], capture_output=True, text=True, check=True).stdout
        self.assertIn("R_", said)
        self.assertNotRegex(said, "DTPMOD|TLSDESC|__tls_get_addr")

    def test_the_program_has_its_streams_and_its_status(self) -> None:
        done = under("cat", stdin=None, input="three\nlines\nof text\n")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "three\nlines\nof text\n", ""))
        self.assertEqual(under("sh", "-c", "exit 77").returncode, 77)
        self.assertEqual(under("sh", "-c", "kill -TERM $$").returncode, -signal.SIGTERM)
        self.assertEqual(under("sh", "-c", "echo out; echo err >&2", options=("--report",)).stderr, "err\n")

    def test_what_cannot_be_run(self) -> None:
        for program, status, why in (("/nonexistent", 127, "No such file"), ("no-such-program", 127, "No such file"),
                                     ("/etc/passwd", 126, "Permission denied"), ("/", 126, "Permission denied")):
            with self.subTest(program):
                done = under(program)
                self.assertEqual(done.returncode, status)
                self.assertEqual(done.stdout, "")
                self.assertRegex(done.stderr, rf"^autobuf run: {program}: {why}.*\n$")

    def test_without_an_object_that_can_be_preloaded(self) -> None:
        """The program is not run, and why is said."""
        whole = "tools/autobuf", "lib/libautobuf.so.0", "preload/libautobuf-run.so"
        refused = "the linker preloads no file with a space or a colon in its name"
        for name, files, why in (("missing", whole[:2], "is missing"), ("a space", whole, refused), ("a:colon", whole, refused)):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                for file in files:
                    copy = pathlib.Path(folder, name, file)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(built(file), copy)
                done = plain(pathlib.Path(folder, name, "tools/autobuf"), "run", "sh", "-c", "echo \"$LD_PRELOAD\"")
                if done.returncode == 0 and folder not in done.stdout and os.path.exists(done.stdout.strip()):
                    self.skipTest(f"{done.stdout.strip()} is installed here")
                self.assertEqual((done.returncode, done.stdout), (125, ""), done.stderr)
                self.assertRegex(done.stderr, rf"^autobuf run: /.*/libautobuf-run\.so:? {why}.*\n$")

    MUSL = ("#include <stdio.h>\n"
            "#include <sys/socket.h>\n"
            "int main(void)\n"
            "{\n"
            "    int fd = socket(AF_INET, SOCK_STREAM, 0), size = 65536; socklen_t length = sizeof size;\n"
            "    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);\n"
            "    getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &length);\n"
            "    return printf(\"%d\\n\", size) < 0;\n"
            "}\n")

    def test_a_child_of_another_c_library_runs_as_without(self) -> None:
        """musl's linker loads the object, too, and would not start a program of which a function is missing."""
        if not shutil.which("musl-gcc"):
            self.skipTest("needs musl-gcc")
        with tempfile.TemporaryDirectory() as folder:
            child = compiled(folder, "child", self.MUSL, compiler="musl-gcc")
            done = under("sh", "-c", child)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "131072\n", ""))
            self.assertIn("uses another C library", under(child).stderr)

    def test_the_object_is_loaded_once_and_others_stay(self) -> None:
        loaded = "cat /proc/self/maps | grep -c 'r-xp.*/libautobuf-run.so$'; echo \"$LD_PRELOAD\""
        once = under("sh", "-c", loaded).stdout.splitlines()
        self.assertEqual(once[0], "1")
        self.assertEqual(plain(COMMAND, "run", COMMAND, "run", "sh", "-c", loaded).stdout.splitlines(), once)
        with tempfile.TemporaryDirectory() as folder:
            other = compiled(folder, "other.so", "int getpagesize(void) { return 77; }", "-shared", "-fPIC")
            done = under("sh", "-c", "echo \"$LD_PRELOAD\"", env=clean() | {"LD_PRELOAD": other})
            self.assertEqual(done.stdout.strip().split(":"), [*once[1].split(":"), other])

    def test_no_descriptor_is_left_open(self) -> None:
        program = ("import os, socket\n"
                   "l = socket.create_server(('127.0.0.1', 0))\n"
                   "s = socket.create_connection(l.getsockname()); c, _ = l.accept()\n"
                   "for i in range(100): s.sendall(bytes(100000)); c.recv(100000, socket.MSG_WAITALL)\n"
                   "print(sorted(os.readlink(f'/proc/self/fd/{fd}').split(':')[0] for fd in os.listdir('/proc/self/fd')[:-1]))")
        self.assertEqual(under(sys.executable, "-c", program).stdout, plain(sys.executable, "-c", program).stdout)

    def test_decisions_go_to_a_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = under("sh", "-c", f"cd /; {CALLS} sizes", options=("--log", "decisions"), cwd=folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            lines = pathlib.Path(folder, "decisions").read_text()
        self.assertRegex(lines, r"(?m)^autobuf\[\d+\]: fd \d+: SO_SNDBUF 65536 of the program is not set: autotuning reaches \d+ bytes$")
        self.assertIn("SO_SNDBUF 65536 of the program is not set", under(CALLS, "sizes", env=clean() | {"AUTOBUF": "log"}).stderr)
        self.assertNotIn("SO_SNDBUF", under(CALLS, "sizes", env=clean() | {"AUTOBUF": "off"}, options=("--log", "/dev/stderr")).stderr)

    def test_no_decision_goes_to_what_standard_error_became(self) -> None:
        program = ("import os, socket, sys\n"
                   "os.close(2); assert os.open(sys.argv[1], os.O_WRONLY) == 2\n"
                   "socket.socket().setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)\n")
        with tempfile.NamedTemporaryFile() as data:
            done = under(sys.executable, "-c", program, data.name, env=clean() | {"AUTOBUF": "log"})
            self.assertEqual((done.returncode, done.stderr, data.read()), (0, "", b""))
        program = program.split("\n", 2)[0] + "\n" + program.split("\n", 2)[2]
        self.assertIn("SO_SNDBUF 65536", under(sys.executable, "-c", program, env=clean() | {"AUTOBUF": "log"}).stderr)

    def test_a_line_for_each_connection_that_moved_bytes(self) -> None:
        program = ("import os, socket\n"
                   "l = socket.create_server(('127.0.0.1', 0))\n"
                   "for n in (1, 3000, 20_000_000):\n"
                   "    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)\n"
                   "    s.connect(l.getsockname())\n"
                   "    if os.fork() == 0:\n"
                   "        c, _ = l.accept(); s.close()\n"
                   "        while c.recv(65536): pass\n"
                   "        c.send(b'x' * 1000); os._exit(0)\n"
                   "    s.sendall(bytes(n)); s.shutdown(socket.SHUT_WR); s.recv(2000, socket.MSG_WAITALL); s.close()\n"
                   "    os.wait()\n"
                   "socket.create_connection(l.getsockname()).close()\n")
        done = under(sys.executable, "-c", program, options=("--report", *WITHHELD))
        lines = [match.groups() for match in REPORT.finditer(done.stderr)]
        self.assertEqual(len(lines), len(done.stderr.splitlines()), done.stderr)
        moved = [(sent, unit, got, its) for _, _, sent, unit, got, its, *_ in lines]
        self.assertEqual(sorted(moved), sorted([
            ("1", "bytes", "1000", "bytes"), ("3000", "bytes", "1000", "bytes"), ("20.0", "MB", "1000", "bytes"),
            ("1000", "bytes", "1", "bytes"), ("1000", "bytes", "3000", "bytes"), ("1000", "bytes", "20.0", "MB")]), done.stderr)
        self.assertEqual(len({pid for pid, *_ in lines}), 4)
        self.assertEqual(["SO_SNDBUF 65536 of the program left to autotuning" in what for *_, what in lines].count(True), 3)

    def test_a_connection_that_its_peer_has_reset(self) -> None:
        program = ("import os, socket, struct\n"
                   "l = socket.create_server(('127.0.0.1', 0))\n"
                   "for n in (1000, 1_000_000):\n"
                   "    s = socket.create_connection(l.getsockname()); c, _ = l.accept()\n"
                   "    if os.fork() == 0:\n"
                   "        s.send(bytes(n)); c.close()\n"
                   "        while s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != 7: pass\n"
                   "        s.close(); os._exit(0)\n"
                   "    s.close(); c.recv(n, socket.MSG_WAITALL)\n"
                   "    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)); c.close(); os.wait()\n")
        lines = under(sys.executable, "-c", program, options=("--report",)).stderr.splitlines()
        self.assertEqual(len(lines), 4, lines)
        for line in lines:
            self.assertRegex(line, r"; the kernel alone: a window of \d+ bytes$")

    def test_one_line_for_a_connection_with_several_descriptors(self) -> None:
        program = ("import os, socket\n"
                   "l = socket.create_server(('127.0.0.1', 0)); s = socket.socket()\n"
                   "s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536); s.connect(l.getsockname()); c, _ = l.accept()\n"
                   "copy = s.dup(); third = os.dup2(s.fileno(), 50)\n"
                   "for n, fd in ((1000, s.fileno()), (500, copy.fileno()), (7, 50)):\n"
                   "    os.write(fd, bytes(n)); c.recv(n, socket.MSG_WAITALL)\n"
                   "copy.close(); s.close(); os._exit(0) if os.fork() == 0 else os.wait()\n")
        done = under(sys.executable, "-c", program, options=("--report", *WITHHELD))
        lines = [match.groups() for match in REPORT.finditer(done.stderr)]
        self.assertEqual({(sent, got) for _, _, sent, _, got, *_ in lines}, {("1507", None), (None, "1507")}, done.stderr)
        self.assertEqual((len(lines), len(done.stderr.splitlines())), (2, 2), done.stderr)
        self.assertEqual([what for *_, what in lines].count("SO_SNDBUF 65536 of the program left to autotuning"), 1)

    def test_one_line_for_a_connection_in_each_process_that_moved_data(self) -> None:
        """As ProFTPD: the parent accepts, and the child has it as its standard input and output."""
        program = ("import os, socket, sys\n"
                   "l = socket.create_server(('127.0.0.1', 0))\n"
                   "for before in (0, 10):\n"
                   "    s = socket.create_connection(l.getsockname()); c, _ = l.accept()\n"
                   "    s.send(bytes(1000)); c.recv(before, socket.MSG_WAITALL)\n"
                   "    if os.fork() == 0:\n"
                   "        s.close(); os.dup2(c.fileno(), 0); os.dup2(0, 1); c.close(); left = 1000 - before\n"
                   "        while left: left -= len(os.read(0, left))\n"
                   "        os.write(1, bytes(7)); os._exit(0)\n"
                   "    c.close(); s.recv(7, socket.MSG_WAITALL); s.close(); os.wait()\n")
        done = under(sys.executable, "-c", program, options=("--report",))
        lines = [match.groups() for match in REPORT.finditer(done.stderr)]
        self.assertEqual((len(lines), len({pid for pid, *_ in lines})), (5, 3), done.stderr)
        self.assertEqual(sorted((sent or "0", got) for _, _, sent, _, got, *_ in lines),
                         [("0", "10"), ("1000", "7"), ("1000", "7"), ("7", "1000"), ("7", "990")], done.stderr)

    def test_what_was_seen_is_told_of_a_socket_that_cannot_be_read_any_more(self) -> None:
        program = ("import ctypes, os, socket\n"
                   "l = socket.create_server(('127.0.0.1', 0)); s = socket.socket()\n"
                   "s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536); s.connect(l.getsockname()); s.send(b'x' * 1000)\n"
                   f"fd = s.detach(); ctypes.CDLL(None).syscall({SYS_CLOSE}, fd)\n"
                   "try: os.close(fd)\n"
                   "except OSError: pass\n")
        line = under(sys.executable, "-c", program, options=("--report", *WITHHELD)).stderr.strip()
        self.assertRegex(line, r"sent 1000 bytes.*; set: SO_SNDBUF 65536 of the program left to autotuning; "
                               r"the kernel alone: a window of \d+ bytes$")

    def test_no_report_where_standard_error_became_something_else(self) -> None:
        program = ("import os, socket, sys\n"
                   "l = socket.create_server(('127.0.0.1', 0)); s = socket.create_connection(l.getsockname()); c, _ = l.accept()\n"
                   "s.send(b'x'); c.recv(1); os.dup2(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), 2)\n")
        with tempfile.NamedTemporaryFile() as data:
            done = under(sys.executable, "-c", program, data.name, options=("--report",))
            self.assertEqual((done.returncode, done.stderr, data.read()), (0, "", b""))
        program = program.split("os.dup2")[0]
        self.assertEqual(len(under(sys.executable, "-c", program, options=("--report",)).stderr.splitlines()), 2)

    def test_a_report_that_nobody_reads_ends_no_program(self) -> None:
        """Nor holds it up: a pipe without a reader, and one that is full."""
        program = ("import signal, socket\n"
                   "signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores\n"
                   "l = socket.create_server(('127.0.0.1', 0)); s = socket.create_connection(l.getsockname()); c, _ = l.accept()\n"
                   "s.send(b'x'); c.recv(1); print('out', flush=True)\n")
        for full in (False, True):
            with self.subTest(full=full):
                read, write = os.pipe()
                if full:
                    os.set_blocking(write, False)
                    with contextlib.suppress(BlockingIOError):
                        while os.write(write, bytes(4096)):
                            pass
                    os.set_blocking(write, True)
                else:
                    os.close(read)
                done = subprocess.run([COMMAND, "run", "--report", "--", sys.executable, "-c", program], stdout=subprocess.PIPE,
                                      stderr=write, text=True, timeout=60, env=clean())
                self.assertEqual((done.returncode, done.stdout), (0, "out\n"))
                os.close(write)
                if full:
                    os.close(read)


@beside
class Unreachable(unittest.TestCase):
    """Told once, on one line; the program then runs as without."""

    SOURCE = "#include <stdio.h>\nint main(void) { puts(\"ran\"); return 5; }\n"

    def setUp(self) -> None:
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        os.chmod(self.folder, 0o755)

    def check(self, program: str, why: str, **kw) -> None:
        done = under(program, **kw)
        self.assertEqual((done.returncode, done.stdout), (5, "ran\n"), done.stderr)
        self.assertRegex(done.stderr, rf"^autobuf run: {program} cannot be reached: {why}; autobufd\(8\) .*\n$")

    def test_static(self) -> None:
        program = compiled(self.folder, "static", self.SOURCE, "-static")
        self.check(program, "static")
        self.check(compiled(self.folder, "static-pie", self.SOURCE, "-static-pie"), "static")
        script = pathlib.Path(self.folder, "script")
        script.write_text(f"#!{program}\n")
        script.chmod(0o755)
        self.check(str(script), "static")

    def test_nothing_is_said_into_a_connection(self) -> None:
        """It is standard error of what inetd starts."""
        program = compiled(self.folder, "static", self.SOURCE, "-static")
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
            connection, _ = server.accept()
            with connection:
                subprocess.run([COMMAND, "run", program], stdin=connection, stdout=connection, stderr=connection, env=clean(),
                               timeout=60)
            self.assertEqual(client.makefile().read(), "ran\n")

    def test_one_that_has_privilege(self) -> None:
        if os.geteuid():
            self.skipTest("a set-user-ID program is root's to make")
        program = compiled(self.folder, "setuid", self.SOURCE)
        as_nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": ()}
        copy = pathlib.Path(self.folder, "preload")
        copy.mkdir()
        shutil.copy(OBJECT, copy)
        done = under(program)
        self.assertEqual((done.returncode, done.stderr), (5, ""))
        os.chmod(program, 0o4755)
        command = self.for_everybody()
        done = plain(command, "run", program, **as_nobody)
        self.assertEqual((done.returncode, done.stdout), (5, "ran\n"), done.stderr)
        self.assertRegex(done.stderr, "cannot be reached: set-user-ID")
        # Its child has the variables, and the linker keeps the object out of it.
        done = plain(command, "run", "sh", "-c", program, **as_nobody)
        self.assertEqual((done.returncode, done.stdout), (5, "ran\n"), done.stderr)

    def for_everybody(self) -> str:
        """The command and its object where any user may read them."""
        tools = pathlib.Path(self.folder, "tools")
        tools.mkdir()
        library = built("lib/libautobuf.so.0")
        shutil.copy(COMMAND, tools)
        (tools.parent / "lib").mkdir()
        shutil.copy(library, tools.parent / "lib")
        return str(tools / "autobuf")

    def test_sanitized(self) -> None:
        for sanitizer in ("address", "thread"):
            with self.subTest(sanitizer):
                program = compiled(self.folder, sanitizer, self.SOURCE, f"-fsanitize={sanitizer}")
                if plain(program).returncode != 5:
                    self.skipTest(f"-fsanitize={sanitizer} does not run here")
                self.check(program, "has a sanitizer")
                # As a child it is not known before.
                done = under("sh", "-c", program)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (5, "ran\n", ""))

    def test_another_machine(self) -> None:
        self.check(compiled(self.folder, "other", self.SOURCE, "-m32"), "built for another machine")


@beside
class Programs(unittest.TestCase):
    """Some that most hosts have; tests/net/test_run_programs.py has more."""

    SERVER = ("import asyncio, sys\n"
              "async def client(reader, writer):\n"
              "    n = int(await reader.readline())\n"
              "    writer.write(bytes(n)); await writer.drain(); writer.close()\n"
              "async def fetch(port, n):\n"
              "    reader, writer = await asyncio.open_connection('127.0.0.1', port)\n"
              "    writer.write(b'%d\\n' % n); data = await reader.read(-1); writer.close(); return len(data)\n"
              "async def main():\n"
              "    server = await asyncio.start_server(client, '127.0.0.1', 0)\n"
              "    port = server.sockets[0].getsockname()[1]\n"
              "    print(await asyncio.gather(*(fetch(port, n * 500_000) for n in range(20))))\n"
              "asyncio.run(main())\n")

    def test_asyncio(self) -> None:
        without, ours = plain(sys.executable, "-c", self.SERVER), under(sys.executable, "-c", self.SERVER)
        self.assertEqual((ours.returncode, ours.stdout, ours.stderr), (without.returncode, without.stdout, ""))
        self.assertIn("9500000", ours.stdout)

    def test_curl_from_a_server_of_threads(self) -> None:
        if not shutil.which("curl"):
            self.skipTest("curl is not installed")
        with tempfile.TemporaryDirectory() as folder:
            data = os.urandom(20_000_000)
            pathlib.Path(folder, "file").write_bytes(data)
            server = subprocess.Popen([COMMAND, "run", sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "0",
                                       "--directory", folder], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                      env=clean())
            self.addCleanup(server.wait)
            self.addCleanup(server.kill)
            port = re.search(r"port (\d+)", server.stdout.readline())[1]
            got = pathlib.Path(folder, "got")
            done = under("curl", "-sS", "-o", got, f"http://127.0.0.1:{port}/file")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(got.read_bytes() == data)
            server.stdout.close()
            server.terminate()
            self.assertEqual(server.wait(10), -signal.SIGTERM)


class OnAPath(BulkTest):
    SINK = ("import socket, sys\n"
            "l = socket.create_server(('', int(sys.argv[1])))\n"
            "while True:\n"
            "    c, _ = l.accept()\n"
            "    while c.recv(1 << 20): pass\n"
            "    c.close()\n")
    SEND = ("import socket, sys\n"
            "s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)\n"
            "s.connect((sys.argv[1], int(sys.argv[2]))); s.sendall(bytes(int(sys.argv[3]))); s.shutdown(socket.SHUT_WR); s.recv(1)\n")

    def started(self, both: str = "rate=50M,delay=20ms,queue=1M") -> Path:
        path = self.path(both=both)
        path.sysctl("a", PING_GROUPS, ALL)
        server = path.popen("b", [sys.executable, "-c", self.SINK, str(PORT)])
        wait_listening(path, "b", PORT, server)
        return path

    def send(self, path: Path, size: int, *options: str) -> str:
        done = path.run("a", [COMMAND, "run", "--report", *options, "--", sys.executable, "-c", self.SEND, path.addr["b"],
                              str(PORT), str(size)], env=clean())
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def test_it_sends_nothing_of_its_own_unless_allowed(self) -> None:
        path = self.started()
        self.send(path, 2_000_000)
        self.assertEqual(self.echoes(path), 0)
        self.send(path, 1000, "--probe", "--intent", "low-delay")
        self.assertGreater(self.echoes(path), 4)

    MPTCP_SINK = SINK.replace("socket.create_server(('', int(sys.argv[1])))",
                              "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)\n"
                              "l.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536); l.bind(('', int(sys.argv[1]))); l.listen()")

    def test_a_receiver_that_listens_for_mptcp(self) -> None:
        """It has locked 64 KB, which is 10 Mbit/s of 50; the sender knows no MPTCP."""
        if not pathlib.Path("/proc/sys/net/mptcp/enabled").exists():
            self.skipTest("this kernel has no MPTCP")
        rates = []
        for under_run in ((), (COMMAND, "run", "--")):
            path = self.path(both="rate=50M,delay=20ms,queue=1M")
            server = path.popen("b", [*under_run, sys.executable, "-c", self.MPTCP_SINK, str(PORT)], env=clean())
            wait_listening(path, "b", PORT, server)
            begin = time.monotonic()
            done = path.run("a", [sys.executable, "-c", self.SEND.replace("65536", "4194304"), path.addr["b"], str(PORT), "5000000"])
            self.assertEqual(done.returncode, 0, done.stderr)
            rates.append(5_000_000 * 8 / (time.monotonic() - begin))
        self.assertGreater(rates[1], 2 * rates[0], rates)

    def test_a_program_that_locks_64_kb(self) -> None:
        """12 Mbit/s at most by itself."""
        path = self.started()
        line = self.send(path, 8_000_000)
        self.assertIn("SO_SNDBUF 65536 of the program left to autotuning", line)
        self.assertRegex(line, REPORT)
        kernel = re.search(r"the kernel alone: a window of (\d+) bytes, at most ([\d.]+) Mbit/s", line)
        self.assertEqual(int(kernel[1]), 87380)
        self.between(float(kernel[2]), 14, 17.5, "the window in a round trip of 40 ms")
        self.assertGreater(float(REPORT.search(line)[8]), 1.2 * float(kernel[2]))

    TRICKLES = ("import select, socket, sys, time\n"
                "s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)\n"
                "s.connect((sys.argv[1], int(sys.argv[2]))); begin = time.monotonic()\n"
                "def until(end, size, wait):\n"
                "    while time.monotonic() < begin + end: s.send(bytes(size)); select.select([], [], [], wait)\n"
                "until(1.2, 1 << 16, 0); until(5.4, 1000, 0.06); select.select([], [], [], 4); until(9.6, 1 << 16, 0)\n"
                "s.shutdown(socket.SHUT_WR); s.recv(1)\n")

    @thorough
    def test_what_limited_is_told_by_time_not_by_looks(self) -> None:
        """Where a buffer limits, looks are more frequent: 80 here, of 140. In a pause there is none, and the next sees no more of it."""
        path = self.started("rate=200M,delay=2ms,queue=1M")
        done = path.run("a", [COMMAND, "run", "--report", "--keep-sizes", "--", sys.executable, "-c", self.TRICKLES,
                              path.addr["b"], str(PORT)], env=clean())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "; limited by: sender;")

    COPIES = ("import socket, sys\n"
              "s = socket.create_connection((sys.argv[1], int(sys.argv[2]))); d = s.dup()\n"
              "s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)\n"
              "d.sendall(bytes(4_000_000)); print(s.getsockopt(socket.SOL_SOCKET, 72))\n")

    @thorough
    def test_kept_sizes_that_were_set_through_another_descriptor(self) -> None:
        path = self.started()
        said = [path.run("a", [COMMAND, "run", *options, "--", sys.executable, "-c", self.COPIES, path.addr["b"], str(PORT)],
                         env=clean()).stdout for options in ((), ("--keep-sizes",))]
        self.assertEqual(said, ["0\n", "1\n"])

    EXECS = ("import contextlib, os, socket, sys\n"
             "PACE, SENDS = 'print(s.getsockopt(socket.SOL_SOCKET, 47) == -1)', 's.sendall(bytes(12_000_000))'\n"
             "s = socket.create_connection((sys.argv[1], int(sys.argv[2]))); s.set_inheritable(True)\n"
             "exec(SENDS); exec(PACE)\n"
             "with contextlib.suppress(OSError): os.execv('/nowhere', ['/nowhere'])\n"
             "exec(PACE); exec(SENDS); sys.stdout.flush()\n"
             "os.execv(sys.executable, [sys.executable, '-c', f'import socket; s = socket.socket(fileno={s.fileno()}); {PACE}'])\n")

    def test_a_pace_ends_with_the_program(self) -> None:
        """Nobody would adapt it to another path. If the program stays, a flow begins anew."""
        path = self.started()
        done = path.run("a", [COMMAND, "run", "--intent", "low-delay", "--", sys.executable, "-c", self.EXECS, path.addr["b"], str(PORT)],
                        env=clean() | {"AUTOBUF": "log"})
        self.assertEqual((done.returncode, done.stdout.split()), (0, ["False", "True", "True"]), done.stderr)
        self.assertEqual(done.stderr.count(": send: kernel: "), 2, done.stderr)

    @thorough
    def test_low_delay_is_paced(self) -> None:
        path = self.started()
        self.assertRegex(self.send(path, 12_000_000, "--intent", "low-delay"), r"pace [\d.]+ Mbit/s")

    @thorough
    def test_low_delay_holds_nothing_to_the_other_direction(self) -> None:
        """More down than up: an echo sees the 20 Mbit/s, and what is received has 200."""
        path = self.path(ab="rate=20M,delay=40ms,queue=1M", ba="rate=200M,delay=40ms,queue=4M")
        path.sysctl("a", PING_GROUPS, ALL)
        server = path.popen("b", [BULK, "recv"])
        wait_listening(path, "b", 7500, server)
        rates = []
        for options in ((), ("--probe", "--intent", "low-delay")):
            done = path.run("a", [COMMAND, "run", *options, "--", BULK, "send", "--json", "--tune", "none", "--seconds", "4",
                                  "--reverse", path.addr["b"]], env=clean(), timeout=30)
            self.assertEqual(done.returncode, 0, done.stderr)
            rates.append(json.loads(done.stdout)["rate_bit_per_s"])
        if rates[1] < 0.7 * rates[0]:
            self.untimely(f"{rates}")

    SOURCE = ("import socket, sys\n"
              "l = socket.create_server(('', int(sys.argv[1])))\n"
              "while True: c, _ = l.accept(); c.sendall(bytes(8_000_000)); c.close()\n")

    def receiving(self) -> Callable[..., str]:
        """What is reported of a program that gets 8 MB; its window is 20 Mbit/s by itself."""
        path = self.path(both="rate=50M,delay=50ms,queue=2M")
        path.sysctl("a", "net.ipv4.tcp_rmem", "4096 131072 500000")
        server = path.popen("b", [sys.executable, "-c", self.SOURCE, str(PORT)])
        wait_listening(path, "b", PORT, server)

        def receive(program: str, *arguments: str) -> str:
            done = path.run("a", [COMMAND, "run", "--report", "--", sys.executable, "-c", program, path.addr["b"], str(PORT),
                                  *arguments], env=clean())
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stderr

        return receive

    WHOLE = ("import socket, sys\n"
             "s = socket.create_connection((sys.argv[1], int(sys.argv[2]))); n = int(sys.argv[3])\n"
             "sys.exit(s.recv_into(bytearray(n), n, socket.MSG_WAITALL) != n)\n")

    def test_a_reader_of_one_large_call_is_looked_after(self) -> None:
        """Reading is all that it does."""
        self.assertRegex(self.receiving()(self.WHOLE, "8000000"), r"received 8.0 MB .*; limited by: (?!not looked at)")

    CLAMPED = ("import socket, sys\n"
               "s = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
               "if sys.argv[3] == 'clamped': s.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, 150000)\n"
               "while s.recv(1 << 16): pass\n")

    @thorough
    def test_the_receive_side_of_a_program_that_clamps_its_window_stays(self) -> None:
        receive = self.receiving()
        for how, says in (("plain", r"set: SO_RCVBUF \d+"), ("clamped", "set: nothing")):
            self.assertRegex(receive(self.CLAMPED, how), r"received 8.0 MB .*; " + says)

    SIZES = ("import socket, sys\n"
             "s = socket.create_connection((sys.argv[1], int(sys.argv[2]))); sends = int(sys.argv[3])\n"
             "if sends: s.sendall(bytes(sends)); s.shutdown(socket.SHUT_WR)\n"
             "while s.recv(1 << 16): pass\n"
             "print(*(s.getsockopt(socket.SOL_SOCKET, option) // 2 for option in (socket.SO_SNDBUF, socket.SO_RCVBUF)))\n")

    def test_no_buffer_is_larger_than_the_most_that_may_be(self) -> None:
        """Autotuning reaches 262,144 and 250,000 bytes, as a program sets them, and the path holds 1.25 MB."""
        self.core(CORE)
        path = self.path(both="rate=100M,delay=50ms,queue=2M")
        path.sysctl("a", "net.ipv4.tcp_wmem", "4096 16384 524288")
        path.sysctl("a", "net.ipv4.tcp_rmem", "4096 131072 500000")
        for port, program, sends in some((PORT, self.SINK, 30_000_000), (PORT + 1, self.SOURCE, 0)):
            server = path.popen("b", [sys.executable, "-c", program, str(port)])
            wait_listening(path, "b", port, server)
            sizes = []
            for options in ((), ("--max", "400k")):
                done = path.run("a", [COMMAND, "run", *options, "--", sys.executable, "-c", self.SIZES, path.addr["b"], str(port),
                                      str(sends)], env=clean())
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                sizes.append(int(done.stdout.split()[0 if sends else 1]))
            with self.subTest(sends=sends):
                self.assertGreater(sizes[0], 400_000)
                self.assertEqual(sizes[1], 400_000)

    OVER = ("import contextlib, select, socket, sys\n"
            "s = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
            "s.sendall(sys.argv[3].encode() + b'\\n')\n"
            "s.sendall(bytes(int(sys.argv[4])))\n"
            "if sys.argv[3] == 'end': s.shutdown(socket.SHUT_WR)\n"
            "with contextlib.suppress(OSError): s.recv(1)\n"
            "while s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != 7: select.select([], [], [], 0.01)\n"
            "for _ in range(5): select.select([], [], [], 0.1)\n")
    """It waits until TCP knows no connection any more (TCP_CLOSE), and then goes on with other things."""
    ENDS = ("import socket, struct, sys\n"
            "l = socket.create_server(('', int(sys.argv[1])))\n"
            "while True:\n"
            "    c, _ = l.accept(); f = c.makefile('rb'); how = f.readline(); left = int(sys.argv[2])\n"
            "    while left > 0: left -= len(f.read(min(left, 1 << 16)))\n"
            "    if how == b'reset\\n': c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))\n"
            "    else: f.read(1)\n"
            "    f.close(); c.close()\n")

    @thorough
    def test_a_connection_that_is_over_before_it_is_reported(self) -> None:
        """What was set, and what the kernel alone would have given, were seen while it lived."""
        path = self.path(both="rate=50M,delay=20ms,queue=1M")
        for port, size, options in ((PORT, 12_000_000, ("--intent", "low-delay")), (PORT + 1, 20_000, ())):
            server = path.popen("b", [sys.executable, "-c", self.ENDS, str(port), str(size)])
            wait_listening(path, "b", port, server)
            for how in ("end", "reset"):
                with self.subTest(how, size=size):
                    done = path.run("a", [COMMAND, "run", "--report", *options, "--", sys.executable, "-c", self.OVER,
                                          path.addr["b"], str(port), how, str(size)], env=clean())
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertRegex(done.stderr, r"the kernel alone: a window of \d+ bytes, at most [\d.]+ Mbit/s\n")
                    if options:
                        self.assertRegex(done.stderr, r"; set: (SO_SNDBUF \d+, )?pace [\d.]+ Mbit/s; ")


if __name__ == "__main__":
    sys.exit(run_tests(["ip", "gcc"], ["tools/autobuf", "preload/libautobuf-run.so", "tests/net/run_calls"]))
