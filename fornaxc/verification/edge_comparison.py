"""Runs and compares edge sets, where an oracle may refuse, a program may die, and the order of operations may decide between a number and
infinity or NaN."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from fornaxc.errors import FornaxError, UsageError
from fornaxc.ir.graph import Array, Graph
from fornaxc.runner import Running
from fornaxc.verification.compare import Row, differing
from fornaxc.verification.edges import edge_inputs
from fornaxc.verification.float64 import InDouble
from fornaxc.verification.inputs import size_choices
from fornaxc.verification.oracle import Oracle, OracleRefused, evaluated, interpreted
from fornaxc.verification.ort_runs import OrtRuns
from fornaxc.verification.tolerances import Tolerances
from fornaxc.verification.verify import Sample, compare_sample, size_label

Opinion = Callable[[Mapping[str, Array]], Mapping[str, Array]]
"""What another implementation gives for inputs; raises OracleRefused where it cannot."""


def opinions_of(graph: Graph, model: Path | None) -> list[Opinion]:
    """What is asked of an ONNX file beside the oracle: onnx's evaluator and both ways of onnxruntime; of a graph, the numpy interpreter."""
    if model is None:
        return [partial(interpreted, graph)]
    runs = OrtRuns(model)
    return [partial(evaluated, model), partial(runs, optimise=False), partial(runs, optimise=True)]


def edge_samples(graph: Graph, oracle: Oracle, like: Sample, seed: int) -> tuple[list[Sample], list[str]]:
    """The edge sets that the oracle accepts, those of values at the sizes of the generated sample `like`, and a note for each other one."""
    sizes = next(sizes for sizes in size_choices(graph) if size_label(sizes) == like.label)
    edges, notes = edge_inputs(graph, sizes, seed)
    samples = []
    for label, inputs in edges:
        try:
            with np.errstate(all="ignore"):
                reference = oracle(inputs)
        except OracleRefused as refusal:
            notes.append(f"{label}: not judged: no oracle accepts it: {refusal}")
            continue
        told = tuple(f"{label}: {note}" for note in reference.notes)
        samples.append(Sample(label, inputs, replace(reference, notes=told)))
    return samples, notes


def compare_edges(
    artifact: Path,
    samples: Sequence[Sample],
    tolerances: Tolerances,
    timeout: float | None,
    doubled: InDouble,
    opinions: Sequence[Opinion],
) -> tuple[list[Row], list[str]]:
    """Run the artifact on each edge set and compare, and say what could not be judged.

    A set on which the program dies fails. Sizes that the program refuses by name are a note. Of an output that differs, `opinions`
    are asked too: where one differs from the reference in every element in which the program does, the row is `unjudged`.
    """
    rows: list[Row] = []
    notes: list[str] = []
    with Running(artifact, timeout=timeout) as run:
        for sample in samples:
            try:
                outputs = run(sample.inputs)
            except UsageError as refusal:
                notes.append(f"{sample.label}: not judged: the program refuses it: {refusal.message}")
                continue
            except FornaxError as error:
                rows += _died(sample, error)
                continue
            found = compare_sample(sample, outputs, tolerances, doubled)
            if any(row.verdict == "fail" for row in found):
                found = _with_opinions(found, sample, outputs, opinions)
            rows += found
    return rows, notes


def _died(sample: Sample, error: FornaxError) -> list[Row]:
    return [
        Row(
            name,
            a.shape,
            str(a.dtype),
            "fail",
            error.message,
            sample=sample.label,
            oracle=sample.reference.oracle,
            rule="run",
        )
        for name, a in sample.reference.outputs.items()
    ]


def _with_opinions(
    rows: Sequence[Row], sample: Sample, outputs: Mapping[str, Array], asked: Sequence[Opinion]
) -> list[Row]:
    references = {r.oracle: r.outputs for r in (sample.reference, *sample.reference.others)}
    opinions: list[Mapping[str, Array]] = list(references.values())
    for opinion in asked:
        with suppress(OracleRefused), np.errstate(all="ignore"):
            opinions.append(opinion(sample.inputs))
    return [_judged(row, outputs, references[row.oracle], opinions) for row in rows]


def _judged(
    row: Row,
    outputs: Mapping[str, Array],
    reference: Mapping[str, Array],
    opinions: Sequence[Mapping[str, Array]],
) -> Row:
    if row.tolerance is None or row.verdict != "fail" or row.rule not in ("tolerance", "exact", "nan", "infinity"):
        return row
    wanted = reference[row.name]
    contested = np.zeros(wanted.shape, bool)
    for other in (o[row.name] for o in opinions if row.name in o):
        if other.shape == wanted.shape and other.dtype == wanted.dtype:
            contested |= differing(other, wanted, row.tolerance)
    if (differing(outputs[row.name], wanted, row.tolerance) & ~contested).any():
        return row
    return replace(row, verdict="unjudged", rule="contested", reason=f"{row.reason}; the oracles differ there too")
