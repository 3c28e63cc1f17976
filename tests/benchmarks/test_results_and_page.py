"""Results go on where they stood, and the page says what they hold."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

from benchmarks import runner
from benchmarks.catalogue import Given, Model, Unavailable, select, unmatched
from benchmarks.engines import FORNAXC, PEERS, Refusal, command
from benchmarks.measures import Bench
from benchmarks.report import latency_table, render, table
from benchmarks.results import Foreign, Results
from benchmarks.runner import measure
from fornaxc.bench.plan import Run
from fornaxc.bench.side import Job

HEADER = {"target": "cpu", "processor": "P", "processors": 2, "system": "S", "versions": {"max": "1"}}
TEXT = '<ir_version: 8, opset_import: ["" : 17]> m (float[n, 3] x) => (float[n, 3] y) { y = Relu(x) }'
READY = {
    "load_seconds": 0.5,
    "first_run_seconds": 0.25,
    "import_seconds": 1.0,
    "memory_after_loading": 1e6,
    "version": "1",
}


def make(folder: Path) -> Path:
    onnx.save(parser.parse_model(TEXT), folder / "made.partial")
    return folder / "made.partial"


def model(name: str = "relu") -> Model:
    return Model(name, "a test", {"x": Given((2, 3))}, make)


class Side:
    ready: Mapping[str, Any] = READY
    peak_memory: int | None = 2_000_000

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.outputs = {"y": np.zeros(1)}

    def block(self, warmup: int, runs: int) -> list[Run]:
        return [Run(0.0, self.seconds, 0.0, 0.0)] * runs


SECONDS = {FORNAXC: 0.5, "onnxruntime": 1.0}


@contextmanager
def start(job: Job) -> Iterator[Side]:
    yield Side(SECONDS[job.engine])


class Cli:
    """`fornaxc compile` in place of a process."""

    def __init__(self) -> None:
        self.words: list[list[str]] = []
        self.caches: set[Path] = set()

    def __call__(self, words: Any, cache: Path) -> tuple[float, dict[str, Any]]:
        self.words.append(list(words))
        hit = cache in self.caches
        self.caches.add(cache)
        if "-o" in words:
            Path(words[words.index("-o") + 1]).write_bytes(b"12345")
        phases = {"import": 0.25, "optimize": 0.5, "compile": 11.0}
        return (0.125 if hit else 12.0), {"cache": "hit" if hit else "miss", "phases": phases}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    peers = [p for p in PEERS if p.name in SECONDS]
    return Bench(tmp_path, tmp_path / "compiled", "cpu", peers, Cli(), start, rounds=2, pause=lambda seconds: None)


def results(tmp_path: Path, **other: Any) -> Results:
    return Results(tmp_path / "r.json", {**HEADER, **other})


def test_a_run_goes_on_where_it_stood(bench: Bench, tmp_path: Path) -> None:
    first, told = results(tmp_path), list[str]()
    measure(bench, [model()], ["load"], [1], first, told.append)
    assert list(first.units) == ["relu/load"]
    again = results(tmp_path)
    assert again.units == first.units
    told.clear()
    measure(bench, [model(), model("other")], ["compile", "load"], [1], again, told.append)
    assert list(again.units) == ["relu/load", "relu/compile", "other/compile", "other/load"]
    assert told[1] == "relu/load: measured before"
    assert again.units["relu/load"] == first.units["relu/load"]


def test_results_of_other_software_are_not_mixed(tmp_path: Path) -> None:
    results(tmp_path).add("a/load", {})
    with pytest.raises(Foreign, match="versions"):
        results(tmp_path, versions={"max": "2"})
    fresh = Results(tmp_path / "r.json", {**HEADER, "versions": {"max": "2"}}, fresh=True)
    assert fresh.units == {}


def test_what_cannot_be_had_is_named(bench: Bench, tmp_path: Path) -> None:
    def missing(folder: Path) -> Path:
        raise Unavailable("no network")

    kept, told = results(tmp_path), list[str]()
    measure(bench, [Model("far", "", {}, missing), model()], ["load"], [1], kept, told.append)
    assert kept.skipped == {"far": "no network"} and told[0] == "far: left out: no network"
    assert "relu/load" in kept
    page = render(kept.to_json(), {})
    assert "- `far`: no network" in page


def test_compiling(bench: Bench, tmp_path: Path) -> None:
    """The cold compile has a cache of its own; the hits are the same command in the same cache."""
    kept = results(tmp_path)
    measure(bench, [model()], ["compile"], [1], kept, str)
    ours, theirs = (kept.units["relu/compile"]["engines"][n] for n in SECONDS)
    assert ours["cold"] == 12.0 and ours["hits"]["median"] == 0.125 and ours["artifact"] == 5
    assert theirs == {"cold": 0.5}
    assert isinstance(bench.fornaxc, Cli) and len(bench.fornaxc.caches) == 1
    assert not next(iter(bench.fornaxc.caches)).exists()
    page = render(kept.to_json(), {"relu": "a test"})
    assert "| relu | 12.0 | 0.12 [0.12, 0.12] | 0.75 | 11.0 | 0.0 | 0.50 |" in page
    assert "- `relu`: a test" in page


def test_the_page_of_latencies(bench: Bench, tmp_path: Path) -> None:
    kept = results(tmp_path)
    measure(bench, [model()], ["latency"], [1, 2], kept, str, lambda: ["the machine was busy"])
    page = render(kept.to_json(), {})
    assert "## Latency, 1 thread\n" in page and "## Latency, 2 threads\n" in page
    assert "| relu | 1000 [1000, 1000] | 500 [500, 500] | 0.50 [0.50, 0.50] |" in page
    assert "| *geometric mean* |  |  | 0.50 of 1 |" in page
    assert "- **caution**: the machine was busy" in page


def test_the_page_of_memory(bench: Bench, tmp_path: Path) -> None:
    """A mapped file counts when it is read, so what is held after loading and what while running both stand there."""
    kept = results(tmp_path)
    measure(bench, [model()], ["load"], [1], kept, str)
    assert "| relu | 1, " not in render(kept.to_json(), {})
    measure(bench, [model()], ["latency"], [1], kept, str)
    page = render(kept.to_json(), {})
    assert "## Memory\n" in page and "| relu | 1, 2 | 1, 2 |" in page


def test_notes_that_differ_in_the_load_alone_are_one(bench: Bench, tmp_path: Path) -> None:
    kept, loads = results(tmp_path), iter((1.5, 0.5))
    measure(bench, [model()], ["load", "latency"], [1], kept, str, lambda: [f"busy (load average {next(loads)})"])
    assert render(kept.to_json(), {}).count("**caution**") == 1


def test_failures_stand_in_the_table() -> None:
    entry = {"latency": {"p50": 1.0, "lowest": 1.0, "p95": 1.0}}
    rows = {"m": {FORNAXC: {"failed": "a | b"}, "onnxruntime": entry, "iree": {"failed": "no"}}}
    text = latency_table(rows)
    assert "failed: a \\| b" in text and "failed: no" in text


def test_outputs_that_differ_are_told() -> None:
    entry = {"latency": {"p50": 1.0, "lowest": 1.0, "p95": 1.0}}
    ratio = {"median": 0.5, "lowest": 0.5, "highest": 0.5}
    rows = {
        "near": {FORNAXC: {**entry, "ratio": ratio, "difference": 1e-6}, "onnxruntime": entry},
        "far": {FORNAXC: {**entry, "ratio": ratio, "difference": 0.5}, "onnxruntime": entry},
        "else": {FORNAXC: {**entry, "ratio": ratio, "difference": None}, "onnxruntime": entry},
    }
    text = latency_table(rows)
    assert text.count("differ by 0.5") == 1 and text.count("other outputs") == 1


def test_a_refused_compile_is_not_tried_twice(bench: Bench, tmp_path: Path) -> None:
    calls = []

    def refuse(words: Any, cache: Path) -> tuple[float, dict[str, Any]]:
        calls.append(words)
        raise Refusal("an operator is missing")

    bench.fornaxc = refuse
    kept = results(tmp_path)
    measure(bench, [model()], ["load", "latency"], [1, 2], kept, str)
    assert len(calls) == 1
    assert kept.units["relu/latency/2"]["engines"][FORNAXC] == {"failed": "an operator is missing"}


def test_growth_is_resumed_too(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def unit(name: str) -> Any:
        return lambda: (
            made.append(name)
            or {"nodes": 2, "import": 1.0, "optimize": 1.0, "onnx_checks": 0.5, "onnxruntime_session": 0.5}
        )

    monkeypatch.setattr(runner.growth, "units", lambda b, t: {n: unit(n) for n in ("growth/nodes/2", "growth/nodes/4")})
    kept = results(tmp_path)
    kept.add(
        "growth/nodes/2",
        {"engines": {"nodes": 2, "import": 3.0, "optimize": 1.0, "onnx_checks": 0.5, "onnxruntime_session": 0.5}},
    )
    measure(bench, [], ["growth"], [1], kept, str)
    assert made == ["growth/nodes/4"]
    assert "| 2 | 3.00 | 1.00 | 2000000 | 0.50 | 0.50 |" in render(kept.to_json(), {})


def test_the_file_has_the_sizes_of_the_inputs(tmp_path: Path) -> None:
    pinned = onnx.load(model().file(tmp_path))
    assert [d.dim_value for d in pinned.graph.input[0].type.tensor_type.shape.dim] == [2, 3]
    assert not pinned.graph.output[0].type.tensor_type.shape.dim[0].HasField("dim_param")


def test_a_fixed_input_is_a_constant_of_the_file(tmp_path: Path) -> None:
    fixed = replace(model(), given={"x": Given((2, 3), value=4, fixed=True)})
    graph = onnx.load(fixed.file(tmp_path)).graph
    assert (list(graph.input), fixed.inputs()) == ([], {})
    assert onnx.numpy_helper.to_array(graph.initializer[-1]).tolist() == [[4.0] * 3] * 2


def test_inputs_are_seeded() -> None:
    ids = Model("m", "", {"ids": Given((4,), "int64", below=3), "one": Given((), value=1.0)}, make)
    first, second = ids.inputs(), ids.inputs()
    assert first["ids"].tolist() == second["ids"].tolist() and first["ids"].dtype == np.int64
    assert first["ids"].max() < 3 and first["one"].shape == ()


def test_models_are_chosen_by_name() -> None:
    models = [model("bert_tiny"), model("bert_base"), model("vit")]
    assert [m.name for m in select(models, ["bert*"])] == ["bert_tiny", "bert_base"]
    assert select(models, []) == models
    assert unmatched(models, ["bert*", "gpt"]) == ["gpt"]


def test_a_table() -> None:
    assert table(["a", "b"], [["x", "1"]]) == "| a | b |\n|---|---:|\n| x | 1 |"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("m.mlir:3:5: error: no such operation\n  x = op\n      ^\n", "error: no such operation"),
        ("stopped\nfor want of memory\n", "for want of memory"),
        ("", f"{sys.executable} ended with status 1"),
    ],
)
def test_a_command_that_fails_is_told_by_its_first_error(words: str, told: str) -> None:
    script = f"import sys; sys.stderr.write({words!r}); sys.exit(1)"
    with pytest.raises(Refusal, match=f"^{re.escape(told)}$"):
        command([sys.executable, "-c", script])
