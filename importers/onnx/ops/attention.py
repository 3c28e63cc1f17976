"""Attention and RotaryEmbedding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.sampling import size_as
from fornaxc.importers.onnx.windows import split_dim
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, static, symbols
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import BroadcastTo, Gather, Iota, MatMul, Pad, Softmax
from fornaxc.ir.types import DType


def heads_apart(ctx: NodeContext, x: Value, count: int) -> Value:
    """[batch, sequence, heads * size] as [batch, heads, sequence, size]; a tensor of rank 4 is so already."""
    if x.type.rank == 4:
        return x
    ctx.require(x.type.rank == 3 and count > 0, f"Attention cannot take {x.type} with {count} heads")
    batch, length, width = x.type.shape
    size = split_dim(width, count)
    return c.transpose(ctx.b, c.reshape(ctx.b, x, (batch, length, count, size)), (0, 2, 1, 3))


def repeat_heads(ctx: NodeContext, x: Value, heads: Dim) -> Value:
    """Each head of keys or values as often as query heads share it, next to one another."""
    batch, have, length, size = x.type.shape
    if have == heads:
        return x
    ctx.refuse_unless(
        isinstance(have, int) and isinstance(heads, int), f"{heads} query heads over {have} heads of keys"
    )
    each = split_dim(heads, static(have))
    wide = ctx.b.emit(BroadcastTo((batch, have, each, length, size)), c.unsqueeze(ctx.b, x, (2,)))
    return c.reshape(ctx.b, wide, (batch, heads, length, size))


def with_past(b: GraphBuilder, past: Value | None, new: Value) -> Value:
    if past is None:
        return new
    batch, heads, _, size = new.type.shape
    return c.concat(b, [c.rebind(b, past, (batch, heads, past.type.shape[2], size)), new], 2)


def _positions(b: GraphBuilder, length: Dim, axis: int) -> Value:
    """0, 1, ... along one axis of a tensor of rank 4."""
    return b.emit(Iota(tuple(length if i == axis else 1 for i in range(4)), axis, DType.I64))


def _both(b: GraphBuilder, left: Value | None, right: Value) -> Value:
    return right if left is None else c.binary(b, "and", left, right)


def _allowed(ctx: NodeContext, queries: Dim, keys: Dim, offset: Value, bounds: tuple[int, int]) -> Value | None:
    """Which keys each query may see by position, as a bool that broadcasts to [batch, heads, queries, keys].

    Query i stands at i + offset and sees `bounds` keys to its left and right (-1: any number).
    """
    b = ctx.b
    left, right = bounds
    if left < 0 and right < 0:
        return None
    at = c.binary(b, "add", _positions(b, queries, 2), offset)
    key = _positions(b, keys, 3)
    seen: Value | None = None
    if right >= 0:
        seen = c.compare(b, "le", key, c.with_scalar(b, "add", at, right))
    if left >= 0:
        seen = _both(b, seen, c.compare(b, "ge", key, c.with_scalar(b, "sub", at, left)))
    return seen


def _full_mask(ctx: NodeContext, mask: Value, keys: Dim) -> Value:
    """A mask of rank 4 whose last axis, where it is short, is filled up with forbidden keys."""
    b = ctx.b
    ctx.require(mask.type.rank <= 4, f"an attention mask of {mask.type}")
    mask = c.reshape(b, mask, (*(1,) * (4 - mask.type.rank), *mask.type.shape))
    have = mask.type.shape[3]
    ctx.refuse_unless(have != 1 or keys == 1, "an attention mask over one key, which may mean padding or broadcasting")
    more = keys - have
    if more == 0:
        return mask
    if isinstance(more, int):
        ctx.require(more > 0, f"an attention mask over {have} keys for {keys}")
    elif symbols(more) <= b.input_symbols():
        b.require(keys, ">=", have, "an attention mask is over no more keys than there are")
    fill = c.scalar(b, False if mask.type.dtype is DType.BOOL else float("-inf"), mask.type.dtype)
    return b.emit(Pad((0,) * 4, (0, 0, 0, more)), mask, fill)


def _attention(*, padded: bool, windowed: bool) -> Callable[[NodeContext], Sequence[Value]]:
    """`padded`: with nonpad_kv_seqlen (version 24). `windowed`: with window sizes (version 25)."""

    def handler(ctx: NodeContext) -> Sequence[Value]:
        b, query, mask = ctx.b, ctx.input(0), ctx.optional(3)
        dtype = query.type.dtype
        merged = query.type.rank == 3
        q_heads, kv_heads = ctx.int("q_num_heads", 0), ctx.int("kv_num_heads", 0)
        q = heads_apart(ctx, query, q_heads)
        key = with_past(b, ctx.optional(4), heads_apart(ctx, ctx.input(1), kv_heads))
        value = with_past(b, ctx.optional(5), heads_apart(ctx, ctx.input(2), kv_heads))
        batch, heads, queries, _ = q.type.shape
        keys = key.type.shape[2]
        length = ctx.optional(6) if padded else None
        offset = _offset(ctx, length, queries)
        causal = bool(ctx.int("is_causal", 0))
        left, right = (ctx.int("left_window_size", -1), ctx.int("right_window_size", -1)) if windowed else (-1, -1)
        if causal:
            right = 0
        scores = _scores(ctx, q, repeat_heads(ctx, key, heads))
        mode = ctx.int("qk_matmul_output_mode", 0)
        ctx.require(mode in (0, 1, 2, 3), f"no qk_matmul_output_mode {mode}")
        shown = scores
        cap = ctx.float("softcap", 0.0)
        ctx.refuse_unless(cap >= 0, "a negative softcap")
        if cap:
            scores = c.with_scalar(b, "mul", c.unary(b, "tanh", c.with_scalar(b, "div", scores, cap)), cap)
        shown = scores if mode == 1 or (mode == 0 and not ctx.wants_output(3)) else shown
        seen = _allowed(ctx, queries, keys, offset, (left, right))
        if length is not None:
            limit = c.reshape(b, c.cast(b, length, DType.I64), (length.type.shape[0], 1, 1, 1))
            seen = _both(b, seen, c.compare(b, "lt", _positions(b, keys, 3), limit))
        scores, some = _masked(ctx, scores, mask, seen)
        shown = scores if mode == 2 else shown
        weights = _weights(ctx, scores, dtype)
        if mode == 3 and ctx.wants_output(3):
            shown = _zeroed(b, some, weights)
        shared = repeat_heads(ctx, value, heads)
        y = b.emit(MatMul(), weights, c.rebind(b, shared, (batch, heads, keys, shared.type.shape[3])))
        y = _zeroed(b, some, y)
        if merged:
            y = c.reshape(b, c.transpose(b, y, (0, 2, 1, 3)), (batch, queries, heads * y.type.shape[3]))
        return [y, key, value, shown]

    return handler


def _offset(ctx: NodeContext, length: Value | None, queries: Dim) -> Value:
    """How many keys precede the first query: an i64 that broadcasts to [batch, 1, 1, 1]."""
    b, past = ctx.b, ctx.optional(4)
    if length is not None:
        ctx.require(past is None, "nonpad_kv_seqlen beside past keys")
        each = c.binary(b, "sub", c.cast(b, length, DType.I64), c.reshape(b, b.dims((queries,)), (1,)))
        return c.reshape(b, each, (length.type.shape[0], 1, 1, 1))
    return c.reshape(b, b.dims((0 if past is None else past.type.shape[2],)), (1, 1, 1, 1))


def _scores(ctx: NodeContext, q: Value, key: Value) -> Value:
    """(q * sqrt(scale)) (k * sqrt(scale))^T; the scale is 1 / sqrt(head size) by default."""
    b, size, dtype = ctx.b, q.type.shape[3], q.type.dtype
    if ctx.has("scale"):
        scale = ctx.float("scale")
        ctx.refuse_unless(scale >= 0, f"a scale of {scale}")
        root = c.scalar(b, sqrt(scale), dtype)
    elif isinstance(size, int):
        ctx.refuse_unless(size > 0, "heads of no elements")
        root = c.scalar(b, size**-0.25, dtype)
    else:
        root = c.cast(b, c.with_scalar(b, "pow", size_as(b, size, DType.F32), -0.25), dtype)
    turned = c.transpose(b, key, (0, 1, 3, 2))
    turned = c.rebind(b, turned, (*q.type.shape[:2], size, turned.type.shape[3]))
    return b.emit(MatMul(), c.binary(b, "mul", q, root), c.binary(b, "mul", turned, root))


def _masked(ctx: NodeContext, scores: Value, mask: Value | None, seen: Value | None) -> tuple[Value, Value | None]:
    """Scores with forbidden keys at -inf, and (where any can be) which queries may see a key: [batch, heads, queries, 1], or 1 for a size."""
    b = ctx.b
    if mask is not None:
        mask = _full_mask(ctx, mask, scores.type.shape[3])
        if mask.type.dtype is DType.BOOL:
            seen = _both(b, seen, mask)
        else:
            lowest = c.scalar(b, float("-inf"), scores.type.dtype)
            bias = c.cast(b, mask, scores.type.dtype)
            bias = bias if seen is None else c.select(b, seen, bias, lowest)
            scores = c.binary(b, "add", scores, c.expand(b, bias, scores.type.shape))
            return scores, c.reduce(b, "max", c.compare(b, "ne", bias, lowest), (3,))
    if seen is None:
        return scores, None
    fill = c.scalar(b, float("-inf"), scores.type.dtype)
    return c.select(b, c.expand(b, seen, scores.type.shape), scores, fill), c.reduce(b, "max", seen, (3,))


def _weights(ctx: NodeContext, scores: Value, dtype: DType) -> Value:
    """Softmax over the keys."""
    precision = ctx.dtype("softmax_precision") if ctx.has("softmax_precision") else dtype
    return c.cast(ctx.b, ctx.b.emit(Softmax(3), c.cast(ctx.b, scores, precision)), dtype)


def _zeroed(b: GraphBuilder, some: Value | None, x: Value) -> Value:
    """`x` with zeros for the queries that may see no key."""
    return x if some is None else c.select(b, c.expand(b, some, x.type.shape), x, c.scalar(b, 0, x.type.dtype))


onnx_op("Attention", 23)(_attention(padded=False, windowed=False))
onnx_op("Attention", 24)(_attention(padded=True, windowed=False))
onnx_op("Attention", 25)(_attention(padded=True, windowed=True))


@onnx_op("RotaryEmbedding", 23)
def rotary_embedding(ctx: NodeContext) -> Value:
    """Pairs of elements of each head are turned by the angle of their position; what lies beyond the rotated part stays."""
    b, x = ctx.b, ctx.input(0)
    count = ctx.int("num_heads", 0)
    if x.type.rank == 3:
        ctx.require(count > 0, "num_heads is missing")
        y = c.reshape(b, x, (*x.type.shape[:2], count, split_dim(x.type.shape[2], count)))
    else:
        ctx.require(x.type.rank == 4, f"RotaryEmbedding cannot take {x.type}")
        y = c.transpose(b, x, (0, 2, 1, 3))
    batch, length, _, size = y.type.shape
    if not isinstance(size, int):
        ctx.refuse_unless(False, "a head of symbolic size")
        return x
    rotated = ctx.int("rotary_embedding_dim", 0) or size
    ctx.require(rotated % 2 == 0 and rotated <= size, f"a rotation of {rotated} elements in heads of {size}")
    half = rotated // 2
    cos, sin = (_angles(ctx, ctx.input(i), (batch, length, half)) for i in (1, 2))
    turned = rotate(b, y, cos, sin, bool(ctx.int("interleaved", 0)))
    return c.reshape(b, turned, x.type.shape) if x.type.rank == 3 else c.transpose(b, turned, (0, 2, 1, 3))


def rotate(b: GraphBuilder, y: Value, cos: Value, sin: Value, interleaved: bool) -> Value:
    """`y` [batch, sequence, heads, size] with its first 2 * half elements turned by angles [batch, sequence, 1, half]."""
    batch, length, heads, size = y.type.shape
    half = cos.type.shape[-1]
    rotated = 2 * half
    turned = c.slice_axis(b, y, 3, 0, rotated)
    if interleaved:
        first, second = (c.slice_axis(b, turned, 3, i, half, 2) for i in (0, 1))
    else:
        first, second = (c.slice_axis(b, turned, 3, i, half) for i in (0, half))
    real = c.binary(b, "sub", c.binary(b, "mul", cos, first), c.binary(b, "mul", sin, second))
    imaginary = c.binary(b, "add", c.binary(b, "mul", sin, first), c.binary(b, "mul", cos, second))
    if interleaved:
        pairs = c.concat(b, [c.unsqueeze(b, v, (4,)) for v in (real, imaginary)], 4)
        turned = c.reshape(b, pairs, (batch, length, heads, rotated))
    else:
        turned = c.concat(b, [real, imaginary], 3)
    return turned if rotated == size else c.concat(b, [turned, c.slice_axis(b, y, 3, rotated, size - rotated)], 3)


def _angles(ctx: NodeContext, table: Value, shape: Sequence[Dim]) -> Value:
    """The cosines or sines of each position: [batch, sequence, 1, half]."""
    b, places = ctx.b, ctx.optional(3)
    if places is not None:
        ctx.require(table.type.rank == 2, f"a cache of {table.type} beside position ids")
        table = b.emit(Gather(0), table, c.cast(b, c.rebind(b, places, shape[:2]), DType.I64))
    ctx.require(table.type.rank == 3, f"a cache of {table.type}")
    return c.unsqueeze(b, c.rebind(b, table, shape), (2,))
