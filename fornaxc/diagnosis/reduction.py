"""From a failing model to a small one: the files that `fornaxc reduce` writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fornaxc.cache import Cache
from fornaxc.cache.files import write_whole
from fornaxc.compiler import Request
from fornaxc.diagnosis.checks import Check, command_check, compile_check, is_timeout, verify_check
from fornaxc.diagnosis.edits import Case, with_outputs
from fornaxc.diagnosis.reduce import Reduced, reduce
from fornaxc.diagnosis.report_text import options_text, report_text
from fornaxc.diagnosis.rounds import drive_with
from fornaxc.diagnosis.session import diagnosis_options
from fornaxc.diagnosis.writing import reduced_files, write_case
from fornaxc.errors import UnsupportedError, UsageError
from fornaxc.ir.graph import Array, Graph, Value
from fornaxc.phases import Clock, Progress
from fornaxc.places import check_places
from fornaxc.qualify.programs import Outcome, Program, run_programs
from fornaxc.sources import import_source
from fornaxc.targets import parse_target
from fornaxc.verification.compare import compare_outputs
from fornaxc.verification.edge_comparison import edge_samples
from fornaxc.verification.given import check_one_way, load_inputs, tensor_sets
from fornaxc.verification.inputs import generate, size_choices
from fornaxc.verification.oracle import OracleRefused, interpreted
from fornaxc.verification.oracle_of import oracle_of
from fornaxc.verification.tolerances import Stated, Tolerances, tolerances_file, tolerances_of
from fornaxc.verification.verify import Sample, generated_samples, size_label

SAMPLES = 2
COMMAND_SECONDS = 300.0  # for each run of a user's command, unless a time-out is given
SCHEMA = 1  # of the document; raised when a field changes its meaning or goes


@dataclass(frozen=True, slots=True)
class Start:
    """What a reduction is made from: the inputs or their seed, with edge sets or without, and the tolerances chosen, the file by default
    the one beside the model."""

    inputs: Path | None = None
    seed: int = 0
    edge_cases: bool = False
    rtol: float | None = None
    atol: float | None = None
    tolerances: Path | None = None

    def __post_init__(self) -> None:
        check_one_way({"--inputs": self.inputs, "--edge-cases": self.edge_cases})


@dataclass(frozen=True, slots=True)
class Reduction:
    """The files of a reduced case, and what was found on the inputs `sample`. `reproduced` says that the model file by itself fails in the
    same way."""

    files: Sequence[Path]
    reduced: Reduced
    sample: str
    reproduced: bool
    rounds: int

    def to_json(self) -> dict[str, Any]:
        return {
            "status": "ok",
            "schema": SCHEMA,
            "files": [str(f) for f in self.files],
            "sample": self.sample,
            "signature": self.reduced.signature,
            "nodes_before": self.reduced.nodes_before,
            "nodes": self.reduced.nodes,
            "operations": [str(n.op) for n in self.reduced.case.graph.walk()],
            "holds_weights_of_the_model": self.reduced.own_weights,
            "holds_inputs_of_the_model": self.reduced.own_inputs,
            "reproduced": self.reproduced,
            "rounds": self.rounds,
            "trail": list(self.reduced.trail),
        }


def reduce_model(
    path: Path, request: Request, cache: Cache, start: Start, *, check: str, output: Path, progress: Progress
) -> Reduction:
    """Reduce the model at `path` to `output` (ONNX), with its inputs (.npz), a report (.md) and, where some are stated, tolerances beside it.

    `check` is `verify`, `compile` or a command. UsageError where the model does not fail it, or the files cannot be written.
    """
    if output.suffix.lower() != ".onnx":
        raise UsageError(
            f"{output} does not end in .onnx: what is written is an ONNX model, also of a StableHLO one",
            code="FX254",
            hint=f"for example -o {output.stem}.onnx",
        )
    stated_in = start.tolerances or tolerances_file(path)
    check_places(reduced_files(output), [path], [start.inputs, stated_in, request.choice.freeze])
    target = request.target
    if check == "verify" and target.cannot_run(target.record()):
        target = parse_target("cpu")
    judge = _check(check, target.device, request, start.rtol, start.atol)
    options = diagnosis_options(cache, request, target)
    options = replace(options, execute=check != "compile")
    rounds = 0

    def run(programs: Sequence[Program]) -> Mapping[str, Outcome]:
        nonlocal rounds
        rounds += 1
        progress("reduce", f"round {rounds}: {len(programs)} candidates")
        return run_programs(programs, options)

    with Clock(progress).phase("reduce"):
        graph, _ = import_source(path, request.dims, cache.digests.of_file, request.choice)
        samples = _samples(graph, path, request, start)
        cases = [Case(graph, tuple(inputs[n] for n in graph.input_names)) for inputs in samples.values()]
        labels = list(samples)
        if check == "verify":
            tolerances = tolerances_of(graph, start.rtol, start.atol, stated_in)
            parts = _parts(graph, tolerances)
            labels = [label for label in labels for _ in parts]
            cases = [_only(case, *part) for case in cases for part in parts]
        reduced = drive_with({"reduce": reduce(cases, judge)}, run)["reduce"]
        # an end before the last round leaves nothing
        with TemporaryDirectory(prefix=f".{output.stem}-", dir=output.parent) as name:
            place = Path(name, output.name)
            made = write_case(reduced.case, place)
            again, _ = import_source(place, {}, cache.digests.of_file)
            (found,) = drive_with({"again": judge([replace(reduced.case, graph=again)])}, run)["again"]
            reproduced = found == reduced.signature
            stopped = is_timeout(reduced.signature)
            seconds = request.timeout or (options.timeout if stopped else None)
            rtol, atol = (start.rtol, start.atol) if check == "verify" else (None, None)
            more = options_text(target.label, request.optimization, rtol, atol, seconds)
            limit = (request.timeout or COMMAND_SECONDS) if stopped else None
            report = reduced_files(place)[-1]
            text = report_text(reduced, check, target.label, output, reproduced, more, limit)
            write_whole(report, text.encode())
            files = [file.replace(output.with_name(file.name)) for file in (*made, report)]
    return Reduction(files, reduced, labels[reduced.number], reproduced, rounds)


def _check(check: str, device: str, request: Request, rtol: float | None, atol: float | None) -> Check:
    if check == "verify":
        return verify_check(device, rtol, atol, request.disabled_passes, request.optimization)
    if check == "compile":
        return compile_check(device, request.disabled_passes, request.optimization)
    return command_check(check, request.timeout or COMMAND_SECONDS)


def _samples(graph: Graph, path: Path, request: Request, start: Start) -> dict[str, Mapping[str, Array]]:
    """The inputs given, or generated ones of a few sizes, by what `verify` calls them."""
    if start.inputs is not None:
        return {files.label: load_inputs(graph, files)[0] for files in tensor_sets(start.inputs)}
    if start.edge_cases:
        oracle = oracle_of(path, graph, request.choice, noise=False)
        samples, _ = generated_samples(graph, oracle, start.seed)
        edges, _ = edge_samples(graph, oracle, samples[0], start.seed)
        return {s.label: s.inputs for s in (*samples, *(e for e in edges if _is_settled(graph, e)))}
    sizes = list(islice(size_choices(graph), SAMPLES))
    if not sizes:
        raise UnsupportedError("no sizes of the dims suit the model", code="FX310", hint="give inputs with --inputs")
    return {size_label(chosen): generate(graph, chosen, start.seed + i) for i, chosen in enumerate(sizes)}


def _is_settled(graph: Graph, edge: Sample) -> bool:
    """Whether oracle and numpy agree on an edge set: else the order of operations may decide there between a number and infinity or NaN."""
    try:
        with np.errstate(all="ignore"):
            outputs = interpreted(graph, edge.inputs)
    except OracleRefused:
        return True
    rows = compare_outputs(outputs, edge.reference.outputs, tolerances_of(graph).at(edge.inputs))
    return all(row.verdict != "fail" for row in rows)


Part = tuple[Sequence[Value], Stated | None]
"""Outputs of which the same is stated."""


def _parts(graph: Graph, tolerances: Tolerances) -> list[Part]:
    """The outputs of a graph by what a file states of them, which counts where no tolerance is chosen for all floats."""
    chosen = tolerances.rtol is not None or tolerances.atol is not None
    parts: dict[Stated | None, list[Value]] = {}
    for name, value in zip(graph.output_names, graph.outputs, strict=True):
        stated = None if chosen and value.type.dtype.is_float else tolerances.stated.get(name)
        parts.setdefault(stated, []).append(value)
    return [(values, what) for what, values in parts.items()]


def _only(case: Case, outputs: Sequence[Value], stated: Stated | None) -> Case:
    """The case with these outputs, of which this is stated."""
    if len(set(outputs)) < len(set(case.graph.outputs)):
        case = with_outputs(case, outputs)
    return case if stated is None else replace(case, stated={v.type.dtype: stated for v in outputs})
