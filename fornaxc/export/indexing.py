"""Gather, scatter and searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fornaxc.export.context import ExportContext, Tensor
from fornaxc.export.registry import export
from fornaxc.export.shape import input_type
from fornaxc.importers.onnx.types import element_number
from fornaxc.ir.ops import Gather, GatherElements, GatherNd, NonZero, ScatterElements, ScatterNd, TopK
from fornaxc.ir.types import DType


@export(Gather)
def _gather(c: ExportContext, op: Gather, x: Tensor, index: Tensor) -> Tensor:
    return c.emit("Gather", x, index, axis=op.axis)


@export(GatherElements)
def _gather_elements(c: ExportContext, op: GatherElements, x: Tensor, index: Tensor) -> Tensor:
    return c.emit("GatherElements", x, index, axis=op.axis)


@export(GatherNd)
def _gather_nd(c: ExportContext, op: GatherNd, x: Tensor, index: Tensor) -> Tensor:
    return c.emit("GatherND", x, c.cast(index, DType.I64), batch_dims=op.batch_dims)


@export(ScatterElements)
def _scatter_elements(c: ExportContext, op: ScatterElements, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    return _scattered(c, "ScatterElements", op.reduction, x, index, updates, axis=op.axis)


@export(ScatterNd)
def _scatter_nd(c: ExportContext, op: ScatterNd, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    return _scattered(c, "ScatterND", op.reduction, x, c.cast(index, DType.I64), updates)


def _scattered(
    c: ExportContext, op_type: str, reduction: str, x: Tensor, index: Tensor, updates: Tensor, **attributes: Any
) -> Tensor:
    """Reductions of bool are those of 0 and 1; min and max of floats are those of their sort keys, for NaN's sake."""
    if x.dtype is DType.BOOL and reduction != "none":
        x, updates = c.cast(x, DType.I32), c.cast(updates, DType.I32)
        return c.cast(c.emit(op_type, x, index, updates, reduction=reduction, **attributes), DType.BOOL)
    if x.dtype.is_float and reduction in ("min", "max"):
        largest = reduction == "max"
        keys = [sort_key(c, t, nan_is_largest=largest) for t in (x, updates)]
        found = c.emit(op_type, keys[0], index, keys[1], reduction=reduction, **attributes)
        return c.cast(_from_key(c, found), x.dtype)
    return c.emit(op_type, x, index, updates, reduction=reduction, **attributes)


@export(NonZero)
def _non_zero(c: ExportContext, op: NonZero, x: Tensor) -> Tensor:
    if x.dtype is not DType.BOOL:
        wide = c.cast(x, DType.F32) if x.dtype.is_float and x.dtype is not DType.F64 else x
        x = c.emit("Not", c.emit("Equal", wide, c.scalar(0, wide.dtype)))
    if input_type(c).rank:
        return c.emit("NonZero", x, dtype=DType.I64)
    found = c.emit("NonZero", c.reshape(x, [1]), dtype=DType.I64)
    return c.slice(found, c.size(0), c.size(0), [0])


@export(TopK)
def _top_k(c: ExportContext, op: TopK, x: Tensor) -> Sequence[Tensor]:
    """Selected by keys that order as the values do, NaN above all; the values follow by their indices."""
    key = sort_key(c, x, nan_is_largest=True)
    _, index = c.raw(
        "TopK", [key, c.shape([op.k])], (key.dtype, DType.I64), axis=op.axis, largest=int(op.largest), sorted=1
    )
    return c.emit("GatherElements", x, index, axis=op.axis), index


def sort_key(c: ExportContext, x: Tensor, *, nan_is_largest: bool) -> Tensor:
    """Integers (i32 or i64) in the order of the values; equal values have equal keys; NaN is above or below all."""
    if not x.dtype.is_float:
        if x.dtype is DType.U64:
            return c.cast(c.emit("BitwiseXor", x, c.literal(np.array(1 << 63, np.uint64))), DType.I64)
        return c.cast(x, DType.I64 if x.dtype in (DType.U32, DType.I64) else DType.I32)
    wide, bits = (DType.F64, DType.I64) if x.dtype is DType.F64 else (DType.F32, DType.I32)
    x = c.cast(x, wide)
    zero = c.scalar(0, wide)
    plain = c.select(c.emit("Equal", x, zero), zero, x)  # -0 equals 0
    (pattern,) = c.raw("BitCast", [plain], (bits,), to=element_number(bits))
    info = np.iinfo(bits.numpy)
    mirrored = c.emit("BitwiseXor", pattern, c.scalar(int(info.max), bits))
    key = c.select(c.emit("Less", pattern, c.scalar(0, bits)), mirrored, pattern)
    end = c.literal(np.array(info.max if nan_is_largest else info.min, bits.numpy))
    return c.select(c.emit("IsNaN", x), end, key)


def _from_key(c: ExportContext, key: Tensor) -> Tensor:
    """The float (f32 or f64) that has this sort key."""
    dtype = DType.F64 if key.dtype is DType.I64 else DType.F32
    mirrored = c.emit("BitwiseXor", key, c.scalar(int(np.iinfo(key.dtype.numpy).max), key.dtype))
    pattern = c.select(c.emit("Less", key, c.scalar(0, key.dtype)), mirrored, key)
    return c.raw("BitCast", [pattern], (dtype,), to=element_number(dtype))[0]
