"""Many samples: where they come from, one at a time, and what is told of them. The interpreter runs in the place of MAX."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import parser

from fornaxc.errors import UsageError
from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.ir.graph import Array, Graph
from fornaxc.verification import dataset_comparison
from fornaxc.verification.compare import Row, verdict_of
from fornaxc.verification.dataset import Dataset, open_dataset
from fornaxc.verification.dataset_comparison import SHOWN, JudgedDataset, compare_dataset, not_shown
from fornaxc.verification.dataset_page import dataset_section
from fornaxc.verification.float64 import InDouble
from fornaxc.verification.oracle import GraphOracle, OracleRefused, Reference, interpreted
from fornaxc.verification.report import Report
from fornaxc.verification.statistics import Distribution, OutputStatistics, Summary
from fornaxc.verification.tolerances import Tolerances

MODEL = """
<ir_version: 8, opset_import: ["" : 18]>
f (float[n, 3] x, bfloat16[3] h) => (float[n, 3] y, bfloat16[3] g) { y = Exp(x) g = Neg(h) }
"""
X = np.arange(24, dtype=np.float32).reshape(8, 3) / 10
H = np.arange(24).reshape(8, 3).astype(ml_dtypes.bfloat16)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    onnx.save(parser.parse_model(MODEL), tmp_path / "m.onnx")
    return import_onnx(tmp_path / "m.onnx")


def inputs_of(dataset: Dataset) -> list[tuple[list[Any], list[Any]]]:
    return [(inputs["x"].tolist(), inputs["h"].astype(float).tolist()) for _, inputs in dataset.read()]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_rows_and_a_further_axis_of_an_npz_file(graph: Graph, tmp_path: Path, save: Any) -> None:
    save(tmp_path / "rows.npz", x=X, h=H)
    save(tmp_path / "axis.npz", h=H, x=X[:, None].astype(">f4"))
    for name in ("rows.npz", "axis.npz"):
        dataset = open_dataset(graph, tmp_path / name)
        assert dataset.count == 8
        for _ in range(2):
            assert inputs_of(dataset) == [(X[i : i + 1].tolist(), H[i].astype(float).tolist()) for i in range(8)]
    assert [label for label, _ in dataset.read()][:2] == ["axis.npz[0]", "axis.npz[1]"]


def test_a_folder_of_samples(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    for i in range(3):
        np.savez(tmp_path / "many" / f"{i}.npz", x=X[: i + 1], h=H[i])
    dataset = open_dataset(graph, tmp_path / "many")
    assert [len(x) for x, _ in inputs_of(dataset)] == [1, 2, 3] and dataset.count == 3


@pytest.mark.parametrize(
    ("arrays", "code"),
    [
        ({"x": X}, "FX220"),
        ({"x": X, "h": H, "z": X}, "FX220"),
        ({"x": X.astype(np.float64), "h": H}, "FX221"),
        ({"x": X[:, :2], "h": H}, "FX222"),
        ({"x": X[0, 0], "h": H}, "FX222"),
        ({"x": X[:7], "h": H}, "FX237"),
        ({"x": X[:0], "h": H[:0]}, "FX237"),
        ({"x": np.asfortranarray(X), "h": H}, "FX224"),
    ],
)
def test_files_that_are_no_samples_of_the_model(
    graph: Graph, tmp_path: Path, arrays: dict[str, Array], code: str
) -> None:
    np.savez(tmp_path / "d.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(UsageError) as caught:
        open_dataset(graph, tmp_path / "d.npz")
    assert caught.value.code == code


def test_damage_is_an_error(graph: Graph, tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=X, h=H)
    whole = (tmp_path / "d.npz").read_bytes()
    (tmp_path / "d.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError) as caught:
        open_dataset(graph, tmp_path / "d.npz")
    assert caught.value.code == "FX224"


class FakeRunning:
    """Runs the interpreter, and adds what the test says to `y`."""

    graph: Graph
    added: Any

    def __init__(self, artifact: Path, **options: Any) -> None:
        self.kernels = ["kernel"]

    def __enter__(self) -> FakeRunning:
        return self

    def __exit__(self, *problem: object) -> None:
        pass

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        outputs = interpreted(self.graph, inputs)
        return {**outputs, "y": outputs["y"] + self.added(inputs)}


def compared(graph: Graph, path: Path, monkeypatch: pytest.MonkeyPatch, added: Any) -> Any:
    monkeypatch.setattr(
        dataset_comparison, "Running", type("Fake", (FakeRunning,), {"graph": graph, "added": staticmethod(added)})
    )
    judged = JudgedDataset(open_dataset(graph, path), GraphOracle(graph, False))
    return compare_dataset(path, judged, Tolerances(graph=graph), None, InDouble(graph, None, False))


def test_what_agrees_has_the_worst_rows_and_statistics(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "d.npz", x=X, h=H)
    rows, kernels, summary = compared(graph, tmp_path / "d.npz", monkeypatch, lambda inputs: np.float32(0))
    assert verdict_of(rows) == "pass" and kernels == ["kernel"]
    assert sorted(row.name for row in rows) == ["g", "y"]
    document = summary.to_json()
    assert (document["samples"], document["failed"]) == (8, 0)
    y = next(o for o in document["outputs"] if o["name"] == "y")
    assert (y["samples"], y["elements"], y["not_finite"], y["top1"], y["top5"]) == (8, 24, 0, 1.0, None)
    assert y["absolute"]["max"] < 1e-5 and y["cosine"]["min"] == pytest.approx(1)


def test_the_rules_of_all_samples_are_told(graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample without elements is neither a failure nor the worst one: no row shows it."""
    (tmp_path / "many").mkdir()
    for i in (2, 0):
        np.savez(tmp_path / "many" / f"{i}.npz", x=X[:i], h=H[i])
    rows, _, summary = compared(graph, tmp_path / "many", monkeypatch, lambda inputs: np.float32(0))
    assert {row.rule for row in rows} == {"tolerance"}
    report = Report("pass", "cpu", "cpu", "numpy", rows, "key", dataset=summary)
    assert report.to_json()["rules"] == ["empty", "tolerance"]


def test_one_wrong_sample_fails_and_is_named(graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "d.npz", x=X, h=H)

    def added(inputs: Mapping[str, Array]) -> Array:
        return np.array([[1, 0, 0]], np.float32) * (inputs["x"][0, 0] == X[5, 0])

    rows, _, summary = compared(graph, tmp_path / "d.npz", monkeypatch, added)
    assert verdict_of(rows) == "fail"
    assert [(row.name, row.sample) for row in rows if row.verdict == "fail"] == [("y", "d.npz[5]")]
    assert (summary.samples, summary.failed) == (8, 1)
    y = next(o for o in summary.to_json()["outputs"] if o["name"] == "y")
    assert y["failed"] == 1 and y["absolute"]["max"] == pytest.approx(1, rel=1e-5)
    assert y["absolute"]["mean"] == pytest.approx(1 / 24, rel=1e-4)
    assert y["absolute"]["p90"] < 1e-5 and y["absolute"]["p99.9"] == pytest.approx(1, rel=0.04)


def test_failures_are_counted_and_some_shown(graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = SHOWN + 15
    np.savez(tmp_path / "d.npz", x=np.ones((count, 3), np.float32), h=np.ones((count, 3), ml_dtypes.bfloat16))
    rows, _, summary = compared(graph, tmp_path / "d.npz", monkeypatch, lambda inputs: np.float32(1))
    assert sum(row.verdict == "fail" for row in rows) == SHOWN and summary.failed == count
    assert summary.to_json()["failing"] == [f"d.npz[{i}]" for i in range(count)]
    assert not_shown(summary, rows) == [f"15 more samples fail, without a row: d.npz[{SHOWN}..{count - 1}]"]


def test_failing_samples_without_a_row_are_named_in_few_words() -> None:
    def note(*names: str) -> list[str]:
        return not_shown(Summary(100, names, ()), [Row("y", (1,), "float32", "fail", sample="shown")])

    assert note("shown") == []
    assert note("shown", "a.npz", "d.npz[1]", "d.npz[2]", "d.npz[4]", "e.npz[5]") == [
        "5 more samples fail, without a row: a.npz, d.npz[1..2], d.npz[4], e.npz[5]"
    ]
    (long,) = note(*(f"{i}.npz" for i in range(60)))
    assert long.startswith("60 more") and "39.npz, …" in long and "40.npz" not in long


def test_a_sample_that_no_oracle_accepts_is_named(graph: Graph, tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=X, h=H)

    def careful(inputs: Mapping[str, Array]) -> Reference:
        if inputs["x"][0, 0] == X[3, 0]:
            raise OracleRefused("no")
        return Reference(interpreted(graph, inputs), "numpy")

    with pytest.raises(UsageError, match=r"d\.npz\[3\]"):
        JudgedDataset(open_dataset(graph, tmp_path / "d.npz"), careful)


def test_percentiles_are_those_of_all_numbers_within_a_class() -> None:
    rng = np.random.default_rng(0)
    numbers = 10 ** rng.uniform(-9, 2, 10_000)
    found = Distribution()
    for part in np.split(numbers, 10):
        found.add(part)
    found.add(np.zeros(10_000))
    assert (
        found.count == 20_000 and found.largest == numbers.max() and found.mean == pytest.approx(numbers.sum() / 20_000)
    )
    everything = np.concatenate([numbers, np.zeros(10_000)])
    assert found.percentile(50) == 0
    for share in (90, 99, 99.9):
        exact = np.percentile(everything, share, method="inverted_cdf")
        assert exact <= found.percentile(share) <= exact * 1.0371


def test_rankings_cosine_and_numbers_that_are_not_finite() -> None:
    reference = np.tile(np.arange(20, dtype=np.float32), (4, 1))
    value = reference.copy()
    value[0, 3] = 100  # another first one
    value[1, [0, 19]] = value[1, [19, 0]]
    value[2, 5] = np.nan
    found = OutputStatistics("y", "oracle")
    found.add(value, reference, True)
    document = found.to_json()
    assert document["top1"] == pytest.approx(1 / 3) and document["top5"] == pytest.approx((0.8 + 0.8 + 1) / 3)
    assert document["not_finite"] == 1 and document["cosine"]["min"] < 1
    exact = OutputStatistics("y", "oracle")
    exact.add(reference * 2, reference, False)
    assert exact.to_json()["cosine"] == {"min": pytest.approx(1), "mean": pytest.approx(1)}
    assert exact.to_json()["relative"]["max"] == 1.0


def test_outputs_that_cannot_be_compared_only_fail() -> None:
    found = OutputStatistics("y", "oracle")
    found.add(None, X, True)
    found.add(X, X[:1], True)
    found.add(X.astype(np.float64), X, True)
    document = found.to_json()
    assert (document["samples"], document["failed"], document["elements"], document["absolute"]) == (3, 3, 0, None)
    assert document["cosine"] is None and document["top1"] is None


def test_the_page_has_the_statistics() -> None:
    found = OutputStatistics("logits<", "onnxruntime")
    found.add(X + np.float32(1e-3), X, True)
    document = {"samples": 7, "failed": 1, "outputs": [found.to_json()]}
    told = dataset_section(document)
    assert "7 samples were compared, 1 of which differ." in told and "logits&lt;" in told and "100 %" in told
    assert dataset_section(None) == ""
