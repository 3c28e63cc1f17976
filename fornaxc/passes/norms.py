"""What the passes for normalisations share: roots of mean squares of rows, and the scales and biases that follow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import product
from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.ops import Conv
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.forms import Forms, functions, is_close

FLOATS = (DType.F32, DType.BF16)  # squares in f16 overflow from 256 on, and no kernel normalises f64
LONG = 1 << 16  # elements of a row that are dear to leave to one thread, as the kernel does
FEW = 8  # rows that do not keep the threads busy


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of `of` over the trailing `axes`, and what is added to a mean of their squares."""

    of: Value
    axes: tuple[int, ...]
    epsilon: float


def mean(forms: Forms, value: Value) -> tuple[Value, tuple[int, ...]] | None:
    """What `value`, reshaped or not, is the mean of, and over which axes: a mean, or a sum over the number of elements."""
    value = forms.flat(value)
    found = forms.reduced(value, "mean")
    if found is not None:
        return found
    total, factor = forms.scaled(value) or (value, 0.0)
    added = forms.reduced(total, "sum") if factor else None
    count = product([added[0].type.shape[a] for a in added[1]]) if added is not None else 0
    if added is None or not isinstance(count, int) or not is_close(factor * count, 1, value.type.dtype):
        return None
    return added


def inverse_root(forms: Forms, value: Value) -> Rows | None:
    """The rows, where `value`, reshaped or not, is 1 over the root of their mean square."""
    value = forms.flat(value)
    square = forms.unary(value, "rsqrt")
    if square is not None:
        return _mean_square(forms, square)
    inner = forms.inverse(value)
    if inner is not None:
        return root(forms, inner)
    operand, exponent = forms.power(value) or (value, 0.0)
    return _mean_square(forms, operand) if exponent == -0.5 else None


def root(forms: Forms, value: Value) -> Rows | None:
    """The rows, where `value`, reshaped or not, is the root of their mean square."""
    value = forms.flat(value)
    square = forms.unary(value, "sqrt")
    if square is not None:
        return _mean_square(forms, square)
    operand, exponent = forms.power(value) or (value, 0.0)
    return _mean_square(forms, operand) if exponent == 0.5 else None


def _mean_square(forms: Forms, value: Value) -> Rows | None:
    value = forms.flat(value)
    inner, epsilon = forms.shifted(value) or (value, 0.0)
    squares, axes = mean(forms, inner) or (None, ())
    operand, exponent = (forms.power(squares) if squares is not None else None) or (value, 0.0)
    if exponent != 2 or not 0 <= epsilon < math.inf or not _worthwhile(operand.type, axes):
        return None
    return Rows(operand, axes, epsilon)


def _worthwhile(type: TensorType, axes: Sequence[int]) -> bool:
    """Whether the rows are of trailing axes, of a type and of a number for which the operations serve."""
    if type.dtype not in FLOATS or not axes or list(axes) != list(range(axes[0], type.rank)):
        return False
    rows, width = product(type.shape[: axes[0]]), product(type.shape[axes[0] :])
    return not (isinstance(rows, int) and rows < FEW and isinstance(width, int) and width > LONG)


def normalized(forms: Forms, value: Value) -> Iterator[tuple[Value, Rows, Value | None]]:
    """Each way to see `value` as a dividend over the root of a mean square of rows, times something or nothing."""
    found: list[tuple[Value, Rows, Value | None]] = []
    dividend, divisor = forms.binary(value, "div") or (value, value)
    inner = forms.repeated(divisor)
    rows = root(forms, inner) if inner is not None and dividend is not value else None
    if rows is not None and forms.along(divisor, rows.axes):
        found.append((dividend, rows, None))
    for dividend, by in forms.either(value, "mul"):
        rows, scale = scaling(forms, by) or (None, None)
        if rows is not None:
            found.append((dividend, rows, scale))
    yield from found
    for dividend, rows, scale in found:
        for inner, factor in forms.either(dividend, "mul") if scale is None else ():
            yield inner, rows, factor


def scaling(forms: Forms, value: Value) -> tuple[Rows, Value | None] | None:
    """The rows, where `value` repeats 1 over the root of their mean square, and what that is multiplied by."""
    rows = _repeated_inverse(forms, value)
    if rows is not None:
        return rows, None
    for inner, scale in forms.either(value, "mul"):
        rows = _repeated_inverse(forms, inner)
        if rows is not None:
            return rows, scale
    return None


def _repeated_inverse(forms: Forms, value: Value) -> Rows | None:
    inner = forms.repeated(value)
    rows = inverse_root(forms, inner) if inner is not None else None
    return rows if rows is not None and forms.along(value, rows.axes) else None


def centred(forms: Forms, value: Value, rows: Rows) -> Value | None:
    """x where `value` is x less the mean of its rows."""
    x, repeated = forms.binary(value, "sub") or (value, value)
    return x if is_mean(forms, repeated, x, rows) else None


def is_mean(forms: Forms, value: Value, x: Value, rows: Rows) -> bool:
    """Whether `value` repeats the means of the rows of `x`."""
    inner = forms.along(value, rows.axes)
    return inner is not None and mean(forms, inner) == (x, rows.axes)


def is_convolved(forms: Forms, x: Value) -> bool:
    """Whether a convolution gives `x`, with or without a bias. Its channels will come last, and the composed form needs no transpose there."""
    return forms.made_by(x, Conv) or any(forms.made_by(v, Conv) for v, _ in forms.either(x, "add"))


def parameter(forms: Forms, b: GraphBuilder, value: Value, axis: int) -> Value | None:
    """The scale or bias that `value` repeats along the axes before `axis`; None where it varies along them."""
    inner = forms.repeated(value) or value
    if any(d != 1 for d in inner.type.shape[:axis]) or not (inner is not value or forms.is_constant(value)):
        return None
    own = compose.reshape(b, inner, inner.type.shape[axis:])
    return compose.expand(b, own, value.type.shape[axis:])


def full(b: GraphBuilder, number: float, like: Value, axis: int) -> Value:
    """A scale or bias of one number."""
    return compose.full(b, number, like.type.with_shape(like.type.shape[axis:]))


def possible(graph: Graph) -> bool:
    """Whether a graph applies the functions that a normalisation takes."""
    names = functions(graph)
    return not names.isdisjoint(("mean", "sum")) and not names.isdisjoint(("sqrt", "rsqrt", "pow"))
