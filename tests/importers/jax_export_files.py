"""Writes files as jax.export does: a flatbuffer around a portable artifact."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

VERSION, NAME, INPUTS, PLATFORMS, MODULE, CONVENTION, KEPT, UNIQUE, NUMBERS = 0, 1, 3, 9, 13, 14, 15, 19, 22
"""Fields of the table, by what they hold."""


def jax_export(
    module: bytes,
    inputs: Sequence[Sequence[str]] | None = None,
    platforms: Sequence[str] = ("cpu",),
    kept: Sequence[int] | None = None,
    *,
    version: int = 3,
    shared_types: bool = False,
) -> bytes:
    """A file with this module. `inputs` are the dims of each input of the function, `kept` the numbers of those that the
    module takes; with `shared_types` equal types are written once, and inputs refer to them by number."""
    fields: dict[int, Any] = {VERSION: (version, "<H"), NAME: "f", CONVENTION: (10, "<H"), PLATFORMS: list(platforms)}
    types = [tuple(dims) for dims in inputs or ()]
    if inputs is not None and shared_types:
        unique = list(dict.fromkeys(types))
        fields |= {UNIQUE: [_type(t) for t in unique], NUMBERS: ([unique.index(t) for t in types], "<I")}
    elif inputs is not None:
        fields[INPUTS] = [_type(t) for t in types]
    if kept is not None:
        fields[KEPT] = (list(kept), "<H")
    fields[MODULE] = module
    content = bytearray(4)
    struct.pack_into("<I", content, 0, _write(content, fields))
    return bytes(content)


def _type(dims: Sequence[str]) -> dict[int, Any]:
    return {0: (0, "<H"), 1: list(dims)}


def _write(content: bytearray, value: Any) -> int:
    """Append a table, a vector or a string; its position."""
    content += b"\0" * (-len(content) % 4)
    if isinstance(value, Mapping):
        return _table(content, value)
    at = len(content)
    if isinstance(value, list):
        content += struct.pack("<I", len(value)) + bytes(4 * len(value))
        for i, item in enumerate(value):
            _refer(content, at + 4 + 4 * i, item)
    elif isinstance(value, tuple):
        numbers, kind = value
        content += struct.pack("<I", len(numbers)) + b"".join(struct.pack(kind, n) for n in numbers)
    else:
        raw = value.encode() if isinstance(value, str) else value
        content += struct.pack("<I", len(raw)) + raw + b"\0"
    return at


def _table(content: bytearray, fields: Mapping[int, Any]) -> int:
    """A table whose fields have four bytes each, behind its list of places."""
    count = max(fields) + 1
    places = {number: 4 + 4 * i for i, number in enumerate(fields)}
    listed = struct.pack("<HH", 4 + 2 * count, 4 + 4 * len(fields))
    listed += b"".join(struct.pack("<H", places.get(n, 0)) for n in range(count))
    content += listed + b"\0" * (-len(listed) % 4)
    at = len(content)
    content += struct.pack("<i", len(listed) + -len(listed) % 4) + bytes(4 * len(fields))
    for number, value in fields.items():
        if isinstance(value, tuple) and isinstance(value[0], int):
            struct.pack_into(value[1], content, at + places[number], value[0])
        else:
            _refer(content, at + places[number], value)
    return at


def _refer(content: bytearray, slot: int, value: Any) -> None:
    struct.pack_into("<I", content, slot, _write(content, value) - slot)
