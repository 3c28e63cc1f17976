"""Tensors of a model: element type and shape at once, content on demand.

All ways in which a TensorProto stores elements are read here (onnx.proto, message TensorProto). Files are read one
tensor at a time into fresh memory, large tensors are mapped. The bytes in ONNX files are little-endian, as every
supported host is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import SparseTensorProto, TensorProto

from fornaxc.errors import ModelError
from fornaxc.importers.onnx.codes import Code, model_error, require_text
from fornaxc.importers.onnx.external import ExternalFolder
from fornaxc.importers.onnx.wire import Payload, length_delimited
from fornaxc.mapping import map_bytes

Array = np.ndarray[Any, np.dtype[Any]]
Extent = tuple[Path, int, int]
MAPPED_BYTES = 1 << 28  # smaller tensors are read: a file that is cut short meanwhile does no harm then


@dataclass(frozen=True, slots=True)
class TensorSource:
    """A tensor whose content is read when `load` is called.

    `shape` has one int per axis. Sub-byte types have ml_dtypes dtypes, one element a byte; strings have dtype object.
    `extent` is the (file, offset, length in bytes) at which the elements lie exactly as in memory, None where they
    must be converted first.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    extent: Extent | None
    _load: Callable[[], Array]

    @property
    def size(self) -> int:
        """The element count."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the loaded array."""
        return self.size * self.dtype.itemsize

    def load(self) -> Array:
        """A C-contiguous array: fresh and writable, or, from `MAPPED_BYTES` on and with an `extent`, mapped and read-only.

        `ModelError` where the file does not hold it (any more).
        """
        return self._load()


@dataclass(frozen=True, slots=True)
class _Element:
    """How elements of one TensorProto.DataType are stored."""

    dtype: np.dtype[Any]
    field: str  # of the values that are not raw bytes
    bits: int  # of one element in raw bytes

    def raw_length(self, size: int) -> int:
        return (size * self.bits + 7) // 8

    def value_count(self, size: int) -> int:
        """The entries in `field`: packed bytes for 2 and 4 bits, pairs for complex numbers."""
        if self.bits in (2, 4):
            return self.raw_length(size)
        return size * 2 if self.dtype.kind == "c" else size


def _element(dtype: Any, field: str, bits: int | None = None) -> _Element:
    found = np.dtype(dtype)
    return _Element(found, field, bits or found.itemsize * 8)


_ELEMENTS: dict[int, _Element] = {
    TensorProto.FLOAT: _element(np.float32, "float_data"),
    TensorProto.UINT8: _element(np.uint8, "int32_data"),
    TensorProto.INT8: _element(np.int8, "int32_data"),
    TensorProto.UINT16: _element(np.uint16, "int32_data"),
    TensorProto.INT16: _element(np.int16, "int32_data"),
    TensorProto.INT32: _element(np.int32, "int32_data"),
    TensorProto.INT64: _element(np.int64, "int64_data"),
    TensorProto.STRING: _element(object, "string_data"),
    TensorProto.BOOL: _element(np.bool_, "int32_data"),
    TensorProto.FLOAT16: _element(np.float16, "int32_data"),
    TensorProto.DOUBLE: _element(np.float64, "double_data"),
    TensorProto.UINT32: _element(np.uint32, "uint64_data"),
    TensorProto.UINT64: _element(np.uint64, "uint64_data"),
    TensorProto.COMPLEX64: _element(np.complex64, "float_data"),
    TensorProto.COMPLEX128: _element(np.complex128, "double_data"),
    TensorProto.BFLOAT16: _element(ml_dtypes.bfloat16, "int32_data"),
    TensorProto.FLOAT8E4M3FN: _element(ml_dtypes.float8_e4m3fn, "int32_data"),
    TensorProto.FLOAT8E4M3FNUZ: _element(ml_dtypes.float8_e4m3fnuz, "int32_data"),
    TensorProto.FLOAT8E5M2: _element(ml_dtypes.float8_e5m2, "int32_data"),
    TensorProto.FLOAT8E5M2FNUZ: _element(ml_dtypes.float8_e5m2fnuz, "int32_data"),
    TensorProto.FLOAT8E8M0: _element(ml_dtypes.float8_e8m0fnu, "int32_data"),
    TensorProto.UINT4: _element(ml_dtypes.uint4, "int32_data", 4),
    TensorProto.INT4: _element(ml_dtypes.int4, "int32_data", 4),
    TensorProto.FLOAT4E2M1: _element(ml_dtypes.float4_e2m1fn, "int32_data", 4),
    TensorProto.UINT2: _element(ml_dtypes.uint2, "int32_data", 2),
    TensorProto.INT2: _element(ml_dtypes.int2, "int32_data", 2),
    TensorProto.FLOAT6E2M3: _element(ml_dtypes.float6_e2m3fn, "int32_data", 6),
    TensorProto.FLOAT6E3M2: _element(ml_dtypes.float6_e3m2fn, "int32_data", 6),
}
_VALUE_TYPES: dict[str, type[np.generic]] = {
    "float_data": np.float32,
    "int32_data": np.int32,
    "int64_data": np.int64,
    "double_data": np.float64,
    "uint64_data": np.uint64,
}
_FIELD_NAMES: dict[int, str] = {
    4: "float_data",
    5: "int32_data",
    7: "int64_data",
    9: "raw_data",
    10: "double_data",
    11: "uint64_data",
}
_FIELD_NUMBERS = {name: number for number, name in _FIELD_NAMES.items()}
_INLINE_FIELDS = (*_VALUE_TYPES, "raw_data", "string_data")


class TensorReader:
    """Makes the `TensorSource` of any TensorProto in one model file."""

    def __init__(self, path: Path, marker: str, payloads: Sequence[Payload]) -> None:
        self.path = path
        self.external = ExternalFolder(path)
        self._marker = marker
        self._payloads = payloads

    def dense(self, proto: TensorProto, what: str) -> TensorSource:
        """The source of a TensorProto; `what` names it in messages where it has no name."""
        require_text(proto.name)
        name = proto.name or what or "(unnamed)"
        element = _ELEMENTS.get(proto.data_type)
        if element is None:
            raise _invalid(name, f"has the element type {proto.data_type}, which the ONNX format does not define")
        shape = tuple(proto.dims)
        if any(d < 0 for d in shape):
            raise _invalid(name, f"has a negative dim in its shape {list(shape)}")
        if proto.HasField("segment"):
            raise _invalid(name, "is stored in segments, which no tool reads")
        stored = [field for field in _INLINE_FIELDS if len(getattr(proto, field))]
        payload = self._payload(proto)
        if payload is not None:
            stored.append(_FIELD_NAMES[payload.field])
        is_external = proto.data_location == TensorProto.EXTERNAL
        if len(stored) + is_external > 1:
            raise _invalid(name, f"holds its data twice: in {' and '.join(stored + ['external data'] * is_external)}")
        return _Storage(self, proto, name, element, shape).source(stored[0] if stored else "", payload, is_external)

    def sparse(self, proto: SparseTensorProto, what: str) -> TensorSource:
        """The source of a sparse tensor, which `load` makes dense (onnx.proto, message SparseTensorProto)."""
        require_text(proto.values.name)
        name = proto.values.name or what or "(unnamed)"
        values, indices = self.dense(proto.values, name), self.dense(proto.indices, f"{name} (indices)")
        shape = tuple(proto.dims)
        count = values.size
        if any(d < 0 for d in shape) or len(values.shape) != 1 or values.dtype == object:
            raise _invalid(name, "is not a valid sparse tensor")
        if indices.dtype != np.int64 or indices.shape not in ((count,), (count, len(shape))):
            raise _invalid(name, f"has {count} values but indices of shape {list(indices.shape)}")
        return TensorSource(name, values.dtype, shape, None, lambda: _densify(name, values, indices, shape))

    def _payload(self, proto: TensorProto) -> Payload | None:
        for entry in proto.metadata_props:
            if entry.key == self._marker:
                return self._payloads[int(entry.value)]
        return None


@dataclass(frozen=True, slots=True)
class _Storage:
    """One TensorProto whose element type and shape are known to be valid."""

    reader: TensorReader
    proto: TensorProto
    name: str
    element: _Element
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def source(self, field: str, payload: Payload | None, is_external: bool) -> TensorSource:
        if is_external:
            return self._raw_in_file(self._external_extent())
        if not field or field == "raw_data":
            if payload is not None:
                return self._raw_in_file((self.reader.path, payload.offset, payload.length))
            self._expect(len(self.proto.raw_data), self.element.raw_length(self.size), "bytes")
            return self._made(None, lambda: self._from_raw(np.frombuffer(self.proto.raw_data, np.uint8)))
        if field != self.element.field:
            label = TensorProto.DataType.Name(self.proto.data_type)
            raise _invalid(self.name, f"keeps its data in {field}, where {label} belongs in {self.element.field}")
        if payload is not None:
            return self._values_in_file(field, payload)
        values = getattr(self.proto, field)
        self._expect(len(values), self.element.value_count(self.size), "values")
        return self._made(None, lambda: self._from_values(values))

    def _raw_in_file(self, extent: Extent) -> TensorSource:
        self._expect(extent[2], self.element.raw_length(self.size), "bytes")
        exact = self.element.bits >= 8 and self.element.dtype != np.bool_ and self.size > 0
        if exact and extent[2] >= MAPPED_BYTES:
            return self._made(extent, lambda: self._map(extent).view(self.element.dtype).reshape(self.shape))
        return self._made(extent if exact else None, lambda: self._from_raw(self._read(extent)))

    def _values_in_file(self, field: str, payload: Payload) -> TensorSource:
        extent = (self.reader.path, payload.offset, payload.length)
        if field in ("float_data", "double_data"):  # fixed-width entries are the array itself
            return self._raw_in_file(extent)

        def load() -> Array:
            message = length_delimited(_FIELD_NUMBERS[field], self._read(extent).tobytes())
            try:
                values = getattr(TensorProto.FromString(message), field)
            except DecodeError as error:
                raise _invalid(self.name, f"has damaged {field}") from error
            self._expect(len(values), self.element.value_count(self.size), "values")
            return self._from_values(values)

        return self._made(None, load)

    def _made(self, extent: Extent | None, load: Callable[[], Array]) -> TensorSource:
        return TensorSource(self.name, self.element.dtype, self.shape, extent, load)

    def _from_raw(self, raw: Array) -> Array:
        dtype, bits = self.element.dtype, self.element.bits
        if bits < 8:
            return _unpack(raw, bits, self.size).view(dtype).reshape(self.shape)
        fresh: Array = raw if raw.flags.writeable else raw.copy()
        if dtype == np.bool_:
            np.not_equal(fresh, 0, out=fresh.view(np.bool_))
        return fresh.view(dtype).reshape(self.shape)

    def _from_values(self, values: Iterable[Any]) -> Array:
        dtype, bits = self.element.dtype, self.element.bits
        count = self.element.value_count(self.size)
        if self.element.field == "string_data":
            strings = np.empty(count, object)
            strings[:] = list(values)
            return strings.reshape(self.shape)
        found: Array = np.fromiter(values, _VALUE_TYPES[self.element.field], count)
        if bits in (2, 4):
            found = _unpack(found.astype(np.uint8), bits, self.size).view(dtype)
        elif dtype == np.bool_:
            found = found != 0
        elif self.element.field == "int32_data" and dtype != np.int32:
            patterns: Array = found.astype(np.uint8 if dtype.itemsize == 1 else np.uint16)
            if bits == 6:
                patterns &= 0x3F
            found = patterns.view(dtype)
        elif dtype == np.uint32:
            found = found.astype(np.uint32)
        else:
            found = found.view(dtype)
        return found.reshape(self.shape)

    def _read(self, extent: Extent) -> Array:
        path, offset, length = extent
        try:
            found: Array = np.fromfile(path, np.uint8, length, offset=offset)
        except OSError as error:
            raise self._unreadable(path, error) from error
        if len(found) != length:
            raise self._shorter(path)
        return found

    def _map(self, extent: Extent) -> Array:
        try:
            return map_bytes(*extent)
        except OSError as error:
            raise self._unreadable(extent[0], error) from error
        except ValueError as error:
            raise self._shorter(extent[0]) from error

    def _unreadable(self, path: Path, error: OSError) -> ModelError:
        return model_error(Code.UNREADABLE_FILE, f"{path} cannot be read: {error.strerror}", tensor=self.name)

    def _shorter(self, path: Path) -> ModelError:
        return model_error(Code.CUT_SHORT, f"{path} became shorter while it was being read", tensor=self.name)

    def _expect(self, found: int, wanted: int, unit: str) -> None:
        if found != wanted:
            label = TensorProto.DataType.Name(self.proto.data_type)
            raise model_error(
                Code.TENSOR_LENGTH,
                f"the tensor {self.name!r} ({label}, shape {list(self.shape)}) needs {wanted} {unit} and has {found}",
                tensor=self.name,
            )

    def _external_extent(self) -> Extent:
        if self.element.dtype == object:
            raise _invalid(self.name, "holds strings, which cannot be external data")
        entries = {entry.key: entry.value for entry in self.proto.external_data}
        location = entries.get("location", "")
        require_text(*entries.values())
        path, file_size = self.reader.external.find(location, self.name)
        wanted = self.element.raw_length(self.size)
        offset, length = self._number(entries, "offset", 0), self._number(entries, "length", wanted)
        problem = ""
        if length != wanted:
            problem = f"says it has {length} bytes in {location!r}, but its shape {list(self.shape)} needs {wanted}"
        elif offset + length > file_size:
            problem = f"ends at byte {offset + length} of {location!r}, which has only {file_size} bytes"
        if problem:
            message = f"the tensor {self.name!r} {problem}"
            raise model_error(Code.EXTERNAL_LENGTH, message, tensor=self.name, location=location)
        return path, offset, length

    def _number(self, entries: dict[str, str], key: str, default: int) -> int:
        text = entries.get(key, str(default))
        if not (text.isascii() and text.isdigit()):
            message = f"the tensor {self.name!r} has external data whose {key} is {text!r}"
            raise model_error(Code.EXTERNAL_INVALID, message, tensor=self.name)
        return int(text)


def _unpack(packed: Array, bits: int, size: int) -> Array:
    """Elements of 2, 4 or 6 bits, the first in the lowest bits, one a byte."""
    if bits == 6:
        lanes = np.unpackbits(packed, bitorder="little", count=size * bits).reshape(size, bits)
        return np.packbits(lanes, axis=1, bitorder="little").reshape(size)
    per_byte = 8 // bits
    found = np.empty(packed.size * per_byte, np.uint8)
    for lane in range(per_byte):
        np.right_shift(packed, bits * lane, out=found[lane::per_byte])
    found &= (1 << bits) - 1
    return found[:size]


def _densify(name: str, values: TensorSource, indices: TensorSource, shape: tuple[int, ...]) -> Array:
    dense = np.zeros(shape, values.dtype)
    positions = indices.load()
    bounds = np.array([dense.size] if positions.ndim == 1 else shape, np.int64)
    if ((positions < 0) | (positions >= bounds)).any():
        raise _invalid(name, f"has an index outside its shape {list(shape)}")
    if positions.ndim == 1:
        dense.reshape(-1)[positions] = values.load()
    else:
        dense[tuple(positions.T)] = values.load()
    return dense


def _invalid(name: str, problem: str) -> ModelError:
    return model_error(Code.INVALID_TENSOR, f"the tensor {name!r} {problem}", tensor=name)
