"""An emulated network path between two namespaces, for tests, benchmarks and the demo.

    with machine_lock(), Path(both="rate=400M,delay=50ms,queue=10M") as path:
        path.route("a", congctl="cubic")
        server = path.popen("b", ["iperf3", "-s", "-1"])
        wait_listening(path, "b", 5201, server)
        print(path.run("a", ["iperf3", "-c", path.addr["b"]]).stdout, path.truth())

Side a is 10.77.0.1 and fd77::1, side b 10.77.0.2 and fd77::2; `ab` is the direction from a to b.
The namespaces are anonymous: they disappear with the last process in them. Each process that is started
here is killed when this process dies, however it dies; the children of such a process are not.
Keys and units of the parameters: see pathemu.c and emu_params.c; K, M, G are decimal.

Works as root and, where user namespaces and /dev/net/tun allow it, as an ordinary user.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import re
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path as _FilePath
from typing import Any

__all__ = [
    "Path", "PathError", "TooLate", "default_pathemu", "global_sysctls", "machine_lock",
    "recover", "told", "unavailable", "wait_line", "wait_listening",
]

NOBODY = 65534
DEVICE = "path0"
PATIENCE_S = 60.0
"""With an emulator that lives: a machine that is too busy has not run one for 35 s."""
TOLD_BYTES = 2000
"""Of what a process has said, in an error."""


os.environ.setdefault("AUTOBUF_PATHS", "off")  # what one case has measured must not decide another


class PathError(RuntimeError):
    """The path could not be set up or changed; the text says why."""


class TooLate(PathError):
    """What was waited for has not come in time."""


class Broken(Exception):
    """The emulator itself has failed."""


def build_folder() -> pathlib.Path:
    """Where the project was built: $AUTOBUF_BUILD, or build/ of the repository."""
    named = os.environ.get("AUTOBUF_BUILD")
    return pathlib.Path(named).resolve() if named else (
        pathlib.Path(__file__).resolve().parent.parent.parent / "build")


def built(name: str) -> str:
    """A file of the build, "tools/autobuf" for one."""
    return str(build_folder() / name)


def of_python() -> dict[str, str]:
    """An environment in which the programs of the Python package are found, and they find the library of the build."""
    package = pathlib.Path(__file__).resolve().parent.parent.parent / "python"
    return os.environ | {"PATH": f"{package}:{os.environ['PATH']}", "AUTOBUF_LIBRARY": built("lib/libautobuf.so.0"), "PYTHONDONTWRITEBYTECODE": "1"}


def default_pathemu() -> str:
    """The emulator in the build folder."""
    return built("tests/net/pathemu")


def split_cores() -> tuple[set[int], set[int]]:
    """Cores for the emulator, and for what uses the path.

    An emulator that shares a core with the sender that wakes it makes that sender the bottleneck:
    a packet then takes 30 us to send, where it takes 3 us otherwise. With one core all share it.
    """
    cores = sorted(os.sched_getaffinity(0))
    return ({cores[-1]}, set(cores[:-1])) if len(cores) > 1 else (set(cores), set(cores))


# ---- lines from a process, with a deadline ----


class _Lines:
    """Lines from a descriptor. Reads past Python's buffers, which select() cannot see into."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.pending = b""

    def next(self, deadline: float) -> str | None:
        """The next line without its end; None at the end of file. Raises TimeoutError."""
        while b"\n" not in self.pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise TimeoutError
            data = os.read(self.fd, 65536)
            if not data:
                rest, self.pending = self.pending, b""
                return rest.decode(errors="replace") if rest else None
            self.pending += data
        line, _, self.pending = self.pending.partition(b"\n")
        return line.decode(errors="replace")


def wait_line(proc: subprocess.Popen, predicate: Callable[[str], Any],
              timeout: float = 10.0) -> str:
    """The first line of proc's standard output for which the predicate holds.

    Lines before it are passed over; later calls go on behind it. Do not mix with reading
    proc.stdout in another way. Raises PathError when the output ends, TooLate when the time is up.
    """
    lines = proc.__dict__.setdefault("_path_lines", _Lines(proc.stdout.fileno()))
    deadline = time.monotonic() + timeout
    while True:
        try:
            line = lines.next(deadline)
        except TimeoutError:
            raise TooLate(f"no such line within {timeout} s from {proc.args}") from None
        if line is None:
            raise PathError(f"output ended without such a line: {proc.args}")
        if predicate(line):
            return line


# ---- the path ----


class Path:
    """A running emulator; see the module's text. Use as a context manager."""

    addr = {"a": "10.77.0.1", "b": "10.77.0.2"}
    addr6 = {"a": "fd77::1", "b": "fd77::2"}

    made: list[Path] = []
    """Every path, until somebody clears the list: a test asks them how late they were."""

    def __init__(self, both: str | None = None, ab: str | None = None, ba: str | None = None,
                 mtu: int = 1500, seed: int | None = None, pathemu: str | None = None) -> None:
        self.mtu = mtu
        self.pid = 0
        self.ns: dict[str, str] = {}
        self.final: dict | None = None
        """The truth when the path ended; None when the emulator did not live to tell it."""
        self._argv = [pathemu or default_pathemu(), "--mtu", str(mtu)]
        for option, text in (("--both", both), ("--ab", ab), ("--ba", ba)):
            if text:
                self._argv += [option, text]
        if seed is not None:
            self._argv += ["--seed", str(seed)]
        if has_company:  # which needs the processors, and says nothing of time
            self._argv.append("--relaxed")
        self._userns = os.geteuid() != 0
        self._cores = split_cores()
        self._emulator: subprocess.Popen | None = None
        self._children: list[subprocess.Popen] = []
        self._routes: dict[str, dict[str, Any]] = {"a": {}, "b": {}}
        self._late_ns = self._stall_ns = 0
        Path.made.append(self)

    def __enter__(self) -> Path:
        try:
            # Its standard input is the lifeline: the emulator ends when this process is gone.
            self._emulator = subprocess.Popen(
                self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, bufsize=0)
        except OSError as error:
            raise PathError(f"{self._argv[0]}: {error.strerror}") from None
        try:
            ready = json.loads(wait_line(self._emulator, lambda line: True, PATIENCE_S))
        except PathError:
            emulator, self._emulator = self._emulator, None
            with contextlib.suppress(subprocess.TimeoutExpired):
                emulator.wait(1)
            status = emulator.poll()
            emulator.kill()
            problem = emulator.communicate()[1].decode(errors="replace").strip()
            if status is None or status < 0:  # no reason of this machine's
                raise Broken(f"the emulator did not start: status {status}: {problem}") from None
            raise PathError(problem or "the emulator did not start") from None
        self.pid = ready["pid"]
        os.sched_setaffinity(self.pid, self._cores[0])
        self.ns = {"a": ready["ns_a"], "b": ready["ns_b"]}
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children:
            if child.poll() is None:
                child.kill()
        for child in self._children:
            child.wait()
            for stream in (child.stdin, child.stdout, child.stderr):
                if stream:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()
        self._children.clear()
        emulator, self._emulator = self._emulator, None
        if emulator is None:
            return
        with emulator:
            emulator.stdin.close()
            try:
                self.final = json.loads(wait_line(emulator, lambda line: True, PATIENCE_S))
                emulator.wait(PATIENCE_S)
            except (PathError, ValueError, subprocess.TimeoutExpired):
                emulator.kill()

    # -- commands inside --

    def argv(self, side: str, cmd: Sequence[str], unprivileged: bool = False) -> list[str]:
        """The command that runs cmd inside a side, and dies with the process that starts it.

        With unprivileged=True it runs without capabilities and groups, as uid and gid 65534
        (in a user namespace of an ordinary user, where there is no such user, as that user).
        """
        die = ["setpriv", "--pdeathsig", "KILL"]
        enter = die + ["taskset", "-c", ",".join(map(str, sorted(self._cores[1])))]
        enter += ["nsenter", f"--net={self.ns[side]}"]
        if self._userns:
            enter += [f"--user=/proc/{self.pid}/ns/user", "--preserve-credentials"]
        enter.append("--")
        # A change of credentials makes the kernel forget the signal: ask for it again.
        if self._userns:
            if unprivileged:
                die += ["--securebits", "+noroot,+noroot_locked", "--inh-caps=-all"]
            return enter + die + ["--", *cmd]
        if unprivileged:
            die += ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups",
                    "--inh-caps=-all"]
            return enter + die + ["--", *cmd]
        return enter + list(cmd)

    def run(self, side: str, cmd: Sequence[str], timeout: float | None = 60.0,
            unprivileged: bool = False, **kw: Any) -> subprocess.CompletedProcess:
        """Run cmd to its end, output captured as text unless **kw says otherwise."""
        kw.setdefault("text", True)
        if "stdout" not in kw and "stderr" not in kw:
            kw.setdefault("capture_output", True)
        if "input" not in kw:
            kw.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(self.argv(side, cmd, unprivileged), timeout=timeout, **kw)

    def popen(self, side: str, cmd: Sequence[str], unprivileged: bool = False,
              **kw: Any) -> subprocess.Popen:
        """Start cmd; it is killed when the path ends. Standard output is a pipe (wait_line())."""
        kw.setdefault("text", True)
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("stdout", subprocess.PIPE)
        child = subprocess.Popen(self.argv(side, cmd, unprivileged), **kw)
        self._children.append(child)
        return child

    # -- the emulator --

    def _ask(self, line: str) -> dict:
        if self._emulator is None:
            raise PathError("the path is not up")
        try:
            self._emulator.stdin.write(line.encode() + b"\n")
        except BrokenPipeError:
            raise PathError("the emulator has died") from None
        return json.loads(wait_line(self._emulator, lambda text: True, PATIENCE_S))

    def change(self, which: str, **params: Any) -> None:
        """Change parameters in mid-run: change("ab", rate="50M", loss=0.01); or "ba", "both"."""
        answer = self._ask(f"{which} " + ",".join(f"{k}={v}" for k, v in params.items()))
        if not answer.get("ok"):
            raise PathError(answer.get("error", "refused"))

    def truth(self) -> dict:
        """What the emulator counted so far: {"ab": {...}, "ba": {...}}."""
        return self._ask("truth")

    def reset(self) -> None:
        """Count from zero. (What is on its way now will be counted as delivered then.)"""
        self._note_lateness(self.truth())
        self._ask("reset")

    def _note_lateness(self, truth: dict) -> None:
        for way in ("ab", "ba"):
            self._late_ns = max(self._late_ns, truth[way]["late_p99_ns"])
            self._stall_ns = max(self._stall_ns, truth[way]["stall_max_ns"])

    def lateness_ns(self) -> tuple[int, int]:
        """The worst of all counts: how late 1 packet of 100 was released, and the longest time between two polls."""
        with contextlib.suppress(PathError):  # it has died, which is another matter
            truth = self.truth() if self._emulator is not None else self.final
            if truth:
                self._note_lateness(truth)
        return self._late_ns, self._stall_ns

    # -- the hosts at its ends --

    def sysctl(self, side: str, name: str, value: object | None = None) -> str:
        """Write a sysctl of a side's namespace; without a value, read it. Returns the value."""
        file = _sysctl_file(name)
        if value is not None:
            done = self.run(side, ["tee", file], input=str(value))
            if done.returncode:
                raise PathError(f"{name}: {done.stderr.strip()}")
        done = self.run(side, ["cat", file])
        if done.returncode:
            raise PathError(f"{name}: {done.stderr.strip()}")
        return done.stdout.strip()

    def route(self, side: str, **attrs: Any) -> None:
        """Set attributes (congctl="cubic", initcwnd=10, ...) on a side's routes to its peer.

        Earlier attributes stay until given as None. With congctl, sockets use that congestion
        control whether they connect or accept, whatever the sysctls and their privilege.
        """
        routes = self._routes[side]
        routes.update(attrs)
        words = [word for k, v in routes.items() if v is not None for word in (k, str(v))]
        commands = [["ip", "route", "replace", "10.77.0.0/24", "dev", DEVICE, "proto", "kernel",
                     "scope", "link", "src", self.addr[side], *words]]
        if self.has_ipv6:
            commands.append(["ip", "-6", "route", "replace", "fd77::/64", "dev", DEVICE, "proto",
                             "kernel", "metric", "256", *words])
        for command in commands:
            done = self.run(side, command)
            if done.returncode:
                raise PathError(f"{' '.join(command)}: {done.stderr.strip()}")

    @property
    def has_ipv6(self) -> bool:
        return self.mtu >= 1280 and os.path.exists("/proc/net/if_inet6")


def unavailable(pathemu: str | None = None) -> str | None:
    """Why no path can be made on this machine, or None when it can."""
    try:
        with Path(pathemu=pathemu) as path:
            done = path.run("a", ["true"])
            return None if done.returncode == 0 else done.stderr.strip()
    except (PathError, OSError) as error:
        return str(error)


def told(process: subprocess.Popen, log: str | os.PathLike | None = None) -> str:
    """The end of what a process has said: in its log, or else in those of its pipes that nobody has read."""
    if log is not None:
        said = _FilePath(log).read_bytes()
    else:
        said = b""
        for stream in (process.stdout, process.stderr):
            while stream and select.select([stream.fileno()], [], [], 0)[0] and (data := os.read(stream.fileno(), 65536)):
                said += data
    return said[-TOLD_BYTES:].decode(errors="replace").strip()


def _sockets(pid: int, namespace: str, names: Sequence[str]) -> str:
    """Tables of a process's network namespace, once that is this one."""
    try:
        if os.stat(f"/proc/{pid}/ns/net").st_ino != os.stat(namespace).st_ino:
            return ""
        return "".join(_FilePath(f"/proc/{pid}/{name}").read_text() for name in names if os.path.exists(f"/proc/{pid}/{name}"))
    except OSError:  # it has ended meanwhile
        return ""


def wait_listening(path: Path, side: str, port: int, server: subprocess.Popen, log: str | os.PathLike | None = None,
                   timeout: float = 10.0, protocol: str = "tcp") -> None:
    """Return once a socket listens on the port (for protocol="udp": is bound to it).

    Raises PathError as soon as the server's process has ended, TooLate when the time is up, with what the server has told().
    """
    names = [f"net/{protocol}", f"net/{protocol}6"]
    bound = re.compile(rf"(?m)^ *\d+: [0-9A-F]+:{port:04X} \S+ {'0A' if protocol == 'tcp' else '07'} ")
    deadline = time.monotonic() + timeout
    status = None
    while status is None and time.monotonic() < deadline:
        status = server.poll()
        if status is None:
            said = _sockets(server.pid, path.ns[side], names)
        else:  # it may have left the port to a process that it has started
            said = path.run(side, ["cat", *(f"/proc/{name}" for name in names)]).stdout
        if bound.search(said):
            return
        time.sleep(0.002)
    ended, words = status is not None, told(server, log)
    how = f"and its server has ended with {status}" if ended else f"after {timeout} s"
    raise (PathError if ended else TooLate)(f"nothing listens on port {port} of {side} {how}" + (f": {words}" if words else ""))


# ---- one run at a time, and global sysctls ----

_LOCK_NAME = "autobuf-tests.lock"
_RECORD_NAME = "autobuf-tests.sysctls"
_HOLDER = "AUTOBUF_TESTS_LOCK_HOLDER"
_lock_fd = -1
_lock_depth = 0
_sysctls_held = False
has_company = False
"""Other cases run beside this one, with the lock of the process that made theirs."""


def _lock_folder() -> str:
    return "/run/lock" if os.access("/run/lock", os.W_OK | os.X_OK) else "/tmp"


def _open_lock() -> int:
    """Open the lock file for flock(), which needs no more than to read it.

    The folder is everybody's: no link is followed, and an existing file (of another user) is
    opened without O_CREAT, which the kernel may refuse there even to root.
    """
    name = os.path.join(_lock_folder(), _LOCK_NAME)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        try:
            fd = os.open(name, flags)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                os.close(os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o644))
            continue
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        raise PathError(f"{name} is not a regular file")


def _holder_lives() -> bool:
    holder = os.environ.get(_HOLDER, "")
    return holder.isdigit() and os.path.exists(f"/proc/{holder}")


@contextlib.contextmanager
def machine_lock() -> Iterator[None]:
    """Held by one run on this machine at a time; others wait. May be nested.

    A process started while it is held (by way of the environment) need not wait for its starter.
    On entry, what a killed run left behind is put back: see recover().
    """
    global _lock_fd, _lock_depth
    if _lock_depth == 0 and _holder_lives():
        yield
        return
    if _lock_depth == 0:
        fd = _open_lock()
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            recover()
        except BaseException:
            os.close(fd)
            raise
        _lock_fd = fd
        os.environ[_HOLDER] = str(os.getpid())
    _lock_depth += 1
    try:
        yield
    finally:
        _lock_depth -= 1
        if _lock_depth == 0:
            # Not LOCK_UN: a guardian at work shares the lock and keeps it until it is done.
            os.close(_lock_fd)
            _lock_fd = -1
            del os.environ[_HOLDER]


def _sysctl_file(name: str) -> str:
    file = os.path.join("/proc/sys", name.replace(".", "/"))
    if os.path.normpath(file) != file:
        raise ValueError(f"not a sysctl: {name}")
    return file


def _read_sysctl(name: str) -> str:
    return _FilePath(_sysctl_file(name)).read_text().strip()


def _boot_id() -> str:
    return _FilePath("/proc/sys/kernel/random/boot_id").read_text().strip()


def _record_file() -> str:
    return os.path.join(_lock_folder(), _RECORD_NAME)


def _write_record(values: Mapping[str, Mapping[str, str]]) -> None:
    name = _record_file()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name)
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        json.dump({"boot": _boot_id(), "values": values}, file)
        file.flush()
        os.fsync(file.fileno())


def recover() -> list[str]:
    """Put back the global sysctls that a killed run changed; returns their names.

    Only where the value is still the one that run had set, and only from a record of this user's
    own: the folder is one in which anybody may leave a file. Call with the lock held.
    """
    restored = []
    try:
        fd = os.open(_record_file(), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return restored
    with os.fdopen(fd) as file:
        status = os.fstat(fd)
        if status.st_uid != os.geteuid() or not stat.S_ISREG(status.st_mode):
            return restored
        try:
            record = json.load(file)
        except ValueError:  # cut off while it was written: nothing was changed yet
            record = {}
    if record.get("boot") == _boot_id():
        for name, value in record["values"].items():
            if value["old"] != value["new"] and _read_sysctl(name).split() == value["new"].split():
                _FilePath(_sysctl_file(name)).write_text(value["old"])
                restored.append(name)
    os.unlink(_record_file())
    return restored


@contextlib.contextmanager
def global_sysctls(values: Mapping[str, object]) -> Iterator[None]:
    """Set sysctls of the whole machine, such as net.core.wmem_max; restored at the end.

    Takes machine_lock(). The old values are first written down; a guardian process restores them
    when this one is gone, in whatever way, and keeps the lock until then. Should both be killed,
    the next run recovers them. Cannot be nested.
    """
    global _sysctls_held
    if _sysctls_held or has_company:
        raise RuntimeError("global_sysctls() cannot be nested, and others beside would be changed, too")
    with machine_lock():
        _write_record({name: {"old": _read_sysctl(name), "new": str(value)}
                       for name, value in values.items()})
        guardian = subprocess.Popen([sys.executable, "-I", os.path.abspath(__file__), "--guardian"],
                                    stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                    start_new_session=True,
                                    pass_fds=[_lock_fd] if _lock_fd >= 0 else [])
        _sysctls_held = True
        try:
            for name, value in values.items():
                _FilePath(_sysctl_file(name)).write_text(str(value))
            yield
        finally:
            _sysctls_held = False
            guardian.stdin.close()
            guardian.wait()
            recover()  # nothing left to do unless the guardian was killed


def _guardian() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    recover()


if __name__ == "__main__" and sys.argv[1:] == ["--guardian"]:
    _guardian()
