"""Softmax, LogSoftmax and Hardmax: over one axis from version 13 on, over all trailing axes at once before."""

from __future__ import annotations

from collections.abc import Callable

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import product
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import ArgReduce, Iota, Softmax
from fornaxc.ir.types import DType

Along = Callable[[GraphBuilder, Value, int], Value]


def _softmax(b: GraphBuilder, x: Value, axis: int) -> Value:
    return b.emit(Softmax(axis), x)


def _log_softmax(b: GraphBuilder, x: Value, axis: int) -> Value:
    return b.emit(Softmax(axis, log=True), x)


def _hardmax(b: GraphBuilder, x: Value, axis: int) -> Value:
    """1 at the first maximum along the axis, else 0."""
    first = c.expand(b, b.emit(ArgReduce("max", axis), x), x.type.shape)
    here = b.emit(Iota(x.type.shape, axis, DType.I64))
    return c.cast(b, c.compare(b, "eq", here, first), x.type.dtype)


def _along_axis(along: Along) -> Callable[[NodeContext], Value]:
    def handler(ctx: NodeContext) -> Value:
        x = ctx.input(0)
        return along(ctx.b, x, ctx.axis(ctx.int("axis", -1), x.type.rank))

    return handler


def _coerced(along: Along) -> Callable[[NodeContext], Value]:
    """x is seen as a matrix whose rows are the axes before `axis`, and whose columns are all the others."""

    def handler(ctx: NodeContext) -> Value:
        x = ctx.input(0)
        axis = ctx.axis(ctx.int("axis", 1), x.type.rank)
        shape = x.type.shape
        flat = c.reshape(ctx.b, x, (*shape[:axis], product(shape[axis:])))
        return c.reshape(ctx.b, along(ctx.b, flat, axis), shape)

    return handler


for _name, _function in (("Softmax", _softmax), ("LogSoftmax", _log_softmax), ("Hardmax", _hardmax)):
    onnx_op(_name, 13)(_along_axis(_function))
    onnx_op(_name, 1, 11)(_coerced(_function))
