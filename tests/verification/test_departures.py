"""Each entry of the table of departures, shown by a model: the oracle is asked, and gives what the specification does not say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from fornaxc.ir.graph import Array
from fornaxc.verification.departures import TABLE, departures
from fornaxc.verification.oracle import evaluated
from fornaxc.verification.ort_runs import OrtRuns

INF = np.float32(np.inf)
SQUARE = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)

RESIZE = """
<ir_version: 9, opset_import: ["" : 19]>
f (float[1, 1, 2, 4] x) => (float[1, 1, 1, 2] y) <float[4] scales = {1, 1, 0.6, 0.6}> {
    y = Resize<mode = "linear", coordinate_transformation_mode = "align_corners">(x, , scales)
}
"""
UNPOOL = """
<ir_version: 10, opset_import: ["" : 22]>
f (float[1, 1, 2, 2] x, int64[1, 1, 2, 2] i) => (float[1, 1, 5, 5] y) <int64[4] shape = {1, 1, 5, 5}> {
    y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, i, shape)
}
"""
ATTENTION = """
<ir_version: 10, opset_import: ["" : 23]>
f (float[1, 1, 2, 4] q, float[1, 1, 2, 4] k, float[1, 1, 2, 4] v, float[2, 2] m) => (float[1, 1, 2, 4] y, float[1, 1, 2, 2] s) {
    y, , , s = Attention<is_causal = 1, qk_matmul_output_mode = 2>(q, k, v, m)
}
"""
CASES: dict[str, tuple[str, dict[str, Array], dict[str, Array]]] = {
    "Resize": (RESIZE, {"x": SQUARE}, {"y": np.array([[[[1, 3.142857]]]], np.float32)}),
    "MaxUnpool": (
        UNPOOL,
        {
            "x": np.array([[[[5, 6], [7, 8]]]], np.float32),
            "i": np.array([[[[5, 7], [13, 15]]]], np.int64),
        },
        {
            "y": np.array(
                [[[[0, 0, 0, 0, 0], [0, 5, 0, 6, 0], [0, 0, 0, 0, 0], [0, 7, 0, 8, 0], [0, 0, 0, 0, 0]]]], np.float32
            )
        },
    ),
    "Attention": (
        ATTENTION,
        {n: np.ones((1, 1, 2, 4), np.float32) for n in "qkv"} | {"m": np.zeros((2, 2), np.float32)},
        {"s": np.array([[[[2, -INF], [2, 2]]]], np.float32)},
    ),
}


@pytest.mark.parametrize("entry", TABLE, ids=lambda e: e.operator)
def test_an_entry_is_true(entry: object, tmp_path: Path) -> None:
    entry = next(e for e in TABLE if e is entry)
    text, inputs, specified = CASES[entry.operator]
    path = tmp_path / "m.onnx"
    onnx.save(parser.parse_model(text), path)
    for name, wanted in specified.items():
        np.testing.assert_allclose(evaluated(path, inputs)[name], wanted, rtol=1e-6)
    for oracle in entry.oracles:
        assert [entry.sentence(oracle)] == departures(path, oracle)
        found = OrtRuns(path)(inputs, optimise=oracle == "ort")
        assert any(not np.allclose(found[name], wanted, rtol=1e-5) for name, wanted in specified.items())
    assert departures(path, "onnx-reference") == []
