"""Operations that newer exporters no longer write: batch normalization, broadcast, einsum, torch_index_select, ragged products."""

from __future__ import annotations

import re

from fornaxc.importers.stablehlo.context import OpContext, Refused
from fornaxc.importers.stablehlo.ops.linear import contract
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Operand
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, product
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, Gather, Iota, MatMul, Unary
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
    b, axis, batch = ctx.b, ctx.int("dim"), ctx.int("batch_dims")
    ctx.refuse_unless(batch == 0, "torch_index_select with batch axes")
    index = c.cast(b, ctx.value(1), DType.I64)
    return ctx.part_wise(lambda x: b.emit(Gather(axis), x, index), ctx.operands[0])


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


@stablehlo_op("chlo.ragged_dot")
def ragged_dot(ctx: OpContext) -> Operand:
    """Rows of [m, k] times the matrix [g, k, n] of their group; `group_sizes` says how many rows each group has, in order."""
    b = ctx.b
    x, w, sizes = ctx.values
    ctx.refuse_unless(
        x.type.rank == 2 and w.type.rank == 3 and sizes.type.rank == 1, f"a ragged product of {x.type} and {w.type}"
    )
    numbers = dict(re.findall(r"(\w+_dimensions) = \[([\d, ]*)\]", str(ctx.attribute("ragged_dot_dimension_numbers"))))
    plain = {
        "lhs_contracting_dimensions": "1",
        "rhs_contracting_dimensions": "1",
        "lhs_ragged_dimensions": "0",
        "rhs_group_dimensions": "0",
    }
    given = {name: axes for name, axes in numbers.items() if axes}
    ctx.refuse_unless(given == plain, f"a ragged product over {given}")
    groups, rows = w.type.shape[0], x.type.shape[0]
    ctx.refuse_unless(isinstance(groups, int), "a symbolic number of groups")
    number = b.emit(Iota((rows,), 0, DType.I64))
    start = c.scalar(b, 0, DType.I64)
    info = ctx.result_info()
    total: Value | None = None
    for group in range(int(str(groups))):
        end = b.emit(Binary("add"), start, c.cast(b, c.reshape(b, c.slice_axis(b, sizes, 0, group, 1), ()), DType.I64))
        inside = b.emit(Binary("and"), c.compare(b, "ge", number, start), c.compare(b, "lt", number, end))
        matrix = c.reshape(b, c.slice_axis(b, w, 0, group, 1), w.type.shape[1:])
        part = b.emit(MatMul(), c.cast(b, x, info.dtype), c.cast(b, matrix, info.dtype))
        part = c.select(b, c.unsqueeze(b, inside, [1]), part, c.full_like(b, 0, part))
        total = part if total is None else b.emit(Binary("add"), total, part)
        start = end
    assert total is not None
    return total
