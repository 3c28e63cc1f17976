"""Elementwise operators, casts and quantisation with values from the ONNX specification."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from text_models import graph_of, outputs_of, result_of

from fornaxc.errors import ModelError
from fornaxc.ir.interpreter import run
from fornaxc.passes.pipeline import optimize

F = np.float32


@pytest.mark.parametrize(
    ("op", "expected"), [("Min", [1, 1, 1]), ("Max", [5, 2, 3]), ("Sum", [7, 5, 7]), ("Mean", [7 / 3, 5 / 3, 7 / 3])]
)
def test_any_number_of_inputs_broadcast(op: str, expected: list[float]) -> None:
    text = f"(float[3] x, float[1] z) => (float[3] y) {{ y = {op}(x, z, c) }}"
    found = result_of(text, np.array([5, 2, 3], F), np.array([1], F), c=np.array([1, 2, 3], F))
    np.testing.assert_allclose(found, np.array(expected, F), rtol=1e-6)


def test_operands_keep_their_order() -> None:
    graph = graph_of("(float[1] x) => (float[1] y) { s = Add(x, one)\n y = Sub(x, s) }", initializers={"one": F(1)})
    for program in (graph, optimize(graph, "cpu")):
        assert run(program, [np.array([4], F)])[0].tolist() == [-1]


def test_integer_division_rounds_towards_zero() -> None:
    text = "(int32[4] x, int32[4] z) => (int32[4] y) { y = Div(x, z) }"
    x, z = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    assert result_of(text, x, z).tolist() == [3, -3, -3, 3]


def test_modulo_takes_the_divisors_or_the_dividends_sign() -> None:
    text = "(int32[4] x, int32[4] z) => (int32[4] y) { y = Mod<fmod=M>(x, z) }"
    x, z = np.array([7, -7, 7, -7], np.int32), np.array([3, 3, -3, -3], np.int32)
    assert result_of(text.replace("M>", "0>"), x, z).tolist() == [1, 2, -2, -1]
    assert result_of(text.replace("M>", "1>"), x, z).tolist() == [1, -1, 1, -1]
    with pytest.raises(ModelError):
        graph_of("(float[4] x, float[4] z) => (float[4] y) { y = Mod(x, z) }", 13)


def test_a_power_has_the_type_of_its_base() -> None:
    assert result_of(
        "(int32[2] x, float[2] e) => (int32[2] y) { y = Pow(x, e) }", np.array([9, 2], np.int32), np.array([0.5, 3], F)
    ).tolist() == [3, 8]
    found = result_of("(float[2] x, int64[1] e) => (float[2] y) { y = Pow(x, e) }", np.array([-3, 2], F), np.array([2]))
    assert found.tolist() == [9, 4]


def test_bounds_in_the_wrong_order_and_bounds_left_out() -> None:
    x = np.array([-3, 0, 3], F)
    assert result_of("(float[3] x) => (float[3] y) { y = Clip(x, low, high) }", x, low=F(2), high=F(1)).tolist() == [
        1,
        1,
        1,
    ]
    assert result_of('(float[3] x) => (float[3] y) { y = Clip(x, "", high) }', x, high=F(1)).tolist() == [-3, 0, 1]
    assert result_of("(float[3] x) => (float[3] y) { y = Clip(x, low) }", x, low=F(-1)).tolist() == [-1, 0, 3]
    assert result_of("(float[3] x) => (float[3] y) { y = Clip<min=-1.0>(x) }", x, opset=7).tolist() == [-1, 0, 3]


def test_halves_round_to_even() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5], F)
    assert result_of("(float[5] x) => (float[5] y) { y = Round(x) }", x).tolist() == [0, 2, 2, 0, -2]


@pytest.mark.parametrize(
    ("signs", "expected"), [((1, 1), [1, 1, 0, 0]), ((1, 0), [0, 1, 0, 0]), ((0, 1), [1, 0, 0, 0]), ((0, 0), [0] * 4)]
)
def test_infinities_of_either_sign(signs: tuple[int, int], expected: list[int]) -> None:
    text = f"(float[4] x) => (bool[4] y) {{ y = IsInf<detect_negative={signs[0]}, detect_positive={signs[1]}>(x) }}"
    assert result_of(text, np.array([np.inf, -np.inf, np.nan, 1], F)).tolist() == [bool(v) for v in expected]


def test_shifts_by_the_width_and_more() -> None:
    text = '(int8[4] x, int8[4] n) => (int8[4] y) { y = BitShift<direction="D">(x, n) }'
    x, n = np.array([-5, 5, -5, 3], np.int8), np.array([8, 9, -1, 1], np.int8)
    assert result_of(text.replace('"D"', '"RIGHT"'), x, n, opset=28).tolist() == [-1, 0, -1, 1]
    assert result_of(text.replace('"D"', '"LEFT"'), x, n, opset=28).tolist() == [0, 0, 0, 6]


def cast_to(number: int, x: np.ndarray[Any, Any], opset: int, saturate: int = 1) -> np.ndarray[Any, Any]:
    (found,) = outputs_of(
        f"(float[{x.size}] x) => (float[n] y) {{ z = Cast<to={number}, saturate={saturate}>(x)\n y = Cast<to=1>(z) }}",
        x,
        opset=opset,
    )
    return found


@pytest.mark.parametrize(
    ("number", "opset", "saturate", "infinity"),
    [
        (17, 19, 1, 448),
        (18, 19, 1, np.nan),
        (18, 24, 1, 240),
        (19, 19, 1, 57344),
        (20, 19, 1, np.nan),
        (20, 24, 1, 57344),
        (17, 19, 0, np.nan),
        (18, 24, 0, np.nan),
        (19, 19, 0, np.inf),
        (20, 24, 0, np.nan),
    ],
)
def test_infinity_as_an_8_bit_float(number: int, opset: int, saturate: int, infinity: float) -> None:
    found = cast_to(number, np.array([np.inf, -np.inf, np.nan, 1.8131605], F), opset, saturate)
    np.testing.assert_array_equal(found[:3], np.array([infinity, -infinity, np.nan], F))
    assert found[3] == (1.875 if number in (17, 18) else 1.75)


def test_powers_of_two() -> None:
    x = np.array([1, 1.1, 3, 0, 2.0**-127, 1.5 * 2.0**-127, np.inf, np.nan], F)
    up = cast_to(24, x, 24)
    np.testing.assert_array_equal(up, np.array([1, 2, 4, 2.0**-127, 2.0**-127, 2.0**-126, 2.0**127, np.nan], F))
    text = '(float[2] x) => (float[2] y) { z = Cast<to=24, round_mode="down">(x)\n y = Cast<to=1>(z) }'
    assert result_of(text, np.array([1.9, 3], F), opset=24).tolist() == [1, 2]


def test_quantisation_saturates_and_rounds_halves_to_even() -> None:
    text = "(float[6] x) => (int8[6] y) { y = QuantizeLinear(x, s, z) }"
    x = np.array([1000, -1000, 1, 3, 5, -1], F)
    assert result_of(text, x, s=F(2), z=np.int8(0)).tolist() == [127, -128, 0, 2, 2, 0]
    assert result_of(text, x, s=F(2), z=np.int8(1)).tolist() == [127, -128, 1, 3, 3, 1]


def test_one_scale_for_each_channel() -> None:
    x = np.arange(12, dtype=F).reshape(2, 3, 2)
    scale, zero = np.array([1, 2, 4], F), np.array([0, 10, 100], np.uint8)
    text = "(float[2, 3, 2] x) => (uint8[2, 3, 2] q, float[2, 3, 2] y) { q = QuantizeLinear<axis=-2>(x, s, z)\n y = DequantizeLinear<axis=1>(q, s, z) }"
    quantised, restored = outputs_of(text, x, s=scale, z=zero)
    wanted = np.rint(x / scale[:, None]) + zero[:, None]
    np.testing.assert_array_equal(quantised, wanted.astype(np.uint8))
    np.testing.assert_array_equal(restored, (wanted - zero[:, None]) * scale[:, None])


def test_one_scale_for_each_block() -> None:
    x = np.arange(10, dtype=F).reshape(2, 5)
    scale = np.array([[1, 2, 4], [8, 16, 32]], F)
    text = "(float[2, 5] x) => (uint8[2, 5] q) { q = QuantizeLinear<axis=1, block_size=2>(x, s) }"
    wanted = np.rint(x / np.repeat(scale, 2, axis=1)[:, :5])
    np.testing.assert_array_equal(result_of(text, x, opset=21, s=scale), wanted.astype(np.uint8))
    with pytest.raises(ModelError):
        result_of(text, x, opset=21, s=scale[:, :2])
    with pytest.raises(ModelError):
        graph_of(text, 19, {"s": scale})


def test_four_bit_numbers() -> None:
    x = np.array([-9, -8, 7, 8, 0.4, -0.6], F)
    text = "(float[6] x) => (float[6] y) { q = QuantizeLinear(x, s, z)\n y = DequantizeLinear(q, s, z) }"
    found = result_of(text, x, opset=21, s=F(1), z=np.array(0, ml_dtypes.int4))
    assert found.tolist() == [-8, -8, 7, 7, 0, -1]


def test_zero_points_of_products() -> None:
    text = "(uint8[1, 2] a, int8[2, 2] b) => (int32[1, 2] y) { y = MatMulInteger(a, b, za, zb) }"
    a, b = np.array([[3, 250]], np.uint8), np.array([[-128, 5], [127, -7]], np.int8)
    found = result_of(text, a, b, za=np.uint8(128), zb=np.array([1, -2], np.int8))
    assert found.tolist() == [[-125 * -129 + 122 * 126, -125 * 7 + 122 * -5]]


@pytest.mark.parametrize("opset", [7, 12])
def test_dropout_in_inference(opset: int) -> None:
    x = np.array([1, 2], F)
    kept = outputs_of("(float[2] x) => (float[2] y) { y = Dropout(x) }", x, opset=opset)
    assert kept[0].tolist() == [1, 2]


def test_half_precision_ranges_do_not_drift() -> None:
    text = "(float16 a, float16 b, float16 c) => (float16[n] y) { y = Range(a, b, c) }"
    found = result_of(text, np.float16(0), np.float16(4), np.float16(1), opset=27)
    assert found.dtype == np.float16
    assert found.tolist() == [0, 1, 2, 3]
