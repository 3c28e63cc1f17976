"""Operations that move, repeat and select elements, with static sizes and with sizes that arrive as tensors."""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.importers.stablehlo.context import OpContext
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Complex, Operand
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, ceildiv, dim_max, is_nonnegative
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import BroadcastTo, Concat, DynamicBroadcast, DynamicSlice, Iota, Pad, Slice
from fornaxc.ir.types import DType


@stablehlo_op("stablehlo.reshape", "stablehlo.dynamic_reshape")
def reshape(ctx: OpContext) -> Operand:
    declared = ctx.result_info().shape
    if ctx.name == "stablehlo.reshape":
        x_type = _first(ctx).type
        shape = _static_or_solved(declared, x_type.shape)
    else:
        shape = ctx.dims(ctx.value(1), "the shape of a reshape")
        shape = tuple(s if d is None else d for s, d in zip(shape, declared, strict=True))
    return ctx.part_wise(lambda x: c.reshape(ctx.b, x, shape), ctx.operands[0])


def _static_or_solved(declared: Sequence[int | None], have: Sequence[Dim]) -> tuple[Dim, ...]:
    """The declared shape, its one dynamic size (there is none by the specification, but exporters write it) from the element count."""
    known: Dim = 1
    total: Dim = 1
    for size in declared:
        known = known * (1 if size is None else size)
    for dim in have:
        total = total * dim
    return tuple(total // known if size is None else size for size in declared)


@stablehlo_op("stablehlo.transpose")
def transpose(ctx: OpContext) -> Operand:
    return ctx.part_wise(lambda x: c.transpose(ctx.b, x, ctx.ints("permutation")), ctx.operands[0])


@stablehlo_op("stablehlo.broadcast_in_dim", elementwise=True)
def broadcast_in_dim(ctx: OpContext) -> Operand:
    shape = ctx.result_info().shape
    if ctx.lifted:
        ctx.refuse_unless(not shape, "a broadcast in the body of a reduction, a scatter or a sort")
        return ctx.operands[0]
    axes = ctx.ints("broadcast_dimensions")
    sizes: list[Dim] = [0 if size is None else size for size in shape]
    for axis, target in enumerate(axes):
        if shape[target] is None:
            sizes[target] = _first(ctx).type.shape[axis]
    return ctx.part_wise(lambda x: broadcast(ctx.b, x, sizes, axes), ctx.operands[0])


@stablehlo_op("stablehlo.dynamic_broadcast_in_dim")
def dynamic_broadcast_in_dim(ctx: OpContext) -> Operand:
    shape = ctx.dims(ctx.value(1), "the shape of a broadcast")
    declared = ctx.result_info().shape
    sizes = tuple(s if d is None else d for s, d in zip(shape, declared, strict=True))
    axes = ctx.ints("broadcast_dimensions")
    expanding = ctx.attribute("known_expanding_dimensions")
    known = set(ctx.ints("known_expanding_dimensions")) if expanding is not None else set()
    return ctx.part_wise(lambda x: broadcast(ctx.b, x, sizes, axes, known), ctx.operands[0])


def broadcast(
    b: GraphBuilder, x: Value, sizes: Sequence[Dim], axes: Sequence[int], expanding: set[int] | None = None
) -> Value:
    """`x` with its axis i at axis `axes[i]` of a result of these sizes, repeated along the others and along axes of size 1.

    An axis of unknown size is taken to be full, as jax writes it; one that is in `expanding` may be 1.
    """
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    x = c.transpose(b, x, order)
    placed = sorted(axes)
    x = c.reshape(b, x, [x.type.shape[placed.index(i)] if i in placed else 1 for i in range(len(sizes))])
    wanted = [have if have == 1 else want for have, want in zip(x.type.shape, sizes, strict=True)]
    uncertain = [
        axis
        for axis, (have, want) in enumerate(zip(x.type.shape, sizes, strict=True))
        if have not in (1, want) and not isinstance(have, int) and order and axis in {axes[i] for i in expanding or ()}
    ]
    if uncertain:
        return b.emit(DynamicBroadcast(tuple(sizes)), x, b.dims(sizes))
    x = c.rebind(b, x, wanted)
    return x if x.type.shape == tuple(sizes) else b.emit(BroadcastTo(tuple(sizes)), x)


def _first(ctx: OpContext) -> Value:
    operand = ctx.operands[0]
    return operand.re if isinstance(operand, Complex) else ctx.value(0)


@stablehlo_op("stablehlo.slice")
def slice_(ctx: OpContext) -> Operand:
    starts, limits, steps = ctx.ints("start_indices"), ctx.ints("limit_indices"), ctx.ints("strides")
    return ctx.part_wise(lambda x: _slice(ctx.b, x, starts, limits, steps), ctx.operands[0])


def _slice(b: GraphBuilder, x: Value, starts: Sequence[Dim], limits: Sequence[Dim], steps: Sequence[int]) -> Value:
    for n, limit in zip(x.type.shape, limits, strict=True):
        if not isinstance(n, int) and not is_nonnegative(n - limit):
            b.require(n, ">=", limit, "a slice takes no more elements than there are")
    sizes = tuple(_length(start, limit, step) for start, limit, step in zip(starts, limits, steps, strict=True))
    return b.emit(Slice(tuple(starts), sizes, tuple(steps)), x)


def _length(start: Dim, limit: Dim, step: int) -> Dim:
    span = limit - start
    length = ceildiv(span, step)
    return length if is_nonnegative(span) else dim_max(length, 0)


@stablehlo_op("stablehlo.real_dynamic_slice")
def real_dynamic_slice(ctx: OpContext) -> Operand:
    starts = ctx.dims(ctx.value(1), "the start of a slice")
    limits = ctx.dims(ctx.value(2), "the limit of a slice")
    steps = ctx.dims(ctx.value(3), "the stride of a slice")
    ctx.refuse_unless(all(isinstance(s, int) for s in steps), "the stride of a slice depends on sizes")
    fixed = [int(str(s)) for s in steps]
    return ctx.part_wise(lambda x: _slice(ctx.b, x, starts, limits, fixed), ctx.operands[0])


@stablehlo_op("stablehlo.dynamic_slice")
def dynamic_slice(ctx: OpContext) -> Operand:
    sizes = ctx.ints("slice_sizes")
    starts = start_vector(
        ctx, ctx.values[1:] if not ctx.has_complex else [ctx.value(i) for i in range(1, len(ctx.operands))]
    )
    return ctx.part_wise(lambda x: _dynamic_slice(ctx, x, starts, sizes), ctx.operands[0])


def _dynamic_slice(ctx: OpContext, x: Value, starts: Value, sizes: tuple[int, ...]) -> Value:
    if x.type.rank == 0 or x.type.shape == sizes:
        return x
    return ctx.b.emit(DynamicSlice(sizes), x, starts)


def start_vector(ctx: OpContext, scalars: Sequence[Value]) -> Value:
    """Scalar start indices as one i64 vector."""
    b = ctx.b
    if not scalars:
        return b.dims(())
    wide = [c.reshape(b, c.cast(b, s, DType.I64), (1,)) for s in scalars]
    return wide[0] if len(wide) == 1 else b.emit(Concat(0), *wide)


@stablehlo_op("stablehlo.concatenate")
def concatenate(ctx: OpContext) -> Operand:
    axis = ctx.int("dimension")
    return ctx.part_wise(lambda *xs: _concatenate(ctx, xs, axis), *ctx.operands)


def _concatenate(ctx: OpContext, xs: tuple[Value, ...], axis: int) -> Value:
    rank = xs[0].type.rank
    common: list[Dim] = []
    for i in range(rank):
        sizes = [x.type.shape[i] for x in xs]
        common.append(next((s for s in sizes if isinstance(s, int)), sizes[0]))
    aligned = [
        c.rebind(ctx.b, x, [have if i == axis else common[i] for i, have in enumerate(x.type.shape)]) for x in xs
    ]
    return c.concat(ctx.b, aligned, axis)


@stablehlo_op("stablehlo.reverse")
def reverse(ctx: OpContext) -> Operand:
    axes = ctx.ints("dimensions")
    return ctx.part_wise(lambda x: flip(ctx.b, x, axes), ctx.operands[0])


def flip(b: GraphBuilder, x: Value, axes: Sequence[int]) -> Value:
    """`x` with these axes in reverse order."""
    turned = [i for i in axes if x.type.shape[i] not in (0, 1)]
    if not turned or any(d == 0 for d in x.type.shape):
        return x
    starts = tuple(x.type.shape[i] - 1 if i in turned else 0 for i in range(x.type.rank))
    return b.emit(Slice(starts, x.type.shape, tuple(-1 if i in turned else 1 for i in range(x.type.rank))), x)


@stablehlo_op("stablehlo.iota")
def iota(ctx: OpContext) -> Operand:
    shape = ctx.result_info().shape
    ctx.refuse_unless(all(size is not None for size in shape), "an iota of dynamic size")
    return _iota(ctx, [0 if size is None else size for size in shape])


@stablehlo_op("stablehlo.dynamic_iota")
def dynamic_iota(ctx: OpContext) -> Operand:
    shape = ctx.dims(ctx.value(0), "the shape of an iota")
    return _iota(ctx, [s if d is None else d for s, d in zip(shape, ctx.result_info().shape, strict=True)])


def _iota(ctx: OpContext, shape: Sequence[Dim]) -> Operand:
    info = ctx.result_info()
    dtype = info.dtype
    counted = DType.I64 if dtype is DType.BOOL or dtype.bits < 8 or (dtype.bits == 8 and dtype.is_float) else dtype
    line = ctx.b.emit(Iota(tuple(shape), ctx.int("iota_dimension"), counted))
    from fornaxc.importers.stablehlo.ops.elementwise import convert_operand

    return convert_operand(ctx, line, info)


@stablehlo_op("stablehlo.pad")
def pad(ctx: OpContext) -> Operand:
    low, high = ctx.ints("edge_padding_low"), ctx.ints("edge_padding_high")
    interior = ctx.ints("interior_padding")
    return ctx.part_wise(lambda x, fill: pad_value(ctx.b, x, fill, low, high, interior), *ctx.operands)


@stablehlo_op("stablehlo.dynamic_pad")
def dynamic_pad(ctx: OpContext) -> Operand:
    low, high, interior = (
        ctx.dims(ctx.value(i), f"the {what} padding") for i, what in ((2, "low"), (3, "high"), (4, "interior"))
    )
    return ctx.part_wise(lambda x, fill: pad_value(ctx.b, x, fill, low, high, interior), *ctx.operands[:2])


def pad_value(
    b: GraphBuilder, x: Value, fill: Value, low: Sequence[Dim], high: Sequence[Dim], interior: Sequence[Dim]
) -> Value:
    """`x` with `fill` between its elements and around them; negative amounts cut off (after the interior is filled)."""
    if any(interior):
        x = _spread(b, x, fill, interior)
    before = tuple(_grown(p) for p in low)
    after = tuple(_grown(p) for p in high)
    if any(p != 0 for p in (*before, *after)):
        x = b.emit(Pad(before, after), x, fill)
    cut_low = [g - p for g, p in zip(before, low, strict=True)]
    cut_high = [g - p for g, p in zip(after, high, strict=True)]
    if any(p != 0 for p in (*cut_low, *cut_high)):
        sizes = tuple(d - first - last for d, first, last in zip(x.type.shape, cut_low, cut_high, strict=True))
        sizes = tuple(s if is_nonnegative(s) else dim_max(s, 0) for s in sizes)
        if any(s == 0 for s in sizes):
            cut_low = [0 if s == 0 else first for s, first in zip(sizes, cut_low, strict=True)]
        x = b.emit(Slice(tuple(cut_low), sizes, (1,) * x.type.rank), x)
    return x


def _grown(amount: Dim) -> Dim:
    return amount if is_nonnegative(amount) else dim_max(amount, 0)


def _spread(b: GraphBuilder, x: Value, fill: Value, interior: Sequence[Dim]) -> Value:
    """`fill` between the elements of each axis."""
    rank = x.type.rank
    if all(isinstance(p, int) for p in interior):
        amounts = tuple(int(str(p)) if x.type.shape[i] not in (0, 1) else 0 for i, p in enumerate(interior))
        zeros: tuple[Dim, ...] = (0,) * rank
        return b.emit(Pad(zeros, zeros, interior=amounts), x, fill) if any(amounts) else x
    for axis, amount in enumerate(interior):
        if amount == 0:
            continue
        # after each element `amount` more; the last ones are cut off again
        size = x.type.shape[axis]
        column = c.reshape(b, x, (*x.type.shape[: axis + 1], 1, *x.type.shape[axis + 1 :]))
        zeros = (0,) * (rank + 1)
        after = tuple(amount if i == axis + 1 else 0 for i in range(rank + 1))
        padded = b.emit(Pad(zeros, after), column, fill)
        flat = c.reshape(b, padded, (*x.type.shape[:axis], size * (amount + 1), *x.type.shape[axis + 1 :]))
        x = c.slice_axis(b, flat, axis, 0, dim_max(size * (amount + 1) - amount, 0))
    return x


@stablehlo_op("stablehlo.get_dimension_size")
def get_dimension_size(ctx: OpContext) -> Value:
    size = _first(ctx).type.shape[ctx.int("dimension")]
    vector = ctx.b.dims((size,))
    return c.cast(ctx.b, c.reshape(ctx.b, vector, ()), ctx.result_info().dtype)


@stablehlo_op("stablehlo.optimization_barrier", elementwise=True)
def optimization_barrier(ctx: OpContext) -> list[Operand]:
    return list(ctx.operands)


@stablehlo_op("stablehlo.tuple")
def make_tuple(ctx: OpContext) -> Operand:
    return tuple(ctx.operands)


@stablehlo_op("stablehlo.get_tuple_element")
def get_tuple_element(ctx: OpContext) -> Operand:
    operand = ctx.operands[0]
    ctx.refuse_unless(isinstance(operand, tuple), "an element of what is not a tuple")
    return operand[ctx.int("index")] if isinstance(operand, tuple) else operand
