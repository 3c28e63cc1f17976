"""The child process that lowers and compiles: it may crash, hang or be killed without harm.

Run as `python -m fornaxc.worker JOB.json FD`. The job names the graph document, the target and where to write the .mef and the result; phase changes are
written as lines to the file descriptor FD. MAX's settings are process-wide and latch at first use, so a
process serves one job.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from time import perf_counter
from typing import Any

from fornaxc.ir.graph import Array, Graph, Node
from fornaxc.ir.types import TensorType


def run_job(job: dict[str, Any], pipe: int) -> dict[str, Any]:
    """Do one job: {"graph", "device_kind", "api", "arch", "cpu", "optimization", "mef", "dump", "stop_after"}; returns {"seconds", "host_nodes"}."""
    from fornaxc.ir.serialize import graph_from_json

    seconds: dict[str, float] = {}

    def begin(phase: str) -> float:
        os.write(pipe, f"{phase}\n".encode())
        return perf_counter()

    start = begin("lower")
    configure_devices(job)
    from fornaxc.lowering.lower import lower_graph

    graph = graph_from_json(json.loads(Path(job["graph"]).read_text()), _no_weights)
    lowered = lower_graph(
        graph,
        device_kind=job["device_kind"],
        name="model",
        optimization=job["optimization"],
    )
    if job.get("dump"):
        Path(job["dump"]).write_text(str(lowered.max_graph))
    seconds["lower"] = perf_counter() - start
    if job["stop_after"] == "lower":
        return {"seconds": seconds, "host_nodes": lowered.host_nodes}

    start = begin("compile")
    session = make_session(job["device_kind"])
    try:
        session.compile(lowered.max_graph).export_mef(job["mef"])
    except Exception as error:
        write_result(job, failure(error))  # the search for the nodes may crash, or outlast the job's time
        raise CompileFailed(guilty_nodes(graph, session, job)) from error
    seconds["compile"] = perf_counter() - start
    return {"seconds": seconds, "host_nodes": lowered.host_nodes}


class CompileFailed(Exception):
    """MAX refused the program; `nodes` are those that it names: {"node", "op", "ir"}. The cause is MAX's own error."""

    def __init__(self, nodes: list[dict[str, str]]) -> None:
        super().__init__()
        self.nodes = nodes


def guilty_nodes(graph: Graph, session: Any, job: dict[str, Any]) -> list[dict[str, str]]:
    """The nodes of a program that does not compile which MAX's error is about.

    The program is compiled once more with their names in it; where the error names none (those inside of a kernel do not), its beginnings are.
    """
    from fornaxc.ir.prefix import first_failing_node
    from fornaxc.lowering.lower import lower_graph
    from fornaxc.lowering.tracing import nodes_in, remembered_frames

    trace: list[Node] = []

    def error_of(part: Graph) -> Exception | None:
        trace.clear()
        try:
            with remembered_frames():
                lowered = lower_graph(
                    part, device_kind=job["device_kind"], name="traced", optimization=job["optimization"], trace=trace
                )
                session.compile(lowered.max_graph)
        except Exception as error:
            traceback.print_exc()
            return error
        return None

    found = nodes_in(error_of(graph), trace)
    if not found:
        first = first_failing_node(graph, lambda part: error_of(part) is not None)
        found = [] if first is None else [first]
    return [{"node": n.origin.node, "op": n.origin.op, "ir": str(n.op)} for n in found]


def configure_devices(job: dict[str, Any]) -> None:
    """Point MAX at the job's target, before anything creates a device. Away from a Mac MAX refuses a virtual Metal device."""
    from max import driver

    if job["api"] and (job["api"] != "metal" or sys.platform == "darwin"):
        driver.set_virtual_device_api(job["api"])
        driver.set_virtual_device_target_arch(job["arch"])
        driver.set_virtual_device_count(1)
    if job["cpu"]:
        driver.set_virtual_cpu_target(job["cpu"])


def make_session(device_kind: str) -> Any:
    """An engine session on the (virtual) device of a kind."""
    from max import driver, engine

    return engine.InferenceSession(
        devices=[driver.CPU()] if device_kind == "cpu" else [driver.Accelerator(), driver.CPU()]
    )


def reason_of(error: BaseException) -> str:
    """The line that says most: MAX keeps what went wrong in the cause of a general message."""
    chain: list[str] = []
    found: BaseException | None = error
    while found is not None:
        chain += [line.strip() for line in str(found).splitlines() if line.strip()]
        found = found.__cause__
    named = [line for line in chain if "error:" in line]
    return (named or chain or [type(error).__name__])[0]


def failure(error: BaseException) -> dict[str, Any]:
    """The result of a job that failed, with the nodes where they are known."""
    return {"error": reason_of(error), "kind": type(error).__name__, "nodes": getattr(error, "nodes", [])}


def write_result(job: dict[str, Any], result: dict[str, Any]) -> None:
    """Write a result in place of one that is there; a process that ends meanwhile leaves one of them whole."""
    part = Path(f"{job['result']}.part")
    part.write_text(json.dumps(result))
    part.replace(job["result"])


def _no_weights(number: int, type: TensorType) -> Array:
    raise AssertionError(f"lowering read the bytes of weight {number}, {type}")


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    try:
        result = run_job(job, int(sys.argv[2]))
    except BaseException as error:
        traceback.print_exc()
        result = failure(error)
    write_result(job, result)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # MAX may abort in its own clean-up


if __name__ == "__main__":
    main()
