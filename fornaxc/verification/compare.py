"""Compares outputs with their reference, failing closed: the one rule of `verify` and `qualify`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from fornaxc.ir.graph import Array
from fornaxc.ir.types import DType, dtype_of


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Elements agree where |value - reference| <= atol * scale + rtol * |reference|, or where at most `ulp` numbers lie between them.

    The scale is max(1, largest |reference| of the element's kind), or 1 where it is not `scaled`, as for integers and an atol that a user
    stated. Elements are of one kind but where one magnitude of at least `GAP` is at least `GAP` times as large as every smaller one, as the
    fill of a mask is: the smaller ones are then of another kind, and these may be again.
    """

    rtol: float
    atol: float
    source: str
    scaled: bool = True
    ulp: int | None = None

    def bounds(self, magnitudes: Array) -> Array:
        """The error that each element may have, from the absolute values of the reference."""
        scale = _scales(magnitudes) if self.scaled and self.atol else 1.0
        return np.asarray(self.atol * scale + self.rtol * magnitudes)

    def to_json(self) -> dict[str, Any]:
        ulp = {} if self.ulp is None else {"ulp": self.ulp}
        return {"rtol": self.rtol, "atol": self.atol, **ulp, "source": self.source}

    def __str__(self) -> str:
        ulp = "" if self.ulp is None else f", ulp {self.ulp}"
        return f"rtol {self.rtol:g}, atol {self.atol:g}{ulp}"


GAP = 1e4  # between the magnitudes of two kinds of elements, and the least of the upper kind


def _scales(magnitudes: Array) -> Array | float:
    """The scale of each element, or the one of all."""
    largest = float(magnitudes.max())
    gaps = _gaps(np.ascontiguousarray(magnitudes, np.float64).reshape(-1)) if largest >= GAP else []
    if not gaps:
        return max(1.0, largest)
    scales = np.maximum(1.0, [*(below for below, _ in gaps), largest])
    return np.asarray(scales[np.searchsorted([above for _, above in gaps], magnitudes, side="right")])


def _gaps(line: Array) -> list[tuple[float, float]]:
    """The magnitudes on both sides of each gap above which there is one magnitude, smallest first. Those that lie so far apart have binades between
    them that hold none."""
    binades = line.view(np.int64) >> 52
    found = []
    for low, high in pairwise(np.flatnonzero(np.bincount(binades)).tolist()):
        if high - low >= np.floor(np.log2(GAP)):
            below = float(np.max(line, where=binades <= low, initial=0.0))
            above = float(np.min(line, where=binades >= high, initial=np.inf))
            if above >= GAP * max(1.0, below):
                found.append((below, above))
    ends = [*found, (float(line.max()), np.inf)]
    return [gap for gap, (top, _) in zip(found, ends[1:], strict=True) if gap[1] == top]


DECADES = tuple(range(-6, 4))
"""The exponents of an error's share of what is allowed that `Row.distribution` counts by."""

NOTHING_FINITE = "no finite element was compared"
"""The reason of a row that passes as NaN and infinities are where the reference has them, and there is nothing else."""

ToleranceOf = Callable[[str, DType], Tolerance]
"""The tolerance of an output, from its name and element type."""

_BY_DTYPE = {
    DType.F64: (1e-9, 1e-11),
    DType.F32: (1e-3, 1e-5),
    DType.F16: (1e-2, 2e-3),
    DType.BF16: (2e-2, 1e-2),
}
_SMALL_FLOAT = (0.13, 0.13)  # one unit in the last place of three significand bits


def tolerance_for(dtype: DType, computed: DType | None = None) -> Tolerance:
    """The tolerance of an element type. Integers and bool are exact; floats that were `computed` in a coarser type have that one's."""
    default = _BY_DTYPE.get(dtype, _SMALL_FLOAT) if dtype.is_float else (0.0, 0.0)
    source = f"default for {dtype}" if dtype.is_float else f"exact for {dtype}"
    if dtype in _BY_DTYPE and computed is not None and _BY_DTYPE[computed] > default:
        default, source = _BY_DTYPE[computed], f"default for {computed}, in which a part is computed"
    return Tolerance(*default, source=source, scaled=dtype.is_float)


def default_tolerance(name: str, dtype: DType) -> Tolerance:
    """What holds for an output of which nothing but its element type is known."""
    return tolerance_for(dtype)


@dataclass(frozen=True, slots=True)
class Row:
    """The comparison of one output. Errors are None where nothing could be compared.

    `rule` names what decided: `presence` (of the output on both sides), `dtype`, `shape`, `empty`, `nan` (its positions), `infinity` (its
    positions and signs), `exact`, `tolerance`, or `float64` (`fornaxc.verification.accuracy`); of an edge set also `run` (the program died)
    and `contested` (the oracles differ there too; the verdict is then `unjudged`). `noise` is the largest difference of
    onnxruntime from itself, by what was changed, and `float64` how far both sides are from the model in double precision.
    `distribution`, of floats that could be compared: the number of elements by decade of their error as a share of what the
    tolerance allows: at most 1e-6, 1e-5, ... 1e3 (`DECADES`), and more than that.
    """

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
    rule: str = ""
    distribution: tuple[int, ...] | None = None
    noise: Mapping[str, float] | None = None
    float64: Mapping[str, Any] | None = None

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
            "tolerance": None if self.tolerance is None else self.tolerance.to_json(),
            "verdict": self.verdict,
            "reason": self.reason,
            "sample": self.sample,
            "oracle": self.oracle,
            "rule": self.rule,
            "distribution": None if self.distribution is None else list(self.distribution),
            "noise": None if self.noise is None else {what: _finite(error) for what, error in self.noise.items()},
            "float64": None if self.float64 is None else dict(self.float64),
        }


def _finite(value: float | None) -> float | str | None:
    """JSON has no NaN and no infinity: they are spelled out."""
    return value if value is None or np.isfinite(value) else str(value)


def compare_outputs(
    outputs: Mapping[str, Array],
    references: Mapping[str, Array],
    tolerance_of: ToleranceOf = default_tolerance,
    *,
    sample: str = "",
) -> list[Row]:
    """One row per output or reference; a name on one side only fails, and so does having nothing to compare."""
    rows = []
    for name in dict.fromkeys([*references, *outputs]):
        if name not in outputs:
            only, reason = references[name], "the output is missing"
            row = Row(name, only.shape, str(only.dtype), "fail", reason, rule="presence")
        elif name not in references:
            only, reason = outputs[name], "the oracle has no such output"
            row = Row(name, only.shape, str(only.dtype), "fail", reason, rule="presence")
        else:
            row = compare_within(name, outputs[name], references[name], partial(tolerance_of, name))
        rows.append(replace(row, sample=sample))
    return rows


def compare_within(name: str, value: Array, reference: Array, tolerance_of: Callable[[DType], Tolerance]) -> Row:
    """Compare one output: dtype, shape, NaN positions, infinities, then every element against the tolerance of its type."""
    shape, dtype = value.shape, str(value.dtype)
    if value.dtype != reference.dtype:
        reason = f"the element type is {value.dtype}, not {reference.dtype}"
        return Row(name, shape, dtype, "fail", reason, rule="dtype")
    if shape != reference.shape:
        reason = f"the shape is {list(shape)}, not {list(reference.shape)}"
        return Row(name, shape, dtype, "fail", reason, rule="shape")
    kind = dtype_of(value.dtype)
    tolerance = tolerance_of(kind)
    if value.size == 0:
        return Row(name, shape, dtype, "empty", "there are no elements to compare", tolerance=tolerance, rule="empty")
    if not kind.is_float:
        rule = "tolerance" if tolerance.rtol or tolerance.atol or tolerance.ulp else "exact"
        return _compare_exact(Row(name, shape, dtype, "pass", tolerance=tolerance, rule=rule), value, reference)
    return _compare_floats(
        Row(name, shape, dtype, "pass", tolerance=tolerance, rule="tolerance"), value, reference, kind
    )


def _compare_exact(row: Row, value: Array, reference: Array) -> Row:
    tolerance = row.tolerance
    assert tolerance is not None
    error, magnitude = _distance(value, reference), np.abs(reference.astype(np.float64))
    differs = value != reference
    if tolerance.rtol or tolerance.atol or tolerance.ulp:
        differs = (error > tolerance.bounds(magnitude)) & (error > (tolerance.ulp or 0))
    count = int(np.count_nonzero(differs))
    worst = np.unravel_index(int(np.argmax(np.where(differs, error, 0) if count else error)), value.shape)
    index = tuple(int(i) for i in worst)
    return replace(
        row,
        verdict="fail" if count else "pass",
        reason=f"{count} of {value.size} elements differ" if count else "",
        max_abs=float(error.max()),
        max_rel=float((error / np.maximum(magnitude, 1)).max()),
        max_ulp=int(error.max()),
        worst_index=index,
        worst_value=int(value[index]),
        worst_reference=int(reference[index]),
    )


def _distance(value: Array, reference: Array) -> Array:
    """|value - reference| of integers or bools, exactly (uint64): a double holds no more than 53 bits."""
    wide = np.uint64 if value.dtype == np.uint64 else np.int64
    a, b = value.astype(wide), reference.astype(wide)
    low, high = np.minimum(a, b).view(np.uint64), np.maximum(a, b).view(np.uint64)
    return np.asarray(high - low)  # modulo 2**64, which is right for negative numbers too


def _compare_floats(row: Row, value: Array, reference: Array, kind: DType) -> Row:
    tolerance = row.tolerance
    assert tolerance is not None
    wide, wanted = value.astype(np.float64), reference.astype(np.float64)
    ours, theirs = np.isnan(wide) & ~np.isnan(wanted), np.isnan(wanted) & ~np.isnan(wide)
    for rule, what, mask in (
        ("nan", f"NaN on one side only ({ours.sum()} in the output, {theirs.sum()} in the reference)", ours | theirs),
        ("infinity", "another infinity, or one on one side only", _other_infinity(wide, wanted)),
    ):
        if mask.any():
            index = tuple(int(i) for i in np.argwhere(mask)[0])
            return replace(
                row,
                verdict="fail",
                reason=f"{what}, in {mask.sum()} place{'s' if mask.sum() > 1 else ''}",
                rule=rule,
                worst_index=index,
                worst_value=float(wide[index]),
                worst_reference=float(wanted[index]),
            )
    finite = np.isfinite(wanted)
    ulps = ulp_distance(value, reference, kind)
    error = np.where(finite, np.abs(np.where(finite, wide, 0) - np.where(finite, wanted, 0)), 0.0)
    magnitude = np.where(finite, np.abs(wanted), 0.0)
    bounds = tolerance.bounds(magnitude)
    excess = np.where(finite, error - bounds, -np.inf)
    if tolerance.ulp is not None:
        excess = np.where(ulps <= tolerance.ulp, np.minimum(excess, 0), excess)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(excess)), value.shape))
    count = int(np.count_nonzero(excess > 0))
    wrong = f"{count} of {value.size} elements differ by more than the tolerance" if count else ""
    with np.errstate(all="ignore"):
        relative = np.where(
            magnitude > 0, error / np.where(magnitude > 0, magnitude, 1), np.where(error > 0, np.inf, 0)
        )
    return replace(
        row,
        verdict="fail" if count else "pass",
        reason=wrong if finite.any() else NOTHING_FINITE,
        max_abs=float(error.max()),
        max_rel=float(relative.max()),
        max_ulp=int(ulps[finite].max()) if finite.any() else 0,
        worst_index=index,
        worst_value=float(wide[index]),
        worst_reference=float(wanted[index]),
        distribution=_distribution(error, bounds),
    )


def _other_infinity(value: Array, reference: Array) -> Array:
    infinite = np.isinf(value) | np.isinf(reference)
    return np.asarray(infinite & (value != reference) & ~np.isnan(value))


def _distribution(error: Array, allowed: Array) -> tuple[int, ...]:
    """How many elements have an error of at most 10^d of what is allowed, decade by decade (`DECADES`), and in the end how many a larger one."""
    with np.errstate(all="ignore"):
        share = np.where(error > 0, error / allowed, 0.0)
    places = np.digitize(share.ravel(), 10.0 ** np.array(DECADES), right=True)
    return tuple(int(count) for count in np.bincount(places, minlength=len(DECADES) + 1))


def differing(value: Array, reference: Array, tolerance: Tolerance) -> Array:
    """Where two arrays of one type and shape do not agree: other numbers, NaN or infinities on one side only."""
    kind = dtype_of(value.dtype)
    if not value.size or not (kind.is_float or tolerance.rtol or tolerance.atol or tolerance.ulp):
        return np.asarray(value != reference)
    wide, wanted = value.astype(np.float64), reference.astype(np.float64)
    finite = np.isfinite(wide) & np.isfinite(wanted)
    error = np.abs(np.where(finite, wide, 0) - np.where(finite, wanted, 0))
    if not kind.is_float:
        error = _distance(value, reference)
    within = error <= tolerance.bounds(np.abs(np.where(np.isfinite(wanted), wanted, 0)))
    if tolerance.ulp is not None:
        within |= (ulp_distance(value, reference, kind) if kind.is_float else error) <= tolerance.ulp
    same = (wide == wanted) | (np.isnan(wide) & np.isnan(wanted))
    return np.asarray(~(same | (finite & within)))


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


def without_numbers(rows: Sequence[Row]) -> list[str]:
    """A note on each output of which some comparison passed without a finite element."""
    samples: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.verdict == "pass" and row.reason.startswith(NOTHING_FINITE):
            samples.setdefault(row.name, {})[row.sample] = None
    return [
        f"of output {name!r} {NOTHING_FINITE}" + (f" on: {', '.join(found)}" if any(found) else "")
        for name, found in samples.items()
    ]


def verdict_of(rows: Sequence[Row]) -> str:
    """`pass` only where something was compared and all of it agreed."""
    if any(row.verdict == "fail" for row in rows):
        return "fail"
    return "pass" if any(row.verdict == "pass" for row in rows) else "fail"
