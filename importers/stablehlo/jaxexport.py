"""Reads the flatbuffer that jax.export writes around a portable artifact.

Only the fields that compilation needs are read. The table's layout (field number: content): 0 serialization version, 1 function name,
2 input tree, 3 input types, 4 output tree, 5 output types, 6 device count, 7 and 8 shardings, 9 platforms, 10 and 11 effects, 12
disabled checks, 13 the module, 14 calling convention version, 15 the inputs that the module kept.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from fornaxc.importers.stablehlo.sniff import BYTECODE

SERIALIZATION_VERSIONS = range(1, 8)


class Damaged(Exception):
    """A flatbuffer whose offsets leave the file; the text says which part."""


@dataclass(frozen=True, slots=True)
class JaxExport:
    """What a serialized `jax.export.Exported` says of its module. `input_dims` holds each input's dims as text."""

    function: str
    module: bytes
    calling_convention: int
    input_dims: tuple[tuple[str, ...], ...]
    platforms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Table:
    data: bytes
    at: int

    def field(self, number: int) -> int | None:
        """The position of a field's content; None where it is absent."""
        vtable = self.at - _scalar(self.data, "<i", self.at)
        slot = 4 + 2 * number
        if slot >= _scalar(self.data, "<H", vtable):
            return None
        offset = _scalar(self.data, "<H", vtable + slot)
        return self.at + offset if offset else None

    def number(self, field: int, kind: str) -> int:
        at = self.field(field)
        return 0 if at is None else _scalar(self.data, kind, at)

    def blob(self, field: int) -> bytes:
        at = self.field(field)
        return b"" if at is None else _blob(self.data, at + _scalar(self.data, "<I", at))

    def vector(self, field: int) -> list[int]:
        """The positions that a vector of offsets points to."""
        at = self.field(field)
        if at is None:
            return []
        start = at + _scalar(self.data, "<I", at)
        slots = [start + 4 + 4 * i for i in range(min(_scalar(self.data, "<I", start), len(self.data)))]
        return [slot + _scalar(self.data, "<I", slot) for slot in slots]


def read_jax_export(data: bytes) -> JaxExport:
    """The module and its description. Raises `Damaged` where the file is cut short or is not such a file."""
    root = _Table(data, _scalar(data, "<I", 0))
    version = root.number(0, "<H")
    if version not in SERIALIZATION_VERSIONS:
        raise Damaged(f"its serialization version is {version}")
    modules = [blob for blob in (root.blob(13),) if blob.startswith(BYTECODE)]
    if not modules:
        raise Damaged("it holds no MLIR module")
    return JaxExport(
        root.blob(1).decode("utf-8", "replace"),
        modules[0],
        root.number(14, "<H"),
        tuple(_dims(_Table(data, at)) for at in root.vector(3)),
        tuple(_blob(data, at).decode("utf-8", "replace") for at in root.vector(9)),
    )


def _dims(abstract: _Table) -> tuple[str, ...]:
    """The dims of an abstract value, in jax's syntax."""
    return tuple(_blob(abstract.data, at).decode("utf-8", "replace") for at in abstract.vector(1))


def _scalar(data: bytes, kind: str, at: int) -> int:
    if not 0 <= at <= len(data) - struct.calcsize(kind):
        raise Damaged("an offset leaves the file")
    return int(struct.unpack_from(kind, data, at)[0])


def _blob(data: bytes, at: int) -> bytes:
    size = _scalar(data, "<I", at)
    if at + 4 + size > len(data):
        raise Damaged("the module is cut short")
    return data[at + 4 : at + 4 + size]
