"""CHLO operations without a handler of their own, through their decomposition into StableHLO."""

from __future__ import annotations

from fornaxc.importers.stablehlo.context import OpContext
from fornaxc.importers.stablehlo.decompose import decomposed
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Operand

_UNARY = ("bessel_i1e", "cosh", "digamma", "erf_inv", "erfc", "is_inf", "is_neg_inf", "is_pos_inf", "lgamma", "square")
_BINARY = ("next_after", "polygamma", "zeta")
_BROADCASTING = (
    *(
        "add",
        "and",
        "atan2",
        "compare",
        "complex",
        "divide",
        "maximum",
        "minimum",
        "multiply",
        "next_after",
        "or",
        "polygamma",
    ),
    *(
        "power",
        "remainder",
        "select",
        "shift_left",
        "shift_right_arithmetic",
        "shift_right_logical",
        "subtract",
        "xor",
        "zeta",
    ),
)


@stablehlo_op(
    *(f"chlo.{name}" for name in (*_UNARY, *_BINARY)),
    *(f"chlo.broadcast_{name}" for name in _BROADCASTING),
    *("chlo.constant_like", "chlo._asin_acos_kernel"),
    elementwise=True,
)
def through_passes(ctx: OpContext) -> list[Operand]:
    return decomposed(ctx)
