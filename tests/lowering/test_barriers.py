"""Broadcasts of broadcasts and slices of them, with symbolic shapes, where MAX by itself gives wrong elements; reductions of broadcasts, which it
refuses; parts of one tensor joined in turn, at which it crashes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from suite import Suite

from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import product, symbol
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Compare, Gather, GatherElements, Iota
from fornaxc.ir.types import DType

SUITE = Suite()
N, S = symbol("n"), symbol("s")
RNG = np.random.default_rng(3)
BLOCKS = product((N, N, S - N + 1, S - N + 1))
X = RNG.standard_normal((2, 3, 3)).astype(np.float32)
ROW, COLUMN = RNG.standard_normal((2, 3)).astype(np.float32)
MASK = np.array([[True, False, False], [True, True, True]])


def row(b: GraphBuilder, v: Value) -> Value:
    return c.reshape(b, v, (1, 1, S))


def column(b: GraphBuilder, v: Value) -> Value:
    return c.reshape(b, v, (1, S, 1))


def outer(b: GraphBuilder, y: Value, z: Value) -> Value:
    return c.binary(b, "sub", row(b, y), column(b, z))


def causal(b: GraphBuilder) -> Value:
    line = b.emit(Iota((S,), 0, DType.I64))
    return b.emit(Compare("le"), c.expand(b, row(b, line), (1, S, S)), c.expand(b, column(b, line), (1, S, S)))


def blocks(b: GraphBuilder) -> Value:
    """The place in [s, s] of each element of each block of [n, n]."""
    shape = (N, N, S - N + 1, S - N + 1)
    first, second, third, fourth = (b.emit(Iota(shape, axis, DType.I64)) for axis in range(4))
    width = c.expand(b, c.reshape(b, b.dims((S,)), (1, 1, 1, 1)), shape)
    rows, columns = c.binary(b, "add", first, third), c.binary(b, "add", second, fourth)
    return c.binary(b, "add", c.binary(b, "mul", rows, width), columns)


def added_in_turn(b: GraphBuilder, x: Value, fetch: Callable[[GraphBuilder, Value, int], Value]) -> Value:
    """The running sums of the rows of x [3, 2]."""
    sums = [fetch(b, x, 0)]
    for k in (1, 2):
        sums.append(c.binary(b, "add", c.unary(b, "neg", sums[-1]), fetch(b, x, k)))
    return c.concat(b, [c.reshape(b, v, (1, 2)) for v in sums], 0)


def by_slice(b: GraphBuilder, x: Value, k: int) -> Value:
    return c.reshape(b, c.slice_axis(b, x, 0, k, 1), (2,))


def by_gather(b: GraphBuilder, x: Value, k: int) -> Value:
    return b.emit(Gather(0), x, b.literal(np.array(k)))


def picked(b: GraphBuilder, x: Value, index: Value) -> Value:
    """Elements of each row of x [n, s, s], by an index that is one row for all, brought from below 0 into the row."""
    spread = c.expand(b, index, (N, S, S))
    size = c.expand(b, c.reshape(b, b.dims((S,)), (1, 1, 1)), (N, S, S))
    below = b.emit(Compare("lt"), spread, c.expand(b, c.scalar(b, 0, DType.I64), (N, S, S)))
    return b.emit(GatherElements(2), x, c.select(b, below, c.binary(b, "add", spread, size), spread))


def add_cases() -> None:
    for fetch in (by_slice, by_gather):
        SUITE.add(f"rows_{fetch.__name__}", lambda b, x, f=fetch: added_in_turn(b, x, f), X[0, :, :2])
    masks = {"shapes": [("n", "s")]}
    SUITE.add("causal", lambda b, x: c.expand(b, causal(b), (N, S, S)), MASK, **masks)
    SUITE.add("causal_and_mask", lambda b, x: c.binary(b, "and", causal(b), c.reshape(b, x, (N, 1, S))), MASK, **masks)
    SUITE.add(
        "places_of_blocks", lambda b, x: c.expand(b, c.reshape(b, blocks(b), (1, BLOCKS)), (3, BLOCKS)), MASK, **masks
    )
    SUITE.add("gather_by_a_broadcast", picked, X, X[:1, :1].astype(np.int64), shapes=[("n", "s", "s"), (1, 1, "s")])
    three = {"shapes": [("n", "s", "s"), ("s",), ("s",)]}
    arrays = (X, ROW, COLUMN)
    SUITE.add("outer_expand", lambda b, x, y, z: c.expand(b, outer(b, y, z), (N, S, S)), *arrays, **three)
    SUITE.add("outer_add", lambda b, x, y, z: c.binary(b, "add", x, outer(b, y, z)), *arrays, **three)
    SUITE.add("outer_slice", lambda b, x, y, z: c.slice_axis(b, outer(b, y, z), 1, 1, 2), *arrays, **three)
    SUITE.add(
        "both_wide",
        lambda b, x, y, z: c.binary(
            b, "mul", c.binary(b, "sub", c.expand(b, row(b, y), (N, S, S)), c.expand(b, column(b, z), (N, S, S))), x
        ),
        *arrays,
        **three,
    )
    SUITE.add(
        "exp_of_both",
        lambda b, x, y, z: c.binary(
            b, "add", c.binary(b, "mul", c.unary(b, "exp", row(b, y)), c.unary(b, "exp", column(b, z))), x
        ),
        *arrays,
        **three,
    )
    SUITE.add(
        "bias_then_expand",
        lambda b, x, y, z: c.expand(b, c.binary(b, "add", c.slice_axis(b, x, 0, 0, 1), row(b, y)), (N, S, S)),
        *arrays,
        **three,
    )
    SUITE.add(
        "bias_then_slice",
        lambda b, x, y, z: c.unary(b, "neg", c.slice_axis(b, c.binary(b, "add", x, row(b, y)), 1, 1, 2)),
        *arrays,
        **three,
    )
    SUITE.add(
        "outer_through_reshape",
        lambda b, x, y, z: c.expand(
            b, c.reshape(b, c.binary(b, "sub", c.reshape(b, y, (1, S)), c.reshape(b, z, (S, 1))), (1, S, S)), (N, S, S)
        ),
        *arrays,
        **three,
    )
    SUITE.add(
        "transposed_then_slice",
        lambda b, x, y, z: c.slice_axis(b, c.transpose(b, c.binary(b, "add", x, column(b, y)), (0, 2, 1)), 1, 1, 2),
        *arrays,
        **three,
    )
    spread = np.array([[True, False, False], [False, False, False]]).reshape(2, 1, 3)
    for fn in ("max", "sum"):
        SUITE.add(
            f"{fn}_of_a_broadcast",
            lambda b, x, fn=fn: c.reduce(b, fn, c.expand(b, c.cast(b, x, DType.I32), (2, 4, 3)), (2,)),
            spread,
        )


add_cases()


@pytest.mark.parametrize("name", SUITE.parameters(*SUITE.cases))
def test_broadcasts_are_read_right(name: str) -> None:
    SUITE.verify(name)
