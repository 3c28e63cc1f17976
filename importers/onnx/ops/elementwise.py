"""Arithmetic, comparisons, logic and bits, element by element with numpy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir import compose as c
from fornaxc.ir.graph import Value
from fornaxc.ir.types import DType

Single = Callable[[NodeContext], Value]


def _unary(fn: str) -> Single:
    return lambda ctx: c.unary(ctx.b, fn, ctx.input(0))


def _binary(fn: str) -> Single:
    return lambda ctx: c.binary(ctx.b, fn, ctx.input(0), ctx.input(1))


def _compare(fn: str) -> Single:
    return lambda ctx: c.compare(ctx.b, fn, ctx.input(0), ctx.input(1))


_Table = tuple[tuple[str, str, tuple[int, ...]], ...]

_UNARY: _Table = (
    ("Neg", "neg", (6, 13)),
    ("Abs", "abs", (6, 13)),
    ("Sign", "sign", (9, 13)),
    ("Sqrt", "sqrt", (6, 13)),
    ("Exp", "exp", (6, 13)),
    ("Log", "log", (6, 13)),
    ("Sin", "sin", (7, 22)),
    ("Cos", "cos", (7, 22)),
    ("Tan", "tan", (7, 22)),
    ("Asin", "asin", (7, 22)),
    ("Acos", "acos", (7, 22)),
    ("Atan", "atan", (7, 22)),
    ("Sinh", "sinh", (9, 22)),
    ("Cosh", "cosh", (9, 22)),
    ("Asinh", "asinh", (9, 22)),
    ("Acosh", "acosh", (9, 22)),
    ("Atanh", "atanh", (9, 22)),
    ("Floor", "floor", (6, 13)),
    ("Ceil", "ceil", (6, 13)),
    ("Round", "round", (11, 22)),
    ("Not", "not", (1,)),
    ("BitwiseNot", "not", (18,)),
    ("IsNaN", "is_nan", (9, 13, 20)),
)
for _name, _fn, _versions in _UNARY:
    onnx_op(_name, *_versions)(_unary(_fn))

_BINARY: _Table = (
    ("Add", "add", (7, 13, 14)),
    ("Sub", "sub", (7, 13, 14)),
    ("Mul", "mul", (7, 13, 14)),
    ("Div", "div", (7, 13, 14)),
    ("And", "and", (7,)),
    ("Or", "or", (7,)),
    ("Xor", "xor", (7,)),
    ("BitwiseAnd", "and", (18,)),
    ("BitwiseOr", "or", (18,)),
    ("BitwiseXor", "xor", (18,)),
)
for _name, _fn, _versions in _BINARY:
    onnx_op(_name, *_versions)(_binary(_fn))

_COMPARE: _Table = (
    ("Equal", "eq", (7, 11, 13, 19)),
    ("Greater", "gt", (7, 9, 13)),
    ("Less", "lt", (7, 9, 13)),
    ("GreaterOrEqual", "ge", (12, 16)),
    ("LessOrEqual", "le", (12, 16)),
)
for _name, _fn, _versions in _COMPARE:
    onnx_op(_name, *_versions)(_compare(_fn))


@onnx_op("Reciprocal", 6, 13)
def reciprocal(ctx: NodeContext) -> Value:
    x = ctx.input(0)
    return c.binary(ctx.b, "div", c.scalar(ctx.b, 1, x.type.dtype), x)


@onnx_op("Erf", 9, 13)
def erf(ctx: NodeContext) -> Value:
    x = ctx.input(0)
    ctx.refuse_unless(x.type.dtype.is_float, f"Erf of {x.type.dtype}")
    return c.unary(ctx.b, "erf", x)


@onnx_op("Mod", 10, 13)
def mod_of_integers(ctx: NodeContext) -> Value:
    """The divisor's sign, integers only; with fmod the dividend's sign."""
    truncated = ctx.int("fmod", 0)
    ctx.require(bool(truncated) or not ctx.input(0).type.dtype.is_float, "Mod of floating point numbers needs fmod=1")
    return c.binary(ctx.b, "rem" if truncated else "mod", ctx.input(0), ctx.input(1))


@onnx_op("Mod", 28)
def mod(ctx: NodeContext) -> Value:
    """The divisor's sign; with fmod the dividend's sign."""
    return c.binary(ctx.b, "rem" if ctx.int("fmod", 0) else "mod", ctx.input(0), ctx.input(1))


@onnx_op("Pow", 7, 12, 13, 15)
def power(ctx: NodeContext) -> Value:
    """The result has the base's type; the exponent may have another one."""
    b, base, exponent = ctx.b, ctx.input(0), ctx.input(1)
    dtype = base.type.dtype
    if exponent.type.elements == 1 and exponent.type.rank <= base.type.rank and _is_two(ctx, exponent):
        return c.binary(b, "mul", base, base)
    if exponent.type.dtype.is_float and not dtype.is_float:
        power = c.cast(b, exponent, DType.F64)
        wide = c.binary(b, "pow", c.cast(b, base, DType.F64), power)
        natural = c.compare(b, "eq", power, c.unary(b, "floor", c.unary(b, "relu", power)))
        return c.cast(b, c.select(b, natural, c.unary(b, "round", wide), wide), dtype)  # devices give 9**3 as 728.99...
    return c.binary(b, "pow", base, c.cast(b, exponent, dtype))


def _is_two(ctx: NodeContext, value: Value) -> bool:
    content = ctx.content(value)
    return content is not None and content.dtype != object and float(content.reshape(()).item()) == 2


def _shift(ctx: NodeContext) -> str:
    direction = ctx.string("direction")
    ctx.require(direction in ("LEFT", "RIGHT"), f"no shift direction {direction!r}")
    return "shl" if direction == "LEFT" else "shr"


@onnx_op("BitShift", 11)
def bit_shift_unsigned(ctx: NodeContext) -> Value:
    """Shifts by the width and more are not defined."""
    return c.binary(ctx.b, _shift(ctx), ctx.input(0), ctx.input(1))


@onnx_op("BitShift", 28)
def bit_shift(ctx: NodeContext) -> Value:
    """Shifts below 0, or by the width and more, leave the sign (right shifts of negative numbers: -1) or 0."""
    b, fn = ctx.b, _shift(ctx)
    x, amount = c.broadcast(b, ctx.input(0), ctx.input(1))
    dtype = x.type.dtype
    outside = c.compare(b, "ge", amount, c.scalar(b, dtype.bits, dtype))
    if dtype.is_signed:
        outside = c.binary(b, "or", outside, c.compare(b, "lt", amount, c.scalar(b, 0, dtype)))
    shifted = c.binary(b, fn, x, c.select(b, outside, c.scalar(b, dtype.bits - 1, dtype), amount))
    if fn == "shr" and dtype.is_signed:
        return shifted
    return c.select(b, outside, c.scalar(b, 0, dtype), shifted)


@onnx_op("IsInf", 10, 20)
def is_inf(ctx: NodeContext) -> Value:
    b, x = ctx.b, ctx.input(0)
    negative, positive = ctx.int("detect_negative", 1), ctx.int("detect_positive", 1)
    if negative and positive:
        return c.unary(b, "is_inf", x)
    if not negative and not positive:
        return c.full(b, False, x.type.with_dtype(DType.BOOL))
    infinity = c.scalar(b, -np.inf if negative else np.inf, x.type.dtype)
    return c.compare(b, "eq", x, infinity)


def _fold(fn: str) -> Single:
    return lambda ctx: reduce(lambda a, v: c.binary(ctx.b, fn, a, v), ctx.variadic)


_VARIADIC: _Table = (
    ("Min", "min", (6, 8, 12, 13)),
    ("Max", "max", (6, 8, 12, 13)),
    ("Sum", "add", (6, 8, 13)),
)
for _name, _fn, _versions in _VARIADIC:
    onnx_op(_name, *_versions)(_fold(_fn))


@onnx_op("Mean", 6, 8, 13)
def mean(ctx: NodeContext) -> Value:
    return c.with_scalar(ctx.b, "div", _fold("add")(ctx), len(ctx.inputs))


@onnx_op("Where", 9, 16)
def where(ctx: NodeContext) -> Value:
    return c.select(ctx.b, ctx.input(0), ctx.input(1), ctx.input(2))


@onnx_op("Clip", 6)
def clip_attributes(ctx: NodeContext) -> Value:
    """The bounds default to the finite range of f32."""
    x, largest = ctx.input(0), float(np.finfo(np.float32).max)
    raised = c.with_scalar(ctx.b, "max", x, ctx.float("min", -largest))
    return c.with_scalar(ctx.b, "min", raised, ctx.float("max", largest))


@onnx_op("Clip", 11, 12, 13)
def clip(ctx: NodeContext) -> Value:
    """min(max(x, low), high): where low > high, high. An absent bound does not bound."""
    x = ctx.input(0)
    for index, fn in ((1, "max"), (2, "min")):
        bound = ctx.optional(index)
        if bound is not None:
            x = c.binary(ctx.b, fn, x, c.reshape(ctx.b, bound, ()))
    return x
