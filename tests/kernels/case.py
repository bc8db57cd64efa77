# SPDX-License-Identifier: MIT
"""What the suites share: a case, the path that it is tried on, and checks."""
from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Callable
from typing import NamedTuple

BUILD = pathlib.Path(os.environ.get("AUTOBUF_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build"))
ETHERNET_BYTES = 14
"""Of a header that netem's rate counts, and a rate of IP packets does not."""
PORT = 7600


class Case(NamedTuple):
    name: str
    script: str
    check: Callable[[str], None]
    """Raises AssertionError, if what the script said is not as it has to be."""
    programs: tuple[str, ...] = ()
    """Those that it starts, in the build folder."""
    archives: Callable[[], tuple[pathlib.Path, ...]] = tuple
    """Makes the parts of the machine's initramfs that it needs besides."""
    group: str = ""
    """Cases of one are run by the same kernel, if each has a share."""


def near(got: float, wanted: float, share: float, what: str) -> None:
    if not abs(got - wanted) <= share * wanted:
        raise AssertionError(f"{what}: {got:g} instead of {wanted:g}, at most {100 * share:g}% off")


def between(got: float, least: float, most: float, what: str) -> None:
    if not least <= got <= most:
        raise AssertionError(f"{what}: {got:g}, not {least:g} to {most:g}")


def objects(said: str) -> list[dict]:
    """The lines of JSON in what a script said."""
    found = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    if not found:
        raise AssertionError(said.strip()[-300:] or "it said nothing")
    return found


def answers(said: str) -> dict[str, str]:
    """What each case said, by its number."""
    parts = re.split(r"^@@ (\d+)\n", said, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def watched(file: str) -> str:
    """A line of a script: how often autobuf watch --json has reported there."""
    return f"""echo "watched $(grep -c '"limited"' {file})"\n"""


def was_watched(said: str) -> None:
    """That what is compared was watched at all."""
    if not re.search(r"^watched [1-9]", said, re.M):
        raise AssertionError(f"autobuf watch has reported nothing: {said.strip()[-300:]}")


def qdisc(mbit: float, rtt_ms: float, bdps: float = 2, more: str = "", jitter: str = "") -> str:
    """netem's words for one direction: half the RTT, and a queue of this many BDPs."""
    held = mbit * 1e6 / 8 / 1514 * rtt_ms / 1e3 * (0.5 + bdps)
    return f"netem rate {mbit:g}mbit delay {rtt_ms / 2:g}ms {jitter} limit {max(50, held):.0f} {more}".strip()


def path(there: str, back: str) -> str:
    return f'path "{there}" "{back}"\n'


def plain_path(mbit: float, rtt_ms: float) -> str:
    return path(qdisc(mbit, rtt_ms), qdisc(mbit, rtt_ms))
