"""Local response normalisation is recognised where channels come last; what is something else is left."""

from __future__ import annotations

import numpy as np
import pytest

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check
from fornaxc.ir.graph import Graph
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import LocalResponseNorm, Pool
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.find_local_norm import find_local_norm

X = np.random.default_rng(0).standard_normal((2, 3, 4, 7)).astype(np.float32)


def normalised(
    window: tuple[int, int, int] = (1, 1, 5),
    low: int = 2,
    high: int = 2,
    *,
    fn: str = "sum",
    alpha: float = 0.5,
    bias: float = 2.0,
    stride: int = 1,
    other: bool = False,
    dtype: DType = DType.F32,
) -> Graph:
    b = GraphBuilder()
    x = b.input(TensorType(dtype, X.shape), "x")
    y = b.input(TensorType(dtype, X.shape), "y")
    pool = Pool(fn, window, (1, 1, stride), (0, 0, low), (0, 0, high), (1, 1, 1))
    total = b.emit(pool, compose.binary(b, "mul", x, y if other else x))
    base = compose.with_scalar(b, "add", compose.with_scalar(b, "mul", total, alpha), bias)
    divisor = compose.with_scalar(b, "pow", base, 0.75)
    assert divisor.type == x.type
    return b.finish([compose.binary(b, "div", x, divisor)], ["z"])


def is_found(graph: Graph) -> bool:
    found = find_local_norm(graph)
    check(found)
    given = [X.astype(v.type.dtype.numpy) for v in graph.inputs]
    for a, b in zip(run(found, given), run(graph, given), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    return any(isinstance(n.op, LocalResponseNorm) for n in found.nodes)


@pytest.mark.parametrize(("size", "low"), [(5, 2), (4, 1), (1, 0), (3, 0), (3, 2)])
def test_a_window_of_channels_is_found(size: int, low: int) -> None:
    assert is_found(normalised((1, 1, size), low, size - 1 - low))


@pytest.mark.parametrize(
    "graph",
    [
        normalised(fn="max"),
        normalised(other=True),
        normalised(alpha=-0.01, bias=50.0),
        normalised(bias=-50.0, alpha=0.0),
        normalised(dtype=DType.F64),
        normalised((1, 1, 3), 4, 4, stride=2),
    ],
    ids=["a maximum", "a product of two", "a negative factor", "a negative bias", "f64", "strides"],
)
def test_others_are_left(graph: Graph) -> None:
    assert not any(isinstance(n.op, LocalResponseNorm) for n in find_local_norm(graph).nodes)
