"""What is told of a model without compiling it."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser

from fornaxc import api


def test_operators_in_bodies_count(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 18]>
        g (bool c, float[2] x) => (float[2] y) {
            y = If (c) <
                then_branch = a () => (float[2] p) { p = Neg(x) },
                else_branch = b () => (float[2] q) {
                    n = Neg(x)
                    q = If (c) <
                        then_branch = d () => (float[2] r) { r = Abs(n) },
                        else_branch = e () => (float[2] s) { s = Exp(n) }
                    >
                }
            >
        }""")
    onnx.save(model, tmp_path / "m.onnx")
    document = api.inspect(tmp_path / "m.onnx")
    assert document["nodes"] == 1
    assert document["operators"] == {"ai.onnx::Abs": 1, "ai.onnx::Exp": 1, "ai.onnx::If": 2, "ai.onnx::Neg": 2}
    assert document["supported"]
