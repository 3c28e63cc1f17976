"""Gather and scatter. Negative indices count from the end of their axis."""

from __future__ import annotations

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.ops.shape import checkable
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, static
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Gather, GatherElements, GatherNd, Iota, ScatterElements, ScatterNd
from fornaxc.ir.types import DType

_ADD_MUL = {"none": "none", "add": "add", "mul": "mul"}
_ALL = {**_ADD_MUL, "max": "max", "min": "min"}


def wrapped(ctx: NodeContext, index: Value, size: Value) -> Value:
    """Indices with `size` (of an axis, i64, broadcast) added where they are negative; checked where they are known."""
    b = ctx.b
    dtype = index.type.dtype
    content, limit = ctx.content(index), b.known(size)
    if content is not None and limit is not None and object not in (content.dtype, limit.dtype):
        inside = bool(((content >= -limit) & (content < limit)).all())
        ctx.require(inside, f"an index is outside of an axis of size {limit.reshape(-1).tolist()}")
        if not (content < 0).any():
            return index
        index = b.literal(content)
    negative = c.compare(b, "lt", index, c.scalar(b, 0, dtype))
    return c.select(b, negative, c.binary(b, "add", index, c.cast(b, size, dtype)), index)


def axis_size(b: GraphBuilder, size: Dim) -> Value:
    """A dim as a rank-0 i64 tensor."""
    return c.reshape(b, b.dims((size,)), ())


@onnx_op("Gather", 1, 11, 13)
def gather(ctx: NodeContext) -> Value:
    b, x, index = ctx.b, ctx.input(0), ctx.input(1)
    axis = ctx.axis(ctx.int("axis", 0), x.type.rank)
    n = x.type.shape[axis]
    content = ctx.content(index)
    if content is not None and content.dtype != object and content.ndim == 0 and checkable(b, n):
        place = int(content.item())
        if isinstance(n, int):
            ctx.require(-n <= place < n, f"the index {place} is outside of an axis of size {n}")
        else:
            b.require(n, ">=", place + 1 if place >= 0 else -place, f"a Gather takes element {place}")
        one = c.slice_axis(b, x, axis, n + place if place < 0 else place, 1)
        return c.reshape(b, one, [d for i, d in enumerate(one.type.shape) if i != axis])
    return b.emit(Gather(axis), x, wrapped(ctx, index, axis_size(b, n)))


@onnx_op("GatherElements", 11, 13)
def gather_elements(ctx: NodeContext) -> Value:
    x = ctx.input(0)
    axis = ctx.axis(ctx.int("axis", 0), x.type.rank)
    index = wrapped(ctx, ctx.input(1), axis_size(ctx.b, x.type.shape[axis]))
    return ctx.b.emit(GatherElements(axis), x, index)


@onnx_op("GatherND", 11)
def gather_nd(ctx: NodeContext) -> Value:
    return _gather_nd(ctx, 0)


@onnx_op("GatherND", 12, 13)
def gather_nd_batched(ctx: NodeContext) -> Value:
    return _gather_nd(ctx, ctx.int("batch_dims", 0))


def _gather_nd(ctx: NodeContext, batch: int) -> Value:
    x, index = ctx.input(0), ctx.input(1)
    ctx.require(0 <= batch < min(x.type.rank, index.type.rank), f"batch_dims {batch} for {x.type} and {index.type}")
    shared = c.broadcast_shape(x.type.shape[:batch], index.type.shape[:batch])
    x = c.rebind(ctx.b, x, (*shared, *x.type.shape[batch:]))
    index = c.rebind(ctx.b, index, (*shared, *index.type.shape[batch:]))
    return ctx.b.emit(GatherNd(batch), x, _wrapped_tuples(ctx, x, index, batch))


def _wrapped_tuples(ctx: NodeContext, x: Value, index: Value, batch: int) -> Value:
    """Index tuples (the last axis) into `x` from axis `batch` on."""
    ctx.require(index.type.rank > 0, "the index tuples are a scalar")
    depth = index.type.shape[-1]
    ctx.refuse_unless(isinstance(depth, int), f"index tuples of {depth} entries")
    assert isinstance(depth, int)
    ctx.require(batch + depth <= x.type.rank, f"index tuples of {depth} entries into {x.type}")
    return wrapped(ctx, index, ctx.b.dims(x.type.shape[batch : batch + depth]))


def _scatter_elements(ctx: NodeContext, reduction: str) -> Value:
    b, x, index = ctx.b, ctx.input(0), ctx.input(1)
    axis = ctx.axis(ctx.int("axis", 0), x.type.rank)
    index = wrapped(ctx, index, axis_size(b, x.type.shape[axis]))
    updates = c.rebind(b, ctx.input(2), index.type.shape)
    return b.emit(ScatterElements(axis, reduction), x, index, updates)


def _scatter_nd(ctx: NodeContext, reduction: str) -> Value:
    b, x, index = ctx.b, ctx.input(0), ctx.input(1)
    index = _wrapped_tuples(ctx, x, index, 0)
    depth = static(index.type.shape[-1])
    updates = c.rebind(b, ctx.input(2), (*index.type.shape[:-1], *x.type.shape[depth:]))
    return b.emit(ScatterNd(reduction), x, index, updates)


def _reduction(ctx: NodeContext, allowed: dict[str, str]) -> str:
    given = ctx.string("reduction", "none")
    ctx.require(given in allowed, f"no reduction {given!r}")
    return allowed[given]


for _name, _scatter in (("ScatterElements", _scatter_elements), ("ScatterND", _scatter_nd)):
    onnx_op(_name, 11, 13)(lambda ctx, scatter=_scatter: scatter(ctx, "none"))  # type: ignore[misc]
    onnx_op(_name, 16)(lambda ctx, scatter=_scatter: scatter(ctx, _reduction(ctx, _ADD_MUL)))  # type: ignore[misc]
    onnx_op(_name, 18)(lambda ctx, scatter=_scatter: scatter(ctx, _reduction(ctx, _ALL)))  # type: ignore[misc]
onnx_op("Scatter", 9, 11)(lambda ctx: _scatter_elements(ctx, "none"))


@onnx_op("TensorScatter", 24)
def tensor_scatter(ctx: NodeContext) -> Value:
    """Writes `update` into each sample of a cache, from its write index on."""
    b, cache, update = ctx.b, ctx.input(0), ctx.input(1)
    axis = ctx.axis(ctx.int("axis", -2), cache.type.rank)
    mode = ctx.string("mode", "linear")
    ctx.require(axis > 0, "TensorScatter along the batch axis")
    ctx.require(mode in ("linear", "circular"), f"no mode {mode!r}")
    line = [d if i == axis else 1 for i, d in enumerate(update.type.shape)]
    index = c.reshape(b, b.emit(Iota((update.type.shape[axis],), 0, DType.I64)), line)
    if ctx.optional(2) is not None:
        first = c.cast(b, ctx.input(2), DType.I64)
        column = [update.type.shape[0] if i == 0 else 1 for i in range(update.type.rank)]
        index = c.binary(b, "add", index, c.reshape(b, first, column))
    if mode == "circular":
        index = c.binary(b, "mod", index, axis_size(b, cache.type.shape[axis]))
    return b.emit(ScatterElements(axis), cache, c.expand(b, index, update.type.shape), update)


@onnx_op("ReverseSequence", 10, 28)
def reverse_sequence(ctx: NodeContext) -> Value:
    """The first sequence_lens[i] elements of sample i in reverse order along the time axis."""
    b, x = ctx.b, ctx.input(0)
    batch, time = ctx.int("batch_axis", 1), ctx.int("time_axis", 0)
    ctx.require({batch, time} == {0, 1} and x.type.rank >= 2, f"batch axis {batch} and time axis {time} of {x.type}")
    rank = x.type.rank
    lengths = c.cast(b, ctx.input(1), DType.I64)
    lengths = c.reshape(b, lengths, [x.type.shape[batch] if i == batch else 1 for i in range(rank)])
    step = c.reshape(
        b,
        b.emit(Iota((x.type.shape[time],), 0, DType.I64)),
        [x.type.shape[time] if i == time else 1 for i in range(rank)],
    )
    mirrored = c.binary(b, "sub", c.with_scalar(b, "sub", lengths, 1), step)
    index = c.select(b, c.compare(b, "lt", step, lengths), mirrored, step)
    return b.emit(GatherElements(time), x, c.expand(b, index, x.type.shape))
