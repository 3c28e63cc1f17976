"""Elementwise operations on real numbers, integers and bools; complex ones where they act on the parts alone."""

from __future__ import annotations

from functools import partial

from fornaxc.importers.stablehlo.context import OpContext, Refused
from fornaxc.importers.stablehlo.ops import arithmetic as a
from fornaxc.importers.stablehlo.ops import complex_numbers as z
from fornaxc.importers.stablehlo.ops import size_arithmetic
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Complex, Operand, TensorInfo
from fornaxc.ir import compose as c
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, Bitcast, Cast, Compare, Select, Unary
from fornaxc.ir.types import DType

FLOAT_FUNCTIONS = {
    "stablehlo.exponential": "exp",
    "stablehlo.exponential_minus_one": "expm1",
    "stablehlo.log": "log",
    "stablehlo.log_plus_one": "log1p",
    "stablehlo.logistic": "sigmoid",
    "stablehlo.sqrt": "sqrt",
    "stablehlo.rsqrt": "rsqrt",
    "stablehlo.sine": "sin",
    "stablehlo.cosine": "cos",
    "stablehlo.tan": "tan",
    "stablehlo.tanh": "tanh",
    "stablehlo.ceil": "ceil",
    "stablehlo.floor": "floor",
    "stablehlo.round_nearest_even": "round",
    "chlo.erf": "erf",
    "chlo.tan": "tan",
    "chlo.asin": "asin",
    "chlo.acos": "acos",
    "chlo.atan": "atan",
    "chlo.sinh": "sinh",
    "chlo.asinh": "asinh",
    "chlo.acosh": "acosh",
    "chlo.atanh": "atanh",
}


@stablehlo_op(*FLOAT_FUNCTIONS, elementwise=True)
def float_function(ctx: OpContext) -> Operand:
    operand = ctx.operands[0]
    if isinstance(operand, Complex):
        from fornaxc.importers.stablehlo.decompose import decomposed

        return z.function(ctx.b, ctx.name, operand) or decomposed(ctx)[0]
    return a.unary(ctx.b, FLOAT_FUNCTIONS[ctx.name], ctx.value(0))


@stablehlo_op("stablehlo.negate", elementwise=True)
def negate(ctx: OpContext) -> Operand:
    return ctx.part_wise(lambda x: _negate(ctx, x), ctx.operands[0])


def _negate(ctx: OpContext, x: Value) -> Value:
    return a.unary(ctx.b, "neg", x)


@stablehlo_op("stablehlo.abs", elementwise=True)
def absolute(ctx: OpContext) -> Operand:
    operand = ctx.operands[0]
    if isinstance(operand, Complex):
        return z.magnitude(ctx.b, operand)
    x = ctx.value(0)
    size = size_arithmetic.computed(ctx, ctx.sizes.magnitude, x)
    return a.unary(ctx.b, "abs", x) if size is None else size


@stablehlo_op("stablehlo.sign", elementwise=True)
def sign(ctx: OpContext) -> Operand:
    operand = ctx.operands[0]
    if isinstance(operand, Complex):
        return z.sign(ctx.b, operand)
    x = ctx.value(0)
    size = size_arithmetic.computed(ctx, ctx.sizes.sign, x)
    if size is not None:
        return size
    result = a.unary(ctx.b, "sign", x)
    if not x.type.dtype.is_float:
        return result
    # the sign of a zero is that zero
    return c.select(ctx.b, a.compare(ctx.b, "EQ", x, c.full_like(ctx.b, 0, x)), x, result)


@stablehlo_op("stablehlo.not", elementwise=True)
def invert(ctx: OpContext) -> Operand:
    return size_arithmetic.combined(ctx, "not", a.unary(ctx.b, "not", ctx.value(0)))


@stablehlo_op("stablehlo.is_finite", elementwise=True)
def is_finite(ctx: OpContext) -> Value:
    b, x = ctx.b, c.cast(ctx.b, ctx.value(0), a.wide_type(ctx.value(0).type.dtype))
    return b.emit(Unary("not"), b.emit(Binary("or"), b.emit(Unary("is_nan"), x), b.emit(Unary("is_inf"), x)))


@stablehlo_op("stablehlo.round_nearest_afz", elementwise=True)
def round_half_away(ctx: OpContext) -> Value:
    b = ctx.b
    x = c.cast(b, ctx.value(0), a.wide_type(ctx.value(0).type.dtype))
    whole = b.emit(Unary("trunc"), x)
    rest = b.emit(Unary("abs"), b.emit(Binary("sub"), x, whole))
    away = b.emit(Binary("add"), whole, b.emit(Unary("sign"), x))
    rounded = c.select(b, c.compare(b, "ge", rest, ctx.scalar(0.5, x.type.dtype)), away, whole)
    return a.narrow(b, rounded, ctx.value(0).type.dtype)


@stablehlo_op("stablehlo.cbrt", elementwise=True)
def cube_root(ctx: OpContext) -> Operand:
    """A power, corrected by one Newton step: the power alone is off by the rounding of 1/3."""
    operand = ctx.operands[0]
    if isinstance(operand, Complex):
        return z.cube_root(ctx.b, operand)
    b, dtype = ctx.b, ctx.value(0).type.dtype
    wide = DType.F64 if dtype is DType.F64 else DType.F32
    x = c.cast(b, ctx.value(0), wide)
    size = b.emit(Unary("abs"), x)
    guess = b.emit(Binary("pow"), size, c.full_like(b, 1 / 3, size))
    square = b.emit(Binary("mul"), guess, guess)
    error = b.emit(Binary("sub"), guess, b.emit(Binary("div"), size, square))  # the cube itself could overflow
    step = c.with_scalar(b, "div", error, 3.0)
    better = b.emit(Binary("sub"), guess, step)
    usable = b.emit(Compare("eq"), step, step)  # neither 0 nor infinite
    root = b.emit(Select(), usable, better, guess)
    negative = c.compare(b, "lt", x, ctx.scalar(0, wide))
    signed = b.emit(Select(), negative, b.emit(Unary("neg"), root), root)
    is_zero = c.compare(b, "eq", x, ctx.scalar(0, wide))
    return a.narrow(b, b.emit(Select(), is_zero, x, signed), dtype)


@stablehlo_op("stablehlo.popcnt", elementwise=True)
def population_count(ctx: OpContext) -> Value:
    return _count_bits(ctx, ctx.value(0))


def _count_bits(ctx: OpContext, x: Value) -> Value:
    """Sums of neighbouring bits, pairs, ... within each element."""
    b, dtype = ctx.b, x.type.dtype
    wide = a.wide_type(dtype)
    unsigned = a.UNSIGNED[wide.bits]
    bits = c.cast(b, x, wide)
    bits = b.emit(Bitcast(unsigned), bits) if wide.is_signed else bits
    if dtype.bits < 8:
        bits = c.binary(b, "and", bits, ctx.scalar((1 << dtype.bits) - 1, unsigned))
    step = 1
    while step < wide.bits:
        mask = ctx.scalar(sum(((1 << step) - 1) << i for i in range(0, wide.bits, 2 * step)), unsigned)
        high = c.binary(b, "and", c.binary(b, "shr", bits, ctx.scalar(step, unsigned)), mask)
        bits = b.emit(Binary("add"), c.binary(b, "and", bits, mask), high)
        step *= 2
    return a.narrow(b, b.emit(Bitcast(wide), bits) if wide.is_signed else bits, dtype)


@stablehlo_op("stablehlo.count_leading_zeros", elementwise=True)
def count_leading_zeros(ctx: OpContext) -> Value:
    """The bits that are clear once every bit below the highest one is set."""
    b, x = ctx.b, ctx.value(0)
    dtype = x.type.dtype
    wide = a.wide_type(dtype)
    unsigned = a.UNSIGNED[wide.bits]
    bits = c.cast(b, x, wide)
    bits = b.emit(Bitcast(unsigned), bits) if wide.is_signed else bits
    if dtype.bits < 8:
        bits = c.binary(b, "and", bits, ctx.scalar((1 << dtype.bits) - 1, unsigned))
    step = 1
    while step < dtype.bits:
        bits = b.emit(Binary("or"), bits, c.binary(b, "shr", bits, ctx.scalar(step, unsigned)))
        step *= 2
    back = b.emit(Bitcast(wide), bits) if wide.is_signed else bits
    count = _count_bits(ctx, a.narrow(b, back, dtype))
    total = c.full(b, dtype.bits, c.cast(b, count, wide).type)
    return a.narrow(b, b.emit(Binary("sub"), total, c.cast(b, count, wide)), dtype)


_BINARY = {
    "stablehlo.add": "add",
    "stablehlo.subtract": "sub",
    "stablehlo.multiply": "mul",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
    "stablehlo.and": "and",
    "stablehlo.or": "or",
    "stablehlo.xor": "xor",
}


@stablehlo_op(*_BINARY, elementwise=True)
def plain_binary(ctx: OpContext) -> Operand:
    fn = _BINARY[ctx.name]
    if ctx.has_complex:
        return z.binary(ctx.b, fn, *z.pair(ctx))
    x, y = ctx.align(*ctx.values)
    of_sizes = {"max": ctx.sizes.larger, "min": ctx.sizes.smaller}.get(fn)
    size = size_arithmetic.computed(ctx, of_sizes, x, y) if of_sizes is not None else None
    return size_arithmetic.combined(ctx, fn, a.binary(ctx.b, fn, x, y)) if size is None else size


@stablehlo_op("stablehlo.divide", elementwise=True)
def divide(ctx: OpContext) -> Operand:
    return z.divide(ctx.b, *z.pair(ctx)) if ctx.has_complex else _division(ctx, "div")


@stablehlo_op("stablehlo.remainder", elementwise=True)
def remainder(ctx: OpContext) -> Value:
    return _division(ctx, "rem")


def _division(ctx: OpContext, fn: str) -> Value:
    x, y = ctx.align(*ctx.values)
    if x.type.dtype.is_float:
        return a.binary(ctx.b, fn, x, y)
    size = size_arithmetic.computed(ctx, partial(ctx.sizes.divided, fn), x, y)
    return a.integer_divide(ctx.b, fn, x, y) if size is None else size


@stablehlo_op("chlo.mulhi", elementwise=True)
def upper_half(ctx: OpContext) -> Value:
    """The upper half of the product of two integers, which has twice their width."""
    b, (x, y) = ctx.b, ctx.align(*ctx.values)
    dtype = x.type.dtype
    if dtype.bits > 32:
        raise Refused(f"the upper half of a product of {dtype}")
    wide = DType.I64 if dtype.is_signed else DType.U64
    whole = b.emit(Binary("mul"), c.cast(b, x, wide), c.cast(b, y, wide))
    return a.narrow(b, c.with_scalar(b, "shr", whole, dtype.bits), dtype)


@stablehlo_op("stablehlo.power", elementwise=True)
def power(ctx: OpContext) -> Operand:
    if ctx.has_complex:
        base, exponent = z.aligned(ctx)
        return z.power(ctx.b, base, exponent)
    x, y = ctx.align(*ctx.values)
    return a.binary(ctx.b, "pow", x, y) if x.type.dtype.is_float else a.integer_power(ctx.b, x, y)


@stablehlo_op("stablehlo.atan2", elementwise=True)
def arc_tangent(ctx: OpContext) -> Operand:
    if ctx.has_complex:
        return z.atan2(ctx.b, *z.pair(ctx))
    return a.binary(ctx.b, "atan2", *ctx.align(*ctx.values))


_SHIFTS = {
    "stablehlo.shift_left": "left",
    "stablehlo.shift_right_logical": "logical",
    "stablehlo.shift_right_arithmetic": "arithmetic",
}


@stablehlo_op(*_SHIFTS, elementwise=True)
def shift(ctx: OpContext) -> Value:
    return a.shift(ctx.b, _SHIFTS[ctx.name], *ctx.align(*ctx.values))


@stablehlo_op("stablehlo.compare", elementwise=True)
def compare(ctx: OpContext) -> Value:
    direction = ctx.word("comparison_direction")
    if ctx.has_complex:
        return z.equal(ctx.b, direction, *z.pair(ctx))
    x, y = ctx.align(*ctx.values)
    result = a.compare(ctx.b, direction, x, y, total=ctx.word("compare_type") == "TOTALORDER")
    return size_arithmetic.compared(ctx, direction, x, y, result)


@stablehlo_op("stablehlo.select", elementwise=True)
def select(ctx: OpContext) -> Operand:
    predicate = ctx.value(0)
    size = size_arithmetic.chosen(ctx)
    if size is not None:
        return size
    return ctx.part_wise(lambda x, y: ctx.b.emit(Select(), *ctx.align(predicate, x, y)), *ctx.operands[1:])


@stablehlo_op("stablehlo.clamp", elementwise=True)
def clamp(ctx: OpContext) -> Operand:
    if ctx.has_complex:
        least, number, most = z.aligned(ctx)
        return z.binary(ctx.b, "min", z.binary(ctx.b, "max", number, least), most)
    low, x, high = ctx.align(*ctx.values)
    return a.binary(ctx.b, "min", a.binary(ctx.b, "max", x, low), high)


@stablehlo_op("stablehlo.convert", elementwise=True)
def convert(ctx: OpContext) -> Operand:
    info = ctx.result_info()
    operand = ctx.operands[0]
    return convert_operand(ctx, operand, info)


def convert_operand(ctx: OpContext, operand: Operand, info: TensorInfo) -> Operand:
    """An operand as the element type of `info`."""
    if isinstance(operand, Complex):
        real = convert_value(ctx, operand.re, info.dtype)
        return Complex(real, convert_value(ctx, operand.im, info.dtype)) if info.complex else real
    if not isinstance(operand, Value):
        raise Refused("a conversion of what is not a tensor")
    real = convert_value(ctx, operand, info.dtype)
    return Complex(real, c.full_like(ctx.b, 0, real)) if info.complex else real


def convert_value(ctx: OpContext, x: Value, dtype: DType) -> Value:
    return x if x.type.dtype is dtype else ctx.b.emit(Cast(dtype, saturate=False), x)


@stablehlo_op("stablehlo.real", elementwise=True)
def real(ctx: OpContext) -> Operand:
    operand = ctx.operands[0]
    return operand.re if isinstance(operand, Complex) else operand


@stablehlo_op("stablehlo.imag", elementwise=True)
def imag(ctx: OpContext) -> Operand:
    operand = ctx.operands[0]
    return operand.im if isinstance(operand, Complex) else c.full_like(ctx.b, 0, ctx.value(0))


@stablehlo_op("stablehlo.complex", elementwise=True)
def make_complex(ctx: OpContext) -> Operand:
    re, im = ctx.align(*ctx.values)
    return Complex(re, im)


@stablehlo_op("chlo.conj", elementwise=True)
def conjugate(ctx: OpContext) -> Operand:
    operand = ctx.operands[0]
    return Complex(operand.re, a.unary(ctx.b, "neg", operand.im)) if isinstance(operand, Complex) else operand


@stablehlo_op("stablehlo.reduce_precision", elementwise=True)
def reduce_precision(ctx: OpContext) -> Value:
    """Rounds the significand half to even on the bits; too large exponents give infinity, too small ones a signed zero."""
    b, x = ctx.b, ctx.value(0)
    exponent, mantissa = ctx.int("exponent_bits"), ctx.int("mantissa_bits")
    dtype = x.type.dtype
    formats = {DType.F16: (5, 10), DType.BF16: (8, 7), DType.F32: (8, 23), DType.F64: (11, 52)}
    ctx.refuse_unless(dtype in formats, f"reduce_precision of {dtype}")
    own_exponent, own_mantissa = formats[dtype]
    unsigned = a.UNSIGNED[dtype.bits]
    bits = b.emit(Bitcast(unsigned), x)

    def number(value: int) -> Value:
        return ctx.scalar(value, unsigned)

    every = (1 << dtype.bits) - 1
    if mantissa < own_mantissa:
        last = 1 << (own_mantissa - mantissa)
        odd = c.binary(b, "shr", c.binary(b, "and", bits, number(last)), number(own_mantissa - mantissa))
        bits = b.emit(Binary("add"), bits, c.binary(b, "add", odd, number((last >> 1) - 1)))
        bits = c.binary(b, "and", bits, number(every & ~(last - 1)))
    if exponent < own_exponent:
        own_bias, bias = (1 << (own_exponent - 1)) - 1, (1 << (exponent - 1)) - 1
        field = ((1 << own_exponent) - 1) << own_mantissa
        power = c.binary(b, "and", bits, number(field))
        zero = c.binary(b, "and", bits, number(1 << (dtype.bits - 1)))
        infinity = c.binary(b, "or", zero, number(field))
        over = c.compare(b, "gt", power, number((own_bias + bias) << own_mantissa))
        under = c.compare(b, "le", power, number((own_bias - bias) << own_mantissa))
        bits = c.select(b, under, zero, c.select(b, over, infinity, bits))
    rounded = b.emit(Bitcast(dtype), bits)
    not_number = b.emit(Unary("is_nan"), x)
    special = x if mantissa > 0 else c.full_like(b, float("inf"), x)
    return b.emit(Select(), not_number, special, rounded)
