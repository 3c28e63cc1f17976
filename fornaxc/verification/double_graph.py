"""A graph in double precision: every float of 16 bits and more becomes f64, so that it computes what the graph means, nearly without rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from fornaxc.ir.graph import Array, Constant, Graph, Node, Value
from fornaxc.ir.ops import (
    Attention,
    Binary,
    Bitcast,
    Cast,
    ConvNhwc,
    FromPool,
    IrError,
    LocalResponseNorm,
    Op,
    PackConv,
    PackedRecurrence,
    QuantizedLinear,
    Unary,
)
from fornaxc.ir.types import DType, TensorType

WIDENED = (DType.F16, DType.BF16, DType.F32)
# take f32 alone, and evaluate on f64 all the same
_PACKED = (Attention, ConvNhwc, FromPool, LocalResponseNorm, PackConv, PackedRecurrence, QuantizedLinear)
_JUMPS = {"ceil", "floor", "round", "trunc", "sign", "mod", "rem"}
_TELL_NUMBERS = {"is_nan", "is_inf"}  # which way they fall is compared by itself


def widened(graph: Graph) -> Graph:
    """`graph` with f64 in place of f16, bf16 and f32: in its inputs, its constants, its nodes and its outputs.

    Raises IrError where an operation has no such form: one that reads the bits of floats, or that takes no f64.
    """
    return _widened(graph, {})


def is_packed(graph: Graph) -> bool:
    """Whether a widened graph holds operations that only the numpy interpreter has in f64."""
    return any(isinstance(node.op, _PACKED) for node in graph.walk())


def _widened(graph: Graph, values: dict[Value, Value]) -> Graph:
    inputs = tuple(_defined(v, values) for v in graph.inputs)
    constants = {_defined(v, values): _constant(c) for v, c in graph.constants.items()}
    nodes = []
    for node in graph.nodes:
        regions = tuple(_widened(r, values) for r in node.regions)
        operands = tuple(values[v] for v in node.inputs)
        op = _op(node.op)
        results = tuple(_defined(v, values) for v in node.outputs)
        nodes.append(_checked(Node(op, operands, results, node.origin, regions)))
    return replace(
        graph, inputs=inputs, outputs=tuple(values[v] for v in graph.outputs), nodes=tuple(nodes), constants=constants
    )


def _checked(node: Node) -> Node:
    if not node.regions and not isinstance(node.op, _PACKED):
        types = tuple(v.type.dtype for v in node.outputs)
        found = tuple(t.dtype for t in node.op.infer(*(v.type for v in node.inputs)))
        if found != types:
            raise IrError(f"{node.op} has no form in f64: it gives {found[0]}")
    return node


def _defined(value: Value, values: dict[Value, Value]) -> Value:
    values[value] = Value(_type(value.type), value.name)
    return values[value]


def _type(type: TensorType) -> TensorType:
    return type.with_dtype(DType.F64) if type.dtype in WIDENED else type


def _constant(constant: Constant) -> Constant:
    if constant.type.dtype not in WIDENED:
        return constant
    return Constant(_type(constant.type), _loader(constant.load), constant.literal, constant.name)


def _loader(load: Callable[[], Array]) -> Callable[[], Array]:
    return lambda: load().astype(np.float64)


def _op(op: Op) -> Op:
    if isinstance(op, Bitcast):
        raise IrError("the bits of floats have no form in f64")
    changed: dict[str, Any] = {}
    for field in fields(op):
        value = getattr(op, field.name)
        if isinstance(value, DType) and value in WIDENED:
            changed[field.name] = DType.F64
        elif isinstance(value, TensorType):
            changed[field.name] = _type(value)
        elif isinstance(value, tuple) and any(isinstance(v, TensorType) for v in value):
            changed[field.name] = tuple(_type(v) if isinstance(v, TensorType) else v for v in value)
    return replace(op, **changed) if changed else op


def jumping_outputs(graph: Graph) -> set[str]:
    """The names of outputs behind a step at which floats decide: a comparison, a rounding, an index, a conversion to integers or to floats
    of 8 bits and fewer. There a rounding error, however small, may change the result by any amount."""
    jumping: set[Value] = set()
    _follow(graph, jumping)
    return {name for name, value in zip(graph.output_names, graph.outputs, strict=True) if value in jumping}


def _follow(graph: Graph, jumping: set[Value]) -> None:
    for node in graph.nodes:
        reached = [*node.inputs]
        for region in node.regions:
            _follow(region, jumping)
            reached += [*region.captures(), *region.outputs]
        if jumping.intersection(reached) or _jumps(node):
            jumping.update(node.outputs)


def _jumps(node: Node) -> bool:
    if not any(v.type.dtype.is_float for v in node.inputs):
        return False
    if isinstance(node.op, Unary | Binary):
        if node.op.fn in _TELL_NUMBERS:
            return False
        if node.op.fn in _JUMPS:
            return True
    is_small = isinstance(node.op, Cast) and node.op.dtype.is_small
    return is_small or any(not v.type.dtype.is_float for v in node.outputs)
