"""Convolutions and recurrences with packed weights, which are unpacked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fornaxc.export import floats
from fornaxc.export.context import ExportContext, Tensor
from fornaxc.export.elementwise import extreme
from fornaxc.export.linear import conv
from fornaxc.export.registry import export, rule_for
from fornaxc.export.shape import input_type
from fornaxc.ir.dims import static
from fornaxc.ir.graph import Array
from fornaxc.ir.ops import ConvNhwc, FromPool, PackConv, PackedRecurrence
from fornaxc.ir.types import DType, TensorType


@export(PackConv)
def _pack_conv(c: ExportContext, op: PackConv, w: Tensor) -> Tensor:
    """Filters gathered in the packed order, the padding from a zero before them."""
    from fornaxc.kernels.packing import pack_conv_weight

    shape = tuple(static(d) for d in input_type(c).shape)
    size = int(np.prod(shape))
    order = pack_conv_weight(np.arange(1, size + 1, dtype=np.int32).reshape(shape), op.groups)
    flat = c.emit("Concat", c.literal(np.zeros(1, np.float32)), c.reshape(w, [size]), axis=0)
    return c.emit("Gather", flat, c.literal(order.astype(np.int32)), axis=0)


@export(FromPool)
def _from_pool(c: ExportContext, op: FromPool, pool: Tensor) -> Tensor:
    ends = [c.literal(np.array([n], np.int64)) for n in (op.offset, op.offset + op.size)]
    return c.reshape(c.emit("Slice", pool, *ends), op.shape)


@export(ConvNhwc)
def _conv_nhwc(c: ExportContext, op: ConvNhwc, x: Tensor, w: Tensor, bias: Tensor, *residual: Tensor) -> Tensor:
    filters = _filters(c, op, w)
    y = conv(c, op.conv(), c.emit("Transpose", x, perm=[0, 3, 1, 2]), filters)
    y = c.emit("Add", c.emit("Transpose", y, perm=[0, 2, 3, 1]), bias)
    for other in residual:
        y = c.emit("Add", y, other)
    return _activated(c, op, y)


def _filters(c: ExportContext, op: ConvNhwc, w: Tensor) -> Tensor:
    """The filters; those of a packing in the graph are what was packed."""
    from fornaxc.kernels.packing import unpack_conv_weight

    assert c.node is not None
    producer = c.producers.get(c.node.inputs[1])
    if producer is not None and isinstance(producer.op, PackConv):
        return c.read(producer.inputs[0])
    channels = static(input_type(c).shape[3])
    shape = (op.filters, channels // op.groups, *op.window)
    return _unpacked(c, w, shape, lambda packed: unpack_conv_weight(packed, shape, op.groups))


def _unpacked(c: ExportContext, w: Tensor, shape: tuple[int, ...], unpack: Callable[[Array], Array]) -> Tensor:
    """The second operand unpacked: that of a constant when the model is written, alone or in a pool, else by a gather at run time."""
    assert c.node is not None
    packed = source = c.node.inputs[1]
    first, size = 0, static(packed.type.elements)
    producer = c.producers.get(packed)
    if producer is not None and isinstance(producer.op, FromPool):
        source, first = producer.inputs[0], producer.op.offset
    type = TensorType(DType.F32, shape)
    ready = c.derived(source, type, lambda array: np.ascontiguousarray(unpack(array[first : first + size])))
    if ready is not None:
        return ready
    order = unpack(np.arange(static(packed.type.elements), dtype=np.int32))
    return c.emit("Gather", w, c.literal(order), axis=0)


@export(PackedRecurrence)
def _packed_recurrence(c: ExportContext, op: PackedRecurrence, x: Tensor, r: Tensor, *rest: Tensor) -> Sequence[Tensor]:
    plain = op.plain()
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[op.kind]
    weights = _unpacked(c, r, (gates * op.hidden, op.hidden), op.unpack)
    results: Sequence[Tensor] = rule_for(type(plain))(c, plain, x, weights, *rest)
    return results


def _activated(c: ExportContext, op: ConvNhwc, x: Tensor) -> Tensor:
    match op.activation:
        case "relu":
            return floats.relu(c, x)
        case "clip":
            bounded = extreme(c, "max", x, c.scalar(op.least, x.dtype))
            return extreme(c, "min", bounded, c.scalar(op.greatest, x.dtype))
        case "sigmoid":
            return floats.sigmoid(c, x)
        case "silu":
            return c.emit("Mul", x, floats.sigmoid(c, x))
        case "hardswish":
            slope = c.emit("Add", c.emit("Div", x, c.scalar(6, x.dtype)), c.scalar(0.5, x.dtype))
            low = extreme(c, "max", slope, c.scalar(0, x.dtype))
            return c.emit("Mul", x, extreme(c, "min", low, c.scalar(1, x.dtype)))
    return x
