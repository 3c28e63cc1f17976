"""The CPU's own kernels for channels-last convolutions and matrix products."""

from __future__ import annotations

import numpy as np
from max.dtype import DType as MaxDType
from max.graph import TensorType, TensorValue, ops

from fornaxc.ir.dims import product
from fornaxc.ir.ops import Conv, ConvNhwc, MatMul, PackConv, PackedRecurrence, Pool
from fornaxc.ir.ops.packed import ACTIVATIONS, PANEL
from fornaxc.ir.types import DType
from fornaxc.kernels.packing import RECURRENT_ACTIVATIONS as RECURRENT_CODES
from fornaxc.lowering.context import LoweringContext
from fornaxc.lowering.elementwise import widened
from fornaxc.lowering.linear import SMALL_INTS, multiply_on_cpu, stock_conv, stock_pool, untransposed
from fornaxc.lowering.registry import lower
from fornaxc.lowering.shape import pad_constant, reshape


@lower(ConvNhwc, on="cpu")
def _conv_nhwc(
    c: LoweringContext, op: ConvNhwc, x: TensorValue, w: TensorValue, bias: TensorValue, *residual: TensorValue
) -> TensorValue:
    geometry = [*op.window, *op.strides, *op.low, *op.dilations, op.groups, ACTIVATIONS.index(op.activation)]
    numbers = c.literal(np.array([*geometry, op.residual], np.int64))
    bounds = c.literal(np.array([op.least, op.greatest], np.float32))
    return c.custom("fx_conv2d", [x, w, bias, *(residual or [x]), numbers, bounds], [c.out_type()])[0]


@lower(Conv, on="cpu")
def _conv(c: LoweringContext, op: Conv, x: TensorValue, w: TensorValue) -> TensorValue:
    """1-D and 2-D convolutions that no pass has packed, through the same kernel; others as on any device."""
    assert c.node is not None
    (source, filters), result = (v.type.shape for v in c.node.inputs), c.node.outputs[0].type.shape
    rank = len(filters) - 2
    if rank > 2 or widened(x).dtype != MaxDType.float32 or 0 in (*source, *filters, *result):
        return stock_conv(c, op, x, w)
    rows = [1] * (2 - rank)
    n, channels, *image = source
    k, depth, *window = filters
    images = ops.permute(reshape(c, widened(x), [n, channels, *rows, *image]), [0, 2, 3, 1])
    packed = _pack_conv(c, PackConv(op.groups), reshape(c, widened(w), [k, depth, *rows, *window]))
    stretch, low = [*rows, *op.strides], [0] * (2 - rank) + list(op.low)
    geometry = [*rows, *(int(str(d)) for d in window), *stretch, *low, *rows, *op.dilations, op.groups, 0, 0]
    numbers, bounds = c.literal(np.array(geometry, np.int64)), c.literal(np.zeros(2, np.float32))
    bias = ops.broadcast_to(c.scalar(0.0, MaxDType.float32), c.shape([k]))
    type = TensorType(MaxDType.float32, c.shape([n, *rows, *result[2:], k]), c.device)
    found = c.custom("fx_conv2d", [images, packed, bias, images, numbers, bounds], [type])[0]
    return ops.cast(reshape(c, ops.permute(found, [0, 3, 1, 2]), result), x.dtype)


@lower(PackConv)
def _pack_conv(c: LoweringContext, op: PackConv, w: TensorValue) -> TensorValue:
    """Packs while the program runs: for filters that are computed."""
    k, channels, r, s = (int(d) for d in w.shape)
    if channels == 1 and op.groups == k and k > 1:
        return reshape(c, ops.permute(reshape(c, w, [k, r, s]), [1, 2, 0]), [k * r * s])
    width = k // op.groups
    full = -(-width // PANEL) * PANEL
    grouped = reshape(c, w, [op.groups, width, channels, r, s])
    tail = [0, full - width, 0, 0, 0]
    zero = c.scalar(0.0, MaxDType.float32)
    filled = pad_constant(c, grouped, [0] * 5, tail, zero, [op.groups, full, channels, r, s])
    count = op.groups * (full // PANEL)
    panels = ops.permute(reshape(c, filled, [count, PANEL, channels, r * s]), [0, 3, 2, 1])
    return reshape(c, panels, [op.groups * full * channels * r * s])


@lower(MatMul, on="cpu")
def _matmul(c: LoweringContext, op: MatMul, a: TensorValue, b: TensorValue) -> TensorValue:
    """Products through one kernel for floats of at most 32 bits, a transpose of the second operand inside it, and one for all other types."""
    assert c.node is not None
    left, right = c.node.inputs
    rows, inner, columns = left.type.shape[-2], left.type.shape[-1], right.type.shape[-1]
    batch = product(left.type.shape[:-2])
    if right.type.rank == 2:
        rows, batch = product([batch, rows]), 1
    narrow, a, transposed = a.dtype, _computed_in(a), False
    if a.dtype == MaxDType.float32:
        b, transposed = untransposed(c, right, b)
    matrix = [columns, inner] if transposed else [inner, columns]
    first, second = reshape(c, a, [batch, rows, inner]), reshape(c, _computed_in(b), [batch, *matrix])
    found = multiply_on_cpu(c, first, second, transposed)
    return ops.cast(reshape(c, found, c.node.outputs[0].type.shape), narrow)


def _computed_in(x: TensorValue) -> TensorValue:
    """Narrow floats as f32, narrow integers as i32."""
    return ops.cast(x, MaxDType.int32) if x.dtype in SMALL_INTS else widened(x)


@lower(Pool, on="cpu")
def _pool(c: LoweringContext, op: Pool, x: TensorValue) -> TensorValue:
    """Two-dimensional f32 pools of channels-last data through one kernel; others as on any device."""
    assert c.node is not None
    type = c.node.inputs[0].type
    if not op.channels_last or type.rank != 4 or len(op.window) != 2 or type.dtype is not DType.F32:
        return stock_pool(c, op, x)
    geometry = [*op.window, *op.strides, *op.low, *op.dilations, int(op.fn == "sum")]
    return c.custom("fx_pool2d", [x, c.literal(np.array(geometry, np.int64))], [c.out_type()])[0]


@lower(PackedRecurrence, on="cpu")
def _recurrence(
    c: LoweringContext, op: PackedRecurrence, x: TensorValue, r: TensorValue, *rest: TensorValue
) -> list[TensorValue]:
    """Flags and vectors that a kind does not use are there all the same: the kernel does not read them."""
    assert c.node is not None
    states = list(rest[: 2 if op.kind in ("lstm", "gru") else 1])
    optional = list(rest[len(states) :])
    unused = c.literal(np.zeros(1, np.int64))
    lengths = optional.pop(0) if op.lengths else unused
    codes = [RECURRENT_CODES[a] for a in op.activations]
    flags = [int(op.reverse), int(op.lengths), *codes]
    operands = [x, r, *states, lengths]
    if op.kind == "lstm":
        operands.append(optional.pop(0) if op.peephole else c.literal(np.zeros(1, np.float32)))
        flags += [int(op.peephole), int(op.input_forget)]
    elif op.kind == "gru":
        flags.append(int(op.linear_before_reset))
    operands += [c.literal(np.array(flags, np.int64)), c.literal(np.array([op.clip], np.float32))]
    types = [c.out_type(i) for i in range(len(c.node.outputs))]
    return c.custom(f"fx_{op.kind}", operands, types)
