#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each test that docs/SECURITY-MODEL.md names is there, and tests/run runs it: it is not among those of tests/run --all alone.

    promises.py [TREE]        checks a tree; prints each breach and exits 1 if there is any
    promises.py --self-test   changes what the page names, and checks that it is found
"""
from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterator

PAGE = "docs/SECURITY-MODEL.md"
WORD = r"`[^`]+`"
NAMED = re.compile(rf"\b(unit|net|patch|python) ((?:{WORD}, )*{WORD})(?:: ((?:{WORD},\s)*{WORD})| \(({WORD})\))?")
"""A kind, files of it, and cases, or a class, of the last file."""
LEAST = 60
"""The page names more files and cases than that; with fewer it was not understood."""


def named(text: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for kind, files, *cases in NAMED.findall(text):
        names = [name.removeprefix("test_") for name in re.findall(r"`([^`]+)`", files)]
        for name in names:
            yield kind, name, tuple(re.findall(r"`([^`]+)`", "".join(cases))) if name == names[-1] else ()


def breach_in_c(tree: pathlib.Path, name: str, cases: tuple[str, ...]) -> str:
    found = [*(tree / "tests" / "unit").rglob(f"test_{name}.c")]
    if not found:
        return f"no unit test {name}"
    text = found[0].read_text()
    gone = [case for case in cases if not re.search(rf"\b{case}\(void \*\*", text)]
    return f"{found[0].name} has no {', '.join(gone)}" if gone else ""


def breach_in_python(tree: pathlib.Path, kind: str, name: str, cases: tuple[str, ...]) -> str:
    script = tree / "tests" / kind / f"test_{name}.py"
    if not script.is_file():
        return f"no {kind}/test_{name}.py"
    if f'"{kind}/{name}"' in re.search(r"^LONG = \((.*?)\)$", (tree / "tests" / "suites.py").read_text(), re.M | re.S)[1]:
        return f"{kind}/{name} is of tests/run --all alone"
    text = script.read_text()
    for case in cases:
        if not (found := re.search(rf"((?:^    @\w+\n)*)^    def test_{case}\(|^class ({case})\(", text, re.M)):
            return f"{kind}/test_{name}.py has no {case}"
        if "@thorough" in (found[1] or ""):
            return f"{kind}/test_{name}.py: {case} is of tests/run --all alone"
    return ""


def breaches(tree: pathlib.Path, text: str) -> list[str]:
    names = [*named(text)]
    if sum(1 + len(cases) for _, _, cases in names) < LEAST:
        return [f"{PAGE}: names too few tests to be understood"]
    return [f"{PAGE}: {breach}" for kind, name, cases in names
            if (breach := breach_in_c(tree, name, cases) if kind == "unit" else breach_in_python(tree, kind, name, cases))]


def self_test(tree: pathlib.Path) -> int:
    text = (tree / PAGE).read_text()
    wrong = 0
    for kind, name, wanted in (("unit", "no_such", "no unit test no_such"), ("unit", "plan`: `no_such", "test_plan.c has no no_such"),
                               ("net", "test_no_such", "no net/test_no_such.py"), ("net", "test_run`: `no_such", "has no no_such"),
                               ("net", "test_run`: `scenes", "scenes is of tests/run --all alone"),
                               ("patch", "regress", "patch/regress is of tests/run --all alone"),
                               ("python", "no_such", "no python/test_no_such.py"), ("python", "import`: `no_such", "has no no_such")):
        said = breaches(tree, f"{text}\n{kind} `{name}`\n")
        if len(said) != 1 or not said[0].endswith(wanted):
            print(f"{kind} `{name}`: expected {wanted!r}, found {said}")
            wrong += 1
    if not breaches(tree, text[:1000]):
        print("a page that names nothing passes")
        wrong += 1
    return 1 if wrong else 0


def main() -> int:
    tree = pathlib.Path(__file__).resolve().parent.parent
    if sys.argv[1:] == ["--self-test"]:
        return self_test(tree)
    tree = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else tree
    found = breaches(tree, (tree / PAGE).read_text())
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
