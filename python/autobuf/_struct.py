# SPDX-License-Identifier: MIT
"""Dataclasses that are structs of the library: each field is declared once, and both forms are made of that."""
from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from ._library import unsigned

UNSET = 2 ** 64 - 1
"""AUTOBUF_NS_UNSET: a time that is not known."""

S = TypeVar("S", bound="Struct")


def _field(c: Any, kind: Callable[[Any], Any], unknown: Any, default: Any = None, show: bool = True,
           to_c: Callable[[Any], Any] | None = None) -> Any:
    """unknown: what None stands for. If that is None, there is no unknown, and 0 is the default."""
    return dataclasses.field(default=kind(0) if unknown is None else default, repr=show,
                             metadata={"c": c, "kind": kind, "unknown": unknown, "to_c": to_c})


def u32(kind: Callable[[Any], Any] = int, unknown: int | None = None) -> Any:
    return _field(ctypes.c_uint32, kind, unknown)


def u64(unknown: int | None = None, default: int | None = None) -> Any:
    return _field(ctypes.c_uint64, int, unknown, default)


def i32() -> Any:
    return _field(ctypes.c_int32, int, None)


def text(size: int) -> Any:
    return _field(ctypes.c_char * size, bytes.decode, b"")


def inner(kind: Callable[..., Any]) -> Any:
    """A struct within the struct, as ctypes has it."""
    return _field(kind, lambda value: value or kind(), None)


def pointer(kind: Any = ctypes.c_void_p, to_c: Callable[[Any], Any] | None = None) -> Any:
    return _field(kind, lambda address: None, kind(), show=False, to_c=to_c)


def char_pointer() -> Any:
    return _field(ctypes.c_char_p, lambda value: value.decode(errors="replace") if value else None, None)


def reserved() -> Any:
    return _field(ctypes.c_uint32, int, None, show=False)


@dataclasses.dataclass(frozen=True)
class Struct:
    """None in a field means: not known, or the default."""

    name: ClassVar[str]
    layout: ClassVar[Any]

    @classmethod
    def empty(cls) -> Any:
        """The C struct, of which only `size` is set."""
        if "layout" not in vars(cls):
            fields = [("size", ctypes.c_uint32), *((f.name, f.metadata["c"]) for f in dataclasses.fields(cls))]
            cls.layout = type(cls.name, (ctypes.Structure,), {"_fields_": fields})
        return cls.layout(size=ctypes.sizeof(cls.layout))

    @classmethod
    def from_c(cls: type[S], c: Any) -> S:
        return cls(**{f.name: _from_c(f.metadata, getattr(c, f.name)) for f in dataclasses.fields(cls)})

    @classmethod
    def filled(cls: type[S], fill: Callable[[Any], object]) -> S:
        """What a call has put into a struct whose address it was given."""
        c = cls().to_c()
        fill(ctypes.byref(c))
        return cls.from_c(c)

    def to_c(self) -> Any:
        """The C struct. It keeps alive what it points to."""
        c = self.empty()
        for f in dataclasses.fields(self):
            try:
                setattr(c, f.name, _to_c(f.metadata, getattr(self, f.name)))
            except ValueError as error:
                raise ValueError(f"{f.name}: {error}") from None
        return c


def _from_c(how: Any, value: Any) -> Any:
    if how["unknown"] is not None and value == how["unknown"]:
        return None
    try:
        return how["kind"](value)
    except ValueError:  # a constant of a later version
        return value


def _to_c(how: Any, value: Any) -> Any:
    if value is None:
        return how["unknown"]
    if how["to_c"]:
        return how["to_c"](value)
    if isinstance(value, ctypes.Structure):
        return value
    if isinstance(value, (Struct, bytes)):
        target = ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.pointer(value.to_c())
        return ctypes.cast(target, ctypes.c_void_p)
    if issubclass(how["c"], ctypes.Array):
        if "\0" in str(value):
            raise ValueError("there is a NUL in it")
        return str(value).encode()
    return unsigned(value, 8 * ctypes.sizeof(how["c"]))
