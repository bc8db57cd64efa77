# SPDX-License-Identifier: MIT
"""What takes long to make and stays the same for another clone: builds of OpenSSH, NcFTP, libssh2 and curl, kernels, the
zoo's root.

Below $AUTOBUF_CACHE, or libautobuf-tests in $XDG_CACHE_HOME (~/.cache, of root /var/cache). An entry is a folder named by its kind and a digest of all
that it is made of. It gets that name once it is whole, and a list of its files with their digests: an entry that was cut or
changed is made again. What was not used for the longest time goes first when the folder is over its bound.
"""
from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator

MOST_BYTES = 4 << 30
"""Of all entries: two states of each, about."""
FILES = ".files"
"""In an entry: its files, with their digests. Its time is that of the last use."""


def folder() -> pathlib.Path:
    named = os.environ.get("AUTOBUF_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or ("/var/cache" if os.geteuid() == 0 else os.path.expanduser("~/.cache"))
    found = pathlib.Path(named or os.path.join(home, "libautobuf-tests"))
    found.mkdir(parents=True, exist_ok=True)
    return found


def sources() -> pathlib.Path:
    """Where tarballs of the archive are kept. Who uses one checks its SHA-256; it is no entry, and stays."""
    found = folder() / "sources"
    found.mkdir(exist_ok=True)
    return found


@functools.cache
def compiler() -> str:
    return subprocess.run(["cc", "--version"], capture_output=True, text=True).stdout.partition("\n")[0]


def digest(texts: Iterable[str], files: Iterable[pathlib.Path] = ()) -> str:
    """Changes with any of the texts, and with what is in any of the files."""
    found = hashlib.sha256("\0".join(texts).encode())
    for file in sorted(set(files)):
        found.update(b"\0" + file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()[:32]


HELD: dict[str, int] = {}
"""Locks of entries that this process uses, by name. The kernel releases them when it ends, however it does."""


def hold(name: str, how: int) -> None:
    """Shared: nobody removes the entry while it is used. Exclusive: nobody else makes it."""
    if name not in HELD:
        HELD[name] = os.open(folder() / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    fcntl.flock(HELD[name], how)


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """No other process makes what has this name, meanwhile. Not for entries, nor nested."""
    hold(name, fcntl.LOCK_EX)
    try:
        yield
    finally:
        hold(name, fcntl.LOCK_UN)


def files_of(place: pathlib.Path) -> str:
    """A line for each file of an entry: digest or target, and name."""
    lines = []
    for where, folders, names in os.walk(place):
        for name in (*names, *(name for name in folders if os.path.islink(os.path.join(where, name)))):
            file = os.path.join(where, name)
            told = os.path.relpath(file, place)
            if os.path.islink(file):
                lines.append(f"-> {os.readlink(file)} {told}")
            elif os.path.isfile(file) and told != FILES:
                with open(file, "rb") as content:
                    lines.append(f"{hashlib.file_digest(content, 'sha256').hexdigest()} {told}")
    return "".join(f"{line}\n" for line in sorted(lines))


def is_whole(place: pathlib.Path) -> bool:
    """What was made is there, and the same. Programs may have left files beside it, as sshd does."""
    try:
        made = set((place / FILES).read_text().splitlines())
    except OSError:
        return False
    return bool(made) and made <= set(files_of(place).splitlines())


def kept(kind: str, state: str, make: Callable[[pathlib.Path], object]) -> pathlib.Path:
    """The entry of a kind and state, a digest(). make() fills the folder that it is given; if it raises, nothing is kept.

    The folder has its final name from the beginning on, for programs know where they are installed.
    """
    place = folder() / f"{kind}-{state}"
    hold(place.name, fcntl.LOCK_SH)
    if not is_whole(place):
        hold(place.name, fcntl.LOCK_EX)
        if not is_whole(place):  # another may have made it meanwhile
            fill(place, make)
        hold(place.name, fcntl.LOCK_SH)
    os.utime(place / FILES)
    shrink(place)
    return place


def fill(place: pathlib.Path, make: Callable[[pathlib.Path], object]) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    try:
        make(place)
        (place / FILES).write_text(files_of(place))
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def used(place: pathlib.Path) -> float:
    """When an entry was last used; what never became whole: never."""
    try:
        return (place / FILES).stat().st_mtime
    except OSError:
        return 0.0


def size(place: pathlib.Path) -> int:
    """Of what is there now: another process may be making it."""
    total = 0
    for where, _, names in os.walk(place):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(where, name)).st_blocks * 512
    return total


def shrink(keep: pathlib.Path, most_bytes: int = MOST_BYTES) -> None:
    """Removes what was not used for the longest time, but for keep, and what some process uses or makes."""
    sizes = {place: size(place) for place in folder().iterdir() if (folder() / f"{place.name}.lock").exists()}
    for place in sorted(sizes, key=used):
        if sum(sizes.values()) <= most_bytes:
            return
        if place == keep:
            continue
        with (folder() / f"{place.name}.lock").open("w") as lock, contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(place, ignore_errors=True)
            del sizes[place]
