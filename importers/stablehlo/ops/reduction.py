"""reduce and map: known functions as reductions, other regions applied to halves of the tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from fornaxc.importers.stablehlo.context import OpContext, Refused
from fornaxc.importers.stablehlo.ops.argreduce import arg_reduction
from fornaxc.importers.stablehlo.ops.arithmetic import binary, narrow, wide_type
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Complex, Operand, parts, rebuild
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import DynamicSlice, While
from fornaxc.ir.ops.elementwise import integer_range
from fornaxc.ir.types import DType

Combine = Callable[[list[Operand], list[Operand]], list[Operand]]
REDUCTIONS = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


def identity(function: str, dtype: DType) -> float | int | bool | None:
    """The number that leaves others unchanged under add, mul, max, min, and, or."""
    if dtype is DType.BOOL:
        return function in ("mul", "min", "and")
    if function in ("add", "or", "xor"):
        return 0
    if function == "mul":
        return 1
    if function == "and":
        return -1 if dtype.is_signed else (1 << dtype.bits) - 1
    if dtype.is_float:
        return -inf if function == "max" else inf
    low, high = integer_range(dtype)
    return low if function == "max" else high


def is_identity(ctx: OpContext, function: str, init: Value) -> bool:
    known = ctx.known(init)
    if known is None or known.dtype == object or known.size != 1:
        return False
    return bool(known.reshape(-1)[0] == identity(function, init.type.dtype))


@stablehlo_op("stablehlo.reduce")
def reduce(ctx: OpContext) -> list[Operand]:
    count = len(ctx.operands) // 2
    region = ctx.region(0)
    operands = region.promoted(same_shape(ctx, ctx.operands[:count]))
    inits = region.promoted(ctx.operands[count:], count)
    axes = sorted(ctx.ints("dimensions"))
    function = region.function if count == 1 else None
    operand = operands[0]
    if isinstance(operand, Value) and function in (*REDUCTIONS, "and", "or") and isinstance(inits[0], Value):
        known = _known(ctx, function or "", operand, inits[0], axes)
        if known is not None:
            return [known]
    if isinstance(operand, Complex) and function == "add":
        init = inits[0]
        assert isinstance(init, Complex)
        pairs = ((operand.re, init.re), (operand.im, init.im))
        sums = [_known(ctx, "add", x, i, axes) for x, i in pairs]
        if sums[0] is not None and sums[1] is not None:
            return [Complex(sums[0], sums[1])]
    found = arg_reduction(ctx, operands, inits, axes)
    if found is not None:
        return found
    results = fold(ctx, operands, inits, axes, lambda x, y: region.apply([*x, *y]))
    return [rebuild(o, [c.squeeze(ctx.b, v, axes) for v in parts(o)]) for o in results]


def same_shape(ctx: OpContext, operands: Sequence[Operand]) -> list[Operand]:
    """Operands whose shapes are equal by the specification, under one shape."""
    values = [v for o in operands for v in parts(o)]
    if len({v.type.shape for v in values}) == 1:
        return list(operands)
    aligned = iter(ctx.align(*values))
    return [rebuild(o, [next(aligned) for _ in parts(o)]) for o in operands]


def _known(ctx: OpContext, function: str, x: Value, init: Value, axes: Sequence[int]) -> Value | None:
    b, dtype = ctx.b, x.type.dtype
    fn = REDUCTIONS.get(function)
    if dtype is DType.BOOL:
        fn = {"or": "max", "and": "min", "add": "max", "mul": "min"}.get(function, fn)
    if fn is None:
        return None
    wide = wide_type(dtype)
    reduced = narrow(b, c.reduce(b, fn, c.cast(b, x, wide), axes), dtype)
    reduced = c.reshape(b, reduced, [d for i, d in enumerate(x.type.shape) if i not in axes])
    if is_identity(ctx, function, init):
        return reduced
    return binary(b, function, *c.broadcast(b, init, reduced))


def fold(
    ctx: OpContext, operands: Sequence[Operand], inits: Sequence[Operand], axes: Sequence[int], combine: Combine
) -> list[Operand]:
    """Reduce axes, which stay with size 1, by an associative function; `combine` takes two lists of whole tensors."""
    b = ctx.b
    current = list(operands)
    for axis in axes:
        size = parts(current[0])[0].type.shape[axis]
        if isinstance(size, int):
            current = _halve(b, current, axis, size, combine) if size else _filled(b, current, inits, axis)
        else:
            current = _walk(ctx, current, inits, axis)
    shape = parts(current[0])[0].type.shape
    start = [rebuild(o, [c.expand(b, v, shape) for v in parts(o)]) for o in inits]
    return _shaped(b, combine(start, current), shape)


def _shaped(b: GraphBuilder, operands: Sequence[Operand], shape: Sequence[object]) -> list[Operand]:
    wanted = tuple(shape)
    return [rebuild(o, [c.expand(b, v, wanted) for v in parts(o)]) for o in operands]  # type: ignore[arg-type]


def _filled(b: GraphBuilder, current: Sequence[Operand], inits: Sequence[Operand], axis: int) -> list[Operand]:
    shape = parts(current[0])[0].type.shape
    one = (*shape[:axis], 1, *shape[axis + 1 :])
    return [rebuild(o, [c.expand(b, v, one) for v in parts(o)]) for o in inits]


def _cut(b: GraphBuilder, operands: Sequence[Operand], axis: int, start: int, size: int) -> list[Operand]:
    return [rebuild(o, [c.slice_axis(b, v, axis, start, size) for v in parts(o)]) for o in operands]


def _halve(b: GraphBuilder, current: list[Operand], axis: int, size: int, combine: Combine) -> list[Operand]:
    """Combine neighbours until one is left; the order of the elements is kept."""
    while size > 1:
        pairs = size // 2
        left = [rebuild(o, [c.slice_axis(b, v, axis, 0, pairs, 2) for v in parts(o)]) for o in current]
        right = [rebuild(o, [c.slice_axis(b, v, axis, 1, pairs, 2) for v in parts(o)]) for o in current]
        joined = _shaped(b, combine(left, right), parts(left[0])[0].type.shape)
        if size % 2:
            rest = _cut(b, current, axis, size - 1, 1)
            joined = [
                rebuild(o, [c.concat(b, [x, y], axis) for x, y in zip(parts(o), parts(r), strict=True)])
                for o, r in zip(joined, rest, strict=True)
            ]
        current, size = joined, pairs + size % 2
    return current


def _walk(ctx: OpContext, current: list[Operand], inits: Sequence[Operand], axis: int) -> list[Operand]:
    """One element after the other, for an axis whose size only the run time knows."""
    b, region = ctx.b, ctx.region(0)
    flat = [v for o in current for v in parts(o)]
    shape = flat[0].type.shape
    one = (*shape[:axis], 1, *shape[axis + 1 :])
    start = [v for o in _filled(b, current, inits, axis) for v in parts(o)]
    counter = c.scalar(b, 0, DType.I64)
    condition, body = GraphBuilder(b), GraphBuilder(b)
    seen = condition.input(counter.type)
    for v in start:
        condition.input(v.type)
    limit = c.reshape(condition, condition.dims((shape[axis],)), ())
    go_on = c.compare(condition, "lt", seen, limit)
    step = body.input(counter.type)
    carried = iter([body.input(v.type) for v in start])
    place = c.concat(
        body, [c.reshape(body, step, (1,)) if i == axis else body.dims((0,)) for i in range(len(shape))], 0
    )
    items = iter([body.emit(DynamicSlice(one), v, place) for v in flat])
    before = [rebuild(o, [next(carried) for _ in parts(o)]) for o in current]
    item = [rebuild(o, [next(items) for _ in parts(o)]) for o in current]
    after = [c.expand(body, v, one) for o in region.lifted_within(body, [*before, *item]) for v in parts(o)]
    regions = (condition.finish([go_on]), body.finish([c.with_scalar(body, "add", step, 1), *after]))
    results = iter(b.emit_all(While(), counter, *start, regions=regions)[1:])
    return [rebuild(o, [next(results) for _ in parts(o)]) for o in current]


@stablehlo_op("stablehlo.map")
def map_(ctx: OpContext) -> list[Operand]:
    shape = parts(ctx.operands[0])[0].type.shape
    results = ctx.region(0).apply(ctx.operands)
    if not results:
        raise Refused("a map without result")
    return [rebuild(o, [c.expand(ctx.b, v, shape) for v in parts(o)]) for o in results]
