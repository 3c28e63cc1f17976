"""Arithmetic on small element types in wider ones: float32 for floats and extremes, a byte for other integers, rounded back once."""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Cast, Op, Pool, Reduce
from fornaxc.ir.small import is_direct
from fornaxc.ir.types import DType
from fornaxc.passes.rewrite import rewrite


def widen_small(graph: Graph) -> Graph:
    """`graph` where only conversions and what moves elements touch small types.

    Results round to nearest even and overflow as the type does (to infinity, NaN or the largest value); integers wrap around.
    """
    return rewrite(graph, _visit)


def _visit(node: Node, b: GraphBuilder) -> Sequence[Value] | None:
    if is_direct(node.op) or not any(v.type.dtype.is_small for v in (*node.inputs, *node.outputs)):
        return None
    operands = [b.emit(Cast(_wide(node.op, v.type.dtype)), v) if v.type.dtype.is_small else v for v in node.inputs]
    results = b.emit_all(node.op, *operands)
    return [
        b.emit(Cast(old.type.dtype, saturate=False), new) if old.type.dtype.is_small else new
        for old, new in zip(node.outputs, results, strict=True)
    ]


def _wide(op: Op, dtype: DType) -> DType:
    """Bytes wrap to narrower integers rightly, but the extremes of no elements do not: those saturate from f32."""
    if dtype.is_float or (isinstance(op, Reduce | Pool) and op.fn in ("max", "min")):
        return DType.F32
    return DType.I8 if dtype.is_signed else DType.U8
