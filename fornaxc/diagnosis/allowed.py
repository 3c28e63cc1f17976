"""How far the values of a program may be from their references: as far as `verify` lets outputs be that are computed in the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Array, Graph, Node, Value
from fornaxc.ir.types import DType
from fornaxc.verification.compare import Tolerance
from fornaxc.verification.precision import computed_in
from fornaxc.verification.reductions import addition_counts
from fornaxc.verification.tolerances import Stated, Tolerances, tolerances_of

Allowed = Callable[[DType], Tolerance]
"""The tolerance of a value of an element type."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a user chose in place of what a graph justifies: `rtol` and `atol` for all values, else what is `stated` of some."""

    rtol: float | None = None
    atol: float | None = None
    stated: Mapping[Value, Stated] = field(default_factory=dict)


DEFAULT = Chosen()


def stated_before(graph: Graph, stated: Mapping[str, Stated]) -> dict[Value, Stated]:
    """What is stated of outputs, by name, holds for the values of the same element type that they are computed from too; where a value leads to
    several outputs, only if something is stated of each, and then one of these."""
    reached: dict[Value, tuple[Stated, DType] | None] = {}

    def reach(value: Value, found: tuple[Stated, DType] | None) -> None:
        known = reached.get(value, found)
        reached[value] = found and known and (known if known[1] is value.type.dtype else found)

    ends = list(zip(graph.output_names, graph.outputs, strict=True))
    for name, value in ends:
        reach(value, (stated[name], value.type.dtype) if name in stated else None)
    for node in reversed(graph.nodes if stated else ()):
        for found in [reached[v] for v in node.outputs if v in reached]:
            for value in (*node.inputs, *(v for r in node.regions for v in r.captures())):
                reach(value, found)
    before = {v: found[0] for v, found in reached.items() if found is not None and found[1] is v.type.dtype}
    return {**before, **{value: stated[name] for name, value in ends if name in stated}}


class AllowedErrors:
    """Of the values of `graph` on a sample of inputs: behind everything before them, and by one node alone."""

    def __init__(self, graph: Graph, inputs: Sequence[Array], chosen: Chosen = DEFAULT):
        values = tuple(dict.fromkeys([*(v for node in graph.nodes for v in node.outputs), *graph.outputs]))
        self._names = {value: str(number) for number, value in enumerate(values)}
        every = replace(graph, outputs=values, output_names=tuple(self._names.values()))
        stated = {self._names[v]: what for v, what in chosen.stated.items() if v in self._names}
        self._chosen = Tolerances(chosen.rtol, chosen.atol, stated)
        so_far = replace(tolerances_of(every, chosen.rtol, chosen.atol), stated=stated)
        self._so_far = so_far.at(dict(zip(graph.input_names, inputs, strict=True)))

    def so_far(self, value: Value) -> Allowed:
        """Of a value that was computed from the inputs."""
        return partial(self._so_far, self._names[value])

    def alone(self, node: Node, sizes: Mapping[str, Dim]) -> Allowed:
        """Of the results of one node on operands that are given; `sizes` are those of the symbols."""
        single = Graph(node.inputs, node.outputs, (node,), output_names=tuple(self._names[v] for v in node.outputs))
        lengths = addition_counts(single, sizes)
        tolerances = replace(self._chosen, computed=computed_in(single), lengths=lengths)
        return partial(tolerances, self._names[node.outputs[0]])
