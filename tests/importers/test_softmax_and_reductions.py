"""Softmax before and after version 13, activations, reductions: values worked out from the specification."""

from __future__ import annotations

import numpy as np
import pytest
from one_node import Array, f32, run_node

from fornaxc.errors import ModelError

X = f32(np.arange(24).reshape(2, 3, 4) % 7)
NO_AXES = np.array([], np.int64)


def _softmax(x: Array, axis: int | tuple[int, ...]) -> Array:
    e = np.exp(x.astype(np.float64))
    return np.asarray(e / e.sum(axis=axis, keepdims=True))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("opset", [7, 11, 12])
def test_softmax_before_13_is_over_all_trailing_axes(axis: int, opset: int) -> None:
    (y,) = run_node("Softmax", [X], opset=opset, axis=axis)
    np.testing.assert_allclose(y, _softmax(X, tuple(range(axis, 3))), rtol=1e-6)


def test_softmax_before_13_has_axis_1_by_default_and_the_last_one_after() -> None:
    (old,) = run_node("Softmax", [X], opset=12)
    (new,) = run_node("Softmax", [X], opset=13)
    np.testing.assert_allclose(old, _softmax(X, (1, 2)), rtol=1e-6)
    np.testing.assert_allclose(new, _softmax(X, 2), rtol=1e-6)


def test_softmax_before_13_with_symbolic_sizes() -> None:
    (y,) = run_node("Softmax", [X], opset=11, axis=1, symbolic=[(0, 0), (0, 1), (0, 2)])
    np.testing.assert_allclose(y, _softmax(X, (1, 2)), rtol=1e-6)


def test_hardmax_before_13_marks_one_element_of_all_trailing_axes() -> None:
    (y,) = run_node("Hardmax", [f32([[[1, 9], [9, 0]]])], opset=11, axis=1)
    np.testing.assert_array_equal(y, f32([[[0, 1], [0, 0]]]))


def test_hardmax_13_marks_the_first_maximum_of_one_axis() -> None:
    (y,) = run_node("Hardmax", [f32([[[1, 9], [9, 9]]])], opset=13, axis=1)
    np.testing.assert_array_equal(y, f32([[[0, 1], [1, 0]]]))


@pytest.mark.parametrize(
    ("op", "value"),
    [
        ("ReduceSum", [[-3, 4]]),
        ("ReduceMean", [[-3, 4]]),
        ("ReduceMax", [[-3, 4]]),
        ("ReduceMin", [[-3, 4]]),
        ("ReduceProd", [[-3, 4]]),
        ("ReduceL1", [[3, 4]]),
        ("ReduceL2", [[3, 4]]),
        ("ReduceSumSquare", [[9, 16]]),
        ("ReduceLogSumExp", [[-3, 4]]),
    ],
)
@pytest.mark.parametrize("axes", [None, NO_AXES], ids=["absent", "empty"])
def test_without_axes_noop_keeps_the_elementwise_part(op: str, value: object, axes: Array | None) -> None:
    (y,) = run_node(op, [f32([[-3, 4]]), axes], opset=18, constants=[1], noop_with_empty_axes=1)
    np.testing.assert_allclose(y, f32(value), rtol=1e-6)


@pytest.mark.parametrize("axes", [None, NO_AXES], ids=["absent", "empty"])
def test_noop_keeps_the_logarithm(axes: Array | None) -> None:
    (y,) = run_node("ReduceLogSum", [f32([[1, np.e]]), axes], opset=18, constants=[1], noop_with_empty_axes=1)
    np.testing.assert_allclose(y, [[0, 1]], atol=1e-6)


def test_empty_axes_reduce_all_without_noop() -> None:
    (y,) = run_node("ReduceSum", [f32([[1, 2], [3, 4]]), NO_AXES], opset=13, constants=[1])
    np.testing.assert_array_equal(y, f32([[10]]))


def test_an_axis_outside_the_tensor_is_invalid() -> None:
    with pytest.raises(ModelError, match="axis 3"):
        run_node("ReduceMax", [X], opset=13, axes=[3])


def test_log_sum_exp_does_not_overflow() -> None:
    x = f32([[1000, 1000], [-1000, -1000], [-np.inf, -np.inf], [np.inf, 0]])
    (y,) = run_node("ReduceLogSumExp", [x], opset=13, axes=[1], keepdims=0)
    np.testing.assert_allclose(y, [1000 + np.log(2), -1000 + np.log(2), -np.inf, np.inf], rtol=1e-6)


def test_mean_of_integers_is_towards_zero() -> None:
    (y,) = run_node("ReduceMean", [np.array([[-3, -4], [3, 4]], np.int32)], opset=13, axes=[1], keepdims=0)
    np.testing.assert_array_equal(y, np.array([-3, 3], np.int32))


@pytest.mark.parametrize(("last", "index"), [(0, 1), (1, 2)])
def test_arg_max_of_equal_elements(last: int, index: int) -> None:
    (y,) = run_node("ArgMax", [f32([0, 5, 5, 1])], opset=13, axis=0, keepdims=0, select_last_index=last)
    assert y.dtype == np.int64 and y.item() == index


@pytest.mark.parametrize(
    ("op", "opset", "attributes", "value"),
    [
        ("LeakyRelu", 16, {"alpha": 0.1}, [-0.2, 0, 3, np.nan]),
        ("Elu", 22, {"alpha": 2.0}, [2 * (np.exp(-2) - 1), 0, 3, np.nan]),
        ("ThresholdedRelu", 22, {"alpha": 1.0}, [0, 0, 3, 0]),
        ("HardSigmoid", 22, {}, [0.1, 0.5, 1, np.nan]),
        ("HardSwish", 22, {}, [-1 / 3, 0, 3, np.nan]),
        ("Shrink", 9, {"lambd": 1.5, "bias": 0.5}, [-1.5, 0, 2.5, 0]),
        ("Softsign", 22, {}, [-2 / 3, 0, 0.75, np.nan]),
    ],
)
def test_activations(op: str, opset: int, attributes: dict[str, float], value: list[float]) -> None:
    (y,) = run_node(op, [f32([-2, 0, 3, np.nan])], opset=opset, **attributes)
    np.testing.assert_allclose(y, f32(value), rtol=1e-5, atol=1e-6)


def test_prelu_broadcasts_its_slope_only() -> None:
    (y,) = run_node("PRelu", [f32([[-1, 2], [-3, -4]]), f32([[10], [100]])], opset=16)
    np.testing.assert_array_equal(y, f32([[-10, 2], [-300, -400]]))
    with pytest.raises(ModelError):
        run_node("PRelu", [f32([-1]), f32([1, 2])], opset=16)
