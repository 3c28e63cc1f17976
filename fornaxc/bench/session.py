"""From an artifact, or a model that is compiled first, to a measurement."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fornaxc.artifact import check_runnable, check_source, open_artifact
from fornaxc.bench.plan import Plan, interleave, plan
from fornaxc.bench.report import Bench, Measured
from fornaxc.bench.sample import sample
from fornaxc.bench.side import ChildSide, Job, started
from fornaxc.bench.statistics import Ratio, ratio
from fornaxc.cache import Cache
from fornaxc.environment import environment
from fornaxc.ir.graph import Array, Graph
from fornaxc.phases import Clock, Progress
from fornaxc.runtime import processors
from fornaxc.sources import format_of, import_source
from fornaxc.verification.compare import Row
from fornaxc.verification.execution import kernels_of
from fornaxc.verification.float64 import InDouble
from fornaxc.verification.oracle import Reference
from fornaxc.verification.session import embedded_graph
from fornaxc.verification.tolerances import Tolerances, tolerances_of
from fornaxc.verification.verify import Sample, compare_sample
from fornaxc.verification.zipmap import mentions_zipmap, save_with_tensors


@dataclass(frozen=True, slots=True)
class Measuring:
    """What is asked of a measurement: how often, on which inputs, with how many threads, the seconds that loading and each block may take, and
    the file of tolerances within which outputs agree."""

    iterations: int | None = None
    warmup: int | None = None
    threads: int | None = None
    inputs: Path | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    timeout: float | None = None
    tolerances: Path | None = None

    def check(self, graph: Graph) -> None:
        """Raise UsageError where given inputs, sizes or tolerances do not suit a model: before it is compiled."""
        sample(graph, self.inputs, self.sizes, self.seed)
        tolerances_of(graph, file=self.tolerances)

    def job(self, engine: str, path: Path, inputs: Mapping[str, Array]) -> Job:
        """The job of one side."""
        return Job(engine, path, inputs, self.threads, self.timeout)


def bench_artifact(
    path: Path, name: str, model: Path | None, against: str | None, wanted: Measuring, cache: Cache, progress: Progress
) -> Bench:
    """Measure an artifact, which `name` is shown for, alone or against onnxruntime on `model` (else on its own program, exported).

    Raises ArtifactError where it cannot run here, UsageError where `model` is not its source or inputs, sizes or tolerances do not suit it,
    UnsupportedError where onnxruntime refuses.
    """
    artifact = open_artifact(path, cache)
    check_runnable(artifact)
    if model is not None:
        check_source(artifact, model, cache.digests.of_file(model))
    graph = embedded_graph(artifact)
    label, inputs = sample(graph, wanted.inputs, wanted.sizes, wanted.seed)
    tolerances = tolerances_of(graph, file=wanted.tolerances)
    jobs, notes = [wanted.job("fornaxc", path, inputs)], conditions(wanted.threads)
    with _onnx_file(graph, model) if against else nullcontext((None, "")) as (file, note):
        if file is not None:
            jobs.append(wanted.job("onnxruntime", file, inputs))
            notes += [note] if note else []
            if artifact.config["target"]["device"] == "gpu":
                notes.append("onnxruntime ran on the CPU: the ratio is of different devices")
        planned, sides, measured = measure(jobs, wanted, progress)
    ours, theirs = measured[0], measured[1] if against else None
    rows = None
    if theirs is not None:
        reference = Sample(label, inputs, Reference(sides[1].outputs, "onnxruntime"))
        rows = [row.to_json() for row in agreement(reference, sides[0].outputs, tolerances, graph, model, cache)]
    return Bench(
        artifact=name,
        target=artifact.config["target"]["label"],
        sample=label,
        inputs=shapes(inputs),
        seed=wanted.seed if wanted.inputs is None else None,
        threads=min(wanted.threads or processors(), processors()),
        plan=planned,
        ours=ours,
        against=theirs,
        ratio=None if theirs is None else ratio_of(ours, theirs),
        agreement=rows,
        kernels=kernels_of(ours.summaries, graph),
        host_nodes=artifact.config["host_nodes"],
        environment=environment(),
        notes=notes,
    )


def agreement(
    sample: Sample,
    outputs: Mapping[str, Array],
    tolerances: Tolerances,
    program: Graph,
    model: Path | None,
    cache: Cache,
) -> list[Row]:
    """The comparison of an artifact's outputs with onnxruntime's, by the rules of `verify`: an output that misses its tolerance is judged in
    double precision, by the ONNX model where there is one, else by the artifact's `program`."""
    rows = compare_sample(sample, outputs, tolerances)
    if all(row.verdict != "fail" for row in rows):
        return rows
    file = model if model is not None and format_of(model) == "onnx" else None
    source = program if file is None else import_source(file, {}, cache.digests.of_file)[0]
    return compare_sample(sample, outputs, tolerances, InDouble(source, file))


def conditions(threads: int | None) -> list[str]:
    """Notes on what the times hold for: fewer threads than were asked for, a machine that is not quiet."""
    return [*_fewer(threads), *busy()]


def _fewer(threads: int | None) -> list[str]:
    if threads is None or threads <= processors():
        return []
    return [f"{threads} threads were asked for, and only {processors()} used: this process may use no more processors"]


def busy() -> list[str]:
    """A note where other processes keep the machine from being quiet; nothing where it is quiet, or where the system does not tell."""
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):
        return []
    if load <= 0.1 * (os.cpu_count() or 1):
        return []
    return [
        f"the machine was busy when the measurement began (load average {load:.1f}): the times are not the program's alone"
    ]


def ratio_of(side: Measured, other: Measured) -> Ratio:
    """The ratio of the times of two sides that were measured in turn."""
    return ratio(side.wholes(), other.wholes())


def shapes(inputs: Mapping[str, Array]) -> list[dict[str, Any]]:
    """Names, element types and shapes of arrays, for a report."""
    return [{"name": n, "dtype": a.dtype.name, "shape": list(a.shape)} for n, a in inputs.items()]


def measure(jobs: Sequence[Job], wanted: Measuring, progress: Progress) -> tuple[Plan, list[ChildSide], list[Measured]]:
    """Load the sides one after the other, then measure them in turn."""
    with Clock(progress).phase("measure"), _all_started(jobs, progress) as sides:
        slowest = max(side.block(1, 1)[0].whole for side in sides)
        planned = plan(wanted.iterations, wanted.warmup, slowest)
        times = interleave(sides, planned, lambda done: progress("measure", f"{done} of {len(planned.blocks)} blocks"))
    measured = [
        Measured(
            job.engine,
            side.ready["version"],
            side.ready["import_seconds"],
            side.ready["load_seconds"],
            side.ready["first_run_seconds"],
            side.ready["memory_after_loading"],
            side.peak_memory,
            blocks,
            side.ready["kernels"],
        )
        for job, side, blocks in zip(jobs, sides, times, strict=True)
    ]
    return planned, sides, measured


@contextmanager
def _all_started(jobs: Sequence[Job], progress: Progress) -> Iterator[list[ChildSide]]:
    with ExitStack() as stack:
        sides = []
        for job in jobs:
            progress("measure", f"loading {job.path.name} with {job.engine}")
            sides.append(stack.enter_context(started(job)))
        yield sides


@contextmanager
def _onnx_file(graph: Graph, model: Path | None) -> Iterator[tuple[Path, str]]:
    """The file that onnxruntime is to run, and a note where it is not the model that the user knows."""
    if model is not None and format_of(model) == "onnx" and not mentions_zipmap(model):
        yield model, ""
        return
    with TemporaryDirectory(prefix="fornaxc-bench-") as name:
        file = Path(name) / "model.onnx"
        if model is not None and format_of(model) == "onnx":
            save_with_tensors(model, file)
            yield file, "onnxruntime ran the model with tensors in place of its lists of maps"
            return
        from fornaxc.export.onnx import save_onnx

        save_onnx(graph, file)
        why = "StableHLO, which it does not read" if model is not None else "the source model, which --model would name"
        yield file, f"onnxruntime ran the artifact's program, exported to ONNX, in place of {why}"
