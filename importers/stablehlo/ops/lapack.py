"""LAPACK's routines, as JAX calls them for matrices on CPUs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from fornaxc.importers.stablehlo.context import Invalid, OpContext, Refused
from fornaxc.importers.stablehlo.ops import matrices as mx
from fornaxc.importers.stablehlo.ops.jacobi import singular_values, singular_vectors, symmetric_eigen
from fornaxc.importers.stablehlo.ops.lu import lu, solve_tridiagonal
from fornaxc.importers.stablehlo.ops.qr import from_householder, householder
from fornaxc.importers.stablehlo.ops.solve import Matrix, cholesky_factor, shape_of, solve_triangular
from fornaxc.importers.stablehlo.types import Complex, Operand, parts
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, Unary
from fornaxc.ir.types import DType

Letters = Mapping[str, str]

_CALL = re.compile(r"lapack_([sdcz])(\w+?)(_ffi)?")
_REFUSED = {
    "geev": "eigenvalues of a matrix that is not symmetric, which need an iteration with shifts",
    "gees": "the Schur form, which needs an iteration with shifts",
    "gehrd": "the Hessenberg form",
    "sytrd": "the tridiagonal form of a symmetric matrix",
    "hetrd": "the tridiagonal form of a Hermitian matrix",
    "geqp3": "QR with pivoting",
}


def lapack_call(ctx: OpContext, target: str, config: Mapping[str, Any]) -> list[Operand]:
    """The results of a routine; its letters (uplo, side, mode, ...) are codes of characters in `config`."""
    found = _CALL.fullmatch(target)
    name = found.group(2) if found is not None and found.group(3) else ""
    routine = _ROUTINES.get(name)
    if routine is None:
        what = f": {_REFUSED[name]}" if name in _REFUSED else ""
        is_old = found is not None and not found.group(3) and found.group(2) in _ROUTINES
        raise Refused(
            f"the custom call {target!r}, which was written for CPUs, through LAPACK{what}",
            f"export the model again with a newer JAX, which calls {target}_ffi" if is_old else "",
        )
    letters = {key: chr(int(value)) for key, value in config.items() if 64 < int(value) < 91}
    try:
        return routine(ctx, letters)
    except Refused as refused:
        raise Refused(f"LAPACK's {name}: {refused}") from None


def _matrix(ctx: OpContext, index: int, rank: int = 2) -> Matrix:
    """An operand, which has at least this rank."""
    operand = ctx.operand(index)
    if not isinstance(operand, Value | Complex) or len(shape_of(operand)) < rank:
        raise Invalid(f"operand {index} of {ctx.string('call_target_name')!r} must have rank {rank} or more")
    return operand


def _last_sizes(ctx: OpContext, result: int) -> tuple[int, int]:
    info = ctx.result_info(result)
    m, n = info.shape[-2:] if info.rank > 1 else (None, None)
    ctx.refuse_unless(m is not None and n is not None, "a factorization of a matrix of symbolic size")
    return m or 0, n or 0


def _is_lower(letters: Letters) -> bool:
    return letters.get("uplo", "L") == "L"


def _potrf(ctx: OpContext, letters: Letters) -> list[Operand]:
    b, a, lower = ctx.b, _matrix(ctx, 0), _is_lower(letters)
    factor = cholesky_factor(b, a, lower=lower)
    diagonal = parts(factor)[0]
    positive = c.compare(ctx.b, "gt", diagonal, c.scalar(ctx.b, 0, diagonal.type.dtype))
    failing = ctx.b.emit(Binary("and"), mx.on_diagonal(ctx.b, factor), ctx.b.emit(Unary("not"), positive))
    rest = c.compare(b, "lt" if lower else "gt", mx.numbers(b, a, -2), mx.numbers(b, a, -1))
    return [mx.pick(b, rest, a, factor), mx.first_true(b, failing)]  # the other triangle is left as it was


def _trsm(ctx: OpContext, letters: Letters) -> list[Operand]:
    kinds = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}
    solved = solve_triangular(
        ctx.b,
        _matrix(ctx, 0),
        _matrix(ctx, 1),
        left=letters.get("side", "L") == "L",
        lower=_is_lower(letters),
        unit=letters.get("diag", "N") == "U",
        transpose=kinds[letters.get("trans_x", "N")],
    )
    return [solved]


def _getrf(ctx: OpContext, letters: Letters) -> list[Operand]:
    return list(lu(ctx.b, _matrix(ctx, 0)))


def _geqrf(ctx: OpContext, letters: Letters) -> list[Operand]:
    return list(householder(ctx.b, _matrix(ctx, 0)))


def _orgqr(ctx: OpContext, letters: Letters) -> list[Operand]:
    return [from_householder(ctx.b, _matrix(ctx, 0), _matrix(ctx, 1, rank=1))]


def _syevd(ctx: OpContext, letters: Letters) -> list[Operand]:
    a = _matrix(ctx, 0)
    vectors, values = symmetric_eigen(ctx.b, a, lower=_is_lower(letters))
    return [vectors, values, _not_finite(ctx.b, a)]


def _gesdd(ctx: OpContext, letters: Letters) -> list[Operand]:
    """The first result is a workspace. Mode A asks for square U and V, S for thin ones, N for none."""
    b, a, mode = ctx.b, _matrix(ctx, 0), letters.get("mode", "A")
    if mode == "N":
        none = [mx.zeros(b, a, *_last_sizes(ctx, i)) for i in (2, 3)]
        return [a, singular_values(b, a), *none, _not_finite(b, a)]
    ctx.refuse_unless(mode in "AS", f"singular vectors in LAPACK's mode {mode}")
    return [a, *singular_vectors(b, a, full=mode == "A"), _not_finite(b, a)]


def _gtsv(ctx: OpContext, letters: Letters) -> list[Operand]:
    """The diagonals come back as they were; LAPACK leaves a factorization in them."""
    below, diagonal, above = (_matrix(ctx, i, rank=1) for i in range(3))
    right = _matrix(ctx, 3)
    return [below, diagonal, above, *solve_tridiagonal(ctx.b, below, diagonal, above, right)]


def _not_finite(b: GraphBuilder, a: Matrix) -> Value:
    """A status: 1 where a matrix holds an infinity or NaN, so that nothing converges, else 0; i32 [...]."""
    found = mx.largest(b, a)
    finite = c.compare(b, "lt", found, c.scalar(b, float("inf"), found.type.dtype))
    return c.reshape(b, c.cast(b, b.emit(Unary("not"), finite), DType.I32), shape_of(a)[:-2])


_ROUTINES: dict[str, Callable[[OpContext, Letters], list[Operand]]] = {
    "potrf": _potrf,
    "trsm": _trsm,
    "getrf": _getrf,
    "geqrf": _geqrf,
    "orgqr": _orgqr,
    "ungqr": _orgqr,
    "syevd": _syevd,
    "heevd": _syevd,
    "gesdd": _gesdd,
    "gesvd": _gesdd,
    "gtsv": _gtsv,
}
