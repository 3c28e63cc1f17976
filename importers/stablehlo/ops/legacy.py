"""Operations that newer exporters no longer write: batch normalization, broadcast, einsum, torch_index_select."""

from __future__ import annotations

from fornaxc.importers.stablehlo.context import OpContext, Refused
from fornaxc.importers.stablehlo.ops.linear import contract
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Operand
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, product
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, Gather, GatherElements, Unary
from fornaxc.ir.types import DType


@stablehlo_op("stablehlo.broadcast")
def broadcast(ctx: OpContext) -> Operand:
    """New axes in front."""
    sizes = ctx.ints("broadcast_sizes")
    return ctx.part_wise(lambda x: c.expand(ctx.b, x, (*sizes, *x.type.shape)), ctx.operands[0])


def _epsilon(ctx: OpContext) -> float:
    from jaxlib.mlir import ir

    return float(ir.FloatAttr(ctx.attribute("epsilon")).value)


def _along(b: GraphBuilder, line: Value, like: Value, axis: int) -> Value:
    shape: list[Dim] = [like.type.shape[axis] if i == axis else 1 for i in range(like.type.rank)]
    return c.expand(b, c.reshape(b, line, shape), like.type.shape)


def _others(x: Value, axis: int) -> tuple[int, ...]:
    return tuple(i for i in range(x.type.rank) if i != axis)


def _normalized(b: GraphBuilder, x: Value, mean: Value, variance: Value, epsilon: float, axis: int) -> Value:
    spread = b.emit(Unary("sqrt"), c.with_scalar(b, "add", variance, epsilon))
    centred = b.emit(Binary("sub"), x, _along(b, mean, x, axis))
    return b.emit(Binary("div"), centred, _along(b, spread, x, axis))


@stablehlo_op("stablehlo.batch_norm_inference")
def batch_norm_inference(ctx: OpContext) -> Operand:
    b = ctx.b
    x, scale, offset, mean, variance = ctx.values
    axis = ctx.int("feature_index")
    scaled = b.emit(Binary("mul"), _normalized(b, x, mean, variance, _epsilon(ctx), axis), _along(b, scale, x, axis))
    return b.emit(Binary("add"), scaled, _along(b, offset, x, axis))


def _moments(b: GraphBuilder, x: Value, axis: int) -> tuple[Value, Value]:
    """Mean and variance over all other axes."""
    others = _others(x, axis)
    mean = c.reduce(b, "mean", x, others)
    centred = b.emit(Binary("sub"), x, c.expand(b, mean, x.type.shape))
    variance = c.reduce(b, "mean", b.emit(Binary("mul"), centred, centred), others)
    line = (x.type.shape[axis],)
    return c.reshape(b, mean, line), c.reshape(b, variance, line)


@stablehlo_op("stablehlo.batch_norm_training")
def batch_norm_training(ctx: OpContext) -> list[Operand]:
    b = ctx.b
    x, scale, offset = ctx.values
    axis = ctx.int("feature_index")
    mean, variance = _moments(b, x, axis)
    scaled = b.emit(Binary("mul"), _normalized(b, x, mean, variance, _epsilon(ctx), axis), _along(b, scale, x, axis))
    return [b.emit(Binary("add"), scaled, _along(b, offset, x, axis)), mean, variance]


@stablehlo_op("stablehlo.batch_norm_grad")
def batch_norm_grad(ctx: OpContext) -> list[Operand]:
    """The gradients of operand, scale and offset, as the specification composes them."""
    b = ctx.b
    x, scale, mean, variance, grad = ctx.values
    axis = ctx.int("feature_index")
    others = _others(x, axis)
    line = (x.type.shape[axis],)
    epsilon = _epsilon(ctx)
    normal = _normalized(b, x, mean, variance, epsilon, axis)
    grad_offset = c.reshape(b, c.reduce(b, "sum", grad, others), line)
    grad_scale = c.reshape(b, c.reduce(b, "sum", b.emit(Binary("mul"), grad, normal), others), line)
    count = c.cast(b, c.reshape(b, b.dims((product([x.type.shape[i] for i in others]),)), ()), x.type.dtype)
    shared = b.emit(
        Binary("add"), _along(b, grad_offset, x, axis), b.emit(Binary("mul"), normal, _along(b, grad_scale, x, axis))
    )
    rest = b.emit(Binary("sub"), grad, c.binary(b, "div", shared, count))
    spread = b.emit(Unary("sqrt"), c.with_scalar(b, "add", variance, epsilon))
    factor = b.emit(Binary("div"), scale, spread)
    return [b.emit(Binary("mul"), rest, _along(b, factor, x, axis)), grad_scale, grad_offset]


@stablehlo_op("stablehlo.torch_index_select")
def torch_index_select(ctx: OpContext) -> Operand:
    """The places of an axis that the indices name, clamped to it, for each place of the batch axes."""
    b, axis, batch = ctx.b, ctx.int("dim"), ctx.int("batch_dims")
    rank = ctx.operand_info(0).rank
    axis, batch = axis + rank * (axis < 0), batch + ctx.operand_info(1).rank * (batch < 0)
    ctx.refuse_unless(batch <= axis, "torch_index_select with batch axes after the selected one")
    index = c.cast(b, ctx.value(1), DType.I64)
    return ctx.part_wise(lambda x: _selected(b, x, index, axis, batch), ctx.operands[0])


def _selected(b: GraphBuilder, x: Value, index: Value, axis: int, batch: int) -> Value:
    last = c.reshape(b, b.dims((x.type.shape[axis] - 1,)), ())
    index = c.binary(b, "min", c.with_scalar(b, "max", index, 0), last)
    if batch == 0:
        return b.emit(Gather(axis), x, index)
    lead, places, rest = x.type.shape[:axis], index.type.shape[batch:], x.type.shape[axis + 1 :]
    count = product(places)
    line = c.reshape(b, index, (*x.type.shape[:batch], *(1,) * (axis - batch), count, *(1,) * len(rest)))
    found = b.emit(GatherElements(axis), x, c.expand(b, line, (*lead, count, *rest)))
    return c.reshape(b, found, (*lead, *places, *rest))


@stablehlo_op("stablehlo.unary_einsum")
def unary_einsum(ctx: OpContext) -> Operand:
    """The sum over the letters that the result does not have."""
    letters, _, result = ctx.string("einsum_config").partition("->")
    plain = all(len(set(t)) == len(t) and t.isalpha() for t in (letters, result) if t)
    ctx.refuse_unless(plain and set(result) <= set(letters), f"the einsum {letters}->{result}")
    over = [i for i, k in enumerate(letters) if k not in result]
    kept = [k for k in letters if k in result]

    def sum_over(x: Value) -> Value:
        found = c.squeeze(ctx.b, c.reduce(ctx.b, "sum", x, over), over) if over else x
        return c.transpose(ctx.b, found, [kept.index(k) for k in result])

    return ctx.part_wise(sum_over, ctx.operands[0])


@stablehlo_op("stablehlo.einsum")
def einsum(ctx: OpContext) -> Operand:
    """Two operands without repeated letters."""
    left, _, result = ctx.string("einsum_config").partition("->")
    first, _, second = left.partition(",")
    terms = (first, second, result)
    ctx.refuse_unless(all(len(set(t)) == len(t) and t.isalpha() for t in terms if t), f"the einsum {left}->{result}")
    b, (x, y) = ctx.b, ctx.values
    x = c.reduce(b, "sum", x, [i for i, k in enumerate(first) if k not in second + result])
    y = c.reduce(b, "sum", y, [i for i, k in enumerate(second) if k not in first + result])
    x, first = _dropped(b, x, first, second + result)
    y, second = _dropped(b, y, second, first + result)
    batch = [k for k in first if k in second and k in result]
    over = [k for k in first if k in second and k not in result]
    found = contract(
        b,
        x,
        y,
        [first.index(k) for k in batch],
        [second.index(k) for k in batch],
        [first.index(k) for k in over],
        [second.index(k) for k in over],
    )
    order = [*batch, *(k for k in first if k not in second), *(k for k in second if k not in first)]
    return c.transpose(b, found, [order.index(k) for k in result])


def _dropped(b: GraphBuilder, x: Value, letters: str, kept: str) -> tuple[Value, str]:
    gone = [i for i, k in enumerate(letters) if k not in kept]
    return (c.squeeze(b, x, gone) if gone else x), "".join(k for k in letters if k in kept)


@stablehlo_op("stablehlo.set_dimension_size")
def set_dimension_size(ctx: OpContext) -> Operand:
    size = ctx.known_ints(ctx.value(1))
    axis = ctx.int("dimension")
    if size is None or size[0] != ctx.value(0).type.shape[axis]:
        raise Refused("a tensor of bounded size")
    return ctx.value(0)
