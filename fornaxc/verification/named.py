"""The oracles that a user can name, each for a model file of either format or for the program of an artifact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fornaxc.errors import UsageError
from fornaxc.ir.graph import Array, Graph
from fornaxc.sources import WHOLE, Choice, format_of
from fornaxc.verification.departures import departures
from fornaxc.verification.oracle import (
    GraphOracle,
    OnnxOracle,
    Oracle,
    OracleRefused,
    Reference,
    evaluated,
    interpreted,
)
from fornaxc.verification.several import SeveralOracles
from fornaxc.verification.stablehlo_oracle import InterpreterOracle

ORACLES = {
    "ort": "onnxruntime with its optimiser",
    "ort-noopt": "onnxruntime without it (ORT_DISABLE_ALL)",
    "onnx-reference": "onnx's ReferenceEvaluator",
    "stablehlo-reference": "StableHLO's own interpreter, for StableHLO",
    "numpy": "the numpy interpreter of the imported graph",
    "golden": "the outputs of --expected",
}


class Subject:
    """What oracles are asked about: an ONNX file, or a graph, which is exported to ONNX for those that need a file."""

    def __init__(self, graph: Graph, path: Path | None, choice: Choice = WHOLE, noise: bool | None = None) -> None:
        self.graph = graph
        self.path = path
        self.choice = choice
        self.is_stablehlo = path is not None and format_of(path) == "stablehlo"
        self.is_exported = path is None or self.is_stablehlo
        self.base = GraphOracle(graph, noise) if path is None or self.is_stablehlo else OnnxOracle(path, noise)

    def label(self, name: str) -> str:
        """An oracle's name in reports, which tells whether it was given an exported graph."""
        return f"{name} (exported graph)" if self.is_exported else name


def named_oracles(names: Sequence[str], subject: Subject) -> Oracle:
    """Every oracle named, `golden` apart; each that answers is compared with, and the others are told.

    Raises UsageError (FX236) where one is not for this format.
    """
    check_named(names, subject.path)
    return SeveralOracles(*(_Named(n, subject) for n in dict.fromkeys(names) if n != "golden"))


def check_named(names: Sequence[str], path: Path | None) -> None:
    """Raise UsageError (FX236) where an oracle is not for the format of a model file, or for an artifact without one."""
    if "stablehlo-reference" in names and (path is None or format_of(path) != "stablehlo"):
        raise UsageError(
            "stablehlo-reference evaluates StableHLO modules only",
            code="FX236",
            hint="name another oracle, or give the source module of the artifact with --model",
        )


class _Named:
    def __init__(self, name: str, subject: Subject) -> None:
        self._name = name
        self._subject = subject

    def __call__(self, inputs: Mapping[str, Array]) -> Reference:
        name, subject = self._name, self._subject
        if name == "numpy":
            return Reference(interpreted(subject.graph, inputs), "numpy-interpreter")
        if name == "stablehlo-reference":
            assert subject.path is not None
            frozen, entry = subject.choice.frozen(), subject.choice.entry
            return InterpreterOracle(subject.path, entry, frozen, subject.graph.output_names)(inputs)
        subject.base.check_sizes(inputs)
        path = subject.base.file()
        if name == "onnx-reference":
            return Reference(evaluated(path, inputs), subject.label(name))
        known = departures(path, name)
        if known:
            raise OracleRefused("; ".join(known))
        outputs = subject.base.onnxruntime(inputs, optimise=name == "ort")
        noise, notes = subject.base.noise(inputs, **{"optimised" if name == "ort" else "plain": outputs})
        return Reference(outputs, subject.label(name), notes, noise=noise)
