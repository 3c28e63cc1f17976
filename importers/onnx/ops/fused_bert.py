"""onnxruntime's operators that hold a whole layer of an encoder: domain com.microsoft (ContribOperators.md), version 1."""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.ops.attention import heads_apart, with_past
from fornaxc.importers.onnx.ops.fused import MICROSOFT
from fornaxc.importers.onnx.ops.fused_attention import attend, causal, hidden_penalty
from fornaxc.importers.onnx.ops.matmul import matmul
from fornaxc.importers.onnx.ops.quantize import centred, per_column
from fornaxc.importers.onnx.ops.quantized_products import as_float
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.windows import split_dim
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Gather, Iota, LayerNorm
from fornaxc.ir.types import DType, TensorType


@onnx_op("Attention", 1, domain=MICROSOFT)
def attention(ctx: NodeContext) -> list[Value]:
    """Inputs: input, weights, bias, mask, past, attention_bias."""
    ctx.refuse_unless(ctx.optional(6) is None, "a past of which only a part is used")
    projected = matmul(ctx.b, ctx.input(0), ctx.input(1))
    if ctx.optional(2) is not None:
        projected = c.binary(ctx.b, "add", projected, ctx.input(2))
    return _self_attention(ctx, projected, ctx.ints("qkv_hidden_sizes", ()), ctx.optional(3), 4, ctx.optional(5))


@onnx_op("QAttention", 1, domain=MICROSOFT)
def qattention(ctx: NodeContext) -> list[Value]:
    """Inputs: input and weights (8 bits), bias, the scales of both, mask, the zero points of both, past."""
    b, scale = ctx.b, ctx.input(3)
    zero = ctx.optional(6)
    ctx.refuse_unless(scale.type.elements == 1, "a scale for each row of the input")
    left = centred(ctx, ctx.input(0), None if zero is None else c.reshape(b, zero, ()))
    right = centred(ctx, ctx.input(1), per_column(ctx, ctx.optional(7)))
    steps = per_column(ctx, ctx.input(4))
    assert steps is not None
    projected = as_float(b, matmul(b, left, right), c.reshape(b, scale, ()), steps)
    projected = c.binary(b, "add", projected, ctx.input(2))
    return _self_attention(ctx, projected, (), ctx.optional(5), 8, None)


def _self_attention(
    ctx: NodeContext, projected: Value, sizes: Sequence[Dim], mask: Value | None, past: int, bias: Value | None
) -> list[Value]:
    """Attention of [batch, sequence, query + key + value] to itself; the second result is the keys and values, past ones first."""
    b, heads = ctx.b, ctx.int("num_heads")
    fill = ctx.float("mask_filter_value", -10000.0)
    ctx.ignore("rotary_embedding_dim")
    for name in ("do_rotary", "past_present_share_buffer"):
        ctx.refuse_unless(not ctx.int(name, 0), name)
    sizes = sizes or (split_dim(projected.type.shape[2], 3),) * 3
    ctx.require(len(sizes) == 3, f"qkv_hidden_sizes {sizes}")
    starts = (0, sizes[0], sizes[0] + sizes[1])
    q, key, value = (
        heads_apart(ctx, c.slice_axis(b, projected, 2, start, size), heads)
        for start, size in zip(starts, sizes, strict=True)
    )
    held = ctx.optional(past)
    if held is not None:
        before = [c.reshape(b, c.slice_axis(b, held, 0, i, 1), held.type.shape[1:]) for i in (0, 1)]
        key, value = with_past(b, before[0], key), with_past(b, before[1], value)
    if mask is not None:
        penalty = hidden_penalty(ctx, mask, q, key.type.shape[2], fill)
        bias = penalty if bias is None else c.binary(b, "add", bias, penalty)
    seen = causal(ctx, q.type.shape[2], key.type.shape[2]) if ctx.int("unidirectional", 0) else None
    y = attend(ctx, q, key, value, bias, seen)
    if not ctx.wants_output(1):
        return [y]
    ctx.refuse_unless(key.type == value.type, "present keys and values of different sizes in one tensor")
    return [y, c.concat(b, [c.unsqueeze(b, v, (0,)) for v in (key, value)], 0)]


@onnx_op("EmbedLayerNormalization", 1, domain=MICROSOFT)
def embed_layer_normalization(ctx: NodeContext) -> list[Value]:
    """Inputs: words, segments, the tables of words, positions and segments, gamma, beta, mask, positions."""
    b, words = ctx.b, ctx.input(0)
    ctx.ignore("mask_index_type")
    batch, length = words.type.shape
    places = ctx.optional(8)
    if places is None:
        places = c.reshape(b, b.emit(Iota((length,), 0, DType.I64)), (1, length))
    total = c.binary(b, "add", _rows(b, ctx.input(2), words), _rows(b, ctx.input(3), places))
    if ctx.optional(1) is not None:
        total = c.binary(b, "add", total, _rows(b, ctx.input(4), ctx.input(1)))
    width = total.type.shape[2]
    gamma, beta = (c.rebind(b, ctx.input(i), (width,)) for i in (5, 6))
    normal = b.emit(LayerNorm(2, ctx.float("epsilon", 1e-12)), total, gamma, beta)
    if ctx.optional(7) is None:
        counts = c.full(b, 0, TensorType(DType.I32, (batch,)))
    else:
        kept = c.compare(b, "eq", ctx.input(7), c.scalar(b, 1, ctx.input(7).type.dtype))
        counts = c.reshape(b, c.reduce(b, "sum", c.cast(b, kept, DType.I32), (1,)), (batch,))
    return [normal, counts, total]


def _rows(b: GraphBuilder, table: Value, index: Value) -> Value:
    return b.emit(Gather(0), table, index)
