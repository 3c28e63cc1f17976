"""MaxRoiPool: the largest element of each bin of each region."""

from __future__ import annotations

import numpy as np

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.sampling import size_as
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Gather, Iota
from fornaxc.ir.types import DType


@onnx_op("MaxRoiPool", 1, 22)
def max_roi_pool(ctx: NodeContext) -> Value:
    """[regions, C, rows, columns] of images and of regions (image, x1, y1, x2, y2); an empty bin is 0."""
    b, x, bins = ctx.b, ctx.input(0), ctx.ints("pooled_shape")
    ctx.require(x.type.rank == 4, f"MaxRoiPool takes images, not {x.type}")
    ctx.require(len(bins) == 2 and min(bins) > 0, f"the pooled shape {list(bins)}")
    count = ctx.input(1).type.shape[0]
    rois = c.rebind(b, c.cast(b, ctx.input(1), DType.F32), (count, 5))
    image = c.reshape(b, c.slice_axis(b, rois, 1, 0, 1), (count,))
    pixels = b.emit(Gather(0), x, c.cast(b, image, DType.I64))
    corners = _rounded(b, c.with_scalar(b, "mul", rois, ctx.float("spatial_scale", 1.0)))
    rows, columns = (
        _members(b, corners, first, size, parts)
        for first, size, parts in zip((2, 1), x.type.shape[2:], bins, strict=True)
    )
    nothing = c.scalar(b, -np.inf, x.type.dtype)
    rows, columns = c.unsqueeze(b, rows, (1, 4)), c.unsqueeze(b, columns, (1, 2))
    tall = c.reduce(b, "max", c.select(b, rows, c.unsqueeze(b, pixels, (2,)), nothing), (3,))
    both = c.reduce(b, "max", c.select(b, columns, tall, nothing), (4,))
    filled = c.binary(b, "and", c.reduce(b, "max", rows, (3,)), c.reduce(b, "max", columns, (4,)))
    pooled = c.select(b, filled, both, c.scalar(b, 0, x.type.dtype))
    return c.reshape(b, pooled, (count, x.type.shape[1], *bins))


def _rounded(b: GraphBuilder, x: Value) -> Value:
    """To the nearest integer, halves away from 0."""
    size = c.unary(b, "floor", c.with_scalar(b, "add", c.unary(b, "abs", x), 0.5))
    return c.select(b, c.compare(b, "lt", x, c.scalar(b, 0, DType.F32)), c.unary(b, "neg", size), size)


def _members(b: GraphBuilder, corners: Value, first: int, size: Dim, parts: int) -> Value:
    """Which elements of an axis are in each bin of each region: bool[regions, parts, size]. Bins of broken sizes overlap."""
    start, end = (c.slice_axis(b, corners, 1, place, 1) for place in (first, first + 2))
    length = c.with_scalar(b, "max", c.with_scalar(b, "add", c.binary(b, "sub", end, start), 1), 1)
    step = c.with_scalar(b, "div", length, parts)
    low, high = (
        c.binary(b, "add", start, c.unary(b, rounding, c.binary(b, "mul", step, b.literal(edges))))
        for rounding, edges in (
            ("floor", np.arange(parts, dtype=np.float32)[None]),
            ("ceil", np.arange(1, parts + 1, dtype=np.float32)[None]),
        )
    )
    last = size_as(b, size, DType.F32)
    low, high = (c.unsqueeze(b, c.binary(b, "min", c.with_scalar(b, "max", v, 0), last), (2,)) for v in (low, high))
    place = c.reshape(b, c.cast(b, b.emit(Iota((size,), 0, DType.I64)), DType.F32), (1, 1, size))
    return c.binary(b, "and", c.compare(b, "ge", place, low), c.compare(b, "lt", place, high))
