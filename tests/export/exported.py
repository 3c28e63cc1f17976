"""Compares an exported graph in onnxruntime with the numpy interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check
from fornaxc.ir.dims import Dim, symbol
from fornaxc.ir.graph import Array, Graph, Value
from fornaxc.ir.interpreter import run
from fornaxc.ir.types import TensorType, dtype_of
from fornaxc.verification.oracle import GraphOracle

Shape = Sequence[Dim | str]
RTOL = {"float16": 3e-3, "bfloat16": 2e-2, "float32": 3e-5, "float64": 1e-9}
SMALL_FLOAT = 0.13  # a unit in the last of three significand bits


def build(make: Callable[..., Any], inputs: Sequence[Array], shapes: Sequence[Shape | None] = ()) -> Graph:
    """The graph of `make(builder, *values)` over inputs x0, x1, ... of the arrays' types, or of `shapes` (names are symbols)."""
    b = GraphBuilder()
    declared = [*shapes, *[None] * (len(inputs) - len(shapes))]
    values = []
    for index, (array, shape) in enumerate(zip(inputs, declared, strict=True)):
        dims = array.shape if shape is None else tuple(symbol(d) if isinstance(d, str) else d for d in shape)
        values.append(b.input(TensorType(dtype_of(array.dtype), dims), f"x{index}"))
    b.reserve(b.input_symbols())
    results = make(b, *values)
    outputs = [results] if isinstance(results, Value) else list(results)
    graph = b.finish(outputs, [f"y{i}" for i in range(len(outputs))])
    check(graph)
    return graph


def runtime(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """The outputs in onnxruntime, which must accept the graph and agree with itself whether it optimises or not."""
    reference = GraphOracle(graph)(dict(zip(graph.input_names, inputs, strict=True)))
    assert (reference.oracle, reference.notes) == ("onnxruntime (exported graph)", ())
    return [reference.outputs[name] for name in graph.output_names]


def agree(
    graph: Graph, inputs: Sequence[Array], tolerance: float = 0.0, expected: Sequence[Array] | None = None
) -> None:
    """Assert that onnxruntime gives what the interpreter does (or `expected`)."""
    with np.errstate(all="ignore"):
        wanted = run(graph, inputs) if expected is None else expected
    for found, want in zip(runtime(graph, inputs), wanted, strict=True):
        assert (found.dtype, found.shape) == (want.dtype, want.shape)
        name = found.dtype.name
        rtol = tolerance or RTOL.get(name, SMALL_FLOAT if name.startswith("float8") else 0.0)
        if not rtol:
            np.testing.assert_array_equal(found, want)
            continue
        wide = np.float64 if found.dtype.itemsize > 1 else np.float32
        pair = found.astype(wide), want.astype(wide)
        np.testing.assert_allclose(*pair, rtol=rtol, atol=min(rtol, 1e-5), equal_nan=True)
