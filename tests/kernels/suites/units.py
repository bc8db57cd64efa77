# SPDX-License-Identifier: MIT
"""The library's own unit tests. Quick: those that ask the kernel."""
from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterator

from case import BUILD, Case
from packages import Kernel

NEED_FILES = ("estimate",)
"""Of the source, which the machine does not have. These ask no kernel."""
ASK_THE_KERNEL = ("apply", "flow", "forced", "limits", "live", "tcpinfo", "tune")


def check(said: str) -> None:
    failed = re.findall(r"^not ok \d+ - .*|^# (?!ok - ).*(?:error|!=|range).*", said, flags=re.M)
    if failed or not re.search(r"^ok \d", said, flags=re.M) or not said.endswith("exit 0\n"):
        raise AssertionError("\n".join(failed) or "it did not end well")


def cases(_: Kernel, quick: bool) -> Iterator[Case]:
    found = [name for name in sorted(os.listdir(BUILD / "tests" / "unit"))
             if re.fullmatch(r"test_(?!header)\w+", name)]
    for name in found:
        short = name.removeprefix("test_")
        if short in ASK_THE_KERNEL or (not quick and short not in NEED_FILES):
            yield Case(short, f"CMOCKA_MESSAGE_OUTPUT=TAP {name}; echo exit $?\n", check, (f"tests/unit/{name}",))
