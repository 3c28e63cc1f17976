"""onnxruntime's convolutions and products with an activation, and its channels-last ones: com.microsoft (ContribOperators.md), version 1."""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.importers.onnx.context import NodeContext, Refused
from fornaxc.importers.onnx.ops.conv import add_bias, convolve
from fornaxc.importers.onnx.ops.fused import MICROSOFT
from fornaxc.importers.onnx.ops.matmul import gemm
from fornaxc.importers.onnx.ops.pool import average_pool, max_pool
from fornaxc.importers.onnx.ops.qlinear import dequantized, requantized_at
from fornaxc.importers.onnx.ops.quantize import qlinear_convolution
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value


def channels_first(b: GraphBuilder, x: Value) -> Value:
    """[N, ..., C] as [N, C, ...]."""
    return c.move_axis(b, x, x.type.rank - 1, 1)


def channels_last(b: GraphBuilder, x: Value) -> Value:
    """[N, C, ...] as [N, ..., C]."""
    return c.move_axis(b, x, 1, x.type.rank - 1)


def _activated(b: GraphBuilder, x: Value, name: str, parameters: Sequence[float]) -> Value:
    """The activation that a fused operator names, with its alpha and beta."""
    zero = c.scalar(b, 0, x.type.dtype)
    match name.lower(), tuple(parameters):
        case "", _:
            return x
        case ("relu" | "sigmoid" | "tanh" | "softplus") as simple, _:
            return c.unary(b, simple, x)
        case "softsign", _:
            return c.binary(b, "div", x, c.with_scalar(b, "add", c.unary(b, "abs", x), 1))
        case "thresholdedrelu", (alpha, *_):
            return c.select(b, c.compare(b, "gt", x, c.scalar(b, alpha, x.type.dtype)), x, zero)
        case "leakyrelu", (alpha, *_):
            return c.select(b, c.compare(b, "lt", x, zero), c.with_scalar(b, "mul", x, alpha), x)
        case "elu", (alpha, *_):
            below = c.with_scalar(b, "mul", c.unary(b, "expm1", x), alpha)
            return c.select(b, c.compare(b, "lt", x, zero), below, x)
        case "clip", (low, high):
            return c.with_scalar(b, "min", c.with_scalar(b, "max", x, low), high)
        case "hardsigmoid", (alpha, beta, *_):
            ramp = c.with_scalar(b, "add", c.with_scalar(b, "mul", x, alpha), beta)
            return c.with_scalar(b, "max", c.with_scalar(b, "min", ramp, 1), 0)
    raise Refused(f"the activation {name} with the parameters {list(parameters)}")


def _fused_conv(ctx: NodeContext, *, last: bool) -> Value:
    """Inputs: x, w, bias, and what is added before the activation."""
    b, addend = ctx.b, ctx.optional(3)
    x = channels_first(b, ctx.input(0)) if last else ctx.input(0)
    y = add_bias(ctx, convolve(ctx, x, ctx.input(1)), ctx.optional(2))
    y = channels_last(b, y) if last else y
    if addend is not None:
        y = c.binary(b, "add", y, c.rebind(b, addend, y.type.shape))
    return _activated(b, y, ctx.string("activation", ""), ctx.floats("activation_params", ()))


@onnx_op("FusedConv", 1, domain=MICROSOFT)
def fused_conv(ctx: NodeContext) -> Value:
    return _fused_conv(ctx, last=False)


@onnx_op("NhwcFusedConv", 1, domain=MICROSOFT)
def nhwc_fused_conv(ctx: NodeContext) -> Value:
    return _fused_conv(ctx, last=True)


@onnx_op("FusedGemm", 1, domain=MICROSOFT)
def fused_gemm(ctx: NodeContext) -> Value:
    """Gemm, then an activation whose alpha and beta stand in attributes of their own."""
    names = [name for name in ("activation_alpha", "activation_beta") if ctx.has(name)]
    y = gemm(ctx)
    ctx.ignore("activation_gamma")  # no accepted activation has one
    return _activated(ctx.b, y, ctx.string("activation", ""), [ctx.float(name) for name in names])


@onnx_op("QLinearConv", 1, domain=MICROSOFT)
def qlinear_conv(ctx: NodeContext) -> Value:
    """The operator of ai.onnx; with channels_last, x and the result are [N, ..., C]."""
    if not ctx.int("channels_last", 0):
        return qlinear_convolution(ctx, ctx.input(0))
    return channels_last(ctx.b, qlinear_convolution(ctx, channels_first(ctx.b, ctx.input(0))))


@onnx_op("QLinearAveragePool", 1, domain=MICROSOFT)
def qlinear_average_pool(ctx: NodeContext) -> Value:
    b, x = ctx.b, dequantized(ctx, 0)
    if ctx.int("channels_last", 0):
        y = channels_last(b, average_pool(ctx, channels_first(b, x), dilates=False, ceils=True))
    else:
        y = average_pool(ctx, x, dilates=False, ceils=True)
    return requantized_at(ctx, y, 3, ctx.input(0).type.dtype)


@onnx_op("NhwcMaxPool", 1, domain=MICROSOFT)
def nhwc_max_pool(ctx: NodeContext) -> Value:
    return channels_last(ctx.b, max_pool(ctx, channels_first(ctx.b, ctx.input(0))))
