"""Axes, sizes, pads, scales and bounds that arrive at run time, against numpy and against the same node with constants."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from one_node import Array, f32, run_node
from text_models import result_of

from fornaxc.errors import UnsupportedError
from fornaxc.ir.binding import ShapeMismatch
from fornaxc.ir.ops import IrError

RNG = np.random.default_rng(3)
X = RNG.uniform(0.5, 1.5, (2, 3, 5)).astype(np.float32)


def i64(*values: int) -> Array:
    return np.array(values, np.int64)


REDUCTIONS: dict[str, Any] = {
    "ReduceSum": np.sum,
    "ReduceMean": np.mean,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceProd": np.prod,
    "ReduceL1": lambda x, **how: np.sum(np.abs(x), **how),
    "ReduceL2": lambda x, **how: np.sqrt(np.sum(x * x, **how)),
    "ReduceLogSum": lambda x, **how: np.log(np.sum(x, **how)),
    "ReduceLogSumExp": lambda x, **how: np.log(np.sum(np.exp(x), **how)),
    "ReduceSumSquare": lambda x, **how: np.sum(x * x, **how),
}


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("keep", [0, 1])
def test_every_set_of_axes(op: str, keep: int) -> None:
    for count in (1, 2, 3):
        for axes in combinations(range(3), count):
            for given in (axes, tuple(a - 3 for a in reversed(axes))):
                (y,) = run_node(op, [X, i64(*given)], opset=18, keepdims=keep)
                expected = np.asarray(REDUCTIONS[op](X, axis=axes, keepdims=bool(keep)))
                assert y.dtype == np.float32 and y.shape == expected.shape
                np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_the_number_of_axes_may_be_unknown_where_the_rank_is_kept() -> None:
    for given, axes in ((i64(), (0, 1, 2)), (i64(1, -1), (1, 2))):
        (y,) = run_node("ReduceSum", [X, given], opset=13, symbolic=[(1, 0), (0, 1)])
        np.testing.assert_allclose(y, X.sum(axes, keepdims=True), rtol=1e-6)
    (y,) = run_node("ReduceSum", [X, i64()], opset=13, symbolic=[(1, 0)], noop_with_empty_axes=1)
    np.testing.assert_array_equal(y, X)


@pytest.mark.parametrize(
    ("op", "value"),
    [
        ("ReduceSumSquare", [[9, 1, 16]]),
        ("ReduceL1", [[3, 1, 4]]),
        ("ReduceL2", [[3, 1, 4]]),
        ("ReduceLogSum", [[np.nan, 0, np.log(4)]]),
        ("ReduceLogSumExp", [[-3, 1, 4]]),
    ],
)
@pytest.mark.parametrize("symbolic", [[], [(1, 0)], [(1, 0), (0, 1)]])
def test_no_axes_at_run_time_keep_the_elementwise_part(
    op: str, value: list[list[float]], symbolic: list[tuple[int, int]]
) -> None:
    with np.errstate(invalid="ignore"):  # the logarithm of -3
        (y,) = run_node(op, [f32([[-3, 1, 4]]), i64()], opset=18, symbolic=symbolic, noop_with_empty_axes=1)
    np.testing.assert_allclose(y, f32(value), rtol=1e-6)


def test_an_unknown_rank_is_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        run_node("ReduceSum", [X, i64(1)], opset=13, symbolic=[(1, 0)], keepdims=0)
    assert "rank of the result" in caught.value.details[0]["reason"]


def test_reducing_nothing_gives_the_identity() -> None:
    nothing = np.zeros((2, 0, 3), np.float32)
    for op, value in (("ReduceSum", 0), ("ReduceProd", 1), ("ReduceMax", -np.inf), ("ReduceLogSumExp", -np.inf)):
        (y,) = run_node(op, [nothing, i64(1)], opset=18)
        np.testing.assert_array_equal(y, np.full((2, 1, 3), value, np.float32))
        (y,) = run_node(op, [nothing, i64(0)], opset=18)
        assert y.shape == (1, 0, 3)


def test_narrow_floats_are_added_up_in_float32() -> None:
    x = np.full((3, 700, 5), 1.001, np.float16)
    (y,) = run_node("ReduceSum", [x, i64(0, 1, 2)[1:]], opset=13, keepdims=0)
    np.testing.assert_array_equal(y, x.astype(np.float32).sum((1, 2)).astype(np.float16))


@pytest.mark.parametrize("axis", [-3, -1, 0, 1, 2])
def test_running_totals_along_an_axis(axis: int) -> None:
    (y,) = run_node("CumSum", [X, np.array(axis, np.int32)], opset=14, symbolic=[(0, 2)])
    np.testing.assert_allclose(y, np.cumsum(X, axis), rtol=1e-6)
    (y,) = run_node("CumProd", [X, i64(axis)], opset=26, reverse=1)
    np.testing.assert_allclose(y, np.flip(np.cumprod(np.flip(X, axis), axis), axis), rtol=1e-5)


def test_axes_that_come_and_go() -> None:
    (y,) = run_node("Unsqueeze", [X, i64(-1, 1)], opset=13, symbolic=[(0, 0)])
    assert y.shape == (2, 1, 3, 5, 1)
    (y,) = run_node("Unsqueeze", [f32(7), i64(0, 1)], opset=13)
    assert y.shape == (1, 1)
    (y,) = run_node("Squeeze", [X.reshape(2, 1, 3, 1, 5), i64(3, -4)], opset=13)
    np.testing.assert_array_equal(y, X)
    (y,) = run_node("Squeeze", [f32([[7]]), i64(1, 0)], opset=13)
    assert y.shape == ()
    with pytest.raises(ValueError, match="reshape"):
        run_node("Squeeze", [X, i64(1)], opset=13)


def test_a_squeeze_without_axes_keeps_a_size_that_the_data_decides() -> None:
    text = "(float[2, 3] x) => (int64[a, b] y) { i = NonZero(x)\n n = Unsqueeze(i, one)\n y = Squeeze(n) }"
    x = f32([[0, 1, 0], [2, 0, 3]])
    np.testing.assert_array_equal(result_of(text, x, one=i64(1)), [[0, 1, 1], [1, 0, 2]])
    with pytest.raises((IrError, ValueError)):  # one column: that axis would go too
        result_of(text, f32([[0, 1, 0], [0, 0, 0]]), one=i64(1))


def test_bounds_of_axes_in_any_order() -> None:
    (y,) = run_node("Slice", [X, i64(-1, 1), i64(-100, 2), i64(2, 0), i64(-2, 1)], opset=13)
    np.testing.assert_array_equal(y, X[1:2, :, ::-2])
    (y,) = run_node("Slice", [X, i64(1), i64(100), i64(-2)], opset=13, symbolic=[(0, 1)])
    np.testing.assert_array_equal(y, X[:, 1:])


def test_parts_that_add_up() -> None:
    parts = run_node("Split", [X, i64(0, 2, 3)], opset=18, axis=-1, outputs=3)
    for part, expected in zip(parts, np.split(X, [0, 2], -1), strict=True):
        np.testing.assert_array_equal(part, expected)


@pytest.mark.parametrize("sizes", [(1, 3), (4, 2), (-1, 6)])
def test_parts_that_do_not_add_up_stop_the_run(sizes: tuple[int, int]) -> None:
    with pytest.raises((IrError, ValueError)):
        run_node("Split", [X, i64(*sizes)], opset=18, axis=2, outputs=2)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pads_of_either_sign(mode: str) -> None:
    inputs = [X, i64(-1, 1, 1, -1), f32(9), i64(-1, 1)]
    (y,) = run_node("Pad", inputs, opset=19, mode=mode)
    (expected,) = run_node("Pad", inputs, opset=19, constants=[1, 3], mode=mode)
    np.testing.assert_array_equal(y, expected)


def test_pads_that_take_more_than_there_is_stop_the_run() -> None:
    with pytest.raises((IrError, ValueError)):
        run_node("Pad", [X, i64(-1, 0, 0, -2, 0, 0)], opset=13)


RESIZES: list[dict[str, Any]] = [
    {"mode": "nearest"},
    {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    {"mode": "linear"},
    {"mode": "linear", "antialias": 1},
    {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"},
    {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    {"mode": "cubic"},
    {"mode": "cubic", "antialias": 1},
    {"mode": "cubic", "antialias": 1, "exclude_outside": 1},
    {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5},
    {"mode": "cubic", "coordinate_transformation_mode": "asymmetric"},
    {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    {"mode": "cubic", "coordinate_transformation_mode": "align_corners"},
]
IMAGE = RNG.standard_normal((1, 2, 4, 7)).astype(np.float32)


@pytest.mark.parametrize("how", RESIZES, ids=lambda how: "-".join(str(v) for v in how.values()))
def test_resize_by_scales_and_by_sizes(how: dict[str, Any]) -> None:
    for scales in (f32([1.75, 3]), f32([0.5, 0.625])):
        inputs = [IMAGE, None, scales]
        (y,) = run_node("Resize", inputs, opset=19, axes=[2, 3], **how)
        (expected,) = run_node("Resize", inputs, opset=19, constants=[2], axes=[2, 3], **how)
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    for sizes in (i64(9, 7), i64(2, 11)):
        (y,) = run_node("Resize", [IMAGE, None, None, sizes], opset=19, axes=[2, 3], **how)
        (expected,) = run_node("Resize", [IMAGE, None, None, sizes], opset=19, constants=[3], axes=[2, 3], **how)
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_resize_at_one_scale(policy: str) -> None:
    for sizes in (i64(6, 6), i64(9, 5), i64(2, 7)):
        inputs = [IMAGE, None, None, sizes]
        how = {"axes": [2, 3], "keep_aspect_ratio_policy": policy, "mode": "linear"}
        (y,) = run_node("Resize", inputs, opset=19, **how)
        (expected,) = run_node("Resize", inputs, opset=19, constants=[3], **how)
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
        (y,) = run_node("Resize", inputs, opset=19, constants=[3], symbolic=[(0, 2), (0, 3)], **how)
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_resize_of_a_region() -> None:
    roi = f32([0.25, -0.2, 0.75, 1.1])
    how = {"axes": [2, 3], "mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    inputs = [IMAGE, roi, None, i64(3, 5)]
    (y,) = run_node("Resize", inputs, opset=19, extrapolation_value=10.0, **how)
    (expected,) = run_node("Resize", inputs, opset=19, constants=[1, 3], extrapolation_value=10.0, **how)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_a_scale_whose_size_is_a_question_of_rounding_stops_the_run() -> None:
    with pytest.raises((IrError, ValueError)):
        run_node("Resize", [f32(np.zeros((1, 1, 1, 5))), None, f32([1, 1, 1, 2.6])], opset=19)


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("axis", [1, 2, -2, -3])
def test_fourier_transform_along_an_axis(axis: int, onesided: int) -> None:
    x = RNG.standard_normal((2, 6, 5, 1)).astype(np.float32)
    (y,) = run_node("DFT", [x, None, i64(axis)[0]], opset=20, onesided=onesided)
    transform = np.fft.rfft if onesided else np.fft.fft
    expected = transform(x[..., 0], axis=axis + 1 if axis < 0 else axis)
    np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("is_inverse", "onesided"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("length", [4, 6, 9])
def test_fourier_transform_of_a_given_length(length: int, is_inverse: int, onesided: int) -> None:
    x = RNG.standard_normal((3, 6, 1 if onesided and not is_inverse else 2)).astype(np.float32)
    inputs = [x, i64(length)[0]]
    how = {"inverse": is_inverse, "onesided": onesided}
    (y,) = run_node("DFT", inputs, opset=20, **how)
    (expected,) = run_node("DFT", inputs, opset=20, constants=[1], **how)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("op", "inputs", "opset", "how"),
    [
        ("HannWindow", [i64(9)[0]], 17, {"periodic": 0}),
        ("BlackmanWindow", [i64(8)[0]], 17, {}),
        ("MelWeightMatrix", [i64(6)[0], i64(32)[0], i64(8000)[0], f32(50), f32(3000)], 17, {}),
        ("AffineGrid", [RNG.standard_normal((2, 3, 4)).astype(np.float32), i64(2, 3, 4, 2, 3)], 20, {}),
        ("AffineGrid", [RNG.standard_normal((2, 2, 3)).astype(np.float32), i64(2, 3, 4, 5)], 20, {"align_corners": 1}),
        ("CenterCropPad", [X, i64(7, 2)], 18, {"axes": [1, -1]}),
        ("STFT", [X[:, :, 0].repeat(7, 1), i64(3)[0], None, i64(8)[0]], 17, {}),
        (
            "Col2Im",
            [RNG.standard_normal((2, 12, 9)).astype(np.float32), i64(6, 5), i64(2, 3)],
            18,
            {"strides": [2, 1], "dilations": [1, 2], "pads": [1, 0, 0, 2]},
        ),
    ],
)
def test_sizes_as_with_constants(op: str, inputs: list[Array | None], opset: int, how: dict[str, Any]) -> None:
    constants = [i for i, a in enumerate(inputs) if a is not None and (a.dtype == np.int64 or a.ndim == 0)]
    (y,) = run_node(op, inputs, opset=opset, **how)
    (expected,) = run_node(op, [*inputs], opset=opset, constants=constants, **how)
    assert y.shape == expected.shape and y.dtype == expected.dtype
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("in_order", [0, 1])
@pytest.mark.parametrize("symbolic", [[], [(0, 1)], [(0, 0), (0, 1), (0, 2)]], ids=len)
def test_unique_slices(axis: int, in_order: int, symbolic: list[tuple[int, int]]) -> None:
    x = RNG.integers(0, 2, (4, 5, 2)).astype(np.float32)
    how = {"axis": axis, "sorted": in_order}
    y, first, inverse, counts = run_node("Unique", [x], opset=11, outputs=4, symbolic=symbolic, **how)
    values, places, members, times = np.unique(x, True, True, True, axis)
    members = members.reshape(-1)
    if not in_order:
        order = np.argsort(places)
        values, places, times = np.take(values, order, axis), places[order], times[order]
        members = np.argsort(order)[members]
    for found, expected in ((y, values), (first, places), (inverse, members), (counts, times)):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        ("y = ReduceSum(x, k)", lambda x, k: x.sum(k, keepdims=True)),
        ("y = Unsqueeze(x, k)", np.expand_dims),
        ("y = Slice(x, zero, ends, k)", lambda x, k: np.take(x, np.arange(min(2, x.shape[k])), k)),
        ("y = CumSum(x, k)", np.cumsum),
        ("y = Pad(x, ends2, , k)", lambda x, k: np.pad(x, [(1, 1) if i == k else (0, 0) for i in range(3)])),
    ],
    ids=lambda v: v.split("(")[0][4:] if isinstance(v, str) else "",
)
def test_an_axis_that_is_a_symbolic_size(node: str, wanted: Any) -> None:
    for k in (0, 1, 2):
        text = f"(float[2, 3, 5] x, float[k] z) => (float y) {{ s = Shape(z)\n k = Slice(s, zero, one)\n {node} }}"
        y = result_of(text, X, np.zeros(k, np.float32), opset=19, zero=i64(0), one=i64(1), ends=i64(2), ends2=i64(1, 1))
        np.testing.assert_allclose(y, wanted(X, k), rtol=1e-6)


def test_a_transform_along_an_axis_that_is_a_symbolic_size() -> None:
    text = "(float[2, 3, 1] x, float[k] z) => (float y) { s = Shape(z)\n r = Reshape(s, none)\n y = DFT(x, , r) }"
    x = X[:, :, :1]
    for k in (0, 1):
        y = result_of(text, x, np.zeros(k, np.float32), opset=20, none=i64())
        wanted = np.fft.fft(x[..., 0], axis=k)
        np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", [0, -1])
def test_no_more_elements_than_there_are(axis: int) -> None:
    n = X.shape[axis]
    for symbolic in ([], [(0, axis % 3)]):
        values, _ = run_node("TopK", [X, i64(n)], opset=11, outputs=2, symbolic=symbolic, axis=axis)
        np.testing.assert_array_equal(values, np.flip(np.sort(X, axis), axis))
        for k in (n + 1, -1):
            with pytest.raises((IrError, ValueError)):
                run_node("TopK", [X, i64(k)], opset=11, outputs=2, symbolic=symbolic, axis=axis)


@pytest.mark.parametrize("symbolic", [[], [(0, 0), (0, 2)]])
def test_a_shape_of_one_entry_is_checked(symbolic: list[tuple[int, int]]) -> None:
    for size in (30, -1):
        (y,) = run_node("Reshape", [X, i64(size)], opset=14, symbolic=symbolic)
        np.testing.assert_array_equal(y, X.reshape(-1))
    (y,) = run_node("Reshape", [X[:, :1, :1], i64(0)], opset=14)
    np.testing.assert_array_equal(y, X[:, 0, 0])
    for size in (29, 0, -2):
        with pytest.raises((IrError, ValueError)):
            run_node("Reshape", [X, i64(size)], opset=14, symbolic=symbolic)


def test_an_unknown_size_that_nothing_tells() -> None:
    nothing = np.zeros((0, 3), np.float32)
    (y,) = run_node("Reshape", [nothing, i64(0, 7)], opset=14)
    assert y.shape == (0, 7)
    (y,) = run_node("Reshape", [nothing, i64(-1, 3)], opset=14)
    assert y.shape == (0, 3)
    for x, sizes in ((nothing, (0, -1)), (X[:1, :1, :1], (-1, -1)), (nothing, (-1, -1))):
        with pytest.raises((IrError, ValueError)):
            run_node("Reshape", [x, i64(*sizes)], opset=14)


def test_unique_slices_of_too_many_elements_are_told_before_the_run() -> None:
    with pytest.raises(ShapeMismatch, match="compares each slice with each"):
        run_node("Unique", [np.zeros((5000, 2), np.float32)], opset=11, axis=0, symbolic=[(0, 0)])
    with pytest.raises(ShapeMismatch, match="Unique of nothing"):
        run_node("Unique", [np.zeros((0, 2), np.float32)], opset=11, axis=0, symbolic=[(0, 0)])


def test_unique_of_nan() -> None:
    x = f32([2, np.nan, 1, np.nan, 2])
    values, first, inverse, counts = run_node("Unique", [x], opset=11, outputs=4)
    np.testing.assert_array_equal(values, f32([1, 2, np.nan, np.nan]))
    np.testing.assert_array_equal(values[inverse], x)
    assert (first.tolist(), counts.tolist()) == ([2, 0, 1, 3], [1, 2, 1, 1])
    (values, *_) = run_node("Unique", [f32([[1, 2], [1, 2]])], opset=11, outputs=4, axis=0)
    np.testing.assert_array_equal(values, f32([[1, 2]]))
    with pytest.raises((IrError, ValueError)):
        run_node("Unique", [f32([[1, np.nan], [1, np.nan]])], opset=11, outputs=4, axis=0)
