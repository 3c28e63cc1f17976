"""Sizes and axes that only the run time knows: what an operator needs to be told of them, computed by the program itself.

Axes are i64[k], possibly negative; a mask is bool[rank]. Sizes that a value holds become dims of their own, so that handlers can
work with them as with any symbolic size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fornaxc.importers.onnx.context import NodeContext, Refused
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import (
    Binary,
    Cumulative,
    DynamicReshape,
    Gather,
    Iota,
    Select,
    StridedSlice,
    TopK,
)
from fornaxc.ir.types import DType

FAR = np.iinfo(np.int64).max


def entries(ctx: NodeContext, value: Value, what: str) -> int:
    """How many entries a tensor of rank 1 (or 0) has; `Refused` where that depends on the input sizes."""
    ctx.require(value.type.rank <= 1, f"{what} must have rank 1, not {value.type}")
    (size,) = value.type.shape or (1,)
    if not isinstance(size, int):
        raise Refused(f"the number of entries in {what} depends on the run-time sizes")
    return size


def vector(b: GraphBuilder, value: Value) -> Value:
    """A tensor of integers of rank 1 or 0 as i64 of rank 1."""
    return c.cast(b, c.reshape(b, value, value.type.shape or (1,)), DType.I64)


def entry(b: GraphBuilder, values: Value, index: int) -> Value:
    """One element of a vector, as a vector of one."""
    return c.slice_axis(b, values, 0, index, 1)


def bind_sizes(b: GraphBuilder, sizes: Value) -> tuple[Dim, ...]:
    """New dims that equal the entries of i64[k]. A negative entry stops the run.

    Tensors without elements give them their names.
    """
    (length,) = sizes.type.shape
    assert isinstance(length, int)
    dims: list[Dim] = []
    nothing = c.slice_axis(b, sizes, 0, 0, 0)
    for index in range(length):
        dims.append(b.fresh_dim())
        shape = c.concat(b, [b.dims((0,)), entry(b, sizes, index)], 0)
        b.emit(DynamicReshape((0, dims[-1])), nothing, shape)
    return tuple(dims)


def sizes_input(ctx: NodeContext, index: int, what: str) -> tuple[Dim, ...]:
    """The entries of an integer input, which are never negative, as dims; new ones where only the run time knows them."""
    known = ctx.dims_or_none(index)
    if known is not None:
        return known
    entries(ctx, ctx.input(index), what)
    return bind_sizes(ctx.b, vector(ctx.b, ctx.input(index)))


def normalized(b: GraphBuilder, axes: Value, rank: int) -> Value:
    """Axes counted from the front."""
    negative = c.compare(b, "lt", axes, c.scalar(b, 0, DType.I64))
    return c.select(b, negative, c.with_scalar(b, "add", axes, rank), axes)


def _hits(b: GraphBuilder, axes: Value, rank: int) -> Value:
    """bool[k, rank]: which axis each entry names."""
    row = b.literal(np.arange(rank, dtype=np.int64)[None])
    return c.compare(b, "eq", c.unsqueeze(b, normalized(b, axes, rank), (1,)), row)


def axis_mask(b: GraphBuilder, axes: Value, rank: int) -> Value:
    """bool[rank]: the axes that are named."""
    return c.reshape(b, c.reduce(b, "max", _hits(b, axes, rank), (0,)), (rank,))


def per_axis(b: GraphBuilder, axes: Value, values: Value, rank: int, default: int) -> Value:
    """i64[rank]: values[i] at the axis that axes[i] names, `default` at the others."""
    hits = _hits(b, axes, rank)
    spread = c.select(b, hits, c.unsqueeze(b, values, (1,)), c.scalar(b, 0, DType.I64))
    total = c.reshape(b, c.reduce(b, "sum", spread, (0,)), (rank,))
    return c.select(b, axis_mask(b, axes, rank), total, c.scalar(b, default, DType.I64))


def reduce_where(b: GraphBuilder, fn: str, x: Value, mask: Value, result: Sequence[Dim]) -> Value:
    """`x` reduced over the axes of a mask, which stay with size 1: of the shape `result`.

    Axis by axis, the reduced element takes the place of each where the axis is named; one slice at the end leaves one of
    them. An axis that may be empty is longer by one until then. (MAX crashes on slices whose sizes depend on those of others.)
    """
    rank, shape = x.type.rank, x.type.shape
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        reduced = c.reduce(b, fn, x, (axis,))
        x = x if isinstance(size, int) and size else c.concat(b, [x, reduced], axis)
        flag = c.reshape(b, entry(b, mask, axis), (1,) * rank)
        x = c.select(b, flag, reduced, x)
    ends = c.select(b, mask, b.dims((1,) * rank), b.dims(shape))
    return b.emit(StridedSlice(tuple(result)), x, b.dims((0,) * rank), ends, b.dims((1,) * rank))


def without_axes(b: GraphBuilder, x: Value, mask: Value, named: int) -> Value:
    """`x` without the `named` axes of a mask, which have size 1; the run stops where they do not."""
    rank = x.type.rank
    if named == rank:
        return c.reshape(b, x, ())
    late = c.select(b, mask, c.scalar(b, rank, DType.I64), c.scalar(b, 0, DType.I64))
    order = b.emit(Binary("add"), late, b.literal(np.arange(rank, dtype=np.int64)))
    _, kept = b.emit_all(TopK(rank - named, 0, False), order)
    sizes = b.emit(Gather(0), b.dims(x.type.shape), kept)
    return b.emit(DynamicReshape(tuple(b.fresh_dim() for _ in range(rank - named))), x, sizes)


def with_axes(b: GraphBuilder, x: Value, axes: Value) -> Value:
    """`x` with new axes of size 1 at these positions of the result."""
    (added,) = axes.type.shape
    assert isinstance(added, int)
    rank = x.type.rank + added
    if x.type.rank == 0:
        return c.reshape(b, x, (1,) * rank)
    mask = axis_mask(b, axes, rank)
    old = c.select(b, mask, c.scalar(b, 0, DType.I64), c.scalar(b, 1, DType.I64))
    place = c.with_scalar(b, "sub", b.emit(Cumulative("sum", 0), old), 1)
    place = c.with_scalar(b, "max", place, 0)
    sizes = b.emit(Select(), mask, b.dims((1,) * rank), b.emit(Gather(0), b.dims(x.type.shape), place))
    return b.emit(DynamicReshape(tuple(b.fresh_dim() for _ in range(rank))), x, sizes)


def around_axis(b: GraphBuilder, x: Value, axis: Value, last: int = 0) -> Value:
    """`x` as [what is before an axis, the axis, what is after], and its `last` axes; `axis` is i64[1]."""
    rank = x.type.rank
    axis = normalized(b, axis, rank)
    kept = x.type.shape[rank - last :]
    dims = b.dims(x.type.shape[: rank - last])
    places = b.emit(Iota((rank - last,), 0, DType.I64))
    one = c.scalar(b, 1, DType.I64)
    parts = [
        c.reduce(b, "prod", c.select(b, c.compare(b, relation, places, axis), dims, one), (0,))
        for relation in ("lt", "eq", "gt")
    ]
    sizes = c.concat(b, [*parts, b.dims(kept)] if last else parts, 0)
    return b.emit(DynamicReshape((*(b.fresh_dim() for _ in parts), *kept)), x, sizes)


def require_at_run_time(b: GraphBuilder, x: Value, condition: Value) -> Value:
    """`x`, of rank 1 and more, once a condition (bool[1]) holds; the run stops where it does not: in a reshape to more elements."""
    sizes = b.dims(x.type.shape)
    given = c.select(b, condition, sizes, c.with_scalar(b, "add", sizes, 1))
    reshaped = b.emit(DynamicReshape(tuple(b.fresh_dim() for _ in x.type.shape)), x, given)
    return c.rebind(b, reshaped, x.type.shape)
