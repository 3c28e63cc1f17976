"""Chains, each as one kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from max.dtype import DType as MaxDType
from max.graph import TensorType, TensorValue, ops

from fornaxc.ir.chains import Chain
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import FromPool
from fornaxc.lowering.chain_steps import table_of
from fornaxc.lowering.context import LoweringContext
from fornaxc.lowering.registry import lower
from fornaxc.lowering.shape import reshape


@lower(FromPool)
def _from_pool(c: LoweringContext, op: FromPool, pool: TensorValue) -> TensorValue:
    """For what is no chain's."""
    return ops.reshape(pool[op.offset : op.offset + op.size], op.shape)


def lower_chain(c: LoweringContext, chain: Chain, results: Sequence[Value]) -> None:
    """Bind `results`, the values of a chain that are used outside of it."""
    table = table_of(chain, results, c.producers)
    read = [ops.cast(c.read(v, c.device), MaxDType.float32) for v in table.operands]
    flat = [reshape(c, x, [v.type.elements]) for x, v in zip(read, table.operands, strict=True)]
    workspace = max(table.workspace, 1) if isinstance(table.workspace, int) else table.workspace
    types = [
        TensorType(MaxDType.float32, c.shape([size]), c.device)
        for size in (workspace, *(v.type.elements for v in results))
    ]
    patches, terms = (table.patches, table.terms) if table.terms else (np.zeros((1, 3), np.int64), [0])
    numbers = [c.literal(table.rows), c.literal(patches.reshape(-1)), c.dims_tensor(terms), c.literal(table.floats)]
    found = c.custom("fx_chain", [*numbers, *flat], types)
    for value, tensor in zip(results, found[1:], strict=True):
        c.bind(value, reshape(c, tensor, value.type.shape))
