"""What passes that recognise composed forms ask: what a value is made of, and which number a constant holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Constant, Graph, Node, Value
from fornaxc.ir.ops import Binary, BroadcastTo, Cast, Op, Rebind, Reduce, Reshape, Transpose, Unary
from fornaxc.ir.types import DType
from fornaxc.passes.rewrite import rewrite

Pair = tuple[Value, Value]
Scaled = tuple[Value, float]


class Forms:
    """Follows a pass through a graph and its bodies. A value that it has not seen made is made of nothing."""

    def __init__(self, graph: Graph) -> None:
        self._made: dict[Value, Node] = {}
        self._constants: dict[Value, Constant] = dict(graph.constants)
        for node in graph.walk():
            for region in node.regions:
                self._constants.update(region.constants)
        self._numbers: dict[Value, np.ndarray | None] = {}

    def see(self, *nodes: Node) -> None:
        for node in nodes:
            for value in node.outputs:
                self._made[value] = node

    def is_constant(self, value: Value) -> bool:
        """Whether a value is a constant of the graph, reshaped or not."""
        return self.flat(value) in self._constants

    def made_by(self, value: Value, *ops: type[Op]) -> bool:
        """Whether one of these operations made a value."""
        node = self._made.get(value)
        return node is not None and isinstance(node.op, ops)

    def node(self, value: Value, *ops: type[Op]) -> Node | None:
        """The node that made a value, where it is of one of these operations."""
        return self._made[value] if self.made_by(value, *ops) else None

    def unary(self, value: Value, fn: str) -> Value | None:
        """The operand, where `value` is `fn` of it."""
        node = self._made.get(value)
        return node.inputs[0] if node is not None and isinstance(node.op, Unary) and node.op.fn == fn else None

    def binary(self, value: Value, fn: str) -> Pair | None:
        """The operands, where `value` is `fn` of two."""
        found = self.arithmetic(value, (fn,))
        return None if found is None else found[1]

    def arithmetic(self, value: Value, functions: Sequence[str]) -> tuple[str, Pair] | None:
        """The function and the operands, where `value` is one of these functions of two."""
        node = self._made.get(value)
        if node is None or not isinstance(node.op, Binary) or node.op.fn not in functions:
            return None
        left, right = node.inputs
        return node.op.fn, (left, right)

    def either(self, value: Value, fn: str) -> tuple[Pair, ...]:
        """The operands of a commutative `fn` in both orders; none where `value` is not one."""
        found = self.binary(value, fn)
        return () if found is None else (found, found[::-1])

    def reduced(self, value: Value, fn: str) -> tuple[Value, tuple[int, ...]] | None:
        """What `value`, reshaped or not, reduces by `fn`, and over which axes."""
        node = self._made.get(self.flat(value))
        return (node.inputs[0], node.op.axes) if node and isinstance(node.op, Reduce) and node.op.fn == fn else None

    def flat(self, value: Value) -> Value:
        """The value of which `value` is a reshape: the same elements in the same order."""
        while (node := self._made.get(value)) is not None and isinstance(node.op, Reshape):
            value = node.inputs[0]
        return value

    def repeated(self, value: Value) -> Value | None:
        """The operand of the broadcast that made a value."""
        node = self._made.get(value)
        return node.inputs[0] if node is not None and isinstance(node.op, BroadcastTo) else None

    def along(self, value: Value, axes: Sequence[int]) -> Value | None:
        """What a value repeats along these axes, which are of size 1 there, and along no other."""
        inner = self.repeated(value)
        kept = tuple([1 if i in axes else d for i, d in enumerate(value.type.shape)])
        return inner if inner is not None and inner.type.shape == kept else None

    def number(self, value: Value) -> float | None:
        """What a constant holds in every element. None for another value, and for a weight of several elements, which is not read."""
        casts: list[Cast] = []
        while (node := self._made.get(value)) is not None:
            if isinstance(node.op, Cast):
                casts.append(node.op)
            elif not isinstance(node.op, Reshape | BroadcastTo | Rebind | Transpose):
                return None
            value = node.inputs[0]
        array = self._uniform(value)
        if array is None:
            return None
        for cast in reversed(casts):
            (array,) = cast.evaluate(array)
        return float(array)

    def _uniform(self, value: Value) -> np.ndarray | None:
        """The one number of a constant, of rank 0."""
        constant = self._constants.get(value)
        if constant is None or not (constant.literal or constant.type.elements == 1) or constant.type.elements == 0:
            return None
        if value not in self._numbers:
            array = np.asarray(constant.load()).reshape(-1)
            self._numbers[value] = array[0] if np.all(array == array[0]) else None
        return self._numbers[value]

    def scaled(self, value: Value) -> Scaled | None:
        """The operand and the factor, where `value` is a product with a number or a quotient by one."""
        for operand, other in self.either(value, "mul"):
            factor = self.number(other)
            if factor is not None:
                return operand, factor
        quotient = self.binary(value, "div")
        divisor = self.number(quotient[1]) if quotient else None
        return (quotient[0], 1 / divisor) if quotient and divisor else None

    def shifted(self, value: Value) -> Scaled | None:
        """The operand and the number, where `value` is a sum with a number."""
        for operand, other in self.either(value, "add"):
            number = self.number(other)
            if number is not None:
                return operand, number
        return None

    def power(self, value: Value) -> Scaled | None:
        """The operand and the exponent, where `value` is a power with a number, or a product of two equal values."""
        product, power = self.binary(value, "mul"), self.binary(value, "pow")
        if product is not None and product[0] is product[1]:
            return product[0], 2.0
        exponent = self.number(power[1]) if power else None
        return (power[0], exponent) if power and exponent is not None else None

    def inverse(self, value: Value) -> Value | None:
        """The operand, where `value` is 1 over it."""
        quotient = self.binary(value, "div")
        if quotient is not None:
            return quotient[1] if self.number(quotient[0]) == 1 else None
        power = self.power(value)
        return power[0] if power is not None and power[1] == -1 else None


Find = Callable[[Value, GraphBuilder, Forms], Value | None]


def replace_forms(graph: Graph, find: Find) -> Graph:
    """`graph` and its bodies with every result of a `Binary` for which `find` emits another value replaced by that."""
    forms = Forms(graph)

    def visit(node: Node, b: GraphBuilder) -> tuple[Value] | None:
        first = len(b.nodes)
        forms.see(node)
        found = find(node.outputs[0], b, forms) if isinstance(node.op, Binary) else None
        if found is None:
            return None
        forms.see(*b.nodes[first:])
        return (found,)

    return rewrite(graph, visit)


_NAMED = (Unary, Binary, Reduce)


def functions(graph: Graph) -> frozenset[str]:
    """The names of the elementwise functions and reductions that a graph and its bodies apply."""
    found: set[str] = set()
    for node in graph.nodes:
        op = node.op
        if isinstance(op, _NAMED):
            found.add(op.fn)
        for region in node.regions:
            found |= functions(region)
    return frozenset(found)


def rounding(dtype: DType) -> float:
    """The gap between 1 and the next number of a float type: twice what rounding may change, relatively."""
    return float(ml_dtypes.finfo(dtype.numpy).eps)


def is_close(found: float, wanted: float, dtype: DType) -> bool:
    """Whether `found` is `wanted` but for the rounding of two numbers of a type."""
    return math.isfinite(found) and abs(found - wanted) <= rounding(dtype) * abs(wanted)
