"""Oracles, noise, accuracy and what ran, over the whole path, with the numpy interpreter in the place of MAX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from command_line import Change, Cli
from onnx import parser

from fornaxc import child
from fornaxc.verification import departures

MODEL = """
(float[n, 3] x, float[3] w) => (float[n, 3] y, float[2] z) <float[2] c = {1, 2}> { h = Mul(x, w) y = Relu(h) z = Exp(c) }
"""
NORM = """
(float[4, 64] x, float[64] s, float[64] b) => (float[4, 64] y) { y = LayerNormalization<epsilon = 1e-12>(x, s, b) }
"""
X = (300 + 0.01 * np.random.default_rng(5).standard_normal((4, 64))).astype(np.float32)


def write(folder: Path, text: str) -> Path:
    path = folder / "m.onnx"
    onnx.save(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\nf {text}'), path)
    return path


def test_the_report_tells_rules_noise_accuracy_and_what_ran(cli: Cli, device: list[Change], tmp_path: Path) -> None:
    model = write(tmp_path, MODEL)
    document = cli("verify", model, "--json").document
    assert (document["verdict"], document["rules"]) == ("pass", ["tolerance"])
    by_name = {row["name"]: row for row in document["outputs"]}
    assert set(by_name["y"]["noise"]) == {"optimiser", "threads"}
    assert by_name["y"]["float64"]["by"] == "onnxruntime in double"
    assert by_name["y"]["float64"]["ours"]["max_abs"] < 1e-6
    assert document["unproven_outputs"] == {"z": "it is a constant"}
    assert "nothing was proven for output 'z': it is a constant" in document["notes"]
    assert by_name["z"]["reason"] == "nothing was proven: it is a constant" and by_name["y"]["reason"] == ""
    told = document["execution"]
    assert told["device"] == "cpu" and told["kernels"] == 1 and len(told["folded"]) == 1
    assert told["kernel_map"][0]["operations"] == ["static.broadcast_to", "mul"]
    text = cli("verify", model).out
    assert "pass (tolerance): nothing was proven: it is a constant" in " ".join(text.split())
    quiet = cli("verify", model, "--no-noise", "--no-float64", "--json").document
    assert all(row["noise"] is None and row["float64"] is None for row in quiet["outputs"])


def test_what_the_passes_make_a_constant_proves_nothing(cli: Cli, device: list[Change], tmp_path: Path) -> None:
    text = "(float[2] x) => (float[2] y) <float[2] w = {1, 2}, bool[2] c = {1, 1}> { y = Where(c, w, x) }"
    document = cli("verify", write(tmp_path, text), "--json").document
    assert document["verdict"] == "unproven"
    assert document["unproven_outputs"] == {"y": "it is a constant after the passes"}
    assert document["outputs"][0]["reason"] == "nothing was proven: it is a constant after the passes"


def test_an_output_without_a_finite_number_says_so(cli: Cli, device: list[Change], tmp_path: Path) -> None:
    model = write(tmp_path, "(float[2] x) => (float[2] y) { y = Sqrt(x) }")
    np.savez(tmp_path / "in.npz", x=np.array([-1, -2], np.float32))
    document = cli("verify", model, "--inputs", tmp_path / "in.npz", "--json").document
    assert (document["verdict"], document["outputs"][0]["verdict"]) == ("pass", "pass")
    assert document["outputs"][0]["reason"] == "no finite element was compared"
    assert "of output 'y' no finite element was compared on: in.npz" in document["notes"]


def test_several_oracles_each_with_their_rows(cli: Cli, device: list[Change], tmp_path: Path) -> None:
    model = write(tmp_path, MODEL)
    np.savez(tmp_path / "in.npz", x=np.ones((2, 3), np.float32), w=np.array([1, -2, 3], np.float32))
    golden = {"y": np.array([[1, 0, 3]] * 2, np.float32), "z": np.exp(np.array([1, 2], np.float32))}
    np.savez(tmp_path / "out.npz", **golden)
    given = ("--inputs", tmp_path / "in.npz", "--expected", tmp_path / "out.npz")
    document = cli("verify", model, *given, "--oracle", "golden,ort", "--oracle", "numpy", "--json").document
    assert document["oracle"] == "golden, ort, numpy-interpreter" and document["verdict"] == "pass"
    assert len(document["outputs"]) == 6
    np.savez(tmp_path / "out.npz", **{**golden, "y": golden["y"] + 1})
    wrong = cli("verify", model, *given, "--oracle", "golden,ort", "--json")
    assert wrong.status == 1
    assert {(r["oracle"], r["verdict"]) for r in wrong.document["outputs"] if r["name"] == "y"} == {
        ("golden", "fail"),
        ("ort", "pass"),
    }
    assert any("the oracles disagree on 'y': golden against ort" in note for note in wrong.document["notes"])


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--oracle", "golden"], "FX238"),
        (["--oracle", "stablehlo-reference,ort"], "FX236"),
    ],
)
def test_oracles_that_cannot_be_asked_are_refused_before_compiling(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], code: str
) -> None:
    def compiles(*arguments: Any, **options: Any) -> None:
        raise AssertionError("compiled")

    monkeypatch.setattr(child, "compile_in_child", compiles)
    told = cli("verify", write(tmp_path, MODEL), *options, "--json")
    assert told.status == 2 and told.document["code"] == code


def test_the_report_says_which_oracle_did_not_decide_and_why(
    cli: Cli, device: list[Change], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = departures.Departure(
        ("ort", "ort-noopt"), "Relu", (14,), lambda node: True, "it rounds", ("test_relu_x",), "1.0"
    )
    monkeypatch.setattr(departures, "TABLE", (entry,))
    model = write(tmp_path, MODEL)
    document = cli("verify", model, "--json").document
    assert document["oracle"] == "onnx-reference" and document["verdict"] == "pass"
    known = f"Relu of opset 14: it rounds (seen with onnxruntime 1.0, case test_relu_x; installed is {onnxruntime.__version__})"
    assert any(f"off-specification for {known}" in n for n in document["notes"])


def test_a_model_that_no_oracle_judges_is_not_compiled(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = departures.Departure(("ort",), "Relu", (14,), lambda node: True, "it rounds", ("test_relu_x",), "1.0")
    monkeypatch.setattr(departures, "TABLE", (entry,))

    def compiles(*arguments: Any, **options: Any) -> None:
        raise AssertionError("compiled")

    monkeypatch.setattr(child, "compile_in_child", compiles)
    told = cli("verify", write(tmp_path, MODEL), "--oracle", "ort", "--json")
    assert told.status == 3 and told.document["code"] == "FX310"


def test_a_model_of_constants_is_unproven(cli: Cli, device: list[Change], tmp_path: Path) -> None:
    model = write(tmp_path, "(float[2] x) => (float[2] z) <float[2] c = {1, 2}> { z = Exp(c) }")
    told = cli("verify", model, "--json")
    assert (told.status, told.document["verdict"]) == (0, "unproven")
    device.append(lambda outputs: {n: a + 1 for n, a in outputs.items()})
    assert cli("verify", model, "--json").status == 1


def test_as_accurate_as_the_oracle(cli: Cli, device: list[Change], tmp_path: Path) -> None:
    """Where onnxruntime loses digits, numbers near the exact ones pass by that rule, and others do not."""
    model = write(tmp_path, NORM)
    np.savez(tmp_path / "in.npz", x=X, s=np.ones(64, np.float32), b=np.zeros(64, np.float32))
    inputs = ("--inputs", tmp_path / "in.npz", "--json")
    found = cli("verify", model, *inputs)
    [row] = found.document["outputs"]
    assert (found.status, row["verdict"], row["rule"]) == (0, "pass", "float64"), row
    assert found.document["rules"] == ["float64"]
    assert row["float64"]["ours"]["max_abs"] < 1e-5 < row["float64"]["oracle"]["max_abs"]
    for options in (("--no-float64",), ("--atol", "1e-5"), ("--rtol", "1e-5")):
        assert cli("verify", model, *inputs, *options).status == 1
    device.append(lambda outputs: {n: a + np.float32(0.1) for n, a in outputs.items()})
    assert cli("verify", model, *inputs).status == 1
