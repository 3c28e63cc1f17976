"""Sorting by any comparator in few steps, each of which compares half of the elements with the other half: a merge exchange."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fornaxc.importers.stablehlo.types import Operand, parts, rebuild
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, GatherElements, Iota, Select, Unary, While
from fornaxc.ir.types import DType

Less = Callable[[GraphBuilder, list[Operand]], Value]
_BITS = 64


def precedes(b: GraphBuilder, less: Value, greater: Value, earlier: Value) -> Value:
    """Whether x comes before y: less(x, y) and not less(y, x), or where both or neither hold, what is earlier."""
    differ = b.emit(Binary("xor"), less, greater)
    return b.emit(Binary("or"), b.emit(Binary("and"), differ, less), _without(b, earlier, differ))


def _without(b: GraphBuilder, x: Value, y: Value) -> Value:
    return b.emit(Binary("and"), x, b.emit(Unary("not"), y))


def beside(left: list[Operand], right: list[Operand]) -> list[Operand]:
    """The arguments of a comparator: each operand's left and right element in turn."""
    return [o for pair in zip(left, right, strict=True) for o in pair]


def exchanged_order(b: GraphBuilder, operands: Sequence[Operand], axis: int, less: Less) -> Value:
    """The permutation that sorts an axis of any size stably, i64; `less` is asked of tensors side by side, in a body of control flow.

    Batcher's network for any number of elements: for falling p, elements i and i + d are put in order where i & p is r, with (q, r, d) going
    from (top, 0, p) over (q / 2, p, q - p) until q is p; top is the largest power of two below the size.
    """
    shape = parts(operands[0])[0].type.shape
    order = b.emit(Iota(shape, axis, DType.I64))
    top = _top(b, shape[axis])
    start = [top, top, c.scalar(b, 0, DType.I64), top]
    condition, body = GraphBuilder(b), GraphBuilder(b)
    condition.origin = body.origin = b.origin
    seen = [condition.input(v.type) for v in (*start, order)]
    go_on = c.compare(condition, "gt", seen[0], c.scalar(condition, 0, DType.I64))
    p, q, r, d = (body.input(v.type) for v in start)
    current = body.input(order.type)
    after = _step(body, operands, axis, less, current, (p, r, d))
    last = c.compare(body, "eq", q, p)
    half = c.with_scalar(body, "shr", p, 1)
    nexts = [
        body.emit(Select(), last, half, p),
        body.emit(Select(), last, top, c.with_scalar(body, "shr", q, 1)),
        body.emit(Select(), last, c.scalar(body, 0, DType.I64), p),
        body.emit(Select(), last, half, body.emit(Binary("sub"), q, p)),
    ]
    regions = (condition.finish([go_on]), body.finish([*nexts, after]))
    return b.emit_all(While(), *start, order, regions=regions)[4]


def _top(b: GraphBuilder, size: Dim) -> Value:
    """The largest power of two below a size, 0 for sizes up to 1: half of what sets all bits up to the highest one, and 1."""
    bits = c.reshape(b, b.dims((size,)), ())
    bits = c.with_scalar(b, "max", c.with_scalar(b, "sub", bits, 1), 0)
    step = 1
    while step < _BITS:
        bits = b.emit(Binary("or"), bits, c.with_scalar(b, "shr", bits, step))
        step *= 2
    return c.with_scalar(b, "shr", c.with_scalar(b, "add", bits, 1), 1)


def _step(
    b: GraphBuilder,
    operands: Sequence[Operand],
    axis: int,
    less: Less,
    order: Value,
    numbers: tuple[Value, Value, Value],
) -> Value:
    """The permutation after the elements i and i + d are put in order where i & p is r."""
    p, r, d = numbers
    shape = order.type.shape
    place = b.emit(Iota(shape, axis, DType.I64))
    zero = c.scalar(b, 0, DType.I64)
    above, below = c.binary(b, "add", place, d), c.binary(b, "sub", place, d)
    size = c.reshape(b, b.dims((shape[axis],)), ())
    low = b.emit(
        Binary("and"),
        c.compare(b, "eq", c.binary(b, "and", place, p), r),
        c.compare(b, "lt", above, size),
    )
    high = b.emit(Binary("and"), c.compare(b, "eq", c.binary(b, "and", below, p), r), c.compare(b, "ge", below, zero))
    partner = c.select(b, low, above, c.select(b, high, below, place))
    other = b.emit(GatherElements(axis), order, partner)
    own, others = _taken(b, operands, axis, order), _taken(b, operands, axis, other)
    forth, back = less(b, beside(own, others)), less(b, beside(others, own))
    first = precedes(b, forth, back, c.compare(b, "lt", order, other))
    swap = b.emit(Select(), low, b.emit(Unary("not"), first), b.emit(Binary("and"), high, first))
    return b.emit(Select(), swap, other, order)


def _taken(b: GraphBuilder, operands: Sequence[Operand], axis: int, order: Value) -> list[Operand]:
    return [rebuild(o, [b.emit(GatherElements(axis), v, order) for v in parts(o)]) for o in operands]
