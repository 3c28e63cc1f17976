"""Inputs for verification: sizes for the symbolic dims, and seeded values that suit how an input is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from fornaxc.ir.binding import ShapeMismatch, check_constraints
from fornaxc.ir.dims import Call, Dim, single_symbol, static, substitute, symbol, symbols
from fornaxc.ir.graph import Array, Graph
from fornaxc.ir.types import DType
from fornaxc.verification.roles import Role, input_uses
from fornaxc.verification.size_arguments import assignments, conditions_of, fitting_sizes

SIZES = (2, 5, 16, 32, 64, 128, 224, 1, 512)  # tried in this order for the symbolic dims
LARGEST = 1 << 22  # elements of an input, unless the first choice has more
FEW = 2  # choices of them below which others are searched for


def size_choices(graph: Graph) -> Iterator[dict[str, int]]:
    """Sizes for the symbols of the inputs that meet the graph's conditions and leave no dim negative; likely ones first.

    Where inputs hold sizes, only those beside which they fit the program's shapes, if there are any. Where the first do not suit the oracle,
    it is asked about others, but about none that make an input of more than `LARGEST` elements, or than the first if that has more: several
    large dims at once fill the memory.
    """
    others: list[dict[str, int]] = []
    found = False
    most = 0
    for chosen in _choices(graph):
        largest = _largest(graph, chosen)
        most = most or max(LARGEST, largest)
        if largest > most:
            continue
        if fitting_sizes(graph, chosen) is None:
            others.append(chosen)
        else:
            found = True
            yield chosen
    if not found:
        yield from others


def _largest(graph: Graph, sizes: Mapping[str, int]) -> int:
    """The elements of the largest input."""
    bound: dict[str, Dim] = dict(sizes)
    shapes = ([substitute(d, bound) for d in v.type.shape] for v in graph.inputs)
    return max((prod(d for d in shape if isinstance(d, int)) for shape in shapes), default=0)


def _choices(graph: Graph) -> Iterator[dict[str, int]]:
    names = list(dict.fromkeys(n for v in graph.inputs for d in v.type.shape for n in sorted(symbols(d))))
    if not names:
        yield {}
        return
    groups = equal_symbols(graph, names)
    ordered = list(dict.fromkeys(groups.values()))
    found = []
    rising = {n: ordered.index(groups[n]) for n in names}
    # a mask is named before the shorter cache that it covers
    falling = {n: len(ordered) - 1 - more for n, more in rising.items()}
    for offsets in (rising, dict.fromkeys(names, 0), falling) if len(ordered) > 1 else (rising,):
        for base in SIZES:
            chosen = {n: base + more for n, more in offsets.items()}
            if fits(graph, chosen):
                found.append(chosen)
                yield chosen
    if len(found) < FEW:
        for sizes in _searched(graph, ordered, {n: symbol(leader) for n, leader in groups.items()}):
            chosen = {n: sizes[groups[n]] for n in names}
            if chosen not in found and fits(graph, chosen):
                yield chosen


def _searched(graph: Graph, names: list[str], leaders: Mapping[str, Dim]) -> Iterator[dict[str, int]]:
    """Sizes that meet the conditions between them, found by trying; each choice prefers sizes that the one before has not.

    `names` are those of the symbols that stand for all that equal them, their `leaders`.
    """
    conditions = [
        (substitute(left, leaders), substitute(right, leaders), equal) for left, right, equal in conditions_of(graph, 1)
    ]
    numbers = {
        n for constraint in graph.constraints for side in (constraint.left, constraint.right) for n in _numbers(side)
    }
    multiples = [n * k for n in sorted(numbers) for k in (1, 2, 3) if 0 < n * k <= max(SIZES)]
    candidates = list(dict.fromkeys([*(n for n in SIZES if n > 1), *range(2, 13), *multiples, 1]))
    seen = []
    for _ in SIZES:
        chosen = next(assignments(names, candidates, conditions, {}), None)
        if chosen is None:
            return
        if chosen not in seen:
            seen.append(chosen)
            yield chosen
        candidates.sort(key=lambda size: size in chosen.values())  # those that were chosen come last


def _numbers(dim: Dim) -> set[int]:
    """The numbers that a dim is written with."""
    if isinstance(dim, int):
        return {abs(dim)}
    calls = [atom for monomial, _ in dim.terms for atom in monomial if isinstance(atom, Call)]
    inner = [_numbers(side) for call in calls for side in (call.left, call.right)]
    return {abs(factor) for _, factor in dim.terms}.union(*inner)


def equal_symbols(graph: Graph, names: list[str]) -> dict[str, str]:
    """Each symbol's representative, where conditions say that symbols are equal."""
    leader = {n: n for n in names}
    for constraint in graph.constraints:
        left, right = single_symbol(constraint.left), single_symbol(constraint.right)
        if constraint.relation == "==" and left in leader and right in leader:
            old, new = leader[str(right)], leader[str(left)]
            leader = {name: new if found == old else found for name, found in leader.items()}
    return leader


def fits(graph: Graph, sizes: Mapping[str, int], least: int = 1) -> bool:
    """Whether sizes of the symbols meet the graph's conditions and leave no dim below `least`."""
    bound: dict[str, Dim] = dict(sizes)
    try:
        check_constraints(graph.constraints, bound)
        dims = [substitute(d, bound) for node in graph.nodes for v in node.outputs for d in v.type.shape]
    except (ShapeMismatch, ZeroDivisionError):
        return False
    return all(not isinstance(d, int) or d >= least for d in dims)


def generate(graph: Graph, sizes: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Seeded inputs: the same for the same graph, sizes and seed."""
    rng = np.random.default_rng(seed)
    uses = input_uses(graph)
    named = fitting_sizes(graph, sizes) or {}
    bound: dict[str, Dim] = {**sizes, **{entry.symbol: size for entry, size in named.items()}}
    samples = {}
    for value in graph.inputs:
        shape = tuple(static(substitute(d, bound)) for d in value.type.shape)
        use = uses[value.name]
        limit = substitute(use.bound, bound)
        samples[value.name] = _values(rng, value.type.dtype, shape, use.role, limit if isinstance(limit, int) else 1)
    for entry, size in named.items():
        array = np.array(samples[entry.name])
        array.reshape(-1)[entry.place] = size
        samples[entry.name] = array
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
        if shape and shape[-1]:
            mask[..., 0] = True
        return mask.astype(target)
    if dtype is DType.BOOL:
        return rng.random(shape) < 0.5
    if role is Role.PROBABILITY:
        return rng.random(shape).astype(np.float32).astype(target)
    if dtype.is_float:
        return rng.standard_normal(shape).astype(np.float32).astype(target)
    low, high = (0, 8) if not dtype.is_signed else (-8, 8)
    if dtype in (DType.I8, DType.U8):
        low, high = (-128, 128) if dtype.is_signed else (0, 256)
    if dtype in (DType.I32, DType.I64):
        low, high = 0, 128  # tokens, bytes, counts: what integer inputs of models mostly are
    return rng.integers(low, high, shape).astype(target)
