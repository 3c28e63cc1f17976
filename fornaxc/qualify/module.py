"""The child that compiles and runs the programs of one module: `python -m fornaxc.qualify.module JOB.json`.

The job is {"folders", "target", "execute", "rules", "report"}. Outcomes go to the programs' folders; the report says which phase
or program the process is at, for the parent to read when it died.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
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
    from max.graph import Module

    from fornaxc.lowering.context import KERNELS
    from fornaxc.lowering.lower import lower_graph

    report, kind = Path(job["report"]), job["target"]["device_kind"]
    host = driver.CPU()
    device = host if kind == "cpu" else driver.Accelerator()
    module, registry = Module(), dict[str, Any]()
    graphs, seconds = dict[Path, Graph](), dict[Path, float]()
    for folder in map(Path, job["folders"]):
        start = perf_counter()
        report.write_text(json.dumps({"phase": "lower"}))
        weights = read_arrays(folder / "weights")
        document = json.loads((folder / "graph.json").read_text())
        graph = graph_from_json(document, lambda number, _, held=weights: held[number])  # type: ignore[misc]
        lower = partial(lower_graph, graph, device_kind=kind, name=graph_name(folder), weight_prefix=f"{folder.name}_")
        try:
            lower(module=Module())  # a failure must not spoil the shared module
        except UnsupportedError as error:
            write_outcome(folder, "refused", "lower", error.message)
            continue
        except Exception as error:
            traceback.print_exc()
            write_outcome(folder, "error", "lower", f"{type(error).__name__}: {error}")
            continue
        lowered = lower(module=module)
        if job["execute"]:
            registry.update(zip(lowered.weight_names, (_buffer(w, device) for w in weights), strict=True))
        graphs[folder], seconds[folder] = graph, perf_counter() - start
    if not graphs:
        return
    start = perf_counter()
    report.write_text(json.dumps({"phase": "compile"}))
    session = engine.InferenceSession(devices=[host] if kind == "cpu" else [device, host], custom_extensions=[KERNELS])
    compiled = session.compile(module)
    if not job["execute"]:
        share = (perf_counter() - start) / len(graphs)
        for folder in graphs:
            write_outcome(folder, "ok", "compile", seconds=seconds[folder] + share)
        return
    models = session.init_all(compiled, weights_registry=registry)
    share = (perf_counter() - start) / len(graphs)
    print(f"{len(graphs)} programs: compiled in {perf_counter() - start:.1f} s", flush=True)
    for folder, graph in graphs.items():
        report.write_text(json.dumps({"running": str(folder)}))
        start = perf_counter()
        try:
            runs = _execute(folder, graph, models[graph_name(folder)], device)
        except Exception as error:
            write_outcome(folder, "error", "run", f"{type(error).__name__}: {reason_of(error)}")
        else:
            write_outcome(folder, "ok", "run", "", seconds[folder] + share + perf_counter() - start, runs)
    report.write_text("{}")


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
