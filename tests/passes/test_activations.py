"""Bounds and hard swish after a convolution, in the forms that exporters write, become part of its kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import symbol
from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Conv, ConvNhwc, Pool
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack

RNG = np.random.default_rng(5)
Build = Callable[[GraphBuilder, Value], Value]


def with_(fn: str, value: float) -> Build:
    return lambda b, y: compose.with_scalar(b, fn, y, value)


def chain(*steps: Build) -> Build:
    def build(b: GraphBuilder, y: Value) -> Value:
        for step in steps:
            y = step(b, y)
        return y

    return build


def gated(*steps: Build, after: Build | None = None) -> Build:
    """y times what the steps make of it."""

    def build(b: GraphBuilder, y: Value) -> Value:
        product = compose.binary(b, "mul", y, chain(*steps)(b, y))
        return after(b, product) if after else product

    return build


SIX = [with_("add", 3.0), with_("max", 0.0), with_("min", 6.0)]
ONE = [with_("max", 0.0), with_("min", 1.0)]
FORMS: dict[str, tuple[Build, str]] = {
    "relu6": (chain(with_("max", 0.0), with_("min", 6.0)), "clip"),
    "the greatest first": (chain(with_("min", 2.5), with_("max", -1.5)), "clip"),
    "quotient of the product": (gated(*SIX, after=with_("div", 6.0)), "hardswish"),
    "sixth of the product": (gated(*SIX, after=with_("mul", 1 / 6)), "hardswish"),
    "quotient of the gate": (gated(*SIX, with_("div", 6.0)), "hardswish"),
    "slope first": (gated(with_("mul", 1 / 6), with_("add", 0.5), *ONE), "hardswish"),
    "another offset": (gated(with_("add", 2.0), *SIX[1:], after=with_("div", 6.0)), "none"),
    "another bound": (gated(*SIX[:2], with_("min", 5.0), after=with_("div", 6.0)), "none"),
    "another quotient": (gated(*SIX, after=with_("div", 5.0)), "none"),
    "a sixth too many": (gated(*SIX, with_("div", 6.0), after=with_("div", 6.0)), "hardswish"),
    "no quotient": (gated(*SIX), "none"),
    "bounds that cross": (chain(with_("max", 2.0), with_("min", 1.0)), "none"),
    "one bound": (with_("min", 1.0), "none"),
}


def net(form: Build, also: Build | None = None, rank: int = 2) -> Graph:
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (symbol("n"), 3, *(6,) * rank)), "x")
    array = RNG.standard_normal((8, 3, *(3,) * rank)).astype(np.float32)
    w = b.weight(TensorType(DType.F32, array.shape), lambda: array)
    ones, none = (1,) * rank, (0,) * rank
    y = b.emit(Conv(ones, none, none, ones, 1), x, w)
    outputs = [form(b, y), *([also(b, y)] if also else [])]
    return b.finish(outputs, ["y", "z"][: len(outputs)])


def kernels(graph: Graph) -> list[ConvNhwc]:
    return [n.op for n in graph.nodes if isinstance(n.op, ConvNhwc)]


def assert_same(before: Graph, after: Graph, rank: int = 2) -> None:
    x = RNG.standard_normal((2, 3, *(6,) * rank)).astype(np.float32)
    x.reshape(-1)[:3] = [np.nan, np.inf, -np.inf]
    for found, wanted in zip(run(after, [x]), run(before, [x]), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str, rank: int) -> None:
    form, activation = FORMS[name]
    graph = net(form, rank=rank)
    after = prepack(optimize(graph, "cpu"))
    assert [k.activation for k in kernels(after)] == [activation]
    assert_same(graph, after, rank)


@pytest.mark.parametrize("name", ["relu6", "quotient of the product", "slope first"])
def test_what_is_used_elsewhere_stays(name: str) -> None:
    graph = net(FORMS[name][0], with_("add", 1.0))
    after = prepack(optimize(graph, "cpu"))
    assert [k.activation for k in kernels(after)] == ["none"]
    assert_same(graph, after)


def normalised_first(scale: int, pooled: bool) -> Graph:
    """A pool, a scale of the channels and an offset, relu, a convolution. `scale`: how many numbers the scale has."""
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (symbol("n"), 4, 6, 6)), "x")
    y = b.emit(Pool("max", (2, 2), (1, 1), (0, 0), (0, 0), (1, 1)), x) if pooled else compose.unary(b, "exp", x)
    for fn, width in (("mul", scale), ("add", 4), ("mul", 4), ("add", 4)):
        line = RNG.standard_normal((1, width, 1, 1)).astype(np.float32)
        other = b.weight(TensorType(DType.F32, line.shape), lambda line=line: line)
        y = compose.binary(b, fn, y, other)
    array = RNG.standard_normal((8, 4, 3, 3)).astype(np.float32)
    w = b.weight(TensorType(DType.F32, array.shape), lambda: array)
    conv = Conv((1, 1), (0, 0), (0, 0), (1, 1), 1)
    return b.finish([b.emit(conv, compose.unary(b, "relu", y), w)], ["y"])


@pytest.mark.parametrize(("scale", "pooled", "expected"), [(4, True, 2), (1, True, 1), (4, False, 1)])
def test_scales_that_no_convolution_takes_in_are_kernels(scale: int, pooled: bool, expected: int) -> None:
    graph = normalised_first(scale, pooled)
    after = prepack(optimize(graph, "cpu"))
    found = kernels(after)
    assert len(found) == expected
    assert_same_images(graph, after)
    if expected == 2:
        assert [(k.groups, k.activation) for k in found] == [(4, "relu"), (1, "none")]
        assert not [n for n in after.nodes if getattr(n.op, "fn", "") in ("mul", "add", "relu")]


def assert_same_images(before: Graph, after: Graph) -> None:
    x = RNG.standard_normal((2, 4, 6, 6)).astype(np.float32)
    np.testing.assert_allclose(run(after, [x])[0], run(before, [x])[0], rtol=1e-4, atol=1e-4)
