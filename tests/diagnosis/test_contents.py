"""What seeded numbers take the place of, and that a report is right about what stayed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from fornaxc.diagnosis.checks import verify_check
from fornaxc.diagnosis.contents import Kind, kinds_of, seeded
from fornaxc.diagnosis.edits import Case
from fornaxc.diagnosis.reduce import Reduced, reduce
from fornaxc.diagnosis.report_text import report_text
from fornaxc.diagnosis.rounds import drive_with
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check as check_graph
from fornaxc.ir.graph import Array, Constant, Graph, Value
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Binary, Cast, If
from fornaxc.ir.types import DType, TensorType, dtype_of
from fornaxc.qualify.programs import Outcome, Program

X = TensorType(DType.F32, (4,))
ONE = np.ones(4, np.float32)
SECRET = np.full(4, 1234.5, np.float32)


def held(b: GraphBuilder, array: Array) -> Value:
    return b.weight(TensorType(dtype_of(array.dtype), array.shape), lambda: array)


def branching(secret: Array, depth: int) -> Graph:
    """x times a secret, in a branch that is as many branches deep."""

    def times(b: GraphBuilder) -> Value:
        return b.emit(Binary("mul"), x, held(b, secret))

    def body(parent: GraphBuilder, left: int) -> Graph:
        b = GraphBuilder(parent)
        return b.finish([times(b) if left == 1 else branch(b, left - 1)])

    def branch(b: GraphBuilder, left: int) -> Value:
        (found,) = b.emit_all(If((X,)), condition, regions=(body(b, left), body(b, left)))
        return found

    b = GraphBuilder()
    x, condition = b.input(X, "x"), b.input(TensorType(DType.BOOL, ()), "c")
    return b.finish([branch(b, depth)], ["y"])


def constants(graph: Graph) -> Iterator[Constant]:
    yield from graph.constants.values()
    for node in graph.nodes:
        for region in node.regions:
            yield from constants(region)


@pytest.mark.parametrize("depth", [1, 3])
def test_weights_of_bodies_are_seeded(depth: int) -> None:
    case = Case(branching(SECRET, depth), (ONE, np.array(True)))
    assert kinds_of(case.graph) == {Kind.FLOATS}
    new = seeded(case, 0)
    check_graph(new.graph)
    found = list(constants(new.graph))
    assert len(found) == 2**depth and not any(np.isin(c.load(), SECRET).any() for c in found)


@pytest.mark.parametrize(
    "dtype",
    [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64, ml_dtypes.int4, ml_dtypes.float8_e8m0fnu],
)
def test_integers_stay_in_their_range(dtype: type) -> None:
    bits = np.arange(1, 7, dtype=np.uint8) if dtype is ml_dtypes.float8_e8m0fnu else None
    line = np.arange(1, 7).astype(dtype) if bits is None else bits.view(dtype)
    source = np.resize(line, (50, 6))
    b = GraphBuilder()
    x = held(b, source)
    case = Case(b.finish([x], ["y"]), ())
    assert kinds_of(case.graph) == {Kind.INTEGERS}
    (found,) = [c.load() for c in seeded(case, 0).graph.constants.values()]
    assert (found.dtype, found.shape) == (source.dtype, source.shape)
    assert set(found.ravel().view(line.dtype).tolist()) == set(line.tolist())
    assert not np.array_equal(found, source)
    (same,) = [c.load() for c in seeded(case, 0, kinds={Kind.FLOATS}).graph.constants.values()]
    assert same is source


def test_one_number_everywhere_and_bools_are_not_told() -> None:
    b = GraphBuilder()
    arrays = [np.full(300, 77, np.int32), np.full(300, -7, np.int8), np.ones(300, np.bool_), np.zeros((0, 3), np.int8)]
    case = Case(b.finish([held(b, a) for a in arrays], ["a", "b", "c", "d"]), ())
    found = [c.load() for c in seeded(case, 0).graph.constants.values()]
    assert [sorted({int(f.min()), int(f.max())}) for f in found[:3]] == [[0, 77], [-7, 0], [0, 1]]
    assert (found[3].shape, found[3].dtype) == ((0, 3), np.int8)


def test_small_literals_are_part_of_the_program_and_large_ones_are_weights() -> None:
    b = GraphBuilder()
    few, many = (b.literal(np.arange(n, dtype=np.float32)) for n in (16, 17))
    short, long = (b.literal(np.arange(n, dtype=np.int64)) for n in (64, 65))
    case = Case(b.finish([few, many, short, long], ["a", "b", "c", "d"]), ())
    new = seeded(case, 0).graph.constants
    kept = [new[v] is case.graph.constants[v] for v in case.graph.outputs]
    assert kept == [True, False, True, False] and all(c.literal for c in new.values())


# -- what stayed is told


def reduced(graph: Graph, *inputs: Array, wrong: Callable[[Graph], bool]) -> Reduced:
    """Of a device whose outputs are off by one where a program is such a one."""

    def device(programs: Sequence[Program]) -> Mapping[str, Outcome]:
        return {
            p.name: Outcome("ok", "run", outputs=[[a + wrong(p.graph) for a in run(p.graph, r)] for r in p.runs])
            for p in programs
        }

    return drive_with({"r": reduce([Case(graph, inputs)], verify_check())}, device)["r"]


def text(found: Reduced) -> str:
    return report_text(found, "verify", "cpu", Path("s.onnx"), True)


def holds(array: Array) -> Callable[[Graph], bool]:
    return lambda graph: any(np.array_equal(c.load(), array) for c in constants(graph))


INTEGERS = np.array([-100, 99, 101, 100] * 20, np.int8)


def quantised() -> Graph:
    """The sum of x, a weight of floats and one of integers."""
    b = GraphBuilder()
    type = TensorType(DType.F32, (80,))
    sum = b.emit(Binary("add"), b.input(type, "x"), held(b, np.full(80, 1 / 3, np.float32)))
    return b.finish([b.emit(Binary("add"), sum, b.emit(Cast(DType.F32), held(b, INTEGERS)))], ["y"])


def test_integer_weights_that_the_failure_needs_are_told() -> None:
    found = reduced(quantised(), np.ones(80, np.float32), wrong=holds(INTEGERS))
    assert (found.own_weights, found.own_inputs) == (True, False)
    assert holds(INTEGERS)(found.case.graph) and "weights are the original model's" in text(found)


def test_floats_are_seeded_beside_integers_that_the_failure_needs() -> None:
    def both(graph: Graph) -> bool:
        return holds(INTEGERS)(graph) and len(list(constants(graph))) == 2

    found = reduced(quantised(), np.ones(80, np.float32), wrong=both)
    assert found.own_weights and found.trail[-1] == "seeded weights of floats and inputs"
    assert not holds(np.full(80, 1 / 3, np.float32))(found.case.graph)


def test_integer_weights_that_the_failure_does_not_need_go() -> None:
    def large(graph: Graph) -> bool:
        return any(np.max(c.load()) > 50 for c in constants(graph))

    found = reduced(quantised(), np.ones(80, np.float32), wrong=large)
    assert (found.own_weights, found.own_inputs) == (False, False)
    assert not holds(INTEGERS)(found.case.graph)
    assert "integers in the range of the model's" in text(found)


def test_weights_of_a_body_that_the_failure_needs_are_told() -> None:
    found = reduced(branching(SECRET, 2), ONE, np.array(True), wrong=holds(SECRET))
    assert found.own_weights and not found.own_inputs
    found = reduced(branching(SECRET, 2), ONE, np.array(True), wrong=lambda graph: True)
    assert not found.own_weights and not holds(SECRET)(found.case.graph)
