"""Arithmetic on integers that are sizes of tensors, and truth values that they decide: their content as the program knows it."""

from __future__ import annotations

from collections.abc import Callable

from fornaxc.importers.stablehlo.context import OpContext
from fornaxc.importers.stablehlo.sizes import Condition, sized
from fornaxc.importers.stablehlo.types import Operand
from fornaxc.ir import compose as c
from fornaxc.ir.builder import FOLD_ELEMENTS
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Value
from fornaxc.ir.types import DType

_WIDE = (DType.I32, DType.I64)  # that sizes do not overflow


def computed(ctx: OpContext, function: Callable[..., Dim | None], *values: Value) -> Value | None:
    """`function` of the entries of tensors of one shape; None where they are no sizes, or it is None of some."""
    contents = [ctx.known(v) for v in values]
    like = values[0].type
    if any(k is None for k in contents) or all(k is not None and k.dtype != object for k in contents):
        return None
    if like.dtype not in _WIDE or any(k is not None and k.size > FOLD_ELEMENTS for k in contents):
        return None
    rows = zip(*(k.reshape(-1).tolist() for k in contents if k is not None), strict=True)
    entries = [function(*dims) for dims in rows]
    found = [e for e in entries if e is not None]
    return sized(ctx.b, found, like) if len(found) == len(entries) else None


def compared(ctx: OpContext, direction: str, x: Value, y: Value, result: Value) -> Value:
    """The truth value `result` of a comparison, with what sizes say of it."""
    if ctx.known(result) is not None or result.type.elements != 1:
        return result
    if x.type.dtype is DType.BOOL:
        first, second = ctx.sizes.condition(ctx.b, x), ctx.sizes.condition(ctx.b, y)
        if first is None or second is None or direction not in ("EQ", "NE"):
            return result
        differ = ctx.sizes.differ(first, second)
        return holding(ctx, differ if direction == "NE" else ctx.sizes.negated(differ), result)
    left, right = entry(ctx, x), entry(ctx, y)
    if left is None or right is None:
        return result
    return holding(ctx, ctx.sizes.compared(direction, left, right), result)


def entry(ctx: OpContext, operand: Operand) -> Dim | None:
    """The only entry of an integer tensor, where the program knows it."""
    if not isinstance(operand, Value) or operand.type.elements != 1 or not operand.type.dtype.is_integer:
        return None
    found = ctx.known(operand)
    return None if found is None else found.reshape(-1).tolist()[0]


def combined(ctx: OpContext, fn: str, result: Operand) -> Operand:
    """The truth value `result` of and, or, xor or not, with what sizes say of it."""
    sizes = ctx.sizes
    if not isinstance(result, Value) or result.type.dtype is not DType.BOOL or result.type.elements != 1:
        return result
    sides = [sizes.condition(ctx.b, v) for v in ctx.values]
    if ctx.known(result) is not None or any(s is None for s in sides):
        return result
    functions: dict[str, Callable[..., Condition]] = {
        "and": sizes.both,
        "or": sizes.either,
        "xor": sizes.differ,
        "not": sizes.negated,
    }
    return holding(ctx, functions[fn](*sides), result) if fn in functions else result


def holding(ctx: OpContext, condition: Condition, result: Value) -> Value:
    """A truth value that holds where a condition does: a literal where that is known."""
    if condition.known is not None:
        return c.full_like(ctx.b, condition.known, result)
    ctx.sizes.conditions[result] = condition
    return result


def chosen(ctx: OpContext) -> Value | None:
    """A select between sizes of which sizes decide, where its result is a size as well."""
    yes, no = (entry(ctx, operand) for operand in ctx.operands[1:])
    condition = ctx.sizes.condition(ctx.b, ctx.value(0))
    if yes is None or no is None or condition is None or ctx.lifted:
        return None
    found = ctx.sizes.chosen(condition, yes, no)
    return None if found is None else sized(ctx.b, [found], ctx.value(1).type)
