"""Dense MLIR attributes as numpy arrays, for every element type."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from fornaxc.importers.stablehlo.types import TensorInfo
from fornaxc.ir.graph import Array
from fornaxc.ir.types import DType

_TOKEN = re.compile(r"true|false|[-+]?0x[0-9A-Fa-f]+|[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|inf|nan)")


class Unreadable(Exception):
    """A constant whose content is not in the module."""


_RESOURCE = re.compile(r"dense_resource<(.+?)>")


def resource_array(attribute: Any, info: TensorInfo, module: Any) -> list[Array]:
    """The content of a `dense_resource` attribute, whose bytes stand at the end of the module. `Unreadable` where they do not."""
    named = _RESOURCE.search(str(attribute))
    if named is None:
        raise Unreadable(f"the constant {str(attribute)[:60]} has no known form")
    found = re.search(rf'\b{re.escape(named.group(1))}: "0x([0-9A-Fa-f]*)"', module.get_asm(enable_debug_info=False))
    if found is None:
        raise Unreadable(f"the constant {named.group(1)!r} has no content in the module")
    data = bytes.fromhex(found.group(1))[4:]  # the alignment comes first
    shape = tuple(int(str(d)) for d in info.shape)
    count = 2 if info.complex else 1
    if len(data) != int(np.prod(shape, dtype=np.int64)) * count * info.dtype.numpy.itemsize:
        raise Unreadable(f"the constant {named.group(1)!r} does not have the bytes of its type")
    pairs = _from_bytes(data, info.dtype).reshape(-1, count)
    return [np.ascontiguousarray(pairs[:, i]).reshape(shape) for i in range(count)]


def dense_array(attribute: Any, info: TensorInfo) -> list[Array]:
    """The content of a dense attribute: one array, or for complex numbers the real and the imaginary one."""
    from jaxlib.mlir import ir

    shape = tuple(int(str(d)) for d in info.shape)
    direct = info.dtype in _BUFFERED and not info.complex
    if direct and isinstance(attribute, ir.DenseFPElementsAttr | ir.DenseIntElementsAttr):
        array = np.array(attribute).astype(info.dtype.numpy, copy=False)
        return [np.ascontiguousarray(array).reshape(shape)]
    return text_arrays(str(attribute), info, shape)


_BUFFERED = {
    *(DType.BOOL, DType.I8, DType.I16, DType.I32, DType.I64, DType.U8, DType.U16, DType.U32, DType.U64),
    *(DType.F16, DType.F32, DType.F64),
}


def text_arrays(text: str, info: TensorInfo, shape: tuple[int, ...]) -> list[Array]:
    """The content of a printed `dense<...>`. Raises `Unreadable` for any other attribute."""
    start = text.find("dense<")
    if start < 0 or text.find("dense_resource<") in range(start + 1):
        raise Unreadable(f"the constant {text[:60]} keeps its content outside the module")
    body = text[start + len("dense<") : text.find("> : tensor", start)]
    count = 2 if info.complex else 1
    size = int(np.prod(shape, dtype=np.int64)) * count
    if body.startswith('"0x'):
        flat = _from_bytes(bytes.fromhex(body[3 : body.index('"', 1)]), info.dtype)
    else:
        tokens = _TOKEN.findall(body)
        flat = np.array([_number(token, info.dtype) for token in tokens], info.dtype.numpy)
    if flat.size != size:  # a splat
        flat = np.tile(flat, size // count) if flat.size == count else flat
    pairs = flat.reshape(-1, count)
    return [np.ascontiguousarray(pairs[:, i]).reshape(shape) for i in range(count)]


def _from_bytes(data: bytes, dtype: DType) -> Array:
    """Elements from raw bytes, in which those narrower than a byte take one each."""
    if dtype.is_integer and dtype.bits < 8:
        return np.frombuffer(data, np.int8 if dtype.is_signed else np.uint8).astype(dtype.numpy)
    return np.frombuffer(data, dtype.numpy)


def _number(token: str, dtype: DType) -> Any:
    if token in ("true", "false"):
        return token == "true"
    if "0x" in token:
        value = int(token, 16)
        if not dtype.is_float:
            return value
        unsigned = np.dtype(f"u{max(dtype.numpy.itemsize, 1)}")
        return np.array(value, unsigned).view(dtype.numpy)[()]
    return np.float64(token).astype(dtype.numpy) if dtype.is_float else int(token)
