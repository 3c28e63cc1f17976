"""Runs an artifact and its oracle on the same inputs and compares them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fornaxc.errors import UnsupportedError, UsageError
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Array, Graph
from fornaxc.runner import run_in_child
from fornaxc.verification.compare import Row, compare_outputs, verdict_of
from fornaxc.verification.float64 import InDouble
from fornaxc.verification.given import load_inputs, tensor_sets
from fornaxc.verification.inputs import generate, size_choices
from fornaxc.verification.oracle import Oracle, OracleRefused, Reference
from fornaxc.verification.tolerances import Tolerances

SAMPLES = 2  # sizes of the symbolic dims that must agree


@dataclass(frozen=True, slots=True)
class Sample:
    """Inputs with their reference. `label` says which sizes they have."""

    label: str
    inputs: dict[str, Array]
    reference: Reference


def given_inputs(graph: Graph, path: Path, among: Sequence[str] = ()) -> tuple[dict[str, Array], dict[str, Dim]]:
    """The arrays of a sample in files (`given.tensor_sets`), and the sizes of the graph's symbols: of several samples the first whose label
    is `among` some, else the first. UsageError where they are not the graph's inputs."""
    sets = tensor_sets(path)
    return load_inputs(graph, next((s for s in sets if s.label in among), sets[0]))


def given_sample(label: str, inputs: dict[str, Array], oracle: Oracle) -> Sample:
    """A user's inputs with the oracle's reference. Raises UsageError where no oracle accepts them."""
    try:
        return Sample(label, inputs, oracle(inputs))
    except OracleRefused as refusal:
        raise UsageError(f"no oracle accepts the inputs {label}: {refusal}", code="FX227") from refusal


def generated_samples(graph: Graph, oracle: Oracle, seed: int) -> tuple[list[Sample], list[str]]:
    """Samples at two sizes of the symbolic dims that the oracle accepts, and the notes about sizes that it refused.

    Raises UnsupportedError where the oracle accepts none.
    """
    samples: list[Sample] = []
    refusals: list[str] = []
    for sizes in size_choices(graph):
        label = size_label(sizes)
        inputs = generate(graph, sizes, seed + len(samples))
        try:
            reference = oracle(inputs)
        except OracleRefused as refusal:
            refusals.append(f"no reference at {label}: {refusal}")
            continue
        samples.append(Sample(label, inputs, reference))
        if len(samples) == SAMPLES or not sizes:
            break
    if not samples:
        raise UnsupportedError(
            "no oracle gives a reference for this model",
            code="FX310",
            details=[{"reason": r} for r in refusals] or [{"reason": "no sizes of the dims suit the model"}],
            hint="give inputs with --inputs, or inputs and expected outputs with --inputs and --expected",
        )
    notes = [] if len(samples) == SAMPLES or refusals == [] else refusals[:1]
    if graph_is_symbolic(graph) and len(samples) < SAMPLES:
        notes.append("only one size of the symbolic dims was compared")
    return samples, notes


def size_label(sizes: Mapping[str, int]) -> str:
    """What a generated sample is called."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items()) or "static"


def graph_is_symbolic(graph: Graph) -> bool:
    return any(not v.type.is_static for v in graph.inputs)


def compare_samples(
    artifact: Path,
    samples: Sequence[Sample],
    tolerances: Tolerances,
    timeout: float | None,
    doubled: InDouble | None = None,
) -> tuple[list[Row], list[str]]:
    """Run the artifact on each sample, in a child process, and compare with each of its references; also MAX's summaries of its kernels.

    `doubled` is the model in double precision, which tells how accurate both sides are, and decides where only the tolerance fails.
    """
    kernels: list[str] = []
    results = run_in_child(artifact, [s.inputs for s in samples], timeout=timeout, kernels=kernels)
    rows = [
        row
        for sample, outputs in zip(samples, results, strict=True)
        for row in compare_sample(sample, outputs, tolerances, doubled)
    ]
    return rows, kernels


def compare_sample(
    sample: Sample, outputs: Mapping[str, Array], tolerances: Tolerances, doubled: InDouble | None = None
) -> list[Row]:
    """Compare what a program gave for a sample with each of its references."""
    within = tolerances.at(sample.inputs)
    rows: list[Row] = []
    for reference in (sample.reference, *sample.reference.others):
        found = compare_outputs(outputs, reference.outputs, within, sample=sample.label)
        found = [replace(r, oracle=reference.oracle, noise=reference.noise.get(r.name)) for r in found]
        if doubled is not None:
            chosen = [r.name for r in found if tolerances.is_chosen(r.name)]
            found = doubled.settled(found, outputs, reference, sample.inputs, chosen)
        rows += found
    return rows


def verdict(rows: Sequence[Row], target: str, executed_on: str, unproven: Collection[str] = ()) -> str:
    """pass or fail of what ran; unproven where that was not the target, or where nothing but `unproven` outputs, which no input decides,
    was compared."""
    found = verdict_of(rows)
    proven = any(row.verdict == "pass" and row.name not in unproven for row in rows)
    return "unproven" if found == "pass" and (executed_on != target or not proven) else found
