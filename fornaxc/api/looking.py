"""Look into a model or an artifact; write its graph as an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fornaxc.api.requests import cache_at, choice_of, refuse_choice, refuse_for_artifact, request_of
from fornaxc.api.results import ExportResult


def inspect(
    model_or_artifact: str | Path,
    *,
    target: str | None = None,
    dims: Mapping[str, int] | None = None,
    cache_dir: Path | None = None,
    entry: str | None = None,
    freeze: str | Path | None = None,
    optimization: int | None = None,
    disabled_passes: Sequence[str] = (),
    passes: bool = False,
) -> dict[str, Any]:
    """What a model or an artifact holds, as a JSON-ready document.

    Of a model, `refused` is what the target (by default `cpu`) cannot do, and with `passes` the document tells what each step to the program
    did, at a level of `optimization` (by default 1) and without `disabled_passes`. Of an artifact, `verified` is what the file itself and the
    cache know to be proven. Raises UsageError, ModelError or ArtifactError.
    """
    from fornaxc.artifact import is_artifact
    from fornaxc.compiler import model_path
    from fornaxc.inspection import inspect_artifact, inspect_model

    path = model_path(model_or_artifact)
    if is_artifact(path):
        refuse_for_artifact(path, target, dims, True, optimization, disabled_passes, passes)
        refuse_choice(path, entry, freeze)
        return inspect_artifact(path, cache_at(cache_dir))
    level = 1 if optimization is None else optimization
    choice = choice_of(entry, freeze)
    request = request_of(target or "cpu", dims, True, None, None, None, disabled_passes, level, choice)
    return inspect_model(path, request, passes)


def export(
    model_or_artifact: str | Path,
    output: str | Path,
    *,
    optimized: bool = False,
    dims: Mapping[str, int] | None = None,
    entry: str | None = None,
    freeze: str | Path | None = None,
) -> ExportResult:
    """Write the graph of a model, or the program of an artifact, as an ONNX model; weights go to a file beside it.

    `optimized` is the graph that would be compiled for the CPU; an artifact's program is optimised, with its dims pinned.
    Raises UsageError, UnsupportedError, ModelError or ArtifactError.
    """
    from fornaxc.artifact import is_artifact, open_artifact
    from fornaxc.cache.files import place_for_a_file
    from fornaxc.compiler import model_path
    from fornaxc.sources import import_source

    path = model_path(model_or_artifact)
    place_for_a_file(Path(output))
    if is_artifact(path):
        from fornaxc.verification.session import embedded_graph

        refuse_for_artifact(path, None, dims, True, None)
        refuse_choice(path, entry, freeze)
        graph = embedded_graph(open_artifact(path))
    else:
        pins = request_of("cpu", dims, True, None, None, None, ()).dims
        graph, _ = import_source(path, pins, cache_at(None).digests.of_file, choice_of(entry, freeze))
        if optimized:
            from fornaxc.passes.pipeline import optimize

            graph = optimize(graph, "cpu", ())
    from fornaxc.export.onnx import OPSET, save_onnx

    return ExportResult(save_onnx(graph, Path(output)), OPSET)
