"""Functions of floats that jump at 0, whole numbers for results, which the bits decide there. Any device."""

import extensibility
from extensibility import InputTensor, OutputTensor, foreach
from layout import Coord
from max.gpu.host import DeviceContext
from std.math import ceil, floor
from std.memory import bitcast
from std.sys import size_of


def bits_of[dtype: DType]() -> DType:
    """The unsigned type as wide as a float."""
    comptime if size_of[dtype]() == 8:
        return DType.uint64
    comptime if size_of[dtype]() == 4:
        return DType.uint32
    return DType.uint16


@extensibility.register("fx_whole")
struct Whole:
    """`kind`: 0 floor, 1 ceil, 2 sign, of floats. Below 1 the bits decide: MAX's elementwise kernels take subnormal numbers for 0."""

    @staticmethod
    def execute[
        kind: Int, target: StaticString
    ](output: OutputTensor, a: InputTensor[dtype=output.dtype, rank=output.rank, ...], ctx: DeviceContext) raises:
        def f[width: Int](idx: Coord) {var a} -> SIMD[output.dtype, width]:
            comptime U = bits_of[output.dtype]()
            comptime V = SIMD[output.dtype, width]
            comptime B = SIMD[U, width]
            var x = a.load[width](idx)
            var bits = bitcast[U, width](x)
            var size = bits & ~(B(1) << B(size_of[output.dtype]() * 8 - 1))
            var sign = bits ^ size
            var one = bitcast[U, width](V(1))
            var zero = bitcast[output.dtype, width](sign)
            comptime if kind == 2:
                var infinite = bitcast[U, width](V(1) / V(0))
                var unit = bitcast[output.dtype, width](one | sign)
                return (size.eq(B(0)) | size.gt(infinite)).select(x, unit)
            comptime if kind == 0:
                var below = (sign.ne(B(0)) & size.ne(B(0))).select(V(-1), zero)
                return size.lt(one).select(below, floor(x))
            var above = (sign.eq(B(0)) & size.ne(B(0))).select(V(1), zero)
            return size.lt(one).select(above, ceil(x))

        foreach[target=target](f, output, ctx)
