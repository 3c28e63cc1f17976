"""Every way in which outputs may not fit their reference ends `fornaxc verify` with exit status 1, by the rule that names it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from command_line import Change, Cli
from onnx import parser

from fornaxc.ir.graph import Array

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
f (float[3] x, int64[1] k, float[n] e) => (float[3] y, int64[1] i, float[n] z) {
    y = Identity(x)
    i = Neg(k)
    z = Exp(e)
}
"""
NAN, INF = np.float32(np.nan), np.float32(np.inf)
GIVEN = {"x": np.array([1, NAN, INF], np.float32), "k": np.array([7]), "e": np.zeros(2, np.float32)}


def y(*values: float) -> Change:
    """Another `y`."""
    return lambda outputs: {**outputs, "y": np.array(values, np.float32)}


def without(outputs: dict[str, Array]) -> dict[str, Array]:
    return {name: array for name, array in outputs.items() if name != "y"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(parser.parse_model(MODEL), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def given(folder: Path, **changed: Array) -> tuple[object, ...]:
    np.savez(folder / "in.npz", **{**GIVEN, **changed})
    return "--inputs", folder / "in.npz"


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        pytest.param(without, "presence", id="missing output"),
        pytest.param(lambda o: {**o, "more": o["y"]}, "presence", id="extra output"),
        pytest.param(lambda o: {**o, "y": o["y"].astype(np.float64)}, "dtype", id="wrong dtype"),
        pytest.param(lambda o: {**o, "y": o["y"][None]}, "shape", id="wrong shape"),
        pytest.param(lambda o: {**o, "y": o["y"][:0]}, "shape", id="no elements where there are some"),
        pytest.param(y(NAN, 1, INF), "nan", id="NaN moved"),
        pytest.param(y(1, NAN, -INF), "infinity", id="sign of an infinity"),
        pytest.param(y(1, NAN, 3e38), "infinity", id="finite for infinity"),
        pytest.param(y(1.1, NAN, INF), "tolerance", id="wrong number"),
        pytest.param(lambda o: {**o, "i": o["i"] + 1}, "exact", id="wrong integer"),
    ],
)
def test_what_does_not_fit_fails(
    cli: Cli, device: list[Change], model: Path, tmp_path: Path, change: Change, rule: str
) -> None:
    assert cli("verify", model, *given(tmp_path), "--json").document["verdict"] == "pass"
    device.append(change)
    told = cli("verify", model, *given(tmp_path), "--json")
    assert (told.status, told.document["verdict"]) == (1, "fail")
    assert {row["rule"] for row in told.document["outputs"] if row["verdict"] == "fail"} == {rule}
    assert rule in told.document["rules"]


@pytest.mark.parametrize("option", ["--rtol", "--atol"])
@pytest.mark.parametrize("change", [without, y(NAN, 1, INF), y(1, NAN, -INF)])
def test_no_tolerance_moves_them(
    cli: Cli, device: list[Change], model: Path, tmp_path: Path, change: Change, option: str
) -> None:
    device.append(change)
    assert cli("verify", model, *given(tmp_path), option, "1e30", "--json").status == 1


def test_an_empty_output_is_compared_nowhere(cli: Cli, device: list[Change], model: Path, tmp_path: Path) -> None:
    told = cli("verify", model, *given(tmp_path, e=np.zeros(0, np.float32)), "--json")
    assert told.status == 0
    assert {row["name"]: row["verdict"] for row in told.document["outputs"]} == {"y": "pass", "i": "pass", "z": "empty"}


def test_where_nothing_was_compared_the_verdict_is_fail(cli: Cli, device: list[Change], tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> f (float[n] x) => (float[n] y) { y = Exp(x) }'
    onnx.save(parser.parse_model(text), tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", x=np.zeros(0, np.float32))
    told = cli("verify", tmp_path / "m.onnx", "--inputs", tmp_path / "in.npz", "--junit", tmp_path / "r.xml", "--json")
    assert (told.status, told.document["verdict"], told.document["rules"]) == (1, "fail", ["empty"])
    assert "no output was compared" in (tmp_path / "r.xml").read_text()
    assert any("nothing was compared" in note for note in told.document["notes"])
