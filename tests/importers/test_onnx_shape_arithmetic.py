"""Arithmetic on shapes stays symbolic: what exporters emit around Reshape, Expand, Slice and Range folds at import."""

from __future__ import annotations

import numpy as np
import pytest
from text_models import graph_of, operations, outputs_of

from fornaxc.errors import UnsupportedError
from fornaxc.ir.binding import ShapeMismatch
from fornaxc.ir.interpreter import run

RUN_TIME = {"dynamic_reshape", "dynamic_broadcast", "strided_slice", "dynamic_range", "rebind", "gather"}


def shapes(graph: object) -> list[str]:
    return [str(v.type) for v in graph.outputs]  # type: ignore[attr-defined]


def test_split_heads_of_symbolic_batch_and_length() -> None:
    graph = graph_of(
        """(float[batch, seq, 12] x) => (float[a, b, c, d] y) {
        s = Shape(x)
        b0 = Gather<axis=0>(s, i0)
        s0 = Gather<axis=0>(s, i1)
        b1 = Unsqueeze(b0, zero)
        s1 = Unsqueeze(s0, zero)
        t = Concat<axis=0>(b1, s1, heads, minus)
        r = Reshape(x, t)
        y = Transpose<perm=[0, 2, 1, 3]>(r)
    }""",
        initializers={
            "i0": np.int64(0),
            "i1": np.int64(1),
            "zero": np.array([0]),
            "heads": np.array([3]),
            "minus": np.array([-1]),
        },
    )
    assert shapes(graph) == ["f32[batch, 3, seq, 4]"]
    assert operations(graph) == {"reshape", "transpose"}


def test_expand_by_where_equal_constant_of_shape() -> None:
    """torch's expand(-1, n, -1): sizes below 0 keep the axis."""
    graph = graph_of(
        """(float[batch, 1, 4] x, float[n] like) => (float[a, b, c] y) {
        n = Shape(like)
        want = Concat<axis=0>(minus, n, minus)
        rank = Shape(want)
        ones = ConstantOfShape<value: tensor = int64[1] {1}>(rank)
        is_minus = Mul(ones, minus)
        same = Equal(want, is_minus)
        sizes = Where(same, ones, want)
        y = Expand(x, sizes)
    }""",
        initializers={"minus": np.array([-1])},
    )
    assert shapes(graph) == ["f32[batch, n, 4]"]
    assert operations(graph) == {"broadcast_to"}


def test_positions_up_to_a_symbolic_length() -> None:
    text = """(float[batch, seq, 2] x) => (int64[a, b] y) {
        s = Shape(x)
        n = Gather<axis=0>(s, i1)
        r = Range(zero, n, one)
        n1 = Unsqueeze(n, axis)
        shape = Concat<axis=0>(one1, n1)
        y = Reshape(r, shape)
    }"""
    constants = {
        "i1": np.int64(1),
        "zero": np.int64(0),
        "one": np.int64(1),
        "one1": np.array([1]),
        "axis": np.array([0]),
    }
    graph = graph_of(text, initializers=constants)
    assert shapes(graph) == ["i64[1, seq]"]
    assert not operations(graph) & RUN_TIME
    assert run(graph, [np.zeros((2, 5, 2), np.float32)])[0].tolist() == [[0, 1, 2, 3, 4]]


def test_a_table_cut_to_a_symbolic_length() -> None:
    """position_ids[:, :seq]; the table must be long enough, which is a condition on the input."""
    text = """(float[batch, seq] x) => (int64[a, b] y) {
        s = Shape(x)
        n = Slice(s, one, two)
        y = Slice(table, zero, n, one)
    }"""
    constants = {"zero": np.array([0]), "one": np.array([1]), "two": np.array([2]), "table": np.arange(100)[None]}
    graph = graph_of(text, initializers=constants)
    assert shapes(graph) == ["i64[1, seq]"]
    assert not operations(graph) & RUN_TIME
    assert run(graph, [np.zeros((2, 3), np.float32)])[0].tolist() == [[0, 1, 2]]
    with pytest.raises(ShapeMismatch, match="100 >= seq"):
        run(graph, [np.zeros((2, 101), np.float32)])


def test_a_mask_for_the_new_part_of_a_cache() -> None:
    """mask[total - seq : total, :total] where total = past + seq."""
    text = """(float[past, 2] cache, float[seq, 2] x) => (float[a, b] y) {
        both = Concat<axis=0>(cache, x)
        bs = Shape<start=0, end=1>(both)
        ss = Shape<start=0, end=1>(x)
        first = Sub(bs, ss)
        rows = Slice(mask, first, bs, zero, one)
        y = Slice(rows, zero, bs, one, one)
    }"""
    mask = np.tril(np.ones((16, 16), np.float32))
    graph = graph_of(text, initializers={"mask": mask, "zero": np.array([0]), "one": np.array([1])})
    assert shapes(graph) == ["f32[seq, past + seq]"]
    assert not operations(graph) & RUN_TIME
    (found,) = run(graph, [np.zeros((3, 2), np.float32), np.zeros((2, 2), np.float32)])
    np.testing.assert_array_equal(found, mask[3:5, :5])


@pytest.mark.parametrize(
    ("start", "end", "shape", "picks"),
    [
        (-1, 2**31 - 1, "f32[1]", slice(-1, None)),
        (-1, 2**63 - 1, "f32[1]", slice(-1, None)),
        (0, 1, "f32[1]", slice(0, 1)),
        (-2, -1, "f32[1]", slice(-2, -1)),
        (1, 2**63 - 1, None, slice(1, None)),
        (0, -1, None, slice(0, -1)),
        (-3, 2**63 - 1, None, slice(-3, None)),
        (0, 4, None, slice(0, 4)),
        (2, 4, None, slice(2, 4)),
        (-4, -2, None, slice(-4, -2)),
        (3, 1, None, slice(3, 1)),
        (-(2**63), 2**63 - 1, None, slice(None)),
    ],
)
@pytest.mark.parametrize("size", [2, 3, 7])
def test_slices_of_a_symbolic_axis(start: int, end: int, shape: str | None, picks: slice, size: int) -> None:
    x = np.arange(size, dtype=np.float32)
    graph = graph_of(
        "(float[n] x) => (float[m] y) { y = Slice(x, s, e) }",
        initializers={"s": np.array([start]), "e": np.array([end])},
    )
    assert shape is None or shapes(graph) == [shape]
    assert "strided_slice" not in operations(graph)
    np.testing.assert_array_equal(run(graph, [x])[0], x[picks])


@pytest.mark.parametrize("step", [2, 3, -1, -2])
def test_steps_over_a_symbolic_axis(step: int) -> None:
    start, end = (0, 2**63 - 1) if step > 0 else (-1, -(2**63))
    for size in (1, 2, 7):
        x = np.arange(size, dtype=np.float32)
        found = outputs_of(
            "(float[n] x) => (float[m] y) { y = Slice(x, s, e, a, t) }",
            x,
            s=np.array([start]),
            e=np.array([end]),
            a=np.array([0]),
            t=np.array([step]),
        )
        np.testing.assert_array_equal(found[0], x[::step])


def test_the_size_left_over_divides_exactly() -> None:
    graph = graph_of(
        "(float[n, 8, m] x) => (float[a, b] y) { y = Reshape(x, s) }", initializers={"s": np.array([-1, 4])}
    )
    assert shapes(graph) == ["f32[2*m*n, 4]"]
    merged = graph_of(
        """(float[n, 8, m] x) => (float[a, b] y) {
        s = Shape(x)
        first = Gather<axis=0>(s, i)
        f = Unsqueeze(first, zero)
        t = Concat<axis=0>(f, minus)
        y = Reshape(x, t)
    }""",
        initializers={"i": np.int64(0), "zero": np.array([0]), "minus": np.array([-1])},
    )
    assert shapes(merged) == ["f32[n, 8*m]"]


def test_halves_of_a_symbolic_axis() -> None:
    graph = graph_of(
        """(float[n, k] x) => (float[a, b] y, float[c, d] z) {
        y, z = Split<axis=1, num_outputs=2>(x)
    }"""
    )
    left, right = run(graph, [np.arange(10, dtype=np.float32).reshape(2, 5)])
    assert left.tolist() == [[0, 1, 2], [5, 6, 7]]
    assert right.tolist() == [[3, 4], [8, 9]]


def test_the_last_token_is_a_gather_at_minus_one() -> None:
    graph = graph_of(
        "(float[batch, seq, 4] x) => (float[a, b] y) { y = Gather<axis=1>(x, i) }", initializers={"i": np.int64(-1)}
    )
    assert shapes(graph) == ["f32[batch, 4]"]
    assert operations(graph) == {"slice", "reshape"}
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(run(graph, [x])[0], x[:, -1])


def test_a_target_known_only_at_run_time() -> None:
    x = np.arange(24, dtype=np.float32)
    (found,) = outputs_of(
        "(float[n] x, int64[3] s) => (float[a, b, c] y) { y = Reshape(x, s) }", x, np.array([2, -1, 4])
    )
    np.testing.assert_array_equal(found, x.reshape(2, 3, 4))
    (kept,) = outputs_of(
        "(float[n, 4] x, int64[2] s) => (float[a, b] y) { y = Reshape(x, s) }", x.reshape(6, 4), np.array([0, -1])
    )
    assert kept.shape == (6, 4)


def test_two_operands_of_different_symbolic_sizes_must_agree() -> None:
    graph = graph_of("(float[n] x, float[m] z) => (float[a] y) { y = Add(x, z) }")
    assert run(graph, [np.ones(3, np.float32), np.ones(3, np.float32)])[0].tolist() == [2, 2, 2]
    with pytest.raises(ShapeMismatch):
        run(graph, [np.ones(3, np.float32), np.ones(2, np.float32)])


def test_a_branch_on_a_known_size_takes_the_nodes_place() -> None:
    text = """(float[n, 1] x) => (float[a] y) {
        s = Shape<start=1, end=2>(x)
        one = Squeeze(s, zero)
        c = Equal(one, size)
        y = If (c) <
            then_branch = squeezed () => (float[p] p) { p = Squeeze(x, axis) },
            else_branch = same () => (float[q, r] q) { q = Identity(x) }
        >
    }"""
    graph = graph_of(text, initializers={"zero": np.array([0]), "size": np.int64(1), "axis": np.array([1])})
    assert shapes(graph) == ["f32[n]"]
    assert operations(graph) == {"reshape"}


def test_sizes_that_depend_on_data_are_refused_where_the_program_needs_them() -> None:
    with pytest.raises(UnsupportedError):
        graph_of("(float[4, 4] x, int64[k] p) => (float y) { y = Reshape(x, p) }")
