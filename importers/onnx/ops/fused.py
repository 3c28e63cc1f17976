"""Operators that onnxruntime's optimiser puts in place of several: domain com.microsoft (ContribOperators.md), version 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fornaxc.importers.onnx.context import NodeContext, Refused
from fornaxc.importers.onnx.ops.matmul import matmul
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.tensors import TensorSource
from fornaxc.ir import compose as c
from fornaxc.ir.graph import Array, Value
from fornaxc.ir.ops import LayerNorm, RmsNorm
from fornaxc.ir.types import DType

MICROSOFT = "com.microsoft"


@onnx_op("SkipLayerNormalization", 1, domain=MICROSOFT)
def skip_layer_normalization(ctx: NodeContext) -> list[Value]:
    """Inputs: input, skip, gamma, beta, bias. The fourth output is the sum that is normalised."""
    total, gamma = _skipped(ctx, 4), ctx.input(2)
    beta = c.full_like(ctx.b, 0, gamma) if ctx.optional(3) is None else ctx.input(3)
    op = LayerNorm(total.type.rank - 1, ctx.float("epsilon", 1e-12))
    normal = ctx.b.emit(op, total, *(_last_axis(ctx, v, total) for v in (gamma, beta)))
    return [normal, normal, normal, total]


@onnx_op("SkipSimplifiedLayerNormalization", 1, domain=MICROSOFT)
def skip_simplified_layer_normalization(ctx: NodeContext) -> list[Value]:
    """Inputs: input, skip, gamma, bias."""
    total = _skipped(ctx, 3)
    op = RmsNorm(total.type.rank - 1, ctx.float("epsilon", 1e-12))
    normal = ctx.b.emit(op, total, _last_axis(ctx, ctx.input(2), total))
    return [normal, normal, normal, total]


@onnx_op("SimplifiedLayerNormalization", 1)
def simplified_layer_normalization(ctx: NodeContext) -> Value:
    """Division by the root of the mean square over the last axis."""
    x = ctx.input(0)
    axis = ctx.axis(ctx.int("axis", -1), x.type.rank)
    ctx.refuse_unless(ctx.int("stash_type", 1) == 1, "statistics in another type than f32")
    ctx.refuse_unless(axis == x.type.rank - 1 and ctx.input(1).type.dtype is x.type.dtype, "more than the last axis")
    op = RmsNorm(axis, ctx.float("epsilon", 1e-5))
    return ctx.b.emit(op, x, _last_axis(ctx, ctx.input(1), x))


def _skipped(ctx: NodeContext, bias: int) -> Value:
    ctx.refuse_unless(not ctx.wants_output(1) and not ctx.wants_output(2), "the mean and the deviation as outputs")
    x = ctx.input(0)
    total = c.binary(ctx.b, "add", x, c.expand(ctx.b, ctx.input(1), x.type.shape))
    if ctx.optional(bias) is not None:
        total = c.binary(ctx.b, "add", total, ctx.input(bias))
    return total


def _last_axis(ctx: NodeContext, parameter: Value, x: Value) -> Value:
    return c.rebind(ctx.b, parameter, (x.type.shape[-1],))


def _activation(fn: str) -> Callable[[NodeContext], Value]:
    """Of the input, plus a bias where there is one."""

    def handler(ctx: NodeContext) -> Value:
        x = ctx.input(0)
        if ctx.optional(1) is not None:
            x = c.binary(ctx.b, "add", x, ctx.input(1))
        return c.unary(ctx.b, fn, x)

    return handler


onnx_op("Gelu", 1, domain=MICROSOFT)(_activation("gelu"))
onnx_op("BiasGelu", 1, domain=MICROSOFT)(_activation("gelu"))
onnx_op("FastGelu", 1, domain=MICROSOFT)(_activation("gelu_tanh"))


@onnx_op("QuickGelu", 1, domain=MICROSOFT)
def quick_gelu(ctx: NodeContext) -> Value:
    """x * sigmoid(alpha * x)."""
    x = ctx.input(0)
    gate = c.unary(ctx.b, "sigmoid", c.with_scalar(ctx.b, "mul", x, ctx.float("alpha", 1.702)))
    return c.binary(ctx.b, "mul", x, gate)


@onnx_op("FusedMatMul", 1, domain=MICROSOFT)
def fused_matmul(ctx: NodeContext) -> Value:
    """alpha * A' * B'; transA and transB swap the last two axes."""
    b = ctx.b
    ctx.refuse_unless(not ctx.int("transBatchA", 0) and not ctx.int("transBatchB", 0), "transposed batch axes")
    operands = []
    for index, name in enumerate(("transA", "transB")):
        x = ctx.input(index)
        if ctx.int(name, 0) and x.type.rank > 1:
            rank = x.type.rank
            x = c.transpose(b, x, (*range(rank - 2), rank - 1, rank - 2))
        operands.append(x)
    result, alpha = matmul(b, *operands), ctx.float("alpha", 1.0)
    return result if alpha == 1.0 else c.with_scalar(b, "mul", result, alpha)


_PACKED = {2: DType.U2, 4: DType.U4, 8: DType.U8}


@onnx_op("MatMulNBits", 1, domain=MICROSOFT)
def matmul_nbits(ctx: NodeContext) -> Value:
    """A times the transpose of B [N, K], whose elements of 2, 4 or 8 bits have a scale and a zero point for each block of K."""
    b, x = ctx.b, ctx.input(0)
    rows, columns, block = ctx.int("N"), ctx.int("K"), ctx.int("block_size")
    bits = ctx.int("bits", 4)
    ctx.ignore("accuracy_level", "weight_prepacked")
    ctx.refuse_unless(bits in _PACKED and ctx.optional(4) is None, f"weights of {bits} bits, or in another order")
    blocks = -(-columns // block)
    weights = c.cast(b, _unpacked(ctx, 1, bits, (rows, blocks, block)), x.type.dtype)
    scales = c.reshape(b, ctx.input(2), (rows, blocks, 1))
    if ctx.optional(3) is None:
        zeros = c.scalar(b, 1 << (bits - 1), x.type.dtype)
    elif ctx.input(3).type.dtype is DType.U8:
        zeros = c.cast(b, _unpacked(ctx, 3, bits, (rows, blocks, 1)), x.type.dtype)
    else:
        zeros = c.reshape(b, ctx.input(3), (rows, blocks, 1))
    full = c.binary(b, "mul", c.binary(b, "sub", weights, zeros), scales)
    full = c.slice_axis(b, c.reshape(b, full, (rows, blocks * block)), 1, 0, columns)
    result = matmul(b, x, c.transpose(b, full, (1, 0)))
    return result if ctx.optional(5) is None else c.binary(b, "add", result, ctx.input(5))


def _unpacked(ctx: NodeContext, index: int, bits: int, shape: tuple[int, int, int]) -> Value:
    """The constant input `index` with one element for each `bits` bits, low bits first, each row (axis 0) on its own bytes."""
    source = ctx.importer.weight_source(ctx.input(index))
    if source is None:
        raise Refused(f"packed weights (input {index}) that are computed at run time")
    dtype = _PACKED[bits].numpy

    def load() -> Array:
        packed = source.load().reshape(shape[0], -1)
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        parts = (packed[:, :, None] >> shifts) & np.uint8((1 << bits) - 1)
        return parts.reshape(shape[0], -1)[:, : shape[1] * shape[2]].reshape(shape).astype(dtype)

    name = f"{ctx.node.name}.{index}"
    return ctx.importer.weight(name, TensorSource(name, dtype, shape, None, load))
