"""Prove the numbers of a model or an artifact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fornaxc.api.requests import (
    cache_at,
    choice_of,
    refuse_choice,
    refuse_for_artifact,
    refuse_model_beside_model,
    request_of,
)
from fornaxc.phases import Progress, silent

if TYPE_CHECKING:
    from fornaxc.verification.files import ReportFiles
    from fornaxc.verification.report import Report


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
    edge_cases: bool = False,
    dataset: str | Path | None = None,
    html: str | Path | None = None,
    junit: str | Path | None = None,
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

    Inputs are generated from `seed`, at two sizes of each symbolic dim, unless `inputs` gives them: an .npz, safetensors or TensorProto
    (.pb) file, or a folder of samples; `expected` (with `inputs`, and in the same formats) holds golden outputs in place of the oracle's.
    `edge_cases` adds sets at the ends of what inputs may hold, and dims of size 1 and 0. `dataset` is a folder, or an .npz file with a leading
    axis, of many samples, of which the report has statistics. What is given is judged before anything is compiled. `rtol` and `atol` take the
    place of each output's tolerance: |value - reference| <= atol * max(1, largest |reference|) + rtol * |reference|. The TOML file
    `tolerances`, by default `<stem>.tolerances.toml` beside the model where there is one, states tolerances by output.
    `timeout` bounds the seconds of MAX's compile and those of the run, each; `cache_dir` is the cache's folder, which keeps the outcome;
    `progress` hears the phases. `html` is a page to write, and `junit` a file in JUnit's XML, which also tells of an error that is raised;
    what an earlier verification left in either goes first, and neither may be a file that is read.

    The report's `verdict` is `pass`, `fail`, or `unproven` where nothing differed but the target itself cannot run here;
    `rows` holds an entry per output and sample, `to_json()` the whole as `docs/json.md` describes it, `exit` the exit status.
    Raises UsageError for wrong inputs, UnsupportedError, ModelError, ArtifactError, ToolchainError or CacheError.
    """
    from fornaxc.artifact import is_artifact
    from fornaxc.compiler import model_path
    from fornaxc.verification.session import Given, verify_artifact, verify_model

    def proven() -> Report:
        path = model_path(model_or_artifact)
        given = given_of()
        if is_artifact(path):
            refuse_for_artifact(path, target, dims, host_fallback, optimization)
            if model is None:
                refuse_choice(path, entry, freeze)
            source = model_path(model) if model is not None else None
            return verify_artifact(path, source, cache_at(cache_dir), given, progress)
        refuse_model_beside_model(path, Path(model) if model is not None else None)
        level = 1 if optimization is None else optimization
        request = request_of(target or "cpu", dims, host_fallback, timeout, None, None, (), level, given.choice)
        return verify_model(path, request, cache_at(cache_dir), given, progress)

    def given_of() -> Given:
        return Given(
            path_of(inputs), path_of(expected), seed, rtol, atol, path_of(tolerances), timeout, choice_of(entry, freeze),
            tuple(oracles), noise, float64, edge_cases, path_of(dataset),
        )  # fmt: skip

    def path_of(file: str | Path | None) -> Path | None:
        return None if file is None else Path(file)

    files = report_files(model_or_artifact, html, junit)
    with files.telling():
        files.begin(
            [Path(model_or_artifact), path_of(model)], map(path_of, (inputs, expected, dataset, tolerances, freeze))
        )
        report = proven()
        files.write(report)
    return report


def report_files(
    model_or_artifact: str | Path,
    html: str | Path | None = None,
    junit: str | Path | None = None,
    growth: str | Path | None = None,
) -> ReportFiles:
    """The files that a verification leaves: `telling` of them puts an error that ends work around `verify` into the JUnit file too."""
    from fornaxc.verification.files import ReportFiles

    places = [Path(file) if file is not None else None for file in (html, junit, growth)]
    return ReportFiles(Path(model_or_artifact).name, *places)
