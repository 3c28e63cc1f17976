"""Writes files of a diagnosis, a case as an ONNX file with its inputs among them."""

from __future__ import annotations

from pathlib import Path

from fornaxc.cache.files import write_whole
from fornaxc.diagnosis.edits import Case
from fornaxc.export.onnx import export_onnx
from fornaxc.npz import save_npz


def write_case(case: Case, path: Path) -> list[Path]:
    """Write the model to `path`, weights inside, and the inputs to the .npz file beside it; the files."""
    model = export_onnx(case.graph)
    inputs = path.with_suffix(".npz")
    write_whole(path, model.SerializeToString())
    save_npz(inputs, dict(zip(case.graph.input_names, case.inputs, strict=True)))
    return [path, inputs]
