#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Python binding against the headers: structs, constants, functions. Prints TAP; exits 0, or 1 if a test failed."""
from __future__ import annotations

import ctypes
import enum
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import binding  # first: it says where the package is
import autobuf
from autobuf import _errors, _flow, _library, _path, _paths, _struct
from cases import run_tests

INCLUDE = binding.TOP / "include"
C_NAMES = {ctypes.c_uint32: "uint32_t", ctypes.c_int32: "int32_t", ctypes.c_uint64: "uint64_t"}
"""Of other fields only the size is compared: they are pointers and arrays."""

PREFIXES: dict[str, type[enum.IntEnum] | type[enum.IntFlag]] = {
    "METHOD": autobuf.Method, "PATH": autobuf.PathFlag, "UNSURE": autobuf.Unsure, "LIMITS": autobuf.LimitsFlag,
    "STAGE": autobuf.Stage, "LOCK": autobuf.Lock, "INTENT": autobuf.Intent, "REASON": autobuf.Reason,
    "PLAN": autobuf.PlanFlag, "SYSCTL": autobuf.Sysctl, "BOTTLENECK": autobuf.Bottleneck,
    "EVENT": autobuf.What, "KIND": autobuf.Kind, "AVAILABLE": autobuf.AvailableFlag, "CAUSE": autobuf.Cause, "SOCKET": autobuf.SocketFlag}
OTHERS = {"AUTOBUF_UNLOCK_LATE": autobuf.Lock.LATE, "AUTOBUF_INBAND_TX": autobuf.Direction.TX,
          "AUTOBUF_INBAND_RX": autobuf.Direction.RX, "AUTOBUF_SYSCTL_NONE": autobuf.Sysctl(0),
          "AUTOBUF_NS_UNSET": _struct.UNSET, "AUTOBUF_FLOW_SILENT": _flow.SILENT, "AUTOBUF_FLOW_NO_STORE": _flow.NO_STORE,
          "AUTOBUF_FLOW_OBSERVE": _flow.OBSERVE, "AUTOBUF_FLOW_AVAILABLE": _flow.AVAILABLE, "AUTOBUF_PROBE_AVAILABLE": _path.AVAILABLE,
          "AUTOBUF_PATHS_MESSAGE_BYTES": _paths.MESSAGE_BYTES}
NOT_BOUND = ("AUTOBUF_API", "AUTOBUF_VERSION_(MAJOR|MINOR|PATCH)", "AUTOBUF_[A-Z]+_H", "AUTOBUF_([A-Z_]+_)?INIT",
             "AUTOBUF_INBAND_(INITIATOR|RESPONDER|BUDGET_BYTES|TEXT|FTP|PACED|HOST_PACES|HOST_FREE)",
             "AUTOBUF_PATHS_(TRY|NO_SYNC|STAMP_BYTES)", "AUTOBUF_(INTERFACE|PREFIX)_BYTES")

PARAMETERS = {"int": (ctypes.c_int,), "int64_t": (ctypes.c_int64,), "uint64_t": (ctypes.c_uint64,),
              "uint32_t": (ctypes.c_uint32,), "unsigned": (ctypes.c_uint,), "socklen_t": (ctypes.c_uint32,),
              "size_t": (ctypes.c_size_t,), "void": (type(None),)}
POINTERS = (ctypes.c_void_p, ctypes.c_char_p)


def headers() -> str:
    """The public headers, without comments; <autobuf/ftp.h> is not bound."""
    texts = (file.read_text() for file in sorted(INCLUDE.glob("autobuf/*.h")) if file.name != "ftp.h")
    return re.sub(r"/\*.*?\*/", " ", "\n".join(texts), flags=re.S)


def compile_and_run(statements: list[str]) -> list[int]:
    """The number that each printf() of a C program with the public headers prints."""
    program = "\n".join(["#include <stddef.h>", "#include <stdio.h>", "#include <autobuf/autobuf.h>",
                         "int main(void) {", *statements, "return 0; }"])
    with tempfile.TemporaryDirectory() as folder:
        source, target = pathlib.Path(folder, "layout.c"), pathlib.Path(folder, "layout")
        source.write_text(program)
        subprocess.run([os.environ.get("CC", "cc"), "-I", INCLUDE, "-o", target, source], check=True)
        return [int(line) for line in subprocess.run([target], stdout=subprocess.PIPE, text=True,
                                                     check=True).stdout.split()]


def show(value: str) -> str:
    return f'printf("%lld\\n", (long long)({value}));'


class Structs(unittest.TestCase):
    kinds = _struct.Struct.__subclasses__()

    def test_offsets_sizes_and_types(self) -> None:
        statements, wanted, names = [], [], []

        def expect(name: str, value: str, number: int) -> None:
            names.append(name)
            statements.append(show(value))
            wanted.append(number)

        for kind in self.kinds:
            c = type(kind.empty())
            expect(kind.name, f"sizeof(struct {kind.name})", ctypes.sizeof(c))
            for field, *_ in c._fields_:
                name, place = f"{kind.name}.{field}", getattr(c, field)
                member = f"((struct {kind.name} *)0)->{field}"
                expect(f"{name}: offset", f"offsetof(struct {kind.name}, {field})", place.offset)
                expect(f"{name}: size", f"sizeof({member})", place.size)
                if wants := C_NAMES.get(dict(c._fields_)[field]):
                    expect(f"{name}: type", f"__builtin_types_compatible_p(__typeof__({member}), {wants})", 1)
        self.assertGreater(len(names), 300)
        self.assertEqual(dict(zip(names, compile_and_run(statements))), dict(zip(names, wanted)))

    def test_no_field_is_left_out(self) -> None:
        # The headers have no padding: they are compiled with -Wpadded.
        for kind in self.kinds:
            c, end = type(kind.empty()), 0
            for field, *_ in c._fields_:
                self.assertEqual(getattr(c, field).offset, end, f"{kind.name}.{field}")
                end += getattr(c, field).size
            self.assertEqual(ctypes.sizeof(c), end, kind.name)

    def test_there_and_back(self) -> None:
        for kind in (autobuf.Path, autobuf.Limits, autobuf.SocketState, autobuf.Plan, autobuf.LiveState, autobuf.Available,
                     autobuf.RightSizeState):
            c = kind.empty()
            for number, (field, _) in enumerate(c._fields_[1:], start=1):
                setattr(c, field, number % 2)
            there = kind.from_c(c)
            self.assertEqual(bytes(there.to_c()), bytes(c), kind.name)
            self.assertEqual(kind.from_c(there.to_c()), there)


class Constants(unittest.TestCase):
    def test_each_is_that_of_the_headers(self) -> None:
        bound = dict(OTHERS)
        for prefix, kind in PREFIXES.items():
            members = kind.__members__.items()
            bound |= {f"AUTOBUF_{prefix}_{name}": int(value) for name, value in members if kind[name] is not
                      autobuf.Lock.LATE}
        bound |= {f"AUTOBUF_E_{kind.__name__.removesuffix('Error').upper()}": -kind.code
                  for kind in _errors.Error.__subclasses__()}
        defined = {name for name in re.findall(r"(?m)^#define (AUTOBUF_\w+)", headers())
                   if not any(re.fullmatch(pattern, name) for pattern in NOT_BOUND)}
        self.assertEqual(set(bound), defined)
        found = dict(zip(bound, compile_and_run([show(name) for name in bound])))
        self.assertEqual(found, bound | {"AUTOBUF_NS_UNSET": -1})

    def test_the_words_are_those_of_the_library(self) -> None:
        for kind in (autobuf.Method, autobuf.Reason, autobuf.Bottleneck, autobuf.Unsure):
            words = [str(value) for value in kind]
            self.assertEqual(len(set(words)), len(words))
            self.assertNotIn("?", words)
        self.assertEqual(f"{autobuf.Bottleneck.SND_BUFFER} {autobuf.Reason.KERNEL}", "send-buffer kernel")

    def test_the_version_is_that_of_the_project(self) -> None:
        found = re.search(r"(?m)^  version: '([\d.]+)'", (binding.TOP / "meson.build").read_text())
        self.assertEqual(autobuf.__version__, found and found.group(1))


class Functions(unittest.TestCase):
    def test_each_is_declared_as_in_the_headers(self) -> None:
        declared = {name: ("const char *" if star else result.strip(), parameters)
                    for result, star, name, parameters in
                    re.findall(r"AUTOBUF_API\s+([\w ]+?)\s*(\*?)\b(\w+)\(([^;]*?)\);", headers())}
        self.assertGreater(len(declared), 70)
        for name, (result, arguments) in _library.PROTOTYPES.items():
            self.assertIn(name, declared)
            wants, parameters = declared[name]
            types = [text.strip() for text in parameters.split(",") if text.strip() != "void"]
            self.assertEqual(len(arguments), len(types), name)
            for argument, text in [*zip(arguments, types), (result or type(None), wants)]:
                kinds = POINTERS if "*" in text or "[" in text else PARAMETERS[text.removeprefix("const ").split()[0]]
                self.assertTrue(issubclass(argument, kinds), f"{name}: {argument} for {text!r}")

    def test_each_is_in_the_library(self) -> None:
        library = ctypes.CDLL(binding.LIBRARY)
        self.assertEqual([name for name in _library.PROTOTYPES if not hasattr(library, name)], [])

    def test_each_is_used(self) -> None:
        text = "".join(file.read_text() for file in (binding.PACKAGE / "autobuf").glob("*.py")
                       if file.name != "_library.py") + "library.autobuf_version"
        for name in _library.PROTOTYPES:
            family, _, call = name.removeprefix("autobuf_").partition("_")
            self.assertTrue(f"library.{name}" in text or f'"{call}"' in text or
                            (f'family = "autobuf_{family}"' in text and call in ("open", "close")), name)


if __name__ == "__main__":
    sys.exit(run_tests((), on_path=False))
