"""Col2Im where only the run time knows the sizes: every element of every block is added at its computed place."""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.importers.onnx.sampling import size_as
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, product
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Iota, ScatterElements
from fornaxc.ir.types import DType, TensorType


def scattered_blocks(
    b: GraphBuilder,
    x: Value,
    image: Sequence[Dim],
    block: Sequence[Dim],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> Value:
    """x [N, C * product of block, blocks] as [N, C, *image]; what falls into the padding goes to a slot of its own."""
    rank = len(image)
    counts = [
        (n + p + q - d * (k - 1) - 1) // s + 1
        for n, p, q, k, s, d in zip(image, pads[:rank], pads[rank:], block, strides, dilations, strict=True)
    ]
    batch, rows, _ = x.type.shape
    channels, size = rows // product(block), product(image)
    grid = (*block, *counts)
    index: Value | None = None
    inside: Value | None = None
    for axis, n in enumerate(image):
        tap = c.with_scalar(b, "mul", b.emit(Iota(grid, axis, DType.I64)), dilations[axis])
        start = c.with_scalar(b, "mul", b.emit(Iota(grid, rank + axis, DType.I64)), strides[axis])
        at = c.with_scalar(b, "sub", c.binary(b, "add", tap, start), pads[axis])
        length = size_as(b, n, DType.I64)
        valid = c.binary(b, "and", c.compare(b, "ge", at, c.scalar(b, 0, DType.I64)), c.compare(b, "lt", at, length))
        inside = valid if inside is None else c.binary(b, "and", inside, valid)
        index = at if index is None else c.binary(b, "add", c.binary(b, "mul", index, length), at)
    assert index is not None and inside is not None
    index = c.select(b, inside, index, size_as(b, size, DType.I64))
    lines, elements = batch * channels, product(grid)
    places = c.expand(b, c.reshape(b, index, (1, elements)), (lines, elements))
    empty = c.full(b, 0, TensorType(x.type.dtype, (lines, size + 1)))
    total = b.emit(ScatterElements(1, "add"), empty, places, c.reshape(b, x, (lines, elements)))
    return c.reshape(b, c.slice_axis(b, total, 1, 0, size), (batch, channels, *image))
