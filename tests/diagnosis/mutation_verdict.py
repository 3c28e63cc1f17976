"""What `verify` says of the outputs of a model with a planted fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import mutation_models
import numpy as np

from fornaxc.diagnosis.edits import Case
from fornaxc.diagnosis.writing import write_case
from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.ir.graph import Array, Graph, Origin
from fornaxc.verification.compare import verdict_of
from fornaxc.verification.float64 import InDouble
from fornaxc.verification.oracle import OnnxOracle
from fornaxc.verification.tolerances import tolerances_of
from fornaxc.verification.verify import Sample, compare_sample

X = np.random.default_rng(3).standard_normal(mutation_models.SHAPE).astype(np.float32)


def verdict_on(path: Path, graph: Graph, outputs: Sequence[Array]) -> str:
    """By the tolerances of the model at `path`, which was imported as `graph`, and by the rule `float64`."""
    sample = Sample("static", {"x": X}, OnnxOracle(path)({"x": X}))
    named = dict(zip(graph.output_names, outputs, strict=True))
    return verdict_of(compare_sample(sample, named, tolerances_of(graph), InDouble(graph, path)))


def read_back(name: str, case: Case, folder: Path) -> Case:
    """The case as its file gives it, its nodes named so that the fault is planted there too."""
    path = folder / f"{name}.onnx"
    write_case(case, path)
    assert name.encode() not in path.read_bytes()
    graph = import_onnx(path)
    nodes = tuple(
        replace(n, origin=Origin(f"{name}/{i}", n.origin.op, n.origin.opset)) for i, n in enumerate(graph.nodes)
    )
    return Case(replace(graph, nodes=nodes), case.inputs)
