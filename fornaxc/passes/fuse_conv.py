"""Turns convolutions with constant weights into a kernel of our own, with what follows them inside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import static
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Binary, Conv, ConvNhwc, PackConv, Unary
from fornaxc.ir.types import DType
from fornaxc.passes.activations import clipped, hard_swish
from fornaxc.passes.constness import Constness
from fornaxc.passes.forms import Forms
from fornaxc.passes.rewrite import holds, rewrite, use_counts

TO_NHWC = (0, 2, 3, 1)
TO_NCHW = (0, 3, 1, 2)


def fuse_conv(graph: Graph) -> Graph:
    """`graph` with f32 convolutions of one and two dimensions as `ConvNhwc`, biases, residuals and activations inside.

    The layout changes around each are left as transposes, for `sink_transposes` to remove.
    """
    if not holds(graph, Conv):
        return graph
    uses = use_counts(graph)
    fused: dict[Value, tuple[ConvNhwc, tuple[Value, ...]]] = {}
    facts, forms = Constness(graph.constants), Forms(graph)

    def visit(node: Node, b: GraphBuilder) -> Sequence[Value] | None:
        if b.parent is not None:
            return None
        facts.catch_up(b)
        forms.see(node)
        if isinstance(node.op, Conv):
            made = _convolution(node, b, facts)
        elif isinstance(node.op, Binary) and node.op.fn == "add":
            made = _bias_or_residual(node, b, facts, fused, uses)
        else:
            made = _activation(node, forms, fused, uses)
        if made is None:
            return None
        y = b.emit(made[0], *made[1])
        result = _restore(b, y, node.outputs[0])
        fused[result] = made
        uses[result] = uses[node.outputs[0]]
        return [result]

    return rewrite(graph, visit)


Fused = tuple[ConvNhwc, tuple[Value, ...]]


def _restore(b: GraphBuilder, y: Value, like: Value) -> Value:
    """The channels-first value that a channels-last one stands for; of rank 3 where the convolution had one dimension."""
    result = compose.transpose(b, y, TO_NCHW)
    return compose.reshape(b, result, like.type.shape) if like.type.rank == 3 else result


def _convolution(node: Node, b: GraphBuilder, facts: Constness) -> Fused | None:
    op, (x, w) = node.op, node.inputs
    assert isinstance(op, Conv)
    if x.type.dtype is not DType.F32 or x.type.rank not in (3, 4) or not facts.is_constant(w):
        return None
    if w.type.rank == 3:  # one dimension: a height of 1
        n, c, length = x.type.shape
        x = compose.reshape(b, x, (n, c, 1, length))
        k, cg, s = w.type.shape
        w = compose.reshape(b, w, (k, cg, 1, s))
        op = Conv((1, *op.strides), (0, *op.low), (0, *op.high), (1, *op.dilations), op.groups)
    k, _, r, s = (static(d) for d in w.type.shape)
    packed = b.emit(PackConv(op.groups), w)
    bias = b.literal(np.zeros(k, np.float32))
    kernel = ConvNhwc(k, (r, s), _two(op.strides), _two(op.low), _two(op.high), _two(op.dilations), op.groups)
    return kernel, (compose.transpose(b, x, TO_NHWC), packed, bias)


def _two(values: tuple[int, ...]) -> tuple[int, int]:
    first, second = values
    return first, second


def _plain(made: Fused | None) -> Fused | None:
    """A fused convolution that can still take something."""
    return made if made is not None and made[0].activation == "none" else None


def _bias_or_residual(
    node: Node, b: GraphBuilder, facts: Constness, fused: dict[Value, Fused], uses: dict[Value, int]
) -> Fused | None:
    for value, other in (node.inputs, node.inputs[::-1]):
        made = _plain(fused.get(value))
        if made is None or uses[value] > 1 or made[0].residual:
            continue
        kernel, operands = made
        bias = facts.per_channel(b, other, 1, kernel.filters)
        if bias is not None:
            return kernel, (*operands[:2], compose.binary(b, "add", operands[2], bias))
        if other.type == value.type and value.type.rank == 4:
            return replace(kernel, residual=True), (*operands, compose.transpose(b, other, TO_NHWC))
    return None


def _activation(node: Node, forms: Forms, fused: dict[Value, Fused], uses: dict[Value, int]) -> Fused | None:
    if isinstance(node.op, Unary) and node.op.fn in ("relu", "silu", "sigmoid"):
        made = _taken(node.inputs[0], 1, fused, uses)
        return made and (replace(made[0], activation=node.op.fn), made[1])
    if not isinstance(node.op, Binary):
        return None
    bounded = clipped(forms, node.outputs[0])
    if bounded is not None:
        made = _taken(bounded[0], 1, fused, uses)
        return made and (replace(made[0], activation="clip", least=bounded[1], greatest=bounded[2]), made[1])
    gated = hard_swish(forms, node.outputs[0])
    if gated is not None and (made := _taken(gated, 2, fused, uses)):
        return replace(made[0], activation="hardswish"), made[1]
    return None


def _taken(x: Value, times: int, fused: dict[Value, Fused], uses: dict[Value, int]) -> Fused | None:
    """The convolution that made `x`, where it can take something and nothing else uses `x`, which the activation does so many times."""
    return _plain(fused.get(x)) if uses[x] <= times else None
