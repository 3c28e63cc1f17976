"""`fornaxc reduce`: what it hands on, what it refuses before anything runs, what it prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from command_line import Cli
from onnx import parser

from fornaxc import api

MODEL = '<ir_version: 8, opset_import: ["" : 18]> f (float[2] x) => (float[2] y) { y = Abs(x) }'


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(parser.parse_model(MODEL), path)
    return path


def test_every_option_reaches_the_reduction(
    cli: Cli, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    class Asked(Exception):
        pass

    def reduce(model: Path, output: Path, **options: Any) -> None:
        asked.update(options)
        raise Asked

    monkeypatch.setattr(api, "reduce", reduce)
    cli("reduce", model, "-o", tmp_path / "s.onnx", "--edge-cases", "--tolerances", tmp_path / "t.toml", "-t", "amd")
    assert (asked["edge_cases"], asked["tolerances"], asked["target"]) == (True, tmp_path / "t.toml", "amd")


@pytest.mark.parametrize(("name", "code"), [("m.onnx", "FX252"), ("s.npz", "FX254"), ("s.mlir", "FX254")])
def test_what_cannot_be_written_is_refused_first(cli: Cli, model: Path, tmp_path: Path, name: str, code: str) -> None:
    before = model.read_bytes()
    told = cli("reduce", model, "-o", tmp_path / name, "--check", "touch ran", "--json")
    assert (told.status, told.document["code"]) == (2, code)
    assert model.read_bytes() == before


def test_the_document_and_the_text(cli: Cli, model: Path, tmp_path: Path) -> None:
    arguments = ("reduce", model, "-o", tmp_path / "s.onnx", "--check", "false")
    document = cli(*arguments, "--json").document
    assert (document["status"], document["schema"], document["sample"]) == ("ok", 1, "static")
    assert [Path(f).name for f in document["files"]] == ["s.onnx", "s.npz", "s.md"]
    told = cli(*arguments)
    assert told.status == 0 and "static" in told.out


def test_the_help_says_that_onnx_is_written(cli: Cli) -> None:
    assert "also of a StableHLO model" in " ".join(cli("reduce", "--help").out.split())
