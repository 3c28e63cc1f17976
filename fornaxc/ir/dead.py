"""Removes nodes and constants whose results nothing uses."""

from __future__ import annotations

from dataclasses import replace

from fornaxc.ir.graph import Graph, Node, Value


def drop_dead(graph: Graph) -> Graph:
    """`graph` without what its outputs do not depend on. No operation has a side effect."""
    live: set[Value] = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if live.isdisjoint(node.outputs):
            continue
        kept.append(node)
        live.update(node.inputs)
        for region in node.regions:
            live.update(region.captures())
    constants = {v: c for v, c in graph.constants.items() if v in live}
    return replace(graph, nodes=tuple(reversed(kept)), constants=constants)
