"""Keeps alive what is computed only to give a size its name.

MAX drops an operation whose result nothing reads, also where types mention a size that its result declares, and then crashes.
"""

from __future__ import annotations

import numpy as np
from max.dtype import DType
from max.graph import TensorType, TensorValue, ops

from fornaxc.ir.dims import single_symbol
from fornaxc.ir.graph import Graph, Value
from fornaxc.lowering import raw
from fornaxc.lowering.context import LoweringContext

END = 1 << 62


def unread_binders(graph: Graph) -> list[Value]:
    """Results of the nodes of a graph or region that nothing reads, whose types hold a size by itself."""
    read: set[Value] = set(graph.outputs)
    for node in graph.nodes:
        read.update(node.inputs)
        for region in node.regions:
            read.update(region.captures())
    return [
        node.outputs[0]
        for node in graph.nodes
        if read.isdisjoint(node.outputs) and any(single_symbol(d) is not None for d in node.outputs[0].type.shape)
    ]


def after(c: LoweringContext, x: TensorValue, binders: list[Value]) -> TensorValue:
    """`x`, cut from a place that is always 0 but is computed from all `binders`."""
    zero = c.scalar(0, DType.int64, c.host)
    place = zero
    for value in binders:
        tensor = c.read(value, c.compute)
        flat = ops.reshape(ops.cast(tensor, DType.int64), [-1])
        counted = ops.cast(
            ops.not_equal(flat, c.scalar(0, DType.int64, c.compute)), DType.int64
        )  # a sum of the values may overflow
        count = raw.transfer_to(ops.reshape(ops.sum(counted, 0), []), c.host)
        place = ops.min(place, count)
    line = ops.reshape(x, [1]) if x.rank == 0 else x
    starts = ops.broadcast_to(ops.reshape(place, [1]), [line.rank])
    ends, steps = (c.literal(np.full(line.rank, v, np.int64), c.host) for v in (END, 1))
    kept = raw.slice_to(line, starts, ends, steps, TensorType(x.dtype, line.shape, line.device))
    return ops.reshape(kept, []) if x.rank == 0 else kept
