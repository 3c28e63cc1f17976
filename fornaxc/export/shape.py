"""Operations that move, repeat, select or describe elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fornaxc.export.context import ExportContext, Tensor
from fornaxc.export.registry import export
from fornaxc.ir.dims import Dim
from fornaxc.ir.ops import (
    BroadcastTo,
    Concat,
    Dims,
    DynamicBroadcast,
    DynamicRange,
    DynamicReshape,
    DynamicSlice,
    Iota,
    Pad,
    Rebind,
    Repeat,
    Reshape,
    Slice,
    StridedSlice,
    Transpose,
)
from fornaxc.ir.types import DType, TensorType

_BEFORE_ALL = -(1 << 62)  # an end that takes a slice with a negative step to the first element


def input_type(c: ExportContext, index: int = 0) -> TensorType:
    """The type of one operand of the node."""
    assert c.node is not None
    return c.node.inputs[index].type


@export(Reshape)
def _reshape(c: ExportContext, op: Reshape, x: Tensor) -> Tensor:
    return c.reshape(x, op.shape)


@export(DynamicReshape)
def _dynamic_reshape(c: ExportContext, op: DynamicReshape, x: Tensor, sizes: Tensor) -> Tensor:
    return c.emit("Reshape", x, sizes, allowzero=1)


@export(BroadcastTo)
def _broadcast_to(c: ExportContext, op: BroadcastTo, x: Tensor) -> Tensor:
    return c.expand(x, op.shape)


@export(Repeat)
def _repeat(c: ExportContext, op: Repeat, x: Tensor) -> Tensor:
    """Through an axis of size 1 behind each."""
    pairs = list(zip(input_type(c).shape, op.times, strict=True))
    wide = c.expand(c.reshape(x, [d for size, _ in pairs for d in (size, 1)]), [d for pair in pairs for d in pair])
    assert c.node is not None
    return c.reshape(wide, c.node.outputs[0].type.shape)


@export(DynamicBroadcast)
def _dynamic_broadcast(c: ExportContext, op: DynamicBroadcast, x: Tensor, sizes: Tensor) -> Tensor:
    return c.emit("Expand", x, sizes)


@export(Rebind)
def _rebind(c: ExportContext, op: Rebind, x: Tensor) -> Tensor:
    """The sizes that can be computed here are asserted: where one differs, a gather leaves its bounds and the run fails."""
    changed = [
        (axis, want)
        for axis, (have, want) in enumerate(zip(input_type(c).shape, op.shape, strict=True))
        if have != want and c.is_brought(want)
    ]
    if not changed:
        return c.emit("Identity", x)
    have = c.emit("Shape", x, dtype=DType.I64)
    found = c.emit("Gather", have, c.literal(np.array([axis for axis, _ in changed])), axis=0)
    differs = c.emit("Not", c.emit("Equal", found, c.shape([want for _, want in changed])))
    nothing = c.emit("Gather", c.literal(np.array([0])), c.cast(differs, DType.I64), axis=0)
    zero = c.emit("ReduceSum", nothing, keepdims=1)
    return c.emit("Reshape", x, c.emit("Add", have, zero), allowzero=1)


@export(Transpose)
def _transpose(c: ExportContext, op: Transpose, x: Tensor) -> Tensor:
    return c.emit("Transpose", x, perm=list(op.perm)) if op.perm else c.emit("Identity", x)


@export(Concat)
def _concat(c: ExportContext, op: Concat, *xs: Tensor) -> Tensor:
    return c.emit("Concat", *xs, axis=op.axis)


@export(Slice)
def _slice(c: ExportContext, op: Slice, x: Tensor) -> Tensor:
    whole = zip(op.starts, op.sizes, op.steps, input_type(c).shape, strict=True)
    axes = [i for i, (start, size, step, have) in enumerate(whole) if (start, size, step) != (0, have, 1)]
    if not axes:
        return c.emit("Identity", x)
    ends = [_end(c, op.starts[i], op.sizes[i], op.steps[i]) for i in axes]
    end = ends[0] if len(ends) == 1 else c.emit("Concat", *ends, axis=0)
    return c.slice(x, c.shape([op.starts[i] for i in axes]), end, axes, [op.steps[i] for i in axes])


def _end(c: ExportContext, start: Dim, size: Dim, step: int) -> Tensor:
    """The exclusive end; below 0 it would count from the end, so that there it is far below."""
    end = start + size * step
    if isinstance(end, int) and isinstance(size, int):
        return c.size(_BEFORE_ALL if step < 0 and end < 0 < size else end)
    if step > 0:
        return c.size(end)
    zero = c.size(0)
    leaves = c.emit("And", c.emit("Less", c.size(end), zero), c.emit("Greater", c.size(size), zero))
    return c.select(leaves, c.size(_BEFORE_ALL), c.size(end))


@export(DynamicSlice)
def _dynamic_slice(c: ExportContext, op: DynamicSlice, x: Tensor, starts: Tensor) -> Tensor:
    if not op.sizes:
        return c.emit("Identity", x)
    sizes = c.shape(op.sizes)
    last = c.emit("Sub", c.emit("Shape", x, dtype=DType.I64), sizes)
    first = c.emit("Max", c.emit("Min", starts, last), c.size(0))
    return c.slice(x, first, c.emit("Add", first, sizes), range(len(op.sizes)))


@export(StridedSlice)
def _strided_slice(
    c: ExportContext, op: StridedSlice, x: Tensor, starts: Tensor, ends: Tensor, steps: Tensor
) -> Tensor:
    if not op.sizes:
        return c.emit("Identity", x)
    return c.emit("Slice", x, starts, ends, c.literal(np.arange(len(op.sizes))), steps)


def is_onnx_pad(op: Pad, x: TensorType) -> bool:
    """Whether ONNX has a pad: one by reflection adds fewer elements than there are, as far as sizes are known."""
    sides = zip(op.low, op.high, x.shape, strict=True)
    return op.mode != "reflect" or all(
        p < d for *pads, d in sides for p in pads if isinstance(p, int) and isinstance(d, int)
    )


@export(Pad)
def _pad(c: ExportContext, op: Pad, x: Tensor, *fill: Tensor) -> Tensor:
    if not op.low:
        return c.emit("Identity", x)
    if op.mode != "constant":
        if not c.exact and is_onnx_pad(op, input_type(c)):
            return c.raw("Pad", [x, c.shape([*op.low, *op.high])], (x.dtype,), mode=op.mode)[0]
        for axis, (low, high) in enumerate(zip(op.low, op.high, strict=True)):
            if (low, high) != (0, 0):
                x = c.emit("Gather", x, _mirror(c, op.mode, input_type(c).shape[axis], low, high), axis=axis)
        return x
    shape = list(input_type(c).shape)
    for axis, gap in enumerate(op.interior):
        if gap:
            x = _spread(c, x, shape, axis, gap, fill[0])
            shape[axis] = shape[axis] + (shape[axis] - 1) * gap if shape[axis] != 0 else 0
    return c.emit("Pad", x, c.shape([*op.low, *op.high]), fill[0], mode="constant")


def _spread(c: ExportContext, x: Tensor, shape: Sequence[Dim], axis: int, gap: int, fill: Tensor) -> Tensor:
    """`gap` fill elements between neighbours: each element becomes a row, and the end of the last row is cut off."""
    size = shape[axis]
    before, after = list(shape[:axis]), list(shape[axis + 1 :])
    rank = len(shape) + 1
    column = c.reshape(x, [*before, size, 1, *after])
    pads = [0] * (rank + axis + 1) + [gap] + [0] * len(after)
    rows = c.emit("Pad", column, c.shape(pads), fill, mode="constant")
    flat = c.reshape(rows, [*before, size * (gap + 1), *after])
    return c.slice(flat, c.size(0), c.size(-gap), [axis])


def _mirror(c: ExportContext, mode: str, size: Dim, low: Dim, high: Dim) -> Tensor:
    """Where each element of a padded axis comes from."""
    begin, end = c.size(-low), c.size(size + high)
    here = c.emit("Range", _scalar(c, begin), _scalar(c, end), c.scalar(1, DType.I64))
    count, one = c.size(size), c.size(1)
    if mode == "edge":
        return c.emit("Max", c.emit("Min", here, c.emit("Sub", count, one)), c.size(0))
    if mode == "wrap":
        return c.emit("Mod", here, count)
    period = c.emit("Max", c.emit("Mul", c.emit("Sub", count, one), c.size(2)), one)
    phase = c.emit("Mod", here, period)
    return c.emit("Min", phase, c.emit("Sub", period, phase))


def _scalar(c: ExportContext, size: Tensor) -> Tensor:
    return c.reshape(size, [])


@export(Dims)
def _dims(c: ExportContext, op: Dims) -> Tensor:
    return c.shape(op.values)


@export(Iota)
def _iota(c: ExportContext, op: Iota) -> Tensor:
    count = _scalar(c, c.size(op.shape[op.axis]))
    line = c.emit("Range", c.scalar(0, DType.I64), count, c.scalar(1, DType.I64))
    line = c.reshape(c.cast(line, op.dtype), [d if i == op.axis else 1 for i, d in enumerate(op.shape)])
    return c.expand(line, op.shape) if len(op.shape) > 1 else line


@export(DynamicRange)
def _dynamic_range(c: ExportContext, op: DynamicRange, *bounds: Tensor) -> Tensor:
    """Floats are counted in f64, then rounded."""
    dtype = bounds[0].dtype
    wide = DType.F64 if dtype.is_float else DType.I64
    return c.cast(c.emit("Range", *(c.cast(b, wide) for b in bounds)), dtype)
