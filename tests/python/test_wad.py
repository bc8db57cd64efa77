#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""python/autobuf/_wad.py: rules of WAD as rules of autobufd. Prints TAP; exits 0, or 1 if a test failed."""
from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import binding  # first: it says where the package is
from autobuf._wad import convert
from cases import run_tests
from mutated import mutated
from path import built

PAGE = """[net100.lbl.gov]
src_addr: 0.0.0.0\nsrc_port: 0\ndst_addr: 131.243.2.93\ndst_port: 0\nmode: 1\nsndbuf: 4000000
rcvbuf: 4052159\nwadai: 6\nwadmd: .3\nmaxssth: 100\ndivide: 0\nfloyd: 1
"""
"""That of WAD's own page."""
RULE = """[net100.lbl.gov]
remote=131.243.2.93
mode=fixed
sndbuf=4000000
rcvbuf=4052159
cc=highspeed
# floyd 1: HighSpeed TCP (RFC 3649), module tcp_highspeed
# wadai 6: Linux has no additive increase for one socket; cc= names a congestion control that grows faster
# wadmd .3: Linux has no multiplicative decrease for one socket; cc= names a congestion control that falls less
# maxssth 100: limited slow start is no longer in Linux; cubic leaves slow start before it loses (HyStart)
"""
KERNEL = "the kernel tunes now; what limits is enlarged as far as it pays"
ONE_TOTAL = "one total for what is sent and for what is received"

RULES = {
    PAGE: RULE,
    "[a]\nsrc_addr: 192.0.2.1\nsrc_port: 2811\ndst_addr: 2001:db8::1\ndst_port: 5001\nmode: 2\n":
        "[a]\nlocal=192.0.2.1\nlocal_port=2811\nremote=2001:db8::1\nremote_port=5001\nmode=path\n",
    "[a]\nmode: 0\nsndbuf: 64000\nrcvbuf: 65000\n": f"[a]\nmode=auto\n# sndbuf 64000: {KERNEL}\n# rcvbuf 65000: the same\n",
    "[a]\nmode: 1\nrcvbuf: 1000000\nsndbuf: 0\n": "[a]\nmode=fixed\nrcvbuf=1000000\n",
    "[a]\nmode: 1\n": "[a]\nmode=auto\n",
    "[a]\ndivide: 1\nmode: 1\nsndbuf: 4000000\nrcvbuf: 4000000\n": "[a]\nmode=auto\ndivide=4000000\n",
    "[a]\ndivide: 1\nmode: 2\nsndbuf: 4000000\nrcvbuf: 4052159\n": f"[a]\nmode=auto\ndivide=4000000\n# rcvbuf 4052159: {ONE_TOTAL}\n",
    "[a]\nrcvbuf: 5000\ndivide: 1\n": "[a]\nmode=auto\ndivide=5000\n",
    "[a]\ndivide: 1\n[b]\nfloyd: 2\n":
        "[a]\nmode=auto\n# divide 1: there is no size to share\n\n"
        "[b]\nmode=auto\ncc=highspeed\n# floyd 2: HighSpeed TCP (RFC 3649), module tcp_highspeed\n",
    "# nothing\n": "",
    "": "",
    "\ufeff [a] of all\r\n ; of all\r\n\tmode = 1 ; a word\r\nsndbuf=5": "[a]\nmode=fixed\nsndbuf=5\n",
    "[a]\nmode: 2\nmode: 1\n": "[a]\nmode=auto\n",
}

WRONG = {
    "mode: 1\n": ["1: mode: belongs into a section"],
    "[a]\nbuffer: 1\n": ["2: buffer: WAD has no such setting"],
    "[a]\nmode: 3\n": ["2: mode: 3: it takes 0, 1 or 2"],
    "[a]\n\nsrc_addr: host\n[b]\n": ["3: src_addr: host: it takes an address"],
    "[a]\ndst_port: 65536\n": ["2: dst_port: 65536: it takes a port"],
    "[a]\nsndbuf: -1\nrcvbuf: 2000000000\n": ["2: sndbuf: -1: it takes bytes, at most 1073741823",
                                              "3: rcvbuf: 2000000000: it takes bytes, at most 1073741823"],
    "[a]\ndivide: 2\n": ["2: divide: 2: it takes 0 or 1"],
    "[a]\nfloyd: x\n": ["2: floyd: x: it takes 0, 1 or 2"],
    "[a]\nwadai: 6 x\n": ["2: wadai: a value is a word of at most 63 characters"],
    f"[a]\nwadai: {64 * '6'}\n": ["2: wadai: a value is a word of at most 63 characters"],
    "[a]\nwadai:\n": ["2: wadai: a value is a word of at most 63 characters"],
    "[a]\nnonsense\n": ["2: this is neither [name] nor name=value"],
    "[a]\nmode ;: 1\n": ["2: this is neither [name] nor name=value"],
    "[a\n": ["1: a section's name ends with ]"],
    "[]\n": ["1: a section has a name of 1 to 49 characters"],
    f"[{50 * 'a'}]\n": ["1: a section has a name of 1 to 49 characters"],
    f"[a]\n#{190 * ' '}\n": ["2: the line is longer than 190 characters"],
    "[a]\nmode\0: 1\n": ["2: there is a zero in the first 190 characters"],
    "[a]\nm\x1bde: 1\n": ["2: m?de: WAD has no such setting"],
}


class Wad(unittest.TestCase):
    def test_what_becomes_of_a_section(self) -> None:
        for text, rules in RULES.items():
            with self.subTest(text):
                self.assertEqual(convert(text.encode()), (rules, []))

    def test_what_is_wrong_is_said_with_its_line(self) -> None:
        for text, wrong in WRONG.items():
            with self.subTest(text):
                self.assertEqual([f"{line}: {said}" for line, said in convert(text.encode())[1]], wrong)

    def test_no_more_than_autobufd_takes(self) -> None:
        rules, wrong = convert(b"[a]\ndst_port: 1\n" * 100_001)
        self.assertEqual((rules.count("\n["), wrong), (99_999, [(200_001, "autobufd takes 100000 rules at most")]))
        self.assertEqual(len(convert(b"x\n" * 5000)[1]), 1000)
        with tempfile.NamedTemporaryFile() as file:
            file.truncate(16_000_001)
            done = subprocess.run([binding.PACKAGE / "autobuf-import-wad", file.name], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"autobufd: {file.name}: it has more than 16000000 bytes\n"))

    def test_the_program(self) -> None:
        """What is wrong is said of the file, and then nothing is written."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "wad.conf")
            for text, status, written, said in ((PAGE, 0, RULE, ""), ("[a]\nmode: 1\nmode\n", 1, "", f"autobufd: {file}:3: this is"),
                                                (None, 1, "", f"autobufd: {file}: No such file")):
                file.unlink() if text is None else file.write_text(text)
                done = subprocess.run([binding.PACKAGE / "autobuf-import-wad", file], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (status, written))
                self.assertTrue(done.stderr.startswith(said), done.stderr)

    def test_no_bytes_make_rules_that_autobufd_refuses(self) -> None:
        """But for a rule that none reaches."""
        words = [b"\n[b]\n", b"\ndivide: 1\n", b"\nmode: 2\n", b"wadmd=3\n", b"\nfloyd: 1\n", b" ;x", b"=", b":", b"\r\n", b"\0",
                 b"\nsndbuf=5\n", b"\nrcvbuf=6000 ;c\n", b"0", 190 * b"x", b"]", b"\nsrc_addr=::1\n", b"\ndst_port=9\n"]
        converted = 0
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "autobufd.conf")
            for text in mutated("wad", words, 3000):
                rules, wrong = convert(text)
                for line, said in wrong:
                    self.assertLessEqual((line, len(said)), (text.count(b"\n") + 1, 399))
                    self.assertTrue(said.isascii() and said.isprintable(), said)
                if not rules or wrong or not os.path.exists(built("tools/autobufd")):
                    continue
                converted += 1
                file.write_bytes(rules.encode("latin-1"))
                done = subprocess.run([built("tools/autobufd"), "--check", "--config", file], capture_output=True)
                refused = re.sub(rb"(?m)^.*is never reached.*\n", b"", done.stderr)
                self.assertEqual((done.returncode in (0, 1), refused), (True, b""), text)
        if os.path.exists(built("tools/autobufd")):
            self.assertGreater(converted, 100)


if __name__ == "__main__":
    sys.exit(run_tests((), on_path=False))
