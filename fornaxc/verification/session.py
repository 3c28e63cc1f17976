"""Verifies a model (compiling it) or an artifact, from the choice of oracle to the report."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from fornaxc.artifact import Artifact, open_artifact
from fornaxc.cache import Cache, media
from fornaxc.cache.evidence import remember
from fornaxc.compiler import Request, compile_model, timestamp
from fornaxc.errors import CacheError, UsageError
from fornaxc.ir.graph import Graph
from fornaxc.npz import load_npz, with_dtypes
from fornaxc.phases import Clock, Progress
from fornaxc.signature import check_expected
from fornaxc.sources import WHOLE, Choice, import_source
from fornaxc.targets import parse_target
from fornaxc.verification.oracle import GraphOracle, Oracle, Reference
from fornaxc.verification.oracle_of import oracle_of
from fornaxc.verification.report import Report
from fornaxc.verification.tolerances import Tolerances, tolerances_file, tolerances_of
from fornaxc.verification.verify import (
    Sample,
    compare_samples,
    generated_samples,
    given_inputs,
    given_sample,
    verdict,
)


class Samples(NamedTuple):
    """Inputs with their references, what a reader must know of them, and how far each output may be from its reference."""

    samples: list[Sample]
    notes: list[str]
    tolerances: Tolerances


@dataclass(frozen=True, slots=True)
class Given:
    """What a user gives to a verification: .npz files of inputs and golden outputs, the seed of generated inputs, tolerances in
    place of the default ones and the file that states some (by default the one beside the model), the seconds that running may
    take, and what of an artifact's source model was compiled."""

    inputs: Path | None = None
    expected: Path | None = None
    seed: int = 0
    rtol: float | None = None
    atol: float | None = None
    tolerances: Path | None = None
    timeout: float | None = None
    choice: Choice = WHOLE

    def __post_init__(self) -> None:
        if self.expected is not None and self.inputs is None:
            raise UsageError(
                "--expected needs the inputs that it belongs to", code="FX226", hint="give them with --inputs"
            )


def verify_model(path: Path, request: Request, cache: Cache, given: Given, progress: Progress) -> Report:
    """Compile a model for the target; run it, or where the target cannot run here the same program on this CPU.

    Given arrays are judged before anything is compiled.
    """

    def prepared() -> Samples:
        graph, _ = import_source(path, request.dims, cache.digests.of_file, request.choice)
        return _samples(graph, partial(oracle_of, path, graph, request.choice), given)

    given = replace(given, tolerances=given.tolerances or tolerances_file(path))
    early = prepared() if given.inputs is not None or given.tolerances is not None else None
    compiled = compile_model(path, request, cache, progress)
    ran, ran_request, notes = compiled, request, []
    reason = request.target.cannot_run(compiled.config["target"])
    if reason:
        ran_request = replace(request, target=parse_target("cpu"), host_fallback=True)
        ran = compile_model(path, ran_request, cache, progress)
        notes.append(
            f"{request.target.label} itself was not executed ({reason}); the same graph was compiled for and ran on cpu"
        )
    clock = Clock(progress)
    with clock.phase("verify"):
        report = _report(
            ran.path, compiled.config, early or prepared(), notes, given, executed_on=ran_request.target.label
        )
        _record(cache, compiled.artifact.descriptor.digest, report)
    return replace(report, phases={**compiled.seconds, **clock.seconds})


def verify_artifact(path: Path, model: Path | None, cache: Cache, given: Given, progress: Progress) -> Report:
    """Run an artifact as it is, against its source model or the program that it carries."""
    from fornaxc.artifact import check_runnable

    artifact = open_artifact(path, cache)
    check_runnable(artifact)
    beside = tolerances_file(path) or (tolerances_file(model) if model is not None else None)
    given = replace(given, tolerances=given.tolerances or beside)
    clock = Clock(progress)
    with clock.phase("verify"):
        notes: list[str] = []
        graph = embedded_graph(artifact)
        oracle: Callable[[], Oracle] = partial(GraphOracle, graph)
        if model is not None:
            source, facts = import_source(model, {}, cache.digests.of_file, given.choice)
            if facts["digest"] != artifact.config["source"]["digest"]:
                raise UsageError(
                    f"{model} is not the model that {path} was compiled from",
                    code="FX225",
                    details=[{"artifact": artifact.config["source"]["digest"], "model": facts["digest"]}],
                )
            oracle = partial(oracle_of, model, source, given.choice)
        elif given.expected is None:
            notes.append("the reference is the artifact's own graph: its import from the source model is not proven")
        label = artifact.config["target"]["label"]
        report = _report(path, artifact.config, _samples(graph, oracle, given), notes, given, executed_on=label)
        _record(artifact.cache or cache, artifact.digest, report)
    return replace(report, phases=clock.seconds)


def embedded_graph(artifact: Artifact) -> Graph:
    """The program that an artifact carries, its weights read from the artifact."""
    from fornaxc.ir.serialize import graph_from_json

    _, arrays = artifact.weights()
    return graph_from_json(json.loads(artifact.read(media.IR)), lambda number, type: arrays[number])


def _samples(graph: Graph, oracle: Callable[[], Oracle], given: Given) -> Samples:
    """Given inputs with their reference, or generated ones. Raises UsageError where given arrays do not fit the graph."""
    tolerances = tolerances_of(graph, given.rtol, given.atol, given.tolerances)
    if given.inputs is None:
        return Samples(*generated_samples(graph, oracle(), given.seed), tolerances)
    inputs, sizes = given_inputs(graph, given.inputs)
    label = given.inputs.name
    if given.expected is not None:
        results = {n: v.type for n, v in zip(graph.output_names, graph.outputs, strict=True)}
        golden = load_npz(given.expected, "expected outputs")
        golden = with_dtypes(golden, {n: t.dtype.numpy for n, t in results.items()})
        check_expected(results, sizes, golden)
        return Samples([Sample(label, inputs, Reference(golden, "golden"))], [], tolerances)
    return Samples([given_sample(label, inputs, oracle())], [], tolerances)


def _report(
    artifact: Path,
    config: dict[str, Any],
    given_samples: Samples,
    notes: list[str],
    given: Given,
    *,
    executed_on: str,
) -> Report:
    samples, more, tolerances = given_samples
    rows = compare_samples(artifact, samples, tolerances, given.timeout)
    notes += more + [note for sample in samples for note in sample.reference.notes]
    oracles = dict.fromkeys(r.oracle for s in samples for r in (s.reference, *s.reference.others))
    return Report(
        verdict(rows, config["target"]["label"], executed_on),
        config["target"]["label"],
        executed_on,
        ", ".join(oracles),
        rows,
        config["key"],
        [s.label for s in samples],
        list(dict.fromkeys(notes)),
        config["host_nodes"],
        given.seed if given.inputs is None else None,
    )


def _record(cache: Cache, digest: str, report: Report) -> None:
    """Keep the outcome beside the artifact; a cache that cannot be written costs the record, not the verdict."""
    try:
        remember(cache, digest, [report.record(timestamp())])
    except CacheError as error:
        logging.getLogger("fornaxc").warning("the outcome is not kept: %s", error.message)
