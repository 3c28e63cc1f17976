"""Normalisations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.windows import split_dim
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, product
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import LayerNorm, Pool, RmsNorm
from fornaxc.ir.types import DType, TensorType


def _per_channel(b: GraphBuilder, v: Value, x: Value, dtype: DType) -> Value:
    """`v` [C] as a value that broadcasts against x [N, C, ...]."""
    channels = x.type.shape[1] if x.type.rank > 1 else 1
    v = c.cast(b, c.rebind(b, v, (channels,)), dtype)
    return c.reshape(b, v, (channels, *(1,) * (x.type.rank - 2)))


def _wide(dtype: DType) -> DType:
    """The type that statistics are computed in."""
    return DType.F64 if dtype is DType.F64 else DType.F32


def _moments(b: GraphBuilder, x: Value, axes: Sequence[int]) -> tuple[Value, Value, Value]:
    """The mean over `axes` (kept with size 1), x less the mean, and the population variance."""
    mean = c.reduce(b, "mean", x, axes)
    centred = c.binary(b, "sub", x, mean)
    return mean, centred, c.reduce(b, "mean", c.binary(b, "mul", centred, centred), axes)


def _inverse_deviation(b: GraphBuilder, variance: Value, epsilon: float) -> Value:
    return c.unary(b, "rsqrt", c.with_scalar(b, "add", variance, epsilon))


def _normalized(b: GraphBuilder, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    """(x - mean) / sqrt(variance + epsilon) over `axes`."""
    _, centred, variance = _moments(b, x, axes)
    return c.binary(b, "mul", centred, _inverse_deviation(b, variance, epsilon))


def _batch_norm(ctx: NodeContext, mean: Value, variance: Value) -> Value:
    b, x = ctx.b, ctx.input(0)
    dtype = _wide(x.type.dtype)
    scale, bias = (_per_channel(b, ctx.input(i), x, dtype) for i in (1, 2))
    mean, variance = (_per_channel(b, v, x, dtype) for v in (mean, variance))
    factor = c.binary(b, "mul", scale, _inverse_deviation(b, variance, ctx.float("epsilon", 1e-5)))
    offset = c.binary(b, "sub", bias, c.binary(b, "mul", mean, factor))
    y = c.binary(b, "add", c.binary(b, "mul", c.cast(b, x, dtype), factor), offset)
    return c.cast(b, y, x.type.dtype)


def inference_batch_norm(ctx: NodeContext) -> Value:
    ctx.ignore("momentum")
    ctx.refuse_unless(not any(ctx.wants_output(i) for i in range(1, 5)), "BatchNormalization in training mode")
    return _batch_norm(ctx, ctx.input(3), ctx.input(4))


@onnx_op("BatchNormalization", 7)
def batch_normalization_7(ctx: NodeContext) -> Value:
    ctx.refuse_unless(ctx.int("spatial", 1) == 1, "BatchNormalization with spatial=0")
    return inference_batch_norm(ctx)


onnx_op("BatchNormalization", 9)(inference_batch_norm)


@onnx_op("BatchNormalization", 14, 15)
def batch_normalization(ctx: NodeContext) -> Sequence[Value]:
    """Training mode also gives the running mean and variance: momentum times the old ones plus the rest of the batch's."""
    b, x = ctx.b, ctx.input(0)
    momentum = ctx.float("momentum", 0.9)
    old_mean, old_variance = ctx.input(3), ctx.input(4)
    if not ctx.int("training_mode", 0):
        return [_batch_norm(ctx, old_mean, old_variance)]
    wide = c.cast(b, x, _wide(x.type.dtype))
    mean, _, variance = _moments(b, wide, [a for a in range(x.type.rank) if a != 1])
    channels = x.type.shape[1]
    mean, variance = (c.reshape(b, v, (channels,)) for v in (mean, variance))
    running = []
    for old, new in ((old_mean, mean), (old_variance, variance)):
        kept = c.with_scalar(b, "mul", c.rebind(b, old, (channels,)), momentum)
        fresh = c.with_scalar(b, "mul", c.cast(b, new, old.type.dtype), 1 - momentum)
        running.append(c.binary(b, "add", kept, fresh))
    return [_batch_norm(ctx, mean, variance), *running]


@onnx_op("InstanceNormalization", 6, 22)
def instance_normalization(ctx: NodeContext) -> Value:
    b, x = ctx.b, ctx.input(0)
    ctx.require(x.type.rank >= 3, f"InstanceNormalization takes [N, C, ...], not {x.type}")
    dtype = _wide(x.type.dtype)
    y = _normalized(b, c.cast(b, x, dtype), range(2, x.type.rank), ctx.float("epsilon", 1e-5))
    scale, bias = (_per_channel(b, ctx.input(i), x, dtype) for i in (1, 2))
    return c.cast(b, c.binary(b, "add", c.binary(b, "mul", y, scale), bias), x.type.dtype)


def _group_normalization(*, per_group: bool) -> Callable[[NodeContext], Value]:
    def handler(ctx: NodeContext) -> Value:
        """Groups of channels are normalised together; scale and bias are [groups] in version 18, [C] from 21 on."""
        b, x = ctx.b, ctx.input(0)
        groups = ctx.int("num_groups")
        batch, channels, *spatial = x.type.shape
        each = split_dim(channels, groups)
        dtype = _wide(x.type.dtype) if ctx.int("stash_type", 1) == 1 or not per_group else x.type.dtype
        grouped = c.reshape(b, c.cast(b, x, dtype), (batch, groups, each * product(spatial)))
        y = _normalized(b, grouped, (2,), ctx.float("epsilon", 1e-5))
        scale, bias = (c.cast(b, ctx.input(i), dtype) for i in (1, 2))
        if per_group:
            scale, bias = (c.reshape(b, v, (groups, 1)) for v in (scale, bias))
            y = c.binary(b, "add", c.binary(b, "mul", y, scale), bias)
            return c.cast(b, c.reshape(b, y, x.type.shape), x.type.dtype)
        y = c.reshape(b, y, x.type.shape)
        scale, bias = (_per_channel(b, v, x, dtype) for v in (scale, bias))
        return c.cast(b, c.binary(b, "add", c.binary(b, "mul", y, scale), bias), x.type.dtype)

    return handler


onnx_op("GroupNormalization", 18)(_group_normalization(per_group=True))
onnx_op("GroupNormalization", 21)(_group_normalization(per_group=False))


@onnx_op("LayerNormalization", 1, 17)  # 1: onnxruntime's, in models below opset 17
def layer_normalization(ctx: NodeContext) -> Sequence[Value]:
    """Statistics in float32 or wider; scale and bias broadcast to x. The other outputs are the mean and 1 / deviation."""
    b, x = ctx.b, ctx.input(0)
    axis = ctx.axis(ctx.int("axis", -1), x.type.rank)
    epsilon, stash = ctx.float("epsilon", 1e-5), ctx.dtype("stash_type", 1)
    dtype = _wide(x.type.dtype)
    wide, shape = c.cast(b, x, dtype), x.type.shape[axis:]
    scale = c.cast(b, ctx.input(1), dtype)
    bias = ctx.optional(2)
    bias = c.full(b, 0, TensorType(dtype, shape)) if bias is None else c.cast(b, bias, dtype)
    if all(_fits(v, shape) for v in (scale, bias)):
        y = b.emit(LayerNorm(axis, epsilon), wide, c.expand(b, scale, shape), c.expand(b, bias, shape))
    else:
        y = _normalized(b, wide, range(axis, x.type.rank), epsilon)
        y = c.expand(b, c.binary(b, "add", c.binary(b, "mul", y, scale), bias), x.type.shape)
    results = [c.cast(b, y, x.type.dtype)]
    if ctx.wants_output(1) or ctx.wants_output(2):
        mean, _, variance = _moments(b, wide, range(axis, x.type.rank))
        results += [c.cast(b, v, stash) for v in (mean, _inverse_deviation(b, variance, epsilon))]
    return results


def _fits(v: Value, shape: Sequence[Dim]) -> bool:
    """Whether a parameter varies over the normalised axes only."""
    lead = v.type.rank - len(shape)
    return lead <= 0


@onnx_op("RMSNormalization", 23)
def rms_normalization(ctx: NodeContext) -> Value:
    b, x = ctx.b, ctx.input(0)
    axis = ctx.axis(ctx.int("axis", -1), x.type.rank)
    epsilon = ctx.float("epsilon", 1e-5)
    ctx.dtype("stash_type", 1)
    dtype = _wide(x.type.dtype)
    wide, scale, shape = c.cast(b, x, dtype), c.cast(b, ctx.input(1), dtype), x.type.shape[axis:]
    if _fits(scale, shape):
        y = b.emit(RmsNorm(axis, epsilon), wide, c.expand(b, scale, shape))
    else:
        square = c.reduce(b, "mean", c.binary(b, "mul", wide, wide), range(axis, x.type.rank))
        y = c.binary(b, "mul", wide, _inverse_deviation(b, square, epsilon))
        y = c.expand(b, c.binary(b, "mul", y, scale), x.type.shape)
    return c.cast(b, y, ctx.input(1).type.dtype)


@onnx_op("MeanVarianceNormalization", 9, 13)
def mean_variance_normalization(ctx: NodeContext) -> Value:
    """(x - mean) / (deviation + 1e-9): the epsilon of the specification's function body is outside the root."""
    b, x = ctx.b, ctx.input(0)
    axes = ctx.axes(ctx.ints("axes", (0, 2, 3)), x.type.rank)
    _, centred, variance = _moments(b, x, axes)
    return c.binary(b, "div", centred, c.with_scalar(b, "add", c.unary(b, "sqrt", variance), 1e-9))


@onnx_op("LRN", 1, 13)
def lrn(ctx: NodeContext) -> Value:
    """x / (bias + alpha / size * the sum of squares of `size` neighbouring channels) ^ beta."""
    b, x, size = ctx.b, ctx.input(0), ctx.int("size")
    ctx.require(x.type.rank >= 2 and size > 0, f"LRN over {size} channels of {x.type}")
    alpha, beta, bias = ctx.float("alpha", 1e-4), ctx.float("beta", 0.75), ctx.float("bias", 1.0)
    ones = (1,) * (x.type.rank - 2)
    zeros = (0,) * (x.type.rank - 2)
    pool = Pool("sum", (size, *ones), (1, *ones), ((size - 1) // 2, *zeros), (size // 2, *zeros), (1, *ones))
    squares = b.emit(pool, c.binary(b, "mul", x, x))
    base = c.with_scalar(b, "add", c.with_scalar(b, "mul", squares, alpha / size), bias)
    return c.binary(b, "div", x, c.with_scalar(b, "pow", base, beta))


@onnx_op("LpNormalization", 1, 22)
def lp_normalization(ctx: NodeContext) -> Value:
    """x over its norm along an axis; 0 where the norm is 0."""
    b, x = ctx.b, ctx.input(0)
    axis, p = ctx.axis(ctx.int("axis", -1), x.type.rank), ctx.int("p", 2)
    ctx.require(p in (1, 2), f"LpNormalization with p={p}")
    if p == 1:
        norm = c.reduce(b, "sum", c.unary(b, "abs", x), (axis,))
    else:
        norm = c.unary(b, "sqrt", c.reduce(b, "sum", c.binary(b, "mul", x, x), (axis,)))
    zero = c.scalar(b, 0, x.type.dtype)
    return c.select(b, c.compare(b, "eq", norm, zero), zero, c.binary(b, "div", x, norm))
