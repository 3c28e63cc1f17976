"""Removes nodes and constants whose results nothing uses."""

from __future__ import annotations

from dataclasses import fields, replace

from fornaxc.ir.dims import DimExpr, bare_symbols_of, symbols, symbols_of
from fornaxc.ir.graph import Graph, Node, Value


def drop_dead(graph: Graph) -> Graph:
    """`graph` without what its outputs do not depend on. No operation has a side effect.

    A node whose result gives a size its name is kept where anything that is kept uses the name.
    """
    binders = _binders(graph)
    live: set[Value] = set(graph.outputs)
    sizes = _sizes_of(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if live.isdisjoint(node.outputs) and sizes.isdisjoint(binders.get(node.outputs[0], ())):
            continue
        kept.append(node)
        live.update(node.inputs)
        if binders:
            sizes |= _named_sizes(node)
        for region in node.regions:
            live.update(region.captures())
    constants = {v: c for v, c in graph.constants.items() if v in live}
    return replace(graph, nodes=tuple(reversed(kept)), constants=constants)


def _binders(graph: Graph) -> dict[Value, set[str]]:
    """For the first result of each node, the sizes that the node's results name first: the inputs, or what is around a region, do not."""
    found = _named_first(graph, _sizes_of(graph.inputs))
    return found and _named_first(graph, _sizes_of((*graph.inputs, *graph.captures())))


def _named_first(graph: Graph, known: set[str]) -> dict[Value, set[str]]:
    found: dict[Value, set[str]] = {}
    for node in graph.nodes:
        for value in node.outputs:
            names = bare_symbols_of(value.type.shape)
            if not names <= known:
                found.setdefault(node.outputs[0], set()).update(names - known)
                known |= names
    return found


def _sizes_of(values: tuple[Value, ...]) -> set[str]:
    return {name for v in values for name in symbols_of(v.type.shape)}


def _named_sizes(node: Node) -> set[str]:
    """The sizes that a node, its types and its regions mention."""
    names = _sizes_of((*node.inputs, *node.outputs))
    for field in fields(node.op):
        value = getattr(node.op, field.name)
        for entry in value if isinstance(value, tuple) else (value,):
            if isinstance(entry, DimExpr):
                names |= symbols(entry)
    for region in node.regions:
        for inner in region.nodes:
            names |= _named_sizes(inner)
    return names
