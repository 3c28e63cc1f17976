"""As accurate as the oracle: whether an output that misses its tolerance is no farther from the exact result than onnxruntime's.

Errors are measured from the model in double precision, in units of the plain tolerance (1: at its bound). Rounding errors of two
implementations are of the same kind: as large, as many, and large at the same elements, the ill-conditioned ones. A fault is not. So the
rule holds where every element of ours is within the tolerance of the exact result, and else only where

- onnxruntime is within `FARTHEST` tolerances of the exact result: beyond that its numbers prove nothing;
- sorted by size, each of our errors is at most `MARGIN` times onnxruntime's, or within the tolerance;
- of our elements outside the tolerance at least `TOGETHER` have an error of at most `NEAR` times onnxruntime's at the same element.

NaN and infinities must be where onnxruntime's are in double precision too. Integers and bools are never judged by it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fornaxc.ir.graph import Array
from fornaxc.verification.compare import Tolerance

MARGIN = 2.0
FARTHEST = 10.0
NEAR = 10.0
TOGETHER = 0.8
IMPORT_AGREES = Tolerance(1e-6, 2e-7, "a tenth of the least tolerance of f32")


@dataclass(frozen=True, slots=True)
class Errors:
    """Of one side, from the exact result: the largest error, the root of the mean square, and the largest in tolerances."""

    max_abs: float
    rms: float
    tolerances: float

    def to_json(self) -> dict[str, Any]:
        return {"max_abs": self.max_abs, "rms": self.rms, "tolerances": self.tolerances}


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How far both sides are from the exact result, and why the rule does not hold; "" where it does."""

    ours: Errors | None
    oracle: Errors | None
    why_not: str


def accuracy(
    value: Array, reference: Array, exact: Array, tolerance: Tolerance, whose: str = "onnxruntime"
) -> Accuracy:
    """Compare an output and its reference, which is `whose`, with the exact result (f64, of the same shape)."""
    if not value.size or not value.shape == reference.shape == exact.shape or exact.dtype != np.float64:
        return Accuracy(None, None, "there is nothing to compare in double precision")
    ours, oracle = value.astype(np.float64), reference.astype(np.float64)
    if not _same_specials(oracle, exact) or not _same_specials(ours, exact):
        return Accuracy(None, None, "NaN or infinities are elsewhere in double precision")
    numbers = np.isfinite(exact)
    if not numbers.any():
        return Accuracy(None, None, "there are no finite numbers")
    truth = exact[numbers]
    bounds = np.maximum(tolerance.bounds(np.abs(truth)), np.finfo(np.float64).tiny)
    off, theirs = np.abs(ours[numbers] - truth), np.abs(oracle[numbers] - truth)
    return Accuracy(_errors(off, bounds), _errors(theirs, bounds), _why_not(off / bounds, theirs / bounds, whose))


def _why_not(ours: Array, theirs: Array, whose: str) -> str:
    """From the errors of each element in tolerances."""
    if ours.max() <= 1.0:
        return ""
    if theirs.max() > FARTHEST:
        return f"{whose} itself is {theirs.max():.3g} tolerances from float64"
    allowed = np.maximum(1.0, MARGIN * np.sort(theirs))
    if (np.sort(ours) > allowed).any():
        return (
            f"our errors from float64 are larger than {whose}'s: {ours.max():.3g} against {theirs.max():.3g} tolerances"
        )
    outside = ours > 1.0
    apart = int(np.count_nonzero(ours[outside] > NEAR * theirs[outside]))
    if apart > math.floor((1 - TOGETHER) * np.count_nonzero(outside) + 1e-9):
        return f"{apart} elements are wrong where {whose}'s are right"
    return ""


def _errors(off: Array, bounds: Array) -> Errors:
    return Errors(float(off.max()), float(np.sqrt(np.mean(off * off))), float((off / bounds).max()))


def _same_specials(a: Array, b: Array) -> bool:
    """Whether NaN and infinities, with their signs, are at the same elements."""
    same_nan = np.array_equal(np.isnan(a), np.isnan(b))
    infinite = np.isinf(a) | np.isinf(b)
    return same_nan and np.array_equal(a[infinite], b[infinite])
