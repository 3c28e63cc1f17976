"""Programs that also give the intermediate values of a graph, in groups so that no run holds too many of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fornaxc.ir.dead import drop_dead
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Dims, Rebind

GROUP_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Tapped:
    """A program whose outputs are these values of the graph it was made from."""

    name: str
    graph: Graph
    values: tuple[Value, ...]


def tap_points(graph: Graph) -> list[Value]:
    """The results of every node of the top level that computes something."""
    return [v for node in graph.nodes if not isinstance(node.op, Dims | Rebind) for v in node.outputs]


def tapped(graph: Graph, sizes: Mapping[Value, int], limit: int = GROUP_BYTES) -> list[Tapped]:
    """Programs that together give every tap point, each at most `limit` bytes of them (or one value); `sizes` are their bytes."""
    groups: list[list[Value]] = [[]]
    held = 0
    for value in tap_points(graph):
        if groups[-1] and held + sizes[value] > limit:
            groups.append([])
            held = 0
        groups[-1].append(value)
        held += sizes[value]
    return [Tapped(f"taps{i}", prefix(graph, values), tuple(values)) for i, values in enumerate(groups) if values]


def prefix(graph: Graph, values: Sequence[Value]) -> Graph:
    """The part of `graph` that these values depend on, which are its outputs; its inputs are those of the graph."""
    names = tuple(f"t{i}" for i in range(len(values)))
    return drop_dead(replace(graph, outputs=tuple(values), output_names=names))


def ancestors(graph: Graph, value: Value) -> list[Node]:
    """The nodes that `value` depends on, in the order of the program."""
    return list(prefix(graph, [value]).nodes)
