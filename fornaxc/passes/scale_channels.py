"""Turns scales of an image's channels that no convolution before them can take in into convolutions of one tap each."""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import static
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Binary, Cast, Conv, Select, Unary
from fornaxc.ir.types import DType
from fornaxc.passes.constness import Constness
from fornaxc.passes.rewrite import holds, rewrite, use_counts

_FUSED = (Binary, Cast, Select, Unary)


def scale_channels(graph: Graph) -> Graph:
    """`graph` with products of f32 images [N, C, H, W] and constants [C] as depthwise convolutions with a window of one pixel.

    For nets of convolutions that normalise before they convolve: the offset and the activation after the product go into the same kernel, which is
    compiled once for all shapes, where MAX compiles one for each. Left are products with one number, and those that elementwise
    work or a convolution before them takes in.
    """
    if not holds(graph, Conv):
        return graph
    uses = use_counts(graph)
    facts = Constness(graph.constants)

    def visit(node: Node, b: GraphBuilder) -> Sequence[Value] | None:
        if b.parent is not None:
            return None
        facts.catch_up(b)
        if not isinstance(node.op, Binary) or node.op.fn != "mul":
            return None
        for x, other in (node.inputs, node.inputs[::-1]):
            if _goes_into_what_is_before(facts.producer(x), uses[x]):
                continue
            scale = _scale(b, x, other, facts)
            if scale is not None:
                return [b.emit(Conv((1, 1), (0, 0), (0, 0), (1, 1), static(x.type.shape[1])), x, scale)]
        return None

    return rewrite(graph, visit)


def _scale(b: GraphBuilder, x: Value, other: Value, facts: Constness) -> Value | None:
    """The filters [C, 1, 1, 1] where `other` repeats a constant for each of several channels of `x`."""
    if x.type.dtype is not DType.F32 or x.type.rank != 4 or facts.is_constant(x):
        return None
    channels = x.type.shape[1]
    inner = facts.unbroadcast(other)
    if not isinstance(channels, int) or channels == 1 or inner.type.rank != 4 or inner.type.shape[1] != channels:
        return None
    line = facts.per_channel(b, other, 1, channels)
    return None if line is None else compose.reshape(b, line, (channels, 1, 1, 1))


def _goes_into_what_is_before(node: Node | None, uses: int) -> bool:
    return node is not None and isinstance(node.op, (Conv, *_FUSED)) and uses == 1
