"""Compares outputs with their reference, failing closed: the one rule of `verify` and `qualify`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from fornaxc.ir.graph import Array
from fornaxc.ir.types import DType, dtype_of


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Elements agree where |value - reference| <= atol * scale + rtol * |reference|.

    The scale is max(1, largest |reference|), or 1 where it is not `scaled`.
    """

    rtol: float
    atol: float
    source: str
    scaled: bool = True

    def bounds(self, magnitudes: Array) -> Array:
        """The error that each element may have, from the absolute values of the reference."""
        scale = max(1.0, float(magnitudes.max())) if self.scaled else 1.0
        return np.asarray(self.atol * scale + self.rtol * magnitudes)

    def __str__(self) -> str:
        return f"rtol {self.rtol:g}, atol {self.atol:g}"


_BY_DTYPE = {
    DType.F64: (1e-9, 1e-11),
    DType.F32: (1e-3, 1e-5),
    DType.F16: (1e-2, 2e-3),
    DType.BF16: (2e-2, 1e-2),
}
_SMALL_FLOAT = (0.13, 0.13)  # one unit in the last place of three significand bits


def tolerance_for(
    dtype: DType, rtol: float | None = None, atol: float | None = None, computed: DType | None = None
) -> Tolerance:
    """The tolerance of an element type, or what the user gave. Integers and bool are exact.

    Floats that were `computed` in a coarser type have the tolerance of that one.
    """
    default = _BY_DTYPE.get(dtype, _SMALL_FLOAT) if dtype.is_float else (0.0, 0.0)
    source = f"default for {dtype}" if dtype.is_float else f"exact for {dtype}"
    if dtype in _BY_DTYPE and computed is not None and _BY_DTYPE[computed] > default:
        default, source = _BY_DTYPE[computed], f"default for {computed}, in which a part is computed"
    if rtol is None and atol is None:
        return Tolerance(*default, source=source)
    return Tolerance(default[0] if rtol is None else rtol, default[1] if atol is None else atol, "command line")


@dataclass(frozen=True, slots=True)
class Row:
    """The comparison of one output. Errors are None where nothing could be compared."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    verdict: str
    reason: str = ""
    max_abs: float | None = None
    max_rel: float | None = None
    max_ulp: int | None = None
    worst_index: tuple[int, ...] | None = None
    worst_value: float | None = None
    worst_reference: float | None = None
    tolerance: Tolerance | None = None
    sample: str = ""
    oracle: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "max_abs": _finite(self.max_abs),
            "max_rel": _finite(self.max_rel),
            "max_ulp": self.max_ulp,
            "worst_index": None if self.worst_index is None else list(self.worst_index),
            "worst_value": _finite(self.worst_value),
            "worst_reference": _finite(self.worst_reference),
            "tolerance": None
            if self.tolerance is None
            else {"rtol": self.tolerance.rtol, "atol": self.tolerance.atol, "source": self.tolerance.source},
            "verdict": self.verdict,
            "reason": self.reason,
            "sample": self.sample,
            "oracle": self.oracle,
        }


def _finite(value: float | None) -> float | str | None:
    """JSON has no NaN and no infinity: they are spelled out."""
    return value if value is None or np.isfinite(value) else str(value)


def compare_outputs(
    outputs: Mapping[str, Array],
    references: Mapping[str, Array],
    *,
    rtol: float | None = None,
    atol: float | None = None,
    sample: str = "",
    computed: Mapping[str, DType] = MappingProxyType({}),
) -> list[Row]:
    """One row per output or reference; a name on one side only fails, and so does having nothing to compare.

    `computed` names the coarsest float type behind an output where that is known (see `precision.computed_in`).
    """
    rows = []
    for name in dict.fromkeys([*references, *outputs]):
        if name not in outputs:
            row = Row(name, references[name].shape, str(references[name].dtype), "fail", "the output is missing")
        elif name not in references:
            row = Row(name, outputs[name].shape, str(outputs[name].dtype), "fail", "the oracle has no such output")
        else:
            row = compare_tensor(name, outputs[name], references[name], rtol, atol, computed.get(name))
        rows.append(replace(row, sample=sample))
    return rows


def compare_tensor(
    name: str,
    value: Array,
    reference: Array,
    rtol: float | None = None,
    atol: float | None = None,
    computed: DType | None = None,
) -> Row:
    """As `compare_within`, with what `tolerance_for` says."""
    return compare_within(name, value, reference, lambda dtype: tolerance_for(dtype, rtol, atol, computed))


def compare_within(name: str, value: Array, reference: Array, tolerance_of: Callable[[DType], Tolerance]) -> Row:
    """Compare one output: dtype, shape, NaN positions, infinities, then every element against the tolerance of its type."""
    shape, dtype = value.shape, str(value.dtype)
    if value.dtype != reference.dtype:
        return Row(name, shape, dtype, "fail", f"the element type is {value.dtype}, not {reference.dtype}")
    if shape != reference.shape:
        return Row(name, shape, dtype, "fail", f"the shape is {list(shape)}, not {list(reference.shape)}")
    kind = dtype_of(value.dtype)
    tolerance = tolerance_of(kind)
    if value.size == 0:
        return Row(name, shape, dtype, "empty", "there are no elements to compare", tolerance=tolerance)
    if not kind.is_float:
        return _compare_exact(Row(name, shape, dtype, "pass", tolerance=tolerance), value, reference)
    return _compare_floats(Row(name, shape, dtype, "pass", tolerance=tolerance), value, reference, kind)


def _compare_exact(row: Row, value: Array, reference: Array) -> Row:
    tolerance = row.tolerance
    assert tolerance is not None
    wide_value, wide_reference = value.astype(np.float64), reference.astype(np.float64)
    error = np.abs(wide_value - wide_reference)
    differs = value != reference
    if tolerance.rtol or tolerance.atol:
        differs = error > tolerance.bounds(np.abs(wide_reference))
    worst = np.unravel_index(int(np.argmax(np.where(differs, error + 1, error))), value.shape)
    index = tuple(int(i) for i in worst)
    count = int(np.count_nonzero(differs))
    return replace(
        row,
        verdict="fail" if count else "pass",
        reason=f"{count} of {value.size} elements differ" if count else "",
        max_abs=float(error.max()),
        max_rel=float((error / np.maximum(np.abs(wide_reference), 1)).max()),
        max_ulp=int(error.max()),
        worst_index=index,
        worst_value=float(wide_value[index]),
        worst_reference=float(wide_reference[index]),
    )


def _compare_floats(row: Row, value: Array, reference: Array, kind: DType) -> Row:
    tolerance = row.tolerance
    assert tolerance is not None
    wide, wanted = value.astype(np.float64), reference.astype(np.float64)
    for what, mask in (
        ("NaN", np.isnan(wide) != np.isnan(wanted)),
        ("infinity", np.where(np.isinf(wide) | np.isinf(wanted), wide != wanted, False) & ~np.isnan(wide)),
    ):
        if mask.any():
            index = tuple(int(i) for i in np.argwhere(mask)[0])
            return replace(
                row,
                verdict="fail",
                reason=f"{what} on one side only, in {int(mask.sum())} places",
                worst_index=index,
                worst_value=float(wide[index]),
                worst_reference=float(wanted[index]),
            )
    finite = np.isfinite(wanted)
    error = np.where(finite, np.abs(np.where(finite, wide, 0) - np.where(finite, wanted, 0)), 0.0)
    magnitude = np.where(finite, np.abs(wanted), 0.0)
    excess = np.where(finite, error - tolerance.bounds(magnitude), -np.inf)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(excess)), value.shape))
    count = int(np.count_nonzero(excess > 0))
    with np.errstate(all="ignore"):
        relative = np.where(
            magnitude > 0, error / np.where(magnitude > 0, magnitude, 1), np.where(error > 0, np.inf, 0)
        )
    return replace(
        row,
        verdict="fail" if count else "pass",
        reason=f"{count} of {value.size} elements differ by more than the tolerance" if count else "",
        max_abs=float(error.max()),
        max_rel=float(relative.max()),
        max_ulp=int(ulp_distance(value, reference, kind)[finite].max()) if finite.any() else 0,
        worst_index=index,
        worst_value=float(wide[index]),
        worst_reference=float(wanted[index]),
    )


def ulp_distance(value: Array, reference: Array, kind: DType) -> Array:
    """How many representable numbers lie between two arrays of one float type, elementwise (int64)."""
    bits = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[max(8, kind.bits)]
    low, high = (_ordered(np.ascontiguousarray(a).view(bits), kind) for a in (value, reference))
    return np.asarray(np.abs(np.clip(low - high, -(2.0**62), 2.0**62)), np.int64)


def _ordered(raw: Array, kind: DType) -> Array:
    """Bit patterns as numbers in the order of the values they stand for."""
    sign_bit = 1 << (max(8, kind.bits) - 1) if kind.bits >= 8 else 1 << (kind.bits - 1)
    magnitude = (raw & np.array(sign_bit - 1, raw.dtype)).astype(np.float64 if kind.bits == 64 else np.int64)
    negative = (raw & np.array(sign_bit, raw.dtype)) != 0
    return np.asarray(np.where(negative, -magnitude, magnitude))


def verdict_of(rows: Sequence[Row]) -> str:
    """`pass` only where something was compared and all of it agreed."""
    if any(row.verdict == "fail" for row in rows):
        return "fail"
    return "pass" if any(row.verdict == "pass" for row in rows) else "fail"
