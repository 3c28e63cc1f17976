"""reduce_window and select_and_scatter."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as cartesian

import numpy as np

from fornaxc.importers.stablehlo.context import OpContext
from fornaxc.importers.stablehlo.ops.arithmetic import narrow, wide_type
from fornaxc.importers.stablehlo.ops.reduction import is_identity, same_shape
from fornaxc.importers.stablehlo.ops.shape import pad_value
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Complex, Operand, parts, rebuild
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Array, Value
from fornaxc.ir.ops import Binary, Cumulative, Pool, Select, Unary
from fornaxc.ir.ops.linear import window_size
from fornaxc.ir.types import DType

MAX_TAPS = 4096
IN_ORDER = 64  # elements of a window up to which they are combined in the order that the reference interpreter takes
_POOLS = {"add": "sum", "max": "max"}


@stablehlo_op("stablehlo.reduce_window")
def reduce_window(ctx: OpContext) -> list[Operand]:
    count = len(ctx.operands) // 2
    operands, inits = same_shape(ctx, ctx.operands[:count]), ctx.operands[count:]
    rank = parts(operands[0])[0].type.rank
    ones = (1,) * rank
    window = ctx.ints("window_dimensions")
    strides = ctx.ints("window_strides", ones)
    spread = ctx.ints("base_dilations", ones)
    dilations = ctx.ints("window_dilations", ones)
    pads = ctx.pairs("padding", rank)
    region = ctx.region(0)
    function = region.function if count == 1 else None
    known = _pooled(ctx, operands[0], inits[0], function, window, strides, spread, dilations, pads)
    if known is not None:
        return [known]
    low, high = [p[0] for p in pads], [p[1] for p in pads]
    between = [s - 1 for s in spread]
    current = [
        rebuild(o, [pad_value(ctx.b, x, i, low, high, between) for x, i in zip(parts(o), parts(init), strict=True)])
        for o, init in zip(operands, inits, strict=True)
    ]
    shape = parts(current[0])[0].type.shape
    sizes = [window_size(shape[i], 0, 0, window[i], strides[i], dilations[i]) for i in range(rank)]
    if function is None and int(np.prod(window, dtype=np.int64)) <= IN_ORDER:
        return _one_by_one(ctx, current, inits, window, strides, dilations, sizes)
    for axis in range(rank):
        size = window_size(shape[axis], 0, 0, window[axis], strides[axis], dilations[axis])
        current = _slide(ctx, current, axis, window[axis], strides[axis], dilations[axis], size)
    shape = parts(current[0])[0].type.shape
    if function is not None and all(is_identity(ctx, function, i) for init in inits for i in parts(init)):
        return current
    start = [rebuild(o, [c.expand(ctx.b, v, shape) for v in parts(o)]) for o in inits]
    return [rebuild(o, [c.expand(ctx.b, v, shape) for v in parts(o)]) for o in region.apply([*start, *current])]


def _one_by_one(
    ctx: OpContext,
    current: Sequence[Operand],
    inits: Sequence[Operand],
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    sizes: Sequence[Dim],
) -> list[Operand]:
    """Combine the elements of each window in row-major order, from the initial values on."""
    b, region = ctx.b, ctx.region(0)
    result = [rebuild(o, [c.expand(b, v, sizes) for v in parts(o)]) for o in inits]
    if any(size == 0 for size in sizes):
        return result
    for tap in cartesian(*(range(k) for k in window)):
        at = [t * d for t, d in zip(tap, dilations, strict=True)]
        item = [rebuild(o, [_tap(b, v, at, sizes, strides) for v in parts(o)]) for o in current]
        combined = region.apply([*result, *item])
        result = [rebuild(o, [c.expand(b, v, sizes) for v in parts(o)]) for o in combined]
    return result


def _slide(
    ctx: OpContext, current: list[Operand], axis: int, window: int, stride: int, dilation: int, size: Dim
) -> list[Operand]:
    """Combine the elements of each window along one axis: spans of 1, 2, 4, ... are joined to the window's width."""
    b, region = ctx.b, ctx.region(0)
    if size == 0:
        return [rebuild(o, [c.slice_axis(b, v, axis, 0, 0) for v in parts(o)]) for o in current]
    pieces: list[tuple[int, list[Operand], int]] = []  # where it starts in the window, its spans, their width
    spans, width, start = current, 1, 0
    while True:
        if window & width:
            pieces.append((start, spans, width))
            start += width
        if 2 * width > window:
            break
        length = parts(spans[0])[0].type.shape[axis] - width * dilation
        spans = _combine(
            b,
            region.apply([*_part(b, spans, axis, 0, length), *_part(b, spans, axis, width * dilation, length)]),
            spans,
            axis,
            length,
        )
        width *= 2
    result: list[Operand] | None = None
    for offset, operands, _ in pieces:
        taken = _part(b, operands, axis, offset * dilation, size, stride)
        result = taken if result is None else _combine(b, region.apply([*result, *taken]), taken, axis, size)
    assert result is not None
    return result


def _combine(
    b: GraphBuilder, results: Sequence[Operand], like: Sequence[Operand], axis: int, size: Dim
) -> list[Operand]:
    shape = parts(like[0])[0].type.shape
    wanted = (*shape[:axis], size, *shape[axis + 1 :])
    return [rebuild(o, [c.expand(b, v, wanted) for v in parts(o)]) for o in results]


def _part(
    b: GraphBuilder, operands: Sequence[Operand], axis: int, start: int, size: Dim, step: int = 1
) -> list[Operand]:
    return [rebuild(o, [c.slice_axis(b, v, axis, start, size, step) for v in parts(o)]) for o in operands]


def _pooled(
    ctx: OpContext,
    operand: Operand,
    init: Operand,
    function: str | None,
    window: tuple[int, ...],
    strides: tuple[int, ...],
    spread: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: Sequence[tuple[int, int]],
) -> Operand | None:
    """The window reduction as a running sum or product, or as a pool; None where it is neither."""
    if function is None or any(s != 1 for s in spread):
        return None
    pairs = list(zip(parts(operand), parts(init), strict=True))
    if (isinstance(operand, Complex) and function != "add") or any(v.type.dtype is DType.BOOL for v, _ in pairs):
        return None
    if not all(is_identity(ctx, function, i) for _, i in pairs):
        return None
    wide_axes = [axis for axis, size in enumerate(window) if size != 1]
    plain = all(s == 1 for s in (*strides, *dilations))
    if function in ("add", "mul") and len(wide_axes) == 1 and plain:
        axis = wide_axes[0]
        size = pairs[0][0].type.shape[axis]
        others = all(pads[i] == (0, 0) for i in range(len(window)) if i != axis)
        if window[axis] == size and others and pads[axis] in ((window[axis] - 1, 0), (0, window[axis] - 1)):
            fn = "sum" if function == "add" else "prod"
            op = Cumulative(fn, axis, reverse=pads[axis][0] == 0)
            return rebuild(operand, [_widely(ctx.b, op, v) for v, _ in pairs])
    touched = [axis for axis in range(len(window)) if window[axis] != 1 or strides[axis] != 1 or pads[axis] != (0, 0)]
    taps = int(np.prod([window[a] for a in touched], dtype=np.int64))
    static = all(isinstance(d, int) and d > 0 for v, _ in pairs for d in v.type.shape)
    if function not in _POOLS or not touched or taps > 256 or not static or any(p < 0 for pair in pads for p in pair):
        return None
    rest = [axis for axis in range(len(window)) if axis not in touched]
    order = [*rest, *touched]
    low, high = zip(*(pads[a] for a in touched), strict=True)
    pool = Pool(
        _POOLS[function],
        tuple(window[a] for a in touched),
        tuple(strides[a] for a in touched),
        tuple(low),
        tuple(high),
        tuple(dilations[a] for a in touched),
    )
    back = [order.index(i) for i in range(len(window))]
    results = []
    for value, _ in pairs:
        if any(window_size(value.type.shape[a], *pads[a], window[a], strides[a], dilations[a]) == 0 for a in touched):
            return None
        results.append(c.transpose(ctx.b, _widely(ctx.b, pool, c.transpose(ctx.b, value, order)), back))
    return rebuild(operand, results)


def _widely(b: GraphBuilder, op: Pool | Cumulative, x: Value) -> Value:
    """The operation in a type that holds it: narrow floats in f32, integers below 8 bits in 8."""
    dtype = x.type.dtype
    wide = DType.F32 if dtype in (DType.F16, DType.BF16) else wide_type(dtype)
    return narrow(b, b.emit(op, c.cast(b, x, wide)), dtype)


@stablehlo_op("stablehlo.select_and_scatter")
def select_and_scatter(ctx: OpContext) -> Operand:
    """Each window of the operand selects one element, which receives the source's; what is in the padding is never selected."""
    b = ctx.b
    operand, source, init = ctx.operands
    x = parts(operand)[0]
    rank = x.type.rank
    ones = (1,) * rank
    window, strides = ctx.ints("window_dimensions", ones), ctx.ints("window_strides", ones)
    pads = ctx.pairs("padding", rank)
    ctx.refuse_unless(x.type.is_static, "select_and_scatter of symbolic sizes")
    ctx.refuse_unless(int(np.prod(window, dtype=np.int64)) <= MAX_TAPS, f"a window of more than {MAX_TAPS} elements")
    shape = [int(str(d)) for d in x.type.shape]
    out = parts(source)[0].type.shape
    low, high = [p[0] for p in pads], [p[1] for p in pads]
    zeros = [0] * rank
    padded = rebuild(operand, [pad_value(b, v, c.scalar(b, 0, v.type.dtype), low, high, zeros) for v in parts(operand)])
    real = np.pad(np.ones(shape, np.bool_), [(max(p, 0), max(q, 0)) for p, q in pads])
    real = real[tuple(slice(max(-p, 0), real.shape[i] - max(-q, 0)) for i, (p, q) in enumerate(pads))]
    taps = list(cartesian(*(range(k) for k in window)))
    choice = _select(ctx, padded, real, taps, out, strides)
    return _scatter(ctx, choice, source, init, taps, strides, shape, low)


def _tap(b: GraphBuilder, x: Value, tap: Sequence[int], out: Sequence[Dim], strides: Sequence[int]) -> Value:
    for axis, start in enumerate(tap):
        x = c.slice_axis(b, x, axis, start, out[axis], strides[axis])
    return x


def _select(
    ctx: OpContext,
    padded: Operand,
    real: Array,
    taps: Sequence[Sequence[int]],
    out: Sequence[Dim],
    strides: Sequence[int],
) -> Value:
    """For each window the number of the tap that it selects (i32, -1 for none)."""
    b, region = ctx.b, ctx.region(0)
    best: Operand | None = None
    choice = any_chosen = None
    for number, tap in enumerate(taps):
        candidate = rebuild(padded, [_tap(b, v, tap, out, strides) for v in parts(padded)])
        cuts = tuple(slice(t, t + (int(str(n)) - 1) * s + 1, s) for t, n, s in zip(tap, out, strides, strict=True))
        exists = b.literal(np.ascontiguousarray(real[cuts]))
        place = c.full(b, number, exists.type.with_dtype(DType.I32))
        if best is None or choice is None or any_chosen is None:
            best, any_chosen = candidate, exists
            choice = b.emit(Select(), exists, place, c.full_like(b, -1, place))
            continue
        (keep,) = region.apply([best, candidate])
        assert isinstance(keep, Value)
        keep = c.expand(b, keep, exists.type.shape)
        better = b.emit(Binary("or"), b.emit(Unary("not"), keep), b.emit(Unary("not"), any_chosen))
        taken = b.emit(Binary("and"), exists, better)
        best = rebuild(
            best, [b.emit(Select(), taken, new, old) for new, old in zip(parts(candidate), parts(best), strict=True)]
        )
        choice = b.emit(Select(), taken, place, choice)
        any_chosen = b.emit(Binary("or"), any_chosen, exists)
    assert choice is not None
    return choice


def _scatter(
    ctx: OpContext,
    choice: Value,
    source: Operand,
    init: Operand,
    taps: Sequence[Sequence[int]],
    strides: Sequence[int],
    shape: Sequence[int],
    low: Sequence[int],
) -> Operand:
    """Tap by tap: the windows that selected it put their source elements to its places, all different, and combine there."""
    b, region = ctx.b, ctx.region(1)
    result = rebuild(source, [c.expand(b, v, shape) for v in parts(init)])
    for number, tap in enumerate(taps):
        here = c.compare(b, "eq", choice, c.scalar(b, number, DType.I32))
        places = [_placed(b, here, tap, strides, shape, low, False)]
        places += [_placed(b, v, tap, strides, shape, low, 0) for v in parts(source)]
        item = rebuild(source, places[1:])
        combined = region.apply([result, item])
        new = [c.expand(b, v, shape) for o in combined for v in parts(o)]
        result = rebuild(
            source, [b.emit(Select(), places[0], n, old) for n, old in zip(new, parts(result), strict=True)]
        )
    return result


def _placed(
    b: GraphBuilder,
    x: Value,
    tap: Sequence[int],
    strides: Sequence[int],
    shape: Sequence[int],
    low: Sequence[int],
    fill: int,
) -> Value:
    """Elements of a result of windows at the operand's places that one tap sees."""
    starts = [t - p for t, p in zip(tap, low, strict=True)]
    spans = [(int(str(n)) - 1) * s + 1 for n, s in zip(x.type.shape, strides, strict=True)]
    ends = [size - start - span for size, start, span in zip(shape, starts, spans, strict=True)]
    return pad_value(b, x, c.scalar(b, fill, x.type.dtype), starts, ends, [s - 1 for s in strides])
