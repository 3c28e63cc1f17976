"""Repeated literals of any size, symbolic ones too, are computed with as the numbers that they repeat."""

from __future__ import annotations

import numpy as np
import pytest

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check
from fornaxc.ir.dims import symbol
from fornaxc.ir.graph import Array, Graph
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import BroadcastTo, If
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.fills import fold_fills
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack

WIDE = TensorType(DType.F32, (symbol("n"), 3, 4096))


def folded(graph: Graph, *inputs: Array) -> Graph:
    """The graph after the pass, with the same outputs for these inputs, to the bit."""
    found = fold_fills(graph)
    check(found)
    for before, after in zip(run(graph, inputs), run(found, inputs), strict=True):
        assert (before.dtype, before.tobytes()) == (after.dtype, after.tobytes())
    return found


@pytest.mark.parametrize("number", [2.5, -0.0, np.nan, np.inf])
def test_a_chain_of_elementwise_operations_is_one_fill(number: float) -> None:
    b = GraphBuilder()
    x = b.input(WIDE, "x")
    fill = compose.full(b, number, WIDE)
    y = compose.binary(b, "mul", compose.binary(b, "add", fill, fill), compose.unary(b, "neg", fill))
    y = compose.select(b, compose.compare(b, "lt", y, compose.full(b, 1, WIDE)), y, fill)
    y = compose.reshape(b, compose.transpose(b, y, (2, 0, 1)), (4096 * symbol("n"), 3))
    whole = compose.cast(b, compose.full(b, number, WIDE), DType.I32)
    found = folded(
        b.finish([compose.binary(b, "add", x, fill), y, whole], ["s", "y", "w"]), np.ones((2, 3, 4096), "f4")
    )
    assert sorted(n.op.name for n in found.nodes) == ["binary", "broadcast_to", "broadcast_to", "broadcast_to"]
    assert all(c.literal and c.type.elements == 1 for c in found.constants.values())


def test_what_only_the_run_knows_stays() -> None:
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (1, 1)), "x")
    fill = compose.full(b, 2, TensorType(DType.F32, (5000, 2)))
    y = compose.binary(b, "add", b.emit(BroadcastTo((5000, 2)), x), fill)
    graph = b.finish([compose.unary(b, "exp", y)], ["y"])
    assert folded(graph, np.array([[3]], np.float32)) is graph


def test_a_division_by_zero_stays() -> None:
    b = GraphBuilder()
    type = TensorType(DType.I64, (5000,))
    y = compose.binary(b, "div", compose.full(b, 7, type), compose.full(b, 0, type))
    graph = b.finish([y], ["y"])
    assert fold_fills(graph) is graph


def test_in_branches_too() -> None:
    """One uses the fill of the graph around it."""
    b = GraphBuilder()
    c = b.input(TensorType(DType.BOOL, ()), "c")
    type = TensorType(DType.F32, (5000,))
    outside = compose.full(b, 3, type)
    regions = []
    for other in (1, 2):
        inner = GraphBuilder(b)
        regions.append(inner.finish([compose.binary(inner, "add", outside, compose.full(inner, other, type))]))
    graph = b.finish([b.emit(If((type,)), c, regions=tuple(regions))], ["y"])
    for answer in (True, False):
        found = folded(graph, np.array(answer))
    assert [n.op.name for n in found.walk()] == ["broadcast_to", "broadcast_to", "if"]


def test_nothing_large_is_packed_or_computed_for_a_fill() -> None:
    b = GraphBuilder()
    type = TensorType(DType.F32, (1 << 24,))
    fill = compose.full(b, 7, type)
    graph = b.finish([compose.binary(b, "mul", compose.binary(b, "add", fill, fill), fill)], ["y"])
    found = prepack(optimize(graph, "cpu"))
    assert [n.op.name for n in found.nodes] == ["broadcast_to"]
    assert [c.load().item() for c in found.constants.values()] == [98]
