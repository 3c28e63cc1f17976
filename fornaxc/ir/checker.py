"""Checks that a graph is well formed; run between all phases."""

from __future__ import annotations

from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import If, IrError, While
from fornaxc.ir.types import DType, TensorType


def check(graph: Graph, sound: set[Node] | None = None) -> None:
    """Raise `IrError`, naming the node, unless every value is defined once, before use, with the type inferred.

    `sound` collects nodes whose types are right, of earlier graphs too: a node is immutable, so that is so for good.
    """
    if graph.output_names and len(graph.output_names) != len(graph.outputs):
        raise IrError(f"{len(graph.outputs)} outputs have {len(graph.output_names)} names")
    for names in (graph.input_names, graph.output_names):
        if len(set(names)) != len(names):
            raise IrError(f"a name appears twice in {list(names)}")
    _check_body(graph, set(), set() if sound is None else sound)


def _check_body(graph: Graph, defined: set[Value], sound: set[Node]) -> None:
    """`defined` are the values of the graphs around this one; the same when this returns."""
    own = {*graph.inputs, *graph.constants} - defined
    defined |= own
    for value, constant in graph.constants.items():
        if value.type != constant.type or not value.type.is_static:
            raise IrError(f"the constant {constant.name!r} of type {constant.type} is held as {value.type}")
    for node in graph.nodes:
        if node in sound and not node.regions and defined.issuperset(node.inputs) and defined.isdisjoint(node.outputs):
            defined.update(node.outputs)
            continue
        try:
            _check_node(node, defined, sound)
        except IrError as error:
            raise IrError(f"{node.op} from {node.origin}: {error}") from None
        defined.update(node.outputs)
    for value in graph.outputs:
        if value not in defined:
            raise IrError(f"the output {value.name!r} is not defined")
    defined -= own
    for node in graph.nodes:
        defined.difference_update(node.outputs)


def _check_node(node: Node, defined: set[Value], sound: set[Node]) -> None:
    for value in node.inputs:
        if value not in defined:
            raise IrError(f"the operand {value.name!r} of type {value.type} is used before it is defined")
    if not defined.isdisjoint(node.outputs):
        raise IrError("a result is defined twice")
    for region in node.regions:
        _check_body(region, defined, sound)
    if node not in sound:
        _check_types(node)
        sound.add(node)


def _check_types(node: Node) -> None:
    types = node.op.infer(*(v.type for v in node.inputs))
    if types != tuple(v.type for v in node.outputs):
        raise IrError(f"results are {[str(v.type) for v in node.outputs]}, not {[str(t) for t in types]}")
    if len(node.regions) != node.op.regions:
        raise IrError(f"{len(node.regions)} regions where {node.op.regions} belong")
    _check_regions(node)


def _check_regions(node: Node) -> None:
    carried = tuple(v.type for v in node.inputs)
    wanted: tuple[tuple[tuple[TensorType, ...], tuple[TensorType, ...]], ...] = ()
    if isinstance(node.op, If):
        wanted = (((), node.op.types), ((), node.op.types))
    elif isinstance(node.op, While):
        wanted = ((carried, (TensorType(DType.BOOL, ()),)), (carried, carried))
    for region, (takes, yields) in zip(node.regions, wanted, strict=True):
        if tuple(v.type for v in region.inputs) != takes or tuple(v.type for v in region.outputs) != yields:
            raise IrError("a region's inputs or outputs do not have the types of its node")
