"""What a model or an artifact holds, as a document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from fornaxc.artifact import open_artifact
from fornaxc.cache import Cache
from fornaxc.cache.evidence import known, merged
from fornaxc.compiler import Request
from fornaxc.errors import ModelError, UnsupportedError, UsageError
from fornaxc.sources import format_of, import_source

if TYPE_CHECKING:
    from fornaxc.importers.onnx.structure import RawGraph, RawNode
    from fornaxc.ir.graph import Graph


def inspect_artifact(path: Path, cache: Cache) -> dict[str, Any]:
    """The config of an artifact, with its blobs and all that its file and the cache know to be proven. ArtifactError where it is damaged."""
    artifact = open_artifact(path, cache)
    here = known(artifact.cache or cache, artifact.digest)
    verified = [
        {**record, "known_to": "artifact" if record in artifact.verified else "cache"}
        for record in merged(artifact.verified, here)
    ]
    layers = [{k: layer[k] for k in ("mediaType", "digest", "size")} for layer in artifact.manifest["layers"]]
    return {
        "kind": "artifact",
        "path": str(path),
        **artifact.config,
        "manifest": artifact.digest,
        "verified": verified,
        "blobs": layers,
    }


def inspect_model(path: Path, request: Request, passes: bool = False) -> dict[str, Any]:
    """Inputs, outputs, operators and, where it can be imported, the graph that would be compiled for the target.

    What a target cannot do is in `refused`, one entry per node, rather than an error. With `passes` also what each step from the file to
    the program made of the model, and in `pass_seconds`, which differ from run to run, how long it took. UsageError for passes that do not exist.
    """
    document = _stablehlo_facts(path) if format_of(path) == "stablehlo" else _onnx_facts(path)
    document |= {"target": request.target.label, "supported": True, "refused": []}
    if document["format"] == "onnx":
        document["evidence"] = _evidence(document, request.target.label)
    start = perf_counter()
    try:
        graph, _ = import_source(path, request.dims, lambda file: "", request.choice)
    except (UnsupportedError, ModelError) as error:
        return {**document, "supported": False, "refused": error.details or [{"reason": error.message}]}
    seconds = {"import": perf_counter() - start}
    in_the_file = sum(document["operators"].values()) if "operators" in document else None
    rows = [_imported(graph, in_the_file)]
    document.update(_graph_facts(graph, request, rows, seconds))
    return {**document, "passes": rows, "pass_seconds": seconds} if passes else document


def _stablehlo_facts(path: Path) -> dict[str, Any]:
    from fornaxc.importers.stablehlo.reader import open_module

    module = open_module(path)
    return {
        "kind": "model",
        "path": str(path),
        "format": f"stablehlo {module.form}",
        "functions": list(module.functions),
    }


def _onnx_facts(path: Path) -> dict[str, Any]:
    from fornaxc.importers.onnx.reader import open_model
    from fornaxc.importers.onnx.structure import raw_graph

    model = open_model(path)
    raw = raw_graph(model)
    operators = Counter(f"{node.domain or 'ai.onnx'}::{node.op_type}" for node in _nodes(raw))
    return {
        "kind": "model",
        "path": str(path),
        "format": "onnx",
        "ir_version": model.ir_version,
        "opsets": {domain or "ai.onnx": version for domain, version in sorted(model.opsets.items())},
        "inputs": [
            {"name": v.name, "shape": None if v.dims is None else [_shown(d) for d in v.dims]} for v in raw.inputs
        ],
        "outputs": [v.name for v in raw.outputs],
        "nodes": len(raw.nodes),
        "operators": dict(sorted(operators.items())),
        "external_data": model.external_files(),
    }


def _nodes(graph: RawGraph) -> Iterator[RawNode]:
    """The nodes of a graph and of the bodies of its control flow."""
    for node in graph.nodes:
        yield node
        for body in node.bodies():
            yield from _nodes(body)


def _evidence(document: dict[str, Any], target: str) -> dict[str, Any]:
    """Of each operator, how many qualification cases work on the target, at the version of its schema that the model uses.

    Null where no case has it; empty where no support data ships for the target.
    """
    from fornaxc.importers.onnx.structure import schema_version
    from fornaxc.support.table import evidence, load_support

    try:
        data = load_support(target)
    except UsageError:
        return {}
    found: dict[str, Any] = {}
    for operator in document["operators"]:
        domain, _, name = operator.rpartition("::")
        known = "" if domain == "ai.onnx" else domain
        opset = document["opsets"].get(domain, 1)
        since = schema_version(known, name, opset) or 1  # of another tool, which has one version
        row = evidence(data, f"{known}::{name}" if known else name, since)
        found[operator] = row and {"since": since, "cases": row.cases, "good": row.good, "wrong": list(row.wrong)}
    return found


def _graph_facts(
    graph: Graph, request: Request, rows: list[dict[str, Any]], seconds: dict[str, float]
) -> dict[str, Any]:
    """Facts of the graph and of its program; what each step did is added to `rows`, how long it took to `seconds`."""
    from fornaxc.ir.serialize import encode_dim
    from fornaxc.lowering.support import unsupported
    from fornaxc.passes.effects import operation_counts
    from fornaxc.weights import weight_constants

    program = _program(graph, request, rows, seconds)
    refused = unsupported(program, request.target.device)
    weights = weight_constants(program)

    def tensor(name: str, type: Any) -> dict[str, Any]:
        return {"name": name, "dtype": type.dtype.value, "shape": [encode_dim(d) for d in type.shape]}

    return {
        "inputs": [tensor(v.name, v.type) for v in graph.inputs],
        "outputs": [tensor(n, v.type) for n, v in zip(graph.output_names, graph.outputs, strict=True)],
        "constraints": [str(c) for c in graph.constraints],
        "operations": dict(sorted(operation_counts(program).items())),
        "weights": len(weights),
        "weight_bytes": sum(w.type.nbytes for w in weights),
        "supported": not refused,
        "refused": refused,
    }


def _program(graph: Graph, request: Request, rows: list[dict[str, Any]], seconds: dict[str, float]) -> Graph:
    """The program that is lowered: the passes, then packing, as the compiler does it."""
    from fornaxc.passes.pipeline import steps
    from fornaxc.passes.prepack import prepack

    for done in steps(graph, request.target.device, request.disabled_passes, request.optimization):
        row = {"step": done.step.name, "description": done.step.description, "optional": True}
        rows.append({**row, "left_out": done.left_out, **_effect(done.before, done.after)})
        if not done.left_out:
            seconds[done.step.name] = done.seconds
        graph = done.after
    start = perf_counter()
    program = prepack(graph)
    seconds["prepack"] = perf_counter() - start
    what = "what constants alone determine becomes a weight or a literal, computed when the weights are packed; dead nodes go"
    rows.append({"step": "prepack", "description": what, "optional": False, "left_out": "", **_effect(graph, program)})
    return program


def _imported(graph: Graph, in_the_file: int | None) -> dict[str, Any]:
    """The row of the import; `in_the_file` are the file's own nodes, where they can be counted."""
    what = "the file's nodes as operations; known values are folded, and what no output needs is left out"
    row = {"step": "import", "description": what, "optional": False, "left_out": ""}
    return {**row, **_effect(None, graph), "nodes_before": in_the_file}


def _effect(before: Graph | None, after: Graph) -> dict[str, Any]:
    """What a step did, and the weights after it."""
    from dataclasses import asdict

    from fornaxc.passes.effects import effect
    from fornaxc.weights import weight_constants

    weights = weight_constants(after)
    return {
        **asdict(effect(before, after)),
        "weights": len(weights),
        "weight_bytes": sum(w.type.nbytes for w in weights),
    }


def _shown(dim: Any) -> Any:
    return "?" if dim is None else dim
