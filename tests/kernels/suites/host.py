# SPDX-License-Identifier: MIT
"""What changed from kernel to kernel, as far as a plan depends on it, and what the library takes for the limits."""
from __future__ import annotations

from collections.abc import Iterator

from case import Case, objects
from packages import Kernel

MIB = 1 << 20
# What facts.c tells, the value of older kernels, and from which kernel on there is another.
CHANGES = (
    ("lock", False, ((5, 15), True)),
    ("clamp_later", False, ((6, 11), True)),
    ("clamp_at_once", False, ((7, 1), True)),
    ("tcp_wmem_max_bytes", 4 * MIB),
    ("tcp_rmem_max_bytes", 6 * MIB, ((6, 16), 32 * MIB)),
    ("snd_settable_bytes", 212992, ((6, 18), 4 * MIB)),
    ("rcv_settable_bytes", 212992, ((6, 18), 4 * MIB)),
)


def cases(kernel: Kernel, _: bool) -> Iterator[Case]:
    def check(said: str) -> None:
        told = objects(said)[0]
        wrong = []
        for name, value, *changes in CHANGES:
            for since, changed in changes:
                value = changed if kernel.number >= since else value
            if told[name] != value:
                wrong.append(f"{name}: {told[name]}, not {value}")
        # The regression of 6.17. It was taken back in 6.18.17, 6.19.7 and 7.0, but Debian's 6.18.15 does not show it either.
        ratchets = (6, 17) <= kernel.number < (6, 18)
        if ratchets != (told["ratchet"] < 1000):
            wrong.append(f"ratchet: {told['ratchet']}")
        if wrong:
            raise AssertionError("\n".join(wrong))

    yield Case("facts", "facts\n", check, ("tests/kernels/facts",))
