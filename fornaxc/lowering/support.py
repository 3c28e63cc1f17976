"""What cannot be lowered, found without MAX: so that a request can be refused before a compiler starts."""

from __future__ import annotations

from typing import Any

from fornaxc.ir.dims import DimExpr, single_symbol, symbols
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import (
    Attention,
    Cumulative,
    DynamicBroadcast,
    DynamicRange,
    DynamicReshape,
    If,
    Im2col,
    PackedRecurrence,
    QuantizedLinear,
    TopK,
)
from fornaxc.ir.small import is_direct


def unsupported(graph: Graph, device_kind: str) -> list[dict[str, Any]]:
    """Every node (and input) that cannot be lowered for "cpu" or "gpu": {"node", "op", "ir", "reason"}, in program order."""
    found = _inputs(graph)
    bare = {name for v in graph.inputs for d in v.type.shape if (name := single_symbol(d)) is not None}
    _body(graph, device_kind, bare, found)
    return found


def _inputs(graph: Graph) -> list[dict[str, Any]]:
    bare = {name for v in graph.inputs for d in v.type.shape if (name := single_symbol(d)) is not None}
    found = []
    for value in graph.inputs:
        hidden = sorted({n for d in value.type.shape for n in symbols(d)} - bare)
        if hidden:
            reason = f"no input has the size {', '.join(hidden)} by itself"
            found.append({"node": value.name, "op": "input", "ir": str(value.type), "reason": reason})
    return found


def _body(graph: Graph, device_kind: str, known: set[str], found: list[dict[str, Any]]) -> None:
    unread = [v for v in unread_sizes(graph) if v.type.shape[0] != 0]  # those without elements are kept alive
    for node in graph.nodes:
        for region in node.regions:
            _body(region, device_kind, known, found)
        reason = _reason(node, device_kind, known)
        if reason is None and unread and node.outputs[0] in unread:
            reason = "MAX crashes where a size is an entry of a tensor and nothing else reads what gives it its name"
        if reason is not None:
            found.append(
                {
                    "node": node.origin.node,
                    "op": node.origin.op or node.op.name,
                    "ir": str(node.op),
                    "reason": reason,
                }
            )
        known |= {n for v in node.outputs for d in v.type.shape for n in symbols(d)}


_NAMES_SIZES = (DynamicBroadcast, DynamicRange, DynamicReshape)


def unread_sizes(graph: Graph) -> list[Value]:
    """Results that nothing in the graph or region reads, and that are there because they give a size its name."""
    read: set[Value] = set(graph.outputs)
    for node in graph.nodes:
        read.update(node.inputs)
        for region in node.regions:
            read.update(region.captures())
    found = [node.outputs[0] for node in graph.nodes if isinstance(node.op, _NAMES_SIZES)]
    return [v for v in found if v not in read and v.type.rank > 0]


def _reason(node: Node, device_kind: str, known: set[str]) -> str | None:
    values: tuple[Value, ...] = (*node.inputs, *node.outputs)
    small = next((v.type.dtype for v in values if v.type.dtype.is_small), None)
    if small is not None and not is_direct(node.op):
        return f"arithmetic on the element type {small} needs the pass widen-small"
    if isinstance(node.op, If):
        fresh = sorted({n for t in node.op.types for d in t.shape for n in symbols(d)} - known)
        if fresh:
            return "its branches give results of different sizes"
    if device_kind == "gpu":
        if isinstance(node.op, Attention | Im2col | PackedRecurrence | QuantizedLinear):
            return "this operation is one of the CPU's own kernels"
        if isinstance(node.op, TopK) and isinstance(node.op.k, DimExpr):
            return "on a GPU the k of top_k must be known when the model is compiled"
        if isinstance(node.op, Cumulative) and node.op.fn == "prod":
            size = node.inputs[0].type.shape[node.op.axis]
            if isinstance(size, DimExpr):
                return "on a GPU a running product needs an axis of known size"
    return None
