"""The result of a qualification: totals and one row per case, as JSON and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fornaxc.qualify.cases import Result

VERDICTS = ("pass", "mismatch", "refused", "failed")


@dataclass(frozen=True, slots=True)
class Qualification:
    """What became of a suite for a target. `inputs` is `run-time` (as shipped) or `frozen`; `gaps` is how it differs from the list of known gaps."""

    suite: str
    target: str
    inputs: str
    executed_on: str | None
    results: Sequence[Result]
    versions: dict[str, str]
    seconds: float
    gaps: Sequence[str] = ()
    gaps_checked: bool = False

    @property
    def totals(self) -> dict[str, int]:
        """Cases by verdict. `compiled` only where the target's code was not run."""
        counts = Counter(r.verdict for r in self.results)
        shown = (*VERDICTS, "compiled") if self.executed_on is None else VERDICTS
        return {verdict: counts[verdict] for verdict in shown}

    @property
    def exit(self) -> int:
        """1 where a case gave a wrong value or failed, or the known gaps are not what was found; else 0."""
        unknown = self.totals["mismatch"] + self.totals["failed"]
        return 1 if self.gaps or (unknown and not self.gaps_checked) else 0

    def to_json(self) -> dict[str, Any]:
        return {
            "suite": self.suite,
            "target": self.target,
            "inputs": self.inputs,
            "executed_on": self.executed_on,
            "totals": self.totals,
            "versions": self.versions,
            "seconds": round(self.seconds, 1),
            "gaps": {"checked": self.gaps_checked, "differences": list(self.gaps)},
            "cases": [r.to_json() for r in self.results],
        }
