"""Inputs that are sizes of tensors get numbers for which the program's shapes agree."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jaxlib")

from fornaxc.importers.stablehlo.importer import import_module
from fornaxc.importers.stablehlo.reader import module_of, parse_text
from fornaxc.ir.binding import check_constraints
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import parse_dim, symbol
from fornaxc.ir.graph import Graph
from fornaxc.ir.interpreter import run
from fornaxc.ir.types import DType, TensorType
from fornaxc.verification.inputs import generate, size_choices

BATCH = """func.func @main(%n: tensor<i64>, %x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %c = stablehlo.constant dense<4> : tensor<1xi64>
  %z = stablehlo.constant dense<1.0> : tensor<f32>
  %0 = stablehlo.reshape %n : (tensor<i64>) -> tensor<1xi64>
  %1 = stablehlo.concatenate %0, %c, dim = 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %2 = stablehlo.dynamic_broadcast_in_dim %z, %1, dims = [] : (tensor<f32>, tensor<2xi64>) -> tensor<?x4xf32>
  %3 = stablehlo.add %x, %2 : tensor<?x4xf32>
  return %3 : tensor<?x4xf32> }"""
SHAPE = """func.func @main(%x: tensor<12xf32>, %s: tensor<2xi32>) -> tensor<?x?xf32> {
  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<12xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32> }"""
COUNT = """func.func @main(%s: tensor<2xi32>) -> tensor<?x?xf32> {
  %0 = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32> }"""


def graph_of(text: str) -> Graph:
    return import_module(module_of(parse_text(text, "module"), Path("module")), {})


@pytest.mark.parametrize("rows", [2, 7])
def test_a_size_beside_the_tensor_that_has_it(rows: int) -> None:
    graph = graph_of(BATCH)
    n, x = generate(graph, {"d0": rows}, 3).values()
    assert n == rows and n.dtype == np.int64
    assert run(graph, [n, x])[0].shape == (rows, 4)


def test_a_shape_has_the_elements_of_the_tensor() -> None:
    graph = graph_of(SHAPE)
    x, shape = generate(graph, {}, 0).values()
    assert int(np.prod(shape)) == 12 and shape.dtype == np.int32
    assert run(graph, [x, shape])[0].shape == tuple(shape)


def test_a_shape_that_nothing_else_decides_is_small_and_not_empty() -> None:
    graph = graph_of(COUNT)
    (shape,) = generate(graph, {}, 0).values()
    assert all(1 <= n <= 128 for n in shape)
    assert run(graph, [shape])[0].shape == tuple(shape)


def test_tensors_that_share_a_size_get_it_alike() -> None:
    text = BATCH.replace("%x: tensor<?x4xf32>)", "%x: tensor<?x4xf32>, %y: tensor<?x4xf32>)")
    text = text.replace("return %3", "%4 = stablehlo.multiply %y, %2 : tensor<?x4xf32>\n  return %3, %4")
    text = text.replace(") -> tensor<?x4xf32> {", ") -> (tensor<?x4xf32>, tensor<?x4xf32>) {").replace(
        "%4 : tensor<?x4xf32> }", "%4 : tensor<?x4xf32>, tensor<?x4xf32> }"
    )
    graph = graph_of(text)
    sizes = next(size_choices(graph))
    assert sizes["d0"] == sizes["d1"]
    assert [r.shape for r in run(graph, list(generate(graph, sizes, 0).values()))] == [(sizes["d0"], 4)] * 2


def conditioned(*conditions: str) -> Graph:
    """Inputs of lengths a, b and c, under conditions on them."""
    b = GraphBuilder()
    line = [b.input(TensorType(DType.F32, (symbol(name),)), name) for name in ("a", "b", "c")]
    for condition in conditions:
        left, relation, right = condition.split(maxsplit=2)
        b.require(parse_dim(left), relation, parse_dim(right), "it is so")
    return b.finish(line, ["x", "y", "z"])


@pytest.mark.parametrize(
    "conditions",
    [
        ("a >= 2*b", "b >= 1"),
        ("a == 3*b+1",),
        ("b == a*a",),
        ("a%6 == 0", "b%7 == 3"),
        ("a >= 30", "40 >= a", "a+b == 41"),
        ("a%b == 0", "a >= b+1"),
        ("a//b == 4",),
        ("a == b", "b == 3*c+1"),
    ],
)
def test_sizes_meet_the_conditions_between_them(conditions: tuple[str, ...]) -> None:
    graph = conditioned(*conditions)
    found = list(islice(size_choices(graph), 2))
    assert len(found) == 2 and found[0] != found[1]
    for sizes in found:
        check_constraints(graph.constraints, dict(sizes))


def with_inputs(*shapes: tuple[str, ...]) -> Graph:
    b = GraphBuilder()
    values = [
        b.input(TensorType(DType.F32, tuple(parse_dim(d) for d in shape)), f"x{i}") for i, shape in enumerate(shapes)
    ]
    return b.finish(values, [f"y{i}" for i in range(len(values))])


def test_a_size_may_be_one_more_than_one_that_comes_later() -> None:
    """As a decoder's mask is, which covers a cache and one more token, and is an input before it."""
    found = size_choices(with_inputs(("batch", "total"), ("batch", "past")))
    assert any(sizes["total"] == sizes["past"] + 1 for sizes in found)


def test_several_dims_are_not_large_at_once() -> None:
    found = list(size_choices(with_inputs(("n", "3", "h", "w"))))
    assert len(found) >= 8
    assert max(3 * s["n"] * s["h"] * s["w"] for s in found) <= 1 << 22
    assert list(size_choices(with_inputs(("n", "4096", "4096")))) == [{"n": 2}, {"n": 1}]


def test_conditions_that_nothing_meets_have_no_sizes() -> None:
    assert list(size_choices(conditioned("a >= b+1", "b >= a"))) == []
