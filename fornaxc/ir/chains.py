"""Chains: groups of convolutions and of what lies between them, each of which can run as one kernel."""

from __future__ import annotations

from collections.abc import Iterator

from fornaxc.ir.dims import product, static
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Binary, BroadcastTo, Concat, ConvNhwc, Pool, Reduce, Reshape, Transpose, Unary
from fornaxc.ir.types import DType

ARITHMETIC = ("add", "sub", "mul", "div")
FUNCTIONS = ("relu", "sigmoid", "silu", "tanh")
LEAST = 4  # convolutions and pools of a chain: fewer are kernels of their own

Chain = tuple[Node, ...]


def find_chains(graph: Graph) -> list[Chain]:
    """Groups of nodes of a graph of static sizes, nodes in their order, such that no path leaves a group and comes back to it."""
    return [step for step in schedule(graph) if isinstance(step, tuple)]


def schedule(graph: Graph) -> list[Node | Chain]:
    """All nodes, each alone or in its chain, in an order in which they can run."""
    if not all(v.type.is_static for node in graph.nodes for v in node.outputs):
        return list(graph.nodes)
    stages = _stages(graph)
    plain: dict[int, list[Node]] = {}
    chained: dict[int, list[Node]] = {}
    for node in graph.nodes:
        (chained if is_link(node) else plain).setdefault(stages[node], []).append(node)
    steps: list[Node | Chain] = []
    for stage in range(max(stages.values(), default=-1) + 1):
        steps += plain.get(stage, [])
        links = chained.get(stage, [])
        kept = _leading_to_windows(links)
        if sum(_is_window(node) for node in kept) < LEAST:
            steps += links
            continue
        steps.append(tuple(node for node in links if node in kept))
        steps += [node for node in links if node not in kept]
    return steps


def is_link(node: Node) -> bool:
    """Whether a node can be part of a chain: f32 of static sizes, with elements."""
    values = (*node.inputs, *node.outputs)
    if not all(v.type.dtype is DType.F32 and v.type.is_static and 0 not in v.type.shape for v in values):
        return False
    image = values[0].type.rank == 4
    match node.op:
        case Pool(channels_last=channels_last, window=window):
            return image and channels_last and len(window) == 2
        case Reduce(fn=fn, axes=axes):
            return image and fn in ("sum", "mean") and axes == (1, 2)
        case Binary(fn=fn):
            return image and fn in ARITHMETIC
        case Unary(fn=fn):
            return image and fn in FUNCTIONS
        case BroadcastTo(shape=shape):
            kept = [have == wanted for have, wanted in zip(node.inputs[0].type.shape, shape, strict=True)]
            return image and (kept[1] == kept[2] or 1 in shape[1:3])
        case Transpose():
            return swapped(node) is not None
        case ConvNhwc() | Concat() | Reshape():
            return True
    return False


def swapped(node: Node) -> tuple[int, int, int] | None:
    """Sizes (n, a, b) such that a transpose takes [n, a, b] to [n, b, a], neighbouring axes taken together; None where it is another one."""
    assert isinstance(node.op, Transpose)
    perm, shape = node.op.perm, node.inputs[0].type.shape
    fixed = next((i for i, axis in enumerate(perm) if axis != i), len(perm))
    if fixed == len(perm):
        return None
    moved = perm[fixed]
    if perm != (*range(fixed), *range(moved, len(perm)), *range(fixed, moved)):
        return None
    return (
        static(product(shape[:fixed])),
        static(product(shape[fixed:moved])),
        static(product(shape[moved:])),
    )


def _is_window(node: Node) -> bool:
    return isinstance(node.op, ConvNhwc | Pool)


def _stages(graph: Graph) -> dict[Node, int]:
    """A number for each node. A link's is the largest of the nodes before it, another's is one more than that of links before it.

    So links of one stage have no other node between them. What repeats a value is moved to the stage that uses it first.
    """
    stages: dict[Node, int] = {}
    makers: dict[Value, Node] = {}
    for node in graph.nodes:
        link = is_link(node)
        before = [makers[v] for v in _used(node) if v in makers]
        stages[node] = max((stages[n] + (is_link(n) and not link) for n in before), default=0)
        makers.update((v, node) for v in node.outputs)
    users: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in _used(node):
            users.setdefault(value, []).append(node)
    for node in reversed(graph.nodes):
        after = users.get(node.outputs[0], []) if is_link(node) and isinstance(node.op, BroadcastTo) else []
        stages[node] = min((stages[n] - (not is_link(n)) for n in after), default=stages[node])
    return stages


def _used(node: Node) -> Iterator[Value]:
    yield from node.inputs
    for region in node.regions:
        yield from region.captures()


def _leading_to_windows(links: list[Node]) -> set[Node]:
    """The convolutions, pools and concatenations among `links`, and what they use of the others: what comes after the last stays outside."""
    kept: set[Node] = set()
    needed: set[Value] = set()
    for node in reversed(links):
        if isinstance(node.op, ConvNhwc | Pool | Concat) or not needed.isdisjoint(node.outputs):
            kept.add(node)
            needed.update(node.inputs)
    return kept
