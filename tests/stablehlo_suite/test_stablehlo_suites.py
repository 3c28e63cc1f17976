"""StableHLO modules that check themselves, on this machine's CPU: `make test-stablehlo`.

The project's own are in `cases`. FORNAXC_STABLEHLO_CASES names a clone of openxla/stablehlo, or a folder with its `testdata` and
`tests/interpret`, which are checked against the list of known gaps, strictly.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fornaxc import api
from fornaxc.qualify.gaps import read_gaps

HERE = Path(__file__).parent
GAPS = HERE / "gaps" / "cpu.toml"
PROJECT = os.environ.get("FORNAXC_STABLEHLO_CASES", "")
SUITES = {
    "testdata": ("testdata", "stablehlo/testdata"),
    "tests/interpret": ("tests/interpret", "stablehlo/tests/interpret"),
}


@pytest.mark.slow
def test_the_modules_are_what_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)
    found = api.qualify("cases", gaps=GAPS)
    assert found.gaps == []


@pytest.mark.slow
@pytest.mark.skipif(not PROJECT, reason="FORNAXC_STABLEHLO_CASES names no folder")
@pytest.mark.parametrize("suite", SUITES)
def test_the_suite_is_what_is_listed(suite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = next(Path(PROJECT, p) for p in SUITES[suite] if Path(PROJECT, p).is_dir())
    monkeypatch.chdir(str(place).removesuffix(suite))
    found = api.qualify(suite, gaps=GAPS)
    assert found.gaps == []


def test_no_listed_gap_is_a_wrong_value() -> None:
    sections = read_gaps(GAPS)
    assert {"cases run-time", "testdata run-time", "tests/interpret run-time"} <= set(sections)
    assert [n for cases in sections.values() for n, gap in cases.items() if gap["phase"] in ("mismatch", "run")] == []
