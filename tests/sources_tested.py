#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Proves that each source file is tested: by a unit test of its own name, or as a table of tests/README.md says.

    sources_tested.py [TREE]        checks a tree; prints each breach and exits 1 if there is any
    sources_tested.py --self-test   builds trees with one breach each, and checks that each is found

The unit test of lib/ROOM/NAME.c is tests/unit/ROOM/test_NAME.c. The rooms of tools/, tools/daemon/ and preload/ are
autobuf, daemon and preload. A row of the table names a source and tests, as `FILE` or `FILE:NAME` below tests/. The
file must be there, and have a class or a function of that name.
"""
from __future__ import annotations

import pathlib
import re
import sys
import tempfile

PAGE = "tests/README.md"
HEADING = "## Sources without a unit test of their own name"
ROOMS = {"tools": "autobuf", "tools/daemon": "daemon", "preload": "preload"}
"""Of the folders outside lib/."""
ROW = re.compile(r"^\| `([^`]+)` \| (`[^`]+`(?:, `[^`]+`)*) \|$")


def own_test(source: str) -> str:
    folder = pathlib.PurePath(source).parent
    return f"tests/unit/{ROOMS.get(str(folder), folder.name)}/test_{pathlib.PurePath(source).name}"


def table(page: str) -> tuple[dict[str, list[str]], list[str]]:
    """The tests of each source that has a row, and what is wrong with the rows themselves."""
    rows: dict[str, list[str]] = {}
    wrong: list[str] = []
    section = re.split(r"^## ", page.partition(HEADING + "\n")[2], maxsplit=1, flags=re.M)[0]
    for line in section.splitlines():
        row = ROW.match(line)
        if row and row[1] in rows:
            wrong.append(f"{PAGE}: {row[1]} has two rows")
        elif row:
            rows[row[1]] = re.findall(r"`([^`]+)`", row[2])
        elif line.startswith("|") and not re.match(r"\| source \| tested by \||\|[-|]+\|$", line):
            wrong.append(f"{PAGE}: is no row of a source and its tests: {line}")
    return rows, wrong


def is_there(tree: pathlib.Path, test: str) -> bool:
    name, _, part = test.partition(":")
    file = tree / "tests" / name
    if not file.is_file():
        return False
    return not part or bool(re.search(rf"^\s*(?:class|def|static void) {re.escape(part)}\b", file.read_text(), re.M))


def breaches(tree: pathlib.Path) -> list[str]:
    sources = {str(file.relative_to(tree)) for top in ("lib", "tools", "preload") for file in (tree / top).rglob("*.c")}
    if not sources:
        return ["no sources here: nothing was checked"]
    page = tree / PAGE
    rows, found = table(page.read_text() if page.is_file() else "")
    for source in sorted(sources):
        has_own = (tree / own_test(source)).is_file()
        if has_own and source in rows:
            found.append(f"{PAGE}: {source} has {own_test(source)}, and needs no row")
        elif not has_own and source not in rows:
            found.append(f"{source}: has neither {own_test(source)} nor a row in {PAGE}")
    found += [f"{PAGE}: {source} is gone" for source in rows if source not in sources]
    found += [f"{PAGE}: {source}: there is no {test}" for source, tests in rows.items() for test in tests
              if not is_there(tree, test)]
    return found


ROWS = """| `lib/plan/path.c` | `unit/plan/test_plan.c:of_a_path`, `net/test_probe.py` |
| `tools/run.c` | `net/test_run.py:Command`, `net/test_run.py:test_it` |
"""
GOOD = {
    "lib/plan/plan.c": "", "lib/plan/path.c": "", "tools/run.c": "", "tools/print.c": "", "tools/daemon/keep.c": "", "preload/keep.c": "",
    "tests/unit/plan/test_plan.c": "static void of_a_path(void **state)\n", "tests/unit/autobuf/test_print.c": "",
    "tests/unit/daemon/test_keep.c": "", "tests/unit/preload/test_keep.c": "", "tests/net/test_probe.py": "",
    "tests/net/test_run.py": "class Command(unittest.TestCase):\n    def test_it(self) -> None:\n",
    PAGE: f"# Tests\n\n| `none.c` | x |\n\n{HEADING}\n\n| source | tested by |\n|---|---|\n{ROWS}\n## Others\n\n| `none.c` | x |\n",
}
BAD: dict[str, dict[str, str]] = {
    "lib/plan/explain.c: has neither": {"lib/plan/explain.c": ""},
    "tools/daemon/print.c: has neither": {"tools/daemon/print.c": ""},
    "preload/print.c: has neither tests/unit/preload/test_print.c": {"preload/print.c": ""},
    "has tests/unit/plan/test_path.c, and needs no row": {"tests/unit/plan/test_path.c": ""},
    "lib/plan/gone.c is gone": {PAGE: GOOD[PAGE].replace(ROWS, ROWS + "| `lib/plan/gone.c` | `net/test_run.py` |\n")},
    "tools/run.c has two rows": {PAGE: GOOD[PAGE].replace(ROWS, ROWS + "| `tools/run.c` | `net/test_run.py` |\n")},
    "there is no net/test_gone.py": {PAGE: GOOD[PAGE].replace("net/test_probe.py", "net/test_gone.py")},
    "there is no net/test_run.py:Gone": {PAGE: GOOD[PAGE].replace("test_run.py:Command", "test_run.py:Gone")},
    "there is no net/test_run.py:test_i": {PAGE: GOOD[PAGE].replace("test_run.py:test_it", "test_run.py:test_i")},
    "is no row": {PAGE: GOOD[PAGE].replace(ROWS, ROWS + "| `tools/more.c` | by hand |\n")},
}


def self_test() -> int:
    wrong = 0
    for name, files in {"": {}, **BAD}.items():
        with tempfile.TemporaryDirectory() as folder:
            for file, text in (GOOD | files).items():
                where = pathlib.Path(folder, file)
                where.parent.mkdir(parents=True, exist_ok=True)
                where.write_text(text)
            said = breaches(pathlib.Path(folder))
        if len(said) != (name != "") or not all(name in line for line in said):
            print(f"expected {name or 'no breach'!r}, found {said}")
            wrong += 1
    print(f"sources_tested: self-test tried {len(BAD) + 1} trees")
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
