"""Writes files of a diagnosis, a case as an ONNX file with its inputs among them, over nothing that the user gave."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fornaxc.cache.files import place_for_a_file, write_whole
from fornaxc.diagnosis.edits import Case
from fornaxc.errors import UsageError
from fornaxc.export.onnx import export_onnx
from fornaxc.npz import save_npz
from fornaxc.sources import Choice, format_of
from fornaxc.verification.given import tensor_sets


def write_case(case: Case, path: Path) -> list[Path]:
    """Write the model to `path`, weights inside, the inputs to the .npz file beside it, and what is stated of its outputs to a file of
    tolerances; the files."""
    model = export_onnx(case.graph)
    _, inputs, tolerances, _ = reduced_files(path)
    write_whole(path, model.SerializeToString())
    save_npz(inputs, dict(zip(case.graph.input_names, case.inputs, strict=True)))
    stated = _stated(case)
    if not stated:
        return [path, inputs]
    write_whole(tolerances, stated.encode())
    return [path, inputs, tolerances]


def _stated(case: Case) -> str:
    tables = []
    for name, value in zip(case.graph.output_names, case.graph.outputs, strict=True):
        stated = case.stated.get(value.type.dtype)
        if stated is not None:
            numbers = {"rtol": stated.rtol, "atol": stated.atol, "ulp": stated.ulp}
            lines = [f"{key} = {number}" for key, number in numbers.items() if number is not None]
            tables.append(
                "\n".join([f"[outputs.{name}]", *lines, 'reason = "stated of an output of the original model"\n'])
            )
    return "\n".join(tables)


def reduced_files(output: Path) -> tuple[Path, Path, Path, Path]:
    """Where a reduced model, its inputs, its tolerances and its report are written."""
    beside = output.with_name(f"{output.stem}.tolerances.toml")
    return output, output.with_suffix(".npz"), beside, output.with_suffix(".md")


def files_read(model: Path, choice: Choice, inputs: Path | None, tolerances: Path | None) -> list[Path]:
    """The files that a diagnosis of a model reads: the model's with its external data, and those that were given."""
    found = [model]
    if format_of(model) == "onnx":
        from fornaxc.importers.onnx.reader import open_model

        found = open_model(model).files()
    found += [file for files in tensor_sets(inputs) for file in files.files] if inputs is not None else []
    return found + [file for file in (choice.freeze, tolerances) if file is not None]


def check_places(written: Iterable[Path], read: Iterable[Path]) -> None:
    """Raise UsageError where a file to be written can be none (FX228), or would take the place of one that is read or written too (FX252)."""
    taken = list(read)
    for path in written:
        place = place_for_a_file(path)
        other = next((f for f in taken if _is_same(place, f.resolve())), None)
        if other is not None:
            raise UsageError(
                f"writing {path} would overwrite {other}",
                code="FX252",
                hint="give another name; beside the model of `reduce -o` stand its inputs (.npz), a report (.md) and tolerances (.tolerances.toml)",
            )
        taken.append(path)


def _is_same(a: Path, b: Path) -> bool:
    return a == b or (a.exists() and b.exists() and a.samefile(b))
