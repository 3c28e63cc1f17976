"""What passes are made of: rebuild a graph node by node, replacing some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Op

Visit = Callable[[Node, GraphBuilder], Sequence[Value] | None]


def rewrite(graph: Graph, visit: Visit) -> Graph:
    """`graph` with each node replaced by what `visit` emits.

    `visit(node, builder)` sees the node with its operands already rewritten. It returns the values that stand for its
    results, or None to keep it. Bodies of control flow are rewritten first, with a builder of their own. Where nothing is
    replaced, the result is `graph` itself.
    """
    return _rewrite(graph, visit, {}, None)


def _rewrite(graph: Graph, visit: Visit, new: dict[Value, Value], parent: GraphBuilder | None) -> Graph:
    """`new` maps replaced values of the graphs around this one; the same when this returns."""
    b = GraphBuilder.resume(graph, parent)
    conditions = len(b.constraints)
    changed = False
    for node in graph.nodes:
        current = node  # the same object where nothing changes: it need not be checked again
        regions = tuple([_rewrite(region, visit, new, b) for region in node.regions])
        if not new.keys().isdisjoint(node.inputs) or regions != node.regions:
            current = Node(node.op, tuple([new.get(v, v) for v in node.inputs]), node.outputs, node.origin, regions)
            changed = True
        b.origin = node.origin
        results = visit(current, b)
        if results is None:
            b.keep(current)
        else:
            new.update(zip(node.outputs, results, strict=True))
            changed = True
    outputs = [new.get(v, v) for v in graph.outputs]
    if not changed and len(b.constraints) == conditions and tuple(outputs) == graph.outputs:
        return graph
    if parent is not None:
        for node in graph.nodes:
            for value in node.outputs:
                new.pop(value, None)
    return b.finish(outputs, graph.output_names)


def holds(graph: Graph, *ops: type[Op]) -> bool:
    """Whether the graph itself, its regions aside, has a node of one of these operations."""
    return any(isinstance(node.op, ops) for node in graph.nodes)


def use_counts(graph: Graph) -> Counter[Value]:
    """How often each value is used as an operand or output, bodies of control flow included."""
    counts: Counter[Value] = Counter(graph.outputs)
    for node in graph.nodes:
        counts.update(node.inputs)
        for region in node.regions:
            counts.update(use_counts(region))
    return counts


def producers(graph: Graph) -> dict[Value, Node]:
    """The node that makes each value (of this graph alone, not of its regions)."""
    return {v: node for node in graph.nodes for v in node.outputs}
