"""Verifies a model (compiling it) or an artifact, from the choice of oracle to the report."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from fornaxc.artifact import Artifact, check_runnable, check_source, open_artifact
from fornaxc.cache import Cache, media
from fornaxc.cache.evidence import remember
from fornaxc.compiler import Request, compile_model, timestamp
from fornaxc.errors import CacheError, UnsupportedError, UsageError
from fornaxc.ir.graph import Graph
from fornaxc.phases import Clock, Progress
from fornaxc.sources import WHOLE, Choice, format_of, import_source
from fornaxc.targets import Target, parse_target
from fornaxc.verification.compare import without_numbers
from fornaxc.verification.dataset import open_dataset
from fornaxc.verification.dataset_comparison import JudgedDataset, compare_dataset, not_shown
from fornaxc.verification.digest import ArraysDigest
from fornaxc.verification.edge_comparison import Opinion, compare_edges, edge_samples, opinions_of
from fornaxc.verification.edges import not_tried
from fornaxc.verification.execution import execution, flagged, unproven_outputs
from fornaxc.verification.float64 import InDouble
from fornaxc.verification.given import check_one_way, load_expected, load_inputs, tensor_sets
from fornaxc.verification.named import check_named
from fornaxc.verification.oracle import Oracle, Reference
from fornaxc.verification.oracle_of import oracle_of
from fornaxc.verification.report import Report
from fornaxc.verification.several import reference_beside
from fornaxc.verification.tolerances import Tolerances, tolerances_file, tolerances_of
from fornaxc.verification.verify import (
    Sample,
    compare_samples,
    generated_samples,
    given_sample,
    verdict,
)


class Samples(NamedTuple):
    """Inputs with their references, what a reader must know of them, how far each output may be from its reference, and the graph whose
    numbers are compared, as it is and in double precision; edge sets, what is asked about them beside the oracle, and a dataset in
    place of samples."""

    samples: list[Sample]
    notes: list[str]
    tolerances: Tolerances
    graph: Graph
    doubled: InDouble
    edges: Sequence[Sample] = ()
    opinions: Sequence[Opinion] = ()
    dataset: JudgedDataset | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """What a user gives to a verification: files or folders of inputs and golden outputs, the seed of generated inputs, tolerances in
    place of the default ones and the file that states some (by default the one beside the model), the seconds that running may
    take, what of an artifact's source model was compiled, the names of oracles (`named.ORACLES`), and whether onnxruntime's noise and the
    errors from float64 are measured (None: where they are cheap)."""

    inputs: Path | None = None
    expected: Path | None = None
    seed: int = 0
    rtol: float | None = None
    atol: float | None = None
    tolerances: Path | None = None
    timeout: float | None = None
    choice: Choice = WHOLE
    oracles: Sequence[str] = ()
    noise: bool | None = None
    float64: bool | None = None
    edge_cases: bool = False
    dataset: Path | None = None

    def __post_init__(self) -> None:
        check_one_way({"--inputs": self.inputs, "--dataset": self.dataset, "--edge-cases": self.edge_cases})
        if self.oracles and ("golden" in self.oracles) != (self.expected is not None):
            raise UsageError(
                "the oracle `golden` and --expected belong together",
                code="FX238",
                hint="give golden outputs with --expected, and name golden among the oracles or name none",
            )
        if self.expected is not None and self.inputs is None:
            told = "" if self.dataset is None else ", and --dataset compares with oracles only"
            hint = "give them with --inputs" + (", which takes a folder of samples too" if told else "")
            raise UsageError(f"--expected needs the inputs that it belongs to{told}", code="FX226", hint=hint)


def verify_model(path: Path, request: Request, cache: Cache, given: Given, progress: Progress) -> Report:
    """Compile a model for the target; run it, or where the target cannot run here the same program on this CPU.

    Given arrays are judged and oracles asked before anything is compiled, but for a target that cannot be compiled for here: its artifact
    is in the cache, or there is nothing to do.
    """
    clock = Clock(progress)

    def prepared() -> Samples:
        graph, _ = import_source(path, request.dims, cache.digests.of_file, request.choice)
        return _samples(graph, path, graph, replace(given, choice=request.choice))

    check_named(given.oracles, path)
    given = replace(given, tolerances=given.tolerances or tolerances_file(path))
    is_given = any(path is not None for path in (given.inputs, given.dataset, given.tolerances))
    samples = None
    if is_given or _compiles_here(request.target):
        with clock.phase("verify"):
            samples = prepared()
    compiled = compile_model(path, request, cache, progress)
    ran, ran_request, notes = compiled, request, []
    reason = request.target.cannot_run(compiled.config["target"])
    if reason:
        ran_request = replace(request, target=parse_target("cpu"), host_fallback=True)
        ran = compile_model(path, ran_request, cache, progress)
        notes.append(
            f"{request.target.label} itself was not executed ({reason}); the same graph was compiled for and ran on cpu"
        )
    with clock.phase("verify"):
        report = _report(
            open_artifact(ran.path, cache),
            ran.path,
            compiled.config,
            samples or prepared(),
            notes,
            given,
            ran_request.target.label,
        )
        _record(cache, compiled.artifact.descriptor.digest, report)
    return replace(report, phases={**compiled.seconds, **clock.seconds})


def _compiles_here(target: Target) -> bool:
    try:
        target.check_compilable()
    except UnsupportedError:
        return False
    return True


def verify_artifact(path: Path, model: Path | None, cache: Cache, given: Given, progress: Progress) -> Report:
    """Run an artifact as it is, against its source model or the program that it carries."""
    artifact = open_artifact(path, cache)
    check_runnable(artifact)
    stated = tolerances_file(path) or (tolerances_file(model) if model is not None else None)
    given = replace(given, tolerances=given.tolerances or stated)
    clock = Clock(progress)
    with clock.phase("verify"):
        notes: list[str] = []
        graph = embedded_graph(artifact)
        source = graph
        if model is not None:
            source, facts = import_source(model, {}, cache.digests.of_file, given.choice)
            check_source(artifact, model, facts["digest"])
        elif given.expected is None:
            notes.append("the reference is the artifact's own graph: its import from the source model is not proven")
        label = artifact.config["target"]["label"]
        samples = _samples(graph, model, source, given)
        report = _report(artifact, path, artifact.config, samples, notes, given, label)
        _record(artifact.cache or cache, artifact.digest, report)
    return replace(report, phases=clock.seconds)


def embedded_graph(artifact: Artifact) -> Graph:
    """The program that an artifact carries, its weights read from the artifact."""
    from fornaxc.ir.serialize import graph_from_json

    _, arrays = artifact.weights()
    return graph_from_json(json.loads(artifact.read(media.IR)), lambda number, type: arrays[number])


def _samples(graph: Graph, path: Path | None, source: Graph, given: Given) -> Samples:
    """Given inputs with their reference, or generated ones. `graph` says what inputs and outputs are; `source` is what the model file `path`
    was imported as, where there is one. Raises UsageError where given arrays do not fit the graph."""
    tolerances = tolerances_of(graph, given.rtol, given.atol, given.tolerances)
    file = path if path is not None and format_of(path) == "onnx" else None
    doubled = InDouble(source, file, given.float64)

    def oracle() -> Oracle:
        return oracle_of(path, source, given.choice, given.oracles, given.noise)

    def judged(samples: list[Sample], notes: list[str]) -> Samples:
        return Samples(samples, notes, tolerances, source, doubled)

    if given.dataset is not None:
        dataset = JudgedDataset(open_dataset(graph, given.dataset), oracle())
        return judged([], dataset.notes)._replace(dataset=dataset)
    if given.inputs is None:
        judge = oracle()
        samples, notes = generated_samples(graph, judge, given.seed)
        if not given.edge_cases:
            return judged(samples, notes + not_tried(graph))
        edges, more = edge_samples(graph, judge, samples[0], given.seed)
        opinions = opinions_of(source, file)
        return judged(samples, notes + more)._replace(edges=edges, opinions=opinions)
    sets = tensor_sets(given.inputs)
    loaded = [load_inputs(graph, files) for files in sets]
    if given.expected is None:
        judge = oracle()
        return judged([given_sample(s.label, inputs, judge) for s, (inputs, _) in zip(sets, loaded, strict=True)], [])
    golden = tensor_sets(given.expected, "output")
    if len(golden) != len(sets):
        raise UsageError(
            f"{given.inputs} holds {len(sets)} samples, and {given.expected} the outputs of {len(golden)}", code="FX226"
        )
    samples = [
        Sample(s.label, inputs, Reference(load_expected(graph, outputs, sizes), "golden"))
        for s, (inputs, sizes), outputs in zip(sets, loaded, golden, strict=True)
    ]
    if len(given.oracles) > 1:
        judge = oracle()
        samples = [replace(s, reference=reference_beside(s.reference, judge, s.inputs)) for s in samples]
    return judged(samples, [])


def _report(
    artifact: Artifact,
    path: Path,
    config: dict[str, Any],
    given_samples: Samples,
    notes: list[str],
    given: Given,
    executed_on: str,
) -> Report:
    """Run `artifact`, which lies at `path`, and compare; `config` is that of the artifact to be proven, which may be for another target."""
    samples, more, tolerances, graph, doubled, edges, opinions, dataset = given_samples
    summary = None
    if dataset is not None:
        rows, kernels, summary = compare_dataset(path, dataset, tolerances, given.timeout, doubled)
        notes += not_shown(summary, rows)
    else:
        rows, kernels = compare_samples(path, samples, tolerances, given.timeout, doubled)
    if edges:
        found, told = compare_edges(path, edges, tolerances, given.timeout, doubled, opinions)
        rows, more = rows + found, more + told
    judged = [*samples, *edges]
    program = embedded_graph(artifact)
    unproven = unproven_outputs(graph, program)
    rows = flagged(rows, unproven)
    if not any(row.verdict in ("pass", "fail") for row in rows):
        notes.append("nothing was compared, so the verdict is fail: no output has elements that can be judged")
    notes += without_numbers(rows)
    notes += [f"nothing was proven for output {name!r}: {why}" for name, why in unproven.items()]
    notes += more + [note for sample in judged for note in sample.reference.notes]
    asked = dict.fromkeys(r.oracle for s in judged for r in (s.reference, *s.reference.others))
    oracles = list(asked) if dataset is None else dataset.oracles
    return Report(
        verdict(rows, config["target"]["label"], executed_on, unproven),
        config["target"]["label"],
        executed_on,
        ", ".join(oracles),
        rows,
        config["key"],
        [s.label for s in judged] if dataset is None else [dataset.label],
        list(dict.fromkeys(notes)),
        config["host_nodes"],
        given.seed if given.inputs is None and given.dataset is None else None,
        unproven=unproven,
        execution=execution(program, graph, executed_on, artifact.config["host_nodes"], kernels),
        dataset=summary,
        inputs_digest=_digest(judged) if dataset is None else dataset.digest,
    )


def _digest(samples: Sequence[Sample]) -> str:
    """That of all that was given or generated: inputs, and golden outputs, which no oracle would give again."""
    digest = ArraysDigest()
    for sample in samples:
        digest.add(sample.label, sample.inputs)
        if sample.reference.oracle == "golden":
            digest.add(f"{sample.label}, expected", sample.reference.outputs)
    return str(digest)


def _record(cache: Cache, digest: str, report: Report) -> None:
    """Keep the outcome beside the artifact; a cache that cannot be written costs the record, not the verdict."""
    try:
        remember(cache, digest, [report.record(timestamp())])
    except CacheError as error:
        logging.getLogger("fornaxc").warning("the outcome is not kept: %s", error.message)
