"""Einsum, by diagonals, sums, products and matrix products."""

from __future__ import annotations

from dataclasses import dataclass

from fornaxc.importers.onnx.context import Invalid, NodeContext
from fornaxc.importers.onnx.ops.matmul import matmul
from fornaxc.importers.onnx.ops.reduce import drop_axes
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, product
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Iota
from fornaxc.ir.types import DType


@dataclass(frozen=True, slots=True)
class _Term:
    """A tensor whose axes are named, each name once. The axes of an ellipsis are named by (negative) numbers as text."""

    value: Value
    names: tuple[str, ...]

    def size(self, name: str) -> Dim:
        return self.value.type.shape[self.names.index(name)]


@onnx_op("Einsum", 12, 28)
def einsum(ctx: NodeContext) -> Value:
    """Operands are contracted from left to right; a name is summed as soon as no later operand or the output has it."""
    b, operands = ctx.b, ctx.variadic
    inputs, output = _parse(ctx.string("equation"), [v.type.rank for v in operands])
    terms = [_diagonal(b, v, names) for v, names in zip(operands, inputs, strict=True)]
    result = _summed(b, terms[0], _used(terms[1:], output))
    for i, term in enumerate(terms[1:], 1):
        result = _contracted(b, result, term, _used(terms[i + 1 :], output))
    missing = set(output) - set(result.names)
    if missing:
        raise Invalid(f"no input has the output's {', '.join(sorted(missing))}")
    return c.transpose(b, result.value, [result.names.index(n) for n in output])


def _parse(equation: str, ranks: list[int]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The axis names of each operand and of the output."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        raise Invalid(f"the equation {equation!r} has {len(parts)} operands, the node {len(ranks)}")
    hidden = [rank - len(p.replace("...", "")) for p, rank in zip(parts, ranks, strict=True)]
    for part, rank, extra in zip(parts, ranks, hidden, strict=True):
        if extra < 0 or (extra > 0 and "..." not in part):
            raise Invalid(f"the term {part!r} does not name the {rank} axes of its operand")
    widest = max([extra for p, extra in zip(parts, hidden, strict=True) if "..." in p], default=0)
    inputs = [_names(p, extra, equation) for p, extra in zip(parts, hidden, strict=True)]
    if arrow:
        output = _names(right, widest if "..." in right else 0, equation)
    else:
        letters = left.replace(",", "").replace("...", "")
        once = sorted(n for n in set(letters) if letters.count(n) == 1)
        output = (*_ellipsis(widest), *once)
    if len(set(output)) != len(output):
        raise Invalid(f"the output of {equation!r} names an axis twice")
    return inputs, output


def _ellipsis(count: int) -> tuple[str, ...]:
    """Names that count from the last axis of the ellipsis, so that shorter ones align right."""
    return tuple(str(-i) for i in range(count, 0, -1))


def _names(part: str, extra: int, equation: str) -> tuple[str, ...]:
    before, dots, after = part.partition("...")
    if not all(n.isalpha() and n.isascii() for n in before + after):
        raise Invalid(f"the equation {equation!r} is malformed")
    return (*before, *(_ellipsis(extra) if dots else ()), *after)


def _used(terms: list[_Term], output: tuple[str, ...]) -> set[str]:
    return set(output).union(*(t.names for t in terms))


def _diagonal(b: GraphBuilder, x: Value, names: tuple[str, ...]) -> _Term:
    """One axis for each name: a name that appears twice keeps the elements where both indices agree."""
    while len(set(names)) < len(names):
        second = next(i for i, n in enumerate(names) if n in names[:i])
        first = names.index(names[second])
        size = x.type.shape[first]
        x = c.rebind(b, x, tuple(size if i == second else d for i, d in enumerate(x.type.shape)))
        rows, columns = (b.emit(Iota(x.type.shape, axis, DType.I64)) for axis in (first, second))
        same = c.compare(b, "eq", rows, columns)
        kept = c.select(b, same, x, c.scalar(b, 0, x.type.dtype))
        x = drop_axes(b, c.reduce(b, "sum", kept, (second,)), (second,))
        names = names[:second] + names[second + 1 :]
    return _Term(x, names)


def _summed(b: GraphBuilder, term: _Term, keep: set[str]) -> _Term:
    """`term` summed over the axes that are not to be kept."""
    axes = [i for i, n in enumerate(term.names) if n not in keep]
    value = drop_axes(b, c.reduce(b, "sum", term.value, axes), axes)
    return _Term(value, tuple(n for n in term.names if n in keep))


def _contracted(b: GraphBuilder, left: _Term, right: _Term, keep: set[str]) -> _Term:
    """The product of two terms, summed over the names that are not to be kept, as one matrix product.

    A size 1 broadcasts, whether the axis stays (as a batch axis) or is summed.
    """
    left = _summed(b, left, keep | set(right.names))
    right = _summed(b, right, keep | set(left.names))
    shared = [n for n in left.names if n in right.names]
    left, right = _aligned(b, left, right, shared)
    batch = [n for n in shared if n in keep]
    inner = [n for n in shared if n not in keep]
    rows = [n for n in left.names if n not in shared]
    columns = [n for n in right.names if n not in shared]
    sizes = {n: t.size(n) for t in (left, right) for n in t.names}
    if not inner and not (rows and columns):
        return _multiplied(b, left, right)
    lead = [sizes[n] for n in batch]
    flat_left = _flat(b, left, (batch, rows, inner))
    flat_right = _flat(b, right, (batch, inner, columns))
    result = matmul(b, flat_left, flat_right)
    names = (*batch, *rows, *columns)
    shape = (*lead, *(sizes[n] for n in (*rows, *columns)))
    return _Term(c.reshape(b, result, shape), names)


def _aligned(b: GraphBuilder, left: _Term, right: _Term, shared: list[str]) -> tuple[_Term, _Term]:
    """Both terms with equal sizes on the shared axes."""
    sizes = {n: c.broadcast_dims(left.size(n), right.size(n)) for n in shared}

    def widened(term: _Term) -> _Term:
        shape = [sizes.get(n, d) for n, d in zip(term.names, term.value.type.shape, strict=True)]
        return _Term(c.expand(b, term.value, shape), term.names)

    return widened(left), widened(right)


def _flat(b: GraphBuilder, term: _Term, groups: tuple[list[str], list[str], list[str]]) -> Value:
    """The term with its batch axes first, then two axes: the products of the other groups."""
    order = [n for group in groups for n in group]
    moved = c.transpose(b, term.value, [term.names.index(n) for n in order])
    lead = [term.size(n) for n in groups[0]]
    return c.reshape(b, moved, (*lead, *(product([term.size(n) for n in g]) for g in groups[1:])))


def _multiplied(b: GraphBuilder, left: _Term, right: _Term) -> _Term:
    """The elementwise product, where nothing is summed and one term has all the names."""
    whole, part = (left, right) if len(left.names) >= len(right.names) else (right, left)
    order = [n for n in whole.names if n in part.names]
    moved = c.transpose(b, part.value, [part.names.index(n) for n in order])
    shape = [whole.size(n) if n in order else 1 for n in whole.names]
    return _Term(c.binary(b, "mul", whole.value, c.reshape(b, moved, shape)), whole.names)
