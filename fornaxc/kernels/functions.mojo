"""Functions of vectors of f32 without branches, on the CPU: the standard library's take up to four times as long. NaN gives NaN.

The coefficients are minimax fits of the relative error, made with floats of 64 bits.
"""

from std.math import fma
from std.memory import bitcast

comptime LOWEST = -88.0  # of an exponent: from -87.68 down, e to it counts as 0
comptime HIGHEST = 89.0  # of an exponent: from 88.38 up, e to it counts as infinity
comptime ROUNDER = 12582912.0 + 127  # 1.5 * 2^23, to which a small number is added without its fraction; then the low bits are the exponent of a power of two
comptime ERF_END = 3.95  # from here on erf is 1, as is the quotient here


@always_inline
def exponential[width: Int](v: SIMD[DType.float32, width]) -> SIMD[DType.float32, width]:
    """e^v of v up to HIGHEST, to 2 units in the last place."""
    comptime V = SIMD[DType.float32, width]
    var x = v.lt(V(LOWEST)).select(V(LOWEST), v)
    var rounded = fma(x, V(1.4426950408889634), V(ROUNDER))
    var n = rounded - V(ROUNDER)
    var r = fma(n, V(0.00021219444005471377), fma(n, V(-0.693359375), x))  # less n ln 2, in two parts
    var p = V(0.001381313893944025)
    comptime for c in [0.00836941972374916, 0.04166845604777336, 0.16666515171527863, 0.4999999403953552, 1.0, 1.0]:
        p = fma(p, r, V(c))
    return p * bitcast[DType.float32](bitcast[DType.int32](rounded) << 23)


@always_inline
def error_function[width: Int](v: SIMD[DType.float32, width]) -> SIMD[DType.float32, width]:
    """erf v, to 3e-7 and within -1 to 1: v times a quotient of polynomials of its square."""
    comptime V = SIMD[DType.float32, width]
    var x = v.lt(V(-ERF_END)).select(V(-ERF_END), v)
    x = x.gt(V(ERF_END)).select(V(ERF_END), x)
    var square = x * x
    var p = V(2.0258969470887678e-06)
    comptime for c in [0.00028468528762459755, 0.003808119334280491, 0.052875325083732605, 0.19154952466487885, 1.1283791065216064]:
        p = fma(p, square, V(c))
    var q = V(3.7831552617717534e-05)
    comptime for c in [0.0011707124067470431, 0.015055011957883835, 0.11455927789211273, 0.5030890107154846, 1.0]:
        q = fma(q, square, V(c))
    var y = x * p / q
    y = y.lt(V(-1)).select(V(-1), y)
    return y.gt(V(1)).select(V(1), y)
