"""The CPU's own kernels for products and convolutions of 8-bit integers."""

from __future__ import annotations

import numpy as np
from max.graph import TensorValue

from fornaxc.ir.ops import Im2col, QuantizedLinear
from fornaxc.ir.types import DType
from fornaxc.lowering.context import LoweringContext
from fornaxc.lowering.registry import lower
from fornaxc.lowering.shape import reshape


@lower(QuantizedLinear, on="cpu")
def _quantized_linear(c: LoweringContext, op: QuantizedLinear, *operands: TensorValue) -> TensorValue:
    """Vectors that a type of the result does not use are there all the same: the kernel does not read them."""
    x, w, x_zero, sums, *rest = operands
    w_zero = rest.pop(0) if op.w_zero else c.literal(np.zeros(1, np.int32))
    unused = c.literal(np.zeros(1, np.float32))
    floats = [*rest, *[unused] * (4 - len(rest))]
    assert op.dtype is DType.I32 or len(rest) in (2, 4)
    flags = c.literal(np.array([op.relu, op.w_zero], np.int64))
    return c.custom("fx_quantized", [x, w, x_zero, sums, w_zero, *floats, flags], [c.out_type()])[0]


@lower(Im2col, on="cpu")
def _im2col(c: LoweringContext, op: Im2col, x: TensorValue, fill: TensorValue) -> TensorValue:
    geometry = np.array([*op.window, *op.strides, *op.low, *op.high, *op.dilations], np.int64)
    return c.custom("fx_im2col", [x, reshape(c, fill, [1]), c.literal(geometry)], [c.out_type()])[0]
