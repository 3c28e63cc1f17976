"""The onnx package's own node cases: none gives a wrong value, and exactly the listed ones are refused."""

from __future__ import annotations

from functools import cache

import pytest
from node_cases import VARIANTS, Outcome, expected_refusals, outcomes


@cache
def _outcomes() -> list[Outcome]:
    return list(outcomes())


def test_no_case_gives_a_wrong_value() -> None:
    wrong = [f"{o.case}/{o.variant}: {o.detail}" for o in _outcomes() if o.status == "wrong"]
    assert not wrong, "\n".join(wrong)


def test_the_refused_cases_are_the_listed_ones() -> None:
    refused = {f"{o.case}/{o.variant}" for o in _outcomes() if o.status == "refused"}
    assert refused == set(expected_refusals())


@pytest.mark.parametrize(("variant", "least"), list(zip(VARIANTS, (1500, 850, 1600), strict=True)))
def test_enough_cases_pass(variant: str, least: int) -> None:
    assert sum(o.status == "pass" for o in _outcomes() if o.variant == variant) >= least
