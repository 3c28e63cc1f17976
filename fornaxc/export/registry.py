"""The table of export rules: `@export(SomeOp)` registers one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fornaxc.ir.ops import Op

Rule = Callable[..., Any]

_RULES: dict[type[Op], Rule] = {}


def export(op: type[Op]) -> Callable[[Rule], Rule]:
    """Register a rule `(context, op, *tensors) -> Tensor | sequence of them`."""

    def register(rule: Rule) -> Rule:
        assert op not in _RULES, f"two rules for {op.__name__}"
        _RULES[op] = rule
        return rule

    return register


def rule_for(op: type[Op]) -> Rule:
    """The rule of an operation. KeyError where there is none."""
    return _RULES[op]


def exported_ops() -> set[type[Op]]:
    """The operations that have a rule."""
    return set(_RULES)
