"""Control flow that constants decide goes, and what stays carries less; the numbers are the same, to the bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from random_control import random_inputs, random_program

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check
from fornaxc.ir.dims import symbol
from fornaxc.ir.graph import Array, Graph, Node, Value
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Dims, If, MatMul, NonZero, Rebind, Reshape, While
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes import loops
from fornaxc.passes.control import simplify_control
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack
from fornaxc.weights import weight_constants

ROW, NUMBER, TRUTH = (TensorType(d, s) for d, s in ((DType.F32, (3,)), (DType.I64, ()), (DType.BOOL, ())))
ROWS = [np.array(r, np.float32) for r in ([1, -2, 0.5], [0, -0.0, np.inf], [np.nan, -np.nan, 3])]
Body = Callable[[GraphBuilder], Sequence[Value]]
Trip = Callable[[GraphBuilder, list[Value]], Sequence[Value]]


def simplified(graph: Graph, *inputs: Sequence[Array]) -> Graph:
    """The graph after the pass: well formed, and for all inputs with the outputs of the graph before, NaN and signs of zero included."""
    check(graph)
    found = simplify_control(graph)
    check(found)
    for arrays in inputs:
        for before, after in zip(run(graph, arrays), run(found, arrays), strict=True):
            assert (before.dtype, before.shape, before.tobytes()) == (after.dtype, after.shape, after.tobytes())
    assert simplify_control(found) is found
    return found


def operations(graph: Graph) -> Counter[str]:
    return Counter(node.op.name for node in graph.walk())


def only(graph: Graph, kind: type[If | While]) -> Node:
    (node,) = [n for n in graph.walk() if isinstance(n.op, kind)]
    return node


def branch(b: GraphBuilder, condition: Value, yes: Body, no: Body) -> tuple[Value, ...]:
    regions = []
    for body in (yes, no):
        inner = GraphBuilder(b)
        regions.append(inner.finish(body(inner)))
    return b.emit_all(If(tuple(v.type for v in regions[0].outputs)), condition, regions=tuple(regions))


def loop(
    b: GraphBuilder, start: Sequence[Value], goes_on: Callable[[GraphBuilder, list[Value]], Value], trip: Trip
) -> tuple[Value, ...]:
    test, step = GraphBuilder(b), GraphBuilder(b)
    seen, carried = ([region.input(v.type) for v in start] for region in (test, step))
    regions = test.finish([goes_on(test, seen)]), step.finish(trip(step, carried))
    return b.emit_all(While(), *start, regions=regions)


def number(b: GraphBuilder, value: int) -> Value:
    return b.literal(np.array(value))


def next_of(b: GraphBuilder, at: Value) -> Value:
    return compose.with_scalar(b, "add", at, 1)


def below(limit: Value | int) -> Callable[[GraphBuilder, list[Value]], Value]:
    """Whether the first carried value is below a limit."""
    return lambda b, seen: compose.compare(b, "lt", seen[0], number(b, limit) if isinstance(limit, int) else limit)


class Start:
    """A graph with the inputs x f32[3], n i64[] and c bool[]."""

    def __init__(self) -> None:
        self.b = GraphBuilder()
        self.x, self.n, self.c = (self.b.input(t, name) for t, name in ((ROW, "x"), (NUMBER, "n"), (TRUTH, "c")))

    def finish(self, *outputs: Value) -> Graph:
        return self.b.finish(outputs, [f"y{i}" for i in range(len(outputs))])


INPUTS = [[x, np.array(n), np.array(c)] for x, n, c in zip(ROWS, (0, 1, 3), (True, False, True), strict=True)]
INPUTS += [[ROWS[0], np.array(-5), np.array(False)]]


@pytest.mark.parametrize("answer", [True, False])
def test_a_branch_that_constants_choose_takes_the_place_of_the_if(answer: bool) -> None:
    """The results are used in another order; one branch gives what is outside, the other has a weight of its own."""
    s = Start()
    weight = np.array([5, np.nan, 7], np.float32)
    one, two = branch(
        s.b,
        s.b.literal(np.array(answer)),
        lambda b: (compose.binary(b, "mul", s.x, b.weight(ROW, lambda: weight)), s.x),
        lambda b: (s.x, compose.unary(b, "neg", s.x)),
    )
    found = simplified(s.finish(two, one), *INPUTS)
    assert operations(found) == ({"binary": 1} if answer else {"unary": 1})
    assert len(weight_constants(found)) == int(answer)


def test_a_condition_that_small_weights_decide_is_known() -> None:
    """As of a Constant of floats in an ONNX file, which is a weight."""
    s = Start()
    weights = [s.b.weight(TensorType(DType.F32, (1,)), lambda v=v: np.array([v], np.float32)) for v in (0.5, 0.25)]
    total = compose.binary(s.b, "add", *weights)
    condition = compose.reshape(s.b, compose.compare(s.b, "lt", total, weights[0]), ())
    (y,) = branch(s.b, condition, lambda b: [compose.unary(b, "exp", s.x)], lambda b: [compose.unary(b, "neg", s.x)])
    found = simplified(s.finish(y), *INPUTS)
    assert [n.op.attributes() for n in found.nodes] == [{"fn": "neg"}]
    assert not weight_constants(found)


def test_a_condition_that_only_the_run_knows_stays() -> None:
    s = Start()
    (y,) = branch(s.b, s.c, lambda b: [compose.unary(b, "exp", s.x)], lambda b: [s.x])
    graph = s.finish(y)
    assert simplified(graph, *INPUTS) is graph


def test_conditions_are_not_decided_by_functions_that_devices_round_differently() -> None:
    s = Start()
    small = s.b.weight(TensorType(DType.F32, ()), lambda: np.array(0.1, np.float32))
    condition = compose.compare(s.b, "lt", compose.unary(s.b, "exp", small), s.b.literal(np.array(1.1, np.float32)))
    (y,) = branch(s.b, condition, lambda b: [compose.unary(b, "exp", s.x)], lambda b: [s.x])
    assert operations(simplified(s.finish(y), *INPUTS))["if"] == 1


def test_what_is_known_of_a_branch_in_a_branch() -> None:
    """The inner condition is the outer one: each inner If has one branch that never runs."""
    s = Start()

    def inner(b: GraphBuilder) -> list[Value]:
        (y,) = branch(b, s.c, lambda d: [compose.unary(d, "neg", s.x)], lambda d: [compose.unary(d, "exp", s.x)])
        also = compose.select(b, compose.reshape(b, s.c, (1,)), y, s.x)
        return [compose.binary(b, "add", y, also)]

    found = simplified(s.finish(*branch(s.b, s.c, inner, inner)), *INPUTS)
    assert operations(found)["if"] == 1
    assert operations(found)["unary"] == 2


def test_no_branch_yields_what_is_the_same_in_both_or_what_nothing_uses() -> None:
    s = Start()

    def side(fn: str, sign: int) -> Body:
        def body(b: GraphBuilder) -> list[Value]:
            y = compose.unary(b, fn, s.x)
            same = b.literal(np.array([1, np.nan, -0.0], np.float32))
            other = b.literal(np.array([sign * 0.0, 0, 0], np.float32))
            return [compose.unary(b, "tanh", y), y, s.x, same, other, s.c]

        return body

    _, y, x, same, other, c = branch(s.b, s.c, side("neg", 1), side("exp", -1))
    found = simplified(s.finish(other, c, same, x, y), *INPUTS)
    assert only(found, If).op == If((ROW, ROW))  # 0 and -0 are not the same
    assert "tanh" not in str([n.op for n in found.walk()])
    found = simplified(s.finish(same, x), *INPUTS)
    assert not found.nodes


def test_a_branch_in_a_loop_in_a_branch() -> None:
    """Each becomes known once the one around it is: the condition of the innermost is carried, and never changes."""
    s = Start()

    def trip(b: GraphBuilder, carried: list[Value]) -> list[Value]:
        at, flag, v = carried
        (w,) = branch(b, flag, lambda d: [compose.unary(d, "neg", v)], lambda d: [compose.unary(d, "exp", v)])
        return [next_of(b, at), flag, w]

    def outer(b: GraphBuilder) -> list[Value]:
        found = loop(b, [number(b, 0), b.literal(np.array(True)), s.x], below(s.n), trip)
        return [found[2], found[1]]

    y, flag = branch(s.b, s.b.literal(np.array(True)), outer, lambda b: [s.x, s.c])
    found = simplified(s.finish(flag, y), *INPUTS)
    assert operations(found)["if"] == 0
    assert len(only(found, While).inputs) == 2


@pytest.mark.parametrize("first", [5, 6])
def test_a_loop_whose_condition_is_false_at_once_gives_what_it_began_with(first: int) -> None:
    """Also where other carried values are only known at run time, and where the body could not be unrolled."""
    s = Start()
    deep = lambda b, carried: [next_of(b, carried[0]), *[compose.unary(b, "neg", v) for v in carried[:0:-1]]]  # noqa: E731
    start = [number(s.b, first), s.x, compose.unary(s.b, "abs", s.x)]
    _, one, two = loop(s.b, start, below(5), deep)
    found = simplified(s.finish(two, one), *INPUTS)
    assert operations(found) == {"unary": 1}
    assert found.outputs[1] is found.inputs[0]


@pytest.mark.parametrize("trips", [0, 1, 2, 7, 32, 33])
def test_few_trips_are_unrolled(trips: int) -> None:
    """The counter goes through i32, and folds away; 33 are too many."""
    s = Start()

    def trip(b: GraphBuilder, carried: list[Value]) -> list[Value]:
        at, v, w = carried
        return [next_of(b, at), w, compose.binary(b, "add", v, s.x)]

    def goes_on(b: GraphBuilder, seen: list[Value]) -> Value:
        return compose.compare(b, "lt", compose.cast(b, seen[0], DType.I32), b.literal(np.array(trips, np.int32)))

    start = [number(s.b, 0), s.x, compose.unary(s.b, "neg", s.x)]
    at, one, two = loop(s.b, start, goes_on, trip)
    found = simplified(s.finish(at, two, one), *INPUTS)
    assert operations(found)["while"] == (trips > 32)
    if trips <= 32:
        assert operations(found) == Counter(unary=1, binary=trips)
        assert found.constants[found.outputs[0]].load() == trips


def test_a_flag_ends_a_loop_whose_trips_are_counted() -> None:
    """Nothing of the condition but the flag, which a table holds, tells the trips."""
    s = Start()
    table = s.b.literal(np.array([True, True, False, True]))

    def trip(b: GraphBuilder, carried: list[Value]) -> list[Value]:
        from fornaxc.ir.ops import Gather

        at, _, v = carried
        return [next_of(b, at), b.emit(Gather(0), table, at), compose.binary(b, "mul", v, s.x)]

    start = [number(s.b, 0), s.b.literal(np.array(True)), s.x]
    at, going, y = loop(s.b, start, lambda b, seen: seen[1], trip)
    found = simplified(s.finish(y, going, at), *INPUTS)
    assert operations(found) == {"binary": 3}
    assert [found.constants[v].load().item() for v in found.outputs[1:]] == [False, 3]


def test_unrolling_has_bounds() -> None:
    def program(trips: int, nodes: int) -> Graph:
        s = Start()

        def trip(b: GraphBuilder, carried: list[Value]) -> list[Value]:
            v = carried[1]
            for _ in range(nodes - 1):
                v = compose.unary(b, "neg", v)
            return [next_of(b, carried[0]), v]

        return s.finish(loop(s.b, [number(s.b, 0), s.x], below(trips), trip)[1])

    assert operations(simplified(program(1, 500), *INPUTS))["while"] == 0
    assert operations(simplified(program(3, 64), *INPUTS))["while"] == 0
    assert operations(simplified(program(3, 65), *INPUTS))["while"] == 1

    def trip(b: GraphBuilder, carried: list[Value]) -> list[Value]:
        return [next_of(b, carried[0]), compose.unary(b, "exp", compose.unary(b, "neg", carried[1]))]

    s = Start()
    row = s.x
    for _ in range(24):  # each of them would be unrolled; not all together
        _, row = loop(s.b, [number(s.b, 0), row], below(32), trip)
    graph = s.finish(row)
    found = simplify_control(graph)
    check(found)
    assert 0 < operations(found)["while"] < 24
    for arrays in INPUTS:
        np.testing.assert_array_equal(run(found, arrays)[0], run(graph, arrays)[0])


def test_weights_of_a_body_are_there_once() -> None:
    s = Start()
    weight = np.array([1, 2, 3], np.float32)
    trip = lambda b, v: [next_of(b, v[0]), compose.binary(b, "mul", v[1], b.weight(ROW, lambda: weight))]  # noqa: E731
    found = simplified(s.finish(loop(s.b, [number(s.b, 0), s.x], below(4), trip)[1]), *INPUTS)
    assert operations(found) == {"binary": 4}
    assert len(weight_constants(found)) == 1

    def nested(b: GraphBuilder, v: list[Value]) -> list[Value]:
        return [next_of(b, v[0]), *branch(b, s.c, lambda d: [trip(d, v)[1]], lambda d: [v[1]])]

    found = simplified(s.finish(loop(s.b, [number(s.b, 0), s.x], below(4), nested)[1]), *INPUTS)
    assert operations(found)["while"] == 1
    assert len(weight_constants(found)) == 1


def test_what_a_loop_does_not_change_comes_from_outside() -> None:
    """Trips are counted at run time, and may be none: results of such values are what they began with."""
    s = Start()
    bits = np.array([np.nan, -0.0, 1], np.float32)

    def trip(b: GraphBuilder, carried: list[Value]) -> list[Value]:
        at, same, again, equal, _, v = carried
        w = compose.select(b, compose.full_like(b, True, compose.compare(b, "eq", v, v)), v, equal)
        w = compose.binary(b, "add", compose.binary(b, "mul", w, same), compose.binary(b, "max", again, equal))
        return [next_of(b, at), same, s.x, b.literal(bits.copy()), b.literal(np.array(True)), w]

    def goes_on(b: GraphBuilder, seen: list[Value]) -> Value:
        return compose.binary(b, "and", below(s.n)(b, seen), seen[4])

    start = [number(s.b, 0), compose.unary(s.b, "neg", s.x), s.x, s.b.literal(bits), s.b.literal(np.array(True)), s.x]
    found = simplified(s.finish(*reversed(loop(s.b, start, goes_on, trip))), *INPUTS)
    node = only(found, While)
    assert [v.type for v in node.inputs] == [NUMBER, ROW]
    assert found.outputs[3] is found.inputs[0]


@pytest.mark.parametrize("last", [np.array([np.nan, 0.0, 1], np.float32), np.array([np.nan, -0.0, 2], np.float32)])
def test_what_a_loop_changes_even_a_little_is_carried(last: Array) -> None:
    s = Start()
    start = [number(s.b, 0), s.b.literal(np.array([np.nan, -0.0, 1], np.float32))]
    _, y = loop(s.b, start, below(s.n), lambda b, v: [next_of(b, v[0]), b.literal(last)])
    assert len(only(simplified(s.finish(y), *INPUTS), While).inputs) == 2


def products(b: GraphBuilder, trips: Value, x: Value, y: Value, w: Value) -> Value:
    """A loop that multiplies what is outside, of which it has the weights, and what it carries."""

    def trip(d: GraphBuilder, carried: list[Value]) -> list[Value]:
        steady = d.emit(MatMul(), compose.transpose(d, y, (1, 0)), compose.unary(d, "exp", d.weight(w.type, w_content)))
        cheap = compose.unary(d, "neg", steady)
        changing = d.emit(MatMul(), compose.transpose(d, carried[1], (1, 0)), steady)
        stops = d.emit(MatMul(), d.emit(Rebind((3, 3)), x), w)
        total = compose.binary(d, "add", compose.binary(d, "add", cheap, changing), stops)
        return [next_of(d, carried[0]), total]

    def w_content() -> Array:
        return np.array([[1, 2, 3], [4, 5, np.nan], [0, 1, 0]], np.float32)

    return loop(b, [number(b, 0), w], below(trips), trip)[1]


def test_products_that_are_the_same_in_every_trip_are_computed_before_the_loop() -> None:
    """But none of what the loop carries, nor of what is asserted in the loop: without a trip, no run stops."""
    b = GraphBuilder()
    square = TensorType(DType.F32, (3, 3))
    trips, y, w = b.input(NUMBER, "trips"), b.input(square, "y"), b.input(square, "w")
    x = b.input(TensorType(DType.F32, (symbol("n"), 3)), "x")
    graph = b.finish([products(b, trips, x, y, w)], ["z"])
    rng = np.random.default_rng(0)
    y, w, x = (rng.standard_normal((3, 3)).astype(np.float32) for _ in range(3))
    found = simplified(graph, *[[np.array(t), y, w, x] for t in (0, 1, 3)], [np.array(0), y, w, x[:2]])
    assert operations(found) == operations(graph)
    (loop_node,) = [n for n in found.nodes if isinstance(n.op, While)]
    assert [n.op.name for n in found.nodes] == ["transpose", "unary", "mat_mul", "while"]
    assert sorted(n.op.name for n in loop_node.regions[1].nodes) == sorted(
        ["unary", "transpose", "mat_mul", "rebind", "mat_mul", "binary", "binary", "binary"]
    )
    assert len(weight_constants(found)) == 1 and not weight_constants(loop_node.regions[1])


def test_products_leave_loops_in_loops_but_no_branches() -> None:
    b = GraphBuilder()
    square = TensorType(DType.F32, (3, 3))
    trips, c, y = b.input(NUMBER, "trips"), b.input(TRUTH, "c"), b.input(square, "y")

    def inner(d: GraphBuilder, carried: list[Value]) -> list[Value]:
        (z,) = branch(d, c, lambda e: [e.emit(MatMul(), y, compose.unary(e, "neg", y))], lambda e: [y])
        steady = d.emit(MatMul(), y, y)
        return [next_of(d, carried[0]), compose.binary(d, "add", carried[1], compose.binary(d, "mul", z, steady))]

    def outer(d: GraphBuilder, carried: list[Value]) -> list[Value]:
        return [next_of(d, carried[0]), loop(d, [number(d, 0), carried[1]], below(trips), inner)[1]]

    graph = b.finish([loop(b, [number(b, 0), y], below(trips), outer)[1]], ["z"])
    array = np.arange(9, dtype=np.float32).reshape(3, 3)
    found = simplified(graph, *[[np.array(t), np.array(a), array] for t, a in ((0, True), (2, True), (2, False))])
    assert operations(found) == operations(graph)
    assert [n.op.name for n in found.nodes] == ["mat_mul", "while"]


def test_values_that_change_places_are_carried() -> None:
    s = Start()
    start = [number(s.b, 0), s.x, compose.unary(s.b, "neg", s.x)]
    _, one, two = loop(s.b, start, below(s.n), lambda b, v: [next_of(b, v[0]), v[2], v[1]])
    assert len(only(simplified(s.finish(one, two), *INPUTS), While).inputs) == 3
    assert len(only(simplified(s.finish(two), *INPUTS), While).inputs) == 3


def test_what_feeds_only_itself_is_not_carried() -> None:
    """`b` and `c` feed each other and nothing else; `d` decides when the loop ends, though nobody asks for it."""
    s = Start()

    def trip(b: GraphBuilder, carried: list[Value]) -> list[Value]:
        at, one, two, _, v = carried
        still = compose.compare(b, "lt", at, s.n)
        return [
            next_of(b, at),
            compose.binary(b, "add", one, two),
            compose.binary(b, "mul", two, compose.binary(b, "add", one, v)),
            still,
            compose.binary(b, "add", v, s.x),
        ]

    start = [number(s.b, 0), s.x, compose.unary(s.b, "exp", s.x), s.c, s.x]
    _, _, _, _, y = loop(s.b, start, lambda b, seen: seen[3], trip)
    found = simplified(s.finish(y), *INPUTS)
    node = only(found, While)
    assert [v.type for v in node.inputs] == [NUMBER, TRUTH, ROW]
    assert operations(found) == {"while": 1, "binary": 2, "compare": 1}


def test_with_sizes_that_inputs_name_dead_values_go_too() -> None:
    """What is around a body names n, so that no dead node of the body is kept for its sake."""
    b = GraphBuilder()
    n = symbol("n")
    x = b.input(TensorType(DType.F32, (n,)), "x")
    trips = b.input(NUMBER, "trips")

    def trip(d: GraphBuilder, carried: list[Value]) -> list[Value]:
        at, dead, v = carried
        return [next_of(d, at), compose.binary(d, "add", compose.unary(d, "exp", dead), x), compose.unary(d, "neg", v)]

    _, _, y = loop(b, [number(b, 0), x, x], below(trips), trip)
    found = simplified(b.finish([y], ["y"]), *[[ROWS[0], np.array(t)] for t in (0, 1, 4)])
    assert operations(found) == {"while": 1, "compare": 1, "binary": 1, "unary": 1}


def sizes_in_a_body(b: GraphBuilder, x: Value) -> Value:
    """i64[3] of how many elements are not 0, from a value whose size only the run knows."""
    from fornaxc.ir.ops import BroadcastTo

    size = b.fresh_dim()
    b.emit(NonZero(size), x)
    return b.emit(BroadcastTo((3,)), b.emit(Dims((size,))))


def test_bodies_that_name_sizes_are_not_repeated() -> None:
    def program(trips: int) -> Graph:
        s = Start()

        def trip(b: GraphBuilder, carried: list[Value]) -> list[Value]:
            return [next_of(b, carried[0]), compose.binary(b, "add", carried[1], sizes_in_a_body(b, s.x))]

        start = [number(s.b, 0), s.b.literal(np.zeros(3, np.int64))]
        return s.finish(loop(s.b, start, below(trips), trip)[1])

    assert operations(simplified(program(1), *INPUTS))["while"] == 0
    assert operations(simplified(program(2), *INPUTS))["while"] == 1


def test_a_branch_that_gives_a_size_its_name_stays() -> None:
    """Outside, u is the size of the result, whichever branch ran; an unused result may give it as well."""
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (4,)), "x")
    for used in (True, False):
        u = b.fresh_dim()
        y, z = branch(
            b,
            b.literal(np.array(True)),
            lambda d, u=u: [d.emit(Rebind((u,)), compose.slice_axis(d, x, 0, 1, 2)), compose.unary(d, "neg", x)],  # type: ignore[misc]
            lambda d, u=u: [d.emit(Rebind((u,)), x), x],  # type: ignore[misc]
        )
        size = b.emit(Dims((u,)))
        graph = b.finish([y, size] if used else [z, size], ["y", "size"])
        found = simplified(graph, [np.arange(4, dtype=np.float32)])
        assert operations(found)["if"] == 1
        assert len(only(found, If).outputs) == (1 if used else 2)


def test_symbolic_sizes_decide_where_they_do_so_for_all_sizes() -> None:
    b = GraphBuilder()
    n = symbol("n")
    x = b.input(TensorType(DType.F32, (n,)), "x")
    for limit, known in ((-1, True), (3, False)):
        dims = b.emit(Reshape(()), b.emit(Dims((n,))))
        condition = compose.compare(b, "lt", number(b, limit), dims)
        b._known.clear()  # as of nodes that a pass built
        (y,) = branch(b, condition, lambda d: [compose.unary(d, "neg", x)], lambda d: [x])
        found = simplified(b.finish([y], ["y"]), *[[np.arange(k, dtype=np.float32)] for k in (0, 2, 5)])
        assert operations(found)["if"] == (not known)


def test_an_index_out_of_bounds_in_a_branch_that_does_not_run() -> None:
    """Unrolled, the index is known, and nothing reads there."""
    from fornaxc.ir.ops import GatherElements

    s = Start()
    table = s.b.literal(np.array([10, 20, 30]))

    def trip(b: GraphBuilder, carried: list[Value]) -> list[Value]:
        at, total = carried

        def read(d: GraphBuilder) -> list[Value]:
            element = d.emit(GatherElements(0), table, compose.reshape(d, at, (1,)))
            return [compose.binary(d, "add", total, compose.reshape(d, element, ()))]

        short = compose.binary(b, "and", compose.compare(b, "lt", at, number(b, 3)), s.c)
        return [next_of(b, at), *branch(b, short, read, lambda d: [total])]

    found = simplified(s.finish(loop(s.b, [number(s.b, 0), s.n], below(5), trip)[1]), *INPUTS)
    assert operations(found)["while"] == 0


def test_the_origin_of_what_is_inlined_is_kept() -> None:
    from fornaxc.ir.graph import Origin

    s = Start()

    def body(b: GraphBuilder) -> list[Value]:
        b.origin = Origin("inner", "Neg", 18)
        return [compose.unary(b, "neg", s.x)]

    found = simplify_control(s.finish(*branch(s.b, s.b.literal(np.array(True)), body, lambda b: [s.x])))
    assert [str(n.origin) for n in found.nodes] == ["Neg 'inner'"]


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_keep_their_outputs(seed: int) -> None:
    graph = random_program(seed)
    inputs = [random_inputs(10 * seed + i) for i in range(5)]
    found = simplified(graph, *inputs)
    assert operations(found).total() <= operations(graph).total() + loops.UNROLL_NODES * operations(graph)["while"]
    program = prepack(optimize(graph, "cpu"))
    check(program)
    for arrays in inputs:
        for before, after in zip(run(graph, arrays), run(program, arrays), strict=True):
            np.testing.assert_array_equal(before, after)
