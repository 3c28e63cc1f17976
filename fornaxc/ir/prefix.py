"""The beginnings of a graph, and the search for the first that has a property."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fornaxc.ir.graph import Graph, Node


def first_nodes(graph: Graph, count: int) -> Graph:
    """The program of the first `count` nodes (at least 1); its outputs are the results that none of these nodes uses."""
    nodes = graph.nodes[:count]
    used = {v for node in nodes for v in (*node.inputs, *(c for region in node.regions for c in region.captures()))}
    outputs = tuple(v for node in nodes for v in node.outputs if v not in used)
    return replace(graph, nodes=nodes, outputs=outputs, output_names=tuple(f"y{i}" for i in range(len(outputs))))


def first_failing_node(graph: Graph, fails: Callable[[Graph], bool]) -> Node | None:
    """The node with which the beginnings of a failing program begin to fail, by bisection: about log2(nodes) calls of `fails`.

    None where even all nodes, with other outputs than the program's, do not fail.
    """
    good, bad = 0, len(graph.nodes)
    if not bad or not fails(first_nodes(graph, bad)):
        return None
    while bad - good > 1:
        middle = (good + bad) // 2
        if fails(first_nodes(graph, middle)):
            bad = middle
        else:
            good = middle
    return graph.nodes[bad - 1]
