"""Moves what depends on constants alone out of the program: it is computed once, when the weights are packed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from fornaxc.ir.dead import drop_dead
from fornaxc.ir.graph import Array, Constant, Graph, Node, Value
from fornaxc.ir.ops import IrError, NotFoldable, PackConv
from fornaxc.passes.constness import evaluable

GROWTH = 2  # a packed tensor may be this many times as large as what it is made of
SMALL_BYTES = 1 << 20  # and any tensor up to this size may be packed


def prepack(graph: Graph) -> Graph:
    """`graph` with every value that only constants determine turned into a constant that is evaluated on demand.

    A value that would be much larger than the constants it is made of stays in the program, its operands do not.
    """
    derived = _derivable(graph)
    kept: set[Node] = {n for n in graph.nodes if not any(v in derived for v in n.outputs)}
    needed = [v for n in kept for v in (*n.inputs, *_captured(n))] + list(graph.outputs)
    packed: dict[Value, Constant] = {}
    seen: set[Value] = set()
    while needed:
        value = needed.pop()
        if value in seen or value not in derived:
            continue
        seen.add(value)
        found = derived[value]
        if found.too_large:
            kept.add(found.node)
            needed += found.node.inputs
        else:
            packed[value] = found.constant
    nodes = tuple(n for n in graph.nodes if n in kept)
    order = {v: c.constant for v, c in derived.items() if v in packed}  # the order of the program
    return drop_dead(replace(graph, nodes=nodes, constants={**graph.constants, **order}))


@dataclass(frozen=True, slots=True)
class _Derived:
    """A value that constants determine: how to compute it, and from which constants of the graph in the end."""

    constant: Constant
    node: Node
    sources: frozenset[Value]
    too_large: bool


def _derivable(graph: Graph) -> dict[Value, _Derived]:
    found: dict[Value, _Derived] = {}
    for node in graph.nodes:
        if not evaluable(node) or not all(v in found or v in graph.constants for v in node.inputs):
            continue
        operands = tuple(found[v].constant if v in found else graph.constants[v] for v in node.inputs)
        sources = frozenset(s for v in node.inputs for s in (found[v].sources if v in found else (v,)))
        limit = max(SMALL_BYTES, GROWTH * sum(s.type.nbytes for s in sources))
        for index, value in enumerate(node.outputs):
            constant = _derived(node, index, value, operands)
            found[value] = _Derived(constant, node, sources, value.type.nbytes > limit)
    return found


def _captured(node: Node) -> tuple[Value, ...]:
    return tuple(v for region in node.regions for v in region.captures())


def _derived(node: Node, index: int, value: Value, sources: tuple[Constant, ...]) -> Constant:
    names = [s.name for s in sources if s.name]
    literal = all(s.literal for s in sources) and value.type.nbytes <= 1024
    parts = _parts(node.op, sources[0]) if isinstance(node.op, PackConv) else None
    return Constant(value.type, _loader(node, index, sources), literal, names[0] if names else "", parts)


def _parts(op: PackConv, source: Constant) -> Callable[[], Iterator[Array]]:
    return lambda: op.parts(source.load())


def _loader(node: Node, index: int, sources: tuple[Constant, ...]) -> Callable[[], Array]:
    def load() -> Array:
        try:
            return node.op.evaluate(*(s.load() for s in sources))[index]
        except NotFoldable as reason:
            raise IrError(f"{node.op} from {node.origin} cannot be computed from its constants: {reason}") from None

    return load
