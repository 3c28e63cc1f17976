"""Each entry of the table of departures, shown by a model: the oracle is asked, and gives what the specification does not say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from fornaxc.importers.stablehlo.importer import import_stablehlo
from fornaxc.ir.graph import Array
from fornaxc.ir.interpreter import run
from fornaxc.verification import departures as tables
from fornaxc.verification.departures import INTERPRETER_TABLE, TABLE, Departure, departures
from fornaxc.verification.oracle import OracleRefused, evaluated
from fornaxc.verification.oracle_of import oracle_of
from fornaxc.verification.ort_runs import OrtRuns
from fornaxc.verification.stablehlo_child import evaluate
from fornaxc.verification.stablehlo_oracle import InterpreterOracle

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
<ir_version: 10, opset_import: ["" : OPSET]>
f (float[1, 1, 2, 4] q, float[1, 1, 2, 4] k, float[1, 1, 2, 4] v, float[2, 2] m) => (float[1, 1, 2, 4] y, float[1, 1, 2, 2] s) {
    y, , , s = Attention<is_causal = 1, qk_matmul_output_mode = 2>(q, k, v, m)
}
"""
Case = tuple[str, dict[str, Array], dict[str, Array]]
"""A model, its inputs, and outputs that the specification says."""


def attention(opset: int) -> Case:
    return (
        ATTENTION.replace("OPSET", str(opset)),
        {n: np.ones((1, 1, 2, 4), np.float32) for n in "qkv"} | {"m": np.zeros((2, 2), np.float32)},
        {"s": np.array([[[[2, -INF], [2, 2]]]], np.float32)},
    )


CASES: dict[tuple[str, int], Case] = {
    ("Resize", 19): (RESIZE, {"x": SQUARE}, {"y": np.array([[[[1, 3.142857]]]], np.float32)}),
    ("MaxUnpool", 22): (
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
    ("Attention", 23): attention(23),
    ("Attention", 24): attention(24),
}
VERSIONS = [(entry, since) for entry in TABLE for since in entry.since]


@pytest.mark.parametrize(("entry", "since"), VERSIONS, ids=[f"{e.operator}-{since}" for e, since in VERSIONS])
def test_an_entry_is_true(entry: Departure, since: int, tmp_path: Path) -> None:
    text, inputs, specified = CASES[entry.operator, since]
    assert f'["" : {since}]' in text
    path = tmp_path / "m.onnx"
    onnx.save(parser.parse_model(text), path)
    for name, wanted in specified.items():
        np.testing.assert_allclose(evaluated(path, inputs)[name], wanted, rtol=1e-6)
    for oracle in entry.oracles:
        assert [entry.sentence(oracle)] == departures(path, oracle)
        found = OrtRuns(path)(inputs, optimise=oracle == "ort")
        assert any(not np.allclose(found[name], wanted, rtol=1e-5) for name, wanted in specified.items())
    assert departures(path, "onnx-reference") == []


def test_the_sentence_tells_the_version_seen_and_the_one_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxruntime.__version__", "1.99.0")
    told = TABLE[2].sentence("ort")
    assert told.startswith("ort is off-specification for Attention of opset 23 and 24: ")
    assert "seen with onnxruntime 1.32.0, case test_attention_4d" in told and told.endswith("installed is 1.99.0)")


COMPARE = """func.func @main(%x: tensor<6xf32>, %y: tensor<6xf32>) -> tensor<6xi1> {
  %r = stablehlo.compare LT, %x, %y, KIND : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xi1>
  return %r : tensor<6xi1> }
"""
SORT = """func.func @main(%x: tensor<6xf32>) -> tensor<6xf32> {
  %r = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.compare EQ, %a, %zero, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %1 = stablehlo.select %0, %zero, %a : tensor<i1>, tensor<f32>
    %2 = stablehlo.compare EQ, %b, %zero, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %3 = stablehlo.select %2, %zero, %b : tensor<i1>, tensor<f32>
    %4 = stablehlo.compare LT, OPERANDS, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %4 : tensor<i1>
  }) : (tensor<6xf32>) -> tensor<6xf32>
  return %r : tensor<6xf32> }
"""
PAIRS = {
    "arg0": np.array([-0.0, 0.0, 1, np.nan, -np.nan, 1], np.float32),
    "arg1": np.array([0.0, -0.0, np.nan, 1, 1, 2], np.float32),
}
IN_ORDER = [True, False, True, False, True, True]
"""Which of the pairs are in total order, by IEEE 754."""


def stablehlo(folder: Path, text: str) -> Path:
    path = folder / "m.mlir"
    path.write_text(text)
    return path


def named(path: Path) -> dict[str, Array]:
    """The pairs by the names of the module's inputs."""
    return dict(zip(import_stablehlo(path).input_names, PAIRS.values(), strict=False))


def test_the_interpreter_has_no_total_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = stablehlo(tmp_path, COMPARE.replace("KIND", "TOTALORDER"))
    (entry,) = INTERPRETER_TABLE
    graph, inputs = import_stablehlo(path), named(path)
    with pytest.raises(OracleRefused, match=r"stablehlo\.compare: in TOTALORDER it takes 0 and -0 for equal"):
        InterpreterOracle(path, None, {}, graph.output_names)(inputs)
    assert "seen with jaxlib 0.10.2; installed is " in entry.sentence
    decided = oracle_of(path, graph)(inputs)
    assert decided.oracle == "onnxruntime (exported graph)" and decided.others == ()
    assert decided.outputs["result"].tolist() == run(graph, list(inputs.values()))[0].tolist() == IN_ORDER
    monkeypatch.setattr(tables, "INTERPRETER_TABLE", ())
    (alone,) = evaluate(path, None, inputs)
    assert alone.tolist() == [False, False, False, False, False, True]


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (COMPARE.replace("KIND", "FLOAT"), True),
        (SORT.replace("OPERANDS", "%1, %3"), True),
        (SORT.replace("OPERANDS", "%a, %b"), False),
    ],
)
def test_the_interpreter_is_asked_where_total_order_decides_nothing(tmp_path: Path, text: str, asked: bool) -> None:
    path = stablehlo(tmp_path, text)
    found = oracle_of(path, import_stablehlo(path))(named(path))
    assert [o.oracle for o in found.others] == (["stablehlo-interpreter"] if asked else [])
