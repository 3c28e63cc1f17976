"""Dependencies between nodes: which outer names a subgraph uses, and an order in which every node can run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx import GraphProto, NodeProto

from fornaxc.errors import ModelError
from fornaxc.importers.onnx.codes import Code, model_error


def node_label(node: NodeProto, index: int) -> str:
    """The node's name; if it has none, its operator and its position in the file's list: `Conv_12`."""
    return node.name or f"{node.op_type}_{index}"


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """The graphs among a node's attributes, with the attributes' names."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for graph in attribute.graphs:
            yield attribute.name, graph


def captured_names(graph: GraphProto) -> dict[str, str]:
    """The names that a subgraph uses but does not define, each with the label of a user inside.

    A name that the subgraph defines anywhere hides the outer one.
    """
    local = {info.name for info in graph.input}
    local.update(tensor.name for tensor in graph.initializer)
    local.update(sparse.values.name for sparse in graph.sparse_initializer)
    for node in graph.node:
        local.update(node.output)
    captured: dict[str, str] = {}
    for index, node in enumerate(graph.node):
        for name in node.input:
            if name and name not in local:
                captured.setdefault(name, node_label(node, index))
        for _, inner in subgraphs(node):
            for name, label in captured_names(inner).items():
                if name not in local:
                    captured.setdefault(name, label)
    for info in graph.output:
        if info.name and info.name not in local:
            captured.setdefault(info.name, "")
    return captured


def execution_order(nodes: Sequence[NodeProto], captures: Sequence[Sequence[str]]) -> list[int]:
    """Indices of `nodes` such that each comes after what it uses; the identity where the list is in order already.

    `captures` has the names that each node's subgraphs use. `ModelError` that names the nodes of a cycle.
    """
    producer = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needs: list[list[int]] = []
    in_order = True
    for index, node in enumerate(nodes):
        found = [producer[name] for names in (node.input, captures[index]) for name in names if name in producer]
        in_order = in_order and all(other < index for other in found)
        needs.append(found)
    return list(range(len(nodes))) if in_order else _depth_first(nodes, needs)


def _depth_first(nodes: Sequence[NodeProto], needs: list[list[int]]) -> list[int]:
    order: list[int] = []
    waiting, done = 1, 2
    state = [0] * len(nodes)
    for root in range(len(nodes)):
        if state[root] == done:
            continue
        state[root] = waiting
        path = [(root, iter(needs[root]))]
        while path:
            node, rest = path[-1]
            following = next((other for other in rest if state[other] != done), None)
            if following is None:
                state[node] = done
                order.append(node)
                path.pop()
            elif state[following] == waiting:
                chain = [index for index, _ in path]
                raise _cycle([node_label(nodes[i], i) for i in chain[chain.index(following) :]])
            else:
                state[following] = waiting
                path.append((following, iter(needs[following])))
    return order


def _cycle(labels: list[str]) -> ModelError:
    shown = " -> ".join(reversed(labels[:8])) + (" …" if len(labels) > 8 else "")
    message = f"{len(labels)} node{'s' * (len(labels) > 1)} depend on each other in a circle: {shown}"
    return model_error(Code.CYCLE, message, nodes=labels)
