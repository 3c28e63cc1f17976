"""Reductions and scans."""

from __future__ import annotations

import numpy as np

from fornaxc.export.context import ExportContext, Tensor
from fornaxc.export.indexing import sort_key
from fornaxc.export.registry import export
from fornaxc.export.shape import input_type
from fornaxc.ir.ops import ArgReduce, Cumulative, Reduce
from fornaxc.ir.ops.elementwise import integer_range
from fornaxc.ir.types import DType

_NAMES = {"sum": "ReduceSum", "prod": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}


@export(Reduce)
def _reduce(c: ExportContext, op: Reduce, x: Tensor) -> Tensor:
    if not op.axes:
        return c.emit("Identity", x)
    axes = c.literal(np.array(op.axes, np.int64))
    if op.fn == "mean":
        return _mean(c, op, x, axes)
    if op.fn in ("sum", "prod") and x.dtype.is_integer:
        return _wrapping(c, op, x)
    if op.fn in ("sum", "prod"):
        return c.emit(_NAMES[op.fn], x, axes, keepdims=1)
    spoiled = c.emit("IsNaN", x) if x.dtype.is_float else None
    dims = input_type(c).shape
    if any(not isinstance(dims[a], int) or dims[a] == 0 for a in op.axes):
        x = _with_identity(c, op, x)
    result = c.emit(_NAMES[op.fn], x, axes, keepdims=1)
    if spoiled is None:
        return result
    count = c.emit("ReduceSum", c.cast(spoiled, DType.I64), axes, keepdims=1)
    return c.select(c.emit("Greater", count, c.scalar(0, DType.I64)), c.scalar(np.nan, x.dtype), result)


def _wrapping(c: ExportContext, op: Reduce, x: Tensor) -> Tensor:
    """The last of the running sums or products of each axis, after one more neutral element: onnxruntime's reductions saturate."""
    rank = input_type(c).rank
    end = c.literal(np.array([np.iinfo(np.int64).max]))
    name, neutral = ("CumSum", 0) if op.fn == "sum" else ("CumProd", 1)
    for axis in op.axes:
        pads = [0] * (2 * rank)
        pads[rank + axis] = 1
        x = c.emit("Pad", x, c.shape(pads), c.scalar(neutral, x.dtype), mode="constant")
        x = c.slice(c.emit(name, x, c.scalar(axis, DType.I64)), c.size(-1), end, [axis])
    return x


def _mean(c: ExportContext, op: Reduce, x: Tensor, axes: Tensor) -> Tensor:
    wide = x.dtype if x.dtype is DType.F64 else DType.F32
    total = c.emit("ReduceSum", c.cast(x, wide), axes, keepdims=1)
    dims = input_type(c).shape
    count = c.reshape(c.elements([dims[a] for a in op.axes]), [])
    return c.cast(c.emit("Div", total, c.cast(count, wide)), x.dtype)


def identity(fn: str, dtype: DType) -> float | int | bool:
    """What max and min of no elements give."""
    if dtype is DType.BOOL:
        return fn == "min"
    if dtype.is_float:
        return -np.inf if fn == "max" else np.inf
    return integer_range(dtype)[0 if fn == "max" else 1]


def _with_identity(c: ExportContext, op: Reduce, x: Tensor) -> Tensor:
    """`x` with one more element on each reduced axis, which changes no extreme and gives that of nothing."""
    assert c.node is not None
    fill = c.literal(np.array(identity(op.fn, x.dtype)).astype(x.dtype.numpy))
    rank = input_type(c).rank
    ends = [0] * rank + [1 if i in op.axes else 0 for i in range(rank)]
    return c.emit("Pad", x, c.shape(ends), fill, mode="constant")


@export(ArgReduce)
def _arg_reduce(c: ExportContext, op: ArgReduce, x: Tensor) -> Tensor:
    key = sort_key(c, x, nan_is_largest=op.fn == "max")
    name = "ArgMax" if op.fn == "max" else "ArgMin"
    return c.emit(name, key, dtype=DType.I64, axis=op.axis, keepdims=1, select_last_index=int(op.last))


@export(Cumulative)
def _cumulative(c: ExportContext, op: Cumulative, x: Tensor) -> Tensor:
    name = "CumSum" if op.fn == "sum" else "CumProd"
    axis = c.scalar(op.axis, DType.I64)
    return c.emit(name, x, axis, exclusive=int(op.exclusive), reverse=int(op.reverse))
