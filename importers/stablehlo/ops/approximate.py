"""The custom calls of XLA for the elements that are nearly the first ones of an order: exactly the first ones here."""

from __future__ import annotations

from fornaxc.importers.stablehlo.context import Invalid, OpContext
from fornaxc.importers.stablehlo.ops.reduction import same_shape
from fornaxc.importers.stablehlo.ops.sort import in_order
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Operand, parts, rebuild
from fornaxc.ir import compose as c
from fornaxc.ir.dims import Dim


@stablehlo_op("ApproxTopK", "stablehlo.dynamic_approx_top_k")
def approximate_top_k(ctx: OpContext) -> list[Operand]:
    """The operands, then an initial value of each, and of the dynamic form the number k; the function that the call names is the order.

    Where nothing is to be left out after the approximation (`aggregate_to_topk` is false) the result is longer than k.
    """
    config = ctx.config()
    is_dynamic = ctx.string("call_target_name") != "ApproxTopK"
    count = (len(ctx.operands) - is_dynamic) // 2
    if count < 1 or len(ctx.operands) != 2 * count + is_dynamic or "reduction_dim" not in config:
        raise Invalid("it wants operands, as many initial values, and reduction_dim in its configuration")
    operands = same_shape(ctx, ctx.operands[:count])
    axis = config["reduction_dim"]
    rank = parts(operands[0])[0].type.rank
    if not 0 <= axis < rank:
        raise Invalid(f"the axis {axis} of operands of rank {rank}")
    k = _length(ctx, axis, config.get("top_k"))
    ordered = in_order(ctx, ctx.called_region(), operands, axis)
    return [rebuild(o, [c.slice_axis(ctx.b, v, axis, 0, k) for v in parts(o)]) for o in ordered]


def _length(ctx: OpContext, axis: int, k: int | None) -> Dim:
    """How many elements the result has: what its type says, else k."""
    declared = ctx.result_info(0).shape
    size = declared[axis] if axis < len(declared) else None
    if size is not None:
        return size
    if ctx.string("call_target_name") != "ApproxTopK":
        found, *_ = ctx.dims(ctx.value(len(ctx.operands) - 1), "the k of top_k")
        return found
    if k is None:
        raise Invalid("neither its type nor its configuration says how many elements it has")
    return k
