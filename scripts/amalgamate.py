#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the library as a pair of files, bwdelay.c and bwdelay.h, to drop into any program.

    amalgamate.py [--depfile FILE] TOP SOURCE HEADER LIBRARY-SOURCE...

bwdelay.h is the public headers in one; bwdelay.c is the LIBRARY-SOURCEs with their private headers,
each once. TOP is the folder of the project. What would be private to a file there stays private:
its macros end with it, and what only the library's own files share becomes static. Text that is not
as this script expects it is an error, never a pair that is subtly different.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys

TOPICS = ("error", "bwdelay", "path", "paths", "probe", "inband", "plan", "flow", "live", "rightsize", "ftp")
"""Public headers, in an order in which each includes earlier ones only; autobuf.h includes all but the last."""
ROOMS = ("base", "kernel", "estimate", "plan", "credit", "apply", "icmp", "inband", "live", "paths", "flow", "ftp")
"""In the order in which they stand on each other; a source in no room comes last."""

API = """\
/* Not exported where the program that this is part of hides its symbols by default. */
#ifndef AUTOBUF_API
#define AUTOBUF_API
#endif
"""

USAGE = """\
/*
 * libautobuf {version}, the whole library in two files: bwdelay.c and bwdelay.h.
 * Generated; do not edit. Needs Linux and GNU libc 2.32 or later; C99 and later will do:
 *
 *     cc -c bwdelay.c
 *
{license}
 */
"""

PRELUDE = """\
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "bwdelay.h"

{includes}

/* What several files of the library share, and nobody else. */
#define AB_PRIVATE static __attribute__((unused))
/* _Alignas(type) of C11. */
#define AB_ALIGNED_AS(type) __attribute__((aligned(__alignof__(type))))
"""

INCLUDE = re.compile(r'#\s*include\s*([<"])([^>"]+)[>"]')
DEFINE = re.compile(r"#\s*define\s+(\w+)")
UNLESS_DEFINED = re.compile(r"#\s*ifndef\s+(\w+)")
SHARED = re.compile(r"^(?!static\b|typedef\b|extern\b|return\b)"
                    r"(?=(?:[A-Za-z_]\w*[ *]+)+ab_\w+\()", re.M)
SPDX = re.compile(r"\A/\* SPDX-License-Identifier: MIT \*/\n")
GUARD = re.compile(r"^#ifndef (\w+_H)\n#define \1\n(.*)^#endif\s*\Z", re.M | re.S)
EXTERN_C = re.compile(r'^#ifdef __cplusplus\n(?:extern "C" \{|\})\n#endif\n', re.M)
API_BLOCK = re.compile(r"^#if [^\n]*\n#define AUTOBUF_API .*?^#endif\n", re.M | re.S)


class Unexpected(Exception):
    """A file is not as this script knows them."""


def replace_exactly(pattern: re.Pattern, new: str, text: str, times: int, name: object) -> str:
    text, found = pattern.subn(lambda _: new, text)
    if found != times:
        raise Unexpected(f"{name}: {found} instead of {times} times {pattern.pattern!r}")
    return text


def without_guard(text: str, name: object) -> str:
    found = GUARD.search(text)
    if not found:
        raise Unexpected(f"{name}: no include guard around it")
    return text[:found.start()] + found.group(2)


def tidy(text: str) -> str:
    """No blank lines at the ends, and never two together."""
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


class Pair:
    def __init__(self, top: pathlib.Path) -> None:
        self.top = top.resolve()
        self.read: list[pathlib.Path] = []
        self.system: set[str] = set()
        self.inlined: set[pathlib.Path] = set()

    def text_of(self, file: pathlib.Path) -> str:
        if file not in self.read:
            self.read.append(file)
        return replace_exactly(SPDX, "", file.read_text(), 1, file)

    def in_top(self, file: pathlib.Path) -> pathlib.Path:
        """The same file by way of TOP. Its own way there may be another one: the folder may be mounted at a second place."""
        file = file.resolve()
        for folder in file.parents:
            if folder.samefile(self.top):
                return self.top / file.relative_to(folder)
        raise Unexpected(f"{file}: not in {self.top}")

    def name_of(self, file: pathlib.Path) -> pathlib.Path:
        return file.relative_to(self.top)

    def title(self, file: pathlib.Path) -> str:
        name = f" {self.name_of(file)} */"
        return "/* " + "=" * (97 - len(name)) + name + "\n\n"

    def usage(self) -> str:
        header = self.text_of(self.top / "include/autobuf/error.h")
        version = ".".join(re.search(rf"AUTOBUF_VERSION_{part} (\d+)", header).group(1)
                           for part in ("MAJOR", "MINOR", "PATCH"))
        license_file = self.top / "LICENSE"
        self.read.append(license_file)
        lines = license_file.read_text().strip().splitlines()
        return USAGE.format(version=version,
                            license="\n".join(f" * {line}".rstrip() for line in lines))

    def header(self) -> str:
        """The public headers, one behind the other, each in its guard, in one extern "C"."""
        parts, system = [], set()
        for name in TOPICS:
            file = self.top / f"include/autobuf/{name}.h"
            text = replace_exactly(EXTERN_C, "", without_guard(self.text_of(file), file), 2, file)
            if name == "error":
                text = replace_exactly(API_BLOCK, API, text, 1, file)
            lines = []
            for line in text.splitlines():
                include = INCLUDE.match(line)
                if include and not include.group(2).startswith("autobuf/"):
                    system.add(include.group(2))
                elif not include:
                    lines.append(line)
            guard = f"AUTOBUF_{name.upper()}_H"  # the installed header's: whichever comes second is passed over
            parts.append(self.title(file) + f"#ifndef {guard}\n#define {guard}\n\n" + tidy("\n".join(lines)) + "\n#endif\n")
        return tidy("\n".join([
            "/* SPDX-License-Identifier: MIT */", self.usage(),
            "\n".join(f"#include <{name}>" for name in sorted(system)),
            '\n#ifdef __cplusplus\nextern "C" {\n#endif\n', *parts,
            "#ifdef __cplusplus\n}\n#endif\n",
            "#ifndef AUTOBUF_AUTOBUF_H\n#define AUTOBUF_AUTOBUF_H\n#endif"]))

    def body(self, file: pathlib.Path, text: str) -> tuple[str, str]:
        """The private headers that a file needs first, and the rest of it without includes."""
        before, lines, depth = [], [], 0
        for line in text.splitlines():
            if re.match(r"#\s*if", line):
                depth += 1
            elif re.match(r"#\s*endif", line):
                depth -= 1
            include = INCLUDE.match(line)
            if not include:
                lines.append(line)
            elif include.group(1) == '"':
                if depth:
                    raise Unexpected(f"{file}: a private header under a condition: {line}")
                before.append(self.private_header(file, include.group(2)))
            elif include.group(2).startswith("autobuf/"):
                pass  # bwdelay.h is there
            elif depth:
                lines.append(line)
            else:
                self.system.add(include.group(2))
        text = SHARED.sub("AB_PRIVATE\n", "\n".join(lines))
        return "".join(before), text.replace("_Alignas(", "AB_ALIGNED_AS(")

    def private_header(self, user: pathlib.Path, name: str) -> str:
        file = (user.parent / name).resolve()
        if not file.exists():  # from the folder of the library, as autobuf.c does
            file = (self.top / "lib" / name).resolve()
        if file in self.inlined:
            return ""
        self.inlined.add(file)
        before, text = self.body(file, without_guard(self.text_of(file), file))
        return before + self.title(file) + tidy(text) + "\n"

    def source(self, file: pathlib.Path) -> str:
        before, text = self.body(file, self.text_of(file))
        text = before + self.title(file) + tidy(text) + "\n"
        names = own_macros(text[len(before):])
        return text + "".join(f"#undef {name}\n" for name in names) + ("\n" if names else "")

    def sources(self, files: list[pathlib.Path]) -> str:
        def room(file: pathlib.Path) -> tuple[int, str]:
            name = self.name_of(file).parts[1]
            return ROOMS.index(name) if name in ROOMS else len(ROOMS), str(file)

        body = "".join(self.source(file) for file in sorted(files, key=room))
        # linux/errqueue.h wants <time.h> before it
        system = sorted(self.system, key=lambda name: (name.startswith("linux/"), name))
        includes = "\n".join(f"#include <{name}>" for name in system)
        return tidy("\n".join(["/* SPDX-License-Identifier: MIT */", self.usage(),
                               PRELUDE.format(includes=includes), body]))


def own_macros(text: str) -> list[str]:
    """What a file defines, but for what it only supplies where the system does not."""
    names, unless = [], None
    for line in text.splitlines():
        define = DEFINE.match(line)
        if define and define.group(1) != unless and define.group(1) not in names:
            names.append(define.group(1))
        guard = UNLESS_DEFINED.match(line)
        unless = guard.group(1) if guard else None
    return names


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depfile", type=pathlib.Path)
    parser.add_argument("top", type=pathlib.Path)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("header", type=pathlib.Path)
    parser.add_argument("library", type=pathlib.Path, nargs="+")
    args = parser.parse_args()
    pair = Pair(args.top)
    try:
        args.header.write_text(pair.header())
        args.source.write_text(pair.sources([pair.in_top(file) for file in args.library]))
    except (Unexpected, OSError) as error:
        print(f"amalgamate.py: {error}", file=sys.stderr)
        return 1
    if args.depfile:
        args.depfile.write_text(f"{args.source}: " + " ".join(
            str(file).replace(" ", "\\ ") for file in dict.fromkeys(pair.read)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
