"""Suites and their cases: what is read, what is frozen, what a report groups by."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from backend_case import one_node
from onnx import helper

from fornaxc.errors import UsageError
from fornaxc.qualify.cases import Case, facts_of, frozen
from fornaxc.qualify.compare import Tolerance, compare
from fornaxc.qualify.steering import steering_inputs
from fornaxc.qualify.suites import load_suite


def test_a_folder_of_cases(suite: Path) -> None:
    cases = {c.id: c for c in load_suite(str(suite))}
    assert list(cases) == ["nan", "refused", "right", "steered", "wrong"]
    (inputs, outputs) = cases["right"].data[0]
    np.testing.assert_array_equal(inputs[0] + inputs[1], outputs[0])
    assert facts_of(cases["steered"]).to_json() == {
        "operator": "Reshape",
        "operators": ["Reshape"],
        "opset": 17,
        "since": 14,
        "rank": 2,
        "dtypes": ["float", "int64"],
        "symbolic": False,
    }


def test_filters_match_ids_and_operators(suite: Path) -> None:
    assert [c.id for c in load_suite(str(suite), ["Add"])] == ["right", "wrong"]
    assert [c.id for c in load_suite(str(suite), ["r*", "Sqrt"], 2)] == ["nan", "refused"]


@pytest.mark.parametrize(
    ("name", "filters", "code"), [("onnx:nodes", (), "FX240"), ("nowhere", (), "FX240"), ("", ("None*",), "FX241")]
)
def test_what_is_no_suite(suite: Path, name: str, filters: tuple[str, ...], code: str) -> None:
    with pytest.raises(UsageError) as raised:
        load_suite(name or str(suite), filters)
    assert raised.value.code == code


def test_suites_of_the_onnx_package() -> None:
    assert len(load_suite("onnx:pytorch-converted", limit=5)) == 5
    assert [c.id for c in load_suite("onnx:simple", ["test_expand_shape_model1"])] == ["test_expand_shape_model1"]


def test_freezing_takes_what_steers_and_nothing_else() -> None:
    a, shape = np.zeros((2, 3), np.float32), np.array([3, 2])
    case = Case("c", one_node("Reshape", [a, shape], a.reshape(3, 2)), [([a, shape], [a.reshape(3, 2)])])
    posed = frozen(case)
    assert [i.name for i in posed.model.graph.input] == ["x0"]
    assert [i.name for i in posed.model.graph.initializer] == ["x1"]
    assert len(posed.data[0][0]) == 1
    assert len(case.model.graph.input) == 2
    index = np.array([1, 0])
    gather = Case("g", one_node("Gather", [a, index], a), [([a, index], [a])])
    assert frozen(gather) is gather


def test_steering_goes_through_shape_arithmetic_and_not_through_shapes() -> None:
    infos = [helper.make_tensor_value_info(n, 1, [2]) for n in ("x", "like", "n")]
    nodes = [
        helper.make_node("Shape", ["like"], ["s"]),
        helper.make_node("Cast", ["n"], ["k"], to=7),
        helper.make_node("Mul", ["s", "k"], ["m"]),
        helper.make_node("Expand", ["x", "m"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", infos, [helper.make_tensor_value_info("y", 1, None)])
    assert steering_inputs(graph) == ["n"]


def test_steering_goes_through_branches_and_parts() -> None:
    infos = [helper.make_tensor_value_info(n, 1, [2]) for n in ("x", "c", "n", "m")]
    other = helper.make_graph(
        [helper.make_node("Identity", ["m"], ["own"])], "b", [], [helper.make_tensor_value_info("own", 7, [1])]
    )
    outer = helper.make_graph([], "a", [], [helper.make_tensor_value_info("first", 7, [1])])
    nodes = [
        helper.make_node("Split", ["n"], ["first", "second"], axis=0),
        helper.make_node("If", ["c"], ["one"], then_branch=outer, else_branch=other),
        helper.make_node("Concat", ["one", "second"], ["s"], axis=0),
        helper.make_node("Expand", ["x", "s"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", infos, [helper.make_tensor_value_info("y", 1, None)])
    assert steering_inputs(graph) == ["n", "m"]


def test_data_sets_that_disagree_are_not_frozen() -> None:
    a, one, two = np.zeros((2, 3), np.float32), np.array([3, 2]), np.array([6, 1])
    model = one_node("Reshape", [a, one], a.reshape(3, 2))
    case = Case("c", model, [([a, one], [a.reshape(3, 2)]), ([a, two], [a.reshape(6, 1)])])
    assert frozen(case) is case


F = np.array([1.0, np.nan, np.inf, 0.0], np.float32)


@pytest.mark.parametrize(
    ("found", "expected", "reason"),
    [
        (F, F, ""),
        (F * np.float32(1.0005), F, ""),
        (F * np.float32(1.01), F, "1 of 4 elements differ"),
        (-F, F, "another infinity, or one on one side only, in 1 place; at [2] -inf, not inf"),
        (
            np.nan_to_num(F),
            F,
            "NaN on one side only (0 in the output, 1 in the reference), in 1 place; at [1] 0, not nan",
        ),
        (F.astype(np.float64), F, "element type"),
        (F[:, None], F, "shape"),
        (np.array([300]), np.array([301]), "1 of 1 elements differ; at [0] 300, not 301"),
        (np.array([True]), np.array([False]), "1 of 1"),
        (np.zeros((0, 2)), np.zeros((0, 2)), ""),
    ],
)
def test_comparison_is_strict(found: np.ndarray, expected: np.ndarray, reason: str) -> None:
    told = compare([found], [expected], Tolerance()).reason
    assert told == "" if reason == "" else reason in told


def test_comparison_counts_outputs() -> None:
    assert compare([F], [F, F], Tolerance()).reason == "1 outputs, not 2"
    assert compare([F], [F], Tolerance()).max_abs == 0
