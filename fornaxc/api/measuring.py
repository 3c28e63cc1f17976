"""Measure an artifact; compare two."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fornaxc.api.requests import (
    cache_at,
    choice_of,
    refuse_choice,
    refuse_for_artifact,
    refuse_model_beside_model,
    request_of,
    write_page,
)
from fornaxc.errors import UsageError
from fornaxc.phases import Progress, silent

if TYPE_CHECKING:
    from fornaxc.bench.report import Bench
    from fornaxc.comparison.report import Comparison


def bench(
    model_or_artifact: str | Path,
    *,
    against: str | None = None,
    model: str | Path | None = None,
    iterations: int | None = None,
    warmup: int | None = None,
    threads: int | None = None,
    inputs: str | Path | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    tolerances: str | Path | None = None,
    target: str | None = None,
    dims: Mapping[str, int] | None = None,
    cache_dir: Path | None = None,
    host_fallback: bool = True,
    timeout: float | None = None,
    optimization: int | None = None,
    entry: str | None = None,
    freeze: str | Path | None = None,
    html: str | Path | None = None,
    progress: Progress = silent,
) -> Bench:
    """Measure how fast an artifact, or a model once it is compiled, runs here; with `against="ort"` beside onnxruntime, in turn.

    A model is compiled as `compile` does; an artifact was compiled already, and `model` names its source for onnxruntime, which else runs
    the artifact's program exported to ONNX. `iterations` runs of each side count, and `warmup` ones before each block of them do not; without
    them both follow from the time of one run. `threads` is how many processors both sides may use. Inputs are those of the .npz
    file `inputs`, else generated from `seed` with `sizes` of the symbolic dims; these are judged before anything is compiled. Outputs are
    compared as `verify` does it, with the tolerances of the TOML file `tolerances`, by default `<stem>.tolerances.toml` beside either file. `timeout` bounds the seconds of compiling, of loading and of
    each block. `html` is a page to write. Raises UsageError, UnsupportedError (also where onnxruntime refuses the model), ModelError,
    ArtifactError where the artifact cannot run here, ToolchainError or CacheError.
    """
    from fornaxc.artifact import is_artifact
    from fornaxc.bench.session import Measuring, bench_artifact
    from fornaxc.compiler import compile_model, model_path
    from fornaxc.places import check_places
    from fornaxc.sources import import_source
    from fornaxc.verification.tolerances import tolerances_file

    path = model_path(model_or_artifact)
    if against not in (None, "ort"):
        raise UsageError(
            f"nothing is known to measure against by the name {against!r}", code="FX262", hint="it is: ort"
        )
    source = None if model is None else model_path(model)
    cache = cache_at(cache_dir)
    artifact = path
    given, stated = (Path(file) if file is not None else None for file in (inputs, tolerances))
    stated = stated or tolerances_file(path) or (tolerances_file(source) if source is not None else None)
    wanted = Measuring(iterations, warmup, threads, given, dict(sizes or {}), seed, timeout, stated)
    page = Path(html) if html is not None else None
    check_places([page], [path, source], [given, stated, Path(freeze) if freeze is not None else None])
    if is_artifact(path):
        refuse_for_artifact(path, target, dims, host_fallback, optimization)
        refuse_choice(path, entry, freeze)
    else:
        refuse_model_beside_model(path, source)
        level = 1 if optimization is None else optimization
        choice = choice_of(entry, freeze)
        request = request_of(target or "cpu", dims, host_fallback, timeout, None, None, (), level, choice)
        if wanted.inputs or wanted.sizes or wanted.tolerances:
            wanted.check(import_source(path, request.dims, cache.digests.of_file, choice)[0])
        artifact, source = compile_model(path, request, cache, progress).path, path
    found = bench_artifact(artifact, path.name, source, against, wanted, cache, progress)
    if page is not None:
        from fornaxc.bench.page import bench_page

        write_page(page, bench_page(found.to_json()))
    return found


def compare(
    a: str | Path,
    b: str | Path,
    *,
    inputs: str | Path | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    tolerances: str | Path | None = None,
    speed: bool = True,
    max_slowdown: float | None = None,
    iterations: int | None = 20,
    warmup: int | None = None,
    threads: int | None = None,
    cache_dir: Path | None = None,
    timeout: float | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Say what differs between two artifacts of one model: `b`, the new one, is judged by `a`.

    Signatures, manifests, programs and sizes are compared from the files. Where this machine can run both, so are the outputs, on the inputs of
    the .npz file `inputs` or on ones generated from `seed` (with `sizes` of the symbolic dims, at two sizes of the others), by the rules of
    `verify`: within `rtol` and `atol`, what the TOML file `tolerances` states (by default `<stem>.tolerances.toml` beside `b` or `a`) or the
    default; else `b` as close as `a` to the program of `a` in double precision. And so is their speed, in turn, unless `speed` is False. `max_slowdown` fails the comparison where `b`
    takes more than that times as long as `a` in every block. The other options mean what they mean to `bench`.

    The result's `verdict` is `pass`, `fail`, or `unproven` where no outputs could be compared; its `not_compared` says why.
    Raises UsageError, ArtifactError for a damaged file, ToolchainError or CacheError.
    """
    from fornaxc.bench.session import Measuring
    from fornaxc.comparison.session import Wanted, compare_artifacts
    from fornaxc.compiler import model_path
    from fornaxc.verification.tolerances import tolerances_file

    if max_slowdown is not None and not speed:
        raise UsageError("--max-slowdown needs the speed to be measured", code="FX263", hint="leave out --no-speed")
    paths = model_path(a), model_path(b)
    given, stated = (Path(file) if file is not None else None for file in (inputs, tolerances))
    stated = stated or tolerances_file(paths[1]) or tolerances_file(paths[0])
    measuring = Measuring(iterations, warmup, threads, given, dict(sizes or {}), seed, timeout, stated)
    wanted = Wanted(rtol, atol, speed, max_slowdown)
    return compare_artifacts(paths, wanted, measuring, cache_at(cache_dir), progress)
