"""One axis of a Resize where only the run time knows the sizes, the scale or the region of interest.

Coordinates are computed in float32, as runtimes compute them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from fornaxc.importers.onnx.context import Refused
from fornaxc.importers.onnx.resampling import Sampling
from fornaxc.importers.onnx.sampling import clamp, cubic_taps, linear_taps, polynomial, size_as
from fornaxc.importers.onnx.steering import bind_sizes
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Gather, Iota, MatMul, Pad
from fornaxc.ir.types import DType

Scale = Fraction | Value | None  # a number, f32[], or None: the new size over the old


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis of a tensor that is resized from `old` to `new` elements; `crop` is the region of interest, f32[] each."""

    place: int
    old: Dim
    new: Dim
    scale: Scale
    crop: tuple[Value, Value] | None = None


def resampled(b: GraphBuilder, x: Value, axis: Axis, s: Sampling) -> tuple[Value, Value | None]:
    """`x` with the axis resized, and which of its new elements lie outside of the region of interest (bool[new])."""
    at = _coordinates(b, axis, s)
    outside = None
    if s.coordinates == "tf_crop_and_resize":
        low = c.compare(b, "lt", at, c.scalar(b, 0, DType.F32))
        high = c.compare(b, "gt", at, size_as(b, axis.old - 1, DType.F32))
        outside = c.binary(b, "or", low, high)
    if s.mode == "nearest":
        return _picked(b, x, axis, _rounded(b, at, s)), outside
    if s.antialias or (s.mode == "cubic" and s.excludes_outside):
        return _by_matrix(b, x, axis, s, at), outside
    total: Value | None = None
    for place, weight in linear_taps(b, at) if s.mode == "linear" else cubic_taps(b, at, s.cubic):
        part = _picked(b, x, axis, place)
        if weight is not None:
            part = c.binary(b, "mul", part, along(b, c.cast(b, weight, x.type.dtype), axis.place, x.type.rank))
        total = part if total is None else c.binary(b, "add", total, part)
    assert total is not None
    return total, outside


def along(b: GraphBuilder, vector: Value, axis: int, rank: int) -> Value:
    """A vector as a tensor that broadcasts along `axis`."""
    return c.reshape(b, vector, tuple(vector.type.shape[0] if i == axis else 1 for i in range(rank)))


def _picked(b: GraphBuilder, x: Value, axis: Axis, place: Value) -> Value:
    last = size_as(b, axis.old - 1, DType.I64)
    return b.emit(Gather(axis.place), x, clamp(b, c.cast(b, place, DType.I64), 0, last))


def _rounded(b: GraphBuilder, at: Value, s: Sampling) -> Value:
    match s.nearest:
        case "floor" | "ceil":
            return c.unary(b, s.nearest, at)
        case "round_prefer_floor":
            return c.unary(b, "ceil", c.with_scalar(b, "sub", at, 0.5))
    return c.unary(b, "floor", c.with_scalar(b, "add", at, 0.5))


def _factor(b: GraphBuilder, axis: Axis) -> Value:
    """The scale as f32[]."""
    if isinstance(axis.scale, Value):
        return axis.scale
    if axis.scale is not None:
        return c.scalar(b, float(axis.scale), DType.F32)
    return c.binary(b, "div", size_as(b, axis.new, DType.F32), size_as(b, axis.old, DType.F32))


def _coordinates(b: GraphBuilder, axis: Axis, s: Sampling) -> Value:
    """Where in the old axis each element of the new one lies: f32 [new]."""
    i = c.cast(b, b.emit(Iota((axis.new,), 0, DType.I64)), DType.F32)
    old, wide = size_as(b, axis.old, DType.F32), size_as(b, axis.new, DType.F32)
    factor = _factor(b, axis)
    centred = c.with_scalar(b, "sub", c.binary(b, "div", c.with_scalar(b, "add", i, 0.5), factor), 0.5)
    single = c.compare(b, "le", wide, c.scalar(b, 1, DType.F32))
    span = c.with_scalar(b, "sub", old, 1)
    steps = c.with_scalar(b, "max", c.with_scalar(b, "sub", wide, 1), 1)
    match s.coordinates:
        case "half_pixel":
            return centred
        case "pytorch_half_pixel":
            return c.select(b, single, c.scalar(b, 0, DType.F32), centred)
        case "half_pixel_symmetric":
            if axis.scale is None:  # the new size is exactly the old one scaled
                return centred
            if s.mode == "nearest":
                raise Refused("which element is meant is a question of rounding")
            missing = c.binary(b, "sub", old, c.binary(b, "div", wide, factor))
            return c.binary(b, "add", centred, c.with_scalar(b, "mul", missing, 0.5))
        case "asymmetric":
            return c.binary(b, "div", i, factor)
        case "align_corners":
            if not _is_whole(axis):
                if s.mode == "nearest":
                    raise Refused("which element is meant is a question of rounding")
                steps = _steps_of_width(b, c.binary(b, "mul", old, factor), wide)
            return c.binary(b, "div", c.binary(b, "mul", i, span), steps)
        case "tf_crop_and_resize" if axis.crop is not None:
            if not _is_whole(axis):
                raise Refused(f"{s.coordinates} with a scale that may give a fractional size: the tools disagree")
            first, last = axis.crop
            width = c.binary(b, "mul", c.binary(b, "sub", last, first), span)
            spread = c.binary(
                b, "add", c.binary(b, "mul", first, span), c.binary(b, "div", c.binary(b, "mul", i, width), steps)
            )
            middle = c.with_scalar(b, "mul", c.binary(b, "mul", c.binary(b, "add", first, last), span), 0.5)
            return c.select(b, single, middle, spread)
    raise Refused(f"{s.coordinates} on an axis of symbolic size")


def _is_whole(axis: Axis) -> bool:
    """Whether the new size is known to be exactly the old one times the scale."""
    if isinstance(axis.scale, Fraction):
        return axis.old * axis.scale.numerator == axis.new * axis.scale.denominator
    return axis.scale is None


def _steps_of_width(b: GraphBuilder, width: Value, new: Value) -> Value:
    """One less than the fractional size that a scale gives, of which `new` is the whole part; 1 where there is one element."""
    missing = c.unary(b, "abs", c.binary(b, "sub", width, new))
    whole = c.compare(b, "le", missing, c.scalar(b, 1e-4, DType.F32))
    steps = c.with_scalar(b, "sub", c.select(b, whole, new, width), 1)
    return c.select(b, c.compare(b, "le", new, c.scalar(b, 1, DType.F32)), c.scalar(b, 1, DType.F32), steps)


def _by_matrix(b: GraphBuilder, x: Value, axis: Axis, s: Sampling, at: Value) -> Value:
    """All elements, weighted by their distance; beyond the ends lie copies of the end."""
    reach = 1 if s.mode == "linear" else 2
    squeeze = c.with_scalar(b, "min", _factor(b, axis), 1)
    margin: Dim = reach
    if s.antialias:
        support = c.unary(b, "ceil", c.binary(b, "div", c.scalar(b, reach, DType.F32), squeeze))
        (margin,) = bind_sizes(b, c.reshape(b, c.with_scalar(b, "add", c.cast(b, support, DType.I64), 1), (1,)))
    length = axis.old + margin + margin
    place = b.emit(Iota((length,), 0, DType.I64))
    place = c.unsqueeze(b, c.binary(b, "sub", place, size_as(b, margin, DType.I64)), (0,))
    distance = c.binary(b, "sub", c.cast(b, place, DType.F32), c.unsqueeze(b, at, (1,)))
    if s.antialias:
        distance = c.binary(b, "mul", distance, squeeze)
    weights = _weights(b, c.unary(b, "abs", distance), s)
    if s.excludes_outside:
        inside = c.binary(
            b,
            "and",
            c.compare(b, "ge", place, c.scalar(b, 0, DType.I64)),
            c.compare(b, "lt", place, size_as(b, axis.old, DType.I64)),
        )
        weights = c.select(b, inside, weights, c.scalar(b, 0, DType.F32))
    weights = c.cast(b, c.binary(b, "div", weights, c.reduce(b, "sum", weights, (1,))), x.type.dtype)
    rank = x.type.rank
    widths = tuple(margin if i == axis.place else 0 for i in range(rank))
    lines = c.move_axis(b, b.emit(Pad(widths, widths, "edge"), x), axis.place, rank - 1)
    lines = lines if rank > 1 else c.unsqueeze(b, lines, (0,))
    summed = b.emit(MatMul(), lines, c.transpose(b, weights, (1, 0)))
    summed = c.reshape(b, summed, (*(d for i, d in enumerate(x.type.shape) if i != axis.place), axis.new))
    return c.move_axis(b, summed, rank - 1, axis.place)


def _weights(b: GraphBuilder, d: Value, s: Sampling) -> Value:
    """The kernel at these distances."""
    if s.mode == "linear":
        return c.with_scalar(b, "max", c.binary(b, "sub", c.scalar(b, 1, DType.F32), d), 0)
    a = s.cubic
    near = polynomial(b, d, (a + 2, -(a + 3), 0, 1))
    far = polynomial(b, d, (a, -5 * a, 8 * a, -4 * a))
    far = c.select(b, c.compare(b, "lt", d, c.scalar(b, 2, DType.F32)), far, c.scalar(b, 0, DType.F32))
    return c.select(b, c.compare(b, "le", d, c.scalar(b, 1, DType.F32)), near, far)
