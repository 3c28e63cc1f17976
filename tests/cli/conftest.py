"""Runs the command line in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Cli, Outcome

from fornaxc.cli.main import run


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """`cli("compile", "m.onnx")`, with a cache of its own."""
    monkeypatch.setenv("FORNAXC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # where reports of defects go

    def invoke(*arguments: object) -> Outcome:
        capsys.readouterr()
        status = run([str(a) for a in arguments])
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return invoke
