"""The child that compiles and runs the programs of one module: `python -m fornaxc.qualify.module JOB.json`.

The job is {"folders", "target", "execute", "rules", "optimization", "report"}. Outcomes go to the programs' folders; the report says which phase
or program the process is at, for the parent to read when it died.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from fornaxc.errors import UnsupportedError
from fornaxc.ir.graph import Array, Graph
from fornaxc.ir.serialize import graph_from_json
from fornaxc.ir.types import dtype_of
from fornaxc.qualify.arrays import read_arrays, write_arrays
from fornaxc.qualify.processes import end_with_parent
from fornaxc.qualify.programs import graph_name, job_of, write_outcome
from fornaxc.runtime import to_array, to_buffer
from fornaxc.worker import configure_devices, reason_of


def run_module(job: dict[str, Any]) -> None:
    """Lower, compile and (where the job says so) run every program of the job."""
    configure_devices(job["target"])
    from max import driver, engine

    from fornaxc.lowering.kernel_package import kernel_library

    report, kind = Path(job["report"]), job["target"]["device_kind"]
    host = driver.CPU()
    device = host if kind == "cpu" else driver.Accelerator()
    report.write_text(json.dumps({"phase": "lower"}))
    programs = _lowerable([Path(f) for f in job["folders"]], job)
    if not programs:
        return
    start = perf_counter()
    report.write_text(json.dumps({"phase": "compile"}))
    devices = [host] if kind == "cpu" else [device, host]
    session = engine.InferenceSession(devices=devices, custom_extensions=list(kernel_library().library_paths()))
    compiled, weights = _compiled(programs, session, job)
    if not job["execute"]:
        share = (perf_counter() - start) / max(1, len(programs))
        for program in programs:
            write_outcome(program.folder, "ok", "compile", seconds=program.seconds + share)
        return
    if not programs:
        return
    registry = {
        name: _buffer(array, device)
        for program in programs
        for name, array in zip(weights[program.folder], program.weights, strict=True)
    }
    models = session.init_all(compiled, weights_registry=registry)
    share = (perf_counter() - start) / len(programs)
    print(f"{len(programs)} programs: compiled in {perf_counter() - start:.1f} s", flush=True)
    for program in programs:
        folder = program.folder
        report.write_text(json.dumps({"running": str(folder)}))
        start = perf_counter()
        try:
            runs = _execute(folder, program.graph, models[graph_name(folder)], device)
        except Exception as error:
            write_outcome(folder, "error", "run", f"{type(error).__name__}: {reason_of(error)}")
        else:
            write_outcome(folder, "ok", "run", "", program.seconds + share + perf_counter() - start, runs)
    report.write_text("{}")


@dataclass(frozen=True, slots=True)
class _Program:
    """A program that can be lowered; `seconds` is how long that took."""

    folder: Path
    graph: Graph
    weights: list[Array]
    seconds: float


def _lowerable(folders: list[Path], job: dict[str, Any]) -> list[_Program]:
    """The programs of these folders. Those that cannot be lowered get their outcome here: they must not spoil the module."""
    from max.graph import Module

    found = []
    for folder in folders:
        start = perf_counter()
        weights = read_arrays(folder / "weights")
        document = json.loads((folder / "graph.json").read_text())
        graph = graph_from_json(document, lambda number, _, held=weights: held[number])  # type: ignore[misc]
        program = _Program(folder, graph, weights, 0.0)
        try:
            _lower(program, Module(), job)
        except UnsupportedError as error:
            write_outcome(folder, "refused", "lower", error.message)
        except Exception as error:
            traceback.print_exc()
            write_outcome(folder, "error", "lower", f"{type(error).__name__}: {error}")
        else:
            found.append(replace(program, seconds=perf_counter() - start))
    return found


def _lower(program: _Program, module: Any, job: dict[str, Any]) -> list[str]:
    """Lower a program into a module; the names that its weights are bound under."""
    from fornaxc.lowering.lower import lower_graph

    return lower_graph(
        program.graph,
        device_kind=job["target"]["device_kind"],
        name=graph_name(program.folder),
        module=module,
        weight_prefix=f"{program.folder.name}_",
        optimization=job["optimization"],
        rules=job["rules"],
    ).weight_names


def _compiled(programs: list[_Program], session: Any, job: dict[str, Any]) -> tuple[Any, dict[Path, list[str]]]:
    """The compiled module of these programs, with the names of their weights.

    A program that MAX names as the reason for a failure gets its outcome, and leaves the list; what nobody is named for is raised.
    """
    from max.graph import Module

    while programs:
        module = Module()
        weights = {p.folder: _lower(p, module, job) for p in programs}
        try:
            return session.compile(module), weights
        except Exception as error:
            guilty = programs[0] if len(programs) == 1 else _guilty(programs, session, job)
            if guilty is None:
                raise
            write_outcome(guilty.folder, "error", "compile", reason_of(error))
            programs.remove(guilty)
    return None, {}


def _guilty(programs: list[_Program], session: Any, job: dict[str, Any]) -> _Program | None:
    """The program that MAX's error is about, found by compiling once more with tracebacks: each program's shows a file of its name."""
    from max.graph import Module

    from fornaxc.lowering.tracing import in_frame, remembered_frames, said

    module = Module()
    try:
        with remembered_frames():
            for program in programs:
                in_frame(f"<{graph_name(program.folder)}>", partial(_lower, program, module, job))
            session.compile(module)
    except Exception as error:
        text = said(error)
        named = [p for p in programs if f"<{graph_name(p.folder)}>" in text]
        return named[0] if len(named) == 1 else None
    return None


def _execute(folder: Path, graph: Graph, model: Any, device: Any) -> int:
    """Run a program on each of its inputs and write the outputs; how many runs there were."""
    runs = 0
    while (folder / f"inputs{runs}.json").exists():
        results = model.execute(*(_buffer(a, device) for a in read_arrays(folder / f"inputs{runs}")))
        arrays = [to_array(r, v.type.dtype) for r, v in zip(results, graph.outputs, strict=True)]
        write_arrays(folder / f"outputs{runs}", arrays)
        runs += 1
    return runs


def _buffer(array: Array, device: Any) -> Any:
    return to_buffer(array, dtype_of(array.dtype), device)


def main() -> None:
    end_with_parent()
    job = job_of(sys.argv[1])
    try:
        run_module(job)
    except BaseException as error:
        traceback.print_exc()
        report = Path(job["report"])
        known = json.loads(report.read_text()) if report.exists() else {}
        report.write_text(json.dumps({**known, "error": reason_of(error)}))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # MAX may abort in its own clean-up


if __name__ == "__main__":
    main()
