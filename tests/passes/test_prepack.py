"""What constants alone determine is computed when the weights are packed: within bounds, and in the bodies of control flow too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check
from fornaxc.ir.graph import Array, Constant, Graph, Value
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Conv, Gather, If, Iota, TopK, While
from fornaxc.ir.serialize import graph_from_json, graph_to_json
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes import prepack as packing
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack
from fornaxc.weights import weight_constants

MATRIX = TensorType(DType.F32, (3, 4))
RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 3)).astype(np.float32)


def packed(graph: Graph, *inputs: Array) -> Graph:
    """The graph after packing, with the same outputs, also where it is read back as the compiler's process does."""
    check(graph)
    found = prepack(graph)
    check(found)
    weights = weight_constants(found)
    again = graph_from_json(graph_to_json(found), lambda number, type: weights[number].load())
    for program in (found, again):
        for before, after in zip(run(graph, inputs), run(program, inputs), strict=True):
            np.testing.assert_array_equal(before, after)
    return found


def names(graph: Graph) -> list[str]:
    return sorted(n.op.name for n in graph.nodes)


def weight(b: GraphBuilder, type: TensorType = MATRIX) -> Value:
    array = RNG.standard_normal(tuple(int(str(d)) for d in type.shape)).astype(type.dtype.numpy)
    return b.weight(type, lambda: array)


def repeated(b: GraphBuilder, x: Value, trips: Value, body: Callable[[GraphBuilder, Value], Value]) -> Value:
    """`x` after `body` as often as `trips` says."""
    start = [b.literal(np.array(0)), x]
    test, step = GraphBuilder(b), GraphBuilder(b)
    seen, carried = ([region.input(v.type) for v in start] for region in (test, step))
    results = [compose.with_scalar(step, "add", carried[0], 1), body(step, carried[1])]
    regions = test.finish([compose.compare(test, "lt", seen[0], trips)]), step.finish(results)
    return b.emit_all(While(), *start, regions=regions)[1]


def chosen(b: GraphBuilder, c: Value, *bodies: Callable[[GraphBuilder], Value]) -> Value:
    regions = []
    for body in bodies:
        inner = GraphBuilder(b)
        regions.append(inner.finish([body(inner)]))
    return b.emit(If((regions[0].outputs[0].type,)), c, regions=tuple(regions))


def inputs_of(b: GraphBuilder) -> Sequence[Value]:
    types = (TensorType(DType.F32, (4, 3)), TensorType(DType.I64, ()), TensorType(DType.BOOL, ()))
    return [b.input(t, name) for t, name in zip(types, "xnc", strict=True)]


def test_a_chain_of_constants_is_one() -> None:
    b = GraphBuilder()
    x, *_ = inputs_of(b)
    scale = compose.transpose(b, compose.binary(b, "add", weight(b), compose.scalar(b, 2, DType.F32)), (1, 0))
    found = packed(
        b.finish([compose.binary(b, "mul", x, compose.unary(b, "exp", scale))], ["y"]), X, np.array(0), np.array(True)
    )
    assert names(found) == ["binary"]
    assert [w.type for w in weight_constants(found)] == [TensorType(DType.F32, (4, 3))]


def test_what_would_be_large_stays_but_what_it_becomes_does_not() -> None:
    b = GraphBuilder()
    many = TensorType(DType.F32, (1 << 19,))
    line = b.emit(Iota(many.shape, 0, DType.F32))
    total = compose.reduce(b, "sum", compose.binary(b, "mul", line, compose.full(b, 2, many)), (0,))
    large = packed(b.finish([line, total], ["line", "total"]))
    assert names(large) == ["iota"]
    assert [w.type.shape for w in large.constants.values()] == [(1,)]


def test_nothing_huge_is_computed_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """2^50 numbers would not fit any memory, though their sum does; weights may grow on their way, by eight times."""
    b = GraphBuilder()
    huge = TensorType(DType.F32, (1 << 50,))
    fill = compose.unary(b, "neg", compose.full(b, 1, huge))
    graph = prepack(b.finish([compose.reduce(b, "sum", compose.unary(b, "exp", fill), (0,))], ["y"]))
    assert names(graph) == ["broadcast_to", "reduce", "unary", "unary"]

    monkeypatch.setattr(packing, "HELD_BYTES", 1024)
    monkeypatch.setattr(packing, "SMALL_BYTES", 64)
    for growth, nodes in ((8, []), (9, ["broadcast_to", "reduce"])):
        b = GraphBuilder()
        w = weight(b, TensorType(DType.F32, (1, 64)))
        tall = compose.expand(b, w, (growth, 64))
        found = packed(b.finish([compose.reduce(b, "sum", tall, (0,))], ["y"]))
        assert names(found) == nodes


def test_all_results_of_a_node_are_packed_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The indices are twice as large as the values."""
    b = GraphBuilder()
    values, indices = b.emit_all(TopK(3, 0, True), weight(b, TensorType(DType.F32, (4,))))
    monkeypatch.setattr(packing, "SMALL_BYTES", 12)
    monkeypatch.setattr(packing, "GROWTH", 0)
    found = packed(b.finish([compose.unary(b, "neg", values), indices], ["v", "i"]))
    assert names(found) == ["top_k"]


def test_bodies_compute_nothing_from_constants() -> None:
    """A weight of the body, one from outside, and one made of both; the last two are where they were."""
    b = GraphBuilder()
    x, n, _ = inputs_of(b)
    outer = weight(b)

    def body(inner: GraphBuilder, v: Value) -> Value:
        own = compose.transpose(inner, weight(inner), (1, 0))
        from_outside = compose.transpose(inner, compose.unary(inner, "neg", outer), (1, 0))
        both = compose.binary(inner, "add", own, from_outside)
        small = compose.unary(inner, "neg", compose.scalar(inner, 3, DType.F32))
        v = compose.binary(inner, "add", v, compose.binary(inner, "mul", from_outside, small))
        return compose.binary(inner, "mul", v, both)

    found = packed(b.finish([repeated(b, x, n, body)], ["y"]), X, np.array(2), np.array(True))
    (loop,) = found.nodes
    step = loop.regions[1]
    assert names(step) == ["binary", "binary", "binary"]
    own = [c for c in step.constants.values() if not c.literal]
    outside = [c for c in found.constants.values() if not c.literal]
    assert len(own) == 1 and len(outside) == 1
    assert set(step.captures()) <= {*found.constants, *found.inputs}


def test_bodies_in_bodies() -> None:
    """Of three depths: each weight lies where the innermost of those lay that it is made of."""
    b = GraphBuilder()
    x, n, c = inputs_of(b)
    first = weight(b)

    def body(inner: GraphBuilder, v: Value) -> Value:
        second = weight(inner)
        half = compose.binary(inner, "mul", first, second)

        def yes(deep: GraphBuilder) -> Value:
            third = weight(deep)
            of_first = compose.transpose(deep, first, (1, 0))
            of_second = compose.transpose(deep, half, (1, 0))
            of_third = compose.transpose(deep, compose.binary(deep, "add", half, third), (1, 0))
            total = compose.binary(deep, "add", compose.binary(deep, "add", v, of_first), of_second)
            return compose.binary(deep, "mul", total, of_third)

        return chosen(inner, c, yes, lambda deep: v)

    graph = b.finish([repeated(b, x, n, body)], ["y"])
    for trips, answer in ((0, True), (2, True), (2, False)):
        found = packed(graph, X, np.array(trips), np.array(answer))
    step = found.nodes[0].regions[1]
    deep = step.nodes[0].regions[0] if step.nodes[0].regions else step.nodes[1].regions[0]
    weights = [[c for c in g.constants.values() if not c.literal] for g in (found, step, deep)]
    assert [len(w) for w in weights] == [1, 1, 1]
    assert names(deep) == ["binary", "binary", "binary"]


def test_large_values_of_a_body_stay_in_it() -> None:
    """One that a weight makes would be larger than a packed tensor may be; one without any weight would be a new one."""
    b = GraphBuilder()
    line = TensorType(DType.F32, (1, 1 << 19))
    x, n = b.input(line, "x"), b.input(TensorType(DType.I64, ()), "n")
    small = weight(b, TensorType(DType.F32, (1, 1)))

    def body(inner: GraphBuilder, v: Value) -> Value:
        wide = compose.expand(inner, compose.unary(inner, "neg", small), line.shape)
        return compose.binary(
            inner, "add", compose.binary(inner, "mul", v, wide), inner.emit(Iota(line.shape, 1, DType.F32))
        )

    found = packed(b.finish([repeated(b, x, n, body)], ["y"]), np.ones((1, 1 << 19), np.float32), np.array(2))
    assert names(found.nodes[0].regions[1]) == ["binary", "binary", "binary", "broadcast_to", "iota"]
    assert [c.type.shape for c in weight_constants(found)] == [(1, 1)]


def test_what_could_fail_is_left_to_the_branch_that_runs_it() -> None:
    b = GraphBuilder()
    x, _, c = inputs_of(b)
    type = TensorType(DType.I32, (2,))
    zeros, rows = (b.weight(type, lambda a=a: np.array(a, np.int32)) for a in ([0, 0], [7, 9]))  # type: ignore[misc]

    def risky(inner: GraphBuilder) -> Value:
        quotient = compose.binary(inner, "div", rows, zeros)
        picked = inner.emit(Gather(0), weight(inner), rows)
        return compose.binary(inner, "add", compose.reduce(inner, "sum", picked, (0, 1)), _as_f32(inner, quotient))

    def safe(inner: GraphBuilder) -> Value:
        return compose.reduce(inner, "sum", x, (0, 1))

    graph = b.finish([chosen(b, c, risky, safe)], ["y"])
    found = packed(graph, X, np.array(0), np.array(False))
    assert {"gather"} < {n.op.name for n in found.walk()}
    for constant in weight_constants(found):
        _load(constant)


def _as_f32(b: GraphBuilder, x: Value) -> Value:
    return compose.reshape(b, compose.slice_axis(b, compose.cast(b, x, DType.F32), 0, 0, 1), (1, 1))


def _load(constant: Constant) -> None:
    array = constant.load()
    assert (array.dtype, array.shape) == (constant.type.dtype.numpy, constant.type.shape)


def test_tensors_that_are_packed_each_are_packed_together() -> None:
    """Filters of narrow groups are padded to four times their size; the pool of a chain of them is not made while the program runs."""
    b = GraphBuilder()
    y = b.input(TensorType(DType.F32, (1, 128, 4, 4)), "x")
    for _ in range(20):
        w = b.weight(TensorType(DType.F32, (128, 4, 3, 3)), lambda: np.ones((128, 4, 3, 3), np.float32))
        y = compose.unary(b, "relu", b.emit(Conv((1, 1), (1, 1), (1, 1), (1, 1), 32), y, w))
    program = prepack(optimize(b.finish([y], ["y"]), "cpu"))
    assert {node.op.name for node in program.nodes} == {"transpose", "from_pool", "conv_nhwc"}
