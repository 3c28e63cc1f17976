"""What does nothing is dropped."""

from __future__ import annotations

import numpy as np
import pytest

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, symbol
from fornaxc.ir.graph import Graph
from fornaxc.ir.ops import Select
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
