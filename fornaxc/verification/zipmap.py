"""Models whose outputs are lists of maps, for onnxruntime: with the tensors that the maps are made of."""

from __future__ import annotations

import mmap
from pathlib import Path


def mentions_zipmap(path: Path) -> bool:
    """Whether a model file can hold a ZipMap: whether its bytes hold that name."""
    if not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b"ZipMap") >= 0


def save_with_tensors(path: Path, target: Path) -> None:
    """Write the model with an Identity in place of each ZipMap of its graph, and no types for the outputs that they made."""
    import onnx

    model = onnx.load(path)
    made = set()
    for node in model.graph.node:
        if node.op_type == "ZipMap" and node.domain == "ai.onnx.ml":
            made.update(node.output)
            node.op_type, node.domain = "Identity", ""
            del node.attribute[:]
    for output in model.graph.output:
        if output.name in made:
            output.ClearField("type")
    if not any(imported.domain in ("", "ai.onnx") for imported in model.opset_import):
        model.opset_import.add(domain="", version=7)
    onnx.save(model, target)
