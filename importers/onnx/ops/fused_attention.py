"""onnxruntime's attention operators: domain com.microsoft (ContribOperators.md), version 1."""

from __future__ import annotations

from math import sqrt

from fornaxc.importers.onnx.context import NodeContext, Refused
from fornaxc.importers.onnx.ops.attention import heads_apart, repeat_heads, rotate, with_past
from fornaxc.importers.onnx.ops.fused import MICROSOFT
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir import compose as c
from fornaxc.ir.dims import Dim, dim_max, symbols
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Gather, Iota, MatMul, ScatterElements, Softmax
from fornaxc.ir.types import DType, TensorType


def attend(
    ctx: NodeContext,
    q: Value,
    key: Value,
    value: Value,
    bias: Value | None,
    seen: Value | None,
    cap: float = 0.0,
    sink: Value | None = None,
) -> Value:
    """softmax(scale * q * key' + bias, over the keys that are seen) * value: [batch, sequence, heads * size].

    `cap`: scores are bounded softly to it. `sink` [heads]: one more score for each head, of a key whose value is 0.
    """
    b, size = ctx.b, q.type.shape[-1]
    scale = ctx.float("scale", 0.0)
    if scale == 0.0:
        if not isinstance(size, int):
            raise Refused("a head of symbolic size")
        scale = 1 / sqrt(size)
    key, value = repeat_heads(ctx, key, q.type.shape[1]), repeat_heads(ctx, value, q.type.shape[1])
    key = c.rebind(b, key, (*q.type.shape[:2], key.type.shape[2], size))
    scores = b.emit(MatMul(), c.with_scalar(b, "mul", q, scale), c.transpose(b, key, (0, 1, 3, 2)))
    if cap:
        scores = c.with_scalar(b, "mul", c.unary(b, "tanh", c.with_scalar(b, "div", scores, cap)), cap)
    lowest = c.scalar(b, float("-inf"), q.type.dtype)
    if bias is not None:
        bias = c.cast(b, bias, q.type.dtype)
        scores = c.binary(b, "add", scores, bias if seen is None else c.select(b, seen, bias, lowest))
    elif seen is not None:
        scores = c.select(b, seen, scores, lowest)
    keys = scores.type.shape[3]
    if sink is not None:
        line_of_sinks = c.reshape(b, c.cast(b, sink, q.type.dtype), (1, q.type.shape[1], 1, 1))
        scores = c.concat(b, [scores, c.expand(b, line_of_sinks, (*scores.type.shape[:3], 1))], 3)
    weights = c.slice_axis(b, b.emit(Softmax(3), scores), 3, 0, keys)
    value = c.rebind(b, value, (*weights.type.shape[:2], keys, value.type.shape[3]))
    result = c.transpose(b, b.emit(MatMul(), weights, value), (0, 2, 1, 3))
    batch, length, heads, width = result.type.shape
    return c.reshape(b, result, (batch, length, heads * width))


def line(ctx: NodeContext, size: Dim, axis: int) -> Value:
    """0, 1, ... along one axis of a tensor of rank 4."""
    return ctx.b.emit(Iota(tuple(size if i == axis else 1 for i in range(4)), axis, DType.I64))


def causal(ctx: NodeContext, queries: Dim, keys: Dim) -> Value:
    """Which keys each query sees where the last query stands at the last key."""
    b = ctx.b
    last = c.binary(b, "add", line(ctx, queries, 2), c.reshape(b, b.dims((keys - queries,)), ()))
    return c.compare(b, "le", line(ctx, keys, 3), last)


def hidden_penalty(ctx: NodeContext, mask: Value, q: Value, keys: Dim, fill: float) -> Value:
    """What hidden keys get added to their scores: a float that broadcasts to [batch, heads, sequence, keys]."""
    b, batch = ctx.b, q.type.shape[0]
    at = line(ctx, keys, 3)
    if mask.type.rank == 1:
        mask = c.cast(b, mask, DType.I64)
        entries = mask.type.shape[0]
        ctx.refuse_unless(entries == batch or entries == batch * 2, f"a mask {mask.type} for a batch of {batch}")
        end = c.reshape(b, c.slice_axis(b, mask, 0, 0, batch), (batch, 1, 1, 1))
        hidden = c.compare(b, "ge", at, end)
        if entries != batch:
            start = c.reshape(b, c.slice_axis(b, mask, 0, batch, batch), (batch, 1, 1, 1))
            hidden = c.binary(b, "or", hidden, c.compare(b, "lt", at, start))
    else:
        ctx.refuse_unless(mask.type.rank in (2, 3), f"a mask {mask.type}")
        wanted = (batch, keys) if mask.type.rank == 2 else (batch, q.type.shape[2], keys)
        mask = c.unsqueeze(b, c.rebind(b, mask, wanted), (1, 2) if mask.type.rank == 2 else (1,))
        hidden = c.compare(b, "eq", mask, c.scalar(b, 0, mask.type.dtype))
    return c.select(b, hidden, c.scalar(b, fill, q.type.dtype), c.scalar(b, 0, q.type.dtype))


@onnx_op("MultiHeadAttention", 1, domain=MICROSOFT)
def multi_head_attention(ctx: NodeContext) -> list[Value]:
    """Inputs: query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value."""
    b = ctx.b
    heads, fill = ctx.int("num_heads"), ctx.float("mask_filter_value", -10000.0)
    ctx.refuse_unless(ctx.optional(1) is not None and ctx.input(1).type.rank != 5, "packed queries, keys and values")
    ctx.refuse_unless(ctx.optional(2) is not None, "keys without values")
    for index, what in ((8, "a past of which only a part is used"), (9, "beams that share a past")):
        ctx.refuse_unless(ctx.optional(index) is None, what)
    parts = [ctx.input(i) for i in range(3)]
    if ctx.optional(3) is not None:
        start: Dim = 0
        for index, part in enumerate(parts):
            if part.type.rank == 4:  # keys and values that are split in heads have had their bias
                continue
            width = part.type.shape[-1]
            parts[index] = c.binary(b, "add", part, c.slice_axis(b, ctx.input(3), 0, start, width))
            start = start + width
    q, key, value = (heads_apart(ctx, part, heads) for part in parts)
    unidirectional = bool(ctx.int("unidirectional", 0))
    if unidirectional:
        key = _as_many_keys(ctx, key, q.type.shape[2])
    key, value = with_past(b, ctx.optional(6), key), with_past(b, ctx.optional(7), value)
    keys, queries = key.type.shape[2], q.type.shape[2]
    bias = ctx.optional(5)
    mask = ctx.optional(4)
    if mask is not None:
        penalty = hidden_penalty(ctx, mask, q, keys, fill)
        bias = penalty if bias is None else c.binary(b, "add", bias, penalty)
    seen = causal(ctx, queries, keys) if unidirectional else None
    return [attend(ctx, q, key, value, bias, seen), key, value]


def _as_many_keys(ctx: NodeContext, key: Value, queries: Dim) -> Value:
    """New keys, as many as queries: where they are not, onnxruntime's implementations differ in what "earlier" is."""
    batch, heads, have, size = key.type.shape
    known = isinstance(have, int) and isinstance(queries, int)
    ctx.refuse_unless(have == queries or not known, f"unidirectional attention of {queries} queries to {have} new keys")
    return c.rebind(ctx.b, key, (batch, heads, queries, size))


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
    total_sequence_length, cosines, sines, position_ids, attention_bias, head_sink. The new keys are written at their
    places in the past, extended by their number.
    """
    b, heads, shared = ctx.b, ctx.int("num_heads"), ctx.int("kv_num_heads")
    for index in range(12, len(ctx.inputs)):
        ctx.refuse_unless(ctx.item(index) is None, f"input {index} (scales and norms of keys and values)")
    for name in ("k_quant_type", "v_quant_type"):
        ctx.refuse_unless(ctx.string(name, "NONE") == "NONE", "a cache of quantised keys and values")
    ctx.refuse_unless(ctx.int("qk_output", 0) == 0, "the products of queries and keys as an output")
    ctx.ignore(
        "qk_norm_epsilon", "q_norm_epsilon", "k_norm_epsilon", "kv_cache_bit_width"
    )  # of inputs that are refused
    ctx.refuse_unless(ctx.int("causal", 1) == 1, "attention to later elements")
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
        turned = places if ctx.optional(9) is None else _named_places(ctx, queries)
        new[:2] = [_rotated(ctx, v, turned, (7, 8), turns) for v in new[:2]]
    q, key, value = (c.transpose(b, v, (0, 2, 1, 3)) for v in new)
    key, value = _written(ctx, 3, key, places, length), _written(ctx, 4, value, places, length)
    keys = key.type.shape[2]
    at, here = line(ctx, keys, 3), c.unsqueeze(b, places, (1, 3))
    seen = c.binary(b, "and", c.compare(b, "le", at, here), c.compare(b, "lt", at, c.unsqueeze(b, length, (1, 3))))
    window = ctx.int("local_window_size", -1)
    if window >= 0:
        near = c.compare(b, "gt", at, c.with_scalar(b, "sub", here, window))
        seen = c.binary(b, "and", seen, near)
    bias = ctx.optional(10)
    if bias is not None:
        bias = c.rebind(b, bias, (*bias.type.shape[:3], keys))
    y = attend(ctx, q, key, value, bias, seen, ctx.float("softcap", 0.0), _sink(ctx, heads))
    return [y, key, value]


def _named_places(ctx: NodeContext, queries: Dim) -> Value:
    """The positions that the input position_ids names; of a first prompt it names only the first one, for all sequences."""
    b, named = ctx.b, c.cast(ctx.b, ctx.input(9), DType.I64)
    total = c.cast(b, c.reshape(b, ctx.input(6), ()), DType.I64)
    prompt = c.compare(b, "eq", total, c.reshape(b, b.dims((queries,)), ()))
    first = c.reshape(b, c.slice_axis(b, c.slice_axis(b, named, 0, 0, 1), 1, 0, 1), (1, 1))
    counted = c.binary(b, "add", first, c.reshape(b, b.emit(Iota((queries,), 0, DType.I64)), (1, queries)))
    return c.select(b, prompt, counted, named)


def _sink(ctx: NodeContext, heads: int) -> Value | None:
    if ctx.optional(11) is not None:
        return c.rebind(ctx.b, ctx.input(11), (heads,))
    smooth = ctx.int("smooth_softmax", 0) == 1
    return c.full(ctx.b, 0, TensorType(DType.F32, (heads,))) if smooth else None


def _written(ctx: NodeContext, index: int, new: Value, places: Value, ends: Value) -> Value:
    """The past at `index` with the new elements at their places, 0 from `ends` [batch, 1] on: as long as the longest sequence, or as the past if that is longer."""
    b, past = ctx.b, ctx.optional(index)
    batch, heads, length, size = new.type.shape
    if past is None:
        return new
    before = past.type.shape[2]
    past = c.rebind(b, past, (batch, heads, before, size))
    room = c.concat(b, [past, c.full(b, 0, new.type)], 2)
    where = c.expand(b, c.unsqueeze(b, places, (1, 3)), (batch, heads, length, size))
    full = b.emit(ScatterElements(2), room, where, new)
    (total,) = ctx.dims(6, "total_sequence_length")
    kept = dim_max(total, before)
    room_left = before + length - kept
    if isinstance(room_left, int):
        ctx.require(room_left >= 0, f"total_sequence_length {total} for {before} past elements and {length} new ones")
    else:
        ctx.refuse_unless(symbols(room_left) <= b.input_symbols(), "a total_sequence_length of unknown size")
        b.require(before + length, ">=", kept, "the past and the new elements make up the total length")
    full = c.slice_axis(b, full, 2, 0, kept)
    filled = c.compare(b, "lt", line(ctx, kept, 2), c.unsqueeze(b, ends, (1, 3)))
    return c.select(b, filled, full, c.scalar(b, 0, full.type.dtype))
