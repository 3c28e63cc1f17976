"""What constants tell of the values that decide which way a program goes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fornaxc.ir.builder import FOLD_ELEMENTS
from fornaxc.ir.dims import static
from fornaxc.ir.graph import Array, Constant, Graph, Node, Value
from fornaxc.ir.ops import (
    Binary,
    BroadcastTo,
    Cast,
    Concat,
    Dims,
    Gather,
    NotFoldable,
    Reshape,
    Select,
    Slice,
    Transpose,
    Unary,
)
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.constness import evaluable

_MOVES = (BroadcastTo, Concat, Gather, Reshape, Select, Slice, Transpose)
_EXACT = {"add", "sub", "mul", "min", "max", "neg", "abs", "ceil", "floor", "round", "trunc", "relu", "sign"}


class Contents:
    """The content of the values of a graph and its regions, as far as constants determine it by steps that are the same on every device.

    Weights count, which are read only where something is asked that depends on them. Tensors of more than `FOLD_ELEMENTS` elements are
    not looked into. Dims are an object array.
    """

    def __init__(self, graph: Graph) -> None:
        self._constants: dict[Value, Constant] = {}
        self._makers: dict[Value, Node] = {}
        self._found: dict[Value, Array | None] = {}
        self._note(graph)

    def _note(self, graph: Graph) -> None:
        self._constants.update(graph.constants)
        for node in graph.nodes:
            self._makers.update((v, node) for v in node.outputs)
            for region in node.regions:
                self._note(region)

    def literal(self, value: Value) -> Array | None:
        """The content of a constant that is part of the program."""
        constant = self._constants.get(value)
        return constant.load() if constant is not None and constant.literal else None

    def of(self, value: Value) -> Array | None:
        """The content of a value, None where it is not known."""
        waiting = [value]
        while waiting:
            asked = waiting[-1]
            missing = self._settle(asked) if asked not in self._found else []
            waiting += missing
            if not missing:
                waiting.pop()
        return self._found[value]

    def _settle(self, value: Value) -> list[Value]:
        """Find the content of a value, or say which operands must be found before."""
        node = self._makers.get(value)
        if value in self._constants:
            self._found[value] = self._constants[value].load() if _is_small(value.type) else None
        elif node is None or not _followed(node):
            self._found[value] = None
        else:
            missing = [v for v in node.inputs if v not in self._found]
            if missing:
                return missing
            results = evaluated(node, [self._found[v] for v in node.inputs])
            self._found.update(zip(node.outputs, results, strict=True))
        return []

    def results(self, region: Graph, arguments: Sequence[Array | None]) -> list[Array | None]:
        """What a region yields for these arguments, each None where it is not known."""
        known: dict[Value, Array | None] = dict(zip(region.inputs, arguments, strict=True))

        def content(value: Value) -> Array | None:
            return known[value] if value in known else self.of(value)

        for node in region.nodes:
            known.update(zip(node.outputs, evaluated(node, [content(v) for v in node.inputs]), strict=True))
        return [content(v) for v in region.outputs]


def evaluated(node: Node, operands: Sequence[Array | None]) -> Sequence[Array | None]:
    """The results of a node for operands of which some may be unknown; each None where it is not known."""
    nothing = (None,) * len(node.outputs)
    arrays = [a for a in operands if a is not None]
    if len(arrays) < len(operands) or not _followed(node):
        return nothing
    if isinstance(node.op, Dims):
        values = np.empty(len(node.op.values), object)
        values[:] = node.op.values
        return (values if any(not isinstance(v, int) for v in node.op.values) else values.astype(np.int64),)
    try:
        return node.op.evaluate(*arrays)
    except (NotFoldable, IndexError):
        return nothing


def _followed(node: Node) -> bool:
    """Whether a node is small and gives the same elements wherever it is computed."""
    if not all(_is_small(v.type) for v in node.outputs):
        return False
    if isinstance(node.op, Dims):
        return True
    if not evaluable(node):
        return False
    if not any(v.type.dtype.is_float for v in node.outputs) or isinstance(node.op, _MOVES):
        return True
    if not all(v.type.dtype in (DType.F32, DType.F64) for v in node.outputs):
        return False
    return isinstance(node.op, Cast) or (isinstance(node.op, Binary | Unary) and node.op.fn in _EXACT)


def _is_small(type: TensorType) -> bool:
    return type.is_static and static(type.elements) <= FOLD_ELEMENTS
