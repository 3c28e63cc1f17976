"""Chains: groups of convolutions, linear layers among them, and of what lies between them, each of which can run as one kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fornaxc.ir.dims import Dim, bare_symbols_of, is_nonnegative, product, symbols_of
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import (
    Attention,
    Binary,
    BroadcastTo,
    Concat,
    ConvNhwc,
    FromPool,
    LayerNorm,
    LocalResponseNorm,
    Pad,
    Pool,
    Reduce,
    Repeat,
    Reshape,
    RmsNorm,
    Slice,
    Softmax,
    Transpose,
    Unary,
)
from fornaxc.ir.types import DType

ARITHMETIC = ("add", "sub", "mul", "div")
FUNCTIONS = ("relu", "sigmoid", "silu", "tanh", "gelu", "gelu_tanh")
MOST_LOOPS = 3  # of arithmetic, around that over channels
COPIED_AXES = 4  # but for the first and the last that what moves elements can have
_KERNELS = (Attention, Concat, LayerNorm, LocalResponseNorm, RmsNorm, Softmax, Transpose)  # MAX fuses them with nothing
LEAST = 4  # convolutions and pools of a chain: fewer are kernels of their own
MOST_RESULTS = 32  # of a chain: each costs compile time

Chain = tuple[Node, ...]
Shape = tuple[Dim, ...]


def may_have_chains(graph: Graph) -> bool:
    """Whether the symbols of a graph come from its inputs, so that nodes may change places."""
    known = {name for v in graph.inputs for name in bare_symbols_of(v.type.shape)}
    return all(symbols_of(v.type.shape) <= known for node in graph.nodes for v in node.outputs)


def find_chains(graph: Graph) -> list[Chain]:
    """Groups of nodes, in their order, such that no path leaves a group and comes back to it."""
    return [step for step in schedule(graph) if isinstance(step, tuple)]


def chain_results(graph: Graph, chain: Chain) -> list[Value]:
    """The values of a chain that something outside of it uses."""
    inside = set(chain)
    used = set(graph.outputs)
    for node in graph.nodes:
        if node not in inside:
            used.update(_used(node))
    return [v for node in chain for v in node.outputs if v in used]


def has_few_results(graph: Graph, chain: Chain) -> bool:
    """Whether a chain is worth one kernel; else it is left in pieces."""
    return len(chain_results(graph, chain)) <= MOST_RESULTS


def lowering_steps(graph: Graph) -> list[Node | Chain]:
    """The nodes of a graph or region in an order in which they can run, those of a chain with a pool of constants together.

    A chain with many results is left in pieces. What takes constants from a pool for chains alone is left out.
    """
    pooled = {v for node in graph.nodes if isinstance(node.op, FromPool) for v in node.outputs}
    if not pooled:
        return list(graph.nodes)
    steps: list[Node | Chain] = []
    for step in schedule(graph):
        if isinstance(step, Node) or _is_worth_it(step, pooled, graph):
            steps.append(step)
        else:
            steps += step
    read = {v for step in steps if isinstance(step, Node) for v in step.inputs}.union(graph.outputs)
    return [s for s in steps if not isinstance(s, Node) or pooled.isdisjoint(s.outputs) or s.outputs[0] in read]


def _is_worth_it(chain: Chain, pooled: set[Value], graph: Graph) -> bool:
    has_pool = any(not pooled.isdisjoint(node.inputs) for node in chain)
    return has_pool and has_few_results(graph, chain)


def own_outputs(graph: Graph) -> list[bool]:
    """Of each output, whether it is the result of a chain, perhaps reshaped, that inputs decide: then no other output, and no input or constant, is in its memory.

    Of what comes from elsewhere, control flow among it, nothing is known. What constants alone decide may be made once for all runs.
    """
    chains = [step for step in lowering_steps(graph) if isinstance(step, tuple)]
    results = {v for chain in chains for v in chain_results(graph, chain)}
    makers = {v: node for node in graph.nodes for v in node.outputs}

    def seen_through(value: Value) -> Value:
        while value not in results and value in makers and isinstance(makers[value].op, Reshape):
            value = makers[value].inputs[0]
        return value

    made = [seen_through(v) for v in graph.outputs]
    results &= _varying(graph)
    return [v in results and made.count(v) == 1 for v in made]


def schedule(graph: Graph) -> list[Node | Chain]:
    """All nodes, each alone or in its chain, in an order in which they can run."""
    if not may_have_chains(graph) or not any(_is_window(node) for node in graph.nodes):
        return list(graph.nodes)
    links = {node for node in graph.nodes if is_link(node)}
    stages = _stages(graph, links)
    varying = _varying(graph)
    plain: dict[int, list[Node]] = {}
    chained: dict[int, list[Node]] = {}
    for node in graph.nodes:
        (chained if node in links else plain).setdefault(stages[node], []).append(node)
    steps: list[Node | Chain] = []
    for stage in range(max(stages.values(), default=-1) + 1):
        steps += plain.get(stage, [])
        linked = chained.get(stage, [])
        kept = _worth_a_step(linked, varying)
        if sum(_is_window(node) for node in kept) < LEAST:
            steps += linked
            continue
        steps.append(tuple(node for node in linked if node in kept))
        steps += [node for node in linked if node not in kept]
    return steps


def is_link(node: Node) -> bool:
    """Whether a node can be part of a chain: f32, with elements. Sizes may be symbolic, if they cannot come out negative, as that of a window wider than an image:
    the kernel would not notice. A mask of bools is brought as f32."""
    values = (*node.inputs, *node.outputs)
    if any(d == 0 or not is_nonnegative(d) for v in values for d in v.type.shape):
        return False
    if any(v.type.dtype is not DType.F32 for v in values if v is not mask_of(node)):
        return False
    image = values[0].type.rank == 4
    match node.op:
        case Pool(channels_last=channels_last, window=window):
            return image and channels_last and len(window) == 2
        case Reduce(fn=fn, axes=axes):
            return image and fn in ("sum", "mean") and axes == (1, 2)
        case Binary(fn=fn):
            return values[0].type.rank > 1 and fn in ARITHMETIC
        case Unary(fn=fn):
            return values[0].type.rank > 1 and fn in FUNCTIONS
        case BroadcastTo(shape=shape):
            return len(shape) > 1 and len(loops(shape, [node.inputs[0].type.shape])) <= MOST_LOOPS
        case Transpose(perm=perm):
            return swapped(node) is not None or _moves_rows(node.inputs[0], perm)
        case LocalResponseNorm():
            return image
        case LayerNorm(axis=axis) | RmsNorm(axis=axis):
            return axis > 0
        case Softmax(axis=axis):
            return 0 < axis == values[0].type.rank - 1
        case Attention():
            return True
        case Repeat(times=times):
            return image and times[0] == 1 and times[3] == 1
        case Slice(starts=starts, steps=steps):
            return _copies(node) and steps[-1] == 1 and all(isinstance(d, int) for d in starts)
        case Pad(mode=mode, low=low, high=high, interior=interior):
            sides = (*low, *high)
            plain = mode == "constant" and not any(interior[-1:])
            return _copies(node) and plain and all(isinstance(d, int) for d in sides)
        case ConvNhwc() | Concat() | Reshape():
            return True
    return False


def loops(shape: Shape, operands: Sequence[Shape]) -> list[range]:
    """The axes of a result but the last, neighbours together that every operand repeats alike, or has alike."""
    found: list[tuple[range, list[bool]]] = []
    for axis, size in enumerate(shape[:-1]):
        has = [operand[axis] == size for operand in operands]
        if found and (size == 1 or has == found[-1][1]):
            found[-1] = range(found[-1][0].start, axis + 1), found[-1][1]
        elif size != 1:
            found.append((range(axis, axis + 1), has))
    return [axes for axes, _ in found]


def mask_of(node: Node) -> Value | None:
    """The mask of an attention; None where there is none."""
    if not isinstance(node.op, Attention):
        return None
    rest = node.inputs[4 : len(node.inputs) - node.op.spare]
    return rest[0] if rest else None


def _copies(node: Node) -> bool:
    """Whether what moves elements of its first operand has few enough axes."""
    return 2 <= node.inputs[0].type.rank <= COPIED_AXES + 2


def _moves_rows(x: Value, perm: tuple[int, ...]) -> bool:
    """Whether a transpose keeps the last axis the last, but for axes of one element, and has few enough axes."""
    moved = [axis for axis in perm if x.type.shape[axis] != 1]
    return len(moved) <= COPIED_AXES + 2 and moved[-1:] == sorted(moved)[-1:]


def swapped(node: Node) -> tuple[Dim, Dim, Dim] | None:
    """Sizes (n, a, b) such that a transpose takes [n, a, b] to [n, b, a], neighbouring axes taken together; None where it is another one."""
    assert isinstance(node.op, Transpose)
    perm, shape = node.op.perm, node.inputs[0].type.shape
    fixed = next((i for i, axis in enumerate(perm) if axis != i), len(perm))
    if fixed == len(perm):
        return None
    moved = perm[fixed]
    if perm != (*range(fixed), *range(moved, len(perm)), *range(fixed, moved)):
        return None
    return product(shape[:fixed]), product(shape[fixed:moved]), product(shape[moved:])


def _is_window(node: Node) -> bool:
    return isinstance(node.op, ConvNhwc | Pool)


def _stages(graph: Graph, links: set[Node]) -> dict[Node, int]:
    """A number for each node. A link's is the largest of the nodes before it, another's is one more than that of links before it.

    So links of one stage have no other node between them.
    """
    stages: dict[Node, int] = {}
    makers: dict[Value, Node] = {}
    for node in graph.nodes:
        before = [makers[v] for v in _used(node) if v in makers]
        stages[node] = max((stages[n] + (n in links and node not in links) for n in before), default=0)
        makers.update((v, node) for v in node.outputs)
    _delay_repetitions(graph, stages, links)
    return stages


def _delay_repetitions(graph: Graph, stages: dict[Node, int], links: set[Node]) -> None:
    """Move what repeats a value to the stage that uses it first."""
    users: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in _used(node):
            users.setdefault(value, []).append(node)
    for node in reversed(graph.nodes):
        after = users.get(node.outputs[0], []) if node in links and isinstance(node.op, BroadcastTo) else []
        stages[node] = min((stages[n] - (n not in links) for n in after), default=stages[node])


def _used(node: Node) -> Iterator[Value]:
    yield from node.inputs
    for region in node.regions:
        yield from region.captures()


def _varying(graph: Graph) -> set[Value]:
    """What constants alone do not decide."""
    found = set(graph.inputs)
    for node in graph.nodes:
        if not found.isdisjoint(_used(node)):
            found.update(node.outputs)
    return found


def _worth_a_step(links: list[Node], varying: set[Value]) -> set[Node]:
    """Convolutions, pools and what else MAX fuses with nothing among `links`, and what they use of the others: the arithmetic after the last stays outside."""
    kept: set[Node] = set()
    needed: set[Value] = set()
    for node in reversed(links):
        is_kernel = isinstance(node.op, _KERNELS) and not varying.isdisjoint(node.outputs)
        if _is_window(node) or is_kernel or not needed.isdisjoint(node.outputs):
            kept.add(node)
            needed.update(node.inputs)
    return kept
