#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Proves the table of rooms: which room stands on which, and that no files call each other in a circle.

    rooms_graph.py [TREE]        checks a tree; prints each breach and exits 1 if there is any
    rooms_graph.py --self-test   builds trees with one breach each, and checks that each is found

A file of lib/ may include headers of, and call functions of, its own room and those that its room stands on: the
private functions and the public ones alike. Files of tools/ and preload/ may call each public function, and include
headers and call private functions of the rooms that they stand on. No file calls one that calls it, directly or through
others: this holds within lib/, within preload/ and within tools/.
"""
from __future__ import annotations

import pathlib
import re
import sys
import tempfile
from collections.abc import Iterator

ROOMS = {
    "base": (),
    "kernel": ("base",),
    "estimate": ("base",),
    "available": ("base",),
    "plan": ("base",),
    "credit": ("base",),
    "apply": ("base", "kernel", "plan"),
    "icmp": ("base", "kernel", "estimate", "available"),
    "inband": ("base", "kernel", "estimate"),
    "live": ("base", "kernel", "available", "plan", "apply"),
    "paths": ("base",),
    "flow": ("base", "kernel", "estimate", "available", "plan", "credit", "apply", "icmp", "inband", "live", "paths"),
    "ftp": ("base", "kernel", "estimate", "available", "plan", "credit", "apply", "icmp", "inband", "live", "paths", "flow"),
}
"""In an order in which each stands on earlier ones only: so the table itself has no circle."""
USERS = {"tools": ("base", "kernel", "available", "paths"), "preload": ()}
"""Folders outside lib/, and rooms of which they may use what is not public."""

COMMENT_OR_LITERAL = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
INCLUDE = re.compile(r'^#\s*include\s+"([^"]+)"', re.M)
INTERPOSED = re.compile(r"^\s*X\(\w+, (\w+), \(", re.M)
"""A function of the list in preload/next.h, which macros of preload/hooks.c define."""
DEFINITION = re.compile(r"^(?!static\b|typedef\b|#)[A-Za-z_][\w \t*]*?\b(\w+)\([^;{}]*\)\s*\{", re.M)


def without_text(source: str) -> str:
    """Code alone; an include keeps its name."""
    def blank(match: re.Match) -> str:
        line = source[source.rfind("\n", 0, match.start()) + 1:match.start()]
        return match[0] if match[0][0] == '"' and "include" in line else " "
    return COMMENT_OR_LITERAL.sub(blank, source)


def circle(graph: dict[str, set[str]]) -> list[str] | None:
    """Some circle in it, or None."""
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str] | None:
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        for other in sorted(graph.get(node, ())):
            found = visit(other, [*path, node])
            if found:
                return found
        done.add(node)
        return None

    for node in sorted(graph):
        found = visit(node, [])
        if found:
            return found
    return None


def definitions(code: dict[pathlib.Path, str]) -> dict[str, set[pathlib.Path]]:
    """The functions that are not static, and the files of each: a program is linked with one of several."""
    found: dict[str, set[pathlib.Path]] = {}
    for file, text in code.items():
        for name in DEFINITION.findall(text) if file.suffix == ".c" else ():
            found.setdefault(name, set()).add(file)
        for name in INTERPOSED.findall(text):
            found.setdefault(name, set()).add(file.with_name("hooks.c"))
    return found


def calls_between(code: dict[pathlib.Path, str], users: dict[pathlib.Path, str] | None = None) -> Iterator[tuple[pathlib.Path, str, pathlib.Path]]:
    """Each function of another file that a file (of users, if given) calls: the file, the function, and whose it is."""
    defined = definitions(code)
    called = re.compile(r"(?<![\w.>])(" + "|".join(map(re.escape, sorted(defined))) + r")\s*\(") if defined else None
    for file, text in (code if users is None else users).items():
        for name in sorted(set(called.findall(text))) if called and file.suffix == ".c" else ():
            if file not in defined[name]:
                yield from ((file, name, other) for other in sorted(defined[name]))


def circles(code: dict[pathlib.Path, str]) -> list[str]:
    calls: dict[str, set[str]] = {}
    for file, _, other in calls_between(code):
        calls.setdefault(str(file), set()).add(str(other))
    around = circle(calls)
    return ["files call each other in a circle: " + " -> ".join(around)] if around else []


def code_below(folder: pathlib.Path) -> dict[pathlib.Path, str]:
    return {file.relative_to(folder): without_text(file.read_text()) for file in sorted(folder.rglob("*.[ch]"))}


def breaches_of_users(tree: pathlib.Path, library: dict[pathlib.Path, str]) -> Iterator[str]:
    public = set(re.findall(r"\b(\w+)\s*\(", " ".join(code_below(tree / "include").values())))
    for top, rooms in USERS.items():
        code = code_below(tree / top)
        for file, text in code.items():
            for name in INCLUDE.findall(text):
                parts = pathlib.PurePath(name).parts
                if "lib" in parts and parts[parts.index("lib") + 1] not in rooms:
                    yield f"{top}/{file}: includes {name}, but {top} does not stand on it"
        for file, name, other in calls_between(library, code):
            if name not in public and other.parts[0] not in rooms:
                yield f"{top}/{file}: calls {name}() of {other}, which is not public, but {top} does not stand on {other.parts[0]}"
        yield from circles(code)


def breaches(tree: pathlib.Path) -> list[str]:
    found: list[str] = []
    code = code_below(tree / "lib")
    if not code:
        return ["no lib/ here: nothing was checked"]
    found += [f"lib/{file}: is in no room of the table" for file in code
              if len(file.parts) != 2 or file.parts[0] not in ROOMS]
    code = {file: text for file, text in code.items() if file.parts[0] in ROOMS}
    for file, text in code.items():
        room = file.parts[0]
        for name in INCLUDE.findall(text):
            other = pathlib.PurePath(name.removeprefix("../")).parts[0] if "/" in name else room
            if other != room and other not in ROOMS[room]:
                found.append(f"lib/{file}: includes {name}, but {room} does not stand on {other}")
    for file, name, other in calls_between(code):
        if other.parts[0] != file.parts[0] and other.parts[0] not in ROOMS[file.parts[0]]:
            found.append(f"lib/{file}: calls {name}() of {other}, but {file.parts[0]} does not stand on {other.parts[0]}")
    return found + circles(code) + list(breaches_of_users(tree, code))


GOOD = {
    "base/base.c": "int ab_base(void)\n{\n    return 0;\n}\n",
    "base/base.h": "int ab_base(void);\n",
    "kernel/limits.c": '#include "../base/base.h"\nint autobuf_limits(void)\n{\n    return ab_base(); /* autobuf_tune() */\n}\n',
    "plan/plan.c": '#include "../base/base.h"\nstatic int helper(void)\n{\n    return ab_base();\n}\n'
                   'int ab_plan(void)\n{\n    return helper() + (int)sizeof "autobuf_limits()";\n}\n',
    "apply/apply.c": "int autobuf_apply(void)\n{\n    return autobuf_limits() + ab_plan();\n}\n",
    "flow/tune.c": "int autobuf_tune(void)\n{\n    return autobuf_apply();\n}\n",
    "../include/autobuf/flow.h": "int autobuf_tune(void); /* as ab_plan() */\n",
    "../tools/daemon/site.c": '#include "../../lib/base/base.h"\n'
                              'static int start(void)\n{\n    return ab_base() + autobuf_limits() + autobuf_tune();\n}\n',
    "../preload/next.c": "int next(void)\n{\n    return autobuf_tune();\n}\n",
}

BAD = {
    "plan does not stand on kernel": {"plan/bad.c": "int ab_bad(void)\n{\n    return autobuf_limits();\n}\n"},
    "kernel does not stand on apply": {"kernel/bad.c": "int ab_bad(void)\n{\n    return autobuf_apply();\n}\n"},
    "estimate does not stand on plan": {"estimate/bad.h": '#include "../plan/plan.h"\n'},
    "icmp does not stand on inband": {"icmp/bad.c": '#include "../inband/line.h"\n'},
    "apply does not stand on flow": {"apply/bad.c": "int ab_bad(void)\n{\n    return autobuf_tune ();\n}\n"},
    "is in no room": {"measure/bad.c": "int ab_bad(void)\n{\n    return 0;\n}\n"},
    "in a circle": {"ftp/a.c": "int ab_a(void)\n{\n    return ab_b();\n}\n",
                    "ftp/b.c": "int ab_b(void)\n{\n    return ab_c();\n}\n",
                    "ftp/c.c": "static int helper(void)\n{\n    return ab_a();\n}\nint\tab_c(void)\n{\n    return helper();\n}\n"},
}

BAD["which is not public, but tools does not stand on plan"] = {"../tools/bad.c": "int bad(void)\n{\n    return ab_plan();\n}\n"}
BAD["which is not public, but preload does not stand on base"] = {"../preload/bad.c": "int bad(void)\n{\n    return ab_base();\n}\n"}
BAD["includes ../../lib/live/judge.h, but tools"] = {"../tools/daemon/bad.c": '#include "../../lib/live/judge.h"\n'}
BAD["includes ../lib/base/base.h, but preload"] = {"../preload/bad.h": '#include "../lib/base/base.h"\n'}
BAD["in a circle: daemon/care.c"] = {
    "../tools/run.c": "int run(void)\n{\n    return 0;\n}\nint main(void)\n{\n    return run();\n}\n",
    "../tools/daemon/care.c": "int care(void)\n{\n    return site_step() + run();\n}\n",
    "../tools/daemon/site.c": "int site_step(void)\n{\n    return care();\n}\nint main(void)\n{\n    return site_step();\n}\n",
    "../tools/daemon/confine_without.c": "int site_step(void)\n{\n    return 0;\n}\n",
}
BAD["in a circle: hooks.c"] = {
    "../preload/next.h": "#define LIST(X) \\\n    X(ssize_t, read, (int, void *, size_t)) \\\n    X(int, socket, (int))\n",
    "../preload/hooks.c": "RECEIVES(read, (int fd), care(fd))\n",
    "../preload/tend.c": "int care(int fd)\n{\n    return NEXT(write)(fd) + read(fd);\n}\n",
    "../preload/self.c": "int self(int fd)\n{\n    return NEXT(read)(fd);\n}\n",
}


def self_test() -> int:
    wrong = 0
    for name, files in {"": {}, **BAD}.items():
        with tempfile.TemporaryDirectory() as folder:
            for file, text in (GOOD | files).items():
                where = pathlib.Path(folder, "lib", file)
                where.parent.mkdir(parents=True, exist_ok=True)
                where.write_text(text)
            said = breaches(pathlib.Path(folder))
        if len(said) != (name != "") or not all(name in line for line in said):
            print(f"expected {name or 'no breach'!r}, found {said}")
            wrong += 1
    for room, below in ROOMS.items():
        order = list(ROOMS)
        if any(order.index(other) >= order.index(room) for other in below):
            print(f"the table has a circle at {room}")
            wrong += 1
    print(f"rooms_graph: self-test tried {len(BAD) + 1} trees")
    return 1 if wrong else 0


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    tree = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    found = breaches(tree)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
