"""Attention, composed."""

from __future__ import annotations

import numpy as np

from fornaxc.export.context import ExportContext, Tensor
from fornaxc.export.registry import export
from fornaxc.export.shape import input_type
from fornaxc.ir.ops import Attention
from fornaxc.ir.ops.attention import LAYOUTS


@export(Attention)
def _attention(
    c: ExportContext, op: Attention, q: Tensor, k: Tensor, v: Tensor, scale: Tensor, *rest: Tensor
) -> Tensor:
    rest, spare = (rest[:-1], rest[-1:]) if op.spare else (rest, ())
    heads, fewer = (input_type(c, i).shape[LAYOUTS[n][1]] for i, n in ((0, op.q), (1, op.k)))
    q, k, v = (_arranged(c, t, n) for t, n in ((q, op.q), (k, op.k), (v, op.v)))
    if heads != fewer:
        each = np.arange(int(str(heads))) * int(str(fewer)) // int(str(heads))
        k, v = (c.emit("Gather", t, c.literal(each), axis=1) for t in (k, v))
    scores = c.emit("Mul", c.emit("MatMul", q, c.emit("Transpose", k, perm=[0, 1, 3, 2])), scale)
    if len(rest) == 2:
        scores = c.select(rest[0], scores, rest[1])
    elif rest:
        scores = c.emit("Add", scores, rest[0])
    weights = c.emit("Softmax", scores, axis=3)
    for number in spare:
        weights = c.select(c.emit("IsNaN", weights), number, weights)
    return _arranged(c, c.emit("MatMul", weights, v), op.result)


def _arranged(c: ExportContext, x: Tensor, layout: str) -> Tensor:
    return x if layout == "bhlc" else c.emit("Transpose", x, perm=list(LAYOUTS[layout]))
