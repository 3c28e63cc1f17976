"""StableHLO's interpreter as an oracle, alone and beside another. Nothing here needs MAX."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jaxlib")

from fornaxc.importers.stablehlo.importer import import_stablehlo
from fornaxc.importers.stablehlo.placement import IDENTITY_CALLS
from fornaxc.ir.graph import Array
from fornaxc.sources import Choice
from fornaxc.verification import stablehlo_oracle
from fornaxc.verification.oracle import OracleRefused, Reference
from fornaxc.verification.oracle_of import oracle_of
from fornaxc.verification.several import SeveralOracles
from fornaxc.verification.stablehlo_oracle import InterpreterOracle

MODULE = """
module @m attributes {jax.uses_shape_polymorphism = true} {
  sdy.mesh @mesh = <["d"=1]>
  func.func public @other(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = call @main(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func public @rows(%x: tensor<?x2xf32>, %w: tensor<2xf32>) -> tensor<?x2xf32> {
    %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x2xf32>) -> tensor<i32>
    %1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
    %2 = stablehlo.constant dense<2> : tensor<1xi32>
    %3 = stablehlo.concatenate %1, %2, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %4 = stablehlo.dynamic_broadcast_in_dim %w, %3, dims = [1] : (tensor<2xf32>, tensor<2xi32>) -> tensor<?x2xf32>
    %5 = chlo.erf %4 : tensor<?x2xf32> -> tensor<?x2xf32>
    %6 = stablehlo.add %x, %5 : tensor<?x2xf32>
    return %6 : tensor<?x2xf32>
  }
  func.func public @spin(%z: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
    %0 = stablehlo.multiply %z, %z : tensor<2xcomplex<f32>>
    return %0 : tensor<2xcomplex<f32>>
  }
  func.func public @kernel(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.custom_call @unknown_thing(%x) : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func public @placed(%x: tensor<2xf32>) -> tensor<2xf32> {
    CALLS
    %s = sdy.sharding_constraint %x <@mesh, [{"d"}]> : tensor<2xf32>
    %r = sdy.reshard %s <@mesh, [{}]> : tensor<2xf32>
    %b = sdy.propagation_barrier %r allowed_direction=BACKWARD : tensor<2xf32>
    sdy.sharding_group %b group_id=1 : tensor<2xf32>
    %y = stablehlo.add %b, %last : tensor<2xf32>
    return %y : tensor<2xf32>
  }
  func.func public @platforms(%i: tensor<i32> {jax.global_constant = "_platform_index"}, %x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = "stablehlo.case"(%i) ({
      %1 = stablehlo.custom_call @cublas_double(%x) : (tensor<2xf32>) -> tensor<2xf32>
      stablehlo.return %1 : tensor<2xf32>
    }, {
      %1 = stablehlo.add %x, %x : tensor<2xf32>
      stablehlo.return %1 : tensor<2xf32>
    }) : (tensor<i32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func public @scalars(%b: tensor<i1>, %h: tensor<3xbf16>, %n: tensor<i8>) -> (tensor<i1>, tensor<3xbf16>, tensor<i8>) {
    %0 = stablehlo.not %b : tensor<i1>
    %1 = stablehlo.negate %h : tensor<3xbf16>
    %2 = stablehlo.negate %n : tensor<i8>
    return %0, %1, %2 : tensor<i1>, tensor<3xbf16>, tensor<i8>
  }
}
"""
CALLS = [
    f'stablehlo.custom_call @"{target}"(%x) : (tensor<2xf32>) -> tensor<2xf32>' for target in sorted(IDENTITY_CALLS)
]
MODULE = MODULE.replace(
    "CALLS", "\n    ".join(f"%{i} = {c}" for i, c in enumerate(CALLS)) + f"\n    %last = {CALLS[0]}"
)
X = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "m.mlir"
    path.write_text(MODULE)
    return path


def names_of(module: Path, entry: str) -> list[str]:
    return list(import_stablehlo(module, entry=entry).input_names)


@pytest.mark.parametrize("entry", ["main", "other", None])
def test_the_chosen_function_is_evaluated(module: Path, entry: str | None) -> None:
    (name,) = names_of(module, entry or "main")
    found = InterpreterOracle(module, entry, {}, ["y"])({name: X[0]})
    assert found.oracle == "stablehlo-interpreter"
    np.testing.assert_array_equal(found.outputs["y"], X[0] * 2)


def test_dynamic_sizes_decompositions_and_frozen_arguments(module: Path) -> None:
    x, w = names_of(module, "rows")
    oracle = InterpreterOracle(module, "rows", {w: np.array([0.5, 9], np.float32)}, ["y"])
    for rows in (X, X[:1]):
        np.testing.assert_allclose(oracle({x: rows}).outputs["y"], rows + np.array([0.5204999, 1]), rtol=1e-6)


def test_complex_numbers_are_pairs(module: Path) -> None:
    inputs = dict(
        zip(names_of(module, "spin"), (np.array([1, 0], np.float32), np.array([2, 1], np.float32)), strict=True)
    )
    found = InterpreterOracle(module, "spin", {}, ["y.real", "y.imag"])(inputs).outputs
    assert found["y.real"].tolist() == [-3, -1] and found["y.imag"].tolist() == [4, 0]


def test_a_complex_argument_is_frozen_under_its_own_name(module: Path) -> None:
    (name, _) = names_of(module, "spin")
    frozen = {name.removesuffix(".real"): np.array([1 + 2j, 1j], np.complex64)}
    found = InterpreterOracle(module, "spin", frozen, ["y.real", "y.imag"])({}).outputs
    assert found["y.real"].tolist() == [-3, -1] and found["y.imag"].tolist() == [4, 0]


def test_what_only_places_data_is_left_out_as_the_importer_does(module: Path) -> None:
    (name,) = names_of(module, "placed")
    assert InterpreterOracle(module, "placed", {}, ["y"])({name: X[0]}).outputs["y"].tolist() == [2, 4]


def test_the_platform_that_is_given_is_evaluated(module: Path) -> None:
    index = {"_platform_index": np.array(1, np.int32)}
    (name,) = import_stablehlo(module, entry="platforms", freeze=index).input_names
    assert InterpreterOracle(module, "platforms", index, ["y"])({name: X[0]}).outputs["y"].tolist() == [2, 4]


def test_other_element_types(module: Path) -> None:
    import ml_dtypes

    values = (np.array(True), np.array([1, 2, 3], ml_dtypes.bfloat16), np.array(-128, np.int8))
    inputs = dict(zip(names_of(module, "scalars"), values, strict=True))
    found = InterpreterOracle(module, "scalars", {}, ["b", "h", "n"])(inputs).outputs
    assert found["b"].tolist() is False and found["n"].tolist() == -128
    assert found["h"].dtype == ml_dtypes.bfloat16 and found["h"].astype(float).tolist() == [-1, -2, -3]


def test_what_it_cannot_evaluate_is_a_refusal(module: Path) -> None:
    with pytest.raises(OracleRefused, match="unknown_thing"):
        InterpreterOracle(module, "kernel", {}, ["y"])({"arg0": X[0], "x": X[0]})


def test_without_the_interpreter_a_note_says_that_the_import_is_not_proven(
    module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = names_of(module, "main")
    choice, graph = Choice("main"), import_stablehlo(module, entry="main")
    monkeypatch.setattr(stablehlo_oracle, "TIMEOUT", 0.001)
    found = oracle_of(module, graph, choice)({name: X[0]})
    assert found.oracle == "onnxruntime (exported graph)" and found.others == ()
    (note,) = found.notes
    assert "took more than" in note and "the import of the module is not independently proven" in note
    with pytest.raises(OracleRefused, match=r"unknown_thing.*; the import of the module is not independently proven"):
        monkeypatch.undo()
        InterpreterOracle(module, "kernel", {}, ["y"])({"arg0": X[0], "x": X[0]})


def test_a_stablehlo_file_has_two_oracles(module: Path, tmp_path: Path) -> None:
    x, w = names_of(module, "rows")
    np.savez(tmp_path / "w.npz", **{w: np.ones(2, np.float32)})
    choice = Choice("rows", tmp_path / "w.npz")
    graph = import_stablehlo(module, entry="rows", freeze=choice.frozen())
    found = oracle_of(module, graph, choice)({x: X})
    assert [found.oracle, *(o.oracle for o in found.others)] == [
        "onnxruntime (exported graph)",
        "stablehlo-interpreter",
    ]
    assert found.notes == ()


def test_one_oracle_that_refuses_leaves_the_other() -> None:
    found = SeveralOracles(refusing, constant("second", 1))({})
    assert (
        found.oracle == "second" and found.others == () and found.notes == ("one oracle gave no reference: too hard",)
    )
    with pytest.raises(OracleRefused, match=r"too hard; .*too hard"):
        SeveralOracles(refusing, refusing)({})


def test_a_disagreement_is_said() -> None:
    found = SeveralOracles(constant("first", 1), constant("second", 1.5))({})
    assert found.outputs["y"].tolist() == [1] and found.others[0].outputs["y"].tolist() == [1.5]
    assert "the oracles disagree on 'y': first against second" in found.notes[0]
    assert SeveralOracles(constant("first", 1), constant("second", 1 + 1e-7))({}).notes == ()


def refusing(inputs: Mapping[str, Array]) -> Reference:
    raise OracleRefused("too hard")


def constant(name: str, value: float):  # type: ignore[no-untyped-def]
    return lambda inputs: Reference({"y": np.array([value], np.float32)}, name)


SAMPLE = Path(__file__).parents[2] / "samples" / "jax"


def test_the_sample_needs_only_points_once_its_parameters_are_frozen() -> None:
    model, choice = SAMPLE / "spiral.jaxexport", Choice(freeze=SAMPLE / "params.npz")
    graph = import_stablehlo(model, freeze=choice.frozen())
    assert graph.input_names == ("points",)
    found = oracle_of(model, graph, choice)(dict(np.load(SAMPLE / "points.npz")))
    assert len(found.others) == 1 and found.notes == ()
    (probability,) = found.outputs.values()
    assert probability.shape == (12,) and (np.abs(probability - 0.5) > 0.4).all()
