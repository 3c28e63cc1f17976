"""Which oracle judges a model file, or the program of an artifact."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fornaxc.ir.graph import Graph
from fornaxc.sources import WHOLE, Choice
from fornaxc.verification.named import Subject, named_oracles
from fornaxc.verification.oracle import Oracle
from fornaxc.verification.several import SeveralOracles
from fornaxc.verification.stablehlo_oracle import InterpreterOracle


def oracle_of(
    path: Path | None, graph: Graph, choice: Choice = WHOLE, names: Sequence[str] = (), noise: bool | None = None
) -> Oracle:
    """The oracles named, or by default: of an ONNX file, onnxruntime on the file itself; of StableHLO, onnxruntime on the exported graph, and
    beside it StableHLO's own interpreter on the file; without a file, onnxruntime on the exported graph.

    `noise`: whether onnxruntime's disagreement with itself is measured; None: of models that are not large. Raises UsageError where
    an oracle is not for this format.
    """
    subject = Subject(graph, path, choice, noise)
    if names:
        return named_oracles(names, subject)
    if path is None or not subject.is_stablehlo:
        return subject.base
    return SeveralOracles(subject.base, InterpreterOracle(path, choice.entry, choice.frozen(), graph.output_names))
