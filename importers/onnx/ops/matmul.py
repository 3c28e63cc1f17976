"""Matrix products."""

from __future__ import annotations

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import MatMul


def matmul(b: GraphBuilder, left: Value, right: Value) -> Value:
    """numpy.matmul: leading axes broadcast, an operand of rank 1 is a row or a column whose axis is dropped again."""
    row, column = left.type.rank == 1, right.type.rank == 1
    left = c.unsqueeze(b, left, (0,)) if row else left
    right = c.unsqueeze(b, right, (1,)) if column else right
    if left.type.shape[-1] != right.type.shape[-2]:
        left = c.rebind(b, left, (*left.type.shape[:-1], right.type.shape[-2]))
    if all(size == 1 for size in right.type.shape[:-2]) and right.type.rank <= left.type.rank:
        right = c.reshape(b, right, right.type.shape[-2:])
    if right.type.rank > 2:
        lead = c.broadcast_shape(left.type.shape[:-2], right.type.shape[:-2])
        left = c.expand(b, left, (*lead, *left.type.shape[-2:]))
        right = c.expand(b, right, (*lead, *right.type.shape[-2:]))
    result = b.emit(MatMul(), left, right)
    shape = result.type.shape
    if not (row or column):
        return result
    return c.reshape(b, result, (*shape[:-2], *(() if row else shape[-2:-1]), *(() if column else shape[-1:])))


@onnx_op("MatMul", 1, 9, 13)
def matmul_handler(ctx: NodeContext) -> Value:
    left, right = ctx.input(0), ctx.input(1)
    ctx.require(left.type.rank > 0 and right.type.rank > 0, "MatMul takes no scalars")
    return matmul(ctx.b, left, right)


@onnx_op("Gemm", 7, 9, 11, 13)
def gemm_handler(ctx: NodeContext) -> Value:
    return gemm(ctx)


def gemm(ctx: NodeContext) -> Value:
    """alpha * A' * B' + beta * C, where C broadcasts to the product's shape."""
    b, left, right = ctx.b, ctx.input(0), ctx.input(1)
    ctx.require(left.type.rank == 2 and right.type.rank == 2, "Gemm multiplies matrices")
    left = c.transpose(b, left, (1, 0)) if ctx.int("transA", 0) else left
    right = c.transpose(b, right, (1, 0)) if ctx.int("transB", 0) else right
    alpha, beta, addend = ctx.float("alpha", 1.0), ctx.float("beta", 1.0), ctx.optional(2)
    result = _scaled(ctx, matmul(b, left, right), alpha)
    if addend is None or beta == 0:
        return result
    return c.binary(b, "add", result, c.expand(b, _scaled(ctx, addend, beta), result.type.shape))


def _scaled(ctx: NodeContext, x: Value, factor: float) -> Value:
    if factor == 1.0:
        return x
    ctx.refuse_unless(x.type.dtype.is_float or factor == int(factor), f"Gemm of {x.type.dtype} scaled by a fraction")
    return c.with_scalar(ctx.b, "mul", x, factor)
