"""Inputs whose entries are sizes of tensors, as StableHLO modules take them: numbers for which the program's shapes agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from fornaxc.ir.dims import Dim, product, single_symbol, substitute
from fornaxc.ir.graph import Array, Graph, Node, Value
from fornaxc.ir.ops import Cast, DynamicRange, DynamicReshape, Rebind, Reshape, Slice

SMALL = (1, 2, 3, 4, 5, 6, 8, 12, 16)  # tried where no size of an input and no number of the program fits
TRIES = 2_000


@dataclass(frozen=True, slots=True)
class SizeEntry:
    """An entry of an input, by its place in the flat array, that the program knows as the size `symbol`."""

    name: str
    place: int
    symbol: str


def size_entries(graph: Graph) -> list[SizeEntry]:
    """The entries of integer inputs that name sizes: those that reach the limit of a range whose length is a symbol."""
    consumers: dict[Value, list[tuple[Node, int]]] = {}
    for node in graph.nodes:
        for position, value in enumerate(node.inputs):
            consumers.setdefault(value, []).append((node, position))
    found: dict[tuple[str, int], SizeEntry] = {}
    for value in graph.inputs:
        if value.type.dtype.is_integer and value.type.is_static:
            for place, symbol in _followed(graph, value, consumers):
                found.setdefault((value.name, place), SizeEntry(value.name, place, symbol))
    return list(found.values())


def _followed(
    graph: Graph, start: Value, consumers: Mapping[Value, list[tuple[Node, int]]]
) -> Iterator[tuple[int, str]]:
    """Places of an input's entries and the symbols that they name, through operations that keep elements."""
    shape = tuple(int(str(d)) for d in start.type.shape)
    queue: list[tuple[Value, Array]] = [(start, np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape))]
    while queue:
        value, places = queue.pop()
        for node, position in consumers.get(value, ()):
            op = node.op
            if isinstance(op, DynamicRange):
                symbol = single_symbol(op.size)
                if position == 1 and symbol is not None and places.size == 1 and _counts(graph, node):
                    yield int(places.reshape(-1)[0]), symbol
            elif isinstance(op, Cast) and op.dtype.is_integer:
                queue.append((node.outputs[0], places))
            elif isinstance(op, Reshape | Slice) and node.outputs[0].type.is_static:
                queue.append((node.outputs[0], op.evaluate(places)[0]))


def _counts(graph: Graph, node: Node) -> bool:
    """Whether a range goes from 0 by 1, so that its limit is its length."""
    ends = [graph.constants.get(node.inputs[i]) for i in (0, 2)]
    return [None if e is None else e.load().item() for e in ends] == [0, 1]


def fitting_sizes(graph: Graph, sizes: Mapping[str, int]) -> dict[SizeEntry, int] | None:
    """A number for each entry so that shapes agree and slices stay within bounds; None where none was found.

    `sizes` are those of the inputs' own symbols; no dim is 0 unless one of them is.
    """
    entries = size_entries(graph)
    if not entries:
        return {}
    conditions = conditions_of(graph, min([1, *sizes.values()]))
    numbers = {abs(d) for left, right, _ in conditions for d in (left, right) if isinstance(d, int)}
    candidates = list(dict.fromkeys([*sizes.values(), *sorted(n for n in numbers if 0 < n <= 4096), *SMALL]))
    names = list(dict.fromkeys(e.symbol for e in entries))
    found = next(assignments(names, candidates, conditions, dict(sizes)), None)
    return None if found is None else {e: found[e.symbol] for e in entries}


Condition = tuple[Dim, Dim, bool]  # left == right, or left <= right where the flag is not set


def conditions_of(graph: Graph, least: int) -> list[Condition]:
    """What must hold of the sizes in the program, of which none is below `least`."""
    found: dict[Condition, None] = {}
    for constraint in graph.constraints:
        if constraint.relation == "==":
            found[constraint.left, constraint.right, True] = None
        else:
            found[constraint.right, constraint.left, False] = None
    for node in graph.walk():
        op, x = node.op, node.inputs[0].type if node.inputs else None
        for value in node.outputs:
            found.update(((least, d, False), None) for d in value.type.shape)
        if isinstance(op, Rebind) and x is not None:
            found.update(((have, want, True), None) for have, want in zip(x.shape, op.shape, strict=True))
        if isinstance(op, DynamicReshape) and x is not None:
            found[product(x.shape), product(node.outputs[0].type.shape), True] = None
        if isinstance(op, Slice) and x is not None:
            for have, start, size, step in zip(x.shape, op.starts, op.sizes, op.steps, strict=True):
                end = start + (size - 1) * step
                found.update(((0, d, False), None) for d in (start, end))
                found.update(((d, have - 1, False), None) for d in (start, end))
    return [(left, right, equal) for left, right, equal in found if _holds(left, right, equal) is None]


def _holds(left: Dim, right: Dim, equal: bool) -> bool | None:
    """Whether a condition is met; None where its sizes are not all numbers."""
    if left == right:
        return True
    if isinstance(left, int) and isinstance(right, int):
        return not equal and left <= right
    return None


def assignments(
    names: list[str], candidates: list[int], conditions: list[Condition], sizes: dict[str, int]
) -> Iterator[dict[str, int]]:
    """Numbers for the names that break no condition, one name after the other."""

    def extended(chosen: dict[str, int], rest: list[str]) -> Iterator[dict[str, int] | None]:
        if not rest:
            yield chosen
            return
        for number in candidates:
            larger = {**chosen, rest[0]: number}
            yield None
            if _possible(conditions, larger):
                yield from extended(larger, rest[1:])

    yield from (found for found in islice(extended(sizes, names), TRIES) if found is not None)


def _possible(conditions: list[Condition], chosen: Mapping[str, int]) -> bool:
    bound: dict[str, Dim] = dict(chosen)
    try:
        for left, right, equal in conditions:
            if _holds(substitute(left, bound), substitute(right, bound), equal) is False:
                return False
    except ZeroDivisionError:
        return False
    return True
