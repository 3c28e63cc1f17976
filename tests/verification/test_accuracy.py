"""The rule "as accurate as the oracle", and what it must never let pass. Nothing here needs MAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check
from fornaxc.ir.graph import Array, Graph, Node
from fornaxc.ir.ops import If, LayerNorm, Unary
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack
from fornaxc.verification.accuracy import accuracy
from fornaxc.verification.compare import Row, Tolerance, compare_outputs
from fornaxc.verification.double_graph import is_packed, jumping_outputs, widened
from fornaxc.verification.double_model import evaluated_in_double
from fornaxc.verification.float64 import InDouble
from fornaxc.verification.oracle import OnnxOracle, OracleRefused, Reference, interpreted

UNIT = Tolerance(0.0, 1e-3, "test")  # errors in thousandths are errors in tolerances
RNG = np.random.default_rng(5)
EXACT = RNG.uniform(-1, 1, 400)
ROUGH = RNG.standard_normal(400) * 1.5  # onnxruntime's errors, in tolerances


def judged(ours: Array, theirs: Array = ROUGH, exact: Array = EXACT) -> str:
    value, reference = ((exact + e * 1e-3).astype(np.float32) for e in (ours, theirs))
    return accuracy(value, reference, exact, UNIT).why_not


def at(count: int, error: float) -> Array:
    """Errors of `error` tolerances at the first elements, where onnxruntime is right, and none elsewhere."""
    found = np.zeros(400)
    found[:count] = error
    return found


def test_errors_of_the_same_kind_pass() -> None:
    assert judged(RNG.permutation(ROUGH) * 0.2 + ROUGH) == ""
    assert judged(-ROUGH) == "" and judged(np.zeros(400)) == ""


def test_within_the_tolerance_of_float64_it_does_not_matter_where() -> None:
    assert judged(at(400, 0.9), at(3, 5.0)) == "" and judged(at(400, 0.9), at(3, 500.0)) == ""


@pytest.mark.parametrize(
    ("ours", "theirs", "says"),
    [
        pytest.param(3 * ROUGH, ROUGH, "larger than onnxruntime's", id="larger errors"),
        pytest.param(at(400, 1.5), 0.5 * ROUGH, "larger than onnxruntime's", id="more errors"),
        pytest.param(at(400, 3.0), at(200, 3.0), "larger than onnxruntime's", id="twice as many errors"),
        pytest.param(
            np.roll(at(20, 4.0), 200), at(20, 4.0), "wrong where onnxruntime's are right", id="errors elsewhere"
        ),
        pytest.param(np.roll(at(1, 2.0), 1), at(1, 4.0), "wrong where onnxruntime's are right", id="one element"),
        pytest.param(at(40, 500.0), at(40, 500.0), "500 tolerances from float64", id="onnxruntime far off"),
        pytest.param(ROUGH, at(1, 11.0), "11 tolerances from float64", id="onnxruntime far off at one element"),
    ],
)
def test_a_fault_is_not_taken_for_rounding(ours: Array, theirs: Array, says: str) -> None:
    assert says in judged(ours, theirs)


def test_nan_and_infinities_must_be_where_float64_has_them() -> None:
    for special in (np.nan, np.inf, -np.inf):
        exact, value, reference = EXACT.copy(), EXACT.astype(np.float32), EXACT.astype(np.float32)
        reference[3] = value[3] = special
        assert "elsewhere" in accuracy(value, reference, exact, UNIT).why_not
        exact[3] = special
        assert accuracy(value, reference, exact, UNIT).why_not == ""
        exact[3], exact[4] = 0, special
        assert "elsewhere" in accuracy(value, reference, exact, UNIT).why_not
    for exact in (np.full(2, np.nan), np.zeros(0), np.zeros((1, 2))):
        value = np.full(exact.shape[-1:], np.nan, np.float32)
        assert accuracy(value, value, exact, UNIT).why_not != ""


# -- models

NORM = """
<ir_version: 8, opset_import: ["" : 17]>
f (float[4, 64] x) => (float[4, 64] y) { y = LayerNormalization<axis = 1, epsilon = 1e-12>(x, s, b) }
"""
"""Of numbers around 300 whose spread is 0.01: what is left of them after the mean has few digits."""
X = (300 + 0.01 * RNG.standard_normal((4, 64))).astype(np.float32)


@pytest.fixture
def norm(tmp_path: Path) -> Path:
    model = parser.parse_model(NORM)
    for name, array in (("s", np.ones(64, np.float32)), ("b", np.zeros(64, np.float32))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, tmp_path / "norm.onnx")
    return tmp_path / "norm.onnx"


def settled(
    path: Path,
    outputs: Callable[[Reference], dict[str, Array]],
    *,
    graph: Graph | None = None,
    reference: Reference | None = None,
    inputs: dict[str, Array] | None = None,
    fixed: tuple[str, ...] = (),
    wanted: bool | None = None,
) -> Row:
    """The row of a model's one output, judged with the tolerance 1e-6."""
    inputs = {"x": X} if inputs is None else inputs
    found = OnnxOracle(path, noise=False)(inputs) if reference is None else reference
    given = outputs(found)
    rows = compare_outputs(given, found.outputs, lambda name, dtype: Tolerance(1e-6, 1e-6, "test"))
    doubled = InDouble(import_onnx(path) if graph is None else graph, path, wanted)
    [row] = doubled.settled(rows, given, found, inputs, fixed)
    return row


def exactly(path: Path) -> dict[str, Array]:
    return {n: a.astype(np.float32) for n, a in evaluated_in_double(path, {"x": X}).items()}


def test_a_result_as_close_to_float64_as_onnxruntimes_passes_by_that_rule(norm: Path) -> None:
    """The exact result misses the tolerance around onnxruntime's, which has lost digits: by the rule it passes."""
    row = settled(norm, lambda reference: exactly(norm))
    document = row.to_json()["float64"]
    assert (row.verdict, row.rule) == ("pass", "float64") and "as close to float64 as onnxruntime's" in row.reason
    assert document["ours"]["max_abs"] < document["oracle"]["max_abs"] and document["why_not"] == ""


def test_what_is_farther_from_float64_fails(norm: Path) -> None:
    row = settled(norm, lambda reference: {"y": reference.outputs["y"] + np.float32(1e-2)})
    assert (row.verdict, row.rule) == ("fail", "tolerance")
    assert row.to_json()["float64"]["why_not"] != ""


def test_branches_are_widened_with_their_types() -> None:
    b = GraphBuilder()
    x, flag = b.input(TensorType(DType.F32, (2,)), "x"), b.input(TensorType(DType.BOOL, ()), "c")
    yes, no = GraphBuilder(b), GraphBuilder(b)
    branches = (yes.finish([yes.emit(Unary("exp"), x)]), no.finish([x]))
    graph = widened(b.finish([b.emit(If((x.type,)), flag, regions=branches)], ["y"]))
    check(graph)
    assert graph.outputs[0].type.dtype is DType.F64


def wrong_epsilon(graph: Graph) -> Graph:
    """The graph as an importer would make it that reads another epsilon."""
    nodes: list[Node] = []
    for node in graph.nodes:
        op = replace(node.op, epsilon=1e-5) if isinstance(node.op, LayerNorm) else node.op
        nodes.append(replace(node, op=op))
    return replace(graph, nodes=tuple(nodes))


def test_a_fault_of_the_import_does_not_make_itself_right(norm: Path) -> None:
    """Our numbers are then those of the faulty graph, in double precision too."""
    faulty = wrong_epsilon(import_onnx(norm))
    assert faulty.nodes != import_onnx(norm).nodes
    ours = {n: a.astype(np.float32) for n, a in interpreted(widened(faulty), {"x": X.astype(np.float64)}).items()}
    row = settled(norm, lambda reference: ours, graph=faulty)
    assert row.verdict == "fail"


def near_truth(path: Path) -> Callable[[Reference], dict[str, Array]]:
    return lambda reference: exactly(path)


def off_by(path: Path, error: float) -> Reference:
    """A reference whose error is known."""
    signs = np.where(RNG.random(X.shape) < 0.5, -1, 1)
    return Reference({n: (a + signs * error).astype(np.float32) for n, a in exactly(path).items()}, "onnxruntime")


def test_the_rule_decides_only_where_it_may(norm: Path) -> None:
    reference = off_by(norm, 1e-5)  # a few tolerances
    passes = settled(norm, near_truth(norm), reference=reference)
    assert (passes.verdict, passes.rule) == ("pass", "float64")
    chosen = settled(norm, near_truth(norm), reference=reference, fixed=("y",))
    assert chosen.verdict == "fail" and chosen.to_json()["float64"]["why_not"] == "the tolerance was chosen"
    golden = settled(norm, near_truth(norm), reference=replace(reference, oracle="golden"))
    assert golden.verdict == "fail" and "not for golden" in golden.to_json()["float64"]["why_not"]
    unwanted = settled(norm, near_truth(norm), reference=reference, wanted=False)
    assert unwanted.verdict == "fail" and unwanted.float64 is None
    reference = off_by(norm, 1e-2)
    far = settled(norm, lambda found: {"y": found.outputs["y"] + np.float32(1e-3)}, reference=reference)
    assert far.verdict == "fail" and "tolerances from float64" in far.to_json()["float64"]["why_not"]


def test_without_the_model_in_double_the_import_is_not_proven(norm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fornaxc.verification import float64

    reference = off_by(norm, 1e-5)
    ours = exactly(norm)

    def refuses(path: Path, inputs: object) -> dict[str, Array]:
        raise OracleRefused("an operator without numpy")

    monkeypatch.setattr(float64, "evaluated_in_double", refuses)
    row = settled(norm, lambda found: ours, reference=reference)
    assert row.verdict == "fail" and "an operator without numpy" in row.to_json()["float64"]["why_not"]


@pytest.mark.parametrize(
    ("body", "jumps"),
    [
        ("y = Exp(x)", False),
        ("y = Softmax(x)", False),
        ("y = Relu(x)", False),
        ("r = Round(x) y = Add(r, x)", True),
        ("f = Floor(x) y = Exp(f)", True),
        ("i = ArgMax<axis = 1, keepdims = 0>(x) f = Cast<to = 1>(i) y = Unsqueeze(f, one)", True),
        ("g = Greater(x, x) y = Where(g, x, x)", True),
        ("s = Sign(x) y = Mul(s, x)", True),
        ("i = Cast<to = 6>(x) y = Cast<to = 1>(i)", True),
        ("v, i = TopK<axis = 1>(x, one) y = Gather(x, i)", True),
    ],
)
def test_outputs_behind_a_decision_are_never_judged_by_it(body: str, jumps: bool, tmp_path: Path) -> None:
    text = f'<ir_version: 8, opset_import: ["" : 17]>\nf (float[2, 3] x) => (float[] y) <int64[1] one = {{1}}> {{ {body} }}'
    model = parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(model, tmp_path / "m.onnx")
    assert (jumping_outputs(import_onnx(tmp_path / "m.onnx")) == {"y"}) is jumps


def test_a_flip_of_an_index_is_not_excused(tmp_path: Path) -> None:
    """Two classes nearly tie: whichever onnxruntime chose, another choice is a failure, also where float64 agrees with it."""
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    f (float[1, 3] x) => (float[1] y) { i = ArgMax<axis = 1, keepdims = 0>(x) y = Cast<to = 1>(i) }
    """
    onnx.save(parser.parse_model(text), tmp_path / "m.onnx")
    inputs = {"x": np.array([[1, 3, 2]], np.float32)}
    flipped = Reference({"y": np.array([2], np.float32)}, "onnxruntime")
    row = settled(tmp_path / "m.onnx", lambda r: {"y": np.array([1], np.float32)}, reference=flipped, inputs=inputs)
    assert row.verdict == "fail"


def test_integers_are_never_asked(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]>\nf (float[3] x) => (int32[3] y) { y = Cast<to = 6>(x) }'
    onnx.save(parser.parse_model(text), tmp_path / "m.onnx")
    inputs = {"x": np.array([1, 2, 3], np.float32)}
    row = settled(tmp_path / "m.onnx", lambda r: {"y": r.outputs["y"] + 1}, inputs=inputs)
    assert (row.verdict, row.rule, row.float64) == ("fail", "tolerance", None)


HALF = """
<ir_version: 8, opset_import: ["" : 17]>
f (float[2, 3] x) => (float16[2, 2] y) <float[3, 2] v = {1, 2, 3, 4, 5, 6}> {
    h = Cast<to = 10>(x)
    w = Cast<to = 10>(v)
    c = Constant<value_floats = [0.1, 0.2]>()
    d = Cast<to = 10>(c)
    p = MatMul(h, w)
    q = Add(p, d)
    y = Tanh(q)
}
"""


def test_graph_and_model_in_double_agree(tmp_path: Path) -> None:
    onnx.save(parser.parse_model(HALF), tmp_path / "half.onnx")
    x = np.array([[0.1, -0.2, 0.05], [0.01, 0.02, 0.03]], np.float32)
    file = evaluated_in_double(tmp_path / "half.onnx", {"x": x})["y"]
    graph = interpreted(widened(import_onnx(tmp_path / "half.onnx")), {"x": x.astype(np.float64)})["y"]
    w = np.array([[1, 2], [3, 4], [5, 6]], np.float64)
    exact = np.tanh(x.astype(np.float64) @ w + np.array([0.1, 0.2], np.float32))
    for found in (file, graph):
        assert found.dtype == np.float64
    np.testing.assert_allclose(file, exact, rtol=1e-12)
    np.testing.assert_allclose(graph, file, rtol=2e-3)  # the sum's constants are rounded to half where they are folded


def test_a_compiled_program_has_a_form_in_double_too(tmp_path: Path) -> None:
    """Packed weights and fused activations: f32 in a program, f64 for the interpreter."""
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    f (float[1, 2, 4, 4] x, float[3] b) => (float[1, 3, 4, 4] y) {
        c = Conv<pads = [1, 1, 1, 1]>(x, w, b) y = Relu(c)
    }
    """
    model = parser.parse_model(text)
    w = RNG.standard_normal((3, 2, 3, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    onnx.save(model, tmp_path / "conv.onnx")
    x = RNG.standard_normal((1, 2, 4, 4)).astype(np.float32)
    graph = prepack(optimize(import_onnx(tmp_path / "conv.onnx"), "cpu"))
    assert is_packed(graph)
    inputs = {"x": x, "b": np.zeros(3, np.float32)}
    double = interpreted(widened(graph), {n: a.astype(np.float64) for n, a in inputs.items()})["y"]
    np.testing.assert_allclose(double, evaluated_in_double(tmp_path / "conv.onnx", inputs)["y"], rtol=1e-12)
    reference = Reference(interpreted(graph, inputs), "onnxruntime (exported graph)")
    rows = compare_outputs(reference.outputs, reference.outputs)
    [row] = InDouble(graph, None).settled(rows, reference.outputs, reference, inputs)
    assert row.float64 is not None and row.float64["by"] == "numpy in double" and row.float64["ours"]["rms"] > 0


def test_a_model_of_much_work_is_asked_only_where_it_fails(norm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fornaxc.verification import float64

    monkeypatch.setattr(float64, "ALWAYS_WORK", 4 * 64 * 64 - 1)  # each element of y is a sum of 64
    reference = Reference(exactly(norm), "onnxruntime")
    same = settled(norm, lambda found: found.outputs, reference=reference)
    assert (same.verdict, same.float64) == ("pass", None)
    assert settled(norm, lambda found: found.outputs, reference=reference, wanted=True).float64 is not None
    assert settled(norm, near_truth(norm), reference=off_by(norm, 1e-5)).rule == "float64"
    monkeypatch.setattr(float64, "ALWAYS_WORK", 4 * 64 * 64)
    assert settled(norm, lambda found: found.outputs, reference=reference).float64 is not None


def test_a_failure_of_a_large_model_says_how_it_can_be_judged(norm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fornaxc.verification import float64

    reference = off_by(norm, 1e-5)
    for limit, value in (("MOST_WORK", 1), ("LARGE", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(float64, limit, value)
            row = settled(norm, near_truth(norm), reference=reference)
            assert row.verdict == "fail" and "--float64" in row.to_json()["float64"]["why_not"]
            assert settled(norm, near_truth(norm), reference=reference, wanted=True).rule == "float64"
