"""Activation functions."""

from __future__ import annotations

from collections.abc import Callable

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir import compose as c
from fornaxc.ir.graph import Value


def _unary(fn: str) -> Callable[[NodeContext], Value]:
    return lambda ctx: c.unary(ctx.b, fn, ctx.input(0))


for _name, _fn, _versions in (
    ("Relu", "relu", (6, 13, 14)),
    ("Sigmoid", "sigmoid", (6, 13)),
    ("Tanh", "tanh", (6, 13)),
    ("Softplus", "softplus", (1, 22)),
):
    onnx_op(_name, *_versions)(_unary(_fn))


def _where_negative(ctx: NodeContext, x: Value, negative: Value) -> Value:
    """`negative` where x < 0, else x (which keeps NaN)."""
    return c.select(ctx.b, c.compare(ctx.b, "lt", x, c.scalar(ctx.b, 0, x.type.dtype)), negative, x)


@onnx_op("LeakyRelu", 6, 16)
def leaky_relu(ctx: NodeContext) -> Value:
    x = ctx.input(0)
    return _where_negative(ctx, x, c.with_scalar(ctx.b, "mul", x, ctx.float("alpha", 0.01)))


@onnx_op("PRelu", 7, 9, 16)
def prelu(ctx: NodeContext) -> Value:
    """`slope` broadcasts to x, one way only."""
    x = ctx.input(0)
    slope = c.expand(ctx.b, ctx.input(1), x.type.shape)
    return _where_negative(ctx, x, c.binary(ctx.b, "mul", x, slope))


@onnx_op("Elu", 6, 22)
def elu(ctx: NodeContext) -> Value:
    x = ctx.input(0)
    below = c.with_scalar(ctx.b, "mul", c.unary(ctx.b, "expm1", x), ctx.float("alpha", 1.0))
    return _where_negative(ctx, x, below)


@onnx_op("Selu", 6, 22)
def selu(ctx: NodeContext) -> Value:
    x = ctx.input(0)
    alpha = ctx.float("alpha", 1.67326319217681884765625)
    gamma = ctx.float("gamma", 1.05070102214813232421875)
    below = c.with_scalar(ctx.b, "mul", c.unary(ctx.b, "expm1", x), alpha)
    return c.with_scalar(ctx.b, "mul", _where_negative(ctx, x, below), gamma)


@onnx_op("Celu", 12, 28)
def celu(ctx: NodeContext) -> Value:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    x, alpha = ctx.input(0), ctx.float("alpha", 1.0)
    ctx.require(alpha != 0, "alpha is 0")
    curve = c.with_scalar(ctx.b, "mul", c.unary(ctx.b, "expm1", c.with_scalar(ctx.b, "div", x, alpha)), alpha)
    high = c.with_scalar(ctx.b, "max", x, 0)
    return c.binary(ctx.b, "add", high, c.with_scalar(ctx.b, "min", curve, 0))


@onnx_op("ThresholdedRelu", 10, 22)
def thresholded_relu(ctx: NodeContext) -> Value:
    x = ctx.input(0)
    above = c.compare(ctx.b, "gt", x, c.scalar(ctx.b, ctx.float("alpha", 1.0), x.type.dtype))
    return c.select(ctx.b, above, x, c.scalar(ctx.b, 0, x.type.dtype))


def _hard_sigmoid(ctx: NodeContext, x: Value, alpha: float, beta: float) -> Value:
    line = c.with_scalar(ctx.b, "add", c.with_scalar(ctx.b, "mul", x, alpha), beta)
    return c.with_scalar(ctx.b, "max", c.with_scalar(ctx.b, "min", line, 1), 0)


@onnx_op("HardSigmoid", 6, 22)
def hard_sigmoid(ctx: NodeContext) -> Value:
    return _hard_sigmoid(ctx, ctx.input(0), ctx.float("alpha", 0.2), ctx.float("beta", 0.5))


@onnx_op("HardSwish", 14, 22)
def hard_swish(ctx: NodeContext) -> Value:
    x = ctx.input(0)
    return c.binary(ctx.b, "mul", x, _hard_sigmoid(ctx, x, 1 / 6, 0.5))


@onnx_op("Mish", 18, 22)
def mish(ctx: NodeContext) -> Value:
    x = ctx.input(0)
    return c.binary(ctx.b, "mul", x, c.unary(ctx.b, "tanh", c.unary(ctx.b, "softplus", x)))


def _swish(ctx: NodeContext) -> Value:
    x, alpha = ctx.input(0), ctx.float("alpha", 1.0)
    if alpha == 1.0:
        return c.unary(ctx.b, "silu", x)
    return c.binary(ctx.b, "mul", x, c.unary(ctx.b, "sigmoid", c.with_scalar(ctx.b, "mul", x, alpha)))


onnx_op("Swish", 24)(_swish)


@onnx_op("SwiGLU", 28)
def swiglu(ctx: NodeContext) -> Value:
    """Swish of the gate times the value; their shapes are equal."""
    gate = _swish(ctx)
    return c.binary(ctx.b, "mul", gate, c.rebind(ctx.b, ctx.input(1), gate.type.shape))


@onnx_op("Softsign", 1, 22)
def softsign(ctx: NodeContext) -> Value:
    x = ctx.input(0)
    return c.binary(ctx.b, "div", x, c.with_scalar(ctx.b, "add", c.unary(ctx.b, "abs", x), 1))


@onnx_op("Gelu", 20)
def gelu(ctx: NodeContext) -> Value:
    kind = ctx.string("approximate", "none")
    ctx.require(kind in ("none", "tanh"), f"no Gelu approximation {kind!r}")
    return c.unary(ctx.b, "gelu" if kind == "none" else "gelu_tanh", ctx.input(0))


@onnx_op("Shrink", 9)
def shrink(ctx: NodeContext) -> Value:
    """x + bias below -lambd, x - bias above lambd, else 0."""
    b, x = ctx.b, ctx.input(0)
    bias, lambd = ctx.float("bias", 0.0), ctx.float("lambd", 0.5)
    if not x.type.dtype.is_float:
        ctx.refuse_unless(
            x.type.dtype.is_signed and bias == int(bias) and lambd == int(lambd),
            f"Shrink of {x.type.dtype} by fractions or of unsigned integers",
        )
    zero = c.scalar(b, 0, x.type.dtype)
    low = c.compare(b, "lt", x, c.scalar(b, -lambd, x.type.dtype))
    high = c.compare(b, "gt", x, c.scalar(b, lambd, x.type.dtype))
    above = c.select(b, high, c.with_scalar(b, "sub", x, bias), zero)
    return c.select(b, low, c.with_scalar(b, "add", x, bias), above)
