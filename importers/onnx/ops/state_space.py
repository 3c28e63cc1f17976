"""Causal convolutions and linear attention, which carry a state from one call to the next."""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.ops.conv import add_bias
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.sampling import size_as
from fornaxc.importers.onnx.windows import split_dim
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, static
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import BroadcastTo, Conv, Gather, MatMul, ScatterNd, While
from fornaxc.ir.types import DType, TensorType

RULES = ("linear", "gated", "delta", "gated_delta")


@onnx_op("CausalConvWithState", 27)
def causal_conv_with_state(ctx: NodeContext) -> Sequence[Value]:
    """Each channel convolved with its own filter over the past k - 1 elements and its own; the new past is the second result."""
    b, x, w = ctx.b, ctx.input(0), ctx.input(1)
    kind = ctx.string("activation", "none")
    ctx.require(kind in ("none", "silu", "swish"), f"no activation {kind!r}")
    ctx.require(x.type.rank == 3 and w.type.rank == 3, f"{x.type} and {w.type} have not three axes")
    batch, length = x.type.shape[0], x.type.shape[2]
    channels, window = w.type.shape[0], w.type.shape[2]
    if not isinstance(channels, int) or not isinstance(window, int):
        ctx.refuse_unless(False, f"a filter of the symbolic shape {w.type}")
        return []
    shape = (batch, channels, window - 1)
    past = ctx.optional(3)
    past = c.full(b, 0, TensorType(x.type.dtype, shape)) if past is None else c.rebind(b, past, shape)
    line = c.concat(b, [past, c.rebind(b, x, (batch, channels, length))], 2) if window > 1 else x
    y = add_bias(ctx, b.emit(Conv((1,), (0,), (0,), (1,), channels), line, w), ctx.optional(2))
    y = y if kind == "none" else c.unary(b, "silu", y)
    return [y, c.slice_axis(b, line, 2, length, window - 1)]


def _steps(ctx: NodeContext, index: int, heads: int) -> Value:
    """[batch, time, heads * size] as [time, batch, heads, size]."""
    x = ctx.input(index)
    ctx.require(x.type.rank == 3 and heads > 0, f"LinearAttention cannot take {x.type} with {heads} heads")
    batch, length, width = x.type.shape
    split = c.reshape(ctx.b, x, (batch, length, heads, split_dim(width, heads)))
    return c.transpose(ctx.b, split, (1, 0, 2, 3))


@onnx_op("LinearAttention", 27)
def linear_attention(ctx: NodeContext) -> Sequence[Value]:
    """A state [batch, heads, keys, values] decays, learns one outer product and is read, once for each time step."""
    b = ctx.b
    ctx.ignore("chunk_size")  # a hint for implementations
    q_heads, heads = ctx.int("q_num_heads"), ctx.int("kv_num_heads")
    rule, scale = ctx.string("update_rule", "gated_delta"), ctx.float("scale", 0.0)
    ctx.require(rule in RULES, f"no update_rule {rule!r}")
    query, key, value = _steps(ctx, 0, q_heads), _steps(ctx, 1, heads), _steps(ctx, 2, heads)
    length, batch, _, size = key.type.shape
    dtype, wide = query.type.dtype, DType.F64 if query.type.dtype is DType.F64 else DType.F32
    factor = c.scalar(b, scale, wide) if scale else c.with_scalar(b, "pow", size_as(b, size, wide), -0.5)
    query = c.rebind(b, c.cast(b, query, wide), (length, batch, q_heads, size))
    query = c.binary(b, "mul", query, factor)
    streams = [query, c.cast(b, key, wide), c.cast(b, value, wide)]
    if "gated" in rule:
        decay = c.unary(b, "exp", c.cast(b, _steps(ctx, 4, heads), wide))
        streams.append(c.expand(b, decay, (length, batch, heads, size)))
    if "delta" in rule:
        rate = c.transpose(b, c.cast(b, ctx.input(5), wide), (1, 0, 2))
        streams.append(c.unsqueeze(b, c.expand(b, rate, (length, batch, heads)), (3,)))
    state_type = TensorType(wide, (batch, heads, size, value.type.shape[3]))
    past = ctx.optional(3)
    state = c.full(b, 0, state_type) if past is None else c.rebind(b, c.cast(b, past, wide), state_type.shape)
    out = c.full(b, 0, TensorType(wide, (length, batch, q_heads, value.type.shape[3])))
    start = (c.scalar(b, 0, DType.I64), state, out)
    _, state, out = _scanned(b, start, streams, rule, length)
    y = c.reshape(b, c.transpose(b, out, (1, 0, 2, 3)), (batch, length, q_heads * value.type.shape[3]))
    kept = dtype if past is None else past.type.dtype
    return [c.cast(b, y, dtype), c.cast(b, state, kept)]


def _scanned(
    b: GraphBuilder, start: tuple[Value, Value, Value], streams: list[Value], rule: str, length: Dim
) -> tuple[Value, ...]:
    """The loop over time: step number, state, results so far."""
    end = size_as(b, length, DType.I64)
    condition = GraphBuilder(b)
    step, _, _ = (condition.input(v.type) for v in start)
    regions = [condition.finish([c.compare(condition, "lt", step, end)])]
    inner = GraphBuilder(b)
    inner.origin = condition.origin = b.origin
    step, state, out = (inner.input(v.type) for v in start)
    at = c.reshape(inner, step, (1,))
    now = [c.reshape(inner, inner.emit(Gather(0), v, at), v.type.shape[1:]) for v in streams]
    state, read = _updated(inner, state, now, rule)
    place = c.reshape(inner, step, (1, 1))
    out = inner.emit(ScatterNd(), out, place, c.unsqueeze(inner, read, (0,)))
    regions.append(inner.finish([c.with_scalar(inner, "add", step, 1), state, out]))
    return b.emit_all(While(), *start, regions=tuple(regions))


def _updated(b: GraphBuilder, state: Value, now: list[Value], rule: str) -> tuple[Value, Value]:
    """One step: the new state, and what the query reads from it, [batch, query heads, values]."""
    query, key, value, *rest = now
    if "gated" in rule:
        state = c.binary(b, "mul", state, c.unsqueeze(b, rest[0], (3,)))
    column = c.unsqueeze(b, key, (3,))
    if "delta" in rule:
        known = b.emit(MatMul(), c.unsqueeze(b, key, (2,)), state)
        value = c.binary(b, "sub", value, c.reshape(b, known, value.type.shape))
        value = c.binary(b, "mul", value, rest[-1])
    state = c.binary(b, "add", state, b.emit(MatMul(), column, c.unsqueeze(b, value, (2,))))
    batch, heads, size, width = state.type.shape
    q_heads = query.type.shape[1]
    each = split_dim(q_heads, static(heads))
    shared = state
    if each != 1:
        wide = b.emit(BroadcastTo((batch, heads, each, size, width)), c.unsqueeze(b, state, (2,)))
        shared = c.reshape(b, wide, (batch, q_heads, size, width))
    read = b.emit(MatMul(), c.unsqueeze(b, query, (2,)), shared)
    return state, c.reshape(b, read, (batch, q_heads, width))
