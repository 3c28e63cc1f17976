"""Resize and Upsample: one axis after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np

from fornaxc.importers.onnx.context import NodeContext, Refused
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.resampling import ROUNDING, Sampling, Table, phases, source_coordinates, table
from fornaxc.importers.onnx.sampling import clamp, cubic_taps, linear_taps, size_as
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Array, Value
from fornaxc.ir.ops import Gather, Iota, MatMul, Pad
from fornaxc.ir.types import DType

MOST_GATHERS = 4  # an axis with more samples than this becomes a matrix product
MOST_PARTS = 64  # scales of a symbolic size are fractions with no larger denominator
Factor = tuple[Fraction | None, Dim]  # the scale of an axis (None: the new size over the old), and its new size


@onnx_op("Upsample", 7)
def upsample_7(ctx: NodeContext) -> Value:
    return _upsample(ctx, ctx.floats("scales"))


@onnx_op("Upsample", 9)
def upsample_9(ctx: NodeContext) -> Value:
    return _upsample(ctx, ctx.constant(1, "the scales").reshape(-1).tolist())


def _upsample(ctx: NodeContext, scales: list[float] | tuple[float, ...]) -> Value:
    ctx.require(all(s >= 1 for s in scales), f"Upsample by {list(scales)}")
    return _resize_10(ctx, scales)


@onnx_op("Resize", 10)
def resize_10(ctx: NodeContext) -> Value:
    return _resize_10(ctx, ctx.constant(1, "the scales").reshape(-1).tolist())


def _resize_10(ctx: NodeContext, scales: list[float] | tuple[float, ...]) -> Value:
    """x at i / scale. Rounding is not specified: where it matters (below scale 1) it is refused."""
    x, mode = ctx.input(0), ctx.string("mode", "nearest")
    ctx.require(mode in ("nearest", "linear"), f"no mode {mode!r}")
    sampling = Sampling(mode, "asymmetric", "floor")
    factors = _from_scales(ctx, x, scales, range(x.type.rank))
    for size, (scale, new) in zip(x.type.shape, factors.values(), strict=True):
        if mode == "nearest" and scale is not None and scale < 1:
            ctx.refuse_unless(isinstance(size, int), "shrinking an axis of symbolic size")
            where = source_coordinates(sampling, int(str(size)), int(str(new)), scale, (0, 1))
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
            factors = _from_sizes(ctx, x, ctx.dims(3, "the sizes"), axes, policy)
        else:
            scales = ctx.constant(2, "the scales").reshape(-1).tolist()
            ctx.refuse_unless(all(crop == (0.0, 1.0) for crop in crops.values()), "scales beside a region of interest")
            factors = _from_scales(ctx, x, scales, axes)
        return _resized(ctx, x, sampling, factors, crops)

    return handler


onnx_op("Resize", 11, 13)(_resize(versatile=False))
onnx_op("Resize", 18, 19)(_resize(versatile=True))


def _crops(ctx: NodeContext, axes: list[int]) -> dict[int, tuple[float, float]]:
    """The region of interest on each axis, in parts of its length."""
    roi = ctx.constant(1, "the region of interest").reshape(-1).tolist()
    ctx.require(len(roi) == 2 * len(axes), f"a roi of {len(roi)} numbers for {len(axes)} axes")
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
            ctx.refuse_unless(exact.denominator <= MOST_PARTS, f"the scale {scale} on an axis of symbolic size")
            factors[axis] = exact, size * exact.numerator // exact.denominator
    return factors


def _from_sizes(ctx: NodeContext, x: Value, sizes: tuple[Dim, ...], axes: list[int], policy: str) -> dict[int, Factor]:
    """Scales are new over old sizes; an aspect-ratio policy takes one scale for all axes."""
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
    ctx.require(policy in ("not_larger", "not_smaller"), f"no keep_aspect_ratio_policy {policy!r}")
    known_scales = [s for s, _ in factors.values() if s is not None]
    ctx.refuse_unless(len(known_scales) == len(factors), "an aspect-ratio policy on an axis of symbolic size")
    scale = (min if policy == "not_larger" else max)(known_scales)
    kept: dict[int, Factor] = {}
    for axis in axes:
        size = x.type.shape[axis]
        if not isinstance(size, int):
            raise Refused("an aspect-ratio policy on an axis of symbolic size")
        kept[axis] = scale, floor(scale * size + Fraction(1, 2))
    return kept


def _resized(
    ctx: NodeContext, x: Value, s: Sampling, factors: dict[int, Factor], crops: dict[int, tuple[float, float]]
) -> Value:
    b, dtype = ctx.b, x.type.dtype
    moving = {a: f for a, f in factors.items() if f != (Fraction(1), x.type.shape[a])}
    ctx.refuse_unless(
        all(a in moving or crop == (0.0, 1.0) for a, crop in crops.items()), "a crop that keeps the size of its axis"
    )
    ctx.refuse_unless(dtype.is_float or s.mode == "nearest", f"{s.mode} resizing of {dtype}")
    narrow = s.mode != "nearest" and dtype in (DType.F16, DType.BF16)
    y = c.cast(b, x, DType.F32) if narrow else x
    outside: list[tuple[int, Table]] = []
    for axis, (scale, new) in moving.items():
        size = x.type.shape[axis]
        if isinstance(size, int) and isinstance(new, int) and scale is not None:
            ctx.refuse_unless(size > 0, "resizing an empty axis")
            samples = table(s, size, new, scale, crops.get(axis, (0.0, 1.0)))
            y = _sampled(b, y, axis, samples)
            outside += [(axis, samples)] if samples.outside.any() else []
        elif scale is not None and scale.denominator == 1 and s.coordinates != "align_corners":
            y = _repeated(b, y, axis, replace(s, antialias=False), int(scale))
        else:
            ctx.refuse_unless(not s.antialias, "antialiasing on an axis of symbolic size")
            y = _computed(ctx, y, axis, s, scale, new)
    for axis, samples in outside:
        mask = b.literal(_along(samples.outside, axis, y.type.rank))
        y = c.select(b, mask, c.scalar(b, s.fill, y.type.dtype), y)
    return c.cast(b, y, dtype)


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
        weights = np.zeros((int(str(x.type.shape[axis])), new))
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


def _computed(ctx: NodeContext, x: Value, axis: int, s: Sampling, scale: Fraction | None, new: Dim) -> Value:
    """One axis resized where only the run time knows the sizes: coordinates in float32, as runtimes compute them."""
    b, size = ctx.b, x.type.shape[axis]
    ctx.refuse_unless(not s.excludes_outside or s.mode != "cubic", "exclude_outside on an axis of symbolic size")
    at = _coordinates(ctx, size, s, scale, new)
    last = size_as(b, size - 1, DType.I64)

    def picked(place: Value) -> Value:
        return b.emit(Gather(axis), x, clamp(b, c.cast(b, place, DType.I64), 0, last))

    if s.mode == "nearest":
        match s.nearest:
            case "floor" | "ceil":
                return picked(c.unary(b, s.nearest, at))
            case "round_prefer_floor":
                return picked(c.unary(b, "ceil", c.with_scalar(b, "sub", at, 0.5)))
            case _:
                return picked(c.unary(b, "floor", c.with_scalar(b, "add", at, 0.5)))
    total: Value | None = None
    for place, weight in linear_taps(b, at) if s.mode == "linear" else cubic_taps(b, at, s.cubic):
        part = picked(place)
        if weight is not None:
            shape = tuple(new if i == axis else 1 for i in range(x.type.rank))
            part = c.binary(b, "mul", part, c.reshape(b, c.cast(b, weight, x.type.dtype), shape))
        total = part if total is None else c.binary(b, "add", total, part)
    assert total is not None
    return total


def _coordinates(ctx: NodeContext, size: Dim, s: Sampling, scale: Fraction | None, new: Dim) -> Value:
    """Where in the old axis each element of the new one lies: f32 [new]."""
    b = ctx.b
    i = c.cast(b, b.emit(Iota((new,), 0, DType.I64)), DType.F32)
    old, wide = size_as(b, size, DType.F32), size_as(b, new, DType.F32)
    factor = c.binary(b, "div", wide, old) if scale is None else c.scalar(b, float(scale), DType.F32)
    centred = c.with_scalar(b, "sub", c.binary(b, "div", c.with_scalar(b, "add", i, 0.5), factor), 0.5)
    match s.coordinates:
        case "half_pixel":
            return centred
        case "pytorch_half_pixel":
            single = c.compare(b, "le", wide, c.scalar(b, 1, DType.F32))
            return c.select(b, single, c.scalar(b, 0, DType.F32), centred)
        case "asymmetric":
            return c.binary(b, "div", i, factor)
        case "align_corners":
            ctx.refuse_unless(scale is None or scale.denominator == 1, "align_corners with a fractional scale")
            steps = c.with_scalar(b, "max", c.with_scalar(b, "sub", wide, 1), 1)
            return c.binary(b, "div", c.binary(b, "mul", i, c.with_scalar(b, "sub", old, 1)), steps)
    raise Refused(f"{s.coordinates} on an axis of symbolic size")
