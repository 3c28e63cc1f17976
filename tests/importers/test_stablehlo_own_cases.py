"""The project's own modules that check themselves, by the importer and the numpy interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("jaxlib")

import stablehlo_cases

from fornaxc.importers.stablehlo.registry import handled
from fornaxc.qualify.selfchecking import selfchecking_cases, selfchecking_facts

CASES = Path(__file__).parents[1] / "stablehlo_suite" / "cases"
FILES = [path.name for path in sorted(CASES.glob("*.mlir")) if path.stem != "dynamic"]  # which has a test of its own
FAMILIES = {
    "batch_norm": {"stablehlo.batch_norm_grad", "stablehlo.batch_norm_inference", "stablehlo.batch_norm_training"},
    "chlo_broadcast": {name for name in handled() if name.startswith("chlo.broadcast_")},
    "collectives": {
        f"stablehlo.{name}"
        for name in ("all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute")
    }
    | {"stablehlo.partition_id", "stablehlo.reduce_scatter", "stablehlo.replica_id"},
}
"""Operations that a file has cases of."""


@pytest.mark.parametrize("name", FILES)
def test_every_module_gives_what_it_expects(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(stablehlo_cases.count(CASES, name)) == {"pass"}, capsys.readouterr().out


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_whole(family: str) -> None:
    cases = [case for case in selfchecking_cases(CASES) if case.path.stem == family]
    assert {name for case in cases for name in selfchecking_facts(case).operators} >= FAMILIES[family]
