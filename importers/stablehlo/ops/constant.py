"""Constants: short integers and single numbers are part of the program, other floats are weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fornaxc.importers.stablehlo.context import OpContext, Refused
from fornaxc.importers.stablehlo.literals import Unreadable, dense_array, resource_array
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Complex, Operand, TensorInfo
from fornaxc.ir import compose as c
from fornaxc.ir.graph import Array, Value
from fornaxc.ir.types import TensorType


@stablehlo_op("stablehlo.constant", "chlo.constant", elementwise=True)
def constant(ctx: OpContext) -> Operand:
    from jaxlib.mlir import ir

    info = ctx.result_info()
    attribute = ctx.op.get_asm(enable_debug_info=False) if info.complex else ctx.attribute("value")
    splat = isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat
    try:
        if not info.complex and not isinstance(attribute, ir.DenseElementsAttr):
            arrays = resource_array(attribute, info, _module(ctx.op))
        else:
            arrays = dense_array(attribute, info)
    except Unreadable as error:
        raise Refused(str(error)) from None
    values = [_value(ctx, info, array, splat) for array in arrays]
    return Complex(values[0], values[1]) if info.complex else values[0]


def _value(ctx: OpContext, info: TensorInfo, array: Array, splat: bool) -> Value:
    """Floats of rank 1 and more are weights whatever their size, so that a retrained model is the same program; not where they repeat a number."""
    if splat and info.dtype.is_float and array.size > 1:
        return c.full(ctx.b, array.flat[0], TensorType(info.dtype, array.shape))
    if not info.dtype.is_float or array.ndim == 0:
        return ctx.b.literal(array)
    return ctx.b.weight(TensorType(info.dtype, array.shape), _loader(array))


def _loader(array: Array) -> Callable[[], Array]:
    return lambda: array


def _module(op: Any) -> Any:
    """The module that holds an operation."""
    while op.parent is not None:
        op = op.parent.operation
    return op
