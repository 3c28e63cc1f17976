"""Recognises GELU, with erf, with erfc and by its approximation with tanh, in any order of its products and sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.ops import Unary
from fornaxc.passes.erfc import erfc_of
from fornaxc.passes.forms import Forms, functions, is_close, replace_forms

# the factor of each product of a power of x and one of the gate: erf, erfc or tanh
Terms = dict[tuple[int, int], float]

GELU = {(1, 0): 0.5, (1, 1): 0.5}  # x/2 + x/2 * gate
OF_ERFC = {(1, 1): 0.5}  # x/2 * gate
SCALE = math.sqrt(2 / math.pi)
CUBIC = 0.044715
DEPTH = 6  # sums and products from the argument of tanh down to x
SUMS_AND_PRODUCTS = ("add", "mul", "div", "pow")


@dataclass(frozen=True, slots=True)
class _Gate:
    """The value of erf, erfc or tanh, the x that it is for, the function that it is the gate of, and what this is."""

    value: Value
    x: Value
    fn: str
    whole: Terms


def find_gelu(graph: Graph) -> Graph:
    """`graph` with x/2 * (1 + erf(x / sqrt 2)) and x/2 * erfc(-x / sqrt 2) as `gelu`, and x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3))) as
    `gelu_tanh`.

    The numbers must be these, as the element type rounds them. Only positive numbers are looked at, so that nothing cancels and NaN and
    infinities give the same. Where x is halved last, results above half the largest number no longer overflow.
    """
    if functions(graph).isdisjoint(("erf", "tanh", "exp")):
        return graph
    gates: dict[Value, _Gate | None] = {}
    parts: dict[Value, tuple[_Gate, Terms]] = {}  # sums and products in which a gate is

    def part(forms: Forms, value: Value) -> tuple[_Gate, Terms] | None:
        if value in parts:
            return parts[value]
        if value not in gates:
            gates[value] = _gate(forms, value)
        gate = gates[value]
        return None if gate is None else (gate, {(0, 1): 1.0})

    def find(value: Value, b: GraphBuilder, forms: Forms) -> Value | None:
        fn, operands = forms.arithmetic(value, SUMS_AND_PRODUCTS[:3]) or ("", ())
        found = [p for p in (part(forms, v) for v in operands) if p is not None]
        if not found or any(gate != found[0][0] for gate, _ in found):
            return None
        gate = found[0][0]
        left, right = (terms[1] if (terms := part(forms, v)) else _terms(forms, v, gate.x, 2) for v in operands)
        total = _combined(fn, left, right)
        if total == gate.whole:
            return b.emit(Unary(gate.fn), gate.x)
        if total is not None:
            parts[value] = gate, total
        return None

    return replace_forms(graph, find)


def _gate(forms: Forms, value: Value) -> _Gate | None:
    argument = forms.unary(value, "erf")
    if argument is not None:
        x, factor = forms.scaled(argument) or (value, 0.0)
        return _Gate(value, x, "gelu", GELU) if is_close(factor, math.sqrt(0.5), x.type.dtype) else None
    argument = erfc_of(forms, value)
    if argument is not None:
        x, factor = forms.scaled(argument) or (value, 0.0)
        negated = forms.unary(x, "neg")
        x, factor = (x, factor) if negated is None else (negated, -factor)
        close = is_close(factor, -math.sqrt(0.5), x.type.dtype) and x.type == value.type
        return _Gate(value, x, "gelu", OF_ERFC) if close else None
    argument = forms.unary(value, "tanh")
    if argument is None:
        return None
    for x in _repeated_operands(forms, argument):
        terms = _terms(forms, argument, x, DEPTH) or {}
        if set(terms) == {(1, 0), (3, 0)} and all(
            is_close(terms[power, 0], wanted, x.type.dtype) for power, wanted in ((1, SCALE), (3, SCALE * CUBIC))
        ):
            return _Gate(value, x, "gelu_tanh", GELU)
    return None


def _repeated_operands(forms: Forms, value: Value) -> list[Value]:
    """The values that occur twice or more in the sums and products that `value` is: x is one of them."""
    seen: set[Value] = set()
    repeated: dict[Value, None] = {}
    level = [value]
    for _ in range(DEPTH):
        operands = [v for above in level for v in _operands(forms, above)]
        repeated.update((v, None) for i, v in enumerate(operands) if v in seen or v in operands[:i])
        level = [v for v in dict.fromkeys(operands) if v not in seen and forms.number(v) is None]
        seen.update(operands)
    return [v for v in repeated if forms.number(v) is None]


def _operands(forms: Forms, value: Value) -> Sequence[Value]:
    found = forms.arithmetic(value, SUMS_AND_PRODUCTS)
    return () if found is None else found[1]


def _terms(forms: Forms, value: Value, x: Value, depth: int) -> Terms | None:
    """`value` as a polynomial of `x` with positive factors; None where it is none, or one of a power above 3."""
    if value is x:
        return {(1, 0): 1.0}
    number = forms.number(value)
    if number is not None:
        return {(0, 0): number} if 0 < number < math.inf else None
    found = forms.arithmetic(value, SUMS_AND_PRODUCTS) if depth else None
    if found is None:
        return None
    fn, (left, right) = found
    base = _terms(forms, left, x, depth - 1)
    if fn != "pow":
        return _combined(fn, base, _terms(forms, right, x, depth - 1))
    square = _combined("mul", base, base)
    exponent = forms.number(right)
    return square if exponent == 2 else _combined("mul", square, base) if exponent == 3 else None


def _combined(fn: str, left: Terms | None, right: Terms | None) -> Terms | None:
    """The sum, product or quotient of two; a quotient by a number only."""
    if left is None or right is None:
        return None
    if fn == "div":
        divisor = right.get((0, 0), 0.0)
        return {power: factor / divisor for power, factor in left.items()} if set(right) == {(0, 0)} else None
    total: Terms = dict(left) if fn == "add" else {}
    if fn == "add":
        for power, factor in right.items():
            total[power] = total.get(power, 0.0) + factor
    else:
        for (x, t), factor in left.items():
            for (more_x, more_t), other in right.items():
                power = x + more_x, t + more_t
                total[power] = total.get(power, 0.0) + factor * other
    return total if all(x <= 3 and t <= 1 for x, t in total) else None
