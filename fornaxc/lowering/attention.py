"""Attention through the CPU's own kernel."""

from __future__ import annotations

import numpy as np
from max.dtype import DType
from max.graph import TensorValue, ops

from fornaxc.ir.ops import Attention
from fornaxc.ir.ops.attention import LAYOUTS
from fornaxc.lowering.context import LoweringContext
from fornaxc.lowering.registry import lower


@lower(Attention, on="cpu")
def _attention(
    c: LoweringContext,
    op: Attention,
    q: TensorValue,
    k: TensorValue,
    v: TensorValue,
    scale: TensorValue,
    *rest: TensorValue,
) -> TensorValue:
    zero = c.scalar(0.0, DType.float32)
    rest, spare = (rest[:-1], rest[-1]) if op.spare else (rest, zero)
    kind = len(rest)  # none, one that is added, one that chooses
    mask = ops.cast(rest[0], DType.float32) if rest else q
    fill = rest[1] if kind == 2 else zero
    numbers = ops.concat([ops.reshape(n, [1]) for n in (scale, fill, spare)], 0)
    names = list(LAYOUTS)
    flags = [*(names.index(n) for n in (op.q, op.k, op.v, op.result)), kind, int(op.spare)]
    operands = [q, k, v, mask, numbers, c.literal(np.array(flags, np.int64))]
    return c.custom("fx_attention", operands, [c.out_type()])[0]
