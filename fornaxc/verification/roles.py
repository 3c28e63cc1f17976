"""What an input of a graph is used as, as far as the graph tells."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from fornaxc.ir.dims import Dim, static
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import (
    Binary,
    BroadcastTo,
    Cast,
    Compare,
    Concat,
    Dims,
    DynamicBroadcast,
    DynamicRange,
    DynamicReshape,
    DynamicSlice,
    Gather,
    GatherElements,
    GatherNd,
    Gru,
    Lstm,
    Rebind,
    Reshape,
    Rnn,
    ScatterElements,
    ScatterNd,
    Select,
    Slice,
    Transpose,
    While,
)
from fornaxc.ir.types import DType

MASKING = 1e3  # a factor of this size on 1 - x: what x leaves out is pushed out of a softmax
_DIVISIONS = ("div", "mod", "rem")
Consumers = dict[Value, list[tuple[Node, int]]]


class Role(Enum):
    """What an input is used as."""

    VALUE = "value"
    INDEX = "index"
    UNIQUE_INDEX = "unique index"
    LENGTH = "length"
    MASK = "mask"
    PROBABILITY = "probability"


@dataclass(frozen=True, slots=True)
class Use:
    """How an input is used; an index or length stays below (or up to) `bound`."""

    role: Role
    bound: Dim = 0


def input_uses(graph: Graph) -> dict[str, Use]:
    """The role of each input, inferred from the nodes that its elements reach unchanged."""
    consumers = _consumers(graph)
    scalars = _Scalars(graph)
    return {v.name: _use(v, consumers, scalars) for v in graph.inputs}


def _consumers(graph: Graph) -> Consumers:
    found: Consumers = {}
    for node in graph.walk():
        for position, value in enumerate(node.inputs):
            found.setdefault(value, []).append((node, position))
    return found


def _use(start: Value, consumers: Consumers, scalars: _Scalars) -> Use:
    """Follow operations that keep elements as they are; the first index-like use decides."""
    if start.type.dtype is DType.BOOL:
        return Use(Role.VALUE)
    if start.type.dtype.is_float:
        likely = Role.PROBABILITY if "prob" in start.name.lower() else Role.VALUE
        return Use(_complemented(start, consumers, scalars) or likely)
    found: list[Use] = []
    seen, queue = {start}, [start]
    while queue:
        value = queue.pop()
        for node, position in consumers.get(value, ()):
            direct = _direct_use(node, position)
            if direct is not None:
                found.append(direct)
            elif _keeps_elements(node, position):
                fresh = [v for v in node.outputs if v not in seen]
                seen.update(fresh)
                queue += fresh
    for role in (Role.UNIQUE_INDEX, Role.INDEX, Role.LENGTH):
        bounds = [u.bound for u in found if u.role is role]
        if bounds:
            return Use(
                role, min(bounds, key=lambda b: (not isinstance(b, int), str(b) if not isinstance(b, int) else b))
            )
    named = "mask" in start.name.lower() or _complemented(start, consumers, scalars) is not None
    if named or any(u.role is Role.MASK for u in found):
        return Use(Role.MASK)
    return Use(Role.VALUE)


def _direct_use(node: Node, position: int) -> Use | None:
    op = node.op
    data = node.inputs[0].type if node.inputs else None
    if data is None:
        return None
    if isinstance(op, Gather | GatherElements) and position == 1:
        return Use(Role.INDEX, data.shape[op.axis])
    if isinstance(op, GatherNd) and position == 1:
        depth = node.inputs[1].type.shape[-1]
        axes = data.shape[op.batch_dims : op.batch_dims + static(depth)]
        return Use(Role.INDEX, min((d for d in axes if isinstance(d, int)), default=1))
    if isinstance(op, ScatterElements) and position == 1:
        return Use(Role.UNIQUE_INDEX, data.shape[op.axis])
    if isinstance(op, ScatterNd) and position == 1:
        return Use(Role.UNIQUE_INDEX, min((d for d in data.shape if isinstance(d, int)), default=1))
    if isinstance(op, Lstm | Gru | Rnn) and op.lengths and position == (4 if not isinstance(op, Rnn) else 3):
        return Use(Role.LENGTH, data.shape[0])
    if isinstance(op, Cast) and op.dtype is DType.BOOL:
        return Use(Role.MASK)
    return None


def _keeps_elements(node: Node, position: int) -> bool:
    op = node.op
    if isinstance(op, Select):
        return position > 0
    if isinstance(op, Cast):
        return op.dtype.is_integer
    if isinstance(op, Compare):
        return False
    if _is_index_shift(node):
        return True
    return isinstance(op, Reshape | Transpose | BroadcastTo | Rebind | Slice | Concat)


def _is_index_shift(node: Node) -> bool:
    """Adding the size of an axis, as importers do for negative indices."""
    return node.op.name == "binary" and getattr(node.op, "fn", "") == "add" and node.outputs[0].type.dtype.is_integer


def _complemented(start: Value, consumers: Consumers, scalars: _Scalars) -> Role | None:
    """What x is where 1 - x is taken of it: a mask where that is pushed far away or made a bool, else a probability."""
    complements = [
        node.outputs[0]
        for node, position in _reached(start, consumers)
        if _is(node, "sub") and position == 1 and scalars.of(node.inputs[0]) == 1.0
    ]
    for complement in complements:
        for node, position in _reached(complement, consumers):
            factor = scalars.of(node.inputs[1 - position]) if _is(node, "mul") else None
            if _is_bool_cast(node) or (factor is not None and abs(factor) >= MASKING):
                return Role.MASK
    return Role.PROBABILITY if complements else None


def _reached(start: Value, consumers: Consumers) -> list[tuple[Node, int]]:
    """The uses of a value, and of what only has another shape or number type."""
    found: list[tuple[Node, int]] = []
    seen, queue = {start}, [start]
    while queue:
        for node, position in consumers.get(queue.pop(), ()):
            found.append((node, position))
            same = isinstance(node.op, Reshape | Transpose | BroadcastTo | Rebind | Slice)
            if same or (isinstance(node.op, Cast) and node.op.dtype is not DType.BOOL):
                fresh = [v for v in node.outputs if v not in seen]
                seen.update(fresh)
                queue += fresh
    return found


def _is(node: Node, fn: str) -> bool:
    return isinstance(node.op, Binary) and node.op.fn == fn


def _is_bool_cast(node: Node) -> bool:
    return isinstance(node.op, Cast) and node.op.dtype is DType.BOOL


class _Scalars:
    """The values that are one number in every element."""

    def __init__(self, graph: Graph) -> None:
        self._constants = graph.constants
        self._makers = {v: node for node in graph.nodes for v in node.outputs}

    def of(self, value: Value) -> float | None:
        """The number; None where a value may have several, or is no constant."""
        while value in self._makers and isinstance(self._makers[value].op, Reshape | BroadcastTo | Rebind | Cast):
            value = self._makers[value].inputs[0]
        constant = self._constants.get(value)
        if constant is None or constant.type.elements != 1 or constant.type.dtype is DType.BOOL:
            return None
        return float(np.asarray(constant.load(), np.float64).reshape(()))


def steering_inputs(graph: Graph) -> set[str]:
    """The inputs whose elements may decide shapes, trips of loops or divisions of integers, which end a process for some values:
    of these, only values that a model may well get are tried."""
    consumers = _consumers(graph)
    return {v.name for v in graph.inputs if _steers(v, consumers)}


def _steers(start: Value, consumers: Consumers) -> bool:
    seen, queue = {start}, [start]
    while queue:
        value = queue.pop()
        for node, position in consumers.get(value, ()):
            op = node.op
            if isinstance(op, DynamicReshape | DynamicBroadcast | DynamicRange | DynamicSlice) and (
                position > 0 or isinstance(op, DynamicRange)
            ):
                return True
            if not value.type.dtype.is_float and (isinstance(op, While) or any(_is(node, fn) for fn in _DIVISIONS)):
                return True
            inner = [v for region in node.regions for v in region.inputs]
            fresh = [v for v in (*node.outputs, *inner) if v not in seen and not isinstance(op, Dims)]
            seen.update(fresh)
            queue += fresh
    return False
