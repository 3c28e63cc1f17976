"""What a model or an artifact holds, as a document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fornaxc.artifact import open_artifact
from fornaxc.cache import Cache
from fornaxc.cache.evidence import known, merged
from fornaxc.compiler import Request
from fornaxc.errors import ModelError, UnsupportedError, UsageError
from fornaxc.sources import format_of, import_source

if TYPE_CHECKING:
    from fornaxc.importers.onnx.structure import RawGraph, RawNode


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


def inspect_model(path: Path, request: Request) -> dict[str, Any]:
    """Inputs, outputs, operators and, where it can be imported, the graph that would be compiled for the target.

    What a target cannot do is in `refused`, one entry per node, rather than an error.
    """
    document = _stablehlo_facts(path) if format_of(path) == "stablehlo" else _onnx_facts(path)
    document |= {"target": request.target.label, "supported": True, "refused": []}
    if document["format"] == "onnx":
        document["evidence"] = _evidence(document, request.target.label)
    try:
        graph, _ = import_source(path, request.dims, lambda file: "", request.choice)
    except (UnsupportedError, ModelError) as error:
        return {**document, "supported": False, "refused": error.details or [{"reason": error.message}]}
    document.update(_graph_facts(graph, request))
    return document


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


def _graph_facts(graph: Any, request: Request) -> dict[str, Any]:
    from fornaxc.ir.serialize import encode_dim
    from fornaxc.lowering.support import unsupported
    from fornaxc.passes.pipeline import optimize
    from fornaxc.passes.prepack import prepack
    from fornaxc.weights import weight_constants

    program = prepack(optimize(graph, request.target.device, request.disabled_passes, request.optimization))
    refused = unsupported(program, request.target.device)
    weights = weight_constants(program)

    def tensor(name: str, type: Any) -> dict[str, Any]:
        return {"name": name, "dtype": type.dtype.value, "shape": [encode_dim(d) for d in type.shape]}

    return {
        "inputs": [tensor(v.name, v.type) for v in graph.inputs],
        "outputs": [tensor(n, v.type) for n, v in zip(graph.output_names, graph.outputs, strict=True)],
        "constraints": [str(c) for c in graph.constraints],
        "operations": dict(sorted(Counter(node.op.name for node in program.walk()).items())),
        "weights": len(weights),
        "weight_bytes": sum(w.type.nbytes for w in weights),
        "supported": not refused,
        "refused": refused,
    }


def _shown(dim: Any) -> Any:
    return "?" if dim is None else dim
