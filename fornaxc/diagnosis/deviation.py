"""How far an array is from its reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fornaxc.ir.graph import Array
from fornaxc.verification.compare import compare_outputs
from fornaxc.verification.tolerances import Tolerances


@dataclass(frozen=True, slots=True)
class Deviation:
    """The largest error over the largest magnitude of the reference (inf where something other than a number differs), and the verdict."""

    relative: float
    max_abs: float
    failed: bool
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "relative": None if np.isinf(self.relative) else self.relative,
            "max_abs": None if np.isinf(self.max_abs) else self.max_abs,
            "failed": self.failed,
            "reason": self.reason,
        }


def deviation(value: Array, reference: Array, rtol: float | None = None, atol: float | None = None) -> Deviation:
    """Compare as `verify` compares an output: dtype, shape, NaN, infinities, then the tolerance of the dtype."""
    [row] = compare_outputs({"": value}, {"": reference}, Tolerances(rtol, atol))
    if row.max_abs is None:
        return Deviation(np.inf if row.verdict == "fail" else 0.0, np.inf, row.verdict == "fail", row.reason)
    wide = np.abs(np.asarray(reference, np.float64))
    magnitude = float(np.max(wide, where=np.isfinite(wide), initial=0.0))
    scale = magnitude if magnitude > 0 else 1.0
    return Deviation(row.max_abs / scale, row.max_abs, row.verdict == "fail", row.reason)
