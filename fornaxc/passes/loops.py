"""Loops that constants decide, and what a loop carries for nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dead import drop_dead
from fornaxc.ir.dims import symbols_of
from fornaxc.ir.graph import Array, Graph, Node, Value
from fornaxc.passes.contents import Contents
from fornaxc.passes.inline import inline, substituted

UNROLL_TRIPS = 32  # as many as the ONNX importer unrolls
UNROLL_NODES = 128  # that unrolling a loop may add: every one costs the compiler time


def known_trips(node: Node, contents: Contents) -> int | None:
    """How often the body of a `While` runs, where constants tell that it is at most `UNROLL_TRIPS` times."""
    test, step = node.regions
    carried: Sequence[Array | None] = [contents.of(v) for v in node.inputs]
    for trips in range(UNROLL_TRIPS + 1):
        (goes_on,) = contents.results(test, carried)
        if goes_on is None or goes_on.dtype == object:
            return None
        if not goes_on.item():
            return trips
        carried = contents.results(step, carried)
    return None


def unrolled(node: Node, b: GraphBuilder, trips: int, room: int) -> list[Value] | None:
    """The results of a `While` that runs `trips` times as nodes of `b`; None where these would be more than `room` nodes too many, or where
    the body names sizes, which would be others in each trip, or holds weights in regions of its own, which would be there often."""
    step = node.regions[1]
    if trips > 1:
        if (trips - 1) * sum(1 for _ in step.walk()) > min(room, UNROLL_NODES):
            return None
        if not _sizes(step) <= _sizes_around(step) | b.input_symbols() or any(
            _holds_weights(region) for inner in step.nodes for region in inner.regions
        ):
            return None
    return inline(b, step, node.inputs, trips)


def _sizes(graph: Graph) -> set[str]:
    """The sizes that types inside a region mention."""
    return {name for node in graph.walk() for v in node.outputs for name in symbols_of(v.type.shape)}


def _sizes_around(region: Graph) -> set[str]:
    return {name for v in (*region.inputs, *region.captures()) for name in symbols_of(v.type.shape)}


def _holds_weights(graph: Graph) -> bool:
    if any(not c.literal for c in graph.constants.values()):
        return True
    return any(_holds_weights(region) for node in graph.nodes for region in node.regions)


def lighter(node: Node, b: GraphBuilder, contents: Contents, uses: Counter[Value]) -> list[Value] | None:
    """The results of a `While` that carries only what changes from trip to trip and what its condition or someone else needs; None where
    it does already. A result that nothing uses stands for itself."""
    test, step = node.regions
    count = len(node.inputs)
    fixed = {i for i in range(count) if _stays(node.inputs[i], step.inputs[i], step.outputs[i], contents)}
    outside = {region.inputs[i]: node.inputs[i] for region in (test, step) for i in fixed}
    test, step = (drop_dead(substituted(region, outside)) for region in (test, step))
    wanted = {i for i in range(count) if uses[node.outputs[i]]}
    kept = sorted(_needed(test, step, wanted - fixed))
    if len(kept) == count:
        return None
    if kept:
        regions = _carrying(test, kept), _carrying(replace(step, outputs=_chosen(step.outputs, kept)), kept)
        b.keep(Node(node.op, _chosen(node.inputs, kept), _chosen(node.outputs, kept), node.origin, regions))
    return [node.inputs[i] if i in fixed else node.outputs[i] for i in range(count)]


def _stays(start: Value, before: Value, after: Value, contents: Contents) -> bool:
    """Whether a carried value is after a trip what it was before it."""
    return after is before or after is start or same_literal(start, after, contents)


def same_literal(one: Value, two: Value, contents: Contents) -> bool:
    """Whether two values are literals of one type with the same bits."""
    a, b = contents.literal(one), contents.literal(two)
    if a is None or b is None or one.type != two.type:
        return False
    return np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


def _needed(test: Graph, step: Graph, wanted: set[int]) -> set[int]:
    """The carried values, by number, that the condition and the `wanted` ones are computed from."""
    read = _read(test)
    live = wanted | {i for i, v in enumerate(test.inputs) if v in read}
    while True:
        read = _read(drop_dead(replace(step, outputs=_chosen(step.outputs, sorted(live)))))
        more = {i for i, v in enumerate(step.inputs) if v in read} - live
        if not more:
            return live
        live |= more


def _read(graph: Graph) -> set[Value]:
    used = set(graph.outputs)
    for node in graph.nodes:
        used.update(node.inputs)
        for region in node.regions:
            used.update(region.captures())
    return used


def _carrying(region: Graph, kept: Sequence[int]) -> Graph:
    return drop_dead(replace(region, inputs=_chosen(region.inputs, kept)))


def _chosen(values: Sequence[Value], kept: Sequence[int]) -> tuple[Value, ...]:
    return tuple([values[i] for i in kept])
