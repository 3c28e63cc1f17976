"""Passes around convolutions keep the numbers and leave no layout change inside a convolution net."""

import numpy as np
import pytest

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import symbol
from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Conv, ConvNhwc, PackConv, Pool, Reduce, Transpose
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.affine import fold_affine
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack

RNG = np.random.default_rng(0)


def weight(b: GraphBuilder, *shape: int) -> Value:
    array = RNG.standard_normal(shape).astype(np.float32)
    return b.weight(TensorType(DType.F32, shape), lambda: array)


def channel(b: GraphBuilder, size: int) -> Value:
    return compose.reshape(b, weight(b, size), (1, size, 1, 1))


def conv(b: GraphBuilder, x: Value, filters: int, size: int, stride: int = 1, groups: int = 1) -> Value:
    channels = int(str(x.type.shape[1]))
    pad = (size // 2, size // 2)
    w = weight(b, filters, channels // groups, size, size)
    return b.emit(Conv((stride, stride), pad, pad, (1, 1), groups), x, w)


def normalised(b: GraphBuilder, y: Value) -> Value:
    c = int(str(y.type.shape[1]))
    return compose.binary(b, "add", compose.binary(b, "mul", y, channel(b, c)), channel(b, c))


def residual_net() -> Graph:
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (symbol("n"), 3, 9, 9)), "x")
    y = compose.unary(b, "relu", normalised(b, conv(b, x, 8, 3, stride=2)))
    y = b.emit(Pool("max", (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)), y)
    z = compose.unary(b, "relu", normalised(b, conv(b, y, 8, 3, groups=8)))
    z = normalised(b, conv(b, z, 8, 1))
    y = compose.unary(b, "relu", compose.binary(b, "add", z, y))
    y = compose.concat(b, [y, compose.unary(b, "tanh", y)], 1)
    pooled = b.emit(Reduce("mean", (2, 3)), y)
    return b.finish([compose.reshape(b, pooled, (symbol("n"), 16))], ["y"])


def line_net() -> Graph:
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (2, 4, symbol("t"))), "x")
    y = b.emit(Conv((2,), (3,), (1,), (2,), 2), x, weight(b, 6, 2, 3))
    y = compose.binary(b, "sub", y, compose.reshape(b, weight(b, 6), (1, 6, 1)))
    return b.finish([compose.unary(b, "sigmoid", y)], ["y"])


def volume_net() -> Graph:
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (symbol("n"), 4, symbol("d"), 6, 7)), "x")
    steps = Conv((2, 1, 2), (2, 1, 0), (1, 0, 1), (2, 1, 1), 2)
    y = compose.unary(b, "relu", b.emit(steps, x, weight(b, 6, 2, 3, 2, 3)))
    return b.finish([b.emit(Conv((1, 1, 1), (0, 0, 0), (0, 0, 0), (1, 1, 1), 1), y, weight(b, 5, 6, 1, 1, 1))], ["y"])


def gated_net() -> Graph:
    """Channels times a number of their own for each image, which comes from their means."""
    b = GraphBuilder()
    y = conv(b, b.input(TensorType(DType.F32, (symbol("n"), 3, 9, 9)), "x"), 6, 3)
    gate = compose.unary(b, "sigmoid", conv(b, b.emit(Reduce("mean", (2, 3)), y), 6, 1))
    return b.finish([conv(b, compose.binary(b, "mul", y, gate), 4, 1)], ["y"])


CASES = {
    "residual": (residual_net, RNG.standard_normal((2, 3, 9, 9)).astype(np.float32)),
    "gated": (gated_net, RNG.standard_normal((2, 3, 9, 9)).astype(np.float32)),
    "line": (line_net, RNG.standard_normal((2, 4, 13)).astype(np.float32)),
    "volume": (volume_net, RNG.standard_normal((2, 4, 7, 6, 7)).astype(np.float32)),
}


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize("name", CASES)
def test_passes_keep_the_numbers(name: str, kind: str) -> None:
    make, x = CASES[name]
    graph = make()
    (before,) = run(graph, [x])
    (after,) = run(prepack(optimize(graph, kind)), [x])
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)


def test_scales_end_up_in_the_weights() -> None:
    folded = prepack(fold_affine(residual_net()))
    assert not [n for n in folded.nodes if getattr(n.op, "fn", "") == "mul"]


def test_a_convolution_net_keeps_one_layout_inside() -> None:
    graph = prepack(optimize(residual_net(), "cpu"))
    kernels = [n.op for n in graph.nodes if isinstance(n.op, ConvNhwc)]
    assert [k.activation for k in kernels] == ["relu", "relu", "relu"]
    assert [k.residual for k in kernels] == [False, False, True]
    assert sum(isinstance(n.op, Transpose) for n in graph.nodes) == 1  # of the input


def test_what_multiplies_channels_follows_their_layout() -> None:
    graph = prepack(optimize(gated_net(), "cpu"))
    assert sum(isinstance(n.op, Transpose) for n in graph.nodes) == 2  # of the input and of the output


def test_convolutions_over_volumes_are_kernels_with_packed_weights() -> None:
    graph = prepack(optimize(volume_net(), "cpu"))
    assert sum(isinstance(n.op, ConvNhwc) for n in graph.nodes) == 2
    assert not [n for n in graph.nodes if isinstance(n.op, Conv | PackConv)]


def test_a_value_used_twice_is_not_folded_away() -> None:
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (1, 3, 4, 4)), "x")
    y = conv(b, x, 2, 1)
    graph = b.finish([y, compose.unary(b, "relu", y)], ["y", "z"])
    sample = RNG.standard_normal((1, 3, 4, 4)).astype(np.float32)
    for before, after in zip(run(graph, [sample]), run(prepack(optimize(graph, "cpu")), [sample]), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)
