"""Comparison fails closed: every way in which outputs and references may not fit is a failure, by the rule that names it."""

from __future__ import annotations

import numpy as np
import pytest

from fornaxc.ir.graph import Array
from fornaxc.verification.compare import compare_outputs, verdict_of, without_numbers
from fornaxc.verification.tolerances import Stated, Tolerances

Y = np.array([1.0, 2.0, 3.0], np.float32)
NAN, INF = np.float32(np.nan), np.float32(np.inf)


def outputs(*values: float) -> dict[str, Array]:
    return {"y": np.array(values, np.float32)}


@pytest.mark.parametrize(
    ("given", "references", "rule", "says"),
    [
        pytest.param({}, {"y": Y}, "presence", "missing", id="missing output"),
        pytest.param({"y": Y, "z": Y}, {"y": Y}, "presence", "no such output", id="extra output"),
        pytest.param({"y": Y.astype(np.float64)}, {"y": Y}, "dtype", "float64, not float32", id="wrong dtype"),
        pytest.param({"y": Y[None]}, {"y": Y}, "shape", "[1, 3], not [3]", id="wrong shape of as many elements"),
        pytest.param({"y": Y[:1]}, {"y": Y}, "shape", "[1], not [3]", id="a shape that would broadcast"),
        pytest.param({"y": Y[:0]}, {"y": Y}, "shape", "[0], not [3]", id="no elements where there are some"),
        pytest.param(
            outputs(NAN, 2, 3),
            outputs(1, NAN, 3),
            "nan",
            "(1 in the output, 1 in the reference), in 2 places",
            id="NaN moved",
        ),
        pytest.param(outputs(NAN, 2, 3), outputs(1, 2, 3), "nan", "in 1 place", id="NaN of ours"),
        pytest.param(outputs(1, 2, 3), outputs(1, NAN, 3), "nan", "in 1 place", id="NaN of the oracle"),
        pytest.param(outputs(NAN, 2, 3), outputs(INF, 2, 3), "nan", "in 1 place", id="NaN for infinity"),
        pytest.param(outputs(1, -INF, 3), outputs(1, INF, 3), "infinity", "in 1 place", id="sign of an infinity"),
        pytest.param(outputs(1, 3.4e38, 3), outputs(1, INF, 3), "infinity", "in 1 place", id="finite for infinity"),
        pytest.param(outputs(1, INF, 3), outputs(1, 3.4e38, 3), "infinity", "in 1 place", id="infinity for finite"),
        pytest.param(outputs(1, 2, 3.5), outputs(1, 2, 3), "tolerance", "1 of 3 elements", id="wrong number"),
        pytest.param(
            outputs(NAN, 9, 3), outputs(NAN, 2, 3), "tolerance", "1 of 3 elements", id="wrong number beside NaN"
        ),
        pytest.param({"y": np.array([3])}, {"y": np.array([2])}, "exact", "1 of 1", id="wrong integer"),
        pytest.param({"y": np.array([2**62 + 1])}, {"y": np.array([2**62])}, "exact", "1 of 1", id="integer past f64"),
        pytest.param(
            {"y": np.array([2**64 - 1], np.uint64)}, {"y": np.array([0], np.uint64)}, "exact", "1 of 1", id="uint64"
        ),
        pytest.param({"y": np.array([True])}, {"y": np.array([False])}, "exact", "1 of 1", id="wrong bool"),
    ],
)
def test_what_does_not_fit_fails(given: dict[str, Array], references: dict[str, Array], rule: str, says: str) -> None:
    rows = compare_outputs(given, references)
    failed = [row for row in rows if row.verdict == "fail"]
    assert [row.rule for row in failed] == [rule] and says in failed[0].reason
    assert verdict_of(rows) == "fail"
    assert failed[0].to_json()["rule"] == rule


@pytest.mark.parametrize("wide", [{"rtol": 1e30}, {"atol": 1e30}])
def test_no_tolerance_moves_nan_or_infinity(wide: dict[str, float]) -> None:
    for given, wanted in ((outputs(NAN, 2), outputs(1, 2)), (outputs(-INF, 2), outputs(INF, 2))):
        assert verdict_of(compare_outputs(given, wanted, Tolerances(**wide))) == "fail"


def test_nothing_compared_is_a_failure() -> None:
    assert verdict_of(compare_outputs({}, {})) == "fail"
    rows = compare_outputs({"y": Y[:0]}, {"y": Y[:0]})
    assert [(row.verdict, row.rule) for row in rows] == [("empty", "empty")]
    assert verdict_of(rows) == "fail"


def test_an_empty_output_beside_one_that_agrees() -> None:
    rows = compare_outputs({"y": Y, "z": Y[:0]}, {"y": Y, "z": Y[:0]})
    assert [row.verdict for row in rows] == ["pass", "empty"] and verdict_of(rows) == "pass"


def test_one_wrong_output_among_many_fails() -> None:
    given = {f"y{i}": Y for i in range(20)}
    assert verdict_of(compare_outputs({**given, "y7": Y + 1}, given)) == "fail"


def test_what_agrees_passes_by_the_rule_that_says_so() -> None:
    same = {"f": np.array([NAN, INF, -INF, 1]), "i": np.array([1, 2])}
    assert [(r.verdict, r.rule) for r in compare_outputs(same, same)] == [("pass", "tolerance"), ("pass", "exact")]


@pytest.mark.parametrize(
    ("value", "reference", "distance"),
    [
        (np.array([2**62 + 1]), np.array([2**62]), 1),
        (np.array([-(2**63)]), np.array([2**63 - 1]), 2**64 - 1),
        (np.array([2**64 - 1], np.uint64), np.array([1], np.uint64), 2**64 - 2),
        (np.array([200], np.uint8), np.array([3], np.uint8), 197),
        (np.array([True]), np.array([False]), 1),
    ],
)
def test_the_difference_of_integers_is_exact(value: Array, reference: Array, distance: int) -> None:
    for pair in ((value, reference), (reference, value)):
        (row,) = compare_outputs({"y": pair[0]}, {"y": pair[1]})
        assert (row.max_ulp, row.verdict) == (distance, "fail")
        assert (row.worst_value, row.worst_reference) == (int(pair[0][0]), int(pair[1][0]))


def test_a_tolerance_of_integers_is_not_scaled_and_the_worst_element_is_one_that_fails() -> None:
    wanted = np.array([255, 0, 100], np.uint8)
    stated = Tolerances(stated={"y": Stated("t.toml: r", atol=1)})
    assert verdict_of(compare_outputs({"y": wanted - np.array([1, 0, 1], np.uint8)}, {"y": wanted}, stated)) == "pass"
    (row,) = compare_outputs({"y": np.array([253, 0, 100], np.uint8)}, {"y": wanted}, stated)
    assert (row.verdict, row.worst_index) == ("fail", (0,))
    relative = Tolerances(stated={"y": Stated("t.toml: r", rtol=0.1)})
    (row,) = compare_outputs({"y": np.array([245, 3, 100], np.uint8)}, {"y": wanted}, relative)
    assert (row.verdict, row.worst_index) == ("fail", (1,))


@pytest.mark.parametrize("wide", [{"rtol": 1e30}, {"atol": 1e30}])
@pytest.mark.parametrize("wrong", [np.array([7]), np.array([True])])
def test_tolerances_of_the_command_line_are_for_floats(wrong: Array, wide: dict[str, float]) -> None:
    assert verdict_of(compare_outputs({"y": wrong}, {"y": np.zeros_like(wrong)}, Tolerances(**wide))) == "fail"


def test_a_pass_without_a_finite_element_says_so() -> None:
    every = {"y": np.array([NAN, INF, -INF], np.float32), "z": np.array([NAN, 1], np.float32)}
    rows = compare_outputs(every, every, sample="edge nan")
    assert [(row.verdict, row.reason) for row in rows] == [("pass", "no finite element was compared"), ("pass", "")]
    assert without_numbers([*rows, *rows]) == ["of output 'y' no finite element was compared on: edge nan"]
    assert without_numbers(compare_outputs({"y": Y}, {"y": Y})) == []
    moved = {**every, "y": every["y"][::-1].copy()}
    assert compare_outputs(moved, every)[0].verdict == "fail"
