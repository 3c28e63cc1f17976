"""The signs of rotary position embeddings go into the table of sines; all bits stay, and what is something else is left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check
from fornaxc.ir.dims import Dim, symbol
from fornaxc.ir.graph import Graph
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Unary
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.find_rotation import find_rotation

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 5, 8)).astype(np.float32)
X[0, 0, 0, :4] = 0, -0.0, np.inf, -np.inf
SINES = RNG.standard_normal((1, 1, 5, 8)).astype(np.float32)


def turned(
    parts: Sequence[tuple[int, int, bool]],
    *,
    length: Dim = 5,
    table: Sequence[Dim] = (1, 1, 5, 8),
    is_input: bool = False,
    fn: str = "mul",
) -> Graph:
    """x's `parts` along its last axis (start, size, negated), joined, times a table of sines that is a weight or an input."""
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (2, 3, length, 8)), "x")
    kind = TensorType(DType.F32, tuple(table))
    sines = b.input(kind, "s") if is_input else b.weight(kind, lambda: SINES)
    pieces = [(compose.slice_axis(b, x, 3, start, size), negated) for start, size, negated in parts]
    joined = compose.concat(b, [compose.unary(b, "neg", v) if negated else v for v, negated in pieces], 3)
    return b.finish([compose.binary(b, fn, joined, compose.expand(b, sines, x.type.shape))], ["y"])


def negations(graph: Graph, *, is_input: bool = False) -> int:
    found = find_rotation(graph)
    check(found)
    given = [X, SINES] if is_input else [X]
    (before,), (after,) = run(graph, given), run(found, given)
    assert before.tobytes() == after.tobytes()
    return sum(node.op == Unary("neg") for node in found.nodes)


HALVES = [(4, 4, True), (0, 4, False)]


def test_halves_that_change_places() -> None:
    assert negations(turned(HALVES)) == 0
    assert negations(turned([(0, 4, False), (4, 4, True)])) == 0
    assert negations(turned([(5, 3, True), (0, 2, False), (2, 3, True)])) == 0


def test_sines_that_are_given_and_lengths_that_are_symbolic() -> None:
    assert negations(turned(HALVES, is_input=True), is_input=True) == 0
    n = symbol("n")
    assert negations(turned(HALVES, length=n, table=(1, 1, n, 8), is_input=True), is_input=True) == 0


@pytest.mark.parametrize("fn", ["add", "div"])
def test_what_is_no_product_is_left(fn: str) -> None:
    assert negations(turned(HALVES, fn=fn)) == 1


def test_nothing_negated_is_left() -> None:
    graph = turned([(4, 4, False), (0, 4, False)])
    assert find_rotation(graph) is graph


def test_one_sine_for_all() -> None:
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (2, 3, 5, 8)), "x")
    joined = compose.concat(b, [compose.unary(b, "neg", x), x], 3)
    y = compose.binary(
        b, "mul", joined, compose.expand(b, b.literal(np.full((1, 1, 1, 1), 2, np.float32)), joined.type.shape)
    )
    assert negations(b.finish([y], ["y"])) == 0


def test_integers_are_left() -> None:
    b = GraphBuilder()
    x = b.input(TensorType(DType.I32, (2, 8)), "x")
    s = b.input(TensorType(DType.I32, (2, 16)), "s")
    y = compose.binary(b, "mul", compose.concat(b, [compose.unary(b, "neg", x), x], 1), s)
    graph = b.finish([y], ["y"])
    assert sum(node.op == Unary("neg") for node in find_rotation(graph).nodes) == 1
