"""Symbolic dimensions: integers, or canonical polynomials over named sizes.

A `Dim` is an `int` or a `DimExpr`. A `DimExpr` is a sum of products of atoms with integer coefficients; an
atom is a `Symbol` (a size known only at run time, never negative) or a floor division, minimum or maximum of
two dims. Arithmetic canonicalises, so two dims that are the same polynomial compare equal and print alike;
an expression that reduces to a constant is an `int`.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from math import gcd
from operator import mul
from typing import Union

Dim = Union[int, "DimExpr"]

REMEMBERED = (
    4096  # results kept of each function of dims: the values of a model have few shapes, and many nodes share them
)


@dataclass(frozen=True, slots=True, order=True)
class Symbol:
    """A named size, at least 0, known only at run time."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Call:
    """`floordiv`, `min` or `max` of two dims that does not simplify."""

    fn: str
    left: Dim
    right: Dim

    def __str__(self) -> str:
        if self.fn == "floordiv":
            return f"(({self.left})//({self.right}))"
        return f"{self.fn}({self.left}, {self.right})"


Atom = Symbol | Call
Monomial = tuple[Atom, ...]  # sorted by printed form; () is the constant term


@dataclass(frozen=True, slots=True, eq=True)
class DimExpr:
    """A canonical sum of products: `terms` maps each monomial to its non-zero coefficient, sorted."""

    terms: tuple[tuple[Monomial, int], ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.terms))

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Dim) -> Dim:
        return _sum(self, other) if isinstance(other, (int, DimExpr)) else NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return self + (-other)

    def __rsub__(self, other: Dim) -> Dim:
        return (-self) + other

    def __mul__(self, other: Dim) -> Dim:
        return _product(self, other) if isinstance(other, (int, DimExpr)) else NotImplemented

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return _floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return _floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return self - other * _floordiv(self, other)

    def __rmod__(self, other: Dim) -> Dim:
        return other - self * _floordiv(other, self)

    def __str__(self) -> str:
        text = ""
        for monomial, factor in self.terms:
            product = "*".join(str(atom) for atom in monomial)
            size = abs(factor)
            term = product if product and size == 1 else f"{size}*{product}" if product else str(size)
            sign = "-" if factor < 0 else "+"
            text = f"{text} {sign} {term}" if text else (f"-{term}" if factor < 0 else term)
        return text

    __repr__ = __str__


def symbol(name: str) -> DimExpr:
    """The dim that is the named size `name` (a Python identifier)."""
    if not name.isidentifier():
        raise ValueError(f"a symbolic dim must be an identifier, not {name!r}")
    return DimExpr((((Symbol(name),), 1),))


def _atom(atom: Atom) -> DimExpr:
    return DimExpr((((atom,), 1),))


def _terms(dim: Dim) -> tuple[tuple[Monomial, int], ...]:
    return dim.terms if isinstance(dim, DimExpr) else (((), int(dim)),)


def _canonical(total: Mapping[Monomial, int]) -> Dim:
    kept = [(m, c) for m, c in total.items() if c]
    if not kept:
        return 0
    if len(kept) == 1 and kept[0][0] == ():
        return kept[0][1]
    if len(kept) > 1:
        kept.sort(key=lambda term: (term[0] == (), [str(atom) for atom in term[0]]))
    return DimExpr(tuple(kept))


@lru_cache(maxsize=REMEMBERED)
def _sum(left: DimExpr, right: Dim) -> Dim:
    total = dict(left.terms)
    for monomial, factor in _terms(right):
        total[monomial] = total.get(monomial, 0) + factor
    return _canonical(total)


@lru_cache(maxsize=REMEMBERED)
def _product(left: DimExpr, right: Dim) -> Dim:
    if isinstance(right, int):
        return DimExpr(tuple((m, c * right) for m, c in left.terms)) if right else 0
    total: dict[Monomial, int] = {}
    for first, a in left.terms:
        for second, b in right.terms:
            monomial = tuple(sorted(first + second, key=str))
            total[monomial] = total.get(monomial, 0) + a * b
    return _canonical(total)


def _divide_term(monomial: Monomial, factor: int, divisor: tuple[Monomial, int]) -> tuple[Monomial, int] | None:
    atoms, number = divisor
    rest = list(monomial)
    for atom in atoms:
        if atom not in rest:
            return None
        rest.remove(atom)
    return (tuple(rest), factor // number) if factor % number == 0 else None


def _exact_quotient(top: Dim, bottom: Dim) -> Dim | None:
    """Polynomial division without remainder, by leading terms; None where it does not divide."""
    quotient: Dim = 0
    rest = top
    lead = _terms(bottom)[0]
    for _ in range(64):
        if rest == 0:
            return quotient
        for monomial, factor in _terms(rest):
            term = _divide_term(monomial, factor, lead)
            if term is not None:
                break
        else:
            return None
        part = _canonical({term[0]: term[1]})
        quotient = quotient + part
        rest = rest - part * bottom
    return None


def _without_common_factor(top: Dim, bottom: Dim) -> tuple[Dim, Dim]:
    """Both divided by what divides every term of both; a quotient of products of sizes stays the same."""
    terms = (*_terms(top), *_terms(bottom))
    number = gcd(*(factor for _, factor in terms))
    common = Counter(atom for atom in terms[0][0] if _atom_nonnegative(atom))
    for monomial, _ in terms[1:]:
        common &= Counter(monomial)
    shared = tuple(common.elements())
    if number == 1 and not shared:
        return top, bottom

    def reduced(dim: Dim) -> Dim:
        divided = (_divide_term(monomial, factor, (shared, number)) for monomial, factor in _terms(dim))
        return _canonical(dict(term for term in divided if term is not None))

    return reduced(top), reduced(bottom)


@lru_cache(maxsize=REMEMBERED)
def _floordiv(top: Dim, bottom: Dim) -> Dim:
    if bottom == 0:
        raise ZeroDivisionError("a symbolic dim was divided by zero")
    if isinstance(bottom, int) and bottom < 0:
        return _floordiv(-top, -bottom)
    if isinstance(top, int) and isinstance(bottom, int):
        return top // bottom
    exact = _exact_quotient(top, bottom)
    if exact is not None:
        return exact
    top, bottom = _without_common_factor(top, bottom)
    if _is_nonpositive(top) and is_nonnegative(bottom):
        return -_floordiv(-top + bottom - 1, bottom)
    if isinstance(bottom, int):
        # floor((q*b + r) / b) = q + floor(r / b): what remains has no negative factor, so that rounding down is rounding to zero
        whole = {monomial: factor // bottom for monomial, factor in _terms(top)}
        rest = {monomial: factor % bottom for monomial, factor in _terms(top)}
        remainder = _canonical(rest)
        if isinstance(remainder, int):
            return _canonical(whole) + remainder // bottom
        return _atom(Call("floordiv", remainder, bottom)) + _canonical(whole)
    return _atom(Call("floordiv", top, bottom))


def _is_nonpositive(dim: Dim) -> bool:
    """True where no term of a dim can be above 0."""
    return all(factor <= 0 and all(map(_atom_nonnegative, monomial)) for monomial, factor in _terms(dim))


def is_nonnegative(dim: Dim) -> bool:
    """True where `dim` >= 0 follows from every symbol being >= 0 (False where that is not known)."""
    if isinstance(dim, int):
        return dim >= 0
    if all(c >= 0 and all(map(_atom_nonnegative, m)) for m, c in dim.terms):
        return True
    bounded = _without_quotient(dim)
    return bounded is not None and is_nonnegative(bounded)


def _without_quotient(dim: DimExpr) -> Dim | None:
    """A multiple of `dim`, or less, in which a bound stands for a quotient: t - b + 1 <= b * (t // b) <= t. None where there is none."""
    for monomial, factor in sorted(dim.terms, key=lambda term: term[1]):
        for place, atom in enumerate(monomial):
            others = monomial[:place] + monomial[place + 1 :]
            if not isinstance(atom, Call) or atom.fn != "floordiv" or not all(map(_atom_nonnegative, others)):
                continue
            ((atoms, number), *more) = _terms(atom.right)
            beside = _divide_term(others, factor, (atoms, 1))
            if not more and number > 0 and beside is not None:
                bound = atom.left if factor < 0 else atom.left - atom.right + 1
                return (dim - _canonical({monomial: factor})) * number + bound * _canonical(dict((beside,)))
    return None


def _atom_nonnegative(atom: Atom) -> bool:
    if isinstance(atom, Symbol):
        return True
    both = is_nonnegative(atom.left), is_nonnegative(atom.right)
    return any(both) if atom.fn == "max" else all(both)


def _only_call(dim: Dim) -> Call | None:
    """The call, where `dim` is exactly one."""
    if isinstance(dim, DimExpr) and len(dim.terms) == 1 and dim.terms[0][1] == 1:
        atoms = dim.terms[0][0]
        if len(atoms) == 1 and isinstance(atoms[0], Call):
            return atoms[0]
    return None


def at_most(left: Dim, right: Dim) -> bool:
    """True where `left` <= `right` follows from every symbol being >= 0 (False where that is not known)."""
    if is_nonnegative(right - left):
        return True
    low, high = _only_call(left), _only_call(right)
    if low is not None and low.fn == "min" and (at_most(low.left, right) or at_most(low.right, right)):
        return True
    if high is not None and high.fn == "max" and (at_most(left, high.left) or at_most(left, high.right)):
        return True
    if low is not None and low.fn == "floordiv" and is_nonnegative(low.right):
        return is_nonnegative(low.left) and at_most(low.left, right)
    return False


def may_be_equal(left: Dim, right: Dim) -> bool:
    """False where no sizes of 1 and more make these equal (True where that is not known)."""
    return not (_is_positive(left - right) or _is_positive(right - left))


def _is_positive(dim: Dim) -> bool:
    """True where `dim` > 0 follows from every symbol being >= 1 (False where that is not known)."""
    least = _least_without_quotients(dim)
    grown = substitute(least, {name: symbol(name) + 1 for name in symbols(least)})
    return is_nonnegative(grown - 1)


def _least_without_quotients(dim: Dim) -> Dim:
    """A multiple of `dim`, or less, with a bound in place of each term that is a floor division by a number."""
    for monomial, factor in _terms(dim):
        atom = monomial[0] if len(monomial) == 1 else None
        if isinstance(atom, Call) and atom.fn == "floordiv" and isinstance(atom.right, int) and atom.right > 0:
            rest = dim - factor * _atom(atom)
            bound = atom.left if factor < 0 else atom.left - (atom.right - 1)
            return _least_without_quotients(rest * atom.right + bound * factor)
    return dim


def dim_min(left: Dim, right: Dim) -> Dim:
    """The smaller of two dims."""
    if at_most(left, right):
        return left
    if at_most(right, left):
        return right
    return _atom(Call("min", *sorted((left, right), key=str)))


def dim_max(left: Dim, right: Dim) -> Dim:
    """The larger of two dims."""
    if at_most(right, left):
        return left
    if at_most(left, right):
        return right
    return _atom(Call("max", *sorted((left, right), key=str)))


def ceildiv(top: Dim, bottom: Dim) -> Dim:
    """Division rounding up."""
    return -((-top) // bottom)


def product(dims: Sequence[Dim]) -> Dim:
    """The product of dims (1 for none): the element count of a shape."""
    total = 1
    for dim in dims:
        if not isinstance(dim, int):
            return _symbolic_product(tuple(dims))
        total *= dim
    return total


@lru_cache(maxsize=REMEMBERED)
def _symbolic_product(dims: tuple[Dim, ...]) -> Dim:
    return reduce(mul, dims, 1)


def summands(dim: Dim) -> list[tuple[Dim, int]]:
    """`dim` as a sum: each product of atoms, 1 for the constant, and its factor."""
    return [(DimExpr(((monomial, 1),)) if monomial else 1, factor) for monomial, factor in _terms(dim) if factor]


def common_factor(dim: Dim) -> int:
    """The largest number that divides `dim` whatever its symbols are; 0 of 0."""
    return gcd(*(factor for _, factor in _terms(dim)))


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """`dim` with each symbol named in `values` replaced."""
    if isinstance(dim, int):
        return dim
    total: Dim = 0
    for monomial, factor in dim.terms:
        term: Dim = factor
        for atom in monomial:
            term = term * _substitute_atom(atom, values)
        total = total + term
    return total


def _substitute_atom(atom: Atom, values: Mapping[str, Dim]) -> Dim:
    if isinstance(atom, Symbol):
        return values.get(atom.name, _atom(atom))
    left, right = substitute(atom.left, values), substitute(atom.right, values)
    if atom.fn == "floordiv":
        return left // right
    return dim_min(left, right) if atom.fn == "min" else dim_max(left, right)


def symbols(dim: Dim) -> set[str]:
    """The names of the symbols in `dim`."""
    if isinstance(dim, int):
        return set()
    name = single_symbol(dim)
    if name is not None:
        return {name}
    names: set[str] = set()
    for monomial, _ in dim.terms:
        for atom in monomial:
            names |= {atom.name} if isinstance(atom, Symbol) else symbols(atom.left) | symbols(atom.right)
    return names


@lru_cache(maxsize=REMEMBERED)
def symbols_of(shape: tuple[Dim, ...]) -> frozenset[str]:
    """The names of the symbols in a shape."""
    return frozenset(name for dim in shape if not isinstance(dim, int) for name in symbols(dim))


@lru_cache(maxsize=REMEMBERED)
def bare_symbols_of(shape: tuple[Dim, ...]) -> frozenset[str]:
    """The names of the dims of a shape that are exactly one symbol."""
    return frozenset(name for name in map(single_symbol, shape) if name is not None)


class SymbolicDimError(ValueError):
    """A size that only the run time knows, where a number is needed."""


def static(dim: Dim) -> int:
    """A dim that is a number. Raises `SymbolicDimError` where it is symbolic."""
    if isinstance(dim, DimExpr):
        raise SymbolicDimError(f"the dim {dim} is symbolic")
    return int(dim)


def single_symbol(dim: Dim) -> str | None:
    """The name, where `dim` is exactly one symbol."""
    if isinstance(dim, DimExpr) and len(dim.terms) == 1:
        monomial, factor = dim.terms[0]
        if factor == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol):
            return monomial[0].name
    return None


def parse_dim(text: str) -> Dim:
    """The inverse of `str`: parse an expression of names, ints, + - * // min max. ValueError where it is not one."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"not a dim expression: {text!r}") from error
    return _from_ast(tree, text)


def _from_ast(node: ast.expr, text: str) -> Dim:
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            return symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_from_ast(operand, text)
        case ast.BinOp(left=left, op=operator, right=right):
            a, b = _from_ast(left, text), _from_ast(right, text)
            match operator:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.FloorDiv():
                    return a // b
                case ast.Mod():
                    return a % b
        case ast.Call(func=ast.Name(id="min" | "max" as fn), args=[left, right]):
            chosen = dim_min if fn == "min" else dim_max
            return chosen(_from_ast(left, text), _from_ast(right, text))
    raise ValueError(f"not a dim expression: {text!r}")
