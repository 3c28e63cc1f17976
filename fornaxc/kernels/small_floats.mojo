"""float32 to and from floats of 8 bits and fewer, each in a byte, by integer arithmetic: no hardware rounding or flushing. Any device.

A format is its width `bits`, the width `mantissa` of its fraction, its exponent `bias`, and its `flavour`: 0 has infinities and NaN as
IEEE 754 does, 1 has NaN where all bits are one (fn), 2 has NaN in place of -0 (fnuz), 3 has neither, 4 is a bare exponent (e8m0).
"""

import extensibility
from extensibility import InputTensor, OutputTensor, foreach
from layout import Coord
from max.gpu.host import DeviceContext
from std.memory import bitcast

comptime QUIET = UInt32(0x7FC00000)


def _value[
    bits: Int, mantissa: Int, bias: Int, flavour: Int, width: Int
](byte: SIMD[DType.uint8, width]) -> SIMD[DType.float32, width]:
    """The number that a byte stands for; exact."""
    comptime V = SIMD[DType.uint32, width]
    var code = byte.cast[DType.uint32]() & V((1 << bits) - 1)
    comptime if flavour == 4:
        var power = code.eq(V(0)).select(V(0x400000), code << V(23))
        return bitcast[DType.float32, width](code.eq(V(255)).select(V(QUIET), power))
    var size = code & V((1 << (bits - 1)) - 1)
    var sign = (code >> V(bits - 1)) << V(31)
    var exponent = size >> V(mantissa)
    var fraction = size & V((1 << mantissa) - 1)
    var normal = ((exponent + V(127 - bias)) << V(23)) | (fraction << V(23 - mantissa))
    comptime step = SIMD[DType.float32, width](bitcast[DType.float32, 1](UInt32((128 - bias - mantissa) << 23)))
    var tiny = bitcast[DType.uint32, width](fraction.cast[DType.float32]() * step)
    var value = exponent.eq(V(0)).select(tiny, normal)
    comptime if flavour == 0:
        var top = exponent.eq(V((1 << (bits - 1 - mantissa)) - 1))
        value = top.select(fraction.eq(V(0)).select(V(0x7F800000), V(QUIET)), value)
    comptime if flavour == 1:
        value = size.eq(V((1 << (bits - 1)) - 1)).select(V(QUIET), value)
    comptime if flavour == 2:
        value = code.eq(V(1 << (bits - 1))).select(V(QUIET), value)
    return bitcast[DType.float32, width](value | sign)


def _code[
    bits: Int, mantissa: Int, bias: Int, flavour: Int, saturate: Int, width: Int
](number: SIMD[DType.float32, width]) -> SIMD[DType.uint8, width]:
    """The byte for a number rounded half to even (e8m0: half up).

    Beyond the largest value: that value where `saturate`, else infinity, NaN, or the largest value where there are neither. NaN
    stays NaN; without NaN it is 0 of the other sign.
    """
    comptime V = SIMD[DType.uint32, width]
    var raw = bitcast[DType.uint32, width](number)
    var size = raw & V(0x7FFFFFFF)
    var exponent = size >> V(23)
    var nan = size.gt(V(0x7F800000))
    comptime if flavour == 4:
        var power = exponent + ((size >> V(22)) & V(1))
        power = exponent.eq(V(0)).select(size.ge(V(0x600000)).select(V(1), V(0)), power)
        power = min(power, V(254 if saturate != 0 else 255))
        var none = nan | size.eq(V(0)) | raw.gt(V(0x7FFFFFFF))
        return none.select(V(255), power).cast[DType.uint8]()
    comptime least = V(128 - bias)  # the exponent of the smallest normal number, as float32 biases it
    var below = max(exponent, least) - exponent
    var shift = min(V(23 - mantissa) + below, V(31))
    var whole = (size & V(0x7FFFFF)) | V(0x800000)
    var rounded = (whole + (V(1) << (shift - V(1))) - V(1) + ((whole >> shift) & V(1))) >> shift
    var code = ((max(exponent, least) - least) << V(mantissa)) + rounded
    comptime all_ones = (1 << (bits - 1)) - 1
    comptime infinity = ((1 << (bits - 1 - mantissa)) - 1) << mantissa
    comptime largest = infinity - 1 if flavour == 0 else all_ones - 1 if flavour == 1 else all_ones
    var over = code.gt(V(largest))
    var sign = (raw >> V(31)) << V(bits - 1)
    comptime if flavour == 3:
        return nan.select(sign ^ V(1 << (bits - 1)), min(code, V(largest)) | sign).cast[DType.uint8]()
    comptime if flavour == 2:
        comptime if saturate != 0:
            nan = nan | size.eq(V(0x7F800000))
            code = min(code, V(largest))
        else:
            nan = nan | over
        var signed = code.eq(V(0)).select(V(0), code | sign)
        return nan.select(V(1 << (bits - 1)), signed).cast[DType.uint8]()
    comptime beyond = largest if saturate != 0 else infinity if flavour == 0 else all_ones
    comptime quiet = infinity | (1 << (mantissa - 1)) if flavour == 0 else all_ones
    return (nan.select(V(quiet), over.select(V(beyond), code)) | sign).cast[DType.uint8]()


@extensibility.register("fx_small_to_f32")
struct SmallToF32:
    """The value of each byte."""

    @staticmethod
    def execute[
        bits: Int, mantissa: Int, bias: Int, flavour: Int, target: StaticString
    ](
        output: OutputTensor[dtype=DType.float32, rank=1, ...],
        a: InputTensor[dtype=DType.uint8, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        def f[width: Int](idx: Coord) {var a} -> SIMD[output.dtype, width]:
            return _value[bits, mantissa, bias, flavour, width](a.load[width](idx))

        foreach[target=target](f, output, ctx)


@extensibility.register("fx_f32_to_small")
struct F32ToSmall:
    """The byte for each number."""

    @staticmethod
    def execute[
        bits: Int, mantissa: Int, bias: Int, flavour: Int, saturate: Int, target: StaticString
    ](
        output: OutputTensor[dtype=DType.uint8, rank=1, ...],
        a: InputTensor[dtype=DType.float32, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        def f[width: Int](idx: Coord) {var a} -> SIMD[output.dtype, width]:
            return _code[bits, mantissa, bias, flavour, saturate, width](a.load[width](idx))

        foreach[target=target](f, output, ctx)


@extensibility.register("fx_wrap")
struct Wrap:
    """Integers modulo 2 to the power `bits`, signed where the element type is."""

    @staticmethod
    def execute[
        bits: Int, target: StaticString
    ](output: OutputTensor[rank=1, ...], a: InputTensor[dtype=output.dtype, rank=1, ...], ctx: DeviceContext) raises:
        def f[width: Int](idx: Coord) {var a} -> SIMD[output.dtype, width]:
            comptime spare = SIMD[output.dtype, width](8 - bits)
            return (a.load[width](idx) << spare) >> spare

        foreach[target=target](f, output, ctx)
