"""Writes a case as an ONNX file with its inputs and tolerances beside it."""

from __future__ import annotations

from pathlib import Path

from fornaxc.cache.files import write_whole
from fornaxc.diagnosis.edits import Case
from fornaxc.export.onnx import export_onnx
from fornaxc.npz import save_npz


def write_case(case: Case, path: Path) -> list[Path]:
    """Write the model to `path`, weights inside, the inputs to the .npz file beside it, and what is stated of its outputs to a file of
    tolerances; the files."""
    model = export_onnx(case.graph, exact=False)
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
