"""The result of a comparison of two artifacts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fornaxc.bench.plan import Plan
from fornaxc.bench.report import Measured
from fornaxc.bench.statistics import Ratio
from fornaxc.verification.compare import Row

SCHEMA = 1  # of the document; raised when a field changes its meaning or goes


@dataclass(frozen=True, slots=True)
class Side:
    """One artifact: where it is, what it is for, the bytes of its parts, and why it cannot run here ("" where it can)."""

    path: str
    key: str
    target: str
    max_version: str
    sizes: dict[str, int]
    cannot_run: str

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "key": self.key,
            "target": self.target,
            "max": self.max_version,
            "sizes": self.sizes,
            "cannot_run": self.cannot_run or None,
        }


@dataclass(frozen=True, slots=True)
class Speed:
    """The two artifacts measured in turn; `ratio` is the second's time to the first's, `limit` what it may be (None: anything)."""

    plan: Plan
    threads: int
    a: Measured
    b: Measured
    ratio: Ratio
    limit: float | None

    @property
    def is_slower(self) -> bool:
        """Whether the second is slower than it may be: in every block, so that a noisy machine is no regression."""
        return self.limit is not None and self.ratio.lowest > self.limit

    def to_json(self) -> dict[str, Any]:
        return {
            "plan": self.plan.to_json(2),
            "threads": self.threads,
            "a": self.a.to_json(),
            "b": self.b.to_json(),
            "ratio": self.ratio.to_json(),
            "max_slowdown": self.limit,
            "slower": self.is_slower,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """`verdict` is fail where the signatures cannot stand for each other, an output differs or the second is slower than it may be; unproven
    where nothing of that is so, but no outputs were compared (`not_compared` says why); else pass.

    `rows` compare the second's outputs with the first's. `kernels` is None where not both ran, `speed` where it was not measured.
    """

    a: Side
    b: Side
    signature: Sequence[dict[str, Any]]
    manifest: Sequence[dict[str, Any]]
    operations: Sequence[dict[str, Any]]
    kernels: Sequence[dict[str, Any]] | None
    rows: Sequence[Row]
    samples: Sequence[str]
    not_compared: str
    speed: Speed | None
    seed: int | None
    environment: dict[str, Any] = field(repr=False)
    notes: Sequence[str] = ()

    @property
    def verdict(self) -> str:
        broken = any(difference["breaks"] for difference in self.signature)
        differ = any(row.verdict == "fail" for row in self.rows)
        if broken or differ or (self.speed is not None and self.speed.is_slower):
            return "fail"
        return "pass" if any(row.verdict == "pass" for row in self.rows) else "unproven"

    @property
    def exit(self) -> int:
        """The process's exit status: 1 where the second cannot take the first's place."""
        return 1 if self.verdict == "fail" else 0

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "schema": SCHEMA,
            "a": self.a.to_json(),
            "b": self.b.to_json(),
            "same_code": self.a.key == self.b.key,
            "signature": list(self.signature),
            "manifest": list(self.manifest),
            "operations": list(self.operations),
            "kernels": None if self.kernels is None else list(self.kernels),
            "outputs": [row.to_json() for row in self.rows],
            "samples": list(self.samples),
            "not_compared": self.not_compared or None,
            "speed": None if self.speed is None else self.speed.to_json(),
            "seed": self.seed,
            "environment": self.environment,
            "notes": list(self.notes),
        }
