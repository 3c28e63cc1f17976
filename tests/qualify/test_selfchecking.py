"""StableHLO modules that check themselves, as cases: with an interpreter in MAX's place, and once with MAX."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("jaxlib")

from fornaxc import api
from fornaxc.qualify.cases import facts_of
from fornaxc.qualify.selfchecking import SelfChecking, operations_of, selfchecking_facts
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


@pytest.mark.parametrize(
    ("line", "operations"),
    [
        ("%1 = stablehlo.add %0, %0 : tensor<f32> // not stablehlo.multiply", ["stablehlo.add"]),
        ('%1 = "stablehlo.gather"(%0, %0) <{d = #stablehlo.gather<x>}> : () -> ()', ["stablehlo.gather"]),
        ('%1 = "stablehlo.all_reduce" (%0) ({\n%2 = chlo.erf %3', ["stablehlo.all_reduce", "chlo.erf"]),
        ("%1 = stablehlo.reduce(%0 init: %2) applies stablehlo.add across", ["stablehlo.reduce", "stablehlo.add"]),
        ('%1 = stablehlo.composite "stablehlo.add_n" %0 {decomposition = @n}', ["stablehlo.composite"]),
        ("{dimension_numbers = #stablehlo.conv<raw>, h = #stablehlo.channel_handle<handle = 1>}", []),
        ("stablehlo.custom_call @stablehlo.dynamic_top_k(%0) : () -> !stablehlo.token", ["stablehlo.custom_call"]),
        (
            '"stablehlo.custom_call"() {call_target_name = "chlo.asin", m = "\\22 stablehlo.abs"}',
            ["stablehlo.custom_call"],
        ),
        ('func.call @"stablehlo.f"(%0)', []),
    ],
)
def test_operations_are_those_that_the_text_applies(line: str, operations: list[str]) -> None:
    assert list(operations_of(line)) == operations


@pytest.mark.parametrize(
    ("tensor", "element"),
    [
        ("tensor<2x?xf32>", "f32"),
        ("tensor<complex<f32>>", "complex<f32>"),
        ("tensor<?xi8, #stablehlo.bounds<4>>", "i8"),
        ("tensor<2x!quant.uniform<i8:f32, 0.5:3>>", "!quant.uniform<i8:f32>"),
        ("tensor<2x!quant.uniform<i8<-127:127>:f32:1, {0.5:3, 0.25}>>", "!quant.uniform<i8<-127:127>:f32:1>"),
        ("tensor<4x!quant.uniform<i8:f32:{0:2, 1:2}, {{0.1, 0.2}, {0.3, 0.4}}>>", "!quant.uniform<i8:f32:{0:2, 1:2}>"),
    ],
)
def test_element_types_are_whole(tensor: str, element: str) -> None:
    case = SelfChecking("case", f"stablehlo.abs %0 : {tensor}", Path("case.mlir"))
    assert selfchecking_facts(case).dtypes == (element,)


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
