"""What the command line and a Python user both call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fornaxc.errors import UsageError
from fornaxc.phases import PHASES, Progress, silent

if TYPE_CHECKING:
    from fornaxc.bench.report import Bench
    from fornaxc.cache import Cache
    from fornaxc.comparison.report import Comparison
    from fornaxc.compiler import Compiled, Request
    from fornaxc.diagnosis.reduction import Reduction
    from fornaxc.diagnosis.session import Bisection
    from fornaxc.qualify.report import Qualification
    from fornaxc.sources import Choice
    from fornaxc.support.table import Row
    from fornaxc.verification.report import Report


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one run of an artifact gave: its outputs by name, and the seconds that loading and running took."""

    artifact: Path
    target: str
    outputs: dict[str, Any]
    written: Path | None
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            "status": "ok",
            "artifact": str(self.artifact),
            "target": self.target,
            "written": None if self.written is None else str(self.written),
            "seconds": round(self.seconds, 4),
            "outputs": [
                {"name": name, "dtype": value.dtype.name, "shape": list(value.shape)}
                for name, value in self.outputs.items()
            ],
        }


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The files that an export wrote: the ONNX model, then its external data where it has some."""

    files: Sequence[Path]
    opset: int

    def to_json(self) -> dict[str, Any]:
        return {"status": "ok", "model": str(self.files[0]), "files": [str(f) for f in self.files], "opset": self.opset}


@dataclass(frozen=True, slots=True)
class CompileResult:
    """The artifact of a model for a target. `artifact` is None where `stop_after` ended before there was one.

    `cache` is hit or miss; `code` is hit where the compiled code was in the cache, as for a retrained model, else miss. `key` is that
    of the code, `request_key` that of the model and what was asked, which `fornaxc cache ls` shows too. `phases` are seconds.
    """

    target: str
    key: str
    cache: str
    artifact: Path | None
    phases: dict[str, float] = field(repr=False)
    manifest: dict[str, Any] = field(repr=False)
    request_key: str = field(default="", repr=False)
    code: str = "miss"

    def to_json(self) -> dict[str, Any]:
        return {
            "status": "ok",
            "target": self.target,
            "key": self.key,
            "request_key": self.request_key,
            "cache": self.cache,
            "code": self.code,
            "artifact": None if self.artifact is None else str(self.artifact),
            "phases": {name: round(seconds, 4) for name, seconds in self.phases.items()},
            "host_nodes": self.manifest.get("host_nodes", []),
        }


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
    Raises UsageError, UnsupportedError, ModelError, ToolchainError or CacheError.
    """
    from fornaxc.compiler import compile_model, model_path

    path = model_path(model)
    if output is not None:
        from fornaxc.cache.files import place_for_a_file

        place_for_a_file(Path(output))
    request = _request(
        target, dims, host_fallback, timeout, stop_after, dump, disabled_passes, optimization, _choice(entry, freeze)
    )
    cache = _cache(cache_dir)
    compiled = compile_model(path, request, cache, progress)
    return _result(compiled, request.target.label, cache, output)


def import_artifact(path: str | Path, *, cache_dir: Path | None = None) -> CompileResult:
    """Put an artifact file into the cache, so that compiling its model with the same request is a hit.

    Raises ArtifactError for a damaged file, UsageError for a model, CacheError where the cache cannot be written.
    """
    from fornaxc.compiler import admit, model_path

    cache = _cache(cache_dir)
    admitted = admit(model_path(path), cache)
    return _result(admitted, admitted.config["target"]["label"], cache, None)


def _result(compiled: Compiled, label: str, cache: Cache, output: str | Path | None) -> CompileResult:
    artifact = compiled.path if compiled.stored is not None else None
    config = compiled.config if compiled.stored is not None else {}
    if compiled.stored is not None and output is not None:
        from fornaxc.cache.archive import write_archive
        from fornaxc.cache.evidence import known

        artifact = Path(output)
        verified = known(cache, compiled.stored.descriptor.digest)
        write_archive(artifact, compiled.path.read_bytes(), compiled.stored.blobs(), verified)
    found, code = ("hit" if hit else "miss" for hit in (compiled.hit, compiled.code_hit))
    return CompileResult(label, compiled.key, found, artifact, compiled.seconds, config, compiled.request_key, code)


def _cache(cache_dir: Path | None) -> Cache:
    from fornaxc.cache import Cache

    return Cache.open(Path(cache_dir) if cache_dir is not None else None)


def _request(
    target: str,
    dims: Mapping[str, int] | None,
    host_fallback: bool,
    timeout: float | None,
    stop_after: str | None,
    dump: Path | None,
    disabled_passes: Sequence[str],
    optimization: int = 1,
    choice: Choice | None = None,
) -> Request:
    from fornaxc.compiler import Request
    from fornaxc.sources import WHOLE
    from fornaxc.targets import parse_target

    names = [p.name for p in PHASES]
    if stop_after is not None and stop_after not in names:
        raise UsageError(f"no phase is named {stop_after!r}", code="FX213", hint=f"the phases are: {', '.join(names)}")
    for name, size in (dims or {}).items():
        if not 0 <= size < 2**63:
            raise UsageError(f"the dim {name!r} cannot have size {size}", code="FX214")
    if optimization not in range(4):
        raise UsageError(f"no optimization level {optimization}", code="FX219", hint="the levels are 0, 1, 2 and 3")
    return Request(
        parse_target(target),
        dict(dims or {}),
        host_fallback,
        tuple(disabled_passes),
        timeout,
        stop_after if stop_after not in ("package", "verify") else None,
        Path(dump) if dump is not None else None,
        optimization,
        choice or WHOLE,
    )


def _choice(entry: str | None, freeze: str | Path | None) -> Choice:
    from fornaxc.sources import Choice

    return Choice(entry, Path(freeze) if freeze is not None else None)


ORACLES = ("ort", "ort-noopt", "onnx-reference", "stablehlo-reference", "numpy", "golden")
"""The oracles that `verify` can be told to ask: onnxruntime with and without its optimiser, onnx's ReferenceEvaluator, StableHLO's interpreter
(for StableHLO), the numpy interpreter of the imported graph, and the outputs of `expected`."""


def verify(
    model_or_artifact: str | Path,
    *,
    target: str | None = None,
    model: str | Path | None = None,
    inputs: str | Path | None = None,
    expected: str | Path | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    tolerances: str | Path | None = None,
    cache_dir: Path | None = None,
    host_fallback: bool = True,
    timeout: float | None = None,
    optimization: int | None = None,
    entry: str | None = None,
    freeze: str | Path | None = None,
    oracles: Sequence[str] = (),
    noise: bool | None = None,
    float64: bool | None = None,
    progress: Progress = silent,
) -> Report:
    """Prove a model's artifact (compiling it first), or an artifact file, against its oracle; compare every output.

    A model is compiled as `compile` does with `target` (by default `cpu`), `dims`, `host_fallback` and `optimization`; an artifact was
    compiled already, so these are refused with one. `entry` and `freeze` say what of a StableHLO module was compiled. The oracle of a
    model is onnxruntime, and of a StableHLO module StableHLO's own interpreter as well; that of an artifact is its
    source model where `model` names it, else the program inside it, which leaves the import unproven (the report says so). `oracles` (of
    `ORACLES`) takes their place: each is asked, and where one refuses or is known to be off-specification the others decide.
    `noise` says whether onnxruntime's disagreement with itself is measured (None: of models that are not large), `float64` whether the
    model is evaluated in double precision (None: for outputs that miss their tolerance, and of small models).

    Inputs are generated from `seed`, at two sizes of each symbolic dim, unless the .npz file `inputs` gives them; `expected` (.npz, with
    `inputs`) holds golden outputs in place of the oracle's. Both are judged before anything is compiled. `rtol` and `atol` take the
    place of each output's tolerance: |value - reference| <= atol * max(1, largest |reference|) + rtol * |reference|. The TOML file
    `tolerances`, by default `<stem>.tolerances.toml` beside the model where there is one, states tolerances by output.
    `timeout` bounds the seconds of MAX's compile and those of the run, each; `cache_dir` is the cache's folder, which keeps the outcome;
    `progress` hears the phases.

    The report's `verdict` is `pass`, `fail`, or `unproven` where nothing differed but the target itself cannot run here;
    `rows` holds an entry per output and sample, `to_json()` the whole as `docs/json.md` describes it, `exit` the exit status.
    Raises UsageError for wrong inputs, UnsupportedError, ModelError, ArtifactError, ToolchainError or CacheError.
    """
    from fornaxc.artifact import is_artifact
    from fornaxc.compiler import model_path
    from fornaxc.verification.session import Given, verify_artifact, verify_model

    path = model_path(model_or_artifact)
    given = Given(
        Path(inputs) if inputs is not None else None, Path(expected) if expected is not None else None,
        seed, rtol, atol, Path(tolerances) if tolerances is not None else None, timeout, _choice(entry, freeze),
        tuple(oracles), noise, float64,
    )  # fmt: skip
    if is_artifact(path):
        _refuse_for_artifact(path, target, dims, host_fallback, optimization)
        if model is None:
            _refuse_choice(path, entry, freeze)
        source = model_path(model) if model is not None else None
        return verify_artifact(path, source, _cache(cache_dir), given, progress)
    _refuse_model_beside_model(path, Path(model) if model is not None else None)
    level = 1 if optimization is None else optimization
    request = _request(target or "cpu", dims, host_fallback, timeout, None, None, (), level, given.choice)
    return verify_model(path, request, _cache(cache_dir), given, progress)


def bisect(
    model: str | Path,
    *,
    target: str | None = None,
    inputs: str | Path | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    cache_dir: Path | None = None,
    host_fallback: bool = True,
    timeout: float | None = None,
    optimization: int | None = None,
    entry: str | None = None,
    freeze: str | Path | None = None,
    failing: Sequence[str] = (),
    growth: str | Path | None = None,
    progress: Progress = silent,
) -> Bisection:
    """Find where a model's numbers go wrong: in the import, in a pass, or at the first node that the device computes wrongly.

    Every intermediate value is fetched from the device and compared. The options mean what they mean to `verify`; of generated samples
    the first is taken whose label is among `failing`. `growth` is an HTML file to write, with the error of every node.
    A target that cannot run here is replaced by this CPU. Raises what `verify` raises, and UsageError for an artifact.
    """
    from fornaxc.compiler import model_path
    from fornaxc.diagnosis.session import bisect_model

    path = model_path(model)
    check_is_model(path, "bisection")
    level = 1 if optimization is None else optimization
    request = _request(target or "cpu", dims, host_fallback, timeout, None, None, (), level, _choice(entry, freeze))
    given = Path(inputs) if inputs is not None else None
    found = bisect_model(
        path,
        request,
        _cache(cache_dir),
        inputs=given,
        seed=seed,
        rtol=rtol,
        atol=atol,
        failing=failing,
        progress=progress,
    )
    if growth is not None:
        from fornaxc.diagnosis.page import write_page

        write_page(found, path.name, Path(growth))
    return found


def reduce(
    model: str | Path,
    output: str | Path,
    *,
    check: str = "verify",
    target: str = "cpu",
    inputs: str | Path | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    cache_dir: Path | None = None,
    timeout: float | None = None,
    optimization: int = 1,
    entry: str | None = None,
    freeze: str | Path | None = None,
    progress: Progress = silent,
) -> Reduction:
    """Make a small ONNX model that fails as `model` does, with its inputs (.npz) and a report (.md) beside `output`.

    `check` is `verify` (wrong numbers), `compile` (MAX fails or crashes) or a command line that ends with a status other than 0. `timeout` bounds
    the seconds of each of MAX's compiles, or of each run of the command. Names of the model are not in the files, and its numbers only where
    it does not fail with seeded ones. Raises UsageError where the model passes the check, and what `verify` raises.
    """
    from fornaxc.compiler import model_path
    from fornaxc.diagnosis.reduction import reduce_model

    path = model_path(model)
    check_is_model(path, "reduction")
    request = _request(target, dims, True, timeout, None, None, (), optimization, _choice(entry, freeze))
    given = Path(inputs) if inputs is not None else None
    return reduce_model(
        path, request, _cache(cache_dir), check=check, output=Path(output), inputs=given, seed=seed, rtol=rtol, atol=atol, progress=progress
    )  # fmt: skip


def check_is_model(path: Path, what: str) -> None:
    """Raise UsageError for an artifact; `what` names the work that needs a model."""
    from fornaxc.artifact import is_artifact

    if is_artifact(path):
        raise UsageError(
            f"{path} is an artifact: {what} needs a model",
            code="FX218",
            hint="`fornaxc export` writes its program as a model",
        )


def _refuse_for_artifact(
    path: Path, target: str | None, dims: Mapping[str, int] | None, host_fallback: bool, optimization: int | None
) -> None:
    """Raise UsageError where something is asked that was settled when an artifact was compiled."""
    asked = {
        "--target": target is not None,
        "--dim": bool(dims),
        "--no-host-fallback": not host_fallback,
        "-O": optimization is not None,
    }
    given = [name for name, is_given in asked.items() if is_given]
    if given:
        raise UsageError(
            f"{' and '.join(given)} cannot be given with an artifact: {path} was compiled for one target, with its dims",
            code="FX218",
            hint=f"leave it out, or give the source model; `fornaxc inspect {path}` shows what the artifact was made for",
        )


def _refuse_model_beside_model(path: Path, source: Path | None) -> None:
    """Raise UsageError where a source model is named beside a model, which is its own source."""
    if source is not None:
        raise UsageError(f"--model belongs to an artifact, and {path} is a model", code="FX218", hint="leave it out")


def _place(path: str | Path | None) -> Path | None:
    """A file that is to be written, judged before minutes of work. Raises UsageError where it can be none."""
    from fornaxc.cache.files import place_for_a_file

    return None if path is None else place_for_a_file(Path(path))


def _write(path: Path, text: str) -> None:
    from fornaxc.cache.files import write_whole

    write_whole(path, text.encode())


def _refuse_choice(path: Path, entry: str | None, freeze: str | Path | None) -> None:
    """Raise UsageError where a function, or its weights, are chosen with an artifact, for which both are settled."""
    given = [name for name, value in (("--entry", entry), ("--freeze", freeze)) if value is not None]
    if given:
        raise UsageError(
            f"{' and '.join(given)} cannot be given with an artifact: {path} was compiled from one function, with its weights",
            code="FX218",
            hint="leave it out, or give the source model",
        )


def run(
    artifact: str | Path,
    *,
    inputs: str | Path | None = None,
    output: str | Path | None = None,
    threads: int | None = None,
    timeout: float | None = None,
) -> RunResult:
    """Run an artifact once, in a process of its own, on the arrays of the .npz file `inputs`; write them to `output`.

    Raises UsageError for a wrong input, ArtifactError for an artifact that cannot run here, ToolchainError where MAX fails.
    """
    from time import perf_counter

    from fornaxc.artifact import check_runnable, open_artifact
    from fornaxc.compiler import model_path
    from fornaxc.ir.types import DType
    from fornaxc.npz import load_npz, save_npz, with_dtypes
    from fornaxc.runner import run_in_child

    path = model_path(artifact)
    opened = open_artifact(path)
    check_runnable(opened)
    arrays = load_npz(Path(inputs), "inputs") if inputs is not None else {}
    arrays = with_dtypes(arrays, {t["name"]: DType(t["dtype"]).numpy for t in opened.config["inputs"]})
    begun = perf_counter()
    (outputs,) = run_in_child(path, [arrays], threads=threads, timeout=timeout)
    seconds = perf_counter() - begun
    if output is not None:
        save_npz(Path(output), outputs)
    label = opened.config["target"]["label"]
    return RunResult(path, label, outputs, Path(output) if output is not None else None, seconds)


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
    file `inputs`, else generated from `seed` with `sizes` of the symbolic dims. `timeout` bounds the seconds of compiling, of loading and of
    each block. `html` is a page to write. Raises UsageError, UnsupportedError (also where onnxruntime refuses the model), ModelError,
    ArtifactError where the artifact cannot run here, ToolchainError or CacheError.
    """
    from fornaxc.artifact import is_artifact
    from fornaxc.bench.session import Measuring, bench_artifact
    from fornaxc.compiler import compile_model, model_path

    path = model_path(model_or_artifact)
    if against not in (None, "ort"):
        raise UsageError(
            f"nothing is known to measure against by the name {against!r}", code="FX262", hint="it is: ort"
        )
    page = _place(html)
    source = None if model is None else model_path(model)
    cache = _cache(cache_dir)
    artifact = path
    if is_artifact(path):
        _refuse_for_artifact(path, target, dims, host_fallback, optimization)
        _refuse_choice(path, entry, freeze)
    else:
        _refuse_model_beside_model(path, source)
        level = 1 if optimization is None else optimization
        choice = _choice(entry, freeze)
        request = _request(target or "cpu", dims, host_fallback, timeout, None, None, (), level, choice)
        artifact, source = compile_model(path, request, cache, progress).path, path
    given = Path(inputs) if inputs is not None else None
    wanted = Measuring(iterations, warmup, threads, given, dict(sizes or {}), seed, timeout)
    found = bench_artifact(artifact, path.name, source, against, wanted, cache, progress)
    if page is not None:
        from fornaxc.bench.page import bench_page

        _write(page, bench_page(found.to_json()))
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
    the .npz file `inputs` or on ones generated from `seed` (with `sizes` of the symbolic dims, at two sizes of the others), within what
    `verify` allows or `rtol` and `atol` do; and their speed, in turn, unless `speed` is False. `max_slowdown` fails the comparison where `b`
    takes more than that times as long as `a` in every block. The other options mean what they mean to `bench`.

    The result's `verdict` is `pass`, `fail`, or `unproven` where no outputs could be compared; its `not_compared` says why.
    Raises UsageError, ArtifactError for a damaged file, ToolchainError or CacheError.
    """
    from fornaxc.bench.session import Measuring
    from fornaxc.comparison.session import Wanted, compare_artifacts
    from fornaxc.compiler import model_path

    if max_slowdown is not None and not speed:
        raise UsageError("--max-slowdown needs the speed to be measured", code="FX263", hint="leave out --no-speed")
    measuring = Measuring(
        iterations, warmup, threads, Path(inputs) if inputs is not None else None, dict(sizes or {}), seed, timeout
    )
    wanted = Wanted(rtol, atol, speed, max_slowdown)
    return compare_artifacts((model_path(a), model_path(b)), wanted, measuring, _cache(cache_dir), progress)


def inspect(
    model_or_artifact: str | Path,
    *,
    target: str | None = None,
    dims: Mapping[str, int] | None = None,
    cache_dir: Path | None = None,
    entry: str | None = None,
    freeze: str | Path | None = None,
) -> dict[str, Any]:
    """What a model or an artifact holds, as a JSON-ready document.

    Of a model, `refused` is what the target (by default `cpu`) cannot do. Of an artifact, `verified` is what the file itself and the cache
    know to be proven. Raises UsageError, ModelError or ArtifactError.
    """
    from fornaxc.artifact import is_artifact
    from fornaxc.compiler import model_path
    from fornaxc.inspection import inspect_artifact, inspect_model

    path = model_path(model_or_artifact)
    if is_artifact(path):
        _refuse_for_artifact(path, target, dims, True, None)
        _refuse_choice(path, entry, freeze)
        return inspect_artifact(path, _cache(cache_dir))
    choice = _choice(entry, freeze)
    return inspect_model(path, _request(target or "cpu", dims, True, None, None, None, (), 1, choice))


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

        _refuse_for_artifact(path, None, dims, True, None)
        _refuse_choice(path, entry, freeze)
        graph = embedded_graph(open_artifact(path))
    else:
        pins = _request("cpu", dims, True, None, None, None, ()).dims
        graph, _ = import_source(path, pins, _cache(None).digests.of_file, _choice(entry, freeze))
        if optimized:
            from fornaxc.passes.pipeline import optimize

            graph = optimize(graph, "cpu", ())
    from fornaxc.export.onnx import OPSET, save_onnx

    return ExportResult(save_onnx(graph, Path(output)), OPSET)


def qualify(
    suite: str | Path,
    *,
    target: str = "cpu",
    filters: Sequence[str] = (),
    limit: int | None = None,
    freeze_shape_inputs: bool = False,
    jobs: int | None = None,
    per_module: int = 60,
    rtol: float = 1e-3,
    atol: float = 1e-5,
    timeout: float = 1800,
    resume: Path | None = None,
    cache_dir: Path | None = None,
    json: Path | None = None,
    html: Path | None = None,
    gaps: Path | None = None,
    update_gaps: Path | None = None,
    support: Path | None = None,
    progress: Callable[[str, int, int], None] = lambda step, done, of: None,
) -> Qualification:
    """Take every case of a suite through the whole path and compare it with the outputs that the suite ships.

    `suite` is onnx:node, onnx:simple, onnx:pytorch-operator, onnx:pytorch-converted or a folder of cases in the ONNX backend-test layout, or of
    StableHLO modules that check themselves; `filters`
    are glob patterns of ids or operators. `jobs` processes (default: one per core) each compile `per_module` cases at a time, within `timeout`
    seconds. `resume` is the folder that remembers outcomes, by default in the cache. `json`, `html`, `support` (a folder)
    and `update_gaps` are files to write, `gaps` a list of known gaps to check against. Cases of a target that is not this
    machine's CPU end when they are compiled. Raises UsageError, UnsupportedError or CacheError.
    """
    from fornaxc.qualify.compare import Tolerance
    from fornaxc.qualify.session import Wanted
    from fornaxc.qualify.session import qualify as run_suite

    tolerance = Tolerance(rtol, atol)
    wanted = Wanted(
        str(suite), target, filters, limit, freeze_shape_inputs, jobs, per_module, tolerance, timeout, resume, cache_dir,
        json, html, gaps, update_gaps, support,
    )  # fmt: skip
    return run_suite(wanted, progress)


def support(operator: str | None = None, *, target: str = "cpu") -> list[Row]:
    """What is known to work on a target, per operator and version of its schema. UsageError where nothing is known."""
    from fornaxc.support.table import load_support, rows_of
    from fornaxc.targets import parse_target

    return rows_of(load_support(parse_target(target).label), operator)
