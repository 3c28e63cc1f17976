"""Tells what only constants determine, and what is one number per channel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from itertools import islice

import numpy as np

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import DimExpr
from fornaxc.ir.graph import Node, Value
from fornaxc.ir.ops import (
    Binary,
    Bitcast,
    BroadcastTo,
    Cast,
    Compare,
    Concat,
    FromPool,
    Iota,
    MatMul,
    Op,
    PackConv,
    Reduce,
    Reshape,
    Select,
    Slice,
    Transpose,
    Unary,
)


def evaluable(node: Node) -> bool:
    """Whether numpy can compute a node from constant operands: without a region, and without a symbolic dim in it; a pool stays whole."""
    if isinstance(node.op, FromPool):
        return False
    if node.regions or type(node.op).evaluate is Op.evaluate or not all(v.type.is_static for v in node.outputs):
        return False
    return not any(_holds_symbol(getattr(node.op, name)) for name in _field_names(type(node.op)))


_WHOLE = (
    Bitcast,
    BroadcastTo,
    Cast,
    Compare,
    Concat,
    Iota,
    MatMul,
    PackConv,
    Reduce,
    Reshape,
    Select,
    Slice,
    Transpose,
    Unary,
)


def never_fails(node: Node) -> bool:
    """Whether an operation has a result for all elements that its operands may hold."""
    if isinstance(node.op, Binary):
        return node.op.fn not in ("div", "mod", "rem") or not node.inputs[0].type.dtype.is_integer
    return isinstance(node.op, _WHOLE)


_FIELD_NAMES: dict[type[Op], tuple[str, ...]] = {}


def _field_names(op: type[Op]) -> tuple[str, ...]:
    if op not in _FIELD_NAMES:
        _FIELD_NAMES[op] = tuple(field.name for field in fields(op))
    return _FIELD_NAMES[op]


def _holds_symbol(value: object) -> bool:
    return any(isinstance(d, DimExpr) for d in (value if isinstance(value, tuple) else (value,)))


class Constness:
    """Follows a pass: `see` every node, in order; then ask about any value seen."""

    def __init__(self, constants: Iterable[Value]) -> None:
        self._constant = set(constants)
        self._made: dict[Value, Node] = {}
        self._seen = 0
        self._constants_seen = 0

    def catch_up(self, b: GraphBuilder) -> None:
        """See the nodes and constants that were added to a builder since the last time."""
        fresh = len(b.constants) - self._constants_seen  # the builder only adds: the newest are at the end
        if fresh:
            self._constant.update(islice(reversed(b.constants), fresh))
            self._constants_seen += fresh
        for node in b.nodes[self._seen :]:
            for value in node.outputs:
                self._made[value] = node
            if self._constant.issuperset(node.inputs) and evaluable(node):
                self._constant.update(node.outputs)
        self._seen = len(b.nodes)

    def is_constant(self, value: Value) -> bool:
        return value in self._constant

    def producer(self, value: Value) -> Node | None:
        return self._made.get(value)

    def unbroadcast(self, value: Value) -> Value:
        """What a value repeats: the operand of the broadcast that made it, or the value itself."""
        node = self._made.get(value)
        return node.inputs[0] if node is not None and isinstance(node.op, BroadcastTo) else value

    def per_channel(self, b: GraphBuilder, value: Value, axis: int, channels: int) -> Value | None:
        """The 1-D constant [channels] that `value` repeats along all axes but `axis`; None where it is not so."""
        return self.along(b, value, axis, channels) if self.is_constant(self.unbroadcast(value)) else None

    def along(self, b: GraphBuilder, value: Value, axis: int, count: int) -> Value | None:
        """The vector [count] that `value`, constant or not, repeats along all axes but one; None where it is not so."""
        inner = self.unbroadcast(value)
        size = inner.type.shape[axis]
        if size not in (1, count):
            return None
        if any(d != 1 for i, d in enumerate(inner.type.shape) if i != axis):
            line = self._line(b, inner, axis)
        else:
            line = compose.reshape(b, inner, (size,))
        return None if line is None else compose.expand(b, line, (count,))

    def _line(self, b: GraphBuilder, value: Value, axis: int) -> Value | None:
        """The numbers along an axis of a literal that holds each again and again."""
        content = b.known(value)
        if content is None or content.dtype != value.type.dtype.numpy or not content.size:
            return None
        lines = np.moveaxis(content, axis, -1).reshape(-1, content.shape[axis])
        return b.literal(lines[0]) if np.array_equal(lines, np.broadcast_to(lines[0], lines.shape)) else None
