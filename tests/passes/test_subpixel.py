"""Transposed convolutions whose windows do not overlap multiply no zeros."""

from __future__ import annotations

import numpy as np
import pytest

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check
from fornaxc.ir.dims import Dim, symbol
from fornaxc.ir.graph import Array, Graph
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Binary, BroadcastTo, Conv, Iota, Pad
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack
from fornaxc.passes.subpixel import split_phases

RNG = np.random.default_rng(0)


def numbers(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def transposed(
    window: tuple[int, int] = (2, 3),
    spread: tuple[int, int] | None = None,
    *,
    fill: float = 0.0,
    around: int = 0,
    groups: int = 1,
    batch: Dim = 2,
    after: str = "offset",
) -> Graph:
    """A convolution of an image spread by `spread` (less 1) zeros, by default as much as the window is wide."""
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (batch, 4, 5, 6)), "x")
    sides = (0, 0, *(r - 1 + around for r in window))
    between = (0, 0, *(s - 1 for s in spread or window))
    wide = b.emit(Pad(sides, sides, "constant", between), x, compose.scalar(b, fill, DType.F32))
    filters = numbers(6, 4 // groups, *window)
    w = b.weight(TensorType(DType.F32, filters.shape), lambda: filters)
    y = b.emit(Conv((1, 1), (0, 0), (0, 0), (1, 1), groups), wide, w)
    line = numbers(6)
    if after != "nothing":
        bias = compose.reshape(b, b.weight(TensorType(DType.F32, (6,)), lambda: line), (1, 6, 1, 1))
        y = compose.unary(b, "relu", compose.binary(b, "add", y, bias))
    return b.finish([y, compose.unary(b, "tanh", y)] if after == "used twice" else [y], [])


X = numbers(2, 4, 5, 6)


def convolutions(graph: Graph) -> list[tuple[int, ...]]:
    """The shapes of filters; the numbers stay."""
    found = split_phases(graph)
    check(found)
    for a, b in zip(run(found, [X]), run(graph, [X]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    program = prepack(optimize(graph, "cpu"))
    for a, b in zip(run(program, [X]), run(graph, [X]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    used = {v for n in found.nodes for v in n.inputs}.union(found.outputs)
    return [n.inputs[1].type.shape for n in found.nodes if isinstance(n.op, Conv) and n.outputs[0] in used]


@pytest.mark.parametrize("after", ["nothing", "offset", "used twice"])
@pytest.mark.parametrize("batch", [2, symbol("n")], ids=str)
@pytest.mark.parametrize("window", [(2, 2), (2, 3), (1, 2), (4, 1)], ids=str)
def test_each_place_in_the_window_has_its_filters(window: tuple[int, int], batch: Dim, after: str) -> None:
    shapes = convolutions(transposed(window, batch=batch, after=after))
    assert shapes[-1] == (6 * window[0] * window[1], 4, 1, 1)


@pytest.mark.parametrize(
    "graph",
    [
        transposed((3, 3), (2, 2)),
        transposed((2, 2), (3, 3)),
        transposed(fill=1.0),
        transposed(around=1),
        transposed(groups=2),
    ],
    ids=["overlapping", "gaps", "no zeros", "a frame", "groups"],
)
def test_others_are_left(graph: Graph) -> None:
    assert all(shape[2:] != (1, 1) for shape in convolutions(graph))


def test_nodes_without_operands_are_passed_by() -> None:
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (symbol("n"), 2, 3, 3)), "x")
    wide = b.emit(Pad((0, 0, 0, 1), (0, 0, 1, 0)), x, compose.scalar(b, 0.0, DType.F32))
    ramp = b.emit(Iota((symbol("n"), 4), 1, DType.F32))
    graph = b.finish([wide, ramp, b.dims((symbol("n"), 3))], [])
    assert len(split_phases(graph).nodes) == len(graph.nodes)
    prepack(optimize(graph, "cpu"))


def test_a_sum_with_one_number_for_all() -> None:
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (symbol("n"), 4, 5, 6)), "x")
    sides = (0, 0, 1, 1)
    wide = b.emit(Pad(sides, sides, "constant", sides), x, compose.scalar(b, 0.0, DType.F32))
    filters = numbers(6, 4, 2, 2)
    w = b.weight(TensorType(DType.F32, filters.shape), lambda: filters)
    y = b.emit(Conv((1, 1), (0, 0), (0, 0), (1, 1), 1), wide, w)
    offset = b.literal(np.full((1, 1, 10, 12), 0.5, np.float32))
    graph = b.finish([b.emit(Binary("add"), y, b.emit(BroadcastTo(y.type.shape), offset))], [])
    assert convolutions(graph)[-1] == (24, 4, 1, 1)
