"""Lets the tests of this folder import its helpers, and tells each suite which of its cases will run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

collect_ignore_glob = [] if importlib.util.find_spec("max") else ["test_*.py"]


def pytest_collection_finish(session: pytest.Session) -> None:
    for item in session.items:
        suite = getattr(getattr(item, "module", None), "SUITE", None)
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if suite is not None and parameters.get("name") in suite.cases:
            suite.selected.append(parameters["name"])
