"""Packed weights: written once, one tensor at a time, as a safetensors file; read memory-mapped.

Tensors are named w0, w1, ... in the order of the program, aligned to 64 bytes by padding entries. Element types that
safetensors has no name for are stored as bytes (U8); the program's own types say what they are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from fornaxc.errors import ModelError
from fornaxc.ir.dims import static
from fornaxc.ir.graph import Array, Constant, Graph
from fornaxc.ir.types import DType, TensorType
from fornaxc.mapping import contiguous, map_bytes, release_pages

ALIGNMENT = 64
PART_BYTES = 1 << 26  # written at a time
SAFETENSORS_NAMES = {
    DType.BOOL: "BOOL",
    DType.I8: "I8",
    DType.I16: "I16",
    DType.I32: "I32",
    DType.I64: "I64",
    DType.U8: "U8",
    DType.U16: "U16",
    DType.U32: "U32",
    DType.U64: "U64",
    DType.F16: "F16",
    DType.BF16: "BF16",
    DType.F32: "F32",
    DType.F64: "F64",
    DType.F8E4M3FN: "F8_E4M3",
    DType.F8E5M2: "F8_E5M2",
}


def weight_constants(graph: Graph) -> list[Constant]:
    """The weights of a program in their order: those of the graph and, where they stand, those of its regions."""
    found = [c for c in graph.constants.values() if not c.literal]
    for node in graph.nodes:
        for region in node.regions:
            found += weight_constants(region)
    return found


def write_weights(file: BinaryIO, weights: Sequence[Constant]) -> None:
    """Write the tensors of `weights`, one at a time and large ones by parts. `ModelError` where one does not have its type."""
    header: dict[str, object] = {}
    offset = 0
    for number, weight in enumerate(weights):
        size = weight.type.nbytes
        header[f"w{number}"] = {
            "dtype": SAFETENSORS_NAMES.get(weight.type.dtype, "U8"),
            "shape": list(weight.type.shape),
            "data_offsets": [offset, offset + size],
        }
        offset += size
        gap = -offset % ALIGNMENT
        if gap:
            header[f"pad{number}"] = {"dtype": "U8", "shape": [gap], "data_offsets": [offset, offset + gap]}
            offset += gap
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % ALIGNMENT)
    file.write(len(text).to_bytes(8, "little") + text)
    for weight in weights:
        count = 0
        for part in weight.parts() if weight.parts is not None else _parts(weight):
            file.write(contiguous(part).reshape(-1).view(np.uint8).data)
            release_pages(part)
            count += part.size
        if count != math.prod(static(d) for d in weight.type.shape):
            raise _not_its_type(weight, f"{count} elements")
        file.write(b"\0" * (-weight.type.nbytes % ALIGNMENT))


def _parts(weight: Constant) -> Iterator[Array]:
    """The elements of a weight in their order, in views of at most `PART_BYTES`."""
    array = weight.load()
    if array.dtype != weight.type.dtype.numpy or array.shape != tuple(weight.type.shape):
        raise _not_its_type(weight, f"{array.dtype} {list(array.shape)}")
    yield from _cut(array.reshape(-1) if array.flags.c_contiguous else array)


def _cut(array: Array) -> Iterator[Array]:
    if array.nbytes <= PART_BYTES:
        yield array
        return
    rows = PART_BYTES * len(array) // array.nbytes
    if not rows:
        for row in array:
            yield from _cut(row)
        return
    for first in range(0, len(array), rows):
        yield array[first : first + rows]


def _not_its_type(weight: Constant, found: str) -> ModelError:
    return ModelError(f"the constant {weight.name!r} holds {found}, not {weight.type}", code="FX430")


def read_weights(path: Path, offset: int, types: Sequence[TensorType]) -> list[Array]:
    """The tensors w0, w1, ... of the safetensors data at `offset` of a file, memory-mapped, read-only."""
    if not types:
        return []
    data = map_bytes(path, 0, path.stat().st_size)
    length = int.from_bytes(data[offset : offset + 8].tobytes(), "little")
    header = json.loads(data[offset + 8 : offset + 8 + length].tobytes())
    base = offset + 8 + length
    arrays = []
    for number, type in enumerate(types):
        first, last = header[f"w{number}"]["data_offsets"]
        flat = data[base + first : base + last]
        array = flat.view(type.dtype.numpy).reshape(tuple(static(d) for d in type.shape))
        arrays.append(array if base % ALIGNMENT == 0 else array.copy())  # another zip tool may have moved the bytes
    return arrays
