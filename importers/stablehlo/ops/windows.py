"""reduce_window, with sizes that are numbers or arrive as tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product as cartesian

from fornaxc.importers.stablehlo.context import Invalid, OpContext, Refused
from fornaxc.importers.stablehlo.ops.arithmetic import narrow, wide_type
from fornaxc.importers.stablehlo.ops.reduction import REDUCTIONS, is_identity, same_shape
from fornaxc.importers.stablehlo.ops.shape import pad_value
from fornaxc.importers.stablehlo.regions import FUNCTIONS, Region
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Complex, Operand, parts, rebuild
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, product, static
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import (
    Binary,
    Cumulative,
    DynamicSlice,
    Iota,
    Pad,
    Pool,
    Reduce,
    Select,
    While,
)
from fornaxc.ir.ops.linear import window_size
from fornaxc.ir.types import DType, TensorType

MAX_POOL = 256  # elements of a window up to which it is a pool
IN_ORDER = 64  # elements of a window up to which they are combined in the order that the reference interpreter takes
_POOLS = {"add": "sum", "max": "max"}
_RUNNING = {"add": "sum", "mul": "prod"}


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a reduction, axis by axis: `spread` is the distance of elements, `dilations` that of taps."""

    sizes: tuple[Dim, ...]
    strides: tuple[int, ...]
    spread: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[Dim, Dim], ...]

    def count(self, axis: int, padded: Dim) -> Dim:
        """How many windows there are along an axis of this size, padding included."""
        free = padded - self.dilations[axis] * (self.sizes[axis] - 1) - 1
        count = free // self.strides[axis] + 1
        return max(count, 0) if isinstance(count, int) else count

    def running(self, shape: Sequence[Dim]) -> tuple[int, bool] | None:
        """The axis, and whether from its end, where window i holds all elements up to i; None where it does not."""
        wide = [axis for axis, size in enumerate(self.sizes) if size != 1]
        if len(wide) != 1 or any(n != 1 for n in (*self.strides, *self.spread, *self.dilations)):
            return None
        (axis,) = wide
        before = self.sizes[axis] - 1
        if self.sizes[axis] != shape[axis] or any(p != (0, 0) for i, p in enumerate(self.pads) if i != axis):
            return None
        return (axis, self.pads[axis] == (0, before)) if self.pads[axis] in ((before, 0), (0, before)) else None


@stablehlo_op("stablehlo.reduce_window")
def reduce_window(ctx: OpContext) -> list[Operand]:
    count = len(ctx.operands) // 2
    rank = parts(ctx.operands[0])[0].type.rank
    ones = (1,) * rank
    windows = Windows(
        ctx.ints("window_dimensions"),
        ctx.ints("window_strides", ones),
        ctx.ints("base_dilations", ones),
        ctx.ints("window_dilations", ones),
        ctx.pairs("padding", rank),
    )
    return _reduce_windows(ctx, ctx.region(0), ctx.operands[:count], ctx.operands[count:], windows)


@stablehlo_op("stablehlo.dynamic_reduce_window")
def dynamic_reduce_window(ctx: OpContext) -> list[Operand]:
    """The custom call by which jax writes windows whose size or padding depends on sizes: these are its last five operands.

    Sizes of windows and padding may be symbolic; strides and dilations must be numbers.
    """
    count = (len(ctx.operands) - 5) // 2
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding")
    sizes, strides, spread, dilations, pads = (ctx.dims(ctx.value(2 * count + i), name) for i, name in enumerate(names))
    rank = parts(ctx.operands[0])[0].type.rank
    if count < 1 or len(ctx.operands) % 2 == 0 or {len(sizes), len(strides), len(spread), len(dilations)} != {rank}:
        raise Invalid(f"windows over {rank} axes want operands, initial values, and {', '.join(names)} of each axis")
    windows = Windows(
        sizes,
        _numbers(names[1], strides),
        _numbers(names[2], spread),
        _numbers(names[3], dilations),
        tuple(zip(pads[::2], pads[1::2], strict=True)),
    )
    return _reduce_windows(ctx, ctx.called_region(), ctx.operands[:count], ctx.operands[count : 2 * count], windows)


def _numbers(name: str, dims: Sequence[Dim]) -> tuple[int, ...]:
    for axis, dim in enumerate(dims):
        if not isinstance(dim, int):
            raise Refused(f"{name}[{axis}] is the size {dim}, which must be known")
    return tuple(d for d in dims if isinstance(d, int))


def _reduce_windows(
    ctx: OpContext, region: Region, operands: Sequence[Operand], inits: Sequence[Operand], windows: Windows
) -> list[Operand]:
    b = ctx.b
    operands = region.promoted(same_shape(ctx, operands))
    inits = region.promoted(inits, len(operands))
    function = region.function if len(operands) == 1 and region.function in FUNCTIONS.values() else None
    neutral = function is not None and all(is_identity(ctx, function, i) for init in inits for i in parts(init))
    known = _pooled(b, operands[0], function, windows) if function is not None and neutral else None
    if known is not None:
        return [known]
    running = windows.running(parts(operands[0])[0].type.shape)
    symbolic = not all(isinstance(d, int) for d in windows.sizes)
    if running is not None and (neutral or (function is None and symbolic)):
        current = _scan(b, region, operands, *running)
        return current if neutral else _from_start(b, region, inits, current)
    low, high = [p[0] for p in windows.pads], [p[1] for p in windows.pads]
    between = [s - 1 for s in windows.spread]
    current = [
        rebuild(o, [pad_value(b, x, i, low, high, between) for x, i in zip(parts(o), parts(init), strict=True)])
        for o, init in zip(operands, inits, strict=True)
    ]
    padded = parts(current[0])[0].type.shape
    sizes = [windows.count(axis, size) for axis, size in enumerate(padded)]
    taps = product(windows.sizes)
    if function is None and isinstance(taps, int) and taps <= IN_ORDER:
        return _one_by_one(b, region, current, inits, windows, sizes)
    for axis, size in enumerate(sizes):
        width = windows.sizes[axis]
        if isinstance(width, int):
            current = _slide(b, region, current, axis, width, windows.strides[axis], windows.dilations[axis], size)
        elif width == padded[axis] and neutral and function in REDUCTIONS and _is_numeric(current[0]):
            whole = Reduce(REDUCTIONS[function], (axis,))
            current = [rebuild(o, [_widely(b, whole, v) for v in parts(o)]) for o in current]
        else:
            current = _tap_by_tap(b, region, current, axis, windows, size)
    return current if neutral else _from_start(b, region, inits, current)


def _is_numeric(operand: Operand) -> bool:
    return all(v.type.dtype is not DType.BOOL for v in parts(operand))


def _from_start(b: GraphBuilder, region: Region, inits: Sequence[Operand], current: Sequence[Operand]) -> list[Operand]:
    """The initial values combined with what was made of the elements."""
    shape = parts(current[0])[0].type.shape
    start = [rebuild(o, [c.expand(b, v, shape) for v in parts(o)]) for o in inits]
    return _under(b, region.apply([*start, *current]), shape)


def _under(b: GraphBuilder, operands: Sequence[Operand], shape: Sequence[Dim]) -> list[Operand]:
    return [rebuild(o, [c.expand(b, v, shape) for v in parts(o)]) for o in operands]


def _scan(b: GraphBuilder, region: Region, operands: Sequence[Operand], axis: int, reverse: bool) -> list[Operand]:
    """Each element combined with all before it (or after it): over distances of 1, 2, 4, ..., so in logarithmically many steps."""
    size = parts(operands[0])[0].type.shape[axis]
    if not isinstance(size, int):
        return _scan_in_loop(b, region, operands, axis, reverse)
    current, step = list(operands), 1
    while step < size:
        first, last = _part(b, current, axis, 0, size - step), _part(b, current, axis, step, size - step)
        joined = in_shape_of(b, region.apply([*first, *last]), first)
        rest = _part(b, current, axis, size - step if reverse else 0, step)
        pairs = zip(joined, rest, strict=True) if reverse else zip(rest, joined, strict=True)
        current = [
            rebuild(x, [c.concat(b, [v, w], axis) for v, w in zip(parts(x), parts(y), strict=True)]) for x, y in pairs
        ]
        step *= 2
    return current


def _scan_in_loop(
    b: GraphBuilder, region: Region, operands: Sequence[Operand], axis: int, reverse: bool
) -> list[Operand]:
    """As `_scan`, for an axis whose size only the run time knows."""
    shape = parts(operands[0])[0].type.shape
    none: tuple[Dim, ...] = (0,) * len(shape)
    room = tuple(size if i == axis else 0 for i, size in enumerate(shape))
    widened = Pad(none, room) if reverse else Pad(room, none)

    def join(body: GraphBuilder, distance: Value, current: list[Operand]) -> list[Operand]:
        rest = body.emit(Binary("sub"), size_of(body, shape[axis]), distance)
        number = body.emit(Iota(shape, axis, DType.I64))
        has_other = c.compare(body, "lt", number, rest) if reverse else c.compare(body, "ge", number, distance)
        place = _start_along(body, axis, len(shape), distance if reverse else rest)

        def other(v: Value) -> Value:
            return body.emit(DynamicSlice(shape), body.emit(widened, v, c.scalar(body, 0, v.type.dtype)), place)

        others = [rebuild(o, [other(v) for v in parts(o)]) for o in current]
        joined = region.lifted_within(body, [*current, *others] if reverse else [*others, *current])
        pairs = zip(_under(body, joined, shape), current, strict=True)
        return [
            rebuild(y, [body.emit(Select(), has_other, v, w) for v, w in zip(parts(x), parts(y), strict=True)])
            for x, y in pairs
        ]

    return _repeat(b, operands, shape[axis], ("mul", 2), join)


def _tap_by_tap(
    b: GraphBuilder, region: Region, current: Sequence[Operand], axis: int, windows: Windows, count: Dim
) -> list[Operand]:
    """Combine the elements of each window along one axis, whose width only the run time knows, one after the other."""
    stride, dilation = windows.strides[axis], windows.dilations[axis]
    shape = parts(current[0])[0].type.shape
    spanned = (*shape[:axis], (count - 1) * stride + 1, *shape[axis + 1 :])

    def join(body: GraphBuilder, tap: Value, before: list[Operand]) -> list[Operand]:
        place = _start_along(body, axis, len(shape), c.with_scalar(body, "mul", tap, dilation))
        seen = [rebuild(o, [body.emit(DynamicSlice(spanned), v, place) for v in parts(o)]) for o in current]
        return region.lifted_within(body, [*before, *_part(body, seen, axis, 0, count, stride)])

    return _repeat(b, _part(b, current, axis, 0, count, stride), windows.sizes[axis], ("add", 1), join)


def _repeat(
    b: GraphBuilder,
    operands: Sequence[Operand],
    below: Dim,
    growth: tuple[str, int],
    step: Callable[[GraphBuilder, Value, list[Operand]], list[Operand]],
) -> list[Operand]:
    """The operands after `step` with each i64 number from 1 on that is below a size; `growth` makes the next number of one."""
    flat = [v for o in operands for v in parts(o)]
    condition, body = GraphBuilder(b), GraphBuilder(b)
    condition.origin = body.origin = b.origin
    tested, number = (builder.input(TensorType(DType.I64, ())) for builder in (condition, body))
    for v in flat:
        condition.input(v.type)
    go_on = c.compare(condition, "lt", tested, size_of(condition, below))
    carried = _regrouped(operands, [body.input(v.type) for v in flat])
    after = [v for o in in_shape_of(body, step(body, number, carried), carried) for v in parts(o)]
    regions = (condition.finish([go_on]), body.finish([c.with_scalar(body, growth[0], number, growth[1]), *after]))
    return _regrouped(operands, b.emit_all(While(), c.scalar(b, 1, DType.I64), *flat, regions=regions)[1:])


def size_of(b: GraphBuilder, size: Dim) -> Value:
    return c.reshape(b, b.dims((size,)), ())


def _start_along(b: GraphBuilder, axis: int, rank: int, start: Value) -> Value:
    """The start of a slice: `start` on one axis, 0 on the others."""
    return c.concat(b, [c.reshape(b, start, (1,)) if i == axis else b.dims((0,)) for i in range(rank)], 0)


def _regrouped(like: Sequence[Operand], values: Sequence[Value]) -> list[Operand]:
    """Operands of the structure of `like` from the values of all their parts."""
    rest = iter(values)
    return [rebuild(o, [next(rest) for _ in parts(o)]) for o in like]


def _one_by_one(
    b: GraphBuilder,
    region: Region,
    current: Sequence[Operand],
    inits: Sequence[Operand],
    windows: Windows,
    sizes: Sequence[Dim],
) -> list[Operand]:
    """Combine the elements of each window in row-major order, from the initial values on."""
    result = _under(b, inits, sizes)
    if any(size == 0 for size in sizes):
        return result
    for tap in cartesian(*(range(static(k)) for k in windows.sizes)):
        at = [t * d for t, d in zip(tap, windows.dilations, strict=True)]
        item = [rebuild(o, [tap_of(b, v, at, sizes, windows.strides) for v in parts(o)]) for o in current]
        result = _under(b, region.apply([*result, *item]), sizes)
    return result


def _slide(
    b: GraphBuilder,
    region: Region,
    current: list[Operand],
    axis: int,
    window: int,
    stride: int,
    dilation: int,
    count: Dim,
) -> list[Operand]:
    """Combine the elements of each window along one axis: spans of 1, 2, 4, ... are joined to the window's width."""
    if count == 0:
        return _part(b, current, axis, 0, 0)
    pieces: list[tuple[int, list[Operand]]] = []  # where it starts in the window, and its spans
    spans, width, start = current, 1, 0
    while True:
        if window & width:
            pieces.append((start, spans))
            start += width
        if 2 * width > window:
            break
        length = parts(spans[0])[0].type.shape[axis] - width * dilation
        first, last = (_part(b, spans, axis, at, length) for at in (0, width * dilation))
        spans = in_shape_of(b, region.apply([*first, *last]), first)
        width *= 2
    result: list[Operand] | None = None
    for offset, operands in pieces:
        taken = _part(b, operands, axis, offset * dilation, count, stride)
        result = taken if result is None else in_shape_of(b, region.apply([*result, *taken]), taken)
    assert result is not None
    return result


def in_shape_of(b: GraphBuilder, results: Sequence[Operand], like: Sequence[Operand]) -> list[Operand]:
    return _under(b, results, parts(like[0])[0].type.shape)


def _part(
    b: GraphBuilder, operands: Sequence[Operand], axis: int, start: int, size: Dim, step: int = 1
) -> list[Operand]:
    return [rebuild(o, [c.slice_axis(b, v, axis, start, size, step) for v in parts(o)]) for o in operands]


def _pooled(b: GraphBuilder, operand: Operand, function: str, windows: Windows) -> Operand | None:
    """The window reduction as a running sum or product, or as a pool; None where it is neither."""
    values = parts(operand)
    shape = values[0].type.shape
    if not _is_numeric(operand) or (isinstance(operand, Complex) and function != "add"):
        return None
    running = windows.running(shape)
    if running is not None:
        op = Cumulative(_RUNNING[function], running[0], reverse=running[1]) if function in _RUNNING else None
        return None if op is None else rebuild(operand, [_widely(b, op, v) for v in values])
    strides, dilations, spread = windows.strides, windows.dilations, windows.spread
    fixed = [d for d in (*shape, *windows.sizes, *(p for pair in windows.pads for p in pair)) if isinstance(d, int)]
    if len(fixed) != 4 * len(shape) or min(fixed, default=0) < 0 or 0 in shape:
        return None
    sizes = [static(size) for size in windows.sizes]
    pads = [(static(low), static(high)) for low, high in windows.pads]
    touched = [a for a in range(len(shape)) if sizes[a] != 1 or strides[a] != 1 or pads[a] != (0, 0)]
    taps = static(product([sizes[a] for a in touched]))
    if function not in _POOLS or not touched or taps > MAX_POOL or any(s != 1 for s in spread):
        return None
    if any(window_size(shape[a], *pads[a], sizes[a], strides[a], dilations[a]) == 0 for a in touched):
        return None
    order = [*(axis for axis in range(len(shape)) if axis not in touched), *touched]
    pool = Pool(
        _POOLS[function],
        tuple(sizes[a] for a in touched),
        tuple(strides[a] for a in touched),
        tuple(pads[a][0] for a in touched),
        tuple(pads[a][1] for a in touched),
        tuple(dilations[a] for a in touched),
    )
    back = [order.index(i) for i in range(len(shape))]
    return rebuild(operand, [c.transpose(b, _widely(b, pool, c.transpose(b, v, order)), back) for v in values])


def _widely(b: GraphBuilder, op: Pool | Cumulative | Reduce, x: Value) -> Value:
    """The operation in a type that holds it: narrow floats in f32, integers below 8 bits in 8."""
    dtype = x.type.dtype
    wide = DType.F32 if dtype in (DType.F16, DType.BF16) else wide_type(dtype)
    return narrow(b, b.emit(op, c.cast(b, x, wide)), dtype)


def tap_of(b: GraphBuilder, x: Value, tap: Sequence[int], out: Sequence[Dim], strides: Sequence[int]) -> Value:
    for axis, start in enumerate(tap):
        x = c.slice_axis(b, x, axis, start, out[axis], strides[axis])
    return x
