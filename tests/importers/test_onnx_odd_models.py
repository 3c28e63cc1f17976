"""Models that are legal and rare: what they compute is worked out from the specification."""

from __future__ import annotations

import logging

import numpy as np
import onnx.parser
import pytest
from one_node import f32, run_node
from text_models import graph_of, outputs_of, result_of

from fornaxc.errors import ModelError, UnsupportedError
from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import model_from_proto
from fornaxc.ir.interpreter import run

FOUR = f32(np.arange(16)).reshape(1, 1, 4, 4)


@pytest.mark.parametrize("group", [1, 3])
def test_a_long_kernel(group: int) -> None:
    rng = np.random.default_rng(0)
    x, w = f32(rng.standard_normal((2, 3, 140))), f32(rng.standard_normal((6, 3 // group, 128)))
    (y,) = run_node("Conv", [x, w], opset=11, constants=[1], group=group, pads=[5, 7])
    padded = np.pad(x, ((0, 0), (0, 0), (5, 7)))
    each = 3 // group
    for filter in range(6):
        first = filter // (6 // group) * each
        wanted = [np.sum(padded[:, first : first + each, i : i + 128] * w[filter], axis=(1, 2)) for i in range(25)]
        np.testing.assert_allclose(y[:, filter], np.array(wanted).T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("scale", "rows"),
    [(2, [0, 0, 0, 1, 1, 2, 2, 3]), (1.5, [0, 0, 1, 1, 2, 3]), (3, [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3])],
)
def test_nearest_with_floor_on_two_axes_and_on_one(scale: float, rows: list[int]) -> None:
    def resized(*scales: float) -> np.ndarray:
        inputs = [FOUR, None, f32([1, 1, *scales])]
        (y,) = run_node("Resize", inputs, opset=13, constants=[2], mode="nearest", nearest_mode="floor")
        return y[0, 0]

    np.testing.assert_array_equal(resized(scale, scale), FOUR[0, 0][rows][:, rows])
    np.testing.assert_array_equal(resized(1, scale), FOUR[0, 0][:, rows])
    np.testing.assert_array_equal(resized(scale, 1), FOUR[0, 0][rows])


@pytest.mark.parametrize(("op", "wanted"), [("Min", 2), ("Max", 5), ("Sum", 7), ("Mean", 3.5)])
def test_constants_alone(op: str, wanted: float) -> None:
    text = f"(float[30] x) => (float[30] y) {{ k = {op}(a, b)\n y = Add(x, k) }}"
    zeros = np.zeros(30, np.float32)
    np.testing.assert_array_equal(result_of(text, zeros, a=f32([2]), b=f32([5])), np.full(30, wanted, np.float32))


def test_an_ellipsis_that_is_the_whole_of_each_operand() -> None:
    text = '(float x, float[2, 3] z) => (float[2, 3] y) { y = Einsum<equation="...,...->...">(x, z) }'
    z = f32(np.arange(6)).reshape(2, 3)
    np.testing.assert_array_equal(result_of(text, f32(3), z), 3 * z)


def test_block_sizes_need_opset_21() -> None:
    inputs = [f32(np.zeros((2, 4))), f32(np.ones((2, 2))), np.zeros((2, 2), np.int8)]
    (y,) = run_node("QuantizeLinear", inputs, opset=21, axis=1, block_size=2)
    assert y.shape == (2, 4)
    with pytest.raises((UnsupportedError, ModelError)):
        run_node("QuantizeLinear", inputs, opset=19, axis=1, block_size=2)


def test_outputs_that_are_inputs_and_constants() -> None:
    text = "(float[2] x) => (float[2] x, float[2] k, float[2] y) { y = Neg(x) }"
    x, k = f32([1, 2]), f32([3, 4])
    found = outputs_of(text, x, k=k)
    for have, want in zip(found, (x, k, -x), strict=True):
        np.testing.assert_array_equal(have, want)


def test_an_output_that_is_listed_twice_is_given_once_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        graph = graph_of("(float[2] x) => (float[2] y, float[2] z, float[2] y) { y = Neg(x)\n z = Abs(x) }")
    assert graph.output_names == ("y", "z")
    assert "listed more than once" in caplog.text
    y, z = run(graph, [f32([1, -2])])
    assert (y.tolist(), z.tolist()) == ([-1, 2], [1, 2])


def test_unsorted_nodes_are_sorted_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        graph = graph_of("(float[2] x) => (float[2] y) { y = Sub(a, b)\n b = Mul(a, a)\n a = Relu(x) }")
    assert "topological order" in caplog.text
    assert run(graph, [f32([-5, 3])])[0].tolist() == [0, -6]


def test_a_constant_that_is_an_attribute_of_the_function() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 18, "local" : 1]>
        g (float[2] x) => (float[2] y, float[2] z) { y = local.scaled<factor=3.0>(x)\n z = local.scaled<factor=0.5>(y) }
        <domain: "local", opset_import: ["" : 18]>
        scaled<factor>(a) => (b) { k = Constant<value_float: float = @factor>()\n b = Mul(a, k) }""")
    y, z = run(import_model(model_from_proto(model), {}), [f32([1, 2])])
    assert (y.tolist(), z.tolist()) == ([3, 6], [1.5, 3])
