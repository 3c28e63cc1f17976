"""Graphs as JSON documents, and their digest."""

from __future__ import annotations

import base64
import hashlib
import json
import types
import typing
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np

from fornaxc.ir.dims import Dim, DimExpr, parse_dim, static
from fornaxc.ir.graph import Array, Constant, Constraint, Graph, Node, Origin, Value
from fornaxc.ir.ops import Op, by_name
from fornaxc.ir.types import DType, TensorType

Weights = Callable[[int, TensorType], Array]


def graph_to_json(graph: Graph, *, origins: bool = True) -> dict[str, Any]:
    """`graph` as a JSON document; weights appear by number and type, in order of first definition."""
    return _encode_body(graph, {}, [0], origins)


def graph_from_json(document: dict[str, Any], weights: Weights) -> Graph:
    """The inverse of `graph_to_json`; `weights(number, type)` loads one weight when it is needed."""
    return _decode_body(document, {}, weights)


def graph_digest(graph: Graph) -> str:
    """sha256 (hex) of the program: topology, operations, types, input and output names, literal bytes; no weight bytes."""
    document = graph_to_json(graph, origins=False)
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def type_to_json(type: TensorType) -> list[Any]:
    return [type.dtype.value, [encode_dim(d) for d in type.shape]]


def type_from_json(document: list[Any]) -> TensorType:
    return TensorType(DType(document[0]), tuple(decode_dim(d) for d in document[1]))


def encode_dim(dim: Dim) -> int | str:
    return str(dim) if isinstance(dim, DimExpr) else int(dim)


def decode_dim(value: int | str) -> Dim:
    return parse_dim(value) if isinstance(value, str) else value


def _encode_body(graph: Graph, numbers: dict[Value, int], weights: list[int], origins: bool) -> dict[str, Any]:
    def define(value: Value) -> int:
        return numbers.setdefault(value, len(numbers))

    document: dict[str, Any] = {
        "inputs": [[define(v), v.name, type_to_json(v.type)] for v in graph.inputs],
        "constants": [],
        "nodes": [],
    }
    for value, constant in graph.constants.items():
        entry: list[Any] = [define(value), type_to_json(constant.type)]
        if constant.literal:
            entry.append(base64.b64encode(np.ascontiguousarray(constant.load()).tobytes()).decode())
        else:
            entry.append(weights[0])
            weights[0] += 1
        document["constants"].append(entry)
    for node in graph.nodes:
        entry_node: dict[str, Any] = {
            "op": node.op.name,
            "fields": {k: _encode_field(v) for k, v in node.op.attributes().items()},
            "in": [numbers[v] for v in node.inputs],
        }
        if node.regions:
            entry_node["regions"] = [_encode_body(r, numbers, weights, origins) for r in node.regions]
        entry_node["out"] = [[define(v), type_to_json(v.type)] for v in node.outputs]
        if origins:
            entry_node["origin"] = asdict(node.origin)
        document["nodes"].append(entry_node)
    document["outputs"] = [numbers[v] for v in graph.outputs]
    document["output_names"] = list(graph.output_names)
    document["constraints"] = [[encode_dim(c.left), c.relation, encode_dim(c.right), c.why] for c in graph.constraints]
    return document


def _encode_field(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_encode_field(v) for v in value]
    if isinstance(value, DType):
        return value.value
    if isinstance(value, DimExpr):
        return str(value)
    if isinstance(value, TensorType):
        return type_to_json(value)
    return value


def _decode_body(document: dict[str, Any], values: dict[int, Value], weights: Weights) -> Graph:
    inputs = []
    for number, name, type in document["inputs"]:
        values[number] = Value(type_from_json(type), name)
        inputs.append(values[number])
    constants = {}
    for number, type, content in document["constants"]:
        constant = _decode_constant(type_from_json(type), content, weights)
        values[number] = Value(constant.type, constant.name)
        constants[values[number]] = constant
    nodes = []
    for entry in document["nodes"]:
        regions = tuple(_decode_body(r, values, weights) for r in entry.get("regions", ()))
        outputs = tuple(Value(type_from_json(t)) for _, t in entry["out"])
        values.update((number, v) for (number, _), v in zip(entry["out"], outputs, strict=True))
        origin = Origin(**entry["origin"]) if "origin" in entry else Origin()
        op = op_from_fields(entry["op"], entry["fields"])
        nodes.append(Node(op, tuple(values[i] for i in entry["in"]), outputs, origin, regions))
    return Graph(
        tuple(inputs),
        tuple(values[i] for i in document["outputs"]),
        tuple(nodes),
        constants,
        tuple(document["output_names"]),
        tuple(Constraint(decode_dim(a), r, decode_dim(b), why) for a, r, b, why in document["constraints"]),
    )


def _decode_constant(type: TensorType, content: str | int, weights: Weights) -> Constant:
    if isinstance(content, int):
        return Constant(type, lambda: weights(content, type), False, f"w{content}")
    array = np.frombuffer(base64.b64decode(content), type.dtype.numpy).reshape([static(d) for d in type.shape])
    return Constant(type, lambda: array, True)


def op_from_fields(name: str, document: dict[str, Any]) -> Op:
    """An operation from its printed name and its encoded fields."""
    cls = by_name()[name]
    hints = _hints(name)
    return cls(**{key: _decode_field(hints[key], value) for key, value in document.items()})


@cache
def _hints(name: str) -> dict[str, Any]:
    return typing.get_type_hints(by_name()[name], localns={"DimExpr": DimExpr})


def _decode_field(hint: Any, value: Any) -> Any:
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)[0]
        return tuple(_decode_field(inner, v) for v in value)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):  # a Dim
        return decode_dim(value)
    if hint is DType:
        return DType(value)
    if hint is TensorType:
        return type_from_json(value)
    return hint(value)
