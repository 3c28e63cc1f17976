"""Elementwise operations. MAX's own functions where they are right, compositions of them where they are not.

MAX ignores NaN in min, max and relu, and gives finite values for NaN in exp, tanh and sigmoid: those are guarded here.
float16 and bfloat16 are computed in float32. A division of integers never traps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from max.dtype import DType
from max.graph import TensorType, TensorValue, ops
from max.graph.ops.elementwise import _trunc_div

from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, Bitcast, Cast, Compare, Select, Unary
from fornaxc.ir.ops.elementwise import FLOAT_UNARY, PREDICATES, integer_range
from fornaxc.ir.types import DType as IrDType
from fornaxc.lowering import small
from fornaxc.lowering.context import LoweringContext
from fornaxc.lowering.dtypes import FROM_MAX, NARROW_FLOATS
from fornaxc.lowering.registry import lower

LN2 = math.log(2.0)
T: TypeAlias = TensorValue


def widened(x: T) -> T:
    """float16 and bfloat16 as float32; other types as they are."""
    return ops.cast(x, DType.float32) if x.dtype in NARROW_FLOATS else x


def keep_nan(x: T, y: T) -> T:
    """y, but x where x is NaN."""
    return ops.where(ops.is_nan(x), x, y)


def less(a: T, b: T) -> T:
    return ops.greater(b, a)


def larger(a: T, b: T) -> T:
    """Of two integers. MAX's own maximum must not decide the size of what a loop carries: the compiler's memory then grows without end."""
    return ops.where(ops.greater(a, b), a, b)


def smaller(a: T, b: T) -> T:
    """Of two integers; see `larger`."""
    return ops.where(ops.greater(b, a), a, b)


def not_equal(a: T, b: T) -> T:
    """MAX's own says that NaN equals everything."""
    return ops.logical_not(ops.equal(a, b))


class Maths:
    """Functions of one float32 or float64 tensor, with numpy's answers for NaN, infinities and out-of-domain values."""

    def __init__(self, c: LoweringContext, dtype: DType) -> None:
        self.c = c
        self.dtype = dtype
        self.double = dtype == DType.float64

    def k(self, value: float) -> T:
        return self.c.scalar(float(value), self.dtype)

    def negative(self, x: T) -> T:
        """True for negative numbers and -0."""
        zero = self.k(0)
        return ops.logical_or(less(x, zero), ops.logical_and(ops.equal(x, zero), less(self.k(1) / x, zero)))

    def exp(self, x: T) -> T:
        if self.double:  # MAX's is good to 2e-11: one Newton step with its exact logarithm
            rough = ops.exp(x)
            usable = ops.logical_and(ops.greater(rough, self.k(1e-300)), less(rough, self.k(1e300)))
            safe = ops.where(usable, rough, self.k(1))
            better = ops.where(usable, safe + safe * (x - ops.log(safe)), rough)
            return keep_nan(x, better)
        large = ops.greater(x, self.k(88))  # MAX's stops growing at 88.37
        half = ops.exp(ops.where(large, x * self.k(0.5), x))
        return keep_nan(x, ops.where(large, half * half, half))

    def expm1(self, x: T) -> T:
        grown = self.exp(x)
        moved = grown - self.k(1)
        plain = ops.logical_or(ops.greater(x, self.k(1)), less(x, self.k(-1)))
        safe = ops.where(plain, self.k(2), grown)
        exact = moved * x / ops.log(ops.where(ops.equal(safe, self.k(1)), self.k(2), safe))
        return ops.where(plain, moved, ops.where(ops.equal(grown, self.k(1)), x, keep_nan(x, exact)))

    def tan(self, x: T) -> T:
        return ops.sin(x) / ops.cos(x)

    def atan_unit(self, x: T) -> T:
        """The arc tangent for 0 <= x <= 1: two half-angle steps, then its series."""
        one = self.k(1)
        for _ in range(2):
            x = x / (one + ops.sqrt(one + x * x))
        z = x * x
        terms = 12 if self.double else 6
        total = self.k((-1) ** (terms - 1) / (2 * terms - 1))
        for n in reversed(range(terms - 1)):
            total = total * z + self.k((-1) ** n / (2 * n + 1))
        return self.k(4) * x * total

    def atan(self, x: T) -> T:
        size = ops.abs(x)
        large = ops.greater(size, self.k(1))
        angle = self.atan_unit(ops.where(large, self.k(1) / size, size))
        angle = ops.where(large, self.k(math.pi / 2) - angle, angle)
        return keep_nan(
            x, ops.where(less(x, self.k(0)), ops.negate(angle), ops.where(ops.equal(x, self.k(0)), x, angle))
        )

    def atan2(self, y: T, x: T) -> T:
        ax, ay = ops.abs(x), ops.abs(y)
        swap = ops.greater(ay, ax)
        big, small = ops.where(swap, ay, ax), ops.where(swap, ax, ay)
        both = ops.equal(big, small)  # covers 0/0 and inf/inf
        ratio = ops.where(both, ops.where(ops.equal(big, self.k(0)), self.k(0), self.k(1)), small / big)
        angle = self.atan_unit(ratio)
        angle = ops.where(swap, self.k(math.pi / 2) - angle, angle)
        angle = ops.where(self.negative(x), self.k(math.pi) - angle, angle)
        angle = ops.where(self.negative(y), ops.negate(angle), angle)
        return keep_nan(x, keep_nan(y, angle))

    def asin(self, x: T) -> T:
        one = self.k(1)
        outside = ops.greater(ops.abs(x), one)
        inside = ops.where(outside, self.k(0), x)
        return keep_nan(
            x, ops.where(outside, self.k(math.nan), self.atan2(inside, ops.sqrt((one - inside) * (one + inside))))
        )

    def acos(self, x: T) -> T:
        one = self.k(1)
        outside = ops.greater(ops.abs(x), one)
        inside = ops.where(outside, self.k(0), x)
        angle = self.atan2(ops.sqrt((one - inside) * (one + inside)), inside)
        return keep_nan(x, ops.where(outside, self.k(math.nan), angle))

    def sinh(self, x: T) -> T:
        size = ops.abs(x)
        grown = self.expm1(ops.min(size, self.k(30)))
        small = self.k(0.5) * (grown + grown / (grown + self.k(1)))
        half = self.exp(size * self.k(0.5))
        result = ops.where(ops.greater(size, self.k(20)), self.k(0.5) * half * half, small)
        return keep_nan(x, ops.where(less(x, self.k(0)), ops.negate(result), result))

    def cosh(self, x: T) -> T:
        half = self.exp(ops.abs(x) * self.k(0.5))
        square = self.k(0.5) * half * half
        return keep_nan(x, square + self.k(0.5) / (half * half))

    def asinh(self, x: T) -> T:
        size = ops.abs(x)
        one, limit = self.k(1), self.k(1e8 if self.double else 1e4)
        inside = ops.min(size, limit)
        square = inside * inside
        small = ops.log1p(inside + square / (one + ops.sqrt(square + one)))
        result = ops.where(ops.greater(size, limit), ops.log(size) + self.k(LN2), small)
        return keep_nan(x, ops.where(less(x, self.k(0)), ops.negate(result), result))

    def acosh(self, x: T) -> T:
        one, limit = self.k(1), self.k(1e8 if self.double else 1e4)
        above = ops.min(x, limit) - one
        small = ops.log1p(above + ops.sqrt(above * (above + self.k(2))))
        result = ops.where(ops.greater(x, limit), ops.log(x) + self.k(LN2), small)
        return keep_nan(x, ops.where(less(x, one), self.k(math.nan), result))

    def sigmoid(self, x: T) -> T:
        if not self.double:
            return keep_nan(x, ops.sigmoid(x))
        return self.k(1) / (self.k(1) + self.exp(ops.negate(x)))

    def softplus(self, x: T) -> T:
        tail = ops.log1p(self.exp(ops.negate(ops.abs(x))))
        return keep_nan(x, ops.max(x, self.k(0)) + tail)

    def gelu(self, x: T) -> T:
        result = self.k(0.5) * x * (self.k(1) + ops.erf(x * self.k(math.sqrt(0.5))))
        return keep_nan(x, ops.where(ops.equal(x, self.k(-math.inf)), self.k(math.nan), result))

    def gelu_tanh(self, x: T) -> T:
        inner = self.k(math.sqrt(2 / math.pi)) * (x + self.k(0.044715) * x * x * x)
        return keep_nan(x, self.k(0.5) * x * (self.k(1) + ops.tanh(inner)))

    def power(self, x: T, y: T) -> T:
        """x to the power y by the rules of IEEE 754 pow."""
        zero, one, size = self.k(0), self.k(1), ops.abs(x)
        whole = ops.equal(ops.trunc(y), y)
        half = y * self.k(0.5)
        odd = ops.logical_and(whole, not_equal(ops.trunc(half), half))
        result = self.exp(y * ops.log(size))
        result = ops.where(ops.logical_and(odd, self.negative(x)), ops.negate(result), result)
        finite_negative = ops.logical_and(less(x, zero), ops.logical_not(ops.is_inf(x)))
        result = ops.where(ops.logical_and(finite_negative, ops.logical_not(whole)), self.k(math.nan), result)
        result = ops.where(ops.logical_and(ops.equal(size, one), ops.is_inf(y)), one, result)
        result = keep_nan(x, keep_nan(y, result))
        return ops.where(ops.logical_or(ops.equal(y, zero), ops.equal(x, one)), one, result)

    def remainder(self, x: T, y: T, floored: bool) -> T:
        """The remainder with the sign of x, or of y where `floored`."""
        size, step = ops.abs(x), ops.abs(y)
        rest = size - ops.floor(size / step) * step
        rest = ops.where(less(rest, self.k(0)), rest + step, rest)
        rest = ops.where(ops.greater_equal(rest, step), rest - step, rest)
        rest = ops.where(less(size, step), size, rest)
        rest = ops.where(less(x, self.k(0)), ops.negate(rest), rest)
        if floored:
            crossed = ops.logical_and(not_equal(rest, self.k(0)), not_equal(less(rest, self.k(0)), less(y, self.k(0))))
            rest = ops.where(crossed, rest + y, rest)
        wrong = ops.logical_or(ops.is_inf(x), ops.equal(y, self.k(0)))
        return keep_nan(x, keep_nan(y, ops.where(wrong, self.k(math.nan), rest)))

    def function(self, fn: str) -> Callable[[T], T]:
        """The function of a name in `FLOAT_UNARY`."""
        if hasattr(self, fn):
            return getattr(self, fn)  # type: ignore[no-any-return]
        stock: Callable[[T], T] = getattr(ops, fn)
        return (lambda x: keep_nan(x, stock(x))) if fn == "tanh" else stock


def float_function(c: LoweringContext, fn: str, x: T) -> T:
    """`fn` of `FLOAT_UNARY` in x's own element type."""
    wide = widened(x)
    return ops.cast(Maths(c, wide.dtype).function(fn)(wide), x.dtype)


def relu(c: LoweringContext, x: T) -> T:
    """x where positive, else 0; NaN stays. (MAX's own turns NaN into 0.)"""
    zero = c.scalar(0.0 if x.dtype.is_float() else 0, DType.float32 if x.dtype in NARROW_FLOATS else x.dtype)
    wide = widened(x)
    return ops.cast(ops.where(less(wide, zero), zero, wide), x.dtype)


def number_function(c: LoweringContext, fn: str, x: T) -> T:
    """neg, abs, sign, relu of floats and integers."""
    if fn == "relu":
        return relu(c, x)
    if fn in ("neg", "abs") and x.dtype.is_float():
        return ops.negate(x) if fn == "neg" else ops.abs(x)
    wide = widened(x)
    zero, one = (c.scalar(float(v) if wide.dtype.is_float() else v, wide.dtype) for v in (0, 1))
    if fn == "neg":
        return zero - wide if FROM_MAX[x.dtype].is_signed else _negative(c, x)
    if not FROM_MAX[x.dtype].is_signed:
        return x if fn == "abs" else ops.where(ops.equal(wide, zero), wide, one)
    if fn == "abs":
        return ops.where(less(wide, zero), zero - wide, wide)
    return ops.cast(ops.where(ops.greater(wide, zero), one, ops.where(less(wide, zero), zero - one, wide)), x.dtype)


def _negative(c: LoweringContext, x: T) -> T:
    """0 - x of unsigned integers, which wrap around. MAX makes a negation of a subtraction from 0, and then refuses it."""
    return x * c.scalar(integer_range(FROM_MAX[x.dtype])[1], x.dtype)


def activate(c: LoweringContext, fn: str, x: T) -> T:
    """A recurrent activation by its IR name."""
    return float_function(c, fn, x) if fn in FLOAT_UNARY else number_function(c, fn, x)


_WHOLE = ("floor", "ceil", "sign")


@lower(Unary)
def unary(c: LoweringContext, op: Unary, x: T) -> T:
    if op.fn in _WHOLE and c.kind == "cpu" and x.dtype.is_float():
        return c.custom("fx_whole", [x], [x.type], kind=_WHOLE.index(op.fn))[0]
    if op.fn in FLOAT_UNARY:
        return float_function(c, op.fn, x)
    if op.fn in PREDICATES:
        return ops.is_nan(widened(x)) if op.fn == "is_nan" else ops.is_inf(widened(x))
    if op.fn == "not":
        return ops.logical_not(x) if x.dtype == DType.bool else bitwise(c, "xor", x, _all_ones(c, x))
    return number_function(c, op.fn, x)


def _all_ones(c: LoweringContext, x: T) -> T:
    value = -1 if FROM_MAX[x.dtype].is_signed else integer_range(FROM_MAX[x.dtype])[1]
    return ops.broadcast_to(ops.constant(value, x.dtype, c.device), x.shape)


def bitwise(c: LoweringContext, fn: str, a: T, b: T) -> T:
    """and, or, xor, shl, shr, pow of integers, by a kernel: MAX has none of them."""
    return c.custom("fx_integer_binary", [a, b], [a.type], kind=_KERNEL_KINDS.index(fn))[0]


_KERNEL_KINDS = ("and", "or", "xor", "shl", "shr", "pow")


_BOOL = {"and": ops.logical_and, "or": ops.logical_or, "xor": ops.logical_xor}
_STOCK = {"add": ops.add, "sub": ops.sub, "mul": ops.mul}


@lower(Binary)
def binary(c: LoweringContext, op: Binary, a: T, b: T) -> T:
    if a.dtype == DType.bool:
        return _BOOL[op.fn](a, b)
    if op.fn == "sub" and _is_unsigned_zero(c):
        return _negative(c, b)
    if a.dtype.is_float() and (zero := _always_zero(c, op.fn, a, b)) is not None:
        return zero
    if op.fn in _STOCK:
        return _STOCK[op.fn](a, b)
    if a.dtype.is_float():
        return ops.cast(_float_binary(c, op.fn, widened(a), widened(b)), a.dtype)
    if op.fn in ("min", "max"):
        return smaller(a, b) if op.fn == "min" else larger(a, b)
    if op.fn in ("div", "rem", "mod"):
        return _integer_division(c, op.fn, a, b)
    return bitwise(c, op.fn, a, b)


def _always_zero(c: LoweringContext, fn: str, a: T, b: T) -> T | None:
    """x - x, x + -x, x * 0 and 0 / x of floats, which MAX takes to be 0 for every x: NaN where the specification has it. None for others."""
    assert c.node is not None
    left, right = (_plain(c, v) for v in c.node.inputs)
    if (
        (fn == "sub" and left is right)
        or (fn == "add" and (_negated(c, left) is right or _negated(c, right) is left))
        or (fn == "mul" and c.constant_number(right) == 0)
    ):
        x = widened(a)
    elif fn in ("mul", "div") and c.constant_number(left) == 0:
        x = widened(b)
    else:
        return None
    zero = c.scalar(0.0, x.dtype)
    spoiled = ops.logical_or(ops.is_nan(x), ops.equal(x, zero) if fn == "div" else ops.is_inf(x))
    return ops.cast(ops.where(spoiled, c.scalar(math.nan, x.dtype), zero), a.dtype)


def _plain(c: LoweringContext, value: Value) -> Value:
    """`value` without what MAX leaves out: a 0 that is added, a 1 that it is multiplied with."""
    node = c.producers.get(value)
    if node is None or not isinstance(node.op, Binary) or node.op.fn not in ("add", "sub", "mul", "div"):
        return value
    nothing = 0 if node.op.fn in ("add", "sub") else 1
    left, right = node.inputs
    if c.constant_number(right) == nothing:
        return _plain(c, left)
    return _plain(c, right) if node.op.fn in ("add", "mul") and c.constant_number(left) == nothing else value


def _negated(c: LoweringContext, value: Value) -> Value | None:
    """Of what `value` is the negative."""
    node = c.producers.get(value)
    return _plain(c, node.inputs[0]) if node is not None and node.op == Unary("neg") else None


def _is_unsigned_zero(c: LoweringContext) -> bool:
    """Whether the first operand of the current node is a 0 of an unsigned type."""
    assert c.node is not None
    dtype = c.node.inputs[0].type.dtype
    return dtype.is_integer and not dtype.is_signed and c.constant_number(c.node.inputs[0]) == 0


def _float_binary(c: LoweringContext, fn: str, a: T, b: T) -> T:
    m = Maths(c, a.dtype)
    if fn == "div":
        return ops.div(a, b)
    if fn in ("min", "max"):
        return extreme(fn, a, b)
    if fn == "atan2":
        return m.atan2(a, b)
    if fn in ("mod", "rem"):
        if c.kind == "cpu" and not m.double:  # exact in float64 while the quotient is below 2^29
            wide = Maths(c, DType.float64)
            exact = wide.remainder(ops.cast(a, DType.float64), ops.cast(b, DType.float64), fn == "mod")
            return ops.cast(exact, a.dtype)
        return m.remainder(a, b, fn == "mod")
    return _power(c, a, b)


def extreme(fn: str, a: T, b: T) -> T:
    """The larger or the smaller of two floats; NaN if either is."""
    return keep_nan(a, keep_nan(b, ops.max(a, b) if fn == "max" else ops.min(a, b)))


def _power(c: LoweringContext, a: T, b: T) -> T:
    assert c.node is not None
    exponent = c.constant_number(c.node.inputs[1])
    if exponent == 1:
        return a
    if exponent == 2:
        return a * a
    if exponent == 3:
        return a * a * a
    if exponent == -1:
        return ops.div(c.scalar(1.0, a.dtype), a)
    if exponent == 0.5:
        root = ops.sqrt(a)
        return ops.where(ops.equal(a, c.scalar(-math.inf, a.dtype)), c.scalar(math.inf, a.dtype), root)
    if c.kind == "cpu" and a.dtype == DType.float32:
        wide = Maths(c, DType.float64)
        return ops.cast(wide.power(ops.cast(a, DType.float64), ops.cast(b, DType.float64)), a.dtype)
    return Maths(c, a.dtype).power(a, b)


def _integer_division(c: LoweringContext, fn: str, a: T, b: T) -> T:
    """Quotient towards zero, or a remainder. By 0: the quotient is 0 and the remainder a; the processor never traps."""
    zero, one = c.scalar(0, a.dtype), c.scalar(1, a.dtype)
    by_zero = ops.equal(b, zero)
    divisor = ops.where(by_zero, one, b)
    minus = None
    if FROM_MAX[a.dtype].is_signed:  # the least value divided by -1 would trap
        minus = ops.equal(b, zero - one)
        divisor = ops.where(minus, one, divisor)
    quotient = _trunc_div(a, divisor)
    if minus is not None:
        quotient = ops.where(minus, zero - quotient, quotient)
    quotient = ops.where(by_zero, zero, quotient)
    if fn == "div":
        return quotient
    rest = a - quotient * b
    if fn == "mod" and FROM_MAX[a.dtype].is_signed:
        crossed = ops.logical_and(
            ops.logical_and(not_equal(rest, zero), not_equal(b, zero)),
            ops.logical_xor(less(rest, zero), less(b, zero)),
        )
        rest = ops.where(crossed, rest + b, rest)
    return rest


_COMPARE: dict[str, Callable[[T, T], T]] = {
    "eq": ops.equal,
    "ne": not_equal,
    "lt": less,
    "le": lambda a, b: ops.greater_equal(b, a),
    "gt": ops.greater,
    "ge": ops.greater_equal,
}


@lower(Compare)
def compare(c: LoweringContext, op: Compare, a: T, b: T) -> T:
    if a.dtype == DType.bool:
        if op.fn in ("eq", "ne"):
            differ = ops.logical_xor(a, b)
            return differ if op.fn == "ne" else ops.logical_not(differ)
        a, b = ops.cast(a, DType.uint8), ops.cast(b, DType.uint8)
    assert c.node is not None
    computed = all(c.constant_array(v) is None for v in c.node.inputs)
    if a.dtype.is_float() and computed and op.fn in ("eq", "ne", "le", "ge"):
        return _told_apart(op.fn, widened(a), widened(b))
    return _COMPARE[op.fn](widened(a), widened(b))


def _told_apart(fn: str, a: T, b: T) -> T:
    """eq, ne, le or ge of floats that MAX may find to be one value: it says then that they are equal, also where they are NaN."""
    unordered = ops.logical_or(ops.is_nan(a), ops.is_nan(b))
    if fn in ("eq", "ne"):
        differ = ops.logical_or(ops.logical_or(ops.greater(a, b), less(a, b)), unordered)
        return differ if fn == "ne" else ops.logical_not(differ)
    beyond = ops.greater(a, b) if fn == "le" else less(a, b)
    return ops.logical_not(ops.logical_or(beyond, unordered))


@lower(Select)
def select(c: LoweringContext, op: Select, condition: T, yes: T, no: T) -> T:
    return choose(condition, yes, no)


def choose(condition: T, yes: T, no: T) -> T:
    """`ops.where`, also between bools."""
    if yes.dtype == DType.bool:
        return ops.logical_or(ops.logical_and(condition, yes), ops.logical_and(ops.logical_not(condition), no))
    return ops.where(condition, yes, no)


@lower(Cast)
def cast(c: LoweringContext, op: Cast, x: T) -> T:
    assert c.node is not None
    source = c.node.inputs[0].type.dtype
    if source is op.dtype:
        return x
    if source.is_small and source.is_float:
        x = small.to_f32(c, x, source)
    return convert(c, x, op.dtype, op.saturate)


def convert(c: LoweringContext, x: T, dtype: IrDType, saturate: bool = True) -> T:
    """`x`, of a type that is no small float, in another element type by the rules of `Cast`."""
    target = c.dtype(dtype)
    if dtype.is_small and dtype.is_float:
        return small.from_f32(c, ops.cast(x, DType.float32), dtype, saturate)
    if dtype.is_small and not x.dtype.is_float():
        return small.wrapped(c, ops.cast(x, target), dtype)
    if x.dtype == target:
        return x
    if dtype is IrDType.BOOL:
        wide = widened(x)
        return not_equal(wide, c.scalar(0.0 if wide.dtype.is_float() else 0, wide.dtype))
    if x.dtype == DType.bool and target in NARROW_FLOATS:
        return ops.cast(ops.cast(x, DType.float32), target)
    if x.dtype.is_float() and dtype.is_integer:
        return _saturate(c, widened(x), dtype)
    if target in NARROW_FLOATS and not x.dtype.is_float():
        return ops.cast(ops.cast(x, DType.float32), target)
    return ops.cast(x, target)


def _saturate(c: LoweringContext, x: T, dtype: IrDType) -> T:
    """Truncate floats to an integer type; out-of-range values saturate, NaN gives 0. (MAX's cast wraps.)"""
    low, high = integer_range(dtype)
    target = c.dtype(dtype)
    precision = 24 if x.dtype == DType.float32 else 53
    least, bound = c.scalar(float(low), x.dtype), c.scalar(float(high + 1), x.dtype)
    over = ops.greater_equal(x, bound)
    number = ops.where(ops.logical_or(over, ops.is_nan(x)), c.scalar(0.0, x.dtype), x)
    number = ops.where(less(number, least), least, number)
    if dtype.bits >= precision or dtype.bits == 64:
        inside = ops.cast(ops.trunc(number), target)
    else:
        inside = (
            ops.cast(ops.cast(ops.trunc(number), DType.int32), target)
            if dtype.bits < 32
            else ops.cast(ops.trunc(number), target)
        )
    return ops.where(over, c.scalar(high, target), inside)


@lower(Bitcast)
def bitcast(c: LoweringContext, op: Bitcast, x: T) -> T:
    assert c.node is not None
    source, target = c.node.inputs[0].type.dtype, c.dtype(op.dtype)
    if source is op.dtype:
        return x
    if source.bits < 8 and source.is_signed and source.is_integer:  # clear the copies of the sign bit
        x = small.wrapped(c, _bits_as(c, x, DType.uint8), source)
    x = _bits_as(c, x, target)
    return small.wrapped(c, x, op.dtype) if op.dtype.bits < 8 and op.dtype.is_integer else x


def _bits_as(c: LoweringContext, x: T, dtype: DType) -> T:
    """The bits of `x` as another type. Truth values are the bytes 0 and 1; any other byte counts as 1."""
    if x.dtype == DType.bool and dtype.size_in_bytes == 1:
        return _bits_as(c, ops.cast(x, DType.uint8), dtype)
    if dtype == DType.bool and x.dtype != dtype:
        return ops.not_equal(_bits_as(c, x, DType.uint8), c.scalar(0, DType.uint8))
    return x if x.dtype == dtype else c.custom("fx_bitcast", [x], [TensorType(dtype, x.shape, c.device)])[0]
