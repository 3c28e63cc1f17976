"""Graphs survive their JSON form, and their digest depends on the program alone."""

import json

import numpy as np

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import symbol
from fornaxc.ir.graph import Graph, Origin
from fornaxc.ir.interpreter import run
from fornaxc.ir.printer import print_graph
from fornaxc.ir.serialize import graph_digest, graph_from_json, graph_to_json
from fornaxc.ir.types import DType, TensorType


def sample(weight: float = 2.0, literal: float = 3.0, node: str = "a") -> Graph:
    b = GraphBuilder()
    b.origin = Origin(node, "Mul", 20)
    n = symbol("n")
    x = b.input(TensorType(DType.F32, (n, 3, 4)), "x")
    w = b.weight(TensorType(DType.F32, (4,)), lambda: np.full(4, weight, np.float32), node)
    y = compose.binary(b, "mul", x, w)
    y = compose.with_scalar(b, "add", y, literal)
    y = compose.reshape(b, y, (3 * n, 4))
    y = compose.reduce(b, "max", y, [1])
    return b.finish([y], ["y"])


def test_json_round_trip_keeps_the_program() -> None:
    graph = sample()
    document = json.loads(json.dumps(graph_to_json(graph)))
    again = graph_from_json(document, lambda number, type: np.full(4, 2.0, np.float32))
    assert graph_digest(again) == graph_digest(graph)
    assert print_graph(again) == print_graph(graph)
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(run(again, [x])[0], (x * 2 + 3).reshape(6, 4).max(1, keepdims=True))


def test_digest_ignores_weight_bytes_and_origins() -> None:
    assert graph_digest(sample(weight=5.0, node="b")) == graph_digest(sample())


def test_digest_sees_literals() -> None:
    assert graph_digest(sample(literal=4.0)) != graph_digest(sample())
