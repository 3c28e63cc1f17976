"""The CPU's own kernels for softmax and normalisations of rows: each is compiled once, for every shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from max.dtype import DType
from max.graph import TensorType, TensorValue, ops

from fornaxc.ir.dims import Dim, product
from fornaxc.ir.ops import LayerNorm, LocalResponseNorm, RmsNorm, Softmax
from fornaxc.lowering.context import LoweringContext
from fornaxc.lowering.elementwise import widened
from fornaxc.lowering.nn import stock_layer_norm, stock_rms_norm, stock_softmax
from fornaxc.lowering.registry import lower
from fornaxc.lowering.shape import reshape


@lower(Softmax, on="cpu")
def _softmax(c: LoweringContext, op: Softmax, x: TensorValue) -> TensorValue:
    """Along the last axis, in f32; others as on any device."""
    assert c.node is not None
    dims, wide = c.node.inputs[0].type.shape, widened(x)
    if op.axis != len(dims) - 1 or wide.dtype != DType.float32 or 0 in dims:
        return stock_softmax(c, op, x)
    return _over_rows(c, "fx_softmax", x, dims, op.axis, [c.literal(np.array([int(op.log)], np.int64))])


@lower(LayerNorm, on="cpu")
def _layer_norm(
    c: LoweringContext, op: LayerNorm, x: TensorValue, scale: TensorValue, bias: TensorValue
) -> TensorValue:
    assert c.node is not None
    dims = c.node.inputs[0].type.shape
    if widened(x).dtype != DType.float32 or 0 in dims:
        return stock_layer_norm(c, op, x, scale, bias)
    return _over_rows(c, "fx_normalize", x, dims, op.axis, _normalization(c, dims[op.axis :], op.epsilon, scale, bias))


@lower(RmsNorm, on="cpu")
def _rms_norm(c: LoweringContext, op: RmsNorm, x: TensorValue, scale: TensorValue) -> TensorValue:
    assert c.node is not None
    dims = c.node.inputs[0].type.shape
    if widened(x).dtype != DType.float32 or 0 in dims:
        return stock_rms_norm(c, op, x, scale)
    return _over_rows(c, "fx_normalize", x, dims, op.axis, _normalization(c, dims[op.axis :], op.epsilon, scale, None))


@lower(LocalResponseNorm, on="cpu")
def _local_response_norm(c: LoweringContext, op: LocalResponseNorm, x: TensorValue) -> TensorValue:
    """f32, as the pass that makes it sees to."""
    assert c.node is not None
    dims = c.node.inputs[0].type.shape
    window, numbers = np.array([op.before, op.after], np.int64), np.array([op.alpha, op.beta, op.bias], np.float32)
    return _over_rows(c, "fx_lrn", x, dims, len(dims) - 1, [c.literal(window), c.literal(numbers)])


def _normalization(
    c: LoweringContext, dims: Sequence[Dim], epsilon: float, scale: TensorValue, bias: TensorValue | None
) -> list[TensorValue]:
    """The operands of fx_normalize after the rows; without a bias the mean stays."""
    scale = reshape(c, widened(scale), [product(dims)])
    shift = scale if bias is None else reshape(c, widened(bias), [product(dims)])
    centred = int(bias is not None)
    return [scale, shift, c.literal(np.array([epsilon], np.float32)), c.literal(np.array([centred], np.int64))]


def _over_rows(
    c: LoweringContext, kernel: str, x: TensorValue, dims: Sequence[Dim], axis: int, operands: list[TensorValue]
) -> TensorValue:
    """A kernel on `x` as a matrix, whose rows are the axes from `axis` on."""
    matrix = [product(dims[:axis]), product(dims[axis:])]
    type = TensorType(DType.float32, c.shape(matrix), c.device)
    (found,) = c.custom(kernel, [reshape(c, widened(x), matrix), *operands], [type])
    return ops.cast(reshape(c, found, dims), x.dtype)
