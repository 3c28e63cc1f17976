"""Where a value must be written to memory, because MAX would fuse what reads it into wrong addresses.

With symbolic shapes MAX 26.7 gives wrong elements when an elementwise operation whose operands have different (smaller) shapes is read through
another broadcast or through a slice: broadcast(a[1,1,s] + b[1,s,1]) to [n,s,s] is wrong, and so is a[...] + b[...] where both are broadcast to
a shape that neither has. A reduction of what is made of broadcasts alone does not compile where an axis that it keeps is repeated. The parts of
one tensor, each as another shape and joined one after another with what came before, end the compiler's process. Each is right once the inner result
is in memory, which a copying kernel, that MAX does not fuse, brings about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from fornaxc.ir.graph import Node, Value
from fornaxc.ir.ops import (
    ArgReduce,
    Binary,
    Bitcast,
    BroadcastTo,
    Cast,
    Compare,
    DynamicBroadcast,
    DynamicSlice,
    Gather,
    Iota,
    LayerNorm,
    Rebind,
    Reduce,
    Reshape,
    RmsNorm,
    Select,
    Slice,
    Softmax,
    StridedSlice,
    Transpose,
    Unary,
)

Producers = Mapping[Value, Node]

_ELEMENTWISE = (Binary, Bitcast, Cast, Compare, Select, Unary)
_VIEWS = (Rebind, Reshape, Transpose)
_FUSED = (*_ELEMENTWISE, *_VIEWS)
_READERS = (BroadcastTo, DynamicBroadcast, DynamicSlice, Slice, StridedSlice)
_REDUCERS = (ArgReduce, LayerNorm, Reduce, RmsNorm, Softmax)


def operands_to_write(node: Node, producers: Producers, is_literal: Callable[[Value], bool]) -> set[int]:
    """The positions of the operands of `node` that must be in memory before it reads them."""
    if isinstance(node.op, _REDUCERS):
        return set() if _is_whole(node.inputs[0], producers, is_literal) else {0}
    if isinstance(node.op, _ELEMENTWISE) and (parts := _parts_of_one(node, producers)):
        return parts
    if all(v.type.is_static for v in (*node.inputs, *node.outputs)):
        return set()
    if isinstance(node.op, _READERS):
        return {0} if _mixes(node.inputs[0], producers) else set()
    if isinstance(node.op, _ELEMENTWISE):
        spread = [i for i, v in enumerate(node.inputs) if not _is_single(v, producers)]
        if len(spread) > 1 and not any(_is_whole(node.inputs[i], producers, is_literal) for i in spread):
            return {spread[0]}
    return set()


def _parts_of_one(node: Node, producers: Producers) -> set[int]:
    """The operands that are a part of a tensor, seen as another shape, where another operand is computed from other parts of it."""
    found = set()
    for i, value in enumerate(node.inputs):
        part = _part(value, producers)
        if part is None or not isinstance(producers[value].op, Gather | Reshape):
            continue
        fused = (v for j, other in enumerate(node.inputs) if j != i for v in _fused_into(other, producers))
        others = (_part(v, producers) for v in fused)
        if any(o is not None and o is not part and o.inputs[0] is part.inputs[0] for o in others):
            found.add(i)
    return found


def _part(value: Value, producers: Producers) -> Node | None:
    """The node that takes `value` out of a tensor, perhaps seen as another shape."""
    while value in producers and isinstance(producers[value].op, _VIEWS):
        value = producers[value].inputs[0]
    node = producers.get(value)
    return node if node is not None and isinstance(node.op, (Gather, Slice)) else None


def _fused_into(value: Value, producers: Producers) -> Iterator[Value]:
    """`value`, then what it is computed from by elementwise operations and views."""
    stack, seen = [value], {value}
    while stack:
        found = stack.pop()
        yield found
        node = producers.get(found)
        if node is not None and isinstance(node.op, _FUSED):
            fresh = [v for v in node.inputs if v not in seen]
            seen.update(fresh)
            stack += fresh


def _is_single(value: Value, producers: Producers) -> bool:
    """One element, perhaps repeated."""
    while value in producers and isinstance(producers[value].op, BroadcastTo | Cast | Reshape):
        value = producers[value].inputs[0]
    return value.type.elements == 1


def _is_whole(value: Value, producers: Producers, is_literal: Callable[[Value], bool]) -> bool:
    """Whether some tensor in memory has all the elements of `value`: it is not made of broadcasts and literals alone."""
    return any(
        not isinstance(producers[v].op, (BroadcastTo, Iota, *_FUSED)) if v in producers else not is_literal(v)
        for v in _fused_into(value, producers)
    )


def _mixes(value: Value, producers: Producers) -> bool:
    """Whether what MAX fuses into `value` joins a broadcast with something else."""
    for found in _fused_into(value, producers):
        node = producers.get(found)
        if node is not None and isinstance(node.op, _FUSED):
            many = [v for v in node.inputs if not _is_single(v, producers)]
            if len(many) > 1 and any(_is_broadcast(v, producers) for v in many):
                return True
    return False


def _is_broadcast(value: Value, producers: Producers) -> bool:
    """Whether a broadcast is fused into `value`; the numbers along one axis are one too, repeated along the others."""
    spreaders = (BroadcastTo, DynamicBroadcast, Iota)
    return any(v in producers and isinstance(producers[v].op, spreaders) for v in _fused_into(value, producers))
