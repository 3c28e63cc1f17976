"""Inputs for verification: sizes for the symbolic dims, and seeded values that suit how an input is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from fornaxc.ir.binding import ShapeMismatch, check_constraints
from fornaxc.ir.dims import Dim, single_symbol, static, substitute, symbols
from fornaxc.ir.graph import Array, Graph, Node, Value
from fornaxc.ir.ops import (
    BroadcastTo,
    Cast,
    Compare,
    Concat,
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
)
from fornaxc.ir.types import DType

SIZES = (2, 5, 16, 32, 64, 128, 224, 1, 512)  # tried in this order for the symbolic dims


class Role(Enum):
    """What an input is used as."""

    VALUE = "value"
    INDEX = "index"
    UNIQUE_INDEX = "unique index"
    LENGTH = "length"
    MASK = "mask"


@dataclass(frozen=True, slots=True)
class Use:
    """How an input is used; an index or length stays below (or up to) `bound`."""

    role: Role
    bound: Dim = 0


def input_uses(graph: Graph) -> dict[str, Use]:
    """The role of each input, inferred from the nodes that its elements reach unchanged."""
    consumers: dict[Value, list[tuple[Node, int]]] = {}
    for node in graph.walk():
        for position, value in enumerate(node.inputs):
            consumers.setdefault(value, []).append((node, position))
    return {v.name: _use(v, consumers) for v in graph.inputs}


def _use(start: Value, consumers: Mapping[Value, list[tuple[Node, int]]]) -> Use:
    """Follow operations that keep elements as they are; the first index-like use decides."""
    if start.type.dtype.is_float or start.type.dtype is DType.BOOL:
        return Use(Role.VALUE)
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
    if any(u.role is Role.MASK for u in found) or "mask" in start.name.lower():
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


def size_choices(graph: Graph) -> Iterator[dict[str, int]]:
    """Sizes for the symbols of the inputs that meet the graph's conditions and leave no dim negative; likely ones first."""
    names = list(dict.fromkeys(n for v in graph.inputs for d in v.type.shape for n in sorted(symbols(d))))
    if not names:
        yield {}
        return
    groups = _equal_symbols(graph, names)
    ordered = list(dict.fromkeys(groups.values()))
    for spread in (True, False) if len(ordered) > 1 else (True,):
        for base in SIZES:
            chosen = {n: base + ordered.index(groups[n]) if spread else base for n in names}
            if _fits(graph, chosen):
                yield chosen


def _equal_symbols(graph: Graph, names: list[str]) -> dict[str, str]:
    """Each symbol's representative, where conditions say that symbols are equal."""
    leader = {n: n for n in names}
    for constraint in graph.constraints:
        left, right = single_symbol(constraint.left), single_symbol(constraint.right)
        if constraint.relation == "==" and left in leader and right in leader:
            old, new = leader[str(right)], leader[str(left)]
            leader = {name: new if found == old else found for name, found in leader.items()}
    return leader


def _fits(graph: Graph, sizes: Mapping[str, int]) -> bool:
    bound: dict[str, Dim] = dict(sizes)
    try:
        check_constraints(graph.constraints, bound)
        dims = [substitute(d, bound) for node in graph.nodes for v in node.outputs for d in v.type.shape]
    except (ShapeMismatch, ZeroDivisionError):
        return False
    return all(not isinstance(d, int) or d > 0 for d in dims)


def generate(graph: Graph, sizes: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Seeded inputs: the same for the same graph, sizes and seed."""
    rng = np.random.default_rng(seed)
    uses = input_uses(graph)
    bound: dict[str, Dim] = dict(sizes)
    samples = {}
    for value in graph.inputs:
        shape = tuple(static(substitute(d, bound)) for d in value.type.shape)
        use = uses[value.name]
        limit = substitute(use.bound, bound)
        samples[value.name] = _values(rng, value.type.dtype, shape, use.role, limit if isinstance(limit, int) else 1)
    return samples


def _values(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], role: Role, bound: int) -> Array:
    target = dtype.numpy
    count = int(np.prod(shape))
    if role is Role.INDEX:
        return rng.integers(0, max(1, bound), shape).astype(target)
    if role is Role.UNIQUE_INDEX:
        line = rng.permutation(max(bound, 1)) if bound >= count else rng.integers(0, max(1, bound), count)
        return line[:count].reshape(shape).astype(target)
    if role is Role.LENGTH:
        return rng.integers(1, max(1, bound) + 1, shape).astype(target)
    if role is Role.MASK:
        mask = rng.random(shape) < 0.8
        if shape:
            mask[..., 0] = True
        return mask.astype(target)
    if dtype is DType.BOOL:
        return rng.random(shape) < 0.5
    if dtype.is_float:
        return rng.standard_normal(shape).astype(np.float32).astype(target)
    low, high = (0, 8) if not dtype.is_signed else (-8, 8)
    if dtype in (DType.I8, DType.U8):
        low, high = (-128, 128) if dtype.is_signed else (0, 256)
    if dtype in (DType.I32, DType.I64):
        low, high = 0, 128  # tokens, bytes, counts: what integer inputs of models mostly are
    return rng.integers(low, high, shape).astype(target)
