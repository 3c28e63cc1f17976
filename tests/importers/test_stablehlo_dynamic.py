"""Windows, top_k and random bits whose sizes arrive as tensors, gradients of pools, and what integer division has at its edges."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jaxlib")

import stablehlo_cases

from fornaxc.errors import UnsupportedError
from fornaxc.importers.stablehlo.importer import import_module
from fornaxc.importers.stablehlo.reader import module_of, parse_text
from fornaxc.importers.stablehlo.types import ELEMENTS
from fornaxc.ir.binding import ShapeMismatch
from fornaxc.ir.checker import check
from fornaxc.ir.graph import Graph
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Cumulative, DynamicRange, Pool

Arrays = list[np.ndarray]
CASES = Path(__file__).parent.parent / "stablehlo_suite" / "cases"


def imported(text: str) -> Graph:
    graph = import_module(module_of(parse_text(text, "module"), Path("module")), {})
    check(graph)
    return graph


def results(text: str, *inputs: np.ndarray) -> Arrays:
    return run(imported(text), list(inputs))


def operations(graph: Graph) -> Counter[str]:
    return Counter(type(node.op).__name__ for node in graph.walk())


def vector(name: str, *entries: str) -> str:
    """An i32 vector of SSA values of one element."""
    types = ", ".join(["tensor<1xi32>"] * len(entries))
    return f"%{name} = stablehlo.concatenate {', '.join(entries)}, dim = 0 : ({types}) -> tensor<{len(entries)}xi32>"


def rows(
    operation: str,
    init: str,
    *,
    size: str = "%n",
    pads: tuple[str, str] = ("%before", "%zero"),
    stride: str = "%one",
    dtype: str = "i32",
    arguments: str = "",
) -> str:
    """Windows along the second of two symbolic axes, as jax writes them; %n is its size, %before one less."""
    x, element = f"tensor<?x?x{dtype}>", f"tensor<{dtype}>"
    return f"""
    func.func @body(%a: {element}, %b: {element}) -> {element} {{
      %r = {operation} : {element}
      return %r : {element} }}
    func.func @main(%x: {x}{arguments}) -> {x} {{
      %init = stablehlo.constant dense<{init}> : {element}
      %zero = stablehlo.constant dense<0> : tensor<1xi32>
      %one = stablehlo.constant dense<1> : tensor<1xi32>
      %two = stablehlo.constant dense<2> : tensor<1xi32>
      %size = stablehlo.get_dimension_size %x, dim = 1 : ({x}) -> tensor<i32>
      %n = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
      %before = stablehlo.subtract %n, %one : tensor<1xi32>
      {vector("sizes", "%one", size)}
      {vector("strides", "%one", stride)}
      {vector("ones", "%one", "%one")}
      {vector("flat", "%zero", "%zero", *pads)}
      %pads = stablehlo.reshape %flat : (tensor<4xi32>) -> tensor<2x2xi32>
      %r = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %init, %sizes, %strides, %ones, %ones, %pads)
        {{api_version = 2 : i32, called_computations = [@body]}} :
        ({x}, {element}, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2x2xi32>) -> {x}
      return %r : {x} }}"""


ADD, MUL, MAX, MIN = (f"stablehlo.{name} %a, %b" for name in ("add", "multiply", "maximum", "minimum"))
FROM_END = ("%zero", "%before")
LEAST, GREATEST = "-2147483648", "2147483647"


def test_places_are_counted_from_a_mask_of_any_length() -> None:
    graph = imported(rows(ADD, "0"))
    assert operations(graph)["Cumulative"] == 1 and not operations(graph)["While"]
    mask = np.array([[0, 1, 1, 1], [1, 1, 0, 1]], np.int32)
    assert run(graph, [mask])[0].tolist() == [[0, 1, 2, 3], [1, 2, 2, 3]]
    assert run(graph, [mask[:, :1]])[0].tolist() == [[0], [1]]


@pytest.mark.parametrize(
    ("operation", "init", "forward", "backward"),
    [
        (ADD, "0", [3, 2, 7, 4, 9], [9, 6, 7, 2, 5]),
        (MUL, "1", [3, -3, -15, 45, 225], [225, 75, -75, -15, 5]),
        (MAX, LEAST, [3, 3, 5, 5, 5], [5, 5, 5, 5, 5]),
        (MIN, GREATEST, [3, -1, -1, -3, -3], [-3, -3, -3, -3, 5]),
    ],
)
def test_running_reductions(operation: str, init: str, forward: list[int], backward: list[int]) -> None:
    x = np.array([[3, -1, 5, -3, 5]], np.int32)
    assert results(rows(operation, init), x)[0].tolist() == [forward]
    assert results(rows(operation, init, pads=FROM_END), x)[0].tolist() == [backward]


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 9])
def test_a_running_maximum_of_every_length(length: int) -> None:
    x = np.array([[4, 1, 5, 3, 9, 2, 6, 11, 7], [2, 7, 1, 8, 2, 8, 1, 8, 9]], np.float32)[:, :length]
    text = rows(MAX, "0xFF800000", dtype="f32")
    assert results(text, x)[0].tolist() == np.maximum.accumulate(x, 1).tolist()
    backward = results(rows(MAX, "0xFF800000", dtype="f32", pads=FROM_END), x)[0]
    assert backward.tolist() == np.maximum.accumulate(x[:, ::-1], 1)[:, ::-1].tolist()


def test_running_reductions_by_a_function_that_has_no_name() -> None:
    text = rows(f"{ADD} : tensor<i32>\n%s = stablehlo.negate %r : tensor<i32>\n%t = stablehlo.negate %s", "0")
    (found,) = results(
        text.replace("return %r : tensor<i32> }", "return %t : tensor<i32> }"), np.array([[1, 2, 3, 4]], np.int32)
    )
    assert found.tolist() == [[1, 3, 6, 10]]


def test_a_running_pair_of_reductions() -> None:
    x, i = "tensor<?xi32>", "tensor<1xi32>"
    text = f"""
    func.func @body(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>) -> (tensor<i32>, tensor<i32>) {{
      %0 = stablehlo.add %a, %c : tensor<i32>
      %1 = stablehlo.maximum %b, %d : tensor<i32>
      return %0, %1 : tensor<i32>, tensor<i32> }}
    func.func @main(%x: {x}, %y: {x}) -> ({x}, {x}) {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %least = stablehlo.constant dense<{LEAST}> : tensor<i32>
      %one = stablehlo.constant dense<1> : {i}
      %none = stablehlo.constant dense<0> : {i}
      %size = stablehlo.get_dimension_size %x, dim = 0 : ({x}) -> tensor<i32>
      %n = stablehlo.reshape %size : (tensor<i32>) -> {i}
      %before = stablehlo.subtract %n, %one : {i}
      {vector("flat", "%before", "%none")}
      %pads = stablehlo.reshape %flat : (tensor<2xi32>) -> tensor<1x2xi32>
      %r:2 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %y, %zero, %least, %n, %one, %one, %one, %pads)
        {{called_computations = [@body]}} :
        ({x}, {x}, tensor<i32>, tensor<i32>, {i}, {i}, {i}, {i}, tensor<1x2xi32>) -> ({x}, {x})
      return %r#0, %r#1 : {x}, {x} }}"""
    found = results(text, np.array([1, 2, 3], np.int32), np.array([-5, 4, 1], np.int32))
    assert [v.tolist() for v in found] == [[1, 3, 6], [-5, 4, 4]]


def test_what_counts_as_padding_where_the_initial_value_is_not_neutral() -> None:
    """Each window holds it once for every place outside, and starts from it."""
    assert results(rows(ADD, "10"), np.array([[1, 2, 3]], np.int32))[0].tolist() == [[31, 23, 16]]


@pytest.mark.parametrize(
    ("size", "pads", "found"),
    [
        ("%n", ("%one", "%one"), [[6, 10, 9]]),  # the window grows with the axis
        ("%n", ("%zero", "%zero"), [[10]]),
        ("%two", ("%zero", "%before"), [[3, 5, 7, 4, 0, 0]]),  # the padding alone does
        ("%w", ("%one", "%zero"), [[3, 6, 9]]),  # data decides
    ],
)
def test_windows_of_symbolic_size(size: str, pads: tuple[str, str], found: list[list[int]]) -> None:
    x, width = np.array([[1, 2, 3, 4]], np.int32), np.array([3], np.int32)
    text = rows(ADD, "0", size=size, pads=pads, arguments=", %w: tensor<1xi32>")
    assert results(text, x, width)[0].tolist() == found


def test_windows_of_symbolic_size_that_stride() -> None:
    x = np.array([[5, 1, 2, 9, 3]], np.int32)
    text = rows(MAX, LEAST, size="%w", pads=("%one", "%one"), stride="%two", arguments=", %w: tensor<1xi32>")
    assert results(text, x, np.array([3], np.int32))[0].tolist() == [[5, 9, 9]]
    assert results(text, x, np.array([4], np.int32))[0].tolist() == [[5, 9]]


def test_strides_must_be_known() -> None:
    with pytest.raises(UnsupportedError) as caught:
        results(rows(ADD, "0", stride="%n"), np.ones((1, 3), np.int32))
    assert caught.value.details[0]["reason"].startswith("window_strides[1] is the size d1, which must be known")


def running(operation: str, init: str, size: int, *, reverse: bool) -> str:
    pads = f"[0, {size - 1}]" if reverse else f"[{size - 1}, 0]"
    return f"""func.func @main(%x: tensor<2x{size}xf32>) -> tensor<2x{size}xf32> {{
      %init = stablehlo.constant dense<{init}> : tensor<f32>
      %r = "stablehlo.reduce_window"(%x, %init) <{{padding = dense<[[0, 0], {pads}]> : tensor<2x2xi64>,
        window_dimensions = array<i64: 1, {size}>}}> ({{
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %0 = {operation} : tensor<f32>
        stablehlo.return %0 : tensor<f32>
      }}) : (tensor<2x{size}xf32>, tensor<f32>) -> tensor<2x{size}xf32>
      return %r : tensor<2x{size}xf32> }}"""


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("operation", "init", "fn"), [(ADD, "0.0", "sum"), (MUL, "1.0", "prod")])
def test_static_running_sums_and_products_are_no_windows(operation: str, init: str, fn: str, reverse: bool) -> None:
    graph = imported(running(operation, init, 300, reverse=reverse))
    assert [node.op for node in graph.nodes] == [Cumulative(fn, 1, reverse=reverse)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("operation", "init"), [(MAX, "0xFF800000"), (MIN, "0x7F800000")])
def test_static_running_extremes_take_logarithmically_many_steps(operation: str, init: str, reverse: bool) -> None:
    graph = imported(running(operation, init, 200, reverse=reverse))
    assert operations(graph)["Binary"] == 8 and not any(isinstance(node.op, Pool) for node in graph.nodes)
    x = np.random.default_rng(0).standard_normal((2, 200)).astype(np.float32)
    line = x[:, ::-1] if reverse else x
    wanted = (np.maximum if operation == MAX else np.minimum).accumulate(line, 1)
    assert run(graph, [x])[0].tolist() == (wanted[:, ::-1] if reverse else wanted).tolist()


def top_k(k: str) -> str:
    x, places = "tensor<?x?xf32>", "tensor<?x?xi32>"
    return f"""func.func @main(%x: {x}, %k: tensor<i32>) -> ({x}, {places}) {{
      %n = stablehlo.get_dimension_size %x, dim = 1 : ({x}) -> tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %half = stablehlo.divide %n, %two : tensor<i32>
      %r:2 = stablehlo.custom_call @stablehlo.dynamic_top_k(%x, {k}) {{api_version = 2 : i32}} :
        ({x}, tensor<i32>) -> ({x}, {places})
      return %r#0, %r#1 : {x}, {places} }}"""


def test_the_largest_of_which_a_size_says_how_many() -> None:
    x = np.array([[3, 7, 7, 1], [np.nan, -1, 2, np.inf]], np.float32)
    values, places = results(top_k("%half"), x, np.array(0, np.int32))
    assert places.tolist() == [[1, 2], [0, 3]] and values[0].tolist() == [7, 7] and values[1, 1] == np.inf
    assert results(top_k("%half"), x[:, :3], np.array(0, np.int32))[1].tolist() == [[1], [0]]


def test_the_largest_of_which_data_says_how_many() -> None:
    x = np.array([[3, 7, 7, 1]], np.float32)
    for k, found in ((1, [[1]]), (3, [[1, 2, 0]]), (4, [[1, 2, 0, 3]])):
        assert results(top_k("%k"), x, np.array(k, np.int32))[1].tolist() == found


I32, I1 = "tensor<i32>", "tensor<i1>"
JAX_DIVISION = f"""
    func.func private @divmod(%a: {I32}, %b: {I32}) -> ({I32}, {I32}) {{
      %0 = call @floor_divide(%a, %b) : ({I32}, {I32}) -> {I32}
      %1 = call @remainder(%a, %b) : ({I32}, {I32}) -> {I32}
      return %0, %1 : {I32}, {I32} }}
    func.func private @floor_divide(%a: {I32}, %b: {I32}) -> {I32} {{
      %one = stablehlo.constant dense<1> : {I32}
      %zero = stablehlo.constant dense<0> : {I32}
      %quotient = stablehlo.divide %a, %b : {I32}
      %0 = stablehlo.sign %a : {I32}
      %1 = stablehlo.sign %b : {I32}
      %2 = stablehlo.compare NE, %0, %1, SIGNED : ({I32}, {I32}) -> {I1}
      %3 = stablehlo.remainder %a, %b : {I32}
      %4 = stablehlo.compare NE, %3, %zero, SIGNED : ({I32}, {I32}) -> {I1}
      %5 = stablehlo.and %2, %4 : {I1}
      %6 = stablehlo.subtract %quotient, %one : {I32}
      %7 = call @_where(%5, %6, %quotient) : ({I1}, {I32}, {I32}) -> {I32}
      return %7 : {I32} }}
    func.func private @_where(%p: {I1}, %a: {I32}, %b: {I32}) -> {I32} {{
      %0 = stablehlo.select %p, %a, %b : {I1}, {I32}
      return %0 : {I32} }}
    func.func private @remainder(%a: {I32}, %b: {I32}) -> {I32} {{
      %one = stablehlo.constant dense<1> : {I32}
      %zero = stablehlo.constant dense<0> : {I32}
      %0 = stablehlo.compare EQ, %b, %zero, SIGNED : ({I32}, {I32}) -> {I1}
      %1 = call @_where(%0, %one, %b) : ({I1}, {I32}, {I32}) -> {I32}
      %rest = stablehlo.remainder %a, %1 : {I32}
      %2 = stablehlo.compare NE, %rest, %zero, SIGNED : ({I32}, {I32}) -> {I1}
      %3 = stablehlo.compare LT, %rest, %zero, SIGNED : ({I32}, {I32}) -> {I1}
      %4 = stablehlo.compare LT, %1, %zero, SIGNED : ({I32}, {I32}) -> {I1}
      %5 = stablehlo.compare NE, %3, %4, UNSIGNED : ({I1}, {I1}) -> {I1}
      %6 = stablehlo.and %5, %2 : {I1}
      %7 = stablehlo.add %rest, %1 : {I32}
      %8 = stablehlo.select %6, %7, %rest : {I1}, {I32}
      return %8 : {I32} }}"""
"""Division of sizes that rounds down, and its remainder, as jax writes them."""
AT_LEAST_ONE = f"""
      %bound = stablehlo.constant dense<1> : {I32}
      %positive = stablehlo.compare GE, %n, %bound, SIGNED : ({I32}, {I32}) -> {I1}
      stablehlo.custom_call @shape_assertion(%positive, %n) {{error_message = "n is empty", has_side_effect = true}} :
        ({I1}, {I32}) -> ()"""


def counted(body: str, *, asserted: bool = True, second: str = "") -> str:
    """A line of numbers as long as `%r`, which `body` computes from the lengths %n of %x and %m of %y."""
    m = f"%m = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?xf32>) -> {I32}" if second else ""
    return f"""{JAX_DIVISION}
    func.func @main(%x: tensor<?xf32>{second}) -> tensor<?xi32> {{
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> {I32}
      {m}
      {AT_LEAST_ONE if asserted else ""}
      {body}
      %size = stablehlo.reshape %r : ({I32}) -> tensor<1xi32>
      %line = stablehlo.dynamic_iota %size, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
      return %line : tensor<?xi32> }}"""


def lengths(graph: Graph, sizes: list[int]) -> list[int]:
    """How long the line of `counted` is beside inputs of these lengths."""
    return [len(run(graph, [np.zeros(n, np.float32)])[0]) for n in sizes]


def named_by_data(graph: Graph) -> bool:
    return any(isinstance(node.op, DynamicRange) for node in graph.walk())


def scaled(factor: int, offset: int, divisor: int, which: int) -> str:
    """floor((factor * n + offset) / divisor), or the remainder, as the value %q."""
    return f"""
      %factor = stablehlo.constant dense<{factor}> : {I32}
      %offset = stablehlo.constant dense<{offset}> : {I32}
      %divisor = stablehlo.constant dense<{divisor}> : {I32}
      %p = stablehlo.multiply %n, %factor : {I32}
      %t = stablehlo.add %p, %offset : {I32}
      %d:2 = call @divmod(%t, %divisor) : ({I32}, {I32}) -> ({I32}, {I32})
      %ten = stablehlo.constant dense<10> : {I32}
      %r = stablehlo.add %d#{which}, %ten : {I32}"""


@pytest.mark.parametrize("asserted", [True, False])
@pytest.mark.parametrize(
    ("factor", "offset", "divisor"), [(1, 0, 2), (1, 3, 4), (3, -1, 2), (-1, 0, 2), (-1, 1, 3), (1, -3, 2), (1, -5, 3)]
)
def test_jax_divides_sizes(factor: int, offset: int, divisor: int, asserted: bool) -> None:
    sizes = [1, 2, 3, 4, 5, 8] if asserted else [0, 1, 2, 3, 4, 5, 8]
    for which, wanted in enumerate(zip(*(divmod(factor * n + offset, divisor) for n in sizes), strict=True)):
        graph = imported(counted(scaled(factor, offset, divisor, which), asserted=asserted))
        assert not named_by_data(graph)
        assert lengths(graph, sizes) == [10 + value for value in wanted]


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("order", ["%n, %m", "%m, %n"])
def test_jax_divides_a_size_by_another(order: str, which: int) -> None:
    body = f"""{AT_LEAST_ONE.replace("%n", "%m").replace("%bound", "%b2").replace("%positive", "%p2")}
      %d:2 = call @divmod({order}) : ({I32}, {I32}) -> ({I32}, {I32})
      %r = stablehlo.add %d#{which}, %bound : {I32}"""
    graph = imported(counted(body, second=", %y: tensor<?xf32>"))
    assert not named_by_data(graph)
    for n in range(1, 6):
        for m in range(1, 5):
            found = run(graph, [np.zeros(n, np.float32), np.zeros(m, np.float32)])[0]
            assert len(found) == 1 + (divmod(n, m) if order == "%n, %m" else divmod(m, n))[which]


def test_a_divisor_that_is_a_size_must_not_be_0() -> None:
    graph = imported(counted(f"%r = stablehlo.divide %n, %m : {I32}", second=", %y: tensor<?xf32>"))
    assert len(run(graph, [np.zeros(7, np.float32), np.zeros(2, np.float32)])[0]) == 3
    with pytest.raises(ShapeMismatch, match="a size is divided by it"):
        run(graph, [np.zeros(7, np.float32), np.zeros(0, np.float32)])


@pytest.mark.parametrize(
    ("body", "values"),
    [
        ("%s = stablehlo.sign %t", [-1, -1, 0, 1, 1]),
        ("%s = stablehlo.abs %t", [2, 1, 0, 1, 2]),
        ("%s = stablehlo.maximum %t, %bound", [1, 1, 1, 1, 2]),
        ("%s = stablehlo.minimum %n, %bound", [1, 1, 1, 1, 1]),
    ],
)
def test_functions_of_sizes_are_sizes(body: str, values: list[int]) -> None:
    text = f"""%three = stablehlo.constant dense<3> : {I32}
      %t = stablehlo.subtract %n, %three : {I32}
      {body} : {I32}
      %r = stablehlo.add %s, %three : {I32}"""
    graph = imported(counted(text))
    assert not named_by_data(graph)
    assert lengths(graph, [1, 2, 3, 4, 5]) == [3 + value for value in values]


def asserting(condition: str, message: str = "no") -> str:
    """An assertion of %c, which `condition` computes from the length %n."""
    numbers = "".join(f"%c{i} = stablehlo.constant dense<{i}> : {I32}\n" for i in range(8))
    return f"""func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {{
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> {I32}
      %m = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?xf32>) -> {I32}
      {numbers}
      {condition}
      stablehlo.custom_call @shape_assertion(%c, %n, %m) {{error_message = "{message}", has_side_effect = true}} :
        ({I1}, {I32}, {I32}) -> ()
      return %x : tensor<?xf32> }}"""


def comparison(name: str, direction: str, right: str, left: str = "%n") -> str:
    return f"%{name} = stablehlo.compare {direction}, {left}, {right}, SIGNED : ({I32}, {I32}) -> {I1}\n"


def accepted(graph: Graph) -> list[int]:
    """The lengths of %x, of those up to 8, that an assertion lets pass."""
    found = []
    for n in range(9):
        try:
            run(graph, [np.zeros(n, np.float32), np.zeros(2, np.float32)])
            found.append(n)
        except ShapeMismatch as mismatch:
            assert "(no)" in str(mismatch)
    return found


@pytest.mark.parametrize(
    ("condition", "sizes"),
    [
        (comparison("c", "EQ", "%c3"), [3]),
        (comparison("c", "NE", "%c3"), [0, 1, 2, 4, 5, 6, 7, 8]),
        (comparison("c", "NE", "%c0"), [1, 2, 3, 4, 5, 6, 7, 8]),
        (comparison("c", "GT", "%c3"), [4, 5, 6, 7, 8]),
        (comparison("c", "LT", "%c3"), [0, 1, 2]),
        (comparison("c", "NE", "%m"), [0, 1, 3, 4, 5, 6, 7, 8]),
        (comparison("a", "GE", "%c3") + comparison("b", "LE", "%c5") + "%c = stablehlo.and %a, %b : {i1}", [3, 4, 5]),
        (comparison("a", "LE", "%c1") + comparison("b", "EQ", "%c5") + "%c = stablehlo.or %a, %b : {i1}", [0, 1, 5]),
        (comparison("a", "GE", "%c3") + comparison("b", "GE", "%c5") + "%c = stablehlo.xor %a, %b : {i1}", [3, 4]),
        (comparison("a", "EQ", "%c3") + "%c = stablehlo.not %a : {i1}", [0, 1, 2, 4, 5, 6, 7, 8]),
        (
            "%q = stablehlo.remainder %n, %c3 : {i32}\n" + comparison("c", "EQ", "%c1", "%q"),
            [1, 4, 7],
        ),
        (
            comparison("a", "GE", "%c3")
            + comparison("b", "GE", "%m")
            + "%c = stablehlo.compare EQ, %a, %b, UNSIGNED : ({i1}, {i1}) -> {i1}",
            [0, 1, 3, 4, 5, 6, 7, 8],
        ),
    ],
)
def test_assertions_on_sizes_are_exact(condition: str, sizes: list[int]) -> None:
    assert accepted(imported(asserting(condition.replace("{i1}", I1).replace("{i32}", I32)))) == sizes


def test_two_assertions_in_one_are_two_conditions() -> None:
    both = comparison("a", "GE", "%m") + comparison("b", "EQ", "%c5") + f"%c = stablehlo.and %a, %b : {I1}"
    assert [str(constraint) for constraint in imported(asserting(both)).constraints] == ["d0 >= d1", "d0 == 5"]


def test_an_assertion_on_data_is_refused() -> None:
    text = f"""func.func @main(%c: {I1}, %x: tensor<?xf32>) -> tensor<?xf32> {{
      stablehlo.custom_call @shape_assertion(%c) {{error_message = "no", has_side_effect = true}} : ({I1}) -> ()
      return %x : tensor<?xf32> }}"""
    with pytest.raises(UnsupportedError) as caught:
        imported(text)
    assert caught.value.details[0]["reason"] == "a shape assertion that sizes do not decide: no"


def test_windows_that_pad_as_much_as_they_need_stride_over_any_size() -> None:
    """The padding of SAME with a stride of 2: (-n // -2 - 1) * 2 + 3 - n in all, its half before."""
    x, one = "tensor<?xf32>", "tensor<1xi32>"
    text = f"""{JAX_DIVISION}
    func.func @most(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {{
      %0 = stablehlo.maximum %a, %b : tensor<f32>
      return %0 : tensor<f32> }}
    func.func @main(%x: {x}) -> {x} {{
      %n = stablehlo.get_dimension_size %x, dim = 0 : ({x}) -> {I32}
      {AT_LEAST_ONE}
      %two = stablehlo.constant dense<2> : {I32}
      %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %minus = stablehlo.negate %n : {I32}
      %q:2 = call @divmod(%minus, %two) : ({I32}, {I32}) -> ({I32}, {I32})
      %twice = stablehlo.multiply %q#0, %two : {I32}
      %0 = stablehlo.subtract %bound, %twice : {I32}
      %total = stablehlo.subtract %0, %n : {I32}
      %half:2 = call @divmod(%total, %two) : ({I32}, {I32}) -> ({I32}, {I32})
      %rest = stablehlo.subtract %total, %half#0 : {I32}
      %low = stablehlo.reshape %half#0 : ({I32}) -> {one}
      %high = stablehlo.reshape %rest : ({I32}) -> {one}
      {vector("line", "%low", "%high")}
      %pads = stablehlo.reshape %line : (tensor<2xi32>) -> tensor<1x2xi32>
      %size = stablehlo.constant dense<3> : {one}
      %stride = stablehlo.constant dense<2> : {one}
      %ones = stablehlo.constant dense<1> : {one}
      %r = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %least, %size, %stride, %ones, %ones, %pads)
        {{api_version = 2 : i32, called_computations = [@most]}} :
        ({x}, tensor<f32>, {one}, {one}, {one}, {one}, tensor<1x2xi32>) -> {x}
      return %r : {x} }}"""
    graph = imported(text)
    assert str(graph.outputs[0].type) == "f32[((d0 + 1)//(2))]" and not named_by_data(graph)
    line = np.array([9, 1, 2, 3, 8, 4, 5], np.float32)
    found = [run(graph, [line[:n]])[0].tolist() for n in (1, 2, 3, 4, 5, 6, 7)]
    assert found == [[9], [9], [9, 2], [9, 3], [9, 3, 8], [9, 8, 8], [9, 3, 8, 5]]


def test_a_message_shows_sizes_where_it_would_show_numbers() -> None:
    graph = imported(asserting(comparison("c", "GE", "%m"), "rows {0} must be at least columns {1}, but found {0}"))
    assert graph.constraints[0].why == "rows d0 must be at least columns d1"


TWO_WORDS = [0x0123456789ABCDEF, 0xFEDCBA9876543210]
THREE_WORDS = [0x0123456789ABCDEF, 0xFFFFFFFFFFFFFFFE, 7]


def random_bits(words: int, algorithm: str, shape: str, dtype: str) -> str:
    state, bits = f"tensor<{words}xui64>", f"tensor<{shape}x{dtype}>"
    return f"""func.func @main(%s: {state}) -> ({state}, {bits}) {{
      %0, %1 = stablehlo.rng_bit_generator %s, algorithm = {algorithm} : ({state}) -> ({state}, {bits})
      return %0, %1 : {state}, {bits} }}"""


@pytest.mark.parametrize("algorithm", ["DEFAULT", "PHILOX"])
@pytest.mark.parametrize(
    ("state", "shape", "dtype", "moved", "bits"),
    [
        (TWO_WORDS, "2x3", "ui32", 2, [516242754, 3483603125, 4062402306, 3877632279, 3410436889, 3598874490]),
        (TWO_WORDS, "3", "ui64", 2, [14961961494634642754, 16654303828281349890, 15457048240369115929]),
        (TWO_WORDS, "5", "ui16", 2, [15682, 37045, 22274, 63767, 8985]),
        (TWO_WORDS, "5", "ui8", 2, [66, 181, 2, 23, 25]),
        (
            [5, 2**64 - 2],
            "9",
            "ui32",
            3,
            [1981577808, 3616989187, 3826979642, 1386173831, 1314562490, 4035658752, 2543735481, 4162936588, 64677483],
        ),
        (THREE_WORDS, "5", "ui32", 2, [1813943045, 3770785957, 2667958831, 2617361949, 3639791265]),
        (THREE_WORDS, "3", "ui64", 2, [16195402367345005317, 11241483975417778735, 17293342034621550241]),
        (THREE_WORDS, "5", "ui8", 2, [5, 165, 47, 29, 161]),
    ],
)
def test_the_bits_of_xla(algorithm: str, state: list[int], shape: str, dtype: str, moved: int, bits: list[int]) -> None:
    """As jaxlib 0.10.2 has them on CPUs, where DEFAULT is Philox for both sizes of the state."""
    after, found = results(random_bits(len(state), algorithm, shape, dtype), np.array(state, np.uint64))
    assert found.reshape(-1).tolist() == bits
    key, *counter = state
    total = sum(word << 64 * i for i, word in enumerate(counter)) + moved
    assert after.tolist() == [key, *((total >> 64 * i) % 2**64 for i in range(len(counter)))]


@pytest.mark.parametrize(
    ("shape", "dtype", "moved", "bits"),
    [
        ("4", "ui32", 2, [2963079838, 2105865281, 1822680882, 2755357497]),
        ("3", "ui32", 2, [2963079838, 2105865281, 1822680882]),
        ("3x2", "ui8", 3, [158, 65, 50, 57, 23, 110]),
    ],
)
def test_the_threefry_bits_of_xla(shape: str, dtype: str, moved: int, bits: list[int]) -> None:
    """As jaxlib 0.10.2 has them on CPUs: the two words of a block are neighbours."""
    key, counter = 0x0123456789ABCDEF, 5
    after, found = results(random_bits(2, "THREE_FRY", shape, dtype), np.array([key, counter], np.uint64))
    assert found.reshape(-1).tolist() == bits
    assert after.tolist() == [key, counter + moved]


def dynamic_bits(algorithm: str, shape: tuple[str, str], dtype: str, declared: str = "?x3") -> str:
    bits = f"tensor<{declared}x{dtype}>"
    return f"""func.func @main(%s: tensor<2xui64>, %x: tensor<?xi32>) -> (tensor<2xui64>, {bits}) {{
      %two = stablehlo.constant dense<2> : tensor<1xi32>
      %three = stablehlo.constant dense<3> : tensor<1xi32>
      %size = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xi32>) -> tensor<i32>
      %n = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
      %twice = stablehlo.multiply %n, %two : tensor<1xi32>
      {vector("shape", *shape)}
      %0:2 = stablehlo.custom_call @stablehlo.dynamic_rng_bit_generator(%s, %shape)
        {{api_version = 2 : i32, rng_algorithm = #stablehlo<rng_algorithm {algorithm}>}} :
        (tensor<2xui64>, tensor<2xi32>) -> (tensor<2xui64>, {bits})
      return %0#0, %0#1 : tensor<2xui64>, {bits} }}"""


@pytest.mark.parametrize("dtype", ["ui8", "ui32", "ui64"])
@pytest.mark.parametrize("algorithm", ["DEFAULT", "THREE_FRY"])
def test_bits_of_symbolic_shape_are_those_of_the_size(algorithm: str, dtype: str) -> None:
    state = np.array(TWO_WORDS, np.uint64)
    for size in (1, 2, 3):
        found = results(dynamic_bits(algorithm, ("%twice", "%three"), dtype), state, np.zeros(size, np.int32))
        wanted = results(random_bits(2, algorithm, f"{2 * size}x3", dtype), state)
        assert [v.tolist() for v in found] == [v.tolist() for v in wanted]


def test_threefry_wants_to_know_which_axis_is_even() -> None:
    with pytest.raises(UnsupportedError) as caught:
        results(dynamic_bits("THREE_FRY", ("%n", "%three"), "ui32"), np.zeros(2, np.uint64), np.zeros(1, np.int32))
    assert "Threefry bits of the size d0, which must be known" in caught.value.details[0]["reason"]


def scattered(x: str, source: str, direction: str, windows: str) -> str:
    return f"""func.func @main(%x: tensor<{x}xf32>, %s: tensor<{source}xf32>) -> tensor<{x}xf32> {{
      %init = stablehlo.constant dense<0.0> : tensor<f32>
      %r = "stablehlo.select_and_scatter"(%x, %s, %init) <{{{windows}}}> ({{
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %0 = stablehlo.compare {direction}, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %0 : tensor<i1>
      }}, {{
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %0 = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %0 : tensor<f32>
      }}) : (tensor<{x}xf32>, tensor<{source}xf32>, tensor<f32>) -> tensor<{x}xf32>
      return %r : tensor<{x}xf32> }}"""


IMAGES = np.array([[[2, 0, 0, 0], [0, 2, 2, 1], [0, 0, 0, 1]], [[1, 1, 0, 0], [2, 2, 0, 0], [1, 1, 2, 1]]], np.float32)
SLIDING = (
    "window_dimensions = array<i64: 1, 2, 2>, window_strides = array<i64: 1, 1, 2>,"
    " padding = dense<[[0, 0], [0, 1], [1, 1]]> : tensor<3x2xi64>"
)


@pytest.mark.parametrize("shape", ["2x3x4", "?x3x4", "?x?x?"])
def test_the_gradient_of_a_maximum_over_windows(shape: str) -> None:
    source = np.arange(10, 28, dtype=np.float32).reshape(2, 3, 3)
    counts = shape if "?" in shape.replace("?x3x4", "") else shape.replace("3x4", "3x3")
    (found,) = results(scattered(shape, counts, "GE", SLIDING), IMAGES, source)
    assert found.tolist() == [
        [[10, 0, 0, 0], [13, 25, 0, 27], [16, 17, 0, 18]],
        [[0, 0, 0, 21], [41, 43, 0, 0], [25, 0, 26, 51]],
    ]


@pytest.mark.parametrize(("direction", "places"), [("GE", [[0, 0], [1, 0]]), ("LE", [[0, 1], [0, 2]])])
@pytest.mark.parametrize("batch", ["2", "?"])
def test_the_gradient_of_an_extreme_over_everything(batch: str, direction: str, places: list[list[int]]) -> None:
    whole = "window_dimensions = array<i64: 1, 3, 4>"
    source = np.array([10, 11], np.float32).reshape(2, 1, 1)
    (found,) = results(scattered(f"{batch}x3x4", f"{batch}x1x1", direction, whole), IMAGES, source)
    wanted = np.zeros_like(IMAGES)
    for image, (row, column) in enumerate(places):
        wanted[image, row, column] = 10 + image
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("line", "largest", "least"),
    [
        ([1, np.nan, 3, 2], 2, 3),
        ([1, 2, 3, np.nan], 3, 3),
        ([np.nan, 5, 5, 1], 1, 3),
        ([0.0, -0.0, 0.0, -0.0], 0, 0),
        ([np.nan, -np.inf, -np.inf, -np.inf], 1, 1),
    ],
)
def test_a_selection_starts_anew_after_nan(line: list[float], largest: int, least: int) -> None:
    """As XLA has it, whose windows are searched from the front."""
    for direction, place in (("GE", largest), ("LE", least)):
        text = scattered("4", "1", direction, "window_dimensions = array<i64: 4>")
        (found,) = results(text, np.array(line, np.float32), np.array([7], np.float32))
        assert found.tolist() == [7 if i == place else 0 for i in range(4)]


def test_windows_of_one_element_that_stride_leave_out_the_others() -> None:
    text = scattered("2x3", "1x3", "GE", "window_dimensions = array<i64: 1, 1>, window_strides = array<i64: 2, 1>")
    (found,) = results(text, np.zeros((2, 3), np.float32), np.array([[7, 8, 9]], np.float32))
    assert found.tolist() == [[7, 8, 9], [0, 0, 0]]


def test_the_gradient_of_a_maximum_over_a_large_image_is_small() -> None:
    graph = imported(scattered("?x64x96x3", "?x1x1x3", "GE", "window_dimensions = array<i64: 1, 64, 96, 1>"))
    assert len(graph.nodes) < 50
    x = np.zeros((2, 64, 96, 3), np.float32)
    x[0, 40, 50, 0] = x[0, 60, 1, 1] = x[1, 63, 95, 2] = 1
    (found,) = run(graph, [x, np.ones((2, 1, 1, 3), np.float32)])
    places = [[0, 0, 0, 2], [0, 40, 50, 0], [0, 60, 1, 1], [1, 0, 0, 0], [1, 0, 0, 1], [1, 63, 95, 2]]
    assert np.argwhere(found).tolist() == places


@pytest.mark.parametrize(
    ("dtype", "dividend", "divisor", "quotient", "remainder"),
    [
        ("i32", [7, -7, 0, -(2**31), -(2**31), 7], [0, 0, 0, -1, 0, -2], [-1, -1, -1, -(2**31), -1, -3], [7, -7, 0, 0, -(2**31), 1]),
        ("i8", [7, -128, -128, -7], [0, -1, 0, 2], [-1, -128, -1, -3], [7, 0, -128, -1]),
        ("i64", [5, -(2**63), -5], [0, -1, 3], [-1, -(2**63), -1], [5, 0, -2]),
        ("ui32", [7, 0, 2**32 - 1], [0, 0, 2], [2**32 - 1, 2**32 - 1, 2**31 - 1], [7, 0, 1]),
        ("ui8", [7, 255], [0, 16], [255, 15], [7, 15]),
        ("i4", [7, -8, -8, -7], [0, -1, 0, 2], [-1, -8, -1, -3], [7, 0, -8, -1]),
        ("ui4", [7, 15], [0, 4], [15, 3], [7, 3]),
    ],
)  # fmt: skip
def test_integer_division_at_its_edges(
    dtype: str, dividend: list[int], divisor: list[int], quotient: list[int], remainder: list[int]
) -> None:
    t = f"tensor<{len(dividend)}x{dtype}>"
    text = f"""func.func @main(%a: {t}, %b: {t}) -> ({t}, {t}) {{
      %0 = stablehlo.divide %a, %b : {t}
      %1 = stablehlo.remainder %a, %b : {t}
      return %0, %1 : {t}, {t} }}"""
    kind = ELEMENTS[dtype].numpy
    found = results(text, np.array(dividend, kind), np.array(divisor, kind))
    assert [v.tolist() for v in found] == [quotient, remainder]


ROWS = "tensor<?x3xf32>"
SIZED = """
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %s = stablehlo.reshape %{} : (tensor<i32>) -> tensor<1xi32>
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %three = stablehlo.constant dense<3> : tensor<1xi32>
  %ones = stablehlo.constant dense<1> : tensor<2xi32>
  %start = stablehlo.concatenate %zero, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %end = stablehlo.concatenate %s, %three, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %cut = stablehlo.real_dynamic_slice %x, %start, %end, %ones :
    (tensor<?x3xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x3xf32>
"""
OTHER_ROWS = {
    "twice": "%other = stablehlo.concatenate %x, %x, dim = 0 : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>",
    "one more": "%other = stablehlo.concatenate %x, %y, dim = 0 : (tensor<?x3xf32>, tensor<1x3xf32>) -> tensor<?x3xf32>",
    "half": "%half = stablehlo.divide %n, %two : tensor<i32>\n"
    + SIZED.format("half")[SIZED.index("%s =") :]
    + "%other = stablehlo.add %cut, %cut : tensor<?x3xf32>",
    "all": "%other = stablehlo.add %x, %x : tensor<?x3xf32>",
    "those of z": "%other = stablehlo.add %z, %z : tensor<?x3xf32>",
}


def sized(control: str, other: str) -> str:
    known = SIZED[: SIZED.index("  %s =")]
    return f"""func.func @main(%x: {ROWS}, %y: tensor<1x3xf32>, %z: {ROWS}, %p: tensor<i1>) -> {ROWS} {{
      {known}
      {control.replace("OTHER", OTHER_ROWS[other])}
      return %r : {ROWS} }}"""


IF = """%r = "stablehlo.if"(%p) ({ stablehlo.return %x : tensor<?x3xf32> }, {
    OTHER
    stablehlo.return %other : tensor<?x3xf32> }) : (tensor<i1>) -> tensor<?x3xf32>"""
CASE = """%i = stablehlo.convert %p : (tensor<i1>) -> tensor<i32>
    %r = "stablehlo.case"(%i) ({ stablehlo.return %x : tensor<?x3xf32> }, {
    OTHER
    stablehlo.return %other : tensor<?x3xf32> }) : (tensor<i32>) -> tensor<?x3xf32>"""
WHILE = """%r, %q = stablehlo.while(%v = %x, %go = %p) : tensor<?x3xf32>, tensor<i1>
    cond { stablehlo.return %go : tensor<i1> }
    do { %no = stablehlo.constant dense<false> : tensor<i1>
    OTHER
    stablehlo.return %other, %no : tensor<?x3xf32>, tensor<i1> }"""


@pytest.mark.parametrize("other", ["twice", "one more", "half"])
@pytest.mark.parametrize(
    ("control", "said"), [(IF, "branches give f32"), (CASE, "branches give f32"), (WHILE, "the loop makes f32")]
)
def test_sizes_that_control_flow_cannot_keep_are_refused(control: str, other: str, said: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        imported(sized(control, other))
    reason = caught.value.details[0]["reason"]
    assert said in reason and "d0, 3]" in reason and "size" in reason


@pytest.mark.parametrize("other", ["all", "those of z"])
@pytest.mark.parametrize("control", [IF, CASE, WHILE])
def test_sizes_that_may_be_the_same_are_kept(control: str, other: str) -> None:
    x, y = np.ones((2, 3), np.float32), np.ones((1, 3), np.float32)
    for taken in (False, True):
        (found,) = results(sized(control, other), x, y, x, np.array(taken))
        assert found.tolist() == ((2 if taken == (control is not IF) else 1) * x).tolist()


def test_the_modules_that_check_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    counts = stablehlo_cases.count(CASES, "dynamic.mlir")
    assert set(counts) == {"pass"}, capsys.readouterr().out


@pytest.mark.parametrize(("limit", "asked"), [(5, ["d0 >= 5"]), (0, [])])
def test_a_slice_of_an_open_axis_asks_for_what_it_takes(limit: int, asked: list[str]) -> None:
    text = f"""func.func @main(%x: tensor<?x4xf32>) -> tensor<{limit}x4xf32> {{
      %0 = "stablehlo.slice"(%x) {{start_indices = array<i64: 0, 0>, limit_indices = array<i64: {limit}, 4>, strides = array<i64: 1, 1>}}
        : (tensor<?x4xf32>) -> tensor<{limit}x4xf32>
      return %0 : tensor<{limit}x4xf32>
    }}"""
    assert [str(constraint) for constraint in imported(text).constraints] == asked
