"""GridSample, AffineGrid, RoiAlign and DeformConv."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.ops.conv import add_bias, filter_sizes
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.sampling import (
    Bound,
    Tap,
    clamp,
    corners,
    cubic_taps,
    linear_taps,
    rows_last,
    size_as,
    weighted_sum,
)
from fornaxc.importers.onnx.steering import bind_sizes, entries, require_at_run_time, vector
from fornaxc.importers.onnx.windows import read_windows, split_dim
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, product
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Gather, Iota, MatMul
from fornaxc.ir.types import DType

KEYS_A = -0.75  # the cubic coefficient of GridSample


def _grid_sample(modes: tuple[str, str, str]) -> Callable[[NodeContext], Value]:
    """`modes`: the names of nearest, linear and cubic."""
    nearest, linear, cubic = modes

    def handler(ctx: NodeContext) -> Value:
        b, x, grid = ctx.b, ctx.input(0), ctx.input(1)
        mode, padding = ctx.string("mode", linear), ctx.string("padding_mode", "zeros")
        corners_align = bool(ctx.int("align_corners", 0))
        ctx.require(mode in modes, f"no mode {mode!r}")
        ctx.require(padding in ("zeros", "border", "reflection"), f"no padding_mode {padding!r}")
        rank = x.type.rank - 2
        ctx.require(rank >= 1 and grid.type.rank == x.type.rank, f"GridSample cannot take {x.type} and {grid.type}")
        ctx.refuse_unless(x.type.dtype.is_float, f"GridSample of {x.type.dtype}")
        ctx.refuse_unless(mode != cubic or rank == 2, "cubic GridSample of other than images")
        ctx.refuse_unless(mode != cubic or padding == "zeros", f"cubic GridSample with padding_mode {padding}")
        sizes, shape = x.type.shape[2:], grid.type.shape[1:-1]
        grid = c.rebind(b, grid, (x.type.shape[0], *shape, rank))
        reach = _Reach(ctx, sizes, corners_align, padding)
        taps: list[list[Tap]] = []
        for axis in range(rank):
            part = c.slice_axis(b, grid, grid.type.rank - 1, rank - 1 - axis, 1)
            at = reach.position(axis, c.reshape(b, part, (x.type.shape[0], product(shape))))
            if mode == nearest:
                at = reach.inside(axis, c.unary(b, "round", at))
                taps.append([(at, None)])
            elif mode == linear:
                taps.append(linear_taps(b, reach.inside(axis, at)))
            else:
                taps.append(cubic_taps(b, at, KEYS_A))
        y = weighted_sum(b, rows_last(b, x), sizes, taps, reach.bound)
        return c.reshape(b, c.transpose(b, y, (0, 2, 1)), (*x.type.shape[:2], *shape))

    return handler


onnx_op("GridSample", 16)(_grid_sample(("nearest", "bilinear", "bicubic")))
onnx_op("GridSample", 20, 22)(_grid_sample(("nearest", "linear", "cubic")))


class _Reach:
    """Positions on the axes of an image, and what becomes of those outside."""

    def __init__(self, ctx: NodeContext, sizes: tuple[Dim, ...], corners_align: bool, padding: str) -> None:
        self.b = ctx.b
        self.sizes = sizes
        self.corners_align = corners_align
        self.padding = padding
        flat = any(size in (0, 1) for size in sizes)
        ctx.refuse_unless(not (flat and corners_align and padding == "reflection"), "reflection in one element")

    def position(self, axis: int, normalized: Value) -> Value:
        """-1 to 1 as an index: between the centres of the outermost elements, or between their outer edges."""
        b, one = self.b, c.with_scalar(self.b, "add", normalized, 1)
        size = size_as(b, self.sizes[axis], normalized.type.dtype)
        if self.corners_align:
            at = c.with_scalar(b, "mul", c.binary(b, "mul", one, c.with_scalar(b, "sub", size, 1)), 0.5)
        else:
            at = c.with_scalar(b, "mul", c.with_scalar(b, "sub", c.binary(b, "mul", one, size), 1), 0.5)
        if self.padding == "reflection":
            return at
        return clamp(
            b, at, -4, c.with_scalar(b, "add", size, 3)
        )  # further out is the same, and an index must not overflow

    def inside(self, axis: int, at: Value) -> Value:
        """A position clamped or reflected as the padding mode wants."""
        b = self.b
        if self.padding == "zeros":
            return at
        size = size_as(b, self.sizes[axis], at.type.dtype)
        if self.padding == "border":
            return clamp(b, at, 0, c.with_scalar(b, "sub", size, 1))
        edge = 0.0 if self.corners_align else -0.5
        span = c.with_scalar(b, "sub", size, 1) if self.corners_align else size
        twice = c.with_scalar(b, "mul", span, 2)
        turn = c.binary(b, "mod", c.with_scalar(b, "sub", at, edge), twice)
        folded = c.binary(b, "min", turn, c.binary(b, "sub", twice, turn))
        return c.with_scalar(b, "add", folded, edge)

    def bound(self, axis: int, place: Value) -> tuple[Value, Value | None]:
        """`Bound` of one neighbour."""
        if self.padding != "zeros":
            return self.inside(axis, place), None
        size = size_as(self.b, self.sizes[axis], place.type.dtype)
        return place, _within(self.b, place, size)


def _within(b: GraphBuilder, place: Value, size: Value) -> Value:
    low = c.compare(b, "ge", place, c.scalar(b, 0, place.type.dtype))
    return c.binary(b, "and", low, c.compare(b, "lt", place, size))


@onnx_op("AffineGrid", 20)
def affine_grid(ctx: NodeContext) -> Value:
    """theta [N, D, D + 1] applied to the normalised position of every element of a [N, C, ...] tensor, x first."""
    b, theta = ctx.b, ctx.input(0)
    corners_align = bool(ctx.int("align_corners", 0))
    known = ctx.content(ctx.input(1))
    if known is None or known.dtype == object:
        return _affine_grid_at_run_time(ctx, corners_align)
    sizes = [int(v) for v in known][2:]
    ctx.refuse_unless(not corners_align or min(sizes) > 1, "align_corners on an axis of one element")
    lines = [np.linspace(-1, 1, n) if corners_align else (2 * np.arange(n) + 1) / n - 1 for n in sizes]
    grids = np.meshgrid(*lines, indexing="ij")
    points = np.stack([g.reshape(-1) for g in (*reversed(grids), np.ones_like(grids[0]))])
    dtype = theta.type.dtype
    theta = c.rebind(b, theta, (theta.type.shape[0], len(sizes), len(sizes) + 1))
    moved = b.emit(MatMul(), theta, b.literal(points.astype(dtype.numpy)))
    return c.reshape(b, c.transpose(b, moved, (0, 2, 1)), (theta.type.shape[0], *sizes, len(sizes)))


def _affine_grid_at_run_time(ctx: NodeContext, corners_align: bool) -> Value:
    b, theta = ctx.b, ctx.input(0)
    given = vector(b, ctx.input(1))
    rank = entries(ctx, given, "the size") - 2
    given = c.slice_axis(b, given, 0, 2, rank)
    least = c.compare(b, "gt", given, c.scalar(b, 1 if corners_align else 0, DType.I64))
    sizes = bind_sizes(b, require_at_run_time(b, given, c.reduce(b, "min", least, (0,))))
    points = []
    for axis, n in reversed(list(enumerate(sizes))):
        i = c.with_scalar(b, "mul", c.cast(b, b.emit(Iota(sizes, axis, DType.I64)), DType.F64), 2)
        i = i if corners_align else c.with_scalar(b, "add", i, 1)
        line = c.with_scalar(b, "sub", c.binary(b, "div", i, size_as(b, n - 1 if corners_align else n, DType.F64)), 1)
        points.append(c.cast(b, c.reshape(b, line, (1, product(sizes))), theta.type.dtype))
    points.append(c.full_like(b, 1, points[0]))
    theta = c.rebind(b, theta, (theta.type.shape[0], rank, rank + 1))
    moved = b.emit(MatMul(), theta, c.concat(b, points, 0))
    return c.reshape(b, c.transpose(b, moved, (0, 2, 1)), (theta.type.shape[0], *sizes, rank))


def _roi_align(*, shifts: bool) -> Callable[[NodeContext], Value]:
    """`shifts`: with coordinate_transformation_mode (version 16), half_pixel by default."""

    def handler(ctx: NodeContext) -> Value:
        b, x, rois = ctx.b, ctx.input(0), ctx.input(1)
        height, width = ctx.int("output_height", 1), ctx.int("output_width", 1)
        ratio, scale, mode = ctx.int("sampling_ratio", 0), ctx.float("spatial_scale", 1.0), ctx.string("mode", "avg")
        kind = ctx.string("coordinate_transformation_mode", "half_pixel") if shifts else "output_half_pixel"
        ctx.require(kind in ("half_pixel", "output_half_pixel"), f"no coordinate_transformation_mode {kind!r}")
        ctx.require(mode in ("avg", "max"), f"no mode {mode!r}")
        ctx.refuse_unless(ratio > 0, "a sampling grid that depends on the regions (sampling_ratio 0)")
        ctx.require(x.type.rank == 4, f"RoiAlign takes images, not {x.type}")
        count = rois.type.shape[0]
        rois = c.with_scalar(b, "mul", c.rebind(b, rois, (count, 4)), scale)
        half = kind == "half_pixel"
        rois = c.with_scalar(b, "sub", rois, 0.5) if half else rois
        grids = [_roi_points(b, rois, axis, bins, ratio, half) for axis, bins in ((1, height), (0, width))]
        rows, columns = height * ratio, width * ratio
        places = [
            c.reshape(b, c.expand(b, c.unsqueeze(b, g, (keep,)), (count, rows, columns)), (count, rows * columns))
            for g, keep in zip(grids, (2, 1), strict=True)
        ]
        batch = c.cast(b, c.rebind(b, ctx.input(2), (count,)), DType.I64)
        pixels = b.emit(Gather(0), rows_last(b, x), batch)
        sizes = x.type.shape[2:]
        taps, counted = zip(*(_roi_taps(b, at, size) for at, size in zip(places, sizes, strict=True)), strict=True)
        inside = c.binary(b, "and", *counted)
        bound: Bound = lambda axis, place: (place, inside)  # noqa: E731
        parts = corners(b, pixels, sizes, taps, bound)
        sample = parts[0]
        for part in parts[1:]:
            sample = c.binary(b, "add" if mode == "avg" else "max", sample, part)
        blocks = c.reshape(b, sample, (count, height, ratio, width, ratio, x.type.shape[1]))
        pooled = c.reduce(b, "mean" if mode == "avg" else "max", blocks, (2, 4))
        pooled = c.reshape(b, pooled, (count, height, width, x.type.shape[1]))
        return c.transpose(b, pooled, (0, 3, 1, 2))

    return handler


onnx_op("RoiAlign", 10)(_roi_align(shifts=False))
onnx_op("RoiAlign", 16, 22)(_roi_align(shifts=True))


def _roi_points(b: GraphBuilder, rois: Value, axis: int, bins: int, ratio: int, half: bool) -> Value:
    """The sample positions of each region along one axis (0: x, 1: y): [regions, bins * ratio]."""
    start, end = (c.slice_axis(b, rois, 1, i, 1) for i in (axis, axis + 2))
    length = c.binary(b, "sub", end, start)
    length = length if half else c.with_scalar(b, "max", length, 1)
    steps = b.literal(((np.arange(bins * ratio) + 0.5) / (bins * ratio))[None].astype(rois.type.dtype.numpy))
    return c.binary(b, "add", start, c.binary(b, "mul", length, steps))


def _roi_taps(b: GraphBuilder, at: Value, size: Dim) -> tuple[list[Tap], Value]:
    """The neighbours of positions clamped to the image, and which positions are within one element of it."""
    number = size_as(b, size, at.type.dtype)
    near = c.compare(b, "ge", at, c.scalar(b, -1, at.type.dtype))
    near = c.binary(b, "and", near, c.compare(b, "le", at, number))
    return linear_taps(b, clamp(b, at, 0, c.with_scalar(b, "sub", number, 1))), near


@onnx_op("DeformConv", 19, 22)
def deform_conv(ctx: NodeContext) -> Value:
    """A convolution whose taps are moved by offsets (and weighed by a mask) at every output position; images only."""
    b, x, w, offsets = ctx.b, ctx.input(0), ctx.input(1), ctx.input(2)
    ctx.refuse_unless(x.type.rank == 4, f"DeformConv of {x.type}")
    windows = read_windows(ctx, x.type.shape[2:], filter_sizes(ctx, w))
    group, shares = ctx.int("group", 1), ctx.int("offset_group", 1)
    batch, channels = x.type.shape[:2]
    out = offsets.type.shape[2:]
    taps = int(np.prod(windows.window))
    moves = c.reshape(b, offsets, (batch * shares, taps, 2, *out))
    places = [
        _deformed(b, moves, axis, windows.window, windows.strides[axis], windows.dilations[axis], windows.low[axis])
        for axis in (0, 1)
    ]
    per = split_dim(channels, shares)
    rows = rows_last(b, c.reshape(b, x, (batch * shares, per, *x.type.shape[2:])))
    sizes = x.type.shape[2:]
    spots = [c.reshape(b, p, (batch * shares, taps * product(out))) for p in places]
    far = [
        clamp(b, p, -4, c.with_scalar(b, "add", size_as(b, n, p.type.dtype), 3))
        for p, n in zip(spots, sizes, strict=True)
    ]

    def bound(axis: int, place: Value) -> tuple[Value, Value | None]:
        return place, _within(b, place, size_as(b, sizes[axis], place.type.dtype))

    sampled = weighted_sum(b, rows, sizes, [linear_taps(b, p) for p in far], bound)
    if ctx.optional(4) is not None:
        mask = c.reshape(b, ctx.input(4), (batch * shares, taps * product(out), 1))
        sampled = c.binary(b, "mul", sampled, mask)
    columns = c.transpose(b, c.reshape(b, sampled, (batch, shares, taps, product(out), per)), (0, 1, 4, 2, 3))
    columns = c.reshape(b, columns, (batch, group, split_dim(channels, group) * taps, product(out)))
    filters = w.type.shape[0]
    flat = c.reshape(b, w, (1, group, split_dim(filters, group), w.type.shape[1] * taps))
    flat = c.expand(b, flat, (batch, *flat.type.shape[1:]))
    columns = c.rebind(b, columns, (batch, group, flat.type.shape[3], product(out)))
    return add_bias(ctx, c.reshape(b, b.emit(MatMul(), flat, columns), (batch, filters, *out)), ctx.optional(3))


def _deformed(
    b: GraphBuilder, moves: Value, axis: int, window: tuple[int, ...], stride: int, dilation: int, low: Dim
) -> Value:
    """Where each tap of each window looks on one axis: [batch, taps, rows, columns]."""
    batch, taps, _, *out = moves.type.shape
    move = c.reshape(b, c.slice_axis(b, moves, 2, axis, 1), (batch, taps, *out))
    shape = tuple(d if i == axis else 1 for i, d in enumerate(out))
    starts = b.emit(Iota(shape, axis, DType.I64))
    starts = c.binary(b, "sub", c.with_scalar(b, "mul", starts, stride), size_as(b, low, DType.I64))
    tap = np.broadcast_to(np.indices(window)[axis], window).reshape(-1, 1, 1) * dilation
    base = c.binary(b, "add", b.literal(tap.astype(np.int64)), starts)
    return c.binary(b, "add", move, c.cast(b, base, move.type.dtype))
