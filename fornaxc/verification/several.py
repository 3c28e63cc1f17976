"""Several oracles for one model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fornaxc.ir.graph import Array
from fornaxc.verification.compare import compare_outputs
from fornaxc.verification.oracle import Oracle, OracleRefused, Reference


class SeveralOracles:
    """Every oracle for each sample. Where one refuses the others decide; where two disagree, the reference says so."""

    def __init__(self, *oracles: Oracle) -> None:
        self._oracles = oracles

    def __call__(self, inputs: Mapping[str, Array]) -> Reference:
        found: list[Reference] = []
        refusals: list[str] = []
        for oracle in self._oracles:
            try:
                found.append(oracle(inputs))
            except OracleRefused as refusal:
                refusals.append(f"one oracle gave no reference: {refusal}")
        if not found:
            raise OracleRefused("; ".join(refusals))
        return together(found, refusals)


def reference_beside(first: Reference, oracle: Oracle, inputs: Mapping[str, Array]) -> Reference:
    """A reference that is known with those of an oracle, or with the note that it refused."""
    try:
        found = oracle(inputs)
    except OracleRefused as refusal:
        return together([first], [f"one oracle gave no reference: {refusal}"])
    return together([first, replace(found, others=()), *found.others], [])


def together(found: list[Reference], refusals: list[str]) -> Reference:
    """The first reference with the others beside it, the notes of all, and a note for each disagreement with the first."""
    first, *others = found
    notes = [note for reference in found for note in reference.notes] + refusals
    notes += [d for other in others for d in _disagreements(first, other)]
    return replace(first, notes=tuple(dict.fromkeys(notes)), others=tuple(others))


def _disagreements(first: Reference, second: Reference) -> list[str]:
    """A sentence for each output that two oracles give differently."""
    return [
        f"the oracles disagree on {row.name!r}: {first.oracle} against {second.oracle}: {row.reason or 'values differ'}"
        for row in compare_outputs(first.outputs, second.outputs)
        if row.verdict == "fail"
    ]
