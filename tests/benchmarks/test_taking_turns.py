"""Engines take turns, their figures are the blocks', and one that fails leaves the others alone. The engines are fakes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

from benchmarks.sides import difference, latencies, loads, spread, start
from fornaxc.bench.plan import Run
from fornaxc.bench.side import Job
from fornaxc.errors import ToolchainError, UnsupportedError

READY = {
    "load_seconds": 0.5,
    "first_run_seconds": 0.25,
    "import_seconds": 1.0,
    "memory_after_loading": 1000,
    "version": "1",
}


class Side:
    """An engine whose every run takes `seconds`, and that writes down when it is asked."""

    def __init__(self, name: str, seconds: float, told: list[str]) -> None:
        self.name, self.seconds, self.told = name, seconds, told
        self.ready: Mapping[str, Any] = READY
        self.outputs = {"y": np.array([1.0, 2.0])}
        self.peak_memory: int | None = 2000

    def block(self, warmup: int, runs: int) -> list[Run]:
        self.told.append(f"{self.name} {warmup}+{runs}")
        return [Run(0.0, self.seconds, 0.0, 0.0)] * runs


class Engines:
    """Starts fakes; an engine without seconds is refused."""

    def __init__(self, **seconds: float | None) -> None:
        self.seconds, self.told = seconds, list[str]()

    @contextmanager
    def __call__(self, job: Job) -> Iterator[Side]:
        seconds = self.seconds[job.engine]
        self.told.append(f"start {job.engine}")
        if seconds is None:
            raise UnsupportedError(f"{job.engine} does not run it")
        yield Side(job.engine, seconds, self.told)
        self.told.append(f"end {job.engine}")


def jobs(*names: str) -> list[Job]:
    return [Job(name, Path("m"), {}, 2) for name in names]


def test_blocks_of_all_engines_are_interleaved() -> None:
    engines = Engines(ours=2.0, reference=4.0, other=8.0)
    pauses: list[float] = []
    found = latencies(jobs("ours", "reference", "other"), "reference", engines, pauses.append)
    names = [line.split()[0] for line in engines.told if "+" in line]
    rounds = len(found["plan"]["blocks"])
    assert names[:3] == ["ours", "reference", "other"]  # one run of each when it is loaded, for the plan
    assert names[3:] == ["ours", "reference", "other"] * rounds
    assert len(pauses) == 3 * rounds and min(pauses) >= 0.06
    assert engines.told[:3] == ["start ours", "ours 1+1", "start reference"]
    assert found["ours"]["ratio"]["median"] == 0.5 and found["other"]["ratio"]["median"] == 2.0
    assert "ratio" not in found["reference"]
    assert found["ours"]["latency"]["p50"] == 2.0 and found["ours"]["latency"]["count"] == sum(found["plan"]["blocks"])
    assert found["ours"]["difference"] == 0 and found["ours"]["peak_memory"] == 2000


def test_an_engine_that_refuses_is_told_and_the_others_are_measured() -> None:
    engines = Engines(ours=0.1, reference=0.1, other=None)
    found = latencies(jobs("other", "ours", "reference"), "reference", engines, lambda seconds: None)
    assert found["other"] == {"failed": "other does not run it"}
    assert found["ours"]["ratio"]["median"] == 1.0


def test_without_the_reference_there_is_no_ratio() -> None:
    found = latencies(jobs("ours", "reference"), "reference", Engines(ours=0.1, reference=None), lambda seconds: None)
    assert "ratio" not in found["ours"] and "failed" in found["reference"]


def test_where_nothing_runs_only_reasons_are_told() -> None:
    assert latencies(jobs("ours"), "", Engines(ours=None)) == {"ours": {"failed": "ours does not run it"}}


def test_loading_is_measured_in_turn_in_fresh_processes() -> None:
    engines = Engines(ours=1.0, other=None, reference=1.0)
    found = loads(jobs("ours", "other", "reference"), 3, engines)
    starts = [line for line in engines.told if line.startswith("start")]
    assert starts == ["start ours", "start other", "start reference"] + ["start ours", "start reference"] * 2
    assert engines.told.count("end ours") == 3
    assert found["ours"]["load"] == {"median": 0.75, "lowest": 0.75, "highest": 0.75, "count": 3}
    assert found["ours"]["memory"] == 1000
    assert found["other"] == {"failed": "other does not run it"}


def test_spread() -> None:
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "lowest": 1.0, "highest": 3.0, "count": 3}


@pytest.mark.parametrize(
    ("ours", "theirs", "wanted"),
    [
        ([1.0, 4.0], [1.0, 4.0], 0.0),
        ([1.0, 3.0], [1.0, 4.0], 0.25),
        ([np.nan, 4.0], [np.nan, 4.0], 0.0),
        ([1.0, np.inf], [1.0, np.inf], 0.0),
        ([np.nan, 4.0], [1.0, 4.0], None),
        ([1.0, np.inf], [1.0, -np.inf], None),
        ([1.0], [1.0, 1.0], None),
    ],
)
def test_difference_of_outputs(ours: list[float], theirs: list[float], wanted: float | None) -> None:
    assert difference({"y": np.array(ours)}, {"y": np.array(theirs)}) == wanted


def test_outputs_are_matched_by_position() -> None:
    assert difference({"y": np.ones(1)}, {"z": np.ones(1)}) == 0
    assert difference({"y": np.ones(1)}, {"y": np.ones(1), "z": np.ones(1)}) is None


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    """A real process of a real engine, onnxruntime, on a file that is no model."""
    (tmp_path / "m.onnx").write_text(json.dumps({}))
    job = Job("onnxruntime", tmp_path / "m.onnx", {"x": np.zeros(1, np.float32)}, 1, 60.0)
    with pytest.raises((UnsupportedError, ToolchainError), match="onnxruntime"), start(job):
        pass


def test_a_real_engine_in_a_process_of_its_own(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> m (float[3] x) => (float[3] y) { y = Add(x, x) }'
    onnx.save(parser.parse_model(text), tmp_path / "m.onnx")
    job = Job("onnxruntime", tmp_path / "m.onnx", {"x": np.arange(3, dtype=np.float32)}, 1, 60.0)
    with start(job) as side:
        assert side.outputs["y"].tolist() == [0, 2, 4]
    found = latencies([job], "onnxruntime", pause=lambda seconds: None)["onnxruntime"]
    assert 0 < found["latency"]["lowest"] <= found["latency"]["p50"] < 10
    assert found["version"].startswith("onnxruntime ") and found["peak_memory"] > 1e6
