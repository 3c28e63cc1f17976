"""The child that imports, optimises and lowers cases: `python -m fornaxc.qualify.prepare JOB.json`.

The job is {"cases", "programs", "version", "target", "report"}. Each case's folder gets a `prepared.json`: the phase it
ended in with verdict and reason, or the folder of its program.
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from fornaxc.errors import FornaxError, UnsupportedError
from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.ir.binding import ShapeMismatch, bind_dims, check_constraints
from fornaxc.ir.checker import check
from fornaxc.ir.graph import Array, Graph
from fornaxc.lowering.support import unsupported
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack
from fornaxc.qualify.arrays import read_arrays
from fornaxc.qualify.kernel_sources import kernels_digest
from fornaxc.qualify.processes import end_with_parent
from fornaxc.qualify.programs import job_of, write_program
from fornaxc.qualify.selfchecking import read_selfchecking
from fornaxc.worker import configure_devices

T = TypeVar("T")

_WHERE_KERNELS_LIE = re.compile(r"_kernel_library_paths = \[[^\]]*\]")

_TOO_NEW = ("FX410", "FX411")
"""Codes of valid models of versions that fornaxc does not read."""


@dataclass(slots=True)
class _Ends(Exception):
    """The case goes no further."""

    phase: str
    verdict: str
    reason: str


def prepare(folder: Path, programs: Path, version: str, device_kind: str) -> dict[str, Any]:
    """Take one case as far as a program: {"phase", "verdict", "reason", "program", "seconds"}."""
    start = perf_counter()
    found = {"phase": "lower", "verdict": "", "reason": "", "program": ""}
    try:
        found["program"] = str(_program(folder, programs, version, device_kind))
    except _Ends as end:
        found |= {"phase": end.phase, "verdict": end.verdict, "reason": end.reason}
    return {**found, "seconds": perf_counter() - start}


def _program(folder: Path, programs: Path, version: str, device_kind: str) -> Path:
    case = json.loads((folder / "case.json").read_text())
    if "module" in case:
        graph, inputs = _in_phase("import", lambda: read_selfchecking(folder, case["name"]))
        check(graph)
        runs = [inputs]
    else:
        graph = _in_phase("import", lambda: _imported(Path(case["model"])))
        if case["runs"] is None:
            raise _Ends(
                "import", "refused", "values that are not tensors of numbers cross the graph's inputs or outputs"
            )
        runs = [read_arrays(folder / f"inputs{i}") for i in range(case["runs"])]
    for inputs in runs:
        _check_inputs(graph, inputs)
    program: Graph = _in_phase("optimize", lambda: prepack(optimize(graph, device_kind)))
    refused = unsupported(program, device_kind)
    if refused:
        raise _Ends("lower", "refused", _reasons(refused))
    code = _in_phase("lower", lambda: _lowered(program, device_kind))
    return _in_phase("optimize", lambda: write_program(programs, version, program, runs, code))


def _lowered(program: Graph, device_kind: str) -> str:
    """All of lowering that decides what MAX makes of the program: its graph, and the sources of the kernels that it calls."""
    from fornaxc.lowering.lower import lower_graph

    text = str(lower_graph(program, device_kind=device_kind, name="program").max_graph)
    return _WHERE_KERNELS_LIE.sub("", text) + kernels_digest(text)


def _imported(model: Path) -> Graph:
    graph = import_onnx(model)
    check(graph)
    return graph


def _in_phase(phase: str, work: Callable[[], T]) -> T:
    try:
        return work()
    except UnsupportedError as error:
        raise _Ends(phase, "refused", _reasons(error.details) or error.message) from error
    except FornaxError as error:
        verdict = "refused" if error.code in _TOO_NEW else "failed"
        raise _Ends(phase, verdict, error.message) from error
    except Exception as error:
        raise _Ends(phase, "failed", f"{type(error).__name__}: {error}"[:500]) from error


def _reasons(details: list[dict[str, Any]]) -> str:
    """What is missing, each thing once: `Softmax: its axis is not known`."""
    return "; ".join(sorted({f"{d['op']}: {d['reason']}" for d in details if "reason" in d}))


def _check_inputs(graph: Graph, inputs: list[Array]) -> None:
    """What the runtime would refuse to run."""
    if len(inputs) != len(graph.inputs):
        raise _Ends("run", "failed", f"the data set has {len(inputs)} inputs, the graph {len(graph.inputs)}")
    for value, array in zip(graph.inputs, inputs, strict=True):
        if array.dtype != value.type.dtype.numpy:
            raise _Ends("run", "failed", f"the input {value.name!r} is {value.type.dtype}, its data {array.dtype}")
    names, types = [v.name for v in graph.inputs], [v.type for v in graph.inputs]
    try:
        check_constraints(graph.constraints, bind_dims(names, types, [a.shape for a in inputs]))
    except ShapeMismatch as problem:
        raise _Ends("run", "refused", str(problem)) from problem


def main() -> None:
    end_with_parent()
    job = job_of(sys.argv[1])
    warnings.simplefilter("ignore")
    configure_devices(job["target"])
    for case in map(Path, job["cases"]):
        Path(job["report"]).write_text(json.dumps({"running": str(case)}))
        found = prepare(case, Path(job["programs"]), job["version"], job["target"]["device_kind"])
        part = case / "prepared.part"
        part.write_text(json.dumps(found))
        part.replace(case / "prepared.json")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # MAX may abort in its own clean-up


if __name__ == "__main__":
    main()
