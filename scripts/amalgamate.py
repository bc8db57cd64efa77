#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the library as a pair of files to drop into any program.

    amalgamate.py [--depfile FILE] TOP SOURCE HEADER LIBRARY-SOURCE...

The header's name says which pair: autobuf.h has the whole library, bwdelay.h the calls of some topics. HEADER is the
public headers of these topics in one. SOURCE is what their functions reach of the LIBRARY-SOURCEs and their headers, and
nothing else: for bwdelay.c NAME_without.c, where there is one, takes the place of NAME.c. TOP is the folder of the project.
What would be private to a file there stays private: its macros end with it if their names come again, and what only the
library's own files share becomes static. Text that is not as this script expects it is an error, never a pair that is
subtly different.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys
from collections.abc import Iterator

TOPICS = {
    "autobuf": ("error", "bwdelay", "path", "paths", "available", "probe", "inband", "plan", "live", "tune", "flow", "rightsize", "ftp"),
    "bwdelay": ("error", "bwdelay", "path", "plan", "tune"),
}
"""The public headers of each pair, in an order in which each includes earlier ones only."""
WHAT = {
    "autobuf": "the whole library in two files",
    "bwdelay": "bwdelay(), bwdelay_apply() and autobuf_tune() in two files, without a path store",
}
WITHOUT = "_without"

API = """\
/* Not exported where the program that this is part of hides its symbols by default. */
#ifndef AUTOBUF_API
#define AUTOBUF_API
#endif
"""

USAGE = """\
/*
 * libautobuf {version}: {what}, {name}.c and {name}.h.
 * Generated; do not edit. Needs Linux, its headers, and GNU libc 2.32 or later, or musl; C99 and later will do:
 *
 *     cc -c {name}.c
 *     musl-gcc -idirafter /usr/include -idirafter /usr/include/$(uname -m)-linux-gnu -c {name}.c
 *
 * The second is for Debian, whose musl-gcc does not find the headers of Linux by itself.
 *
{license}
 */
"""

PRELUDE = """\
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "{name}.h"

{includes}

/* _Alignas(type) of C11. */
#define AB_ALIGNED_AS(type) __attribute__((aligned(__alignof__(type))))
"""
SHARED_WITH_OTHERS = "__attribute__((weak))\n"
"""Before each public function of bwdelay.c: a program may have the whole library besides."""

INCLUDE = re.compile(r'#\s*include\s*([<"])([^>"]+)[>"]')
SPDX = re.compile(r"\A/\* SPDX-License-Identifier: MIT \*/\n")
GUARD = re.compile(r"^#ifndef (\w+_H)\n#define \1\n(.*)^#endif\s*\Z", re.M | re.S)
EXTERN_C = re.compile(r'^#ifdef __cplusplus\n(?:extern "C" \{|\})\n#endif\n', re.M)
API_BLOCK = re.compile(r"^#if [^\n]*\n#define AUTOBUF_API .*?^#endif\n", re.M | re.S)
PUBLIC = re.compile(r"^AUTOBUF_API [^;]*?\b(\w+)\(", re.M)
COMMENT_OR_LITERAL = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\)")
WORD = re.compile(r"[A-Za-z_]\w*")


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


def title(name: pathlib.Path) -> str:
    text = f" {name} */"
    return "/* " + "=" * (97 - len(text)) + text + "\n\n"


def code_of(text: str) -> str:
    """Without comments, literals and attributes."""
    return ATTRIBUTE.sub(" ", COMMENT_OR_LITERAL.sub(" ", text))


# ------------------------------------------------------------------- pieces of a file

def is_whole(text: str) -> bool:
    """Whether a piece that begins with this text ends with it."""
    if text.startswith("#if"):
        return len(re.findall(r"^#\s*if", text, re.M)) == len(re.findall(r"^#\s*endif", text, re.M))
    code = COMMENT_OR_LITERAL.sub(" ", text)
    if "/*" in code:
        return False
    if text.startswith("#"):
        return not text.endswith("\\\n")
    return not code.strip() or (code.count("{") == code.count("}") and bool(re.search(r";\s*\Z|^\}\s*\Z", code, re.M)))


def split(text: str, name: object) -> Iterator[str]:
    """Declarations, definitions, directives, comments and blank lines, each whole."""
    piece = ""
    for line in text.splitlines(keepends=True):
        piece += line
        if is_whole(piece):
            yield piece
            piece = ""
    if piece:
        raise Unexpected(f"{name}: this does not end: {piece}")


def names_in(text: str) -> set[str]:
    """What a declaration or a definition gives names to."""
    if text.startswith("#define"):
        return {text.split()[1].partition("(")[0]}
    if text.startswith("#if"):
        inner = "".join(line for line in text.splitlines(keepends=True) if not re.match(r"#\s*(if|el|endif)", line))
        return set().union(*map(names_in, split(inner, "a condition"))) if inner else set()
    code = code_of(text)
    if not code.strip() or text.startswith("#"):
        return set()
    head = re.split(r"[{;=]", code, maxsplit=1)[0]
    if re.match(r"\s*enum\b", head):
        return set(WORD.findall(head)[1:]) | set(re.findall(r"[{,]\s*(\w+)", code))
    if re.match(r"\s*(static\s+)?(struct|union)(\s+\w+)?\s*\Z", head):
        return {WORD.findall(head)[-1], *re.findall(r"\}\s*(\w+)", code)}
    if "(" in head:
        return {WORD.findall(head.partition("(")[0])[-1]}
    return {WORD.findall(one)[-1] for one in re.sub(r"\[[^]]*\]", "", head).split(",")}


class Piece:
    def __init__(self, text: str, names: set[str]) -> None:
        self.text, self.names = text, names
        self.words = set(WORD.findall(code_of(text)))
        self.above = ""  # a comment that is to come with it
        self.wanted = False

    def is_comment(self) -> bool:
        return self.text.startswith("/*") and not self.words

    def is_blank(self) -> bool:
        return not self.text.strip()

    def is_function(self) -> bool:
        return bool(self.names) and bool(re.match(r"[^#{;=]*\w\([^;{]*[{;]", code_of(self.text)))

    def is_definition(self) -> bool:
        return "{" in self.text and (self.is_function() or self.text.startswith("#if"))

    def is_prototype(self) -> bool:
        return self.is_function() and "{" not in self.text and not self.text.startswith("typedef")

    def is_shared(self) -> bool:
        """Known to other files."""
        return not re.match(r"#(?!if)|(__attribute__\S* |__extension__ )?(static|typedef|enum)\b|struct [^()]*[{;]", self.text)


class File:
    """A private header, or a source: its pieces, and what it includes of the project and of the system."""

    def __init__(self, name: pathlib.Path, text: str, headers: list[File], system: set[str]) -> None:
        self.name, self.headers, self.system = name, headers, system
        self.is_source = name.suffix == ".c"
        self.pieces = [Piece(piece, names_in(piece)) for piece in split(text, name)]
        self.later: set[str] = set()
        """All that is named in what comes behind this file."""
        self.needs: set[File] = set()
        """Sources that define what this one uses."""

    def is_wanted(self) -> bool:
        return any(piece.wanted for piece in self.pieces)

    def want_comments(self) -> None:
        """Those that stand right above what is wanted, and those above a blank line, of a section with what is wanted."""
        for number, piece in enumerate(self.pieces):
            if not piece.is_comment():
                continue
            rest = self.pieces[number + 1:]
            heads = bool(rest) and rest[0].is_blank()
            for position, other in enumerate(rest):
                if heads and other.is_comment() and rest[position + 1].is_blank():
                    break
                if not heads and (other.is_blank() or other.is_comment()):
                    break
                if other.wanted:
                    piece.wanted = True
                    break

    def text(self) -> str:
        undone = "".join(f"#undef {name}\n" for name in self.macros() if name in self.later) if self.is_source else ""
        return title(self.name) + self.body() + "\n" + (undone + "\n" if undone else "")

    def body(self) -> str:
        return tidy("".join(piece.above + piece.text for piece in self.pieces if piece.wanted or piece.is_blank()))

    def macros(self) -> list[str]:
        """What it defines, but for what it only supplies where the system does not."""
        return [name for piece in self.pieces if piece.wanted and piece.text.startswith("#define") for name in piece.names]


# ------------------------------------------------------------------------------ a pair

class Pair:
    def __init__(self, top: pathlib.Path, name: str) -> None:
        if name not in TOPICS:
            raise Unexpected(f"{name}: no pair of this name")
        self.top, self.name, self.topics = top.resolve(), name, TOPICS[name]
        there = {file.stem for file in (self.top / "include/autobuf").glob("*.h")} - {"autobuf"}
        if there != set(TOPICS["autobuf"]):
            raise Unexpected(f"public headers are not TOPICS: {', '.join(sorted(there ^ set(TOPICS['autobuf'])))}")
        self.read: list[pathlib.Path] = []
        self.taken: dict[pathlib.Path, File] = {}
        self.public: list[str] = []

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

    def usage(self) -> str:
        header = self.text_of(self.top / "include/autobuf/error.h")
        version = ".".join(re.search(rf"AUTOBUF_VERSION_{part} (\d+)", header).group(1)
                           for part in ("MAJOR", "MINOR", "PATCH"))
        license_file = self.top / "LICENSE"
        self.read.append(license_file)
        lines = license_file.read_text().strip().splitlines()
        return USAGE.format(version=version, what=WHAT[self.name], name=self.name,
                            license="\n".join(f" * {line}".rstrip() for line in lines))

    def header(self) -> str:
        """The public headers, one behind the other, each in its guard, in one extern "C"."""
        parts, system = [], set()
        for name in self.topics:
            file = self.top / f"include/autobuf/{name}.h"
            text = replace_exactly(EXTERN_C, "", without_guard(self.text_of(file), file), 2, file)
            self.public += PUBLIC.findall(text)
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
            parts.append(title(self.name_of(file)) + f"#ifndef {guard}\n#define {guard}\n\n" + tidy("\n".join(lines)) + "\n#endif\n")
        whole = "#ifndef AUTOBUF_AUTOBUF_H\n#define AUTOBUF_AUTOBUF_H\n#endif" if self.name == "autobuf" else ""
        return tidy("\n".join([
            "/* SPDX-License-Identifier: MIT */", self.usage(),
            "\n".join(f"#include <{name}>" for name in sorted(system)),
            '\n#ifdef __cplusplus\nextern "C" {\n#endif\n', *parts,
            "#ifdef __cplusplus\n}\n#endif\n", whole]))

    def included(self, user: pathlib.Path, quote: str, name: str) -> pathlib.Path | None:
        """A header whose text is to come first, or None."""
        if quote == '"':
            file = (user.parent / name).resolve()
            return file if file.exists() else (self.top / "lib" / name).resolve()
        topic = re.fullmatch(r"autobuf/(\w+)\.h", name)
        return self.top / "include" / name if topic and topic[1] not in self.topics else None

    def take(self, file: pathlib.Path) -> File:
        if file in self.taken:
            return self.taken[file]
        text = self.text_of(file)
        if file.suffix == ".h":
            text = EXTERN_C.sub("", without_guard(text, file))
        lines, headers, system, depth = [], [], set(), 0
        for line in text.splitlines(keepends=True):
            depth += bool(re.match(r"#\s*if", line)) - bool(re.match(r"#\s*endif", line))
            include = INCLUDE.match(line)
            needed = self.included(file, *include.groups()) if include else None
            if needed and depth:
                raise Unexpected(f"{file}: a header of the project under a condition: {line}")
            if needed:
                headers.append(self.take(needed))
            elif include and not depth and not include[2].startswith("autobuf/"):
                system.add(include[2])
            elif not include or depth:
                lines.append(line)
        made = File(self.name_of(file), "".join(lines).replace("_Alignas(", "AB_ALIGNED_AS("), headers, system)
        self.taken[file] = made
        return made

    def want(self) -> None:
        """What the public functions reach, and what is called at loading for a file of which anything is reached."""
        shared: dict[str, list[tuple[File, Piece]]] = {}
        own: dict[File, dict[str, list[tuple[File, Piece]]]] = {}
        for file in self.taken.values():
            own[file] = {}
            for piece in file.pieces:
                for name in piece.names:
                    where = own[file] if file.is_source and not piece.is_shared() else shared
                    where.setdefault(name, []).append((file, piece))
        for name in self.public:
            if not any(piece.is_definition() for _, piece in shared.get(name, ())):
                raise Unexpected(f"{name}(): declared, and nowhere defined")
        todo = [found for name in self.public for found in shared[name]]
        while todo:
            file, piece = todo.pop()
            if piece.wanted:
                continue
            piece.wanted = True
            todo += [(file, other) for other in file.pieces if "__attribute__((constructor" in other.text]
            for word in piece.words:
                found = own[file].get(word) or shared.get(word, [])
                todo += found
                if file.is_source:
                    file.needs |= {other for other, _ in found if other.is_source and other != file}

    def in_order(self) -> list[File]:
        """What is wanted, each behind all that it uses: no two sources use each other."""
        ordered: list[File] = []
        seen: set[File] = set()

        def visit(file: File) -> None:
            if file in seen:
                return
            seen.add(file)
            for other in (*sorted(file.needs, key=lambda other: other.name), *file.headers):
                visit(other)
            if file.is_wanted():
                ordered.append(file)

        for file in self.taken.values():
            if file.is_source and file.is_wanted():
                visit(file)
        return ordered

    @staticmethod
    def drop_prototypes(files: list[File]) -> None:
        """Of functions that are defined before they are used. What a prototype's comment says, the definition does then."""
        ordered = [piece for file in files for piece in file.pieces if piece.wanted]
        first_use = {word: at for at, piece in reversed([*enumerate(ordered)]) for word in piece.words - piece.names}
        place = {name: at for at, piece in enumerate(ordered) if piece.is_definition() for name in piece.names}
        for file in files:
            for above, piece in zip([None, *file.pieces], file.pieces):
                name = next(iter(piece.names), "")
                if not piece.wanted or not piece.is_prototype() or place[name] > first_use.get(name, len(ordered)):
                    continue
                piece.wanted = False
                if above and above.is_comment():
                    ordered[place[name]].above = above.text
                    above.text = ""

    def final(self, text: str) -> str:
        """A function is static if the header does not declare it."""
        if text.startswith("#if"):
            parts = re.split(r"^(#\s*(?:if|el|endif)[^\n]*\n?)", text, flags=re.M)
            return "".join(part if part.startswith("#") else "".join(map(self.final, split(part, "a condition"))) for part in parts)
        piece = Piece(text, names_in(text))
        text = re.sub(r"^AUTOBUF_API ", "", text)
        if not piece.is_shared() or not piece.names:
            return text
        if not piece.is_function():
            return "static " + text.removeprefix("extern ")
        if piece.names & set(self.public):
            return text if self.name == "autobuf" else SHARED_WITH_OTHERS + text
        head, brace, body = text.partition("\n{")
        return "static " + re.sub(r"\n(?=.)", "\n" + len("static ") * " ", head) + brace + body

    def source(self, sources: list[pathlib.Path]) -> str:
        stand_ins = {file for file in sources if file.stem.endswith(WITHOUT)}
        replaced = stand_ins if self.name == "autobuf" else {file.with_name(file.name.replace(WITHOUT, "")) for file in stand_ins}
        for file in sorted(set(sources) - replaced):
            self.take(file)
        self.want()
        files = self.in_order()
        self.drop_prototypes(files)
        for file, following in zip(reversed(files[:-1]), reversed(files)):
            file.later = following.later.union(*(piece.words for piece in following.pieces if piece.wanted))
        for file in files:
            file.want_comments()
            for piece in file.pieces:
                piece.text = self.final(piece.text)
        # linux/errqueue.h wants <time.h> before it
        system = sorted(set().union(*(file.system for file in files)), key=lambda name: (name.startswith("linux/"), name))
        includes = "\n".join(f"#include <{name}>" for name in system)
        return tidy("\n".join(["/* SPDX-License-Identifier: MIT */", self.usage(), PRELUDE.format(name=self.name, includes=includes),
                               *(file.text() for file in files if file.is_wanted())]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depfile", type=pathlib.Path)
    parser.add_argument("top", type=pathlib.Path)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("header", type=pathlib.Path)
    parser.add_argument("library", type=pathlib.Path, nargs="+")
    args = parser.parse_args()
    try:
        pair = Pair(args.top, args.header.stem)
        args.header.write_text(pair.header())
        args.source.write_text(pair.source([pair.in_top(file) for file in args.library]))
    except (Unexpected, OSError) as error:
        print(f"amalgamate.py: {error}", file=sys.stderr)
        return 1
    if args.depfile:
        args.depfile.write_text(f"{args.source}: " + " ".join(
            str(file).replace(" ", "\\ ") for file in dict.fromkeys(pair.read)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
