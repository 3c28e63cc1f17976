"""What a step did to a graph, in numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fornaxc.ir.graph import Graph


@dataclass(frozen=True, slots=True)
class Effect:
    """Nodes are those of the graph and of all regions; none are known before the first graph. `operations` has, by name, how many more there
    are after (negative: fewer), the largest change first; it may be empty where something `changed` all the same: operands, attributes, constants."""

    nodes_before: int | None
    nodes_after: int
    operations: dict[str, int]
    changed: bool


def effect(before: Graph | None, after: Graph) -> Effect:
    """What changed from `before` (None: there was no graph) to `after`; equal nodes that were built anew count as a change."""
    new = operation_counts(after)
    if before is None:
        return Effect(None, new.total(), differences(Counter(), new), True)
    old = operation_counts(before)
    return Effect(old.total(), new.total(), differences(old, new), not _same(before, after))


def operation_counts(graph: Graph) -> Counter[str]:
    """How many nodes of each operation there are, those of regions among them."""
    return Counter(node.op.name for node in graph.walk())


def differences(before: Counter[str], after: Counter[str]) -> dict[str, int]:
    """What is in `after` beyond `before` (negative: what is missing), the largest number first, then by name."""
    found = {name: after[name] - before[name] for name in before.keys() | after.keys()}
    return {name: found[name] for name in sorted(found, key=lambda n: (-abs(found[n]), n)) if found[name]}


def _same(before: Graph, after: Graph) -> bool:
    if before is after:
        return True
    parts = [(g.inputs, g.outputs, g.nodes, tuple(g.constants), g.constraints) for g in (before, after)]
    return parts[0] == parts[1]
