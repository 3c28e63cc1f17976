"""Linear quantisation: numbers as integers (or small floats) with a scale and a zero point, and products of them."""

from __future__ import annotations

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.ops.cast import convert
from fornaxc.importers.onnx.ops.conv import add_bias, convolve
from fornaxc.importers.onnx.ops.matmul import matmul
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import ceildiv
from fornaxc.ir.graph import Value
from fornaxc.ir.ops.elementwise import integer_range
from fornaxc.ir.types import DType


def _spread(ctx: NodeContext, x: Value, parameter: Value, axis: int, block: int) -> Value:
    """A scale or zero point of `x` in a shape that broadcasts: one for all, one per entry of `axis`, or one per block of it."""
    b, rank = ctx.b, x.type.rank
    if parameter.type.elements == 1 and not block:
        return c.reshape(b, parameter, ())
    axis = ctx.axis(axis, rank)
    if parameter.type.rank == 1 and not (block and rank == 1):
        ctx.require(block == 0, f"block_size {block} with parameters {parameter.type}")
        line = c.rebind(b, parameter, (x.type.shape[axis],))
        return c.reshape(b, line, [d if i == axis else 1 for i, d in enumerate(x.type.shape)])
    ctx.require(
        block > 0 and parameter.type.rank == rank, f"parameters {parameter.type} for {x.type}, block_size {block}"
    )
    size, blocks = x.type.shape[axis], parameter.type.shape[axis]
    if isinstance(size, int) and isinstance(blocks, int):
        ctx.require(ceildiv(size, block) == blocks, f"{blocks} blocks of {block} for an axis of size {size}")
    wide = c.unsqueeze(b, parameter, (axis + 1,))
    wide = c.expand(b, wide, [block if i == axis + 1 else d for i, d in enumerate(wide.type.shape)])
    whole = c.reshape(b, wide, [blocks * block if i == axis else d for i, d in enumerate(parameter.type.shape)])
    return c.slice_axis(b, whole, axis, 0, size)


def _is_zero(ctx: NodeContext, zero: Value | None) -> bool:
    content = None if zero is None else ctx.content(zero)
    return zero is None or (content is not None and content.dtype != object and not content.astype(float).any())


def _rounded(ctx: NodeContext, scaled: Value, zero: Value | None, dtype: DType) -> Value:
    return rounded(ctx.b, scaled, None if _is_zero(ctx, zero) else zero, dtype)


def rounded(b: GraphBuilder, scaled: Value, zero: Value | None, dtype: DType) -> Value:
    """round(scaled) + zero, saturated, as an integer type; halves round to even."""
    value = c.cast(b, c.unary(b, "round", scaled), DType.F32)
    if zero is not None:
        value = c.binary(b, "add", value, c.cast(b, zero, DType.F32))
    low, high = integer_range(dtype)
    return c.cast(b, c.with_scalar(b, "min", c.with_scalar(b, "max", value, low), high), dtype)


def _quantize(
    ctx: NodeContext,
    axis: int,
    block: int = 0,
    dtype: DType = DType.U8,
    precision: DType | None = None,
    saturate: bool = True,
) -> Value:
    b, x, scale, zero = ctx.b, ctx.input(0), ctx.input(1), ctx.optional(2)
    dtype = dtype if zero is None else zero.type.dtype
    precision = precision or scale.type.dtype
    if not precision.is_float:
        precision = DType.F32
    steps = c.cast(b, _spread(ctx, x, scale, axis, block), precision)
    scaled = c.binary(b, "div", c.cast(b, x, precision), steps)
    offset = None if zero is None else _spread(ctx, x, zero, axis, block)
    if dtype.is_integer:
        return _rounded(ctx, scaled, offset, dtype)
    if offset is not None and not _is_zero(ctx, zero):
        scaled = c.binary(b, "add", scaled, c.cast(b, offset, precision))
    return convert(ctx, scaled, dtype, saturate)


def quantized(ctx: NodeContext, value: Value, scale: Value, zero: Value | None, dtype: DType) -> Value:
    """f32 numbers by one scale and one zero point (`dtype` where there is none)."""
    b = ctx.b
    scaled = c.binary(b, "div", value, c.reshape(b, scale, ()))
    offset = None if zero is None else c.reshape(b, zero, ())
    return _rounded(ctx, scaled, offset, dtype if zero is None else zero.type.dtype)


def _chosen(ctx: NodeContext, name: str) -> DType | None:
    number = ctx.int(name, 0)
    return ctx.element_type(number) if number else None


@onnx_op("QuantizeLinear", 10)
def quantize_tensor(ctx: NodeContext) -> Value:
    ctx.require(ctx.input(1).type.elements == 1, f"the scale must be a scalar, not {ctx.input(1).type}")
    return _quantize(ctx, 0)


@onnx_op("QuantizeLinear", 13)
def quantize_axis(ctx: NodeContext) -> Value:
    return _quantize(ctx, ctx.int("axis", 1))


@onnx_op("QuantizeLinear", 19)
def quantize_saturate(ctx: NodeContext) -> Value:
    return _quantize(ctx, ctx.int("axis", 1), saturate=bool(ctx.int("saturate", 1)))


@onnx_op("QuantizeLinear", 21)
def quantize_blocks(ctx: NodeContext) -> Value:
    dtype = _chosen(ctx, "output_dtype")
    return _quantize(
        ctx, ctx.int("axis", 1), ctx.int("block_size", 0), dtype or DType.U8, None, bool(ctx.int("saturate", 1))
    )


@onnx_op("QuantizeLinear", 23, 24, 25, 28)
def quantize(ctx: NodeContext) -> Value:
    dtype, precision = _chosen(ctx, "output_dtype"), _chosen(ctx, "precision")
    return _quantize(
        ctx, ctx.int("axis", 1), ctx.int("block_size", 0), dtype or DType.U8, precision, bool(ctx.int("saturate", 1))
    )


def _dequantize(ctx: NodeContext, axis: int, block: int = 0, dtype: DType | None = None) -> Value:
    """(x - zero) * scale, computed in f32."""
    b, x, scale, zero = ctx.b, ctx.input(0), ctx.input(1), ctx.optional(2)
    value = x
    if zero is not None and not _is_zero(ctx, zero):
        exact = DType.I32 if x.type.dtype.is_integer else DType.F32
        offset = c.cast(b, _spread(ctx, x, zero, axis, block), exact)
        value = c.binary(b, "sub", c.cast(b, x, exact), offset)
    steps = c.cast(b, _spread(ctx, x, scale, axis, block), DType.F32)
    scaled = c.binary(b, "mul", c.cast(b, value, DType.F32), steps)
    return c.cast(b, scaled, dtype or scale.type.dtype)


@onnx_op("DequantizeLinear", 10)
def dequantize_tensor(ctx: NodeContext) -> Value:
    ctx.require(ctx.input(1).type.elements == 1, f"the scale must be a scalar, not {ctx.input(1).type}")
    return _dequantize(ctx, 0)


@onnx_op("DequantizeLinear", 13, 19)
def dequantize_axis(ctx: NodeContext) -> Value:
    return _dequantize(ctx, ctx.int("axis", 1))


@onnx_op("DequantizeLinear", 21)
def dequantize_blocks(ctx: NodeContext) -> Value:
    return _dequantize(ctx, ctx.int("axis", 1), ctx.int("block_size", 0))


@onnx_op("DequantizeLinear", 23, 24, 25, 28)
def dequantize(ctx: NodeContext) -> Value:
    return _dequantize(ctx, ctx.int("axis", 1), ctx.int("block_size", 0), _chosen(ctx, "output_dtype"))


@onnx_op("DynamicQuantizeLinear", 11)
def dynamic_quantize(ctx: NodeContext) -> tuple[Value, Value, Value]:
    return dynamically_quantized(ctx.b, ctx.input(0))


def dynamically_quantized(b: GraphBuilder, x: Value) -> tuple[Value, Value, Value]:
    """u8 over the range of the data, which is made to hold 0, with the scale (1 where all data is 0) and the zero point, both of rank 0."""
    axes = range(x.type.rank)
    low = c.with_scalar(b, "min", c.reshape(b, c.reduce(b, "min", x, axes), ()), 0)
    high = c.with_scalar(b, "max", c.reshape(b, c.reduce(b, "max", x, axes), ()), 0)
    span = c.with_scalar(b, "div", c.binary(b, "sub", high, low), 255)
    flat = c.compare(b, "eq", span, c.scalar(b, 0, span.type.dtype))
    scale = c.select(b, flat, c.scalar(b, 1, span.type.dtype), span)
    start = c.unary(b, "neg", c.binary(b, "div", low, scale))
    zero = rounded(b, c.with_scalar(b, "min", c.with_scalar(b, "max", start, 0), 255), None, DType.U8)
    return rounded(b, c.binary(b, "div", x, scale), zero, DType.U8), scale, zero


def centred(ctx: NodeContext, x: Value, zero: Value | None) -> Value:
    """x - zero in i32."""
    wide = c.cast(ctx.b, x, DType.I32)
    if zero is None or _is_zero(ctx, zero):
        return wide
    return c.binary(ctx.b, "sub", wide, c.cast(ctx.b, zero, DType.I32))


def per_row(ctx: NodeContext, parameter: Value | None) -> Value | None:
    """A parameter of the rows of a left matrix: a vector becomes a column."""
    if parameter is None or parameter.type.rank != 1:
        return parameter
    return c.reshape(ctx.b, parameter, () if parameter.type.elements == 1 else (parameter.type.shape[0], 1))


def per_column(ctx: NodeContext, parameter: Value | None) -> Value | None:
    if parameter is None or parameter.type.elements != 1:
        return parameter
    return c.reshape(ctx.b, parameter, ())


def _per_filter(ctx: NodeContext, w: Value, parameter: Value | None) -> Value | None:
    """A zero point of the filters, one or one each; None where it is 0."""
    if parameter is None or _is_zero(ctx, parameter):
        return None
    if parameter.type.elements == 1:
        return c.reshape(ctx.b, parameter, ())
    return c.reshape(ctx.b, parameter, (w.type.shape[0], *(1,) * (w.type.rank - 1)))


@onnx_op("MatMulInteger", 10)
def matmul_integer(ctx: NodeContext) -> Value:
    left = centred(ctx, ctx.input(0), per_row(ctx, ctx.optional(2)))
    return matmul(ctx.b, left, centred(ctx, ctx.input(1), per_column(ctx, ctx.optional(3))))


@onnx_op("MatMulInteger16", 1, domain="com.microsoft")
def matmul_integer_16(ctx: NodeContext) -> Value:
    """The product of 16-bit integers in 32 bits of the same sign; sums that overflow wrap around."""
    left, right = (ctx.input(i) for i in range(2))
    wide = DType.U32 if DType.U16 is left.type.dtype is right.type.dtype else DType.I32
    return matmul(ctx.b, c.cast(ctx.b, left, wide), c.cast(ctx.b, right, wide))


@onnx_op("ConvInteger", 10)
def conv_integer(ctx: NodeContext) -> Value:
    """Padding stands for the zero point."""
    w = ctx.input(1)
    x = centred(ctx, ctx.input(0), _per_filter(ctx, w, ctx.optional(2)))
    return convolve(ctx, x, centred(ctx, w, _per_filter(ctx, w, ctx.optional(3))))


def requantized(ctx: NodeContext, total: Value, left: Value, right: Value, result: Value, zero: Value) -> Value:
    """An i32 sum of products in units of left * right, in units of `result`."""
    b = ctx.b
    ratio = c.binary(b, "div", c.binary(b, "mul", c.cast(b, left, DType.F32), c.cast(b, right, DType.F32)), result)
    return _rounded(ctx, c.binary(b, "mul", c.cast(b, total, DType.F32), ratio), zero, zero.type.dtype)


@onnx_op("QLinearMatMul", 10, 21)
def qlinear_matmul(ctx: NodeContext) -> Value:
    left, left_scale, left_zero, right, right_scale, right_zero, scale, zero = (ctx.input(i) for i in range(8))
    for value in (left, right, zero):
        ctx.refuse_unless(value.type.dtype.is_integer, f"QLinearMatMul of {value.type.dtype}")
    for value in (scale, zero):
        ctx.refuse_unless(value.type.elements == 1, "QLinearMatMul with scales per row of the result")
    total = matmul(ctx.b, centred(ctx, left, per_row(ctx, left_zero)), centred(ctx, right, per_column(ctx, right_zero)))
    steps, columns = per_row(ctx, left_scale), per_column(ctx, right_scale)
    assert steps is not None and columns is not None
    scale, zero = c.reshape(ctx.b, c.cast(ctx.b, scale, DType.F32), ()), c.reshape(ctx.b, zero, ())
    return requantized(ctx, total, steps, columns, scale, zero)


@onnx_op("QLinearConv", 10)
def qlinear_conv(ctx: NodeContext) -> Value:
    return qlinear_convolution(ctx, ctx.input(0))


def qlinear_convolution(ctx: NodeContext, x: Value) -> Value:
    """QLinearConv of `x`, which stands for input 0. The bias is i32 in units of x's scale times w's."""
    b = ctx.b
    x_scale, x_zero, w, w_scale, w_zero, scale, zero = (ctx.input(i) for i in range(1, 8))
    ctx.refuse_unless(
        all(v.type.elements == 1 for v in (x_scale, x_zero, scale, zero)),
        "QLinearConv with scales per channel of x or y",
    )
    data = centred(ctx, x, c.reshape(b, x_zero, ()))
    total = convolve(ctx, data, centred(ctx, w, _per_filter(ctx, w, w_zero)))
    total = add_bias(ctx, total, ctx.optional(8))
    steps = (
        c.reshape(b, w_scale, ())
        if w_scale.type.elements == 1
        else c.reshape(b, w_scale, (w.type.shape[0], *(1,) * (w.type.rank - 2)))
    )
    return requantized(ctx, total, c.reshape(b, x_scale, ()), steps, c.reshape(b, scale, ()), c.reshape(b, zero, ()))
