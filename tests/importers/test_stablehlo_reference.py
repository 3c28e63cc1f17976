"""Small programs of every kind, through the importer and the numpy interpreter, against StableHLO's reference interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jaxlib")

from stablehlo_reference import evaluate, input_infos

from fornaxc.importers.stablehlo.importer import import_module
from fornaxc.importers.stablehlo.reader import module_of, parse_text
from fornaxc.importers.stablehlo.selfchecks import Expectation, agrees
from fornaxc.ir.checker import check
from fornaxc.ir.interpreter import run


def inputs_for(text: str, seed: int = 0) -> list[np.ndarray]:
    """Random arguments: small integers, floats between -4 and 4."""
    rng = np.random.default_rng(seed)
    arrays = []
    for info in input_infos(text):
        shape = tuple(d or 0 for d in info.shape)
        for _ in range(2 if info.complex else 1):
            if info.dtype.is_float:
                arrays.append((rng.random(shape) * 8 - 4).astype(np.float32).astype(info.dtype.numpy))
            elif info.dtype.value == "bool":
                arrays.append(rng.random(shape) < 0.5)
            else:
                low = -4 if info.dtype.is_signed and info.dtype.bits > 2 else 0
                high = 2 if info.dtype.bits == 2 else 7
                arrays.append(rng.integers(low, high, shape).astype(info.dtype.numpy))
    return arrays


def compare(text: str, inputs: list[np.ndarray], kind: str = "close") -> None:
    graph = import_module(module_of(parse_text(text, "module"), Path("module")), {})
    check(graph)
    actual, wanted = run(graph, inputs), evaluate(text, inputs)
    assert len(actual) == len(wanted)
    for got, want in zip(actual, wanted, strict=True):
        assert agrees(Expectation(kind, 0, want), got), f"{got}\nis not\n{want}"


def function(body: str, arguments: str, result: str, name: str = "r") -> str:
    return f"func.func @main({arguments}) -> {result} {{\n{body}\nreturn %{name} : {result}\n}}"


INTEGERS = ["i4", "i8", "i16", "i32", "i64", "ui4", "ui8", "ui16", "ui32", "ui64"]
FLOATS = ["bf16", "f16", "f32", "f64"]
INTEGER_BINARY = ["add", "subtract", "multiply", "maximum", "minimum", "and", "or", "xor", "power"]
SHIFTS = ["shift_left", "shift_right_logical", "shift_right_arithmetic"]
FLOAT_UNARY = [
    *(
        "abs",
        "ceil",
        "floor",
        "negate",
        "sign",
        "round_nearest_afz",
        "round_nearest_even",
        "cosine",
        "sine",
        "tan",
        "tanh",
    ),
    *("exponential", "exponential_minus_one", "logistic", "cbrt"),
]


@pytest.mark.parametrize("op", INTEGER_BINARY)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_arithmetic_wraps(op: str, dtype: str) -> None:
    t = f"tensor<40x{dtype}>"
    text = function(f"%r = stablehlo.{op} %a, %b : {t}", f"%a: {t}, %b: {t}", t)
    left, right = inputs_for(text)
    if op == "power":
        right = np.abs(right.astype(np.int64)).astype(right.dtype)
    compare(text, [left, right])


@pytest.mark.parametrize("op", ["divide", "remainder"])
@pytest.mark.parametrize("dtype", ["i8", "i32", "ui8", "i64"])
def test_integer_division_truncates(op: str, dtype: str) -> None:
    t = f"tensor<40x{dtype}>"
    text = function(f"%r = stablehlo.{op} %a, %b : {t}", f"%a: {t}, %b: {t}", t)
    left, right = inputs_for(text)
    compare(text, [left, np.where(right == 0, 3, right).astype(right.dtype)])


@pytest.mark.parametrize("op", SHIFTS)
@pytest.mark.parametrize("dtype", ["i4", "i8", "i32", "i64", "ui8", "ui32"])
def test_shifts_beyond_the_width(op: str, dtype: str) -> None:
    t = f"tensor<6x{dtype}>"
    text = function(f"%r = stablehlo.{op} %a, %b : {t}", f"%a: {t}, %b: {t}", t)
    left, right = inputs_for(text)
    right = np.array([0, 1, 2, 3, 7, 5]).astype(right.dtype)
    if dtype not in ("i4",):
        right[5] = 60
    compare(text, [left, right])


@pytest.mark.parametrize("op", FLOAT_UNARY)
@pytest.mark.parametrize("dtype", FLOATS)
def test_float_functions(op: str, dtype: str) -> None:
    if op == "logistic" and dtype in ("f16", "bf16"):
        pytest.skip("the reference rounds each step of it to the narrow type")
    t = f"tensor<33x{dtype}>"
    compare(text := function(f"%r = stablehlo.{op} %a : {t}", f"%a: {t}", t), inputs_for(text), "almost")


@pytest.mark.parametrize("op", ["log", "log_plus_one", "sqrt", "rsqrt"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_float_functions_of_positive_numbers(op: str, dtype: str) -> None:
    t = f"tensor<33x{dtype}>"
    text = function(f"%r = stablehlo.{op} %a : {t}", f"%a: {t}", t)
    compare(text, [np.abs(a) for a in inputs_for(text)], "almost")


@pytest.mark.parametrize("op", ["count_leading_zeros", "popcnt", "not", "abs", "negate", "sign"])
@pytest.mark.parametrize("dtype", ["i4", "i8", "i16", "i32", "i64"])
def test_integer_functions(op: str, dtype: str) -> None:
    t = f"tensor<40x{dtype}>"
    compare(text := function(f"%r = stablehlo.{op} %a : {t}", f"%a: {t}", t), inputs_for(text))


def complex_function(op: str, count: int) -> str:
    """A function of complex numbers, whose parts are arguments and results of their own: jaxlib hands out real tensors only."""
    t, real = "tensor<24xcomplex<f64>>", "tensor<24xf64>"
    names = "ab"[:count]
    lines = [f"%{n} = stablehlo.complex %{n}r, %{n}i : {t}" for n in names]
    lines += [f"%z = stablehlo.{op} {', '.join(f'%{n}' for n in names)} : {t}"]
    lines += [f"%x = stablehlo.real %z : ({t}) -> {real}", f"%y = stablehlo.imag %z : ({t}) -> {real}"]
    lines += [f"%r = stablehlo.concatenate %x, %y, dim = 0 : ({real}, {real}) -> tensor<48xf64>"]
    return function("\n".join(lines), ", ".join(f"%{n}r: {real}, %{n}i: {real}" for n in names), "tensor<48xf64>")


@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "divide", "power", "atan2", "maximum", "minimum"])
def test_complex_arithmetic(op: str) -> None:
    compare(text := complex_function(op, 2), inputs_for(text), "almost")


COMPLEX_UNARY = [
    *("exponential", "exponential_minus_one", "cosine", "sine", "tan", "tanh", "log", "log_plus_one", "sqrt", "rsqrt"),
    *("logistic", "negate", "sign"),
]


@pytest.mark.parametrize("op", COMPLEX_UNARY)
def test_complex_functions(op: str) -> None:
    compare(text := complex_function(op, 1), inputs_for(text), "almost")


@pytest.mark.parametrize("source", ["f32", "f64", "bf16", "i32", "ui8", "i1", "f8E4M3FN"])
@pytest.mark.parametrize("target", ["f32", "f16", "bf16", "i8", "i4", "ui8", "ui32", "i64", "i1", "f8E5M2", "f8E4M3FN"])
def test_conversions(source: str, target: str) -> None:
    a, r = f"tensor<30x{source}>", f"tensor<30x{target}>"
    text = function(f"%r = stablehlo.convert %a : ({a}) -> {r}", f"%a: {a}", r)
    inputs = inputs_for(text)
    if source.startswith(("f", "bf")) and target.startswith("ui"):
        inputs = [np.abs(x) for x in inputs]
    compare(text, inputs)


PROGRAMS = {
    "pad with negative and interior amounts": function(
        "%r = stablehlo.pad %a, %b, low = [1, -1], high = [-1, 2], interior = [2, 1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<7x8xf32>",
        "%a: tensor<3x4xf32>, %b: tensor<f32>",
        "tensor<7x8xf32>",
    ),
    "reverse of a slice": function(
        "%s = stablehlo.slice %a [0:2, 0:4:2, 0:2] : (tensor<2x4x2xf32>) -> tensor<2x2x2xf32>\n"
        "%r = stablehlo.reverse %s, dims = [0, 2] : tensor<2x2x2xf32>",
        "%a: tensor<2x4x2xf32>",
        "tensor<2x2x2xf32>",
    ),
    "dot with two batch axes": function(
        "%r = stablehlo.dot_general %a, %b, batching_dims = [0, 2] x [2, 0], contracting_dims = [1] x [3] :"
        " (tensor<2x5x3x4xf32>, tensor<3x6x2x5xf32>) -> tensor<2x3x4x6xf32>",
        "%a: tensor<2x5x3x4xf32>, %b: tensor<3x6x2x5xf32>",
        "tensor<2x3x4x6xf32>",
    ),
    "dot of integers in a wider type": function(
        "%r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<3x4xi8>, tensor<4x2xi8>) -> tensor<3x2xi32>",
        "%a: tensor<3x4xi8>, %b: tensor<4x2xi8>",
        "tensor<3x2xi32>",
    ),
    "convolution with dilations, groups and reversal": function(
        "%r = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],"
        " window = {stride = [2, 1], pad = [[1, 2], [-1, 3]], lhs_dilate = [2, 1], rhs_dilate = [1, 2], reverse = [true, false]}"
        " {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x4x5x4xf32>, tensor<2x3x2x6xf32>) -> tensor<2x5x3x6xf32>",
        "%a: tensor<2x4x5x4xf32>, %b: tensor<2x3x2x6xf32>",
        "tensor<2x5x3x6xf32>",
    ),
    "convolution with batch groups": function(
        "%r = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}"
        " {batch_group_count = 2 : i64, feature_group_count = 1 : i64} : (tensor<4x5x3xf32>, tensor<2x3x6xf32>) -> tensor<2x4x6xf32>",
        "%a: tensor<4x5x3xf32>, %b: tensor<2x3x6xf32>",
        "tensor<2x4x6xf32>",
    ),
    "reduction with a function of its own": function(
        "%c = stablehlo.constant dense<0> : tensor<i32>\n"
        "%r = stablehlo.reduce(%a init: %c) across dimensions = [0, 2] : (tensor<3x4x5xi32>, tensor<i32>) -> tensor<4xi32>\n"
        "reducer(%x: tensor<i32>, %y: tensor<i32>) {\n%m = stablehlo.multiply %x, %y : tensor<i32>\n"
        "%s = stablehlo.add %x, %y : tensor<i32>\n%t = stablehlo.add %m, %s : tensor<i32>\nstablehlo.return %t : tensor<i32> }",
        "%a: tensor<3x4x5xi32>",
        "tensor<4xi32>",
    ),
    "window sums with dilations": function(
        "%c = stablehlo.constant dense<0.0> : tensor<f32>\n"
        '%r = "stablehlo.reduce_window"(%a, %c) <{window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 2, 1>,'
        " base_dilations = array<i64: 2, 1>, window_dilations = array<i64: 1, 2>, padding = dense<[[1, 0], [2, 1]]> : tensor<2x2xi64>}> ({\n"
        "^bb0(%x: tensor<f32>, %y: tensor<f32>):\n%s = stablehlo.add %x, %y : tensor<f32>\nstablehlo.return %s : tensor<f32>\n"
        "}) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x5xf32>",
        "%a: tensor<4x6xf32>",
        "tensor<4x5xf32>",
    ),
    "scatter into inner axes with batches": function(
        '%r = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [3, 4],'
        " inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [1],"
        " scatter_dims_to_operand_dims = [2, 1], index_vector_dim = 3>, indices_are_sorted = false, unique_indices = false}> ({\n"
        "^bb0(%x: tensor<i64>, %y: tensor<i64>):\n%s = stablehlo.add %x, %y : tensor<i64>\nstablehlo.return %s : tensor<i64>\n"
        "}) : (tensor<2x3x4x2xi64>, tensor<2x2x3x2xi64>, tensor<2x2x3x2x2xi64>) -> tensor<2x3x4x2xi64>",
        "%a: tensor<2x3x4x2xi64>, %i: tensor<2x2x3x2xi64>, %u: tensor<2x2x3x2x2xi64>",
        "tensor<2x3x4x2xi64>",
    ),
    "scatter with a function of its own": function(
        '%r = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],'
        " inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false,"
        " unique_indices = false}> ({\n^bb0(%x: tensor<i64>, %y: tensor<i64>):\n%s = stablehlo.add %x, %x : tensor<i64>\n"
        "%t = stablehlo.add %s, %y : tensor<i64>\nstablehlo.return %t : tensor<i64>\n"
        "}) : (tensor<5x2xi64>, tensor<6x1xi64>, tensor<6x2xi64>) -> tensor<5x2xi64>",
        "%a: tensor<5x2xi64>, %i: tensor<6x1xi64>, %u: tensor<6x2xi64>",
        "tensor<5x2xi64>",
    ),
    "gather out of bounds": function(
        '%r = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], collapsed_slice_dims = [0],'
        " start_index_map = [0, 2], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3, 2>, indices_are_sorted = false}> :"
        " (tensor<4x3x5xf32>, tensor<7x2xi64>) -> tensor<7x3x2xf32>",
        "%a: tensor<4x3x5xf32>, %i: tensor<7x2xi64>",
        "tensor<7x3x2xf32>",
    ),
    "dynamic slices out of bounds": function(
        "%s = stablehlo.dynamic_slice %a, %i, %j, sizes = [2, 3] : (tensor<4x5xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>\n"
        "%r = stablehlo.dynamic_update_slice %a, %s, %j, %i : (tensor<4x5xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x5xf32>",
        "%a: tensor<4x5xf32>, %i: tensor<i32>, %j: tensor<i32>",
        "tensor<4x5xf32>",
    ),
    "sort by two keys": function(
        '%r:2 = "stablehlo.sort"(%a, %b) <{dimension = 0 : i64, is_stable = true}> ({\n'
        "^bb0(%x: tensor<i32>, %y: tensor<i32>, %u: tensor<f32>, %v: tensor<f32>):\n"
        "%e = stablehlo.compare EQ, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "%l = stablehlo.compare LT, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "%g = stablehlo.compare GT, %u, %v : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "%s = stablehlo.select %e, %g, %l : tensor<i1>, tensor<i1>\nstablehlo.return %s : tensor<i1>\n"
        "}) : (tensor<20x2xi32>, tensor<20x2xf32>) -> (tensor<20x2xi32>, tensor<20x2xf32>)",
        "%a: tensor<20x2xi32>, %b: tensor<20x2xf32>",
        "tensor<20x2xf32>",
        "r#1",
    ),
    "sort by a comparator without keys": function(
        '%r = "stablehlo.sort"(%a) <{dimension = 1 : i64, is_stable = true}> ({\n^bb0(%x: tensor<i32>, %y: tensor<i32>):\n'
        "%c = stablehlo.constant dense<3> : tensor<i32>\n"
        "%m = stablehlo.remainder %x, %c : tensor<i32>\n%n = stablehlo.remainder %y, %c : tensor<i32>\n"
        "%d = stablehlo.subtract %m, %n : tensor<i32>\n%z = stablehlo.constant dense<0> : tensor<i32>\n"
        "%s = stablehlo.compare LT, %d, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>\nstablehlo.return %s : tensor<i1>\n"
        "}) : (tensor<2x9xi32>) -> tensor<2x9xi32>",
        "%a: tensor<2x9xi32>",
        "tensor<2x9xi32>",
    ),
    "while with a captured value": function(
        "%z = stablehlo.constant dense<0> : tensor<i32>\n%n = stablehlo.constant dense<4> : tensor<i32>\n"
        "%w:2 = stablehlo.while(%k = %z, %x = %a) : tensor<i32>, tensor<3xf32> cond {\n"
        "%c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\nstablehlo.return %c : tensor<i1>\n} do {\n"
        "%o = stablehlo.constant dense<1> : tensor<i32>\n%k2 = stablehlo.add %k, %o : tensor<i32>\n"
        "%x2 = stablehlo.add %x, %b : tensor<3xf32>\nstablehlo.return %k2, %x2 : tensor<i32>, tensor<3xf32>\n}",
        "%a: tensor<3xf32>, %b: tensor<3xf32>",
        "tensor<3xf32>",
        "w#1",
    ),
    "case with an index outside": function(
        '%r = "stablehlo.case"(%i) ({\n%x = stablehlo.negate %a : tensor<3xf32>\nstablehlo.return %x : tensor<3xf32>\n}, {\n'
        "%x = stablehlo.add %a, %a : tensor<3xf32>\nstablehlo.return %x : tensor<3xf32>\n}, {\nstablehlo.return %a : tensor<3xf32>\n"
        "}) : (tensor<i32>) -> tensor<3xf32>",
        "%i: tensor<i32>, %a: tensor<3xf32>",
        "tensor<3xf32>",
    ),
    "place of the largest": function(
        "%i = stablehlo.iota dim = 1 : tensor<3x9xi32>\n%s = stablehlo.constant dense<0xFF800000> : tensor<f32>\n"
        "%z = stablehlo.constant dense<0> : tensor<i32>\n"
        "%r:2 = stablehlo.reduce(%a init: %s), (%i init: %z) across dimensions = [1] :"
        " (tensor<3x9xf32>, tensor<3x9xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)\n"
        "reducer(%x: tensor<f32>, %y: tensor<f32>) (%j: tensor<i32>, %k: tensor<i32>) {\n"
        "%c = stablehlo.compare GT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "%n = stablehlo.compare NE, %x, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>\n%o = stablehlo.or %c, %n : tensor<i1>\n"
        "%e = stablehlo.compare EQ, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "%l = stablehlo.compare LT, %j, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>\n%m = stablehlo.and %e, %l : tensor<i1>\n"
        "%p = stablehlo.or %o, %m : tensor<i1>\n%v = stablehlo.select %o, %x, %y : tensor<i1>, tensor<f32>\n"
        "%w = stablehlo.select %p, %j, %k : tensor<i1>, tensor<i32>\nstablehlo.return %v, %w : tensor<f32>, tensor<i32>\n}",
        "%a: tensor<3x9xf32>",
        "tensor<3xi32>",
        "r#1",
    ),
    "place of the smallest": function(
        "%i = stablehlo.iota dim = 1 : tensor<3x9xi32>\n%s = stablehlo.constant dense<0x7F800000> : tensor<f32>\n"
        "%z = stablehlo.constant dense<0> : tensor<i32>\n"
        "%r:2 = stablehlo.reduce(%a init: %s), (%i init: %z) across dimensions = [1] :"
        " (tensor<3x9xf32>, tensor<3x9xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)\n"
        "reducer(%x: tensor<f32>, %y: tensor<f32>) (%j: tensor<i32>, %k: tensor<i32>) {\n"
        "%c = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "%n = stablehlo.compare NE, %x, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>\n%o = stablehlo.or %c, %n : tensor<i1>\n"
        "%e = stablehlo.compare EQ, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "%l = stablehlo.compare LT, %j, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>\n%m = stablehlo.and %e, %l : tensor<i1>\n"
        "%p = stablehlo.or %o, %m : tensor<i1>\n%v = stablehlo.select %o, %x, %y : tensor<i1>, tensor<f32>\n"
        "%w = stablehlo.select %p, %j, %k : tensor<i1>, tensor<i32>\nstablehlo.return %v, %w : tensor<f32>, tensor<i32>\n}",
        "%a: tensor<3x9xf32>",
        "tensor<3xi32>",
        "r#1",
    ),
    "clamp with scalars": function(
        "%r = stablehlo.clamp %a, %b, %c : (tensor<f32>, tensor<9xf32>, tensor<f32>) -> tensor<9xf32>",
        "%a: tensor<f32>, %b: tensor<9xf32>, %c: tensor<f32>",
        "tensor<9xf32>",
    ),
    "bits to narrower and wider": function(
        "%s = stablehlo.bitcast_convert %a : (tensor<4xf32>) -> tensor<4x2xi16>\n"
        "%t = stablehlo.bitcast_convert %s : (tensor<4x2xi16>) -> tensor<4x2x4xi4>\n"
        "%r = stablehlo.bitcast_convert %t : (tensor<4x2x4xi4>) -> tensor<4x2xi16>",
        "%a: tensor<4xf32>",
        "tensor<4x2xi16>",
    ),
    "reduced precision": function(
        "%r = stablehlo.reduce_precision %a, format = e4m3 : tensor<50xf32>", "%a: tensor<50xf32>", "tensor<50xf32>"
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", range(3))
def test_program(name: str, seed: int) -> None:
    compare(PROGRAMS[name], inputs_for(PROGRAMS[name], seed))


@pytest.mark.parametrize("zero_point", [-3, 0, 1, 2])
def test_numbers_between_two_steps_are_quantized_as_by_the_reference(zero_point: int) -> None:
    quantized = f"tensor<9x!quant.uniform<i8:f32, 0.5:{zero_point}>>"
    body = (
        f"%q = stablehlo.uniform_quantize %x : (tensor<9xf32>) -> {quantized}\n"
        f"%r = stablehlo.bitcast_convert %q : ({quantized}) -> tensor<9xi8>"
    )
    halves = np.array([0.25, 0.75, -0.25, -0.75, 1.25, 0.2, -1.25, 500, -500], np.float32)
    compare(function(body, "%x: tensor<9xf32>", "tensor<9xi8>"), [halves], "eq")
