"""How far an array is from its reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fornaxc.diagnosis.allowed import DEFAULT, Allowed, AllowedErrors, Chosen
from fornaxc.ir.graph import Array, Graph
from fornaxc.verification.compare import compare_within


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


def deviation(value: Array, reference: Array, allowed: Allowed) -> Deviation:
    """Compare as `verify` compares an output: dtype, shape, NaN, infinities, then what is `allowed`."""
    row = compare_within("", value, reference, allowed)
    if row.max_abs is None:
        return Deviation(np.inf if row.verdict == "fail" else 0.0, np.inf, row.verdict == "fail", row.reason)
    wide = np.abs(np.asarray(reference, np.float64))
    magnitude = float(np.max(wide, where=np.isfinite(wide), initial=0.0))
    scale = magnitude if magnitude > 0 else 1.0
    return Deviation(row.max_abs / scale, row.max_abs, row.verdict == "fail", row.reason)


def differs(
    graph: Graph,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
    references: Sequence[Array],
    chosen: Chosen = DEFAULT,
) -> bool:
    """Whether any output of a graph on these inputs is farther from its reference than the graph, or what is `chosen`, allows."""
    allowed = AllowedErrors(graph, inputs, chosen)
    found = zip(graph.outputs, outputs, references, strict=True)
    return any(deviation(got, wanted, allowed.so_far(value)).failed for value, got, wanted in found)
