"""Which oracle judges a model file."""

from __future__ import annotations

from pathlib import Path

from fornaxc.ir.graph import Graph
from fornaxc.sources import WHOLE, Choice, format_of
from fornaxc.verification.oracle import GraphOracle, OnnxOracle, Oracle
from fornaxc.verification.stablehlo_oracle import BothOracles, InterpreterOracle


def oracle_of(path: Path, graph: Graph, choice: Choice = WHOLE) -> Oracle:
    """The oracle of a model file: onnxruntime on the file itself; of StableHLO, onnxruntime on the exported graph, and beside
    it StableHLO's own interpreter on the file."""
    if format_of(path) == "onnx":
        return OnnxOracle(path)
    interpreter = InterpreterOracle(path, choice.entry, choice.frozen(), graph.output_names)
    return BothOracles(GraphOracle(graph), interpreter)
