"""Normalisations and recurrences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from max.dtype import DType
from max.graph import TensorValue, ops

from fornaxc.ir.dims import product
from fornaxc.ir.ops import Gru, LayerNorm, Lstm, RmsNorm, Rnn, Softmax
from fornaxc.lowering import raw
from fornaxc.lowering.context import LoweringContext
from fornaxc.lowering.elementwise import Maths, activate, less, widened
from fornaxc.lowering.linear import multiply, multiply_on_cpu
from fornaxc.lowering.reduction import along
from fornaxc.lowering.registry import lower
from fornaxc.lowering.shape import iota, reshape

T: TypeAlias = TensorValue


@lower(Softmax)
def stock_softmax(c: LoweringContext, op: Softmax, x: T) -> T:
    assert c.node is not None
    dims = c.node.inputs[0].type.shape
    if 0 in dims:
        return x
    wide = widened(x)
    if op.axis == len(dims) - 1 and wide.dtype == DType.float32 and not op.log:
        return ops.cast(_spoiled(c, wide, ops.softmax(wide, op.axis), op.axis), x.dtype)
    m = Maths(c, wide.dtype)
    shifted = wide - along(c, "max", wide, dims, op.axis)
    grown = m.exp(shifted)
    total = along(c, "sum", grown, dims, op.axis)
    return ops.cast(shifted - ops.log(total) if op.log else grown / total, x.dtype)


def _spoiled(c: LoweringContext, x: T, result: T, axis: int) -> T:
    """NaN where the row of `x` has NaN or +inf, or nothing but -inf: MAX's exponential of NaN is a number."""
    total = ops.sum(x, axis)
    bad = ops.logical_or(ops.is_nan(total), ops.is_inf(ops.max(x, axis=axis)))
    return ops.where(bad, c.scalar(math.nan, x.dtype), result)


@lower(LayerNorm)
def stock_layer_norm(c: LoweringContext, op: LayerNorm, x: T, scale: T, bias: T) -> T:
    assert c.node is not None
    dims = c.node.inputs[0].type.shape
    flat, width = _rows(c, x, op.axis)
    scale, bias = (widened(reshape(c, v, [width])) for v in (scale, bias))
    if flat.dtype == DType.float32 and op.epsilon > 0 and width != 0:
        found = ops.layer_norm(flat, scale, bias, op.epsilon)
    else:
        count = c.dim_scalar(width, flat.dtype)
        centred = flat - ops.sum(flat, 1) / count
        found = (
            centred / ops.sqrt(ops.sum(centred * centred, 1) / count + c.scalar(op.epsilon, flat.dtype)) * scale + bias
        )
    return ops.cast(reshape(c, found, dims), x.dtype)


@lower(RmsNorm)
def stock_rms_norm(c: LoweringContext, op: RmsNorm, x: T, scale: T) -> T:
    assert c.node is not None
    dims = c.node.inputs[0].type.shape
    flat, width = _rows(c, x, op.axis)
    mean = ops.sum(flat * flat, 1) / c.dim_scalar(width, flat.dtype)
    found = flat / ops.sqrt(mean + c.scalar(op.epsilon, flat.dtype)) * widened(reshape(c, scale, [width]))
    return ops.cast(reshape(c, found, dims), x.dtype)


def _rows(c: LoweringContext, x: T, axis: int):  # type: ignore[no-untyped-def]
    """`x` as a matrix whose rows are the axes from `axis` on, and the width of a row."""
    assert c.node is not None
    dims = list(c.node.inputs[0].type.shape)
    width = product(dims[axis:])
    return reshape(c, widened(x), [product(dims[:axis]), width]), width


def _recurrence(
    c: LoweringContext,
    x: T,
    state: Sequence[T],
    lengths: T | None,
    reverse: bool,
    captured: Sequence[T],
    step: Callable[..., Sequence[T]],
) -> list[T]:
    """Run `step(x_t, state, *captured)` over time; returns y and the last state. Each sequence has its own length."""
    assert c.node is not None
    time, batch, width = c.node.inputs[0].type.shape
    hidden = c.node.outputs[0].type.shape[2]
    place = _reversal(c, lengths) if reverse else None
    if place is not None:
        x = reshape(c, ops.gather(reshape(c, x, [time * batch, width]), place, 0), [time, batch, width])
    zero = c.scalar(0, DType.int64, c.host)
    blank = ops.broadcast_to(c.scalar(0.0, x.dtype), c.shape([time, batch, hidden]))
    limit = c.dim_scalar(time, DType.int64, c.host)
    extra = [x, *([lengths] if lengths is not None else []), *captured]

    def body(at: T, end: T, y: T, *rest: T) -> list[T]:
        with c.scope():
            now, (inputs, *more) = list(rest[: len(state)]), rest[len(state) :]
            here = ops.reshape(raw.transfer_to(at, c.device), [1])
            row = reshape(c, ops.gather(inputs, here, 0), [batch, width])
            given = more[1:] if lengths is not None else more
            new = list(step(row, now, *given))
            output = new[0]
            if lengths is not None:
                running = ops.reshape(ops.greater(more[0], raw.transfer_to(at, c.device)), [*c.shape([batch]), 1])
                new = [ops.where(running, n, o) for n, o in zip(new, now, strict=True)]
                output = ops.where(running, output, c.scalar(0.0, output.dtype))
            y = ops.scatter_nd(y, reshape(c, output, [1, batch, hidden]), ops.reshape(here, [1, 1]))
            return [at + c.scalar(1, DType.int64, c.host), end, y, *new, inputs, *more]

    def more_to_do(at: T, end: T, *rest: T) -> T:
        return less(at, end)

    found = ops.while_loop([zero, limit, blank, *state, *extra], more_to_do, body)
    y, last = found[2].tensor, [v.tensor for v in found[3 : 3 + len(state)]]
    if place is not None:
        y = reshape(c, ops.gather(reshape(c, y, [time * batch, hidden]), place, 0), [time, batch, hidden])
    return [y, *last]


def _reversal(c: LoweringContext, lengths: T | None) -> T:
    """The rows of [time * batch] that reverse each sequence within its length; applied twice it changes nothing."""
    assert c.node is not None
    time, batch, _ = c.node.inputs[0].type.shape
    steps = ops.reshape(iota(c, time), [*c.shape([time]), 1])
    lanes = ops.reshape(iota(c, batch), [1, *c.shape([batch])])
    one = c.scalar(1, DType.int64)
    if lengths is None:
        mirrored = c.dim_scalar(time, DType.int64) - one - steps
    else:
        ends = ops.reshape(lengths, [1, *c.shape([batch])])
        mirrored = ops.where(ops.greater(ends, steps), ends - one - steps, steps)
    places = mirrored * c.dim_scalar(batch, DType.int64) + lanes
    return reshape(c, ops.broadcast_to(places, c.shape([time, batch])), [time * batch])


def _times_transposed(c: LoweringContext, a: T, b: T) -> T:
    """a [M, K] times the transpose of b [N, K]."""
    if c.kind == "gpu" or a.dtype != DType.float32:
        return multiply(c, a, ops.transpose(b, 0, 1))
    return ops.squeeze(multiply_on_cpu(c, ops.unsqueeze(a, 0), ops.unsqueeze(b, 0), transposed=True), 0)


def _bounded(c: LoweringContext, x: T, clip: float) -> T:
    if not clip:
        return x
    return ops.max(ops.min(x, c.scalar(clip, x.dtype)), c.scalar(-clip, x.dtype))


def _cut(x: T, part: int, parts: int) -> T:
    """One of `parts` equal pieces of the last axis, which is static."""
    size = int(x.shape[x.rank - 1]) // parts
    return ops.slice_tensor(x, [slice(None)] * (x.rank - 1) + [slice(part * size, (part + 1) * size)])


@lower(Lstm)
def _lstm(c: LoweringContext, op: Lstm, x: T, r: T, h: T, cell: T, *rest: T) -> Sequence[T]:
    narrow = x.dtype
    x, r, h, cell = (widened(v) for v in (x, r, h, cell))
    f, g, out = op.activations
    captured = [r, *([widened(rest[-1])] if op.peephole else [])]

    def step(row: T, state: Sequence[T], weights: T, *peepholes: T) -> list[T]:
        hidden, memory = state
        sums = row + _times_transposed(c, hidden, weights)
        i, o, fg, n = (_cut(sums, k, 4) for k in range(4))
        pi, po, pf = (ops.unsqueeze(_cut(peepholes[0], k, 3), 0) for k in range(3)) if peepholes else (None, None, None)

        def gate(value: T, peep: T | None, seen: T) -> T:
            return activate(c, f, _bounded(c, value if peep is None else value + peep * seen, op.clip))

        i = gate(i, pi, memory)
        fg = c.scalar(1.0, i.dtype) - i if op.input_forget else gate(fg, pf, memory)
        memory = fg * memory + i * activate(c, g, _bounded(c, n, op.clip))
        return [gate(o, po, memory) * activate(c, out, memory), memory]

    found = _recurrence(c, x, [h, cell], rest[0] if op.lengths else None, op.reverse, captured, step)
    return [ops.cast(v, narrow) for v in found]


@lower(Gru)
def _gru(c: LoweringContext, op: Gru, x: T, r: T, b: T, h: T, *rest: T) -> Sequence[T]:
    narrow = x.dtype
    x, r, b, h = (widened(v) for v in (x, r, b, h))
    f, g = op.activations
    size = int(r.shape[0]) // 3
    captured = [r[: 2 * size], r[2 * size :], ops.unsqueeze(b, 0)]

    def step(row: T, state: Sequence[T], gates_w: T, new_w: T, bias: T) -> list[T]:
        (old,) = state
        gates = row[:, : 2 * size] + _times_transposed(c, old, gates_w) + bias[:, : 2 * size]
        gates = activate(c, f, _bounded(c, gates, op.clip))
        z, reset = _cut(gates, 0, 2), _cut(gates, 1, 2)
        last = bias[:, 2 * size :]
        if op.linear_before_reset:
            carried = reset * (_times_transposed(c, old, new_w) + last)
        else:
            carried = _times_transposed(c, reset * old, new_w) + last
        new = activate(c, g, _bounded(c, row[:, 2 * size :] + carried, op.clip))
        return [(c.scalar(1.0, z.dtype) - z) * new + z * old]

    found = _recurrence(c, x, [h], rest[0] if op.lengths else None, op.reverse, captured, step)
    return [ops.cast(v, narrow) for v in found]


@lower(Rnn)
def _rnn(c: LoweringContext, op: Rnn, x: T, r: T, h: T, *rest: T) -> Sequence[T]:
    narrow = x.dtype
    x, r, h = (widened(v) for v in (x, r, h))

    def step(row: T, state: Sequence[T], weights: T) -> list[T]:
        return [activate(c, op.activation, _bounded(c, row + _times_transposed(c, state[0], weights), op.clip))]

    found = _recurrence(c, x, [h], rest[0] if op.lengths else None, op.reverse, [r], step)
    return [ops.cast(v, narrow) for v in found]
