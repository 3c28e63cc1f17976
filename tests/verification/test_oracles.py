"""Oracles by name, where one refuses or is known to be wrong, and onnxruntime's disagreement with itself. Nothing here needs MAX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from fornaxc.errors import UsageError
from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.ir.graph import Graph
from fornaxc.verification import departures as table
from fornaxc.verification import ort_runs
from fornaxc.verification.departures import Departure, departures
from fornaxc.verification.oracle import OracleRefused, Reference
from fornaxc.verification.oracle_of import oracle_of
from fornaxc.verification.ort_runs import difference

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
f (float[n, 3] x) => (float[n, 3] y) { s = Softmax<axis = 1>(x) y = Relu(s) }
"""
BODY = """
<ir_version: 8, opset_import: ["" : 17]>
f (float[3] x, bool c) => (float[3] y) {
    y = If<then_branch = then () => (float[3] a) { a = Relu(x) }, else_branch = other () => (float[3] b) { b = Neg(x) }>(c)
}
"""
X = np.array([[1, 2, 3], [0, -1, 4]], np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(parser.parse_model(MODEL), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.fixture
def graph(model: Path) -> Graph:
    return import_onnx(model)


def known(*oracles: str, operator: str = "Relu", since: int = 14) -> Departure:
    return Departure(oracles, operator, (since,), lambda node: True, "it rounds", ("test_case",), "1.0")


def all_of(found: Reference) -> list[str]:
    return [found.oracle, *(o.oracle for o in found.others)]


def test_every_oracle_named_is_asked(model: Path, graph: Graph) -> None:
    found = oracle_of(model, graph, names=["numpy", "ort", "onnx-reference", "ort-noopt"])({"x": X})
    assert all_of(found) == ["numpy-interpreter", "ort", "onnx-reference", "ort-noopt"] and found.notes == ()
    wanted = np.exp(X) / np.exp(X).sum(axis=1, keepdims=True)
    for reference in (found, *found.others):
        np.testing.assert_allclose(reference.outputs["y"], wanted, rtol=1e-5)


def test_an_artifact_alone_is_judged_by_its_exported_graph(graph: Graph) -> None:
    found = oracle_of(None, graph, names=["ort", "numpy"])({"x": X})
    assert all_of(found) == ["ort (exported graph)", "numpy-interpreter"]
    assert oracle_of(None, graph)({"x": X}).oracle == "onnxruntime (exported graph)"


def test_an_oracle_of_the_other_format_is_a_usage_error(model: Path, graph: Graph) -> None:
    for path in (model, None):
        with pytest.raises(UsageError, match="StableHLO modules only") as raised:
            oracle_of(path, graph, names=["ort", "stablehlo-reference"])
        assert raised.value.code == "FX236"


def test_where_one_refuses_the_next_decides(model: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(self: object, *args: object, **options: object) -> None:
        raise OracleRefused("no kernel for this")

    monkeypatch.setattr(ort_runs.OrtRuns, "__call__", refuses)
    found = oracle_of(model, graph, names=["ort", "onnx-reference"])({"x": X})
    assert all_of(found) == ["onnx-reference"]
    assert found.notes == ("one oracle gave no reference: no kernel for this",)
    assert oracle_of(model, graph)({"x": X}).oracle == "onnx-reference"
    with pytest.raises(OracleRefused, match="no kernel for this"):
        oracle_of(model, graph, names=["ort", "ort-noopt"])({"x": X})


def test_what_is_known_to_be_off_specification_does_not_decide(
    model: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "TABLE", (known("ort"),))
    named = oracle_of(model, graph, names=["ort", "ort-noopt"])({"x": X})
    assert all_of(named) == ["ort-noopt"] and known("ort").sentence("ort") in named.notes[0]
    assert oracle_of(model, graph)({"x": X}).oracle == "onnxruntime"  # whose numbers are those of ort-noopt
    monkeypatch.setattr(table, "TABLE", (known("ort-noopt"),))
    default = oracle_of(model, graph)({"x": X})
    assert default.oracle == "onnx-reference" and default.notes == (known("ort-noopt").sentence("ort-noopt"),)
    monkeypatch.setattr(table, "TABLE", (known("ort-noopt", "onnx-reference"),))
    with pytest.raises(OracleRefused, match=r"ort-noopt is off.*onnx-reference is off.*seen with onnx 1\.0"):
        oracle_of(model, graph)({"x": X})


@pytest.mark.parametrize(
    ("entry", "applies"),
    [
        (known("ort"), True),
        (known("ort", since=13), False),
        (known("ort-noopt"), False),
        (known("ort", operator="Neg", since=13), True),
        (known("ort", operator="Sigmoid"), False),
    ],
)
def test_an_entry_is_about_a_version_of_an_operator_wherever_it_stands(
    entry: Departure, applies: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(parser.parse_model(BODY), tmp_path / "body.onnx")
    monkeypatch.setattr(table, "TABLE", (entry,))
    assert bool(departures(tmp_path / "body.onnx", "ort")) is applies


def test_an_entry_may_be_about_some_nodes_only(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for axis, applies in ((1, True), (0, False)):
        entry = Departure(
            ("ort",), "Softmax", (13,), lambda n, axis=axis: n.attribute[0].i == axis, "", ("case",), "1.0"
        )
        monkeypatch.setattr(table, "TABLE", (entry,))
        assert bool(departures(model, "ort")) is applies


def test_noise_is_measured_by_output(model: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ort_runs.OrtRuns.__call__

    def noisy(self: ort_runs.OrtRuns, inputs: object, *, optimise: bool, threads: int = 1) -> object:
        found = real(self, inputs, optimise=optimise, threads=threads)  # type: ignore[arg-type]
        return {n: a + np.float32(1e-6 * optimise + 4e-6 * (threads - 1)) for n, a in found.items()}

    monkeypatch.setattr(ort_runs.OrtRuns, "__call__", noisy)
    for names in ([], ["ort"], ["ort-noopt"]):
        noise = oracle_of(model, graph, names=names)({"x": X}).noise
        assert noise["y"]["optimiser"] == pytest.approx(1e-6, rel=0.2)
        assert noise["y"]["threads"] == pytest.approx(4e-6, rel=0.2)
    assert oracle_of(model, graph, noise=False)({"x": X}).noise == {}


def test_noise_of_a_large_model_is_measured_on_demand(
    model: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ort_runs, "LARGE", 1)
    found = oracle_of(model, graph)({"x": X})
    assert found.noise == {} and "--noise" in found.notes[0]
    assert set(oracle_of(model, graph, noise=True)({"x": X}).noise["y"]) == {"optimiser", "threads"}


def test_a_model_at_odds_with_itself_is_left_to_the_next_and_shows_it(
    model: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ort_runs.OrtRuns.__call__

    def torn(self: ort_runs.OrtRuns, inputs: object, *, optimise: bool, threads: int = 1) -> object:
        found = real(self, inputs, optimise=optimise, threads=threads)  # type: ignore[arg-type]
        return {n: a + np.float32(optimise) for n, a in found.items()}

    monkeypatch.setattr(ort_runs.OrtRuns, "__call__", torn)
    found = oracle_of(model, graph)({"x": X})
    assert found.oracle == "onnx-reference" and "disagrees with itself on 'y'" in found.notes[0]
    assert found.noise["y"]["optimiser"] == pytest.approx(1)


def test_differences_fail_closed() -> None:
    one = np.array([1.0, np.nan, np.inf], np.float32)
    assert difference(one, one) == 0 and difference(one[:0], one[:0]) == 0
    assert difference(one, one + np.float32(0.5)) == 0.5
    assert difference(np.array([3]), np.array([1])) == 2 and difference(np.array([True]), np.array([False])) == 1
    for other in (one.astype(np.float64), one[:2], one[[1, 0, 2]], -one, np.array([1, 2, np.inf], np.float32)):
        assert difference(one, other) == np.inf


def test_the_api_names_the_oracles_that_there_are() -> None:
    from fornaxc import api
    from fornaxc.verification.named import ORACLES

    assert tuple(ORACLES) == api.ORACLES
