"""Transposed convolutions whose windows do not overlap as convolutions of single pixels, whose channels become pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import product, static
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Binary, Conv, Pad, Slice, Unary
from fornaxc.ir.types import DType
from fornaxc.passes.constness import Constness
from fornaxc.passes.rewrite import holds, rewrite, use_counts


@dataclass(frozen=True, slots=True)
class _Phases:
    """What becomes an image of `window` times the size: `value` [N, R * S * filters, H, W]."""

    value: Value
    window: tuple[int, int]
    filters: int


def split_phases(graph: Graph) -> Graph:
    """`graph` with a convolution of f32 images that zeros spread, by as much as its window is wide, as one of the images themselves.

    Each pixel of the result reads one pixel, by one tap of the window, so that the filters for each place in the window are filters of one
    tap, and no zero is multiplied (Shi et al. 2016, section 3). The offset and the function after it come before the channels become pixels.
    """
    if not holds(graph, Pad):
        return graph
    uses = use_counts(graph)
    facts = Constness(graph.constants)
    known: dict[Value, _Phases] = {}

    def visit(node: Node, b: GraphBuilder) -> Sequence[Value] | None:
        if b.parent is not None:
            return None
        facts.catch_up(b)
        phases = _started(node, b, facts) or _continued(node, b, facts, known, uses)
        if phases is None:
            return None
        y = _image(b, phases)
        known[y] = phases
        uses[y] = uses[node.outputs[0]]
        return [y]

    return rewrite(graph, visit)


def _started(node: Node, b: GraphBuilder, facts: Constness) -> _Phases | None:
    if not isinstance(node.op, Conv) or node.outputs[0].type.dtype is not DType.F32:
        return None
    spread, w = node.inputs
    pad = facts.producer(spread)
    if w.type.rank != 4 or pad is None or not isinstance(pad.op, Pad) or not facts.is_constant(w):
        return None
    filters, channels, r, s = (static(d) for d in w.type.shape)
    zeros = b.known(pad.inputs[1]) if pad.op.mode == "constant" else None
    sides = (0, 0, r - 1, s - 1)
    fits = node.op == Conv((1, 1), (0, 0), (0, 0), (1, 1), 1) and pad.op == Pad(sides, sides, "constant", sides)
    if not fits or zeros is None or zeros != 0 or channels == 0:
        return None
    backwards = Slice((0, 0, r - 1, s - 1), (filters, channels, r, s), (1, 1, -1, -1))
    taps = compose.transpose(b, b.emit(backwards, w), (2, 3, 0, 1))
    single = compose.reshape(b, taps, (r * s * filters, channels, 1, 1))
    return _Phases(b.emit(node.op, pad.inputs[0], single), (r, s), filters)


def _continued(
    node: Node, b: GraphBuilder, facts: Constness, known: dict[Value, _Phases], uses: dict[Value, int]
) -> _Phases | None:
    """The phases of a function, or of a sum with one number a channel, of an image that is made of phases."""
    if not isinstance(node.op, Binary | Unary):
        return None
    for x, *rest in (node.inputs, node.inputs[::-1]):
        phases = known.get(x)
        if phases is None or uses[x] != 1:
            continue
        if isinstance(node.op, Unary):
            return _Phases(b.emit(node.op, phases.value), phases.window, phases.filters)
        if node.op != Binary("add"):
            return None
        offset = facts.per_channel(b, rest[0], 1, phases.filters)
        if offset is None:
            return None
        count = phases.window[0] * phases.window[1]
        each = compose.expand(b, compose.reshape(b, offset, (1, phases.filters)), (count, phases.filters))
        line = compose.reshape(b, each, (1, count * phases.filters, 1, 1))
        return _Phases(compose.binary(b, "add", phases.value, line), phases.window, phases.filters)
    return None


def _image(b: GraphBuilder, phases: _Phases) -> Value:
    n, _, h, w = phases.value.type.shape
    r, s = phases.window
    apart = compose.reshape(b, phases.value, (n, r, s, phases.filters, h, w))
    moved = compose.transpose(b, apart, (0, 3, 4, 1, 5, 2))
    return compose.reshape(b, moved, (n, phases.filters, product([h, r]), product([w, s])))
