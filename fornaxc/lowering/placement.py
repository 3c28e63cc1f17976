"""Where the values of a chain lie: in a workspace that those share whose lives do not meet, in buffers of results, or inside one another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fornaxc.ir.chains import MOST_LOOPS, Chain, loops
from fornaxc.ir.dims import Dim, DimExpr, common_factor, static
from fornaxc.ir.graph import Node, Value
from fornaxc.ir.ops import (
    Binary,
    BroadcastTo,
    Concat,
    ConvNhwc,
    FromPool,
    LocalResponseNorm,
    Pad,
    Pool,
    Repeat,
    Reshape,
    Slice,
    Unary,
)

ALIGNMENT = 16  # numbers: a line of the cache
WORKSPACE = 0  # the number of its buffer; results come after it, then operands


@dataclass(frozen=True, slots=True)
class Place:
    """So many numbers into a buffer. `stride` numbers lie from one pixel (all but the last axis) to the next."""

    buffer: int
    offset: Dim
    stride: Dim


@dataclass(frozen=True, slots=True)
class Placement:
    """`places` of all values of a chain, and how many numbers the workspace holds. `repeated` has the values that lie nowhere but in what they repeat."""

    places: Mapping[Value, Place]
    workspace: Dim
    repeated: Mapping[Value, Value]


def joined(node: Node) -> bool:
    """Whether a node writes its operands beside one another in the last axis."""
    return isinstance(node.op, Concat) and node.op.axis == node.outputs[0].type.rank - 1


def _cut_from(node: Node) -> int | None:
    """The first channel, where a node takes neighbouring channels, and everything else, of its operand; None where it does something else."""
    op = node.op
    if not isinstance(op, Slice) or any(op.starts[:-1]) or any(s != 1 for s in op.steps):
        return None
    return static(op.starts[-1]) if op.sizes[:-1] == node.inputs[0].type.shape[:-1] else None


def place(
    chain: Chain,
    results: Sequence[Value],
    operands: Sequence[Value],
    pooled: Mapping[Value, Node],
    become: Mapping[Value, Value],
) -> Placement:
    """Places for the values of a chain: `operands` come from outside, `results` are wanted outside, each in a buffer of its own.

    `pooled` has the nodes that take constants from pools, which are operands.

    What is concatenated is computed where the concatenation wants it, if nothing reads it that needs its pixels without gaps. Channels that are cut
    out are read where they are, by what can. A reshape is its operand, and so is what arithmetic reads again and again.
    Values that `become` another are never written by themselves. A sum takes the place of the residual that nothing reads later.
    """
    homes = _homes(chain, set(results))
    homes.update((v, _Home(other, 0, True)) for v, other in become.items())
    homes.update((v, _Home(n.inputs[0], n.op.offset, False)) for v, n in pooled.items() if isinstance(n.op, FromPool))
    homes.update(_overwritten(chain, homes, {*results, *operands}))
    roots = {v: _root(v, homes) for node in chain for v in (*node.outputs, *node.inputs)}
    buffers = {v: i for i, v in enumerate((*results, *operands), WORKSPACE + 1)}
    offsets, workspace = _packed(_lives(chain, roots, buffers))
    places = {}
    for value, (root, inside) in roots.items():
        stride = (_widest(value, homes).type.shape or (1,))[-1]
        places[value] = Place(buffers.get(root, WORKSPACE), offsets.get(root, 0) + inside, stride)
    repeats = {node.outputs[0]: node.inputs[0] for node in chain if isinstance(node.op, BroadcastTo)}
    return Placement(places, workspace, {v: x for v, x in repeats.items() if v in homes and homes[v].whole is x})


@dataclass(frozen=True, slots=True)
class _Home:
    """The value that another lies in, from number `first` on. Its pixels are as far apart as those of `whole` if it is `beside` others there."""

    whole: Value
    first: Dim
    beside: bool


def _homes(chain: Chain, results: set[Value]) -> dict[Value, _Home]:
    makers = {node.outputs[0]: node for node in chain}
    dense = {v for node in chain if not _takes_gaps(node) for v in node.inputs}
    only_once = {v for node in chain if not _repeats(node, makers) for v in node.inputs}
    homes: dict[Value, _Home] = {}
    for node in reversed(chain):
        result = node.outputs[0]
        is_view = isinstance(node.op, Reshape) or (isinstance(node.op, BroadcastTo) and result not in only_once)
        if is_view and result not in results:
            homes[result] = _Home(node.inputs[0], 0, False)
        start = _cut_from(node)
        if start is not None and not {result} & (results | dense | homes.keys()):
            homes[result] = _Home(node.inputs[0], start, True)
        if not joined(node):
            continue
        first: Dim = 0
        for operand in node.inputs:
            maker = makers.get(operand)
            fits = maker is not None and _takes_gaps(maker) and operand not in homes
            if fits and operand not in dense and operand not in results:
                homes[operand] = _Home(result, first, True)
            first += operand.type.shape[-1]
    return homes


def _overwritten(chain: Chain, homes: Mapping[Value, _Home], outside: set[Value]) -> dict[Value, _Home]:
    """Homes of residuals in what convolutions make of them: a kernel reads each number of a residual before it writes that of the result, without gaps.

    Only of those that nothing outside has or wants, and of which no part is read later, or by the convolution itself.
    """
    roots = {v: _root(v, homes)[0] for node in chain for v in (*node.outputs, *node.inputs)}
    last = {roots[v]: step for step, node in enumerate(chain) for v in (*node.outputs, *node.inputs)}
    found: dict[Value, _Home] = {}
    for step, node in enumerate(chain):
        if not (isinstance(node.op, ConvNhwc) and node.op.residual):
            continue
        *others, residual = node.inputs
        result, root = node.outputs[0], roots[residual]
        busy = {roots[result], *(roots[v] for v in others), *outside, *found}
        dense = _widest(result, homes).type.shape[-1] == result.type.shape[-1]
        if dense and root not in busy and last[root] == step and root.type.elements == residual.type.elements:
            found[root] = _Home(result, 0, False)
    return found


def _repeats(node: Node, makers: Mapping[Value, Node]) -> bool:
    """Whether a node can read again and again what others of the chain make wider for it."""
    if not isinstance(node.op, Binary):
        return False
    wide = [n for v in node.inputs if (n := makers.get(v)) is not None and isinstance(n.op, BroadcastTo)]
    given = [n.inputs[0].type.shape for n in wide]
    return len(loops(node.outputs[0].type.shape, given)) <= MOST_LOOPS


_TAKES_GAPS = (Binary, BroadcastTo, ConvNhwc, LocalResponseNorm, Pad, Pool, Repeat, Slice, Unary)


def _takes_gaps(node: Node) -> bool:
    """Whether a node can read and write images whose pixels lie apart."""
    return isinstance(node.op, _TAKES_GAPS) or joined(node)


def _root(value: Value, homes: Mapping[Value, _Home]) -> tuple[Value, Dim]:
    """The value that `value` lies in at last, and how many numbers from its beginning."""
    inside: Dim = 0
    while value in homes:
        inside += homes[value].first
        value = homes[value].whole
    return value, inside


def _widest(value: Value, homes: Mapping[Value, _Home]) -> Value:
    """The value whose pixels are as far apart as those of `value` are."""
    while value in homes and homes[value].beside:
        value = homes[value].whole
    return value


@dataclass(slots=True)
class _Life:
    """The first and the last step that touch a value, and its size."""

    root: Value
    first: int
    last: int
    size: Dim


def _lives(chain: Chain, roots: Mapping[Value, tuple[Value, Dim]], buffers: Mapping[Value, int]) -> list[_Life]:
    lives: dict[Value, _Life] = {}
    for step, node in enumerate(chain):
        for value in (*node.outputs, *node.inputs):
            root, _ = roots[value]
            if root in buffers:
                continue
            life = lives.setdefault(root, _Life(root, step, step, root.type.elements))
            life.last = step
    return list(lives.values())


def _packed(lives: Iterable[_Life]) -> tuple[dict[Value, Dim], Dim]:
    """Offsets such that values that live at the same time do not meet, and the numbers that they take together.

    Symbolic sizes cannot be compared: those that are multiples of the same expression share a part of the workspace, one part lies behind the other.
    """
    parts: dict[Dim, list[_Life]] = {}
    for life in lives:
        parts.setdefault(life.size // common_factor(life.size), []).append(life)
    offsets: dict[Value, Dim] = {}
    end: Dim = 0
    for unit, part in parts.items():
        places, size = _stacked(part, 1 if isinstance(unit, DimExpr) else ALIGNMENT)
        offsets.update((v, end + unit * place) for v, place in places.items())
        end += unit * size
    return offsets, end


def _stacked(lives: Iterable[_Life], alignment: int) -> tuple[dict[Value, int], int]:
    """Offsets, and what they take together, in units of which every size is a multiple: the largest first, each as low as it can."""
    sized = [(life, common_factor(life.size)) for life in lives]
    placed: list[tuple[_Life, int, int]] = []
    for life, size in sorted(sized, key=lambda v: (-v[1], v[0].first)):
        taken = sorted((o, o + n) for v, n, o in placed if v.first <= life.last and life.first <= v.last)
        offset = 0
        for start, end in taken:
            if offset + size <= start:
                break
            offset = max(offset, -(-end // alignment) * alignment)
        placed.append((life, size, offset))
    return {v.root: o for v, _, o in placed}, max((o + n for _, n, o in placed), default=0)
