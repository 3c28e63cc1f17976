"""Models of one node, and cases in the ONNX backend-test layout."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import helper, numpy_helper


def one_node(op: str, inputs: Sequence[Any], output: Any, opset: int = 17, **attributes: Any) -> onnx.ModelProto:
    """A model of one node over inputs of the arrays' types."""
    infos = [
        helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for i, a in enumerate(inputs)
    ]
    result = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(output.dtype), output.shape)
    node = helper.make_node(op, [i.name for i in infos], ["y"], name="node", **attributes)
    graph = helper.make_graph([node], "graph", infos, [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def write_case(folder: Path, model: onnx.ModelProto, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    for side, arrays in (("input", inputs), ("output", outputs)):
        for index, array in enumerate(arrays):
            (data / f"{side}_{index}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
