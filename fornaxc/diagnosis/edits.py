"""Smaller or simpler cases made of a case: a graph of a model with inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np

from fornaxc.export.shape import is_onnx_pad
from fornaxc.ir.dead import drop_dead
from fornaxc.ir.dims import Dim, DimExpr, symbols
from fornaxc.ir.dims import substitute as substitute_dim
from fornaxc.ir.graph import Array, Constant, Constraint, Graph, Node, Value
from fornaxc.ir.interpreter import trace
from fornaxc.ir.ops import Op, Pad
from fornaxc.ir.types import DType, TensorType
from fornaxc.verification.tolerances import Stated

SHAPE_FIELDS = frozenset({"shape", "sizes", "values", "size", "k"})  # fields of operations that hold sizes of tensors


@dataclass(frozen=True, slots=True)
class Case:
    """A graph and the inputs, in its order, on which it is checked; and what a user stated of its outputs, by element type."""

    graph: Graph
    inputs: tuple[Array, ...]
    stated: Mapping[DType, Stated] = field(default_factory=dict)

    @property
    def cost(self) -> tuple[int, int]:
        """What makes a case small: nodes, then elements of all values."""
        every = [*self.graph.inputs, *self.graph.constants, *(v for n in self.graph.walk() for v in n.outputs)]
        sizes = [d for v in every for d in v.type.shape if isinstance(d, int)]
        return sum(1 for _ in self.graph.walk()), sum(sizes)


def all_values(case: Case) -> dict[Value, Array]:
    """Every value of the top level that is not a constant, as the numpy interpreter computes it. Raises what the operations raise where it cannot."""
    found = dict(zip(case.graph.inputs, case.inputs, strict=True))
    for node, results, _ in trace(case.graph, case.inputs):
        found.update(zip(node.outputs, results, strict=True))
    return found


def window(case: Case, kept: Iterable[Node], values: Mapping[Value, Array]) -> Case:
    """The case of some nodes alone: what they read from others becomes inputs, or constants where it is made of such, and what others read of
    them outputs."""
    chosen = set(kept)
    nodes = [n for n in case.graph.nodes if n in chosen]
    made = {v for n in nodes for v in n.outputs}
    used = list(dict.fromkeys(v for n in nodes for v in (*n.inputs, *(c for r in n.regions for c in r.captures()))))
    constants = {v: case.graph.constants[v] for v in used if v in case.graph.constants}
    sources = [v for v in used if v not in made and v not in constants]
    inside = {v for n in nodes for v in n.inputs}
    outputs = [v for n in nodes for v in n.outputs if v not in inside]
    fresh = {v: Value(_input_type(v.type, values[v]), f"in{i}") for i, v in enumerate(sources)}
    settled = _settled(case.graph).intersection(sources)
    if len(settled) == len(sources):  # a program reads something
        settled = set()
    constants |= {fresh[v]: Constant(fresh[v].type, partial(values.__getitem__, v), literal=False) for v in settled}
    given = [v for v in sources if v not in settled]
    graph = Graph(
        tuple(fresh[v] for v in given),
        tuple(outputs),
        tuple(rename(n, fresh) for n in nodes),
        constants,
        tuple(f"out{i}" for i in range(len(outputs))),
        case.graph.constraints,
    )
    return replace(case, graph=graph, inputs=tuple(values[v] for v in given))


def _settled(graph: Graph) -> set[Value]:
    """The values of fixed shape that constants alone decide, constants not among them."""
    found: set[Value] = set()
    for node in graph.nodes:
        if node.inputs and not node.regions and all(v in found or v in graph.constants for v in node.inputs):
            found.update(v for v in node.outputs if v.type.is_static)
    return found


def _input_type(type: TensorType, array: Array) -> TensorType:
    """An input's dims are sizes or symbols alone: an expression becomes the size that it has."""
    dims = zip(type.shape, array.shape, strict=True)
    return type.with_shape(tuple(d if isinstance(d, int) or str(d).isidentifier() else s for d, s in dims))


def rename(node: Node, new: Mapping[Value, Value]) -> Node:
    """`node` reading the values in `new` in place of others, in its regions too."""
    regions = tuple(
        replace(r, nodes=tuple(rename(n, new) for n in r.nodes), outputs=tuple(new.get(v, v) for v in r.outputs))
        for r in node.regions
    )
    return replace(node, inputs=tuple(new.get(v, v) for v in node.inputs), regions=regions)


def bypassed(case: Case, node: Node) -> Case | None:
    """The case with an operand of the same type in place of the node's result; None where there is none."""
    if len(node.outputs) != 1 or node not in case.graph.nodes:
        return None
    stand_in = next((v for v in node.inputs if v.type == node.outputs[0].type), None)
    if stand_in is None or stand_in in case.graph.constants:
        return None
    new = {node.outputs[0]: stand_in}
    graph = case.graph
    nodes = tuple(rename(n, new) for n in graph.nodes if n is not node)
    outputs = tuple(new.get(v, v) for v in graph.outputs)
    return tidy(replace(case, graph=replace(graph, nodes=nodes, outputs=outputs)))


def with_outputs(case: Case, outputs: Iterable[Value]) -> Case:
    """The case with these outputs only."""
    chosen = tuple(dict.fromkeys(outputs))
    names = tuple(f"out{i}" for i in range(len(chosen)))
    return tidy(replace(case, graph=replace(case.graph, outputs=chosen, output_names=names)))


def tidy(case: Case) -> Case:
    """The case without dead nodes and unused inputs."""
    graph = drop_dead(case.graph)
    used = {
        *graph.outputs,
        *(v for n in graph.nodes for v in (*n.inputs, *(c for r in n.regions for c in r.captures()))),
    }
    named = {s for n in graph.walk() for v in n.outputs for d in v.type.shape for s in symbols(d)}
    kept = [
        (v, a)
        for v, a in zip(graph.inputs, case.inputs, strict=True)
        if v in used or any(s in named for d in v.type.shape for s in symbols(d))
    ]
    graph = replace(graph, inputs=tuple(v for v, _ in kept))
    return replace(case, graph=graph, inputs=tuple(a for _, a in kept))


# -- sizes


def resized(case: Case, old: int, new: int) -> Case | None:
    """The case with `new` in place of the size `old` everywhere, inputs and constants cut; None where it does not fit."""
    found = _with_dims(case, lambda d: new if d == old else d)
    return found if found is not None and all(map(_is_in_onnx, found.graph.nodes)) else None


def _is_in_onnx(node: Node) -> bool:
    return not isinstance(node.op, Pad) or is_onnx_pad(node.op, node.inputs[0].type)


def pinned(case: Case) -> Case | None:
    """The case with the sizes of its inputs in place of their symbols."""
    sizes: dict[str, Dim] = {}
    for value, array in zip(case.graph.inputs, case.inputs, strict=True):
        sizes.update((str(d), s) for d, s in zip(value.type.shape, array.shape, strict=True) if isinstance(d, DimExpr))
    return _with_dims(case, lambda d: substitute_dim(d, sizes))


def _with_dims(case: Case, change: Callable[[Dim], Dim]) -> Case | None:
    try:
        return _changed(case, change)
    except Exception:  # operations refuse sizes that do not fit in many ways
        return None


def _changed(case: Case, change: Callable[[Dim], Dim]) -> Case:
    graph, new, inputs, constants = case.graph, dict[Value, Value](), [], {}
    for value, array in zip(graph.inputs, case.inputs, strict=True):
        new[value] = Value(_changed_type(value.type, change), value.name)
        inputs.append(_cut(array, new[value].type))
    for value, constant in graph.constants.items():
        type = _changed_type(constant.type, change)
        new[value] = value if type == constant.type else Value(type, value.name)
        constants[new[value]] = constant if type == constant.type else _cut_constant(constant, type)
    nodes = []
    for node in graph.nodes:
        if node.regions:
            raise ValueError("sizes inside of control flow stay")
        op = _changed_op(node.op, change)
        operands = tuple(new[v] for v in node.inputs)
        results = tuple(
            Value(t, v.name) for t, v in zip(op.infer(*(v.type for v in operands)), node.outputs, strict=True)
        )
        new.update(zip(node.outputs, results, strict=True))
        nodes.append(Node(op, operands, results, node.origin))
    constraints = tuple(_changed_constraint(c, change) for c in graph.constraints)
    constraints = tuple(c for c in constraints if not (isinstance(c.left, int) and isinstance(c.right, int)))
    outputs = tuple(new[v] for v in graph.outputs)
    changed = Graph(
        tuple(new[v] for v in graph.inputs), outputs, tuple(nodes), constants, graph.output_names, constraints
    )
    return replace(case, graph=changed, inputs=tuple(inputs))


def _changed_constraint(constraint: Constraint, change: Callable[[Dim], Dim]) -> Constraint:
    return replace(constraint, left=change(constraint.left), right=change(constraint.right))


def _changed_type(type: TensorType, change: Callable[[Dim], Dim]) -> TensorType:
    return type.with_shape(tuple(change(d) for d in type.shape))


def _changed_op(op: Op, change: Callable[[Dim], Dim]) -> Op:
    new: dict[str, Any] = {}
    for part in fields(op):
        value = getattr(op, part.name)
        if part.name in SHAPE_FIELDS and isinstance(value, tuple):
            new[part.name] = tuple(change(d) for d in value)
        elif part.name in SHAPE_FIELDS and isinstance(value, DimExpr):
            new[part.name] = change(value)
        elif isinstance(value, tuple) and any(isinstance(d, DimExpr) for d in value):
            new[part.name] = tuple(change(d) if isinstance(d, DimExpr) else d for d in value)
    return replace(op, **new) if new else op


def _cut(array: Array, type: TensorType) -> Array:
    return np.ascontiguousarray(array[tuple(slice(0, d if isinstance(d, int) else None) for d in type.shape)]).reshape(
        [d if isinstance(d, int) else s for d, s in zip(type.shape, array.shape, strict=True)]
    )


def _cut_constant(constant: Constant, type: TensorType) -> Constant:
    return replace(constant, type=type, load=lambda: _cut(constant.load(), type))
