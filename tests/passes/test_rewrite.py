"""A pass that replaces nothing gives back the graph itself; in bodies of control flow, replacements end with the body."""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import If, Unary
from fornaxc.ir.printer import print_graph
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.rewrite import rewrite

ROW = TensorType(DType.F32, (4,))


def graph_with_bodies() -> Graph:
    b = GraphBuilder()
    c, x = b.input(TensorType(DType.BOOL, ()), "c"), b.input(ROW, "x")
    around = b.emit(Unary("exp"), x)
    bodies = []
    for fn in ("relu", "abs"):
        inner = GraphBuilder(b)
        bodies.append(inner.finish([inner.emit(Unary("neg"), inner.emit(Unary(fn), around))]))
    return b.finish([b.emit(If((ROW,)), c, regions=tuple(bodies))], ["y"])


def replacing(old: str, new: str) -> Graph:
    def visit(node: Node, b: GraphBuilder) -> Sequence[Value] | None:
        return [b.emit(Unary(new), *node.inputs)] if node.op == Unary(old) else None

    return rewrite(graph_with_bodies(), visit)


def test_where_nothing_is_replaced_the_graph_stays_the_same() -> None:
    graph = graph_with_bodies()
    assert rewrite(graph, lambda node, b: None) is graph


def test_a_new_condition_is_a_change() -> None:
    def visit(node: Node, b: GraphBuilder) -> None:
        b.require(1, "==", 1, "a condition")

    graph = graph_with_bodies()
    changed = rewrite(graph, visit)
    assert changed is not graph and [c.why for c in changed.constraints] == ["a condition"]


def test_replacements_reach_the_bodies_and_end_with_them() -> None:
    for old in ("exp", "relu", "abs", "neg"):
        changed = replacing(old, "sqrt")
        check(changed)
        count = 2 if old == "neg" else 1
        assert print_graph(changed) == print_graph(graph_with_bodies()).replace(f"fn={old}", "fn=sqrt")
        assert print_graph(changed).count("fn=sqrt") == count
