"""Which elements of an axis a resized axis is made of, and with which weights (ONNX Resize).

Coordinates are exact fractions, weights float64; nothing here knows of graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any

import numpy as np

from fornaxc.importers.onnx.context import Refused
from fornaxc.ir.graph import Array


@dataclass(frozen=True, slots=True)
class Sampling:
    """The attributes of a Resize."""

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    excludes_outside: bool = False
    antialias: bool = False
    fill: float = 0.0


@dataclass(frozen=True, slots=True)
class Table:
    """Element i of the result is the sum over t of weights[i, t] * x[indices[i, t]]; `outside` elements are the fill."""

    indices: Array
    weights: Array
    outside: Array

    @property
    def copies(self) -> bool:
        """Whether each element is just one of the axis."""
        return bool(self.indices.shape[1] == 1)


Real = Any  # Fraction, or np.float32


def _coordinate(s: Sampling, i: Real, old: Real, new: Real, scale: Real, crop: tuple[Real, Real]) -> Real:
    """Where element `i` of the new axis lies in the old one, in the arithmetic of the arguments; `new` is what `_width` gives."""
    one = type(i)(1)
    half = one / type(i)(2)
    match s.coordinates:
        case "half_pixel":
            return (i + half) / scale - half
        case "pytorch_half_pixel":
            return (i + half) / scale - half if new > 1 else type(i)(0)
        case "half_pixel_symmetric":
            return old * half * (one - new / (old * scale)) + (i + half) / scale - half
        case "asymmetric":
            return i / scale
        case "align_corners":
            return i * (old - one) / (new - one) if new > 1 else type(i)(0)
        case "tf_crop_and_resize":
            first, last = crop
            if new > 1:
                return first * (old - one) + i * (last - first) * (old - one) / (new - one)
            return half * (first + last) * (old - one)
    raise Refused(f"coordinate_transformation_mode {s.coordinates!r}")


def source_coordinates(s: Sampling, old: int, new: int, scale: Fraction, crop: tuple[float, float]) -> list[Fraction]:
    """Where in the old axis each element of the new one lies, exactly."""
    if s.coordinates == "tf_crop_and_resize" and is_fractional(old, new, scale):
        raise Refused(f"{s.coordinates} with a scale that gives a fractional size: the tools disagree")
    bounds = Fraction(crop[0]), Fraction(crop[1])
    numbers = (Fraction(old), _width(s, old, new, scale), scale, bounds)
    return [Fraction(_coordinate(s, Fraction(i), *numbers)) for i in range(new)]


def is_fractional(old: int, new: int, scale: Fraction) -> bool:
    """Whether `old * scale` is not the whole number `new`, rounding of the scale aside."""
    return abs(old * scale - new) > 1e-4


def _width(s: Sampling, old: int, new: int, scale: Fraction) -> Fraction:
    """The new size; between aligned corners it is the fractional one that the scale gives (as in the specification's cases)."""
    return old * scale if s.coordinates == "align_corners" and is_fractional(old, new, scale) else Fraction(new)


def _single_coordinates(s: Sampling, old: int, new: int, scale: Fraction, crop: tuple[float, float]) -> list[Fraction]:
    """As `source_coordinates`, in float32 arithmetic."""
    single = np.float32
    width = single(float(_width(s, old, new, scale)))
    numbers = (single(old), width, single(float(scale)), (single(crop[0]), single(crop[1])))
    return [Fraction(float(_coordinate(s, single(i), *numbers))) for i in range(new)]


def _settled(readings: list[list[int]]) -> Array:
    """What exact and float32 arithmetic agree on. Where they do not, runtimes differ: `Refused`."""
    if any(reading != readings[0] for reading in readings):
        raise Refused("which element is meant is a question of rounding")
    return np.array(readings[0], np.int64)


NUDGE = Fraction(1, 100000)
_HALF = Fraction(1, 2)
ROUNDING: dict[str, Callable[[Fraction], int]] = {
    "round_prefer_floor": lambda x: ceil(x - _HALF),
    "round_prefer_ceil": lambda x: floor(x + _HALF),
    "floor": floor,
    "ceil": ceil,
}


def _linear(distance: Array) -> Array:
    return np.asarray(np.maximum(0, 1 - np.abs(distance)))


def _cubic(distance: Array, a: float) -> Array:
    d = np.abs(distance)
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def table(s: Sampling, old: int, new: int, scale: Fraction, crop: tuple[float, float]) -> Table:
    """The samples of an axis of `old` elements resized to `new`."""
    exact = source_coordinates(s, old, new, scale, crop)
    rough = _single_coordinates(s, old, new, scale, crop)
    outside = np.zeros(new, bool)
    if s.coordinates == "tf_crop_and_resize":
        outside = _settled([[int(v < 0 or v > old - 1) for v in x] for x in (exact, rough)]).astype(bool)
    if s.mode == "nearest":
        readings = [exact, rough]
        if s.coordinates == "half_pixel_symmetric" and (scale.denominator > 2 or old * scale != new):
            readings += [
                [v + nudge for v in exact] for nudge in (-NUDGE, NUDGE)
            ]  # runtimes order its terms differently
        near = _settled([[min(max(ROUNDING[s.nearest](v), 0), old - 1) for v in x] for x in readings])
        return Table(near[:, None], np.ones((new, 1)), outside)
    x = np.array([float(v) for v in exact], np.float64)
    reach = 1 if s.mode == "linear" else 2
    squeeze = min(float(scale), 1.0) if s.antialias else 1.0
    taps = 2 * reach if squeeze == 1 else floor(2 * reach / squeeze) + 1
    first = np.floor(x - reach / squeeze) + 1
    places = first[:, None] + np.arange(taps)[None, :]
    distance = (places - x[:, None]) * squeeze
    weights = _linear(distance) if s.mode == "linear" else _cubic(distance, s.cubic)
    if s.excludes_outside:
        weights = np.where((places < 0) | (places > old - 1), 0, weights)
    if s.excludes_outside or squeeze < 1:
        weights = weights / weights.sum(1, keepdims=True)
    return Table(np.clip(places, 0, old - 1).astype(np.int64), weights, outside)


Phase = tuple[tuple[int, float], ...]


def phases(s: Sampling, scale: int) -> tuple[Phase, ...]:
    """The samples of an axis of any size made `scale` times as long.

    Element k * scale + j of the result is the sum over (offset, weight) in phase j of weight * x[k + offset], where
    positions beyond the ends mean the end itself. `Refused` where the pattern depends on the size.
    """
    if s.coordinates in ("align_corners", "tf_crop_and_resize"):
        raise Refused(f"{s.coordinates} on an axis of symbolic size")
    if s.excludes_outside and s.mode == "cubic":
        raise Refused("exclude_outside on an axis of symbolic size")
    centred = s.coordinates != "asymmetric"
    found = []
    for j in range(scale):
        x = Fraction(2 * j + 1, 2 * scale) - Fraction(1, 2) if centred else Fraction(j, scale)
        found.append(_phase(s, x))
    return tuple(found)


def _phase(s: Sampling, x: Fraction) -> Phase:
    if s.mode == "nearest":
        return ((ROUNDING[s.nearest](x), 1.0),)
    reach = 1 if s.mode == "linear" else 2
    places = np.array([floor(x) + 1 - reach + t for t in range(2 * reach)], np.float64)
    distance = places - float(x)
    weights = _linear(distance) if s.mode == "linear" else _cubic(distance, s.cubic)
    return tuple((int(p), float(w)) for p, w in zip(places, weights, strict=True) if w != 0)
