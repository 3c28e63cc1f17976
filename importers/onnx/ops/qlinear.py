"""onnxruntime's operators on quantised tensors: domain com.microsoft (ContribOperators.md), version 1."""

from __future__ import annotations

from collections.abc import Callable

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.ops.fused import MICROSOFT
from fornaxc.importers.onnx.ops.matmul import matmul
from fornaxc.importers.onnx.ops.quantize import centred, dequantize, per_column, quantize, quantized, requantized
from fornaxc.importers.onnx.ops.shape import join
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir import compose as c
from fornaxc.ir.dims import product
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Softmax
from fornaxc.ir.types import DType

onnx_op("QuantizeLinear", 1, domain=MICROSOFT)(quantize)
onnx_op("DequantizeLinear", 1, domain=MICROSOFT)(dequantize)


def dequantized(ctx: NodeContext, index: int) -> Value:
    """The tensor at `index` with the scale and the zero point (0 where absent) after it, in f32."""
    b, scale, zero = ctx.b, ctx.input(index + 1), ctx.optional(index + 2)
    whole = scale.type.elements == 1 and (zero is None or zero.type.elements == 1)
    ctx.refuse_unless(whole, f"{ctx.node.op_type} with a scale for each channel")
    wide = c.cast(b, centred(ctx, ctx.input(index), None if zero is None else c.reshape(b, zero, ())), DType.F32)
    return c.binary(b, "mul", wide, c.reshape(b, scale, ()))


def requantized_at(ctx: NodeContext, value: Value, index: int, dtype: DType) -> Value:
    """`value` by the scale and the zero point at `index`."""
    return quantized(ctx, value, ctx.input(index), ctx.optional(index + 1), dtype)


def _binary(fn: str) -> Callable[[NodeContext], Value]:
    def handler(ctx: NodeContext) -> Value:
        value = c.binary(ctx.b, fn, dequantized(ctx, 0), dequantized(ctx, 3))
        return requantized_at(ctx, value, 6, ctx.input(0).type.dtype)

    return handler


onnx_op("QLinearAdd", 1, domain=MICROSOFT)(_binary("add"))
onnx_op("QLinearMul", 1, domain=MICROSOFT)(_binary("mul"))


@onnx_op("QLinearSigmoid", 1, domain=MICROSOFT)
def qlinear_sigmoid(ctx: NodeContext) -> Value:
    return requantized_at(ctx, c.unary(ctx.b, "sigmoid", dequantized(ctx, 0)), 3, ctx.input(0).type.dtype)


@onnx_op("QLinearLeakyRelu", 1, domain=MICROSOFT)
def qlinear_leaky_relu(ctx: NodeContext) -> Value:
    b, x = ctx.b, dequantized(ctx, 0)
    below = c.compare(b, "lt", x, c.scalar(b, 0, DType.F32))
    value = c.select(b, below, c.with_scalar(b, "mul", x, ctx.float("alpha", 0.01)), x)
    return requantized_at(ctx, value, 3, ctx.input(0).type.dtype)


@onnx_op("QLinearGlobalAveragePool", 1, domain=MICROSOFT)
def qlinear_global_average_pool(ctx: NodeContext) -> Value:
    x = dequantized(ctx, 0)
    rank = x.type.rank
    axes = range(1, rank - 1) if ctx.int("channels_last", 0) else range(2, rank)
    return requantized_at(ctx, c.reduce(ctx.b, "mean", x, axes), 3, ctx.input(0).type.dtype)


@onnx_op("QLinearReduceMean", 1, domain=MICROSOFT)
def qlinear_reduce_mean(ctx: NodeContext) -> Value:
    b, x = ctx.b, dequantized(ctx, 0)
    axes = ctx.axes(ctx.ints("axes"), x.type.rank)
    value = c.reduce(b, "mean", x, axes)
    value = value if ctx.int("keepdims") else c.squeeze(b, value, axes)
    return requantized_at(ctx, value, 3, ctx.input(0).type.dtype)


@onnx_op("QLinearSoftmax", 1, domain=MICROSOFT)
def qlinear_softmax(ctx: NodeContext) -> Value:
    """Over one axis, or before opset 13 (the attribute `opset`) over all axes from that one on."""
    b, x = ctx.b, dequantized(ctx, 0)
    opset = ctx.int("opset")
    axis = ctx.axis(ctx.int("axis", -1), x.type.rank)
    shape = x.type.shape
    if opset < 13:
        x = c.reshape(b, x, (*shape[:axis], product(shape[axis:])))
    value = c.reshape(b, b.emit(Softmax(axis), x), shape)
    return requantized_at(ctx, value, 3, ctx.input(0).type.dtype)


@onnx_op("QLinearConcat", 1, domain=MICROSOFT)
def qlinear_concat(ctx: NodeContext) -> Value:
    """Inputs: the result's scale and zero point, then each tensor with its own."""
    values = [dequantized(ctx, index) for index in range(2, len(ctx.inputs), 3)]
    joined = join(ctx.b, values, ctx.axis(ctx.int("axis"), values[0].type.rank))
    return requantized_at(ctx, joined, 0, ctx.input(2).type.dtype)


@onnx_op("QGemm", 1, domain=MICROSOFT)
def qgemm(ctx: NodeContext) -> Value:
    """alpha * A' * B' + C, where C is i32 in units of alpha times both scales; f32 where no scale of the result is given."""
    b = ctx.b
    left, left_scale, left_zero, right, right_scale, right_zero = (ctx.input(i) for i in range(6))
    for value in (left_scale, left_zero):
        ctx.refuse_unless(value.type.elements == 1, "a scale for each row of A")
    left = centred(ctx, left, c.reshape(b, left_zero, ()))
    left = c.transpose(b, left, (1, 0)) if ctx.int("transA", 0) else left
    transposed = ctx.int("transB", 0)
    if transposed:
        right = c.transpose(b, right, (1, 0))
    total = matmul(b, left, centred(ctx, right, per_column(ctx, right_zero)))
    if ctx.optional(6) is not None:
        total = c.binary(b, "add", total, ctx.input(6))
    steps = per_column(ctx, right_scale)
    assert steps is not None
    unit = c.with_scalar(b, "mul", c.reshape(b, left_scale, ()), ctx.float("alpha", 1.0))
    if ctx.optional(7) is None:
        return c.binary(b, "mul", c.cast(b, total, DType.F32), c.binary(b, "mul", unit, steps))
    zero = c.reshape(b, ctx.input(8), ())
    return requantized(ctx, total, unit, steps, c.reshape(b, ctx.input(7), ()), zero)


@onnx_op("QLinearWhere", 1, domain=MICROSOFT)
def qlinear_where(ctx: NodeContext) -> Value:
    """Inputs: a bool condition, x and y with scale and zero point each, those of the result."""
    chosen = c.select(ctx.b, ctx.input(0), dequantized(ctx, 1), dequantized(ctx, 4))
    return requantized_at(ctx, chosen, 7, ctx.input(1).type.dtype)
