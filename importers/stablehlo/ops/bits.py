"""bitcast_convert, also between element types of different widths."""

from __future__ import annotations

from fornaxc.importers.stablehlo.context import OpContext, Refused
from fornaxc.importers.stablehlo.ops.arithmetic import UNSIGNED
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Complex, Operand
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, Bitcast
from fornaxc.ir.types import DType


@stablehlo_op("stablehlo.bitcast_convert", elementwise=True)
def bitcast_convert(ctx: OpContext) -> Operand:
    operand, info = ctx.operands[0], ctx.result_info()
    if ctx.lifted and (info.complex or not isinstance(operand, Value) or operand.type.dtype.bits != info.dtype.bits):
        raise Refused("a bitcast between widths in the body of a reduction, a scatter or a sort")
    b = ctx.b
    if isinstance(operand, Complex):
        if info.complex and operand.re.type.dtype.bits == info.dtype.bits:
            return Complex(bitcast(b, operand.re, info.dtype), bitcast(b, operand.im, info.dtype))
        pair = c.concat(
            b, [c.unsqueeze(b, part, [part.type.rank]) for part in (operand.re, operand.im)], operand.re.type.rank
        )
        if info.complex:  # the two parts of each number lie side by side, the real one first
            return _from_pair(b, bitcast(b, pair, info.dtype))
        if 2 * operand.re.type.dtype.bits == info.dtype.bits:
            return bitcast(b, pair, info.dtype)
        flat = bitcast(b, pair, info.dtype)  # [..., 2] or [..., 2, n]
        if flat.type.rank == operand.re.type.rank + 2:
            shape = flat.type.shape
            flat = c.reshape(b, flat, (*shape[:-2], shape[-2] * shape[-1]))
        return flat
    x = ctx.value(0)
    if not info.complex:
        return bitcast(b, x, info.dtype)
    if x.type.dtype.bits < 2 * info.dtype.bits and x.type.dtype.bits != info.dtype.bits:
        shape = x.type.shape
        x = c.reshape(b, x, (*shape[:-1], 2, shape[-1] // 2))
    return _from_pair(b, bitcast(b, x, info.dtype))


def _from_pair(b: GraphBuilder, x: Value) -> Complex:
    """The numbers whose parts are beside each other on the last axis."""
    axis = x.type.rank - 1
    parts = [c.squeeze(b, c.slice_axis(b, x, axis, i, 1), [axis]) for i in range(2)]
    return Complex(parts[0], parts[1])


def bitcast(b: GraphBuilder, x: Value, dtype: DType) -> Value:
    """The bits of `x` as `dtype`. Wider elements come from a last axis, narrower ones make one; the lowest bits come first."""
    have = x.type.dtype
    if have is dtype:
        return x
    if DType.BOOL in (have, dtype):
        raise Refused(f"a bitcast from {have} to {dtype}")
    if have.bits == dtype.bits:
        return b.emit(Bitcast(dtype), x)
    if not {have.bits, dtype.bits} <= set(UNSIGNED):
        raise Refused(f"a bitcast from {have} to {dtype}")
    source = b.emit(Bitcast(UNSIGNED[have.bits]), x) if have is not UNSIGNED[have.bits] else x
    target = UNSIGNED[dtype.bits]
    count = max(have.bits, dtype.bits) // min(have.bits, dtype.bits)
    joined = _join(b, source, target, count) if have.bits < dtype.bits else _split(b, source, target, count)
    return joined if target is dtype else b.emit(Bitcast(dtype), joined)


def _join(b: GraphBuilder, x: Value, target: DType, count: int) -> Value:
    axis, width = x.type.rank - 1, x.type.dtype.bits
    compute = target if target.bits >= 8 else DType.U8
    result: Value | None = None
    for i in range(count):
        part = c.cast(b, c.squeeze(b, c.slice_axis(b, x, axis, i, 1), [axis]), compute)
        part = c.binary(b, "shl", part, c.scalar(b, i * width, compute)) if i else part
        result = part if result is None else b.emit(Binary("or"), result, part)
    assert result is not None
    return c.cast(b, result, target)


def _split(b: GraphBuilder, x: Value, target: DType, count: int) -> Value:
    have, width = x.type.dtype, target.bits
    compute = have if have.bits >= 8 else DType.U8
    x = c.cast(b, x, compute)
    mask = c.scalar(b, (1 << width) - 1, compute)
    pieces = []
    for i in range(count):
        part = c.binary(b, "shr", x, c.scalar(b, i * width, compute)) if i else x
        piece = c.cast(b, c.binary(b, "and", part, mask), target)
        pieces.append(c.unsqueeze(b, piece, [x.type.rank]))
    return c.concat(b, pieces, x.type.rank)
