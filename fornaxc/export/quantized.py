"""Products and windows of 8-bit integers: sums in i32, since u8 by s8 overflows in onnxruntime on some processors, then rescaled."""

from __future__ import annotations

import numpy as np

from fornaxc.export import floats
from fornaxc.export.context import ExportContext, Tensor
from fornaxc.export.elementwise import saturated
from fornaxc.export.linear import seen_by
from fornaxc.export.registry import export
from fornaxc.export.shape import input_type
from fornaxc.ir.dims import static
from fornaxc.ir.ops import Im2col, QuantizedLinear
from fornaxc.ir.types import DType


@export(QuantizedLinear)
def _quantized_linear(c: ExportContext, op: QuantizedLinear, *operands: Tensor) -> Tensor:
    x, w, x_zero, sums, *rest = operands
    matrix = c.cast(_unpacked(c, op, w), DType.I32)
    if op.w_zero:
        matrix = c.emit("Sub", matrix, rest.pop(0))
    total = c.emit("MatMul", c.cast(x, DType.I32), matrix)
    total = c.emit("Sub", total, c.emit("Mul", x_zero, sums))
    if op.dtype is DType.I32:
        return total
    scale, bias, *result = rest
    y = c.emit("Add", c.emit("Mul", c.cast(total, scale.dtype), scale), bias)
    y = floats.relu(c, y) if op.relu else y
    if not result:
        return y
    rounded = c.emit("Round", c.emit("Div", y, result[0]))
    return saturated(c, c.emit("Add", rounded, result[1]), op.dtype)


def _unpacked(c: ExportContext, op: QuantizedLinear, w: Tensor) -> Tensor:
    panels, quads, width, depth = (static(d) for d in input_type(c, 1).shape)
    whole = c.reshape(c.emit("Transpose", w, perm=[1, 3, 0, 2]), [quads * depth, panels * width])
    ends = c.literal(np.array([static(input_type(c).shape[1]), op.columns], np.int64))
    return c.slice(whole, c.literal(np.zeros(2, np.int64)), ends, (0, 1))


@export(Im2col)
def _im2col(c: ExportContext, op: Im2col, x: Tensor, fill: Tensor) -> Tensor:
    """The slice that each tap of the window sees, side by side."""
    out = op.windows(input_type(c))
    pads = c.literal(np.array([0, *op.low, 0, 0, *op.high, 0], np.int64))
    padded = c.emit("Pad", x, pads, fill, mode="constant")
    taps = [seen_by(c, op, padded, tap, out, 1) for tap in np.ndindex(*op.window)]
    assert c.node is not None
    return c.reshape(c.emit("Concat", *taps, axis=3), c.node.outputs[0].type.shape)
