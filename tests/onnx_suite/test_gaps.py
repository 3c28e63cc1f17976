"""The suites of the onnx package, and one of onnxruntime's operators, on this machine's CPU against the lists of known gaps: `make test-onnx`.

Strict in both directions: a case that fails and is not listed, and a listed one that passes, fail the test. Outcomes are remembered in the cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fornaxc import api
from fornaxc.qualify.gaps import read_gaps
from fornaxc.qualify.suites import SUITES

GAPS = Path(__file__).parent / "gaps" / "cpu.toml"
RECORDED = "onnxruntime"


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [False, True], ids=["as_shipped", "frozen"])
@pytest.mark.parametrize("suite", SUITES)
def test_the_suite_is_what_is_listed(suite: str, frozen: bool) -> None:
    found = api.qualify(suite, freeze_shape_inputs=frozen, gaps=GAPS)
    assert found.gaps == []


@pytest.mark.slow
def test_operators_of_onnxruntime_and_of_machine_learning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cases that tests of the importer compare with onnxruntime, on MAX."""
    tests = Path(__file__).parent.parent / "importers"
    files = [tests / "test_onnx_ml.py", *sorted(tests.glob("test_onnx_runtime_*.py"))]
    recording = {**os.environ, "FORNAXC_RECORD_CASES": str(tmp_path / RECORDED)}
    subprocess.run([sys.executable, "-m", "pytest", *files], env=recording, check=True)
    monkeypatch.chdir(tmp_path)
    found = api.qualify(RECORDED, gaps=GAPS)
    assert found.gaps == []


def test_no_listed_gap_is_a_wrong_value() -> None:
    sections = read_gaps(GAPS)
    listed = {f"{suite} {inputs}" for suite in SUITES for inputs in ("run-time", "frozen")}
    assert set(sections) == {*listed, f"{RECORDED} run-time"}
    assert [
        name for cases in sections.values() for name, gap in cases.items() if gap["phase"] in ("mismatch", "run")
    ] == []
    assert all(gap["reason"] for cases in sections.values() for gap in cases.values())
