"""Operators as they were before opset 7: the right operand broadcasts to the left one only where an attribute says so and from which axis,
and attributes tell training from inference."""

from __future__ import annotations

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.ops.matmul import gemm
from fornaxc.importers.onnx.ops.normalization import inference_batch_norm
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir import compose as c
from fornaxc.ir.graph import Value


def _operands(ctx: NodeContext) -> tuple[Value, Value]:
    """Both, of the left one's shape. With `broadcast` the right one's axes are the left one's from `axis` on, by default the last ones."""
    left, right = ctx.input(0), ctx.input(1)
    rank, inner = left.type.rank, right.type.rank
    if not ctx.int("broadcast", 0):
        ctx.ignore("axis")
        ctx.require(rank == inner, "the operands have one shape unless `broadcast` is 1")
        return left, c.rebind(ctx.b, right, left.type.shape) if left.type.shape != right.type.shape else right
    axis = ctx.int("axis", rank - inner)
    if right.type.elements == 1:
        return left, c.expand(ctx.b, c.reshape(ctx.b, right, (1,) * rank), left.type.shape)
    ctx.require(0 <= axis <= rank - inner, f"axes of a tensor of rank {inner} from axis {axis} of one of rank {rank}")
    shape = (*(1,) * axis, *right.type.shape, *(1,) * (rank - inner - axis))
    return left, c.expand(ctx.b, c.reshape(ctx.b, right, shape), left.type.shape)


_BINARY = (
    ("Add", "add", 6),
    ("Sub", "sub", 6),
    ("Mul", "mul", 6),
    ("Div", "div", 6),
    ("Pow", "pow", 1),
    ("And", "and", 1),
    ("Or", "or", 1),
    ("Xor", "xor", 1),
)
for _name, _fn, _since in _BINARY:
    onnx_op(_name, _since)(lambda ctx, fn=_fn: c.binary(ctx.b, fn, *_operands(ctx)))  # type: ignore[misc]
for _name, _fn in (("Equal", "eq"), ("Greater", "gt"), ("Less", "lt")):
    onnx_op(_name, 1)(lambda ctx, fn=_fn: c.compare(ctx.b, fn, *_operands(ctx)))  # type: ignore[misc]


@onnx_op("PRelu", 6)
def prelu(ctx: NodeContext) -> Value:
    """`slope` is one number, or one for each channel (axis 1)."""
    b, x, slope = ctx.b, ctx.input(0), ctx.input(1)
    ctx.require(slope.type.rank <= 1, "the slope is one number, or one for each channel")
    if slope.type.elements == 1:
        slope = c.reshape(b, slope, (1,) * x.type.rank)
    else:
        ctx.require(x.type.rank > 1, "slopes for each channel need channels")
        slope = c.reshape(b, slope, (1, *slope.type.shape, *(1,) * (x.type.rank - 2)))
    negative = c.binary(b, "mul", x, c.expand(b, slope, x.type.shape))
    return c.select(b, c.compare(b, "lt", x, c.scalar(b, 0, x.type.dtype)), negative, x)


@onnx_op("Gemm", 6)
def gemm_of_equal_shapes(ctx: NodeContext) -> Value:
    """C broadcasts only with `broadcast`."""
    ctx.require(bool(ctx.int("broadcast", 0)) or ctx.input(2).type.rank == 2, "C is a matrix unless `broadcast` is 1")
    return gemm(ctx)


@onnx_op("BatchNormalization", 6)
def batch_normalization(ctx: NodeContext) -> Value:
    ctx.refuse_unless(bool(ctx.int("is_test", 0)), "BatchNormalization in training mode")
    ctx.refuse_unless(ctx.int("spatial", 1) == 1, "BatchNormalization with spatial=0")
    return inference_batch_norm(ctx)


@onnx_op("Dropout", 6)
def dropout(ctx: NodeContext) -> Value:
    """Without a mask: in inference it is not filled."""
    ctx.ignore("ratio")
    ctx.refuse_unless(bool(ctx.int("is_test", 0)), "Dropout in training mode")
    ctx.refuse_unless(not ctx.wants_output(1), "the mask of a Dropout in inference")
    return ctx.input(0)
