"""Puts the body of control flow where its node was, or other values in the place of those that it uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Array, Constant, Graph, Node, Value
from fornaxc.ir.ops import Dims


def inline(b: GraphBuilder, region: Graph, arguments: Sequence[Value], times: int = 1) -> list[Value]:
    """What a region yields for these arguments, applied as many times to its own results; its nodes are copied to `b` and folded
    where their operands are known, its constants are there once."""
    origin = b.origin
    constants = {value: b.adopt(constant) for value, constant in region.constants.items()}
    values = list(arguments)
    for _ in range(times):
        new = {**constants, **dict(zip(region.inputs, values, strict=True))}
        _copy_nodes(b, region, new)
        values = [new.get(v, v) for v in region.outputs]
    b.origin = origin
    return values


def _copy_nodes(b: GraphBuilder, graph: Graph, new: dict[Value, Value]) -> None:
    """`new` maps the values of the graph and of those around it that are copied too; it gets what is copied here."""
    for node in graph.nodes:
        b.origin = node.origin
        if isinstance(node.op, Dims):
            results: Sequence[Value] = (b.dims(node.op.values),)
        else:
            regions = tuple([_copied(b, region, new) for region in node.regions])
            operands = [new.get(v, v) for v in node.inputs]
            results = b.emit_all(node.op, *operands, regions=regions, names=tuple([v.name for v in node.outputs]))
        new.update(zip(node.outputs, results, strict=True))


def _copied(parent: GraphBuilder, region: Graph, new: dict[Value, Value]) -> Graph:
    b = GraphBuilder(parent)
    new.update((value, b.input(value.type, value.name)) for value in region.inputs)
    new.update((value, b.adopt(constant)) for value, constant in region.constants.items())
    _copy_nodes(b, region, new)
    return b.finish([new.get(v, v) for v in region.outputs])


def substituted(graph: Graph, new: Mapping[Value, Value]) -> Graph:
    """`graph` with other values in the place of some that it uses, also in its regions."""
    nodes = []
    for node in graph.nodes:
        inputs = tuple([new.get(v, v) for v in node.inputs])
        regions = tuple([substituted(region, new) for region in node.regions])
        same = inputs == node.inputs and regions == node.regions
        nodes.append(node if same else Node(node.op, inputs, node.outputs, node.origin, regions))
    outputs = tuple([new.get(v, v) for v in graph.outputs])
    if outputs == graph.outputs and all(old is node for old, node in zip(graph.nodes, nodes, strict=True)):
        return graph
    return replace(graph, nodes=tuple(nodes), outputs=outputs)


def with_literal(region: Graph, value: Value, content: Array) -> Graph:
    """A region with a literal of its own in the place of a value from outside."""
    literal = Value(value.type, value.name)
    constants = {**region.constants, literal: Constant(value.type, lambda: content, True, value.name)}
    return replace(substituted(region, {value: literal}), constants=constants)
