"""Dropout, which does nothing in inference."""

from __future__ import annotations

from fornaxc.importers.onnx.context import NodeContext, Refused
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir import compose as c
from fornaxc.ir.graph import Value
from fornaxc.ir.types import DType


@onnx_op("Dropout", 7)
def dropout_typed_mask(ctx: NodeContext) -> tuple[Value, Value]:
    """The mask has the type of the data."""
    ctx.ignore("ratio")
    return ctx.input(0), c.full_like(ctx.b, 1, ctx.input(0))


@onnx_op("Dropout", 10)
def dropout_attribute(ctx: NodeContext) -> tuple[Value, Value]:
    ctx.ignore("ratio")
    return _kept(ctx)


@onnx_op("Dropout", 12, 13, 22)
def dropout(ctx: NodeContext) -> tuple[Value, Value]:
    """In training mode only with ratio 0."""
    ctx.ignore("seed")
    ratio = None if ctx.optional(1) is None else ctx.content(ctx.input(1))
    if ratio is not None and ratio.item() == 0:
        return _kept(ctx)
    if ctx.optional(2) is not None and bool(ctx.constant(2, "training_mode").item()):
        raise Refused("Dropout in training mode")
    return _kept(ctx)


def _kept(ctx: NodeContext) -> tuple[Value, Value]:
    x = ctx.input(0)
    return x, c.full(ctx.b, True, x.type.with_dtype(DType.BOOL))
