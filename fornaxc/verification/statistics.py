"""Errors over many samples, in memory that does not grow with their number."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fornaxc.ir.graph import Array
from fornaxc.ir.types import dtype_of

PERCENTILES = (50.0, 90.0, 99.0, 99.9)
_LEAST, _GREATEST = -46, 40  # powers of ten that the classes of a distribution reach over
_CLASSES = 64  # for each power of ten: a percentile is told at most 3.7 % too large
_BLOCK = 1 << 20  # elements worked on at a time
_MANY = 10  # elements of the last axis from which on the first five are compared too


class Distribution:
    """Numbers of 0 and more: their largest, mean and percentiles."""

    def __init__(self) -> None:
        self.count = 0
        self.largest = 0.0
        self._sum = 0.0
        self._zeros = 0
        self._classes = np.zeros((_GREATEST - _LEAST) * _CLASSES, np.int64)

    def add(self, numbers: Array) -> None:
        """Count numbers (f64), of which none is NaN."""
        numbers = np.minimum(numbers, np.finfo(np.float64).max)
        if not numbers.size:
            return
        self.count += numbers.size
        self.largest = max(self.largest, float(numbers.max()))
        self._sum += float(numbers.sum())
        positive = numbers[numbers > 0]
        self._zeros += numbers.size - positive.size
        classes = np.floor((np.log10(positive) - _LEAST) * _CLASSES).astype(np.int64)
        np.add.at(self._classes, np.clip(classes, 0, self._classes.size - 1), 1)

    @property
    def mean(self) -> float:
        return self._sum / self.count if self.count else 0.0

    def percentile(self, share: float) -> float:
        """The number that `share` percent of all do not exceed, as the upper bound of its class, and never beyond the largest."""
        wanted = math.ceil(self.count * share / 100 - 1e-9) - self._zeros
        if wanted <= 0:
            return 0.0
        found = int(np.searchsorted(np.cumsum(self._classes), wanted))
        return float(min(self.largest, 10.0 ** ((found + 1) / _CLASSES + _LEAST)))

    def to_json(self) -> dict[str, float] | None:
        if not self.count:
            return None
        percentiles = {f"p{share:g}": self.percentile(share) for share in PERCENTILES}
        return {"max": self.largest, "mean": self.mean, **percentiles}


@dataclass(slots=True)
class Agreement:
    """How often the largest elements along the last axis are the same: `same` of `count`."""

    same: float = 0.0
    count: int = 0

    @property
    def share(self) -> float | None:
        return self.same / self.count if self.count else None


@dataclass(slots=True)
class OutputStatistics:
    """One output, against one oracle, over samples. Errors are of elements that are finite on both sides; relative ones where the reference
    is not 0."""

    name: str
    oracle: str
    samples: int = 0
    failed: int = 0
    elements: int = 0
    absolute: Distribution = field(default_factory=Distribution)
    relative: Distribution = field(default_factory=Distribution)
    cosines: list[float] = field(default_factory=lambda: [math.inf, 0.0, 0.0])  # the least, the sum, the count
    top1: Agreement = field(default_factory=Agreement)
    top5: Agreement = field(default_factory=Agreement)

    def add(self, value: Array | None, reference: Array | None, failed: bool) -> None:
        """Count a sample; of arrays that are missing, or of different types or shapes, only that they failed."""
        self.samples += 1
        self.failed += failed
        if value is None or reference is None or value.shape != reference.shape or value.dtype != reference.dtype:
            return
        self.elements += value.size
        dot = ours = theirs = 0.0
        with np.errstate(all="ignore"):
            for a, b in _finite_blocks(value, reference):
                error = np.abs(a - b)
                self.absolute.add(error)
                self.relative.add(error[b != 0] / np.abs(b[b != 0]))
                dot, ours, theirs = dot + float(a @ b), ours + float(a @ a), theirs + float(b @ b)
        if ours > 0 and theirs > 0 and math.isfinite(dot) and math.isfinite(ours * theirs):
            cosine = dot / math.sqrt(ours) / math.sqrt(theirs)
            least, total, count = self.cosines
            self.cosines = [min(least, cosine), total + cosine, count + 1]
        if dtype_of(value.dtype).is_float and value.ndim and value.shape[-1] > 1:
            self._rank(value, reference)

    def _rank(self, value: Array, reference: Array) -> None:
        width = value.shape[-1]
        ours, theirs = value.reshape(-1, width), reference.reshape(-1, width)
        rows = max(1, _BLOCK // width)
        for first in range(0, len(ours), rows):
            a, b = (x[first : first + rows].astype(np.float64) for x in (ours, theirs))
            usable = np.isfinite(a).all(1) & np.isfinite(b).all(1)
            a, b = a[usable], b[usable]
            self.top1.count += len(a)
            chosen = np.take_along_axis(b, a.argmax(1)[:, None], 1)[:, 0]
            self.top1.same += int(np.count_nonzero(chosen == b.max(1, initial=-np.inf)))
            if width >= _MANY:
                best = [np.argpartition(x, width - 5, axis=1)[:, -5:] for x in (a, b)]
                self.top5.count += len(a)
                self.top5.same += float((best[0][:, :, None] == best[1][:, None, :]).any(2).mean(1).sum())

    def to_json(self) -> dict[str, Any]:
        least, total, count = self.cosines
        return {
            "name": self.name,
            "oracle": self.oracle,
            "samples": self.samples,
            "failed": self.failed,
            "elements": self.elements,
            "not_finite": self.elements - self.absolute.count,
            "absolute": self.absolute.to_json(),
            "relative": self.relative.to_json(),
            "cosine": {"min": least, "mean": total / count} if count else None,
            "top1": self.top1.share,
            "top5": self.top5.share,
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """`samples` were compared, of which those named `failing` had an output that differed; `outputs` are the statistics of each output and
    oracle, `rules` what decided in any of them."""

    samples: int
    failing: tuple[str, ...]
    outputs: tuple[OutputStatistics, ...]
    rules: frozenset[str] = frozenset()

    @property
    def failed(self) -> int:
        return len(self.failing)

    def to_json(self) -> dict[str, Any]:
        return {
            "samples": self.samples,
            "failed": self.failed,
            "failing": list(self.failing),
            "outputs": [o.to_json() for o in self.outputs],
        }


def _finite_blocks(value: Array, reference: Array) -> Iterator[tuple[Array, Array]]:
    """The elements that are finite on both sides, as f64, in order."""
    ours, theirs = value.reshape(-1), reference.reshape(-1)
    for first in range(0, ours.size, _BLOCK):
        a, b = (x[first : first + _BLOCK].astype(np.float64) for x in (ours, theirs))
        finite = np.isfinite(a) & np.isfinite(b)
        yield a[finite], b[finite]
