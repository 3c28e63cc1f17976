"""Graphs: values, constants and nodes in topological order. Nothing here is mutated; passes rebuild."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fornaxc.ir.dims import Dim
from fornaxc.ir.ops.base import Op
from fornaxc.ir.types import TensorType

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a node came from in the source model. For messages only; never part of a digest."""

    node: str = ""
    op: str = ""
    opset: int = 0

    def __str__(self) -> str:
        return f"{self.op} {self.node!r}" if self.node else self.op


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """One tensor of a graph, compared by identity. `name` is the source's name, for messages only."""

    type: TensorType
    name: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A tensor known when the model is.

    `literal` constants are part of the program: their bytes are in the graph's digest and in the compiled code. The others are weights:
    only their type is in the digest, and `load` reads their bytes when something needs them. `parts`, where there is such a way, gives
    the same elements in their order as 1-D arrays, so that the whole need never be in memory.
    """

    type: TensorType
    load: Callable[[], Array]
    literal: bool
    name: str = ""
    parts: Callable[[], Iterator[Array]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One operation applied to values. `regions` are the bodies of control flow."""

    op: Op
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    origin: Origin = Origin()
    regions: tuple[Graph, ...] = ()


@dataclass(frozen=True, slots=True)
class Constraint:
    """`left` >= `right` or `left` == `right`, a condition on the input sizes that the run time checks; `why` is for the user."""

    left: Dim
    relation: str
    right: Dim
    why: str

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """`nodes` in topological order; `inputs` and `outputs` are named for the top-level graph, '' in regions."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[Value, Constant] = field(default_factory=dict)
    output_names: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(v.name for v in self.inputs)

    def walk(self) -> Iterator[Node]:
        """Every node, those of regions before the node that holds them."""
        for node in self.nodes:
            for region in node.regions:
                yield from region.walk()
            yield node

    def captures(self) -> tuple[Value, ...]:
        """The values that the graph uses but does not define, in order of first use (a region's outer values)."""
        defined = {*self.inputs, *self.constants}
        found: dict[Value, None] = {}
        for node in self.nodes:
            used = [*node.inputs, *(v for region in node.regions for v in region.captures())]
            found.update((v, None) for v in used if v not in defined)
            defined.update(node.outputs)
        found.update((v, None) for v in self.outputs if v not in defined)
        return tuple(found)
