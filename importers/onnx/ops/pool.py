"""Pools: the maximum, mean or norm of each window, or of everything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product as cartesian

import numpy as np

from fornaxc.importers.onnx.context import NodeContext, Refused
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.steering import bind_sizes, require_at_run_time, vector
from fornaxc.importers.onnx.windows import Windows, ceil_high, lowest, pad_spatial, read_windows, static_pads
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, product
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Iota, Pad, Pool, ScatterElements, Slice
from fornaxc.ir.types import DType, TensorType

MOST_TAPS = 128  # windows larger than this are not unrolled for the indices of a maximum


def _windows(ctx: NodeContext, x: Value, *, dilates: bool, ceils: bool) -> Windows:
    """The windows of a pool; with ceil_mode its extra high padding is included."""
    ctx.require(x.type.rank >= 3, f"a pool takes [N, C, ...], not {x.type}")
    sizes = x.type.shape[2:]
    found = read_windows(ctx, sizes, ctx.ints("kernel_shape"), dilates=dilates)
    auto = ctx.string("auto_pad", "NOTSET")
    if not ceils or not ctx.int("ceil_mode", 0) or auto.startswith("SAME"):
        return found
    high = ceil_high(sizes, found)
    ctx.refuse_unless(auto == "NOTSET" or not any(h != 0 for h in high), "auto_pad VALID with a ceil_mode that matters")
    return replace(found, high=high)


def _pool(b: GraphBuilder, fn: str, x: Value, w: Windows) -> Value:
    fill = lowest(x.type.dtype) if fn == "max" else 0
    x, low, high = static_pads(b, x, w.low, w.high, fill)
    return b.emit(Pool(fn, w.window, w.strides, low, high, w.dilations), x)


def _max_pool(*, dilates: bool, ceils: bool) -> Callable[[NodeContext], Sequence[Value]]:
    def handler(ctx: NodeContext) -> Sequence[Value]:
        x = ctx.input(0)
        columns_first = bool(ctx.int("storage_order", 0))
        if ctx.wants_output(1):
            return _max_with_index(ctx.b, x, _windows(ctx, x, dilates=dilates, ceils=ceils), columns_first)
        return [max_pool(ctx, x, dilates=dilates, ceils=ceils)]

    return handler


def max_pool(ctx: NodeContext, x: Value, *, dilates: bool = True, ceils: bool = True) -> Value:
    """The maximum of each window of `x` [N, C, ...] that the attributes of the node describe."""
    return _pool(ctx.b, "max", x, _windows(ctx, x, dilates=dilates, ceils=ceils))


onnx_op("MaxPool", 1, 8)(_max_pool(dilates=False, ceils=False))
onnx_op("MaxPool", 10, 11, 12, 22)(_max_pool(dilates=True, ceils=True))


def _max_with_index(b: GraphBuilder, x: Value, w: Windows, columns_first: bool) -> Sequence[Value]:
    """Each window's maximum, and its place in the flattened input: the first of equal ones."""
    if np.prod(w.window) > MOST_TAPS:
        raise Refused(f"the indices of a maximum over windows of {list(w.window)}")
    sizes = _pool(b, "max", x, w).type.shape
    places = pad_spatial(b, _places(b, x.type.shape, columns_first), w.low, w.high, -1)
    padded = pad_spatial(b, x, w.low, w.high, lowest(x.type.dtype))
    zero = c.scalar(b, 0, DType.I64)
    best: Value | None = None
    where = zero
    for tap in cartesian(*(range(k) for k in w.window)):
        here, place = _tap(b, padded, tap, w, sizes), _tap(b, places, tap, w, sizes)
        if best is None:
            best, where = here, place
            continue
        first = c.binary(b, "and", c.compare(b, "lt", where, zero), c.compare(b, "ge", place, zero))
        better = c.binary(b, "or", c.compare(b, "gt", here, best), first)
        best, where = c.select(b, better, here, best), c.select(b, better, place, where)
    assert best is not None
    return best, where


def _places(b: GraphBuilder, shape: Sequence[Dim], columns_first: bool) -> Value:
    """The index of each element in the flattened tensor; its spatial part counts the first axis fastest if asked to."""
    rank = len(shape)
    spatial = list(range(2, rank))
    order = [0, 1, *(reversed(spatial) if columns_first else spatial)]
    total: Value | None = None
    for position, axis in enumerate(order):
        line = b.emit(Iota(tuple(shape), axis, DType.I64))
        stride = product([shape[a] for a in order[position + 1 :]])
        part = c.binary(b, "mul", line, c.reshape(b, b.dims((stride,)), (1,) * rank))
        total = part if total is None else c.binary(b, "add", total, part)
    assert total is not None
    return total


def _tap(b: GraphBuilder, padded: Value, tap: Sequence[int], w: Windows, sizes: Sequence[Dim]) -> Value:
    """What one position of every window sees."""
    starts = (0, 0, *(t * d for t, d in zip(tap, w.dilations, strict=True)))
    return b.emit(Slice(starts, tuple(sizes), (1, 1, *w.strides)), padded)


def average_pool(ctx: NodeContext, x: Value, *, dilates: bool, ceils: bool) -> Value:
    """The sum of each window of `x` [N, C, ...] over the number of elements in it; padding counts with count_include_pad.

    What ceil_mode adds beyond the padding never counts.
    """
    b = ctx.b
    padded_counts = bool(ctx.int("count_include_pad", 0))
    windows = _windows(ctx, x, dilates=dilates, ceils=ceils)
    plain = read_windows(ctx, x.type.shape[2:], windows.window, dilates=dilates)
    total = _pool(b, "sum", x, windows)
    counts = _counts(b, x, windows, plain if padded_counts else None)
    return c.binary(b, "div", total, counts)


def _average_pool(*, dilates: bool, ceils: bool) -> Callable[[NodeContext], Value]:
    return lambda ctx: average_pool(ctx, ctx.input(0), dilates=dilates, ceils=ceils)


onnx_op("AveragePool", 1, 7)(_average_pool(dilates=False, ceils=False))
onnx_op("AveragePool", 10, 11)(_average_pool(dilates=False, ceils=True))
onnx_op("AveragePool", 19, 22)(_average_pool(dilates=True, ceils=True))


def _counts(b: GraphBuilder, x: Value, w: Windows, counted: Windows | None) -> Value:
    """The elements in each window: [1, 1, ...]; the padding of `counted` is counted too."""
    dtype = x.type.dtype
    low, high = (counted.low, counted.high) if counted else ((0,) * len(w.low), (0,) * len(w.low))
    sizes = tuple(n + p + q for n, p, q in zip(x.type.shape[2:], low, high, strict=True))
    rest = replace(
        w,
        low=tuple(p - q for p, q in zip(w.low, low, strict=True)),
        high=_rest(w.high, high),
    )
    cut = tuple(p - q for p, q in zip(w.high, high, strict=True))
    if all(isinstance(d, int) for d in (*sizes, *rest.low, *rest.high)):
        counts = np.ones((), np.float64)
        for size, first, last, span, stride, gap in zip(
            sizes, rest.low, cut, w.spans, w.strides, w.dilations, strict=True
        ):
            starts = np.arange(-first, size + last - span + 1, stride)
            places = starts[:, None] + np.arange(0, span, gap)[None, :]
            counts = counts[..., None] * ((places >= 0) & (places < size)).sum(1)
        if not counts.all():
            raise Refused("a window that holds padding only")
        if counts.size and (counts == counts.flat[0]).all():
            return c.scalar(b, counts.flat[0], dtype)
        return b.literal(counts[None, None].astype(dtype.numpy))
    ones = c.full(b, 1, TensorType(dtype, (1, 1, *sizes)))
    return _pool(b, "sum", ones, rest)


def _rest(high: Sequence[Dim], counted: Sequence[Dim]) -> tuple[Dim, ...]:
    from fornaxc.ir.dims import dim_max

    return tuple(dim_max(p - q, 0) for p, q in zip(high, counted, strict=True))


def _power_sum(ctx: NodeContext, x: Value, total: Callable[[Value], Value]) -> Value:
    """(sum |x|^p)^(1/p) with the attribute p."""
    b, p = ctx.b, ctx.int("p", 2)
    ctx.require(p > 0, f"p is {p}")
    if p == 1:
        return total(c.unary(b, "abs", x))
    if p == 2:
        return c.unary(b, "sqrt", total(c.binary(b, "mul", x, x)))
    return c.with_scalar(b, "pow", total(c.with_scalar(b, "pow", c.unary(b, "abs", x), p)), 1 / p)


def _lp_pool(*, modern: bool) -> Callable[[NodeContext], Value]:
    def handler(ctx: NodeContext) -> Value:
        x = ctx.input(0)
        windows = _windows(ctx, x, dilates=modern, ceils=modern)
        return _power_sum(ctx, x, lambda powers: _pool(ctx.b, "sum", powers, windows))

    return handler


onnx_op("LpPool", 2, 11)(_lp_pool(modern=False))
onnx_op("LpPool", 18, 22)(_lp_pool(modern=True))


def _spatial(ctx: NodeContext) -> tuple[int, ...]:
    rank = ctx.input(0).type.rank
    ctx.require(rank >= 2, f"a global pool takes [N, C, ...], not {ctx.input(0).type}")
    return tuple(range(2, rank))


@onnx_op("GlobalAveragePool", 1, 22)
def global_average_pool(ctx: NodeContext) -> Value:
    return c.reduce(ctx.b, "mean", ctx.input(0), _spatial(ctx))


@onnx_op("GlobalMaxPool", 1, 22)
def global_max_pool(ctx: NodeContext) -> Value:
    return c.reduce(ctx.b, "max", ctx.input(0), _spatial(ctx))


@onnx_op("GlobalLpPool", 2, 22)
def global_lp_pool(ctx: NodeContext) -> Value:
    return _power_sum(ctx, ctx.input(0), lambda powers: c.reduce(ctx.b, "sum", powers, _spatial(ctx)))


@onnx_op("MaxUnpool", 9, 11, 22)
def max_unpool(ctx: NodeContext) -> Value:
    """Each value at its flat index in a tensor of the pool's input size, which zeros at the end fill up to output_shape."""
    b, x, places = ctx.b, ctx.input(0), ctx.input(1)
    ctx.require(x.type.rank >= 3, f"MaxUnpool takes [N, C, ...], not {x.type}")
    windows = read_windows(ctx, x.type.shape[2:], ctx.ints("kernel_shape"), dilates=False)
    sizes: list[Dim] = list(x.type.shape[:2])
    for n, k, s, low, high in zip(
        x.type.shape[2:], windows.window, windows.strides, windows.low, windows.high, strict=True
    ):
        sizes.append((n - 1) * s + k - low - high)
    wanted = tuple(sizes) if ctx.optional(2) is None else ctx.dims_or_none(2)
    flat = c.full(b, 0, TensorType(x.type.dtype, (product(sizes),)))
    index = c.reshape(b, c.rebind(b, places, x.type.shape), (x.type.elements,))
    spread = b.emit(ScatterElements(0), flat, index, c.reshape(b, x, (x.type.elements,)))
    y = c.reshape(b, spread, sizes)
    if wanted is None:
        more = c.binary(b, "sub", vector(b, ctx.input(2)), b.dims(sizes))
        grows = c.compare(b, "ge", more, c.scalar(b, 0, DType.I64))
        more = require_at_run_time(b, more, c.reduce(b, "min", grows, (0,)))
        return b.emit(Pad((0,) * len(sizes), bind_sizes(b, more)), y, c.scalar(b, 0, x.type.dtype))
    grow = [want - have for want, have in zip(wanted, sizes, strict=True)]
    if not any(g != 0 for g in grow):
        return y
    ctx.refuse_unless(all(isinstance(g, int) and g >= 0 for g in grow), "an output_shape that cuts the result")
    return b.emit(Pad((0,) * len(grow), tuple(grow)), y, c.scalar(b, 0, x.type.dtype))
