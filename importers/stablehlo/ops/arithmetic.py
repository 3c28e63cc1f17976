"""Building blocks of elementwise handlers: arithmetic with the specification's rules for every element type."""

from __future__ import annotations

from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, Bitcast, Cast, Compare, Select, Unary
from fornaxc.ir.types import DType

_BOOL_BINARY = {
    "add": "or",
    "mul": "and",
    "max": "or",
    "min": "and",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "sub": "xor",
}
_DIRECTION = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}
UNSIGNED = {8: DType.U8, 16: DType.U16, 32: DType.U32, 64: DType.U64, 4: DType.U4, 2: DType.U2}
SIGNED = {8: DType.I8, 16: DType.I16, 32: DType.I32, 64: DType.I64, 4: DType.I4, 2: DType.I2}


def wide_type(dtype: DType) -> DType:
    """The type in which to compute: f32 for floats of 8 bits and fewer, 8 bits for narrower integers."""
    if dtype.is_float and dtype.bits <= 8:
        return DType.F32
    if dtype.is_integer and dtype.bits < 8:
        return DType.I8 if dtype.is_signed else DType.U8
    return dtype


def narrow(b: GraphBuilder, x: Value, dtype: DType) -> Value:
    """`x` as `dtype`: integers wrap, floats overflow as IEEE has it."""
    return x if x.type.dtype is dtype else b.emit(Cast(dtype, saturate=False), x)


def unary(b: GraphBuilder, fn: str, x: Value) -> Value:
    return narrow(b, b.emit(Unary(fn), c.cast(b, x, wide_type(x.type.dtype))), x.type.dtype)


def binary(b: GraphBuilder, fn: str, x: Value, y: Value) -> Value:
    """`fn` of two tensors of one shape. On bools add is or, and mul is and."""
    dtype = x.type.dtype
    if dtype is DType.BOOL:
        return b.emit(Binary(_BOOL_BINARY[fn]), x, y)
    wide = wide_type(dtype)
    return narrow(b, b.emit(Binary(fn), c.cast(b, x, wide), c.cast(b, y, wide)), dtype)


def compare(b: GraphBuilder, direction: str, x: Value, y: Value, *, total: bool = False) -> Value:
    """The comparison EQ, NE, LT, LE, GT or GE of two tensors of one shape; `total` orders floats by IEEE totalOrder."""
    dtype = x.type.dtype
    fn = _DIRECTION[direction]
    if dtype is DType.BOOL and fn in ("eq", "ne"):
        differ = b.emit(Binary("xor"), x, y)
        return differ if fn == "ne" else b.emit(Unary("not"), differ)
    if total and dtype.is_float:
        return b.emit(Compare(fn), total_order_key(b, x), total_order_key(b, y))
    wide = DType.U8 if dtype is DType.BOOL else wide_type(dtype)
    return b.emit(Compare(fn), c.cast(b, x, wide), c.cast(b, y, wide))


def total_order_key(b: GraphBuilder, x: Value) -> Value:
    """Signed integers in the total order of the floats `x`: the bits, those below the sign flipped where it is set."""
    x = c.cast(b, x, wide_type(x.type.dtype))
    bits = x.type.dtype.bits
    signed = b.emit(Bitcast(SIGNED[bits]), x)
    negative = c.compare(b, "lt", signed, c.scalar(b, 0, SIGNED[bits]))
    mask = c.scalar(b, (1 << (bits - 1)) - 1, SIGNED[bits])
    return c.select(b, negative, c.binary(b, "xor", signed, mask), signed)


def integer_divide(b: GraphBuilder, fn: str, x: Value, y: Value) -> Value:
    """div or rem of integers: x / 0 is -1 (all bits set), x rem 0 is x; the least number over -1 is itself, remainder 0."""
    dtype = x.type.dtype
    divisor = b.known(y)
    if divisor is not None and divisor.dtype == object:
        divisor = None
    if divisor is not None and not bool((divisor == 0).any()) and not (dtype.is_signed and bool((divisor == -1).any())):
        return binary(b, fn, x, y)
    wide = wide_type(dtype)
    x, y = c.cast(b, x, wide), c.cast(b, y, wide)
    one = c.full_like(b, 1, y)
    is_zero = b.emit(Compare("eq"), y, c.full_like(b, 0, y))
    safe = b.emit(Select(), is_zero, one, y)
    by_zero = c.full_like(b, -1 if dtype.is_signed else _largest(dtype), y) if fn == "div" else x
    if not dtype.is_signed:
        return narrow(b, b.emit(Select(), is_zero, by_zero, b.emit(Binary(fn), x, safe)), dtype)
    is_minus = b.emit(Compare("eq"), y, c.full_like(b, -1, y))
    safe = b.emit(Select(), is_minus, one, safe)
    by_minus = b.emit(Unary("neg"), x) if fn == "div" else c.full_like(b, 0, x)
    result = b.emit(Select(), is_minus, by_minus, b.emit(Binary(fn), x, safe))
    return narrow(b, b.emit(Select(), is_zero, by_zero, result), dtype)


def _largest(dtype: DType) -> int:
    return (1 << dtype.bits) - 1


def integer_power(b: GraphBuilder, x: Value, y: Value) -> Value:
    """x to the power y for integers, wrapping; a negative power is 0 but for the bases 1 and -1."""
    dtype = x.type.dtype
    wide = wide_type(dtype)
    x, y = c.cast(b, x, wide), c.cast(b, y, wide)
    known = b.known(y)
    bits = wide.bits if known is None or known.dtype == object else max(int(known.max(initial=0)).bit_length(), 1)
    one = c.scalar(b, 1, wide)
    result, square = c.full_like(b, 1, x), x
    for bit in range(bits):
        shifted = c.binary(b, "shr", y, c.scalar(b, bit, wide)) if bit else y
        odd = c.compare(b, "ne", c.binary(b, "and", shifted, one), c.scalar(b, 0, wide))
        result = b.emit(Select(), odd, b.emit(Binary("mul"), result, square), result)
        if bit + 1 < bits:
            square = b.emit(Binary("mul"), square, square)
    if dtype.is_signed and (known is None or known.dtype == object or bool((known < 0).any())):
        negative = c.compare(b, "lt", y, c.scalar(b, 0, wide))
        odd = c.compare(b, "ne", c.binary(b, "and", y, one), c.scalar(b, 0, wide))
        sign = c.select(b, odd, c.scalar(b, -1, wide), one)
        is_one = c.compare(b, "eq", x, one)
        is_minus = c.compare(b, "eq", x, c.scalar(b, -1, wide))
        inverse = c.select(b, is_one, one, c.select(b, is_minus, sign, c.scalar(b, 0, wide)))
        result = c.select(b, negative, inverse, result)
    return narrow(b, result, dtype)


def shift(b: GraphBuilder, kind: str, x: Value, y: Value) -> Value:
    """left, logical or arithmetic shift; an amount that is negative or not below the width shifts all bits out."""
    dtype = x.type.dtype
    bits = dtype.bits
    wide = wide_type(dtype)
    x, y = c.cast(b, x, wide), c.cast(b, y, wide)
    unsigned = UNSIGNED[wide.bits]
    amount = b.emit(Bitcast(unsigned), y) if wide.is_signed else y
    inside = c.compare(b, "lt", amount, c.scalar(b, bits, unsigned))
    if wide.is_signed and bits < 8:
        inside = b.emit(Binary("and"), inside, c.compare(b, "ge", y, c.scalar(b, 0, wide)))
    if kind == "arithmetic":
        clamped = c.select(b, inside, y, c.scalar(b, bits - 1, wide))
        if wide.is_signed:
            return narrow(b, b.emit(Binary("shr"), x, clamped), dtype)
        signed = SIGNED[wide.bits]  # the highest bit is the sign in unsigned numbers too
        whole = c.with_scalar(b, "shl", b.emit(Bitcast(signed), x), wide.bits - bits)
        whole = c.with_scalar(b, "shr", whole, wide.bits - bits)
        shifted = b.emit(Binary("shr"), whole, b.emit(Bitcast(signed), clamped))
        return narrow(b, b.emit(Bitcast(wide), shifted), dtype)
    safe = c.select(b, inside, y, c.scalar(b, 0, wide))
    if kind == "left":
        shifted = b.emit(Binary("shl"), x, safe)
    elif wide.is_signed:
        plain = b.emit(Bitcast(unsigned), x)
        if bits < 8:
            plain = c.binary(b, "and", plain, c.scalar(b, (1 << bits) - 1, unsigned))
        shifted = b.emit(Bitcast(wide), b.emit(Binary("shr"), plain, b.emit(Bitcast(unsigned), safe)))
    else:
        shifted = b.emit(Binary("shr"), x, safe)
    return narrow(b, c.select(b, inside, shifted, c.scalar(b, 0, wide)), dtype)
