"""Operations that move, repeat, select or describe elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from max.dtype import DType
from max.graph import TensorType, TensorValue, ops

from fornaxc.ir.dims import Dim, product
from fornaxc.ir.graph import Value
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
from fornaxc.ir.types import DType as IrDType
from fornaxc.lowering import raw
from fornaxc.lowering.context import LoweringContext
from fornaxc.lowering.elementwise import convert, larger, less, smaller
from fornaxc.lowering.registry import lower

T: TypeAlias = TensorValue
FAR = -(1 << 62)  # a stop before the first element, for negative steps
BLOCK = 16  # elements on a side, which the kernel for transposes moves at once
FEW = 1024  # elements up to which what MAX fuses is worth more than a quicker copy


def reshape(c: LoweringContext, x: T, dims: Sequence[Dim]) -> T:
    """`x` under IR dims of equal product, also where MAX's algebra cannot see that they are."""
    wanted = c.shape(dims)
    if list(x.shape) == wanted:
        return x
    try:
        return ops.reshape(x, wanted)
    except Exception:  # MAX compares products syntactically
        return raw.reshape_to(x, c.dims_tensor(dims), TensorType(x.dtype, wanted, x.device))


@lower(Reshape)
def _reshape(c: LoweringContext, op: Reshape, x: T) -> T:
    return reshape(c, x, op.shape)


@lower(DynamicReshape, host=(1,))
def _dynamic_reshape(c: LoweringContext, op: DynamicReshape, x: T, sizes: T) -> T:
    return raw.reshape_to(x, sizes, c.out_type())


@lower(BroadcastTo)
def _broadcast_to(c: LoweringContext, op: BroadcastTo, x: T) -> T:
    return ops.broadcast_to(x, c.shape(op.shape))


@lower(Repeat)
def _repeat(c: LoweringContext, op: Repeat, x: T) -> T:
    """Through an axis of size 1 behind each."""
    assert c.node is not None
    pairs = list(zip(c.node.inputs[0].type.shape, op.times, strict=True))
    single = [d for size, _ in pairs for d in (size, 1)]
    several = [d for pair in pairs for d in pair]
    wide = ops.broadcast_to(reshape(c, x, single), c.shape(several))
    return reshape(c, wide, c.node.outputs[0].type.shape)


@lower(DynamicBroadcast, on="cpu", host=(1,))
def _dynamic_broadcast(c: LoweringContext, op: DynamicBroadcast, x: T, sizes: T) -> T:
    have = ops.shape_to_tensor(x.shape)
    wanted = ops.where(ops.equal(sizes, c.scalar(1, DType.int64)), have, sizes)
    return ops.broadcast_to(x, wanted, out_dims=c.out_type().shape)


@lower(DynamicBroadcast, on="gpu", host=(1,))
def _dynamic_broadcast_by_gather(c: LoweringContext, op: DynamicBroadcast, x: T, sizes: T) -> T:
    """MAX's broadcast wants its run-time shape on the device; a gather of index 0 repeats an axis as well."""
    type = c.out_type()
    assert c.node is not None
    have = ops.shape_to_tensor(x.shape)
    wanted = ops.where(ops.equal(sizes, c.scalar(1, DType.int64, c.host)), have, sizes)
    for axis, (old, new) in enumerate(zip(c.node.inputs[0].type.shape, op.shape, strict=True)):
        if old == new:
            continue
        limit = ops.reshape(ops.slice_tensor(wanted, [slice(axis, axis + 1)]), [])
        zero, one = c.scalar(0, DType.int64, c.host), c.scalar(1, DType.int64, c.host)
        index = raw.range_to(zero, limit, one, TensorType(DType.int64, [type.shape[axis]], c.device))
        single = ops.equal(c.dim_scalar(old, DType.int64), c.scalar(1, DType.int64))
        x = ops.gather(x, ops.where(single, c.scalar(0, DType.int64), index), axis)
    return x


@lower(Rebind)
def _rebind(c: LoweringContext, op: Rebind, x: T) -> T:
    c.declare(op.shape)
    return ops.rebind(x, c.shape(op.shape), "a size is not what the program asserts")


@lower(Transpose)
def _transpose(c: LoweringContext, op: Transpose, x: T) -> T:
    return ops.permute(x, list(op.perm)) if x.rank else x


@lower(Transpose, on="cpu")
def _transpose_blocks(c: LoweringContext, op: Transpose, x: T) -> T:
    """Through one kernel where the last axes of both sides have many elements: it works by blocks, 4 to 6 times as fast as MAX 26.7's."""
    assert c.node is not None
    (source,), (result,) = c.node.inputs, c.node.outputs
    if x.rank < 2 or op.perm[-1] == x.rank - 1 or any(isinstance(d, int) and d < BLOCK for d in _last(source, result)):
        return _transpose(c, op, x)
    return c.custom("fx_transpose", [x, vector(c, op.perm)], [c.out_type()])[0]


def _last(*values: Value) -> list[Dim]:
    return [v.type.shape[-1] for v in values]


@lower(Concat)
def _concat(c: LoweringContext, op: Concat, *inputs: T) -> T:
    assert c.node is not None
    kept = [x for x, v in zip(inputs, c.node.inputs, strict=True) if v.type.shape[op.axis] != 0]
    if len(kept) < 2:
        return kept[0] if kept else inputs[0]
    return ops.concat(kept, op.axis)


@lower(Concat, on="cpu")
def _concat_rows(c: LoweringContext, op: Concat, *inputs: T) -> T:
    """Through one kernel that copies rows: MAX 26.7's own takes 2 to 3 ns for an element. A few numbers stay with MAX, which fuses them."""
    assert c.node is not None
    kept = [(x, v.type.shape) for x, v in zip(inputs, c.node.inputs, strict=True) if v.type.shape[op.axis] != 0]
    result = c.node.outputs[0].type.shape
    total = product(result)
    if len(kept) < 2 or (isinstance(total, int) and total < FEW):
        return _concat(c, op, *inputs)
    rows = product(result[: op.axis])
    flat = [reshape(c, x, [rows, product(shape[op.axis :])]) for x, shape in kept]
    type = TensorType(flat[0].dtype, c.shape([rows, product(result[op.axis :])]), c.device)
    return reshape(c, c.custom("fx_concat", flat, [type])[0], result)


def vector(c: LoweringContext, values: Sequence[int]) -> T:
    """An i64 constant vector on the host."""
    return c.literal(np.array(values, np.int64), c.host)


@lower(Slice)
def _slice(c: LoweringContext, op: Slice, x: T) -> T:
    assert c.node is not None
    if not x.rank:
        return x
    have = c.node.inputs[0].type.shape
    stop: Dim
    stops: list[Dim] = []
    starts = list(op.starts)
    for axis, (start, size, step) in enumerate(zip(op.starts, op.sizes, op.steps, strict=True)):
        if size == 0:
            starts[axis], stop = 0, 0
        elif size == have[axis] and start == 0 and step == 1:
            stop = size
        else:
            stop = start + size * step
        if step < 0 and size != 0:  # MAX drops the reversal of some results
            x = _pick(c, x, axis, start, size, step)
            starts[axis], stop = 0, size
            op = Slice(tuple(starts), op.sizes, tuple(1 if i == axis else s for i, s in enumerate(op.steps)))
        stops.append(stop)
    wanted = TensorType(x.dtype, c.shape(op.sizes), c.device)
    return raw.slice_to(x, c.dims_tensor(starts), c.dims_tensor(stops), vector(c, op.steps), wanted)


def iota(c: LoweringContext, size: Dim) -> T:
    """0, 1, ... as an i64 vector."""
    if isinstance(size, int) and size <= 1024:
        return c.literal(np.arange(size, dtype=np.int64))
    zero, one = c.scalar(0, DType.int64, c.host), c.scalar(1, DType.int64, c.host)
    return raw.range_to(
        zero, c.dim_scalar(size, DType.int64, c.host), one, TensorType(DType.int64, [c.dim(size)], c.device)
    )


def _pick(c: LoweringContext, x: T, axis: int, start: Dim, size: Dim, step: int) -> T:
    """A strided slice as a gather."""
    if isinstance(start, int) and isinstance(size, int) and size <= 1024:
        index = c.literal(start + step * np.arange(size, dtype=np.int64))
    else:
        index = c.dim_scalar(start, DType.int64) + iota(c, size) * c.scalar(step, DType.int64)
    return ops.gather(x, index, axis)


@lower(DynamicSlice, host=(1,))
def _dynamic_slice(c: LoweringContext, op: DynamicSlice, x: T, starts: T) -> T:
    if not x.rank:
        return x
    type = c.out_type()
    sizes = c.dims_tensor(op.sizes)
    room = ops.shape_to_tensor(x.shape) - sizes
    first = larger(smaller(starts, room), c.scalar(0, DType.int64, c.host))
    return raw.slice_to(x, first, first + sizes, vector(c, [1] * x.rank), type)


@lower(StridedSlice, host=(1, 2, 3))
def _strided_slice(c: LoweringContext, op: StridedSlice, x: T, starts: T, ends: T, steps: T) -> T:
    """Bounds are made explicit first: MAX normalises a stop of -1 to the last element, which ONNX clamps to before the first."""
    if not x.rank:
        return x
    zero, one = c.scalar(0, DType.int64, c.host), c.scalar(1, DType.int64, c.host)
    size = ops.shape_to_tensor(x.shape)
    forward = ops.greater(steps, zero)
    first = ops.where(less(starts, zero), starts + size, starts)
    first = larger(smaller(first, ops.where(forward, size, size - one)), zero)
    last = ops.where(less(ends, zero), larger(ends, zero - size - one) + size, ends)
    last = larger(smaller(last, size), ops.where(forward, zero, zero - one))
    last = ops.where(forward, larger(last, first), smaller(last, first))  # MAX refuses bounds that cross
    stop = ops.where(less(last, zero), c.scalar(FAR, DType.int64, c.host), last)
    return raw.slice_to(x, first, stop, steps, c.out_type())


@lower(Pad)
def _pad(c: LoweringContext, op: Pad, x: T, *fill: T) -> T:
    if not x.rank:
        return x
    assert c.node is not None
    if op.mode != "constant":
        return _pad_by_index(c, op, x)
    if any(op.interior):
        x = _spread(c, op, x, fill[0])
    return pad_constant(c, x, op.low, op.high, fill[0], c.node.outputs[0].type.shape)


def pad_constant(
    c: LoweringContext, x: T, low: Sequence[Dim], high: Sequence[Dim], fill: T, result: Sequence[Dim]
) -> T:
    """Constant padding to the dims `result`; nothing where there is nothing to add."""
    if all(p == 0 for p in (*low, *high)):
        return x
    if x.dtype == DType.bool:
        bytes_ = pad_constant(c, ops.cast(x, DType.uint8), low, high, ops.cast(fill, DType.uint8), result)
        return convert(c, bytes_, IrDType.BOOL)
    pairs = [p for pair in zip(low, high, strict=True) for p in pair]
    value = raw.transfer_to(fill, c.host)
    return raw.pad_to(x, c.dims_tensor(pairs), value, TensorType(x.dtype, c.shape(result), c.device))


def _spread(c: LoweringContext, op: Pad, x: T, fill: T) -> T:
    """Fill elements between neighbours: each element grows a tail, and the last tail is cut off."""
    assert c.node is not None
    dims = list(c.node.inputs[0].type.shape)
    for axis, gap in enumerate(op.interior):
        if not gap or dims[axis] == 0:
            continue
        n = dims[axis]
        apart = [*dims[: axis + 1], 1, *dims[axis + 1 :]]
        grown = [*dims[: axis + 1], 1 + gap, *dims[axis + 1 :]]
        zeros = [0] * len(apart)
        tails = pad_constant(
            c, reshape(c, x, apart), zeros, [gap if i == axis + 1 else 0 for i in range(len(apart))], fill, grown
        )
        dims[axis] = n * (1 + gap)
        x = reshape(c, tails, dims)
        dims[axis] = n + (n - 1) * gap
        wanted = TensorType(x.dtype, c.shape(dims), c.device)
        x = raw.slice_to(x, vector(c, [0] * len(dims)), c.dims_tensor(dims), vector(c, [1] * len(dims)), wanted)
    return x


def _pad_by_index(c: LoweringContext, op: Pad, x: T) -> T:
    """reflect, edge and wrap: a gather along each padded axis."""
    assert c.node is not None
    for axis, (low, high, n) in enumerate(zip(op.low, op.high, c.node.inputs[0].type.shape, strict=True)):
        if low == 0 and high == 0:
            continue
        if isinstance(low, int) and isinstance(high, int) and isinstance(n, int):
            index = c.literal(_source_index(op.mode, n, low, high))
        else:
            index = _symbolic_index(c, op.mode, n, low, high)
        x = ops.gather(x, index, axis)
    return x


def _source_index(mode: str, n: int, low: int, high: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    at = np.arange(-low, n + high)
    if mode == "edge":
        at = np.clip(at, 0, n - 1)
    elif mode == "wrap":
        at = at % n
    else:
        period = max(1, 2 * (n - 1))
        at = np.minimum(at % period, period - at % period) if n > 1 else at * 0
    return at.astype(np.int64)


def _symbolic_index(c: LoweringContext, mode: str, n: Dim, low: Dim, high: Dim) -> T:
    at = iota(c, n + low + high) - c.dim_scalar(low, DType.int64)
    size, zero, one = c.dim_scalar(n, DType.int64), c.scalar(0, DType.int64), c.scalar(1, DType.int64)
    if mode == "edge":
        return larger(smaller(at, size - one), zero)
    if mode == "wrap":
        return _floor_mod(at, larger(size, one))
    period = larger((size - one) * c.scalar(2, DType.int64), one)
    at = _floor_mod(at, period)
    return smaller(at, period - at)


def _floor_mod(a: T, b: T) -> T:
    return a - ops.floor_div(a, b) * b


@lower(Dims)
def _dims(c: LoweringContext, op: Dims) -> T:
    return c.dims_tensor(op.values)


@lower(Iota)
def _iota(c: LoweringContext, op: Iota) -> T:
    line = convert(c, iota(c, op.shape[op.axis]), op.dtype)
    line = ops.reshape(line, [line.shape[0] if i == op.axis else 1 for i in range(len(op.shape))])
    return ops.broadcast_to(line, c.shape(op.shape))


@lower(DynamicRange, host=(0, 1, 2))
def _dynamic_range(c: LoweringContext, op: DynamicRange, start: T, limit: T, delta: T) -> T:
    """Counted on the host, in float64 for floats as numpy does, so that the length is the one the program expects."""
    type = c.out_type()
    wide = DType.float64 if start.dtype.is_float() else DType.int64
    first, last, step = (ops.cast(v, wide) for v in (start, limit, delta))
    one, zero = (c.scalar(v if wide == DType.int64 else float(v), wide, c.host) for v in (1, 0))
    if wide == DType.float64:
        span = (last - first) / step
        whole = ops.trunc(span)
        count = ops.cast(larger(ops.where(ops.greater(span, whole), whole + one, whole), zero), DType.int64)
    else:
        count = larger(
            ops.floor_div(last - first - ops.where(ops.greater(step, zero), one, zero - one), step) + one, zero
        )
    k0, k1 = c.scalar(0, DType.int64, c.host), c.scalar(1, DType.int64, c.host)
    index = raw.range_to(k0, count, k1, TensorType(DType.int64, type.shape, c.device))
    on_device = [raw.transfer_to(v, c.device) for v in (first, step)]
    values = on_device[0] + ops.cast(index, wide) * on_device[1]
    return ops.cast(values, type.dtype)
