"""Sharing what is the same, and nothing across the bodies of control flow."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import parser

from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.ir.checker import check
from fornaxc.passes.cse import share_common

SAME_BRANCHES = """
<ir_version: 8, opset_import: ["" : 18]>
f (bool c, float[2,3] x) => (float[2,3] y) {
  y = If<then_branch = t () => (float[2,3] a) { p = Relu(x) a = Neg(p) }, else_branch = e () => (float[2,3] b) { q = Relu(x) b = Neg(q) }>(c)
}"""


def test_equal_branches_keep_their_own_nodes(tmp_path: Path) -> None:
    onnx.save(parser.parse_model(SAME_BRANCHES), tmp_path / "m.onnx")
    for _ in range(20):  # a body's builder may or may not lie where the one before it lay
        shared = share_common(import_onnx(tmp_path / "m.onnx"))
        check(shared)
        assert [len(region.nodes) for region in shared.nodes[-1].regions] == [2, 2]
