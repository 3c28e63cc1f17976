"""Matrix products, convolutions and window reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product as cartesian

import numpy as np

from fornaxc.export.context import ExportContext, Tensor
from fornaxc.export.elementwise import extreme
from fornaxc.export.reduction import identity
from fornaxc.export.registry import export
from fornaxc.export.shape import input_type
from fornaxc.ir.dims import Dim, product, static
from fornaxc.ir.ops import Conv, Im2col, MatMul, Pool
from fornaxc.ir.types import DType, TensorType


@export(MatMul)
def _matmul(c: ExportContext, op: MatMul, a: Tensor, b: Tensor) -> Tensor:
    return c.emit("MatMul", a, b)


@export(Conv)
def _conv(c: ExportContext, op: Conv, x: Tensor, w: Tensor) -> Tensor:
    if x.dtype is DType.F64 or not x.dtype.is_float or input_type(c).rank > 5:
        return _by_taps(c, op, x, w)
    return conv(c, op, x, w)


def conv(c: ExportContext, op: Conv, x: Tensor, w: Tensor) -> Tensor:
    """ONNX Conv, channels first."""
    return c.emit(
        "Conv",
        x,
        w,
        strides=list(op.strides),
        pads=[*op.low, *op.high],
        dilations=list(op.dilations),
        group=op.groups,
    )


def _by_taps(c: ExportContext, op: Conv, x: Tensor, w: Tensor) -> Tensor:
    """The sum over the positions of the window of a matrix product each: any element type, any rank."""
    assert c.node is not None
    batch = input_type(c).shape[0]
    filters, depth, *window = (static(d) for d in input_type(c, 1).shape)
    out = c.node.outputs[0].type.shape
    wide = DType.F32 if x.dtype.is_float and x.dtype is not DType.F64 else x.dtype
    rank = len(window)
    zero = c.scalar(0, x.dtype)
    padded = c.emit("Pad", x, c.shape([0, 0, *op.low, 0, 0, *op.high]), zero, mode="constant")
    taps = c.reshape(w, [op.groups, filters // op.groups, depth, *window])
    total: Tensor | None = None
    for tap in cartesian(*(range(k) for k in window)):
        seen = seen_by(c, op, padded, tap, out[2:], 2)
        rows = c.reshape(seen, [batch, op.groups, depth, product(out[2:])])
        at = c.literal(np.array(tap))
        filter = c.slice(taps, at, c.literal(np.array(tap) + 1), range(3, 3 + rank))
        filter = c.reshape(filter, [op.groups, filters // op.groups, depth])
        part = c.emit("MatMul", c.cast(filter, wide), c.cast(rows, wide))
        total = part if total is None else c.emit("Add", total, part)
    assert total is not None
    return c.cast(c.reshape(total, out), x.dtype)


def seen_by(
    c: ExportContext, op: Conv | Im2col, padded: Tensor, tap: Sequence[int], out: Sequence[Dim], first: int
) -> Tensor:
    """What one position of a window sees; its axes are those from `first` on."""
    seen = padded
    for axis, at in enumerate(tap):
        seen = seen_along(c, seen, first + axis, at, out[axis], op.strides[axis], op.dilations[axis])
    return seen


def seen_along(c: ExportContext, padded: Tensor, axis: int, tap: int, out: Dim, stride: int, dilation: int) -> Tensor:
    """What one position of a window sees along an axis."""
    start = tap * dilation
    return c.slice(padded, c.size(start), c.size(start + (out - 1) * stride + 1), [axis], [stride])


_POOLED = (DType.F16, DType.F32, DType.F64)


def _is_onnx_pool(op: Pool, x: TensorType) -> bool:
    """Whether MaxPool or AveragePool is a pool: over all axes but the first two, with less padding than the window is wide."""
    narrow = all(max(sides) < size for *sides, size in zip(op.low, op.high, op.window, strict=True))
    return x.dtype in _POOLED and not op.channels_last and x.rank == len(op.window) + 2 and narrow


def _onnx_pool(c: ExportContext, op: Pool, x: Tensor) -> Tensor:
    sizes = {"kernel_shape": op.window, "strides": op.strides, "pads": [*op.low, *op.high], "dilations": op.dilations}
    if op.fn == "max":
        return c.raw("MaxPool", [x], (x.dtype,), **sizes)[0]
    (mean,) = c.raw("AveragePool", [x], (x.dtype,), count_include_pad=1, **sizes)
    return c.emit("Mul", mean, c.scalar(math.prod(op.window), x.dtype))


@export(Pool)
def _pool(c: ExportContext, op: Pool, x: Tensor) -> Tensor:
    """Axis by axis: the positions of the window along one axis are slices, joined by max or sum."""
    assert c.node is not None
    dtype = x.dtype
    if not c.exact and _is_onnx_pool(op, input_type(c)):
        return _onnx_pool(c, op, x)
    if op.fn == "sum" and dtype.is_float and dtype is not DType.F64:
        x = c.cast(x, DType.F32)
    fill = c.scalar(0, x.dtype) if op.fn == "sum" else c.literal(np.array(identity("max", x.dtype), x.dtype.numpy))
    rank = input_type(c).rank
    first = rank - len(op.window) - op.channels_last
    out = c.node.outputs[0].type.shape
    pads = [0] * (2 * rank)
    pads[first : first + len(op.window)] = op.low
    pads[rank + first : rank + first + len(op.window)] = op.high
    x = c.emit("Pad", x, c.shape(pads), fill, mode="constant") if any(pads) else x
    for index, size in enumerate(op.window):
        axis = first + index
        seen = [seen_along(c, x, axis, tap, out[axis], op.strides[index], op.dilations[index]) for tap in range(size)]
        x = seen[0]
        for part in seen[1:]:
            x = extreme(c, "max", x, part) if op.fn == "max" else c.emit("Add", x, part)
    return c.cast(x, dtype)
