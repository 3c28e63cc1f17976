"""Eigenvectors of symmetric matrices and singular vectors of any, by Jacobi rotations.

Each step rotates disjoint pairs of columns, all at once; as in a tournament, every two columns meet once in a sweep. The steps
end when a whole sweep found nothing to rotate.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fornaxc.importers.stablehlo.context import Refused
from fornaxc.importers.stablehlo.ops import complex_numbers as z
from fornaxc.importers.stablehlo.ops import matrices as mx
from fornaxc.importers.stablehlo.ops.loops import State, iterate
from fornaxc.importers.stablehlo.ops.qr import from_householder, householder
from fornaxc.importers.stablehlo.ops.solve import Matrix, conjugate, each, shape_of
from fornaxc.importers.stablehlo.types import Complex, parts
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, Gather, Iota, Reduce, Select, TopK, Unary
from fornaxc.ir.types import DType

SWEEPS = 60
"""At most; 4 to 15 are usual, 25 where the singular values span many orders of magnitude."""

Turn = Callable[[GraphBuilder, Value, State], tuple[State, Value]]


def symmetric_eigen(b: GraphBuilder, a: Matrix, *, lower: bool) -> tuple[Matrix, Value]:
    """Eigenvectors (columns) and eigenvalues in ascending order of symmetric or Hermitian matrices [..., n, n].

    Reads one triangle. The eigenvalues are [..., n], as good as LAPACK's: to the precision of the largest.
    """
    n, _ = mx.static_size(a)
    tolerance = 4 * _epsilon(a)
    a, unit = _to_size_one(b, _mirrored(b, a, lower=lower))

    def turn(body: GraphBuilder, partner: Value, state: State) -> tuple[State, Value]:
        x, vectors = state
        own = parts(mx.diagonal(body, x))[0]
        met = mx.diagonal(body, mx.take(body, x, -1, partner))
        shrink, sine, size = _rotation(body, own, met, partner)
        x = mx.adjoint(body, _turn_columns(body, x, partner, shrink, sine))
        x = _turn_columns(body, x, partner, shrink, sine)
        bound = body.emit(Reduce("max", (own.type.rank - 1,)), body.emit(Unary("abs"), own))
        large = c.compare(body, "gt", size, c.with_scalar(body, "mul", bound, tolerance))
        return [x, _turn_columns(body, vectors, partner, shrink, sine)], large

    x, vectors = _tournament(b, n, [a, mx.identity(b, a)], turn)
    ordered, order = b.emit_all(TopK(n, len(shape_of(a)) - 1, False), parts(mx.diagonal(b, x))[0])
    values = c.binary(b, "mul", ordered, unit)
    return mx.columns_in_order(b, vectors, order), c.reshape(b, values, shape_of(a)[:-1])


def singular_values(b: GraphBuilder, a: Matrix) -> Value:
    """The singular values of [..., m, n] in descending order, [..., min(m, n)]."""
    w, unit = _to_size_one(b, _tall(b, a))
    n = mx.static_size(w)[1]
    (w,) = _tournament(b, n, [w], _orthogonal_columns(w))
    return _norms_in_order(b, w, unit)[0]


def singular_vectors(b: GraphBuilder, a: Matrix, *, full: bool) -> tuple[Value, Matrix, Matrix]:
    """S [..., k], U and V^H with A = U S V^H, A [..., m, n], k = min(m, n), S in descending order.

    U is [..., m, k] and V^H [..., k, n], or square where `full`. Vectors of singular values 0 are orthonormal to the others.
    """
    w, unit = _to_size_one(b, _tall(b, a))
    m, n = mx.static_size(w)
    one = mx.identity(b, mx.zeros(b, w, n, n))
    w, right = _tournament(b, n, [w, one], _orthogonal_columns(w))
    values, order = _norms_in_order(b, w, unit)
    right = mx.columns_in_order(b, right, order)
    # The columns are orthogonal: Q of their QR decomposition has their directions, but for signs, and completes them.
    w = mx.columns_in_order(b, w, order)
    if full and m > n:
        w = mx.beside(b, [w, mx.zeros(b, w, m, m - n)])
    factored, taus = householder(b, w)
    negative = c.compare(b, "lt", parts(mx.diagonal(b, factored))[0], c.scalar(b, 0, values.type.dtype))
    left = from_householder(b, factored, taus)
    left = mx.pick(b, negative, each(left, lambda v: b.emit(Unary("neg"), v)), left)
    if _is_wide(a):
        left, right = right, left
    return values, left, mx.adjoint(b, right)


def _is_wide(a: Matrix) -> bool:
    m, n = mx.static_size(a)
    return m < n


def _tall(b: GraphBuilder, a: Matrix) -> Matrix:
    return mx.adjoint(b, a) if _is_wide(a) else a


def _norms_in_order(b: GraphBuilder, w: Matrix, unit: Value) -> tuple[Value, Value]:
    """The columns' lengths times `unit`, descending, [..., n], and the columns' order, i64 [..., 1, n]."""
    *lead, _, n = shape_of(w)
    lengths = b.emit(Unary("sqrt"), mx.real(mx.total(b, mx.square(b, w), -2)))
    ordered, order = b.emit_all(TopK(n, len(lead) + 1), lengths)
    return c.reshape(b, c.binary(b, "mul", ordered, unit), (*lead, n)), order


def _orthogonal_columns(like: Matrix) -> Turn:
    """Rotates the columns of the first matrix of the state until they are orthogonal, those of the others alike."""
    epsilon = _epsilon(like)
    tolerance = epsilon * max(mx.static_size(like)[0], 4) ** 0.5
    negligible = (epsilon / 100) ** 2

    def turn(body: GraphBuilder, partner: Value, state: State) -> tuple[State, Value]:
        w = state[0]
        own = mx.real(mx.total(body, mx.square(body, w), -2))
        product = mx.multiply(body, conjugate(body, w), mx.take(body, w, -1, partner))
        shrink, sine, size = _rotation(body, own, mx.total(body, product, -2), partner)
        other = mx.real(mx.take(body, own, -1, partner))
        bound = body.emit(Binary("mul"), *(body.emit(Unary("sqrt"), v) for v in (own, other)))
        large = c.compare(body, "gt", size, c.with_scalar(body, "mul", bound, tolerance))
        longest = body.emit(Reduce("max", (own.type.rank - 1,)), own)
        least = c.with_scalar(body, "mul", longest, negligible)
        counts = c.compare(body, "gt", body.emit(Binary("min"), own, other), least)
        turned = [_turn_columns(body, x, partner, shrink, sine) for x in state]
        return turned, body.emit(Binary("and"), large, counts)

    return turn


def _epsilon(x: Matrix) -> float:
    dtype = mx.real_dtype(x)
    if dtype not in (DType.F32, DType.F64):
        raise Refused(f"eigenvectors or singular vectors of {dtype} matrices")
    return float(np.finfo(dtype.numpy).eps)


def _to_size_one(b: GraphBuilder, a: Matrix) -> tuple[Matrix, Value]:
    """`a` over a number [..., 1, 1], and that number: 1 unless squares of the elements could overflow or vanish."""
    dtype = mx.real_dtype(a)
    info = np.finfo(dtype.numpy)
    low, high = float(info.tiny) ** 0.25, float(info.max) ** 0.25
    found = mx.largest(b, a)
    small, large = (
        c.compare(b, "lt", found, c.scalar(b, low, dtype)),
        c.compare(b, "gt", found, c.scalar(b, high, dtype)),
    )
    extreme = b.emit(Binary("or"), small, large)
    some = c.compare(b, "ne", found, c.scalar(b, 0, dtype))
    unit = c.select(b, b.emit(Binary("and"), extreme, some), found, c.full_like(b, 1, found))
    return mx.divide(b, a, unit), unit


def _mirrored(b: GraphBuilder, a: Matrix, *, lower: bool) -> Matrix:
    """The Hermitian matrices of which `a` holds one triangle; the diagonal's imaginary parts count for nothing."""
    rows, columns = mx.numbers(b, a, -2), mx.numbers(b, a, -1)
    half = mx.pick(b, c.compare(b, "gt" if lower else "lt", rows, columns), a, 0)
    whole = mx.add(b, half, mx.adjoint(b, half))
    real, *rest = parts(whole)
    real = b.emit(Select(), mx.on_diagonal(b, a), parts(a)[0], real)
    return Complex(real, *rest) if rest else real


# --- the tournament


def _tournament(b: GraphBuilder, n: int, start: State, turn: Turn) -> State:
    """`start` after rounds of turns, until as many in a row as make a sweep turned by nothing large, or `SWEEPS` are over."""
    if n < 2:
        return start
    rounds = n - 1 + n % 2
    zero = c.scalar(b, 0, DType.I64)

    def goes_on(condition: GraphBuilder, state: State) -> Value:
        number, calm = (mx.real(x) for x in state[:2])
        left = c.compare(condition, "lt", number, c.scalar(condition, rounds * SWEEPS, DType.I64))
        restless = c.compare(condition, "lt", calm, c.scalar(condition, rounds, DType.I64))
        return condition.emit(Binary("and"), left, restless)

    def step(body: GraphBuilder, state: State) -> State:
        number, calm = (mx.real(x) for x in state[:2])
        turned, large = turn(body, _partners(body, number, n), state[2:])
        some = c.reshape(body, c.reduce(body, "max", large, range(large.type.rank)), ())
        calm = body.emit(Select(), some, c.scalar(body, 0, DType.I64), c.with_scalar(body, "add", calm, 1))
        return [c.with_scalar(body, "add", number, 1), calm, *turned]

    return iterate(b, [zero, zero, *start], goes_on, step)[2:]


def _partners(b: GraphBuilder, number: Value, n: int) -> Value:
    """Whom each of `n` meets in a round, i64 [n]; itself where it rests, as one does where `n` is odd."""
    rounds = n - 1 + n % 2
    i = b.emit(Iota((n,), 0, DType.I64))

    def within(x: Value) -> Value:
        return c.with_scalar(b, "mod", x, rounds)

    met = within(c.binary(b, "sub", number, i))
    if n % 2:
        return met
    last = c.scalar(b, n - 1, DType.I64)  # it meets the one that would rest without it
    met = c.select(b, c.compare(b, "eq", met, i), last, met)
    resting = within(c.with_scalar(b, "mul", number, n // 2))
    return c.select(b, c.compare(b, "eq", i, last), resting, met)


def _rotation(b: GraphBuilder, own: Value, met: Matrix, partner: Value) -> tuple[Value, Matrix, Value]:
    """The rotations that make the elements `met` of 2 by 2 Hermitian matrices vanish, from the view of each column.

    `own` are the diagonal's elements [..., 1, n], and `met` those beside them; where a column rests nothing turns. Gives 1 - cosine, the sine times the phase,
    and |met|, each for every column.
    """
    dtype = own.type.dtype
    zero, one = c.scalar(b, 0, dtype), c.scalar(b, 1, dtype)
    places = b.emit(Iota((shape_of(met)[-1],), 0, DType.I64))
    mirrored = conjugate(b, mx.take(b, met, -1, partner))
    met = each(mx.add(b, met, mirrored), lambda v: c.with_scalar(b, "mul", v, 0.5))  # both of a pair turn by one angle
    met = mx.pick(b, c.compare(b, "ne", places, partner), met, 0)
    size = z.magnitude(b, met) if isinstance(met, Complex) else b.emit(Unary("abs"), met)
    none = c.compare(b, "eq", size, zero)
    divisor = c.select(b, none, one, size)
    slope = b.emit(Binary("sub"), b.emit(Gather(own.type.rank - 1), own, partner), own)
    slope = b.emit(Binary("div"), c.with_scalar(b, "mul", slope, 0.5), divisor)
    first = c.select(b, c.compare(b, "lt", places, partner), one, c.scalar(b, -1, dtype))
    sign = c.select(b, c.compare(b, "eq", slope, zero), first, b.emit(Unary("sign"), slope))
    root = b.emit(Unary("sqrt"), c.with_scalar(b, "add", b.emit(Binary("mul"), slope, slope), 1))
    tangent = b.emit(Binary("div"), sign, b.emit(Binary("add"), b.emit(Unary("abs"), slope), root))
    tangent = c.select(b, none, zero, tangent)
    cosine = b.emit(Unary("rsqrt"), c.with_scalar(b, "add", b.emit(Binary("mul"), tangent, tangent), 1))
    sine = b.emit(Binary("mul"), tangent, cosine)
    shrink = b.emit(Binary("div"), b.emit(Binary("mul"), sine, sine), c.with_scalar(b, "add", cosine, 1))
    return shrink, mx.multiply(b, sine, mx.divide(b, conjugate(b, met), divisor)), size


def _turn_columns(b: GraphBuilder, x: Matrix, partner: Value, shrink: Value, sine: Matrix) -> Matrix:
    """Every column less its change, which keeps small turns exact: times 1 - cosine, and its partner's times the sine."""
    turned = mx.multiply(b, mx.take(b, x, -1, partner), sine)
    return mx.subtract(b, x, mx.add(b, mx.multiply(b, x, shrink), turned))
