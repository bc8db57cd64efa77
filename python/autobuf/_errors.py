# SPDX-License-Identifier: MIT
"""Negative results become exceptions."""
from __future__ import annotations

import sys
from typing import TYPE_CHECKING, ClassVar

from ._library import library

if TYPE_CHECKING:
    from ._path import Path


class Error(OSError):
    """A call of the library failed. errno is that of <errno.h>; in a subclass it is `code`, above 4095."""

    code: ClassVar[int] = 0
    path: Path | None = None
    """What is known nevertheless: with FewError, of a measurement, the RTT."""
    usable: bool | None = None
    """Of inband(): whether the connection can be used further. If False, close it."""


class NoReplyError(Error):
    """Nothing answered before the deadline."""
    code = 4096


class FewError(Error):
    """Too few replies came to compute a rate."""
    code = 4097


class ResolveError(Error):
    """The name has no address."""
    code = 4098


class ForkedError(Error):
    """The handle belongs to the parent process."""
    code = 4099


class OffError(Error):
    """AUTOBUF=off is in the environment."""
    code = 4100


class ClampedError(Error):
    """The kernel granted a smaller buffer than was asked for."""
    code = 4101


class UnsupportedError(Error):
    """The peer does not know the in-band exchange."""
    code = 4102


class ProtocolError(Error):
    """The peer broke the exchange's rules: close the connection."""
    code = 4103


class DamagedError(Error):
    """The path store is damaged, or the file is none."""
    code = 4104


class NewerError(Error):
    """A later version of the library wrote the path store."""
    code = 4105


class RelayedError(Error):
    """The TCP connection ends at a proxy, so it says nothing of the path to the peer."""
    code = 4106


_KINDS = {kind.code: kind for kind in Error.__subclasses__()}


def error(result: int) -> Error:
    """The exception for a negative result."""
    return _KINDS.get(-result, Error)(-result, library.autobuf_strerror(result).decode())


def check(result: int) -> int:
    """The result of a call, if it is no failure."""
    if result < 0:
        raise error(result)
    return result


def written(program: str, data: bytes) -> int:
    """Writes all of it to standard output. The exit status; what went wrong is said."""
    try:
        with open(1, "wb", closefd=False) as out:
            out.write(data)
    except OSError as error:
        print(f"{program}: cannot write all of the output: {error.strerror}", file=sys.stderr)
        return 1
    return 0
