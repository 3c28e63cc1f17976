"""From two artifacts to what differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fornaxc.artifact import Artifact, check_runnable, open_artifact
from fornaxc.bench.session import Measuring, conditions, measure, ratio_of
from fornaxc.cache import Cache
from fornaxc.comparison.differences import (
    count_differences,
    manifest_differences,
    operation_differences,
    signature_differences,
    sizes,
)
from fornaxc.comparison.report import Comparison, Side, Speed
from fornaxc.comparison.samples import shared_samples
from fornaxc.environment import environment
from fornaxc.errors import ArtifactError
from fornaxc.ir.graph import Array, Graph
from fornaxc.ir.types import DType
from fornaxc.phases import Clock, Progress
from fornaxc.runner import run_in_child
from fornaxc.runtime import processors
from fornaxc.verification.compare import Row, Tolerance, compare_outputs, without_numbers
from fornaxc.verification.execution import kernels_of
from fornaxc.verification.float64 import EARLIER, InDouble
from fornaxc.verification.oracle import Reference
from fornaxc.verification.session import embedded_graph
from fornaxc.verification.tolerances import Stated, read_tolerances, tolerances_of

Samples = Sequence[tuple[str, Mapping[str, Array]]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a comparison: tolerances in place of the outputs' own, whether speed is measured, and how much slower the second may be."""

    rtol: float | None = None
    atol: float | None = None
    speed: bool = True
    max_slowdown: float | None = None


def compare_artifacts(
    paths: tuple[Path, Path], wanted: Wanted, measuring: Measuring, cache: Cache, progress: Progress
) -> Comparison:
    """Compare two artifacts: their documents always, their numbers and their speed where this machine can run both.

    Raises ArtifactError where one is damaged, UsageError where inputs or sizes do not suit the first, ToolchainError where MAX fails.
    """
    one, other = (open_artifact(path, cache) for path in paths)
    graphs = embedded_graph(one), embedded_graph(other)
    sides = _side(one), _side(other)
    signature = signature_differences(one.config, other.config)
    why = _reason(sides, [d["what"] for d in signature if d["breaks"] and d["what"].startswith("input ")])
    samples: Samples = []
    stated = stated_for(graphs, measuring.tolerances)
    if not why:
        samples = shared_samples(*graphs, measuring.inputs, measuring.sizes, measuring.seed)
        why = "" if samples else "no inputs suit both"
    rows: list[Row] = []
    kernels = speed = None
    if not why:
        clock = Clock(progress)
        summaries: tuple[list[str], list[str]] = ([], [])
        with clock.phase("run"):
            outputs = [
                run_in_child(
                    path, [s for _, s in samples], threads=measuring.threads, timeout=measuring.timeout, kernels=found
                )
                for path, found in zip(paths, summaries, strict=True)
            ]
        rows = compare_runs(graphs, samples, outputs[1], outputs[0], wanted, stated)
        kernels = count_differences("kernel", *map(kernel_names, summaries, graphs))
        speed = _speed(paths, samples[0][1], wanted, measuring, progress) if wanted.speed else None
    return Comparison(
        *sides,
        signature,
        manifest_differences(one.config, other.config),
        operation_differences(*graphs),
        kernels,
        rows,
        [label for label, _ in samples],
        why,
        speed,
        measuring.seed if measuring.inputs is None else None,
        environment(),
        [*without_numbers(rows), *(conditions(measuring.threads) if speed is not None else [])],
    )


def kernel_names(summaries: Sequence[str], graph: Graph) -> list[str]:
    """The kernels of a program, each named by the operations that it fuses, as often as there are such kernels."""
    return [", ".join(kernel.operations) for kernel in kernels_of(summaries, graph) for _ in range(kernel.count)]


def _side(artifact: Artifact) -> Side:
    try:
        check_runnable(artifact)
        reason = ""
    except ArtifactError as error:
        reason = error.message
    config = artifact.config
    label, version = config["target"]["label"], config["toolchain"]["max"]
    return Side(str(artifact.path), config["key"], label, version, sizes(artifact), reason)


def _reason(sides: tuple[Side, Side], broken: Sequence[str]) -> str:
    """Why the numbers are not compared; "" where they are."""
    reasons = [side.cannot_run for side in sides if side.cannot_run]
    if reasons:
        return "; ".join(dict.fromkeys(reasons))
    return f"they take different inputs: {', '.join(broken)}" if broken else ""


def compare_runs(
    graphs: tuple[Graph, Graph],
    samples: Samples,
    outputs: Sequence[Mapping[str, Array]],
    references: Sequence[Mapping[str, Array]],
    wanted: Wanted,
    stated: Mapping[str, Stated] | None = None,
) -> list[Row]:
    """The second artifact's `outputs` against the first's, sample by sample, each within the wider of the two programs' tolerances, or what
    is `stated`; else by the first's program in double precision, as `verify` does it."""
    both = [replace(tolerances_of(graph, wanted.rtol, wanted.atol), stated=stated or {}) for graph in graphs]
    doubled = InDouble(graphs[0], None)
    rows = []
    for (label, inputs), value, earlier in zip(samples, outputs, references, strict=True):
        within = [tolerances.at(inputs) for tolerances in both]
        found = compare_outputs(value, earlier, _wider(within), sample=label)
        if any(row.verdict == "fail" for row in found):
            chosen = [row.name for row in found if both[0].is_chosen(row.name)]
            found = doubled.settled(found, value, Reference(dict(earlier), EARLIER), inputs, chosen)
        rows += found
    return rows


def stated_for(graphs: tuple[Graph, Graph], file: Path | None) -> dict[str, Stated]:
    """What a file of tolerances states of the outputs of either program. Raises UsageError where it names another, or cannot be read."""
    return {} if file is None else read_tolerances(file, [*dict.fromkeys(n for g in graphs for n in g.output_names)])


def _wider(tolerances: Sequence[Callable[[str, DType], Tolerance]]) -> Callable[[str, DType], Tolerance]:
    def tolerance(name: str, dtype: DType) -> Tolerance:
        return max((each(name, dtype) for each in tolerances), key=lambda t: (t.rtol, t.atol))

    return tolerance


def _speed(
    paths: tuple[Path, Path], inputs: Mapping[str, Array], wanted: Wanted, measuring: Measuring, progress: Progress
) -> Speed:
    jobs = [measuring.job("fornaxc", path, inputs) for path in paths]
    plan, _, (a, b) = measure(jobs, measuring, progress)
    threads = min(measuring.threads or processors(), processors())
    return Speed(plan, threads, a, b, ratio_of(b, a), wanted.max_slowdown)
