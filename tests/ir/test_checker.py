"""Values of a region are known inside it only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import If, IrError, Unary
from fornaxc.ir.types import DType, TensorType

ROW = TensorType(DType.F32, (4,))


def region(x: Value, parent: GraphBuilder) -> Graph:
    b = GraphBuilder(parent)
    return b.finish([b.emit(Unary("relu"), x)])


def conditional() -> Graph:
    b = GraphBuilder()
    c, x = b.input(TensorType(DType.BOOL, ()), "c"), b.input(ROW, "x")
    y = b.emit(If((ROW,)), c, regions=(region(x, b), region(x, b)))
    return b.finish([b.emit(Unary("neg"), y)], ["y"])


def test_regions_use_what_is_around_them() -> None:
    graph = conditional()
    sound: set[Node] = set()
    check(graph, sound)
    check(graph, sound)


@pytest.mark.parametrize("known", [True, False])
def test_what_is_in_a_region_is_unknown_outside_of_it(known: bool) -> None:
    """Also to the other region, and where all types were found right before."""
    graph = conditional()
    node, after = graph.nodes
    first, second = node.regions
    sound: set[Node] = set(graph.walk()) if known else set()
    inner = first.nodes[0].outputs[0]
    for wrong in (
        replace(graph, nodes=(node, replace(after, inputs=(inner,)))),
        replace(graph, nodes=(replace(node, regions=(first, replace(second, outputs=(inner,)))), after)),
    ):
        with pytest.raises(IrError, match="defined"):
            check(wrong, sound)


def test_a_result_is_defined_once_in_a_region_too() -> None:
    graph = conditional()
    node, after = graph.nodes
    first, second = node.regions
    twice = replace(first, nodes=(first.nodes[0], first.nodes[0]))
    with pytest.raises(IrError, match="defined twice"):
        check(replace(graph, nodes=(replace(node, regions=(twice, second)), after)))
