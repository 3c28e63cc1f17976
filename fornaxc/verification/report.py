"""The result of a verification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fornaxc.environment import environment
from fornaxc.verification.compare import Row
from fornaxc.verification.execution import Execution
from fornaxc.verification.statistics import Summary

SCHEMA = 1  # of the document; raised when a field changes its meaning or goes


@dataclass(frozen=True, slots=True)
class Report:
    """`verdict` is pass, fail or unproven: nothing differed, but the target itself did not run, or no input decides any output.

    `executed_on` is the device that ran the artifact, `oracle` where the references came from, `samples` the sizes of
    the symbolic dims tried, `notes` what a reader must know. `unproven` are outputs of which nothing is proven, with the reason; `execution`
    tells what ran where, `dataset` the statistics over many samples; `rows` are then the failures and the worst. `inputs_digest` is that of
    all inputs, and of golden outputs.
    """

    verdict: str
    target: str
    executed_on: str
    oracle: str
    rows: Sequence[Row] = field(repr=False)
    key: str
    samples: Sequence[str] = ()
    notes: Sequence[str] = ()
    host_nodes: Sequence[dict[str, Any]] = ()
    seed: int | None = None
    phases: dict[str, float] = field(default_factory=dict)
    unproven: Mapping[str, str] = field(default_factory=dict)
    execution: Execution | None = None
    dataset: Summary | None = None
    inputs_digest: str | None = None

    environment: dict[str, Any] = field(default_factory=environment, repr=False)

    @property
    def exit(self) -> int:
        """The process's exit status: 1 where something differed."""
        return 1 if self.verdict == "fail" else 0

    @property
    def rules(self) -> list[str]:
        """What decided, in all comparisons, those of a dataset that no row shows included."""
        shown = {row.rule for row in self.rows if row.rule}
        return sorted(shown if self.dataset is None else shown | self.dataset.rules)

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "schema": SCHEMA,
            "target": self.target,
            "executed_on": self.executed_on,
            "oracle": self.oracle,
            "key": self.key,
            "outputs": [row.to_json() for row in self.rows],
            "samples": list(self.samples),
            "notes": list(self.notes),
            "rules": self.rules,
            "unproven_outputs": dict(self.unproven),
            "execution": None if self.execution is None else self.execution.to_json(),
            "dataset": None if self.dataset is None else self.dataset.to_json(),
            "host_nodes": [dict(n) for n in self.host_nodes],
            "seed": self.seed,
            "inputs_digest": self.inputs_digest,
            "phases": self.phases,
            "environment": self.environment,
        }

    def record(self, when: str) -> dict[str, Any]:
        """What is kept of it (`fornaxc.cache.evidence`), and shipped with the artifact."""
        return {
            "when": when,
            "verdict": self.verdict,
            "executed_on": self.executed_on,
            "oracle": self.oracle,
            "seed": self.seed,
            "samples": list(self.samples),
            "inputs_digest": self.inputs_digest,
            "tolerance": sorted({str(row.tolerance) for row in self.rows if row.tolerance is not None}),
            "outputs": [
                {
                    name: row.to_json()[name]
                    for name in ("name", "sample", "oracle", "verdict", "rule", "max_abs", "tolerance")
                }
                for row in self.rows
            ],
            "notes": list(self.notes),
        }
