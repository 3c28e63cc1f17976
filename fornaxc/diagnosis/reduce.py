"""Makes a failing case small: delta debugging over the graph, many candidates a round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from fornaxc.diagnosis.checks import Check
from fornaxc.diagnosis.contents import Kind, kinds_of, seeded
from fornaxc.diagnosis.edits import (
    Case,
    all_values,
    bypassed,
    pinned,
    resized,
    tidy,
    window,
    with_outputs,
)
from fornaxc.diagnosis.names import anonymous
from fornaxc.diagnosis.rounds import Search
from fornaxc.errors import UsageError
from fornaxc.ir.graph import Array, Graph, Node, Value

WIDTH = 40  # candidates a round
LONE = 200  # nodes tried alone, beside one of each kind
SEEDS = (0, 1, 2)
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Reduced:
    """The smallest case found that fails with `signature`, without names of the source.

    `own_weights` and `own_inputs` say that numbers of the source model, or computed from it, are still in the case, because it does
    not fail with seeded ones. `trail` tells each step: what was done, nodes left, candidates tried. `number` counts the cases before the one
    that was reduced.
    """

    case: Case
    signature: str
    nodes_before: int
    own_weights: bool
    own_inputs: bool
    trail: Sequence[str] = field(default=())
    number: int = 0

    @property
    def nodes(self) -> int:
        return _size(self.case.graph)


def reduce(cases: Sequence[Case], check: Check) -> Search[Reduced]:
    """Reduce the first of `cases` that fails `check`; what is returned fails with the same signature. UsageError where none fails."""
    signatures: list[str] = []
    for chunk in _chunks(cases, WIDTH):
        signatures += yield from check(chunk)
        if any(signatures):
            break
    number = next((i for i, s in enumerate(signatures) if s), None)
    if number is None:
        raise UsageError(
            "the model passes this check: there is nothing to reduce",
            code="FX251",
            hint="give the inputs on which it fails with --inputs, try --edge-cases, or give the command that fails with --check",
        )
    case, wanted = cases[number], signatures[number]
    work = _Work(check, wanted)
    before = _size(case.graph)
    fixed = pinned(case)
    if fixed is not None and fixed.graph.inputs != case.graph.inputs:
        case = (yield from work.first([fixed], "pin the sizes")) or case
    case = yield from _isolated(case, work)
    case = yield from _thinned(case, work)
    case = yield from _shrunk(case, work)
    case, own_weights, own_inputs = yield from _reseeded(case, work)
    return Reduced(anonymous(case), wanted, before, own_weights, own_inputs, tuple(work.trail), number)


def _size(graph: Graph) -> int:
    return sum(1 for _ in graph.walk())


class _Work:
    """The check with the signature that must stay, and the trail of steps."""

    def __init__(self, check: Check, wanted: str) -> None:
        self._check = check
        self._wanted = wanted
        self.trail: list[str] = []

    def failing(self, cases: Sequence[Case]) -> Search[list[Case]]:
        """Those that fail in the wanted way."""
        found: list[Case] = []
        for chunk in _chunks(cases, WIDTH):
            signatures = yield from self._check(chunk)
            found += [c for c, s in zip(chunk, signatures, strict=True) if s == self._wanted]
        return found

    def first(self, cases: Sequence[Case], what: str) -> Search[Case | None]:
        """The smallest of these that fails in the wanted way."""
        found = yield from self.failing(cases)
        best = min(found, key=lambda c: c.cost, default=None)
        if best is not None:
            self.trail.append(f"{what}: {_size(best.graph)} nodes ({len(cases)} tried)")
        return best


def _chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for first in range(0, len(items), size):
        yield items[first : first + size]


def _isolated(case: Case, work: _Work) -> Search[Case]:
    """One node alone where one node alone fails; else the shortest stretch of the program that does."""
    if _size(case.graph) <= 2:
        return case
    values = _values(case)
    kinds = _distinct(case.graph)
    for nodes in (kinds, [n for n in case.graph.nodes if n not in kinds][:LONE]) if values else ():
        found = (yield from work.first([window(case, [n], values) for n in nodes], "one node alone")) if nodes else None
        if found is not None:
            return found
    case = yield from _shortest_prefix(case, work)
    tail = case.graph.nodes
    spans = [k for k in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256) if k < len(tail)]
    if spans and values:
        windows = [window(case, tail[-k:], values) for k in spans]
        case = (yield from work.first(windows, "the last nodes alone")) or case
    return case


def _values(case: Case) -> Mapping[Value, Array]:
    """Every value of a case; none where numpy cannot run it, which then can lose nodes by cutting outputs and bypassing only."""
    try:
        return all_values(case)
    except Exception:  # numpy and the operations raise many kinds
        return {}


def _distinct(graph: Graph) -> list[Node]:
    """One node of each operation and operand types, with what each reads being constant or not."""
    found: dict[tuple[object, ...], Node] = {}
    for node in graph.nodes:
        operands = tuple((str(v.type), v in graph.constants) for v in node.inputs)
        found.setdefault((str(node.op), operands, node.inputs[0] if node.regions else None), node)
    return list(found.values())


def _shortest_prefix(case: Case, work: _Work) -> Search[Case]:
    """Cut outputs: the earliest single value whose computation fails."""
    ends = [v for n in case.graph.nodes for v in n.outputs]
    low, high = -1, len(ends)
    while high - low > 1:
        step = max(1, (high - low) // 13)
        probes = list(range(low + step, high, step))[:13]
        cases = [with_outputs(case, [ends[i]]) for i in probes]
        found = yield from work.failing(cases)
        failing = [i for i, c in zip(probes, cases, strict=True) if any(c is f for f in found)]
        if failing:
            high = failing[0]
            low = max((i for i in probes if i < high), default=low)
        elif step == 1:
            break
        else:
            low = probes[-1] if probes[-1] < high else low
    if high < len(ends):
        case = with_outputs(case, [ends[high]])
        work.trail.append(f"cut outputs: {_size(case.graph)} nodes")
    return case


def _thinned(case: Case, work: _Work) -> Search[Case]:
    """Leave out halves, quarters and eighths of the program, then single nodes and outputs, until nothing more can go."""
    for candidates in (_without_pieces, _without_one):
        while True:
            smaller = [c for c in map(tidy, candidates(case)) if c.cost < case.cost and c.graph.nodes]
            found = yield from work.first(smaller, "leave out") if smaller else _nothing()
            if found is None:
                break
            case = found
    return case


def _without_pieces(case: Case) -> list[Case]:
    """The case without one of its halves, quarters or eighths, of two nodes or more."""
    nodes = case.graph.nodes
    sizes = sorted({-(-len(nodes) // parts) for parts in (2, 4, 8)} - {0, 1})
    pieces = [piece for size in sizes for piece in _chunks(nodes, size) if len(piece) < len(nodes)]
    values = _values(case) if pieces else {}
    return [window(case, [n for n in nodes if n not in gone], values) for gone in map(set, pieces)] if values else []


def _without_one(case: Case) -> list[Case]:
    """The case with one of its outputs, or without one of its nodes."""
    graph = case.graph
    candidates = [with_outputs(case, [v]) for v in graph.outputs] if len(graph.outputs) > 1 else []
    if len(graph.nodes) > 1:
        values = _values(case)
        if values:
            candidates += [window(case, [n for n in graph.nodes if n is not gone], values) for gone in graph.nodes]
        candidates += [c for n in graph.nodes if (c := bypassed(case, n)) is not None]
    return candidates


def _nothing() -> Search[Case | None]:
    yield from ()
    return None


def _shrunk(case: Case, work: _Work) -> Search[Case]:
    """Smaller sizes, all of one size at a time."""
    for _ in range(4):
        sizes = sorted({d for d in _dims(case.graph) if d > 1}, reverse=True)
        targets = [
            (old, new)
            for old in sizes[:12]
            for new in dict.fromkeys((1, 2, 3, old // 4, old // 2, old - 1))
            if 0 < new < old
        ]
        cases = [c for old, new in targets if (c := resized(case, old, new)) is not None]
        found = yield from work.first(cases[: 2 * WIDTH], "smaller sizes") if cases else _nothing()
        if found is None:
            break
        case = found
    return case


def _dims(graph: Graph) -> list[int]:
    every = [*graph.inputs, *graph.constants, *(v for n in graph.nodes for v in n.outputs)]
    return [d for v in every for d in v.type.shape if isinstance(d, int)]


def _reseeded(case: Case, work: _Work) -> Search[tuple[Case, bool, bool]]:
    """Seeded numbers in place of the model's, as far as it still fails; whether weights and inputs of the source stayed."""
    held, has_inputs = kinds_of(case.graph), bool(case.graph.inputs)
    for kinds, inputs in _plans(held, has_inputs):
        cases = [seeded(case, seed, kinds=kinds, inputs=inputs, positive=p) for seed in SEEDS for p in (False, True)]
        found = yield from work.failing(cases)
        if found:
            work.trail.append(f"seeded {_told(held, kinds, inputs)}")
            return found[0], kinds != held, has_inputs and not inputs
    return case, bool(held), has_inputs


def _plans(held: frozenset[Kind], has_inputs: bool) -> Sequence[tuple[frozenset[Kind], bool]]:
    """Which kinds of weights are seeded, and whether inputs are, best first: integers may steer the program."""
    choices = dict.fromkeys([held, held & {Kind.FLOATS}, frozenset[Kind]()])
    every = [
        (kinds, inputs)
        for inputs in ((True, False) if has_inputs else (False,))
        for kinds in choices
        if kinds or inputs
    ]
    return sorted(every, key=lambda plan: not plan[0])


def _told(held: frozenset[Kind], kinds: frozenset[Kind], inputs: bool) -> str:
    weights = [] if not kinds else ["weights" if kinds == held else "weights of floats"]
    return " and ".join([*weights, *(["inputs"] if inputs else [])])
