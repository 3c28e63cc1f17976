"""`fornaxc verify --bisect`: what cannot be searched is refused first, and a search that fails takes nothing away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from command_line import Cli
from onnx import parser

from fornaxc import api
from fornaxc.diagnosis.session import Bisection
from fornaxc.errors import ToolchainError
from fornaxc.verification.compare import Row
from fornaxc.verification.report import Report

MODEL = '<ir_version: 8, opset_import: ["" : 18]> f (float[2] x) => (float[2] y) { y = Abs(x) }'
REPORT = Report("fail", "cpu", "cpu", "onnxruntime", [], "key")


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was verified, all of it with a mismatch."""
    seen: list[Any] = []
    monkeypatch.setattr(api, "verify", lambda path, **options: seen.append(path) or REPORT)
    return seen


@pytest.mark.parametrize("option", ["--bisect", "--growth"])
def test_what_cannot_be_searched_is_not_verified(cli: Cli, tmp_path: Path, verified: list[Any], option: str) -> None:
    options = [option] if option == "--bisect" else [option, tmp_path / "growth.html"]
    artifact = tmp_path / "m.fxa"
    artifact.write_bytes(b"PK\x03\x04")
    told = cli("verify", artifact, *options, "--json")
    assert (told.status, told.document["code"]) == (2, "FX218")
    (tmp_path / "m.onnx").write_bytes(b"")
    told = cli("verify", tmp_path / "m.onnx", "--expected", tmp_path / "out.npz", *options, "--json")
    assert (told.status, told.document["code"]) == (2, "FX253")
    assert verified == []


def test_a_search_that_fails_keeps_the_report(
    cli: Cli, tmp_path: Path, verified: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def bisect(model: Path, **options: Any) -> None:
        asked.update(options)
        raise ToolchainError("MAX is gone", code="FX501", hint="look")

    monkeypatch.setattr(api, "bisect", bisect)
    (tmp_path / "m.onnx").write_bytes(b"")
    options = ("--no-host-fallback", "-O", "2", "--oracle", "numpy", "--tolerances", tmp_path / "t.toml")
    told = cli("verify", tmp_path / "m.onnx", "--bisect", *options, "--json")
    assert told.status == 1
    assert told.document["verdict"] == "fail"
    assert (told.document["bisection"]["status"], told.document["bisection"]["code"]) == ("error", "FX501")
    assert asked["tolerances"] == tmp_path / "t.toml"
    assert (asked["host_fallback"], asked["optimization"], asked["oracles"]) == (False, 2, ("numpy",))
    told = cli("verify", tmp_path / "m.onnx", "--bisect")
    assert told.status == 1
    assert "verdict" in told.out and "the bisection failed: MAX is gone" in told.out


def test_the_sample_that_failed_is_searched_and_its_page_written(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [Row("y", (2,), "float32", verdict, sample=s) for s, verdict in (("static", "pass"), ("edge ones", "fail"))]
    monkeypatch.setattr(api, "verify", lambda path, **options: Report("fail", "cpu", "cpu", "onnxruntime", rows, "key"))
    asked: dict[str, Any] = {}

    def search(path: Path, *known: Any, **options: Any) -> Bisection:
        asked.update(options)
        return Bisection("pass", options["failing"][0], "cpu", pass_name="tidy")

    monkeypatch.setattr("fornaxc.diagnosis.session.bisect_model", search)
    model, page = tmp_path / "m.onnx", tmp_path / "growth.html"
    onnx.save(parser.parse_model(MODEL), model)
    told = cli("verify", model, "--edge-cases", "--growth", page, "--json")
    assert told.status == 1
    assert asked["failing"] == ["edge ones"]
    found = told.document["bisection"]
    assert (found["schema"], found["stage"], found["sample"], found["page"]) == (1, "pass", "edge ones", str(page))
    assert "--no-pass tidy" in page.read_text()
    model_before = model.read_bytes()
    told = cli("verify", model, "--growth", model, "--json")
    assert (told.status, told.document["code"]) == (2, "FX252")  # before anything is verified
    assert model.read_bytes() == model_before
