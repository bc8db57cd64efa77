# SPDX-License-Identifier: MIT
"""The patches for wu-ftpd, without wu-ftpd: additive, without context, and each hunk where it says."""
from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "net"))

from cases import Tap  # noqa: E402

FOLDER = TOP / "wuftp-patch"
HUNK = re.compile(r"@@ -(\d+),0 \+(\d+)(?:,(\d+))? @@")
LINES = 8000
"""Of a stand-in: more than any file of wu-ftpd's has."""

Hunks = dict[str, dict[int, list[str]]]
"""By file and by the number of the line that each stands behind."""


def header_and_body(text: str) -> tuple[list[str], list[str]]:
    lines = text.split("\n")
    begin = next(i for i, line in enumerate(lines) if line.startswith("--- "))
    return lines[:begin], lines[begin:]


def parse(text: str) -> Hunks:
    """What a patch adds. ValueError: it is not one that only adds, without a line of its target's."""
    if not text.endswith("\n"):
        raise ValueError("no newline at the end")
    files: Hunks = {}
    body = header_and_body(text)[1][:-1]
    at = 0
    while at < len(body):
        if body[at].startswith("--- a/"):
            name = body[at].removeprefix("--- a/")
            if name in files or body[at + 1:at + 2] != [f"+++ b/{name}"]:
                raise ValueError(f"{name}: a header out of place")
            files[name], added, last = {}, 0, 0
            at += 2
            continue
        hunk = HUNK.fullmatch(body[at])
        if not hunk:
            raise ValueError(f"not added: {body[at]!r}")
        behind, where, count = int(hunk[1]), int(hunk[2]), int(hunk[3] or 1)
        lines = body[at + 1:at + 1 + count]
        if len(lines) < count or not all(line.startswith("+") for line in lines):
            raise ValueError(f"not added: {lines!r}")
        if behind <= last or where != behind + 1 + added:
            raise ValueError(f"out of place: {body[at]!r}")
        files[name][behind] = [line[1:] for line in lines]
        added, last = added + count, behind
        at += 1 + count
    return files


def series() -> list[pathlib.Path]:
    return [FOLDER / name for name in (FOLDER / "series").read_text().split()]


def all_hunks() -> Hunks:
    found: Hunks = {}
    for patch in series():
        for name, hunks in parse(patch.read_text()).items():
            assert name not in found, "numbers of a second patch would count the first one's lines"
            found[name] = hunks
    return found


def without_autobuf(lines: list[str]) -> list[str]:
    """What the preprocessor leaves where HAVE_AUTOBUF is not defined."""
    left, inside = [], False
    for line in lines:
        if line == "#ifdef HAVE_AUTOBUF":
            inside = True
        elif inside and line.startswith("#endif"):
            inside = False
        elif not inside:
            left.append(line)
    return left


class Patches(unittest.TestCase):
    def test_only_additions_are_accepted(self) -> None:
        head = "Description: x\n\n--- a/f\n+++ b/f\n"
        parse(head + "@@ -5,0 +6,2 @@\n+x\n+y\n@@ -9,0 +12 @@\n+z\n")
        for wrong in ("@@ -5 +5 @@\n-x\n+y\n", "@@ -5,1 +5,2 @@\n x\n+y\n", "@@ -5,0 +6 @@\n x\n", "@@ -5,0 +6,2 @@\n+x\n\n",
                      "@@ -5,0 +6 @@\n+x\n-y\n", "@@ -5,0 +6,2 @@\n+x\n", "@@ -5,0 +7 @@\n+x\n", "@@ -5,0 +6 @@\n+x\n\\ No newline\n",
                      "@@ -5,0 +6 @@\n+x\n@@ -4,0 +6 @@\n+y\n", "@@ -5,0 +6 @@\n+x"):
            with self.subTest(wrong), self.assertRaises(ValueError):
                parse(head + wrong)

    def test_headers(self) -> None:
        for patch in series():
            head = "\n".join(header_and_body(patch.read_text())[0])
            for field in ("Description: .", "Author: the authors of libautobuf$", "Forwarded: no$", r"Last-Update: \d{4}-\d\d-\d\d$"):
                self.assertRegex(head, re.compile(f"^{field}", re.M), patch.name)

    def test_series_is_what_there_is(self) -> None:
        self.assertEqual(sorted(series()), sorted(FOLDER.glob("*.patch")))

    def test_every_file_that_is_touched_has_its_sum(self) -> None:
        sums = re.findall(r"^sha256: [0-9a-f]{64}  (\S+)$", (FOLDER / "UPSTREAM").read_text(), re.M)
        self.assertEqual(sorted(sums), sorted(all_hunks()))

    def test_they_apply_and_each_hunk_stands_where_it_says(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            original = [f"line {n}" for n in range(1, LINES + 1)]
            for name in all_hunks():
                (tree / name).parent.mkdir(exist_ok=True)
                (tree / name).write_text("".join(line + "\n" for line in original))
            for patch in series():
                done = subprocess.run(["patch", "-p1", "--fuzz=0", "--batch", "-d", folder, "-i", str(patch)], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertNotIn("offset", done.stdout)
            for name, hunks in all_hunks().items():
                want = []
                for n, line in enumerate(original, 1):
                    want += [line, *hunks.get(n, [])]
                self.assertEqual((tree / name).read_text().splitlines(), want)

    def test_without_have_autobuf_nothing_is_left(self) -> None:
        hunks = all_hunks()
        self.assertEqual({n: without_autobuf(lines) for n, lines in hunks["src/ftpd.c"].items() if without_autobuf(lines)}, {})
        left = [line for lines in hunks["src/ftpcmd.y"].values() for line in without_autobuf(lines)]
        self.assertNotIn("autobuf_wu", "\n".join(left))  # yacc has no #ifdef: a token and two rules, which do nothing
        self.assertEqual([line for line in left if '"' in line or "#" in line], [])
        for line in sum(hunks["src/Makefile.in"].values(), []):
            self.assertRegex(line, r"^[A-Z]+ \+= \$\(AUTOBUF_[A-Z]+\)$")  # nothing, where that is not set

    def test_what_is_called_is_what_there_is(self) -> None:
        text = "\n".join(line for hunks in all_hunks().values() for lines in hunks.values() for line in lines)
        called = set(re.findall(r"\b(autobuf_wu_\w+)\(", text))
        declared = set(re.findall(r"^void (autobuf_wu_\w+)\(", (FOLDER / "autobuf-wuftpd.h").read_text(), re.M))
        self.assertEqual(called, declared)


def main() -> int:
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Patches)
    print(f"1..{suite.countTestCases()}", flush=True)
    result = Tap()
    suite.run(result)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
