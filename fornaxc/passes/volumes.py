"""Turns convolutions over volumes into convolutions over planes, for which there are kernels."""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, static
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Conv, Pad
from fornaxc.ir.types import DType
from fornaxc.passes.rewrite import rewrite

_FLOATS = (DType.F32, DType.F16, DType.BF16)


def flatten_volumes(graph: Graph) -> Graph:
    """`graph` with convolutions of x [N, C, D, H, W] as ones of [N * Do, C * Kd, H, W]: the Kd planes that a window sees are channels.

    Filters [K, C/groups, Kd, Kh, Kw] have them side by side as they are. f32, f16 and bf16; others are left.
    """

    def visit(node: Node, b: GraphBuilder) -> Sequence[Value] | None:
        if not isinstance(node.op, Conv) or node.inputs[0].type.rank != 5:
            return None
        (x, w), (result,) = node.inputs, node.outputs
        if x.type.dtype not in _FLOATS or any(d == 0 for v in (x, w, result) for d in v.type.shape):
            return None
        return [_by_planes(b, node.op, x, w, result)]

    return rewrite(graph, visit)


def _by_planes(b: GraphBuilder, op: Conv, x: Value, w: Value, like: Value) -> Value:
    batch, channels, _, *image = x.type.shape
    filters, depth, planes, *window = w.type.shape
    _, _, deep, *plane = like.type.shape
    seen = compose.transpose(b, _seen(b, op, x, static(planes), deep), (0, 3, 1, 2, 4, 5))
    images = compose.reshape(b, seen, (batch * deep, channels * planes, *image))
    kernels = compose.reshape(b, w, (filters, depth * planes, *window))
    flat = Conv(op.strides[1:], op.low[1:], op.high[1:], op.dilations[1:], op.groups)
    found = compose.reshape(b, b.emit(flat, images, kernels), (batch, deep, filters, *plane))
    return compose.transpose(b, found, (0, 2, 1, 3, 4))


def _seen(b: GraphBuilder, op: Conv, x: Value, planes: int, deep: Dim) -> Value:
    """The planes of `x` that each window sees: [N, C, planes, deep, H, W]."""
    low, high = (tuple(edge if axis == 2 else 0 for axis in range(5)) for edge in (op.low[0], op.high[0]))
    padded = b.emit(Pad(low, high), x, compose.scalar(b, 0, x.type.dtype)) if any((*low, *high)) else x
    parts = [compose.slice_axis(b, padded, 2, plane * op.dilations[0], deep, op.strides[0]) for plane in range(planes)]
    return compose.concat(b, [compose.unsqueeze(b, part, (2,)) for part in parts], 2)
