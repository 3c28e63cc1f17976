"""Constants, and tensors made from sizes."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

from fornaxc.importers.onnx.context import Invalid, NodeContext, Refused
from fornaxc.importers.onnx.graph import LITERAL_ELEMENTS
from fornaxc.importers.onnx.registry import Item, onnx_op
from fornaxc.importers.onnx.tensors import TensorSource
from fornaxc.ir import compose as c
from fornaxc.ir.dims import Dim, DimExpr, ceildiv, dim_max
from fornaxc.ir.graph import Array, Value
from fornaxc.ir.ops import DynamicBroadcast, DynamicRange, Iota
from fornaxc.ir.types import DType, TensorType, dtype_of

_LISTS = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}


@onnx_op("Constant", 1, 9, 11, 12, 13, 19, 21, 23, 24, 25)
def constant(ctx: NodeContext) -> Value:
    """One of the attributes value, sparse_value, value_int(s) and value_float(s)."""
    given = sorted(ctx.node.attributes)
    ctx.require(len(given) == 1, f"a Constant needs one value, not {len(given)} attributes")
    (kind,) = given
    name = ctx.node.outputs[0]
    if kind in ("value", "sparse_value"):
        return ctx.importer.constant(name, ctx.tensor(kind))
    if kind not in _LISTS:
        raise Refused(f"a Constant given by {kind}")
    array = np.array(ctx.attribute(kind), _LISTS[kind])
    source = TensorSource(name, array.dtype, array.shape, None, array.copy)
    return ctx.importer.constant(name, source)


@onnx_op("ConstantOfShape", 9, 20, 21, 23, 24, 25)
def constant_of_shape(ctx: NodeContext) -> Value:
    """A tensor of the given shape that holds the one element of `value` (f32 0 by default)."""
    b = ctx.b
    fill = ctx.tensor("value").load() if ctx.has("value") else np.zeros(1, np.float32)
    ctx.require(fill.size == 1, f"the value has {fill.size} elements, not 1")
    try:
        dtype_of(fill.dtype)
    except KeyError:
        raise Refused(f"a tensor of {fill.dtype}") from None
    value = b.literal(fill.reshape(()))
    shape = ctx.dims_or_none(0)
    if shape is not None:
        ctx.require(
            all(not isinstance(d, int) or d >= 0 for d in shape), f"the shape {list(shape)} has a negative size"
        )
        return c.expand(b, value, shape)
    sizes = ctx.input(0)
    (rank,) = sizes.type.shape
    if not isinstance(rank, int):
        raise Refused("the rank of the result depends on the run-time sizes")
    result = tuple(b.fresh_dim() for _ in range(rank))
    return b.emit(DynamicBroadcast(result), c.reshape(b, value, (1,) * rank), c.cast(b, sizes, DType.I64))


@onnx_op("Identity", 1, 13, 14, 16, 19, 21, 23, 24, 25)
def identity(ctx: NodeContext) -> Item:
    item = ctx.item(0)
    return ctx.input(0) if item is None else item


@onnx_op("EyeLike", 9, 22)
def eye_like(ctx: NodeContext) -> Value:
    """Ones where column - row == k."""
    b, x = ctx.b, ctx.input(0)
    ctx.require(x.type.rank == 2, f"EyeLike of {x.type}, which is no matrix")
    dtype = ctx.dtype("dtype") if ctx.has("dtype") else x.type.dtype
    column, row = (b.emit(Iota(x.type.shape, axis, DType.I64)) for axis in (1, 0))
    diagonal = c.compare(b, "eq", column, c.with_scalar(b, "add", row, ctx.int("k", 0)))
    return c.cast(b, diagonal, dtype)


@onnx_op("Range", 11)
def range_(ctx: NodeContext) -> Value:
    return _range(ctx, ctx.input(0).type.dtype)


@onnx_op("Range", 27)
def range_stashed(ctx: NodeContext) -> Value:
    """f16 and bf16 are computed in f32 unless stash_type says otherwise."""
    dtype = ctx.input(0).type.dtype
    stash = ctx.element_type(ctx.int("stash_type", 1))
    return _range(ctx, stash if dtype in (DType.F16, DType.BF16) else dtype)


def _range(ctx: NodeContext, dtype: DType) -> Value:
    """start + i * delta in `dtype`, for max(0, ceil((limit - start) / delta)) elements."""
    b = ctx.b
    start, limit, delta = (c.cast(b, c.reshape(b, ctx.input(i), ()), dtype) for i in range(3))
    size = _range_size([ctx.content(ctx.input(i)) for i in range(3)])
    if size is None:
        result = b.emit(DynamicRange(b.fresh_dim()), start, limit, delta)
    elif isinstance(size, int) and size <= LITERAL_ELEMENTS and dtype.is_integer and b.known(start) is not None:
        numbers = b.literal(np.arange(size).astype(dtype.numpy))
        result = c.binary(b, "add", c.binary(b, "mul", numbers, delta), start)
    else:
        result = b.emit(Iota((size,), 0, dtype))
        if not _is(b.known(delta), 1):
            result = c.binary(b, "mul", result, delta)
        if not _is(b.known(start), 0):
            result = c.binary(b, "add", result, start)
    return c.cast(b, result, ctx.input(0).type.dtype)


def _is(content: Array | None, number: int) -> bool:
    return content is not None and content.dtype != object and content.item() == number


def _range_size(bounds: Sequence[Array | None]) -> Dim | None:
    if any(a is None for a in bounds):
        return None
    start, limit, delta = (a.reshape(()).item() for a in bounds if a is not None)
    if isinstance(delta, DimExpr):
        return None
    if delta == 0:
        raise Invalid("a Range with delta 0")
    if isinstance(start, float):
        return int(max(0, ceil((limit - start) / delta)))
    distance: Dim = limit - start if delta > 0 else start - limit
    return dim_max(ceildiv(distance, abs(delta)), 0)


@onnx_op("OneHot", 9)
def one_hot_wide(ctx: NodeContext) -> Value:
    """Every index below 0 or from depth on gives a row of off values."""
    return _one_hot(ctx, wraps=False)


@onnx_op("OneHot", 11, 28)
def one_hot(ctx: NodeContext) -> Value:
    """Indices from -depth on count from the end; those outside give a row of off values."""
    return _one_hot(ctx, wraps=True)


def _one_hot(ctx: NodeContext, wraps: bool) -> Value:
    b = ctx.b
    index = c.cast(b, ctx.input(0), DType.I64)
    rank = index.type.rank + 1
    axis = ctx.axis(ctx.int("axis", -1), rank)
    depth = c.cast(b, c.reshape(b, ctx.input(1), ()), DType.I64)
    known = ctx.content(ctx.input(1))
    if known is not None:
        size = known.reshape(()).item()
        size = size if isinstance(size, DimExpr) else int(size)
        depth = c.reshape(b, b.dims((size,)), ())
        places = b.emit(Iota((size,), 0, DType.I64))
    else:
        places = b.emit(DynamicRange(b.fresh_dim()), c.scalar(b, 0, DType.I64), depth, c.scalar(b, 1, DType.I64))
    if wraps:
        negative = c.compare(b, "lt", index, c.scalar(b, 0, DType.I64))
        index = c.select(b, negative, c.binary(b, "add", index, depth), index)
    index = c.unsqueeze(b, index, (axis,))
    places = c.reshape(b, places, [places.type.shape[0] if i == axis else 1 for i in range(rank)])
    off, on = (c.reshape(b, c.slice_axis(b, ctx.input(2), 0, i, 1), ()) for i in (0, 1))
    return c.select(b, c.compare(b, "eq", index, places), on, off)


@onnx_op("Shape", 1, 13)
def shape(ctx: NodeContext) -> Value:
    return ctx.b.dims(ctx.input(0).type.shape)


@onnx_op("Shape", 15, 19, 21, 23, 24, 25)
def shape_slice(ctx: NodeContext) -> Value:
    """The sizes from axis start to axis end, which count from the end where negative and clamp."""
    x = ctx.input(0)
    end = ctx.int("end") if ctx.has("end") else None
    return ctx.b.dims(x.type.shape[slice(ctx.int("start", 0), end)])


@onnx_op("Size", 1, 13, 19, 21, 23, 24, 25)
def size(ctx: NodeContext) -> Value:
    return c.reshape(ctx.b, ctx.b.dims((ctx.input(0).type.elements,)), ())


@onnx_op("Trilu", 14)
@onnx_op("Trilu", 1, domain="com.microsoft")
def trilu(ctx: NodeContext) -> Value:
    """The part of each matrix on and above (upper) or below the diagonal k; zeros elsewhere."""
    b, x = ctx.b, ctx.input(0)
    ctx.require(x.type.rank >= 2, f"Trilu of {x.type}, which is no matrix")
    matrix = TensorType(DType.I64, x.type.shape[-2:])
    offset = c.scalar(b, 0, DType.I64) if ctx.optional(1) is None else c.reshape(b, ctx.input(1), ())
    column, row = (b.emit(Iota(matrix.shape, axis, DType.I64)) for axis in (1, 0))
    kept = c.compare(b, "ge" if ctx.int("upper", 1) else "le", c.binary(b, "sub", column, row), offset)
    return c.select(b, kept, x, c.scalar(b, 0, x.type.dtype))
