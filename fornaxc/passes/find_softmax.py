"""Recognises softmax and its logarithm where they are written out."""

from __future__ import annotations

import math

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.ops import Softmax
from fornaxc.ir.types import DType
from fornaxc.passes.forms import Forms, functions, replace_forms

MOST_F16 = 65504  # ones that float16 can add up


def find_softmax(graph: Graph) -> Graph:
    """`graph` with exp(x - max) / sum(exp(x - max)) along one axis as `Softmax`, and x - max - log(sum(exp(x - max))) as its logarithm.

    NaN, infinities and rows of nothing but -inf give NaN in both. Without the maximum the form overflows where `Softmax` does not: it is left.
    """
    if not {"exp", "max", "sum", "sub"} <= functions(graph):
        return graph
    return replace_forms(graph, _find)


Found = tuple[Softmax, Value]


def _find(value: Value, b: GraphBuilder, forms: Forms) -> Value | None:
    found: Found | None = None
    quotient, difference = forms.binary(value, "div"), forms.binary(value, "sub")
    if quotient is not None:
        found = _quotient(forms, *quotient)
    elif difference is not None:
        found = _logarithm(forms, *difference)
    for factors in forms.either(value, "mul"):
        found = found or _product(forms, *factors)
    return None if found is None else b.emit(*found)


def _quotient(forms: Forms, grown: Value, total: Value) -> Found | None:
    """Softmax as exp(x - max) over its sum."""
    x, axis = _grown(forms, grown) or (None, 0)
    added = None if x is None else forms.along(total, (axis,))
    return _softmax(forms, grown, x, axis, added)


def _product(forms: Forms, grown: Value, by: Value) -> Found | None:
    """Softmax as exp(x - max) times 1 over its sum."""
    x, axis = _grown(forms, grown) or (None, 0)
    inner = None if x is None else forms.along(by, (axis,))
    return _softmax(forms, grown, x, axis, None if inner is None else forms.inverse(forms.flat(inner)))


def _softmax(forms: Forms, grown: Value, x: Value | None, axis: int, total: Value | None) -> Found | None:
    if x is None or total is None or forms.reduced(total, "sum") != (grown, (axis,)):
        return None
    return Softmax(axis), x


def _logarithm(forms: Forms, shifted: Value, by: Value) -> Found | None:
    """The logarithm as (x - max) - log(sum(exp(x - max)))."""
    x, axis = _shifted(forms, shifted) or (None, 0)
    inner = None if x is None else forms.along(by, (axis,))
    total = None if inner is None else forms.unary(forms.flat(inner), "log")
    added = None if total is None else forms.reduced(total, "sum")
    if x is None or added is None or added[1] != (axis,) or forms.unary(added[0], "exp") is not shifted:
        return None
    width = x.type.shape[axis]
    if x.type.dtype is DType.F16 and not (isinstance(width, int) and width <= MOST_F16):
        return None
    return Softmax(axis, log=True), x


def _grown(forms: Forms, value: Value) -> tuple[Value, int] | None:
    """x and the axis, where `value` is exp(x - max)."""
    shifted = forms.unary(value, "exp")
    return None if shifted is None else _shifted(forms, shifted)


def _shifted(forms: Forms, value: Value) -> tuple[Value, int] | None:
    """x and the axis, where `value` is x less its maximum along that axis."""
    x, repeated = forms.binary(value, "sub") or (None, value)
    top = forms.repeated(repeated)
    found = None if x is None or top is None else forms.reduced(_at_least_nothing(forms, top), "max")
    if x is None or found is None or found[0] is not x or len(found[1]) != 1 or not forms.along(repeated, found[1]):
        return None
    return x, found[1][0]


def _at_least_nothing(forms: Forms, value: Value) -> Value:
    """The operand, where `value`, reshaped or not, is the larger of it and -inf."""
    for operand, other in forms.either(forms.flat(value), "max"):
        if forms.number(other) == -math.inf:
            return operand
    return value
