"""A suite of five small cases in the backend-test layout."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from backend_case import one_node, write_case

from fornaxc.qualify import programs


@pytest.fixture
def without_max(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Programs run in numpy, in processes of their own; tables are wide."""
    monkeypatch.setattr(programs, "CHILD", "fake_module")
    here = Path(__file__).parent
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(here), str(here.parents[1])]))
    monkeypatch.setenv("FORNAXC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "160")


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
