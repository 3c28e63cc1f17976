"""Run an artifact once."""

from __future__ import annotations

from pathlib import Path

from fornaxc.api.results import RunResult


def run(
    artifact: str | Path,
    *,
    inputs: str | Path | None = None,
    output: str | Path | None = None,
    threads: int | None = None,
    timeout: float | None = None,
) -> RunResult:
    """Run an artifact once, in a process of its own, on the arrays of the .npz file `inputs`; write them to `output`.

    Raises UsageError for a wrong input, and where `output` is a file that is read, ArtifactError for an artifact that cannot run here, ToolchainError where MAX fails.
    """
    from time import perf_counter

    from fornaxc.artifact import check_runnable, open_artifact
    from fornaxc.compiler import model_path
    from fornaxc.ir.types import DType
    from fornaxc.npz import load_npz, save_npz, with_dtypes
    from fornaxc.places import check_places
    from fornaxc.runner import run_in_child

    path = model_path(artifact)
    given, written = (Path(file) if file is not None else None for file in (inputs, output))
    check_places([written], given=[path, given])
    opened = open_artifact(path)
    check_runnable(opened)
    arrays = load_npz(given, "inputs") if given is not None else {}
    arrays = with_dtypes(arrays, {t["name"]: DType(t["dtype"]).numpy for t in opened.config["inputs"]})
    begun = perf_counter()
    (outputs,) = run_in_child(path, [arrays], threads=threads, timeout=timeout)
    seconds = perf_counter() - begun
    if written is not None:
        save_npz(written, outputs)
    label = opened.config["target"]["label"]
    return RunResult(path, label, outputs, written, seconds)
