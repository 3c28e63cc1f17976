"""Verifies a model (compiling it) or an artifact, from the choice of oracle to the report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from fornaxc.artifact import Artifact, open_artifact
from fornaxc.cache import Cache, Descriptor, media
from fornaxc.compiler import Compiled, Request, compile_model, publish, timestamp
from fornaxc.errors import UsageError
from fornaxc.ir.graph import Array, Graph
from fornaxc.npz import load_npz, with_dtypes
from fornaxc.phases import Clock, Progress
from fornaxc.sources import import_source, oracle_of
from fornaxc.targets import parse_target
from fornaxc.verification.oracle import GraphOracle, OracleRefused, Reference
from fornaxc.verification.report import Report
from fornaxc.verification.verify import Oracle, Sample, compare_samples, generated_samples, verdict


def verify_model(path: Path, request: Request, cache: Cache, given: dict[str, Any], progress: Progress) -> Report:
    """Compile a model for the target; run it, or where the target cannot run here the same program on this CPU."""
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
        graph, facts = import_source(path, request.dims, cache.digests.of_file)
        samples, more = _samples(graph, oracle_of(path, graph), given)
        report = _report(
            ran.path, compiled.config, samples, [*notes, *more], given, executed_on=ran_request.target.label
        )
        _record(cache, request, path, facts, compiled, report)
    return replace(report, phases={**compiled.seconds, **clock.seconds})


def verify_artifact(path: Path, model: Path | None, given: dict[str, Any], progress: Progress) -> Report:
    """Run an artifact as it is, against its source model or the program that it carries."""
    from fornaxc.artifact import check_runnable

    artifact = open_artifact(path)
    check_runnable(artifact)
    clock = Clock(progress)
    with clock.phase("verify"):
        notes: list[str] = []
        if model is not None:
            source, facts = import_source(model, {}, Cache.open().digests.of_file)
            if facts["digest"] != artifact.config["source"]["digest"]:
                raise UsageError(
                    f"{model} is not the model that {path} was compiled from",
                    code="FX225",
                    details=[{"artifact": artifact.config["source"]["digest"], "model": facts["digest"]}],
                )
            oracle: Oracle = oracle_of(model, source)
            graph = embedded_graph(artifact)
        else:
            graph = embedded_graph(artifact)
            oracle = GraphOracle(graph)
            if given["expected"] is None:
                notes.append(
                    "the reference is the artifact's own graph: its import from the source model is not proven"
                )
        samples, more = _samples(graph, oracle, given)
        label = artifact.config["target"]["label"]
        report = _report(path, artifact.config, samples, [*notes, *more], given, executed_on=label)
    return replace(report, phases=clock.seconds)


def embedded_graph(artifact: Artifact) -> Graph:
    """The program that an artifact carries, its weights read from the artifact."""
    from fornaxc.ir.serialize import graph_from_json, type_from_json
    from fornaxc.weights import read_weights

    types = [type_from_json(t) for t in artifact.config["weights"]]
    arrays: list[Array] = []
    if types:
        file, offset, _ = artifact.locate(artifact.layer(media.WEIGHTS).digest)
        arrays = read_weights(file, offset, types)
    return graph_from_json(json.loads(artifact.read(media.IR)), lambda number, type: arrays[number])


def _samples(graph: Graph, oracle: Oracle, given: dict[str, Any]) -> tuple[list[Sample], list[str]]:
    if given["inputs"] is None:
        if given["expected"] is not None:
            raise UsageError(
                "--expected needs the inputs that it belongs to", code="FX226", hint="give them with --inputs"
            )
        return generated_samples(graph, oracle, given["seed"])
    inputs = with_dtypes(load_npz(given["inputs"], "inputs"), {str(v.name): v.type.dtype.numpy for v in graph.inputs})
    label = given["inputs"].name
    if given["expected"] is not None:
        dtypes = {n: v.type.dtype.numpy for n, v in zip(graph.output_names, graph.outputs, strict=True)}
        outputs = with_dtypes(load_npz(given["expected"], "expected outputs"), dtypes)
        return [Sample(label, inputs, Reference(outputs, "golden"))], []
    try:
        reference = oracle(inputs)
    except OracleRefused as refusal:
        raise UsageError(f"no oracle accepts these inputs: {refusal}", code="FX227") from refusal
    return [Sample(label, inputs, reference)], []


def _report(
    artifact: Path,
    config: dict[str, Any],
    samples: list[Sample],
    notes: list[str],
    given: dict[str, Any],
    *,
    executed_on: str,
) -> Report:
    rows = compare_samples(artifact, samples, given["rtol"], given["atol"], given["timeout"])
    notes += [note for sample in samples for note in sample.reference.notes]
    oracles = dict.fromkeys(s.reference.oracle for s in samples)
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
        given["seed"] if given["inputs"] is None else None,
    )


def _record(
    cache: Cache, request: Request, path: Path, facts: dict[str, Any], compiled: Compiled, report: Report
) -> None:
    """Keep the outcome in the manifest of the cached artifact."""
    config = {**compiled.config, "verified": [report.record(timestamp())]}
    layers = [Descriptor.from_json(layer) for layer in compiled.artifact.manifest["layers"]]
    publish(cache, request, path, facts, config, layers)
