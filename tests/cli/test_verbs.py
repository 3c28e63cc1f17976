"""Verbs: what they pass to the API and how they print what it returns."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import Cli

import fornaxc
from fornaxc import api
from fornaxc.cli.main import _VERBS
from fornaxc.phases import Clock

ROOT = Path(__file__).parent.parent.parent
KEY = "ab" * 32


def compiled(model: Path, *, progress: Any, target: str = "cpu", **options: Any) -> api.CompileResult:
    """Stands in for a compilation that takes no time."""
    clock = Clock(progress)
    with clock.phase("import"):
        pass
    with clock.phase("compile"):
        progress("compile", "another process is compiling this; waiting")
    return api.CompileResult(target, KEY, "miss", Path("/cache/m"), clock.seconds, {"host_nodes": []})


def test_version(cli: Cli) -> None:
    assert cli("--version").out == f"fornaxc, version {fornaxc.__version__}\n"


@pytest.mark.parametrize("arguments", [(), *((verb,) for verb in _VERBS), ("cache", "ls"), ("cache", "gc")])
def test_help_has_examples(cli: Cli, arguments: tuple[str, ...]) -> None:
    told = cli(*arguments, "--help")
    assert (told.status, told.err) == (0, "")
    assert "Example" in told.out
    assert f"  fornaxc {' '.join(arguments)}".rstrip() in told.out


def test_every_verb_of_the_table_exists(cli: Cli) -> None:
    listed = cli("--help").out
    for verb, description in _VERBS.items():
        assert f"{verb:8} {description}" in " ".join(listed.split("\n")) or verb in listed
        assert cli(verb, "--help").status == 0


def test_compile_passes_its_options_on(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def record(model: Path, **options: Any) -> api.CompileResult:
        seen.update(options, model=model)
        return compiled(model, **options)

    monkeypatch.setattr(api, "compile", record)
    arguments = (
        "m.onnx -t amd -o o.fxa --dim batch=8 --dim a=b=2 --timeout 5 --stop-after lower --dump d --no-pass x -O 2 "
        "--entry f --freeze p.npz"
    )
    assert cli("compile", *arguments.split(), "--no-host-fallback", "--cache-dir", "c").status == 0
    seen.pop("progress")
    assert seen == {
        "model": Path("m.onnx"),
        "target": "amd",
        "output": Path("o.fxa"),
        "dims": {"batch": 8, "a=b": 2},
        "timeout": 5.0,
        "stop_after": "lower",
        "dump": Path("d"),
        "disabled_passes": ("x",),
        "optimization": 2,
        "host_fallback": False,
        "cache_dir": Path("c"),
        "entry": "f",
        "freeze": Path("p.npz"),
    }


def test_compile_defaults_are_those_of_the_api(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import inspect

    seen: dict[str, Any] = {}

    def record(model: Path, **options: Any) -> api.CompileResult:
        seen.update(options)
        return compiled(model, **options)

    defaults = {n: p.default for n, p in inspect.signature(api.compile).parameters.items() if n != "model"}
    monkeypatch.setattr(api, "compile", record)
    cli("compile", "m.onnx")
    assert {**seen, "dims": seen["dims"] or None, "progress": defaults["progress"]} == defaults


def test_progress_is_on_stderr_and_the_result_on_stdout(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "compile", compiled)
    told = cli("compile", "dir/m.onnx")
    assert told.out.splitlines()[0].startswith("m.onnx for cpu: compiled in ")
    assert "/cache/m" in told.out
    assert KEY in told.out
    lines = told.err.splitlines()
    assert lines[0] == "import: read the model into the typed graph"
    assert "compile: another process is compiling this; waiting" in lines
    assert lines[-1].startswith("compile: done in 0.0 s")

    quiet = cli("compile", "m.onnx", "-q")
    assert (quiet.out, quiet.err) == ("/cache/m\n", "")
    assert cli("-q", "compile", "m.onnx").err == ""
    document = cli("compile", "m.onnx", "--json").document
    assert {"status", "target", "key", "cache", "artifact", "phases"} <= document.keys()
    assert (document["status"], document["cache"], document["artifact"]) == ("ok", "miss", "/cache/m")


def test_a_terminal_sees_the_phase_and_its_seconds() -> None:
    """Under a pseudo-terminal the display is rich's."""
    import pty

    script = (
        "import time; from fornaxc.cli.progress import progress; from fornaxc.cli.session import Session\n"
        "with progress(Session()) as show:\n"
        "    show('compile', 'start'); time.sleep(0.3); show('compile', 'a [detail]'); show('compile', 'end')"
    )
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stderr=follower, env=environment) as process:
        os.close(follower)
        seen = b""
        while True:
            try:
                piece = os.read(leader, 4096)
            except OSError:
                break
            if not piece:
                break
            seen += piece
    os.close(leader)
    assert process.returncode == 0
    text = seen.decode()
    assert "compile ahead of time with MAX" in text
    assert "0:00:00" in text
    assert "a [detail]" in text
    assert "✓" in text


def test_warnings_of_the_package_are_shown(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import logging

    def warns(model: Path, **options: Any) -> api.CompileResult:
        logging.getLogger("fornaxc.cache").warning("the blob %s is damaged", "x")
        logging.getLogger("fornaxc.cache").info("only for the curious")
        return compiled(model, **options)

    monkeypatch.setattr(api, "compile", warns)
    assert cli("compile", "m.onnx", "-q").err == "warning: the blob x is damaged\n"
    assert "info: only for the curious" in cli("compile", "m.onnx", "-v").err


def report(verdict: str) -> Any:
    output = {
        "name": "y",
        "sample": "batch=2",
        "shape": [2, 10],
        "dtype": "float32",
        "max_abs": 1.5e-6,
        "max_rel": 2e-5,
        "max_ulp": 12,
        "worst_index": [1, 3],
        "tolerance": {"rtol": 1e-3, "atol": 1e-5, "source": "default for f32"},
        "verdict": "fail" if verdict == "fail" else "pass",
        "reason": "3 of 20 elements differ by more than the tolerance" if verdict == "fail" else "",
    }
    document = {
        "verdict": verdict,
        "target": "amd:gfx942",
        "executed_on": "cpu",
        "oracle": "onnxruntime",
        "outputs": [output],
        "notes": ["amd:gfx942 itself was not executed"],
        "host_nodes": [],
        "samples": ["batch=2"],
    }
    return SimpleNamespace(to_json=lambda: document, exit=1 if verdict == "fail" else 0)


@pytest.mark.parametrize(("verdict", "status"), [("pass", 0), ("fail", 1), ("unproven", 0)])
def test_verify_prints_the_table_and_the_verdict(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, verdict: str, status: int
) -> None:
    monkeypatch.setattr(api, "verify", lambda path, **options: report(verdict))
    monkeypatch.setenv("COLUMNS", "200")
    told = cli("verify", "m.onnx", "--target", "amd")
    assert told.status == status
    header, row = told.out.splitlines()[:2]
    assert header.split() == [
        "output",
        "sample",
        "shape",
        "dtype",
        "max",
        "abs",
        "max",
        "rel",
        "max",
        "ulp",
        "worst",
        "at",
        "tolerance",
        "from",
        "verdict",
    ]
    for text in ("y", "batch=2", "[2, 10]", "float32", "1.5e-06", "2e-05", "12", "[1, 3]", "0.001 rel, 1e-05 abs"):
        assert text in row
    assert "note: amd:gfx942 itself was not executed" in told.out
    assert told.out.rstrip().endswith(f"verdict      {verdict}")
    assert cli("verify", "m.onnx", "--json").document["verdict"] == verdict


def test_verify_passes_its_options_on(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(api, "verify", lambda path, **options: seen.update(options, path=path) or report("pass"))
    arguments = (
        "m.fxa --model m.onnx --inputs i.npz --expected e.npz --seed 7 --rtol 0.1 --atol 0 --dim n=1 --timeout 9"
    )
    assert cli("verify", *arguments.split()).status == 0
    seen.pop("progress")
    assert seen == {
        "path": Path("m.fxa"),
        "target": None,
        "model": Path("m.onnx"),
        "inputs": Path("i.npz"),
        "expected": Path("e.npz"),
        "dims": {"n": 1},
        "seed": 7,
        "rtol": 0.1,
        "atol": 0.0,
        "cache_dir": None,
        "host_fallback": True,
        "timeout": 9.0,
        "optimization": None,
        "entry": None,
        "freeze": None,
        "tolerances": None,
        "html": None,
        "junit": None,
        "edge_cases": False,
        "dataset": None,
        "oracles": (),
        "noise": None,
        "float64": None,
    }


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ("--oracle ort --oracle onnx-reference", ("ort", "onnx-reference")),
        ("--oracle numpy,ort-noopt,numpy", ("numpy", "ort-noopt")),
        ("--expected e.npz --inputs i.npz --oracle golden,stablehlo-reference", ("golden", "stablehlo-reference")),
    ],
)
def test_verify_takes_several_oracles(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: str, names: tuple[str, ...]
) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(api, "verify", lambda path, **options: seen.update(options) or report("pass"))
    assert cli("verify", "m.onnx", *arguments.split(), "--no-noise", "--float64").status == 0
    assert (seen["oracles"], seen["noise"], seen["float64"]) == (names, False, True)


def test_an_unknown_oracle_is_refused_with_the_names(cli: Cli) -> None:
    told = cli("verify", "m.onnx", "--oracle", "ort,torch", "--json").document
    assert told["exit"] == 2 and "'torch' is not one of ort, ort-noopt, onnx-reference" in told["message"]


def test_verify_shows_the_noise_the_errors_from_float64_and_the_rule(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    document = report("pass").to_json()
    document["outputs"][0] |= {
        "rule": "float64",
        "reason": "as close",
        "noise": {"optimiser": 2e-7, "threads": 7e-7},
        "float64": {"ours": {"max_abs": 3e-4}, "oracle": {"max_abs": 4e-4}},
    }
    document |= {
        "rules": ["exact", "float64"],
        "execution": {"nodes": 9, "host_nodes": 1, "kernels": 4, "folded": ["Transpose_3"]},
    }
    monkeypatch.setattr(api, "verify", lambda path, **options: SimpleNamespace(to_json=lambda: document, exit=0))
    monkeypatch.setenv("COLUMNS", "240")
    told = cli("verify", "m.onnx").out
    header, row = told.splitlines()[:2]
    assert "noise" in header and "off float64" in header and "oracle off" in header
    for text in ("7e-07", "0.0003", "0.0004", "pass (float64): as close"):
        assert text in row
    for text in ("9, 1 of them on the host", "1 nodes that only constants decide", "exact, float64"):
        assert text in told


def test_run_prints_the_outputs(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    outputs = {"y": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array(3)}
    result = api.RunResult(Path("m.fxa"), "cpu", outputs, Path("o.npz"), 0.5)
    monkeypatch.setattr(api, "run", lambda path, **options: result)
    told = cli("run", "m.fxa", "--inputs", "i.npz", "-o", "o.npz")
    assert told.out.splitlines() == [
        "output  dtype    shape   values",
        "y       float32  [2, 3]  0, 1, 2, 3, ...",
        "n       int64    []      3",
        "ran on cpu in 0.50 s, loading included",
        "written to o.npz",
    ]
    assert cli("run", "m.fxa", "--json").document["outputs"][0] == {"name": "y", "dtype": "float32", "shape": [2, 3]}


def test_inspect_prints_models_and_artifacts(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = {"name": "x", "dtype": "f32", "shape": ["batch", 3]}
    model = {
        "kind": "model",
        "path": "m.onnx",
        "format": "onnx",
        "opsets": {"ai.onnx": 17},
        "inputs": [tensor],
        "outputs": ["y"],
        "nodes": 2,
        "operators": {"ai.onnx::Relu": 2},
        "external_data": [],
        "target": "cpu",
        "supported": False,
        "refused": [{"node": "n", "reason": "because"}],
    }
    artifact = {
        "kind": "artifact",
        "path": "m.fxa",
        "format": 1,
        "key": KEY,
        "source": {"digest": "sha256:12"},
        "ir_digest": "34",
        "target": {"label": "amd:gfx942"},
        "toolchain": {"max": "26.7.0"},
        "inputs": [tensor],
        "outputs": [tensor],
        "constraints": [["a", ">=", 1, "a slice"]],
        "host_nodes": [{"node": "h", "transfers": 2}],
        "blobs": [{"mediaType": "mef", "size": 1500, "digest": "sha256:56"}],
        "verified": [],
    }
    monkeypatch.setattr(api, "inspect", lambda path, **options: model if path.suffix == ".onnx" else artifact)
    told = cli("inspect", "m.onnx").out
    for text in ("ai.onnx::Relu", "[batch, 3]", "supported  no", "because"):
        assert text in told
    told = cli("inspect", "m.fxa").out
    for text in ("amd:gfx942", KEY, "a >= 1 a slice", "1.5 kB", "nothing is known", "on the host"):
        assert text in told
    assert cli("inspect", "m.fxa", "--json").document == artifact


def test_targets(cli: Cli) -> None:
    rows = {row["target"]: row for row in cli("targets", "--json").document["targets"]}
    assert rows["amd"]["label"] == "amd:gfx942"
    assert rows["amd"]["compiles_here"] is True
    assert rows["cpu"]["runs_here"] is True
    assert rows["cpu:x86-64-v3"]["description"] == "x86_64 CPU"
    listed = cli("targets").out
    assert "gaudi, ascend and qualcomm are not possible" in listed
    assert "cpu:znver4" not in listed
    assert "cpu:znver4" in cli("targets", "--all").out


def test_shell_completion() -> None:
    environment = {**os.environ, "_FORNAXC_COMPLETE": "bash_complete", "COMP_WORDS": "fornaxc compile -t amd:gfx9"}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'fornaxc'; from fornaxc.cli.main import main; main()"],
        env={**environment, "COMP_CWORD": "3"}, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "plain,amd:gfx942" in done.stdout.splitlines()
