"""Compares what a case gave with the outputs that the suite ships."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fornaxc.ir.graph import Array
from fornaxc.ir.types import DType
from fornaxc.verification import compare as verification
from fornaxc.verification.compare import compare_within


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Elements agree where |value - expected| <= atol + rtol * |expected|; integers and bool only where they are equal."""

    rtol: float = 1e-3
    atol: float = 1e-5

    def of(self, dtype: DType) -> verification.Tolerance:
        """The rule of `verify`, without its scaling."""
        if not dtype.is_float:
            return verification.Tolerance(0.0, 0.0, "exact")
        return verification.Tolerance(self.rtol, self.atol, "suite", scaled=False)

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
    row = compare_within("", value, wanted, tolerance.of)
    if row.max_abs is not None:
        errors.append(row.max_abs)
    if row.verdict != "fail" or row.worst_index is None:
        return row.reason if row.verdict == "fail" else ""
    return f"{row.reason}; at {list(row.worst_index)} {row.worst_value:.9g}, not {row.worst_reference:.9g}"
