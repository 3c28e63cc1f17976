"""GELU, SiLU and the logistic function written out are recognised; other numbers and other products are left."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from composed import Form, after, assert_same, counts, imported, odd_numbers

from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import ConvNhwc
from fornaxc.passes.find_gelu import find_gelu
from fornaxc.passes.find_silu import find_silu
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack

RNG = np.random.default_rng(0)
ROOT = math.sqrt(2)
K = math.sqrt(2 / math.pi)
DTYPES = [np.float32, np.float16, np.float64, ml_dtypes.bfloat16]

Make = Callable[[Form], str]


def erf(f: Form, how: str = "div") -> str:
    u = f("Div", "x", ROOT) if how == "div" else f("Mul", 1 / ROOT, "x")
    return f("Erf", u)


def inner(f: Form, how: str) -> str:
    """sqrt(2/pi) * (x + 0.044715 x^3), in the orders of exporters."""
    if how == "pow":  # torch
        return f("Mul", f("Add", "x", f("Mul", f("Pow", "x", 3.0), 0.044715)), K)
    if how == "cube":  # JAX
        cube = f("Mul", f("Mul", "x", "x"), "x")
        return f("Mul", K, f("Add", "x", f("Mul", 0.044715, cube)))
    if how == "square":  # x * k * (1 + c * x * x)
        square = f("Mul", f("Mul", 0.044715, "x"), "x")
        return f("Mul", f("Mul", "x", K), f("Add", 1.0, square))
    assert how == "apart"  # k * x + k * c * x^3
    return f("Add", f("Mul", "x", K), f("Mul", f("Mul", "x", f("Mul", "x", "x")), K * 0.044715))


def halved_last(f: Form, gate: str) -> str:
    return f("Mul", f("Mul", "x", f("Add", gate, 1.0)), 0.5)


def halved_first(f: Form, gate: str) -> str:
    return f("Mul", f("Mul", 0.5, "x"), f("Add", 1.0, gate))


def gate_halved(f: Form, gate: str) -> str:
    return f("Mul", "x", f("Mul", 0.5, f("Add", 1.0, gate)))


def divided_by_two(f: Form, gate: str) -> str:
    return f("Div", f("Mul", f("Add", gate, 1.0), "x"), 2.0)


def halves_apart(f: Form, gate: str) -> str:
    return f("Mul", f("Add", f("Mul", gate, 0.5), 0.5), "x")


ORDERS = [halved_last, halved_first, gate_halved, divided_by_two, halves_apart]
SAFE = [halved_first, gate_halved, halves_apart]  # nothing above the result's own size


def data(dtype: type) -> np.ndarray:  # type: ignore[type-arg]
    return np.concatenate([4 * RNG.standard_normal(40), np.linspace(-6, 6, 49)]).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ORDERS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("how", ["div", "mul"])
def test_gelu_with_erf(how: str, order: Callable[[Form, str], str], dtype: type) -> None:
    f = Form(("n",), dtype=dtype)
    found = after(find_gelu, f.model(order(f, erf(f, how))), [data(dtype)], odd=odd_numbers(dtype))
    assert counts(found) == {"gelu": 1}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ORDERS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("how", ["pow", "cube", "square", "apart"])
def test_gelu_with_tanh(how: str, order: Callable[[Form, str], str], dtype: type) -> None:
    f = Form(("n",), dtype=dtype)
    y = order(f, f("Tanh", inner(f, how)))
    found = after(find_gelu, f.model(y), [data(dtype)], odd=odd_numbers(dtype))
    assert counts(found) == {"gelu_tanh": 1}


@pytest.mark.parametrize("order", ORDERS, ids=lambda f: f.__name__)
def test_the_largest_numbers_overflow_only_where_x_is_halved_last(order: Callable[[Form, str], str]) -> None:
    f = Form((2,))
    graph = imported(f.model(order(f, erf(f))))
    x = np.array([3e38, -3e38], np.float32)
    (before,), (result,) = run(graph, [x]), run(find_gelu(graph), [x])
    np.testing.assert_array_equal(result, np.array([3e38, 0], np.float32))
    assert np.isfinite(before).all() == (order in SAFE)


def test_where_the_gate_is_used_elsewhere() -> None:
    f = Form((5,))
    gate = erf(f)
    found = after(find_gelu, f.model(halved_last(f, gate), gate), [data(np.float32)[:5]])
    assert counts(found)["gelu"] == 1 and counts(found)["erf"] == 1 and counts(found)["mul"] == 0


LEFT: dict[str, Make] = {
    "another root": lambda f: halved_last(f, f("Erf", f("Div", "x", 1.415))),
    "no root": lambda f: halved_last(f, f("Erf", "x")),
    "negative": lambda f: halved_last(f, f("Erf", f("Div", "x", -ROOT))),
    "another half": lambda f: f("Mul", f("Mul", "x", f("Add", erf(f), 1.0)), 0.51),
    "not halved": lambda f: f("Mul", "x", f("Add", erf(f), 1.0)),
    "another sum": lambda f: f("Mul", f("Mul", "x", f("Add", erf(f), 2.0)), 0.5),
    "a difference": lambda f: f("Mul", f("Mul", "x", f("Sub", 1.0, erf(f))), 0.5),
    "another x": lambda f: f("Mul", f("Mul", f("Abs", "x"), f("Add", erf(f), 1.0)), 0.5),
    "a square": lambda f: f("Mul", f("Mul", "x", f("Mul", "x", f("Add", erf(f), 1.0))), 0.5),
    "two gates": lambda f: f("Mul", f("Mul", "x", f("Add", f("Tanh", inner(f, "pow")), erf(f))), 0.5),
    "another cubic": lambda f: halved_last(
        f, f("Tanh", f("Mul", f("Add", "x", f("Mul", f("Pow", "x", 3.0), 0.0447)), K))
    ),
    "another power": lambda f: halved_last(
        f, f("Tanh", f("Mul", f("Add", "x", f("Mul", f("Pow", "x", 2.0), 0.044715)), K))
    ),
    "a quick one": lambda f: f("Mul", "x", f("Sigmoid", f("Mul", "x", 1.702))),
    "per channel": lambda f: halved_last(f, f("Erf", f("Mul", "x", f.constant([0.7071, 0.70711, 0.70712])))),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_no_gelu_is_left(name: str) -> None:
    f = Form(("n", 3))
    graph = imported(f.model(LEFT[name](f)))
    assert find_gelu(graph) is graph
    assert find_silu(graph) is graph


def test_numbers_are_those_of_the_element_type() -> None:
    """What float16 makes of the numbers is not what float32 makes of them."""
    rounded = float(np.float16(ROOT))
    for dtype, kind in ((np.float16, "gelu"), (np.float32, "erf")):
        f = Form((3,), dtype=dtype)
        assert counts(find_gelu(imported(f.model(halved_first(f, f("Erf", f("Div", "x", rounded)))))))[kind] == 1


def gate(f: Form, how: str) -> str:
    minus = {"neg": lambda: f("Neg", "x"), "mul": lambda: f("Mul", "x", -1.0), "sub": lambda: f("Sub", 0.0, "x")}[how]()
    return f("Add", f("Exp", minus), 1.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("how", ["neg", "mul", "sub"])
def test_logistic_function_and_silu(how: str, dtype: type) -> None:
    forms: dict[str, Make] = {
        "sigmoid": lambda f: f("Reciprocal", gate(f, how)),
        "silu": lambda f: f("Mul", f("Div", 1.0, gate(f, how)), "x"),
    }
    for kind, make in forms.items():
        f = Form(("n",), dtype=dtype)
        found = after(find_silu, f.model(make(f)), [data(dtype)], odd=odd_numbers(dtype))
        assert counts(found) == {kind: 1}


@pytest.mark.parametrize("dtype", DTYPES)
def test_silu(dtype: type) -> None:
    forms: list[Make] = [
        lambda f: f("Mul", "x", f("Sigmoid", "x")),
        lambda f: f("Mul", f("Sigmoid", "x"), "x"),
        lambda f: f("Div", "x", gate(f, "neg")),
    ]
    for make in forms:
        f = Form(("n",), dtype=dtype)
        found = after(find_silu, f.model(make(f)), [data(dtype)], odd=odd_numbers(dtype))
        assert counts(found) == {"silu": 1}


OTHERS: dict[str, Make] = {
    "overflows": lambda f: f("Div", f("Exp", "x"), f("Add", f("Exp", "x"), 1.0)),
    "of another": lambda f: f("Mul", "x", f("Sigmoid", f("Abs", "x"))),
    "two": lambda f: f("Div", 1.0, f("Add", f("Exp", f("Neg", "x")), 2.0)),
    "growing": lambda f: f("Div", 1.0, f("Add", f("Exp", "x"), 1.0)),
    "twice": lambda f: f("Div", 2.0, gate(f, "neg")),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_neither_is_left(name: str) -> None:
    f = Form(("n", 3))
    graph = imported(f.model(OTHERS[name](f)))
    assert find_silu(graph) is graph


@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_silu_ends_up_in_the_kernel_before_it(kind: str) -> None:
    f = Form((2, 3, 8, 8) if kind == "conv" else ("n", 8))
    w = f.constant(RNG.standard_normal((4, 3, 3, 3) if kind == "conv" else (8, 4)))
    y = (
        f("Conv", "x", w, f.constant(RNG.standard_normal(4)))
        if kind == "conv"
        else f("Add", f("MatMul", "x", w), f.constant(RNG.standard_normal(4)))
    )
    graph = imported(f.model(f("Mul", y, f("Sigmoid", y))))
    found = prepack(optimize(graph, "cpu"))
    (op,) = [n.op for n in found.nodes if isinstance(n.op, ConvNhwc)]
    assert op.activation == "silu" and counts(found)["mul"] == 0
    x = RNG.standard_normal((2, 3, 8, 8) if kind == "conv" else (3, 8)).astype(np.float32)
    (wanted,) = run(graph, [x])
    np.testing.assert_allclose(run(found, [x])[0], wanted, 1e-4, 1e-5)
    assert_same(run(find_silu(graph), [x])[0], wanted)
