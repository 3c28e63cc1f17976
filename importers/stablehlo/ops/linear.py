"""dot_general and convolution, as matrix products and convolutions in the IR's axis order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fornaxc.importers.stablehlo.context import OpContext
from fornaxc.importers.stablehlo.ops.arithmetic import narrow, wide_type
from fornaxc.importers.stablehlo.ops.elementwise import convert_value
from fornaxc.importers.stablehlo.ops.shape import flip, pad_value
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Complex, Operand
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, product
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, Conv, MatMul
from fornaxc.ir.types import DType

Product = Callable[[Value, Value], Value]


def bilinear(ctx: OpContext, multiply: Product, x: Operand, y: Operand) -> Operand:
    """A product of tensors that may be complex, by products of their parts."""
    b = ctx.b
    if isinstance(x, Complex) and isinstance(y, Complex):
        re = b.emit(Binary("sub"), multiply(x.re, y.re), multiply(x.im, y.im))
        return Complex(re, b.emit(Binary("add"), multiply(x.re, y.im), multiply(x.im, y.re)))
    if isinstance(x, Complex):
        assert isinstance(y, Value)
        return Complex(multiply(x.re, y), multiply(x.im, y))
    assert isinstance(x, Value)
    if isinstance(y, Complex):
        return Complex(multiply(x, y.re), multiply(x, y.im))
    assert isinstance(y, Value)
    return multiply(x, y)


def compute_type(ctx: OpContext) -> DType:
    """The type to multiply and add in: the result's, but not below that of the operands, and a computable one."""
    dtypes = [ctx.result_info().dtype, *(ctx.operand_info(i).dtype for i in range(2))]
    dtypes = [DType.I32 if d is DType.BOOL else wide_type(d) for d in dtypes]
    widest = max(dtypes, key=lambda d: (d.is_float, d.bits))
    return widest


@stablehlo_op("stablehlo.dot_general")
def dot_general(ctx: OpContext) -> Operand:
    from jaxlib.mlir.dialects import stablehlo

    n = stablehlo.DotDimensionNumbers(ctx.attribute("dot_dimension_numbers"))
    numbers = (
        tuple(n.lhs_batching_dimensions),
        tuple(n.rhs_batching_dimensions),
        tuple(n.lhs_contracting_dimensions),
        tuple(n.rhs_contracting_dimensions),
    )
    return product_of(ctx, *numbers)


@stablehlo_op("stablehlo.dot")
def dot(ctx: OpContext) -> Operand:
    rank = ctx.operand_info(0).rank
    return product_of(ctx, (), (), (rank - 1,), (0,))


def product_of(
    ctx: OpContext, batch_x: Sequence[int], batch_y: Sequence[int], over_x: Sequence[int], over_y: Sequence[int]
) -> Operand:
    """The product of the two operands, in the result's type."""
    compute, dtype = compute_type(ctx), ctx.result_info().dtype

    def multiply(x: Value, y: Value) -> Value:
        wide = contract(
            ctx.b, convert_value(ctx, x, compute), convert_value(ctx, y, compute), batch_x, batch_y, over_x, over_y
        )
        return wide if compute is dtype else narrow(ctx.b, wide, dtype)

    return bilinear(ctx, multiply, ctx.operands[0], ctx.operands[1])


def contract(
    b: GraphBuilder,
    x: Value,
    y: Value,
    batch_x: Sequence[int],
    batch_y: Sequence[int],
    over_x: Sequence[int],
    over_y: Sequence[int],
) -> Value:
    """Sum of products over the contracted axes: [batch..., free axes of x..., free axes of y...]."""
    free_x = [i for i in range(x.type.rank) if i not in (*batch_x, *over_x)]
    free_y = [i for i in range(y.type.rank) if i not in (*batch_y, *over_y)]
    x = c.transpose(b, x, (*batch_x, *free_x, *over_x))
    y = c.transpose(b, y, (*batch_y, *over_y, *free_y))
    nb, nx, ny = len(batch_x), len(free_x), len(free_y)
    lead = tuple(
        d if isinstance(d, int) else e if isinstance(e, int) else d
        for d, e in zip(x.type.shape[:nb], y.type.shape[:nb], strict=True)
    )
    inner = tuple(
        d if isinstance(d, int) else e if isinstance(e, int) else d
        for d, e in zip(x.type.shape[nb + nx :], y.type.shape[nb : y.type.rank - ny], strict=True)
    )
    rows, columns = x.type.shape[nb : nb + nx], y.type.shape[y.type.rank - ny :] if ny else ()
    x = c.rebind(b, x, (*lead, *rows, *inner))
    y = c.rebind(b, y, (*lead, *inner, *columns))
    left = c.reshape(b, x, (*lead, product(rows), product(inner)))
    right = c.reshape(b, y, (*lead, product(inner), product(columns)))
    return c.reshape(b, b.emit(MatMul(), left, right), (*lead, *rows, *columns))


@stablehlo_op("stablehlo.convolution", "stablehlo.dynamic_conv")
def convolution(ctx: OpContext) -> Operand:
    rank = ctx.operand_info(0).rank - 2
    if ctx.name == "stablehlo.convolution":
        pads: tuple[tuple[Dim, Dim], ...] = ctx.pairs("padding", rank)
    else:
        flat = ctx.dims(ctx.value(2), "the padding of a convolution")
        pads = tuple((flat[2 * i], flat[2 * i + 1]) for i in range(rank))
    compute, dtype = compute_type(ctx), ctx.result_info().dtype

    def multiply(x: Value, w: Value) -> Value:
        wide = _convolve(ctx, convert_value(ctx, x, compute), convert_value(ctx, w, compute), pads)
        return wide if compute is dtype else narrow(ctx.b, wide, dtype)

    return bilinear(ctx, multiply, ctx.operands[0], ctx.operands[1])


def _convolve(ctx: OpContext, x: Value, w: Value, pads: Sequence[tuple[Dim, Dim]]) -> Value:
    from jaxlib.mlir.dialects import stablehlo

    b = ctx.b
    n = stablehlo.ConvDimensionNumbers(ctx.attribute("dimension_numbers"))
    rank = x.type.rank - 2
    ones = (1,) * rank
    strides = ctx.ints("window_strides", ones)
    if len(set(strides)) == 1:  # one entry too many is let through by the verifier of dynamic_conv
        strides = strides[:1] * rank
    spread = ctx.ints("lhs_dilation", ones)
    dilations = ctx.ints("rhs_dilation", ones)
    turned = ctx.flags("window_reversal", rank)
    groups, batches = ctx.int("feature_group_count", 1), ctx.int("batch_group_count", 1)
    x = c.transpose(b, x, (n.input_batch_dimension, n.input_feature_dimension, *n.input_spatial_dimensions))
    w = c.transpose(
        b, w, (n.kernel_output_feature_dimension, n.kernel_input_feature_dimension, *n.kernel_spatial_dimensions)
    )
    w = flip(b, w, [2 + i for i in range(rank) if turned[i]])
    if batches > 1:  # groups of the batch become groups of channels
        size, channels, *space = x.type.shape
        x = c.reshape(b, x, (batches, size // batches, channels, *space))
        x = c.transpose(b, x, (1, 0, *range(2, rank + 3)))
        x = c.reshape(b, x, (size // batches, batches * channels, *space))
        groups = batches
    x = c.rebind(b, x, (x.type.shape[0], w.type.shape[1] * groups, *x.type.shape[2:]))
    plain = all(isinstance(p, int) and p >= 0 for pair in pads for p in pair) and set(spread) <= {1}
    if plain:
        low, high = tuple(int(str(p[0])) for p in pads), tuple(int(str(p[1])) for p in pads)
    else:
        zeros = (0, 0)
        x = pad_value(
            b,
            x,
            c.scalar(b, 0, x.type.dtype),
            (*zeros, *(p[0] for p in pads)),
            (*zeros, *(p[1] for p in pads)),
            (*zeros, *(s - 1 for s in spread)),
        )
        low = high = (0,) * rank
    if rank == 0 and groups == 1:
        y = b.emit(MatMul(), x, c.transpose(b, w, (1, 0)))
    elif rank == 0:
        y = c.squeeze(b, b.emit(Conv((1,), (0,), (0,), (1,), groups), *(c.unsqueeze(b, v, [2]) for v in (x, w))), [2])
    else:
        y = b.emit(Conv(strides, low, high, dilations, groups), x, w)
    order = (n.output_batch_dimension, n.output_feature_dimension, *n.output_spatial_dimensions)
    return c.transpose(b, y, [order.index(i) for i in range(rank + 2)])
