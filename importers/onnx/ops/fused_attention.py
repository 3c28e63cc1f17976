"""onnxruntime's attention operators: domain com.microsoft (ContribOperators.md), version 1."""

from __future__ import annotations

from math import sqrt

from fornaxc.importers.onnx.context import NodeContext, Refused
from fornaxc.importers.onnx.ops.attention import heads_apart, repeat_heads, rotate, with_past
from fornaxc.importers.onnx.ops.fused import MICROSOFT
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir import compose as c
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Gather, Iota, MatMul, ScatterElements, Softmax
from fornaxc.ir.types import DType


def _attend(ctx: NodeContext, q: Value, key: Value, value: Value, bias: Value | None, seen: Value | None) -> Value:
    """softmax(scale * q * key' + bias, over the keys that are seen) * value: [batch, sequence, heads * size]."""
    b, size = ctx.b, q.type.shape[-1]
    scale = ctx.float("scale", 0.0)
    if scale == 0.0:
        if not isinstance(size, int):
            raise Refused("a head of symbolic size")
        scale = 1 / sqrt(size)
    key, value = repeat_heads(ctx, key, q.type.shape[1]), repeat_heads(ctx, value, q.type.shape[1])
    scores = b.emit(MatMul(), c.with_scalar(b, "mul", q, scale), c.transpose(b, key, (0, 1, 3, 2)))
    if bias is not None:
        scores = c.binary(b, "add", scores, c.cast(b, bias, q.type.dtype))
    if seen is not None:
        scores = c.select(b, seen, scores, c.scalar(b, float("-inf"), q.type.dtype))
    result = c.transpose(b, b.emit(MatMul(), b.emit(Softmax(3), scores), value), (0, 2, 1, 3))
    batch, length, heads, width = result.type.shape
    return c.reshape(b, result, (batch, length, heads * width))


def _line(ctx: NodeContext, size: Dim, axis: int) -> Value:
    """0, 1, ... along one axis of a tensor of rank 4."""
    return ctx.b.emit(Iota(tuple(size if i == axis else 1 for i in range(4)), axis, DType.I64))


@onnx_op("MultiHeadAttention", 1, domain=MICROSOFT)
def multi_head_attention(ctx: NodeContext) -> list[Value]:
    """Inputs: query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value."""
    b = ctx.b
    heads, fill = ctx.int("num_heads"), ctx.float("mask_filter_value", -10000.0)
    ctx.refuse_unless(ctx.optional(1) is not None and ctx.input(1).type.rank != 5, "packed queries, keys and values")
    ctx.refuse_unless(ctx.optional(2) is not None, "keys without values")
    ctx.refuse_unless(len(ctx.inputs) <= 8 or ctx.optional(8) is None, "a past of which only a part is used")
    parts = [ctx.input(i) for i in range(3)]
    if ctx.optional(3) is not None:
        start: Dim = 0
        for index, part in enumerate(parts):
            width = part.type.shape[-1]
            ctx.refuse_unless(part.type.rank == 3, "a bias of keys that are split in heads")
            parts[index] = c.binary(b, "add", part, c.slice_axis(b, ctx.input(3), 0, start, width))
            start = start + width
    q, key, value = (heads_apart(ctx, part, heads) for part in parts)
    key, value = with_past(b, ctx.optional(6), key), with_past(b, ctx.optional(7), value)
    keys, queries = key.type.shape[2], q.type.shape[2]
    bias = ctx.optional(5)
    mask = ctx.optional(4)
    if mask is not None:
        ctx.refuse_unless(mask.type.rank == 2, f"a key_padding_mask {mask.type}")
        mask = c.rebind(b, mask, (q.type.shape[0], keys))
        hidden = c.compare(b, "eq", mask, c.scalar(b, 0, mask.type.dtype))
        penalty = c.select(b, hidden, c.scalar(b, fill, q.type.dtype), c.scalar(b, 0, q.type.dtype))
        penalty = c.unsqueeze(b, penalty, (1, 2))
        bias = penalty if bias is None else c.binary(b, "add", bias, penalty)
    seen = None
    if ctx.int("unidirectional", 0):
        last = c.binary(b, "add", _line(ctx, queries, 2), c.reshape(b, b.dims((keys - queries,)), ()))
        seen = c.compare(b, "le", _line(ctx, keys, 3), last)
    return [_attend(ctx, q, key, value, bias, seen), key, value]


@onnx_op("RotaryEmbedding", 1, domain=MICROSOFT)
def rotary_embedding(ctx: NodeContext) -> Value:
    """Inputs: [batch, sequence, heads * size] (or split in heads), positions (or the first one), cosines, sines."""
    b, x, places = ctx.b, ctx.input(0), c.cast(ctx.b, ctx.input(1), DType.I64)
    ctx.ignore("scale")
    ctx.refuse_unless(not ctx.int("is_packed_batching", 0), "packed batches")
    heads, part = ctx.int("num_heads", 0), ctx.int("rotary_embedding_dim", 0)
    half = ctx.input(2).type.shape[1]
    if x.type.rank == 4:
        y = c.transpose(b, x, (0, 2, 1, 3))
    else:
        ctx.require(x.type.rank == 3, f"RotaryEmbedding cannot take {x.type}")
        batch, length, width = x.type.shape
        size = 2 * half if not heads else width // heads
        ctx.refuse_unless(not part or bool(heads), "a part of each head, without num_heads")
        y = c.reshape(b, x, (batch, length, width // size, size))
    batch, length = y.type.shape[:2]
    if places.type.elements == 1 and places.type.rank == 1:
        places = c.binary(b, "add", c.reshape(b, b.emit(Iota((length,), 0, DType.I64)), (1, length)), places)
    places = c.expand(b, places, (batch, length))
    turned = _rotated(ctx, y, places, (2, 3), bool(ctx.int("interleaved", 0)))
    return c.reshape(b, turned, x.type.shape) if x.type.rank == 3 else c.transpose(b, turned, (0, 2, 1, 3))


def _rotated(ctx: NodeContext, y: Value, places: Value, tables: tuple[int, int], interleaved: bool) -> Value:
    cos, sin = (
        c.unsqueeze(ctx.b, ctx.b.emit(Gather(0), c.cast(ctx.b, ctx.input(i), y.type.dtype), places), (2,))
        for i in tables
    )
    return rotate(ctx.b, y, cos, sin, interleaved)


@onnx_op("GroupQueryAttention", 1, domain=MICROSOFT)
def group_query_attention(ctx: NodeContext) -> list[Value]:
    """Causal attention over a cache that is filled up to `seqlens_k + 1` elements, the new ones last.

    Inputs: query (which holds keys and values too where those are absent), key, value, past_key, past_value, seqlens_k,
    total_sequence_length, cosines, sines. The new keys are written at their places in the past, extended by their
    number.
    """
    b, heads, shared = ctx.b, ctx.int("num_heads"), ctx.int("kv_num_heads")
    ctx.refuse_unless(ctx.int("smooth_softmax", 0) in (0, -1), "smooth_softmax")
    ctx.refuse_unless(
        ctx.float("softcap", 0.0) == 0.0 and ctx.int("local_window_size", -1) == -1, "softcap or a window"
    )
    for index in range(9, len(ctx.inputs)):
        ctx.refuse_unless(ctx.item(index) is None, f"input {index}")
    q = ctx.input(0)
    if ctx.optional(1) is None:
        size = q.type.shape[2] // (heads + 2 * shared)
        starts = ((0, heads), (heads, shared), (heads + shared, shared))
        q, key, value = (c.slice_axis(b, q, 2, start * size, count * size) for start, count in starts)
    else:
        key, value = ctx.input(1), ctx.input(2)
    batch, queries = q.type.shape[:2]
    new = [
        c.reshape(b, v, (batch, queries, n, v.type.shape[2] // n))
        for v, n in ((q, heads), (key, shared), (value, shared))
    ]
    length = c.with_scalar(b, "add", c.cast(b, c.reshape(b, ctx.input(5), (batch, 1)), DType.I64), 1)
    first = c.with_scalar(b, "max", c.binary(b, "sub", length, c.reshape(b, b.dims((queries,)), ())), 0)
    places = c.binary(b, "add", first, c.reshape(b, b.emit(Iota((queries,), 0, DType.I64)), (1, queries)))
    if ctx.int("do_rotary", 0):
        turns = bool(ctx.int("rotary_interleaved", 0))
        new[:2] = [_rotated(ctx, v, places, (7, 8), turns) for v in new[:2]]
    q, key, value = (c.transpose(b, v, (0, 2, 1, 3)) for v in new)
    key, value = _written(ctx, 3, key, places), _written(ctx, 4, value, places)
    seen = c.compare(b, "le", _line(ctx, key.type.shape[2], 3), c.unsqueeze(b, places, (1, 3)))
    return [_attend(ctx, q, key, value, None, seen), key, value]


def _written(ctx: NodeContext, index: int, new: Value, places: Value) -> Value:
    """The past at `index`, longer by the new elements, with those at their places."""
    b, past = ctx.b, ctx.optional(index)
    batch, heads, length, size = new.type.shape
    if past is None:
        return new
    past = c.rebind(b, past, (batch, heads, past.type.shape[2], size))
    room = c.concat(b, [past, c.full(b, 0, new.type)], 2)
    where = c.expand(b, c.unsqueeze(b, places, (1, 3)), (batch, heads, length, size))
    return b.emit(ScatterElements(2), room, where, new)
