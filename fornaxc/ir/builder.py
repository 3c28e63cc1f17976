"""Builds graphs: infers types, folds what is known, and remembers the values of small integer tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

import numpy as np

from fornaxc.ir.dims import Dim, DimExpr, static, symbol, symbols_of
from fornaxc.ir.graph import Constant, Constraint, Graph, Node, Origin, Value
from fornaxc.ir.ops import Dims, NotFoldable, Op, Reshape
from fornaxc.ir.types import DType, TensorType, dtype_of

Array = np.ndarray[Any, np.dtype[Any]]

FOLD_ELEMENTS = 4096  # larger results are left to the packing of weights, or to run time


class GraphBuilder:
    """Accumulates nodes of one graph or region.

    `known(value)` is the content of a value where the program determines it: a numpy array, or an object array of dims for
    arithmetic on shapes. Nodes whose operands are all known are folded as they are emitted.
    """

    def __init__(self, parent: GraphBuilder | None = None) -> None:
        self.parent = parent
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.constants: dict[Value, Constant] = {}
        self.constraints: list[Constraint] = parent.constraints if parent else []
        self.origin = Origin()
        self._required: set[Constraint] = parent._required if parent else set()
        self._input_symbols: set[str] = parent._input_symbols if parent else set()
        self._known: dict[Value, Array] = {}
        self._dims: dict[tuple[Dim, ...], Value] = {}
        self._fresh: list[int] = parent._fresh if parent else [0]
        self._taken: set[str] = parent._taken if parent else set()
        self._unread: list[Graph] = parent._unread if parent else []  # their symbols are taken too

    @classmethod
    def resume(cls, graph: Graph, parent: GraphBuilder | None = None) -> GraphBuilder:
        """A builder that starts with the inputs, constants and conditions of `graph`, for a pass to add nodes to."""
        b = cls(parent)
        b.inputs = list(graph.inputs)
        b._name_inputs(graph.inputs)
        b.constants = dict(graph.constants)
        b._known = {v: c.load() for v, c in graph.constants.items() if c.literal}
        if parent is None:
            b.constraints = list(graph.constraints)
            b._unread.append(graph)
        return b

    def keep(self, node: Node) -> None:
        """Add a node as it is."""
        self.nodes.append(node)
        if isinstance(node.op, Dims):
            self._known[node.outputs[0]] = _object_array(node.op.values, (len(node.op.values),))

    def input(self, type: TensorType, name: str = "") -> Value:
        value = Value(type, name)
        self.inputs.append(value)
        self._name_inputs((value,))
        return value

    def _name_inputs(self, values: Sequence[Value]) -> None:
        if self.parent is None:
            for value in values:
                self._input_symbols |= symbols_of(value.type.shape)

    def reserve(self, names: Set[str]) -> None:
        """Symbol names that `fresh_dim` must not return."""
        self._taken |= names

    def _reserve_all(self, graph: Graph) -> None:
        for value in (*graph.inputs, *(v for node in graph.walk() for v in node.outputs)):
            self.reserve(symbols_of(value.type.shape))

    def input_symbols(self) -> Set[str]:
        """The names of the dims that the top-level inputs bring."""
        return self._input_symbols

    def fresh_dim(self, hint: str = "u") -> DimExpr:
        """A new symbol, for a size that only the run time knows."""
        while self._unread:
            self._reserve_all(self._unread.pop())
        while f"{hint}{self._fresh[0]}" in self._taken:
            self._fresh[0] += 1
        name = f"{hint}{self._fresh[0]}"
        self._taken.add(name)
        return symbol(name)

    def require(self, left: Dim, relation: str, right: Dim, why: str) -> None:
        """Record a condition on the input sizes, checked before each run."""
        constraint = Constraint(left, relation, right, why)
        if len(self._required) != len(self.constraints):  # some were taken back
            self._required.clear()
            self._required.update(self.constraints)
        if constraint not in self._required:
            self._required.add(constraint)
            self.constraints.append(constraint)

    def literal(self, array: Array, name: str = "") -> Value:
        """A constant that is part of the program."""
        array = np.asarray(array)
        value = self._constant(TensorType(dtype_of(array.dtype), array.shape), lambda: array, True, name)
        self._known[value] = array
        return value

    def weight(self, type: TensorType, load: Callable[[], Array], name: str = "") -> Value:
        """A constant whose bytes stay outside the program, if there are any: MAX takes no empty one from there."""
        if 0 in type.shape:
            return self.literal(np.zeros([static(d) for d in type.shape], type.dtype.numpy), name)
        return self._constant(type, load, False, name)

    def adopt(self, constant: Constant) -> Value:
        """A constant of another graph, as it is."""
        value = Value(constant.type, constant.name)
        self.constants[value] = constant
        if constant.literal:
            self._known[value] = constant.load()
        return value

    def _constant(self, type: TensorType, load: Callable[[], Array], literal: bool, name: str) -> Value:
        value = Value(type, name)
        self.constants[value] = Constant(type, load, literal, name)
        return value

    def dims(self, values: Sequence[Dim]) -> Value:
        """The i64 vector of these dims."""
        key = tuple(values)
        if key not in self._dims:
            if all(isinstance(v, int) for v in key):
                self._dims[key] = self.literal(np.array(key, np.int64).reshape(len(key)))
            else:
                value = Value(TensorType(DType.I64, (len(key),)))
                self.nodes.append(Node(Dims(key), (), (value,), self.origin))
                self._known[value] = _object_array(key, (len(key),))
                self._dims[key] = value
        return self._dims[key]

    def known(self, value: Value) -> Array | None:
        """What is known of the content of `value`; None where nothing is."""
        found = self._known.get(value)
        if found is None and self.parent is not None:
            return self.parent.known(value)
        return found

    def learn(self, value: Value, content: Array) -> None:
        """Record what is known of the content of `value`: numbers, or dims that other nodes of this graph bind to sizes."""
        self._known[value] = content

    def emit(self, op: Op, *operands: Value, regions: tuple[Graph, ...] = (), name: str = "") -> Value:
        """Apply an operation with one result."""
        (result,) = self.emit_all(op, *operands, regions=regions, names=(name,))
        return result

    def emit_all(
        self, op: Op, *operands: Value, regions: tuple[Graph, ...] = (), names: tuple[str, ...] = ()
    ) -> tuple[Value, ...]:
        """Apply an operation; `IrError` where the types do not fit. Folds where all operands are known."""
        types = op.infer(*[v.type for v in operands])
        folded = self._fold(op, operands, types)
        if folded is not None:
            return folded
        labels = (*names, *("",) * (len(types) - len(names)))
        results = tuple([Value(t, n) for t, n in zip(types, labels, strict=True)])
        self.nodes.append(Node(op, operands, results, self.origin, regions))
        return results

    def _fold(self, op: Op, operands: tuple[Value, ...], types: tuple[TensorType, ...]) -> tuple[Value, ...] | None:
        arrays = []
        for operand in operands:
            content = self.known(operand)
            if content is None:
                return None
            arrays.append(content)
        if not operands or op.regions or not all(t.is_static for t in types):
            return None
        if any(static(t.elements) > FOLD_ELEMENTS for t in types):
            return None
        try:
            results = op.evaluate(*arrays)
        except (NotFoldable, IndexError):  # an index out of bounds, perhaps in a branch that is not taken
            return None
        return tuple(self._folded(a, t) for a, t in zip(results, types, strict=True))

    def _folded(self, array: Array, type: TensorType) -> Value:
        if array.dtype != object:
            return self.literal(array)
        flat = array.reshape(-1).tolist()
        if all(isinstance(v, int) for v in flat):
            return self.literal(np.array(flat, type.dtype.numpy).reshape(array.shape))
        value = self.dims(flat)
        if type.dtype is not DType.I64:
            from fornaxc.ir.ops import Cast

            cast = Value(value.type.with_dtype(type.dtype))
            self.nodes.append(Node(Cast(type.dtype), (value,), (cast,), self.origin))
            value = cast
        if array.ndim != 1:
            shaped = Value(type)
            self.nodes.append(Node(Reshape(type.shape), (value,), (shaped,), self.origin))
            value = shaped
        self._known[value] = _object_array(flat, array.shape)
        return value

    def finish(self, outputs: Sequence[Value], names: Sequence[str] = ()) -> Graph:
        """The graph; nodes that nothing uses are left out."""
        from fornaxc.ir.dead import drop_dead

        constraints = () if self.parent else tuple(self.constraints)
        graph = Graph(
            tuple(self.inputs),
            tuple(outputs),
            tuple(self.nodes),
            dict(self.constants),
            tuple(names),
            constraints,
        )
        return drop_dead(graph)


def _object_array(values: Sequence[Any], shape: tuple[int, ...]) -> Array:
    array = np.empty(len(values), object)
    array[:] = list(values)
    return array.reshape(shape)
