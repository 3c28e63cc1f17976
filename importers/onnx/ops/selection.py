"""Searches, sorting and running totals: NonZero, Compress, Unique, TopK, CumSum, CumProd."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fornaxc.importers.onnx.context import NodeContext, Refused
from fornaxc.importers.onnx.ops.shape import checkable
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.steering import around_axis, require_at_run_time, vector
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, is_nonnegative, product
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import (
    ArgReduce,
    Compare,
    Cumulative,
    DynamicReshape,
    Gather,
    GatherElements,
    Iota,
    NonZero,
    ScatterElements,
    StridedSlice,
    TopK,
)
from fornaxc.ir.types import DType


@onnx_op("NonZero", 9, 13)
def non_zero(ctx: NodeContext) -> Value:
    x = ctx.input(0)
    ctx.refuse_unless(x.type.rank > 0, "NonZero of a scalar")
    return ctx.b.emit(NonZero(ctx.b.fresh_dim()), x)


def _places(b: GraphBuilder, condition: Value) -> Value:
    """The indices at which a rank-1 bool tensor is true."""
    found = b.emit(NonZero(b.fresh_dim()), condition)
    return c.reshape(b, found, (found.type.shape[1],))


@onnx_op("Compress", 9, 11, 28)
def compress(ctx: NodeContext) -> Value:
    """The slices along `axis` (of the flattened tensor without it) at which a condition, possibly shorter, is true."""
    b, x, condition = ctx.b, ctx.input(0), ctx.input(1)
    ctx.require(condition.type.rank == 1, f"the condition is {condition.type}")
    if ctx.has("axis"):
        axis = ctx.axis(ctx.int("axis"), x.type.rank)
    else:
        x, axis = c.reshape(b, x, (x.type.elements,)), 0
    content = ctx.content(condition)
    if content is not None and content.dtype != object:
        return b.emit(Gather(axis), x, b.literal(np.flatnonzero(content).astype(np.int64)))
    return b.emit(Gather(axis), x, _places(b, condition))


def _top_k(ctx: NodeContext, k: Dim, largest: bool) -> tuple[Value, ...]:
    x = ctx.input(0)
    axis = ctx.axis(ctx.int("axis", -1), x.type.rank)
    n = x.type.shape[axis]
    ctx.require(not isinstance(k, int) or k >= 0, f"k is {k}")
    if isinstance(k, int) and isinstance(n, int):
        ctx.require(k <= n, f"k is {k}, more than the {n} elements")
    elif not is_nonnegative(n - k):
        ctx.b.require(n, ">=", k, "TopK takes no more elements than there are")
    return ctx.b.emit_all(TopK(k, axis, largest), x)


@onnx_op("TopK", 1)
def top_k_attribute(ctx: NodeContext) -> tuple[Value, ...]:
    return _top_k(ctx, ctx.int("k"), largest=True)


@onnx_op("TopK", 10)
def top_k_input(ctx: NodeContext) -> tuple[Value, ...]:
    return _top_k_input(ctx, largest=True)


def _top_k_input(ctx: NodeContext, largest: bool) -> tuple[Value, ...]:
    """Where only the run time knows k, all elements are sorted and the first k taken; the run stops where there are fewer."""
    known = ctx.dims_or_none(1)
    if known is not None:
        ctx.require(len(known) == 1, f"{len(known)} numbers for k")
        return _top_k(ctx, known[0], largest)
    b, rank = ctx.b, ctx.input(0).type.rank
    axis = ctx.axis(ctx.int("axis", -1), rank)
    whole = _top_k(ctx, ctx.input(0).type.shape[axis], largest)
    far = np.full(1, np.iinfo(np.int64).max)
    k = c.cast(b, c.reshape(b, ctx.input(1), (1,)), DType.I64)
    fits = c.binary(
        b,
        "and",
        c.compare(b, "ge", k, c.scalar(b, 0, DType.I64)),
        c.compare(b, "le", k, b.dims((ctx.input(0).type.shape[axis],))),
    )
    k = require_at_run_time(b, k, fits)
    ends = c.concat(b, [k if i == axis else b.literal(far) for i in range(rank)], 0)
    zeros, ones = b.dims((0,) * rank), b.dims((1,) * rank)
    count = b.fresh_dim()
    sizes = tuple(count if i == axis else d for i, d in enumerate(whole[0].type.shape))
    return tuple(b.emit(StridedSlice(sizes), v, zeros, ends, ones) for v in whole)


@onnx_op("TopK", 11, 24)
def top_k(ctx: NodeContext) -> tuple[Value, ...]:
    """Sorted also where `sorted` is 0, which asks for any order."""
    ctx.ignore("sorted")
    return _top_k_input(ctx, largest=bool(ctx.int("largest", 1)))


def _cumulative(fn: str) -> Callable[[NodeContext], Value]:
    def handler(ctx: NodeContext) -> Value:
        b, x, given = ctx.b, ctx.input(0), ctx.ints_or_none(1)
        exclusive, reverse = bool(ctx.int("exclusive", 0)), bool(ctx.int("reverse", 0))
        if given is None and x.type.rank > 1:
            parts = around_axis(b, x, vector(b, ctx.input(1)))
            total = b.emit(Cumulative(fn, 1, exclusive, reverse), parts)
            return b.emit(DynamicReshape(x.type.shape), total, b.dims(x.type.shape))
        axis = ctx.axis(0 if given is None else given[0], x.type.rank)
        return b.emit(Cumulative(fn, axis, exclusive, reverse), x)

    return handler


onnx_op("CumSum", 11, 14)(_cumulative("sum"))
onnx_op("CumProd", 26)(_cumulative("prod"))


@onnx_op("Unique", 11, 28)
def unique(ctx: NodeContext) -> tuple[Value, Value, Value, Value]:
    """The distinct elements, where each is first, which one each element is, and how often each is."""
    b, x = ctx.b, ctx.input(0)
    in_order = bool(ctx.int("sorted", 1))
    if ctx.has("axis"):
        axis = ctx.axis(ctx.int("axis"), x.type.rank)
        if x.type.rank > 1:
            return _unique_slices(ctx, axis, in_order)
    ctx.refuse_unless(x.type.dtype is not DType.BOOL, "Unique of bool")
    n = x.type.elements
    ctx.refuse_unless(n != 0, "Unique of nothing")
    if not isinstance(n, int):
        b.require(n, ">=", 1, "Unique of nothing is not supported")
    ordered, order = b.emit_all(TopK(n, 0, False), c.reshape(b, x, (n,)))
    before = c.slice_axis(b, ordered, 0, 0, n - 1)
    changes = c.compare(b, "ne", c.slice_axis(b, ordered, 0, 1, n - 1), before)
    starts = c.concat(b, [b.literal(np.array([True])), changes], 0)
    places = _places(b, starts)
    values, first = b.emit(Gather(0), ordered, places), b.emit(Gather(0), order, places)
    (count,) = places.type.shape
    ends = c.concat(b, [places, b.dims((n,))], 0)
    counts = c.binary(b, "sub", c.slice_axis(b, ends, 0, 1, count), places)
    group = c.with_scalar(b, "sub", b.emit(Cumulative("sum", 0), c.cast(b, starts, DType.I64)), 1)
    if not in_order:
        _, by_place = b.emit_all(TopK(count, 0, False), first)
        _, rank = b.emit_all(TopK(count, 0, False), by_place)
        values, first, counts = (b.emit(Gather(0), v, by_place) for v in (values, first, counts))
        group = b.emit(Gather(0), rank, group)
    inverse = b.emit(ScatterElements(0), c.full(b, 0, order.type), order, group)
    return values, first, inverse, counts


MOST_COMPARISONS = 1 << 24  # elements of the table in which all slices are compared with all others


def _unique_slices(ctx: NodeContext, axis: int, in_order: bool) -> tuple[Value, Value, Value, Value]:
    """The distinct slices along an axis, in lexicographic order: each is compared with each. NaN, which has no order, stops the run."""
    b, x = ctx.b, ctx.input(0)
    n = x.type.shape[axis]
    width = product([d for i, d in enumerate(x.type.shape) if i != axis])
    comparisons = n * n * width
    if isinstance(comparisons, int) and not 0 < comparisons <= MOST_COMPARISONS:
        raise Refused(f"Unique along axis {axis} of {x.type}")
    if not isinstance(comparisons, int):
        ctx.refuse_unless(
            checkable(b, comparisons), f"Unique along axis {axis} of {x.type}, whose size depends on data"
        )
        b.require(comparisons, ">=", 1, "Unique of nothing is not supported")
        b.require(MOST_COMPARISONS, ">=", comparisons, "Unique along an axis compares each slice with each")
    lines = c.reshape(b, c.move_axis(b, x, axis, 0), (n, width))
    if x.type.dtype.is_float:
        whole = c.reduce(b, "max", c.unary(b, "is_nan", lines), (0, 1))
        lines = require_at_run_time(b, lines, c.unary(b, "not", c.reshape(b, whole, (1,))))
    left, right = (c.expand(b, c.unsqueeze(b, lines, (place,)), (n, n, width)) for place in (1, 0))
    differs = c.cast(b, b.emit(Compare("ne"), left, right), DType.I64)
    where = b.emit(ArgReduce("max", 2), differs)
    same = c.compare(b, "eq", b.emit(GatherElements(2), differs, where), c.scalar(b, 0, DType.I64))
    same = c.reshape(b, same, (n, n))
    less = c.compare(b, "lt", *(b.emit(GatherElements(2), side, where) for side in (left, right)))
    less = c.reshape(b, less, (n, n))  # of a row and a column: false where they are the same
    place = b.emit(Iota((n,), 0, DType.I64))
    earlier = c.compare(b, "lt", c.unsqueeze(b, place, (0,)), c.unsqueeze(b, place, (1,)))
    repeats = c.reduce(b, "max", c.binary(b, "and", same, earlier), (1,))
    is_first = c.unary(b, "not", c.reshape(b, repeats, (n,)))
    before = c.transpose(b, less, (1, 0)) if in_order else earlier
    rank = _count(b, c.binary(b, "and", before, is_first))
    if not in_order:
        leader = c.reshape(b, b.emit(ArgReduce("max", 1), c.cast(b, same, DType.I64)), (n,))
        rank = b.emit(Gather(0), rank, leader)
    first = _places(b, is_first)
    (count,) = first.type.shape
    _, order = b.emit_all(TopK(count, 0, False), b.emit(Gather(0), rank, first))
    first = b.emit(Gather(0), first, order)
    counts = b.emit(Gather(0), _count(b, same), first)
    return b.emit(Gather(axis), x, first), first, rank, counts


def _count(b: GraphBuilder, flags: Value) -> Value:
    """How many are true in each row."""
    (n, _) = flags.type.shape
    return c.reshape(b, c.reduce(b, "sum", c.cast(b, flags, DType.I64), (1,)), (n,))
