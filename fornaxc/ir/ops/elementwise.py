"""Elementwise operations. Operands have equal shapes; nothing broadcasts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fornaxc.ir.dims import Dim, dim_max, dim_min, is_nonnegative
from fornaxc.ir.ops.base import Array, NotFoldable, Op, concrete, is_symbolic, want
from fornaxc.ir.types import DType, TensorType

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + _erf(x / math.sqrt(2))))


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def _sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0, -x))


FLOAT_UNARY: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _erf,
    "sigmoid": _sigmoid,
    "softplus": lambda x: np.logaddexp(0, x),
    "silu": lambda x: x * _sigmoid(x),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "ceil": np.ceil,
    "floor": np.floor,
    "round": np.rint,
    "trunc": np.trunc,
}
NUMBER_UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "relu": lambda x: np.where(x < 0, np.zeros((), x.dtype), x),
}
PREDICATES: dict[str, Callable[[Array], Array]] = {
    "is_nan": np.isnan,
    "is_inf": np.isinf,
}


@dataclass(frozen=True, slots=True)
class Unary(Op):
    """`fn` of each element; the result has the operand's type, or bool for the predicates.

    Functions of floats: those of `FLOAT_UNARY` (`round` is half to even; `gelu` is the exact one with erf).
    Of numbers: neg, abs, sign, relu. Of integers and bool: `not` (bitwise, logical on bool). NaN in, NaN out.
    """

    fn: str

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        (x,) = types
        if self.fn in FLOAT_UNARY or self.fn in PREDICATES:
            want(x.dtype.is_float, lambda: f"{self.fn} wants floating point, not {x.dtype}")
        elif self.fn in NUMBER_UNARY:
            want(x.dtype is not DType.BOOL, lambda: f"{self.fn} wants numbers, not bool")
        else:
            want(self.fn == "not", lambda: f"no unary function {self.fn!r}")
            want(not x.dtype.is_float, lambda: f"not wants bool or integers, not {x.dtype}")
        return (x.with_dtype(DType.BOOL) if self.fn in PREDICATES else x,)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        (x,) = arrays
        if is_symbolic(x):
            if self.fn == "neg":
                return (np.asarray(-x, object),)
            raise NotFoldable(self.fn)
        with np.errstate(all="ignore"):
            if self.fn == "not":
                return (np.logical_not(x) if x.dtype == np.bool_ else np.invert(x).astype(x.dtype),)
            if self.fn in PREDICATES:
                return (PREDICATES[self.fn](x),)
            if self.fn in NUMBER_UNARY:
                return (NUMBER_UNARY[self.fn](x).astype(x.dtype),)
            wide = x if x.dtype == np.float64 else x.astype(np.float32)
            return (np.asarray(FLOAT_UNARY[self.fn](wide)).astype(x.dtype),)


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind in "iu":
        if np.any(b == 0):
            raise NotFoldable("an integer division by zero")
        quotient = a // b
        return np.asarray(quotient + ((quotient * b != a) & ((a < 0) != (b < 0))))
    return a / b


def _power(a: Array, b: Array) -> Array:
    return np.power(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)


BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divide,
    "mod": np.mod,
    "rem": np.fmod,
    "pow": _power,
    "min": np.minimum,
    "max": np.maximum,
    "atan2": np.arctan2,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
}
_BITWISE = {"and", "or", "xor"}
_SHIFTS = {"shl", "shr"}


def _dim_divide(a: Dim, b: Dim) -> Dim:
    if is_nonnegative(a) and is_nonnegative(b):
        return a // b
    raise NotFoldable("a division of dims that may be negative")


_DIM_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _dim_divide,
    "mod": lambda a, b: a % b,
    "min": dim_min,
    "max": dim_max,
}


@dataclass(frozen=True, slots=True)
class Binary(Op):
    """`fn` of two tensors of one type.

    add, sub, mul, div (integers: towards zero), mod (sign of the divisor), rem (sign of the dividend), pow, min and max
    (NaN if either is), atan2; and, or, xor (bitwise, logical on bool); shl, shr (of integers; shr is
    arithmetic on signed ones). Integers wrap around.
    """

    fn: str

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        a, b = types
        want(self.fn in BINARY, lambda: f"no binary function {self.fn!r}")
        want(a == b, lambda: f"{self.fn} wants two operands of one type, not {a} and {b}")
        if self.fn in _BITWISE:
            want(not a.dtype.is_float, lambda: f"{self.fn} wants bool or integers, not {a.dtype}")
        elif self.fn in _SHIFTS:
            want(a.dtype.is_integer, lambda: f"{self.fn} wants integers, not {a.dtype}")
        elif self.fn == "atan2":
            want(a.dtype.is_float, lambda: f"atan2 wants floating point, not {a.dtype}")
        else:
            want(a.dtype is not DType.BOOL, lambda: f"{self.fn} wants numbers, not bool")
        return (a,)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        a, b = arrays
        if is_symbolic(a) or is_symbolic(b):
            if self.fn not in _DIM_BINARY:
                raise NotFoldable(self.fn)
            try:
                return (np.asarray(np.frompyfunc(_DIM_BINARY[self.fn], 2, 1)(a, b), object),)
            except ZeroDivisionError as error:
                raise NotFoldable("a division by zero") from error
        if self.fn in ("mod", "rem") and a.dtype.kind in "iu" and np.any(b == 0):
            raise NotFoldable("an integer division by zero")
        with np.errstate(all="ignore"):
            return (np.asarray(BINARY[self.fn](a, b)).astype(a.dtype),)


_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def compare_dims(fn: str, a: Dim, b: Dim) -> bool:
    """Compare dims where the answer is the same for every size; `NotFoldable` where it depends."""
    difference = a - b
    if isinstance(difference, int):
        return bool(_COMPARE[fn](np.asarray(difference), np.asarray(0)))
    positive, negative = is_nonnegative(difference - 1), is_nonnegative(-1 - difference)
    if positive or negative:
        return (fn in ("ne", "gt", "ge")) if positive else (fn in ("ne", "lt", "le"))
    if fn in ("ge", "lt") and is_nonnegative(difference):
        return fn == "ge"
    if fn in ("le", "gt") and is_nonnegative(-difference):
        return fn == "le"
    raise NotFoldable(f"whether {a} {fn} {b} depends on the sizes")


@dataclass(frozen=True, slots=True)
class Compare(Op):
    """eq, ne, lt, le, gt, ge of two tensors of one type, to bool. Every comparison with NaN is false but ne."""

    fn: str

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        a, b = types
        want(self.fn in _COMPARE, lambda: f"no comparison {self.fn!r}")
        want(a == b, lambda: f"{self.fn} wants two operands of one type, not {a} and {b}")
        return (a.with_dtype(DType.BOOL),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        a, b = arrays
        if is_symbolic(a) or is_symbolic(b):
            compared = np.frompyfunc(lambda x, y: compare_dims(self.fn, x, y), 2, 1)(a, b)
            return (np.asarray(compared).astype(np.bool_),)
        return (np.asarray(_COMPARE[self.fn](a, b)),)


@dataclass(frozen=True, slots=True)
class Select(Op):
    """Elementwise `b` where the bool `a` is true, else `c`; all of one shape."""

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        condition, yes, no = types
        want(condition.dtype is DType.BOOL, lambda: f"select wants a bool condition, not {condition.dtype}")
        want(yes == no, lambda: f"select wants two branches of one type, not {yes} and {no}")
        want(condition.shape == yes.shape, lambda: f"select wants one shape, not {condition} and {yes}")
        return (yes,)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        condition, yes, no = arrays
        return (np.where(condition, yes, no),)


@dataclass(frozen=True, slots=True)
class Cast(Op):
    """Convert the element type.

    Floats round half to even; floats to integers truncate towards zero and saturate, NaN gives 0; to bool, non-zero gives
    true; integers to narrower integers wrap. To floats of 8 bits and fewer out-of-range values saturate where `saturate`. f8e8m0fnu rounds half
    up; what is not positive is NaN there.
    """

    dtype: DType
    saturate: bool = True

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        return (types[0].with_dtype(self.dtype),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        (x,) = arrays
        if is_symbolic(x):
            if self.dtype in (DType.I64, DType.I32):
                return (x,)
            raise NotFoldable(f"a symbolic dim as {self.dtype}")
        return (cast_array(x, self.dtype, self.saturate),)


def cast_array(x: Array, dtype: DType, saturate: bool = True) -> Array:
    """`x` converted to `dtype` by the rules of `Cast`."""
    target = dtype.numpy
    if x.dtype == target:
        return x
    is_float = x.dtype.kind == "f" or x.dtype.name.startswith(("bfloat", "float"))
    with np.errstate(all="ignore"):
        if dtype is DType.BOOL:
            return np.asarray(x.astype(np.float64) != 0) if is_float else np.asarray(x != 0)
        if dtype.is_integer and is_float:
            low, high = integer_range(dtype)
            wide = x.astype(np.float64)
            inside = np.nan_to_num(np.clip(np.trunc(wide), low, high), nan=0.0)
            if dtype in (DType.I64, DType.U64):  # the largest values are not float64 values
                whole = np.where(inside >= high, 0, inside).astype(target)
                return np.asarray(np.where(inside >= high, np.array(high, target), whole))
            return np.asarray(inside.astype(np.int64).astype(target))
        if dtype.is_float and dtype.bits <= 8:
            return _to_small_float(x, dtype, saturate)
        if dtype.is_integer and dtype.bits < 8 and x.dtype != np.bool_:  # ml_dtypes converts them from bytes alone
            x = x.astype(np.int8 if dtype.is_signed else np.uint8)
        return x.astype(target)


def _to_small_float(x: Array, dtype: DType, saturate: bool) -> Array:
    import ml_dtypes

    info = ml_dtypes.finfo(dtype.numpy)
    wide = x.astype(np.float32)
    if dtype is DType.F8E8M0FNU:  # ml_dtypes rounds up all that lies between the two least values
        least = np.float32(2.0**-127)
        wide = np.where((wide > least) & (wide < np.float32(1.5) * least), least, wide)
    if not saturate:
        return wide.astype(dtype.numpy)
    largest = np.float32(info.max)
    clipped = np.clip(wide, -largest, largest)
    if dtype in (DType.F8E4M3FNUZ, DType.F8E5M2FNUZ, DType.F8E4M3B11FNUZ):
        clipped = np.where(np.isinf(wide), np.float32(np.nan), clipped)
    return clipped.astype(dtype.numpy)


def integer_range(dtype: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    if dtype.is_signed:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


@dataclass(frozen=True, slots=True)
class Bitcast(Op):
    """The same bits as another element type of the same width; a truth value is the byte 0 or 1, and any other byte is true."""

    dtype: DType

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        (x,) = types
        want(x.dtype.bits == self.dtype.bits, lambda: f"bitcast wants equal widths, not {x.dtype} and {self.dtype}")
        return (x.with_dtype(self.dtype),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        concrete(*arrays)
        x = arrays[0]
        return (x.view(np.uint8) != 0 if self.dtype is DType.BOOL else x.view(self.dtype.numpy),)
