"""The child that compiles a module, with lowering rules that are wrong for the nodes of a block named after a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mutations import MUTATIONS

from fornaxc.ir import chains
from fornaxc.ir.graph import Node
from fornaxc.lowering import lower, registry
from fornaxc.qualify import module


def plant() -> None:
    """Wrap every rule of an operation that a fault is about, for all devices."""
    assert lower._FAMILIES  # the rules are registered
    for (op, on), (rule, host) in list(registry._RULES.items()):
        if any(m.op is op for m in MUTATIONS.values()):
            registry._RULES[op, on] = (_wrapped(op, rule), host)
    is_link = chains.is_link
    chains.is_link = lambda node, batch: (
        is_link(node, batch) and not _is_faulty(node)
    )  # its own rule lowers it, not a chain's


def _is_faulty(node: Node) -> bool:
    found = MUTATIONS.get(node.origin.node.split("/")[0])
    return found is not None and found.op is type(node.op)


def _wrapped(op: type, rule: Callable[..., Any]) -> Callable[..., Any]:
    def faulty(c: Any, node_op: Any, *operands: Any) -> Any:
        if not _is_faulty(c.node):
            return rule(c, node_op, *operands)
        return MUTATIONS[c.node.origin.node.split("/")[0]].mutate(c, node_op, operands, rule)

    return faulty


if __name__ == "__main__":
    plant()
    module.main()
