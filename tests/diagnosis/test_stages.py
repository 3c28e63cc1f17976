"""Bisection of the import and of the passes, which need no device, and the page that it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mutation_models
import numpy as np
import onnx
import pytest
from mutations import MUTATIONS
from numpy_device import NumpyDevice, stand_in
from onnx import parser

from fornaxc import api
from fornaxc.diagnosis import session
from fornaxc.importers.onnx.context import NodeContext
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Graph, Node
from fornaxc.ir.ops import Binary, Op, Unary
from fornaxc.passes import pipeline
from fornaxc.passes.pipeline import PASSES, Pass
from fornaxc.qualify.programs import Outcome, Program
from fornaxc.verification.oracle import OnnxOracle

EPSILON = "layer_norm_epsilon"


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    path.write_bytes(mutation_models.model(EPSILON, MUTATIONS[EPSILON].build, 2, 2).SerializeToString())
    return path


@pytest.fixture
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(programs: Sequence[Program]) -> Mapping[str, Outcome]:
        raise AssertionError("the device was asked")

    stand_in(monkeypatch, refuse)


@pytest.fixture
def wrong_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The importer takes every epsilon ten times too large."""
    right = NodeContext.float

    def wrong(self: NodeContext, name: str, *default: Any) -> Any:
        return right(self, name, *default) * (10 if name == "epsilon" else 1)

    monkeypatch.setattr(NodeContext, "float", wrong)


def sines_for_tanh(graph: Graph) -> Graph:
    nodes = tuple(replace(n, op=Unary("sin")) if n.op == Unary("tanh") else n for n in graph.nodes)
    return replace(graph, nodes=nodes)


@pytest.mark.usefixtures("no_device", "wrong_epsilon")
def test_a_wrong_import_is_found_at_its_node(model: Path, tmp_path: Path) -> None:
    found = api.bisect(model, growth=tmp_path / "growth.html")
    assert (found.stage, found.found) == ("import", None)
    assert found.source_node.startswith(f"LayerNormalization '{EPSILON}/LayerNormalization_")
    assert found.source_node in found.sentence
    assert (found.to_json()["schema"], found.notes) == (1, ())
    page = (tmp_path / "growth.html").read_text()
    assert "LayerNormalization" in page and "1 outputs compared" in page and "values compared" not in page
    assert "compared with those of onnxruntime." in page and "elements differ by more than the tolerance" in page
    (row,) = found.compared
    assert (row.name, row.verdict, row.oracle) == ("y", "fail", "onnxruntime") and not found.rounding


@pytest.mark.usefixtures("no_device", "wrong_epsilon")
def test_an_import_that_no_node_can_be_blamed_for_says_why(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = OnnxOracle.__init__

    def refuse_taps(self: OnnxOracle, path: Path, *more: Any, **options: Any) -> None:
        if path.name == "tapped.onnx":
            raise RuntimeError("a sequence is no output")
        known(self, path, *more, **options)

    monkeypatch.setattr(OnnxOracle, "__init__", refuse_taps)
    found = api.bisect(model)
    assert (found.stage, found.source_node) == ("import", "")
    assert "could not be named" in found.sentence
    assert len(found.notes) == 1 and "a sequence is no output" in found.notes[0]


@pytest.mark.usefixtures("no_device")
def test_a_wrong_import_of_stablehlo_says_why_it_has_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jaxlib")
    model = tmp_path / "m.mlir"
    model.write_text(
        "func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %a = stablehlo.tanh %x : tensor<4xf32>\n  return %a : tensor<4xf32>\n}\n"
    )
    right = session.import_source

    def wrong(*arguments: Any) -> Any:
        graph, facts = right(*arguments)
        return sines_for_tanh(graph), facts

    monkeypatch.setattr(session, "import_source", wrong)
    found = api.bisect(model)
    assert (found.stage, found.source_node) == ("import", "")
    assert len(found.notes) == 1 and "StableHLO" in found.notes[0]


@pytest.mark.usefixtures("no_device")
def test_a_faulty_pass_is_named(model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    faulty = Pass("faulty", sines_for_tanh, "tanh is sin")
    monkeypatch.setattr(pipeline, "PASSES", (*PASSES[:3], faulty, *PASSES[3:]))
    found = api.bisect(model, growth=tmp_path / "growth.html")
    assert (found.stage, found.pass_name) == ("pass", "faulty")
    assert "--no-pass faulty" in found.sentence
    page = (tmp_path / "growth.html").read_text()
    assert "--no-pass faulty" in page
    assert (
        "the graph after the pass faulty, as numpy computes them, compared with those of the imported graph by numpy."
        in page
    )
    assert found.to_json()["compared"][0]["verdict"] == "fail" and found.to_json()["rounding"] is False


@pytest.mark.usefixtures("no_device")
def test_rounding_is_no_fault_of_the_import(model: Path, tmp_path: Path) -> None:
    found = api.bisect(model, rtol=0.0, atol=0.0, growth=tmp_path / "growth.html")
    assert (found.stage, found.rounding) == ("import", True)
    assert found.sentence.startswith("the import differs from the oracle by rounding alone, which the stated tolerance")
    assert "rounding alone" in (tmp_path / "growth.html").read_text()


@pytest.mark.usefixtures("no_device")
def test_rounding_is_no_fault_of_a_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rounded(graph: Graph) -> Graph:
        b = GraphBuilder.resume(graph)
        for node in graph.nodes:
            b.keep(node)
        factor = b.literal(np.full(4, 1 + 2**-23, np.float32))
        return b.finish([b.emit(Binary("mul"), graph.outputs[0], factor)], graph.output_names)

    model = tmp_path / "m.onnx"
    text = '<ir_version: 8, opset_import: ["" : 18]>\nf (float[4] x) => (float[4] y) { y = Abs(x) }'
    onnx.save(parser.parse_model(text), model)
    monkeypatch.setattr(pipeline, "PASSES", (Pass("rounded", rounded, "the next number"), *PASSES))
    found = api.bisect(model, rtol=0.0, atol=0.0)
    assert (found.stage, found.pass_name, found.rounding) == ("pass", "rounded", True)
    assert found.sentence.startswith(
        "the pass rounded changed rounding alone, which the stated tolerance does not allow"
    )


def test_a_faulty_device_is_on_the_page(model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def wrong(graph: Graph, node: Node) -> Op | None:
        if node.origin.node.startswith("after") and node.op == Unary("tanh"):
            return Unary("sin")
        return None

    stand_in(monkeypatch, NumpyDevice(wrong))
    found = api.bisect(model, growth=tmp_path / "growth.html")
    assert (found.stage, found.found and found.found.kind) == ("device", "node")
    assert found.found is not None and found.found.node is not None
    assert found.found.node.origin.node in (tmp_path / "growth.html").read_text()


def test_nothing_is_said_of_a_model_that_is_right(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, NumpyDevice(lambda graph, node: None))
    assert api.bisect(model).stage == "none"


@pytest.mark.usefixtures("no_device")
def test_a_wrong_import_within_stated_tolerances_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node that is named is one that the tolerances call wrong, not the first that they allow to differ."""
    model = tmp_path / "m.onnx"
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]>\n'
        "f (float[2, 4] x) => (float[2, 4] y, float[2, 4] z) { y = Softmax<axis = 1>(x) z = Softmax<axis = 0>(x) }"
    )
    for node in proto.graph.node:
        node.name = f"makes {node.output[0]}"
    onnx.save(proto, model)
    (tmp_path / "m.tolerances.toml").write_text('[outputs.y]\natol = 2.0\nreason = "coarse"\n')
    right = NodeContext.axis
    monkeypatch.setattr(NodeContext, "axis", lambda self, number, rank: 1 - right(self, number, rank))
    found = api.bisect(model)
    assert (found.stage, found.source_node) == ("import", "Softmax 'makes z'")
    (tmp_path / "m.tolerances.toml").write_text(
        '[outputs.y]\natol = 2.0\nreason = "coarse"\n[outputs.z]\natol = 2.0\nreason = "coarse"\n'
    )
    stand_in(monkeypatch, NumpyDevice(lambda graph, node: None))
    assert api.bisect(model).stage == "none"
