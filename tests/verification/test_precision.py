"""The float type behind an output, and the tolerance that follows from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.ir.types import DType
from fornaxc.verification.compare import compare_outputs
from fornaxc.verification.precision import computed_in
from fornaxc.verification.tolerances import Tolerances

MODEL = """
<ir_version: 8, opset_import: ["" : 18]>
f (float[2] x, float16[2] h) => (float[2] single, float[2] half, float[2] exact, float[2] looped) {
    single = Exp(x)
    c = Cast<to = 10>(x)
    e = Exp(c)
    half = Cast<to = 1>(e)
    exact = Cast<to = 1>(h)
    t = ReduceSum<keepdims = 0>(x)
    zero = Constant<value = float {0}>()
    positive = Greater(t, zero)
    looped = If<then_branch = then () => (float[2] a) { a = Cast<to = 1>(e) },
                else_branch = other () => (float[2] b) { b = Identity(x) }>(positive)
}
"""


def test_half_precision_is_followed_to_the_outputs(tmp_path: Path) -> None:
    onnx.save(parser.parse_model(MODEL), tmp_path / "m.onnx")
    found = computed_in(import_onnx(tmp_path / "m.onnx"))
    assert found == {"single": DType.F32, "half": DType.F16, "exact": DType.F32, "looped": DType.F16}


@pytest.mark.parametrize(
    ("computed", "verdict", "source"),
    [
        ({}, "fail", "default for f32"),
        ({"y": DType.F32}, "fail", "default for f32"),
        ({"y": DType.F16}, "pass", "default for f16, in which a part is computed"),
    ],
)
def test_a_step_of_half_precision_is_an_error_of_single(computed: dict[str, DType], verdict: str, source: str) -> None:
    reference = np.array([0.125, 4.0], np.float32)
    value = reference + np.array([0, 2**-7], np.float32)
    [row] = compare_outputs({"y": value}, {"y": reference}, Tolerances(computed=computed))
    assert row.tolerance is not None
    assert (row.verdict, row.tolerance.source) == (verdict, source)


def test_integers_stay_exact_whatever_was_computed() -> None:
    one, two = np.array([1]), np.array([2])
    [row] = compare_outputs({"y": one}, {"y": two}, Tolerances(computed={"y": DType.BF16}))
    assert row.verdict == "fail"


def test_doubles_that_went_through_half_precision() -> None:
    reference = np.array([4.0])
    [row] = compare_outputs({"y": reference + 2**-7}, {"y": reference}, Tolerances(computed={"y": DType.F16}))
    assert row.verdict == "pass"
