"""Reading a tensor at positions that only the run time knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product as cartesian

from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, product
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import GatherNd
from fornaxc.ir.types import DType

Tap = tuple[Value, Value | None]  # an integral position (in floating point) on one axis, and its weight
Bound = Callable[[int, Value], tuple[Value, Value | None]]  # a position of an axis to one inside, and where it counts


def rows_last(b: GraphBuilder, x: Value) -> Value:
    """[N, C, *sizes] as [N, the product of the sizes, C]."""
    flat = c.reshape(b, x, (*x.type.shape[:2], product(x.type.shape[2:])))
    return c.transpose(b, flat, (0, 2, 1))


def size_as(b: GraphBuilder, size: Dim, dtype: DType) -> Value:
    """A dim as a number."""
    return c.cast(b, c.reshape(b, b.dims((size,)), ()), dtype)


def clamp(b: GraphBuilder, x: Value, low: float, high: Value) -> Value:
    return c.binary(b, "min", c.with_scalar(b, "max", x, low), high)


def weighted_sum(
    b: GraphBuilder, rows: Value, sizes: Sequence[Dim], taps: Sequence[Sequence[Tap]], bound: Bound
) -> Value:
    """The sum over one tap of each axis, in all combinations, of the product of their weights times the element there.

    rows: [N, product of sizes, C]; positions: [N, points]. Result: [N, points, C].
    """
    total: Value | None = None
    for corner in cartesian(*taps):
        part = _corner(b, rows, sizes, corner, bound)
        total = part if total is None else c.binary(b, "add", total, part)
    assert total is not None
    return total


def corners(
    b: GraphBuilder, rows: Value, sizes: Sequence[Dim], taps: Sequence[Sequence[Tap]], bound: Bound
) -> list[Value]:
    """The terms of `weighted_sum`."""
    return [_corner(b, rows, sizes, corner, bound) for corner in cartesian(*taps)]


def _corner(b: GraphBuilder, rows: Value, sizes: Sequence[Dim], corner: Sequence[Tap], bound: Bound) -> Value:
    index: Value | None = None
    factor: Value | None = None
    counts: Value | None = None
    for axis, (place, weight) in enumerate(corner):
        inside, valid = bound(axis, place)
        last = size_as(b, sizes[axis] - 1, DType.I64)
        step = clamp(b, c.cast(b, inside, DType.I64), 0, last)
        if index is not None:
            step = c.binary(b, "add", c.binary(b, "mul", index, size_as(b, sizes[axis], DType.I64)), step)
        index = step
        if weight is not None:
            factor = weight if factor is None else c.binary(b, "mul", factor, weight)
        if valid is not None:
            counts = valid if counts is None else c.binary(b, "and", counts, valid)
    assert index is not None
    found = b.emit(GatherNd(1), rows, c.unsqueeze(b, index, (2,)))
    if factor is not None:
        found = c.binary(b, "mul", found, c.unsqueeze(b, factor, (2,)))
    if counts is not None:
        found = c.select(b, c.unsqueeze(b, counts, (2,)), found, c.scalar(b, 0, found.type.dtype))
    return found


def linear_taps(b: GraphBuilder, x: Value) -> list[Tap]:
    """The two neighbours of a position."""
    low = c.unary(b, "floor", x)
    part = c.binary(b, "sub", x, low)
    return [(low, c.binary(b, "sub", c.full_like(b, 1, part), part)), (c.with_scalar(b, "add", low, 1), part)]


def cubic_taps(b: GraphBuilder, x: Value, a: float) -> list[Tap]:
    """The four neighbours of a position, weighted by the cubic convolution kernel."""
    low = c.unary(b, "floor", x)
    part = c.binary(b, "sub", x, low)
    taps: list[Tap] = []
    for offset in (-1, 0, 1, 2):
        distance = c.unary(b, "abs", c.with_scalar(b, "sub", part, offset))
        if offset in (0, 1):
            weight = polynomial(b, distance, (a + 2, -(a + 3), 0, 1))
        else:
            weight = polynomial(b, distance, (a, -5 * a, 8 * a, -4 * a))
        taps.append((c.with_scalar(b, "add", low, offset), weight))
    return taps


def polynomial(b: GraphBuilder, x: Value, coefficients: Sequence[float]) -> Value:
    """Horner's scheme; the highest power first."""
    total = c.full_like(b, coefficients[0], x)
    for coefficient in coefficients[1:]:
        total = c.with_scalar(b, "add", c.binary(b, "mul", total, x), coefficient)
    return total
