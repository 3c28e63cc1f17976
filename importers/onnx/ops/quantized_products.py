"""onnxruntime's products whose activations are quantised as they come: domain com.microsoft (ContribOperators.md), version 1."""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.importers.onnx.context import Invalid, NodeContext
from fornaxc.importers.onnx.ops.fused import MICROSOFT
from fornaxc.importers.onnx.ops.matmul import matmul
from fornaxc.importers.onnx.ops.quantize import centred, dynamically_quantized, per_column, per_row
from fornaxc.importers.onnx.ops.recurrent import assembled, biases, initial_state, read_setting
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Gather, ScatterNd, While
from fornaxc.ir.types import DType


def as_float(b: GraphBuilder, total: Value, left: Value, right: Value) -> Value:
    """An i32 sum of products in units of left * right, as f32."""
    return c.binary(b, "mul", c.cast(b, total, DType.F32), c.binary(b, "mul", left, right))


def _column_parameter(ctx: NodeContext, index: int, right: Value) -> Value | None:
    """A scale or zero point of the columns of `right` (several for each matrix of a batch), so that it broadcasts to it."""
    b, value = ctx.b, ctx.optional(index)
    if value is None or value.type.elements == 1 or value.type.rank == 1:
        return per_column(ctx, value)
    *lead, rows, columns = value.type.shape
    ctx.refuse_unless(rows == 1 and columns == right.type.shape[-1], f"parameters {value.type} for {right.type}")
    return c.reshape(b, value, (*lead, 1, columns))


def _column_scale(ctx: NodeContext, index: int, right: Value) -> Value:
    scale = _column_parameter(ctx, index, right)
    if scale is None:
        raise Invalid(f"input {index}, a scale, is missing")
    return scale


def _with_bias(ctx: NodeContext, y: Value, index: int) -> Value:
    bias = ctx.optional(index)
    return y if bias is None else c.binary(ctx.b, "add", y, bias)


@onnx_op("DynamicQuantizeMatMul", 1, domain=MICROSOFT)
def dynamic_quantize_matmul(ctx: NodeContext) -> Value:
    """Inputs: A (f32), B (8 bits), B's scale and zero point, bias. The whole of A has one scale."""
    b, right = ctx.b, ctx.input(1)
    quantised, scale, zero = dynamically_quantized(b, ctx.input(0))
    total = matmul(b, centred(ctx, quantised, zero), centred(ctx, right, _column_parameter(ctx, 3, right)))
    return _with_bias(ctx, as_float(b, total, scale, _column_scale(ctx, 2, right)), 4)


@onnx_op("MatMulIntegerToFloat", 1, domain=MICROSOFT)
def matmul_integer_to_float(ctx: NodeContext) -> Value:
    """Inputs: A, B, the scale of A, that of B, the zero point of A, that of B, bias."""
    b, left, right = ctx.b, ctx.input(0), ctx.input(1)
    scale, zero = ctx.input(2), ctx.optional(4)
    for value in (scale, zero):
        ctx.refuse_unless(value is None or value.type.elements == 1, "a scale for each row of A")
    total = matmul(b, centred(ctx, left, per_row(ctx, zero)), centred(ctx, right, _column_parameter(ctx, 5, right)))
    return _with_bias(ctx, as_float(b, total, c.reshape(b, scale, ()), _column_scale(ctx, 3, right)), 6)


def quantised_product(b: GraphBuilder, x: Value, weight: Value, steps: Value) -> Value:
    """`x`, all of it by one scale of 8 bits, times the i32 `weight` in units of `steps`, as f32."""
    quantised, scale, zero = dynamically_quantized(b, x)
    whole = c.binary(b, "sub", c.cast(b, quantised, DType.I32), c.cast(b, zero, DType.I32))
    return as_float(b, matmul(b, whole, weight), scale, steps)


@onnx_op("DynamicQuantizeLSTM", 1, domain=MICROSOFT)
def dynamic_quantize_lstm(ctx: NodeContext) -> Sequence[Value]:
    """LSTM-7 with W [directions, input, 4*hidden] and R [directions, hidden, 4*hidden] of 8 bits; X, and the state of each step, by one scale.

    Inputs 0 to 7 are those of LSTM, then W's scale and zero point and R's, for each direction or each of its columns.
    """
    b, x, hidden = ctx.b, ctx.input(0), ctx.int("hidden_size")
    ctx.refuse_unless(ctx.optional(4) is None and ctx.optional(7) is None, "sequence_lens or peepholes")
    ctx.refuse_unless(ctx.input(2).type.shape[1:] == (hidden, 4 * hidden), f"R is {ctx.input(2).type}")
    setting = read_setting(ctx, ("Sigmoid", "Tanh", "Tanh"), hidden, has_layout=False)
    ctx.refuse_unless(not ctx.int("input_forget", 0) and not setting.clip, "input_forget or clip")
    runs = []
    for index, reverse in enumerate(setting.reverses):
        weights = [_weight(ctx, place, index, scale) for place, scale in ((1, 8), (2, 10))]
        gates = quantised_product(b, x, *weights[0])
        if ctx.optional(3) is not None:
            gates = c.binary(b, "add", gates, c.binary(b, "add", *biases(ctx, index, 4 * hidden)))
        states = initial_state(ctx, setting, 5, index), initial_state(ctx, setting, 6, index)
        runs.append(_steps(b, gates, weights[1], states, setting.activations[index], reverse))
    return assembled(ctx, setting, runs)


def _weight(ctx: NodeContext, place: int, index: int, scale: int) -> tuple[Value, Value]:
    """Entry `index` of the input at `place` less its zero point, in i32, and its scale; both inputs stand at `scale`."""
    b = ctx.b
    weight, steps, zero = (
        c.reshape(b, c.slice_axis(b, v, 0, index, 1), v.type.shape[1:])
        for v in (ctx.input(place), ctx.input(scale), ctx.input(scale + 1))
    )
    return centred(ctx, weight, zero), steps


def _steps(
    b: GraphBuilder,
    gates: Value,
    weight: tuple[Value, Value],
    states: tuple[Value, Value],
    activations: Sequence[str],
    reverse: bool,
) -> tuple[Value, ...]:
    """One direction over projected gates [time, batch, 4*hidden] in the order i o f c: y [time, batch, hidden], the last h and c."""
    time, batch, _ = gates.type.shape
    hidden = states[0].type.shape[1]
    trips = c.reshape(b, b.dims((time,)), ())
    y = c.full(b, 0, gates.type.with_shape((time, batch, hidden)))
    operands = [c.scalar(b, 0, DType.I64), *states, y]
    test = GraphBuilder(b)
    at, *_ = (test.input(v.type) for v in operands)
    going = c.compare(test, "lt", at, trips)
    inner = GraphBuilder(b)
    at, h, cell, filled = (inner.input(v.type) for v in operands)
    place = c.binary(inner, "sub", c.with_scalar(inner, "sub", trips, 1), at) if reverse else at
    sums = c.binary(inner, "add", inner.emit(Gather(0), gates, place), quantised_product(inner, h, *weight))
    i, o, f, n = (c.slice_axis(inner, sums, 1, part * hidden, hidden) for part in range(4))
    of_gate, of_cell, of_state = activations
    kept = c.binary(inner, "mul", c.unary(inner, of_gate, f), cell)
    cell = c.binary(inner, "add", kept, c.binary(inner, "mul", c.unary(inner, of_gate, i), c.unary(inner, of_cell, n)))
    h = c.binary(inner, "mul", c.unary(inner, of_gate, o), c.unary(inner, of_state, cell))
    filled = inner.emit(ScatterNd(), filled, c.reshape(inner, place, (1, 1)), c.unsqueeze(inner, h, (0,)))
    body = inner.finish([c.with_scalar(inner, "add", at, 1), h, cell, filled])
    _, h, cell, y = b.emit_all(While(), *operands, regions=(test.finish([going]), body))
    return y, h, cell
