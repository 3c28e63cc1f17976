"""gather, dynamic_gather, scatter and dynamic_update_slice, on rows of the operand.

The axes that indices or partial windows reach are moved to the front and flattened; the others stay whole. Positions on the flattened
axis are computed with integer arithmetic, so one Gather or ScatterNd does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from fornaxc.importers.stablehlo.context import OpContext, Refused
from fornaxc.importers.stablehlo.ops.shape import start_vector
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Complex, Operand, parts, rebuild
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, product
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, Gather, Iota, ScatterNd, While
from fornaxc.ir.types import DType, TensorType

Write = Callable[[Value, Value], Value]
Update = Callable[[GraphBuilder, list[Value], list[Value]], list[Value]]
_REDUCTIONS = {"add": "add", "mul": "mul", "max": "max", "min": "min", "second": "none"}


@dataclass(frozen=True, slots=True)
class _Positions:
    """Where windows lie in the operand.

    `reached` are the operand's axes on the flattened front, `whole` the others. `index` is i64 [batch..., window sizes of `reached`...];
    `inside` (bool, like `index`) tells which positions exist, None where all do.
    """

    reached: tuple[int, ...]
    whole: tuple[int, ...]
    index: Value
    inside: Value | None
    batch: tuple[Dim, ...]


def _scalar_dim(b: GraphBuilder, dim: Dim) -> Value:
    return c.reshape(b, b.dims((dim,)), ())


def _positions(
    ctx: OpContext,
    shape: Sequence[Dim],
    indices: Value,
    vector_axis: int,
    index_map: Sequence[int],
    batching: Sequence[tuple[int, int]],
    window: Sequence[Dim],
    *,
    clamp: bool,
    dropped: Collection[int] = (),
) -> _Positions:
    """`window[i]` is the size of the window on operand axis i; `batching` pairs operand axes with axes of the indices.

    `dropped` axes, which the updates do not have, are among the reached ones.
    """
    b = ctx.b
    indices = c.cast(b, indices, DType.I64)
    if vector_axis == indices.type.rank:
        indices = c.unsqueeze(b, indices, [vector_axis])
    indices = c.move_axis(b, indices, vector_axis, indices.type.rank - 1)
    batch = indices.type.shape[:-1]
    reached = tuple(
        i
        for i in range(len(shape))
        if i in index_map or i in dropped or any(i == p for p, _ in batching) or window[i] != shape[i]
    )
    whole = tuple(i for i in range(len(shape)) if i not in reached)
    grid = (*batch, *(window[i] for i in reached))
    index: Value | None = None
    inside: Value | None = None
    for place, axis in enumerate(reached):
        start = _starts(b, indices, batch, index_map, batching, axis, vector_axis)
        if start is not None and clamp and axis in index_map:
            last = c.binary(b, "sub", _scalar_dim(b, shape[axis]), _scalar_dim(b, window[axis]))
            start = c.binary(b, "min", c.with_scalar(b, "max", start, 0), last)
        position = _position(b, start, window[axis], batch, place, grid)
        if not clamp and axis in index_map:
            fits = b.emit(
                Binary("and"),
                c.compare(b, "ge", position, c.scalar(b, 0, DType.I64)),
                c.compare(b, "lt", position, _scalar_dim(b, shape[axis])),
            )
            inside = fits if inside is None else b.emit(Binary("and"), *c.broadcast(b, inside, fits))
        index = (
            position
            if index is None
            else c.binary(b, "add", c.binary(b, "mul", index, _scalar_dim(b, shape[axis])), position)
        )
    if index is None:
        index = c.full(b, 0, TensorType(DType.I64, grid))
    index = c.expand(b, index, grid)
    return _Positions(reached, whole, index, None if inside is None else c.expand(b, inside, grid), batch)


def _starts(
    b: GraphBuilder,
    indices: Value,
    batch: tuple[Dim, ...],
    index_map: Sequence[int],
    batching: Sequence[tuple[int, int]],
    axis: int,
    vector_axis: int,
) -> Value | None:
    """The start of each window on an operand axis, [batch...]; None where it is 0."""
    for operand_axis, index_axis in batching:
        if operand_axis == axis:
            place = index_axis if index_axis < vector_axis else index_axis - 1
            return b.emit(Iota(batch, place, DType.I64))
    if axis not in index_map:
        return None
    column = list(index_map).index(axis)
    return c.reshape(b, c.slice_axis(b, indices, len(batch), column, 1), batch)


def _position(
    b: GraphBuilder, start: Value | None, size: Dim, batch: tuple[Dim, ...], place: int, grid: tuple[Dim, ...]
) -> Value:
    """start + 0, 1, ..., size - 1 on the axis `place` of the window."""
    rank = len(grid)
    axis = len(batch) + place
    offsets: Value | None = None
    if size != 1:
        line = b.emit(Iota((size,), 0, DType.I64))
        offsets = c.reshape(b, line, [size if i == axis else 1 for i in range(rank)])
    if start is None:
        return offsets if offsets is not None else c.full(b, 0, TensorType(DType.I64, (1,) * rank))
    spread = c.reshape(b, start, (*batch, *(1,) * (rank - len(batch))))
    return spread if offsets is None else c.binary(b, "add", spread, offsets)


def _flatten(b: GraphBuilder, x: Value, where: _Positions) -> Value:
    """`x` as [product of the reached axes, whole axes...]."""
    moved = c.transpose(b, x, (*where.reached, *where.whole))
    count = len(where.reached)
    return c.reshape(b, moved, (product(moved.type.shape[:count]), *moved.type.shape[count:]))


def _unflatten(b: GraphBuilder, flat: Value, like: TensorType, where: _Positions) -> Value:
    order = (*where.reached, *where.whole)
    moved = c.reshape(b, flat, [like.shape[i] for i in order])
    return c.transpose(b, moved, [order.index(i) for i in range(like.rank)])


@stablehlo_op("stablehlo.gather", "stablehlo.dynamic_gather")
def gather(ctx: OpContext) -> Operand:
    """Start indices clamp so that the window fits."""
    from jaxlib.mlir.dialects import stablehlo

    numbers = stablehlo.GatherDimensionNumbers(ctx.attribute("dimension_numbers"))
    operand = ctx.operands[0]
    x = operand.re if isinstance(operand, Complex) else ctx.value(0)
    if ctx.name == "stablehlo.gather":
        window: tuple[Dim, ...] = ctx.ints("slice_sizes")
    else:
        window = ctx.dims(ctx.value(2), "the window of a gather")
    batching = list(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    where = _positions(
        ctx, x.type.shape, ctx.value(1), numbers.index_vector_dim, numbers.start_index_map, batching, window, clamp=True
    )
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    return ctx.part_wise(lambda v: _gather(ctx, v, where, dropped, numbers.offset_dims), operand)


def _gather(ctx: OpContext, x: Value, where: _Positions, dropped: set[int], offset_dims: Sequence[int]) -> Value:
    b = ctx.b
    if any(d == 0 for d in x.type.shape) and not any(d == 0 for d in where.index.type.shape):
        raise Refused("a gather from a tensor without elements")
    found = b.emit(Gather(0), _flatten(b, x, where), where.index)
    # axes: batch, window of the reached axes, whole axes; to batch, window in the operand's order
    rank = len(where.batch)
    axis_of = {axis: rank + i for i, axis in enumerate((*where.reached, *where.whole))}
    kept = [axis for axis in range(x.type.rank) if axis not in dropped]
    found = c.transpose(b, found, [*range(rank), *(axis_of[a] for a in kept), *(axis_of[a] for a in sorted(dropped))])
    found = c.reshape(b, found, found.type.shape[: rank + len(kept)])
    batch_axes = iter(range(rank))
    window_axes = iter(range(rank, rank + len(kept)))
    return c.transpose(
        b, found, [next(window_axes) if i in offset_dims else next(batch_axes) for i in range(rank + len(kept))]
    )


@stablehlo_op("stablehlo.dynamic_update_slice")
def dynamic_update_slice(ctx: OpContext) -> Operand:
    """Start indices clamp so that the update fits."""
    scalars = [ctx.value(i) for i in range(2, len(ctx.operands))]
    first = ctx.operands[0]
    x = first.re if isinstance(first, Complex) else ctx.value(0)
    update = ctx.operands[1]
    size = (update.re if isinstance(update, Complex) else ctx.value(1)).type.shape
    if size == x.type.shape:
        return update
    if any(d == 0 for d in size):
        return first
    starts = start_vector(ctx, scalars)
    index_map = [i for i in range(len(size)) if size[i] != x.type.shape[i]]
    chosen = c.concat(ctx.b, [c.slice_axis(ctx.b, starts, 0, i, 1) for i in index_map], 0)
    where = _positions(ctx, x.type.shape, chosen, 0, index_map, [], size, clamp=True)
    return ctx.part_wise(lambda v, u: _replace(ctx.b, v, u, where), first, update)


def _replace(b: GraphBuilder, x: Value, update: Value, where: _Positions) -> Value:
    rows = c.reshape(b, where.index, (where.index.type.elements, 1))
    moved = _flatten(b, update, where)
    return _unflatten(b, b.emit(ScatterNd(), _flatten(b, x, where), rows, moved), x.type, where)


@stablehlo_op("stablehlo.scatter")
def scatter(ctx: OpContext) -> list[Operand]:
    """Updates outside the operand are dropped, element by element."""
    from jaxlib.mlir.dialects import stablehlo

    numbers = stablehlo.ScatterDimensionNumbers(ctx.attribute("scatter_dimension_numbers"))
    count = (len(ctx.operands) - 1) // 2
    region = ctx.region(0)
    inputs, updates = region.promoted(ctx.operands[:count]), region.promoted(ctx.operands[count + 1 :], count)
    x = parts(inputs[0])[0]
    u = parts(updates[0])[0]
    dropped = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    window_axes = list(numbers.update_window_dims)
    sizes = iter(u.type.shape[i] for i in window_axes)
    window = [1 if i in dropped else next(sizes) for i in range(x.type.rank)]
    batching = list(zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
    where = _positions(
        ctx,
        x.type.shape,
        ctx.value(count),
        numbers.index_vector_dim,
        numbers.scattered_dims_to_operand_dims,
        batching,
        window,
        clamp=False,
        dropped=dropped,
    )
    rows = [_update_rows(ctx.b, v, where, window_axes, dropped, x.type.rank) for o in updates for v in parts(o)]
    flats = [_flatten(ctx.b, v, where) for o in inputs for v in parts(o)]
    index = c.reshape(ctx.b, where.index, (where.index.type.elements,))
    inside = None if where.inside is None else c.reshape(ctx.b, where.inside, index.type.shape)
    function = region.function if count == 1 else None
    if any(isinstance(o, Complex) for o in inputs) and function not in ("add", "second"):
        function = None
    if function == "first":
        return list(inputs)
    per_window = product([window[i] for i in where.reached])
    if function is not None:
        results = [
            _scatter_known(ctx.b, function, f, index, inside, r, per_window) for f, r in zip(flats, rows, strict=True)
        ]
    else:
        results = _scatter_region(ctx, flats, index, inside, rows, inputs, per_window)
    done = iter(_unflatten(ctx.b, r, x.type.with_dtype(r.type.dtype), where) for r in results)
    return [rebuild(o, [next(done) for _ in parts(o)]) for o in inputs]


def _update_rows(
    b: GraphBuilder, u: Value, where: _Positions, window_axes: Sequence[int], dropped: set[int], rank: int
) -> Value:
    """Updates as [batch and reached window flat, whole axes...]."""
    batch_axes = [i for i in range(u.type.rank) if i not in window_axes]
    place = dict(zip([a for a in range(rank) if a not in dropped], window_axes, strict=True))
    order = [
        *batch_axes,
        *(place[a] for a in where.reached if a in place),
        *(place[a] for a in where.whole if a in place),
    ]
    moved = c.transpose(b, u, order)
    count = len(batch_axes) + sum(1 for a in where.reached if a in place)
    return c.reshape(b, moved, (where.index.type.elements, *moved.type.shape[count:]))


def _scatter_known(
    b: GraphBuilder, function: str, x: Value, index: Value, inside: Value | None, updates: Value, per_window: Dim
) -> Value:
    dtype = x.type.dtype
    reduction = _REDUCTIONS.get(function)
    if dtype is DType.BOOL and function != "second":
        # on bools add and max are or, mul and min are and
        reduction = {"add": "max", "or": "max", "max": "max", "mul": "min", "and": "min", "min": "min"}.get(function)
        if reduction is not None:
            wide = _scatter_known(
                b, reduction, c.cast(b, x, DType.I32), index, inside, c.cast(b, updates, DType.I32), per_window
            )
            return c.cast(b, wide, DType.BOOL)
    if reduction is None:
        return _scatter_loop(
            b,
            [x],
            index,
            inside,
            [updates],
            lambda body, old, new: [body.emit(Binary(function), old[0], new[0])],
            per_window,
        )[0]
    if reduction != "none" and ((dtype.is_float and dtype.bits <= 8) or (dtype.is_integer and dtype.bits < 8)):
        from fornaxc.importers.stablehlo.ops.arithmetic import narrow, wide_type

        wide_dtype = wide_type(dtype)
        result = _scatter_known(
            b, function, c.cast(b, x, wide_dtype), index, inside, c.cast(b, updates, wide_dtype), per_window
        )
        return narrow(b, result, dtype)
    return _with_spare_row(
        b, x, index, inside, lambda padded, rows: b.emit(ScatterNd(reduction), padded, rows, updates)
    )


def _with_spare_row(b: GraphBuilder, x: Value, index: Value, inside: Value | None, write: Write) -> Value:
    """`write` into `x` with one more row, which takes what falls outside."""
    rows = x.type.shape[0]
    if inside is None:
        return write(x, c.unsqueeze(b, index, [1]))
    spare = c.full(b, 0, x.type.with_shape((1, *x.type.shape[1:])))
    padded = c.concat(b, [x, spare], 0)
    index = c.select(b, inside, index, c.reshape(b, b.dims((rows,)), ()))
    written = write(padded, c.unsqueeze(b, index, [1]))
    return c.slice_axis(b, written, 0, 0, rows)


def _scatter_region(
    ctx: OpContext,
    flats: list[Value],
    index: Value,
    inside: Value | None,
    rows: list[Value],
    inputs: Sequence[Operand],
    per_window: Dim,
) -> list[Value]:
    """An arbitrary update function, one window after the other."""
    region = ctx.region(0)

    def update(body: GraphBuilder, old: list[Value], new: list[Value]) -> list[Value]:
        before, after = iter(old), iter(new)
        arguments = [rebuild(o, [next(before) for _ in parts(o)]) for o in inputs]
        arguments += [rebuild(o, [next(after) for _ in parts(o)]) for o in inputs]
        results = region.lifted_within(body, arguments)
        return [c.expand(body, v, old[i].type.shape) for i, v in enumerate(v for o in results for v in parts(o))]

    return _scatter_loop(ctx.b, flats, index, inside, rows, update, per_window)


def _scatter_loop(
    b: GraphBuilder,
    flats: list[Value],
    index: Value,
    inside: Value | None,
    rows: list[Value],
    update: Update,
    per_window: Dim,
) -> list[Value]:
    """For each window in turn: read the rows at its positions, update them, write them back. Positions of one window differ."""
    total = index.type.shape[0]
    if total == 0:
        return flats
    windows = total // per_window
    table = c.reshape(b, index, (windows, per_window))
    mask = None if inside is None else c.reshape(b, inside, (windows, per_window))
    news = [c.reshape(b, r, (windows, per_window, *r.type.shape[1:])) for r in rows]
    padded = [c.concat(b, [f, c.full(b, 0, f.type.with_shape((1, *f.type.shape[1:])))], 0) for f in flats]
    start = c.scalar(b, 0, DType.I64)
    condition, body = GraphBuilder(b), GraphBuilder(b)
    counter = condition.input(start.type)
    for p in padded:
        condition.input(p.type)
    go_on = c.compare(condition, "lt", counter, _scalar_dim(condition, windows))
    step = body.input(start.type)
    carried = [body.input(p.type) for p in padded]

    def row(x: Value) -> Value:
        return body.emit(Gather(0), x, step)

    place = row(table)
    if mask is not None:
        place = c.select(body, row(mask), place, _scalar_dim(body, flats[0].type.shape[0]))
    old = [body.emit(Gather(0), v, place) for v in carried]
    new = update(body, old, [row(n) for n in news])
    written = [body.emit(ScatterNd(), v, c.unsqueeze(body, place, [1]), n) for v, n in zip(carried, new, strict=True)]
    after = c.with_scalar(body, "add", step, 1)
    regions = (condition.finish([go_on]), body.finish([after, *written]))
    results = b.emit_all(While(), start, *padded, regions=regions)
    return [c.slice_axis(b, r, 0, 0, f.type.shape[0]) for r, f in zip(results[1:], flats, strict=True)]
