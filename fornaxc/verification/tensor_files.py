"""Named arrays in files of several formats: .npz, safetensors, and ONNX TensorProto (.pb)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fornaxc.errors import UsageError
from fornaxc.ir.graph import Array
from fornaxc.ir.types import dtype_of
from fornaxc.npz import load_npz
from fornaxc.weights import SAFETENSORS_NAMES

ENDINGS = (".npz", ".safetensors", ".pb")
_MOST_HEADER = 100_000_000  # bytes; the limit of the format
_TYPES = {name: dtype for dtype, name in SAFETENSORS_NAMES.items()}


def load_arrays(path: Path, what: str) -> dict[str, Array]:
    """The arrays of the file that is called the `what` file; a .pb file holds one, by the tensor's name or else the file's.

    Raises UsageError: FX223 where it does not exist, FX224 where it is not of the format that its name says.
    """
    readers: dict[str, Callable[[Path, str], dict[str, Array]]] = {".safetensors": _safetensors, ".pb": _pb}
    return readers.get(path.suffix.lower(), load_npz)(path, what)


def _pb(path: Path, what: str) -> dict[str, Array]:
    name, array = load_tensor(path, what)
    return {name or path.stem: array}


def load_tensor(path: Path, what: str) -> tuple[str, Array]:
    """The name, perhaps empty, and the array of a file that holds one serialised TensorProto. Raises UsageError as `load_arrays`."""
    from onnx import TensorProto, numpy_helper

    data = _bytes(path, what)
    try:
        tensor = TensorProto.FromString(data)
        if tensor.data_location == TensorProto.EXTERNAL or tensor.data_type in (
            TensorProto.UNDEFINED,
            TensorProto.STRING,
        ):
            raise ValueError("it is not a tensor of numbers, or its numbers are elsewhere")
        array = numpy_helper.to_array(tensor)
        dtype_of(array.dtype)
    except Exception as error:  # protobuf, numpy and onnx raise many kinds
        raise UsageError(
            f"the {what} file {path} is not a serialised TensorProto of numbers: {error}", code="FX224"
        ) from None
    return tensor.name, array


def _safetensors(path: Path, what: str) -> dict[str, Array]:
    data = _bytes(path, what)
    try:
        length = int.from_bytes(data[:8], "little")
        if len(data) < 8 or length > min(_MOST_HEADER, len(data) - 8):
            raise ValueError("its header is longer than the file")
        header = json.loads(data[8 : 8 + length])
        content = memoryview(data)[8 + length :]
        return {name: _tensor(name, entry, content) for name, entry in header.items() if name != "__metadata__"}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"the {what} file {path} is not a readable safetensors file: {error}", code="FX224") from None


def _tensor(name: str, entry: Mapping[str, Any], content: memoryview) -> Array:
    dtype = _TYPES.get(entry["dtype"])
    if dtype is None:
        raise ValueError(f"{name!r} has the element type {entry['dtype']!r}")
    shape: Sequence[int] = entry["shape"]
    first, last = entry["data_offsets"]
    size = math.prod(shape) * dtype.numpy.itemsize
    if min(shape, default=0) < 0 or not 0 <= first <= last <= len(content) or last - first != size:
        raise ValueError(f"the bytes of {name!r} are not those of its shape")
    return np.ndarray(shape, dtype.numpy, content[first:last])


def _bytes(path: Path, what: str) -> bytes:
    if path.exists() and not path.is_file():
        raise UsageError(f"the {what} file {path} is not an ordinary file", code="FX224")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"the {what} file {path} does not exist", code="FX223") from None
    except OSError as error:
        raise UsageError(f"the {what} file {path} cannot be read: {error.strerror}", code="FX224") from None
