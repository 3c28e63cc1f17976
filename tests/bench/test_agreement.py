"""Whether the outputs of an artifact and of onnxruntime agree: by the rules of `verify`. Nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from fornaxc.bench.session import agreement
from fornaxc.cache import Cache
from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.ir.graph import Array
from fornaxc.verification.compare import Row
from fornaxc.verification.double_model import evaluated_in_double
from fornaxc.verification.oracle import Reference
from fornaxc.verification.ort_runs import OrtRuns
from fornaxc.verification.tolerances import tolerances_of
from fornaxc.verification.verify import Sample

NORM = """
<ir_version: 8, opset_import: ["" : 17]>
f (float[4, 64] x) => (float[4, 64] y) { y = LayerNormalization<axis = 1, epsilon = 1e-12>(x, s, b) }
"""
"""Of numbers around 300 whose spread is 0.01: what is left of them after the mean has few digits."""
X = {"x": (300 + 0.01 * np.random.default_rng(5).standard_normal((4, 64))).astype(np.float32)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    built = parser.parse_model(NORM)
    for name, array in (("s", np.ones(64, np.float32)), ("b", np.zeros(64, np.float32))):
        built.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.save(built, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.fixture
def compared(model: Path, tmp_path: Path) -> Callable[..., Row]:
    """The row of `y`, within the tolerances of a file where there is one."""

    def row(outputs: dict[str, Array], file: Path | None = None, known: Path | None = model) -> Row:
        graph = import_onnx(model)
        sample = Sample("static", X, Reference(OrtRuns(model)(X, optimise=True), "onnxruntime"))
        within = tolerances_of(graph, file=file)
        [found] = agreement(sample, outputs, within, graph, known, Cache.open(tmp_path / "cache"))
        return found

    return row


def test_numbers_as_close_to_float64_as_onnxruntimes_agree(model: Path, compared: Callable[..., Row]) -> None:
    exact = {name: array.astype(np.float32) for name, array in evaluated_in_double(model, X).items()}
    for known in (model, None):
        row = compared(exact, known=known)
        assert (row.verdict, row.rule) == ("pass", "float64"), row
    assert compared({"y": exact["y"] + np.float32(0.1)}).verdict == "fail"


def test_a_file_of_tolerances_decides(model: Path, compared: Callable[..., Row], tmp_path: Path) -> None:
    wrong = {"y": OrtRuns(model)(X, optimise=True)["y"] + np.float32(0.5)}
    assert compared(wrong).verdict == "fail"
    (tmp_path / "t.toml").write_text('[outputs.y]\natol = 1.0\nreason = "few digits are left"\n')
    row = compared(wrong, tmp_path / "t.toml")
    assert row.tolerance is not None
    assert (row.verdict, row.tolerance.source) == ("pass", "t.toml: few digits are left")
