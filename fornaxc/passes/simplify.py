"""Drops operations that do nothing and merges neighbours of one kind: all exact."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import BroadcastTo, Cast, Concat, Rebind, Reshape, Select, Slice, Transpose
from fornaxc.passes.rewrite import rewrite


def simplify(graph: Graph) -> Graph:
    """`graph` without identities, with chains of reshapes, transposes and broadcasts made one."""
    made: dict[Value, Node] = {}

    def visit(node: Node, b: GraphBuilder) -> Sequence[Value] | None:
        result = _simpler(node, b, made)
        for new in b.nodes[-3:] if result is not None else (node,):
            for value in new.outputs:
                made[value] = new
        return result

    return rewrite(graph, visit)


def _simpler(node: Node, b: GraphBuilder, made: dict[Value, Node]) -> Sequence[Value] | None:
    op = node.op
    if not node.inputs:
        return None
    x = node.inputs[0]
    before = made.get(x)
    match op:
        case Reshape() | BroadcastTo() | Rebind() | Cast() if node.outputs[0].type == x.type:
            return [x]
        case Transpose(perm=perm) if list(perm) == list(range(len(perm))):
            return [x]
        case Transpose(perm=perm) if _only_moves_ones(x, perm):
            return [compose.reshape(b, x, node.outputs[0].type.shape)]
        case Select() if (chosen := _choice(b, x, made)) is not None:
            return [node.inputs[1] if chosen else node.inputs[2]]
        case Slice() if _is_whole(op, x):
            return [x]
        case Concat() if len(node.inputs) == 1:
            return [x]
        case Concat(axis=axis) if len(whole := _rejoined(b, node.inputs, axis, made)) < len(node.inputs):
            return [compose.concat(b, whole, axis)]
        case Reshape(shape=shape) if before is not None and _splits_turned_matrices(before, shape):
            matrices = compose.reshape(b, before.inputs[0], (*shape[:-2], shape[-1], shape[-2]))
            return [compose.move_axis(b, matrices, len(shape) - 1, len(shape) - 2)]
        case Reshape(shape=shape) if before is not None and isinstance(before.op, Reshape):
            return [compose.reshape(b, before.inputs[0], shape)]
        case BroadcastTo(shape=shape) if before is not None and isinstance(before.op, BroadcastTo):
            return [b.emit(BroadcastTo(shape), before.inputs[0])]
        case Transpose(perm=perm) if before is not None and isinstance(before.op, Transpose):
            inner = before.op.perm
            return [compose.transpose(b, before.inputs[0], [inner[p] for p in perm])]
    return None


def _is_whole(cut: Slice, x: Value) -> bool:
    """Whether a slice has all elements of a value, in their order."""
    return cut.sizes == x.type.shape and not any(cut.starts) and all(s == 1 for s in cut.steps)


def _rejoined(b: GraphBuilder, operands: Sequence[Value], axis: int, made: dict[Value, Node]) -> list[Value]:
    """What a concatenation joins, neighbouring slices of one value as one slice, or as the value where they are all of it."""
    found: list[Value] = []
    cut: Node | None = None  # the slice that the last of `found` is, or stands for
    for value in operands:
        node = made.get(value)
        longer = _longer(cut, node, axis)
        if longer is None:
            found.append(value)
            cut = node
            continue
        assert node is not None
        (x,) = node.inputs
        found[-1] = x if _is_whole(longer, x) else b.emit(longer, x)
        cut = Node(longer, (x,), (found[-1],), node.origin)
    return found


def _longer(first: Node | None, second: Node | None, axis: int) -> Slice | None:
    """The slice that has the elements of two of one value, which follow one another on an axis; None where there is none."""
    if first is None or second is None or first.inputs != second.inputs:
        return None
    a, b = first.op, second.op
    if not isinstance(a, Slice) or not isinstance(b, Slice) or a.steps != b.steps or a.steps[axis] != 1:
        return None
    sizes = tuple([d + b.sizes[i] if i == axis else d for i, d in enumerate(a.sizes)])
    follows = all(
        start == (d + a.sizes[i] if i == axis else d)
        for i, (d, start) in enumerate(zip(a.starts, b.starts, strict=True))
    )
    same = all(i == axis or d == b.sizes[i] for i, d in enumerate(a.sizes))
    return Slice(a.starts, sizes, a.steps) if follows and same else None


def _splits_turned_matrices(turn: Node, shape: Sequence[Dim]) -> bool:
    """Whether `shape` only splits the leading axis of the matrices that `turn` transposes: that can be done before."""
    return turn.op == Transpose((0, 2, 1)) and len(shape) > 3 and shape[-2:] == turn.outputs[0].type.shape[1:]


def _choice(b: GraphBuilder, condition: Value, made: dict[Value, Node]) -> bool | None:
    """The one truth value that a condition is everywhere; None where it is not known, or not one."""
    node = made.get(condition)
    content = b.known(node.inputs[0] if node is not None and isinstance(node.op, BroadcastTo) else condition)
    if content is None or content.size == 0 or content.dtype != np.bool_:
        return None
    return bool(content.flat[0]) if np.all(content == content.flat[0]) else None


def _only_moves_ones(x: Value, perm: Sequence[int]) -> bool:
    """Whether a transpose keeps the order of all axes that are not of size 1, and so of the elements."""
    moved = [p for p in perm if x.type.shape[p] != 1]
    return moved == sorted(moved)
