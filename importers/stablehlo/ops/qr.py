"""QR decomposition by Householder reflections, as LAPACK stores them."""

from __future__ import annotations

from fornaxc.importers.stablehlo.ops import matrices as mx
from fornaxc.importers.stablehlo.ops.loops import State, repeat
from fornaxc.importers.stablehlo.ops.solve import Matrix, conjugate, each, shape_of
from fornaxc.importers.stablehlo.types import Complex, parts
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, Select, Unary


def householder(b: GraphBuilder, a: Matrix) -> tuple[Matrix, Matrix]:
    """LAPACK's geqrf of [..., m, n]: R above, the reflections' vectors below the diagonal, and their factors tau.

    Reflection j is I - tau v v^H with 1 at v's place j and 0 before it; R's diagonal is real; tau is [..., min(m, n)].
    """
    count = min(mx.static_size(a))
    lead = shape_of(a)[:-2]
    start = each(a, lambda v: c.full(b, 0, v.type.with_shape((*lead, count))))

    def step(body: GraphBuilder, j: Value, state: State) -> State:
        x, taus = state
        rows, columns = mx.numbers(body, x, -2), mx.numbers(body, x, -1)
        column = mx.line(body, x, -1, j)
        place = mx.numbers(body, column, -2)
        under = c.compare(body, "gt", place, j)
        rest = mx.pick(body, c.compare(body, "ge", place, j), column, 0)
        unit = _or_one(body, mx.largest(body, rest))  # squares of what is divided by it neither overflow nor vanish
        alpha = mx.divide(body, mx.line(body, column, -2, j), unit)
        below = mx.divide(body, mx.pick(body, under, column, 0), unit)
        squares = mx.real(mx.total(body, mx.square(body, below), -2))
        length = body.emit(Unary("sqrt"), body.emit(Binary("add"), squares, mx.square(body, alpha)))
        re, zero = parts(alpha)[0], c.scalar(body, 0, mx.real_dtype(a))
        beta = body.emit(Select(), c.compare(body, "lt", re, zero), length, body.emit(Unary("neg"), length))
        idle = c.compare(body, "eq", squares, zero)  # nothing to reflect
        if isinstance(alpha, Complex):
            idle = body.emit(Binary("and"), idle, c.compare(body, "eq", alpha.im, zero))
        beta = body.emit(Select(), idle, re, beta)
        apart = mx.subtract(body, alpha, _as(body, alpha, beta))
        tau = each(mx.divide(body, apart, _or_one(body, beta)), lambda v: body.emit(Unary("neg"), v))
        reflects = body.emit(Unary("not"), idle)
        vector = mx.divide(body, below, mx.pick(body, reflects, apart, 1))
        whole = mx.pick(body, c.compare(body, "ne", place, j), vector, 1)
        right = mx.pick(body, c.compare(body, "gt", columns, j), x, 0)
        x = _reflect(body, x, right, whole, conjugate(body, tau))
        diagonal = _as(body, alpha, body.emit(Binary("mul"), beta, unit))
        new = mx.pick(body, under, vector, mx.pick(body, c.compare(body, "eq", place, j), diagonal, column))
        kept = c.compare(body, "lt", rows, j)
        here = body.emit(Binary("and"), c.compare(body, "eq", columns, j), body.emit(Unary("not"), kept))
        tau = each(tau, lambda v: c.reshape(body, v, (*lead, 1)))
        return [mx.pick(body, here, new, x), mx.with_line(body, taus, -1, j, tau)]

    factored, taus = repeat(b, count, [a, start], step)
    return factored, taus


def _or_one(b: GraphBuilder, x: Value) -> Value:
    return c.select(b, c.compare(b, "eq", x, c.scalar(b, 0, x.type.dtype)), c.full_like(b, 1, x), x)


def _as(b: GraphBuilder, like: Matrix, x: Value) -> Matrix:
    """A real number as what `like` is."""
    return Complex(x, c.full_like(b, 0, x)) if isinstance(like, Complex) else x


def _reflect(b: GraphBuilder, x: Matrix, part: Matrix, vector: Matrix, factor: Matrix) -> Matrix:
    """x - factor vector (vector^H part)."""
    row = mx.total(b, mx.multiply(b, conjugate(b, vector), part), -2)
    return mx.subtract(b, x, mx.multiply(b, mx.multiply(b, factor, vector), row))


def from_householder(b: GraphBuilder, a: Matrix, taus: Matrix) -> Matrix:
    """LAPACK's orgqr and ungqr: of the product of the reflections in `a` the first columns, as many as `a` has."""
    mx.static_size(a)
    count = shape_of(taus)[-1]
    assert isinstance(count, int)  # not more than the columns

    def step(body: GraphBuilder, i: Value, state: State) -> State:
        j = c.binary(body, "sub", c.scalar(body, count - 1, i.type.dtype), i)
        column = mx.line(body, a, -1, j)
        place = mx.numbers(body, column, -2)
        vector = mx.pick(body, c.compare(body, "gt", place, j), column, 0)
        vector = mx.pick(body, c.compare(body, "ne", place, j), vector, 1)
        tau = each(mx.line(body, taus, -1, j), lambda v: c.reshape(body, v, (*v.type.shape, 1)))
        return [_reflect(body, state[0], state[0], vector, tau)]

    return repeat(b, count, [mx.identity(b, a)], step)[0]
