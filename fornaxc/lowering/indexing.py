"""Gather, scatter and searches. Indices arrive non-negative and within bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from max.dtype import DType
from max.graph import TensorType, TensorValue, ops

from fornaxc.ir.dims import Dim, product
from fornaxc.ir.ops import Gather, GatherElements, GatherNd, NonZero, ScatterElements, ScatterNd, TopK
from fornaxc.ir.types import DType as IrDType
from fornaxc.lowering import raw
from fornaxc.lowering.context import LoweringContext
from fornaxc.lowering.dtypes import NARROW_FLOATS
from fornaxc.lowering.elementwise import convert, widened
from fornaxc.lowering.registry import lower
from fornaxc.lowering.shape import iota, reshape

T: TypeAlias = TensorValue


@lower(Gather)
def _gather(c: LoweringContext, op: Gather, x: T, index: T) -> T:
    assert c.node is not None
    if index.rank == 0:  # MAX cannot compile a rank-0 index
        picked = ops.gather(x, ops.reshape(index, [1]), op.axis)
        return reshape(c, picked, c.node.outputs[0].type.shape)
    return ops.gather(x, index, op.axis)


def _linear(c: LoweringContext, parts: Sequence[T | None], dims: Sequence[Dim], result: Sequence[Dim]) -> T:
    """The row-major position of index tuples; `parts` has one index (or None for 0) for each of `dims`, which broadcast to `result`.

    Where that is symbolic each sum goes to memory: MAX reads fused sums of broadcasts wrongly (`barriers.py`).
    """
    fixed = all(isinstance(d, int) for d in result)
    total: T | None = None
    for axis, part in enumerate(parts):
        if part is None:
            continue
        stride = product(list(dims[axis + 1 :]))
        term = part if stride == 1 else part * c.dim_scalar(stride, DType.int64)
        total = term if total is None else total + term if fixed else c.write(total + term)
    assert total is not None
    return total


def _along(c: LoweringContext, size: Dim, axis: int, rank: int) -> T:
    """0, 1, ... along one axis of a tensor of `rank`, the other axes of size 1."""
    line = iota(c, size)
    return ops.reshape(line, [line.shape[0] if i == axis else 1 for i in range(rank)])


@lower(GatherElements)
def _gather_elements(c: LoweringContext, op: GatherElements, x: T, index: T) -> T:
    assert c.node is not None
    have, wanted = (v.type.shape for v in c.node.inputs)
    return gather_along(c, x, index, op.axis, have, wanted)


def gather_along(c: LoweringContext, x: T, index: T, axis: int, have: Sequence[Dim], wanted: Sequence[Dim]) -> T:
    """ONNX GatherElements for `x` of dims `have` and `index` of dims `wanted`: one gather at row-major positions."""
    if index.dtype != DType.int64:
        index = ops.cast(index, DType.int64)
    if not all(isinstance(d, int) for d in wanted):
        index = c.write(index)
    parts: list[T | None] = [
        index if i == axis else (None if wanted[i] == 1 else _along(c, wanted[i], i, len(wanted)))
        for i in range(len(wanted))
    ]
    place = reshape(c, ops.broadcast_to(_linear(c, parts, have, wanted), c.shape(wanted)), [product(list(wanted))])
    flat = reshape(c, x, [product(list(have))])
    return reshape(c, ops.gather(flat, place, 0), wanted)


@lower(GatherNd)
def _gather_nd(c: LoweringContext, op: GatherNd, x: T, index: T) -> T:
    assert c.node is not None
    (source, where), result = (v.type.shape for v in c.node.inputs), c.node.outputs[0].type.shape
    depth, lead = int(str(where[-1])), op.batch_dims
    rank = len(where) - 1
    if index.dtype != DType.int64:
        index = ops.cast(index, DType.int64)
    parts: list[T | None] = [_along(c, source[i], i, rank) for i in range(lead)]
    for k in range(depth):
        cut = [*([slice(None)] * rank), slice(k, k + 1)]
        parts.append(reshape(c, ops.slice_tensor(index, cut), where[:-1]))
    if not parts:
        return ops.broadcast_to(reshape(c, x, [1] * rank + list(source)), c.shape(result))
    searched = list(source[: lead + depth])
    place = _linear(c, parts, searched, where[:-1])
    place = reshape(c, ops.broadcast_to(place, c.shape(where[:-1])), [product(list(where[:-1]))])
    rows = reshape(c, x, [product(searched), *source[lead + depth :]])
    return reshape(c, ops.gather(rows, place, 0), result)


_SCATTER: dict[str, Callable[..., T]] = {
    "none": ops.scatter,
    "add": ops.scatter_add,
    "mul": ops.scatter_mul,
    "min": ops.scatter_min,
    "max": ops.scatter_max,
}
_SCATTER_ND: dict[str, Callable[..., T]] = {
    "none": ops.scatter_nd,
    "add": ops.scatter_nd_add,
    "mul": ops.scatter_nd_mul,
    "min": ops.scatter_nd_min,
    "max": ops.scatter_nd_max,
}


def _computable(x: T, updates: T, reduction: str) -> tuple[T, T]:
    """Bools as bytes; narrow floats in float32 where they are added up."""
    if x.dtype == DType.bool:
        return ops.cast(x, DType.uint8), ops.cast(updates, DType.uint8)
    if x.dtype in NARROW_FLOATS and reduction != "none":
        return widened(x), widened(updates)
    return x, updates


def _restored(c: LoweringContext, x: T, dtype: DType) -> T:
    return convert(c, x, IrDType.BOOL) if dtype == DType.bool else ops.cast(x, dtype)


@lower(ScatterElements)
def _scatter_elements(c: LoweringContext, op: ScatterElements, x: T, index: T, updates: T) -> T:
    assert c.node is not None
    if c.node.inputs[1].type.elements == 0:
        return x
    base, new = _computable(x, updates, op.reduction)
    return _restored(c, _SCATTER[op.reduction](base, new, index, op.axis), x.dtype)


@lower(ScatterNd)
def _scatter_nd(c: LoweringContext, op: ScatterNd, x: T, index: T, updates: T) -> T:
    assert c.node is not None
    if c.node.inputs[1].type.elements == 0 and c.node.inputs[1].type.shape[-1] != 0:
        return x
    base, new = _computable(x, updates, op.reduction)
    return _restored(c, _SCATTER_ND[op.reduction](base, new, index), x.dtype)


@lower(NonZero, on="cpu")
def _non_zero(c: LoweringContext, op: NonZero, x: T) -> T:
    assert c.node is not None
    c.declare([op.size])
    flags = x if x.dtype == DType.bool else convert(c, x, IrDType.BOOL)
    flags = ops.cast(flags, DType.uint8)
    if not x.rank:
        found = ops.nonzero(ops.reshape(flags, [1]), c.dim(op.size))
        empty = TensorType(DType.int64, [0, c.dim(op.size)], c.device)
        return _no_rows(c, found, empty)
    return ops.permute(ops.nonzero(flags, c.dim(op.size)), [1, 0])


def _no_rows(c: LoweringContext, found: T, type: TensorType) -> T:
    """An empty tensor that still tells how many there are."""

    start, stop, step = (c.literal(np.array(v, np.int64), c.host) for v in ([0, 0], [0, 1 << 62], [1, 1]))
    return raw.slice_to(ops.permute(found, [1, 0]), start, stop, step, type)


@lower(NonZero, on="gpu")
def _non_zero_on_host(c: LoweringContext, op: NonZero, x: T) -> T:
    c.fall_back("MAX finds non-zero elements on the CPU only")
    device, c.device = c.device, c.host
    found = _non_zero(c, op, raw.transfer_to(x, c.host))
    c.device = device
    return raw.transfer_to(found, device)


@lower(TopK, on="cpu")
def _top_k(c: LoweringContext, op: TopK, x: T) -> Sequence[T]:
    """By a kernel: MAX's ignores NaN and takes no k that only the run time knows."""
    assert c.node is not None
    have, (values, places) = c.node.inputs[0].type.shape, (v.type for v in c.node.outputs)
    outer, inner = product(list(have[: op.axis])), product(list(have[op.axis + 1 :]))
    flat = reshape(c, x, [outer, have[op.axis], inner])
    cut = c.shape([outer, op.k, inner])
    found, index = c.custom(
        "fx_top_k",
        [flat],
        [TensorType(x.dtype, cut, c.device), TensorType(DType.int64, cut, c.device)],
        largest=int(op.largest),
    )
    return reshape(c, found, values.shape), reshape(c, index, places.shape)


@lower(TopK, on="gpu")
def _top_k_stock(c: LoweringContext, op: TopK, x: T) -> Sequence[T]:
    assert c.node is not None
    have, wanted = c.node.inputs[0].type.shape, c.node.outputs[0].type.shape
    last = len(have) - 1
    order = [*(i for i in range(last + 1) if i != op.axis), op.axis]
    back = [order.index(i) for i in range(last + 1)]
    moved = ops.permute(x, order) if op.axis != last else x
    keys = widened(moved)
    if keys.dtype.is_float():
        keys = ops.where(ops.is_nan(keys), c.scalar(math.inf, keys.dtype), keys)
    k = int(str(op.k))
    _, index = ops.top_k(keys, k, last) if op.largest else ops.bottom_k(keys, k, last)
    dims, cut = [have[i] for i in order], [wanted[i] for i in order]
    values = gather_along(c, moved, index, last, dims, cut)
    if op.axis == last:
        return values, index
    return ops.permute(values, back), ops.permute(index, back)
