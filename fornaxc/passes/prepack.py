"""Moves what depends on constants alone out of the program: it is computed once, when the weights are packed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from fornaxc.ir.dead import drop_dead
from fornaxc.ir.graph import Array, Constant, Graph, Node, Value
from fornaxc.ir.ops import Concat, IrError, NotFoldable, Op, PackConv
from fornaxc.passes.constness import evaluable, never_fails

GROWTH = 2  # a packed tensor may be this many times as large as what it is made of
SMALL_BYTES = 1 << 20  # and any tensor up to this size may be packed
LITERAL_BYTES = 1024  # what literals determine is one itself up to this size, and else a weight
HELD_GROWTH = 8  # a tensor on the way to a packed one may be this many times as large as what it is made of
HELD_BYTES = 1 << 28  # and any tensor up to this size may be on the way


def prepack(graph: Graph) -> Graph:
    """`graph` with every value that only constants determine turned into a constant that is evaluated on demand.

    A value that would be much larger than the constants it is made of stays in the program, its operands do not. In regions, which perhaps
    never run, nothing is evaluated that could fail; what weights from outside determine becomes a constant outside.
    """
    return _Packer().pack(graph)


@dataclass(frozen=True, slots=True)
class _Derived:
    """A value that constants determine: how to compute it, and from which constants in the end.

    `depth` is that of the region whose constant it becomes (0: the graph's own), None where it stays in the program; `number` is its place
    in the program.
    """

    constant: Constant
    node: Node
    sources: frozenset[Value]
    depth: int | None
    number: int


class _Packer:
    """Packs a graph and, from the inside out, its regions; `_packed` has what becomes a constant of each graph around the current node."""

    def __init__(self) -> None:
        self._derived: dict[Value, _Derived] = {}
        self._constants: dict[Value, tuple[Constant, int]] = {}  # with the depth of the graph that it belongs to
        self._packed: list[set[Value]] = []

    def pack(self, graph: Graph) -> Graph:
        depth = len(self._packed)
        self._packed.append(set())
        self._constants.update((v, (c, depth)) for v, c in graph.constants.items())
        for node in graph.nodes:
            self._derive(node, depth)
        nodes = [
            replace(n, regions=tuple([self.pack(region) for region in n.regions])) if n.regions else n
            for n in graph.nodes
        ]
        kept = self._choose(nodes, graph.outputs)
        order = sorted(self._packed.pop(), key=lambda v: self._derived[v].number)
        constants = {**graph.constants, **{v: self._derived[v].constant for v in order}}
        return drop_dead(replace(graph, nodes=tuple([n for n in nodes if n in kept]), constants=constants))

    def _choose(self, nodes: list[Node], outputs: tuple[Value, ...]) -> set[Node]:
        """The nodes of a graph that stay in the program, for those that do not be packed."""
        own = {v for n in nodes for v in n.outputs if v in self._derived}
        kept = {n for n in nodes if own.isdisjoint(n.outputs)}
        needed = [v for n in kept for v in (*n.inputs, *_captured(n))] + list(outputs)
        while needed:
            value = needed.pop()
            if value not in own:
                continue
            own.remove(value)
            found = self._derived[value]
            if found.depth is None:
                kept.add(found.node)
                needed += found.node.inputs
            else:
                self._packed[found.depth].add(value)
        return kept

    def _derive(self, node: Node, depth: int) -> None:
        if not evaluable(node) or (depth and not never_fails(node)):
            return
        if not all(v in self._derived or v in self._constants for v in node.inputs):
            return
        operands = tuple([self._constant(v) for v in node.inputs])
        sources = frozenset(s for v in node.inputs for s in self._sources(v))
        size = sum(s.type.nbytes for s in sources)
        held = max(HELD_BYTES, HELD_GROWTH * size)
        if any(v.type.nbytes > held for v in node.inputs if v in self._derived):
            return
        limit = max(SMALL_BYTES, GROWTH * size)
        if isinstance(node.op, Concat) and not any(
            v in self._derived and self._derived[v].depth is None for v in node.inputs
        ):
            limit = max(limit, sum(v.type.nbytes for v in set(node.inputs)))  # these are packed without it too
        too_large = any(v.type.nbytes > limit for v in node.outputs)
        for index, value in enumerate(node.outputs):
            constant = _constant_of(node, index, value, operands)
            home = None if too_large else self._home(constant, sources, depth)
            self._derived[value] = _Derived(constant, node, sources, home, len(self._derived))

    def _constant(self, value: Value) -> Constant:
        return self._derived[value].constant if value in self._derived else self._constants[value][0]

    def _sources(self, value: Value) -> frozenset[Value]:
        return self._derived[value].sources if value in self._derived else frozenset((value,))

    def _home(self, constant: Constant, sources: frozenset[Value], depth: int) -> int | None:
        """The depth of the graph that holds what is derived at `depth`; None where it stays there as a node.

        A literal is the region's own; a weight is where the innermost of those is that it is made of, so that a region takes no weight
        from outside that it did not take before.
        """
        if depth == 0 or constant.literal:
            return depth
        weights = [home for c, home in map(self._constants.__getitem__, sources) if not c.literal]
        return max(weights, default=None)


def _captured(node: Node) -> tuple[Value, ...]:
    return tuple(v for region in node.regions for v in region.captures())


def _constant_of(node: Node, index: int, value: Value, sources: tuple[Constant, ...]) -> Constant:
    names = [s.name for s in sources if s.name]
    size = value.type.nbytes
    literal = size == 0 or (size <= LITERAL_BYTES and all(s.literal for s in sources))
    parts = _parts(node.op, sources)
    return Constant(value.type, _loader(node, index, sources), literal, names[0] if names else "", parts)


def _parts(op: Op, sources: tuple[Constant, ...]) -> Callable[[], Iterator[Array]] | None:
    """How a packed tensor or a pool of them is made by parts."""
    if isinstance(op, PackConv):
        return lambda: op.parts(sources[0].load())
    if isinstance(op, Concat) and sources[0].type.rank == 1:
        return lambda: (part for s in sources for part in (s.parts() if s.parts else (s.load(),)))
    return None


def _loader(node: Node, index: int, sources: tuple[Constant, ...]) -> Callable[[], Array]:
    def load() -> Array:
        try:
            return node.op.evaluate(*(s.load() for s in sources))[index]
        except NotFoldable as reason:
            raise IrError(f"{node.op} from {node.origin} cannot be computed from its constants: {reason}") from None

    return load
