"""Seeded numbers in place of those of the source model: of weights, in the bodies of control flow too, and of inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from enum import Enum

import numpy as np

from fornaxc.diagnosis.edits import Case
from fornaxc.ir.dims import DimExpr, static
from fornaxc.ir.graph import Array, Constant, Graph, Node
from fornaxc.ir.types import DType


class Kind(Enum):
    """What weights hold: seeded floats are free, seeded integers stay in the range of the source's, as they may be indices."""

    FLOATS = "floats"
    INTEGERS = "integers"


ALL = frozenset(Kind)
FEW = {Kind.FLOATS: 16, Kind.INTEGERS: 64}  # elements up to which a literal is part of the program, and no weight


def kinds_of(graph: Graph) -> frozenset[Kind]:
    """Which kinds of weights a graph and its regions hold."""
    found = {kind for c in graph.constants.values() if (kind := _kind(c)) is not None}
    return frozenset(found.union(*(kinds_of(r) for n in graph.nodes for r in n.regions)))


def _kind(constant: Constant) -> Kind | None:
    """None where a constant is part of the program, or empty."""
    dtype, count = constant.type.dtype, constant.type.elements
    kind = Kind.FLOATS if dtype.is_float and dtype is not DType.F8E8M0FNU else Kind.INTEGERS
    return None if count == 0 or (constant.literal and static(count) <= FEW[kind]) else kind


def seeded(
    case: Case, seed: int, *, kinds: Collection[Kind] = ALL, inputs: bool = True, positive: bool = False
) -> Case:
    """The case with seeded numbers in place of its weights of these kinds, and of its inputs; the latter suit their use."""
    rng = np.random.default_rng(seed)

    def change(constant: Constant) -> Constant:
        kind = _kind(constant)
        if kind is None or kind not in kinds:
            return constant
        content = _floats(constant, rng, positive) if kind is Kind.FLOATS else _integers(constant, rng)
        return replace(constant, load=lambda: content, name="", parts=None)

    graph = _with_constants(case.graph, change)
    return replace(case, graph=graph, inputs=_inputs(case, seed, positive) if inputs else case.inputs)


def _with_constants(graph: Graph, change: Callable[[Constant], Constant]) -> Graph:
    """`graph` with its constants changed, those of its regions too."""
    constants = {v: change(c) for v, c in graph.constants.items()}
    return replace(graph, nodes=tuple(_with_regions(n, change) for n in graph.nodes), constants=constants)


def _with_regions(node: Node, change: Callable[[Constant], Constant]) -> Node:
    return replace(node, regions=tuple(_with_constants(r, change) for r in node.regions)) if node.regions else node


def _floats(constant: Constant, rng: np.random.Generator, positive: bool) -> Array:
    shape = tuple(static(d) for d in constant.type.shape)
    fan = max(1, int(np.prod(shape[1:], dtype=np.int64))) if len(shape) > 1 else 1
    array = rng.standard_normal(shape) / np.sqrt(fan)
    return np.asarray((np.abs(array) if positive else array).astype(np.float32).astype(constant.type.dtype.numpy))


def _integers(constant: Constant, rng: np.random.Generator) -> Array:
    """Between the least and the greatest of the source's; between 0 and the number where there is but one. f8e8m0fnu by its bits."""
    dtype, source = constant.type.dtype, np.asarray(constant.load())
    if dtype is DType.F8E8M0FNU:
        return np.asarray(_drawn(source.view(np.uint8), rng).view(source.dtype))
    return _drawn(source, rng)


def _drawn(source: Array, rng: np.random.Generator) -> Array:
    wide = np.uint64 if source.dtype == np.uint64 else np.int64
    numbers = source.astype(wide)
    low, high = int(numbers.min()), int(numbers.max())
    if low == high:
        low, high = min(low, 0), max(high, 0)
    return np.asarray(rng.integers(low, high, source.shape, wide, endpoint=True).astype(source.dtype))


def _inputs(case: Case, seed: int, positive: bool) -> tuple[Array, ...]:
    from fornaxc.verification.inputs import generate

    sizes: dict[str, int] = {}
    for value, array in zip(case.graph.inputs, case.inputs, strict=True):
        sizes.update((str(d), s) for d, s in zip(value.type.shape, array.shape, strict=True) if isinstance(d, DimExpr))
    made = generate(case.graph, sizes, seed)
    arrays = [made[v.name] for v in case.graph.inputs]
    return tuple(np.abs(a) if positive and a.dtype.kind == "f" else a for a in arrays)
