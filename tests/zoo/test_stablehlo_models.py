"""Models that JAX exported, in every form that they come in. Minutes each: `make test-zoo`.

FORNAXC_STABLEHLO_MODELS names a folder of `NAME.mlir`, `NAME.mlirbc` and `NAME.jaxexport`, each with a `NAME.npz` of recorded inputs
`in_0`, `in_1`, … and outputs `out_0`, … in the order of the function's.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import fornaxc
from fornaxc.importers.stablehlo.importer import import_stablehlo

FOLDER = os.environ.get("FORNAXC_STABLEHLO_MODELS", "")
RECORDED = sorted(Path(FOLDER).glob("*.npz")) if FOLDER else []
FORMS = (".mlir", ".mlirbc", ".jaxexport")

pytestmark = [pytest.mark.zoo, pytest.mark.skipif(not RECORDED, reason="FORNAXC_STABLEHLO_MODELS names no models")]
by_name = pytest.mark.parametrize("recorded", RECORDED, ids=lambda p: p.stem)


def given(recorded: Path, folder: Path) -> dict[str, Path]:
    """The recorded inputs and outputs as files with the names of the model's own."""
    graph, arrays = import_stablehlo(recorded.with_suffix(".mlir")), np.load(recorded)
    files = {"inputs": folder / "in.npz", "expected": folder / "out.npz"}
    np.savez(files["inputs"], **{name: arrays[f"in_{i}"] for i, name in enumerate(graph.input_names)})
    np.savez(files["expected"], **{name: arrays[f"out_{i}"] for i, name in enumerate(graph.output_names)})
    return files


@by_name
def test_agrees_with_recorded_outputs_in_every_form(recorded: Path, tmp_path: Path) -> None:
    files = given(recorded, tmp_path)
    keys = set()
    for form in FORMS:
        report = fornaxc.verify(recorded.with_suffix(form), **files)
        assert report.verdict == "pass", [row.to_json() for row in report.rows]
        assert report.executed_on == "cpu"
        keys.add(report.key)
    assert len(keys) == 1


@by_name
def test_both_oracles_prove_generated_inputs(recorded: Path) -> None:
    report = fornaxc.verify(recorded.with_suffix(".mlirbc"))
    assert report.verdict == "pass", [row.to_json() for row in report.rows]
    assert {row.oracle for row in report.rows} == {"onnxruntime (exported graph)", "stablehlo-interpreter"}
    symbolic = any(not v.type.is_static for v in import_stablehlo(recorded.with_suffix(".mlir")).inputs)
    assert len(report.samples) == (2 if symbolic else 1)
