"""Models written in ONNX's text form, imported and run by the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.parser

from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import model_from_proto
from fornaxc.ir.checker import check
from fornaxc.ir.graph import Graph
from fornaxc.ir.interpreter import run

Array = np.ndarray[Any, np.dtype[Any]]


def graph_of(text: str, opset: int = 18, initializers: Mapping[str, Any] | None = None) -> Graph:
    """The checked graph of `text`, which is "(inputs) => (outputs) { nodes }"."""
    head = f'<ir_version: 10, opset_import: ["" : {opset}]> g '
    model = onnx.parser.parse_model(head + text)
    for name, values in (initializers or {}).items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(values), name))
    graph = import_model(model_from_proto(model), {})
    check(graph)
    return graph


def outputs_of(text: str, *inputs: Any, opset: int = 18, **initializers: Any) -> list[Array]:
    """What the model computes from `inputs`."""
    return run(graph_of(text, opset, initializers), [np.asarray(a) for a in inputs])


def result_of(text: str, *inputs: Any, opset: int = 18, **initializers: Any) -> Array:
    """The one output."""
    (result,) = outputs_of(text, *inputs, opset=opset, **initializers)
    return result


def operations(graph: Graph) -> set[str]:
    """The names of the operations in a graph and its regions."""
    return {node.op.name for node in graph.walk()}
