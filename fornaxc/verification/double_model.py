"""An ONNX model in double precision, run by onnx's ReferenceEvaluator: what the file means, nearly without rounding, and without the importer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fornaxc.errors import first_line
from fornaxc.ir.graph import Array
from fornaxc.verification.ort_runs import OracleRefused

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

_FLOATS = (1, 10, 16)  # TensorProto.FLOAT, FLOAT16, BFLOAT16
_DOUBLE = 11
_TYPE_ATTRIBUTES = {"to", "dtype", "output_dtype", "output_datatype"}
_RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}


def evaluated_in_double(source: Path | ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a model, or of the model of a file, whose floats of 16 and 32 bits are all f64, inputs and weights included.

    Raises OracleRefused where it cannot be evaluated so.
    """
    import onnx
    from onnx.reference import ReferenceEvaluator

    try:
        model = (
            onnx.load(source) if isinstance(source, Path) else onnx.ModelProto.FromString(source.SerializeToString())
        )
        _widen_model(model)
        evaluator = ReferenceEvaluator(model)
        given = {n: widened_array(inputs[n]) for n in evaluator.input_names if n in inputs}
        with np.errstate(all="ignore"):
            results = evaluator.run(None, given)
        return {n: np.asarray(r) for n, r in zip(evaluator.output_names, results, strict=True)}
    except OracleRefused:
        raise
    except Exception as error:  # the evaluator raises whatever numpy does
        raise OracleRefused(f"onnx's evaluator refused the model in double: {first_line(error)}") from error


def widened_array(array: Array) -> Array:
    """Floats of 16 bits and more as f64, which is exact; anything else as it is."""
    return array.astype(np.float64) if array.dtype.name in ("float16", "bfloat16", "float32") else array


def _widen_model(model: ModelProto) -> None:
    _widen_graph(model.graph)
    for function in model.functions:
        _widen_nodes(function.node)
        del function.value_info[:]
        for attribute in function.attribute_proto:
            _widen_attribute(attribute)


def _widen_graph(graph: GraphProto) -> None:
    for tensor in (*graph.initializer, *(s.values for s in graph.sparse_initializer)):
        _widen_tensor(tensor)
    for info in (*graph.input, *graph.output):
        _widen_type(info.type)
    del graph.value_info[:]
    _widen_nodes(graph.node)


def _widen_nodes(nodes: Iterable[NodeProto]) -> None:
    from onnx import helper

    for node in nodes:
        if node.op_type in _RANDOM:
            raise OracleRefused(f"{node.op_type} gives other numbers at each run")
        if node.op_type == "Constant":
            _widen_constant(node)
        if node.op_type == "ConstantOfShape" and not node.attribute:
            node.attribute.append(helper.make_attribute("value", helper.make_tensor("", _DOUBLE, [1], [0.0])))
        if node.op_type.endswith("Window") and not any(a.name == "output_datatype" for a in node.attribute):
            node.attribute.append(helper.make_attribute("output_datatype", _DOUBLE))
        for attribute in node.attribute:
            _widen_attribute(attribute)


def _widen_constant(node: NodeProto) -> None:
    """value_float and value_floats have no form in double: as a tensor they do."""
    from onnx import helper

    for attribute in list(node.attribute):
        if attribute.name == "value_float":
            tensor = helper.make_tensor("", _DOUBLE, [], [attribute.f])
        elif attribute.name == "value_floats":
            tensor = helper.make_tensor("", _DOUBLE, [len(attribute.floats)], list(attribute.floats))
        else:
            continue
        node.attribute.remove(attribute)
        node.attribute.append(helper.make_attribute("value", tensor))


def _widen_attribute(attribute: AttributeProto) -> None:
    if attribute.name in _TYPE_ATTRIBUTES and attribute.i in _FLOATS and not attribute.ref_attr_name:
        attribute.i = _DOUBLE
    if attribute.HasField("t"):
        _widen_tensor(attribute.t)
    if attribute.HasField("sparse_tensor"):
        _widen_tensor(attribute.sparse_tensor.values)
    if attribute.HasField("tp"):
        _widen_type(attribute.tp)
    for tensor in attribute.tensors:
        _widen_tensor(tensor)
    for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
        _widen_graph(graph)


def _widen_tensor(tensor: TensorProto) -> None:
    from onnx import numpy_helper

    if tensor.data_type in _FLOATS:
        wide = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))


def _widen_type(type: TypeProto) -> None:
    kind = type.WhichOneof("value")
    if kind == "tensor_type" and type.tensor_type.elem_type in _FLOATS:
        type.tensor_type.elem_type = _DOUBLE
    elif kind in ("sequence_type", "optional_type"):
        _widen_type(getattr(type, kind).elem_type)
