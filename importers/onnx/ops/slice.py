"""Slice, Split and Pad."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fornaxc.importers.onnx.context import NodeContext, Refused
from fornaxc.importers.onnx.ops.shape import checkable
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.slicing import cut
from fornaxc.importers.onnx.steering import (
    FAR,
    bind_sizes,
    entries,
    entry,
    per_axis,
    require_at_run_time,
    vector,
)
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, ceildiv, is_nonnegative
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Cumulative, Pad, Slice, StridedSlice
from fornaxc.ir.types import DType


@onnx_op("Slice", 1)
def slice_attributes(ctx: NodeContext) -> Value:
    starts, ends = ctx.ints("starts"), ctx.ints("ends")
    axes = ctx.ints("axes", tuple(range(len(starts))))
    ctx.require(len(starts) == len(ends) == len(axes), "starts, ends and axes differ in length")
    sliced = _static_slice(ctx, _positions(ctx, axes), starts, ends, (1,) * len(axes))
    assert sliced is not None  # integer bounds are always enough
    return sliced


@onnx_op("Slice", 10, 11, 13)
def slice_(ctx: NodeContext) -> Value:
    starts, ends = ctx.dims_or_none(1), ctx.dims_or_none(2)
    (count,) = ctx.input(1).type.shape or (1,)
    if not isinstance(count, int):
        raise Refused("the number of sliced axes depends on the run-time sizes")
    given = range(count) if ctx.optional(3) is None else ctx.ints_or_none(3)
    if given is None:
        return _slice_of_unknown_axes(ctx)
    axes = _positions(ctx, given)
    steps: tuple[Dim, ...] | None = (1,) * count if ctx.optional(4) is None else ctx.dims_or_none(4)
    if starts is not None and ends is not None and steps is not None:
        ctx.require(len(starts) == len(ends) == len(axes) == len(steps), "the bounds of a slice differ in length")
        sliced = _static_slice(ctx, axes, starts, ends, steps)
        if sliced is not None:
            return sliced
    return _dynamic_slice(ctx, axes)


def _positions(ctx: NodeContext, axes: Sequence[int]) -> tuple[int, ...]:
    rank = ctx.input(0).type.rank
    found = tuple(ctx.axis(axis, rank) for axis in axes)
    ctx.require(len(set(found)) == len(found), f"an axis appears twice in {list(axes)}")
    return found


def _static_slice(
    ctx: NodeContext, axes: Sequence[int], starts: Sequence[Dim], ends: Sequence[Dim], steps: Sequence[Dim]
) -> Value | None:
    """The slice where its sizes follow from the input sizes."""
    x = ctx.input(0)
    first: list[Dim] = [0] * x.type.rank
    sizes, stride = list(x.type.shape), [1] * x.type.rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        ctx.require(step != 0, "a slice step is 0")
        if not isinstance(step, int):
            return None
        found = cut(ctx.b, x.type.shape[axis], start, end, step)
        if found is None:
            return None
        first[axis], sizes[axis], stride[axis] = found.start, found.size, found.step
    if sizes == list(x.type.shape) and set(stride) <= {1}:
        return x
    return ctx.b.emit(Slice(tuple(first), tuple(sizes), tuple(stride)), x)


def _dynamic_slice(ctx: NodeContext, axes: Sequence[int]) -> Value:
    b, x = ctx.b, ctx.input(0)
    far = np.iinfo(np.int64).max
    bounds = []
    for index, default in ((1, 0), (2, far), (4, 1)):
        given = None if ctx.optional(index) is None else c.cast(b, ctx.input(index), DType.I64)
        parts = []
        for axis in range(x.type.rank):
            if axis in axes and given is not None:
                parts.append(c.slice_axis(b, given, 0, axes.index(axis), 1))
            else:
                parts.append(b.literal(np.array([default], np.int64)))
        bounds.append(c.concat(b, parts, 0))
    sizes = tuple(b.fresh_dim() if axis in axes else d for axis, d in enumerate(x.type.shape))
    return b.emit(StridedSlice(sizes), x, *bounds)


def _slice_of_unknown_axes(ctx: NodeContext) -> Value:
    b, x = ctx.b, ctx.input(0)
    axes = vector(b, ctx.input(3))
    bounds = [
        b.dims((default,) * x.type.rank)
        if ctx.optional(index) is None
        else per_axis(b, axes, vector(b, ctx.input(index)), x.type.rank, default)
        for index, default in ((1, 0), (2, FAR), (4, 1))
    ]
    return b.emit(StridedSlice(tuple(b.fresh_dim() for _ in x.type.shape)), x, *bounds)


@onnx_op("Split", 2, 11)
def split_attribute(ctx: NodeContext) -> list[Value]:
    sizes = ctx.ints("split") if ctx.has("split") else None
    return _split(ctx, sizes, None)


@onnx_op("Split", 13)
def split_input(ctx: NodeContext) -> list[Value]:
    return _split_by_sizes(ctx) if ctx.optional(1) is not None else _split(ctx, None, None)


@onnx_op("Split", 18)
def split(ctx: NodeContext) -> list[Value]:
    count = ctx.int("num_outputs", ctx.output_count)
    ctx.require(count == ctx.output_count, f"num_outputs is {count}, but there are {ctx.output_count} outputs")
    if ctx.optional(1) is None:
        return _split(ctx, None, count)
    ctx.require(not ctx.has("num_outputs"), "both sizes and num_outputs are given")
    return _split_by_sizes(ctx)


def _split_by_sizes(ctx: NodeContext) -> list[Value]:
    """Sizes that only the run time knows must add up."""
    sizes = ctx.dims_or_none(1)
    if sizes is not None:
        return _split(ctx, sizes, None)
    b, x = ctx.b, ctx.input(0)
    axis = ctx.axis(ctx.int("axis", 0), x.type.rank)
    given = vector(b, ctx.input(1))
    parts = entries(ctx, given, "the sizes")
    ctx.require(parts == ctx.output_count, f"{parts} sizes for {ctx.output_count} outputs")
    return split_at_run_time(b, x, axis, given)


def split_at_run_time(b: GraphBuilder, x: Value, axis: int, given: Value) -> list[Value]:
    """The parts of an axis whose sizes are the entries of i64[parts]; the last part is what is left, and must have the last size."""
    rank, (parts,) = x.type.rank, given.type.shape
    assert isinstance(parts, int)
    ends = b.emit(Cumulative("sum", 0), given)
    starts = c.binary(b, "sub", ends, given)
    results = []
    for part, size in enumerate(bind_sizes(b, given)):
        bounds = [entry(b, starts, part), b.dims((FAR,)) if part == parts - 1 else entry(b, ends, part)]
        spread = [
            c.concat(b, [bound if i == axis else b.dims((default,)) for i in range(rank)], 0)
            for bound, default in zip(bounds, (0, FAR), strict=True)
        ]
        shape = tuple(b.fresh_dim() if i == axis else d for i, d in enumerate(x.type.shape))
        piece = b.emit(StridedSlice(shape), x, *spread, b.dims((1,) * rank))
        results.append(c.rebind(b, piece, [size if i == axis else d for i, d in enumerate(shape)]))
    return results


def _split(ctx: NodeContext, sizes: Sequence[Dim] | None, count: int | None) -> list[Value]:
    """By sizes; else in `count` parts, the last one smaller; else in equal parts."""
    b, x = ctx.b, ctx.input(0)
    axis = ctx.axis(ctx.int("axis", 0), x.type.rank)
    n = x.type.shape[axis]
    if sizes is None:
        parts = count or ctx.output_count
        whole = ceildiv(n, parts) if count else n // parts
        last = n - whole * (parts - 1)
        if not is_nonnegative(last) or (not count and last != whole):
            ctx.require(not isinstance(n, int), f"an axis of size {n} in {parts} parts")
            ctx.refuse_unless(checkable(b, n), f"whether {n} splits in {parts} parts depends on the data")
            if count:
                b.require(last, ">=", 0, f"an axis of size {n} is split in {parts} parts")
            else:
                b.require(last, "==", whole, f"an axis of size {n} is split in {parts} equal parts")
                return [c.slice_axis(b, x, axis, whole * place, whole) for place in range(parts)]
        sizes = (*(whole,) * (parts - 1), last)
    ctx.require(len(sizes) == ctx.output_count, f"{len(sizes)} sizes for {ctx.output_count} outputs")
    total: Dim = sum(sizes, start=0)
    if total != n:
        ctx.require(not (isinstance(total, int) and isinstance(n, int)), f"sizes {list(sizes)} of an axis of size {n}")
        ctx.refuse_unless(checkable(b, total, n), f"whether {total} is {n} depends on the data")
        b.require(total, "==", n, "the sizes of a Split add up")
    results: list[Value] = []
    start: Dim = 0
    for size in sizes:
        results.append(c.slice_axis(b, x, axis, start, size))
        start = start + size
    return results


@onnx_op("Pad", 2)
def pad_attributes(ctx: NodeContext) -> Value:
    fill = ctx.float("value", 0.0)
    return _pad(ctx, ctx.ints("pads"), c.scalar(ctx.b, fill, ctx.input(0).type.dtype), None)


@onnx_op("Pad", 11, 13)
def pad_inputs(ctx: NodeContext) -> Value:
    return _pad_by_inputs(ctx, (), wraps=False)


@onnx_op("Pad", 18)
def pad_axes(ctx: NodeContext) -> Value:
    return _pad_by_inputs(ctx, (3,), wraps=False)


@onnx_op("Pad", 19, 21, 23, 24, 25)
def pad(ctx: NodeContext) -> Value:
    return _pad_by_inputs(ctx, (3,), wraps=True)


def _pad_by_inputs(ctx: NodeContext, axes_input: Sequence[int], wraps: bool) -> Value:
    rank = ctx.input(0).type.rank
    pads: Sequence[Dim] | None = ctx.dims_or_none(1)
    axes: Sequence[int] | None = range(rank)
    for index in axes_input:
        axes = axes if ctx.optional(index) is None else ctx.ints_or_none(index)
    if pads is None or axes is None:
        return _pad_at_run_time(ctx, axes, wraps)
    return _pad(ctx, pads, _fill(ctx), axes, wraps=wraps)


def _pad_at_run_time(ctx: NodeContext, axes: Sequence[int] | None, wraps: bool) -> Value:
    """Crops what negative pads take, then extends by sizes that get a dim each."""
    b, x, mode = ctx.b, ctx.input(0), _pad_mode(ctx, wraps)
    rank = x.type.rank
    given = vector(b, ctx.input(1))
    named = entries(ctx, given, "the pads") // 2
    ctx.require(given.type.shape == (2 * named,), f"the pads {given.type} do not come in pairs")
    places = vector(b, ctx.input(3)) if axes is None else b.dims(_positions(ctx, axes))
    ctx.require(places.type.shape == (named,), f"pads for {named} axes, but the axes are {places.type}")
    low, high = (per_axis(b, places, c.slice_axis(b, given, 0, start, named), rank, 0) for start in (0, named))
    zero = c.scalar(b, 0, DType.I64)
    first, last = (c.unary(b, "neg", c.binary(b, "min", side, zero)) for side in (low, high))
    before, after = (bind_sizes(b, c.binary(b, "max", side, zero)) for side in (low, high))
    stop = c.binary(b, "sub", b.dims(x.type.shape), last)
    fits = c.compare(b, "ge", stop, first)
    first = require_at_run_time(b, first, c.reduce(b, "min", fits, (0,)))
    left = b.emit(StridedSlice(tuple(b.fresh_dim() for _ in range(rank))), x, first, stop, b.dims((1,) * rank))
    if mode == "constant":
        return b.emit(Pad(before, after, mode), left, _fill(ctx))
    return b.emit(Pad(before, after, mode), left)


def _fill(ctx: NodeContext) -> Value:
    if ctx.optional(2) is None:
        return c.scalar(ctx.b, 0, ctx.input(0).type.dtype)
    return c.reshape(ctx.b, ctx.input(2), ())


def _pad_mode(ctx: NodeContext, wraps: bool) -> str:
    mode = ctx.string("mode", "constant")
    ctx.require(mode in ("constant", "reflect", "edge") or (wraps and mode == "wrap"), f"no mode {mode!r}")
    return mode


def _pad(ctx: NodeContext, pads: Sequence[Dim], fill: Value, axes: Sequence[int] | None, wraps: bool = False) -> Value:
    """Negative pads crop first; then the others extend what is left."""
    b, x = ctx.b, ctx.input(0)
    rank = x.type.rank
    mode = _pad_mode(ctx, wraps)
    where = _positions(ctx, range(rank) if axes is None else axes)
    ctx.require(len(pads) == 2 * len(where), f"{len(pads)} pads for {len(where)} axes")
    low: list[Dim] = [0] * rank
    high: list[Dim] = [0] * rank
    for place, axis in enumerate(where):
        low[axis], high[axis] = pads[place], pads[place + len(where)]
    for axis in range(rank):
        before, after, n = low[axis], high[axis], x.type.shape[axis]
        for amount in (before, after):
            if not isinstance(amount, int) and not is_nonnegative(amount):
                ctx.refuse_unless(checkable(b, amount), f"whether the pad {amount} is negative depends on the data")
                b.require(amount, ">=", 0, "a pad of symbolic size adds elements")
        first, last = (-p if isinstance(p, int) and p < 0 else 0 for p in (before, after))
        left = n - first - last
        if first or last:
            ctx.require(not isinstance(left, int) or left >= 0, f"pads take more than the {n} elements of axis {axis}")
            x = c.slice_axis(b, x, axis, first, left)
        low[axis] = 0 if first else before
        high[axis] = 0 if last else after
        if mode != "constant" and isinstance(left, int) and (low[axis], high[axis]) != (0, 0):
            room = left - 1 if mode == "reflect" else left
            fits = left > 0 and (
                mode == "edge" or all(isinstance(p, int) and p <= room for p in (low[axis], high[axis]))
            )
            ctx.refuse_unless(fits, f"{mode} padding of {left} elements by {low[axis]} and {high[axis]}")
    if all(p == 0 for p in (*low, *high)):
        return x
    operands = (x, fill) if mode == "constant" else (x,)
    return b.emit(Pad(tuple(low), tuple(high), mode), *operands)
