"""Reads the sizes of symbolic dims off concrete shapes, and checks the conditions on them."""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.ir.dims import Dim, single_symbol, substitute
from fornaxc.ir.graph import Constraint
from fornaxc.ir.types import TensorType


class ShapeMismatch(Exception):
    """Shapes that do not fit their types; the text names the input, the axis and both sizes."""


def bind_dims(names: Sequence[str], types: Sequence[TensorType], shapes: Sequence[tuple[int, ...]]) -> dict[str, Dim]:
    """The size of every symbol of `types`. Raises `ShapeMismatch` where the shapes contradict the types or each other."""
    sizes: dict[str, Dim] = {}
    axes = []
    for name, type, shape in zip(names, types, shapes, strict=True):
        if type.rank != len(shape):
            raise ShapeMismatch(f"input {name!r} must be {type}, which has rank {type.rank}; got shape {list(shape)}")
        axes += [(name, axis, dim, size) for axis, (dim, size) in enumerate(zip(type.shape, shape, strict=True))]
    for name, axis, dim, size in axes:
        symbol = single_symbol(dim)
        if symbol is not None and sizes.setdefault(symbol, size) != size:
            raise ShapeMismatch(f"axis {axis} of input {name!r} has size {size}, but {symbol} is {sizes[symbol]}")
    for name, axis, dim, size in axes:
        wanted = substitute(dim, sizes)
        if wanted != size:
            shown = f"{wanted}" if isinstance(dim, int) else f"{dim} = {wanted}"
            raise ShapeMismatch(f"axis {axis} of input {name!r} must have size {shown}; got {size}")
    return sizes


def check_constraints(constraints: Sequence[Constraint], sizes: dict[str, Dim]) -> None:
    """Raise `ShapeMismatch` where the sizes break a condition of the program."""
    for constraint in constraints:
        left, right = substitute(constraint.left, sizes), substitute(constraint.right, sizes)
        if not (isinstance(left, int) and isinstance(right, int)):
            continue
        if left < right or (constraint.relation == "==" and left != right):
            given = ", ".join(f"{name}={size}" for name, size in sizes.items())
            raise ShapeMismatch(f"the model needs {constraint} ({constraint.why}); got {given}")
