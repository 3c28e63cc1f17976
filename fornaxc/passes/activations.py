"""Recognises activations of several operations: bounds on both sides, and hard swish."""

from __future__ import annotations

import math

from fornaxc.ir.graph import Value
from fornaxc.passes.forms import Forms


def clipped(forms: Forms, value: Value) -> tuple[Value, float, float] | None:
    """x, the least and the greatest, where `value` is x between two numbers."""
    for outer, inner in (("min", "max"), ("max", "min")):
        for within, second in _bounds(forms, value, outer):
            for x, first in _bounds(forms, within, inner):
                least, greatest = (first, second) if outer == "min" else (second, first)
                if least <= greatest:
                    return x, least, greatest
    return None


def _bounds(forms: Forms, value: Value, fn: str) -> list[tuple[Value, float]]:
    pairs = [(x, forms.number(other)) for x, other in forms.either(value, fn)]
    return [(x, number) for x, number in pairs if number is not None]


def hard_swish(forms: Forms, value: Value) -> Value | None:
    """x where `value` is x * min(max(x + 3, 0), 6) / 6 (Howard et al. 2019), the sixth taken anywhere, or x * min(max(x / 6 + 1/2, 0), 1)."""
    scaled = forms.scaled(value)
    whole = _is_sixth(scaled)
    for x, gate in forms.either(scaled[0] if whole and scaled else value, "mul"):
        if _gated(forms, gate, whole) is x:
            return x
    return None


def _gated(forms: Forms, gate: Value, whole: bool) -> Value | None:
    """x where `gate` is min(max(x + 3, 0), 6) if `whole`, and else a sixth of that."""
    scaled = forms.scaled(gate)
    if not whole and scaled and _is_sixth(scaled):
        return _gated(forms, scaled[0], True)
    bounded = clipped(forms, gate)
    shifted = forms.shifted(bounded[0]) if bounded else None
    if bounded is None or shifted is None:
        return None
    if whole:
        return shifted[0] if (*bounded[1:], shifted[1]) == (0, 6, 3) else None
    inner = forms.scaled(shifted[0])
    return inner[0] if inner and _is_sixth(inner) and (*bounded[1:], shifted[1]) == (0, 1, 0.5) else None


def _is_sixth(scaled: tuple[Value, float] | None) -> bool:
    return scaled is not None and math.isclose(scaled[1], 1 / 6, rel_tol=1e-6)
