"""Recognises that a gather from an image repeats its rows or columns, as upsampling to the nearest pixel does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Gather, Repeat
from fornaxc.ir.types import DType
from fornaxc.passes.rewrite import holds, rewrite


def find_repeat(graph: Graph) -> Graph:
    """`graph` with gathers from f32 images [N, H, W, C] at 0 0 1 1 2 2 ... along H or W as `Repeat`, those that follow one another as one."""
    if not holds(graph, Gather):
        return graph
    repeated: dict[Value, tuple[Value, tuple[int, ...]]] = {}

    def visit(node: Node, b: GraphBuilder) -> Sequence[Value] | None:
        times = _times(node, b)
        if times is None:
            return None
        if all(count == 1 for count in times):
            return [node.inputs[0]]
        x, before = repeated.get(node.inputs[0], (node.inputs[0], (1,) * len(times)))
        times = tuple([a * b for a, b in zip(times, before, strict=True)])
        y = b.emit(Repeat(times), x)
        repeated[y] = (x, times)
        return [y]

    return rewrite(graph, visit)


def _times(node: Node, b: GraphBuilder) -> tuple[int, ...] | None:
    """How often a gather repeats each axis; None where it does something else."""
    if not isinstance(node.op, Gather) or node.op.axis not in (1, 2):
        return None
    data, index = node.inputs
    size, found = data.type.shape[node.op.axis], b.known(index)
    if data.type.dtype is not DType.F32 or data.type.rank != 4 or found is None or found.ndim != 1:
        return None
    if not isinstance(size, int) or not size or not found.size or found.size % size:
        return None
    count = found.size // size
    if not np.array_equal(found, np.repeat(np.arange(size), count)):
        return None
    return tuple([count if axis == node.op.axis else 1 for axis in range(4)])
