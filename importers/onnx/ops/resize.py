"""Resize and Upsample: one axis after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np

from fornaxc.importers.onnx.computed_resampling import Axis, Scale, along, resampled
from fornaxc.importers.onnx.context import NodeContext, Refused
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.resampling import (
    ROUNDING,
    Sampling,
    Table,
    is_fractional,
    phases,
    source_coordinates,
    table,
)
from fornaxc.importers.onnx.steering import bind_sizes, entry, require_at_run_time, sizes_input, vector
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, static
from fornaxc.ir.graph import Array, Value
from fornaxc.ir.ops import ArgReduce, Gather, MatMul, Pad
from fornaxc.ir.types import DType

MOST_GATHERS = 4  # an axis with more samples than this becomes a matrix product
MOST_PARTS = 64  # scales with larger denominators give a symbolic axis a size that only the run time knows
Factor = tuple[Scale, Dim]  # of an axis: its scale and its new size
Crop = tuple[float, float] | tuple[Value, Value]
WHOLE = (0.0, 1.0)


@onnx_op("Upsample", 1)
def upsample_1(ctx: NodeContext) -> Value:
    """An experimental form: images only, with a scale for each side."""
    mode = ctx.string("mode", "nearest")
    ctx.refuse_unless(mode == "nearest", f"Upsample with mode {mode!r} before opset 7")
    return _upsample(ctx, (1.0, 1.0, ctx.float("height_scale"), ctx.float("width_scale")))


@onnx_op("Upsample", 7)
def upsample_7(ctx: NodeContext) -> Value:
    return _upsample(ctx, ctx.floats("scales"))


@onnx_op("Upsample", 9)
def upsample_9(ctx: NodeContext) -> Value:
    scales = _known_floats(ctx, 1)
    return _resize_10_at_run_time(ctx) if scales is None else _upsample(ctx, scales)


def _upsample(ctx: NodeContext, scales: list[float] | tuple[float, ...]) -> Value:
    ctx.require(all(s >= 1 for s in scales), f"Upsample by {list(scales)}")
    return _resize_10(ctx, scales)


@onnx_op("Resize", 10)
def resize_10(ctx: NodeContext) -> Value:
    scales = _known_floats(ctx, 1)
    return _resize_10_at_run_time(ctx) if scales is None else _resize_10(ctx, scales)


def _known_floats(ctx: NodeContext, index: int) -> list[float] | None:
    """The content of an input; None where only the run time knows it."""
    found = ctx.content(ctx.input(index))
    return None if found is None else [float(v) for v in found.reshape(-1).tolist()]


def _resize_10_at_run_time(ctx: NodeContext) -> Value:
    """Nearest must not shrink, for its rounding is not specified."""
    x, mode = ctx.input(0), ctx.string("mode", "nearest")
    ctx.require(mode in ("nearest", "linear"), f"no mode {mode!r}")
    factors = _from_run_time_scales(ctx, x, ctx.input(1), range(x.type.rank), grows=mode == "nearest")
    return _resized(ctx, x, Sampling(mode, "asymmetric", "floor"), factors, {})


def _resize_10(ctx: NodeContext, scales: list[float] | tuple[float, ...]) -> Value:
    """x at i / scale. Rounding is not specified: where it matters (below scale 1) it is refused."""
    x, mode = ctx.input(0), ctx.string("mode", "nearest")
    ctx.require(mode in ("nearest", "linear"), f"no mode {mode!r}")
    sampling = Sampling(mode, "asymmetric", "floor")
    factors = _from_scales(ctx, x, scales, range(x.type.rank))
    for size, (scale, new), given in zip(x.type.shape, factors.values(), scales, strict=True):
        if mode == "nearest" and given < 1:
            if not isinstance(size, int) or not isinstance(scale, Fraction):
                raise Refused("shrinking an axis of symbolic size")
            where = source_coordinates(sampling, size, static(new), scale, (0, 1))
            ctx.refuse_unless(
                all(v.denominator == 1 for v in where), "nearest shrinking, whose rounding is unspecified"
            )
    return _resized(ctx, x, sampling, factors, {})


def _resize(*, versatile: bool) -> Callable[[NodeContext], Value]:
    def handler(ctx: NodeContext) -> Value:
        """`versatile`: with the attributes that version 18 brought."""
        x = ctx.input(0)
        sampling = Sampling(
            ctx.string("mode", "nearest"),
            ctx.string("coordinate_transformation_mode", "half_pixel"),
            ctx.string("nearest_mode", "round_prefer_floor"),
            ctx.float("cubic_coeff_a", -0.75),
            bool(ctx.int("exclude_outside", 0)),
            bool(ctx.int("antialias", 0)) if versatile else False,
            ctx.float("extrapolation_value", 0.0),
        )
        ctx.require(sampling.mode in ("nearest", "linear", "cubic"), f"no mode {sampling.mode!r}")
        ctx.require(sampling.nearest in ROUNDING, f"no nearest_mode {sampling.nearest!r}")
        axes = [ctx.axis(a, x.type.rank) for a in ctx.ints("axes", tuple(range(x.type.rank)))] if versatile else []
        axes = axes or list(range(x.type.rank))
        crops = _crops(ctx, axes) if sampling.coordinates == "tf_crop_and_resize" else {}
        policy = ctx.string("keep_aspect_ratio_policy", "stretch") if versatile else "stretch"
        if ctx.optional(3) is not None:
            factors = _from_sizes(ctx, x, axes, policy)
            if policy != "stretch" and sampling.coordinates == "align_corners":
                ctx.refuse_unless(_are_whole(x, factors), "align_corners where one scale gives fractional sizes")
        else:
            ctx.refuse_unless(all(crop == WHOLE for crop in crops.values()), "scales beside a region of interest")
            scales = _known_floats(ctx, 2)
            if scales is None:
                factors = _from_run_time_scales(ctx, x, ctx.input(2), axes)
            else:
                factors = _from_scales(ctx, x, scales, axes)
        return _resized(ctx, x, sampling, factors, crops)

    return handler


onnx_op("Resize", 11, 13)(_resize(versatile=False))
onnx_op("Resize", 18, 19)(_resize(versatile=True))


def _crops(ctx: NodeContext, axes: list[int]) -> dict[int, Crop]:
    """The region of interest on each axis, in parts of its length."""
    count = 2 * len(axes)
    roi = _known_floats(ctx, 1)
    if roi is None:
        given = ctx.input(1)
        ctx.require(given.type.shape == (count,), f"a roi {given.type} for {len(axes)} axes")
        values = [c.reshape(ctx.b, entry(ctx.b, c.cast(ctx.b, given, DType.F32), i), ()) for i in range(count)]
        return {a: (values[i], values[i + len(axes)]) for i, a in enumerate(axes)}
    ctx.require(len(roi) == count, f"a roi of {len(roi)} numbers for {len(axes)} axes")
    return {a: (roi[i], roi[i + len(axes)]) for i, a in enumerate(axes)}


def _from_scales(
    ctx: NodeContext, x: Value, scales: list[float] | tuple[float, ...], axes: list[int] | range
) -> dict[int, Factor]:
    """New sizes are floor(size * scale)."""
    ctx.require(len(scales) == len(axes) and all(s > 0 for s in scales), f"the scales {list(scales)}")
    factors: dict[int, Factor] = {}
    for axis, scale in zip(axes, scales, strict=True):
        size = x.type.shape[axis]
        if isinstance(size, int):
            new = int(np.floor(size * np.float64(scale)))
            single = int(np.floor(np.float32(size) * np.float32(scale)))
            ctx.refuse_unless(new == single, f"the size {size} * {scale} is a question of rounding")
            factors[axis] = Fraction(scale), new
        else:
            exact = Fraction(scale)
            if exact.denominator <= MOST_PARTS:
                factors[axis] = exact, size * exact.numerator // exact.denominator
            else:
                factors |= _from_run_time_scales(ctx, x, ctx.b.literal(np.array([scale], np.float32)), [axis])
    return factors


def _from_run_time_scales(
    ctx: NodeContext, x: Value, scales: Value, axes: list[int] | range, grows: bool = False
) -> dict[int, Factor]:
    """New sizes are floor(size * scale); the run stops where that is a question of rounding, or `grows` and one shrinks."""
    b = ctx.b
    ctx.require(scales.type.shape == (len(axes),), f"the scales {scales.type} for {len(axes)} axes")
    scales = c.cast(b, scales, DType.F32)
    sizes = b.dims([x.type.shape[axis] for axis in axes])
    single, double = (
        c.cast(b, c.unary(b, "floor", c.binary(b, "mul", c.cast(b, sizes, t), c.cast(b, scales, t))), DType.I64)
        for t in (DType.F32, DType.F64)
    )
    fine = c.compare(b, "eq", single, double)
    least = c.compare(b, "ge" if grows else "gt", scales, c.scalar(b, 1 if grows else 0, DType.F32))
    fine = c.reduce(b, "min", c.binary(b, "and", fine, least), (0,))
    new = bind_sizes(b, require_at_run_time(b, double, fine))
    return {
        axis: (c.reshape(b, entry(b, scales, place), ()), size)
        for place, (axis, size) in enumerate(zip(axes, new, strict=True))
    }


def _at_one_scale(ctx: NodeContext, x: Value, sizes: Value, axes: list[int], policy: str) -> dict[int, Factor]:
    """The aspect-ratio policies for sizes that only the run time knows: sizes are rounded, halves up."""
    b = ctx.b
    old = b.dims([x.type.shape[axis] for axis in axes])
    ratios = c.binary(b, "div", c.cast(b, sizes, DType.F64), c.cast(b, old, DType.F64))
    which = b.emit(ArgReduce("min" if policy == "not_larger" else "max", 0), ratios)
    top, bottom = (b.emit(Gather(0), v, which) for v in (sizes, old))
    twice = c.with_scalar(b, "mul", bottom, 2)
    rounded = c.binary(b, "add", c.with_scalar(b, "mul", c.binary(b, "mul", top, old), 2), bottom)
    new = bind_sizes(b, c.binary(b, "div", rounded, twice))
    scale = c.binary(b, "div", *(c.cast(b, c.reshape(b, v, ()), DType.F32) for v in (top, bottom)))
    return {axis: (scale, size) for axis, size in zip(axes, new, strict=True)}


def _from_sizes(ctx: NodeContext, x: Value, axes: list[int], policy: str) -> dict[int, Factor]:
    """Scales are new over old sizes; an aspect-ratio policy takes one scale for all axes."""
    ctx.require(policy in ("stretch", "not_larger", "not_smaller"), f"no keep_aspect_ratio_policy {policy!r}")
    fixed = all(isinstance(x.type.shape[axis], int) for axis in axes)
    if policy != "stretch" and not (fixed and ctx.ints_or_none(3) is not None):
        given = vector(ctx.b, ctx.input(3))
        ctx.require(given.type.shape == (len(axes),), f"the sizes {given.type} for {len(axes)} axes")
        return _at_one_scale(ctx, x, given, axes, policy)
    sizes = sizes_input(ctx, 3, "the sizes")
    ctx.require(len(sizes) == len(axes), f"{len(sizes)} sizes for {len(axes)} axes")
    factors: dict[int, Factor] = {}
    for axis, new in zip(axes, sizes, strict=True):
        size = x.type.shape[axis]
        if isinstance(size, int) and isinstance(new, int):
            ctx.refuse_unless(size > 0, "resizing an empty axis")
            factors[axis] = Fraction(new, size), new
            continue
        times = 1 if new == size else new // size
        known = isinstance(times, int) and times * size == new
        factors[axis] = Fraction(str(times)) if known else None, new
    if policy == "stretch":
        return factors
    scale = (min if policy == "not_larger" else max)(s for s, _ in factors.values() if isinstance(s, Fraction))
    return {axis: (scale, floor(scale * static(x.type.shape[axis]) + Fraction(1, 2))) for axis in axes}


def _are_whole(x: Value, factors: dict[int, Factor]) -> bool:
    """Whether each new size is known to be the old one times its scale."""
    return all(
        isinstance(scale, Fraction)
        and isinstance(size, int)
        and isinstance(new, int)
        and not is_fractional(size, new, scale)
        for size, (scale, new) in ((x.type.shape[axis], factor) for axis, factor in factors.items())
    )


def _resized(ctx: NodeContext, x: Value, s: Sampling, factors: dict[int, Factor], crops: dict[int, Crop]) -> Value:
    b, dtype, rank = ctx.b, x.type.dtype, x.type.rank
    moving = {a: f for a, f in factors.items() if f != (Fraction(1), x.type.shape[a]) or _floats(crops.get(a)) is None}
    ctx.refuse_unless(
        all(a in moving or crop == WHOLE for a, crop in crops.items()), "a crop that keeps the size of its axis"
    )
    ctx.refuse_unless(dtype.is_float or s.mode == "nearest", f"{s.mode} resizing of {dtype}")
    narrow = s.mode != "nearest" and dtype in (DType.F16, DType.BF16)
    y = c.cast(b, x, DType.F32) if narrow else x
    outside: list[Value] = []
    for axis, (scale, new) in moving.items():
        size, crop = x.type.shape[axis], _floats(crops.get(axis))
        fixed = isinstance(scale, Fraction)
        if isinstance(size, int) and isinstance(new, int) and isinstance(scale, Fraction) and crop is not None:
            ctx.refuse_unless(size > 0, "resizing an empty axis")
            samples = table(s, size, new, scale, crop)
            if s.coordinates == "align_corners" and is_fractional(size, new, scale):
                ctx.warn(
                    f"the corners are those of the size {float(size * scale):.7g}; onnxruntime takes the size {new}"
                )
            y = _sampled(b, y, axis, samples)
            outside += [b.literal(_along(samples.outside, axis, rank))] if samples.outside.any() else []
        elif isinstance(scale, Fraction) and scale.denominator == 1 and _repeats(s):
            y = _repeated(b, y, axis, replace(s, antialias=False), int(scale))
        else:
            ctx.refuse_unless(not s.antialias or not fixed, "antialiasing on an axis of symbolic size")
            y, beyond = resampled(b, y, Axis(axis, size, new, scale, _values(b, crops.get(axis))), s)
            outside += [] if beyond is None else [along(b, beyond, axis, rank)]
    for mask in outside:
        y = c.select(b, mask, c.scalar(b, s.fill, y.type.dtype), y)
    return c.cast(b, y, dtype)


def _repeats(s: Sampling) -> bool:
    """Whether an axis of any size made a whole number of times as long is that many interleaved phases."""
    excludes = s.excludes_outside and s.mode == "cubic"
    return s.coordinates not in ("align_corners", "tf_crop_and_resize") and not excludes


def _floats(crop: Crop | None) -> tuple[float, float] | None:
    """A crop as numbers, None where only the run time knows it; no crop takes the whole axis."""
    if crop is None:
        return WHOLE
    first, last = crop
    return None if isinstance(first, Value) or isinstance(last, Value) else (first, last)


def _values(b: GraphBuilder, crop: Crop | None) -> tuple[Value, Value] | None:
    if crop is None:
        return None
    first, last = (v if isinstance(v, Value) else c.scalar(b, v, DType.F32) for v in crop)
    return first, last


def _along(vector: Array, axis: int, rank: int) -> Array:
    """A vector as a tensor that broadcasts along `axis`."""
    return vector.reshape([-1 if i == axis else 1 for i in range(rank)])


def _sampled(b: GraphBuilder, x: Value, axis: int, samples: Table) -> Value:
    """One axis replaced by weighted sums of its elements."""
    new, taps = samples.indices.shape
    if samples.copies:
        return b.emit(Gather(axis), x, b.literal(samples.indices[:, 0]))
    kind = x.type.dtype.numpy
    if taps > MOST_GATHERS:
        weights = np.zeros((static(x.type.shape[axis]), new))
        np.add.at(weights, (samples.indices, np.arange(new)[:, None]), samples.weights)
        last = x.type.rank - 1
        product = b.emit(MatMul(), _at_least_two(b, c.move_axis(b, x, axis, last)), b.literal(weights.astype(kind)))
        product = c.reshape(b, product, (*(d for i, d in enumerate(x.type.shape) if i != axis), new))
        return c.move_axis(b, product, last, axis)
    total: Value | None = None
    for tap in range(taps):
        part = b.emit(Gather(axis), x, b.literal(samples.indices[:, tap]))
        weight = b.literal(_along(samples.weights[:, tap].astype(kind), axis, x.type.rank))
        part = c.binary(b, "mul", part, weight)
        total = part if total is None else c.binary(b, "add", total, part)
    assert total is not None
    return total


def _at_least_two(b: GraphBuilder, x: Value) -> Value:
    return x if x.type.rank > 1 else c.unsqueeze(b, x, (0,))


def _repeated(b: GraphBuilder, x: Value, axis: int, s: Sampling, scale: int) -> Value:
    """An axis of symbolic size made `scale` times as long: the elements of each phase, interleaved."""
    size = x.type.shape[axis]
    parts = phases(s, scale)
    reach = max(abs(offset) for phase in parts for offset, _ in phase)
    widths = tuple(reach if i == axis else 0 for i in range(x.type.rank))
    padded = b.emit(Pad(widths, widths, "edge"), x) if reach else x
    lines = []
    for phase in parts:
        total: Value | None = None
        for offset, weight in phase:
            part = c.slice_axis(b, padded, axis, reach + offset, size)
            part = part if weight == 1 else c.with_scalar(b, "mul", part, weight)
            total = part if total is None else c.binary(b, "add", total, part)
        assert total is not None
        lines.append(c.unsqueeze(b, total, (axis + 1,)))
    joined = c.concat(b, lines, axis + 1)
    return c.reshape(b, joined, tuple(d * scale if i == axis else d for i, d in enumerate(x.type.shape)))
