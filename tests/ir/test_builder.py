"""What the builder remembers: conditions that were taken back, and the symbols of graphs that it goes on from."""

from __future__ import annotations

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import symbol
from fornaxc.ir.ops import Unary
from fornaxc.ir.types import DType, TensorType


def test_a_condition_stands_once_and_again_after_it_was_taken_back() -> None:
    b = GraphBuilder()
    n, m = symbol("n"), symbol("m")
    b.require(n, "==", m, "a")
    mark = len(b.constraints)
    b.require(n, ">=", 2, "b")
    b.require(n, ">=", 2, "b")
    assert len(b.constraints) == 2
    del b.constraints[mark:]
    GraphBuilder(b).require(n, ">=", 2, "b")
    b.require(n, "==", m, "a")
    assert [c.why for c in b.constraints] == ["a", "b"]


def test_going_on_from_a_graph_keeps_its_conditions_and_its_names() -> None:
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (symbol("n0"),)), "x")
    b.require(symbol("n0"), ">=", 2, "why")
    graph = b.finish([b.emit(Unary("relu"), x)], ["y"])
    again = GraphBuilder.resume(graph)
    again.require(symbol("n0"), ">=", 2, "why")
    assert len(again.constraints) == 1
    assert again.input_symbols() == {"n0"}
    assert again.fresh_dim("n") == symbol("n1")
    assert GraphBuilder(again).fresh_dim("n") == symbol("n2")
