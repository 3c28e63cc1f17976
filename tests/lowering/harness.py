"""Runs many small graphs through MAX, a few processes for all of them.

`run_cases` lowers the graphs into shared modules (a module costs ten seconds, a graph in it little), compiles and runs them in a child process with a
time-out, and halves a module that fails until the guilty graph has a name. With a `store`, answers are
remembered under a digest of the case and of the sources that decide it.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import fornaxc
from fornaxc.ir.graph import Array, Graph
from fornaxc.ir.serialize import graph_to_json
from fornaxc.ir.types import DType, dtype_of
from fornaxc.weights import weight_constants

SOURCES = Path(fornaxc.__file__).parent
Case = tuple[str, Graph, Sequence[Array]]


@dataclass(slots=True)
class Outcome:
    """What became of one case: `outputs`, or the `error` and the phase it came from (lower, compile, run, crash, timeout)."""

    outputs: list[Array] = field(default_factory=list)
    phase: str = "ok"
    error: str = ""


def run_cases(
    cases: Sequence[Case], *, per_module: int = 60, timeout: float = 600, store: Path | None = None, rules: str = ""
) -> dict[str, Outcome]:
    """Run every case on the CPU, lowered by the rules of another kind of device where `rules` says so; names must be unique."""
    assert len({name for name, _, _ in cases}) == len(cases), "two cases have one name"
    with tempfile.TemporaryDirectory(prefix="fornaxc-cases-") as scratch:
        base = store or Path(scratch)
        version = (_sources_digest() if store else "") + rules
        folders = {name: base / _write_case(base, graph, inputs, version) for name, graph, inputs in cases}
        todo = [f for f in dict.fromkeys(folders.values()) if not (f / "result.json").exists()]
        for first in range(0, len(todo), per_module):
            _run_module(todo[first : first + per_module], timeout, rules)
        return {name: _read(folder) for name, folder in folders.items()}


def _sources_digest() -> str:
    total = hashlib.sha256()
    for path in sorted([*(SOURCES / "lowering").glob("*.py"), *(SOURCES / "kernels").glob("*.mojo")]):
        total.update(path.read_bytes())
    return total.hexdigest()


def _write_case(base: Path, graph: Graph, inputs: Sequence[Array], version: str) -> str:
    document = json.dumps(graph_to_json(graph, origins=True))
    weights = [w.load() for w in weight_constants(graph)]
    digest = hashlib.sha256((version + document).encode())
    for array in (*weights, *inputs):
        digest.update(str((array.dtype.name, array.shape)).encode() + np.ascontiguousarray(array).tobytes())
    name = digest.hexdigest()[:24]
    folder = base / name
    if not (folder / "graph.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_arrays(folder / "inputs", inputs)
        write_arrays(folder / "weights", weights)
        (folder / "graph.json").write_text(document)
    return name


def write_arrays(path: Path, arrays: Sequence[Array]) -> None:
    """Arrays of any element type: their types in PATH.json, their bytes in PATH.bin."""
    types = [[dtype_of(a.dtype).value, list(a.shape)] for a in arrays]
    path.with_suffix(".bin").write_bytes(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))
    path.with_suffix(".json").write_text(json.dumps(types))


def read_arrays(path: Path) -> list[Array]:
    """The inverse of `write_arrays`."""
    data, at, arrays = path.with_suffix(".bin").read_bytes(), 0, []
    for name, shape in json.loads(path.with_suffix(".json").read_text()):
        dtype = DType(name).numpy
        count = int(np.prod(shape, dtype=np.int64))
        arrays.append(np.frombuffer(data, dtype, count, at).reshape(shape))
        at += count * dtype.itemsize
    return arrays


def _finish(folder: Path, phase: str, error: str) -> None:
    if not (folder / "result.json").exists():
        (folder / "result.json").write_text(json.dumps({"phase": phase, "error": error[-2000:]}))


def _run_module(folders: list[Path], timeout: float, rules: str) -> None:
    """Run one module; halve it where it does not compile, and go on after a case that kills the process."""
    pending = [f for f in folders if not (f / "result.json").exists()]
    if not pending:
        return
    report, ended = _child(pending, timeout, rules)
    left = [f for f in pending if not (f / "result.json").exists()]
    if not left:
        return
    running = report.get("running")
    if running is not None:  # the module compiled; one case crashed while it ran
        _finish(Path(running), "crash", ended)
        _run_module(left, timeout, rules)
    elif len(left) == 1:
        _finish(left[0], "timeout" if ended == "timeout" else "compile", report.get("error", ended))
    elif len(left) < len(pending) and "error" not in report:
        _run_module(left, timeout, rules)
    else:
        for part in _parts(left, report.get("error", "")):
            _run_module(part, timeout, rules)


def _parts(folders: list[Path], error: str) -> list[list[Path]]:
    """Smaller modules for one that does not compile: the graphs that MAX names by themselves, else two halves."""
    named = [f for f in folders if f"g{f.name}" in error]
    if 0 < len(named) < len(folders):
        return [[f] for f in named] + [[f for f in folders if f not in named]]
    middle = len(folders) // 2
    return [folders[:middle], folders[middle:]]


def _child(folders: list[Path], timeout: float, rules: str) -> tuple[dict[str, Any], str]:
    """Start the child on these cases; what it reported, and how it ended."""
    with tempfile.TemporaryDirectory(prefix="fornaxc-module-") as scratch:
        report, log = Path(scratch) / "report.json", Path(scratch) / "log"
        with log.open("wb") as output:
            child = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("child.py")), str(report), rules, *map(str, folders)],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(SOURCES.parent)},
            )
        try:
            code = child.wait(timeout)
            ended = f"exit status {code}: {log.read_text(errors='replace')[-1500:]}"
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            ended = "timeout"
        found = json.loads(report.read_text()) if report.exists() else {}
        if "error" in found:
            found["error"] += log.read_text(errors="replace")[-1500:]
        return found, ended


def _read(folder: Path) -> Outcome:
    result = json.loads((folder / "result.json").read_text())
    outputs = read_arrays(folder / "outputs") if result["phase"] == "ok" else []
    return Outcome(outputs, result["phase"], result["error"])
