"""Integers that are sizes: naming those that only data determines, and reading arithmetic on sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import DynamicRange


def bind_sizes(b: GraphBuilder, value: Value) -> None:
    """Give the entries of a small integer tensor names: a range up to each has that size."""
    count = int(str(value.type.elements))
    flat = c.reshape(b, value, (count,))
    names = np.empty(count, object)
    for i in range(count):
        size = b.fresh_dim()
        limit = c.reshape(b, c.slice_axis(b, flat, 0, i, 1), ())
        dtype = value.type.dtype
        b.emit(DynamicRange(size), c.scalar(b, 0, dtype), limit, c.scalar(b, 1, dtype))
        names[i] = size
    b.learn(value, names.reshape(tuple(int(str(d)) for d in value.type.shape)))


def floor_division(op: Any) -> tuple[Any, Any] | None:
    """The operands a, b where a select is the floor division that jax spells out; None where it is not.

    select(sign(a) != sign(b) and a rem b != 0, a / b - 1, a / b).
    """
    both, less, quotient = (_owner(v) for v in op.operands)
    if both is None or less is None or quotient is None:
        return None
    if (both.name, less.name, quotient.name) != ("stablehlo.and", "stablehlo.subtract", "stablehlo.divide"):
        return None
    if less.operands[0] != quotient.results[0]:
        return None
    a, b = quotient.operands
    for first, second in ((0, 1), (1, 0)):
        signs, rest = _owner(both.operands[first]), _owner(both.operands[second])
        if _differ(signs, "stablehlo.sign", "stablehlo.sign") and _differ(rest, "stablehlo.remainder", ""):
            remainder = _owner(rest.operands[0])
            sides = [_owner(v).operands[0] for v in signs.operands]
            if list(remainder.operands) == [a, b] and sides == [a, b]:
                return a, b
    return None


def _differ(op: Any, left: str, right: str) -> bool:
    """Whether an operation compares the results of operations of these names for inequality."""
    if op is None or op.name != "stablehlo.compare" or "NE" not in str(op.attributes["comparison_direction"]):
        return False
    owners = [_owner(v) for v in op.operands]
    return all(
        not name or (owner is not None and owner.name == name)
        for owner, name in zip(owners, (left, right), strict=True)
    )


def _owner(value: Any) -> Any:
    """The operation that makes a value; None for block arguments."""
    owner = getattr(value.owner, "operation", value.owner)
    return owner if hasattr(owner, "attributes") else None
