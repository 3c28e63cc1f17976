"""uniform_quantize and uniform_dequantize."""

from __future__ import annotations

import numpy as np

from fornaxc.importers.stablehlo.context import OpContext
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Quant
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, Unary
from fornaxc.ir.types import DType


@stablehlo_op("stablehlo.uniform_quantize", elementwise=True)
def uniform_quantize(ctx: OpContext) -> Value:
    """From real numbers, or from another quantization by way of them."""
    info, source = ctx.result_info(), ctx.operand_info(0)
    assert info.quant is not None
    x = ctx.value(0)
    if source.quant is not None:
        x = dequantize(ctx.b, x, source.quant)
    return quantize(ctx.b, x, info.quant)


@stablehlo_op("stablehlo.uniform_dequantize", elementwise=True)
def uniform_dequantize(ctx: OpContext) -> Value:
    source = ctx.operand_info(0)
    assert source.quant is not None
    return dequantize(ctx.b, ctx.value(0), source.quant)


def quantize(b: GraphBuilder, x: Value, q: Quant) -> Value:
    """The nearest stored number for each real one, within the storage's bounds; of two, as for the reference interpreter, the even one."""
    wide = DType.F64 if q.expressed is DType.F64 else DType.F32
    x = c.cast(b, x, wide)
    steps = b.emit(Binary("div"), x, _along(b, q.scales, wide, x, q))
    shifted = b.emit(Unary("round"), b.emit(Binary("add"), steps, _along(b, q.zero_points, wide, x, q)))
    low, high = c.scalar(b, q.low, wide), c.scalar(b, q.high, wide)
    return c.cast(b, c.binary(b, "min", c.binary(b, "max", shifted, low), high), q.storage)


def dequantize(b: GraphBuilder, x: Value, q: Quant) -> Value:
    """(stored - zero point) * scale, in the expressed type."""
    stored = c.cast(b, x, DType.I64 if q.storage.bits >= 32 else DType.I32)
    centred = b.emit(Binary("sub"), stored, _along(b, q.zero_points, stored.type.dtype, stored, q))
    wide = DType.F64 if q.expressed is DType.F64 else DType.F32
    real = c.cast(b, centred, wide)
    return c.cast(b, b.emit(Binary("mul"), real, _along(b, q.scales, wide, real, q)), q.expressed)


def _along(b: GraphBuilder, numbers: tuple[float, ...], dtype: DType, like: Value, q: Quant) -> Value:
    """One number, or one for each place of the quantized axis, as a tensor of `like`'s shape."""
    if q.axis is None:
        return c.full(b, numbers[0], like.type.with_dtype(dtype))
    line = b.literal(np.array(numbers).astype(dtype.numpy))
    shape = [len(numbers) if i == q.axis else 1 for i in range(like.type.rank)]
    return c.expand(b, c.reshape(b, line, shape), like.type.shape)
