"""The result of a measurement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from fornaxc.bench.plan import Plan, Run
from fornaxc.bench.statistics import Ratio, latency

SCHEMA = 1  # of the document; raised when a field changes its meaning or goes

NO_TIMES = "MAX's runtime as it is installed has no profiler, and its list of kernels names no source nodes"
_OVERHEAD = ("mgp.", "index.", "pop.")


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
    kernels: Sequence[str] = field(default=(), repr=False)

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

    `agreement` holds a comparison per output with the other side's, as `verify` makes it; `ratio` is of the artifact's time to the other's.
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
            "kernels": kernels(self.ours.kernels),
            "host_nodes": list(self.host_nodes),
            "environment": self.environment,
            "notes": list(self.notes),
        }


def kernels(summaries: Sequence[str]) -> dict[str, Any]:
    """What is known of a program's kernels: which operations each fuses, and how often it is called. Times and source nodes are not."""
    names = Counter(name for name in map(computation, summaries) if name)
    return {
        "calls": names.total(),
        "fused": [{"operations": name, "calls": count} for name, count in names.most_common()],
        "seconds": None,
        "source_nodes": None,
        "reason": NO_TIMES,
    }


def computation(summary: str) -> str:
    """What a kernel of MAX computes: its summary without the arithmetic of sizes and buffers around it; "" where nothing is left."""
    inner = summary.removeprefix("Sequence(").removesuffix(")") if summary.startswith("Sequence(") else summary
    kept = [part for part in _parts(inner) if not part.startswith(_OVERHEAD)]
    return ", ".join(kept)


def _parts(text: str) -> list[str]:
    """The parts that commas outside brackets divide a text into."""
    parts, depth, begun = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(text[begun:place].strip())
            begun = place + 1
    return [*parts, text[begun:].strip()]
