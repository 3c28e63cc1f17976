"""Elementwise functions that MAX lacks: integer bit operations and powers, and casts of bits. Any device."""

import extensibility
from extensibility import InputTensor, OutputTensor, foreach
from layout import Coord
from max.gpu.host import DeviceContext
from std.memory import bitcast


def _power[dtype: DType, width: Int](base: SIMD[dtype, width], exponent: SIMD[dtype, width]) -> SIMD[dtype, width]:
    """Integer power that wraps around. A negative exponent gives the quotient towards zero: 0 unless the base is 1 or -1."""
    comptime V = SIMD[dtype, width]
    var result = V(1)
    var factor = base
    var left = exponent
    comptime if dtype.is_signed():
        left = exponent.lt(V(0)).select(exponent & V(1), exponent)
    for _ in range(bit_width[dtype]()):
        result = (left & V(1)).eq(V(1)).select(result * factor, result)
        factor *= factor
        left >>= V(1)
    comptime if dtype.is_signed():
        var unit = base.eq(V(1)) | base.eq(V(-1))
        result = (exponent.lt(V(0)) & ~unit).select(V(0), result)
    return result


def bit_width[dtype: DType]() -> Int:
    """The bits of one element."""
    comptime if dtype == DType.int8 or dtype == DType.uint8:
        return 8
    comptime if dtype == DType.int16 or dtype == DType.uint16:
        return 16
    comptime if dtype == DType.int32 or dtype == DType.uint32:
        return 32
    return 64


@extensibility.register("fx_integer_binary")
struct IntegerBinary:
    """`kind`: 0 and, 1 or, 2 xor, 3 shl, 4 shr (arithmetic on signed types), 5 pow. Shifts by the width or more shift all bits out."""

    @staticmethod
    def execute[
        kind: Int, target: StaticString
    ](
        output: OutputTensor,
        a: InputTensor[dtype=output.dtype, rank=output.rank, ...],
        b: InputTensor[dtype=output.dtype, rank=output.rank, ...],
        ctx: DeviceContext,
    ) raises:
        def f[width: Int](idx: Coord) {var a, var b} -> SIMD[output.dtype, width]:
            comptime V = SIMD[output.dtype, width]
            var x = a.load[width](idx)
            var y = b.load[width](idx)
            comptime if kind == 0:
                return x & y
            comptime if kind == 1:
                return x | y
            comptime if kind == 2:
                return x ^ y
            comptime if kind == 5:
                return _power[output.dtype, width](x, y)
            var last = V(bit_width[output.dtype]() - 1)
            var inside = y.le(last) & y.ge(V(0))
            var by = inside.select(y, V(0))
            comptime if kind == 3:
                return inside.select(x << by, V(0))
            var gone = V(0)
            comptime if output.dtype.is_signed():
                gone = x >> last
            return inside.select(x >> by, gone)

        foreach[target=target](f, output, ctx)


@extensibility.register("fx_bitcast")
struct Bitcast:
    """The bits of `a` as another element type of the same width."""

    @staticmethod
    def execute[
        target: StaticString
    ](output: OutputTensor, a: InputTensor[rank=output.rank, ...], ctx: DeviceContext) raises:
        def f[width: Int](idx: Coord) {var a} -> SIMD[output.dtype, width]:
            return bitcast[output.dtype, width](a.load[width](idx))

        foreach[target=target](f, output, ctx)


@extensibility.register("fx_copy")
struct Copy:
    """The same elements, written to memory: a barrier that nothing is fused across."""

    @staticmethod
    def execute[
        target: StaticString
    ](output: OutputTensor, a: InputTensor[dtype=output.dtype, rank=output.rank, ...], ctx: DeviceContext) raises:
        def f[width: Int](idx: Coord) {var a} -> SIMD[output.dtype, width]:
            return a.load[width](idx)

        foreach[target=target](f, output, ctx)
