"""Comparison fails closed: every way in which outputs and references may not fit is a failure, by the rule that names it."""

from __future__ import annotations

import numpy as np
import pytest

from fornaxc.ir.graph import Array
from fornaxc.verification.compare import compare_outputs, verdict_of
from fornaxc.verification.tolerances import Tolerances

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
        pytest.param(outputs(NAN, 2, 3), outputs(1, NAN, 3), "nan", "in 2 places", id="NaN moved"),
        pytest.param(outputs(NAN, 2, 3), outputs(1, 2, 3), "nan", "in 1 places", id="NaN of ours"),
        pytest.param(outputs(1, 2, 3), outputs(1, NAN, 3), "nan", "in 1 places", id="NaN of the oracle"),
        pytest.param(outputs(NAN, 2, 3), outputs(INF, 2, 3), "nan", "in 1 places", id="NaN for infinity"),
        pytest.param(outputs(1, -INF, 3), outputs(1, INF, 3), "infinity", "in 1 places", id="sign of an infinity"),
        pytest.param(outputs(1, 3.4e38, 3), outputs(1, INF, 3), "infinity", "in 1 places", id="finite for infinity"),
        pytest.param(outputs(1, INF, 3), outputs(1, 3.4e38, 3), "infinity", "in 1 places", id="infinity for finite"),
        pytest.param(outputs(1, 2, 3.5), outputs(1, 2, 3), "tolerance", "1 of 3 elements", id="wrong number"),
        pytest.param(
            outputs(NAN, 9, 3), outputs(NAN, 2, 3), "tolerance", "1 of 3 elements", id="wrong number beside NaN"
        ),
        pytest.param({"y": np.array([3])}, {"y": np.array([2])}, "exact", "1 of 1", id="wrong integer"),
        pytest.param({"y": np.array([2**62 + 1])}, {"y": np.array([2**62])}, "exact", "1 of 1", id="integer past f64"),
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
