"""CenterCropPad and Col2Im."""

from __future__ import annotations

from itertools import product as cartesian
from math import prod

from fornaxc.importers.onnx.computed_blocks import scattered_blocks
from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.steering import sizes_input
from fornaxc.importers.onnx.windows import pad_spatial, split_dim
from fornaxc.ir import compose as c
from fornaxc.ir.dims import Dim, dim_max, dim_min
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Pad

MOST_TAPS = 512  # blocks with more elements are not unrolled


@onnx_op("CenterCropPad", 18)
def center_crop_pad(ctx: NodeContext) -> Value:
    """Each axis cut or filled with zeros to the wanted size; of an odd difference the larger half is at the end."""
    b, x = ctx.b, ctx.input(0)
    sizes = sizes_input(ctx, 1, "the shape")
    axes = [ctx.axis(a, x.type.rank) for a in ctx.ints("axes", tuple(range(x.type.rank)))]
    ctx.require(len(axes) == len(sizes), f"{len(sizes)} sizes for {len(axes)} axes")
    low: list[Dim] = [0] * x.type.rank
    high: list[Dim] = [0] * x.type.rank
    shape = list(x.type.shape)
    for axis, size in zip(axes, sizes, strict=True):
        have = shape[axis]
        cut, more = dim_max(have - size, 0), dim_max(size - have, 0)
        x = c.slice_axis(b, x, axis, cut // 2, dim_min(have, size))
        low[axis], high[axis], shape[axis] = more // 2, more - more // 2, size
    if any(p != 0 for p in (*low, *high)):
        x = b.emit(Pad(tuple(low), tuple(high)), x, c.scalar(b, 0, x.type.dtype))
    return c.rebind(b, x, shape)


@onnx_op("Col2Im", 18)
def col2im(ctx: NodeContext) -> Value:
    """The sum of all blocks at their places in the image: for each element of a block, its spread-out column."""
    b, x = ctx.b, ctx.input(0)
    shape, window = sizes_input(ctx, 1, "image_shape"), sizes_input(ctx, 2, "block_shape")
    rank = len(shape)
    strides, dilations = ctx.ints("strides", (1,) * rank), ctx.ints("dilations", (1,) * rank)
    pads = ctx.ints("pads", (0,) * (2 * rank))
    ctx.require(len(window) == len(strides) == len(dilations) == rank == len(pads) // 2, "lists of unequal lengths")
    image, block = ([n for n in sizes if isinstance(n, int)] for sizes in (shape, window))
    if len(image) < rank or len(block) < rank:
        return scattered_blocks(b, x, shape, window, strides, dilations, pads)
    ctx.refuse_unless(prod(block) <= MOST_TAPS, f"a block of {list(block)}")
    padded = [n + p + q for n, p, q in zip(image, pads[:rank], pads[rank:], strict=True)]
    spans = [d * (k - 1) + 1 for k, d in zip(block, dilations, strict=True)]
    counts = [(n - span) // s + 1 for n, span, s in zip(padded, spans, strides, strict=True)]
    batch, rows, columns = x.type.shape
    taps = prod(block)
    each = split_dim(rows, taps)
    ctx.require(columns == prod(counts) or not isinstance(columns, int), f"{columns} blocks, not {prod(counts)}")
    split = c.reshape(b, x, (batch, each, taps, *counts))
    total: Value | None = None
    for number, tap in enumerate(cartesian(*(range(k) for k in block))):
        part = c.reshape(b, c.slice_axis(b, split, 2, number, 1), (batch, each, *counts))
        low = [t * d for t, d in zip(tap, dilations, strict=True)]
        spread = [(n - 1) * s + 1 for n, s in zip(counts, strides, strict=True)]
        high = [n - w - p for n, w, p in zip(padded, spread, low, strict=True)]
        part = pad_spatial(b, part, low, high, 0, [s - 1 for s in strides])
        total = part if total is None else c.binary(b, "add", total, part)
    ctx.require(total is not None and prod(counts) != 0, "an empty block")
    assert total is not None
    for axis, (low_pad, size) in enumerate(zip(pads[:rank], image, strict=True), 2):
        total = c.slice_axis(b, total, axis, low_pad, size)
    return total
