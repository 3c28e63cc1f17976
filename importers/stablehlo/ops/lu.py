"""LU decomposition with partial pivoting, of general and of tridiagonal matrices."""

from __future__ import annotations

from fornaxc.importers.stablehlo.ops import matrices as mx
from fornaxc.importers.stablehlo.ops.loops import State, repeat
from fornaxc.importers.stablehlo.ops.solve import Matrix, each, shape_of
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import ArgReduce, Binary
from fornaxc.ir.types import DType, TensorType


def lu(b: GraphBuilder, a: Matrix) -> tuple[Matrix, Value, Value]:
    """LAPACK's getrf of [..., m, n]: L (unit diagonal, below) and U in one matrix, the swaps, the status.

    The swaps are the 1-based row that each step exchanged with its own, i32 [..., min(m, n)]. The status is the 1-based
    number of the first pivot that is 0, whose column of L is 0 then, or 0: i32 [...].
    """
    count = min(mx.static_size(a))
    lead = shape_of(a)[:-2]
    start = c.full(b, 0, TensorType(DType.I32, (*lead, count)))

    def step(body: GraphBuilder, i: Value, state: State) -> State:
        x, swaps = state
        rows, columns = mx.numbers(body, x, -2), mx.numbers(body, x, -1)
        column = mx.line(body, x, -1, i)
        place = mx.numbers(body, column, -2)
        candidates = mx.pick(body, c.compare(body, "ge", place, i), mx.size(body, column), -1)
        chosen = body.emit(ArgReduce("max", len(lead)), mx.real(candidates))
        at_chosen = c.compare(body, "eq", rows, chosen)
        upper = mx.line(body, x, -2, i)
        other = mx.total(body, mx.pick(body, at_chosen, x, 0), -2)
        x = mx.with_line(body, mx.pick(body, at_chosen, upper, x), -2, i, other)
        pivot = mx.line(body, other, -1, i)
        pivot = mx.pick(body, _is_not_zero(body, pivot), pivot, 1)
        factors = mx.divide(body, mx.line(body, x, -1, i), pivot)
        factors = mx.pick(body, c.compare(body, "gt", place, i), factors, 0)
        right = mx.pick(body, c.compare(body, "gt", mx.numbers(body, other, -1), i), other, 0)
        left = body.emit(Binary("and"), c.compare(body, "eq", columns, i), c.compare(body, "gt", rows, i))
        x = mx.pick(body, left, factors, mx.subtract(body, x, mx.multiply(body, factors, right)))
        number = c.with_scalar(body, "add", c.reshape(body, chosen, (*lead, 1)), 1)
        return [x, mx.with_line(body, swaps, -1, i, c.cast(body, number, DType.I32))]

    factors, swaps = repeat(b, count, [a, start], step)
    zeros = c.compare(b, "eq", mx.size(b, factors), c.scalar(b, 0, mx.real_dtype(a)))
    return factors, mx.real(swaps), mx.first_true(b, b.emit(Binary("and"), zeros, mx.on_diagonal(b, factors)))


def _is_not_zero(b: GraphBuilder, x: Matrix) -> Value:
    return c.compare(b, "ne", mx.size(b, x), c.scalar(b, 0, mx.real_dtype(x)))


def solve_tridiagonal(
    b: GraphBuilder, below: Matrix, diagonal: Matrix, above: Matrix, right: Matrix
) -> tuple[Matrix, Value]:
    """LAPACK's gtsv: the solution [..., n, k] for the diagonals [..., n] and the right sides [..., n, k], and the status.

    The first element of `below` and the last of `above` count for nothing. The status is the 1-based number of the first
    pivot that is 0, or 0: i32 [...].
    """
    n, count = mx.static_size(right)
    lead = shape_of(right)[:-2]
    columns = [each(x, lambda v: c.reshape(b, v, (*lead, n, 1))) for x in (below, diagonal, above)]
    rows = mx.beside(b, [*columns, right])  # of each equation three coefficients, and what they give
    rest = _from_second(b, mx.line(b, rows, -2, c.scalar(b, 0, DType.I64)))

    def eliminate(body: GraphBuilder, i: Value, state: State) -> State:
        """`rest` is what is left of equation i, from its diagonal on."""
        done, rest = state
        following = mx.line(body, rows, -2, c.with_scalar(body, "add", i, 1))
        own, other = mx.some_columns(body, rest, 0, 1), mx.some_columns(body, following, 0, 1)
        swap = c.compare(body, "gt", mx.size(body, other), mx.size(body, own))
        upper, lower = mx.pick(body, swap, following, rest), mx.pick(body, swap, rest, following)
        pivot, head = mx.pick(body, swap, other, own), mx.pick(body, swap, own, other)
        factor = mx.divide(body, head, mx.pick(body, _is_not_zero(body, pivot), pivot, 1))
        lower = mx.subtract(body, lower, mx.multiply(body, factor, upper))
        return [mx.with_line(body, done, -2, i, upper), _from_second(body, lower)]

    done, rest = repeat(b, n - 1, [rows, rest], eliminate)
    done = mx.with_line(b, done, -2, c.scalar(b, n - 1, DType.I64), rest)

    def substitute(body: GraphBuilder, i: Value, state: State) -> State:
        solved, after, second = state
        place = c.binary(body, "sub", c.scalar(body, n - 1, DType.I64), i)
        row = mx.line(body, done, -2, place)
        value = mx.some_columns(body, row, 3, count)
        for number, known in ((1, after), (2, second)):
            factor = mx.some_columns(body, row, number, 1)
            value = mx.subtract(body, value, mx.multiply(body, factor, known))
        value = mx.divide(body, value, mx.some_columns(body, row, 0, 1))
        return [mx.with_line(body, solved, -2, place, value), value, after]

    nothing = mx.zeros(b, right, 1, count)
    solved = repeat(b, n, [right, nothing, nothing], substitute)[0]
    pivots = mx.size(b, mx.some_columns(b, done, 0, 1))
    return solved, mx.first_true(b, c.compare(b, "eq", pivots, c.scalar(b, 0, pivots.type.dtype)))


def _from_second(b: GraphBuilder, row: Matrix) -> Matrix:
    """An equation without its first coefficient, and with 0 for the one after its last."""
    _, width = mx.static_size(row)
    pieces = [mx.some_columns(b, row, 1, 2), mx.zeros(b, row, 1, 1), mx.some_columns(b, row, 3, width - 3)]
    return mx.beside(b, pieces)
