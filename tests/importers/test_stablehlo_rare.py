"""Operations of StableHLO and CHLO that exporters seldom write, on values that are known."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jaxlib")

from stablehlo_text import function, results

from fornaxc.errors import ModelError, UnsupportedError
from fornaxc.importers.stablehlo.types import ELEMENTS


def ragged(axes: str, left: str, right: str, groups: int | str, result: str) -> str:
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


def test_groups_that_differ_along_a_batch() -> None:
    axes = (
        "lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2],"
        " rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [1], rhs_group_dimensions = [0]"
    )
    x, y = normal(2, 5, 3), normal(2, 2, 3, 4)
    groups = np.array([[1, 4], [3, 2]], np.int32)
    (found,) = results(ragged(axes, "2x5x3xf64", "2x2x3x4xf64", "2x2", "2x5x4xf64"), x, y, groups)
    wanted = [np.concatenate([x[i, :n] @ y[0, i], x[i, n:] @ y[1, i]]) for i, n in enumerate((1, 3))]
    assert np.allclose(found, wanted)


def test_contracted_groups_that_differ_along_a_batch() -> None:
    axes = (
        "lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2],"
        " rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [2], rhs_group_dimensions = []"
    )
    x, y = normal(2, 5, 3), normal(3, 2, 4)
    groups = np.array([[1, 2], [2, 1]], np.int32)
    (found,) = results(ragged(axes, "2x5x3xf64", "3x2x4xf64", "2x2", "2x2x5x4xf64"), x, y, groups)
    wanted = [
        [x[i, :, s] @ y[s, i] for i, n in enumerate((1, 2)) for s in [slice(n) if g == 0 else slice(n, 3)]]
        for g in range(2)
    ]
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


def test_an_arithmetic_shift_of_unsigned_numbers_repeats_the_highest_bit() -> None:
    text = function(
        "stablehlo.shift_right_arithmetic %a, %b : tensor<3xui8>",
        *["%a: tensor<3xui8>, %b: tensor<3xui8>", "tensor<3xui8>"],
    )
    (found,) = results(text, np.array([200, 100, 128], np.uint8), np.array([2, 2, 9], np.uint8))
    assert found.tolist() == [242, 25, 255]


@pytest.mark.parametrize(
    ("source", "target"), [("i4", "ui4"), ("ui4", "i4"), ("i4", "i2"), ("ui2", "i4"), ("i2", "ui4")]
)
def test_integers_below_a_byte_become_others(source: str, target: str) -> None:
    bits, signed = int(target.lstrip("ui")), target.startswith("i")
    low, high = (-2, 2) if source.startswith("i") else (0, 4)
    numbers = np.arange(low, high)
    stored = numbers.astype(np.int8 if low else np.uint8).astype(ELEMENTS[source].numpy)
    text = function(
        f"stablehlo.convert %a : (tensor<4x{source}>) -> tensor<4x{target}>",
        f"%a: tensor<4x{source}>",
        f"tensor<4x{target}>",
    )
    wrapped = [((int(n) + (1 << bits - 1) * signed) % (1 << bits)) - (1 << bits - 1) * signed for n in numbers]
    assert [int(n) for n in results(text, stored)[0]] == wrapped


def test_the_parts_of_complex_numbers_lie_beside_each_other() -> None:
    text = """func.func @main(%re: tensor<2xf32>, %im: tensor<2xf32>) -> (tensor<f64>, tensor<f64>, tensor<2xf32>, tensor<2xf32>) {
      %0 = stablehlo.complex %re, %im : tensor<2xcomplex<f32>>
      %1 = stablehlo.bitcast_convert %0 : (tensor<2xcomplex<f32>>) -> tensor<complex<f64>>
      %2 = stablehlo.bitcast_convert %1 : (tensor<complex<f64>>) -> tensor<2xcomplex<f32>>
      %3 = stablehlo.real %1 : (tensor<complex<f64>>) -> tensor<f64>
      %4 = stablehlo.imag %1 : (tensor<complex<f64>>) -> tensor<f64>
      %5 = stablehlo.real %2 : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
      %6 = stablehlo.imag %2 : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
      return %3, %4, %5, %6 : tensor<f64>, tensor<f64>, tensor<2xf32>, tensor<2xf32> }"""
    z = np.array([1.5 - 2j, 3 + 0.25j], np.complex64)
    re, im, first, second = results(text, z.real.copy(), z.imag.copy())
    assert [re, im] == z.view(np.float64).tolist()
    assert first.tolist() == z.real.tolist() and second.tolist() == z.imag.tolist()


@pytest.mark.parametrize(("batches", "groups"), [(1, 2), (2, 1)])
def test_groups_of_a_convolution_without_spatial_axes(batches: int, groups: int) -> None:
    text = function(
        "stablehlo.convolution(%a, %w) dim_numbers = [b, f]x[o, i]->[b, f], window = {}"
        f" {{batch_group_count = {batches} : i64, feature_group_count = {groups} : i64}} :"
        f" (tensor<4x6xf64>, tensor<2x{6 // groups}xf64>) -> tensor<{4 // batches}x2xf64>",
        f"%a: tensor<4x6xf64>, %w: tensor<2x{6 // groups}xf64>",
        f"tensor<{4 // batches}x2xf64>",
    )
    x, w = normal(4, 6), normal(2, 6 // groups)
    halves = [x[:, :3], x[:, 3:]] if groups == 2 else [x[:2], x[2:]]
    wanted = np.stack([half @ row for half, row in zip(halves, w, strict=True)], axis=1)
    assert np.allclose(results(text, x, w)[0], wanted)


def test_operands_of_chlo_broadcast_also_under_symbolic_sizes() -> None:
    t = "tensor<2x?xf64>"
    text = function(f"chlo.broadcast_subtract %a, %b : (tensor<?xf64>, {t}) -> {t}", f"%a: tensor<?xf64>, %b: {t}", t)
    x, y = normal(3), normal(2, 3)
    assert np.allclose(results(text, x, y)[0], x - y)
    text = function(
        '"chlo.broadcast_compare"(%a, %b) {broadcast_dimensions = array<i64: 0>, comparison_direction ='
        " #chlo<comparison_direction LT>} : (tensor<2xf64>, tensor<2x3xf64>) -> tensor<2x3xi1>",
        "%a: tensor<2xf64>, %b: tensor<2x3xf64>",
        "tensor<2x3xi1>",
    )
    assert results(text, x[:2], y)[0].tolist() == (x[:2, None] < y).tolist()


def test_cholesky_by_lapack_leaves_the_other_triangle() -> None:
    t = "tensor<2x2xf64>"
    text = f"""func.func @main(%a: {t}) -> {t} {{
      %0:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%a) {{mhlo.backend_config = {{uplo = 76 : ui8}}}} : ({t}) -> ({t}, tensor<i32>)
      return %0#0 : {t} }}"""
    (found,) = results(text, np.array([[4.0, 77.0], [2.0, 5.0]]))
    assert np.allclose(found, [[2, 77], [1, 2]])


APPROXIMATE = """
  func.func private @more(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>) -> tensor<i1> {{
    %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    return %0 : tensor<i1> }}
  func.func public @main(%a: tensor<2x{n}xf32>) -> (tensor<2x{m}xf32>, tensor<2x{m}xi32>) {{
    {head}
    %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %none = stablehlo.constant dense<-1> : tensor<i32>
    %0:2 = stablehlo.custom_call @{call}) {{called_computations = [@more], mhlo.backend_config = {{aggregate_to_topk = true,
      is_fallback = true, recall_target = 0.95 : f32, reduction_dim = 1 : i64, reduction_input_size_override = -1 : i64{k}}}}} :
      (tensor<2x{n}xf32>, tensor<2x{n}xi32>, tensor<f32>, tensor<i32>{more}) -> (tensor<2x{m}xf32>, tensor<2x{m}xi32>)
    return %0#0, %0#1 : tensor<2x{m}xf32>, tensor<2x{m}xi32> }}"""


def test_what_is_nearly_the_largest_is_the_largest() -> None:
    x = np.random.default_rng(3).permutation(12).reshape(2, 6).astype(np.float32)
    head = "%i = stablehlo.iota dim = 1 : tensor<2x6xi32>"
    text = APPROXIMATE.format(
        n=6, m=3, head=head, call="ApproxTopK(%a, %i, %least, %none", k=", top_k = 3 : i64", more=""
    )
    values, places = results(text, x)
    order = np.argsort(-x, axis=1)[:, :3]
    assert places.tolist() == order.tolist() and values.tolist() == np.take_along_axis(x, order, 1).tolist()


def test_what_is_nearly_the_largest_of_a_symbolic_number() -> None:
    x = np.random.default_rng(4).permutation(12).reshape(2, 6).astype(np.float32)
    head = """%n = stablehlo.get_dimension_size %a, dim = 1 : (tensor<2x?xf32>) -> tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %k = stablehlo.divide %n, %two : tensor<i32>
      %shape = stablehlo.concatenate %t, %m, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %i = stablehlo.dynamic_iota %shape, dim = 1 : (tensor<2xi32>) -> tensor<2x?xi32>"""
    lines = head.splitlines()
    lines[3:3] = [
        "%t = stablehlo.reshape %two : (tensor<i32>) -> tensor<1xi32>",
        "%m = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>",
    ]
    call = "stablehlo.dynamic_approx_top_k(%a, %i, %least, %none, %k"
    text = APPROXIMATE.format(n="?", m="?", head="\n".join(lines), call=call, k="", more=", tensor<i32>")
    values, places = results(text, x)
    order = np.argsort(-x, axis=1)[:, :3]
    assert places.tolist() == order.tolist() and values.tolist() == np.take_along_axis(x, order, 1).tolist()


@pytest.mark.parametrize(
    "target", ["mhlo.topk", "lapack_strsm_ffi", "lapack_dgesdd_ffi", "ApproxTopK", "stablehlo.dynamic_top_k"]
)
def test_a_known_custom_call_with_the_operands_of_another_is_invalid(target: str) -> None:
    t = "tensor<4xf32>"
    with pytest.raises(ModelError) as caught:
        results(
            function(f'stablehlo.custom_call @"{target}"(%a) : ({t}) -> {t}', f"%a: {t}", t), np.zeros(4, np.float32)
        )
    assert caught.value.code == "FX437"


def test_a_function_without_a_body() -> None:
    text = "func.func private @f(tensor<f32>) -> tensor<f32>\n" + function(
        "call @f(%a) : (tensor<f32>) -> tensor<f32>", "%a: tensor<f32>", "tensor<f32>"
    )
    with pytest.raises(ModelError, match="'f' has no body"):
        results(text, np.zeros((), np.float32))


def test_a_long_chain_behind_an_integer_input() -> None:
    lines = [f"%{i + 1} = stablehlo.add %{i}, %{0} : tensor<2xi32>" for i in range(1500)]
    text = "func.func @main(%arg: tensor<2xi32>) -> tensor<2xi32> {\n%0 = stablehlo.negate %arg : tensor<2xi32>\n"
    (found,) = results(text + "\n".join(lines) + "\nreturn %1500 : tensor<2xi32> }", np.array([1, -2], np.int32))
    assert found.tolist() == [-1501, 3002]
