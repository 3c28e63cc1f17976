"""Functions of floats that ONNX or onnxruntime lacks, or gives too coarsely, from those that it has."""

from __future__ import annotations

import math

import numpy as np

from fornaxc.export.context import ExportContext, Tensor
from fornaxc.importers.onnx.types import element_number
from fornaxc.ir.types import DType

_QUADRATURE = 48  # nodes that give erf to 1e-15 up to _ERF_END, from where on it is 1
_ERF_END = 6.0


def log1p(c: ExportContext, x: Tensor) -> Tensor:
    """log(1 + x); what 1 + x rounds away is put back by the quotient."""
    one = c.scalar(1, x.dtype)
    moved = c.emit("Add", x, one)
    rest = c.emit("Sub", moved, one)
    plain = c.emit("Log", moved)
    scaled = c.emit("Mul", plain, c.emit("Div", x, rest))
    kept = c.select(c.emit("Equal", rest, c.scalar(0, x.dtype)), x, scaled)
    return c.select(c.emit("IsInf", moved), plain, kept)


def expm1(c: ExportContext, x: Tensor) -> Tensor:
    """exp(x) - 1, in the same way."""
    one = c.scalar(1, x.dtype)
    grown = c.emit("Exp", x)
    rest = c.emit("Sub", grown, one)
    scaled = c.emit("Mul", rest, c.emit("Div", x, c.emit("Log", grown)))
    kept = c.select(c.emit("Equal", rest, c.scalar(0, x.dtype)), x, scaled)
    ends = c.emit("Or", c.emit("Equal", rest, c.scalar(-1, x.dtype)), c.emit("IsInf", grown))
    return c.select(ends, rest, kept)


def sign_like(c: ExportContext, size: Tensor, x: Tensor) -> Tensor:
    """`size` (not negative) with the sign of x, that of a zero too."""
    return c.select(is_negative(c, x), c.emit("Neg", size), size)


def is_negative(c: ExportContext, x: Tensor) -> Tensor:
    """True for numbers below 0 and for -0."""
    bits = DType.I64 if x.dtype is DType.F64 else DType.I32
    (pattern,) = c.raw("BitCast", [x], (bits,), to=element_number(bits))
    return c.emit("Less", pattern, c.scalar(0, bits))


def trunc(c: ExportContext, x: Tensor) -> Tensor:
    return c.select(c.emit("Less", x, c.scalar(0, x.dtype)), c.emit("Ceil", x), c.emit("Floor", x))


def sinh(c: ExportContext, x: Tensor) -> Tensor:
    """(e + e / (e + 1)) / 2 of e = expm1(|x|); exp(|x| / 2)^2 / 2 where e overflows."""
    size = c.emit("Abs", x)
    half = c.scalar(0.5, x.dtype)
    grown = expm1(c, size)
    near = c.emit("Mul", half, c.emit("Add", grown, c.emit("Div", grown, c.emit("Add", grown, c.scalar(1, x.dtype)))))
    root = c.emit("Exp", c.emit("Mul", half, size))
    far = c.emit("Mul", c.emit("Mul", half, root), root)
    return sign_like(c, c.select(c.emit("Greater", size, c.scalar(20, x.dtype)), far, near), x)


def cosh(c: ExportContext, x: Tensor) -> Tensor:
    half = c.scalar(0.5, x.dtype)
    root = c.emit("Exp", c.emit("Mul", half, c.emit("Abs", x)))
    inverse = c.emit("Div", half, root)
    return c.emit("Add", c.emit("Mul", c.emit("Mul", half, root), root), c.emit("Div", inverse, root))


def asinh(c: ExportContext, x: Tensor) -> Tensor:
    """log1p(|x| + x^2 / (1 + sqrt(x^2 + 1))); log(|x|) + log(2) where x^2 overflows."""
    one, size = c.scalar(1, x.dtype), c.emit("Abs", x)
    square = c.emit("Mul", x, x)
    root = c.emit("Sqrt", c.emit("Add", square, one))
    near = log1p(c, c.emit("Add", size, c.emit("Div", square, c.emit("Add", one, root))))
    far = c.emit("Add", c.emit("Log", size), c.scalar(math.log(2), x.dtype))
    return sign_like(c, c.select(c.emit("Greater", size, c.scalar(1e15, x.dtype)), far, near), x)


def acosh(c: ExportContext, x: Tensor) -> Tensor:
    """log1p(t + sqrt(2 t + t^2)) of t = x - 1."""
    moved = c.emit("Sub", x, c.scalar(1, x.dtype))
    inside = c.emit("Mul", moved, c.emit("Add", moved, c.scalar(2, x.dtype)))
    near = log1p(c, c.emit("Add", moved, c.emit("Sqrt", inside)))
    far = c.emit("Add", c.emit("Log", x), c.scalar(math.log(2), x.dtype))
    return c.select(c.emit("Greater", x, c.scalar(1e15, x.dtype)), far, near)


def atanh(c: ExportContext, x: Tensor) -> Tensor:
    """log1p(2 |x| / (1 - |x|)) / 2, with the sign of x."""
    size = c.emit("Abs", x)
    ratio = c.emit("Div", c.emit("Add", size, size), c.emit("Sub", c.scalar(1, x.dtype), size))
    return sign_like(c, c.emit("Mul", c.scalar(0.5, x.dtype), log1p(c, ratio)), x)


def atan(c: ExportContext, x: Tensor) -> Tensor:
    """In f64 the f32 answer y, and of the small rest d of the angle d - d^3 / 3."""
    if x.dtype is not DType.F64:
        return c.emit("Atan", x)
    (rough,) = c.raw("Atan", [c.cast(x, DType.F32)], (DType.F32,))
    y = c.cast(rough, DType.F64)
    sine, cosine = c.emit("Sin", y), c.emit("Cos", y)
    top = c.emit("Sub", c.emit("Mul", x, cosine), sine)
    rest = c.emit("Div", top, c.emit("Add", cosine, c.emit("Mul", x, sine)))
    cube = c.emit("Mul", rest, c.emit("Mul", rest, rest))
    fine = c.emit("Add", y, c.emit("Sub", rest, c.emit("Div", cube, c.scalar(3, DType.F64))))
    quarter = c.emit("Mul", c.emit("Sign", x), c.scalar(math.pi / 2, DType.F64))
    return c.select(c.emit("Greater", c.emit("Abs", x), c.scalar(1e30, DType.F64)), quarter, fine)


def asin(c: ExportContext, x: Tensor) -> Tensor:
    one = c.scalar(1, x.dtype)
    across = c.emit("Sqrt", c.emit("Mul", c.emit("Sub", one, x), c.emit("Add", one, x)))
    return atan(c, c.emit("Div", x, across))


def acos(c: ExportContext, x: Tensor) -> Tensor:
    one, two = c.scalar(1, x.dtype), c.scalar(2, x.dtype)
    ratio = c.emit("Div", c.emit("Sub", one, x), c.emit("Add", one, x))
    return c.emit("Mul", two, atan(c, c.emit("Sqrt", ratio)))


def atan2(c: ExportContext, y: Tensor, x: Tensor) -> Tensor:
    """atan(|y| / |x|), mirrored where x is negative, with the sign of y; 0 / 0 counts as 0 and inf / inf as 1."""
    zero, one = c.scalar(0, x.dtype), c.scalar(1, x.dtype)
    tall, wide = c.emit("Abs", y), c.emit("Abs", x)
    ratio = c.emit("Div", tall, wide)
    nowhere = c.emit("And", c.emit("Equal", tall, zero), c.emit("Equal", wide, zero))
    far = c.emit("And", c.emit("IsInf", tall), c.emit("IsInf", wide))
    angle = atan(c, c.select(nowhere, zero, c.select(far, one, ratio)))
    mirrored = c.emit("Sub", c.scalar(math.pi, x.dtype), angle)
    return sign_like(c, c.select(is_negative(c, x), mirrored, angle), y)


def erf(c: ExportContext, x: Tensor) -> Tensor:
    """In f64 the integral of its derivative from 0 to x, by Gauss and Legendre."""
    if x.dtype is not DType.F64:
        return c.emit("Erf", x)
    at, weights = np.polynomial.legendre.leggauss(_QUADRATURE)
    end = c.scalar(_ERF_END, DType.F64)
    bounded = c.emit("Max", c.emit("Min", x, end), c.emit("Neg", end))
    (column,) = c.raw("Unsqueeze", [bounded, c.literal(np.array([-1]))], (DType.F64,))
    points = c.emit("Mul", column, c.literal((at + 1) / 2))
    slopes = c.emit("Exp", c.emit("Neg", c.emit("Mul", points, points)))
    total = c.emit("MatMul", slopes, c.literal(weights / math.sqrt(math.pi)))
    ends = c.emit("GreaterOrEqual", c.emit("Abs", x), end)
    return c.select(ends, c.emit("Sign", x), c.emit("Mul", bounded, total))


def sigmoid(c: ExportContext, x: Tensor) -> Tensor:
    one = c.scalar(1, x.dtype)
    return c.emit("Div", one, c.emit("Add", one, c.emit("Exp", c.emit("Neg", x))))


def softplus(c: ExportContext, x: Tensor) -> Tensor:
    rest = log1p(c, c.emit("Exp", c.emit("Neg", c.emit("Abs", x))))
    return c.emit("Add", relu(c, x), rest)


def relu(c: ExportContext, x: Tensor) -> Tensor:
    zero = c.scalar(0, x.dtype)
    return c.select(c.emit("Less", x, zero), zero, x)


def gelu(c: ExportContext, x: Tensor) -> Tensor:
    inner = erf(c, c.emit("Div", x, c.scalar(math.sqrt(2), x.dtype)))
    return _half_times(c, x, inner)


def gelu_tanh(c: ExportContext, x: Tensor) -> Tensor:
    cube = c.emit("Mul", x, c.emit("Mul", x, x))
    bent = c.emit("Add", x, c.emit("Mul", c.scalar(0.044715, x.dtype), cube))
    return _half_times(c, x, c.emit("Tanh", c.emit("Mul", c.scalar(math.sqrt(2 / math.pi), x.dtype), bent)))


def _half_times(c: ExportContext, x: Tensor, inner: Tensor) -> Tensor:
    half = c.emit("Mul", c.scalar(0.5, x.dtype), x)
    return c.emit("Mul", half, c.emit("Add", c.scalar(1, x.dtype), inner))
