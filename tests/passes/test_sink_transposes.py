"""What follows channels-last data without leaving its layout: channel shuffles, constants repeated over an image, pools over channels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check
from fornaxc.ir.dims import Dim, symbol
from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import BroadcastTo, Conv, Pool, Reshape, Transpose
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.layout import sink_transposes
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack
from fornaxc.passes.regrouped import regrouped

RNG = np.random.default_rng(3)


def weight(b: GraphBuilder, *shape: int) -> Value:
    array = RNG.standard_normal(shape).astype(np.float32)
    return b.weight(TensorType(DType.F32, shape), lambda: array)


def pointwise(b: GraphBuilder, x: Value, filters: int, groups: int = 1) -> Value:
    channels = int(str(x.type.shape[1]))
    return b.emit(Conv((1, 1), (0, 0), (0, 0), (1, 1), groups), x, weight(b, filters, channels // groups, 1, 1))


def net(middle: Callable[[GraphBuilder, Value], Value], batch: Dim) -> Graph:
    """A convolution to 12 channels, `middle`, and another convolution."""
    b = GraphBuilder()
    y = middle(b, pointwise(b, b.input(TensorType(DType.F32, (batch, 3, 5, 7)), "x"), 12))
    return b.finish([pointwise(b, y, 4)], ["y"])


def shuffled(b: GraphBuilder, y: Value) -> Value:
    n, c, h, w = y.type.shape
    split = b.emit(Reshape((n, 3, 4, h, w)), y)
    return b.emit(Reshape((n, c, h, w)), b.emit(Transpose((0, 2, 1, 3, 4)), split))


def scaled_and_shifted(b: GraphBuilder, y: Value) -> Value:
    for fn in ("mul", "add"):
        line = compose.unary(b, "exp", compose.reshape(b, weight(b, 12), (1, 12, 1, 1)))
        y = compose.binary(b, fn, y, b.emit(BroadcastTo(y.type.shape), line))
    return compose.unary(b, "relu", y)


def normalised_over_channels(b: GraphBuilder, y: Value) -> Value:
    around = Pool("sum", (5, 1, 1), (1, 1, 1), (2, 0, 0), (2, 0, 0), (1, 1, 1))
    total = b.emit(around, compose.binary(b, "mul", y, y))
    return compose.binary(b, "div", y, compose.binary(b, "add", compose.unary(b, "sqrt", total), y))


def strided_over_channels(b: GraphBuilder, y: Value) -> Value:
    return b.emit(Pool("max", (3, 2, 1), (2, 1, 3), (1, 0, 0), (0, 1, 0), (1, 2, 1)), y)


INSIDE = {  # transposes that are left beside those of the input and of the output
    shuffled: 1,
    scaled_and_shifted: 0,
    normalised_over_channels: 0,
    strided_over_channels: 0,
}


@pytest.mark.parametrize("batch", [1, 2, "n"])
@pytest.mark.parametrize("middle", INSIDE, ids=lambda f: f.__name__)
def test_the_layout_is_kept_inside(middle: Callable[[GraphBuilder, Value], Value], batch: int | str) -> None:
    graph = net(middle, symbol(batch) if isinstance(batch, str) else batch)
    after = prepack(optimize(graph, "cpu"))
    transposes = [n for n in after.nodes if isinstance(n.op, Transpose)]
    assert len(transposes) == 2 + INSIDE[middle]
    x = RNG.standard_normal((2 if batch == "n" else int(batch), 3, 5, 7)).astype(np.float32)
    np.testing.assert_allclose(run(after, [x])[0], run(graph, [x])[0], rtol=1e-4, atol=1e-4)


def test_constants_are_moved_before_they_are_repeated() -> None:
    graph = prepack(optimize(net(scaled_and_shifted, 1), "cpu"))
    sizes = [np.prod([int(str(d)) for d in c.type.shape]) for c in graph.constants.values()]
    assert max(sizes) < 12 * 5 * 7
    moved = [n.inputs[0].type.shape for n in graph.nodes if isinstance(n.op, Transpose)]
    assert moved == [(1, 3, 5, 7), (1, 5, 7, 4)]


@pytest.mark.parametrize(
    ("before", "after", "groups"),
    [
        ((2, 12, 5), (2, 3, 4, 5), [([], []), ([0], [0]), ([1], [1, 2]), ([2], [3])]),
        ((2, 3, 4, 5), (2, 12, 5), [([], []), ([0], [0]), ([1, 2], [1]), ([3], [2])]),
        ((1, 6, 1, 5), (1, 1, 2, 3, 1, 5), [([], [0, 1]), ([1], [2, 3, 4]), ([3], [5])]),
        ((6, 10), (4, 15), [([], []), ([0, 1], [0, 1])]),
        (("n", 6), ("n", 2, 3), [([], []), ([0], [0]), ([1], [1, 2])]),
        (("n", 6), (6, "n"), None),
        ((1, 1), (1,), None),
    ],
)
def test_axes_of_a_reshape_are_grouped(
    before: tuple[int | str, ...], after: tuple[int | str, ...], groups: list[tuple[list[int], list[int]]] | None
) -> None:
    shapes = [tuple(symbol(d) if isinstance(d, str) else d for d in dims) for dims in (before, after)]
    assert regrouped(*shapes) == groups


def random_shape(total: int, rank: int) -> tuple[int, ...]:
    dims = []
    for _ in range(rank - 1):
        divisors = [d for d in range(1, total + 1) if total % d == 0]
        dims.append(int(RNG.choice(divisors)))
        total //= dims[-1]
    dims.append(total)
    return tuple(int(d) for d in RNG.permutation(dims))


def test_any_chain_of_reshapes_and_transposes_keeps_the_elements() -> None:
    moved = 0
    for _ in range(400):
        total = int(RNG.choice([1, 12, 24, 36, 48]))
        b = GraphBuilder()
        y = b.input(TensorType(DType.F32, random_shape(total, int(RNG.integers(3, 6)))), "x")
        shape = y.type.shape
        channels_first = (0, y.type.rank - 1, *range(1, y.type.rank - 1))
        y = b.emit(Transpose(channels_first), y)
        for _ in range(int(RNG.integers(1, 4))):
            y = b.emit(Reshape(random_shape(total, int(RNG.integers(2, 6)))), y)
            if RNG.random() < 0.6:
                y = b.emit(Transpose(tuple(int(a) for a in RNG.permutation(y.type.rank))), y)
        graph = b.finish([y], ["y"])
        after = sink_transposes(graph)
        check(after)
        moved += after.nodes != graph.nodes
        x = np.arange(total, dtype=np.float32).reshape([int(str(d)) for d in shape])
        np.testing.assert_array_equal(run(after, [x])[0], run(graph, [x])[0])
    assert moved > 50
