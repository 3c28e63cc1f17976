"""Operations of StableHLO and CHLO that exporters seldom write, on values that are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jaxlib")

from fornaxc.errors import UnsupportedError
from fornaxc.importers.stablehlo.importer import import_module
from fornaxc.importers.stablehlo.reader import module_of, parse_text
from fornaxc.ir.checker import check
from fornaxc.ir.interpreter import run

Arrays = list[np.ndarray]


def results(text: str, *inputs: np.ndarray) -> Arrays:
    graph = import_module(module_of(parse_text(text, "module"), Path("module")), {})
    check(graph)
    return run(graph, list(inputs))


def function(line: str, arguments: str, result: str) -> str:
    return f"func.func @main({arguments}) -> {result} {{\n%r = {line}\nreturn %r : {result}\n}}"


def ragged(axes: str, left: str, right: str, groups: int, result: str) -> str:
    return function(
        f'"chlo.ragged_dot"(%a, %b, %c) {{ragged_dot_dimension_numbers = #chlo.ragged_dot<{axes}>}} :'
        f" (tensor<{left}>, tensor<{right}>, tensor<{groups}xi32>) -> tensor<{result}>",
        f"%a: tensor<{left}>, %b: tensor<{right}>, %c: tensor<{groups}xi32>",
        f"tensor<{result}>",
    )


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def test_a_ragged_contracted_axis_gives_a_product_for_each_group() -> None:
    axes = (
        "lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1],"
        " rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [1], rhs_group_dimensions = []"
    )
    x, y = normal(3, 7), normal(7, 2)
    (found,) = results(ragged(axes, "3x7xf64", "7x2xf64", 3, "3x3x2xf64"), x, y, np.array([2, 0, 4], np.int32))
    assert np.allclose(found, [x[:, :2] @ y[:2], np.zeros((3, 2)), x[:, 2:6] @ y[2:6]])


def test_a_ragged_axis_beside_a_batch() -> None:
    axes = (
        "lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2],"
        " rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [1], rhs_group_dimensions = [0]"
    )
    x, y = normal(2, 5, 3), normal(2, 2, 3, 4)
    (found,) = results(ragged(axes, "2x5x3xf64", "2x2x3x4xf64", 2, "2x5x4xf64"), x, y, np.array([1, 4], np.int32))
    wanted = np.concatenate([x[:, :1] @ y[0], x[:, 1:] @ y[1]], axis=1)
    assert np.allclose(found, wanted)


def test_a_ragged_batch_axis_is_a_batch_axis() -> None:
    axes = (
        "lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2],"
        " rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = []"
    )
    x, y = normal(4, 2, 3), normal(4, 3, 2)
    (found,) = results(ragged(axes, "4x2x3xf64", "4x3x2xf64", 2, "4x2x2xf64"), x, y, np.array([1, 3], np.int32))
    assert np.allclose(found, x @ y)


def test_places_beside_batches_are_selected_and_clamped() -> None:
    text = function(
        '"stablehlo.torch_index_select"(%a, %i) <{dim = 2 : i64, batch_dims = 1 : i64}> :'
        " (tensor<2x3x4xi32>, tensor<2x2xi32>) -> tensor<2x3x2xi32>",
        "%a: tensor<2x3x4xi32>, %i: tensor<2x2xi32>",
        "tensor<2x3x2xi32>",
    )
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    (found,) = results(text, x, np.array([[3, 0], [9, 1]], np.int32))
    assert found.tolist() == [x[0][:, [3, 0]].tolist(), x[1][:, [3, 1]].tolist()]


def test_sums_by_letters() -> None:
    text = function(
        '"stablehlo.unary_einsum"(%a) <{einsum_config = "ijk->ki"}> : (tensor<2x3x4xf64>) -> tensor<4x2xf64>',
        "%a: tensor<2x3x4xf64>",
        "tensor<4x2xf64>",
    )
    x = normal(2, 3, 4)
    assert np.allclose(results(text, x)[0], np.einsum("ijk->ki", x))


@pytest.mark.parametrize(("dtype", "bits"), [("i8", 8), ("ui8", 8), ("i32", 32), ("ui32", 32)])
def test_the_upper_half_of_a_product(dtype: str, bits: int) -> None:
    t = f"tensor<4x{dtype}>"
    text = function(f'"chlo.mulhi"(%a, %b) : ({t}, {t}) -> {t}', f"%a: {t}, %b: {t}", t)
    low, high = (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    left, right = [low, high, high, 3], [low, low, high, 5]
    kind = np.dtype(f"{'u' if dtype.startswith('u') else ''}int{bits}")
    (found,) = results(text, np.array(left, kind), np.array(right, kind))
    assert found.tolist() == [(a * b) >> bits for a, b in zip(left, right, strict=True)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cube_roots_at_the_ends_of_the_range(dtype: type) -> None:
    t = f"tensor<5xf{np.dtype(dtype).itemsize * 8}>"
    info = np.finfo(dtype)
    x = np.array([info.max, info.smallest_subnormal, -0.0, np.inf, -27.0], dtype)
    (found,) = results(function(f"stablehlo.cbrt %a : {t}", f"%a: {t}", t), x)
    assert np.allclose(found[:2] / np.cbrt(x[:2]), 1, rtol=1e-6) and np.signbit(found[2])
    assert found[2:4].tolist() == [0.0, np.inf] and np.isclose(found[4], -3, rtol=1e-6)


def complex_function(op: str) -> str:
    t = "tensor<3xcomplex<f64>>"
    return function(f"stablehlo.{op} %a : {t}", f"%a: {t}", t)


def test_cube_roots_of_complex_numbers() -> None:
    z = np.array([-8, 3 - 4j, 0])
    re, im = results(complex_function("cbrt"), z.real.copy(), z.imag.copy())
    assert np.allclose(re + 1j * im, [1 + np.sqrt(3) * 1j, (3 - 4j) ** (1 / 3), 0])


def test_the_exponential_minus_one_of_a_real_infinity_is_real() -> None:
    re, im = results(complex_function("exponential_minus_one"), np.array([np.inf, -np.inf, 0]), np.array([0.0, 0, 0]))
    assert re.tolist() == [np.inf, -1, 0] and im.tolist() == [0, 0, 0]


def permuted(pairs: str, size: int) -> str:
    return function(
        f'"stablehlo.collective_permute"(%a) <{{source_target_pairs = dense<{pairs}> : tensor<{size}x2xi64>}}> :'
        " (tensor<2xf32>) -> tensor<2xf32>",
        "%a: tensor<2xf32>",
        "tensor<2xf32>",
    )


def test_one_replica_that_sends_to_itself() -> None:
    assert results(permuted("[[0, 0]]", 1), np.array([1, 2], np.float32))[0].tolist() == [1, 2]
    with pytest.raises(UnsupportedError) as caught:
        results(permuted("[[0, 1], [1, 0]]", 2), np.array([1, 2], np.float32))
    assert "between devices" in caught.value.details[0]["reason"]


def test_the_status_of_a_cholesky_factorization_names_the_first_bad_pivot() -> None:
    t = "tensor<3x2x2xf64>"
    text = f"""func.func @main(%a: {t}) -> (tensor<3xi32>) {{
      %0:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%a) {{mhlo.backend_config = {{uplo = 76 : ui8}}}} : ({t}) -> ({t}, tensor<3xi32>)
      return %0#1 : tensor<3xi32> }}"""
    matrices = np.array([[[2, 1], [1, 2]], [[0, 0], [0, 1]], [[1, 2], [2, 1]]], np.float64)
    assert results(text, matrices)[0].tolist() == [0, 1, 2]


def test_functions_that_are_custom_calls() -> None:
    t = "tensor<2xf64>"
    text = function(f"stablehlo.custom_call @mhlo.asinh(%a) : ({t}) -> {t}", f"%a: {t}", t)
    x = np.array([0.5, -2.0])
    assert np.allclose(results(text, x)[0], np.arcsinh(x))


@pytest.mark.parametrize(("start", "found"), [([-5, 1], [1, 2]), ([9, 9], [6, 7]), ([1, 2], [6, 7])])
def test_a_slice_that_starts_outside_is_moved_inside(start: list[int], found: list[int]) -> None:
    text = function(
        "stablehlo.dynamic_slice %a, %i, %k, sizes = [1, 2] :"
        " (tensor<2x4xi32>, tensor<i32>, tensor<i32>) -> tensor<1x2xi32>",
        "%a: tensor<2x4xi32>, %i: tensor<i32>, %k: tensor<i32>",
        "tensor<1x2xi32>",
    )
    x = np.arange(8, dtype=np.int32).reshape(2, 4)
    assert results(text, x, *(np.array(i, np.int32) for i in start))[0].tolist() == [found]


def test_gathered_windows_outside_are_moved_inside() -> None:
    text = function(
        '"stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],'
        " start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 2>}> :"
        " (tensor<5xi32>, tensor<4x1xi32>) -> tensor<4x2xi32>",
        "%a: tensor<5xi32>, %i: tensor<4x1xi32>",
        "tensor<4x2xi32>",
    )
    x, places = np.arange(10, 15, dtype=np.int32), np.array([[-7], [1], [4], [99]], np.int32)
    assert results(text, x, places)[0].tolist() == [[10, 11], [11, 12], [13, 14], [13, 14]]


def scattered(update: str, dims: str) -> str:
    """Writes updates of the shape `update` into five numbers."""
    places = update.partition("x")[0]
    return f"""func.func @main(%a: tensor<5xi32>, %i: tensor<{places}x1xi32>, %u: tensor<{update}xi32>) -> tensor<5xi32> {{
      %r = "stablehlo.scatter"(%a, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<{dims},
        scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
        ^bb0(%old: tensor<i32>, %new: tensor<i32>):
        stablehlo.return %new : tensor<i32>
      }}) : (tensor<5xi32>, tensor<{places}x1xi32>, tensor<{update}xi32>) -> tensor<5xi32>
      return %r : tensor<5xi32> }}"""


def test_what_is_scattered_outside_is_dropped() -> None:
    x, places = np.zeros(5, np.int32), np.array([[-1], [1], [4], [5]], np.int32)
    (found,) = results(scattered("4", "inserted_window_dims = [0]"), x, places, np.array([1, 2, 3, 4], np.int32))
    assert found.tolist() == [0, 2, 0, 0, 3]


def test_of_a_scattered_window_the_elements_outside_are_dropped() -> None:
    x, places = np.zeros(5, np.int32), np.array([[-1], [1], [4]], np.int32)
    pairs = np.arange(1, 7, dtype=np.int32).reshape(3, 2)
    (found,) = results(scattered("3x2", "update_window_dims = [1]"), x, places, pairs)
    assert found.tolist() == [2, 3, 4, 0, 5]


def test_the_reverse_of_a_slice() -> None:
    text = """func.func @main(%a: tensor<2x4x2xi32>) -> tensor<2x2x2xi32> {
      %0 = stablehlo.slice %a [0:2, 1:4:2, 0:2] : (tensor<2x4x2xi32>) -> tensor<2x2x2xi32>
      %1 = stablehlo.reverse %0, dims = [0, 1] : tensor<2x2x2xi32>
      return %1 : tensor<2x2x2xi32> }"""
    (found,) = results(text, np.arange(16, dtype=np.int32).reshape(2, 4, 2))
    assert found.tolist() == [[[14, 15], [10, 11]], [[6, 7], [2, 3]]]
