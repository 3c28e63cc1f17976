"""Starts engines in processes of their own, and measures them in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from statistics import median
from time import sleep
from typing import Any, Protocol

import numpy as np

from fornaxc.bench.plan import PAUSE, Run, interleave, plan
from fornaxc.bench.side import Job, started
from fornaxc.bench.statistics import latency, ratio
from fornaxc.errors import FornaxError

Array = np.ndarray[Any, np.dtype[Any]]
ROOT = Path(__file__).parents[1]


class Loaded(Protocol):
    """An engine that has loaded a model and run it once."""

    @property
    def ready(self) -> Mapping[str, Any]: ...

    @property
    def outputs(self) -> Mapping[str, Array]: ...

    @property
    def peak_memory(self) -> int | None: ...

    def block(self, warmup: int, runs: int) -> list[Run]: ...


class Starter(Protocol):
    """Makes the context in which an engine is loaded; it raises a FornaxError where the engine fails."""

    def __call__(self, job: Job) -> Any: ...


def start(job: Job) -> AbstractContextManager[Loaded]:
    """The engine of a job, loaded and run once; its process ends with the context."""
    return started(job, "benchmarks.child", ROOT)


def latencies(
    jobs: Sequence[Job], reference: str, starter: Starter = start, pause: Callable[[float], None] = sleep
) -> dict[str, Any]:
    """Latency of each engine, all measured in turn, block by block; `reference` is the one that ratios are against.

    By engine: a dict with the latency's percentiles in seconds, `ratio` to the reference, `difference` of the outputs from its outputs (see
    `difference`), and peak memory in bytes; or {"failed": why}, where the engine does not load or run the model.
    """
    failed: dict[str, Any] = {}
    with ExitStack() as stack:
        sides: dict[str, Loaded] = {}
        slowest = 0.0
        for job in jobs:
            try:
                side = stack.enter_context(starter(job))
                slowest = max(slowest, side.block(1, 1)[0].whole)
            except FornaxError as error:
                failed[job.engine] = {"failed": error.message}
            else:
                sides[job.engine] = side
        if not sides:
            return failed
        planned = plan(None, None, slowest)
        measured = interleave(list(sides.values()), planned, pause=pause)
        blocks = {n: [[r.whole for r in block] for block in b] for n, b in zip(sides, measured, strict=True)}
        found = {name: _told(name, blocks, sides, reference) for name in sides}
    shape = {"blocks": list(planned.blocks), "warmup": planned.warmup, "pause_seconds": PAUSE}
    return {**found, **failed, "plan": shape}


def _told(
    name: str, blocks: Mapping[str, list[list[float]]], sides: Mapping[str, Loaded], reference: str
) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "latency": latency([seconds for block in blocks[name] for seconds in block]).to_json(),
        "peak_memory": sides[name].peak_memory,
        "version": sides[name].ready["version"],
    }
    if reference in sides and name != reference:
        entry["ratio"] = ratio(blocks[name], blocks[reference]).to_json()
        entry["difference"] = difference(sides[name].outputs, sides[reference].outputs)
    return entry


def difference(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> float | None:
    """The largest difference of an element, as a share of the largest element of its output.

    Outputs are matched by position, for some engines rename them. None where their number, shapes or the places of NaN and infinities differ.
    """
    if [a.shape for a in ours.values()] != [a.shape for a in theirs.values()]:
        return None
    worst = 0.0
    for array, other in zip(theirs.values(), ours.values(), strict=True):
        wanted, given = array.astype(np.float64), other.astype(np.float64)
        finite = np.isfinite(wanted)
        if not np.array_equal(wanted[~finite], given[~finite], equal_nan=True) or not np.isfinite(given[finite]).all():
            return None
        if finite.any():
            largest = float(np.abs(wanted[finite]).max()) or 1.0
            worst = max(worst, float(np.abs(wanted[finite] - given[finite]).max()) / largest)
    return worst


def loads(jobs: Sequence[Job], rounds: int, starter: Starter = start) -> dict[str, Any]:
    """From an engine that is imported to its first result, in fresh processes: each engine once a round, in turn.

    By engine: the medians and the least and largest of `load` (to the first result) and `import` in seconds, the largest `memory` after loading in bytes;
    or {"failed": why}.
    """
    told: dict[str, list[Mapping[str, Any]]] = {job.engine: [] for job in jobs}
    failed: dict[str, Any] = {}
    for _ in range(rounds):
        for job in jobs:
            if job.engine in failed:
                continue
            try:
                with starter(job) as side:
                    told[job.engine].append(side.ready)
            except FornaxError as error:
                failed[job.engine] = {"failed": error.message}
    found = {name: _loaded(ready) for name, ready in told.items() if name not in failed}
    return {**found, **failed}


def _loaded(ready: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    memory = [r["memory_after_loading"] for r in ready if r["memory_after_loading"] is not None]
    return {
        "load": spread([r["load_seconds"] + r["first_run_seconds"] for r in ready]),
        "import": spread([r["import_seconds"] for r in ready]),
        "memory": max(memory, default=None),
        "version": ready[0]["version"],
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """The median, the least and the largest of at least one number, and how many there are."""
    return {"median": median(values), "lowest": min(values), "highest": max(values), "count": len(values)}
