"""Runs many programs through MAX, few processes for all of them.

Programs are lowered into shared modules (a module costs ten seconds, a program in it little), which child processes
compile and run. A module that fails is divided until the guilty program has a name. Each program has a folder, named by
the digest of all that decides its outcome, so that what is known is not run again.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fornaxc.ir.graph import Array, Graph
from fornaxc.ir.serialize import graph_to_json
from fornaxc.qualify.arrays import read_arrays, write_arrays
from fornaxc.qualify.processes import Ended, Job, run_jobs
from fornaxc.weights import weight_constants

HOST = {"device_kind": "cpu", "api": "", "arch": "", "cpu": ""}
"""The target that is the CPU of this machine, as `fornaxc.worker` takes it."""


MODULE_BYTES = 400_000
"""How long the documents of a module's graphs may be together: some 2,500 operations. MAX takes gigabytes for three times as many."""

CHILD = "fornaxc.qualify.module"
"""The module that a child process runs."""


@dataclass(frozen=True, slots=True)
class Program:
    """A checked graph with the inputs of each run."""

    name: str
    graph: Graph
    runs: Sequence[Sequence[Array]]


@dataclass(slots=True)
class Outcome:
    """What became of a program: `status` is ok, refused, error, crash or timeout, `phase` the last one begun (lower, compile, run).

    `outputs` are those of each run, empty where it only was compiled; `seconds` are its own and its share of the module's.
    """

    status: str
    phase: str
    error: str = ""
    seconds: float = 0.0
    outputs: list[list[Array]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Options:
    """How programs are run. `target` is a worker's target; `execute` ends after compiling where false; `timeout` is of a module;
    `rules` names a device kind whose lowering rules are applied in place of the target's own; `optimization` is the level of lowering, 0 to 3."""

    target: dict[str, str] = field(default_factory=lambda: dict(HOST))
    execute: bool = True
    per_module: int = 60
    workers: int = 1
    timeout: float = 1800
    environment: dict[str, str] = field(default_factory=dict)
    rules: str = ""
    optimization: int = 1


def run_programs(programs: Sequence[Program], options: Options | None = None) -> dict[str, Outcome]:
    """Run every program; names must be unique."""
    if len({p.name for p in programs}) != len(programs):
        raise ValueError("two programs have one name")
    with tempfile.TemporaryDirectory(prefix="fornaxc-programs-") as scratch:
        folders = {p.name: write_program(Path(scratch), "", p.graph, p.runs) for p in programs}
        run_folders(list(dict.fromkeys(folders.values())), options or Options())
        return {name: read_outcome(folder) for name, folder in folders.items()}


def write_program(base: Path, version: str, graph: Graph, runs: Sequence[Sequence[Array]], code: str = "") -> Path:
    """The folder of a program below `base`, named by the digest of all that decides its outcome.

    `code` is what the program is lowered to, where that is known: it stands for the graph, so that only a change that reaches
    MAX is a change. `version` names whatever else decides: the target, MAX's version.
    """
    document = json.dumps(graph_to_json(graph, origins=True))
    weights = [w.load() for w in weight_constants(graph)]
    types = [str(v.type) for v in (*graph.inputs, *graph.outputs)]
    digest = hashlib.sha256("\0".join([version, code or document, *types]).encode())
    for array in (*weights, *(a for inputs in runs for a in inputs)):
        digest.update(str((array.dtype.name, array.shape)).encode() + np.ascontiguousarray(array).tobytes())
    folder = base / digest.hexdigest()[:32]
    if not _done(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for index, inputs in enumerate(runs):
            write_arrays(folder / f"inputs{index}", inputs)
        write_arrays(folder / "weights", weights)
        (folder / "graph.json").write_text(document)
    return folder


def run_folders(folders: Sequence[Path], options: Options, told: Callable[[Path], None] = lambda folder: None) -> None:
    """Run the programs of these folders that have no outcome yet; `told` hears of every folder that gets one."""
    pending = [f for f in folders if not _done(f)]
    run_jobs(
        [_module(m, options, told) for m in _modules(pending, options.per_module)],
        workers=options.workers,
        timeout=options.timeout,
        environment=options.environment,
    )


def _modules(folders: Sequence[Path], count: int) -> list[list[Path]]:
    """The programs in modules of at most `count` and of `MODULE_BYTES` of graphs, the largest first: none is waited for at the end."""
    modules: list[list[Path]] = []
    sizes: list[int] = []
    for folder in folders:
        size = (folder / "graph.json").stat().st_size
        if not modules or len(modules[-1]) == count or sizes[-1] + size > MODULE_BYTES:
            modules.append([])
            sizes.append(0)
        modules[-1].append(folder)
        sizes[-1] += size
    return [modules[i] for i in sorted(range(len(modules)), key=lambda i: -sizes[i])]


def read_outcome(folder: Path) -> Outcome:
    """The outcome of a program that was run."""
    found = json.loads((folder / "result.json").read_text())
    outputs = [read_arrays(folder / f"outputs{index}") for index in range(found["runs"])]
    return Outcome(found["status"], found["phase"], found["error"], found["seconds"], outputs)


def write_outcome(folder: Path, status: str, phase: str, error: str = "", seconds: float = 0.0, runs: int = 0) -> None:
    """Record an outcome, written aside first, so that one that is there is whole."""
    found = {"status": status, "phase": phase, "error": error[-2000:], "seconds": seconds, "runs": runs}
    part = folder / "result.part"
    part.write_text(json.dumps(found))
    part.replace(folder / "result.json")


def _done(folder: Path) -> bool:
    return (folder / "result.json").exists()


def _module(folders: list[Path], options: Options, told: Callable[[Path], None]) -> Job:
    document = {
        "folders": [str(f) for f in folders],
        "target": options.target,
        "execute": options.execute,
        "rules": options.rules,
        "optimization": options.optimization,
    }
    return Job(CHILD, document, lambda ended: _after(folders, ended, options, told))


def _after(folders: list[Path], ended: Ended, options: Options, told: Callable[[Path], None]) -> Iterator[Job]:
    """Record what a module's end tells; the modules that what is left must run in."""
    guilty, report = None, ended.report
    left = [f for f in folders if not _done(f)]
    if left and report.get("running"):  # the module compiled; one program ended the process while it ran
        guilty = Path(report["running"])
        if not _done(guilty):
            _blame(guilty, "run", ended)
    elif len(left) == 1:
        guilty = left[0]
        _blame(guilty, report.get("phase", "lower"), ended)
    for folder in folders:
        if _done(folder):
            told(folder)
    left = [f for f in left if not _done(f)]
    if not left:
        return
    parts = [left] if guilty is not None else _parts(left, report.get("error", "") + ended.log)
    for part in parts:
        yield _module(part, options, told)


def _blame(folder: Path, phase: str, ended: Ended) -> None:
    report = ended.report
    if ended.how == "timeout":
        write_outcome(folder, "timeout", phase, "it took too long")
    elif "error" in report:
        write_outcome(folder, "error", phase, report["error"])
    else:
        write_outcome(folder, "crash", phase, f"the process ended with {ended.how}: {_last_words(ended.log)}")


def _last_words(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() or "abort" in line.lower()]
    return (telling or lines or ["no output"])[-1][:300]


def _parts(folders: list[Path], error: str) -> list[list[Path]]:
    """Smaller modules for one that does not compile: the programs that MAX names by themselves, else two halves."""
    named = [f for f in folders if graph_name(f) in error]
    if 0 < len(named) < len(folders):
        return [[f] for f in named] + [[f for f in folders if f not in named]]
    middle = len(folders) // 2
    return [folders[:middle], folders[middle:]]


def graph_name(folder: Path) -> str:
    """What the program of a folder is called in its module."""
    return f"g{folder.name}"


def job_of(path: str) -> dict[str, Any]:
    """The document of a child's job file."""
    document: dict[str, Any] = json.loads(Path(path).read_text())
    return document
