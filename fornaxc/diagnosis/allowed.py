"""How far the values of a program may be from their references: as far as `verify` lets outputs be that are computed in the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Array, Graph, Node, Value
from fornaxc.ir.types import DType
from fornaxc.verification.compare import Tolerance
from fornaxc.verification.precision import computed_in
from fornaxc.verification.reductions import addition_counts
from fornaxc.verification.tolerances import Tolerances, tolerances_of

Allowed = Callable[[DType], Tolerance]
"""The tolerance of a value of an element type."""


class AllowedErrors:
    """Of the values of `graph` on a sample of inputs: behind everything before them, and by one node alone.

    `rtol` and `atol` take the place of what the graph justifies.
    """

    def __init__(self, graph: Graph, inputs: Sequence[Array], rtol: float | None = None, atol: float | None = None):
        self._rtol, self._atol = rtol, atol
        values = tuple(dict.fromkeys([*(v for node in graph.nodes for v in node.outputs), *graph.outputs]))
        self._names = {value: str(number) for number, value in enumerate(values)}
        every = replace(graph, outputs=values, output_names=tuple(self._names.values()))
        self._so_far = tolerances_of(every, rtol, atol).at(dict(zip(graph.input_names, inputs, strict=True)))

    def so_far(self, value: Value) -> Allowed:
        """Of a value that was computed from the inputs."""
        return partial(self._so_far, self._names[value])

    def alone(self, node: Node, sizes: Mapping[str, Dim]) -> Allowed:
        """Of the results of one node on operands that are given; `sizes` are those of the symbols."""
        single = Graph(node.inputs, node.outputs, (node,), output_names=tuple(self._names[v] for v in node.outputs))
        lengths = addition_counts(single, sizes)
        tolerances = Tolerances(self._rtol, self._atol, computed=computed_in(single), lengths=lengths)
        return partial(tolerances, self._names[node.outputs[0]])
