"""Adds nodes and seeded random weights to an ONNX graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


class Maker:
    """One graph in the making. Values are names; a dim is a size, or a name for one that only the run time knows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rng = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: Sequence[int | str], dtype: int = FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, value: str, name: str, shape: Sequence[int | str | None]) -> None:
        """Give out a f32 value under a name."""
        self.nodes.append(helper.make_node("Identity", [value], [name], name=f"give_{name}"))
        self.outputs.append(helper.make_tensor_value_info(name, FLOAT, shape))

    def constant(self, array: Any) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def floats(self, value: float) -> str:
        return self.constant(np.float32(value))

    def random(self, *shape: int, scale: float | None = None) -> str:
        """Normally distributed weights; where no scale is given, such that a product with them keeps the size of its operand."""
        spread = scale if scale is not None else shape[0] ** -0.5
        return self.constant(self.rng.standard_normal(shape, np.float32) * np.float32(spread))

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """The first output of a new node."""
        return self.several(op, 1, *inputs, **attributes)[0]

    def several(self, op: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """All outputs of a new node."""
        number = len(self.nodes)
        outputs = [f"v{number}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(op, inputs, outputs, name=f"{op}_{number}", **attributes))
        return outputs

    def linear(self, x: str, inner: int, outer: int) -> str:
        return self.add("Add", self.add("MatMul", x, self.random(inner, outer)), self.random(outer, scale=0.02))

    def norm(self, x: str, width: int) -> str:
        scale = self.constant(1 + 0.02 * self.rng.standard_normal(width, np.float32))
        return self.add("LayerNormalization", x, scale, self.random(width, scale=0.02), axis=-1, epsilon=1e-5)

    def gelu(self, x: str) -> str:
        """x/2 * (1 + erf(x / sqrt 2)), as exporters write it."""
        erf = self.add("Erf", self.add("Div", x, self.floats(2**0.5)))
        return self.add("Mul", self.add("Mul", x, self.add("Add", erf, self.floats(1))), self.floats(0.5))

    def heads(self, x: str, count: int, size: int, order: Sequence[int] = (0, 2, 1, 3)) -> str:
        """[batch, length, count*size] to [batch, count, length, size], or another order of those axes."""
        return self.add("Transpose", self.add("Reshape", x, self.ints(0, 0, count, size)), perm=list(order))

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
