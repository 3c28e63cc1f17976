"""Model files of every format: which one a file holds, its graph, what identifies it, and its oracle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fornaxc.ir.graph import Array, Graph
    from fornaxc.verification.oracle import Reference


def format_of(path: Path) -> str:
    """`stablehlo` or `onnx`, from a file's content; onnx where it is neither, whose reader says what is wrong."""
    from fornaxc.importers.stablehlo.sniff import HEAD_BYTES, stablehlo_form

    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return "onnx"
    return "onnx" if stablehlo_form(head) is None else "stablehlo"


def import_source(path: Path, dims: Mapping[str, int], digest: Callable[[Path], str]) -> tuple[Graph, dict[str, Any]]:
    """The graph of a model file, and the facts of its source: format, digest, digests of external data by name."""
    if format_of(path) == "stablehlo":
        from fornaxc.importers.stablehlo.importer import import_stablehlo

        return import_stablehlo(path, dims), {"format": "stablehlo", "digest": digest(path), "external": {}}
    from fornaxc.importers.onnx.importer import import_model
    from fornaxc.importers.onnx.reader import open_model

    model = open_model(path)
    graph = import_model(model, dims)
    external = {name: digest(path.parent / name) for name in sorted(model.external_files())}
    return graph, {"format": "onnx", "digest": digest(path), "external": external}


def oracle_of(path: Path, graph: Graph) -> Callable[[Mapping[str, Array]], Reference]:
    """The oracle of a model file: onnxruntime on the file itself, or on the exported graph where it is not ONNX."""
    from fornaxc.verification.oracle import GraphOracle, OnnxOracle

    return OnnxOracle(path) if format_of(path) == "onnx" else GraphOracle(graph)
