"""Recognises the complementary error function, which StableHLO has no operation for: by what the nodes in its place compute."""

from __future__ import annotations

import math

import numpy as np

from fornaxc.ir.graph import Array, Node, Value
from fornaxc.ir.ops import Binary, Cast, Compare, Select, Unary
from fornaxc.ir.types import DType
from fornaxc.passes.forms import Forms, rounding

MOST_NODES = 200
NEAR = 64  # rounding errors that a polynomial of some twenty terms may add up to


def erfc_of(forms: Forms, value: Value) -> Value | None:
    """The u that `value` is erfc(u) of, to the rounding of its type: a choice by |u| < 1 between functions of u.

    StableHLO's own decomposition has this form (chlo-legalize-to-stablehlo; two rational functions by Cephes). Its polynomials are not compared:
    the nodes between u and `value`, elementwise and of u alone, are evaluated at 3,000 numbers, and NaN and infinities.
    """
    inner = _uncast(forms, value)
    choice = forms.node(inner, Select)
    asked = forms.node(choice.inputs[0], Compare) if choice is not None else None
    if asked is None or not isinstance(asked.op, Compare) or asked.op.fn != "lt" or forms.number(asked.inputs[1]) != 1:
        return None
    if inner.type.dtype not in (DType.F32, DType.F64):
        return None  # so many roundings of a half are no evidence
    u = forms.unary(asked.inputs[0], "abs")
    if u is None:
        return None
    nodes = _between(forms, u, inner)
    if nodes is None:
        return None
    samples = np.concatenate([np.linspace(-7, 7, 2001), np.logspace(-6, 1, 500), -np.logspace(-6, 1, 500)])
    x = np.concatenate([samples, [np.nan, np.inf, -np.inf]]).astype(u.type.dtype.numpy)
    with np.errstate(all="ignore"):
        found = _evaluated(forms, nodes, u, x, inner).astype(np.float64)
    wanted = np.array([math.erfc(v) for v in x.astype(np.float64)])
    near = np.isclose(found, wanted, NEAR * rounding(inner.type.dtype), 1e-30, equal_nan=True)
    return _uncast(forms, u) if near.all() else None


def _uncast(forms: Forms, value: Value) -> Value:
    """What `value` is a float of another width of."""
    node = forms.node(value, Cast)
    return node.inputs[0] if node is not None and node.inputs[0].type.dtype.is_float else value


def _between(forms: Forms, u: Value, value: Value) -> list[Node] | None:
    """The elementwise nodes that make `value` of `u` and of numbers, in order; None where there are others, or many."""
    found: list[Node] = []
    seen: set[Node] = set()

    def visit(v: Value) -> bool:
        if v is u or forms.number(v) is not None:
            return True
        node = forms.node(v, Unary, Binary, Compare, Select, Cast)
        if node is None or len(seen) == MOST_NODES:
            return False
        if node not in seen:
            seen.add(node)
            if not all(visit(operand) for operand in node.inputs):
                return False
            found.append(node)
        return True

    return found if visit(value) else None


def _evaluated(forms: Forms, nodes: list[Node], u: Value, x: Array, value: Value) -> Array:
    known = {u: x}
    for node in nodes:
        arrays = []
        for operand in node.inputs:
            if operand not in known:
                known[operand] = np.full(x.shape, forms.number(operand)).astype(operand.type.dtype.numpy)
            arrays.append(known[operand])
        known.update(zip(node.outputs, node.op.evaluate(*arrays), strict=True))
    return known[value]
