"""Takes products that are the same in every trip out of a loop."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import symbols_of
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Conv, MatMul
from fornaxc.passes.constness import never_fails

_COSTLY = (Conv, MatMul)


def hoisted(node: Node, b: GraphBuilder) -> Node | None:
    """A `While` whose regions find ready, computed in `b` before the loop, the products that do not change from trip to trip; None where it
    has none.

    What is cheap stays, unless such a product is made of it: outside it would have to be kept for every trip. Nothing that could stop a
    run moves, since there may be no trip.
    """
    moved = [_steady_products(region, b) for region in node.regions]
    if not any(moved):
        return None
    regions = []
    for region, nodes in zip(node.regions, moved, strict=True):
        used = {v for n in nodes for v in n.inputs}
        b.constants.update((v, c) for v, c in region.constants.items() if v in used)
        for inner in (n for n in region.nodes if n in nodes):
            b.keep(inner)
        constants = {v: c for v, c in region.constants.items() if v not in used}
        kept = tuple([n for n in region.nodes if n not in nodes])
        regions.append(replace(region, nodes=kept, constants=constants))
    return replace(node, regions=tuple(regions))


def _steady_products(region: Graph, b: GraphBuilder) -> set[Node]:
    """The products, and what they are made of, that depend on nothing that the loop carries."""
    around = {*region.inputs, *region.captures()}
    sizes = {name for v in around for name in symbols_of(v.type.shape)} | b.input_symbols()
    changing: set[Value] = set(region.inputs)
    steady = []
    for node in region.nodes:
        if changing.isdisjoint(node.inputs) and _may_move(node, sizes):
            steady.append(node)
        else:
            changing.update(node.outputs)
    found: set[Node] = set()
    wanted: set[Value] = set()
    for node in reversed(steady):
        if isinstance(node.op, _COSTLY) or not wanted.isdisjoint(node.outputs):
            found.add(node)
            wanted.update(node.inputs)
    return found


def _may_move(node: Node, sizes: Set[str]) -> bool:
    """Whether a node has a result whatever its operands hold, and mentions only sizes that are known before the loop."""
    whole = never_fails(node) or isinstance(node.op, Conv)
    return whole and all(symbols_of(v.type.shape) <= sizes for v in node.outputs)
