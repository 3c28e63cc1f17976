"""The result of a measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from fornaxc.bench.plan import Plan, Run
from fornaxc.bench.statistics import Ratio, latency
from fornaxc.verification.execution import Kernel

SCHEMA = 1  # of the document; raised when a field changes its meaning or goes

NO_TIMES = "MAX's runtime as it is installed lacks the profiler that would tell the time of each"


@dataclass(frozen=True, slots=True)
class Measured:
    """One side: what it is, how long it took to get ready, and its runs, block by block. Memory is in bytes, None where it is not known."""

    name: str
    version: str
    import_seconds: float
    load_seconds: float
    first_run_seconds: float
    memory_after_loading: int | None
    peak_memory: int | None
    blocks: Sequence[Sequence[Run]] = field(repr=False)
    summaries: Sequence[str] = field(default=(), repr=False)

    @property
    def runs(self) -> list[Run]:
        return [run for block in self.blocks for run in block]

    def wholes(self) -> list[list[float]]:
        """The seconds of each run, block by block."""
        return [[run.whole for run in block] for block in self.blocks]

    def to_json(self) -> dict[str, Any]:
        found = latency([run.whole for run in self.runs])
        return {
            "name": self.name,
            "version": self.version,
            "import_seconds": self.import_seconds,
            "load_seconds": self.load_seconds,
            "first_run_seconds": self.first_run_seconds,
            "latency": found.to_json(),
            "runs_per_second": 1 / found.mean,
            "parts": {part: median(getattr(run, part) for run in self.runs) for part in Run._fields},
            "memory_after_loading": self.memory_after_loading,
            "peak_memory": self.peak_memory,
            "blocks": self.wholes(),
        }


@dataclass(frozen=True, slots=True)
class Bench:
    """How fast an artifact runs. `against`, `ratio` and `agreement` are None where it was measured alone.

    `kernels` are the program's, as MAX sums them up. `agreement` holds a comparison per output with the other side's, as `verify` makes it; `ratio` is of the artifact's time to the other's.
    """

    artifact: str
    target: str
    sample: str
    inputs: Sequence[dict[str, Any]]
    seed: int | None
    threads: int
    plan: Plan
    ours: Measured
    against: Measured | None
    ratio: Ratio | None
    agreement: Sequence[dict[str, Any]] | None
    kernels: Sequence[Kernel]
    host_nodes: Sequence[dict[str, Any]]
    environment: dict[str, Any]
    notes: Sequence[str] = ()

    @property
    def exit(self) -> int:
        """The process's exit status: 1 where the two sides computed different numbers."""
        return 1 if any(row["verdict"] == "fail" for row in self.agreement or ()) else 0

    def to_json(self) -> dict[str, Any]:
        return {
            "status": "mismatch" if self.exit else "ok",
            "schema": SCHEMA,
            "artifact": self.artifact,
            "target": self.target,
            "sample": self.sample,
            "inputs": list(self.inputs),
            "seed": self.seed,
            "threads": self.threads,
            "plan": self.plan.to_json(1 if self.against is None else 2),
            "ours": self.ours.to_json(),
            "against": None if self.against is None else self.against.to_json(),
            "ratio": None if self.ratio is None else self.ratio.to_json(),
            "agreement": None if self.agreement is None else list(self.agreement),
            "kernels": {
                "calls": sum(kernel.count for kernel in self.kernels),
                "fused": [kernel.to_json() for kernel in self.kernels],
                "seconds": None,
                "reason": NO_TIMES,
            },
            "host_nodes": list(self.host_nodes),
            "environment": self.environment,
            "notes": list(self.notes),
        }
