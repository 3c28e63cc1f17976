"""Runs a graph with numpy, one operation at a time: slow, and independent of MAX and of onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from fornaxc.ir.binding import bind_dims, check_constraints
from fornaxc.ir.dims import Dim, DimExpr, single_symbol, substitute
from fornaxc.ir.graph import Array, Graph, Node, Value
from fornaxc.ir.ops import (
    DynamicBroadcast,
    DynamicRange,
    DynamicReshape,
    If,
    IrError,
    NonZero,
    Op,
    Rebind,
    StridedSlice,
    TopK,
    While,
)
from fornaxc.ir.types import TensorType


def run(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of `graph`. Raises `ShapeMismatch` for inputs that do not fit, `NotFoldable` where an operation has no numpy form."""
    sizes = bind_dims(graph.input_names, [v.type for v in graph.inputs], [a.shape for a in inputs])
    check_constraints(graph.constraints, sizes)
    return _body(graph, inputs, {}, sizes)


def trace(graph: Graph, inputs: Sequence[Array]) -> Iterator[tuple[Node, Sequence[Array], dict[str, Dim]]]:
    """Each node of the top level with its results and the sizes known so far, holding no value longer than it is used.

    Raises what `run` raises.
    """
    sizes = bind_dims(graph.input_names, [v.type for v in graph.inputs], [a.shape for a in inputs])
    check_constraints(graph.constraints, sizes)
    last: dict[Value, Node] = {}
    for node in graph.nodes:
        last.update((v, node) for v in (*node.inputs, *(v for r in node.regions for v in r.captures())))
    values: dict[Value, Array] = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes:
        used = dict.fromkeys((*node.inputs, *(v for r in node.regions for v in r.captures())))
        values.update((v, graph.constants[v].load()) for v in used if v in graph.constants)
        results = apply(node, [values[v] for v in node.inputs], values, sizes)
        for value, array in zip(node.outputs, results, strict=True):
            _learn(value.type, array, sizes, node)
            if value in last:
                values[value] = array
        yield node, results, sizes
        for value in used:
            if last[value] is node:
                del values[value]


def _body(graph: Graph, inputs: Sequence[Array], outer: Mapping[Value, Array], sizes: dict[str, Dim]) -> list[Array]:
    values: dict[Value, Array] = {**outer, **dict(zip(graph.inputs, inputs, strict=True))}
    values.update((v, c.load()) for v, c in graph.constants.items())
    for node in graph.nodes:
        results = apply(node, [values[v] for v in node.inputs], values, sizes)
        for value, array in zip(node.outputs, results, strict=True):
            _learn(value.type, array, sizes, node)
            values[value] = array
    return [values[v] for v in graph.outputs]


def _learn(type: TensorType, array: Array, sizes: dict[str, Dim], node: Node) -> None:
    """Bind the symbols that a result brings, and check the rest of its type."""
    for dim, size in zip(type.shape, array.shape, strict=True):
        name = single_symbol(dim)
        if name is not None:
            sizes.setdefault(name, size)
        if substitute(dim, sizes) != size:
            raise IrError(f"{node.op} from {node.origin} gave {array.shape} where {type} belongs")
    if array.dtype != type.dtype.numpy:
        raise IrError(f"{node.op} from {node.origin} gave {array.dtype} where {type} belongs")


def apply(node: Node, arrays: list[Array], values: Mapping[Value, Array], sizes: dict[str, Dim]) -> Sequence[Array]:
    """The results of one node on these operands; `values` holds what its regions capture, `sizes` the symbols so far."""
    op = node.op
    if isinstance(op, If):
        return _body(node.regions[0 if arrays[0] else 1], [], values, sizes)
    if isinstance(op, While):
        while _body(node.regions[0], arrays, values, sizes)[0]:
            arrays = _body(node.regions[1], arrays, values, sizes)
        return arrays
    if isinstance(op, DynamicReshape):
        return (arrays[0].reshape(arrays[1]),)
    if isinstance(op, DynamicBroadcast):
        return (np.broadcast_to(arrays[0], np.broadcast_shapes(arrays[0].shape, tuple(arrays[1]))),)
    if isinstance(op, StridedSlice):
        return (_strided(*arrays),)
    if isinstance(op, Rebind):
        return (arrays[0],)
    if isinstance(op, DynamicRange | NonZero):
        return op.evaluate(*arrays)
    if isinstance(op, TopK) and isinstance(op.k, DimExpr):
        op = replace(op, k=substitute(op.k, sizes))
    return _concrete(op, sizes).evaluate(*arrays)


def _concrete(op: Op, sizes: Mapping[str, Dim]) -> Op:
    """The operation with the dims in its fields replaced by sizes."""
    changed: dict[str, Any] = {}
    for field in fields(op):
        value = getattr(op, field.name)
        if isinstance(value, tuple) and any(isinstance(v, DimExpr) for v in value):
            changed[field.name] = tuple(substitute(v, sizes) for v in value)
    return replace(op, **changed) if changed else op


def _strided(x: Array, starts: Array, ends: Array, steps: Array) -> Array:
    """ONNX Slice-13 over every axis."""
    cuts = []
    for size, start, end, step in zip(x.shape, starts.tolist(), ends.tolist(), steps.tolist(), strict=True):
        first = min(max(start + size if start < 0 else start, 0), size if step > 0 else size - 1)
        last = end + size if end < 0 else end
        last = min(max(last, 0 if step > 0 else -1), size)
        cuts.append(slice(first, last if last >= 0 else None, step))
    return x[tuple(cuts)]
