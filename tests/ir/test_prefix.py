"""Beginnings of graphs."""

from __future__ import annotations

import numpy as np

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check
from fornaxc.ir.dims import symbol
from fornaxc.ir.graph import Graph
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Unary
from fornaxc.ir.prefix import first_failing_node, first_nodes
from fornaxc.ir.types import DType, TensorType

FUNCTIONS = ("neg", "abs", "exp", "sin", "cos", "tanh", "sqrt")


def chain() -> Graph:
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (symbol("n"), 3)), "x")
    for fn in FUNCTIONS:
        x = b.emit(Unary(fn), x)
    return b.finish([x], ["y"])


def test_the_first_nodes_give_what_none_of_them_uses() -> None:
    part = first_nodes(chain(), 3)
    check(part)
    x = np.array([[1, -2, 3]], np.float32)
    (y,) = run(part, [x])
    assert np.allclose(y, np.exp(np.abs(x)))


def test_bisection_finds_the_node_with_which_failures_begin() -> None:
    graph = chain()
    for index, fn in enumerate(FUNCTIONS):
        asked: list[int] = []

        def fails(part: Graph, fn: str = fn, asked: list[int] = asked) -> bool:
            asked.append(len(part.nodes))
            return any(n.op == Unary(fn) for n in part.nodes)

        assert first_failing_node(graph, fails) is graph.nodes[index]
        assert len(asked) <= 4


def test_a_program_whose_beginnings_do_not_fail_has_no_such_node() -> None:
    assert first_failing_node(chain(), lambda part: False) is None
