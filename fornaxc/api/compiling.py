"""Compile a model; put an artifact into the cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fornaxc.api.requests import cache_at, choice_of, request_of
from fornaxc.api.results import CompileResult
from fornaxc.phases import Progress, silent

if TYPE_CHECKING:
    from fornaxc.cache import Cache
    from fornaxc.compiler import Compiled


def compile(
    model: str | Path,
    *,
    target: str = "cpu",
    output: str | Path | None = None,
    dims: Mapping[str, int] | None = None,
    cache_dir: Path | None = None,
    host_fallback: bool = True,
    timeout: float | None = None,
    stop_after: str | None = None,
    dump: Path | None = None,
    disabled_passes: Sequence[str] = (),
    optimization: int = 1,
    entry: str | None = None,
    freeze: str | Path | None = None,
    progress: Progress = silent,
) -> CompileResult:
    """Compile an ONNX or StableHLO model for a target, or find it in the cache; write the artifact to `output` where that is given.

    `target` is a spelling that `fornaxc targets` lists. `dims` pins symbolic dims to sizes, `cache_dir` is the cache's folder,
    `host_fallback=False` refuses what a GPU target would place on the host. `timeout` bounds the seconds of MAX's compile; `stop_after`,
    `dump` (a folder) and `disabled_passes` are for looking at a phase. Of a StableHLO module, `entry` names the function, and the arrays of
    the .npz file `freeze` become weights in place of the arguments of their names. `optimization` is 0 to 3: on a GPU, from 2 on,
    MAX's own kernels, compiled for each shape. `progress` hears the phases. The result names the artifact and its keys.
    Raises UsageError, also where `output` is a file that is read, UnsupportedError, ModelError, ToolchainError or CacheError.
    """
    from fornaxc.compiler import compile_model, model_path
    from fornaxc.places import check_places

    path = model_path(model)
    place = Path(output) if output is not None else None
    check_places([place], given=[path, Path(freeze) if freeze is not None else None])
    request = request_of(
        target, dims, host_fallback, timeout, stop_after, dump, disabled_passes, optimization, choice_of(entry, freeze)
    )
    cache = cache_at(cache_dir)
    compiled = compile_model(path, request, cache, progress)
    if compiled.stored is not None:
        external = compiled.config["source"]["external"]  # a hit tells them without a look into the model
        check_places([place], given=[path.parent / name for name in external])
    return _result(compiled, request.target.label, cache, place)


def import_artifact(path: str | Path, *, cache_dir: Path | None = None) -> CompileResult:
    """Put an artifact file into the cache, so that compiling its model with the same request is a hit.

    Raises ArtifactError for a damaged file, UsageError for a model, CacheError where the cache cannot be written.
    """
    from fornaxc.compiler import admit, model_path

    cache = cache_at(cache_dir)
    admitted = admit(model_path(path), cache)
    return _result(admitted, admitted.config["target"]["label"], cache, None)


def _result(compiled: Compiled, label: str, cache: Cache, output: Path | None) -> CompileResult:
    artifact = compiled.path if compiled.stored is not None else None
    config = compiled.config if compiled.stored is not None else {}
    if compiled.stored is not None and output is not None:
        from fornaxc.cache.archive import write_archive
        from fornaxc.cache.evidence import known

        artifact = output
        verified = known(cache, compiled.stored.descriptor.digest)
        write_archive(artifact, compiled.path.read_bytes(), compiled.stored.blobs(), verified)
    found, code = ("hit" if hit else "miss" for hit in (compiled.hit, compiled.code_hit))
    return CompileResult(label, compiled.key, found, artifact, compiled.seconds, config, compiled.request_key, code)
