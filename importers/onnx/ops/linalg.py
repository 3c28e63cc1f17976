"""Determinants."""

from __future__ import annotations

from fornaxc.importers.onnx.context import NodeContext, Refused
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.types import DType

_LARGEST = 4


@onnx_op("Det", 11, 22)
def det(ctx: NodeContext) -> Value:
    """Of each matrix, by expansion along its first row."""
    x = ctx.input(0)
    ctx.require(x.type.rank >= 2, f"Det of {x.type}, which is no matrix")
    rows, columns = x.type.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int) or max(rows, columns) > _LARGEST:
        raise Refused(f"the determinant of {rows} x {columns} matrices (at most {_LARGEST} x {_LARGEST})")
    ctx.require(rows == columns and rows > 0, f"Det of {x.type}, whose matrices are not square")
    wide = c.cast(ctx.b, x, DType.F64 if x.type.dtype is DType.F64 else DType.F32)
    return c.cast(ctx.b, _determinant(ctx.b, wide, 0, tuple(range(rows))), x.type.dtype)


def _determinant(b: GraphBuilder, x: Value, row: int, columns: tuple[int, ...]) -> Value:
    """Of the rows from `row` on and these columns."""
    total: Value | None = None
    for place, column in enumerate(columns):
        term = _entry(b, x, row, column)
        if len(columns) > 1:
            rest = _determinant(b, x, row + 1, (*columns[:place], *columns[place + 1 :]))
            term = c.binary(b, "mul", term, rest)
        total = term if total is None else c.binary(b, "sub" if place % 2 else "add", total, term)
    assert total is not None
    return total


def _entry(b: GraphBuilder, x: Value, row: int, column: int) -> Value:
    rank = x.type.rank
    one = c.slice_axis(b, c.slice_axis(b, x, rank - 2, row, 1), rank - 1, column, 1)
    return c.reshape(b, one, x.type.shape[:-2])
