"""Operators that change shapes and move axes: Reshape, Flatten, Squeeze, Transpose, Concat, Expand, Tile, ..."""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.importers.onnx.context import Invalid, NodeContext, Refused
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.steering import axis_mask, entries, require_at_run_time, vector, with_axes, without_axes
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, is_nonnegative, product, symbols
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import DynamicBroadcast, DynamicReshape, Reshape
from fornaxc.ir.types import DType


def static_rank(ctx: NodeContext, sizes: Value) -> int:
    """How many entries a rank-1 tensor of sizes has."""
    ctx.require(sizes.type.rank == 1, f"sizes must have rank 1, not {sizes.type}")
    (rank,) = sizes.type.shape
    if not isinstance(rank, int):
        raise Refused("the rank of the result depends on the run-time sizes")
    return rank


def checkable(b: GraphBuilder, *dims: Dim) -> bool:
    """Whether conditions on these dims can be checked before a run."""
    return all(symbols(d) <= b.input_symbols() for d in dims)


def to_shape(b: GraphBuilder, x: Value, shape: Sequence[Dim]) -> Value:
    """`x` reshaped; where the element counts only may agree, that is asserted at run time."""
    wanted = tuple(shape)
    if x.type.shape == wanted:
        return x
    if x.type.elements == product(wanted):
        return b.emit(Reshape(wanted), x)
    return c.dynamic_reshape(b, x, wanted)


@onnx_op("Reshape", 5, 13)
def reshape(ctx: NodeContext) -> Value:
    return _reshape(ctx, allow_zero=False)


@onnx_op("Reshape", 14, 19, 21, 23, 24, 25)
def reshape_allowzero(ctx: NodeContext) -> Value:
    return _reshape(ctx, allow_zero=bool(ctx.int("allowzero", 0)))


def _reshape(ctx: NodeContext, allow_zero: bool) -> Value:
    """0 keeps the size of that axis (unless `allow_zero`), one -1 is what the element count leaves."""
    x, given = ctx.input(0), ctx.dims_or_none(1)
    if given is None:
        return _reshape_at_run_time(ctx, allow_zero)
    shape: list[Dim] = []
    for axis, size in enumerate(given):
        if size == 0 and not allow_zero:
            ctx.require(axis < x.type.rank, f"the shape {list(given)} keeps axis {axis}, which {x.type} does not have")
            shape.append(x.type.shape[axis])
        else:
            ctx.require(not isinstance(size, int) or size >= -1, f"the shape {list(given)} has a size below -1")
            shape.append(size)
    inferred = [axis for axis, size in enumerate(shape) if size == -1]
    ctx.require(len(inferred) <= 1, f"the shape {list(given)} has two unknown sizes")
    for axis in inferred:
        rest = product([size for other, size in enumerate(shape) if other != axis])
        ctx.require(rest != 0, f"nothing tells the size of axis {axis} in the shape {list(given)} of {x.type}")
        if not isinstance(rest, int) and not is_nonnegative(rest):
            raise Refused(f"the size {rest} may be negative")
        shape[axis] = x.type.elements // rest
    return to_shape(ctx.b, x, shape)


def _reshape_at_run_time(ctx: NodeContext, allow_zero: bool) -> Value:
    """The run stops where the sizes do not fit the element count, one is below -1, two are unknown, or others of 0 hide the unknown one."""
    b, x = ctx.b, ctx.input(0)
    sizes = c.cast(b, ctx.input(1), DType.I64)
    rank = static_rank(ctx, sizes)
    if rank == 0:
        return to_shape(b, x, ())
    if not allow_zero:
        kept = b.dims((*x.type.shape[:rank], *(0,) * (rank - x.type.rank)))
        sizes = c.select(b, c.compare(b, "eq", sizes, c.scalar(b, 0, DType.I64)), kept, sizes)
    unknown = c.compare(b, "eq", sizes, c.scalar(b, -1, DType.I64))
    known = c.reduce(b, "prod", c.select(b, unknown, c.scalar(b, 1, DType.I64), sizes), (0,))
    rest = c.binary(b, "div", b.dims((x.type.elements,)), c.with_scalar(b, "max", known, 1))
    count = c.reduce(b, "sum", c.cast(b, unknown, DType.I64), (0,))
    telling = c.cast(b, c.compare(b, "ne", known, c.scalar(b, 0, DType.I64)), DType.I64)
    sizes = c.select(b, unknown, rest, sizes)
    positive = c.compare(b, "ge", c.reduce(b, "min", sizes, (0,)), c.scalar(b, 0, DType.I64))
    sizes = require_at_run_time(b, sizes, c.binary(b, "and", positive, c.compare(b, "le", count, telling)))
    reshaped = b.emit(DynamicReshape(tuple(b.fresh_dim() for _ in range(rank))), x, sizes)
    return c.rebind(b, reshaped, (x.type.elements,)) if rank == 1 else reshaped


@onnx_op("Flatten", 1, 9, 11, 13, 21, 23, 24, 25)
def flatten(ctx: NodeContext) -> Value:
    """A matrix: the axes before `axis` (which may be the rank), and those from it on."""
    x, axis = ctx.input(0), ctx.int("axis", 1)
    ctx.require(-x.type.rank <= axis <= x.type.rank, f"axis {axis} is outside of {x.type}")
    axis = axis + x.type.rank if axis < 0 else axis
    return to_shape(ctx.b, x, (product(x.type.shape[:axis]), product(x.type.shape[axis:])))


@onnx_op("Squeeze", 1, 11)
def squeeze_attribute(ctx: NodeContext) -> Value:
    return _squeeze(ctx, ctx.ints("axes") if ctx.has("axes") else None)


@onnx_op("Squeeze", 13, 21, 23, 24, 25)
def squeeze(ctx: NodeContext) -> Value:
    if ctx.optional(1) is None:
        return _squeeze(ctx, None)
    axes = ctx.ints_or_none(1)
    if axes is not None:
        return _squeeze(ctx, axes)
    x, given = ctx.input(0), vector(ctx.b, ctx.input(1))
    named = entries(ctx, given, "the axes")
    ctx.require(named <= x.type.rank, f"{named} axes of {x.type}")
    return without_axes(ctx.b, x, axis_mask(ctx.b, given, x.type.rank), named)


def _squeeze(ctx: NodeContext, given: Sequence[int] | None) -> Value:
    """Without axes, every axis of size 1 goes; sizes that are not known must then be other than 1, or the run stops."""
    b, x = ctx.b, ctx.input(0)
    if given is not None:
        return c.squeeze(b, x, ctx.axes(given, x.type.rank))
    computed: list[Dim] = []
    for size in x.type.shape:
        if isinstance(size, int):
            continue
        if checkable(b, size):
            b.require(size, ">=", 2, "a Squeeze without axes keeps this axis")
        else:
            computed.append(size)
    if computed:
        stays = c.compare(b, "ne", b.dims(computed), c.scalar(b, 1, DType.I64))
        x = require_at_run_time(b, x, c.reduce(b, "min", stays, (0,)))
    return c.squeeze(b, x, [axis for axis, size in enumerate(x.type.shape) if size == 1])


@onnx_op("Unsqueeze", 1, 11)
def unsqueeze_attribute(ctx: NodeContext) -> Value:
    return _unsqueeze(ctx, ctx.ints("axes"))


@onnx_op("Unsqueeze", 13, 21, 23, 24, 25)
def unsqueeze(ctx: NodeContext) -> Value:
    axes = ctx.ints_or_none(1)
    if axes is not None:
        return _unsqueeze(ctx, axes)
    given = vector(ctx.b, ctx.input(1))
    entries(ctx, given, "the axes")
    return with_axes(ctx.b, ctx.input(0), given)


def _unsqueeze(ctx: NodeContext, given: Sequence[int]) -> Value:
    x = ctx.input(0)
    return c.unsqueeze(ctx.b, x, ctx.axes(given, x.type.rank + len(given)))


@onnx_op("Transpose", 1, 13, 21, 23, 24, 25)
def transpose(ctx: NodeContext) -> Value:
    x = ctx.input(0)
    return c.transpose(ctx.b, x, ctx.ints("perm", tuple(reversed(range(x.type.rank)))))


@onnx_op("Concat", 4, 11, 13)
def concat(ctx: NodeContext) -> Value:
    values = ctx.variadic
    ctx.require(bool(values), "Concat of nothing")
    return join(ctx.b, values, ctx.axis(ctx.int("axis"), values[0].type.rank))


def join(b: GraphBuilder, values: Sequence[Value], axis: int) -> Value:
    """The values side by side; their other axes are asserted to agree where symbolic."""
    ranks = {v.type.rank for v in values}
    if len(ranks) != 1:
        raise Invalid(f"Concat of {', '.join(str(v.type) for v in values)}, whose ranks differ")
    common: list[Dim] = []
    for sizes in zip(*(v.type.shape for v in values), strict=True):
        common.append(next((s for s in sizes if isinstance(s, int)), sizes[0]))
    joined = []
    for value in values:
        shape = [own if i == axis else c_ for i, (own, c_) in enumerate(zip(value.type.shape, common, strict=True))]
        joined.append(c.rebind(b, value, shape))
    return c.concat(b, joined, axis)


@onnx_op("Expand", 8, 13)
def expand(ctx: NodeContext) -> Value:
    """numpy's broadcast of the tensor with the given shape: a 1 there keeps an axis."""
    b, x, shape = ctx.b, ctx.input(0), ctx.dims_or_none(1)
    if shape is not None:
        return c.expand(b, x, c.broadcast_shape(x.type.shape, shape))
    sizes = c.cast(b, ctx.input(1), DType.I64)
    rank = static_rank(ctx, sizes)
    extra = x.type.rank - rank
    if extra > 0:
        sizes = c.concat(b, [b.dims((1,) * extra), sizes], 0)
    elif extra < 0:
        x = c.unsqueeze(b, x, range(-extra))
    result = tuple(d if isinstance(d, int) and d != 1 else b.fresh_dim() for d in x.type.shape)
    return b.emit(DynamicBroadcast(result), x, sizes)


@onnx_op("Tile", 6, 13)
def tile(ctx: NodeContext) -> Value:
    """The tensor repeated along each axis."""
    b, x, repeats = ctx.b, ctx.input(0), ctx.dims_or_none(1)
    rank = x.type.rank
    at_run_time = repeats is None
    if repeats is None:
        ctx.require(
            static_rank(ctx, ctx.input(1)) == rank, f"{ctx.input(1).type} does not repeat each axis of {x.type}"
        )
        repeats = tuple(b.fresh_dim() for _ in range(rank))
    ctx.require(len(repeats) == rank, f"{len(repeats)} repeats for {x.type}")
    ctx.require(all(not isinstance(r, int) or r >= 0 for r in repeats), f"a repeat in {list(repeats)} is negative")
    spread = c.unsqueeze(b, x, range(0, 2 * rank, 2))
    wanted = [d for pair in zip(repeats, x.type.shape, strict=True) for d in pair]
    if at_run_time:
        columns = [c.cast(b, ctx.input(1), DType.I64), b.dims(x.type.shape)]
        pairs = c.concat(b, [c.unsqueeze(b, column, (1,)) for column in columns], 1)
        repeated = b.emit(DynamicBroadcast(tuple(wanted)), spread, c.reshape(b, pairs, (2 * rank,)))
    else:
        repeated = c.expand(b, spread, wanted)
    return c.reshape(b, repeated, [r * d for r, d in zip(repeats, x.type.shape, strict=True)])


def _blocks(ctx: NodeContext) -> tuple[Value, int]:
    x, block = ctx.input(0), ctx.int("blocksize")
    ctx.require(x.type.rank == 4, f"{ctx.node.op_type} of {x.type}, which does not have rank 4")
    ctx.require(block > 0, f"the block size {block}")
    return x, block


@onnx_op("DepthToSpace", 1)
def depth_to_space_dcr(ctx: NodeContext) -> Value:
    return _depth_to_space(ctx, "DCR")


@onnx_op("DepthToSpace", 11, 13, 28)
def depth_to_space(ctx: NodeContext) -> Value:
    return _depth_to_space(ctx, ctx.string("mode", "DCR"))


def _depth_to_space(ctx: NodeContext, mode: str) -> Value:
    """DCR: channels are (block row, block column, depth); CRD: (depth, block row, block column)."""
    x, k = _blocks(ctx)
    n, channels, height, width = x.type.shape
    depth = channels // (k * k)
    if depth * (k * k) != channels:
        ctx.require(not isinstance(channels, int), f"{channels} channels in blocks of {k} x {k}")
        raise Refused(f"{channels} channels in blocks of {k} x {k}")
    ctx.require(mode in ("DCR", "CRD"), f"no mode {mode!r}")
    split: tuple[Dim, ...]
    if mode == "DCR":
        split, perm = (n, k, k, depth, height, width), (0, 3, 4, 1, 5, 2)
    else:
        split, perm = (n, depth, k, k, height, width), (0, 1, 4, 2, 5, 3)
    moved = c.transpose(ctx.b, c.reshape(ctx.b, x, split), perm)
    return c.reshape(ctx.b, moved, (n, depth, height * k, width * k))


@onnx_op("SpaceToDepth", 1, 13)
def space_to_depth_dcr(ctx: NodeContext) -> Value:
    return _space_to_depth(ctx, "DCR")


@onnx_op("SpaceToDepth", 28)
def space_to_depth(ctx: NodeContext) -> Value:
    return _space_to_depth(ctx, ctx.string("mode", "DCR"))


def _space_to_depth(ctx: NodeContext, mode: str) -> Value:
    x, k = _blocks(ctx)
    n, depth, height, width = x.type.shape
    ctx.require(mode in ("DCR", "CRD"), f"no mode {mode!r}")
    split = to_shape(ctx.b, x, (n, depth, height // k, k, width // k, k))
    moved = c.transpose(ctx.b, split, (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return c.reshape(ctx.b, moved, (n, depth * (k * k), height // k, width // k))
