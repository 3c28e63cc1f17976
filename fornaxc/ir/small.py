"""Element types that only conversions know (`DType.is_small`): how their tensors are stored, and what needs no arithmetic."""

from __future__ import annotations

import numpy as np

from fornaxc.ir.graph import Array
from fornaxc.ir.ops import (
    Bitcast,
    BroadcastTo,
    Cast,
    Concat,
    DynamicBroadcast,
    DynamicReshape,
    DynamicSlice,
    Gather,
    GatherElements,
    GatherNd,
    If,
    Iota,
    Op,
    Pad,
    Rebind,
    Reshape,
    ScatterElements,
    ScatterNd,
    Select,
    Slice,
    StridedSlice,
    Transpose,
    While,
)
from fornaxc.ir.types import DType

_DIRECT = (
    Bitcast,
    BroadcastTo,
    Cast,
    Concat,
    DynamicBroadcast,
    DynamicReshape,
    DynamicSlice,
    Gather,
    GatherElements,
    GatherNd,
    If,
    Iota,
    Pad,
    Rebind,
    Reshape,
    Select,
    Slice,
    StridedSlice,
    Transpose,
    While,
)


def is_direct(op: Op) -> bool:
    """Whether `op` moves or converts elements and so works on small types as they are stored."""
    if isinstance(op, ScatterElements | ScatterNd):
        return op.reduction == "none"
    return isinstance(op, _DIRECT)


def stored(array: Array, dtype: DType) -> Array:
    """`array` as a compiled program holds it: one element a byte, the value of an integer, the bits of a float. Other types stay."""
    if not dtype.is_small:
        return array
    if dtype.is_integer:
        return array.astype(np.int8 if dtype.is_signed else np.uint8)
    return np.ascontiguousarray(array).view(np.uint8).reshape(array.shape)


def restored(array: Array, dtype: DType) -> Array:
    """The inverse of `stored`."""
    if not dtype.is_small:
        return array
    return array.astype(dtype.numpy) if dtype.is_integer else array.view(dtype.numpy)
