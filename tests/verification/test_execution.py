"""What ran where, and outputs of which nothing is proven. Nothing here needs MAX: its summaries are as it wrote them."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import parser

from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.ir.graph import Graph
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack
from fornaxc.verification.compare import Row
from fornaxc.verification.execution import execution, flagged, folded_nodes, unproven_outputs
from fornaxc.verification.verify import verdict

SUMMARIES = [
    "Sequence(mgp.tensor.extract.tensor_spec, mgp.tensor_spec.get_dim, index.casts, index.casts)",
    "Sequence(index.constant, index.mul)",
    "mgp.buffer.alloc",
    "Sequence(mgp.tensor.extract.buffer, index.casts, pop.cast_from_builtin, View(mo.static.broadcast_to, mo.mul))",
    "Sequence(index.constant, mgp.buffer.get_cached, pop.cast_from_builtin, custom__fx_conv2d)",
    "Sequence(mgp.tensor_spec.get_dim, pop.cast_from_builtin, mo.reduce.softmax)",
    "Sequence(index.constant, mgp.buffer.get_cached, pop.cast_from_builtin, custom__fx_conv2d)",
    "Sequence(mgp.tensor_spec.create, mgp.tensor.create, View(mo.static.reshape))",
]


def imported(text: str, folder: Path) -> Graph:
    onnx.save(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\nf {text}'), folder / "m.onnx")
    return import_onnx(folder / "m.onnx")


CONVOLUTIONS = """
(float[n, 2, 4, 4] x) => (float[n, 2, 4, 4] y)
<float[2, 2, 1, 1] w = {1, 0, 0, 1}, float[2, 2, 1, 1] v = {1, 2, 3, 4}, float scale = {2}> {
    [scaling] s = Mul(x, scale)
    [first] a = Conv(s, w)
    [second] b = Conv(a, v)
    [rest] y = Softmax<axis = 1>(b)
}
"""


def test_kernels_are_told_with_the_nodes_that_they_came_from(tmp_path: Path) -> None:
    graph = imported(CONVOLUTIONS, tmp_path)
    host = [{"node": "rest", "op": "Softmax", "reason": "", "transfers": []}]
    document = execution(graph, graph, "cpu", host, SUMMARIES).to_json()
    assert document["device"] == "cpu" and document["host_nodes"] == 1
    assert document["nodes"] == len(graph.nodes) and document["kernels"] == 4
    assert document["kernel_map"] == [
        {"operations": ["static.broadcast_to", "mul"], "count": 1, "nodes": ["scaling"]},
        {"operations": ["conv2d"], "count": 2, "nodes": ["first", "second"]},
        {"operations": ["reduce.softmax"], "count": 1, "nodes": ["rest"]},
    ]


def test_without_summaries_the_kernels_are_unknown(tmp_path: Path) -> None:
    graph = imported(CONVOLUTIONS, tmp_path)
    document = execution(graph, graph, "cpu", [], []).to_json()
    assert document["kernels"] is None and document["kernel_map"] is None


def test_what_only_constants_decide_is_folded(tmp_path: Path) -> None:
    graph = imported(
        "(float[2, 3] x) => (float[2, 2] y) <float[2, 3] w = {1, 2, 3, 4, 5, 6}>"
        " { [turned] t = Transpose<perm = [1, 0]>(w) [grown] e = Exp(t) [product] y = MatMul(x, e) }",
        tmp_path,
    )
    assert folded_nodes(graph) == ("turned", "grown")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(float[2] x) => (float[2] y) { y = Relu(x) }", {}),
        ("(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Exp(w) }", {"y": "it is a constant"}),
        ("(float[2] x) => (int64[1] y) { y = Shape(x) }", {"y": "it is a constant"}),
        ("(float[n] x) => (int64[1] y) { y = Shape(x) }", {"y": "it depends on the sizes of the inputs alone"}),
        (
            "(float[n] x) => (float[n] y) { s = Shape(x) y = ConstantOfShape(s) }",
            {"y": "it depends on the sizes of the inputs alone"},
        ),
        (
            "(float[2] x) => (float[2] y, float[2] z) <float[2] w = {1, 2}> { y = Add(x, w) z = Exp(w) }",
            {"z": "it is a constant"},
        ),
        (
            "(float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}> {"
            " y = If<then_branch = then () => (float[2] a) { a = Exp(w) },"
            " else_branch = other () => (float[2] b) { b = Neg(w) }>(c) }",
            {},
        ),
        (
            "(float[2] x, int64 n) => (float[2] y) <float[2] w = {1, 2}> {"
            " y = Loop<body = body (int64 i, bool go, float[2] carried) => (bool again, float[2] next)"
            " { again = Identity(go) next = Add(carried, x) }>(n, , w) }",
            {},
        ),
    ],
)
def test_outputs_that_no_input_decides(text: str, found: dict[str, str], tmp_path: Path) -> None:
    assert unproven_outputs(imported(text, tmp_path)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "(float[2] x) => (float[2] y) <float[2] w = {1, 2}, bool[2] c = {1, 1}> { y = Where(c, w, x) }",
            {"y": "it is a constant after the passes"},
        ),
        ("(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Exp(w) }", {"y": "it is a constant"}),
        ("(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(w, x) }", {}),
    ],
)
def test_outputs_that_no_input_decides_after_the_passes(text: str, found: dict[str, str], tmp_path: Path) -> None:
    graph = imported(text, tmp_path)
    assert unproven_outputs(graph, prepack(optimize(graph, "cpu"))) == found


def test_a_verification_of_constants_alone_proves_nothing() -> None:
    y, z = (Row(name, (2,), "float32", "pass", rule="tolerance") for name in "yz")
    wrong = Row("z", (2,), "float32", "fail", rule="tolerance")
    assert verdict([y, z], "cpu", "cpu", ["z"]) == "pass"
    assert verdict([y, z], "cpu", "cpu", ["y", "z"]) == "unproven"
    assert verdict([y, wrong], "cpu", "cpu", ["y", "z"]) == "fail"
    assert verdict([y, z], "amd:gfx942", "cpu") == "unproven"


def test_rows_of_constants_say_that_nothing_is_proven() -> None:
    rows = [Row("y", (2,), "float32", "pass", rule="exact"), Row("z", (2,), "float32", "fail", "2 of 2 differ")]
    found = flagged(rows, {"y": "it is a constant", "z": "it is a constant"})
    assert [r.reason for r in found] == ["nothing was proven: it is a constant", "2 of 2 differ"]
    assert flagged(rows, {}) == rows
