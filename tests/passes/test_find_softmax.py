"""Softmax written out is recognised along any axis; what overflows otherwise, or is of other rows, is left."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from composed import Form, after, counts, imported, odd_rows

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check
from fornaxc.ir.graph import Graph
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Binary, BroadcastTo, Reduce, Reshape, Softmax, Unary
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.find_softmax import find_softmax

RNG = np.random.default_rng(0)


def grown(f: Form, axis: int, keepdims: int = 1) -> str:
    top = f.reduce("Max", "x", [axis], keepdims)
    if not keepdims:
        top = f("Unsqueeze", top, axes=[axis])
    return f("Exp", f("Sub", "x", top))


def quotient(f: Form, axis: int) -> str:
    g = grown(f, axis)
    return f("Div", g, f.reduce("Sum", g, [axis]))


def product(f: Form, axis: int) -> str:
    g = grown(f, axis)
    return f("Mul", f("Reciprocal", f.reduce("Sum", g, [axis])), g)


def without_kept_axes(f: Form, axis: int) -> str:
    g = grown(f, axis, 0)
    return f("Div", g, f("Unsqueeze", f.reduce("Sum", g, [axis], 0), axes=[axis]))


def logarithm(f: Form, axis: int) -> str:
    shifted = f("Sub", "x", f.reduce("Max", "x", [axis]))
    return f("Sub", shifted, f("Log", f.reduce("Sum", f("Exp", shifted), [axis])))


FORMS: dict[str, Callable[[Form, int], str]] = {
    "quotient": quotient,
    "product": product,
    "without kept axes": without_kept_axes,
    "logarithm": logarithm,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("axis", [2, 1, 0])
@pytest.mark.parametrize("name", FORMS)
def test_forms_of_onnx(name: str, axis: int, dtype: type) -> None:
    f = Form(("n", 5, 7), dtype=dtype, opset=11)
    y = FORMS[name](f, axis)
    x = RNG.standard_normal((3, 5, 7)).astype(dtype)
    odd = np.moveaxis(np.stack([odd_rows(5, dtype)] * 2), 2, 1)  # [2, 5, 11]
    found = after(find_softmax, f.model(y), [4 * x])
    if name == "logarithm" and dtype == np.float16 and axis == 0:
        assert not counts(found)["log_softmax"]  # n ones may be more than float16 can add up
        return
    kind = "log_softmax" if name == "logarithm" else "softmax"
    assert counts(found) == {kind: 1}
    free = Form(("a", "b", "c"), dtype=dtype, opset=11)
    after(find_softmax, free.model(FORMS[name](free, axis)), odd=np.moveaxis(odd, 1, axis))


def test_more_than_half_of_the_form_may_be_used_elsewhere() -> None:
    f = Form((2, 3, 4))
    g = grown(f, -1)
    y = f("Div", g, f.reduce("Sum", g))
    found = after(find_softmax, f.model(y, g), [RNG.standard_normal((2, 3, 4)).astype(np.float32)])
    assert counts(found)["softmax"] == 1 and counts(found)["exp"] == 1


def other_axis_of_the_maximum(f: Form) -> str:
    g = grown(f, 1)
    return f("Div", g, f.reduce("Sum", g, [2]))


def all_axes(f: Form) -> str:
    g = f("Exp", f("Sub", "x", f.reduce("Max", "x", [0, 1, 2])))
    return f("Div", g, f.reduce("Sum", g, [0, 1, 2]))


def no_maximum(f: Form) -> str:
    g = f("Exp", "x")
    return f("Div", g, f.reduce("Sum", g))


def sum_of_something_else(f: Form) -> str:
    return f("Div", grown(f, -1), f.reduce("Sum", f("Exp", "x")))


def turned_rows(f: Form) -> str:
    """The sums of the rows divide the columns."""
    g = grown(f, 2)
    return f("Div", g, f("Transpose", f.reduce("Sum", g, [2]), perm=[0, 2, 1]))


def reshaped_rows(f: Form) -> str:
    g = grown(f, 2)
    return f("Div", g, f("Reshape", f.reduce("Sum", g, [2]), f.constant([2, 1, 4], np.int64)))


LEFT = [other_axis_of_the_maximum, all_axes, no_maximum, sum_of_something_else, turned_rows, reshaped_rows]


@pytest.mark.parametrize("form", LEFT, ids=lambda f: f.__name__)
def test_what_is_no_softmax_is_left(form: Callable[[Form], str]) -> None:
    f = Form((2, 4, 4))
    graph = imported(f.model(form(f)))
    assert find_softmax(graph) is graph


def of_jax(x: TensorType) -> Graph:
    """As jax.nn.softmax is lowered: reductions without their axis, and -inf in the maximum."""
    b = GraphBuilder()
    rows = x.shape[:-1]
    value = b.input(x, "x")
    top = b.emit(Reshape(rows), b.emit(Reduce("max", (x.rank - 1,)), value))
    least = b.emit(BroadcastTo(rows), b.emit(Reshape((1,) * len(rows)), b.literal(np.float32(-np.inf))))
    top = b.emit(Reshape((*rows, 1)), b.emit(Binary("max"), least, top))
    g = b.emit(Unary("exp"), b.emit(Binary("sub"), value, b.emit(BroadcastTo(x.shape), top)))
    total = b.emit(BroadcastTo(x.shape), b.emit(Reduce("sum", (x.rank - 1,)), g))
    return b.finish([b.emit(Binary("div"), g, total)], ["y"])


def test_form_of_jax() -> None:
    graph = of_jax(TensorType(DType.F32, (11, 1, 6)))
    found = find_softmax(graph)
    check(found)
    assert [n.op for n in found.nodes] == [Softmax(2)]
    x = odd_rows(6)[:, None]
    np.testing.assert_allclose(run(found, [x])[0], run(graph, [x])[0], 1e-5, 1e-6)
