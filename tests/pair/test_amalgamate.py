#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What scripts/amalgamate.py takes into a pair, and what it refuses."""
from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = TOP / "scripts" / "amalgamate.py"
LINES = 5000
"""Of C in bwdelay.c and bwdelay.h, without comments and blank lines."""

HEADER = """\
/* SPDX-License-Identifier: MIT */
#ifndef AUTOBUF_{name}_H
#define AUTOBUF_{name}_H
{text}
#ifdef __cplusplus
extern "C" {{
#endif
{calls}
#ifdef __cplusplus
}}
#endif

#endif
"""
API = "#if 1\n#define AUTOBUF_API x\n#else\n#define AUTOBUF_API\n#endif\n" + "".join(
    f"#define AUTOBUF_VERSION_{part} 1\n" for part in ("MAJOR", "MINOR", "PATCH"))
TREE = {
    "lib/a/low.h": "#ifndef LOW_H\n#define LOW_H\n\n/* Twice that. */\nint ab_twice(int value);\n\nint ab_thrice(int value);\n\n#endif\n",
    "lib/a/low.c": '#include "low.h"\n\n#define TWO 2\n#define THREE 3\n\nint ab_twice(int value)\n{\n    return TWO * value;\n}\n\n'
                   "/* Of nobody's use. */\nint ab_thrice(int value)\n{\n    return THREE * value;\n}\n",
    "lib/a/a_first.c": '#include <autobuf/bwdelay.h>\n\n#include "low.h"\n#include "../b/keep.h"\n\n'
                       "int bwdelay(void)\n{\n    ab_keep();\n    return ab_twice(1);\n}\n",
    "lib/b/keep.h": "#ifndef KEEP_H\n#define KEEP_H\n\nvoid ab_keep(void);\n\n#endif\n",
    "lib/b/keep.c": '#include "keep.h"\n\n#include <stdio.h>\n\nvoid ab_keep(void)\n{\n    puts("kept");\n}\n',
    "lib/b/keep_without.c": '#include "keep.h"\n\nvoid ab_keep(void)\n{\n}\n',
}


class Small(unittest.TestCase):
    def setUp(self) -> None:
        self.top = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, text in TREE.items():
            self.put(name, text)
        (self.top / "LICENSE").write_text("free\n")
        for topic in ("error", "bwdelay", "path", "paths", "probe", "inband", "plan", "available", "live", "tune", "flow", "rightsize", "ftp"):
            file = self.top / "include" / "autobuf" / f"{topic}.h"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(HEADER.format(name=topic.upper(), text=API if topic == "error" else "",
                                          calls="AUTOBUF_API int bwdelay(void);\n" if topic == "bwdelay" else ""))

    def put(self, name: str, text: str) -> None:
        file = self.top / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("/* SPDX-License-Identifier: MIT */\n" + text)

    def run_script(self, name: str) -> subprocess.CompletedProcess:
        return subprocess.run([SCRIPT, self.top, self.top / f"{name}.c", self.top / f"{name}.h", *sorted(self.top.glob("lib/*/*.c"))],
                              capture_output=True, text=True)

    def made(self, name: str) -> str:
        done = self.run_script(name)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return (self.top / f"{name}.c").read_text()

    def test_what_nobody_calls_is_left_out(self) -> None:
        text = self.made("bwdelay")
        self.assertIn("#define TWO 2", text)
        for gone in ("THREE", "ab_thrice", "nobody"):
            self.assertNotIn(gone, text)

    def test_without_takes_the_place_in_the_small_pair_alone(self) -> None:
        self.assertNotIn("kept", self.made("bwdelay"))
        self.assertNotIn("stdio.h", self.made("bwdelay"))
        self.assertEqual(self.made("autobuf").count("void ab_keep(void)\n{"), 1)
        self.assertIn("kept", self.made("autobuf"))

    def test_definitions_come_before_their_uses(self) -> None:
        text = self.made("bwdelay")
        self.assertIn("/* Twice that. */\nstatic int ab_twice(int value)\n{", text)
        self.assertNotIn("ab_twice(int value);", text)
        self.assertLess(text.index("ab_twice(int value)"), text.index("int bwdelay(void)"))

    def test_only_public_functions_are_not_static(self) -> None:
        for name, before in (("bwdelay", "__attribute__((weak))\n"), ("autobuf", "\n")):
            self.assertIn(f"{before}int bwdelay(void)\n{{", self.made(name))
            self.assertEqual(re.findall(r"^\w+ ab_\w+\(", self.made(name), re.M), [])

    def test_what_is_called_at_loading_comes_with_its_file(self) -> None:
        loads = "__attribute__((constructor(101))) static void {0}(void)\n{{\n    {0}_is = 1;\n}}\n"
        self.put("lib/a/low.c", TREE["lib/a/low.c"] + "\nstatic int loaded_is;\n\n" + loads.format("loaded"))
        self.put("lib/c/other.c", "static int other_is;\n\n" + loads.format("other"))
        self.assertIn("loaded(void)", self.made("bwdelay"))
        self.assertNotIn("other", self.made("bwdelay"))

    def test_a_public_function_that_is_missing_is_an_error(self) -> None:
        (self.top / "lib/a/a_first.c").unlink()
        done = self.run_script("bwdelay")
        self.assertEqual((done.returncode, done.stderr), (1, "amalgamate.py: bwdelay(): declared, and nowhere defined\n"))

    def test_a_public_header_that_is_in_no_pair_is_an_error(self) -> None:
        (self.top / "include/autobuf/new.h").write_text("")
        self.assertEqual(self.run_script("autobuf").stderr, "amalgamate.py: public headers are not TOPICS: new\n")

    def test_text_that_it_does_not_know_is_an_error(self) -> None:
        for text in ("int ab_open(void)\n{\n", '#ifdef X\n#include "low.h"\n#endif\n', "/* no end\n"):
            with self.subTest(text):
                self.put("lib/a/low.c", text)
                self.assertEqual(self.run_script("bwdelay").returncode, 1)


class Real(unittest.TestCase):
    def test_bwdelay_has_what_it_needs_alone(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder, f"bwdelay.{kind}") for kind in "ch"]
            subprocess.run([SCRIPT, TOP, *files, *sorted(TOP.glob("lib/*/*.c"))], check=True)
            texts = [re.sub(r"/\*.*?\*/", "", file.read_text(), flags=re.S) for file in files]
            rooms = set(re.findall(r"^/\* =+ lib/(\w+)/", files[0].read_text(), re.M))
        self.assertLessEqual(sum(bool(line.strip()) for text in texts for line in text.splitlines()), LINES)
        self.assertEqual(rooms, {"base", "kernel", "estimate", "plan", "apply", "icmp", "flow"})
        self.assertNotIn("ab_paths_", texts[0])


if __name__ == "__main__":
    unittest.main()
