"""Normalisations against their formulas, in float64."""

from __future__ import annotations

import numpy as np
import pytest
from one_node import Array, f32, run_node

from fornaxc.errors import UnsupportedError

RNG = np.random.default_rng(11)
X = f32(RNG.normal(size=(2, 4, 3, 2)))
CHANNELS = [f32(RNG.normal(size=4)) for _ in range(3)] + [f32([0.5, 1, 2, 3])]


def _normal(x: Array, axes: tuple[int, ...], epsilon: float = 1e-5) -> Array:
    wide = x.astype(np.float64)
    mean, spread = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
    return np.asarray((wide - mean) / np.sqrt(spread + epsilon))


def _channel(v: Array) -> Array:
    return v.reshape(1, 4, 1, 1)


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
def test_batch_normalization(opset: int) -> None:
    scale, bias, mean, variance = CHANNELS
    (y,) = run_node("BatchNormalization", [X, *CHANNELS], opset=opset, epsilon=0.1, symbolic=[(0, 0), (0, 2)])
    wanted = (X - _channel(mean)) / np.sqrt(_channel(variance) + 0.1) * _channel(scale) + _channel(bias)
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)


def test_batch_normalization_in_training_mode() -> None:
    scale, bias, mean, variance = CHANNELS
    y, new_mean, new_variance = run_node(
        "BatchNormalization", [X, *CHANNELS], opset=15, outputs=3, training_mode=1, momentum=0.75
    )
    np.testing.assert_allclose(y, _normal(X, (0, 2, 3)) * _channel(scale) + _channel(bias), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(new_mean, 0.75 * mean + 0.25 * X.mean((0, 2, 3)), rtol=1e-4)
    np.testing.assert_allclose(new_variance, 0.75 * variance + 0.25 * X.var((0, 2, 3)), rtol=1e-4)
    with pytest.raises(UnsupportedError):
        run_node("BatchNormalization", [X, *CHANNELS], opset=9, outputs=3)


def test_instance_and_group_normalization() -> None:
    scale, bias = CHANNELS[:2]
    (y,) = run_node("InstanceNormalization", [X, scale, bias], opset=7, symbolic=[(0, 2), (0, 3)])
    np.testing.assert_allclose(y, _normal(X, (2, 3)) * _channel(scale) + _channel(bias), rtol=1e-4, atol=1e-4)
    groups = _normal(X.reshape(2, 2, 12), (2,)).reshape(X.shape)
    (y,) = run_node("GroupNormalization", [X, scale, bias], opset=21, num_groups=2, symbolic=[(0, 2)])
    np.testing.assert_allclose(y, groups * _channel(scale) + _channel(bias), rtol=1e-4, atol=1e-4)
    (y,) = run_node("GroupNormalization", [X, scale[:2], bias[:2]], opset=18, num_groups=2)
    each = [_channel(np.repeat(v[:2], 2)) for v in (scale, bias)]
    np.testing.assert_allclose(y, groups * each[0] + each[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(3, 2), (2,), (1, 2), (4, 1, 1)])
def test_layer_normalization_broadcasts_its_scale(shape: tuple[int, ...]) -> None:
    scale = f32(RNG.normal(size=shape))
    y, mean, inverse = run_node("LayerNormalization", [X, scale], opset=17, outputs=3, axis=2)
    np.testing.assert_allclose(y, _normal(X, (2, 3)) * scale, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(mean, X.mean((2, 3), keepdims=True), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(inverse, 1 / np.sqrt(X.var((2, 3), keepdims=True) + 1e-5), rtol=1e-4)


def test_layer_normalization_of_halves_has_statistics_in_float32() -> None:
    x = np.array([[1000, 1001, 1002, 1003]], np.float16)
    y, mean, _ = run_node("LayerNormalization", [x, np.ones(4, np.float16)], opset=17, outputs=3)
    assert y.dtype == np.float16 and mean.dtype == np.float32
    np.testing.assert_allclose(y, _normal(x, (1,)), rtol=2e-3)


def test_rms_normalization() -> None:
    (y,) = run_node("RMSNormalization", [f32([[3, 4]]), f32([1, 10])], opset=23)
    np.testing.assert_allclose(y, f32([[3, 40]]) / np.sqrt(12.5), rtol=1e-4)


def test_lrn_of_an_even_size_reaches_further_up() -> None:
    x = f32([1, 2, 3, 4]).reshape(1, 4, 1, 1)
    (y,) = run_node("LRN", [x], opset=13, size=2, alpha=2.0, beta=1.0, bias=1.0)
    np.testing.assert_allclose(y.reshape(-1), [1 / 6, 2 / 14, 3 / 26, 4 / 17], rtol=1e-5)


def test_lp_normalization_of_zeros_is_zero() -> None:
    (y,) = run_node("LpNormalization", [f32([[3, -4], [0, 0]])], opset=22, p=2)
    np.testing.assert_allclose(y, f32([[0.6, -0.8], [0, 0]]))
