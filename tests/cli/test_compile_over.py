"""`fornaxc compile -o` over what it reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from command_line import Change, Cli
from onnx import numpy_helper, parser

MODEL = '<ir_version: 8, opset_import: ["" : 17]> f (float[n] x) => (float[n] y) { y = Add(x, w) }'


@pytest.mark.parametrize("name", ["m.onnx", "m.weights"])
def test_the_model_and_its_external_data_stay(cli: Cli, device: list[Change], tmp_path: Path, name: str) -> None:
    model = parser.parse_model(MODEL)
    model.graph.initializer.append(numpy_helper.from_array(np.ones(1, np.float32), "w"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.weights", size_threshold=0)
    before = (tmp_path / name).read_bytes()
    for _ in ("miss", "hit"):
        told = cli("compile", tmp_path / "m.onnx", "-o", tmp_path / name, "--json")
        assert (told.status, told.document["code"]) == (2, "FX252")
        assert (tmp_path / name).read_bytes() == before
        assert cli("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.fxa").status == 0
    assert cli("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.fxa").status == 0
