"""Calls, branches and loops."""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.importers.stablehlo.context import Invalid, OpContext, Refused
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Operand, parts, rebuild
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import may_be_equal
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import If, While
from fornaxc.ir.types import TensorType


@stablehlo_op("func.call", elementwise=True)
def call(ctx: OpContext) -> list[Operand]:
    return ctx.importer.call(ctx.symbol("callee"), ctx.operands)


@stablehlo_op("stablehlo.composite", elementwise=True)
def composite(ctx: OpContext) -> list[Operand]:
    """By the decomposition that the module brings; the known names natively."""
    from fornaxc.importers.stablehlo.ops.composites import native_composite

    native = native_composite(ctx)
    return native if native is not None else ctx.importer.call(ctx.symbol("decomposition"), ctx.operands)


@stablehlo_op("stablehlo.if")
def if_(ctx: OpContext) -> list[Operand]:
    predicate = ctx.value(0)
    known = ctx.known(predicate)
    if known is not None:
        return ctx.region(0 if bool(known) else 1).inline([])
    first, second = GraphBuilder(ctx.b), GraphBuilder(ctx.b)
    yes, no = ctx.region(0).within(first, []), ctx.region(1).within(second, [])
    return _join(ctx.b, predicate, (first, yes), (second, no))


@stablehlo_op("stablehlo.case")
def case(ctx: OpContext) -> list[Operand]:
    """An index outside the branches takes the last one."""
    index = ctx.value(0)
    count = len(ctx.op.regions)
    known = ctx.known_ints(index)
    if known is not None:
        return ctx.region(known[0] if 0 <= known[0] < count else count - 1).inline([])
    return _choose(ctx, ctx.b, index, list(range(count)))


def _choose(ctx: OpContext, b: GraphBuilder, index: Value, branches: Sequence[int]) -> list[Operand]:
    if len(branches) == 1:
        return ctx.region(branches[0]).within(b, [])
    predicate = c.compare(b, "eq", index, c.scalar(b, branches[0], index.type.dtype))
    first, second = GraphBuilder(b), GraphBuilder(b)
    return _join(
        b,
        predicate,
        (first, ctx.region(branches[0]).within(first, [])),
        (second, _choose(ctx, second, index, branches[1:])),
    )


Arm = tuple[GraphBuilder, list[Operand]]


def _join(b: GraphBuilder, predicate: Value, yes: Arm, no: Arm) -> list[Operand]:
    """An `If` of two arms that are imported; the second's sizes are asserted to be the first's."""
    first = [v for operand in yes[1] for v in parts(operand)]
    second = [v for operand in no[1] for v in parts(operand)]
    types = tuple(_common(x.type, y.type) for x, y in zip(first, second, strict=True))
    regions = tuple(
        builder.finish([c.rebind(builder, v, t.shape) for v, t in zip(values, types, strict=True)])
        for builder, values in ((yes[0], first), (no[0], second))
    )
    results = iter(b.emit_all(If(types), predicate, regions=regions))
    return [rebuild(operand, [next(results) for _ in parts(operand)]) for operand in yes[1]]


def _common(x: TensorType, y: TensorType) -> TensorType:
    if x.dtype is not y.dtype or x.rank != y.rank:
        raise Invalid(f"branches give {x} and {y}")
    if not _may_agree(x, y):
        raise Refused(
            f"branches give {x} and {y}, which no sizes of 1 and more make the same: a result has one size, whichever runs"
        )
    return x.with_shape(
        tuple(
            d if isinstance(d, int) else e if isinstance(e, int) else d for d, e in zip(x.shape, y.shape, strict=True)
        )
    )


def _may_agree(x: TensorType, y: TensorType) -> bool:
    """Whether some sizes, none of them 0, give both types one shape."""
    return all(may_be_equal(d, e) for d, e in zip(x.shape, y.shape, strict=True))


@stablehlo_op("stablehlo.while")
def while_(ctx: OpContext) -> list[Operand]:
    carried = [v for operand in ctx.operands for v in parts(operand)]
    condition, body = GraphBuilder(ctx.b), GraphBuilder(ctx.b)
    (go_on,) = ctx.region(0).within(condition, _arguments(ctx, condition, carried))
    after = ctx.region(1).within(body, _arguments(ctx, body, carried))
    flat = [v for operand in after for v in parts(operand)]
    for v, old in zip(flat, carried, strict=True):
        if not _may_agree(v.type, old.type):
            raise Refused(f"the loop makes {v.type} of {old.type}: what it carries keeps its size")
    kept = [c.rebind(body, v, old.type.shape) for v, old in zip(flat, carried, strict=True)]
    if not isinstance(go_on, Value):
        raise Refused("a loop condition that is not a tensor")
    regions = (condition.finish([go_on]), body.finish(kept))
    results = iter(ctx.b.emit_all(While(), *carried, regions=regions))
    return [rebuild(operand, [next(results) for _ in parts(operand)]) for operand in ctx.operands]


def _arguments(ctx: OpContext, builder: GraphBuilder, carried: Sequence[Value]) -> list[Operand]:
    inputs = iter([builder.input(v.type) for v in carried])
    return [rebuild(operand, [next(inputs) for _ in parts(operand)]) for operand in ctx.operands]
