"""What does nothing is dropped."""

from __future__ import annotations

import numpy as np
import pytest

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, symbol
from fornaxc.ir.graph import Graph
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Concat, Select, Slice
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.simplify import simplify


def selecting(condition: object, rows: Dim) -> Graph:
    b = GraphBuilder()
    x, y = (b.input(TensorType(DType.F32, (rows, 3)), name) for name in "xy")
    return b.finish([compose.select(b, b.literal(np.array(condition)), x, y)], ["z"])


@pytest.mark.parametrize("rows", [2, 5000, symbol("n")], ids=str)
def test_a_choice_that_is_the_same_everywhere_is_made(rows: Dim) -> None:
    for condition, chosen in ((True, 0), (False, 1)):
        graph = simplify(selecting(condition, rows))
        assert not graph.nodes and graph.outputs == (graph.inputs[chosen],)


def test_a_choice_of_each_column_stays() -> None:
    graph = simplify(selecting([True, False, True], symbol("n")))
    assert isinstance(graph.nodes[-1].op, Select)


def joined(*cuts: tuple[int, int, int], axis: int = 1, other: bool = False) -> Graph:
    """Slices of x, each a start, a size and a step, one after the other."""
    b = GraphBuilder()
    x, y = (b.input(TensorType(DType.F32, (4, 6)), name) for name in "xy")
    parts = []
    for number, (start, size, step) in enumerate(cuts):
        starts, sizes, steps = (
            [given, plain][:: 1 if axis == 0 else -1] for given, plain in ((start, 0), (size, (6, 4)[axis]), (step, 1))
        )
        parts.append(b.emit(Slice(tuple(starts), tuple(sizes), tuple(steps)), y if other and number else x))
    return b.finish([compose.concat(b, parts, axis)], ["z"])


def made_of(graph: Graph) -> list[object]:
    found = simplify(graph)
    given = [np.arange(24, dtype=np.float32).reshape(4, 6), np.zeros((4, 6), np.float32)]
    np.testing.assert_array_equal(run(found, given)[0], run(graph, given)[0])
    needed, ops = set(found.outputs), []
    for node in reversed(found.nodes):
        if not needed.isdisjoint(node.outputs):
            needed.update(node.inputs)
            ops.insert(0, node.op)
    return ops


def test_slices_that_follow_one_another_are_one() -> None:
    assert made_of(joined((0, 2, 1), (2, 4, 1))) == []
    assert made_of(joined((0, 1, 1), (1, 2, 1), (3, 1, 1), axis=0)) == []
    assert made_of(joined((1, 2, 1), (3, 2, 1))) == [Slice((0, 1), (4, 4), (1, 1))]
    assert made_of(joined((3, 3, 1), (0, 2, 1), (2, 1, 1)))[-1] == Concat(1)
    assert len(made_of(joined((3, 3, 1), (0, 2, 1), (2, 1, 1)))) == 3


@pytest.mark.parametrize(
    "graph",
    [
        joined((2, 4, 1), (0, 2, 1)),
        joined((0, 2, 1), (1, 2, 1)),
        joined((0, 2, 2), (2, 2, 2)),
        joined((0, 2, 1), (2, 4, 1), other=True),
    ],
    ids=["out of order", "overlapping", "with steps", "of two values"],
)
def test_other_slices_stay(graph: Graph) -> None:
    assert [type(op) for op in made_of(graph)] == [Slice, Slice, Concat]
