"""No name of the source is in what `reduce` writes, whatever the model is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy_device import stand_in
from onnx import parser

from fornaxc import api
from fornaxc.diagnosis.edits import Case
from fornaxc.diagnosis.names import anonymous
from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.ir.checker import check as check_graph
from fornaxc.ir.dims import symbol
from fornaxc.ir.graph import Constraint, Graph
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import If
from fornaxc.ir.printer import print_graph
from fornaxc.qualify.programs import Outcome, Program

SECRET = "secret"
BRANCHES = """
<ir_version: 8, opset_import: ["" : 18]>
secret_graph (float[secret_rows, 4] secret_x, bool secret_flag) => (float[secret_rows, secret_columns] secret_y) {
    [secret_if] secret_y = If<
        then_branch = secret_then () => (float[secret_rows, 4] secret_a)
        <float[4] secret_bias = {123.25, 1, 2, 3}, float[4, 4] secret_w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 456.5}> {
            [secret_product] secret_p = MatMul(secret_x, secret_w)
            [secret_sum] secret_a = Add(secret_p, secret_bias)
        },
        else_branch = secret_else () => (float[secret_rows, 4] secret_b) <float[4] secret_scale = {123.25, 7, 8, 9}> {
            [secret_twice] secret_d = Add(secret_x, secret_x)
            [secret_scaling] secret_b = Mul(secret_d, secret_scale)
        }>(secret_flag)
}
"""
LOOP = """
<ir_version: 8, opset_import: ["" : 18]>
secret_graph (float[secret_rows, 4] secret_x, int64 secret_trips) => (float[secret_rows, 4] secret_y) <bool secret_go = {1}> {
    [secret_loop] secret_y = Loop<
        body = secret_body (int64 secret_i, bool secret_on, float[secret_rows, 4] secret_carried)
            => (bool secret_again, float[secret_rows, 4] secret_next) <float[4] secret_bias = {123.25, 1, 2, 3}> {
            secret_again = Identity(secret_on)
            [secret_sum] secret_next = Add(secret_carried, secret_bias)
        }>(secret_trips, secret_go, secret_x)
}
"""
NUMBERS = [np.float32(number).tobytes() for number in (123.25, 456.5)]


def imported(text: str, folder: Path) -> Graph:
    path = folder / "m.onnx"
    onnx.save(parser.parse_model(text), path)
    return import_onnx(path)


def wrong(programs: Sequence[Program]) -> Mapping[str, Outcome]:
    """A device whose outputs are off by one where there is control flow."""

    def outputs(program: Program) -> list[list[np.ndarray]]:
        off = any(node.regions for node in program.graph.nodes)
        return [[a + off for a in run(program.graph, inputs)] for inputs in program.runs]

    return {p.name: Outcome("ok", "run", outputs=outputs(p)) for p in programs}


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("text", [BRANCHES, LOOP])
def test_nothing_of_a_model_with_control_flow_is_written(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "m.onnx"
    onnx.save(parser.parse_model(text), model)
    stand_in(monkeypatch, wrong)
    found = api.reduce(model, tmp_path / "small.onnx")
    assert (found.reduced.own_weights, found.reduced.own_inputs, found.reproduced) == (False, False, True)
    assert any(node.regions for node in found.reduced.case.graph.nodes)
    assert [f.name for f in found.files] == ["small.onnx", "small.npz", "small.md"]
    for file in found.files:
        content = file.read_bytes()
        assert SECRET.encode() not in content
        assert not any(number in content for number in NUMBERS)


@pytest.mark.parametrize("text", [BRANCHES, LOOP])
def test_other_names_mean_the_same(text: str, tmp_path: Path) -> None:
    graph = imported(text, tmp_path)
    steered = np.array(True) if text is BRANCHES else np.array(2)
    inputs = (np.arange(12, dtype=np.float32).reshape(3, 4), steered)
    found = anonymous(Case(graph, inputs)).graph
    check_graph(found)
    assert SECRET in print_graph(graph) and SECRET not in print_graph(found)
    assert "f32[n0, 4]" in print_graph(found)
    for ours, theirs in zip(run(found, inputs), run(graph, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_names_in_fields_and_conditions_go(tmp_path: Path) -> None:
    """A size may be named by the types of an operation and by conditions alone; and n0 may be a name already."""
    graph = imported(BRANCHES.replace("secret_rows", "n1").replace("secret_columns", "n0"), tmp_path)
    b = Graph(
        graph.inputs,
        graph.outputs,
        graph.nodes,
        graph.constants,
        graph.output_names,
        (Constraint(symbol("n1") * 2, ">=", symbol("secret_least"), "secret_reason"),),
    )
    found = anonymous(Case(b, (np.ones((2, 4), np.float32), np.array(True)))).graph
    check_graph(found)
    (branch,) = [n for n in found.nodes if isinstance(n.op, If)]
    assert isinstance(branch.op, If) and branch.op.types[0].shape == found.inputs[0].type.shape == (symbol("n0"), 4)
    assert str(found.constraints[0]) == "2*n0 >= n1" and SECRET not in found.constraints[0].why
