"""Moves what depends on constants alone out of the program: it is computed once, when the weights are packed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fornaxc.ir.dead import drop_dead
from fornaxc.ir.dims import DimExpr
from fornaxc.ir.graph import Array, Constant, Graph, Node, Value
from fornaxc.ir.ops import IrError, NotFoldable, Op

GROWTH = 2  # a packed tensor may be this many times as large as what it is made of
SMALL_BYTES = 1 << 20  # and any tensor up to this size may be packed


def prepack(graph: Graph) -> Graph:
    """`graph` with every value that only constants determine turned into a constant that is evaluated on demand.

    Values that would be much larger than what they are made of stay in the program.
    """
    constants = dict(graph.constants)
    derived: dict[Value, Constant] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        operands = [constants.get(v) or derived.get(v) for v in node.inputs]
        if all(o is not None for o in operands) and _packable(node):
            sources = tuple(o for o in operands if o is not None)
            for index, value in enumerate(node.outputs):
                derived[value] = _derived(node, index, value, sources)
        else:
            kept.append(node)
    used = {v for node in kept for v in (*node.inputs, *_captured(node))} | set(graph.outputs)
    constants.update((v, c) for v, c in derived.items() if v in used)
    return drop_dead(replace(graph, nodes=tuple(kept), constants=constants))


def _captured(node: Node) -> tuple[Value, ...]:
    return tuple(v for region in node.regions for v in region.captures())


def _packable(node: Node) -> bool:
    if node.regions or type(node.op).evaluate is Op.evaluate or not all(v.type.is_static for v in node.outputs):
        return False
    if any(isinstance(d, DimExpr) for value in node.op.attributes().values() for d in _flat(value)):
        return False
    made_of = sum(_bytes(v) for v in node.inputs)
    return all(_bytes(v) <= max(SMALL_BYTES, GROWTH * made_of) for v in node.outputs)


def _flat(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


def _bytes(value: Value) -> int:
    return int(str(value.type.elements)) * max(1, value.type.dtype.bits // 8)


def _derived(node: Node, index: int, value: Value, sources: tuple[Constant, ...]) -> Constant:
    names = [s.name for s in sources if s.name]
    literal = all(s.literal for s in sources) and _bytes(value) <= 1024
    return Constant(value.type, _loader(node, index, sources), literal, names[0] if names else "")


def _loader(node: Node, index: int, sources: tuple[Constant, ...]) -> Callable[[], Array]:
    def load() -> Array:
        try:
            return node.op.evaluate(*(s.load() for s in sources))[index]
        except NotFoldable as reason:
            raise IrError(f"{node.op} from {node.origin} cannot be computed from its constants: {reason}") from None

    return load
