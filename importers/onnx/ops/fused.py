"""Operators that onnxruntime's optimiser puts in place of several: domain com.microsoft (ContribOperators.md), version 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fornaxc.importers.onnx.context import NodeContext, Refused
from fornaxc.importers.onnx.ops.gather import axis_size, wrapped
from fornaxc.importers.onnx.ops.matmul import matmul
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.tensors import TensorSource
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import static
from fornaxc.ir.graph import Array, Value
from fornaxc.ir.ops import Gather, LayerNorm, RmsNorm
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
    """alpha * A' * B'. transBatchA and B move the first axis before the last, then transA and transB swap the last two."""
    b = ctx.b
    operands = []
    for index, side in enumerate("AB"):
        x = ctx.input(index)
        rank = x.type.rank
        if ctx.int(f"transBatch{side}", 0) and rank > 2:
            x = c.move_axis(b, x, 0, rank - 2)
        if ctx.int(f"trans{side}", 0) and rank > 1:
            x = c.transpose(b, x, (*range(rank - 2), rank - 1, rank - 2))
        operands.append(x)
    result, alpha = matmul(b, *operands), ctx.float("alpha", 1.0)
    return result if alpha == 1.0 else c.with_scalar(b, "mul", result, alpha)


onnx_op("TransposeMatMul", 1, domain=MICROSOFT)(fused_matmul)


@onnx_op("CDist", 1, domain=MICROSOFT)
def cdist(ctx: NodeContext) -> Value:
    """The distances of the rows of A from the rows of B, by their differences: [rows of A, rows of B]."""
    b, metric = ctx.b, ctx.string("metric", "sqeuclidean")
    ctx.refuse_unless(metric in ("euclidean", "sqeuclidean"), f"the metric {metric}")
    apart = c.binary(b, "sub", c.unsqueeze(b, ctx.input(0), (1,)), c.unsqueeze(b, ctx.input(1), (0,)))
    squares = c.reduce(b, "sum", c.binary(b, "mul", apart, apart), (2,))
    squares = c.reshape(b, squares, squares.type.shape[:2])
    return squares if metric == "sqeuclidean" else c.unary(b, "sqrt", squares)


_PACKED = {2: DType.U2, 4: DType.U4, 8: DType.U8}


@onnx_op("MatMulNBits", 1, domain=MICROSOFT)
def matmul_nbits(ctx: NodeContext) -> Value:
    """A times the transpose of B [N, K], whose elements of 2, 4 or 8 bits have a scale and a zero point for each block of K."""
    b, x = ctx.b, ctx.input(0)
    rows, columns, block = ctx.int("N"), ctx.int("K"), ctx.int("block_size")
    bits = ctx.int("bits", 4)
    ctx.ignore("accuracy_level")
    ctx.refuse_unless(ctx.int("weight_prepacked", 0) == 0, "weights that are packed for one device")
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


@onnx_op("GatherBlockQuantized", 1, domain=MICROSOFT)
def gather_block_quantized(ctx: NodeContext) -> Value:
    """Rows of a constant table [rows, columns] of 2, 4 or 8 bits in bytes, with a scale and a zero point for each block of a row."""
    b, bits, block = ctx.b, ctx.int("bits", 4), ctx.int("block_size", 128)
    table, index, scales = ctx.input(0), ctx.input(1), ctx.input(2)
    ctx.refuse_unless(table.type.dtype is DType.U8 and table.type.rank == 2, f"a table {table.type}")
    ctx.refuse_unless(ctx.int("gather_axis", 0) % 2 == 0 and ctx.int("quantize_axis", 1) % 2 == 1, "other axes")
    ctx.refuse_unless(bits in _PACKED and scales.type.is_static, f"weights of {bits} bits with scales {scales.type}")
    rows, blocks = (static(d) for d in scales.type.shape)
    columns = static(table.type.shape[1]) * (8 // bits)
    ctx.require(-(-columns // block) == blocks, f"{blocks} blocks of {block} for rows of {columns}")
    place = wrapped(ctx, index, axis_size(b, rows))
    taken = c.cast(b, b.emit(Gather(0), _unpacked(ctx, 0, bits, (rows, 1, columns)), place), scales.type.dtype)
    lead = index.type.shape
    taken = c.reshape(b, taken, (*lead, columns))
    if ctx.optional(3) is None:
        zeros = c.scalar(b, 1 << (bits - 1), scales.type.dtype)
    else:
        each = b.emit(Gather(0), _unpacked(ctx, 3, bits, (rows, 1, blocks)), place)
        zeros = _block_values(b, c.reshape(b, c.cast(b, each, scales.type.dtype), (*lead, blocks)), block, columns)
    steps = _block_values(b, b.emit(Gather(0), scales, place), block, columns)
    return c.binary(b, "mul", c.binary(b, "sub", taken, zeros), steps)


def _block_values(b: GraphBuilder, values: Value, block: int, columns: int) -> Value:
    """[..., blocks] with each value `block` times, cut to `columns`."""
    *lead, blocks = values.type.shape
    rank = values.type.rank
    wide = c.expand(b, c.unsqueeze(b, values, (rank,)), (*lead, blocks, block))
    return c.slice_axis(b, c.reshape(b, wide, (*lead, blocks * block)), rank - 1, 0, columns)


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
