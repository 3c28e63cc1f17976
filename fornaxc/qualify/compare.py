"""Compares what a case gave with the outputs that the suite ships."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fornaxc.ir.graph import Array


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Elements agree where |value - expected| <= atol + rtol * |expected|; integers and bool only where they are equal."""

    rtol: float = 1e-3
    atol: float = 1e-5

    def to_json(self) -> dict[str, float]:
        return {"rtol": self.rtol, "atol": self.atol}


@dataclass(frozen=True, slots=True)
class Difference:
    """`reason` is "" where everything agrees; `max_abs` the largest error among finite elements, None where there are none."""

    reason: str
    max_abs: float | None


def compare(found: Sequence[Array], expected: Sequence[Array], tolerance: Tolerance) -> Difference:
    """Compare all outputs of one run: count, element types, shapes, NaN, infinities, then values."""
    if len(found) != len(expected):
        return Difference(f"{len(found)} outputs, not {len(expected)}", None)
    errors: list[float] = []
    reason = ""
    for index, (value, wanted) in enumerate(zip(found, expected, strict=True)):
        problem = _compare_one(value, wanted, tolerance, errors)
        reason = reason or (problem and (problem if len(found) == 1 else f"output {index}: {problem}"))
    return Difference(reason, max(errors, default=None))


def _compare_one(value: Array, wanted: Array, tolerance: Tolerance, errors: list[float]) -> str:
    if value.dtype != wanted.dtype:
        return f"the element type is {value.dtype}, not {wanted.dtype}"
    if value.shape != wanted.shape:
        return f"the shape is {list(value.shape)}, not {list(wanted.shape)}"
    if value.size == 0:
        return ""
    if wanted.dtype.kind in "iub":
        wrong = value != wanted
        errors.append(float(np.abs(value.astype(np.float64) - wanted.astype(np.float64)).max()))
        return _worst(value, wanted, wrong)
    a, b = value.astype(np.float64), wanted.astype(np.float64)
    for what, test in (("NaN", np.isnan), ("infinity", np.isinf)):
        if (test(a) != test(b)).any():
            return f"{what} at {_index(test(a) != test(b))} on one side only"
    finite = np.isfinite(b)
    wrong = ~finite & ~np.isnan(b) & (a != b)  # infinities of the other sign
    error = np.zeros(a.shape)
    np.subtract(a, b, out=error, where=finite)
    np.abs(error, out=error)
    if finite.any():
        errors.append(float(error.max()))
        wrong |= finite & (error > tolerance.atol + tolerance.rtol * np.abs(np.where(finite, b, 0)))
    return _worst(a, b, wrong)


def _worst(value: Array, wanted: Array, wrong: Array) -> str:
    if not wrong.any():
        return ""
    a, b = value.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.where(wrong, np.nan_to_num(np.abs(a - b), nan=np.inf), -1.0)
    at = np.unravel_index(int(np.argmax(error)), error.shape)
    where = [int(i) for i in at]
    return f"{int(wrong.sum())} of {value.size} elements differ; at {where} {a[at]:.9g}, not {b[at]:.9g}"


def _index(mask: Array) -> list[int]:
    return [int(i) for i in np.argwhere(mask)[0]]
