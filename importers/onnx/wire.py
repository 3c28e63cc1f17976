"""Copies a serialized ONNX message without its large payloads, by walking the protobuf wire format.

A copy (a skeleton) is small enough to parse at once; where the payloads lie is recorded. Wire format:
https://protobuf.dev/programming-guides/encoding, field numbers: onnx.proto.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NoReturn

Buffer = bytes | mmap.mmap

KEEP_BELOW = 1024  # bytes: payloads and whole messages shorter than this are copied as they are
_MAX_DEPTH = 100  # protobuf's own limit of nested messages

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MARKER_FIELD = 16  # TensorProto.metadata_props


class WireError(Exception):
    """The bytes are not a protobuf message."""


class CutShort(WireError):
    """The file ends inside a field of the outermost message."""


class _Kind(Enum):
    MODEL = auto()
    GRAPH = auto()
    NODE = auto()
    ATTRIBUTE = auto()
    TENSOR = auto()
    SPARSE_TENSOR = auto()
    FUNCTION = auto()


_CHILDREN: dict[_Kind, dict[int, _Kind]] = {
    _Kind.MODEL: {7: _Kind.GRAPH, 25: _Kind.FUNCTION},
    _Kind.GRAPH: {1: _Kind.NODE, 5: _Kind.TENSOR, 15: _Kind.SPARSE_TENSOR},
    _Kind.NODE: {5: _Kind.ATTRIBUTE},
    _Kind.ATTRIBUTE: {
        5: _Kind.TENSOR,
        6: _Kind.GRAPH,
        10: _Kind.TENSOR,
        11: _Kind.GRAPH,
        22: _Kind.SPARSE_TENSOR,
        23: _Kind.SPARSE_TENSOR,
    },
    _Kind.TENSOR: {},
    _Kind.SPARSE_TENSOR: {1: _Kind.TENSOR, 2: _Kind.TENSOR},
    _Kind.FUNCTION: {7: _Kind.NODE, 11: _Kind.ATTRIBUTE},
}
_DROPPED = {_Kind.MODEL: {20}}  # training_info
_PAYLOAD_FIELDS = {4, 5, 7, 9, 10, 11}  # float, int32, int64, raw, double, uint64


@dataclass(frozen=True, slots=True)
class Payload:
    """Bytes of a TensorProto field that stayed in the file."""

    field: int
    offset: int
    length: int


@dataclass(slots=True)
class Skeleton:
    """A ModelProto without large payloads.

    A tensor that lost its payload has a metadata entry whose key is `marker` and whose value is the decimal index of
    its entry in `payloads`.
    """

    marker: str
    message: bytes = b""
    payloads: list[Payload] = field(default_factory=list)
    has_graph: bool = False
    has_training: bool = False


def skeleton(buffer: Buffer, marker: str) -> Skeleton:
    """The skeleton of a serialized ModelProto. `WireError` where the bytes are not one."""
    walker = _Walker(buffer, marker)
    walker.result.message = walker.copy(_Kind.MODEL, 0, len(buffer), 0)
    return walker.result


def varint(value: int) -> bytes:
    """A non-negative integer in base-128 encoding."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def length_delimited(number: int, body: bytes) -> bytes:
    """A field of bytes, of a string or of a message."""
    return varint(number << 3 | _LENGTH) + varint(len(body)) + body


class _Walker:
    def __init__(self, buffer: Buffer, marker: str) -> None:
        self.buffer = buffer
        self.result = Skeleton(marker)

    def copy(self, kind: _Kind, start: int, end: int, depth: int) -> bytes:
        """The message that lies in [start, end), without large payloads."""
        if depth > _MAX_DEPTH:
            raise WireError(f"messages are nested more than {_MAX_DEPTH} deep")
        if kind is _Kind.TENSOR:
            return self._tensor(start, end)
        children, dropped, buffer = _CHILDREN[kind], _DROPPED.get(kind, ()), self.buffer
        parts: list[bytes] = []
        copied = start  # everything before this offset is in `parts` or dropped
        position = start
        while position < end:
            field_start = position
            number, wire_type, position, after = self._field(position, end, depth)
            if kind is _Kind.MODEL:
                self.result.has_graph |= number == 7
                self.result.has_training |= number == 20
            if number in dropped:
                parts.append(buffer[copied:field_start])
                copied = after
            elif wire_type == _LENGTH and number in children and after - position >= KEEP_BELOW:
                parts.append(buffer[copied:field_start])
                parts.append(length_delimited(number, self.copy(children[number], position, after, depth + 1)))
                copied = after
            position = after
        parts.append(buffer[copied:end])
        return b"".join(parts)

    def _tensor(self, start: int, end: int) -> bytes:
        """A TensorProto, whose payload stays out where it is large and in one piece."""
        payloads: list[tuple[Payload, int]] = []
        position = start
        while position < end:
            field_start = position
            number, wire_type, position, after = self._field(position, end, 1)
            if number in _PAYLOAD_FIELDS:
                length = after - position if wire_type == _LENGTH else 0
                payloads.append((Payload(number, position, length), field_start))
                if len(payloads) > 1:
                    return self.buffer[start:end]
            position = after
        if not payloads or payloads[0][0].length < KEEP_BELOW:
            return self.buffer[start:end]
        payload, field_start = payloads[0]
        index = str(len(self.result.payloads))
        self.result.payloads.append(payload)
        entry = length_delimited(1, self.result.marker.encode()) + length_delimited(2, index.encode())
        before, behind = self.buffer[start:field_start], self.buffer[payload.offset + payload.length : end]
        return before + behind + length_delimited(_MARKER_FIELD, entry)

    def _field(self, position: int, end: int, depth: int) -> tuple[int, int, int, int]:
        """A field's number and wire type, where its content starts and where the field ends."""
        start = position
        tag, position = self._varint(position, end, depth)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise WireError(f"there is no field at byte {start}")
        if wire_type == _LENGTH:
            length, position = self._varint(position, end, depth)
            after = position + length
        elif wire_type == _VARINT:
            _, after = self._varint(position, end, depth)
        elif wire_type == _FIXED64:
            after = position + 8
        elif wire_type == _FIXED32:
            after = position + 4
        else:
            raise WireError(f"the field at byte {start} has the unknown wire type {wire_type}")
        if after > end:
            self._fail(start, after - end, depth)
        return number, wire_type, position, after

    def _varint(self, position: int, end: int, depth: int) -> tuple[int, int]:
        value = shift = 0
        start = position
        while position < end:
            byte = self.buffer[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position
            shift += 7
            if shift >= 70:
                raise WireError(f"the number at byte {start} is too long")
        self._fail(start, 1, depth)

    def _fail(self, start: int, missing: int, depth: int) -> NoReturn:
        if depth == 0:
            raise CutShort(
                f"the field at byte {start} ends {missing} byte{'s' * (missing > 1)} behind the end of the file"
            )
        raise WireError(f"the field at byte {start} is longer than the message around it")
