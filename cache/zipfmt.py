"""Stored (uncompressed) zip members at aligned offsets, byte for byte the same for the same content (APPNOTE 6.3.10).

The standard library reads these files; it cannot write them, because it gives no say in where a member's bytes begin.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

_SEE_64: Final = 0xFFFFFFFF

_LOCAL: Final = struct.Struct("<IHHHHHIIIHH")
_CENTRAL: Final = struct.Struct("<IHHHHHHIIIHHHHHII")
_END: Final = struct.Struct("<IHHHHIIH")
_END_64: Final = struct.Struct("<IQHHIIQQQQ")
_LOCATOR_64: Final = struct.Struct("<IIQI")

_VERSION: Final = 20
_VERSION_64: Final = 45
_UNIX: Final = 3 << 8
_MODE: Final = 0o100644 << 16
_DATE: Final = (1980 - 1980) << 9 | 1 << 5 | 1
_ZIP64_TAG: Final = 0x0001
_PADDING_TAG: Final = 0x7846


@dataclass(frozen=True, slots=True)
class Member:
    """A member whose local header begins at `offset`, with `size` bytes of data whose CRC-32 is `crc`."""

    name: str
    offset: int
    size: int
    crc: int


def local_header(member: Member, alignment: int) -> bytes:
    """The header before a member's data, padded so that the data begins at a multiple of `alignment` bytes."""
    name = member.name.encode("ascii")
    large = not _fits(member.size)
    extra = struct.pack("<HHQQ", _ZIP64_TAG, 16, member.size, member.size) if large else b""
    bare = member.offset + _LOCAL.size + len(name) + len(extra)
    gap = -bare % alignment
    if 0 < gap < 4:
        gap += alignment
    if gap:
        extra += struct.pack("<HH", _PADDING_TAG, gap - 4) + bytes(gap - 4)
    size = _SEE_64 if large else member.size
    version = _VERSION_64 if large else _VERSION
    fields = (0x04034B50, version, 0, 0, 0, _DATE, member.crc, size, size, len(name), len(extra))
    return _LOCAL.pack(*fields) + name + extra


def directory(members: list[Member], offset: int) -> bytes:
    """Everything after the last member's data, which ends at `offset`: the central directory and its end records."""
    body = b"".join(_central_header(member) for member in members)
    large = not _fits(offset) or len(members) >= 0xFFFF
    end = b""
    if large:
        count, here = len(members), offset + len(body)
        end = _END_64.pack(
            0x06064B50, _END_64.size - 12, _UNIX | _VERSION_64, _VERSION_64, 0, 0, count, count, len(body), offset
        )
        end += _LOCATOR_64.pack(0x07064B50, 0, here, 1)
    count = 0xFFFF if large else len(members)
    end += _END.pack(0x06054B50, 0, 0, count, count, len(body), _SEE_64 if large else offset, 0)
    return body + end


def _fits(number: int) -> bool:
    return number < _SEE_64


def _central_header(member: Member) -> bytes:
    name = member.name.encode("ascii")
    sizes = struct.pack("<QQ", member.size, member.size) if not _fits(member.size) else b""
    place = struct.pack("<Q", member.offset) if not _fits(member.offset) else b""
    extra = struct.pack("<HH", _ZIP64_TAG, len(sizes + place)) + sizes + place if sizes or place else b""
    size = _SEE_64 if sizes else member.size
    offset = _SEE_64 if place else member.offset
    version = _VERSION_64 if extra else _VERSION
    return (
        _CENTRAL.pack(
            0x02014B50, _UNIX | version, version, 0, 0, 0, _DATE, member.crc, size, size,
            len(name), len(extra), 0, 0, 0, _MODE, offset,
        )
        + name
        + extra
    )  # fmt: skip
