"""A case without the names of its source: of nodes, values, inputs, outputs and dims, in the bodies of control flow too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from fornaxc.diagnosis.edits import Case
from fornaxc.ir.dims import Dim, DimExpr, substitute, symbol, symbols
from fornaxc.ir.graph import Graph, Node, Origin, Value
from fornaxc.ir.ops import Op
from fornaxc.ir.types import TensorType


def anonymous(case: Case) -> Case:
    """The case with names of its own: in0, ... and out0, ..., and n0, ... for the sizes that have names. Origins keep their operators."""
    names = dict.fromkeys(_symbols(case.graph))
    dims: dict[str, Dim] = {name: symbol(f"n{i}") for i, name in enumerate(names)}
    return replace(case, graph=_Names(dims).top(case.graph))


def _symbols(graph: Graph) -> Iterator[str]:
    """The names of sizes wherever a graph has them, some again and again."""
    for value in (*graph.inputs, *graph.constants, *graph.outputs):
        yield from _symbols_in(value.type)
    for node in graph.nodes:
        yield from _symbols_in(tuple(getattr(node.op, part.name) for part in fields(node.op)))
        yield from (name for value in node.outputs for name in _symbols_in(value.type))
        yield from (name for region in node.regions for name in _symbols(region))
    yield from (name for c in graph.constraints for name in _symbols_in((c.left, c.right)))


def _symbols_in(item: Any) -> Iterator[str]:
    if isinstance(item, DimExpr):
        yield from sorted(symbols(item))
    elif isinstance(item, TensorType | tuple):
        for part in item.shape if isinstance(item, TensorType) else item:
            yield from _symbols_in(part)


class _Names:
    """Rewrites a graph with other names of sizes; `_new` has what became of each value, those of the graphs around too."""

    def __init__(self, dims: Mapping[str, Dim]) -> None:
        self._dims = dims
        self._new: dict[Value, Value] = {}

    def top(self, graph: Graph) -> Graph:
        """The whole graph, whose inputs and outputs have names."""
        for number, value in enumerate(graph.inputs):
            self._define(value, f"in{number}")
        return replace(self._body(graph), output_names=tuple(f"out{i}" for i in range(len(graph.outputs))))

    def _body(self, graph: Graph) -> Graph:
        inputs = tuple(self._define(v) for v in graph.inputs)
        constants = {self._define(v): replace(c, name="") for v, c in graph.constants.items()}
        nodes = tuple(self._node(n) for n in graph.nodes)
        constraints = tuple(
            replace(c, left=self._in(c.left), right=self._in(c.right), why="a condition of the model")
            for c in graph.constraints
        )
        return Graph(inputs, tuple(self._new[v] for v in graph.outputs), nodes, constants, (), constraints)

    def _node(self, node: Node) -> Node:
        operands = tuple(self._new[v] for v in node.inputs)
        regions = tuple(self._body(r) for r in node.regions)
        results = tuple(self._define(v) for v in node.outputs)
        return Node(self._op(node.op), operands, results, Origin("", node.origin.op, node.origin.opset), regions)

    def _define(self, value: Value, name: str = "") -> Value:
        return self._new.setdefault(value, Value(self._in(value.type), name))

    def _op(self, op: Op) -> Op:
        old = {part.name: getattr(op, part.name) for part in fields(op)}
        new = {name: self._in(value) for name, value in old.items()}
        return replace(op, **new) if new != old else op

    def _in(self, item: Any) -> Any:
        """A dim, a type, or a tuple of such, with the other names; anything else is as it was."""
        if isinstance(item, DimExpr):
            return substitute(item, self._dims)
        if isinstance(item, TensorType):
            return item.with_shape(self._in(item.shape))
        return tuple(self._in(part) for part in item) if isinstance(item, tuple) else item
