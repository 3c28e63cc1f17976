"""Sequences of known length leave no trace; those of unknown length are refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from text_models import graph_of, operations, outputs_of, result_of

from fornaxc.errors import UnsupportedError
from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import model_from_proto
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import IrError

F = np.float32


def test_parts_of_a_split() -> None:
    text = """(float[2, 5] x) => (float[2, a] y, int64 n) {
        parts = SplitToSequence<axis=1>(x, size)
        y = SequenceAt(parts, last)
        n = SequenceLength(parts)
    }"""
    x = np.arange(10, dtype=F).reshape(2, 5)
    part, count = outputs_of(text, x, size=np.int64(2), last=np.int64(-1))
    assert (part.tolist(), count) == ([[4], [9]], 3)
    part, count = outputs_of(text, x, size=np.array([1, 4]), last=np.int64(-1))
    assert (part.shape, count) == ((2, 4), 2)


def test_slices_without_their_axis() -> None:
    text = """(float[2, 3] x) => (float[3, 2] y) {
        rows = SplitToSequence<axis=0, keepdims=0>(x)
        y = ConcatFromSequence<axis=-1, new_axis=1>(rows)
    }"""
    x = np.arange(6, dtype=F).reshape(2, 3)
    np.testing.assert_array_equal(result_of(text, x), x.T)


def test_inserting_and_erasing() -> None:
    text = """(float[1] a, float[1] b, float[1] c) => (float[n] y) {
        s = SequenceConstruct(a, b)
        front = SequenceInsert(s, c, zero)
        more = SequenceInsert(front, b)
        fewer = SequenceErase(more, one)
        y = ConcatFromSequence<axis=0>(fewer)
    }"""
    inputs = [np.array([v], F) for v in (1, 2, 3)]
    assert result_of(text, *inputs, zero=np.int64(0), one=np.int64(1)).tolist() == [3, 2, 2]


def test_a_body_on_each_element() -> None:
    text = """(float[2] x, float[3] z) => (float[5] y, int64 n) {
        s = SequenceConstruct(x, z)
        t, sizes = SequenceMap <
            body = each (float[k] a, float k) => (float[k] b, int64 c) {
                b = Mul(a, k)
                c = Size(a)
            }
        > (s, ten)
        y = ConcatFromSequence<axis=0>(t)
        n = SequenceAt(sizes, last)
    }"""
    y, n = outputs_of(text, np.array([1, 2], F), np.array([3, 4, 5], F), ten=F(10), last=np.int64(-1))
    assert (y.tolist(), n) == ([10, 20, 30, 40, 50], 3)


def test_a_loop_that_collects_in_a_sequence() -> None:
    text = """(float[2] x) => (float[n] y) {
        empty = SequenceEmpty()
        full = Loop (trips, yes, empty) <
            body = step (int64 i, bool go, seq(float[2]) s) => (bool more, seq(float[2]) t) {
                more = Identity(go)
                k = Cast<to=1>(i)
                v = Add(x, k)
                t = SequenceInsert(s, v)
            }
        >
        y = ConcatFromSequence<axis=0>(full)
    }"""
    found = result_of(text, np.array([1, 2], F), trips=np.int64(3), yes=np.array(True))
    assert found.tolist() == [1, 2, 2, 3, 3, 4]
    with pytest.raises(UnsupportedError):
        graph_of(text, initializers={"trips": np.int64(300), "yes": np.array(True)})


def test_a_sequence_in_a_loop_of_many_trips_has_a_known_length() -> None:
    text = """(float[2] x) => (int64 y) {
        empty = SequenceEmpty()
        full = Loop (trips, yes, empty) <
            body = step (int64 i, bool go, seq(float[2]) s) => (bool more, seq(float[2]) t) {
                more = Identity(go)
                t = SequenceInsert(s, x)
            }
        >
        y = SequenceLength(full)
    }"""
    assert result_of(text, np.array([1, 2], F), trips=np.int64(50), yes=np.array(True)) == 50


@pytest.mark.parametrize("sizes", [[1, 3, 1], [0, 2, 3]])
def test_parts_of_sizes_that_are_inputs(sizes: list[int]) -> None:
    text = """(float[2, 5] x, int64[3] s) => (float[2, a] y, int64 n) {
        parts = SplitToSequence<axis=1>(x, s)
        second = SequenceAt(parts, one)
        first = SequenceAt(parts, zero)
        third = SequenceAt(parts, last)
        y = Concat<axis=1>(second, third, first)
        n = SequenceLength(parts)
    }"""
    x = np.arange(10, dtype=F).reshape(2, 5)
    places = {"zero": np.int64(0), "one": np.int64(1), "last": np.int64(-1)}
    y, n = outputs_of(text, x, np.array(sizes), **places)
    first, second, third = np.split(x, np.cumsum(sizes)[:-1], axis=1)
    np.testing.assert_array_equal(y, np.concatenate([second, third, first], axis=1))
    assert n == 3
    with pytest.raises((IrError, ValueError)):
        outputs_of(text, x, np.array([1, 1, 1]), **places)


def test_a_sequence_of_unknown_length_or_as_an_output_is_refused() -> None:
    with pytest.raises(UnsupportedError):
        graph_of("(float[n] x) => (int64 y) { s = SplitToSequence(x)\n y = SequenceLength(s) }")
    with pytest.raises(UnsupportedError):
        graph_of("(float[2] x) => (seq(float[1]) s) { s = SplitToSequence(x) }")


def test_an_optional_is_what_it_holds() -> None:
    text = "(float[2] x) => (float[2] y, bool h) { o = Optional(x)\n y = OptionalGetElement(o)\n h = OptionalHasElement(o) }"
    graph = graph_of(text)
    assert operations(graph) == set()
    value, present = run(graph, [np.array([1, 2], F)])
    assert (value.tolist(), bool(present)) == ([1, 2], True)


@pytest.mark.parametrize("answer", [True, False])
def test_a_branch_without_nodes_that_yields_an_outer_value(answer: bool) -> None:
    def info(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])

    branches = {
        "then_branch": helper.make_graph([], "outer", [], [info("x")]),
        "else_branch": helper.make_graph([helper.make_node("Neg", ["x"], ["z"])], "own", [], [info("z")]),
    }
    node = helper.make_node("If", ["c"], ["y"], **branches)
    choice = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    graph = helper.make_graph([node], "g", [choice, info("x")], [info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    imported = import_model(model_from_proto(model), {})
    (found,) = run(imported, [np.array(answer), np.array([1, 2], F)])
    assert found.tolist() == ([1, 2] if answer else [-1, -2])
