"""The table of lowering rules: `@lower(SomeOp)` registers the common rule, `@lower(SomeOp, on="cpu")` one for a device kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fornaxc.ir.ops import Op

Rule = Callable[..., Any]

_RULES: dict[tuple[type[Op], str], tuple[Rule, frozenset[int]]] = {}


def lower(op: type[Op], *, on: str = "", host: tuple[int, ...] = ()) -> Callable[[Rule], Rule]:
    """Register a rule `(context, op, *inputs) -> TensorValue | sequence of them`.

    `on` restricts it to "cpu" or "gpu". The operands numbered in `host` are given on the host, the others on the device of the node.
    """

    def register(rule: Rule) -> Rule:
        key = (op, on)
        assert key not in _RULES, f"two rules for {op.__name__} on {on or 'every device'}"
        _RULES[key] = (rule, frozenset(host))
        return rule

    return register


def rule_for(op: type[Op], device_kind: str) -> tuple[Rule, frozenset[int]]:
    """The rule of an operation and its operands that must be on the host. KeyError where there is none."""
    return _RULES.get((op, device_kind)) or _RULES[op, ""]
