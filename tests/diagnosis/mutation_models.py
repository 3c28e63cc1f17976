"""Models of 160 to 900 nodes with one block of interest, named after the fault that is planted in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SHAPE = (2, 4, 8, 8)
BEFORE, AFTER = (
    14,
    13,
)  # blocks of the trunk around the block of interest, four nodes of the model and six of the graph each


class Net:
    """Adds nodes to a model; the nodes of `block` have its name."""

    def __init__(self, block: str) -> None:
        self.block = block
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.label = ""
        self._rng = np.random.default_rng(7)

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        name = f"{self.label}/{kind}_{len(self.nodes)}"
        results = [f"{name}:{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), results, name=name, **attributes))
        return results[0] if outputs == 1 else results

    def const(self, content: Any, dtype: type = np.float32) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(content, dtype), name))
        return name

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        return self.const(self._rng.standard_normal(shape) * scale)

    def i64(self, *content: int) -> str:
        return self.const(content, np.int64)

    def trunk(self, x: str) -> str:
        """x + 0.2 tanh(x W)."""
        product = self.op("MatMul", x, self.weight(8, 8, scale=0.35))
        return self.op("Add", x, self.op("Mul", self.op("Tanh", product), self.const(0.2)))


def model(block: str, build: Callable[[Net, str], str], before: int = BEFORE, after: int = AFTER) -> onnx.ModelProto:
    """A model f32[2, 4, 8, 8] -> the same, with the nodes of `build` in its middle."""
    net = Net(block)
    x = "x"
    net.label = "before"
    for _ in range(before):
        x = net.trunk(x)
    net.label = block
    x = build(net, x)
    net.label = "after"
    for _ in range(after):
        x = net.trunk(x)
    net.op("Identity", x)
    net.nodes[-1].output[0] = "y"
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, SHAPE) for n in ("x", "y")]
    graph = helper.make_graph(net.nodes, "net", info[:1], info[1:], net.weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    made.ir_version = helper.find_min_ir_version_for(list(made.opset_import))
    return made
