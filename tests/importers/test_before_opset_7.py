"""Opset 6, where an attribute says how an operand broadcasts, against numpy: onnxruntime does not run it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

from fornaxc.errors import FornaxError
from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import model_from_proto
from fornaxc.ir.checker import check
from fornaxc.ir.interpreter import run

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7
PER_CHANNEL = np.array([1, 2, 3], np.float32)
COLUMN = PER_CHANNEL.reshape(3, 1)


def imported(expression: str, **constants: Any) -> Any:
    text = f'<ir_version: 3, opset_import: ["" : 6]> g (float[2, 3, 4] x) => (y) {{ y = {expression} }}'
    model = onnx.parser.parse_model(text)
    model.graph.output[0].ClearField("type")
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items())
    graph = import_model(model_from_proto(model), {})
    check(graph)
    return graph


CASES: list[tuple[str, dict[str, Any], Any]] = [
    ("Add<broadcast=1, axis=1>(x, c)", {"c": PER_CHANNEL}, X + COLUMN),
    ("Sub<broadcast=1>(x, c)", {"c": X[1]}, X - X[1]),
    ("Mul<broadcast=1>(x, c)", {"c": np.array([3], np.float32)}, X * 3),
    ("Div(x, c)", {"c": X + 9}, X / (X + 9)),
    ("Pow<broadcast=1>(x, c)", {"c": np.array(2, np.float32)}, X**2),
    ("Greater<broadcast=1, axis=1>(x, c)", {"c": PER_CHANNEL}, X > COLUMN),
    ("PRelu(x, c)", {"c": PER_CHANNEL}, np.where(X < 0, X * COLUMN, X)),
    ("PRelu(x, c)", {"c": np.array([2], np.float32)}, np.where(X < 0, X * 2, X)),
    (
        "BatchNormalization<is_test=1, epsilon=0.5>(x, c, d, d, c)",
        {"c": PER_CHANNEL, "d": -PER_CHANNEL},
        (X + COLUMN) / np.sqrt(COLUMN + 0.5) * COLUMN - COLUMN,
    ),
    ("AveragePool<kernel_shape=[2], pads=[1, 0], strides=[3]>(x)", {}, np.stack([X[..., 0], X[..., 2:4].mean(-1)], -1)),
    ("Dropout<is_test=1>(x)", {}, X),
]


@pytest.mark.parametrize(
    ("expression", "constants", "wanted"), CASES, ids=[f"{i}_{c[0][:9]}" for i, c in enumerate(CASES)]
)
def test_values(expression: str, constants: dict[str, Any], wanted: Any) -> None:
    (found,) = run(imported(expression, **constants), [X])
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_gemm() -> None:
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    text = """<ir_version: 3, opset_import: ["" : 6]> g (float[2, 3] a, float[4, 3] b, float[4] c) => (float[2, 4] y)
        { y = Gemm<broadcast=1, transB=1, beta=2.0>(a, b, c) }"""
    graph = import_model(model_from_proto(onnx.parser.parse_model(text)), {})
    b, c = X[0].T.copy(), X[1, 0]
    np.testing.assert_allclose(run(graph, [matrix, b, c])[0], matrix @ b.T + 2 * c, rtol=1e-6)


@pytest.mark.parametrize("opset", [1, 5])
def test_operators_that_have_not_changed_since_are_taken_from_any_opset(opset: int) -> None:
    text = f'<ir_version: 3, opset_import: ["" : {opset}]> g (bool[3] x) => (bool[3] y) {{ y = Not(x) }}'
    graph = import_model(model_from_proto(onnx.parser.parse_model(text)), {})
    assert run(graph, [np.array([True, False, True])])[0].tolist() == [False, True, False]
    text = f'<ir_version: 3, opset_import: ["" : {opset}]> g (float[3] x) => (float[3] y) {{ y = Relu(x) }}'
    with pytest.raises(FornaxError) as error:
        import_model(model_from_proto(onnx.parser.parse_model(text)), {})
    assert "version 1 is not supported (only 6, 13, 14)" in str(error.value.details)
    assert "version_converter" in str(error.value.details)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("Add(x, c)", "one shape unless `broadcast` is 1"),
        ("Add<broadcast=1, axis=3>(x, c)", "axes of a tensor of rank 1 from axis 3 of one of rank 3"),
        ("BatchNormalization(x, c, c, c, c)", "BatchNormalization in training mode"),
        ("Dropout(x)", "Dropout in training mode"),
    ],
)
def test_what_is_not_taken(expression: str, reason: str) -> None:
    with pytest.raises(FornaxError) as error:
        imported(expression, c=PER_CHANNEL)
    assert reason in str(error.value) + str(error.value.details)
