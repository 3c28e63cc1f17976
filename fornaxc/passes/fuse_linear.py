"""Turns products with constant matrices into a kernel of our own, weights packed ahead of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import product, static
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Binary, ConvNhwc, MatMul, PackConv, Unary
from fornaxc.ir.types import DType
from fornaxc.passes.constness import Constness
from fornaxc.passes.rewrite import holds, rewrite, use_counts

Fused = tuple[ConvNhwc, tuple[Value, ...]]


def fuse_linear(graph: Graph) -> Graph:
    """`graph` with f32 products by a constant matrix as 1 x 1 `ConvNhwc`, biases, residuals and activations inside."""
    if not holds(graph, MatMul):
        return graph
    uses = use_counts(graph)
    fused: dict[Value, Fused] = {}
    facts = Constness(graph.constants)

    def visit(node: Node, b: GraphBuilder) -> Sequence[Value] | None:
        if b.parent is not None:
            return None
        facts.catch_up(b)
        made = _product(node, b, facts) or _follow(node, b, facts, fused, uses)
        if made is None:
            return None
        result = compose.reshape(b, b.emit(made[0], *made[1]), node.outputs[0].type.shape)
        fused[result] = made
        uses[result] = uses[node.outputs[0]]
        return [result]

    return rewrite(graph, visit)


def _product(node: Node, b: GraphBuilder, facts: Constness) -> Fused | None:
    if not isinstance(node.op, MatMul):
        return None
    x, w = node.inputs
    if x.type.dtype is not DType.F32 or w.type.rank != 2 or not facts.is_constant(w):
        return None
    inner, columns = (static(d) for d in w.type.shape)
    if inner == 0 or columns == 0:
        return None
    filters = compose.reshape(b, compose.transpose(b, w, (1, 0)), (columns, inner, 1, 1))
    rows = compose.reshape(b, x, (1, 1, product(x.type.shape[:-1]), inner))
    bias = b.literal(np.zeros(columns, np.float32))
    return ConvNhwc(columns, (1, 1), (1, 1), (0, 0), (0, 0), (1, 1), 1), (rows, b.emit(PackConv(1), filters), bias)


def _follow(
    node: Node, b: GraphBuilder, facts: Constness, fused: dict[Value, Fused], uses: dict[Value, int]
) -> Fused | None:
    """A bias, a residual or an activation after a fused product that nothing else uses."""
    if isinstance(node.op, Unary):
        x = node.inputs[0]
        if (
            x in fused
            and uses[x] <= 1
            and fused[x][0].activation == "none"
            and node.op.fn in ("relu", "silu", "sigmoid")
        ):
            return replace(fused[x][0], activation=node.op.fn), fused[x][1]
        return None
    if not isinstance(node.op, Binary) or node.op.fn != "add":
        return None
    for value, other in (node.inputs, node.inputs[::-1]):
        made = fused.get(value)
        if made is None or uses[value] > 1 or made[0].activation != "none" or made[0].residual:
            continue
        kernel, operands = made
        bias = facts.per_channel(b, other, other.type.rank - 1, kernel.filters)
        if bias is not None:
            return kernel, (*operands[:2], compose.binary(b, "add", operands[2], bias))
        if other.type == value.type:
            rows = (1, 1, product(value.type.shape[:-1]), kernel.filters)
            return replace(kernel, residual=True), (*operands, compose.reshape(b, other, rows))
    return None
