"""Arithmetic of complex numbers on their parts."""

from __future__ import annotations

from fornaxc.importers.stablehlo.context import OpContext, Refused
from fornaxc.importers.stablehlo.types import Complex, Operand
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, Compare, Select, Unary


def aligned(ctx: OpContext) -> tuple[Complex, ...]:
    """All operands as complex numbers of one shape."""
    pairs = [as_complex(ctx.b, operand) for operand in ctx.operands]
    values = ctx.align(*(v for pair in pairs for v in (pair.re, pair.im)))
    return tuple(Complex(values[2 * i], values[2 * i + 1]) for i in range(len(pairs)))


def pair(ctx: OpContext) -> tuple[Complex, Complex]:
    """Both operands of a binary operation, as `aligned` gives them."""
    x, y = aligned(ctx)
    return x, y


def as_complex(b: GraphBuilder, operand: Operand) -> Complex:
    if isinstance(operand, Complex):
        return operand
    if isinstance(operand, Value):
        return Complex(operand, c.full_like(b, 0, operand))
    raise Refused("arithmetic on what is not a tensor")


def binary(b: GraphBuilder, fn: str, x: Complex, y: Complex) -> Complex:
    """add, sub, mul; max and min compare the real parts, then the imaginary ones."""
    if fn in ("add", "sub"):
        return Complex(b.emit(Binary(fn), x.re, y.re), b.emit(Binary(fn), x.im, y.im))
    if fn == "mul":
        return multiply(b, x, y)
    if fn not in ("max", "min"):
        raise Refused(f"{fn} of complex numbers")
    order = "gt" if fn == "max" else "lt"
    first = b.emit(Compare(order), x.re, y.re)
    tie = b.emit(Binary("and"), b.emit(Compare("eq"), x.re, y.re), b.emit(Compare(order), x.im, y.im))
    chosen = b.emit(Binary("or"), first, tie)
    return Complex(b.emit(Select(), chosen, x.re, y.re), b.emit(Select(), chosen, x.im, y.im))


def multiply(b: GraphBuilder, x: Complex, y: Complex) -> Complex:
    re = b.emit(Binary("sub"), b.emit(Binary("mul"), x.re, y.re), b.emit(Binary("mul"), x.im, y.im))
    im = b.emit(Binary("add"), b.emit(Binary("mul"), x.re, y.im), b.emit(Binary("mul"), x.im, y.re))
    return Complex(re, im)


def divide(b: GraphBuilder, x: Complex, y: Complex) -> Complex:
    """Smith's method: divides by the larger part of `y` first, so that its square does not overflow."""
    real_larger = b.emit(Compare("ge"), b.emit(Unary("abs"), y.re), b.emit(Unary("abs"), y.im))
    large = b.emit(Select(), real_larger, y.re, y.im)
    small = b.emit(Select(), real_larger, y.im, y.re)
    ratio = b.emit(Binary("div"), small, large)
    bottom = b.emit(Binary("add"), large, b.emit(Binary("mul"), small, ratio))
    first = b.emit(Select(), real_larger, x.re, x.im)
    second = b.emit(Select(), real_larger, x.im, x.re)
    re = b.emit(Binary("add"), first, b.emit(Binary("mul"), second, ratio))
    cross = b.emit(Binary("sub"), second, b.emit(Binary("mul"), first, ratio))
    im = b.emit(Select(), real_larger, cross, b.emit(Unary("neg"), cross))
    return Complex(b.emit(Binary("div"), re, bottom), b.emit(Binary("div"), im, bottom))


def magnitude(b: GraphBuilder, x: Complex) -> Value:
    """hypot: the parts scaled by the larger one."""
    re, im = b.emit(Unary("abs"), x.re), b.emit(Unary("abs"), x.im)
    large, small = b.emit(Binary("max"), re, im), b.emit(Binary("min"), re, im)
    ratio = b.emit(Binary("div"), small, large)
    root = b.emit(Unary("sqrt"), c.with_scalar(b, "add", b.emit(Binary("mul"), ratio, ratio), 1.0))
    scaled = b.emit(Binary("mul"), large, root)
    whole = b.emit(
        Binary("or"), c.compare(b, "eq", large, c.scalar(b, 0, large.type.dtype)), b.emit(Unary("is_inf"), large)
    )
    return b.emit(Select(), whole, large, scaled)


def sign(b: GraphBuilder, x: Complex) -> Complex:
    """x / |x|; 0 for 0."""
    size = magnitude(b, x)
    zero = c.compare(b, "eq", size, c.scalar(b, 0, size.type.dtype))
    safe = c.select(b, zero, c.scalar(b, 1, size.type.dtype), size)
    return Complex(b.emit(Binary("div"), x.re, safe), b.emit(Binary("div"), x.im, safe))


def equal(b: GraphBuilder, direction: str, x: Complex, y: Complex) -> Value:
    if direction not in ("EQ", "NE"):
        raise Refused(f"the comparison {direction} of complex numbers")
    fn, join = ("eq", "and") if direction == "EQ" else ("ne", "or")
    return b.emit(Binary(join), b.emit(Compare(fn), x.re, y.re), b.emit(Compare(fn), x.im, y.im))


def exponential(b: GraphBuilder, x: Complex) -> Complex:
    size = b.emit(Unary("exp"), x.re)
    real = c.compare(b, "eq", x.im, c.scalar(b, 0, x.im.type.dtype))
    im = b.emit(Binary("mul"), size, b.emit(Unary("sin"), x.im))
    return Complex(b.emit(Binary("mul"), size, b.emit(Unary("cos"), x.im)), b.emit(Select(), real, x.im, im))


def sine(b: GraphBuilder, x: Complex) -> Complex:
    re = b.emit(Binary("mul"), b.emit(Unary("sin"), x.re), b.emit(Unary("cosh"), x.im))
    return Complex(re, b.emit(Binary("mul"), b.emit(Unary("cos"), x.re), b.emit(Unary("sinh"), x.im)))


def cosine(b: GraphBuilder, x: Complex) -> Complex:
    re = b.emit(Binary("mul"), b.emit(Unary("cos"), x.re), b.emit(Unary("cosh"), x.im))
    im = b.emit(Binary("mul"), b.emit(Unary("sin"), x.re), b.emit(Unary("sinh"), x.im))
    return Complex(re, b.emit(Unary("neg"), im))


def atan2(b: GraphBuilder, y: Complex, x: Complex) -> Complex:
    """-i log((x + i y) / sqrt(x^2 + y^2))."""
    top = Complex(b.emit(Binary("sub"), x.re, y.im), b.emit(Binary("add"), x.im, y.re))
    squares = binary(b, "add", multiply(b, x, x), multiply(b, y, y))
    quotient = divide(b, top, square_root(b, squares))
    log = logarithm(b, quotient)
    return Complex(log.im, b.emit(Unary("neg"), log.re))


def logarithm(b: GraphBuilder, x: Complex) -> Complex:
    return Complex(b.emit(Unary("log"), magnitude(b, x)), b.emit(Binary("atan2"), x.im, x.re))


def square_root(b: GraphBuilder, x: Complex) -> Complex:
    """sqrt((|x| + |re|) / 2) is the larger part; the other is im / (2 * it)."""
    dtype = x.re.type.dtype
    half = c.with_scalar(b, "mul", b.emit(Binary("add"), magnitude(b, x), b.emit(Unary("abs"), x.re)), 0.5)
    large = b.emit(Unary("sqrt"), half)
    zero = c.compare(b, "eq", large, c.scalar(b, 0, dtype))
    safe = c.select(b, zero, c.scalar(b, 1, dtype), large)
    small = b.emit(Binary("div"), c.with_scalar(b, "mul", x.im, 0.5), safe)
    right = c.compare(b, "ge", x.re, c.scalar(b, 0, dtype))
    below = c.compare(b, "lt", x.im, c.scalar(b, 0, dtype))
    upward = b.emit(Select(), below, b.emit(Unary("neg"), large), large)
    re = b.emit(Select(), right, large, b.emit(Unary("abs"), small))
    return Complex(re, b.emit(Select(), right, small, upward))


def exponential_minus_one(b: GraphBuilder, x: Complex) -> Complex:
    """The real part is expm1(re) cos(im) - 2 sin(im/2)^2, without cancellation near 0."""
    half = b.emit(Unary("sin"), c.with_scalar(b, "mul", x.im, 0.5))
    rest = c.with_scalar(b, "mul", b.emit(Binary("mul"), half, half), 2.0)
    re = b.emit(Binary("sub"), b.emit(Binary("mul"), b.emit(Unary("expm1"), x.re), b.emit(Unary("cos"), x.im)), rest)
    return Complex(re, exponential(b, x).im)


def cube_root(b: GraphBuilder, x: Complex) -> Complex:
    """The principal root, in polar form: the root of the magnitude at a third of the angle."""
    size = b.emit(Binary("pow"), magnitude(b, x), c.full_like(b, 1 / 3, x.re))
    angle = c.with_scalar(b, "div", b.emit(Binary("atan2"), x.im, x.re), 3.0)
    re = b.emit(Binary("mul"), size, b.emit(Unary("cos"), angle))
    return Complex(re, b.emit(Binary("mul"), size, b.emit(Unary("sin"), angle)))


def hyperbolic_tangent(b: GraphBuilder, x: Complex) -> Complex:
    """With t = tan(im) and h = tanh(re): h (1 + t^2) and t / cosh(re)^2, both over 1 + (h t)^2."""
    t, h = b.emit(Unary("tan"), x.im), b.emit(Unary("tanh"), x.re)
    cosh = b.emit(Unary("cosh"), x.re)
    product = b.emit(Binary("mul"), h, t)
    bottom = c.with_scalar(b, "add", b.emit(Binary("mul"), product, product), 1.0)
    top = b.emit(Binary("mul"), h, c.with_scalar(b, "add", b.emit(Binary("mul"), t, t), 1.0))
    im = b.emit(Binary("div"), b.emit(Binary("div"), b.emit(Binary("div"), t, cosh), cosh), bottom)
    return Complex(b.emit(Binary("div"), top, bottom), im)


def tangent(b: GraphBuilder, x: Complex) -> Complex:
    """-i tanh(i x)."""
    turned = hyperbolic_tangent(b, Complex(b.emit(Unary("neg"), x.im), x.re))
    return Complex(turned.im, b.emit(Unary("neg"), turned.re))


def reciprocal_root(b: GraphBuilder, x: Complex) -> Complex:
    one = Complex(c.full_like(b, 1, x.re), c.full_like(b, 0, x.re))
    return divide(b, one, square_root(b, x))


def logistic(b: GraphBuilder, x: Complex) -> Complex:
    power = exponential(b, Complex(b.emit(Unary("neg"), x.re), b.emit(Unary("neg"), x.im)))
    one = Complex(c.full_like(b, 1, x.re), c.full_like(b, 0, x.re))
    return divide(b, one, Complex(c.with_scalar(b, "add", power.re, 1.0), power.im))


def power(b: GraphBuilder, x: Complex, y: Complex) -> Complex:
    """In polar form: |x|^c exp(-d arg x), turned by c arg x + d log |x|, for y = c + d i; 0 to the 0 is 1."""
    size, angle = magnitude(b, x), b.emit(Binary("atan2"), x.im, x.re)
    log = b.emit(Unary("log"), size)
    scale = b.emit(Binary("mul"), b.emit(Binary("pow"), size, y.re), _exp_negative(b, y.im, angle))
    turn = b.emit(Binary("add"), b.emit(Binary("mul"), y.re, angle), b.emit(Binary("mul"), y.im, log))
    zero = c.scalar(b, 0, size.type.dtype)
    none = c.compare(b, "eq", size, zero)
    flat = b.emit(Binary("and"), c.compare(b, "eq", y.re, zero), c.compare(b, "eq", y.im, zero))
    whole = c.select(b, flat, c.scalar(b, 1, size.type.dtype), zero)
    special = b.emit(Binary("or"), none, flat)
    re = b.emit(Select(), special, whole, b.emit(Binary("mul"), scale, b.emit(Unary("cos"), turn)))
    im = b.emit(Select(), special, c.full_like(b, 0, size), b.emit(Binary("mul"), scale, b.emit(Unary("sin"), turn)))
    return Complex(re, im)


def _exp_negative(b: GraphBuilder, x: Value, y: Value) -> Value:
    return b.emit(Unary("exp"), b.emit(Unary("neg"), b.emit(Binary("mul"), x, y)))


_FUNCTIONS = {
    "stablehlo.exponential": exponential,
    "stablehlo.exponential_minus_one": exponential_minus_one,
    "stablehlo.sine": sine,
    "stablehlo.cosine": cosine,
    "stablehlo.tan": tangent,
    "chlo.tan": tangent,
    "stablehlo.tanh": hyperbolic_tangent,
    "stablehlo.rsqrt": reciprocal_root,
    "stablehlo.logistic": logistic,
}


def function(b: GraphBuilder, name: str, x: Complex) -> Complex | None:
    """A function that needs no decomposition by MLIR; None for the others."""
    found = _FUNCTIONS.get(name)
    return found(b, x) if found is not None else None
