"""Integers that are sizes: naming those that only data determines, and arithmetic and conditions on sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, DimExpr, Symbol, dim_max, dim_min, is_nonnegative, substitute, symbol, symbols
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import DynamicRange, NotFoldable
from fornaxc.ir.ops.elementwise import compare_dims
from fornaxc.ir.types import TensorType

Part = tuple[Dim, str, Dim]  # left == right, or left >= right


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


def sized(b: GraphBuilder, dims: Sequence[Dim], like: TensorType) -> Value:
    """An integer tensor of the type `like` that holds these dims."""
    return c.cast(b, c.reshape(b, b.dims(dims), like.shape), like.dtype)


@dataclass(frozen=True, slots=True)
class Condition:
    """What holds exactly where `margin` >= 0. `parts` are the comparisons of which it is the conjunction, where it is one."""

    margin: Dim
    parts: tuple[Part, ...] = ()

    @property
    def known(self) -> bool | None:
        return self.margin >= 0 if isinstance(self.margin, int) else None

    @property
    def requirements(self) -> tuple[Part, ...]:
        """The comparisons that must all hold."""
        return self.parts or ((self.margin, ">=", 0),)


TRUE, FALSE = Condition(0), Condition(-1)


@dataclass(slots=True)
class SizeFacts:
    """What a program says of sizes: conditions that it asserted, truth values that sizes decide, and divisions that it made."""

    builder: GraphBuilder
    conditions: dict[Value, Condition] = field(default_factory=dict)
    divisions: dict[tuple[str, Dim], set[tuple[Dim, Dim]]] = field(default_factory=dict)

    # --- arithmetic

    def assumed(self, dim: Dim) -> Dim:
        """`dim` with what is above its asserted least value in place of each symbol, so that what follows shows."""
        return dim if isinstance(dim, int) else substitute(dim, _least(self.builder))

    def at_least(self, dim: Dim, bound: int) -> bool:
        return is_nonnegative(dim - bound) or is_nonnegative(self.assumed(dim) - bound)

    def sign(self, dim: Dim) -> Dim:
        """-1, 0 or 1."""
        for number, bound in ((dim, 1), (-dim, -1)):
            if self.at_least(number, 1):
                return bound
        return dim_max(dim_min(dim, 1), -1)

    def magnitude(self, dim: Dim) -> Dim:
        if self.at_least(dim, 0):
            return dim
        return -dim if self.at_least(-dim, 0) else dim_max(dim, -dim)

    def larger(self, first: Dim, second: Dim) -> Dim:
        if self.at_least(first - second, 0):
            return first
        return second if self.at_least(second - first, 0) else dim_max(first, second)

    def smaller(self, first: Dim, second: Dim) -> Dim:
        if self.at_least(second - first, 0):
            return first
        return second if self.at_least(first - second, 0) else dim_min(first, second)

    def divided(self, fn: str, dim: Dim, divisor: Dim) -> Dim | None:
        """The quotient toward zero (div) or its remainder (rem); None where the sign of the divisor is not known.

        A divisor of which only 0 is in doubt is required not to be that.
        """
        if divisor == 0:
            return None
        if not self.at_least(divisor, 1):
            if self.at_least(-divisor, 1):
                found = self.divided("div", -dim, -divisor)
                return found if fn == "div" or found is None else dim - divisor * found
            if not self.at_least(divisor, 0) or not symbols(divisor) <= self.builder.input_symbols():
                return None
            self.builder.require(divisor, ">=", 1, "a size is divided by it")
        quotient = self._toward_zero(dim, divisor)
        result = quotient if fn == "div" else dim - divisor * quotient
        self.divisions.setdefault((fn, result), set()).add((dim, divisor))
        return result

    def _toward_zero(self, dim: Dim, divisor: Dim) -> Dim:
        if self.at_least(dim, 0):
            return dim // divisor
        if self.at_least(-dim, 0):
            return -(-dim // divisor)
        return dim_max(dim, 0) // divisor - dim_max(-dim, 0) // divisor

    def chosen(self, condition: Condition, yes: Dim, no: Dim) -> Dim | None:
        """What a select gives that corrects a division toward zero to one that rounds down, as jax writes it; None for others."""
        for dim, divisor in self.divisions.get(("div", no), ()):
            signs = self.compared("NE", self.sign(dim), self.sign(divisor))
            rest = self.compared("NE", dim - divisor * no, 0)
            if yes == no - 1 and self.both(signs, rest).margin == condition.margin:
                return dim // divisor
        for dim, divisor in self.divisions.get(("rem", no), ()):
            signs = self.differ(self.compared("LT", no, 0), self.compared("LT", divisor, 0))
            if yes == no + divisor and self.both(signs, self.compared("NE", no, 0)).margin == condition.margin:
                return dim % divisor
        return None

    # --- conditions

    def condition(self, b: GraphBuilder, value: Value) -> Condition | None:
        """Where a truth value holds; None where sizes do not decide it."""
        known = b.known(value)
        if known is not None:
            return (TRUE if bool(known.reshape(-1)[0]) else FALSE) if known.size == 1 else None
        return self.conditions.get(value)

    def compared(self, direction: str, left: Dim, right: Dim) -> Condition:
        """The comparison EQ, NE, LT, LE, GT or GE."""
        for sides in ((left, right), (self.assumed(left), self.assumed(right))):
            try:
                return TRUE if compare_dims(direction.lower(), *sides) else FALSE
            except NotFoldable:
                continue
        return _COMPARISONS[direction](left, right)

    def both(self, first: Condition, second: Condition) -> Condition:
        if first.known is not None:
            return second if first.known else FALSE
        if second.known is not None:
            return first if second.known else FALSE
        parts = (*first.parts, *second.parts) if first.parts and second.parts else ()
        return self._settled(Condition(dim_min(first.margin, second.margin), parts))

    def either(self, first: Condition, second: Condition) -> Condition:
        return self.negated(self.both(self.negated(first), self.negated(second)))

    def negated(self, condition: Condition) -> Condition:
        return Condition(-1 - condition.margin)

    def differ(self, first: Condition, second: Condition) -> Condition:
        """Exactly one of the two."""
        one = self.both(first, self.negated(second))
        return self.either(one, self.both(self.negated(first), second))

    def _settled(self, condition: Condition) -> Condition:
        if self.at_least(condition.margin, 0):
            return TRUE
        return FALSE if self.at_least(-condition.margin, 1) else condition


def _equal(left: Dim, right: Dim) -> Condition:
    return Condition(dim_min(left - right, right - left), ((left, "==", right),))


def _unequal(left: Dim, right: Dim) -> Condition:
    distance = dim_max(left - right, right - left)
    return Condition(distance - 1, ((distance, ">=", 1),))


def _not_below(left: Dim, right: Dim) -> Condition:
    return Condition(left - right, ((left, ">=", right),))


_COMPARISONS: dict[str, Callable[[Dim, Dim], Condition]] = {
    "EQ": _equal,
    "NE": _unequal,
    "GE": _not_below,
    "GT": lambda left, right: _not_below(left, right + 1),
    "LE": lambda left, right: _not_below(right, left),
    "LT": lambda left, right: _not_below(right, left + 1),
}


def _least(b: GraphBuilder) -> dict[str, Dim]:
    """Each symbol that conditions bound from below, as its bound and what exceeds it, under the symbol's name."""
    found: dict[str, Dim] = {}
    for constraint in b.constraints:
        if not symbols(constraint.left) | symbols(constraint.right) <= b.input_symbols():
            continue  # no run checks it
        slack = substitute(constraint.left - constraint.right, found)
        for name in sorted(_single_terms(slack)):
            bound = symbol(name) - slack
            if name not in symbols(bound) and is_nonnegative(bound):
                shift = {name: symbol(name) + bound}
                found = {name: shift[name]} | {known: substitute(dim, shift) for known, dim in found.items()}
                break
    return found


def _single_terms(dim: Dim) -> set[str]:
    """The symbols that are terms of a dim, with the factor 1."""
    if not isinstance(dim, DimExpr):
        return set()
    alone = (m[0] for m, factor in dim.terms if factor == 1 and len(m) == 1)
    return {atom.name for atom in alone if isinstance(atom, Symbol)}
