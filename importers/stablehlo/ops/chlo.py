"""CHLO operations: those that broadcast as the operations of StableHLO, the others through their decomposition."""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.importers.stablehlo.context import Invalid, OpContext
from fornaxc.importers.stablehlo.decompose import decomposed
from fornaxc.importers.stablehlo.registry import handler_for, stablehlo_op
from fornaxc.importers.stablehlo.types import Operand, parts, rebuild
from fornaxc.ir import compose as c
from fornaxc.ir.graph import Value

_UNARY = ("bessel_i1e", "cosh", "digamma", "erf_inv", "erfc", "is_inf", "is_neg_inf", "is_pos_inf", "lgamma", "square")
_BINARY = ("next_after", "polygamma", "zeta")
_BROADCASTING = (
    *("add", "and", "atan2", "compare", "complex", "divide", "maximum", "minimum", "multiply", "or", "power"),
    *("remainder", "select", "shift_left", "shift_right_arithmetic", "shift_right_logical", "subtract", "xor"),
)


@stablehlo_op(
    *(f"chlo.{name}" for name in (*_UNARY, *_BINARY)),
    *(f"chlo.broadcast_{name}" for name in _BINARY),
    *("chlo.constant_like", "chlo._asin_acos_kernel"),
    elementwise=True,
)
def through_passes(ctx: OpContext) -> list[Operand]:
    return decomposed(ctx)


@stablehlo_op(*(f"chlo.broadcast_{name}" for name in _BROADCASTING), elementwise=True)
def broadcasting(ctx: OpContext) -> Operand | list[Operand]:
    """The operation on operands that are given one shape, axes of size 1 repeated."""
    plain = OpContext(ctx.importer, ctx.op, _in_one_shape(ctx))
    plain.name = f"stablehlo.{ctx.name.removeprefix('chlo.broadcast_')}"
    handler = handler_for(plain.name)
    assert handler is not None
    return handler(plain)


def _in_one_shape(ctx: OpContext) -> list[Operand]:
    axes = ctx.attribute("broadcast_dimensions")
    values = [v for o in ctx.operands for v in parts(o)]
    rank = max(v.type.rank for v in values)
    if axes is not None:
        values = [_placed(ctx, v, ctx.ints("broadcast_dimensions"), rank) for v in values]
    wide = iter(c.broadcast(ctx.b, *values))
    return [rebuild(o, [next(wide) for _ in parts(o)]) for o in ctx.operands]


def _placed(ctx: OpContext, x: Value, axes: Sequence[int], rank: int) -> Value:
    """`x`, where it has fewer axes than the result, with its axis i at axis `axes[i]`."""
    if x.type.rank in (0, rank):
        return x
    if len(axes) != x.type.rank or sorted(set(axes)) != list(axes) or axes[-1] >= rank:
        raise Invalid(f"the axes {list(axes)} for an operand of type {x.type}")
    return c.reshape(ctx.b, x, [x.type.shape[axes.index(i)] if i in axes else 1 for i in range(rank)])
