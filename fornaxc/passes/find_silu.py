"""Recognises the logistic function in 1 / (1 + exp(-x)), and SiLU in x times it."""

from __future__ import annotations

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.ops import Unary
from fornaxc.passes.forms import Forms, functions, replace_forms


def find_silu(graph: Graph) -> Graph:
    """`graph` with 1 / (1 + exp(-x)) as `sigmoid`, and x * sigmoid(x) and x / (1 + exp(-x)) as `silu`.

    The limits are the same: where exp(-x) overflows the quotient is 0, and `sigmoid` is below the normal numbers. exp(x) / (1 + exp(x)) is left, which is
    NaN where that overflows.
    """
    if functions(graph).isdisjoint(("sigmoid", "exp")):
        return graph
    return replace_forms(graph, _find)


def _find(value: Value, b: GraphBuilder, forms: Forms) -> Value | None:
    for x, gate in forms.either(value, "mul"):
        if forms.unary(gate, "sigmoid") is x:
            return b.emit(Unary("silu"), x)
    numerator, denominator = forms.binary(value, "div") or (value, value)
    opened = _opened(forms, denominator)
    if opened is None:
        return None
    if numerator is opened:
        return b.emit(Unary("silu"), opened)
    return b.emit(Unary("sigmoid"), opened) if forms.number(numerator) == 1 else None


def _opened(forms: Forms, value: Value) -> Value | None:
    """x where `value` is 1 + exp(-x)."""
    shifted = forms.shifted(value)
    exponent = forms.unary(shifted[0], "exp") if shifted and shifted[1] == 1 else None
    return None if exponent is None else _negated(forms, exponent)


def _negated(forms: Forms, value: Value) -> Value | None:
    """x where `value` is -x."""
    x = forms.unary(value, "neg")
    if x is not None:
        return x
    difference, scaled = forms.binary(value, "sub"), forms.scaled(value)
    if difference is not None and forms.number(difference[0]) == 0:
        return difference[1]
    return scaled[0] if scaled is not None and scaled[1] == -1 else None
