"""Matrix products, convolutions and window reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import product as cartesian
from typing import TypeAlias

import numpy as np
from max.dtype import DType
from max.graph import TensorType, TensorValue, ops

from fornaxc.ir.dims import Dim, product
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Conv, MatMul, Pool, Transpose
from fornaxc.ir.ops.elementwise import integer_range
from fornaxc.lowering import raw
from fornaxc.lowering.context import LoweringContext
from fornaxc.lowering.dtypes import FROM_MAX
from fornaxc.lowering.elementwise import extreme, widened
from fornaxc.lowering.registry import lower
from fornaxc.lowering.shape import pad_constant, reshape, vector

T: TypeAlias = TensorValue

MOST_TAPS = 64
"""The largest window whose positions one kernel reads."""


@lower(MatMul)
def stock_matmul(c: LoweringContext, op: MatMul, a: T, b: T) -> T:
    assert c.node is not None
    (left, right), result = (v.type.shape for v in c.node.inputs), c.node.outputs[0].type.shape
    if 0 in (left[-1], product(list(result))):
        return ops.broadcast_to(c.scalar(0.0 if a.dtype.is_float() else 0, a.dtype), c.shape(result))
    narrow = a.dtype
    if c.kind == "cpu":
        a, b = widened(a), widened(b)
    if narrow in SMALL_INTS:
        a, b = ops.cast(a, DType.int32), ops.cast(b, DType.int32)
    lead = left[:-2]
    if len(right) == 2:
        flat = reshape(c, a, [product(list(left[:-1])), left[-1]])
        found = ops.matmul(flat, b)
    else:
        batch = product(list(lead))
        found = ops.matmul(reshape(c, a, [batch, *left[-2:]]), reshape(c, b, [batch, *right[-2:]]))
    found = ops.cast(reshape(c, found, result), narrow)
    if not isinstance(left[-1], int):  # MAX leaves the result unset where nothing is summed
        empty = ops.equal(c.dim_scalar(left[-1], DType.int64), c.scalar(0, DType.int64))
        found = ops.where(empty, c.scalar(0.0 if narrow.is_float() else 0, narrow), found)
    return found


def multiply(c: LoweringContext, a: T, b: T) -> T:
    """The product of two matrices, or of batches of them, by kernels that are compiled once; on a GPU from level 2 on by MAX's own."""
    on_cpu = (c.rules or c.kind) == "cpu"
    if not on_cpu and c.optimization > 1:
        return ops.matmul(a, b)
    if a.rank == 2:
        return ops.squeeze(multiply(c, ops.unsqueeze(a, 0), ops.unsqueeze(b, 0)), 0)
    return multiply_on_cpu(c, a, b) if on_cpu else multiply_once(c, a, b)


def multiply_on_cpu(c: LoweringContext, a: T, b: T, transposed: bool = False) -> T:
    """[B, M, K] times [B, K, N] or [1, K, N], for f32 also times [B, N, K] where `transposed`."""
    type = TensorType(a.dtype, [*a.shape[:2], b.shape[1 if transposed else 2]], c.device)
    if a.dtype == DType.float32:
        return c.custom("fx_bmm", [a, b, c.literal(np.array([int(transposed)], np.int64))], [type])[0]
    return c.custom("fx_product", [a, b], [type])[0]


def multiply_once(c: LoweringContext, a: T, b: T, transposed: bool = False) -> T:
    """[B, M, K] times [B, K, N], or times [B, N, K] where `transposed`, by a kernel that serves all shapes."""
    type = TensorType(a.dtype, [*a.shape[:2], b.shape[1 if transposed else 2]], c.device)
    return c.custom("fx_gpu_matmul", [a, b], [type], transposed=int(transposed))[0]


def untransposed(c: LoweringContext, value: Value, tensor: T) -> tuple[T, bool]:
    """The operand of the transpose of the last two axes that made `value`, and True; `tensor` and False where none did.

    Only in the same region: an operand from outside may not be visible there.
    """
    maker = c.producers.get(value)
    if maker is None or maker not in c.body or not isinstance(maker.op, Transpose):
        return tensor, False
    rank = value.type.rank
    if maker.op.perm != (*range(rank - 2), rank - 1, rank - 2):
        return tensor, False
    return c.read(maker.inputs[0], c.device), True


SMALL_INTS = (DType.int8, DType.int16, DType.uint8, DType.uint16)


def _channels_last(x: T) -> T:
    return ops.permute(x, [0, *range(2, x.rank), 1])


def _channels_first(x: T) -> T:
    return ops.permute(x, [0, x.rank - 1, *range(1, x.rank - 1)])


@lower(Conv)
def stock_conv(c: LoweringContext, op: Conv, x: T, w: T) -> T:
    """MAX convolves channels-last: [N, ..., C] with filters [..., C/groups, K]."""
    assert c.node is not None
    source, filters = (v.type.shape for v in c.node.inputs)
    result = c.node.outputs[0].type.shape
    if 0 in result or product(list(filters)) == 0 or 0 in source:
        return ops.broadcast_to(c.scalar(0.0 if x.dtype.is_float() else 0, x.dtype), c.shape(result))
    narrow = x.dtype
    x, w = widened(x), widened(w)
    window = [int(str(d)) for d in filters[2:]]
    if x.dtype != DType.float32 or len(window) > 3 or (c.is_literal(c.node.inputs[1]) and op.groups == 1):
        return ops.cast(_conv_by_taps(c, op, x, w), narrow)
    images, kernel = _channels_last(x), ops.permute(w, [*range(2, w.rank), 1, 0])
    if len(window) == 3:
        found = ops.conv3d(images, kernel, op.strides, op.dilations, _pairs(op.low, op.high), op.groups)
        return ops.cast(_channels_first(found), narrow)
    strides, dilations, low, high = op.strides, op.dilations, op.low, op.high
    if len(window) == 1:  # as a 2-D convolution of height 1
        n, width, channels = (source[0], source[2], source[1])
        images = reshape(c, images, [n, 1, width, channels])
        kernel = reshape(c, kernel, [1, window[0], filters[1], filters[0]])
        strides, dilations, low, high = (1, *strides), (1, *dilations), (0, *low), (0, *high)
    found = ops.conv2d(images, kernel, strides, dilations, _pairs(low, high), op.groups)
    if len(window) == 1:
        found = reshape(c, found, [result[0], result[2], result[1]])
    return ops.cast(_channels_first(found), narrow)


def _pairs(low: Sequence[int], high: Sequence[int]) -> tuple[int, ...]:
    return tuple(p for pair in zip(low, high, strict=True) for p in pair)


def _padded(
    c: LoweringContext, x: T, dims: Sequence[Dim], low: Sequence[int], high: Sequence[int], fill: T
) -> tuple[T, list[Dim]]:
    """The last axes of `x` extended: it and its dims."""
    lead = len(dims) - len(low)
    wide = [*dims[:lead], *(d + a + b for d, a, b in zip(dims[lead:], low, high, strict=True))]
    return pad_constant(c, x, [0] * lead + list(low), [0] * lead + list(high), fill, wide), wide


def _tap(
    c: LoweringContext, x: T, tap: Sequence[int], out: Sequence[Dim], strides: Sequence[int], dilations: Sequence[int]
) -> T:
    """What one position of the window sees, for every window over the last axes of `x`; `out` are the result's dims."""
    lead = x.rank - len(tap)
    starts = [0] * lead + [t * d for t, d in zip(tap, dilations, strict=True)]
    stops = [*out[:lead], *(s + n * k for s, n, k in zip(starts[lead:], out[lead:], strides, strict=True))]
    steps = [1] * lead + list(strides)
    type = TensorType(x.dtype, c.shape(out), c.device)
    return raw.slice_to(x, vector(c, starts), c.dims_tensor(stops), vector(c, steps), type)


def _conv_by_taps(c: LoweringContext, op: Conv, x: T, w: T) -> T:
    """Any rank and element type: what each position of the window sees, side by side, and one matrix product."""
    assert c.node is not None
    source, filters = (v.type.shape for v in c.node.inputs)
    result = c.node.outputs[0].type.shape
    zero = c.scalar(0.0 if x.dtype.is_float() else 0, x.dtype, c.host)
    padded, _ = _padded(c, x, source, op.low, op.high, zero)
    groups, depth, width = op.groups, filters[1], int(str(filters[0])) // op.groups
    batch, places, rank = source[0], product(list(result[2:])), len(filters) - 2
    seen = []
    for tap in cartesian(*(range(int(str(k))) for k in filters[2:])):
        view = _tap(c, padded, tap, (*source[:2], *result[2:]), op.strides, op.dilations)
        seen.append(reshape(c, view, [batch, groups, depth, places]))
    total = product([depth, *filters[2:]])
    columns = reshape(c, ops.concat(seen, 2) if len(seen) > 1 else seen[0], [batch * groups, total, places])
    kernel = ops.permute(w, [0, *range(2, rank + 2), 1])
    kernel = ops.broadcast_to(reshape(c, kernel, [1, groups, width, total]), c.shape([batch, groups, width, total]))
    found = multiply(c, reshape(c, kernel, [batch * groups, width, total]), columns)
    return reshape(c, found, result)


@lower(Pool)
def stock_pool(c: LoweringContext, op: Pool, x: T) -> T:
    """Slices combined: right for every rank, type and NaN. All positions of a small window at once, of a large one axis by axis."""
    assert c.node is not None
    source, result = c.node.inputs[0].type.shape, c.node.outputs[0].type.shape
    if op.channels_last:  # the channels are one more axis, with a window of 1
        op = Pool(op.fn, (*op.window, 1), (*op.strides, 1), (*op.low, 0), (*op.high, 0), (*op.dilations, 1))
    narrow = x.dtype
    x = widened(x)
    if not op.window:
        return ops.cast(x, narrow)
    padded, dims = _padded(c, x, source, op.low, op.high, _identity(c, op.fn, x.dtype))
    if math.prod(op.window) <= MOST_TAPS or 0 in result:
        taps = cartesian(*(range(k) for k in op.window))
        seen = [_tap(c, padded, tap, result, op.strides, op.dilations) for tap in taps]
        return ops.cast(reduce(lambda total, tap: _joined(op.fn, total, tap), seen), narrow)
    total = padded
    for axis in range(len(op.window)):
        if (op.window[axis], op.strides[axis]) == (1, 1):
            continue
        total, dims = _pooled_axis(c, op, total, dims, axis, result[len(dims) - len(op.window) + axis])
    return ops.cast(total, narrow)


def _pooled_axis(c: LoweringContext, op: Pool, x: T, dims: list[Dim], axis: int, size: Dim) -> tuple[T, list[Dim]]:
    """`x` with the window of one of the last axes reduced, and its dims: of 1, 2, 4... elements at a time, joined as the binary digits of
    the window say. Each goes to memory: fused, they would be as many reads as the window has elements."""
    rank, place = len(op.window), len(dims) - len(op.window) + axis
    gap, ones = op.dilations[axis], (1,) * len(op.window)

    def part(held: T, first: int, length: Dim, stride: int = 1) -> T:
        out = [length if i == place else d for i, d in enumerate(dims)]
        tap = [first if i == axis else 0 for i in range(rank)]
        return _tap(c, held, tap, out, tuple(stride if i == axis else 1 for i in range(rank)), ones)

    window, length = op.window[axis], dims[place]
    held, span, done = x, 1, 0
    total: T | None = None
    while done < window:
        if window & span:
            piece = part(held, done * gap, size, op.strides[axis])
            total = piece if total is None else _joined(op.fn, total, piece)
            done += span
        if done < window:
            length = length - span * gap
            held = c.write(_joined(op.fn, part(held, 0, length), part(held, span * gap, length)))
            span *= 2
    assert total is not None
    return c.write(total), [size if i == place else d for i, d in enumerate(dims)]


def _joined(fn: str, a: T, b: T) -> T:
    if fn == "sum":
        return a + b
    return extreme("max", a, b) if a.dtype.is_float() else ops.max(a, b)


def _identity(c: LoweringContext, fn: str, dtype: DType) -> T:
    if dtype.is_float():
        return c.scalar(0.0 if fn == "sum" else -math.inf, dtype, c.host)
    return c.scalar(0 if fn == "sum" else integer_range(FROM_MAX[dtype])[0], dtype, c.host)
