"""Convolutions, matrix products and pools on GPUs: kernels that are compiled once for all shapes.

From optimization level 2 on, MAX's own kernels take their place: tuned for each shape, and compiled for each.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

from max.graph import TensorType, TensorValue

from fornaxc.ir.dims import Dim, product
from fornaxc.ir.ops import Conv, ConvNhwc, MatMul, Pool
from fornaxc.ir.ops.packed import ACTIVATIONS
from fornaxc.lowering.context import LoweringContext
from fornaxc.lowering.linear import multiply_once, stock_conv, stock_matmul, stock_pool, untransposed
from fornaxc.lowering.registry import lower
from fornaxc.lowering.shape import reshape

T: TypeAlias = TensorValue


@lower(ConvNhwc, on="gpu")
def _conv_nhwc(c: LoweringContext, op: ConvNhwc, x: T, w: T, bias: T, *residual: T) -> T:
    return c.custom(
        "fx_gpu_conv_nhwc",
        [x, w, bias, *(residual or [x])],
        [c.out_type()],
        R=op.window[0],
        S=op.window[1],
        **_steps(op.strides, op.low, op.dilations),
        groups=op.groups,
        activation=ACTIVATIONS.index(op.activation),
        residual=int(op.residual),
        bounds=int.from_bytes(struct.pack("<2f", op.greatest, op.least), "little", signed=True),
    )[0]


@lower(Conv, on="gpu")
def _conv(c: LoweringContext, op: Conv, x: T, w: T) -> T:
    """One and two dimensions, channels first."""
    assert c.node is not None
    (source, filters), result = (v.type.shape for v in c.node.inputs), c.node.outputs[0].type.shape
    rank = len(filters) - 2
    if c.optimization > 1 or not 1 <= rank <= 2 or 0 in (*source, *filters, *result):
        return stock_conv(c, op, x, w)
    rows = [1] * (2 - rank)
    images = reshape(c, x, [*source[:2], *rows, *source[2:]])
    kernels = reshape(c, w, [*filters[:2], *rows, *filters[2:]])
    type = TensorType(x.dtype, c.shape([*result[:2], *rows, *result[2:]]), c.device)
    steps = _steps(_two(op.strides, 1), _two(op.low, 0), _two(op.dilations, 1))
    found = c.custom("fx_gpu_conv_nchw", [images, kernels], [type], **steps, groups=op.groups)[0]
    return reshape(c, found, result)


def _two(values: tuple[int, ...], first: int) -> tuple[int, ...]:
    return values if len(values) == 2 else (first, *values)


def _steps(strides: tuple[int, ...], low: tuple[int, ...], dilations: tuple[int, ...]) -> dict[str, int]:
    names = ("sh", "sw", "ph", "pw", "dh", "dw")
    return dict(zip(names, (*strides, *low, *dilations), strict=True))


@lower(MatMul, on="gpu")
def _matmul(c: LoweringContext, op: MatMul, a: T, b: T) -> T:
    """A transpose of the second operand happens inside the kernel."""
    assert c.node is not None
    left, right = c.node.inputs
    result = c.node.outputs[0].type.shape
    if c.optimization > 1 or 0 in (*left.type.shape, *right.type.shape):
        return stock_matmul(c, op, a, b)
    b, transposed = untransposed(c, right, b)
    rows, inner, columns = left.type.shape[-2], left.type.shape[-1], right.type.shape[-1]
    batch: Dim = product(left.type.shape[:-2])
    if right.type.rank == 2:
        rows, batch = product([batch, rows]), 1
    matrix = [columns, inner] if transposed else [inner, columns]
    a, b = reshape(c, a, [batch, rows, inner]), reshape(c, b, [batch, *matrix])
    return reshape(c, multiply_once(c, a, b, transposed), result)


@lower(Pool, on="gpu")
def _pool(c: LoweringContext, op: Pool, x: T) -> T:
    """Windows of one and two dimensions, wherever the channels are."""
    assert c.node is not None
    source, result = c.node.inputs[0].type.shape, c.node.outputs[0].type.shape
    rank = len(op.window)
    if c.optimization > 1 or not 1 <= rank <= 2 or 0 in (*source, *result):
        return stock_pool(c, op, x)
    inner = source[-1] if op.channels_last else 1
    lead = len(source) - rank - op.channels_last
    rows = [1] * (2 - rank)

    def view(shape: tuple[Dim, ...]) -> list[Dim]:
        return [product(shape[:lead]), *rows, *shape[lead : lead + rank], inner]

    window = _two(op.window, 1)
    found = c.custom(
        "fx_gpu_pool2d",
        [reshape(c, x, view(source))],
        [TensorType(x.dtype, c.shape(view(result)), c.device)],
        R=window[0],
        S=window[1],
        **_steps(_two(op.strides, 1), _two(op.low, 0), _two(op.dilations, 1)),
        sums=int(op.fn == "sum"),
    )[0]
    return reshape(c, found, result)
