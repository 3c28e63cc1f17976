"""Puts the constants of convolutions and linear layers that follow one another into one pool, so that they can run as one kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from fornaxc.ir.chains import Chain, find_chains, has_few_results
from fornaxc.ir.dims import static
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Concat, ConvNhwc, FromPool, Reshape
from fornaxc.ir.types import DType
from fornaxc.passes.constness import evaluable
from fornaxc.passes.inline import substituted
from fornaxc.passes.rewrite import use_counts


def chain_kernels(graph: Graph) -> Graph:
    """`graph` with the constants that a chain has for itself in one tensor for each chain.

    MAX compiles a kernel once for each set of shapes; the kernel of a chain is compiled once, whatever the shapes of its steps are, and takes its
    constants as one operand. The nodes that make constants come first.
    """
    chains = [chain for chain in find_chains(graph) if has_few_results(graph, chain)]
    if not chains:
        return graph
    constant = _constant_values(graph, {node for chain in chains for node in chain})
    uses = use_counts(graph)
    made: list[Node] = []
    new: dict[Value, Value] = {}
    for chain in chains:
        own = _own_constants(chain, constant, uses)
        if any(isinstance(node.op, ConvNhwc) and node.inputs[1] in own for node in chain):
            made += _pooled(own, chain[0], new)
    pooled = substituted(graph, new)
    first = [n for n in pooled.nodes if constant.issuperset(n.outputs)]
    rest = [n for n in pooled.nodes if not constant.issuperset(n.outputs)]
    return replace(pooled, nodes=(*first, *made, *rest))


def _constant_values(graph: Graph, links: set[Node]) -> set[Value]:
    """What constants determine; what links compute is not among it."""
    found = set(graph.constants)
    for node in graph.nodes:
        if node not in links and found.issuperset(node.inputs) and evaluable(node):
            found.update(node.outputs)
    return found


def _own_constants(chain: Chain, constant: set[Value], uses: Mapping[Value, int]) -> list[Value]:
    """The constants that nothing but the chain uses: first all filters, which fill whole lines of the cache, then the others."""
    counts: dict[Value, int] = {node.inputs[1]: 0 for node in chain if isinstance(node.op, ConvNhwc)}
    for node in chain:
        for value in node.inputs:
            counts[value] = counts.get(value, 0) + 1
    return [v for v, n in counts.items() if v in constant and uses[v] == n and v.type.dtype is DType.F32]


def _pooled(constants: list[Value], node: Node, new: dict[Value, Value]) -> Iterator[Node]:
    """The nodes that pool `constants` and take them from the pool; `new` gets what stands for each."""
    lines = []
    for value in constants:
        lines.append(value if value.type.rank == 1 else Value(value.type.with_shape((static(value.type.elements),))))
        if lines[-1] is not value:
            yield Node(Reshape(lines[-1].type.shape), (value,), (lines[-1],), node.origin)
    sizes = [static(v.type.shape[0]) for v in lines]
    pool = Value(lines[0].type.with_shape((sum(sizes),)))
    yield Node(Concat(0), tuple(lines), (pool,), node.origin)
    offset = 0
    for value, size in zip(constants, sizes, strict=True):
        new[value] = Value(value.type, value.name)
        shape = tuple(static(d) for d in value.type.shape)
        yield Node(FromPool(offset, shape), (pool,), (new[value],), node.origin)
        offset += size
