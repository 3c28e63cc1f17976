"""Operations on quantized tensors: dequantize, compute, quantize, as the reference interpreter does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fornaxc.importers.stablehlo.decompose import QUANTIZED, decomposed
from fornaxc.importers.stablehlo.types import Operand

if TYPE_CHECKING:
    from fornaxc.importers.stablehlo.context import OpContext
    from fornaxc.importers.stablehlo.registry import Handler

# operations that take stored numbers as they are
_ON_STORAGE = {
    "stablehlo.uniform_quantize",
    "stablehlo.uniform_dequantize",
    "stablehlo.constant",
    "stablehlo.bitcast_convert",
    "stablehlo.composite",
    "stablehlo.custom_call",
    "stablehlo.get_dimension_size",
    "stablehlo.optimization_barrier",
    "stablehlo.tuple",
    "stablehlo.get_tuple_element",
    "stablehlo.if",
    "stablehlo.case",
    "stablehlo.while",
    "func.call",
}
# operations that only move elements, where operands and results are quantized alike for the whole tensor
_MOVING = {
    "stablehlo.broadcast_in_dim",
    "stablehlo.concatenate",
    "stablehlo.dynamic_broadcast_in_dim",
    "stablehlo.dynamic_reshape",
    "stablehlo.dynamic_slice",
    "stablehlo.dynamic_update_slice",
    "stablehlo.gather",
    "stablehlo.pad",
    "stablehlo.real_dynamic_slice",
    "stablehlo.reshape",
    "stablehlo.reverse",
    "stablehlo.select",
    "stablehlo.slice",
    "stablehlo.sort",
    "stablehlo.transpose",
}


def quantized_handler(op: Any) -> Handler | None:
    """The handler of an operation on quantized types; None where the plain one serves."""
    types = [str(v.type) for v in (*op.operands, *op.results)]
    quantized = [text for text in types if "!quant." in text]
    if not quantized or op.name in _ON_STORAGE:
        return None
    kinds = {text[text.index("!quant.") : text.rindex(">")] for text in quantized}
    if op.name in _MOVING and len(kinds) == 1 and "{" not in quantized[0]:
        return None
    return through_real_numbers


def through_real_numbers(ctx: OpContext) -> list[Operand]:
    """By StableHLO's rewriting to dequantize, operation, quantize."""
    return decomposed(ctx, QUANTIZED)
