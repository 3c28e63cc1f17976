"""GridSample, AffineGrid, RoiAlign, Col2Im, CenterCropPad, Fourier transforms, losses and optimisers."""

from __future__ import annotations

import numpy as np
import pytest
from against_onnxruntime import assert_agrees
from one_node import f32, run_node

from fornaxc.errors import UnsupportedError

ROW = f32([[1, 2, 3, 4]] * 2).reshape(1, 1, 2, 4)


@pytest.mark.parametrize(
    ("padding", "aligned", "wanted"),
    [
        ("zeros", 1, [1, 2.5, 4, 2]),
        ("border", 1, [1, 2.5, 4, 4]),
        ("reflection", 1, [1, 2.5, 4, 3.5]),
        ("zeros", 0, [0.5, 2.5, 2, 0]),
        ("border", 0, [1, 2.5, 4, 4]),
        ("reflection", 0, [1, 2.5, 4, 3.833333]),
    ],
)
def test_grid_sample_at_and_beyond_the_edges(padding: str, aligned: int, wanted: list[float]) -> None:
    # x = -1, 0, 1, 4/3: with aligned corners the last is half an element beyond the centre of the outermost one
    grid = np.zeros((1, 1, 4, 2), np.float32)
    grid[0, 0, :, 0] = [-1, 0, 1, 4 / 3]
    (y,) = run_node("GridSample", [ROW, grid], opset=16, padding_mode=padding, align_corners=aligned, symbolic=[(0, 3)])
    np.testing.assert_allclose(y.reshape(-1), wanted, rtol=1e-5, atol=1e-5)


def test_the_identity_grid_samples_the_image_itself() -> None:
    x = f32(np.random.default_rng(0).normal(size=(1, 2, 3, 4)))
    theta = f32([[[1, 0, 0], [0, 1, 0]]])
    (grid,) = run_node("AffineGrid", [theta, np.array([1, 2, 3, 4])], opset=20, constants=[1])
    for mode in ("linear", "nearest", "cubic"):
        (y,) = run_node("GridSample", [x, grid], opset=20, mode=mode)
        np.testing.assert_allclose(y, x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("aligned", "wanted"), [(1, [3, 2, 1, 0, 5]), (0, [3, 2, 2, 0, 5])])
@pytest.mark.parametrize("symbolic", [[], [(0, 2), (0, 3)]])
def test_the_nearest_element_of_a_grid(aligned: int, wanted: list[float], symbolic: list[tuple[int, int]]) -> None:
    # (x, y) of the third point is (1.4, 0.4) with aligned corners and (1.6, 0.3) without; the fourth lies outside
    x = f32([[0, 1, 2], [3, 4, 5]]).reshape(1, 1, 2, 3)
    grid = f32([[-0.9, 0.9], [0.9, -0.9], [0.4, -0.2], [2, 0.1], [0.9, 0.6]]).reshape(1, 1, 5, 2)
    (y,) = run_node("GridSample", [x, grid], opset=20, mode="nearest", align_corners=aligned, symbolic=symbolic)
    np.testing.assert_array_equal(y.reshape(-1), wanted)


def test_roi_align_of_a_plane_gives_the_values_at_the_centres() -> None:
    # value = 10 y + x; bilinear sampling of a plane is exact
    x = f32(10 * np.arange(6)[:, None] + np.arange(6)[None, :]).reshape(1, 1, 6, 6)
    rois, batch = f32([[1, 1, 5, 3]]), np.array([0], np.int64)
    (y,) = run_node("RoiAlign", [x, rois, batch], opset=16, output_height=1, output_width=2, sampling_ratio=2)
    np.testing.assert_allclose(y.reshape(-1), [16.5, 18.5], rtol=1e-5)
    (y,) = run_node("RoiAlign", [x, rois, batch], opset=10, output_height=1, output_width=2, sampling_ratio=2)
    np.testing.assert_allclose(y.reshape(-1), [22, 24], rtol=1e-5)


def test_roi_align_with_a_grid_that_depends_on_the_regions_is_refused() -> None:
    with pytest.raises(UnsupportedError):
        run_node("RoiAlign", [ROW, f32([[0, 0, 1, 1]]), np.array([0], np.int64)], opset=16)


@pytest.mark.parametrize("scale", [1.0, 0.5])
@pytest.mark.parametrize("symbolic", [False, True])
def test_maxima_of_bins_of_regions_agree_with_onnxruntime(scale: float, symbolic: bool) -> None:
    x = f32(np.random.default_rng(4).normal(size=(2, 3, 7, 9)))
    rois = f32([[0, 0, 0, 8, 6], [1, 2, 1, 3, 5], [1, 5, 5, 2, 2], [0, 7, 5, 20, 30], [1, 1.5, 2.5, 4.5, 3.49]])
    assert_agrees("MaxRoiPool", [x, rois], domain="", symbolic=symbolic, pooled_shape=[3, 2], spatial_scale=scale)


def test_col2im_sums_overlapping_blocks() -> None:
    blocks = f32([[[1, 2], [10, 20]]])  # two blocks of two elements, one apart
    (y,) = run_node("Col2Im", [blocks, np.array([1, 3]), np.array([1, 2])], opset=18, constants=[1, 2])
    np.testing.assert_array_equal(y, f32([[[[1, 12, 20]]]]))


@pytest.mark.parametrize("symbolic", [[], [(0, 0), (0, 1)]])
def test_center_crop_pad_leaves_the_odd_element_at_the_end(symbolic: list[tuple[int, int]]) -> None:
    x = f32([[1, 2, 3, 4, 5]])
    (y,) = run_node("CenterCropPad", [x, np.array([2, 2])], opset=18, constants=[1], symbolic=symbolic)
    np.testing.assert_array_equal(y, f32([[2, 3], [0, 0]]))


@pytest.mark.parametrize("length", [None, 4, 9])
def test_fourier_transforms_are_numpys(length: int | None) -> None:
    x = np.random.default_rng(1).normal(size=(2, 6, 3))
    given = None if length is None else np.array(length)
    (y,) = run_node("DFT", [f32(x[..., None]), given], opset=17, constants=[1], axis=1)
    wanted = np.fft.fft(x, length, axis=1)
    np.testing.assert_allclose(y, np.stack([wanted.real, wanted.imag], -1), rtol=1e-4, atol=1e-5)
    (half,) = run_node("DFT", [f32(x[..., None]), given], opset=17, constants=[1], axis=1, onesided=1)
    np.testing.assert_allclose(half, y[:, : (length or 6) // 2 + 1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [4, 5])
def test_inverse_fourier_transforms(length: int) -> None:
    x = np.random.default_rng(2).normal(size=(2, length)) + 0j
    spectrum = np.fft.fft(x, axis=1)
    parts = f32(np.stack([spectrum.real, spectrum.imag], -1))
    (y,) = run_node("DFT", [parts], opset=20, inverse=1)
    np.testing.assert_allclose(y[..., 0], x.real, rtol=1e-4, atol=1e-5)
    half, size = parts[:, : length // 2 + 1], np.array(length)
    (y,) = run_node("DFT", [half, size], opset=20, constants=[1], inverse=1, onesided=1)
    np.testing.assert_allclose(y[..., 0], x.real, rtol=1e-4, atol=1e-5)


def test_stft_transforms_each_windowed_frame() -> None:
    x, window = np.random.default_rng(3).normal(size=(1, 10)), np.hanning(4)
    (y,) = run_node("STFT", [f32(x[..., None]), np.array(3), f32(window)], opset=17, constants=[1], symbolic=[(0, 1)])
    frames = np.fft.rfft(np.stack([x[:, i : i + 4] * window for i in (0, 3, 6)], 1))
    np.testing.assert_allclose(y, np.stack([frames.real, frames.imag], -1), rtol=1e-4, atol=1e-5)


def test_windows_are_periodic_or_symmetric() -> None:
    (periodic,) = run_node("HannWindow", [np.array(4)], opset=17, constants=[0])
    (symmetric,) = run_node("HannWindow", [np.array(5)], opset=17, constants=[0], periodic=0)
    np.testing.assert_allclose(periodic, [0, 0.5, 1, 0.5], atol=1e-6)
    np.testing.assert_allclose(symmetric, [0, 0.5, 1, 0.5, 0], atol=1e-6)


def test_ignored_targets_do_not_count() -> None:
    logs = f32([[-1, -2], [-3, -4], [-5, -6]])
    target = np.array([1, -1, 0], np.int64)
    for reduction, wanted in (("none", [2, 0, 5]), ("sum", 7), ("mean", 3.5)):
        (y,) = run_node("NegativeLogLikelihoodLoss", [logs, target], opset=13, reduction=reduction, ignore_index=-1)
        np.testing.assert_allclose(y, wanted)


def test_the_mean_loss_is_weighted() -> None:
    scores = np.log(f32([[0.25, 0.75], [0.5, 0.5]]))
    y, logs = run_node("SoftmaxCrossEntropyLoss", [scores, np.array([0, 1]), f32([1, 3])], opset=13, outputs=2)
    np.testing.assert_allclose(y, (np.log(4) + 3 * np.log(2)) / 4, rtol=1e-5)
    np.testing.assert_allclose(logs, scores, rtol=1e-5)


def test_momentum_starts_with_the_whole_gradient() -> None:
    one = [f32([2]), f32([3]), f32([5])]  # tensor, gradient, velocity
    attributes = {"norm_coefficient": 0.5, "alpha": 0.5, "beta": 0.25, "mode": "standard"}
    for count, velocity in ((0, 2.5 + 4), (1, 2.5 + 1)):
        x, v = run_node(
            "Momentum",
            [f32(0.1), np.array(count), *one],
            opset=18,
            outputs=2,
            domain="ai.onnx.preview.training",
            **attributes,
        )
        np.testing.assert_allclose([x.item(), v.item()], [2 - 0.1 * velocity, velocity], rtol=1e-6)


def test_random_operators_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError) as caught:
        run_node("Bernoulli", [f32([0.5])], opset=15)
    assert "random" in caught.value.details[0]["reason"]


def test_boxes_that_overlap_a_better_one_are_dropped() -> None:
    boxes = f32([[[0, 0, 1, 1], [1, 1, 0.1, 0], [0, 2, 1, 3], [0, 0, 1, 1]]])  # the second is given by other corners
    scores = f32([[[0.5, 0.9, 0.3, 0.1], [0.4, 0.2, 0.4, 0.9]]])
    most, overlap, least = np.array([2], np.int64), f32([0.5]), f32([0.25])
    (y,) = run_node("NonMaxSuppression", [boxes, scores, most, overlap, least], opset=11)
    np.testing.assert_array_equal(y, [[0, 0, 1], [0, 0, 2], [0, 1, 3], [0, 1, 2]])
    (none,) = run_node("NonMaxSuppression", [boxes, scores], opset=11)
    assert none.shape == (0, 3)


def test_linear_attention_with_the_delta_rule_replaces_what_a_key_recalls() -> None:
    # the same unit key twice: the second value takes the place of the first
    key, value = f32([[[1, 0], [1, 0]]]), f32([[[3, 4], [5, 6]]])
    rate = np.ones((1, 2, 1), np.float32)
    y, state = run_node(
        "LinearAttention",
        [key, key, value, None, None, rate],
        opset=27,
        outputs=2,
        q_num_heads=1,
        kv_num_heads=1,
        update_rule="delta",
        scale=1.0,
    )
    np.testing.assert_allclose(y, value)
    np.testing.assert_allclose(state, [[[[5, 6], [0, 0]]]])


def test_a_causal_convolution_hands_its_past_on() -> None:
    w = f32([[[100, 10, 1]]])
    y, past = run_node("CausalConvWithState", [f32([[[1, 2]]]), w], opset=27, outputs=2)
    np.testing.assert_array_equal(y, f32([[[1, 12]]]))
    (rest,) = run_node("CausalConvWithState", [f32([[[3]]]), w, None, past], opset=27)
    np.testing.assert_array_equal(rest, f32([[[123]]]))
