"""Computes what is the same only once."""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Op
from fornaxc.passes.rewrite import rewrite


def share_common(graph: Graph) -> Graph:
    """`graph` with nodes of equal operation and equal operands merged; bodies of control flow stay apart."""
    seen: dict[tuple[GraphBuilder, Op, tuple[Value, ...]], Sequence[Value]] = {}

    def visit(node: Node, b: GraphBuilder) -> Sequence[Value] | None:
        if node.regions:
            return None
        key = (b, node.op, node.inputs)  # the builder itself: an id is given again to the next body's
        if key in seen:
            return seen[key]
        seen[key] = node.outputs
        return None

    return rewrite(graph, visit)
