# SPDX-License-Identifier: MIT
"""Results of benchmarks, kept in a file with the build that made them."""
from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import pathlib
from collections.abc import Callable
from typing import Any

import path

MADE_OF = ("lib/libautobuf.so", "preload/libautobuf-run.so", "tools/autobuf", "tools/autobufd", "examples/bulk", "tests/net/pathemu",
           "tests/zoo/forced.so", "tests/zoo/reader", "tests/zoo/writer")
"""What of a build is measured, or takes part in it."""


@functools.cache
def build_digest() -> str:
    """Changes with what of the build is measured."""
    digest = hashlib.sha256()
    for name in MADE_OF:
        with contextlib.suppress(FileNotFoundError):
            digest.update(name.encode() + hashlib.sha256(pathlib.Path(path.built(name)).read_bytes()).digest())
    return digest.hexdigest()[:16]


def digest_with(*folders: str) -> str:
    """The same, and with what is in these folders of the tree."""
    digest = hashlib.sha256(build_digest().encode())
    for folder in folders:
        for file in sorted((pathlib.Path(__file__).resolve().parents[2] / folder).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(str(file).encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


class Kept:
    """Results by name, kept line by line with the build that made them: a benchmark that was cut goes on where it was. What only
    another build has made is measured again."""

    def __init__(self, file: pathlib.Path) -> None:
        self.file = file
        self.known: dict[tuple[str, str], Any] = {}
        text, nameless = file.read_text() if file.is_file() else "", 0
        if text and not text.endswith("\n"):
            file.write_text(text + "\n")
        for line in text.splitlines():
            try:
                name, result, build = json.loads(line)
                self.known[name, build] = result
            except (ValueError, TypeError):  # cut while it was written, or of a time when lines named no build
                nameless += 1
        if nameless:
            print(f"{file.name}: {nameless} results of no known build are left out", flush=True)

    def has(self, name: str, build: str | None = None) -> bool:
        """Tells if there is one of another build alone."""
        if (name, build or build_digest()) in self.known:
            return True
        if any(name == other for other, _ in self.known):
            print(f"{name}: kept of another build; measured again", flush=True)
        return False

    def add(self, name: str, result: Any, build: str | None = None) -> None:
        self.known[name, build or build_digest()] = result
        with self.file.open("a") as out:
            print(json.dumps([name, result, build or build_digest()]), file=out)

    def get(self, name: str, make: Callable[[], Any], build: str | None = None) -> Any:
        """What is kept, or else what make() measures now."""
        if not self.has(name, build):
            self.add(name, make(), build)
        return self.of(name, build)

    def of(self, name: str, build: str | None = None) -> Any:
        return self.known[name, build or build_digest()]
