"""chlo.ragged_dot: products of groups of rows, of groups of contracted places, or of groups of a batch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fornaxc.importers.stablehlo.context import OpContext, Refused
from fornaxc.importers.stablehlo.ops.arithmetic import narrow
from fornaxc.importers.stablehlo.ops.elementwise import convert_value
from fornaxc.importers.stablehlo.ops.linear import compute_type, contract, product_of
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Operand
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, Iota
from fornaxc.ir.types import DType


@dataclass(frozen=True, slots=True)
class _Axes:
    """The axes that the attribute names, by operand; `group` is the axis of the right operand that counts groups."""

    batch_x: tuple[int, ...]
    batch_y: tuple[int, ...]
    over_x: tuple[int, ...]
    over_y: tuple[int, ...]
    ragged: int
    group: int | None

    def free_x(self, rank: int) -> list[int]:
        return [i for i in range(rank) if i not in (*self.batch_x, *self.over_x)]

    def before(self, rank: int) -> list[int]:
        """The axes of the left operand, which has this rank, that come before the ragged one where groups differ along them."""
        kind = self.over_x if self.group is None else self.free_x(rank)
        return [*self.batch_x, *kind[: kind.index(self.ragged)]]


@stablehlo_op("chlo.ragged_dot")
def ragged_dot(ctx: OpContext) -> Operand:
    """`group_sizes` says how many places of the ragged axis each group has, in order; places after the last group count as 0. It is
    one line of numbers, or one for each place of the left operand's axes that come before the ragged one: batch axes, then those of its
    kind, free or contracted.

    A ragged free axis takes each group's matrix of the right operand, a ragged contracted axis gives one product for each group, and a
    ragged batch axis is a batch axis.
    """
    axes = _axes(ctx)
    if axes.ragged in axes.batch_x:
        return product_of(ctx, axes.batch_x, axes.batch_y, axes.over_x, axes.over_y)
    b = ctx.b
    x, y, sizes = ctx.values
    before = axes.before(x.type.rank)
    groups = sizes.type.shape[-1] if sizes.type.rank in (1, len(before) + 1) else None
    if not isinstance(groups, int):
        raise Refused(f"groups whose sizes are {sizes.type}")
    compute, dtype = compute_type(ctx), ctx.result_info().dtype
    x, y = convert_value(ctx, x, compute), convert_value(ctx, y, compute)
    inside = _groups(b, sizes, groups, x.type.shape[axes.ragged])
    found = _by_contraction(b, x, y, axes, inside) if axes.group is None else _by_rows(b, x, y, axes, inside)
    if not found:
        shape = tuple(0 if d is None else d for d in ctx.result_info().shape)
        return c.full(b, 0, x.type.with_shape(shape).with_dtype(dtype))
    if axes.group is None:
        return narrow(b, c.concat(b, [c.unsqueeze(b, v, [0]) for v in found], 0), dtype)
    total = found[0]
    for more in found[1:]:
        total = b.emit(Binary("add"), total, more)
    return narrow(b, total, dtype)


def _by_contraction(b: GraphBuilder, x: Value, y: Value, axes: _Axes, inside: list[Value]) -> list[Value]:
    """For each group the product over its places."""
    count = axes.over_x.index(axes.ragged) + 1
    left, right = [*axes.batch_x, *axes.over_x[:count]], [*axes.batch_y, *axes.over_y[:count]]
    numbers = (axes.batch_x, axes.batch_y, axes.over_x, axes.over_y)
    return [contract(b, _kept(b, x, left, line), _kept(b, y, right, line), *numbers) for line in inside]


def _by_rows(b: GraphBuilder, x: Value, y: Value, axes: _Axes, inside: list[Value]) -> list[Value]:
    """For each group the product with its matrix, 0 in the rows that are not the group's."""
    group = axes.group or 0
    batch_y, over_y = (tuple(n - (n > group) for n in numbers) for numbers in (axes.batch_y, axes.over_y))
    rows = len(axes.before(x.type.rank))
    found = []
    for number, line in enumerate(inside):
        matrix = c.squeeze(b, c.slice_axis(b, y, group, number, 1), [group])
        whole = contract(b, x, matrix, axes.batch_x, batch_y, axes.over_x, over_y)
        found.append(_kept(b, whole, range(rows + 1), line))
    return found


def _axes(ctx: OpContext) -> _Axes:
    text = str(ctx.attribute("ragged_dot_dimension_numbers"))
    found = {
        name: tuple(int(n) for n in numbers.split(",") if n.strip())
        for name, numbers in re.findall(r"(\w+_dimensions) = \[([\d, ]*)\]", text)
    }
    ragged, groups = found.get("lhs_ragged_dimensions", ()), found.get("rhs_group_dimensions", ())
    batch, over = found.get("lhs_batching_dimensions", ()), found.get("lhs_contracting_dimensions", ())
    free = len(ragged) == 1 and ragged[0] not in (*batch, *over)
    if len(ragged) != 1 or len(groups) != int(free):
        raise Refused(f"a ragged product over {found}")
    batch_y, over_y = found.get("rhs_batching_dimensions", ()), found.get("rhs_contracting_dimensions", ())
    return _Axes(batch, batch_y, over, over_y, ragged[0], groups[0] if groups else None)


def _groups(b: GraphBuilder, sizes: Value, groups: int, length: Dim) -> list[Value]:
    """For each group which places of the ragged axis, the last one, are its own."""
    axis = sizes.type.rank - 1
    number = b.emit(Iota((length,), 0, DType.I64))
    start = c.scalar(b, 0, DType.I64)
    found = []
    for group in range(groups):
        size = c.cast(b, c.slice_axis(b, sizes, axis, group, 1), DType.I64)
        end = c.binary(b, "add", start, size)
        found.append(c.binary(b, "and", c.compare(b, "ge", number, start), c.compare(b, "lt", number, end)))
        start = end
    return found


def _kept(b: GraphBuilder, x: Value, axes: Sequence[int], inside: Value) -> Value:
    """`x` with zeros in the places of `axes`, or of the last of them, that are not inside."""
    axes = list(axes)[-inside.type.rank :]
    line = c.transpose(b, inside, sorted(range(len(axes)), key=lambda i: axes[i]))
    line = c.reshape(b, line, [x.type.shape[i] if i in axes else 1 for i in range(x.type.rank)])
    return c.select(b, line, x, c.full_like(b, 0, x))
