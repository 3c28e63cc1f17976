"""Floats of 16 bits that miss the tolerance of a suite pass only where they are no farther from the exact result than the shipped ones."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from backend_case import one_node

from fornaxc.qualify.cases import Case
from fornaxc.qualify.compare import Tolerance, compare
from fornaxc.qualify.exact import closer_than_shipped

WIDE = np.random.default_rng(0).normal(size=(16, 24))


def softmax(x: Any) -> Any:
    grown = np.exp(x - x.max(-1, keepdims=True))
    return grown / grown.sum(-1, keepdims=True)


def case_of(dtype: Any) -> tuple[Case, Any, Any]:
    """A Softmax, its input, and an output that was rounded to `dtype` at every step."""
    x = WIDE.astype(dtype)
    shipped = softmax(x).astype(dtype)
    return Case("softmax", one_node("Softmax", [x], shipped, axis=-1), [([x], [shipped])]), x, shipped


def closer(case: Case, x: Any, found: Any, shipped: Any) -> bool:
    return closer_than_shipped(case, [x], [found], [shipped], Tolerance())


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_one_rounding_at_the_end_beside_a_rounding_at_every_step(dtype: Any) -> None:
    case, x, shipped = case_of(dtype)
    once = softmax(x.astype(np.float64)).astype(dtype)
    assert compare([once], [shipped], Tolerance()).reason
    assert closer(case, x, once, shipped)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_the_worse_of_the_two_is_wrong(dtype: Any) -> None:
    case, x, shipped = case_of(dtype)
    once = softmax(x.astype(np.float64)).astype(dtype)
    assert not closer(case, x, shipped, once)


def test_one_wrong_element_is_wrong() -> None:
    case, x, shipped = case_of(ml_dtypes.bfloat16)
    found = softmax(x.astype(np.float64)).astype(x.dtype)
    found[3, 5] += np.array(0.01, x.dtype)
    assert not closer(case, x, found, shipped)


def test_wider_floats_have_no_second_rule() -> None:
    case, x, _ = case_of(np.float32)
    exact = softmax(x.astype(np.float64)).astype(np.float32)
    assert not closer(case, x, exact, exact * np.float32(1.01))
