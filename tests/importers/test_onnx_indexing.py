"""Slices, gathers, scatters, pads and reshapes with the right values worked out from the ONNX specification."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from text_models import graph_of, outputs_of, result_of

from fornaxc.errors import ModelError, UnsupportedError
from fornaxc.ir.binding import ShapeMismatch
from fornaxc.ir.interpreter import run

F = np.float32


def slice_of(x: np.ndarray[Any, Any], **bounds: list[int]) -> np.ndarray[Any, Any]:
    named = {name: np.array(values, np.int64) for name, values in bounds.items()}
    dims = ", ".join(str(d) for d in x.shape)
    text = f"(float[{dims}] x) => (float[a] y) {{ y = Slice(x, {', '.join(named)}) }}"
    return result_of(text, x, **named)


def test_a_negative_step() -> None:
    assert slice_of(np.arange(10, dtype=F), s=[9], e=[0], a=[0], t=[-3]).tolist() == [9, 6, 3]


def test_negative_steps_on_two_axes() -> None:
    x = np.arange(12, dtype=F).reshape(3, 4)
    found = slice_of(x, s=[-1, 2], e=[-100, -4], a=[0, 1], t=[-2, -1])
    assert found.tolist() == [[10, 9], [2, 1]]


def test_a_negative_step_to_before_the_first_element() -> None:
    x = np.arange(20, dtype=F)
    assert slice_of(x, s=[-1], e=[-21], a=[0], t=[-1]).tolist() == x[::-1].tolist()
    assert slice_of(x, s=[19], e=[-20], a=[0], t=[-1]).tolist() == x[:0:-1].tolist()


def test_a_slice_that_runs_away_from_its_end_is_empty() -> None:
    assert slice_of(np.arange(20, dtype=F), s=[0], e=[5], a=[0], t=[-1]).shape == (0,)


def test_bounds_beyond_the_axis_clamp() -> None:
    assert slice_of(np.arange(4, dtype=F), s=[-9], e=[9], a=[0]).tolist() == [0, 1, 2, 3]
    assert slice_of(np.arange(4, dtype=F), s=[7], e=[9], a=[0]).shape == (0,)


def test_a_step_of_zero_is_invalid() -> None:
    with pytest.raises(ModelError):
        slice_of(np.arange(4, dtype=F), s=[0], e=[4], a=[0], t=[0])


def test_bounds_that_are_inputs() -> None:
    text = "(float[2, 5] x, int64[1] s, int64[1] e, int64[1] t) => (float[a, b] y) { y = Slice(x, s, e, a, t) }"
    x = np.arange(10, dtype=F).reshape(2, 5)
    for start, end, step in ((1, 4, 2), (-2, -100, -1), (-100, 100, 3), (4, 0, -2)):
        found = result_of(text, x, np.array([start]), np.array([end]), np.array([step]), a=np.array([1]))
        np.testing.assert_array_equal(found, x[:, start : (None if step < 0 and end < -5 else end) : step])


@pytest.mark.parametrize("known", [True, False])
def test_negative_indices_count_from_the_end(known: bool) -> None:
    def run(inputs: str, node: str, x: Any, index: Any, *more: Any) -> list[Any]:
        kind = f"int64{list(np.shape(index))}"
        text = f"({inputs}{'' if known else f', {kind} i'}) => (float[a] y) {{ y = {node} }}"
        if known:
            return result_of(text, x, *more, i=np.array(index)).tolist()
        return result_of(text, x, *more, np.array(index)).tolist()

    x = np.arange(6, dtype=F).reshape(2, 3)
    assert run("float[2, 3] x", "Gather<axis=1>(x, i)", x, [-1, 0]) == [[2, 0], [5, 3]]
    assert run("float[2, 3] x", "GatherElements<axis=1>(x, i)", x, [[-1], [-3]]) == [[2], [3]]
    assert run("float[2, 3] x", "GatherND(x, i)", x, [[-1, -2], [0, -1]]) == [4, 2]
    flat, update = np.zeros(4, F), np.array([7, 9], F)
    assert run("float[4] x, float[2] u", "ScatterND(x, i, u)", flat, [[-1], [1]], update) == [0, 9, 0, 7]
    assert run("float[4] x, float[2] u", "ScatterElements(x, i, u)", flat, [-4, 2], update) == [7, 0, 9, 0]


def test_one_hot_of_negative_and_of_missing_indices() -> None:
    text = "(int64[4] x) => (float[a, b] y) { y = OneHot(x, depth, values) }"
    found = result_of(text, np.array([0, -1, 3, -4]), depth=np.int64(3), values=np.array([2, 5], F))
    assert found.tolist() == [[5, 2, 2], [2, 2, 5], [2, 2, 2], [2, 2, 2]]


def test_an_index_outside_of_a_known_axis_is_invalid() -> None:
    with pytest.raises(ModelError):
        graph_of("(float[3] x) => (float y) { y = Gather(x, i) }", initializers={"i": np.int64(3)})
    with pytest.raises(ModelError):
        graph_of("(float[3] x) => (float[b] y) { y = Gather(x, i) }", initializers={"i": np.array([0, -4])})


@pytest.mark.parametrize(("op", "opset"), [("Scatter", 9), ("Scatter", 10), ("ScatterElements", 13)])
def test_scatter_walks_over_the_shape_of_the_indices(op: str, opset: int) -> None:
    x = np.zeros((3, 3), F)
    text = f"(float[3, 3] x, float[2, 2] u) => (float[3, 3] y) {{ y = {op}<axis=1>(x, i, u) }}"
    found = result_of(text, x, np.array([[1, 2], [3, 4]], F), opset=opset, i=np.array([[2, 0], [1, 2]]))
    assert found.tolist() == [[2, 0, 1], [0, 3, 4], [0, 0, 0]]


@pytest.mark.parametrize(
    ("reduction", "expected"), [("add", [9, 6]), ("mul", [24, 5]), ("max", [4, 5]), ("min", [2, 1])]
)
def test_scatter_reductions(reduction: str, expected: list[int]) -> None:
    text = f'(float[2] x, float[3] u) => (float[2] y) {{ y = ScatterElements<reduction="{reduction}">(x, i, u) }}'
    found = result_of(
        text,
        np.array([2, 5], F),
        np.array([4, 3, 1], F),
        i=np.array([0, 0, 1]),
    )
    assert found.tolist() == expected


def test_negative_pads_crop_before_the_others_pad() -> None:
    x = np.ones((1, 1, 4, 4), F)
    text = "(float[1, 1, 4, 4] x) => (float[1, 1, 4, 4] y) { y = Pad(x, p, v) }"
    found = result_of(text, x, p=np.array([0, 0, 4, 1, 0, 0, -4, -1]), v=F(7))
    assert found.shape == (1, 1, 4, 4)
    assert (found == 7).all()


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("constant", [0, 0, 1, 2, 3, 0]),
        ("edge", [1, 1, 1, 2, 3, 3]),
        ("reflect", [3, 2, 1, 2, 3, 2]),
        ("wrap", [2, 3, 1, 2, 3, 1]),
    ],
)
def test_pad_modes(mode: str, expected: list[int]) -> None:
    text = f'(float[2, 3] x) => (float[2, 6] y) {{ y = Pad<mode="{mode}">(x, p, v, a) }}'
    found = result_of(text, np.array([[1, 2, 3]] * 2, F), opset=19, p=np.array([2, 1]), v=F(0), a=np.array([-1]))
    assert found.tolist() == [expected] * 2


def test_reflect_pads_larger_than_the_axis_are_refused() -> None:
    with pytest.raises(UnsupportedError):
        graph_of('(float[3] x) => (float[9] y) { y = Pad<mode="reflect">(x, p) }', initializers={"p": np.array([3, 3])})


def test_reshapes_of_nothing_with_allowzero() -> None:
    text = """(float[0, 8, 2] x) => (float[a, b, c] y) {
        t = Reshape<allowzero=1>(x, s)
        y = Reshape<allowzero=1>(t, z)
    }"""
    found = result_of(text, np.zeros((0, 8, 2), F), s=np.array([4, 2, -1]), z=np.array([0, 0, 4]))
    assert found.shape == (0, 0, 4)


def test_a_zero_in_a_reshape_keeps_the_axis() -> None:
    text = "(float[2, 3, 4] x) => (float[a, b] y) { y = Reshape(x, s) }"
    assert result_of(text, np.zeros((2, 3, 4), F), s=np.array([0, -1])).shape == (2, 12)
    with pytest.raises(ModelError):
        graph_of(text, initializers={"s": np.array([5, -1])})


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("end=-1", [3, 4]),
        ("start=-2", [4, 5]),
        ("start=1, end=2", [4]),
        ("start=-9, end=9", [3, 4, 5]),
        ("start=2, end=1", []),
    ],
)
def test_a_part_of_the_shape(attributes: str, expected: list[int]) -> None:
    text = f"(float[3, 4, 5] x) => (int64[a] y) {{ y = Shape<{attributes}>(x) }}"
    assert result_of(text, np.zeros((3, 4, 5), F)).tolist() == expected


def test_ties_go_to_the_lower_index() -> None:
    text = "(float[6] x) => (float[3] v, int64[3] i) { v, i = TopK<largest=0>(x, k) }"
    values, index = outputs_of(text, np.array([3, 1, 2, 1, 1, 0], F), k=np.array([3]))
    assert (values.tolist(), index.tolist()) == ([0, 1, 1], [5, 1, 3])
    values, index = outputs_of(text.replace("largest=0", "largest=1"), np.array([3, 1, 3, 2, 3, 0], F), k=np.array([3]))
    assert (values.tolist(), index.tolist()) == ([3, 3, 3], [0, 2, 4])


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("exclusive=0", [1, 3, 6]),
        ("exclusive=1", [0, 1, 3]),
        ("reverse=1", [6, 5, 3]),
        ("exclusive=1, reverse=1", [5, 3, 0]),
    ],
)
def test_running_sums(attributes: str, expected: list[int]) -> None:
    text = f"(float[2, 3] x) => (float[2, 3] y) {{ y = CumSum<{attributes}>(x, a) }}"
    assert result_of(text, np.array([[1, 2, 3]] * 2, F), a=np.int32(-1)).tolist() == [expected] * 2


@pytest.mark.parametrize("in_order", [0, 1])
def test_unique_elements(in_order: int) -> None:
    text = f"(float[6] x) => (float[a] y, int64[b] i, int64[c] j, int64[d] n) {{ y, i, j, n = Unique<sorted={in_order}>(x) }}"
    found = [a.tolist() for a in outputs_of(text, np.array([2, 1, 1, 3, 4, 3], F))]
    if in_order:
        assert found == [[1, 2, 3, 4], [1, 0, 3, 4], [1, 0, 0, 2, 3, 2], [2, 1, 2, 1]]
    else:
        assert found == [[2, 1, 3, 4], [0, 1, 3, 4], [0, 1, 1, 2, 3, 2], [1, 2, 2, 1]]


def test_tile_by_repeats_that_are_inputs() -> None:
    text = "(float[2, 1] x, int64[2] r) => (float[a, b] y) { y = Tile(x, r) }"
    x = np.array([[1], [2]], F)
    np.testing.assert_array_equal(result_of(text, x, np.array([2, 3])), np.tile(x, (2, 3)))


def test_an_expand_by_sizes_that_are_inputs() -> None:
    text = "(float[3, 1] x, int64[3] s) => (float[a, b, c] y) { y = Expand(x, s) }"
    x = np.arange(3, dtype=F)[:, None]
    np.testing.assert_array_equal(result_of(text, x, np.array([2, 1, 4])), np.broadcast_to(x, (2, 3, 4)))


def test_depth_columns_and_rows() -> None:
    x = np.arange(8, dtype=F).reshape(1, 8, 1, 1)
    text = '(float[1, 8, 1, 1] x) => (float[1, 2, 2, 2] y) { y = DepthToSpace<blocksize=2, mode="M">(x) }'
    assert result_of(text.replace("M", "DCR"), x, opset=13)[0].tolist() == [[[0, 2], [4, 6]], [[1, 3], [5, 7]]]
    assert result_of(text.replace("M", "CRD"), x, opset=13)[0].tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]


def test_blocks_become_channels_in_either_order() -> None:
    x = np.arange(8, dtype=F).reshape(1, 2, 2, 2)
    text = '(float[1, 2, 2, 2] x) => (float[1, 8, 1, 1] y) { y = SpaceToDepth<blocksize=2, mode="M">(x) }'
    assert result_of(text.replace("M", "DCR"), x, opset=28).reshape(-1).tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    assert result_of(text.replace("M", "CRD"), x, opset=28).reshape(-1).tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_count_of_the_largest_that_is_an_input() -> None:
    text = "(float[2, 4] x, int64[1] k) => (float[a, b] v, int64[c, d] i) { v, i = TopK<axis=0>(x, k) }"
    x = np.array([[1, 5, 2, 2], [4, 0, 2, 3]], F)
    values, index = outputs_of(text, x, np.array([1]))
    assert (values.tolist(), index.tolist()) == ([[4, 5, 2, 3]], [[1, 0, 0, 1]])


def test_equal_parts_of_a_symbolic_axis_are_checked_before_a_run() -> None:
    graph = graph_of("(float[n] x) => (float[a] y, float[b] z) { y, z = Split(x) }", 13)
    assert graph.outputs[0].type == graph.outputs[1].type
    assert [a.tolist() for a in run(graph, [np.arange(4, dtype=F)])] == [[0, 1], [2, 3]]
    with pytest.raises(ShapeMismatch):
        run(graph, [np.arange(5, dtype=F)])
