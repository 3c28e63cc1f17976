"""Moves transposes towards the outputs, past operations that can work in any layout, so that pairs of them cancel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import (
    Binary,
    BroadcastTo,
    Cast,
    Compare,
    Concat,
    Gather,
    Op,
    Pad,
    Pool,
    Reduce,
    Reshape,
    Select,
    Slice,
    Softmax,
    Transpose,
    Unary,
)
from fornaxc.passes.constness import Constness
from fornaxc.passes.regrouped import regrouped
from fornaxc.passes.rewrite import holds, rewrite

Perm = tuple[int, ...]
T = TypeVar("T")


def sink_transposes(graph: Graph) -> Graph:
    """`graph` with transposes behind the elementwise operations, reductions, pools, ... that they fed."""
    if not holds(graph, Transpose):
        return graph
    twins: dict[Value, tuple[Value, Perm]] = {}  # value = transpose(twin, perm)
    facts = Constness(graph.constants)

    def visit(node: Node, b: GraphBuilder) -> Sequence[Value] | None:
        if b.parent is not None or not node.inputs:
            return None
        facts.catch_up(b)
        if isinstance(node.op, Transpose):
            return _transpose(node, b, twins)
        if isinstance(node.op, Reshape):
            return _reshape(node, b, twins)
        found = [twins[v] for v in node.inputs if v in twins]
        if not found or len(node.outputs) != 1:
            return None
        perm = found[0][1]
        operands = [_in_layout(b, v, perm, twins, facts) for v in node.inputs]
        op = _permuted(node, perm)
        if op is None or any(o is None for o in operands):
            return None
        y = b.emit(op, *(o for o in operands if o is not None))
        result = compose.transpose(b, y, perm)
        twins[result] = (y, perm)
        return [result]

    return rewrite(graph, visit)


def _transpose(node: Node, b: GraphBuilder, twins: dict[Value, tuple[Value, Perm]]) -> Sequence[Value] | None:
    assert isinstance(node.op, Transpose)
    (x,) = node.inputs
    if x in twins:
        twin, inner = twins[x]
        perm = tuple(inner[p] for p in node.op.perm)
        result = compose.transpose(b, twin, perm)
        if result is not twin:
            twins[result] = (twin, perm)
        return [result]
    twins[node.outputs[0]] = (x, node.op.perm)
    return None


def _reshape(node: Node, b: GraphBuilder, twins: dict[Value, tuple[Value, Perm]]) -> Sequence[Value] | None:
    """A reshape that splits or merges channels, of data whose channels lie last, where they lie: transposed inside a merged axis if need be, or before
    the channels."""
    (value,) = node.inputs
    if value not in twins:
        return None
    twin, perm = twins[value]
    shape = node.outputs[0].type.shape
    groups = regrouped(value.type.shape, shape)
    if groups is None:
        return None
    groups.sort(key=lambda group: min((perm[i] for i in group[0]), default=-1))
    axes = [perm[i] for group, _ in groups for i in group]  # those of the twin that count, as they have to lie
    order = [o for _, group in groups for o in group]
    result_perm = tuple(order.index(o) for o in range(len(shape)))
    in_order = axes == sorted(axes)
    if in_order:
        if perm != _from_channels_last(len(perm)):
            return None
    elif result_perm != _from_channels_last(len(shape)) or (
        axes[-1] != len(perm) - 1 and any(_spread([perm[i] for i in group]) for group, _ in groups)
    ):
        return None
    ones = [a for a in range(len(perm)) if a not in axes]
    inner = twin if in_order else compose.transpose(b, twin, (*ones, *axes))
    y = compose.reshape(b, inner, tuple(shape[o] for o in order))
    result = compose.transpose(b, y, result_perm)
    if result is not y:
        twins[result] = (y, result_perm)
    return [result]


def _from_channels_last(rank: int) -> Perm:
    return (0, rank - 1, *range(1, rank - 1))


def _spread(axes: Sequence[int]) -> bool:
    """Whether other axes lie between these."""
    return bool(axes) and max(axes) - min(axes) >= len(axes)


def inverse(perm: Perm) -> Perm:
    return tuple(perm.index(i) for i in range(len(perm)))


def _in_layout(
    b: GraphBuilder, value: Value, perm: Perm, twins: dict[Value, tuple[Value, Perm]], facts: Constness
) -> Value | None:
    """`value` as the operand of an operation before the transpose; None where that would cost a transpose."""
    if value in twins and twins[value][1] == perm:
        return twins[value][0]
    if value.type.rank != len(perm):
        return value if value.type.rank <= 1 else None  # an index vector, a fill: not of the data's layout
    back = inverse(perm)
    inner = facts.unbroadcast(value)
    wide = [d for d in inner.type.shape if d != 1]
    if inner is not value and inner in twins and twins[inner][1] == perm:
        return b.emit(BroadcastTo(_moved(value.type.shape, back)), twins[inner][0])
    if inner is not value and (len(wide) <= 1 or facts.is_constant(inner)):
        moved = compose.transpose(b, inner, back)
        return b.emit(BroadcastTo(_moved(value.type.shape, back)), moved)
    if len(wide) <= 1 or facts.is_constant(value):
        return compose.transpose(b, value, back)
    return None


def _moved(items: Sequence[T], perm: Sequence[int]) -> tuple[T, ...]:
    return tuple(items[p] for p in perm)


def _permuted(node: Node, perm: Perm) -> Op | None:
    """The operation on the operand before the transpose; None where there is no such form."""
    back = inverse(perm)
    match node.op:
        case Unary() | Binary() | Compare() | Select() | Cast():
            return node.op
        case Reduce(fn=fn, axes=axes):
            return Reduce(fn, tuple(sorted(perm[a] for a in axes)))
        case Softmax(axis=axis, log=log):
            return Softmax(perm[axis], log)
        case Concat(axis=axis):
            return Concat(perm[axis])
        case Gather(axis=axis) if node.inputs[1].type.rank == 1:
            return Gather(perm[axis])
        case Slice(starts=starts, sizes=sizes, steps=steps):
            return Slice(_moved(starts, back), _moved(sizes, back), tuple(steps[p] for p in back))
        case Pad(low=low, high=high, mode=mode, interior=interior):
            inner = tuple(interior[p] for p in back) if interior else ()
            return Pad(_moved(low, back), _moved(high, back), mode, inner)
        case Pool(window=window) as op:
            return _pool(op, len(window), perm)
    return None


def _pool(op: Pool, rank: int, perm: Perm) -> Pool | None:
    """A pool over the last axes as one over the axes before the channels, or over the same axes in another order."""
    if op.channels_last:
        return None
    if perm == _from_channels_last(rank + 2):
        return replace(op, channels_last=True)
    first = len(perm) - rank
    if perm[:first] != tuple(range(first)):
        return None
    order = [p - first for p in inverse(perm)[first:]]
    window, strides, low, high, dilations = (
        _moved(given, order) for given in (op.window, op.strides, op.low, op.high, op.dilations)
    )
    return replace(op, window=window, strides=strides, low=low, high=high, dilations=dilations)
