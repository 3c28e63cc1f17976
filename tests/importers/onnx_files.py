"""Small models for the tests of the ONNX reader, and the way back from a `RawGraph` to a model that can run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from fornaxc.importers.onnx.structure import RawGraph, RawNode, ValueInfo

F = TensorProto.FLOAT


def floats(name: str, shape: Sequence[int | str | None] | None = (2,)) -> onnx.ValueInfoProto:
    """A float value of this shape."""
    return helper.make_tensor_value_info(name, F, shape)


def tensor(name: str, values: object, dtype: type = np.float32) -> TensorProto:
    """A tensor from a list of values."""
    return numpy_helper.from_array(np.array(values, dtype), name)


def model(
    nodes: Sequence[NodeProto],
    inputs: Iterable[str] = ("x",),
    outputs: Iterable[str] = ("y",),
    initializers: Sequence[TensorProto] = (),
    *,
    opset: int = 18,
    ir_version: int = 10,
    functions: Sequence[onnx.FunctionProto] = (),
    domains: Sequence[str] = (),
) -> ModelProto:
    """A model whose inputs and outputs are float vectors of two elements."""
    graph = helper.make_graph(nodes, "g", [floats(n) for n in inputs], [floats(n) for n in outputs], initializers)
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, functions=functions)


def rebuilt(raw: RawGraph, original: ModelProto) -> ModelProto:
    """A model without functions that computes what `raw` says."""
    return helper.make_model(_graph(raw), opset_imports=original.opset_import, ir_version=original.ir_version)


def _graph(raw: RawGraph) -> GraphProto:
    return helper.make_graph(
        [_node(node) for node in raw.nodes],
        raw.name or "graph",
        [_info(info) for info in raw.inputs],
        [_info(info) for info in raw.outputs],
        [numpy_helper.from_array(source.load(), name) for name, source in raw.initializers.items()],
    )


def _info(info: ValueInfo) -> onnx.ValueInfoProto:
    if info.elem_type is None:
        return onnx.ValueInfoProto(name=info.name)
    return helper.make_tensor_value_info(info.name, info.elem_type, info.dims)


def _node(node: RawNode) -> NodeProto:
    proto = helper.make_node(
        node.op_type, [n or "" for n in node.inputs], node.outputs, name=node.name, domain=node.domain
    )
    for name, attribute in node.attributes.items():
        copy = AttributeProto()
        copy.CopyFrom(attribute)
        if attribute.HasField("g"):
            copy.g.CopyFrom(_graph(node.subgraph(name)))
        if attribute.HasField("t"):
            copy.t.CopyFrom(numpy_helper.from_array(node.tensor(name).load()))
        proto.attribute.append(copy)
    return proto
