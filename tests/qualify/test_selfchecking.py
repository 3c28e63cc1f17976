"""StableHLO modules that check themselves, as cases: with an interpreter in MAX's place, and once with MAX."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("jaxlib")

from fornaxc import api
from fornaxc.qualify.cases import facts_of
from fornaxc.qualify.suites import load_suite

CASE = """
module @NAME {
  func.func public @main() -> tensor<3xTYPE> {
    %0 = call @inputs() : () -> tensor<3xTYPE>
    %1 = call @expected() : () -> tensor<3xTYPE>
    %2 = stablehlo.multiply %0, %0 : tensor<3xTYPE>
    stablehlo.custom_call @check.CHECK(%2, %1) {has_side_effect = true} : (tensor<3xTYPE>, tensor<3xTYPE>) -> ()
    return %2 : tensor<3xTYPE>
  }
  func.func private @inputs() -> tensor<3xTYPE> {
    %0 = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xTYPE>
    return %0 : tensor<3xTYPE>
  }
  func.func private @expected() -> tensor<3xTYPE> {
    %0 = stablehlo.constant dense<[1.0, 4.0, NINE]> : tensor<3xTYPE>
    return %0 : tensor<3xTYPE>
  }
}
"""
CONSTANTS = """
func.func @sum() {
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %1 = stablehlo.add %0, %0 : tensor<2xi32>
  check.expect_eq_const %1, dense<[2, LAST]> : tensor<2xi32>
  func.return
}
"""
REFUSED = """
func.func @main() {
  %0 = stablehlo.constant dense<1.0> : tensor<2xf32>
  %1 = stablehlo.custom_call @my_kernel(%0) : (tensor<2xf32>) -> tensor<2xf32>
  check.expect_eq_const %1, dense<1.0> : tensor<2xf32>
  func.return
}
"""


def case(type: str = "f32", check: str = "expect_eq", nine: str = "9.0") -> str:
    return CASE.replace("TYPE", type).replace("CHECK", check).replace("NINE", nine)


@pytest.fixture
def checks(tmp_path: Path) -> Path:
    """right and wrong squares, a close one that eq would refuse, two modules in one file, one without a check, one refused."""
    folder = tmp_path / "checks"
    (folder / "inner").mkdir(parents=True)
    (folder / "right.mlir").write_text(case())
    (folder / "wrong.mlir").write_text(case(nine="9.000001"))
    (folder / "close.mlir").write_text(case(check="expect_close", nine="9.000001"))
    (folder / "inner" / "two.mlir").write_text(
        CONSTANTS.replace("LAST", "4") + "// -----\n" + CONSTANTS.replace("LAST", "5")
    )
    (folder / "plain.mlir").write_text(case().replace("check.expect_eq", "other"))
    (folder / "refused.mlir").write_text(REFUSED)
    return folder


VERDICTS = {
    "close": "pass",
    "inner/two#0": "pass",
    "inner/two#1": "mismatch",
    "refused": "refused",
    "right": "pass",
    "wrong": "mismatch",
}


@pytest.mark.usefixtures("without_max")
def test_every_check_gets_its_verdict(checks: Path) -> None:
    found = api.qualify(checks, jobs=1)
    assert {r.id: r.verdict for r in found.results} == VERDICTS
    results = {r.id: r for r in found.results}
    assert results["wrong"].reason == "1 of 3 elements differ; at [2] 9, not 9.00000095"
    assert results["inner/two#1"].max_abs == 1
    assert "my_kernel" in results["refused"].reason


def test_what_a_module_is_about(checks: Path) -> None:
    facts = {c.id: facts_of(c) for c in load_suite(str(checks))}
    assert facts["right"].operator == "stablehlo.multiply"
    assert (facts["right"].rank, facts["right"].dtypes, facts["right"].symbolic) == (1, ("f32",), False)
    assert [c.id for c in load_suite(str(checks), ["stablehlo.add"])] == ["inner/two#0", "inner/two#1"]


@pytest.mark.usefixtures("without_max")
def test_inputs_are_not_folded_away(checks: Path, tmp_path: Path) -> None:
    api.qualify(checks, filters=["right"], jobs=1, resume=tmp_path / "state")
    (program,) = (tmp_path / "state").iterdir()
    assert '"mul"' in (program / "graph.json").read_text()
    assert (program / "inputs0.bin").stat().st_size == 12


@pytest.mark.slow
def test_checks_run_on_max(checks: Path, tmp_path: Path) -> None:
    found = api.qualify(checks, jobs=1, cache_dir=tmp_path / "cache")
    assert {r.id: r.verdict for r in found.results} == VERDICTS
