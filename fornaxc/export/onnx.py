"""Writes a graph as an ONNX model that onnxruntime runs, with the meaning that the operations define.

Opset 26 is the oldest that has BitCast and CumProd; onnxruntime runs it as a whole. Named sizes become dim_param; arithmetic on them becomes
Shape, Mul, Div, ... nodes. Element types that a kernel of onnxruntime lacks are carried by wider ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx
from onnx import helper, numpy_helper

from fornaxc import __version__
from fornaxc.errors import ModelError, UnsupportedError, UsageError
from fornaxc.export import attention, control, elementwise, indexing, linear, nn, packed, quantized, reduction, shape
from fornaxc.export.context import ExportContext, Tensor, live, uses
from fornaxc.export.registry import exported_ops, rule_for
from fornaxc.importers.onnx.types import element_number
from fornaxc.ir.dims import static
from fornaxc.ir.graph import Array, Constant, Graph, Value

_FAMILIES = (
    attention,
    control,
    elementwise,
    indexing,
    linear,
    nn,
    packed,
    quantized,
    reduction,
    shape,
)  # importing them registers the rules

OPSET = 26
EXTERNAL_FROM = 1024  # bytes; smaller constants stay in the model file
ALIGNMENT = 4096  # of external tensors, so that they can be mapped


def export_onnx(graph: Graph, exact: bool = True) -> onnx.ModelProto:
    """`graph` as a model whose initializers are all inside it.

    Where it need not be `exact`, pools, pads, relu and GELU are ONNX's own operators, which the importer reads as the same operations and which onnxruntime
    computes otherwise where there are NaN.
    Raises UnsupportedError for what onnxruntime has no tensors for, and where the model would pass protobuf's 2 GB (use `save_onnx`).
    """
    model, constants = _skeleton(graph, exact)
    size = sum(c.type.nbytes for c in constants.values())
    if size > 1 << 31:
        raise UnsupportedError(
            f"the constants have {size} bytes, more than one ONNX file can hold", code="FX331", hint="use save_onnx"
        )
    for name, constant in constants.items():
        tensor = _declared(name, constant)
        tensor.raw_data = bytes(_bytes(constant))
        model.graph.initializer.append(tensor)
    return model


def save_onnx(graph: Graph, path: Path) -> list[Path]:
    """Write `graph` as a model file, and its weights as one file of external data beside it, one tensor at a time.

    Returns the files written. Raises UsageError where they cannot be written.
    """
    model, constants = _skeleton(graph)
    data = path.with_name(path.name + ".data")
    large = {name: c for name, c in constants.items() if not c.literal or c.type.nbytes >= EXTERNAL_FROM}
    for name, constant in constants.items():
        if name not in large:
            tensor = _declared(name, constant)
            tensor.raw_data = bytes(_bytes(constant))
            model.graph.initializer.append(tensor)
    if large:
        with _replacing(data) as file:
            for name, constant in large.items():
                file.write(b"\0" * (-file.tell() % ALIGNMENT))
                offset = file.tell()
                size = file.write(_bytes(constant))
                model.graph.initializer.append(_external(name, constant, data.name, offset, size))
    with _replacing(path) as file:
        file.write(model.SerializeToString())
    return [path, data] if large else [path]


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when it is complete: `path` may be what the weights are read from."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(path)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}", code="FX228", hint="give the name of a file in an existing folder"
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def _skeleton(graph: Graph, exact: bool = True) -> tuple[onnx.ModelProto, dict[str, Constant]]:
    """The model without initializers, and these."""
    c = ExportContext([*graph.input_names, *graph.output_names], exact)
    inputs = [Tensor(v.name, v.type.dtype) for v in graph.inputs]
    for value, tensor in zip(graph.inputs, inputs, strict=True):
        c.check(tensor.dtype)
        c.bind(value, tensor)
    results = export_body(c, graph)
    for name, result in zip(graph.output_names, results, strict=True):
        if name == result.name:  # an input that is an output under its own name
            continue
        c.emit("Identity", result)
        c.nodes[-1].output[0] = name
    nodes = live(c.nodes, graph.output_names)
    used = {name for node in nodes for name in uses(node)}
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "main",
            [_info(v.name, v) for v in graph.inputs],
            [_info(n, v) for n, v in zip(graph.output_names, graph.outputs, strict=True)],
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        producer_name="fornaxc",
        producer_version=__version__,
    )
    model.ir_version = helper.find_min_ir_version_for(list(model.opset_import))
    for constraint in graph.constraints:
        entry = model.metadata_props.add()
        entry.key, entry.value = f"requires: {constraint}", constraint.why
    return model, {name: constant for name, constant in c.constants.items() if name in used}


def export_body(c: ExportContext, graph: Graph) -> list[Tensor]:
    """Add the nodes of a graph or region whose inputs are bound; returns its outputs."""
    for value, constant in graph.constants.items():
        c.declare(value, constant)
    outer = c.node
    for node in graph.nodes:
        c.node = node
        c.producers.update((v, node) for v in node.outputs)
        if type(node.op) not in exported_ops():
            c.refuse(f"there is no rule for {node.op.name}")
        results = rule_for(type(node.op))(c, node.op, *(c.read(v) for v in node.inputs))
        tensors: Sequence[Tensor] = [results] if isinstance(results, Tensor) else results
        for value, tensor in zip(node.outputs, tensors, strict=True):
            assert tensor.dtype is value.type.dtype, f"{node.op} became {tensor.dtype}, not {value.type}"
            c.bind(value, tensor)
    c.node = outer
    return [c.read(v) for v in graph.outputs]


def _info(name: str, value: Value) -> onnx.ValueInfoProto:
    dims = [d if isinstance(d, int) else str(d) for d in value.type.shape]
    return helper.make_tensor_value_info(name, element_number(value.type.dtype), dims)


def _declared(name: str, constant: Constant) -> onnx.TensorProto:
    dims = [static(d) for d in constant.type.shape]
    return onnx.TensorProto(name=name, dims=dims, data_type=element_number(constant.type.dtype))


def _external(name: str, constant: Constant, location: str, offset: int, length: int) -> onnx.TensorProto:
    tensor = _declared(name, constant)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    return tensor


def _bytes(constant: Constant) -> bytes | memoryview:
    """The bytes of a constant as ONNX stores them: little-endian, elements below a byte packed."""
    array: Array = np.asarray(constant.load())
    wanted = tuple(constant.type.shape)
    if array.dtype != constant.type.dtype.numpy or array.shape != wanted:
        found = f"{array.dtype} {list(array.shape)}"
        raise ModelError(f"the constant {constant.name!r} holds {found}, not {constant.type}", code="FX430")
    if constant.type.dtype.bits < 8:
        return bytes(numpy_helper.from_array(array).raw_data)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
