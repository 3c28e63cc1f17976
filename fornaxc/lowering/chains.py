"""Chains, each as one kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from max.dtype import DType as MaxDType
from max.graph import TensorType, TensorValue, ops

from fornaxc.ir.chains import Chain, has_few_results, schedule
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import FromPool
from fornaxc.lowering.chain_steps import table_of
from fornaxc.lowering.context import LoweringContext
from fornaxc.lowering.registry import lower
from fornaxc.lowering.shape import reshape


@lower(FromPool)
def _from_pool(c: LoweringContext, op: FromPool, pool: TensorValue) -> TensorValue:
    """For what is no chain's."""
    return ops.reshape(pool[op.offset : op.offset + op.size], op.shape)


def lowering_steps(graph: Graph) -> list[Node | Chain]:
    """The nodes of a graph or region in an order in which they can run, those of a chain with a pool of constants together.

    A chain with many results is left in pieces. What takes constants from a pool for chains alone is left out.
    """
    pooled = {v for node in graph.nodes if isinstance(node.op, FromPool) for v in node.outputs}
    if not pooled:
        return list(graph.nodes)
    steps: list[Node | Chain] = []
    for step in schedule(graph):
        if isinstance(step, Node) or _is_worth_it(step, pooled, graph):
            steps.append(step)
        else:
            steps += step
    read = {v for step in steps if isinstance(step, Node) for v in step.inputs}.union(graph.outputs)
    return [s for s in steps if not isinstance(s, Node) or pooled.isdisjoint(s.outputs) or s.outputs[0] in read]


def _is_worth_it(chain: Chain, pooled: set[Value], graph: Graph) -> bool:
    has_pool = any(not pooled.isdisjoint(node.inputs) for node in chain)
    return has_pool and has_few_results(graph, chain)


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
