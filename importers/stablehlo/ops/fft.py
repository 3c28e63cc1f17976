"""Fourier transforms as matrix products: short lengths at once, composite ones through their factors."""

from __future__ import annotations

import numpy as np

from fornaxc.importers.stablehlo.context import OpContext
from fornaxc.importers.stablehlo.ops.complex_numbers import as_complex, multiply
from fornaxc.importers.stablehlo.ops.shape import flip
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Complex, Operand
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Array, Value
from fornaxc.ir.ops import Binary, MatMul, Unary

AT_ONCE = 64  # lengths up to which one matrix product is the transform


@stablehlo_op("stablehlo.fft")
def fft(ctx: OpContext) -> Operand:
    kind = ctx.word("fft_type")
    lengths = ctx.ints("fft_length")
    b, operand = ctx.b, ctx.operands[0]
    count = len(lengths)
    out = ctx.result_info().shape
    if any(size == 0 for size in out):
        zero = c.full(b, 0, _part(operand).type.with_shape(tuple(0 if d is None else d for d in out)))
        return zero if kind == "IRFFT" else Complex(zero, zero)
    x = as_complex(b, operand)
    rank = x.re.type.rank
    axes = list(range(rank - count, rank))
    if kind == "RFFT":
        x = _along(b, x, axes[-1], lengths[-1], -1)
        half = lengths[-1] // 2 + 1
        x = Complex(*(c.slice_axis(b, v, axes[-1], 0, half) for v in (x.re, x.im)))
        for axis, length in zip(axes[:-1], lengths[:-1], strict=True):
            x = _along(b, x, axis, length, -1)
        return x
    sign = -1 if kind == "FFT" else 1
    last = axes[-1:] if kind == "IRFFT" else []
    for axis, length in zip(axes, lengths, strict=True):
        if axis not in last:
            x = _along(b, x, axis, length, sign)
    if kind == "IRFFT":
        x = _along(b, _mirrored(b, x, axes[-1], lengths[-1]), axes[-1], lengths[-1], 1)
    if sign == 1:
        total = float(np.prod(lengths, dtype=np.float64))
        x = Complex(*(c.with_scalar(b, "div", v, total) for v in (x.re, x.im)))
    return x.re if kind == "IRFFT" else x


def _part(operand: Operand) -> Value:
    if isinstance(operand, Complex):
        return operand.re
    assert isinstance(operand, Value)
    return operand


def _mirrored(b: GraphBuilder, x: Complex, axis: int, length: int) -> Complex:
    """The whole spectrum of a real signal from its first half; the imaginary parts of its ends do not count."""
    rest = (length - 1) // 2
    ends = np.ones(length // 2 + 1)
    ends[0] = 0
    if length % 2 == 0:
        ends[-1] = 0
    dtype = x.im.type.dtype
    mask = b.literal(ends.astype(dtype.numpy).reshape([-1 if i == axis else 1 for i in range(x.im.type.rank)]))
    im = c.binary(b, "mul", x.im, mask)
    if rest == 0:
        return Complex(x.re, im)
    re_tail = flip(b, c.slice_axis(b, x.re, axis, 1, rest), [axis])
    im_tail = b.emit(Unary("neg"), flip(b, c.slice_axis(b, im, axis, 1, rest), [axis]))
    return Complex(c.concat(b, [x.re, re_tail], axis), c.concat(b, [im, im_tail], axis))


def _along(b: GraphBuilder, x: Complex, axis: int, length: int, sign: int) -> Complex:
    """The transform along one axis; `sign` is that of the exponent. Not scaled."""
    rank = x.re.type.rank
    moved = Complex(*(c.move_axis(b, v, axis, rank - 1) for v in (x.re, x.im)))
    done = _last(b, moved, length, sign)
    return Complex(*(c.move_axis(b, v, rank - 1, axis) for v in (done.re, done.im)))


def _last(b: GraphBuilder, x: Complex, length: int, sign: int) -> Complex:
    factor = _factor(length)
    if length <= AT_ONCE or factor == 1:
        return _by_matrix(b, x, length, sign)
    # x[n1 * rest + n2] -> transform over n1, turn, transform over n2
    rest = length // factor
    lead = x.re.type.shape[:-1]
    rank = len(lead)
    split = Complex(*(c.reshape(b, v, (*lead, factor, rest)) for v in (x.re, x.im)))
    swap = [*range(rank), rank + 1, rank]
    first = _last(b, Complex(*(c.transpose(b, v, swap) for v in (split.re, split.im))), factor, sign)
    angles = sign * 2 * np.pi * np.outer(np.arange(rest), np.arange(factor)) / length
    turn = Complex(*(_table(b, x.re, f(angles), first.re) for f in (np.cos, np.sin)))
    turned = multiply(b, first, turn)
    second = _last(b, Complex(*(c.transpose(b, v, swap) for v in (turned.re, turned.im))), rest, sign)
    # second is [..., k1, k2]; the result's index is k1 + factor * k2
    return Complex(*(c.reshape(b, c.transpose(b, v, swap), (*lead, length)) for v in (second.re, second.im)))


def _table(b: GraphBuilder, like: Value, table: Array, target: Value) -> Value:
    return c.expand(b, b.literal(table.astype(like.type.dtype.numpy)), target.type.shape)


def _factor(length: int) -> int:
    """The largest factor up to `AT_ONCE`; 1 where there is none."""
    return next((f for f in range(AT_ONCE, 1, -1) if length % f == 0), 1)


def _by_matrix(b: GraphBuilder, x: Complex, length: int, sign: int) -> Complex:
    turns = np.outer(np.arange(length), np.arange(length)) % length
    angles = sign * 2 * np.pi * turns / length
    dtype = x.re.type.dtype.numpy
    cos, sin = b.literal(np.cos(angles).astype(dtype)), b.literal(np.sin(angles).astype(dtype))
    flat = [c.reshape(b, v, (_rows(v), length)) for v in (x.re, x.im)]
    re = b.emit(Binary("sub"), b.emit(MatMul(), flat[0], cos), b.emit(MatMul(), flat[1], sin))
    im = b.emit(Binary("add"), b.emit(MatMul(), flat[0], sin), b.emit(MatMul(), flat[1], cos))
    return Complex(c.reshape(b, re, x.re.type.shape), c.reshape(b, im, x.re.type.shape))


def _rows(x: Value) -> int:
    from fornaxc.ir.dims import product

    return product(x.type.shape[:-1])  # type: ignore[return-value]
