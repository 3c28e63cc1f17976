"""The level of optimization reaches what a search compiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mutation_models
import numpy as np
import pytest
from click.testing import CliRunner

from fornaxc import api
from fornaxc.cli.reduce import command
from fornaxc.diagnosis import reduction, rounds
from fornaxc.diagnosis.checks import Check, compile_check, verify_check
from fornaxc.diagnosis.edits import Case
from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import open_model
from fornaxc.ir.ops import MatMul
from fornaxc.qualify import programs
from fornaxc.qualify.programs import Options, Program


class Asked(Exception):
    """Ends a search at its first round."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    def build(net: mutation_models.Net, x: str) -> str:
        return str(net.op("Sin", x))

    path = tmp_path / "m.onnx"
    path.write_bytes(mutation_models.model("levels", build, 2, 2).SerializeToString())
    return path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    found: list[Options] = []

    def run_programs(programs: list[Program], options: Options) -> Any:
        found.append(options)
        raise Asked

    for module in (reduction, rounds):
        monkeypatch.setattr(module, "run_programs", run_programs)
    return found


def test_bisection_compiles_at_the_level(model: Path, asked: list[Options], tmp_path: Path) -> None:
    with pytest.raises(Asked):
        api.bisect(model, optimization=3, cache_dir=tmp_path / "cache")
    assert [o.optimization for o in asked] == [3]


def test_reduction_compiles_at_the_level(model: Path, asked: list[Options], tmp_path: Path) -> None:
    cache = ["--cache-dir", str(tmp_path / "cache")]
    done = CliRunner().invoke(command, [str(model), "-o", str(tmp_path / "s.onnx"), "-O", "2", *cache])
    assert isinstance(done.exception, Asked), done.output
    assert [o.optimization for o in asked] == [2]


def test_the_child_is_told_the_level(tmp_path: Path) -> None:
    job = programs._module([tmp_path], Options(optimization=2), lambda folder: None)
    assert job.document["optimization"] == 2


@pytest.mark.parametrize("maker", [verify_check, compile_check])
def test_checks_run_the_passes_of_the_level(maker: Any, model: Path) -> None:
    x = np.zeros(mutation_models.SHAPE, np.float32)
    case = Case(import_model(open_model(model), {}), (x,))

    def products(check: Check) -> int:
        (program,) = next(check([case]))
        return sum(isinstance(n.op, MatMul) for n in program.graph.walk())

    assert products(maker("gpu", optimization=1)) < products(maker("gpu", optimization=2))
    passes = ["fuse-linear", "fuse-conv"]
    assert products(maker("gpu", optimization=1, disabled=passes)) == products(maker("gpu", optimization=2))
