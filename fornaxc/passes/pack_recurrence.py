"""Packs the recurrent weights of LSTM, GRU and RNN layers for the CPU's own kernels."""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import static
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Gru, Lstm, PackConv, PackedRecurrence, Rnn
from fornaxc.ir.ops.packed import RECURRENT_ACTIVATIONS
from fornaxc.ir.types import DType
from fornaxc.passes.constness import Constness
from fornaxc.passes.rewrite import holds, rewrite


def pack_recurrence(graph: Graph) -> Graph:
    """`graph` with f32 recurrences of constant weights and plain activations as `PackedRecurrence`."""
    if not holds(graph, Lstm, Gru, Rnn):
        return graph
    facts = Constness(graph.constants)

    def visit(node: Node, b: GraphBuilder) -> Sequence[Value] | None:
        if b.parent is not None:
            return None
        facts.catch_up(b)
        op = node.op
        if not isinstance(op, Lstm | Gru | Rnn):
            return None
        x, r, *rest = node.inputs
        packed = _packed(op, static(r.type.shape[1]))
        plain = all(a in RECURRENT_ACTIVATIONS for a in packed.activations)
        if not plain or x.type.dtype is not DType.F32 or not facts.is_constant(r):
            return None
        return b.emit_all(packed, x, _panels(b, r, packed), *rest)

    return rewrite(graph, visit)


def _packed(op: Lstm | Gru | Rnn, hidden: int) -> PackedRecurrence:
    if isinstance(op, Lstm):
        return PackedRecurrence(
            "lstm", hidden, op.activations, op.reverse, op.clip, op.input_forget, False, op.lengths, op.peephole
        )
    if isinstance(op, Gru):
        return PackedRecurrence(
            "gru", hidden, op.activations, op.reverse, op.clip, False, op.linear_before_reset, op.lengths
        )
    return PackedRecurrence("rnn", hidden, (op.activation,), op.reverse, op.clip, lengths=op.lengths)


def _panels(b: GraphBuilder, r: Value, op: PackedRecurrence) -> Value:
    rows = static(r.type.shape[0])
    cuts = [(0, 2 * op.hidden), (2 * op.hidden, op.hidden)] if op.kind == "gru" else [(0, rows)]
    parts = [compose.slice_axis(b, r, 0, start, size) for start, size in cuts]
    filters = [compose.reshape(b, p, (*p.type.shape, 1, 1)) for p in parts]
    return compose.concat(b, [b.emit(PackConv(1), f) for f in filters], 0)
