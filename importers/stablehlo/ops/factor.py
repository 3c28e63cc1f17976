"""Matrix factorizations that LAPACK custom calls ask for: LU, QR by Householder reflections, symmetric eigenvectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fornaxc.importers.stablehlo.context import Refused
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Array, Value
from fornaxc.ir.ops import (
    ArgReduce,
    Binary,
    Compare,
    DynamicSlice,
    GatherElements,
    Iota,
    MatMul,
    Reduce,
    Select,
    TopK,
    Unary,
    While,
)
from fornaxc.ir.types import DType, TensorType

SWEEPS = {DType.F32: 10, DType.F64: 14}
Step = Callable[[GraphBuilder, Value, list[Value]], list[Value]]


def repeat(b: GraphBuilder, count: int, start: Sequence[Value], step: Step) -> list[Value]:
    """The values after `step` for i = 0, 1, ... count - 1 (a rank-0 i64)."""
    counter = c.scalar(b, 0, DType.I64)
    condition, body = GraphBuilder(b), GraphBuilder(b)
    seen = condition.input(counter.type)
    for v in start:
        condition.input(v.type)
    go_on = c.compare(condition, "lt", seen, c.scalar(condition, count, DType.I64))
    i = body.input(counter.type)
    after = step(body, i, [body.input(v.type) for v in start])
    regions = (condition.finish([go_on]), body.finish([c.with_scalar(body, "add", i, 1), *after]))
    return list(b.emit_all(While(), counter, *start, regions=regions)[1:])


class _Places:
    """Row and column numbers of a matrix, and selections by them."""

    def __init__(self, b: GraphBuilder, like: Value) -> None:
        self.b = b
        self.shape = like.type.shape
        rank = like.type.rank
        self.rows = b.emit(Iota(self.shape, rank - 2, DType.I64))
        self.columns = b.emit(Iota(self.shape, rank - 1, DType.I64))

    def row(self, x: Value, at: Value) -> Value:
        """The row `at` of a matrix, [..., 1, n]."""
        return self._sum(x, c.compare(self.b, "eq", self.rows, at), x.type.rank - 2)

    def column(self, x: Value, at: Value) -> Value:
        """The column `at` of a matrix, [..., m, 1]."""
        return self._sum(x, c.compare(self.b, "eq", self.columns, at), x.type.rank - 1)

    def _sum(self, x: Value, mask: Value, axis: int) -> Value:
        kept = c.select(self.b, mask, x, c.full_like(self.b, 0, x))
        return self.b.emit(Reduce("sum", (axis,)), kept)

    def where(self, fn: str, axis_rows: bool, at: Value) -> Value:
        return c.compare(self.b, fn, self.rows if axis_rows else self.columns, at)


def _least(x: Value) -> int:
    m, n = x.type.shape[-2:]
    if not isinstance(m, int) or not isinstance(n, int):
        raise Refused("a factorization of a matrix of symbolic size")
    return min(m, n)


def lu(b: GraphBuilder, a: Value) -> tuple[Value, Value]:
    """L (unit diagonal, below) and U in one matrix, and the 1-based row that each step swapped in, i32."""
    count = _least(a)
    lead = a.type.shape[:-2]
    pivots = c.full(b, 0, TensorType(DType.I32, (*lead, count)))

    def step(body: GraphBuilder, i: Value, carried: list[Value]) -> list[Value]:
        x, swaps = carried
        at = _Places(body, x)
        rank = x.type.rank
        column = body.emit(Unary("abs"), at.column(x, i))
        place = body.emit(Iota(column.type.shape, rank - 2, DType.I64))
        column = c.select(body, c.compare(body, "ge", place, i), column, c.full_like(body, -1, column))
        chosen = body.emit(ArgReduce("max", rank - 2), column)
        top, other = at.row(x, i), at.row(x, chosen)
        swapped = c.select(body, at.where("eq", True, chosen), top, x)
        swapped = c.select(body, at.where("eq", True, i), other, swapped)
        pivot = _Places(body, other).column(other, i)
        below = c.compare(body, "gt", place, i)
        factors = c.binary(body, "div", at.column(swapped, i), pivot)
        factors = c.select(body, below, factors, c.full_like(body, 0, factors))
        right = c.select(body, at.where("gt", False, i), swapped, c.full_like(body, 0, swapped))
        pivot_row = at.row(right, i)
        updated = c.binary(body, "sub", swapped, c.binary(body, "mul", factors, pivot_row))
        is_column = body.emit(Binary("and"), at.where("eq", False, i), at.where("gt", True, i))
        updated = c.select(body, is_column, factors, updated)
        step_at = body.emit(Iota(swaps.type.shape, len(lead), DType.I64))
        number = c.cast(body, c.with_scalar(body, "add", c.reshape(body, chosen, (*lead, 1)), 1), DType.I32)
        return [updated, c.select(body, c.compare(body, "eq", step_at, i), number, swaps)]

    factors, swaps = repeat(b, count, [a, pivots], step)
    return factors, swaps


def householder(b: GraphBuilder, a: Value) -> tuple[Value, Value]:
    """R above, the reflections' vectors below the diagonal, and their factors tau."""
    count = _least(a)
    lead = a.type.shape[:-2]
    dtype = a.type.dtype
    taus = c.full(b, 0, TensorType(dtype, (*lead, count)))

    def step(body: GraphBuilder, j: Value, carried: list[Value]) -> list[Value]:
        x, tau = carried
        at = _Places(body, x)
        column = at.column(x, j)
        place = body.emit(Iota(column.type.shape, column.type.rank - 2, DType.I64))
        zeros = c.full_like(body, 0, column)
        below = c.select(body, c.compare(body, "gt", place, j), column, zeros)
        alpha = _Places(body, column).row(column, j)
        square = body.emit(Reduce("sum", (column.type.rank - 2,)), body.emit(Binary("mul"), below, below))
        size = body.emit(Unary("sqrt"), body.emit(Binary("add"), square, body.emit(Binary("mul"), alpha, alpha)))
        negative = c.compare(body, "lt", alpha, c.scalar(body, 0, dtype))
        beta = body.emit(Select(), negative, size, body.emit(Unary("neg"), size))
        none = c.compare(body, "eq", square, c.scalar(body, 0, dtype))
        beta = body.emit(Select(), none, alpha, beta)
        one = c.full_like(body, 1, alpha)
        safe_beta = body.emit(Select(), none, one, beta)
        factor = body.emit(Binary("div"), body.emit(Binary("sub"), beta, alpha), safe_beta)
        scale = body.emit(Select(), none, one, body.emit(Binary("sub"), alpha, beta))
        vector = c.binary(body, "div", below, scale)
        whole = c.select(body, c.compare(body, "eq", place, j), c.scalar(body, 1, dtype), vector)
        right = c.select(body, at.where("gt", False, j), x, c.full_like(body, 0, x))
        reflected = _reflect(body, x, right, whole, factor)
        here = at.where("eq", False, j)
        diagonal = body.emit(Binary("and"), here, at.where("eq", True, j))
        under = body.emit(Binary("and"), here, at.where("gt", True, j))
        reflected = c.select(body, diagonal, beta, c.select(body, under, vector, reflected))
        number = body.emit(Iota(tau.type.shape, len(lead), DType.I64))
        new = c.reshape(body, factor, (*lead, 1))
        return [reflected, c.select(body, c.compare(body, "eq", number, j), new, tau)]

    factored, factors = repeat(b, count, [a, taus], step)
    return factored, factors


def _reflect(b: GraphBuilder, x: Value, part: Value, vector: Value, factor: Value) -> Value:
    """x - factor * vector (vector^T part)."""
    rank = x.type.rank
    row = b.emit(Reduce("sum", (rank - 2,)), c.binary(b, "mul", vector, part))
    return c.binary(b, "sub", x, c.binary(b, "mul", c.binary(b, "mul", factor, vector), row))


def from_householder(b: GraphBuilder, a: Value, taus: Value) -> Value:
    """The first columns of the product of the reflections in `a`, as many as `a` has."""
    count = taus.type.shape[-1]
    if not isinstance(count, int):
        raise Refused("a factorization of a matrix of symbolic size")
    at = _Places(b, a)
    start = c.cast(b, b.emit(Compare("eq"), at.rows, at.columns), a.type.dtype)

    def step(body: GraphBuilder, i: Value, carried: list[Value]) -> list[Value]:
        (q,) = carried
        j = c.binary(body, "sub", c.scalar(body, count - 1, DType.I64), i)
        places = _Places(body, a)
        column = places.column(a, j)
        place = body.emit(Iota(column.type.shape, column.type.rank - 2, DType.I64))
        vector = c.select(body, c.compare(body, "gt", place, j), column, c.full_like(body, 0, column))
        vector = c.select(body, c.compare(body, "eq", place, j), c.scalar(body, 1, a.type.dtype), vector)
        number = body.emit(Iota(taus.type.shape, taus.type.rank - 1, DType.I64))
        chosen = c.select(body, c.compare(body, "eq", number, j), taus, c.full_like(body, 0, taus))
        factor = body.emit(Reduce("sum", (taus.type.rank - 1,)), chosen)
        factor = c.reshape(body, factor, (*factor.type.shape[:-1], 1, 1))
        return [_reflect(body, q, q, vector, factor)]

    return repeat(b, count, [start], step)[0]


def symmetric_eigen(b: GraphBuilder, a: Value, *, lower: bool) -> tuple[Value, Value]:
    """Eigenvectors (columns) and eigenvalues in ascending order, by Jacobi rotations of disjoint pairs at once."""
    n = _least(a)
    rank = a.type.rank
    dtype = a.type.dtype
    if dtype not in SWEEPS:
        raise Refused(f"eigenvectors of {dtype} matrices")
    at = _Places(b, a)
    kept = b.emit(Compare("ge" if lower else "le"), at.rows, at.columns)
    half = b.emit(Select(), kept, a, c.full_like(b, 0, a))
    mirrored = c.transpose(b, half, [*range(rank - 2), rank - 1, rank - 2])
    full = b.emit(Select(), kept, a, mirrored)
    identity = c.cast(b, b.emit(Compare("eq"), at.rows, at.columns), dtype)
    partners, signs = _rounds(n)
    table, sides = b.literal(partners.astype(dtype.numpy)), b.literal(signs.astype(dtype.numpy))

    def step(body: GraphBuilder, i: Value, carried: list[Value]) -> list[Value]:
        x, vectors = carried
        rotation = _rotation(body, x, _entry(body, table, i), _entry(body, sides, i))
        turned = c.transpose(body, rotation, [*range(rank - 2), rank - 1, rank - 2])
        x = body.emit(MatMul(), body.emit(MatMul(), turned, x), rotation)
        return [x, body.emit(MatMul(), vectors, rotation)]

    rounds = len(partners)
    x, vectors = repeat(b, rounds * SWEEPS[dtype] if n > 1 else 0, [full, identity], step)
    diagonal = b.emit(Reduce("sum", (rank - 2,)), b.emit(Binary("mul"), x, identity))
    values = c.reshape(b, diagonal, a.type.shape[:-1])
    ordered, order = b.emit_all(TopK(n, rank - 2, False), values)
    wide = c.expand(b, c.unsqueeze(b, order, [rank - 2]), a.type.shape)
    return b.emit(GatherElements(rank - 1), vectors, wide), ordered


def _rounds(n: int) -> tuple[Array, Array]:
    """For each round of a tournament the matrix that has a 1 at (i, partner of i), and whose turn is positive."""
    players = [*range(n), *([-1] if n % 2 else [])]
    count = max(len(players) - 1, 1)
    partners, signs = np.zeros((count, n, n)), np.ones((count, n, 1))
    for number in range(count if n > 1 else 0):
        for i, j in zip(players[: len(players) // 2], players[: len(players) // 2 - 1 : -1], strict=True):
            if i >= 0 and j >= 0:
                partners[number, i, j] = partners[number, j, i] = 1
                signs[number, max(i, j)] = -1
        players = [players[0], players[-1], *players[1:-1]]
    return partners, signs


def _entry(b: GraphBuilder, table: Value, i: Value) -> Value:
    """The matrix of round `i` modulo the number of rounds."""
    count = table.type.shape[0]
    number = b.emit(Binary("mod"), i, c.scalar(b, int(str(count)), DType.I64))
    start = c.concat(b, [c.reshape(b, number, (1,)), b.dims((0, 0))], 0)
    sizes: tuple[Dim, ...] = (1, *table.type.shape[1:])
    return c.reshape(b, b.emit(DynamicSlice(sizes), table, start), table.type.shape[1:])


def _rotation(b: GraphBuilder, x: Value, partner: Value, side: Value) -> Value:
    """The matrix that turns every pair so that its off-diagonal element vanishes."""
    rank = x.type.rank
    dtype = x.type.dtype
    at = _Places(b, x)
    identity = c.cast(b, b.emit(Compare("eq"), at.rows, at.columns), dtype)
    own = b.emit(Reduce("sum", (rank - 1,)), b.emit(Binary("mul"), x, identity))
    off = b.emit(Reduce("sum", (rank - 1,)), c.binary(b, "mul", x, partner))
    other = b.emit(MatMul(), c.expand(b, partner, x.type.shape), own)
    zero, one = c.scalar(b, 0, dtype), c.scalar(b, 1, dtype)
    none = c.compare(b, "eq", off, zero)
    slope = b.emit(
        Binary("div"), b.emit(Binary("sub"), other, own), c.select(b, none, one, c.with_scalar(b, "mul", off, 2.0))
    )
    sign = b.emit(Unary("sign"), slope)
    sign = c.select(b, c.compare(b, "eq", sign, zero), side, sign)
    root = b.emit(Unary("sqrt"), c.with_scalar(b, "add", b.emit(Binary("mul"), slope, slope), 1.0))
    tangent = b.emit(Binary("div"), sign, b.emit(Binary("add"), b.emit(Unary("abs"), slope), root))
    tangent = c.select(b, none, zero, tangent)
    cosine = b.emit(Unary("rsqrt"), c.with_scalar(b, "add", b.emit(Binary("mul"), tangent, tangent), 1.0))
    sine = b.emit(Binary("mul"), tangent, cosine)
    return b.emit(Binary("add"), c.binary(b, "mul", identity, cosine), c.binary(b, "mul", partner, sine))
