"""Reductions and scans. MAX reduces one axis at a time, ignores NaN in max and min, and has wrong identities; on the CPU, our own kernel reduces."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from max.dtype import DType
from max.graph import TensorType, TensorValue, ops

from fornaxc.ir.dims import Dim, product
from fornaxc.ir.ops import ArgReduce, Cumulative, Reduce
from fornaxc.ir.ops.elementwise import integer_range
from fornaxc.ir.types import DType as IrDType
from fornaxc.lowering.context import LoweringContext
from fornaxc.lowering.dtypes import FROM_MAX
from fornaxc.lowering.elementwise import convert, widened
from fornaxc.lowering.registry import lower
from fornaxc.lowering.shape import iota, reshape

T: TypeAlias = TensorValue
_STOCK: dict[str, Callable[[T, int], T]] = {  # in the order of fx_reduce's kinds
    "sum": ops.sum,
    "prod": ops.prod,
    "max": lambda x, axis: ops.max(x, axis=axis),
    "min": lambda x, axis: ops.min(x, axis=axis),
}


@lower(Reduce)
def _reduce(c: LoweringContext, op: Reduce, x: T) -> T:
    assert c.node is not None
    if not op.axes:
        return x
    source, result = c.node.inputs[0].type, c.node.outputs[0].type
    wide = ops.cast(x, DType.uint8) if x.dtype == DType.bool else widened(x)
    merged, dims, axis = _merged(c, wide, source.shape, op.axes)
    if dims[axis] == 0:
        reduced = ops.broadcast_to(_identity(c, op.fn, x.dtype, wide.dtype), c.shape(result.shape))
        return _back(c, reduced, x.dtype)
    if op.fn == "mean":
        reduced = along(c, "sum", merged, dims, axis) / c.dim_scalar(dims[axis], merged.dtype)
    else:
        reduced = along(c, op.fn, merged, dims, axis)
    return _back(c, reshape(c, reduced, result.shape), x.dtype)


def _back(c: LoweringContext, x: T, dtype: DType) -> T:
    return convert(c, x, IrDType.BOOL) if dtype == DType.bool else ops.cast(x, dtype)


def _merged(c: LoweringContext, x: T, dims: Sequence[Dim], axes: Sequence[int]) -> tuple[T, list[Dim], int]:
    """`x` with `axes` merged into one (moved to the end first where they are apart): it, its dims and that axis."""
    first, last = axes[0], axes[-1]
    if last - first + 1 == len(axes):
        merged = [*dims[:first], product([dims[a] for a in axes]), *dims[last + 1 :]]
        return (x if len(axes) == 1 else reshape(c, x, merged)), merged, first
    kept = [i for i in range(len(dims)) if i not in axes]
    merged = [*(dims[i] for i in kept), product([dims[a] for a in axes])]
    return reshape(c, ops.permute(x, [*kept, *axes]), merged), merged, len(kept)


def _identity(c: LoweringContext, fn: str, dtype: DType, computed_in: DType) -> T:
    """What a reduction of no elements gives."""
    if fn in ("sum", "prod", "mean"):
        value: float = {"sum": 0, "prod": 1, "mean": math.nan}[fn]
        return c.scalar(float(value) if computed_in.is_float() else int(value), computed_in)
    if computed_in.is_float():
        return c.scalar(-math.inf if fn == "max" else math.inf, computed_in)
    low, high = (0, 1) if dtype == DType.bool else integer_range(FROM_MAX[dtype])
    return c.scalar(low if fn == "max" else high, computed_in)


def along(c: LoweringContext, fn: str, x: T, dims: Sequence[Dim], axis: int) -> T:
    """sum, prod, max or min of one axis, which stays; NaN if any is. `dims` are those of `x`."""
    if (c.rules or c.kind) != "cpu":
        return _STOCK[fn](x, axis) if fn in ("sum", "prod") else _stock_extreme(c, fn, x, axis, dims[axis])
    outer, inner = product(list(dims[:axis])), product(list(dims[axis + 1 :]))
    flat = reshape(c, x, [outer, dims[axis], inner])
    type = TensorType(x.dtype, c.shape([outer, 1, inner]), c.device)
    (found,) = c.custom("fx_reduce", [flat], [type], kind=list(_STOCK).index(fn))
    return reshape(c, found, [*dims[:axis], 1, *dims[axis + 1 :]])


def _stock_extreme(c: LoweringContext, fn: str, x: T, axis: int, size: Dim) -> T:
    result = _STOCK[fn](x, axis)
    if x.dtype.is_float():
        none = c.scalar(0.0, DType.float32)
        least = _identity(c, fn, x.dtype, x.dtype)
        other = ops.max(ops.cast(ops.logical_not(ops.equal(x, least)), DType.float32), axis=axis)
        result = ops.where(ops.equal(other, none), least, result)  # MAX starts from the largest finite number
        spoiled = ops.max(ops.cast(ops.is_nan(x), DType.float32), axis=axis)
        result = ops.where(ops.greater(spoiled, none), c.scalar(math.nan, x.dtype), result)
    if not isinstance(size, int):
        empty = ops.equal(c.dim_scalar(size, DType.int64), c.scalar(0, DType.int64))
        result = ops.where(empty, _identity(c, fn, x.dtype, x.dtype), result)
    return result


@lower(ArgReduce)
def _arg_reduce(c: LoweringContext, op: ArgReduce, x: T) -> T:
    """The extreme, then the least index that holds it: MAX's own ignores NaN, and promises no order on GPUs."""
    assert c.node is not None
    dims = c.node.inputs[0].type.shape
    size = dims[op.axis]
    wide = ops.cast(x, DType.uint8) if x.dtype == DType.bool else widened(x)
    extreme = along(c, op.fn, wide, dims, op.axis)
    hit = ops.equal(wide, extreme)
    if wide.dtype.is_float():
        hit = ops.logical_or(hit, ops.is_nan(wide))
    index = iota(c, size)
    index = ops.reshape(index, [index.shape[0] if i == op.axis else 1 for i in range(x.rank)])
    if op.last:
        return along(c, "max", ops.where(hit, index, c.scalar(-1, DType.int64)), dims, op.axis)
    return along(c, "min", ops.where(hit, index, c.dim_scalar(size, DType.int64)), dims, op.axis)


@lower(Cumulative, on="cpu")
def _cumulative(c: LoweringContext, op: Cumulative, x: T) -> T:
    assert c.node is not None
    dims = c.node.inputs[0].type.shape
    outer, inner = product(dims[: op.axis]), product(dims[op.axis + 1 :])
    flat = reshape(c, widened(x), [outer, dims[op.axis], inner])
    (result,) = c.custom(
        "fx_cumulative",
        [flat],
        [TensorType(flat.dtype, flat.shape, c.device)],
        prod=int(op.fn == "prod"),
        exclusive=int(op.exclusive),
        reverse=int(op.reverse),
    )
    return ops.cast(reshape(c, result, dims), x.dtype)


@lower(Cumulative, on="gpu")
def _cumulative_stock(c: LoweringContext, op: Cumulative, x: T) -> T:
    if op.fn == "sum":
        return ops.cast(ops.cumsum(widened(x), op.axis, op.exclusive, op.reverse), x.dtype)
    return ops.cast(_running_product(c, op, widened(x)), x.dtype)


def _running_product(c: LoweringContext, op: Cumulative, x: T) -> T:
    """Doubling: after step s each element holds the product of the last 2^s. The axis is static (`support` says so)."""
    size = int(x.shape[op.axis])
    one = ops.broadcast_to(c.scalar(1.0 if x.dtype.is_float() else 1, x.dtype), x.shape)
    if size and op.exclusive:
        x = _shifted(x, one, op.axis, 1, op.reverse)
    distance = 1
    while distance < size:
        x = x * _shifted(x, one, op.axis, distance, op.reverse)
        distance *= 2
    return x


def _shifted(x: T, fill: T, axis: int, distance: int, reverse: bool) -> T:
    size = int(x.shape[axis])

    def cut(tensor: T, start: int, stop: int) -> T:
        return ops.slice_tensor(tensor, [slice(start, stop) if i == axis else slice(None) for i in range(x.rank)])

    if reverse:
        return ops.concat([cut(x, distance, size), cut(fill, 0, distance)], axis)
    return ops.concat([cut(fill, 0, distance), cut(x, 0, size - distance)], axis)
