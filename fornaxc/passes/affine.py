"""Folds scales after a convolution into its weights (batch normalisation, above all)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import static
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Binary, Conv
from fornaxc.passes.constness import Constness
from fornaxc.passes.rewrite import holds, rewrite, use_counts


@dataclass(frozen=True, slots=True)
class _Affine:
    """conv(x, w) + bias, as far as folded; `bias` is 1-D."""

    op: Conv
    x: Value
    w: Value
    bias: Value | None


def fold_affine(graph: Graph) -> Graph:
    """`graph` with per-channel scales and offsets of a convolution moved into its constant weights and one bias."""
    if not holds(graph, Conv):
        return graph
    uses = use_counts(graph)
    known: dict[Value, _Affine] = {}
    facts = Constness(graph.constants)

    def visit(node: Node, b: GraphBuilder) -> Sequence[Value] | None:
        if b.parent is not None:
            return None
        facts.catch_up(b)
        op = node.op
        if isinstance(op, Conv):
            if facts.is_constant(node.inputs[1]) and node.inputs[1].type.dtype.is_float:
                known[node.outputs[0]] = _Affine(op, node.inputs[0], node.inputs[1], None)
            return None
        if not isinstance(op, Binary) or op.fn not in ("add", "sub", "mul", "div"):
            return None
        left, right = node.inputs
        if left in known and uses[left] <= 1:
            state, other = known[left], right
        elif right in known and uses[right] <= 1 and op.fn in ("add", "mul"):
            state, other = known[right], left
        else:
            return None
        channels = static(state.w.type.shape[0])
        factor = facts.per_channel(b, other, 1, channels)
        if factor is None:
            return None
        folded = _fold(b, state, op.fn, factor)
        result = _emit(b, folded, node.outputs[0])
        known[result] = folded
        uses[result] = uses[node.outputs[0]]
        return [result]

    return rewrite(graph, visit)


def _fold(b: GraphBuilder, state: _Affine, fn: str, factor: Value) -> _Affine:
    if fn in ("add", "sub"):
        if state.bias is None:
            offset = factor if fn == "add" else compose.unary(b, "neg", factor)
        else:
            offset = compose.binary(b, fn, state.bias, factor)
        return _Affine(state.op, state.x, state.w, offset)
    column = compose.reshape(b, factor, (factor.type.shape[0], *(1,) * (state.w.type.rank - 1)))
    bias: Value | None = None if state.bias is None else compose.binary(b, fn, state.bias, factor)
    return _Affine(state.op, state.x, compose.binary(b, fn, state.w, column), bias)


def _emit(b: GraphBuilder, state: _Affine, like: Value) -> Value:
    y = b.emit(state.op, state.x, state.w)
    if state.bias is None:
        return y
    rank = like.type.rank
    shaped = compose.reshape(b, state.bias, (1, state.bias.type.shape[0], *(1,) * (rank - 2)))
    return compose.binary(b, "add", y, shaped)
