"""Numbers that say what a list of durations is like. Seconds throughout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any


@dataclass(frozen=True, slots=True)
class Latency:
    """What `count` durations are like: the least, the largest, the mean, and percentiles."""

    count: int
    mean: float
    lowest: float
    p50: float
    p90: float
    p95: float
    p99: float
    highest: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a `share` (0 to 1) of the values lies, linear between neighbours. There is at least one value."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


def latency(seconds: Sequence[float]) -> Latency:
    """What durations are like; there is at least one."""
    p50, p90, p95, p99 = (percentile(seconds, share) for share in (0.5, 0.9, 0.95, 0.99))
    return Latency(len(seconds), fmean(seconds), min(seconds), p50, p90, p95, p99, max(seconds))


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as long one side takes as the other: the median of the blocks' ratios, and the least and largest of them."""

    median: float
    lowest: float
    highest: float
    blocks: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        return {"median": self.median, "lowest": self.lowest, "highest": self.highest, "blocks": list(self.blocks)}


def ratio(blocks: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> Ratio:
    """The ratio of two sides that were measured in turn: of each block's median to that of the other side's block beside it."""
    each = tuple(median(a) / median(b) for a, b in zip(blocks, others, strict=True))
    return Ratio(median(each), min(each), max(each), each)
