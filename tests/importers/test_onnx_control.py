"""If, Loop and Scan: unrolled, inlined, and as regions; with captured, shadowed and passed-through names."""

from __future__ import annotations

import logging

import numpy as np
import onnx
import pytest
from text_models import graph_of, operations, outputs_of, result_of

from fornaxc.errors import UnsupportedError
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import IrError

F = np.float32

LOOP = """(float[2] x, int64 trips) => (float[2] last, float[n, 2] all) {
    last, all = Loop (trips, yes, x) <
        body = step (int64 i, bool go, float[2] v) => (bool more, float[2] w, float[2] kept) {
            more = Identity(go)
            k = Cast<to=1>(i)
            w = Add(v, k)
            kept = Mul(v, x)
        }
    >
}"""


def reference(x: np.ndarray, trips: int) -> tuple[list[float], list[list[float]]]:  # type: ignore[type-arg]
    v, kept = x.copy(), []
    for i in range(trips):
        kept.append((v * x).tolist())
        v = v + i
    return v.tolist(), kept


@pytest.mark.parametrize("trips", [1, 3, 40])
def test_a_counted_loop_that_captures_an_input(trips: int) -> None:
    x = np.array([1, 2], F)
    text = LOOP.replace(", int64 trips)", ")")
    graph = graph_of(text, initializers={"trips": np.int64(trips), "yes": np.array(True)})
    assert ("while" in operations(graph)) == (trips > 32)
    last, kept = run(graph, [x])
    assert (last.tolist(), kept.tolist()) == reference(x, trips)


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_a_loop_whose_count_is_an_input(trips: int) -> None:
    x = np.array([1, 2], F)
    last, kept = outputs_of(LOOP, x, np.int64(trips), yes=np.array(True))
    assert last.tolist() == reference(x, trips)[0]
    assert kept.shape == (trips, 2)
    assert kept.tolist() == reference(x, trips)[1]


def test_a_loop_that_a_condition_ends() -> None:
    text = """(float x) => (float y, float[n] seen) {
        y, seen = Loop (most, yes, x) <
            body = step (int64 i, bool go, float v) => (bool more, float w, float kept) {
                w = Add(v, v)
                more = Less(w, limit)
                kept = Identity(w)
            }
        >
    }"""
    constants = {"most": np.int64(100), "yes": np.array(True), "limit": F(20)}
    last, seen = outputs_of(text, F(3), **constants)
    assert (last, seen.tolist()) == (24, [6, 12, 24])
    constants["most"] = np.int64(2)
    last, seen = outputs_of(text, F(3), **constants)
    assert (last, seen.tolist()) == (12, [6, 12])
    constants["yes"] = np.array(False)
    last, seen = outputs_of(text, F(3), **constants)
    assert (last, seen.tolist()) == (3, [])


def test_a_loop_over_a_symbolic_axis_fills_a_result_of_its_size() -> None:
    text = """(float[n, 2] x) => (float[m, 2] y) {
        s = Shape<end=1>(x)
        trips = Squeeze(s, zero)
        y = Loop (trips, yes) <
            body = step (int64 i, bool go) => (bool more, float[2] row) {
                more = Identity(go)
                row = Gather<axis=0>(x, i)
            }
        >
    }"""
    graph = graph_of(text, initializers={"zero": np.array([0]), "yes": np.array(True)})
    assert [str(v.type) for v in graph.outputs] == ["f32[n, 2]"]
    x = np.arange(8, dtype=F).reshape(4, 2)
    np.testing.assert_array_equal(run(graph, [x])[0], x)


def test_a_carried_value_that_grows_is_unrolled_or_refused() -> None:
    text = """(float[1] x) => (float[m] y) {
        y = Loop (trips, yes, x) <
            body = step (int64 i, bool go, float[k] v) => (bool more, float[l] w) {
                more = Identity(go)
                w = Concat<axis=0>(v, x)
            }
        >
    }"""
    assert result_of(text, np.array([7], F), trips=np.int64(3), yes=np.array(True)).tolist() == [7, 7, 7, 7]
    assert result_of(text, np.array([7], F), trips=np.int64(40), yes=np.array(True)).tolist() == [7] * 41
    with pytest.raises(UnsupportedError):
        graph_of(text, initializers={"trips": np.int64(1000), "yes": np.array(True)})


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_a_collected_result_has_the_size_that_the_body_declares(trips: int) -> None:
    """What a slice with computed bounds leaves is not known; the body says that it is one element."""
    text = """(int64 trips, bool go, float[1] start) => (float[1] last, float[n, 1] all) {
        last, all = Loop (trips, go, start) <
            body = step (int64 i, bool going, float[1] v) => (bool more, float[1] w, float[1] kept) {
                more = Identity(going)
                first = Unsqueeze(i, zero)
                next = Add(first, one)
                element = Slice(data, first, next)
                w = Add(v, element)
                kept = Identity(w)
            }
        >
    }"""
    constants = {"zero": np.array([0]), "one": np.array([1]), "data": np.array([1, 2, 3, 4, 5], F)}
    last, kept = outputs_of(text, np.int64(trips), np.array(True), np.array([-2], F), **constants)
    sums = -2 + np.cumsum([1, 2, 3, 4, 5][:trips])
    assert last.tolist() == [sums[-1] if trips else -2]
    assert kept.reshape(-1).tolist() == sums.tolist()
    assert kept.shape == (trips, 1)


@pytest.mark.parametrize("axis", ["3", "40", "n"])
def test_a_scan_that_captures_and_shadows(axis: str) -> None:
    """`scale` and `x` are of the graph around; the `e` of the body is not that of the graph."""
    text = f"""(float[2] x, float[{axis}] seen, float[1] e) => (float[2] last, float[k, 2] sums, float[1] out) {{
        last, sums = Scan <num_scan_inputs=1,
            body = step (float[2] s, float e) => (float[2] t, float[2] kept) {{
                moved = Mul(x, e)
                scaled = Mul(moved, scale)
                t = Add(s, scaled)
                kept = Identity(t)
            }}
        > (x, seen)
        out = Neg(e)
    }}"""
    x, seen, e = np.array([1, 2], F), np.arange(40 if axis == "40" else 3, dtype=F), np.array([9], F)
    last, sums, out = outputs_of(text, x, seen, e, scale=F(10))
    wanted = x + 10 * np.cumsum(seen)[:, None] * x
    np.testing.assert_array_equal(sums, wanted)
    np.testing.assert_array_equal(last, wanted[-1])
    assert out.tolist() == [-9]


@pytest.mark.parametrize("axis", ["3", "n"])
@pytest.mark.parametrize("backward", [0, 1])
def test_scans_in_both_directions(axis: str, backward: int) -> None:
    text = f"""(float[2] start, float[2, {axis}] x) => (float[2] last, float[2, k] sums) {{
        last, sums = Scan <num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[-1],
            scan_input_directions=[{backward}], scan_output_directions=[{backward}],
            body = step (float[2] s, float[2] e) => (float[2] t, float[2] out) {{
                t = Add(s, e)
                out = Identity(t)
            }}
        > (start, x)
    }}"""
    x = np.array([[1, 2, 3], [10, 20, 30]], F)
    last, sums = outputs_of(text, np.array([100, 200], F), x)
    assert last.tolist() == [106, 260]
    wanted = np.cumsum(x[:, ::-1], axis=1)[:, ::-1] if backward else np.cumsum(x, axis=1)
    np.testing.assert_array_equal(sums, wanted + np.array([[100], [200]], F))


BRANCHES = """(bool c, float[2] x) => (float[2] y) {
    y = If (c) <
        then_branch = outer () => (float[2] p) { p = Identity(x) },
        else_branch = own () => (float[2] z) { z = Add(x, only_here) }
    >
}"""


@pytest.mark.parametrize("answer", [True, False])
def test_a_branch_that_returns_an_outer_value(answer: bool) -> None:
    x = np.array([1, 2], F)
    found = result_of(BRANCHES, np.array(answer), x, only_here=np.array([5], F))
    assert found.tolist() == ([1, 2] if answer else [6, 7])


@pytest.mark.parametrize("answer", [True, False])
def test_an_initializer_of_a_branch(answer: bool) -> None:
    """Each branch has a `k` of its own, and so has the graph around."""
    text = """(bool c, float[2] x) => (float[2] y, float[2] z) {
        y = If (c) <
            then_branch = more () => (float[2] p) <float[2] k = {5, 6}> { p = Add(x, k) },
            else_branch = times () => (float[2] q) <float[1] k = {3}> { q = Mul(x, k) }
        >
        z = Sub(x, k)
    }"""
    y, z = outputs_of(text, np.array(answer), np.array([1, 2], F), k=F(1))
    assert (y.tolist(), z.tolist()) == ([6, 8] if answer else [3, 6], [0, 1])


def test_an_inner_name_hides_an_outer_one() -> None:
    text = """(float[2] x, float[2] v) => (float[2] y, float[2] z) {
        y = Loop (trips, yes, x) <
            body = step (int64 i, bool go, float[2] v) => (bool more, float[2] w) {
                more = Identity(go)
                w = Add(v, one)
            }
        >
        z = Identity(v)
    }"""
    y, z = outputs_of(text, np.array([1, 2], F), np.array([8, 9], F), trips=np.int64(2), yes=np.array(True), one=F(1))
    assert (y.tolist(), z.tolist()) == ([3, 4], [8, 9])


def test_branches_of_different_sizes() -> None:
    text = """(bool c, float[4] x) => (float[n] y) {
        y = If (c) <
            then_branch = half () => (float[2] p) { p = Slice(x, zero, two) },
            else_branch = all () => (float[4] q) { q = Neg(x) }
        >
    }"""
    x = np.arange(4, dtype=F)
    constants = {"zero": np.array([0]), "two": np.array([2])}
    assert result_of(text, np.array(True), x, **constants).tolist() == [0, 1]
    assert result_of(text, np.array(False), x, **constants).tolist() == [0, -1, -2, -3]


def test_what_a_branch_cannot_do_names_the_node_inside() -> None:
    text = """(bool c, float[4] x) => (float[4] y) {
        y = If (c) <
            then_branch = one () => (float[4] p) { p = Bernoulli(x) },
            else_branch = two () => (float[4] q) { q = Neg(x) }
        >
    }"""
    with pytest.raises(UnsupportedError) as caught:
        graph_of(text)
    assert "Bernoulli" in {detail["op"] for detail in caught.value.details}


@pytest.mark.parametrize("kind", ["float", "int64", "bool", "float16"])
@pytest.mark.parametrize("first", [True, False])
def test_a_branch_for_other_sizes_stops_the_run(kind: str, first: bool, caplog: pytest.LogCaptureFixture) -> None:
    to = onnx.TensorProto.DataType.Value(kind.upper())
    fits = f"fits () => ({kind}[2, 3] p) {{ m = Neg(x)\n p = Cast<to={to}>(m) }}"
    broken = f"does_not () => ({kind}[2, 3] q) {{ m = MatMul(x, w)\n q = Cast<to={to}>(m) }}"
    yes, no = (broken, fits) if first else (fits, broken)
    text = f"""(float[2, 3] x, bool c) => ({kind}[2, 3] y) {{
        y = If (c) < then_branch = {yes}, else_branch = {no} >
    }}"""
    w = np.zeros((4, 5), np.float32)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    with caplog.at_level(logging.WARNING):
        y = result_of(text, x, np.array(not first), w=w)
    assert ("then_branch" if first else "else_branch") in caplog.text and "MatMul" in caplog.text
    np.testing.assert_array_equal(y, (-x).astype(y.dtype))
    with pytest.raises((IrError, ValueError)):
        result_of(text, x, np.array(first), w=w)


def test_a_branch_for_other_sizes_beside_a_result_of_unknown_size() -> None:
    text = """(float[2, 3] x, bool c) => (int64[2, k] y) {
        y = If (c) <
            then_branch = fits () => (int64[2, k] p) { p = NonZero(x) },
            else_branch = does_not () => (int64[2, k] q) { m = MatMul(x, w)\n q = NonZero(m) }
        >
    }"""
    w = np.zeros((4, 5), np.float32)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(result_of(text, x, np.array(True), w=w), np.array(np.nonzero(x)))
    with pytest.raises((IrError, ValueError)):
        result_of(text, x, np.array(False), w=w)
