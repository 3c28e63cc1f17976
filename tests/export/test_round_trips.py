"""Graphs of other suites through the export: the onnx package's node cases, imported first, and the lowering's cases."""

from __future__ import annotations

from collections import Counter
from importlib import import_module

import numpy as np
import pytest
from exported import agree
from node_cases import VARIANTS, cases, difference
from node_cases import _posed as posed

from fornaxc.errors import FornaxError
from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import model_from_proto
from fornaxc.ir.binding import ShapeMismatch
from fornaxc.ir.interpreter import run
from fornaxc.verification.oracle import GraphOracle

LEAST = {"runtime": 1500, "constant": 850, "symbolic": 1600}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_node_cases_come_back_with_their_values(variant: str) -> None:
    """Import, export, onnxruntime: no value differs from the interpreter's; what onnxruntime cannot run is of a type that it lacks."""
    counts: Counter[str] = Counter()
    problems = []
    for case in cases():
        question = posed(case, variant)
        if question is None:
            continue
        model, inputs = question
        try:
            graph = import_model(model_from_proto(model), {})
        except FornaxError:
            counts["not imported"] += 1
            continue
        try:
            with np.errstate(all="ignore"):
                wanted = run(graph, inputs)
        except ShapeMismatch:  # sizes that are equal in the case have one name, where the model wants them to differ
            counts["sizes do not fit"] += 1
            continue
        reference = GraphOracle(graph)(dict(zip(graph.input_names, inputs, strict=True)))
        if reference.oracle == "numpy-interpreter":
            counts["refused"] += 1
            if "onnxruntime has no tensors of" not in reference.notes[0] and "the bits of" not in reference.notes[0]:
                problems.append(f"{case.name}: {reference.notes[0]}")
            continue
        wrong = [difference(w, reference.outputs[n]) for n, w in zip(graph.output_names, wanted, strict=True)]
        counts["wrong" if any(wrong) else "equal"] += 1
        problems += [f"{case.name}: {w}" for w in wrong if w]
    print(variant, dict(counts))
    assert not problems, "\n".join(problems)
    assert counts["equal"] >= LEAST[variant], counts


@pytest.mark.slow
@pytest.mark.parametrize("module", ["test_elementwise", "test_shape", "test_compute"])
def test_the_cases_of_the_lowering_agree(module: str) -> None:
    suite = import_module(module).SUITE
    problems = []
    for name, (_, graph, inputs) in suite.cases.items():
        try:
            agree(graph, inputs, suite.tolerances[name], suite.expected[name])
        except AssertionError as error:
            problems.append(f"{name}: {str(error)[:300]}")
    assert not problems, "\n".join(problems)
