"""select_and_scatter: the gradient of a pool."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as cartesian

import numpy as np

from fornaxc.importers.stablehlo.context import OpContext
from fornaxc.importers.stablehlo.ops.arithmetic import wide_type
from fornaxc.importers.stablehlo.ops.reduction import identity
from fornaxc.importers.stablehlo.ops.shape import pad_value
from fornaxc.importers.stablehlo.ops.windows import in_shape_of, size_of, tap_of
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Operand, parts, rebuild
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, product, static
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, Compare, Iota, Select, Unary
from fornaxc.ir.ops.linear import window_size
from fornaxc.ir.types import DType, TensorType

MAX_TAPS = 4096  # elements of a window


@stablehlo_op("stablehlo.select_and_scatter")
def select_and_scatter(ctx: OpContext) -> Operand:
    """Each window of the operand selects one element, which receives the source's; what is in the padding is never selected."""
    b = ctx.b
    operand = ctx.operands[0]
    init, source = ctx.region(1).promoted([ctx.operands[2], ctx.operands[1]])
    shape = parts(operand)[0].type.shape
    rank = len(shape)
    ones = (1,) * rank
    window, strides = ctx.ints("window_dimensions", ones), ctx.ints("window_strides", ones)
    pads = ctx.pairs("padding", rank)
    counts = [window_size(shape[i], *pads[i], window[i], strides[i], 1) for i in range(rank)]
    source = rebuild(source, [c.rebind(b, v, counts) for v in parts(source)])
    if 0 in counts:
        return rebuild(source, [c.expand(b, v, shape) for v in parts(init)])
    whole = [axis for axis in range(rank) if window[axis] == shape[axis]]
    rest = [axis for axis in range(rank) if axis not in whole]
    if all(pair == (0, 0) for pair in pads) and all(window[i] == 1 and counts[i] == shape[i] for i in rest):
        found = _scatter_to_extremes(ctx, operand, source, init, whole)
        if found is not None:
            return found
    ctx.refuse_unless(int(np.prod(window, dtype=np.int64)) <= MAX_TAPS, f"a window of more than {MAX_TAPS} elements")
    low, high = [p[0] for p in pads], [p[1] for p in pads]
    zeros = [0] * rank
    padded = rebuild(operand, [pad_value(b, v, c.scalar(b, 0, v.type.dtype), low, high, zeros) for v in parts(operand)])
    taps = list(cartesian(*(range(k) for k in window)))
    exists = [_inside(b, tap, strides, pads, counts, shape) for tap in taps]
    choice = _select(ctx, padded, exists, taps, counts, strides)
    return _scatter(ctx, choice, source, init, taps, strides, shape, low)


def _scatter_to_extremes(
    ctx: OpContext, operand: Operand, source: Operand, init: Operand, axes: Sequence[int]
) -> Operand | None:
    """For windows that are these axes as a whole and a selection by >= or <=: the first extreme receives the source's element.

    A NaN compares with nothing, so that the selection starts anew after it. None where the selection is another.
    """
    b = ctx.b
    fn = _extreme(ctx)
    if fn is None or not isinstance(operand, Value) or operand.type.dtype is DType.BOOL:
        return None
    x = c.cast(b, operand, wide_type(operand.type.dtype))
    shape, dtype = x.type.shape, x.type.dtype
    window = [size if i in axes else 1 for i, size in enumerate(shape)]
    count = static(product(window))
    number = c.reshape(b, b.emit(Iota((count,), 0, DType.I64)), window)
    last = c.scalar(b, count - 1, DType.I64)
    eligible = c.full(b, True, TensorType(DType.BOOL, shape))
    if dtype.is_float:
        nan = b.emit(Compare("ne"), x, x)
        last_nan = c.reduce(b, "max", c.select(b, nan, number, c.scalar(b, -1, DType.I64)), axes)
        eligible = c.expand(b, c.compare(b, "gt", number, last_nan), shape)
    none = identity(fn, dtype)
    assert none is not None
    extreme = c.reduce(b, fn, c.select(b, eligible, x, c.scalar(b, none, dtype)), axes)
    found = b.emit(Binary("and"), eligible, c.compare(b, "eq", x, extreme))
    place = c.reduce(b, "min", c.select(b, found, number, last), axes)
    here = c.compare(b, "eq", number, place)
    combined = in_shape_of(b, ctx.region(1).apply([init, source]), [source])
    pairs = zip((v for o in combined for v in parts(o)), parts(init), strict=True)
    return rebuild(source, [c.select(b, here, new, old) for new, old in pairs])


def _extreme(ctx: OpContext) -> str | None:
    """`max` or `min` where a selection keeps the first of its arguments if it is >= or <= the second."""
    block = ctx.region(0).block
    operations = [op.operation for op in block.operations]
    if len(operations) != 2 or operations[0].name != "stablehlo.compare" or "TOTAL" in str(operations[0]):
        return None
    if list(operations[0].operands) != list(block.arguments):
        return None
    direction = str(operations[0].attributes["comparison_direction"])
    return "max" if "GE" in direction else "min" if "LE" in direction else None


def _inside(
    b: GraphBuilder,
    tap: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    counts: Sequence[Dim],
    shape: Sequence[Dim],
) -> Value | None:
    """Where a tap sees an element and no padding, broadcastable to the windows; None where it always does."""
    inside: Value | None = None
    for axis, (low, high) in enumerate(pads):
        if low <= 0 and high <= 0:
            continue
        size, count = shape[axis], counts[axis]
        line = b.literal(np.arange(count)) if isinstance(count, int) else b.emit(Iota((count,), 0, DType.I64))
        place = c.with_scalar(b, "add", c.with_scalar(b, "mul", line, strides[axis]), tap[axis] - low)
        real = b.emit(
            Binary("and"),
            c.compare(b, "ge", place, c.scalar(b, 0, DType.I64)),
            c.compare(b, "lt", place, size_of(b, size)),
        )
        real = c.reshape(b, real, [count if i == axis else 1 for i in range(len(shape))])
        inside = real if inside is None else c.binary(b, "and", inside, real)
    return inside


def _select(
    ctx: OpContext,
    padded: Operand,
    exists: Sequence[Value | None],
    taps: Sequence[Sequence[int]],
    counts: Sequence[Dim],
    strides: Sequence[int],
) -> Value:
    """For each window the number of the tap that it selects (i32, -1 for none)."""
    b, region = ctx.b, ctx.region(0)
    best = rebuild(padded, [tap_of(b, v, taps[0], counts, strides) for v in parts(padded)])
    none = c.full(b, -1, TensorType(DType.I32, tuple(counts)))
    choice = c.full_like(b, 0, none) if exists[0] is None else c.select(b, exists[0], c.full_like(b, 0, none), none)
    for number, tap in enumerate(taps[1:], 1):
        candidate = rebuild(padded, [tap_of(b, v, tap, counts, strides) for v in parts(padded)])
        (keep,) = region.apply([best, candidate])
        assert isinstance(keep, Value)
        taken = b.emit(Unary("not"), c.expand(b, keep, counts))
        if exists[0] is not None:
            taken = b.emit(Binary("or"), taken, c.compare(b, "lt", choice, c.scalar(b, 0, DType.I32)))
        inside = exists[number]
        if inside is not None:
            taken = c.binary(b, "and", taken, inside)
        best = rebuild(
            best, [b.emit(Select(), taken, new, old) for new, old in zip(parts(candidate), parts(best), strict=True)]
        )
        choice = c.select(b, taken, c.scalar(b, number, DType.I32), choice)
    return choice


def _scatter(
    ctx: OpContext,
    choice: Value,
    source: Operand,
    init: Operand,
    taps: Sequence[Sequence[int]],
    strides: Sequence[int],
    shape: Sequence[Dim],
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
    shape: Sequence[Dim],
    low: Sequence[int],
    fill: int,
) -> Value:
    """Elements of a result of windows at the operand's places that one tap sees."""
    starts = [t - p for t, p in zip(tap, low, strict=True)]
    spans = [(n - 1) * s + 1 for n, s in zip(x.type.shape, strides, strict=True)]
    ends = [size - start - span for size, start, span in zip(shape, starts, spans, strict=True)]
    placed = pad_value(b, x, c.scalar(b, fill, x.type.dtype), starts, ends, [s - 1 for s in strides])
    return c.rebind(b, placed, shape)
