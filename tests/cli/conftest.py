"""Runs the command line in this process, and programs with numpy in the place of MAX; the importers' helpers can be imported."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from command_line import Change, Cli, Outcome

from fornaxc import child
from fornaxc.artifact import open_artifact
from fornaxc.cli.main import run
from fornaxc.ir import interpreter
from fornaxc.ir.graph import Array
from fornaxc.lowering import kernel_package
from fornaxc.verification import session, verify

sys.path.insert(0, str(Path(__file__).parents[1] / "importers"))
SUMMARY = "Sequence(index.constant, View(mo.static.broadcast_to, mo.mul))"


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


@pytest.fixture(autouse=True)
def _nobody_builds_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process nothing is compiled that wants them."""
    monkeypatch.setattr(kernel_package, "kernels_ahead", lambda environment: nullcontext())


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> list[Change]:
    """Compiled code that says nothing; runs are the interpreter's, changed by what is in the list."""
    changes: list[Change] = []

    def compiles(job: dict[str, Any], folder: Path, **options: Any) -> dict[str, Any]:
        Path(job["mef"]).write_bytes(b"code")
        return {"seconds": {"lower": 0.1, "compile": 0.1}, "host_nodes": []}

    def runs(
        path: Path, samples: Sequence[Mapping[str, Array]], kernels: list[str] | None = None, **options: Any
    ) -> list[dict[str, Array]]:
        graph = session.embedded_graph(open_artifact(path))
        if kernels is not None:
            kernels.append(SUMMARY)
        found = [
            dict(zip(graph.output_names, interpreter.run(graph, [s[n] for n in graph.input_names]), strict=True))
            for s in samples
        ]
        for change in changes:
            found = [change(outputs) for outputs in found]
        return found

    monkeypatch.setattr(child, "compile_in_child", compiles)
    monkeypatch.setattr(verify, "run_in_child", runs)
    return changes
