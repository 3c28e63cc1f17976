"""Normalisations and recurrences. A recurrence is a loop over its steps, so that every element type and activation works."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fornaxc.export.context import ExportContext, Tensor
from fornaxc.export.elementwise import extreme, unary
from fornaxc.export.registry import export
from fornaxc.export.shape import input_type
from fornaxc.ir.dims import product
from fornaxc.ir.ops import Gru, LayerNorm, LocalResponseNorm, Lstm, RmsNorm, Rnn, Softmax
from fornaxc.ir.types import DType

Step = Callable[[Tensor, Sequence[Tensor]], Sequence[Tensor]]


@export(Softmax)
def _softmax(c: ExportContext, op: Softmax, x: Tensor) -> Tensor:
    return c.emit("LogSoftmax" if op.log else "Softmax", x, axis=op.axis)


@export(LayerNorm)
def _layer_norm(c: ExportContext, op: LayerNorm, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return c.emit("LayerNormalization", x, scale, bias, axis=op.axis, epsilon=op.epsilon)


@export(RmsNorm)
def _rms_norm(c: ExportContext, op: RmsNorm, x: Tensor, scale: Tensor) -> Tensor:
    return c.emit("RMSNormalization", x, scale, axis=op.axis, epsilon=op.epsilon)


@export(LocalResponseNorm)
def _local_response_norm(c: ExportContext, op: LocalResponseNorm, x: Tensor) -> Tensor:
    """Written out, since the window of LRN is centred: a convolution with ones is the sum over it."""
    size, shape = op.before + op.after + 1, input_type(c).shape
    lines = c.reshape(c.emit("Mul", x, x), [product(shape[:-1]), 1, shape[-1]])
    ones = c.literal(np.ones((1, 1, size), x.dtype.numpy))
    total = c.reshape(c.emit("Conv", lines, ones, pads=[op.before, op.after]), shape)
    base = c.emit("Add", c.emit("Mul", total, c.scalar(op.alpha, x.dtype)), c.scalar(op.bias, x.dtype))
    return c.emit("Div", x, c.emit("Pow", base, c.scalar(op.beta, x.dtype)))


@export(Lstm)
def _lstm(c: ExportContext, op: Lstm, x: Tensor, r: Tensor, h: Tensor, cell: Tensor, *rest: Tensor) -> Sequence[Tensor]:
    lengths = rest[0] if op.lengths else None
    x, r, h, cell, *more = _wide(c, x, r, h, cell, *rest[op.lengths :])
    p = _split(c, more[0], 3, 0) if op.peephole else [None] * 3
    turned = c.emit("Transpose", r, perm=[1, 0])
    f, g, act = op.activations

    def gate(sum: Tensor, peep: Tensor | None, state: Tensor) -> Tensor:
        if peep is not None:
            sum = c.emit("Add", sum, c.emit("Mul", peep, state))
        return unary(c, f, _bounded(c, sum, op.clip))

    def step(row: Tensor, state: Sequence[Tensor]) -> Sequence[Tensor]:
        h, old = state
        i, o, forget, n = _split(c, c.emit("Add", row, c.emit("MatMul", h, turned)), 4, 1)
        i = gate(i, p[0], old)
        forget = c.emit("Sub", c.scalar(1, i.dtype), i) if op.input_forget else gate(forget, p[2], old)
        fresh = c.emit("Mul", i, unary(c, g, _bounded(c, n, op.clip)))
        new = c.emit("Add", c.emit("Mul", forget, old), fresh)
        return c.emit("Mul", gate(o, p[1], new), unary(c, act, new)), new

    return _run(c, x, [h, cell], lengths, op.reverse, step)


@export(Gru)
def _gru(c: ExportContext, op: Gru, x: Tensor, r: Tensor, b: Tensor, h: Tensor, *rest: Tensor) -> Sequence[Tensor]:
    x, r, b, h = _wide(c, x, r, b, h)
    turned = _split(c, c.emit("Transpose", r, perm=[1, 0]), 3, 1)
    biases = _split(c, b, 3, 0)
    f, g = op.activations

    def carried(h: Tensor, gate: int) -> Tensor:
        return c.emit("Add", c.emit("MatMul", h, turned[gate]), biases[gate])

    def step(row: Tensor, state: Sequence[Tensor]) -> Sequence[Tensor]:
        (h,) = state
        xz, xr, xn = _split(c, row, 3, 1)
        z = unary(c, f, _bounded(c, c.emit("Add", xz, carried(h, 0)), op.clip))
        reset = unary(c, f, _bounded(c, c.emit("Add", xr, carried(h, 1)), op.clip))
        after = op.linear_before_reset
        part = c.emit("Mul", reset, carried(h, 2)) if after else carried(c.emit("Mul", reset, h), 2)
        n = unary(c, g, _bounded(c, c.emit("Add", xn, part), op.clip))
        fresh = c.emit("Mul", c.emit("Sub", c.scalar(1, z.dtype), z), n)
        return (c.emit("Add", fresh, c.emit("Mul", z, h)),)

    return _run(c, x, [h], rest[0] if op.lengths else None, op.reverse, step)


@export(Rnn)
def _rnn(c: ExportContext, op: Rnn, x: Tensor, r: Tensor, h: Tensor, *rest: Tensor) -> Sequence[Tensor]:
    x, r, h = _wide(c, x, r, h)
    turned = c.emit("Transpose", r, perm=[1, 0])

    def step(row: Tensor, state: Sequence[Tensor]) -> Sequence[Tensor]:
        sum = c.emit("Add", row, c.emit("MatMul", state[0], turned))
        return (unary(c, op.activation, _bounded(c, sum, op.clip)),)

    return _run(c, x, [h], rest[0] if op.lengths else None, op.reverse, step)


def _wide(c: ExportContext, *xs: Tensor) -> list[Tensor]:
    """Narrow floats are computed in f32."""
    return [c.cast(x, x.dtype if x.dtype is DType.F64 else DType.F32) for x in xs]


def _split(c: ExportContext, x: Tensor, parts: int, axis: int) -> list[Tensor]:
    return list(c.raw("Split", [x], (x.dtype,) * parts, axis=axis, num_outputs=parts))


def _bounded(c: ExportContext, x: Tensor, clip: float) -> Tensor:
    if not clip:
        return x
    return extreme(c, "max", extreme(c, "min", x, c.scalar(clip, x.dtype)), c.scalar(-clip, x.dtype))


def _run(
    c: ExportContext, x: Tensor, state: Sequence[Tensor], lengths: Tensor | None, reverse: bool, step: Step
) -> Sequence[Tensor]:
    """The outputs of all steps and the last states, in the type of the node. Past its length a row keeps its state and gives 0."""
    assert c.node is not None
    time, batch = input_type(c).shape[:2]
    steps = c.reshape(c.size(time), [])
    backwards = lengths
    if reverse and backwards is None:
        backwards = c.expand(c.size(time), [batch])
    if reverse:
        assert backwards is not None
        x = c.emit("ReverseSequence", x, backwards, time_axis=0, batch_axis=1)
    ends = c.emit("Unsqueeze", lengths, c.size(1)) if lengths is not None else None

    def body(index: Tensor, *held: Tensor) -> tuple[None, Sequence[Tensor], Sequence[Tensor]]:
        new = step(c.emit("Gather", x, index, axis=0), held)
        if ends is None:
            return None, new, [new[0]]
        runs = c.emit("Less", index, ends)
        kept = [c.select(runs, after, before) for after, before in zip(new, held, strict=True)]
        return None, kept, [c.select(runs, new[0], c.scalar(0, x.dtype))]

    last, (y,) = c.loop(steps, None, state, body)
    if reverse:
        y = c.emit("ReverseSequence", y, backwards, time_axis=0, batch_axis=1)
    dtype = c.node.outputs[0].type.dtype
    return [c.cast(t, dtype) for t in (y, *last)]
