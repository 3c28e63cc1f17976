"""Conversions of element types."""

from __future__ import annotations

import ml_dtypes

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Bitcast, Cast
from fornaxc.ir.types import DType

_NO_INFINITY = (DType.F8E4M3FNUZ, DType.F8E5M2FNUZ)


def convert(
    ctx: NodeContext, x: Value, dtype: DType, saturate: bool, round_mode: str = "up", clamps_infinity: bool = False
) -> Value:
    """`x` as `dtype`; `saturate` and `round_mode` matter for 8-bit floats only.

    Where `clamps_infinity`, saturation sends infinities to the largest value also in the types that have none (else to
    NaN). Floats beyond a 2-bit or 4-bit integer type wrap.
    """
    ctx.require(round_mode in ("up", "down", "nearest"), f"no round_mode {round_mode!r}")
    if dtype is x.type.dtype:
        return x
    if dtype is DType.F8E8M0FNU:
        return _to_exponent(ctx.b, c.cast(ctx.b, x, DType.F32), saturate, round_mode)
    if dtype.is_integer and dtype.bits < 8 and x.type.dtype.is_float:
        x = c.cast(ctx.b, x, DType.I32)
    if clamps_infinity and saturate and dtype in _NO_INFINITY and x.type.dtype.is_float:
        largest = float(ml_dtypes.finfo(dtype.numpy).max)
        x = c.with_scalar(ctx.b, "max", c.with_scalar(ctx.b, "min", x, largest), -largest)
    return ctx.b.emit(Cast(dtype, saturate), x)


def _to_exponent(b: GraphBuilder, x: Value, saturate: bool, round_mode: str) -> Value:
    """f32 to the power of two that f8e8m0 holds: the f32's exponent bits, rounded by its mantissa; NaN is 255."""

    def number(value: int) -> Value:
        return c.scalar(b, value, DType.U32)

    bits = b.emit(Bitcast(DType.U32), c.unary(b, "abs", x))
    exponent = c.binary(b, "shr", bits, number(23))
    mantissa = c.binary(b, "and", bits, number(0x7FFFFF))
    tiny = c.compare(b, "eq", exponent, number(0))  # f32 has half a power of two below its smallest exponent
    limit, tiny_limit = {"up": (0, 0x400000), "nearest": (0x3FFFFF, 0x5FFFFF), "down": (0x7FFFFF, 0x7FFFFF)}[round_mode]
    carry = c.compare(b, "gt", mantissa, c.select(b, tiny, number(tiny_limit), number(limit)))
    largest = 254 if saturate else 255
    result = c.with_scalar(b, "min", c.binary(b, "add", exponent, c.cast(b, carry, DType.U32)), largest)
    if not saturate:
        below = c.binary(b, "and", tiny, c.compare(b, "lt", mantissa, number(0x400000)))
        result = c.select(b, below, number(255), result)
    result = c.select(b, c.unary(b, "is_nan", x), number(255), result)
    return b.emit(Bitcast(DType.F8E8M0FNU), c.cast(b, result, DType.U8))


@onnx_op("Cast", 6, 9, 13)
def cast(ctx: NodeContext) -> Value:
    return convert(ctx, ctx.input(0), ctx.dtype("to"), saturate=True)


@onnx_op("Cast", 19, 21, 23)
def cast_saturating(ctx: NodeContext) -> Value:
    return convert(ctx, ctx.input(0), ctx.dtype("to"), bool(ctx.int("saturate", 1)))


@onnx_op("Cast", 24, 25, 28)
def cast_rounding(ctx: NodeContext) -> Value:
    saturate, round_mode = bool(ctx.int("saturate", 1)), ctx.string("round_mode", "up")
    return convert(ctx, ctx.input(0), ctx.dtype("to"), saturate, round_mode, clamps_infinity=True)


@onnx_op("CastLike", 15)
def cast_like(ctx: NodeContext) -> Value:
    return convert(ctx, ctx.input(0), ctx.input(1).type.dtype, saturate=True)


@onnx_op("CastLike", 19, 21, 23)
def cast_like_saturating(ctx: NodeContext) -> Value:
    return convert(ctx, ctx.input(0), ctx.input(1).type.dtype, bool(ctx.int("saturate", 1)))


@onnx_op("CastLike", 24, 25)
def cast_like_rounding(ctx: NodeContext) -> Value:
    saturate, round_mode = bool(ctx.int("saturate", 1)), ctx.string("round_mode", "up")
    return convert(ctx, ctx.input(0), ctx.input(1).type.dtype, saturate, round_mode, clamps_infinity=True)


@onnx_op("BitCast", 26)
def bit_cast(ctx: NodeContext) -> Value:
    return ctx.b.emit(Bitcast(ctx.dtype("to")), ctx.input(0))
