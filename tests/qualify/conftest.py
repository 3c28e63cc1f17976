"""A suite of five small cases in the backend-test layout."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from backend_case import one_node, write_case


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """right and wrong: the same sum, with expected values that are it, and are not; nan: NaN where a number is expected;
    refused: random numbers; steered: a reshape whose shape is an input."""
    base = tmp_path_factory.mktemp("suite")
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)
    write_case(base / "right", one_node("Add", [a, b], a), [a, b], [a + b])
    off = a + b
    off[1, 2] += 0.5
    write_case(base / "wrong", one_node("Add", [a, b], a), [a, b], [off])
    write_case(base / "nan", one_node("Sqrt", [a], a), [a - 1], [np.sqrt(np.abs(a - 1))])
    write_case(base / "refused", one_node("RandomUniformLike", [a], a), [a], [a])
    shape = np.array([3, 2], np.int64)
    write_case(base / "steered", one_node("Reshape", [a, shape], a.reshape(3, 2)), [a, shape], [a.reshape(3, 2)])
    return base
