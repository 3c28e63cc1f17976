"""Pools and convolutions: ceil_mode, padding, indices, transposed convolutions."""

from __future__ import annotations

import numpy as np
import pytest
from one_node import f32, run_node

from fornaxc.errors import UnsupportedError

LINE = f32(np.arange(1, 7)).reshape(1, 1, 6)  # 1 2 3 4 5 6
SQUARE = f32(np.arange(1, 17)).reshape(1, 1, 4, 4)
SIZES = [(), [(0, 2)]]


@pytest.mark.parametrize("symbolic", SIZES)
@pytest.mark.parametrize("opset", [11, 19, 22])
def test_a_window_that_would_start_in_the_right_padding_is_left_out(
    opset: int, symbolic: list[tuple[int, int]]
) -> None:
    # windows start at -1, 2, 5 (of 6 elements); one at 8 would lie in the padding (6, 7, 8)
    (y,) = run_node(
        "AveragePool", [LINE], opset=opset, kernel_shape=[3], strides=[3], pads=[1, 3], ceil_mode=1, symbolic=symbolic
    )
    np.testing.assert_allclose(y, f32([[[1.5, 4, 6]]]))


@pytest.mark.parametrize("symbolic", SIZES)
def test_padding_counts_but_what_ceil_mode_adds_does_not(symbolic: list[tuple[int, int]]) -> None:
    # padded to 0 1 2 3 4 5 6 0; windows of 3 at 0, 2, 4, 6: the last holds 6 and one pad
    (y,) = run_node(
        "AveragePool",
        [LINE],
        opset=19,
        kernel_shape=[3],
        strides=[2],
        pads=[1, 1],
        ceil_mode=1,
        count_include_pad=1,
        symbolic=symbolic,
    )
    np.testing.assert_allclose(y, f32([[[1, 3, 5, 3]]]))


@pytest.mark.parametrize("symbolic", SIZES)
def test_without_count_include_pad_only_elements_count(symbolic: list[tuple[int, int]]) -> None:
    (y,) = run_node("AveragePool", [LINE], opset=11, kernel_shape=[3], strides=[2], pads=[1, 1], symbolic=symbolic)
    np.testing.assert_allclose(y, f32([[[1.5, 3, 5]]]))


def test_max_pool_of_negative_numbers_ignores_padding() -> None:
    (y,) = run_node("MaxPool", [-LINE], opset=12, kernel_shape=[2], strides=[2], pads=[1, 1])
    np.testing.assert_array_equal(y, f32([[[-1, -2, -4, -6]]]))


def test_max_pool_of_int8_ignores_padding() -> None:
    x = np.array([[[-128, -5]]], np.int8)
    (y,) = run_node("MaxPool", [x], opset=12, kernel_shape=[2], pads=[1, 1])
    np.testing.assert_array_equal(y, np.array([[[-128, -5, -5]]], np.int8))


@pytest.mark.parametrize(("order", "index"), [(0, [[5, 7], [13, 15]]), (1, [[5, 13], [7, 15]])])
def test_the_indices_of_maxima(order: int, index: list[list[int]]) -> None:
    y, i = run_node("MaxPool", [SQUARE], opset=12, outputs=2, kernel_shape=[2, 2], strides=[2, 2], storage_order=order)
    np.testing.assert_array_equal(y, f32([[[[6, 8], [14, 16]]]]))
    np.testing.assert_array_equal(i, np.array([[index]], np.int64))


def test_of_equal_maxima_the_first_counts_and_padding_never() -> None:
    x = f32([[[-np.inf, -np.inf]], [[3, 3]]])
    _, i = run_node("MaxPool", [x], opset=12, outputs=2, kernel_shape=[2], pads=[1, 0])
    np.testing.assert_array_equal(i, [[[0, 0]], [[2, 2]]])


@pytest.mark.parametrize(("auto", "value"), [("SAME_UPPER", [3, 5, 7, 9, 11, 6]), ("SAME_LOWER", [1, 3, 5, 7, 9, 11])])
@pytest.mark.parametrize("symbolic", SIZES)
def test_same_padding_puts_the_odd_element_where_its_name_says(
    auto: str, value: list[float], symbolic: list[tuple[int, int]]
) -> None:
    w = f32([[[1, 1]]])
    (y,) = run_node("Conv", [LINE, w], opset=11, constants=[1], auto_pad=auto, symbolic=symbolic)
    np.testing.assert_array_equal(y, f32([[value]]))


@pytest.mark.parametrize("size", [5, 6])
def test_same_padding_of_a_symbolic_size_with_strides(size: int) -> None:
    x, w = f32(np.ones((1, 1, size))), f32([[[1, 1, 1]]])
    (fixed,) = run_node("Conv", [x, w], opset=11, constants=[1], auto_pad="SAME_UPPER", strides=[2])
    (y,) = run_node("Conv", [x, w], opset=11, constants=[1], auto_pad="SAME_UPPER", strides=[2], symbolic=[(0, 2)])
    np.testing.assert_array_equal(fixed, f32([[[2, 3, 2]]]) if size == 5 else f32([[[3, 3, 2]]]))
    np.testing.assert_array_equal(y, fixed)


def test_padded_grouped_convolution_includes_the_border() -> None:
    x = f32([[[1, 2, 3], [10, 20, 30]]])
    w = f32([[[1, 10, 100]], [[1, 0, 0]]])
    (y,) = run_node("Conv", [x, w, f32([0.5, 0])], opset=11, constants=[1, 2], pads=[1, 1], group=2)
    np.testing.assert_array_equal(y, f32([[[210.5, 321.5, 32.5], [0, 10, 20]]]))


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("symbolic", SIZES)
def test_conv_transpose_same_upper_multiplies_the_size(extra: int, symbolic: list[tuple[int, int]]) -> None:
    x, w = f32([[[1, 2, 3]]]), f32([[[1, 10, 100]]])
    # the full result is 1 10 102 20 203 30 300 (and a 0 with output_padding); SAME cuts it to 6
    (y,) = run_node(
        "ConvTranspose",
        [x, w],
        opset=11,
        constants=[1],
        auto_pad="SAME_UPPER",
        strides=[2],
        output_padding=[extra],
        symbolic=symbolic,
    )
    full = [1, 10, 102, 20, 203, 30, 300, 0]
    np.testing.assert_array_equal(y, f32([[full[0:6] if extra == 0 else full[1:7]]]))


def test_conv_transpose_groups_and_dilations() -> None:
    x = f32([[[1, 2], [3, 4]]])
    w = f32([[[1, 10]], [[1, 100]]])
    (y,) = run_node("ConvTranspose", [x, w], opset=11, constants=[1], group=2, dilations=[2])
    np.testing.assert_array_equal(y, f32([[[1, 2, 10, 20], [3, 4, 300, 400]]]))


def test_conv_transpose_to_an_output_shape_beyond_the_full_result_ends_in_zeros() -> None:
    (y,) = run_node(
        "ConvTranspose", [f32([[[1, 2]]]), f32([[[1, 1]]])], opset=11, constants=[1], strides=[2], output_shape=[5]
    )
    np.testing.assert_array_equal(y, f32([[[1, 1, 2, 2, 0]]]))


def test_lp_pool_and_global_pools() -> None:
    (y,) = run_node("LpPool", [f32([[[3, 4, 0]]])], opset=18, kernel_shape=[2], p=2)
    np.testing.assert_allclose(y, f32([[[5, 4]]]))
    (mean,) = run_node("GlobalAveragePool", [SQUARE], opset=22, symbolic=[(0, 2), (0, 3)])
    np.testing.assert_allclose(mean, f32([[[[8.5]]]]))


def test_pools_with_same_padding_and_gaps_are_refused() -> None:
    with pytest.raises(UnsupportedError):
        run_node("MaxPool", [LINE], opset=12, kernel_shape=[1], strides=[3], auto_pad="SAME_UPPER")


def test_deform_conv_without_offsets_is_a_convolution() -> None:
    rng = np.random.default_rng(0)
    x, w = f32(rng.normal(size=(1, 2, 4, 5))), f32(rng.normal(size=(3, 2, 2, 2)))
    (plain,) = run_node("Conv", [x, w], opset=11, constants=[1])
    (y,) = run_node("DeformConv", [x, w, np.zeros((1, 8, 3, 4), np.float32)], opset=19, constants=[1])
    np.testing.assert_allclose(y, plain, rtol=1e-5, atol=1e-5)
