"""Keeps alive the empty tensors that are computed only to give a size its name.

MAX drops an operation whose result nothing reads, also where types mention a size that its result declares, and then crashes.
"""

from __future__ import annotations

from max.graph import TensorValue, ops

from fornaxc.ir.graph import Value
from fornaxc.lowering.context import LoweringContext


def joined(c: LoweringContext, x: TensorValue, empty: Value) -> TensorValue:
    """`x` followed by a tensor that has no elements."""
    line = ops.reshape(x, [1]) if x.rank == 0 else x
    nothing = ops.reshape(ops.cast(c.read(empty, c.compute), x.dtype), [0, *list(line.shape)[1:]])
    both = ops.concat([line, nothing], 0)
    return ops.reshape(both, []) if x.rank == 0 else both
