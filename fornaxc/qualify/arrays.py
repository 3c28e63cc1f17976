"""Arrays of any element type in two files: their types as JSON, their bytes as they are."""

from __future__ import annotations

import json
import mmap
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fornaxc.ir.graph import Array
from fornaxc.ir.types import DType, dtype_of


def write_arrays(path: Path, arrays: Sequence[Array]) -> None:
    """Write the types to PATH.json and the bytes to PATH.bin. KeyError for an element type that the IR lacks."""
    types = [[dtype_of(a.dtype).value, list(a.shape)] for a in arrays]
    path.with_suffix(".bin").write_bytes(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))
    path.with_suffix(".json").write_text(json.dumps(types))


def read_arrays(path: Path) -> list[Array]:
    """The inverse of `write_arrays`; the bytes stay in the file until they are used."""
    with path.with_suffix(".bin").open("rb") as file:
        empty = file.seek(0, 2) == 0  # such a file cannot be mapped
        data = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    at, arrays = 0, []
    for name, shape in json.loads(path.with_suffix(".json").read_text()):
        dtype = DType(name).numpy
        count = int(np.prod(shape, dtype=np.int64))
        arrays.append(np.frombuffer(data, dtype, count, at).reshape(shape))
        at += count * dtype.itemsize
    return arrays
