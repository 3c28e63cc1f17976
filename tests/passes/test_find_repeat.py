"""Gathers that repeat rows or columns are recognised; what is something else is left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check
from fornaxc.ir.dims import Dim, symbol
from fornaxc.ir.graph import Graph
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Gather, Repeat
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.find_repeat import find_repeat

X = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)


def gathered(*indices: tuple[int, Sequence[int]], batch: Dim = 2) -> Graph:
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (batch, 3, 4, 5)), "x")
    for axis, index in indices:
        x = b.emit(Gather(axis), x, b.literal(np.array(index)))
    return b.finish([x], ["y"])


def ops_of(graph: Graph) -> list[object]:
    found = find_repeat(graph)
    check(found)
    np.testing.assert_array_equal(run(found, [X])[0], run(graph, [X])[0])
    return [n.op for n in found.nodes if n.outputs[0] in found.outputs]


@pytest.mark.parametrize("batch", [2, symbol("n")], ids=str)
def test_rows_and_columns_are_one_repetition(batch: Dim) -> None:
    rows, columns = (1, [0, 0, 1, 1, 2, 2]), (2, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
    assert ops_of(gathered(rows, columns, batch=batch)) == [Repeat((1, 2, 3, 1))]
    assert ops_of(gathered(columns, batch=batch)) == [Repeat((1, 1, 3, 1))]


def test_a_gather_of_everything_is_its_operand() -> None:
    found = find_repeat(gathered((1, [0, 1, 2])))
    assert found.outputs == found.inputs


@pytest.mark.parametrize(
    "index",
    [
        (1, [0, 1, 2, 0, 1, 2]),
        (1, [0, 0, 1, 1]),
        (2, [0, 0, 1, 2, 2, 3]),
        (1, [2, 2, 1, 1, 0, 0]),
        (3, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]),
    ],
    ids=str,
)
def test_others_are_left(index: tuple[int, Sequence[int]]) -> None:
    assert ops_of(gathered(index)) == [Gather(index[0])]
