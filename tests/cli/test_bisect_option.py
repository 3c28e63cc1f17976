"""`fornaxc verify --bisect`: what cannot be searched is refused first, and a search that fails takes nothing away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Cli

from fornaxc import api
from fornaxc.errors import ToolchainError
from fornaxc.verification.report import Report

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
    told = cli(
        "verify", tmp_path / "m.onnx", "--bisect", "--no-host-fallback", "-O", "2", "--oracle", "numpy", "--json"
    )
    assert told.status == 1
    assert told.document["verdict"] == "fail"
    assert (told.document["bisection"]["status"], told.document["bisection"]["code"]) == ("error", "FX501")
    assert (asked["host_fallback"], asked["optimization"], asked["oracles"]) == (False, 2, ("numpy",))
    told = cli("verify", tmp_path / "m.onnx", "--bisect")
    assert told.status == 1
    assert "verdict" in told.out and "the bisection failed: MAX is gone" in told.out
