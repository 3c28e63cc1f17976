"""Control flow that constants decide becomes the nodes that run; branches and loops give only what is used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dead import drop_dead
from fornaxc.ir.dims import symbols_of
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import If, While
from fornaxc.passes.contents import Contents
from fornaxc.passes.inline import inline, with_literal
from fornaxc.passes.invariant import hoisted
from fornaxc.passes.loops import known_trips, lighter, same_literal, unrolled
from fornaxc.passes.rewrite import rewrite, use_counts
from fornaxc.passes.simplify import simplify

ROUNDS = 16  # what one simplification leaves, the next may take up; few models need more than three
MOST_NODES = 1024  # that unrolling may add to a program


def simplify_control(graph: Graph) -> Graph:
    """`graph` where an `If` of a known condition is the branch taken, and a `While` of a known small number of trips its body so many times.

    What a loop carries unchanged its body takes from outside, products that are the same in every trip too; what neither the rest of the program
    nor the loop's condition needs is neither carried nor yielded, and no branch yields what is the same in both. The conditions on the input sizes
    stay, those of a branch that goes too.
    """
    if not any(node.regions for node in graph.nodes):
        return graph
    most = _size(graph) + MOST_NODES
    for _ in range(ROUNDS):
        simpler = _round(graph, most - _size(graph))
        if simpler is graph:
            break
        graph = simplify(simpler)
    return graph


def _size(graph: Graph) -> int:
    return sum(1 for _ in graph.walk())


def _round(graph: Graph, room: int) -> Graph:
    """Each `If` and `While` simplified once, the inner ones first; unrolling may add `room` nodes."""
    contents, uses = Contents(graph), use_counts(graph)

    def visit(node: Node, b: GraphBuilder) -> Sequence[Value] | None:
        nonlocal room
        if isinstance(node.op, If):
            return _branch(node, b, contents, uses)
        if not isinstance(node.op, While):
            return None
        trips = known_trips(node, contents)
        before = len(b.nodes)
        results = None if trips is None else unrolled(node, b, trips, room)
        room -= len(b.nodes) - before
        if results is None:
            results = lighter(node, b, contents, uses)
        if results is not None:
            return results
        steady = hoisted(node, b)
        if steady is not None:
            b.keep(steady)
            return node.outputs
        return None

    return rewrite(graph, visit)


def _branch(node: Node, b: GraphBuilder, contents: Contents, uses: Counter[Value]) -> list[Value] | None:
    (condition,) = node.inputs
    taken = contents.of(condition)
    if taken is not None and taken.dtype != object and all(_names_nothing(v, b) for v in node.outputs):
        return inline(b, node.regions[0 if taken.item() else 1], ())
    regions = _knowing(condition, node.regions)
    same = _same_in_both(node, b, contents)
    kept = [i for i, v in enumerate(node.outputs) if i not in same and (uses[v] or not _names_nothing(v, b))]
    if len(kept) == len(node.outputs) and regions == node.regions:
        return None
    if kept:
        regions = tuple([drop_dead(replace(r, outputs=tuple([r.outputs[i] for i in kept]))) for r in regions])
        results = tuple([node.outputs[i] for i in kept])
        b.keep(Node(If(tuple([v.type for v in results])), node.inputs, results, node.origin, regions))
    return [same.get(i, v) for i, v in enumerate(node.outputs)]


def _names_nothing(value: Value, b: GraphBuilder) -> bool:
    """Whether all sizes of a value are those of inputs, so that its type names none that something else may need."""
    return symbols_of(value.type.shape) <= b.input_symbols()


def _same_in_both(node: Node, b: GraphBuilder, contents: Contents) -> dict[int, Value]:
    """What both branches yield, by number: a value from outside of them, or equal literals."""
    found = {}
    for i, (one, two, result) in enumerate(zip(*(r.outputs for r in node.regions), node.outputs, strict=True)):
        if one is two and one.type == result.type:
            found[i] = one
        elif one.type == result.type and same_literal(one, two, contents):
            content = contents.literal(one)
            assert content is not None
            found[i] = b.literal(content, one.name)
    return found


def _knowing(condition: Value, regions: Sequence[Graph]) -> tuple[Graph, ...]:
    """The branches of a condition with its answer, true in the first and false in the second, where they ask for it again."""
    return tuple(
        [
            with_literal(region, condition, np.array(answer)) if condition in region.captures() else region
            for region, answer in zip(regions, (True, False), strict=True)
        ]
    )
