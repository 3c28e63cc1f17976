"""Arithmetic of real and of complex matrices, which broadcast, and their rows, columns and diagonals."""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.importers.stablehlo.context import Refused
from fornaxc.importers.stablehlo.ops import complex_numbers as z
from fornaxc.importers.stablehlo.ops.solve import Matrix, conjugate, each, shape_of, transposed
from fornaxc.importers.stablehlo.types import Complex, parts, rebuild
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, Compare, DynamicSlice, Gather, GatherElements, Iota, Reduce, Unary
from fornaxc.ir.types import DType, TensorType


def static_size(x: Matrix) -> tuple[int, int]:
    """The rows and the columns of `x`; `Refused` where they are symbolic."""
    m, n = shape_of(x)[-2:]
    if not isinstance(m, int) or not isinstance(n, int):
        raise Refused("a factorization of a matrix of symbolic size")
    return m, n


def real_dtype(x: Matrix) -> DType:
    """The element type, of complex matrices that of the parts."""
    return parts(x)[0].type.dtype


# --- arithmetic


def real(x: Matrix) -> Value:
    """`x`, which is known to be real."""
    assert isinstance(x, Value)
    return x


def _like(x: Matrix, values: Sequence[Value]) -> Matrix:
    found = rebuild(x, values)
    assert isinstance(found, Value | Complex)
    return found


def subtract(b: GraphBuilder, x: Matrix, y: Matrix) -> Matrix:
    return _like(x, [c.binary(b, "sub", u, v) for u, v in zip(parts(x), parts(y), strict=True)])


def add(b: GraphBuilder, x: Matrix, y: Matrix) -> Matrix:
    return _like(x, [c.binary(b, "add", u, v) for u, v in zip(parts(x), parts(y), strict=True)])


def multiply(b: GraphBuilder, x: Matrix, y: Matrix) -> Matrix:
    """The elements' products; one of the two may be real where the other is complex."""
    if isinstance(x, Complex) and isinstance(y, Complex):
        return z.multiply(b, *_broadcast(b, x, y))
    if isinstance(x, Complex):
        x, y = y, x
    assert isinstance(x, Value)
    real = x
    return each(y, lambda v: c.binary(b, "mul", real, v))


def divide(b: GraphBuilder, x: Matrix, y: Matrix) -> Matrix:
    """The elements' quotients; the divisor may be real where the dividend is complex."""
    if isinstance(x, Complex) and isinstance(y, Complex):
        return z.divide(b, *_broadcast(b, x, y))
    assert isinstance(y, Value)
    real = y
    return each(x, lambda v: c.binary(b, "div", v, real))


def _broadcast(b: GraphBuilder, x: Complex, y: Complex) -> tuple[Complex, Complex]:
    shape = c.broadcast_shape(x.re.type.shape, y.re.type.shape)
    wide = [Complex(c.expand(b, v.re, shape), c.expand(b, v.im, shape)) for v in (x, y)]
    return wide[0], wide[1]


def pick(b: GraphBuilder, condition: Value, yes: Matrix, no: Matrix | float) -> Matrix:
    """`yes` where the condition holds, else `no`: a matrix or one real number."""
    if isinstance(no, int | float):
        numbers = [c.scalar(b, no if i == 0 else 0, v.type.dtype) for i, v in enumerate(parts(yes))]
        no = _like(yes, numbers)
    return _like(yes, [c.select(b, condition, u, v) for u, v in zip(parts(yes), parts(no), strict=True)])


def adjoint(b: GraphBuilder, x: Matrix) -> Matrix:
    return conjugate(b, transposed(b, x))


def size(b: GraphBuilder, x: Matrix) -> Value:
    """LAPACK's measure of a number: |re| + |im|."""
    absolute = [b.emit(Unary("abs"), v) for v in parts(x)]
    return absolute[0] if len(absolute) == 1 else b.emit(Binary("add"), *absolute)


def square(b: GraphBuilder, x: Matrix) -> Value:
    """re^2 + im^2."""
    squares = [b.emit(Binary("mul"), v, v) for v in parts(x)]
    return squares[0] if len(squares) == 1 else b.emit(Binary("add"), *squares)


def total(b: GraphBuilder, x: Matrix, axis: int) -> Matrix:
    """The sum along an axis, which stays with size 1."""
    axis %= len(shape_of(x))
    return each(x, lambda v: b.emit(Reduce("sum", (axis,)), v))


def largest(b: GraphBuilder, x: Matrix) -> Value:
    """The largest magnitude of each matrix's parts, [..., 1, 1]; NaN where there is one."""
    rank = len(shape_of(x))
    found = [c.reduce(b, "max", b.emit(Unary("abs"), v), [rank - 2, rank - 1]) for v in parts(x)]
    return found[0] if len(found) == 1 else b.emit(Binary("max"), *found)


# --- places


def numbers(b: GraphBuilder, like: Matrix, axis: int) -> Value:
    """Of every element its place along an axis, i64."""
    shape = shape_of(like)
    return b.emit(Iota(shape, axis % len(shape), DType.I64))


def on_diagonal(b: GraphBuilder, like: Matrix) -> Value:
    return b.emit(Compare("eq"), numbers(b, like, -2), numbers(b, like, -1))


def identity(b: GraphBuilder, like: Matrix) -> Matrix:
    """Ones on the diagonal, in the shape and type of `like`."""
    ones = each(like, lambda v: c.full_like(b, 0, v))
    diagonal = c.cast(b, on_diagonal(b, like), real_dtype(like))
    return _like(like, [diagonal, *parts(ones)[1:]])


def diagonal(b: GraphBuilder, x: Matrix) -> Matrix:
    """The diagonal as a row, [..., 1, n]."""
    return total(b, pick(b, on_diagonal(b, x), x, 0), -2)


def line(b: GraphBuilder, x: Matrix, axis: int, i: Value) -> Matrix:
    """The row (axis -2) or the column (axis -1) number `i`, a rank-0 i64; the axis stays with size 1."""
    shape = shape_of(x)
    axis %= len(shape)
    zero = c.scalar(b, 0, DType.I64)
    start = c.concat(b, [c.reshape(b, i if k == axis else zero, (1,)) for k in range(len(shape))], 0)
    sizes = tuple(1 if k == axis else d for k, d in enumerate(shape))
    return each(x, lambda v: b.emit(DynamicSlice(sizes), v, start))


def with_line(b: GraphBuilder, x: Matrix, axis: int, i: Value, new: Matrix) -> Matrix:
    """`x` with its row (axis -2) or column (axis -1) number `i` replaced."""
    return pick(b, c.compare(b, "eq", numbers(b, x, axis), i), new, x)


def take(b: GraphBuilder, x: Matrix, axis: int, places: Value) -> Matrix:
    """The rows (axis -2) or columns (axis -1) at these places, i64 [count], of every matrix alike."""
    axis %= len(shape_of(x))
    return each(x, lambda v: b.emit(Gather(axis), v, places))


def columns_in_order(b: GraphBuilder, x: Matrix, order: Value) -> Matrix:
    """The columns of each matrix in its own order, i64 [..., 1, n]."""
    rank = len(shape_of(x))
    wide = c.expand(b, order, shape_of(x))
    return each(x, lambda v: b.emit(GatherElements(rank - 1), v, wide))


def first_true(b: GraphBuilder, fails: Value) -> Value:
    """The 1-based number of each matrix's first row with a true element, 0 where none has one: i32 [...]."""
    rank = fails.type.rank
    if 0 in fails.type.shape[-2:]:
        return c.full(b, 0, TensorType(DType.I32, fails.type.shape[:-2]))
    none = c.scalar(b, 2**31 - 1, DType.I32)
    rows = b.emit(Iota(fails.type.shape, rank - 2, DType.I32))
    counted = c.select(b, fails, c.with_scalar(b, "add", rows, 1), none)
    first = c.squeeze(b, c.reduce(b, "min", counted, [rank - 2, rank - 1]), [rank - 2, rank - 1])
    return c.select(b, c.compare(b, "eq", first, none), c.full_like(b, 0, first), first)


def beside(b: GraphBuilder, pieces: Sequence[Matrix]) -> Matrix:
    """The columns of all of these, in order."""
    axis = len(shape_of(pieces[0])) - 1
    return _like(pieces[0], [c.concat(b, list(same), axis) for same in zip(*(parts(x) for x in pieces), strict=True)])


def some_columns(b: GraphBuilder, x: Matrix, start: int, count: Dim) -> Matrix:
    return each(x, lambda v: c.slice_axis(b, v, v.type.rank - 1, start, count))


def zeros(b: GraphBuilder, like: Matrix, rows: Dim, columns: Dim) -> Matrix:
    """Matrices of zeros beside which those of `like` are, [..., rows, columns]."""
    return each(like, lambda v: c.full(b, 0, v.type.with_shape((*v.type.shape[:-2], rows, columns))))
