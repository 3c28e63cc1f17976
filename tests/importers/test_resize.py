"""Resize: which elements are read, by the specification's formulas."""

from __future__ import annotations

import logging

import numpy as np
import onnx.parser
import pytest
from one_node import Array, f32, run_node

from fornaxc.errors import UnsupportedError
from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import model_from_proto
from fornaxc.ir.checker import check
from fornaxc.ir.interpreter import run

LINE = f32([0, 1, 2, 3]).reshape(1, 1, 1, 4)


def _line(scale: float | None = None, size: int | None = None, symbolic: bool = False, **attributes: object) -> Array:
    scales = None if scale is None else f32([1, 1, 1, scale])
    sizes = None if size is None else np.array([1, 1, 1, size], np.int64)
    axes = [(0, 3)] if symbolic else []
    inputs = [LINE, None, scales] if sizes is None else [LINE, None, None, sizes]
    (y,) = run_node("Resize", inputs, opset=13, constants=[2, 3], symbolic=axes, **attributes)
    assert y.shape[:3] == (1, 1, 1)
    return np.asarray(y.reshape(-1))


@pytest.mark.parametrize(
    ("scale", "rows"),
    [(2, [0, 0, 0, 1, 1, 2, 2, 3]), (1.5, [0, 0, 1, 1, 2, 3]), (3, [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3])],
)
def test_nearest_half_pixel_floor_clamps_the_index(scale: float, rows: list[int]) -> None:
    np.testing.assert_array_equal(_line(scale, mode="nearest", nearest_mode="floor"), rows)
    if scale == int(scale):
        np.testing.assert_array_equal(_line(scale, mode="nearest", nearest_mode="floor", symbolic=True), rows)


def test_nearest_round_prefer_floor() -> None:
    x = f32(np.arange(9)).reshape(1, 1, 3, 3)
    (y,) = run_node("Resize", [x, None, f32([1, 1, 1.5, 1.5])], opset=19, constants=[2], mode="nearest")
    np.testing.assert_array_equal(y[0, 0], [[0, 0, 1, 2], [0, 0, 1, 2], [3, 3, 4, 5], [6, 6, 7, 8]])


@pytest.mark.parametrize(
    ("rounding", "index"),
    [
        ("round_prefer_floor", [0, 0, 1, 1, 2, 2, 3, 3]),
        ("round_prefer_ceil", [0, 1, 1, 2, 2, 3, 3, 3]),
        ("floor", [0, 0, 1, 1, 2, 2, 3, 3]),
        ("ceil", [0, 1, 1, 2, 2, 3, 3, 3]),
    ],
)
@pytest.mark.parametrize("symbolic", [False, True])
def test_nearest_asymmetric(rounding: str, index: list[int], symbolic: bool) -> None:
    y = _line(2, symbolic=symbolic, mode="nearest", nearest_mode=rounding, coordinate_transformation_mode="asymmetric")
    np.testing.assert_array_equal(y, index)


@pytest.mark.parametrize(
    ("coordinates", "value"),
    [
        ("half_pixel", [0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3]),
        ("asymmetric", [0, 0.5, 1, 1.5, 2, 2.5, 3, 3]),
        ("align_corners", [3 * i / 7 for i in range(8)]),
    ],
)
def test_linear(coordinates: str, value: list[float]) -> None:
    np.testing.assert_allclose(
        _line(2, mode="linear", coordinate_transformation_mode=coordinates), value, rtol=1e-6, atol=1e-6
    )
    if coordinates != "align_corners":
        np.testing.assert_allclose(
            _line(2, mode="linear", coordinate_transformation_mode=coordinates, symbolic=True), value, atol=1e-6
        )


@pytest.mark.parametrize(("size", "value"), [(3, [0, 1.5, 3]), (2, [0, 3]), (1, [0])])
@pytest.mark.parametrize("symbolic", [False, True])
def test_a_line_that_shrinks_keeps_its_corners(size: int, value: list[float], symbolic: bool) -> None:
    y = _line(size=size, mode="linear", coordinate_transformation_mode="align_corners", symbolic=symbolic)
    np.testing.assert_allclose(y, value, rtol=1e-6)


def test_cubic_excluding_what_is_outside_keeps_a_constant() -> None:
    x = np.ones((1, 1, 1, 5), np.float32)
    (y,) = run_node("Resize", [x, None, f32([1, 1, 1, 1.6])], opset=13, constants=[2], mode="cubic", exclude_outside=1)
    np.testing.assert_allclose(y, np.ones((1, 1, 1, 8)), rtol=1e-6)


def test_cubic_weights_at_the_middle() -> None:
    # at 1.5 with a = -0.75 the weights are -3/32, 19/32, 19/32, -3/32
    x = f32([1, 10, 100, 1000]).reshape(1, 1, 1, 4)
    (y,) = run_node("Resize", [x, None, None, np.array([1, 1, 1, 1])], opset=13, constants=[3], mode="cubic")
    np.testing.assert_allclose(y.item(), (-3 * 1001 + 19 * 110) / 32, rtol=1e-6)


def test_antialiasing_averages_what_it_skips() -> None:
    (y,) = run_node("Resize", [LINE, None, f32([1, 1, 1, 0.5])], opset=18, constants=[2], mode="linear", antialias=1)
    # triangles of half width 2 at 0.5 and 2.5: weights 1 3 3 1 over 8, the ends repeated
    np.testing.assert_allclose(y.reshape(-1), [(0 + 0 * 3 + 1 * 3 + 2) / 8, (1 + 2 * 3 + 3 * 3 + 3) / 8], rtol=1e-6)


def test_the_aspect_ratio_policies() -> None:
    x = np.zeros((1, 1, 4, 8), np.float32)
    for policy, size in (("not_larger", (5, 10)), ("not_smaller", (8, 16))):
        (y,) = run_node(
            "Resize",
            [x, None, None, np.array([8, 10])],
            opset=18,
            constants=[3],
            axes=[2, 3],
            keep_aspect_ratio_policy=policy,
        )
        assert y.shape[2:] == size


def test_crop_and_resize_fills_what_is_outside() -> None:
    (y,) = run_node(
        "Resize",
        [LINE, f32([0, 0, 0, 0.5, 1, 1, 1, 1.5]), None, np.array([1, 1, 1, 3])],
        opset=13,
        constants=[1, 3],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=9.0,
    )
    np.testing.assert_allclose(y.reshape(-1), [1.5, 3, 9])


def test_upsample_repeats() -> None:
    (y,) = run_node("Upsample", [LINE, f32([1, 1, 2, 2])], opset=9, constants=[1], symbolic=[(0, 3)])
    np.testing.assert_array_equal(y[0, 0], [[0, 0, 1, 1, 2, 2, 3, 3]] * 2)


def test_what_runtimes_round_differently_is_refused() -> None:
    with pytest.raises(UnsupportedError):  # 0.6 is not a float32: is (1 + 0.5) / 0.6 - 0.5 equal to 2, or just below?
        _line(0.6, mode="nearest", nearest_mode="floor")


def test_aligned_corners_of_a_fractional_size(caplog: pytest.LogCaptureFixture) -> None:
    # 0.6 * 4 = 2.4: element 1 lies at 1 * (4 - 1) / (2.4 - 1), as in test_resize_downsample_scales_linear_align_corners
    aligned = {"coordinate_transformation_mode": "align_corners"}
    with caplog.at_level(logging.WARNING):
        np.testing.assert_allclose(_line(0.6, mode="linear", **aligned), [0, 3 / 1.4], rtol=1e-6)
    assert "onnxruntime takes the size 2" in caplog.text
    # 0.8 * 4 = 3.2: elements at 0, 3 / 2.2, 6 / 2.2; the cubic through 0, 1, 2, 3 is the line except near the ends
    y = _line(0.8, mode="cubic", exclude_outside=0, **aligned)
    t = 3 / 2.2 - 1
    np.testing.assert_allclose(y[:2], [0, 1 + _cubic_step(t)], rtol=1e-5, atol=1e-6)


def _cubic_step(t: float) -> float:
    """What the cubic with a = -0.75 adds to 1 at 1 + t, between 0, 1, 2 and 3."""
    a = -0.75

    def near(d: float) -> float:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1

    def far(d: float) -> float:
        return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a

    return near(t) * 1 + near(1 - t) * 2 + far(2 - t) * 3 - 1


@pytest.mark.parametrize("size", [3, 6, 9])
@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_symbolic_axis_is_resized_like_a_static_one(mode: str, coordinates: str, size: int) -> None:
    wanted = _line(size=size, mode=mode, coordinate_transformation_mode=coordinates)
    found = _line(size=size, mode=mode, coordinate_transformation_mode=coordinates, symbolic=True)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric"])
@pytest.mark.parametrize("scale", [0.6, 0.8, 2.3])
def test_a_symbolic_axis_by_any_scale(mode: str, coordinates: str, scale: float) -> None:
    how = {"mode": mode, "coordinate_transformation_mode": coordinates}
    np.testing.assert_allclose(_line(scale, symbolic=True, **how), _line(scale, **how), rtol=1e-4, atol=1e-5)


def test_resizing_to_the_size_of_another_input() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[1, 1, h, w] x, float[1, 1, th, tw] other) => (float[1, 1, th, tw] y) {
            sizes = Shape(other)
            y = Resize <mode: string = "linear"> (x, , , sizes)
        }""")
    graph = import_model(model_from_proto(model), {})
    check(graph)
    other = np.zeros((1, 1, 2, 8), np.float32)
    (y,) = run(graph, [np.concatenate([LINE, LINE + 8], 2), other])
    row = [0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3]
    np.testing.assert_allclose(y[0, 0], [row, [v + 8 for v in row]], rtol=1e-6)
