"""Bodies of reductions, maps, scatters and sorts: those that branch, loop, make tensors or compute in wider types."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jaxlib")

from stablehlo_text import function, results

BRANCH = """%c = stablehlo.compare LT, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %r = "stablehlo.if"(%c) ({
    %p = stablehlo.multiply %y, %y : tensor<i32>
    stablehlo.return %p : tensor<i32>
  }, {
    %m = stablehlo.subtract %x, %y : tensor<i32>
    stablehlo.return %m : tensor<i32>
  }) : (tensor<i1>) -> tensor<i32>"""
BITS = """%one = stablehlo.constant dense<1> : tensor<i32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %w:2 = stablehlo.while(%n = %x, %k = %none) : tensor<i32>, tensor<i32>
   cond {
    %more = stablehlo.compare GT, %n, %none : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %half = stablehlo.shift_right_logical %n, %one : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    stablehlo.return %half, %next : tensor<i32>, tensor<i32>
  }
  %r = stablehlo.add %w#1, %y : tensor<i32>"""
TENSORS = """%u = stablehlo.reshape %x : (tensor<i32>) -> tensor<1xi32>
  %v = stablehlo.reshape %y : (tensor<i32>) -> tensor<1xi32>
  %w = stablehlo.concatenate %v, %u, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %s = stablehlo.slice %w [0:1] : (tensor<2xi32>) -> tensor<1xi32>
  %r = stablehlo.reshape %s : (tensor<1xi32>) -> tensor<i32>"""
BARRIER = """%o:2 = stablehlo.optimization_barrier %x, %y : tensor<i32>, tensor<i32>
  %r = stablehlo.subtract %o#0, %o#1 : tensor<i32>"""
X = np.array([[3, 9, -2], [5, 1, 100]], np.int32)
Y = np.array([[4, 1, 7], [5, 2, -3]], np.int32)


def body(lines: str, dtype: str = "i32", result: str = "") -> str:
    t = f"tensor<{dtype}>"
    return f"({{\n^bb0(%x: {t}, %y: {t}):\n  {lines}\n  stablehlo.return %r : tensor<{result or dtype}>\n}})"


def branch(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(x < y, y * y, x - y)


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (BRANCH, branch(X, Y)),
        (BITS, np.array([[2, 4, 0], [3, 1, 7]]) + Y),
        (TENSORS, Y),
        (BARRIER, X - Y),
    ],
    ids=["branch", "loop", "tensors", "barrier"],
)
def test_a_map(lines: str, wanted: np.ndarray) -> None:
    t = "tensor<2x3xi32>"
    text = function(
        f'"stablehlo.map"(%a, %b) <{{dimensions = array<i64: 0, 1>}}> {body(lines)} : ({t}, {t}) -> {t}',
        f"%a: {t}, %b: {t}",
        t,
    )
    assert results(text, X, Y)[0].tolist() == wanted.tolist()


LARGER = """%c = stablehlo.compare LT, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %r = "stablehlo.if"(%c) ({ stablehlo.return %y : tensor<i32> }, { stablehlo.return %x : tensor<i32> }) : (tensor<i1>) -> tensor<i32>"""


@pytest.mark.parametrize("shape", ["2x3", "2x?"])
def test_a_reduction_that_branches(shape: str) -> None:
    text = f"""func.func @main(%a: tensor<{shape}xi32>) -> tensor<2xi32> {{
      %i = stablehlo.constant dense<-9> : tensor<i32>
      %r = "stablehlo.reduce"(%a, %i) <{{dimensions = array<i64: 1>}}> {body(LARGER)} : (tensor<{shape}xi32>, tensor<i32>) -> tensor<2xi32>
      return %r : tensor<2xi32> }}"""
    assert results(text, X)[0].tolist() == X.max(axis=1).tolist()


def test_a_scatter_that_branches() -> None:
    t = "tensor<4x2xi32>"
    text = function(
        '"stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],'
        f" inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> {body(BRANCH)} :"
        f" ({t}, tensor<3x1xi32>, tensor<3x2xi32>) -> {t}",
        f"%a: {t}, %i: tensor<3x1xi32>, %u: tensor<3x2xi32>",
        t,
    )
    a = np.arange(8, dtype=np.int32).reshape(4, 2)
    u = np.array([[1, 9], [2, -1], [5, 5]], np.int32)
    (found,) = results(text, a, np.array([[1], [1], [7]], np.int32), u)
    a[1] = branch(branch(a[1], u[0]), u[1])
    assert found.tolist() == a.tolist()


def reduced(source: str, target: str, op: str) -> str:
    lines = body(f"%r = stablehlo.{op} %x, %y : tensor<{target}>", target)
    return f"""func.func @main(%a: tensor<3x2x{source}>, %i: tensor<{source}>) -> tensor<2x{target}> {{
      %r = "stablehlo.reduce"(%a, %i) <{{dimensions = array<i64: 0>}}> {lines} : (tensor<3x2x{source}>, tensor<{source}>) -> tensor<2x{target}>
      return %r : tensor<2x{target}> }}"""


def test_a_reduction_in_a_wider_type() -> None:
    x = np.full((3, 2), 100, np.int8)
    (found,) = results(reduced("i8", "i32", "add"), x, np.array(1, np.int8))
    assert found.dtype == np.int32 and found.tolist() == [301, 301]
    (found,) = results(reduced("f32", "f64", "multiply"), np.full((3, 2), 1e30, np.float32), np.array(1, np.float32))
    assert found.dtype == np.float64 and np.allclose(found, 1e90, rtol=1e-6)


def test_windows_in_a_wider_type() -> None:
    lines = body("%r = stablehlo.add %x, %y : tensor<i32>")
    text = function(
        f'"stablehlo.reduce_window"(%a, %i) <{{window_dimensions = array<i64: 2>}}> {lines} : (tensor<4xi8>, tensor<i8>) -> tensor<3xi32>',
        "%a: tensor<4xi8>, %i: tensor<i8>",
        "tensor<3xi32>",
    )
    (found,) = results(text, np.array([100, 100, 100, -3], np.int8), np.array(0, np.int8))
    assert found.dtype == np.int32 and found.tolist() == [200, 200, 97]


def test_a_scatter_in_a_wider_type() -> None:
    lines = body("%r = stablehlo.add %x, %y : tensor<i32>")
    text = function(
        '"stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],'
        f" scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> {lines} :"
        " (tensor<2xi8>, tensor<2x1xi32>, tensor<2xi8>) -> tensor<2xi32>",
        "%a: tensor<2xi8>, %i: tensor<2x1xi32>, %u: tensor<2xi8>",
        "tensor<2xi32>",
    )
    x = np.array([100, 1], np.int8)
    (found,) = results(text, x, np.array([[0], [0]], np.int32), x)
    assert found.dtype == np.int32 and found.tolist() == [201, 1]


def test_a_pool_without_windows_has_no_gradient() -> None:
    t, s = "tensor<2x3xf32>", "tensor<2x0xf32>"
    select = """({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %r = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %r : tensor<i1>
    }, {
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %r = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %r : tensor<f32>
    })"""
    text = function(
        f'"stablehlo.select_and_scatter"(%a, %s, %i) <{{window_dimensions = array<i64: 1, 5>}}> {select} : ({t}, {s}, tensor<f32>) -> {t}',
        f"%a: {t}, %s: {s}, %i: tensor<f32>",
        t,
    )
    (found,) = results(text, np.ones((2, 3), np.float32), np.ones((2, 0), np.float32), np.array(0, np.float32))
    assert found.tolist() == np.zeros((2, 3)).tolist()


def by(comparator: str, dtype: str, shape: str, axis: int) -> str:
    """Sorts a tensor, and beside it the places that its elements had."""
    t, p = f"tensor<{shape}x{dtype}>", f"tensor<{shape}xi32>"
    return f"""func.func @main(%a: {t}, %b: {p}) -> ({t}, {p}) {{
      %r:2 = "stablehlo.sort"(%a, %b) <{{dimension = {axis} : i64, is_stable = true}}> ({{
        ^bb0(%x: tensor<{dtype}>, %y: tensor<{dtype}>, %p: tensor<i32>, %q: tensor<i32>):
        {comparator}
        stablehlo.return %r : tensor<i1>
      }}) : ({t}, {p}) -> ({t}, {p})
      return %r#0, %r#1 : {t}, {p} }}"""


def compare(name: str, direction: str, x: str, y: str, dtype: str, kind: str = "SIGNED") -> str:
    return f"%{name} = stablehlo.compare {direction}, {x}, {y}, {kind} : (tensor<{dtype}>, tensor<{dtype}>) -> tensor<i1>\n"


DIFFERENCE = """%d = stablehlo.subtract %x, %y : tensor<i32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %r = stablehlo.compare LT, %d, %none : (tensor<i32>, tensor<i32>) -> tensor<i1>"""
BY_BRANCH = """%one = stablehlo.constant dense<1> : tensor<i32>
  %o = stablehlo.and %x, %one : tensor<i32>
  %e = stablehlo.and %y, %one : tensor<i32>
  %same = stablehlo.compare EQ, %o, %e : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %r = "stablehlo.if"(%same) ({
    %l = stablehlo.compare LT, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %l : tensor<i1>
  }, {
    %l = stablehlo.compare LT, %o, %e : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %l : tensor<i1>
  }) : (tensor<i1>) -> tensor<i1>"""


def sorted_stably(x: np.ndarray, key: np.ndarray, axis: int) -> tuple[list[object], list[object]]:
    order = np.argsort(key, axis=axis, kind="stable")
    return np.take_along_axis(x, order, axis).tolist(), order.tolist()


@pytest.mark.parametrize(("size", "shape"), [(1, "1"), (2, "2"), (3, "?"), (17, "17"), (40, "?"), (300, "300")])
def test_a_comparator_without_keys(size: int, shape: str) -> None:
    x = np.random.default_rng(size).integers(-9, 9, (2, size, 3)).astype(np.int32)
    places = np.broadcast_to(np.arange(size, dtype=np.int32)[:, None], x.shape)
    found = results(by(DIFFERENCE, "i32", f"2x{shape}x3", 1), x, places)
    assert tuple(f.tolist() for f in found) == sorted_stably(x, x, 1)


@pytest.mark.parametrize("shape", ["7", "?"])
def test_a_comparator_that_branches(shape: str) -> None:
    x = np.array([4, 3, 8, 1, 3, 2, 4], np.int32)
    found = results(by(BY_BRANCH, "i32", shape, 0), x, np.arange(7, dtype=np.int32))
    assert tuple(f.tolist() for f in found) == sorted_stably(x, x % 2 * 100 + x, 0)


def test_equal_elements_of_a_comparator_that_is_not_strict_stay_in_order() -> None:
    x = np.array([2, 1, 2, 1, 1], np.int32)
    found = results(by(compare("r", "LE", "%x", "%y", "i32"), "i32", "5", 0), x, np.arange(5, dtype=np.int32))
    assert tuple(f.tolist() for f in found) == sorted_stably(x, x, 0)


@pytest.mark.parametrize(("kind", "order"), [("FLOAT", [4, 1, 3, 0, 2]), ("TOTALORDER", [4, 3, 1, 2, 0])])
def test_zeros_are_equal_by_value_and_differ_in_the_total_order(kind: str, order: list[int]) -> None:
    comparator = (
        compare("l", "LT", "%x", "%y", "f32", "TOTALORDER")
        + compare("e", "EQ", "%x", "%y", "f32", kind)
        + compare("m", "GT", "%p", "%q", "i32")
        + "%r = stablehlo.select %e, %m, %l : tensor<i1>, tensor<i1>"
    )
    x = np.array([0.0, -0.0, 0.0, -0.0, -1.0], np.float32)
    places = np.array([1, 3, 0, 2, 9], np.int32) if kind == "FLOAT" else np.array([0, 1, 2, 3, 4], np.int32)
    _, found = results(by(comparator, "f32", "5", 0), x, places)
    assert found.tolist() == places[order].tolist()
