"""Sides in processes of their own: what they tell, and how they end. onnxruntime stands on both, which compiles nothing."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

from fornaxc.bench.child import serve
from fornaxc.bench.plan import Run
from fornaxc.bench.session import Measuring, measure
from fornaxc.bench.side import Job, started
from fornaxc.errors import ArtifactError, ToolchainError, UnsupportedError
from fornaxc.ir.graph import Array
from fornaxc.phases import silent
from fornaxc.runner import load_tensors, save_tensors

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
double (float[n] x) => (float[n] y) { y = Add(x, x) }
"""
INPUTS = {"x": np.arange(3, dtype=np.float32)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(parser.parse_model(MODEL), path)
    return path


def test_two_sides_are_measured_in_turn(model: Path) -> None:
    wanted = Measuring(iterations=4, warmup=1, threads=1)
    jobs = [wanted.job("onnxruntime", model, INPUTS)] * 2
    planned, sides, measured = measure(jobs, wanted, silent)
    assert planned.blocks == (2, 1, 1)
    for side, found in zip(sides, measured, strict=True):
        assert side.outputs["y"].tolist() == [0, 2, 4]
        document = found.to_json()
        assert document["version"].startswith("onnxruntime ")
        assert [len(block) for block in document["blocks"]] == [2, 1, 1]
        assert document["latency"]["count"] == 4
        assert 0 < document["latency"]["lowest"] < 10
        assert document["load_seconds"] > 0 and document["first_run_seconds"] > 0
        assert document["peak_memory"] >= document["memory_after_loading"] > 1e6
        assert sum(document["parts"].values()) > 0


def test_what_onnxruntime_refuses_is_named(tmp_path: Path, model: Path) -> None:
    with (
        pytest.raises(UnsupportedError, match="onnxruntime does not run") as caught,
        started(Job("onnxruntime", model, {})),
    ):
        pass
    assert caught.value.code == "FX311"
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(UnsupportedError), started(Job("onnxruntime", tmp_path / "bad.onnx", INPUTS)):
        pass


def test_an_artifact_that_is_gone_is_the_error_of_the_runtime(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as caught, started(Job("fornaxc", tmp_path / "no.fxa", INPUTS)):
        pass
    assert caught.value.code == "FX452"


def test_a_side_that_takes_too_long_is_ended(model: Path) -> None:
    with pytest.raises(ToolchainError) as caught, started(Job("onnxruntime", model, INPUTS, timeout=0.01)):
        pass
    assert caught.value.code == "FX512"


def test_a_side_that_dies_says_how(model: Path) -> None:
    with started(Job("onnxruntime", model, INPUTS)) as side:
        side._child.kill()
        with pytest.raises(ToolchainError, match="killed") as caught:
            side.block(0, 1)
    assert caught.value.code == "FX513"


class Counting:
    """An engine that gives the number of the run."""

    version = "counting 1"

    def __init__(self) -> None:
        self.done = 0

    def begin(self) -> None:
        pass

    def load(self, path: str, threads: int | None) -> None:
        assert (path, threads) == ("p", 3)

    def run(self, inputs: dict[str, Array]) -> tuple[dict[str, Array], Run]:
        self.done += 1
        return {"y": inputs["x"] + self.done}, Run(self.done, 0, 0, 0)

    def kernels(self) -> list[str]:
        return ["mo.add"]


def test_what_a_child_answers(tmp_path: Path) -> None:
    save_tensors(tmp_path / "in", INPUTS)
    answers = io.StringIO()
    questions = [json.dumps({"warmup": 2, "runs": 3}), json.dumps({"warmup": 0, "runs": 1})]
    engine: Any = Counting()
    serve({"folder": str(tmp_path), "path": "p", "threads": 3}, engine, answers, questions)
    ready, *blocks = map(json.loads, answers.getvalue().splitlines())
    assert (ready["version"], ready["kernels"], ready["first_run_seconds"]) == ("counting 1", ["mo.add"], 1)
    assert [[run[0] for run in block["runs"]] for block in blocks] == [[4, 5, 6], [7]]
    assert load_tensors(tmp_path / "out")["y"].tolist() == [1, 2, 3]
