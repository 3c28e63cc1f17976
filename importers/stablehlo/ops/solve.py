"""cholesky and triangular_solve, of real and of complex matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fornaxc.importers.stablehlo.context import OpContext
from fornaxc.importers.stablehlo.ops import complex_numbers as z
from fornaxc.importers.stablehlo.ops.arithmetic import narrow
from fornaxc.importers.stablehlo.ops.shape import flip
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Complex, Operand, parts, rebuild
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, DynamicSlice, Iota, MatMul, Select, Unary, While
from fornaxc.ir.types import DType

UNROLLED = 8  # matrix sizes up to which each row or column gets operations of its own

Matrix = Value | Complex


def each(x: Matrix, function: Callable[[Value], Value]) -> Matrix:
    """`function` of the value, or of both parts of a complex one."""
    if isinstance(x, Complex):
        return Complex(function(x.re), function(x.im))
    return function(x)


def shape_of(x: Matrix) -> tuple[Dim, ...]:
    return parts(x)[0].type.shape


def matmul(b: GraphBuilder, x: Matrix, y: Matrix) -> Matrix:
    """The product of matrices [batch..., m, k] and [batch..., k, n]."""

    def real(u: Value, v: Value) -> Value:
        return b.emit(MatMul(), u, v)

    if not isinstance(x, Complex) or not isinstance(y, Complex):
        assert isinstance(x, Value) and isinstance(y, Value)
        return real(x, y)
    re = b.emit(Binary("sub"), real(x.re, y.re), real(x.im, y.im))
    return Complex(re, b.emit(Binary("add"), real(x.re, y.im), real(x.im, y.re)))


def subtract(b: GraphBuilder, x: Matrix, y: Matrix) -> Matrix:
    pairs = zip(parts(x), parts(y), strict=True)
    return _matrix(rebuild(x, [b.emit(Binary("sub"), u, v) for u, v in pairs]))


def divide(b: GraphBuilder, x: Matrix, y: Matrix) -> Matrix:
    """`x` over `y`, which broadcasts."""
    y = each(y, lambda v: c.expand(b, v, shape_of(x)))
    if isinstance(x, Complex) and isinstance(y, Complex):
        return z.divide(b, x, y)
    assert isinstance(x, Value) and isinstance(y, Value)
    return b.emit(Binary("div"), x, y)


def conjugate(b: GraphBuilder, x: Matrix) -> Matrix:
    return Complex(x.re, b.emit(Unary("neg"), x.im)) if isinstance(x, Complex) else x


def transposed(b: GraphBuilder, x: Matrix) -> Matrix:
    rank = len(shape_of(x))
    return each(x, lambda v: c.transpose(b, v, [*range(rank - 2), rank - 1, rank - 2]))


def triangle(b: GraphBuilder, x: Matrix, *, lower: bool, unit: bool = False) -> Matrix:
    """`x` with zeros outside the triangle; ones on the diagonal where `unit`."""
    shape = shape_of(x)
    rank = len(shape)
    i = b.emit(Iota(shape, rank - 2, DType.I32))
    j = b.emit(Iota(shape, rank - 1, DType.I32))
    kept = c.compare(b, "ge" if lower else "le", i, j)
    x = each(x, lambda v: b.emit(Select(), kept, v, c.full_like(b, 0, v)))
    if not unit:
        return x
    diagonal = c.compare(b, "eq", i, j)
    values = [b.emit(Select(), diagonal, c.full_like(b, int(n == 0), v), v) for n, v in enumerate(parts(x))]
    return _matrix(rebuild(x, values))


def _matrix(operand: Operand) -> Matrix:
    assert isinstance(operand, Value | Complex)
    return operand


def _widened(ctx: OpContext, x: Operand) -> Matrix:
    """Half-precision matrices are worked on in f32."""
    x = _matrix(x)
    return each(x, lambda v: c.cast(ctx.b, v, DType.F32) if v.type.dtype in (DType.F16, DType.BF16) else v)


@stablehlo_op("stablehlo.triangular_solve")
def triangular_solve(ctx: OpContext) -> Operand:
    a, operand = _widened(ctx, ctx.operands[0]), _matrix(ctx.operands[1])
    dtype = parts(operand)[0].type.dtype
    x = _widened(ctx, operand)
    lead = tuple(d if isinstance(d, int) else e for d, e in zip(shape_of(a)[:-2], shape_of(x)[:-2], strict=True))
    result = solve_triangular(
        ctx.b,
        each(a, lambda v: c.rebind(ctx.b, v, (*lead, *v.type.shape[-2:]))),
        each(x, lambda v: c.rebind(ctx.b, v, (*lead, *v.type.shape[-2:]))),
        left=ctx.flag("left_side"),
        lower=ctx.flag("lower"),
        unit=ctx.flag("unit_diagonal"),
        transpose=ctx.word("transpose_a", "NO_TRANSPOSE"),
    )
    return each(result, lambda v: narrow(ctx.b, v, dtype))


def solve_triangular(
    b: GraphBuilder, a: Matrix, x: Matrix, *, left: bool, lower: bool, unit: bool, transpose: str
) -> Matrix:
    """X of op(A) X = B (left) or X op(A) = B; op is NO_TRANSPOSE, TRANSPOSE or ADJOINT. Reads one triangle of A."""
    if transpose == "ADJOINT":
        a = conjugate(b, a)
    if (transpose in ("TRANSPOSE", "ADJOINT")) == left:  # exactly one of transposing A and solving from the right
        a, lower = transposed(b, a), not lower
    if not left:
        x = transposed(b, x)
    rank = len(shape_of(a))
    if not lower:  # the last row first
        a = each(a, lambda v: flip(b, v, [rank - 2, rank - 1]))
        x = each(x, lambda v: flip(b, v, [rank - 2]))
    solved = _forward(b, triangle(b, a, lower=True, unit=unit), x)
    if not lower:
        solved = each(solved, lambda v: flip(b, v, [rank - 2]))
    return solved if left else transposed(b, solved)


def _cut(b: GraphBuilder, x: Matrix, axis: int, start: Dim, size: Dim) -> Matrix:
    rank = len(shape_of(x))
    return each(x, lambda v: c.slice_axis(b, v, axis % rank, start, size))


def _join(b: GraphBuilder, pieces: Sequence[Matrix], axis: int) -> Matrix:
    axis %= len(shape_of(pieces[0]))
    joined = [c.concat(b, list(column), axis) for column in zip(*(parts(p) for p in pieces), strict=True)]
    return _matrix(rebuild(pieces[0], joined))


def _forward(b: GraphBuilder, a: Matrix, x: Matrix) -> Matrix:
    """A lower triangular system, row by row."""
    n = shape_of(a)[-1]
    if n == 0:
        return x
    if isinstance(n, int) and n <= UNROLLED:
        rows: list[Matrix] = []
        for i in range(n):
            row = _cut(b, x, -2, i, 1)
            if i:
                known = _join(b, rows, -2)
                row = subtract(b, row, matmul(b, _cut(b, _cut(b, a, -2, i, 1), -1, 0, i), known))
            rows.append(divide(b, row, _cut(b, _cut(b, a, -2, i, 1), -1, i, 1)))
        return _join(b, rows, -2)
    start = each(x, lambda v: c.full_like(b, 0, v))

    def step(body: GraphBuilder, i: Value, solved: Matrix) -> Matrix:
        row = _row(body, a, i)
        rest = subtract(body, _row(body, x, i), matmul(body, row, solved))
        new = divide(body, rest, _column(body, row, i))
        return _with_row(body, solved, new, i)

    return loop(b, n, start, step)


def loop(b: GraphBuilder, count: Dim, start: Matrix, step: Callable[[GraphBuilder, Value, Matrix], Matrix]) -> Matrix:
    """`start` after `step` for i = 0, 1, ... count - 1 (a rank-0 i64)."""
    counter = c.scalar(b, 0, DType.I64)
    condition, body = GraphBuilder(b), GraphBuilder(b)
    seen = condition.input(counter.type)
    for v in parts(start):
        condition.input(v.type)
    go_on = c.compare(condition, "lt", seen, c.reshape(condition, condition.dims((count,)), ()))
    i = body.input(counter.type)
    carried = _matrix(rebuild(start, [body.input(v.type) for v in parts(start)]))
    after = step(body, i, carried)
    regions = (condition.finish([go_on]), body.finish([c.with_scalar(body, "add", i, 1), *parts(after)]))
    results = b.emit_all(While(), counter, *parts(start), regions=regions)
    return _matrix(rebuild(start, results[1:]))


def _window(b: GraphBuilder, x: Matrix, axis: int, i: Value) -> Matrix:
    """One place of an axis, which stays with size 1."""
    shape = shape_of(x)
    axis %= len(shape)
    zero = c.scalar(b, 0, DType.I64)
    places = [c.reshape(b, i if k == axis else zero, (1,)) for k in range(len(shape))]
    sizes = tuple(1 if k == axis else d for k, d in enumerate(shape))
    starts = c.concat(b, places, 0)
    return each(x, lambda v: b.emit(DynamicSlice(sizes), v, starts))


def _row(b: GraphBuilder, x: Matrix, i: Value) -> Matrix:
    return _window(b, x, -2, i)


def _column(b: GraphBuilder, x: Matrix, i: Value) -> Matrix:
    return _window(b, x, -1, i)


def _with_row(b: GraphBuilder, x: Matrix, row: Matrix, i: Value, axis: int = -2) -> Matrix:
    """`x` with its row (or column) `i` replaced."""
    shape = shape_of(x)
    place = b.emit(Iota(shape, axis % len(shape), DType.I64))
    here = c.compare(b, "eq", place, i)
    pairs = zip(parts(row), parts(x), strict=True)
    return _matrix(rebuild(x, [b.emit(Select(), here, c.expand(b, new, shape), old) for new, old in pairs]))


@stablehlo_op("stablehlo.cholesky")
def cholesky(ctx: OpContext) -> Operand:
    a = _matrix(ctx.operands[0])
    dtype = parts(a)[0].type.dtype
    result = cholesky_factor(ctx.b, _widened(ctx, a), lower=ctx.flag("lower"))
    return each(result, lambda v: narrow(ctx.b, v, dtype))


def cholesky_factor(b: GraphBuilder, a: Matrix, *, lower: bool) -> Matrix:
    """L with L L^H = A (lower) or U with U^H U = A; reads that triangle of A, and gives zeros in the other."""
    if not lower:
        a = conjugate(b, transposed(b, a))
    factor = _columns(b, a)
    return factor if lower else conjugate(b, transposed(b, factor))


def _columns(b: GraphBuilder, a: Matrix) -> Matrix:
    """Column by column: what is left of A's column, over the root of its diagonal element."""
    n = shape_of(a)[-1]
    if n == 0:
        return a
    if isinstance(n, int) and n <= UNROLLED:
        columns: list[Matrix] = []
        for j in range(n):
            rest = _cut(b, _cut(b, a, -1, j, 1), -2, j, n - j)
            if j:
                known = _cut(b, _join(b, columns, -1), -2, j, n - j)
                row = conjugate(b, transposed(b, _cut(b, known, -2, 0, 1)))
                rest = subtract(b, rest, matmul(b, known, row))
            columns.append(_on_top(b, _over_root(b, rest, _cut(b, rest, -2, 0, 1)), j))
        return _join(b, columns, -1)
    start = each(a, lambda v: c.full_like(b, 0, v))

    def step(body: GraphBuilder, j: Value, factor: Matrix) -> Matrix:
        row = conjugate(body, transposed(body, _row(body, factor, j)))
        rest = subtract(body, _column(body, a, j), matmul(body, factor, row))
        column = _over_root(body, rest, _row(body, rest, j))
        place = body.emit(Iota(shape_of(column), len(shape_of(column)) - 2, DType.I64))
        below = c.compare(body, "ge", place, j)
        column = each(column, lambda v: body.emit(Select(), below, v, c.full_like(body, 0, v)))
        return _with_row(body, factor, column, j, axis=-1)

    return loop(b, n, start, step)


def _over_root(b: GraphBuilder, column: Matrix, diagonal: Matrix) -> Matrix:
    """The column over the root of the (real) diagonal element."""
    root = b.emit(Unary("sqrt"), parts(diagonal)[0])
    scaled = each(column, lambda v: c.binary(b, "div", v, root))
    return scaled


def _on_top(b: GraphBuilder, column: Matrix, count: int) -> Matrix:
    """The column with `count` zeros above it."""
    if not count:
        return column
    shape = (*shape_of(column)[:-2], count, 1)
    return _join(b, [each(column, lambda v: c.full(b, 0, v.type.with_shape(shape))), column], -2)
