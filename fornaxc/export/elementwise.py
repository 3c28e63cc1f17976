"""Elementwise operations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fornaxc.export import floats
from fornaxc.export.context import ExportContext, Tensor
from fornaxc.export.registry import export
from fornaxc.importers.onnx.types import element_number
from fornaxc.ir.ops import Binary, Bitcast, Cast, Compare, Select, Unary
from fornaxc.ir.ops.elementwise import FLOAT_UNARY, integer_range
from fornaxc.ir.types import DType

Function = Callable[[ExportContext, Tensor], Tensor]

_SAME = {"exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tanh": "Tanh", "ceil": "Ceil"}
_SAME |= {"floor": "Floor", "round": "Round", "abs": "Abs", "is_nan": "IsNaN", "is_inf": "IsInf"}
_IN_F32 = {"tan": "Tan", "asin": "Asin", "acos": "Acos", "sinh": "Sinh", "cosh": "Cosh", "acosh": "Acosh"}


def _tan(c: ExportContext, x: Tensor) -> Tensor:
    return c.emit("Div", c.emit("Sin", x), c.emit("Cos", x))


def _sign(c: ExportContext, x: Tensor) -> Tensor:
    plain = c.emit("Sign", x)
    return c.select(c.emit("IsNaN", x), x, plain) if x.dtype.is_float else plain


_COMPOSED: dict[str, Function] = {
    "expm1": floats.expm1,
    "log1p": floats.log1p,
    "rsqrt": lambda c, x: c.emit("Div", c.scalar(1, x.dtype), c.emit("Sqrt", x)),
    "tan": _tan,
    "asin": floats.asin,
    "acos": floats.acos,
    "atan": floats.atan,
    "sinh": floats.sinh,
    "cosh": floats.cosh,
    "asinh": floats.asinh,
    "acosh": floats.acosh,
    "atanh": floats.atanh,
    "erf": floats.erf,
    "sigmoid": floats.sigmoid,
    "softplus": floats.softplus,
    "silu": lambda c, x: c.emit("Mul", x, floats.sigmoid(c, x)),
    "gelu": floats.gelu,
    "gelu_tanh": floats.gelu_tanh,
    "trunc": floats.trunc,
    "relu": floats.relu,
    "neg": lambda c, x: c.emit("Neg", x) if x.dtype.is_signed else c.emit("Sub", c.scalar(0, x.dtype), x),
    "sign": _sign,
}


_NAMED: dict[str, tuple[str, dict[str, str]]] = {
    "relu": ("Relu", {}),
    "gelu": ("Gelu", {}),
    "gelu_tanh": ("Gelu", {"approximate": "tanh"}),
}


@export(Unary)
def _unary(c: ExportContext, op: Unary, x: Tensor) -> Tensor:
    if op.fn in _NAMED and not c.exact and x.dtype.is_float and x.dtype.bits >= 16:
        name, attributes = _NAMED[op.fn]
        return c.raw(name, [x], (x.dtype,), **attributes)[0]
    return unary(c, op.fn, x)


def unary(c: ExportContext, fn: str, x: Tensor) -> Tensor:
    """`fn` of each element by the rules of `Unary`; narrow floats are computed in f32."""
    if fn == "not":
        return c.emit("Not" if x.dtype is DType.BOOL else "BitwiseNot", x)
    if fn in _SAME:
        return c.emit(_SAME[fn], x)
    if fn in FLOAT_UNARY and x.dtype not in (DType.F32, DType.F64):
        return c.cast(unary(c, fn, c.cast(x, DType.F32)), x.dtype)
    if fn in _IN_F32 and x.dtype is DType.F32:
        return c.emit(_IN_F32[fn], x)
    return _COMPOSED[fn](c, x)


_BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "and": "BitwiseAnd", "or": "BitwiseOr", "xor": "BitwiseXor"}
_BOOLEAN = {"and": "And", "or": "Or", "xor": "Xor"}


@export(Binary)
def _binary(c: ExportContext, op: Binary, a: Tensor, b: Tensor) -> Tensor:
    fn = op.fn
    if fn in _BINARY:
        return c.emit(_BOOLEAN[fn] if a.dtype is DType.BOOL else _BINARY[fn], a, b)
    if fn in ("min", "max"):
        return extreme(c, fn, a, b)
    if fn in ("shl", "shr"):
        return _shift(c, fn, a, b)
    if a.dtype not in (DType.F32, DType.F64) and a.dtype.is_float:
        wide = _float_binary(c, fn, c.cast(a, DType.F32), c.cast(b, DType.F32))
        return c.cast(wide, a.dtype)
    if a.dtype.is_float:
        return _float_binary(c, fn, a, b)
    if fn == "pow":
        wide = c.emit("Pow", c.cast(a, DType.F64), c.cast(b, DType.F64))
        return c.cast(saturated(c, wide, DType.U64 if a.dtype is DType.U64 else DType.I64), a.dtype)
    return _integer_division(c, fn, a, b)


def extreme(c: ExportContext, fn: str, a: Tensor, b: Tensor) -> Tensor:
    """The smaller ("min") or larger; NaN if either is."""
    result = c.emit("Min" if fn == "min" else "Max", a, b)
    if not a.dtype.is_float:
        return result
    either = c.emit("Or", c.emit("IsNaN", a), c.emit("IsNaN", b))
    return c.select(either, c.emit("Add", a, b), result)


def _float_binary(c: ExportContext, fn: str, a: Tensor, b: Tensor) -> Tensor:
    match fn:
        case "div":
            return c.emit("Div", a, b)
        case "rem":
            return c.emit("Mod", a, b, fmod=1)
        case "pow":
            return c.emit("Pow", a, b)
        case "atan2":
            return floats.atan2(c, a, b)
    rest = c.emit("Mod", a, b, fmod=1)
    zero = c.scalar(0, a.dtype)
    signs_differ = c.emit("Xor", c.emit("Less", rest, zero), c.emit("Less", b, zero))
    moves = c.emit("And", signs_differ, c.emit("Not", c.emit("Equal", rest, zero)))
    return c.select(moves, c.emit("Add", rest, b), rest)


def _integer_division(c: ExportContext, fn: str, a: Tensor, b: Tensor) -> Tensor:
    """div, mod, rem. Divisors 0 and -1 go another way: they would end the process. By 0, div gives 0, the others a."""
    assert c.node is not None
    known = c.constant_array(c.node.inputs[1])
    by_zero = known is None or bool(np.any(known == 0))
    by_minus_one = b.dtype.is_signed and (known is None or bool(np.any(known == -1)))
    zero, one = c.scalar(0, a.dtype), c.scalar(1, a.dtype)
    safe = b
    if by_zero:
        safe = c.select(c.emit("Equal", b, zero), one, safe)
    if by_minus_one:
        is_minus_one = c.emit("Equal", b, c.scalar(-1, a.dtype))
        safe = c.select(is_minus_one, one, safe)
    if fn == "div":
        result = c.emit("Div", a, safe)
        if by_minus_one:
            result = c.select(is_minus_one, c.emit("Sub", zero, a), result)
        return c.select(c.emit("Equal", b, zero), zero, result) if by_zero else result
    result = c.emit("Mod", a, safe, fmod=int(fn == "rem"))
    return c.select(c.emit("Equal", b, zero), a, result) if by_zero else result


_UNSIGNED = {DType.I8: DType.U8, DType.I16: DType.U16, DType.I32: DType.U32, DType.I64: DType.U64}


def _shift(c: ExportContext, fn: str, a: Tensor, b: Tensor) -> Tensor:
    """Shifts by the width or more leave nothing, or the sign."""
    dtype = a.dtype
    if dtype.bits < 8:
        wide = DType.I8 if dtype.is_signed else DType.U8
        count = c.cast(b, wide)
        narrow = c.emit("Less", count, c.scalar(dtype.bits, wide))
        inside = _shift(c, fn, c.cast(a, wide), c.select(narrow, count, c.scalar(8, wide)))
        return c.cast(inside, dtype)
    bits = _UNSIGNED.get(dtype, dtype)
    count = c.cast(b, bits)
    zero = c.scalar(0, bits)
    short = c.emit("Less", count, c.scalar(dtype.bits, bits))
    count = c.select(short, count, zero)
    if fn == "shl" or not dtype.is_signed:
        moved = c.emit("BitShift", c.cast(a, bits), count, direction="LEFT" if fn == "shl" else "RIGHT")
        return c.cast(c.select(short, moved, zero), dtype)
    below = c.emit("Less", a, c.scalar(0, dtype))
    positive = c.select(below, c.emit("BitwiseNot", a), a)
    moved = c.emit("BitShift", c.cast(positive, bits), count, direction="RIGHT")
    moved = c.cast(c.select(short, moved, zero), dtype)
    return c.select(below, c.emit("BitwiseNot", moved), moved)


_COMPARE = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}


@export(Compare)
def _compare(c: ExportContext, op: Compare, a: Tensor, b: Tensor) -> Tensor:
    if op.fn == "ne":
        return c.emit("Not", c.emit("Equal", a, b))
    return c.emit(_COMPARE[op.fn], a, b)


@export(Select)
def _select(c: ExportContext, op: Select, condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    return c.select(condition, yes, no)


@export(Cast)
def _cast(c: ExportContext, op: Cast, x: Tensor) -> Tensor:
    if x.dtype is op.dtype:
        return c.emit("Identity", x)
    if op.dtype.is_integer and x.dtype.is_float:
        return saturated(c, x, op.dtype)
    if op.dtype is DType.BOOL:
        wide = c.cast(x, DType.F32) if x.dtype.is_float and x.dtype is not DType.F64 else x
        wide = c.cast(wide, DType.I32) if wide.dtype.is_integer and wide.dtype.bits < 8 else wide
        return c.emit("Not", c.emit("Equal", wide, c.scalar(0, wide.dtype)))
    if op.dtype.is_float and op.dtype.bits <= 8:
        return c.small_float(c.cast(x, DType.F32), op.dtype, op.saturate)
    return c.cast(x, op.dtype)


def saturated(c: ExportContext, x: Tensor, dtype: DType) -> Tensor:
    """Floats as integers: towards zero, saturating, NaN to 0."""
    low, high = integer_range(dtype)
    wide = DType.F64 if x.dtype is DType.F64 or dtype.bits > 16 else DType.F32
    x = c.cast(x, wide)
    x = c.select(c.emit("IsNaN", x), c.scalar(0, wide), x)
    x = c.emit("Max", x, c.scalar(low, wide))
    carrier = dtype if dtype.bits >= 8 else DType.I32
    if dtype.bits < 64:
        return c.cast(c.cast(c.emit("Min", x, c.scalar(high, wide)), carrier), dtype)
    above = c.emit("GreaterOrEqual", x, c.scalar(float(high), wide))
    inside = c.cast(c.select(above, c.scalar(0, wide), x), dtype)
    return c.select(above, c.literal(np.array(high, dtype.numpy)), inside)


@export(Bitcast)
def _bitcast(c: ExportContext, op: Bitcast, x: Tensor) -> Tensor:
    if x.dtype is op.dtype:
        return c.emit("Identity", x)
    if DType.BOOL in (x.dtype, op.dtype):
        byte = x if x.dtype is not DType.BOOL else c.cast(x, DType.U8)
        if op.dtype is DType.BOOL:
            return c.emit("Not", c.emit("Equal", byte, c.scalar(0, byte.dtype)))
        return byte if op.dtype is DType.U8 else _bits(c, byte, op.dtype)
    if x.dtype.bits < 8 and x.dtype.is_integer and op.dtype.is_integer:
        return c.cast(c.cast(x, DType.I32), op.dtype)
    return _bits(c, x, op.dtype)


def _bits(c: ExportContext, x: Tensor, dtype: DType) -> Tensor:
    if x.dtype.bits == 8 and x.dtype.is_integer and dtype.is_float:
        c.check(dtype)
        every = c.cast(c.literal(np.arange(256, dtype=np.uint8).view(dtype.numpy)), DType.F32)
        row = c.cast(c.cast(x, DType.U8), DType.I32)
        return c.cast(c.emit("Gather", every, row, axis=0), dtype)
    for d in (x.dtype, dtype):
        if d.bits < 8 or (d.is_float and d.bits == 8):
            c.refuse(f"onnxruntime does not give the bits of {d}")
    return c.raw("BitCast", [x], (dtype,), to=element_number(dtype))[0]
