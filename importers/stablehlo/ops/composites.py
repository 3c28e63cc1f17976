"""Composites whose meaning is known by name, so that their decomposition is not needed."""

from __future__ import annotations

from fornaxc.importers.stablehlo.context import OpContext
from fornaxc.importers.stablehlo.ops.arithmetic import unary
from fornaxc.importers.stablehlo.ops.elementwise import FLOAT_FUNCTIONS
from fornaxc.importers.stablehlo.types import Operand
from fornaxc.ir.graph import Value


def native_composite(ctx: OpContext) -> list[Operand] | None:
    """The results of a composite that is an operation here; None for the others."""
    from jaxlib.mlir import ir

    from fornaxc.importers.stablehlo.ops.sort import top

    name = ctx.string("name")
    operand = ctx.operands[0] if ctx.operands else None
    if not isinstance(operand, Value):
        return None
    if name in FLOAT_FUNCTIONS and name.startswith("chlo.") and operand.type.dtype.is_float:
        return [unary(ctx.b, FLOAT_FUNCTIONS[name], operand)]
    if name == "chlo.top_k" and not ctx.lifted and ctx.result_count == 2:
        attributes = ir.DictAttr(ctx.attribute("composite_attributes"))
        if "k" in attributes:
            k = int(ir.IntegerAttr(attributes["k"]).value)
            return list(top(ctx.b, operand, k, ctx.result_info(1).dtype))
    return None
