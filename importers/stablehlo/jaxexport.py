"""Reads the flatbuffer that jax.export writes around a portable artifact.

Only the fields that compilation needs are read. The table's layout (field number: content): 0 serialization version, 1
function name, 2 input tree, 3 input types, 4 output tree, 5 output types, 6 device count, 7 and 8 shardings, 9 platforms,
10 and 11 effects, 12 disabled checks, 13 the module, 14 calling convention version, 15 the inputs that the module kept, 19
types that differ, 22 the number of each input's type among those. The newest files have their input types in both ways, or
in the second alone.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from mmap import mmap

BYTECODE = b"ML\xefR"
SERIALIZATION_VERSIONS = range(1, 12)
"""Those that jax counts up to its release 0.10.2, which calls all its files 3, so that older readers take them."""


class Damaged(Exception):
    """A flatbuffer whose offsets leave the file; the text says which part."""


class OtherVersion(Exception):
    """A serialization version that is not known; the text says which."""


@dataclass(frozen=True, slots=True)
class JaxExport:
    """What a serialized `jax.export.Exported` says of its module. `input_dims` holds, as text, the dims of each array
    that the module takes; where jax left out an array that is not used, it is in neither."""

    function: str
    module: bytes
    calling_convention: int
    input_dims: tuple[tuple[str, ...], ...]
    platforms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Table:
    data: bytes | mmap
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

    def target(self, field: int) -> int | None:
        """The position that a field's offset points to; None where the field is absent."""
        at = self.field(field)
        return None if at is None else at + _scalar(self.data, "<I", at)

    def blob(self, field: int) -> bytes:
        at = self.target(field)
        return b"" if at is None else _blob(self.data, at)

    def numbers(self, field: int, kind: str) -> list[int] | None:
        """A vector of scalars; None where it is absent."""
        start = self.target(field)
        if start is None:
            return None
        size, count = struct.calcsize(kind), _scalar(self.data, "<I", start)
        if start + 4 + size * count > len(self.data):
            raise Damaged("a list ends behind the end of the file")
        return [_scalar(self.data, kind, start + 4 + size * i) for i in range(count)]

    def vector(self, field: int) -> list[int]:
        """The positions that a vector of offsets points to."""
        start = self.target(field) or 0
        return [start + 4 + 4 * i + offset for i, offset in enumerate(self.numbers(field, "<I") or [])]


def is_jax_export(data: bytes | mmap) -> bool:
    """Whether a file's content is laid out as such a flatbuffer, down to the first bytes of its module."""
    try:
        start = _Table(data, _scalar(data, "<I", 0)).target(13)
    except Damaged:
        return False
    return start is not None and data[start + 4 : start + 4 + len(BYTECODE)] == BYTECODE


def read_jax_export(data: bytes) -> JaxExport:
    """The module and its description. Raises `Damaged` where the file is cut short or is not such a file,
    `OtherVersion` where it is newer than what is known here."""
    root = _Table(data, _scalar(data, "<I", 0))
    version = root.number(0, "<H")
    if version not in SERIALIZATION_VERSIONS:
        raise OtherVersion(f"{version}; this reader takes {SERIALIZATION_VERSIONS[0]} to {SERIALIZATION_VERSIONS[-1]}")
    module = root.blob(13)
    if not module.startswith(BYTECODE):
        raise Damaged("it holds no MLIR module")
    return JaxExport(
        root.blob(1).decode("utf-8", "replace"),
        module,
        root.number(14, "<H"),
        tuple(_dims(abstract) for abstract in _kept_inputs(root)),
        tuple(_blob(data, at).decode("utf-8", "replace") for at in root.vector(9)),
    )


def _kept_inputs(root: _Table) -> list[_Table]:
    """The abstract values of the inputs that the module takes, in their order."""
    places = root.vector(3)
    if not places:
        unique = root.vector(19)
        places = _chosen(unique, root.numbers(22, "<I") or [])
    kept = root.numbers(15, "<H")
    return [_Table(root.data, at) for at in (places if kept is None else _chosen(places, kept))]


def _chosen(places: list[int], numbers: list[int]) -> list[int]:
    if any(number >= len(places) for number in numbers):
        raise Damaged("it counts more inputs than it describes")
    return [places[number] for number in numbers]


def _dims(abstract: _Table) -> tuple[str, ...]:
    """The dims of an abstract value, in jax's syntax."""
    return tuple(_blob(abstract.data, at).decode("utf-8", "replace") for at in abstract.vector(1))


def _scalar(data: bytes | mmap, kind: str, at: int) -> int:
    if not 0 <= at <= len(data) - struct.calcsize(kind):
        raise Damaged("an offset leaves the file")
    return int(struct.unpack_from(kind, data, at)[0])


def _blob(data: bytes | mmap, at: int) -> bytes:
    size = _scalar(data, "<I", at)
    if at + 4 + size > len(data):
        raise Damaged(f"a part ends {at + 4 + size - len(data)} bytes behind the end of the file")
    return data[at + 4 : at + 4 + size]
