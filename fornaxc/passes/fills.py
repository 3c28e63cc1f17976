"""Arithmetic on tensors that hold one number everywhere is done once, on that number."""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Binary, BroadcastTo, Cast, Compare, Reshape, Select, Transpose, Unary
from fornaxc.passes.rewrite import rewrite


def fold_fills(graph: Graph) -> Graph:
    """`graph` where what is computed, element by element, from repeated literals of one element is a repeated literal.

    Whatever their size: those of few elements were folded as the graph was built, and those of symbolic size cannot be.
    """
    fills: dict[Value, Value] = {}  # a tensor that repeats a literal: that literal, of the same rank

    def visit(node: Node, b: GraphBuilder) -> Sequence[Value] | None:
        match node.op:
            case BroadcastTo():
                if _is_one_number(node.inputs[0], b):
                    fills[node.outputs[0]] = node.inputs[0]
                return None
            case Unary() | Binary() | Compare() | Select() | Cast() | Reshape() | Transpose():
                if not all(v in fills for v in node.inputs):
                    return None
            case _:
                return None
        number = _number(node, b, [fills[v] for v in node.inputs])
        if number is None:
            return None
        shape = node.outputs[0].type.shape
        result = b.emit(BroadcastTo(shape), number) if shape else number
        fills[result] = number
        return [result]

    return rewrite(graph, visit)


def _number(node: Node, b: GraphBuilder, operands: Sequence[Value]) -> Value | None:
    """The one number of a result, of its rank; None where it cannot be folded, as in a division by zero of integers."""
    if isinstance(node.op, Reshape | Transpose):
        ones: tuple[Dim, ...] = (1,) * node.outputs[0].type.rank
        return compose.reshape(b, operands[0], ones)
    number = b.emit(node.op, *operands)
    return number if _is_one_number(number, b) else None


def _is_one_number(value: Value, b: GraphBuilder) -> bool:
    content = b.known(value)
    return content is not None and content.dtype != object and content.size == 1
