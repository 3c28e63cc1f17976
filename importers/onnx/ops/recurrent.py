"""LSTM, GRU and RNN: the input projection of all steps is one product, the recurrence one operation per direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Gru, Lstm, MatMul, Rnn
from fornaxc.ir.types import DType, TensorType

DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
ACTIVATIONS = {"sigmoid": "sigmoid", "tanh": "tanh", "relu": "relu", "softplus": "softplus"}


@dataclass(frozen=True, slots=True)
class Setting:
    """What the three operators share: x [time, batch, input], sequence lengths, the reversed flag of each direction."""

    x: Value
    lengths: tuple[Value, ...]
    reverses: tuple[bool, ...]
    hidden: int
    clip: float
    activations: tuple[tuple[str, ...], ...]
    batch_first: bool

    @property
    def batch(self) -> Dim:
        return self.x.type.shape[1]


def _read(ctx: NodeContext, defaults: tuple[str, ...], *, has_layout: bool) -> Setting:
    columns = ctx.input(2).type.shape[-1]
    ctx.refuse_unless(ctx.has("hidden_size") or isinstance(columns, int), "a symbolic number of hidden elements")
    hidden = ctx.int("hidden_size", columns if isinstance(columns, int) else None)
    ctx.require(columns == hidden or not isinstance(columns, int), f"hidden_size is {hidden}, R has {columns} columns")
    return read_setting(ctx, defaults, hidden, has_layout=has_layout)


def read_setting(ctx: NodeContext, defaults: tuple[str, ...], hidden: int, *, has_layout: bool) -> Setting:
    """What the attributes and the inputs X and sequence_lens say; `defaults` are the activations of one direction."""
    b, x, w = ctx.b, ctx.input(0), ctx.input(1)
    batch_first = bool(ctx.int("layout", 0)) if has_layout else False
    direction = ctx.string("direction", "forward")
    ctx.require(direction in DIRECTIONS, f"no direction {direction!r}")
    reverses = DIRECTIONS[direction]
    ctx.require(x.type.rank == 3 and w.type.rank == 3, f"X and W have three axes, not {x.type} and {w.type}")
    x = c.transpose(b, x, (1, 0, 2)) if batch_first else x
    ctx.ignore("activation_alpha", "activation_beta")  # none of the accepted activations has one
    names = ctx.strings("activations", defaults * len(reverses))
    ctx.require(len(names) == len(defaults) * len(reverses), f"{len(names)} activations")
    for name in names:
        ctx.refuse_unless(name.lower() in ACTIVATIONS, f"the activation {name}")
    kinds = [ACTIVATIONS[name.lower()] for name in names]
    per = len(defaults)
    lengths = ctx.optional(4)
    held = () if lengths is None else (c.cast(b, c.rebind(b, lengths, (x.type.shape[1],)), DType.I64),)
    activations = tuple(tuple(kinds[i * per : (i + 1) * per]) for i in range(len(reverses)))
    return Setting(x, held, reverses, hidden, ctx.float("clip", 0.0), activations, batch_first)


def _direction(b: GraphBuilder, v: Value, index: int) -> Value:
    """Entry `index` of the first axis, which is dropped."""
    return c.reshape(b, c.slice_axis(b, v, 0, index, 1), v.type.shape[1:])


def biases(ctx: NodeContext, index: int, size: int) -> tuple[Value, Value]:
    """The bias of the input and that of the recurrence in one direction, both [size]."""
    b, given = ctx.b, ctx.optional(3)
    if given is None:
        zero = c.full(b, 0, TensorType(ctx.input(0).type.dtype, (size,)))
        return zero, zero
    ctx.require(given.type.rank == 2, f"B has two axes, not {given.type}")
    both = _direction(b, c.rebind(b, given, (given.type.shape[0], 2 * size)), index)
    return c.slice_axis(b, both, 0, 0, size), c.slice_axis(b, both, 0, size, size)


def _recurrent(ctx: NodeContext, s: Setting, index: int, gates: int) -> Value:
    """R of one direction: [gates * hidden, hidden]."""
    return c.rebind(ctx.b, _direction(ctx.b, ctx.input(2), index), (gates * s.hidden, s.hidden))


def _projected(ctx: NodeContext, s: Setting, index: int, gates: int, bias: Value | None) -> Value:
    """x W^T plus the bias, for all steps at once."""
    b = ctx.b
    weight = _direction(b, ctx.input(1), index)
    weight = c.transpose(b, c.rebind(b, weight, (gates * s.hidden, weight.type.shape[1])), (1, 0))
    product = b.emit(MatMul(), c.rebind(b, s.x, (*s.x.type.shape[:2], weight.type.shape[0])), weight)
    return product if bias is None else c.binary(b, "add", product, bias)


def initial_state(ctx: NodeContext, s: Setting, position: int, index: int) -> Value:
    """The initial state [batch, hidden] of one direction: zeros where it is omitted."""
    b, given = ctx.b, ctx.optional(position)
    if given is None:
        return c.full(b, 0, TensorType(s.x.type.dtype, (s.batch, s.hidden)))
    given = c.transpose(b, given, (1, 0, 2)) if s.batch_first else given
    return c.rebind(b, _direction(b, given, index), (s.batch, s.hidden))


def assembled(ctx: NodeContext, s: Setting, runs: Sequence[Sequence[Value]]) -> Sequence[Value]:
    """Y [time, directions, batch, hidden] and the last states [directions, batch, hidden] from each direction's results."""
    b = ctx.b
    y = c.concat(b, [c.unsqueeze(b, run[0], (1,)) for run in runs], 1)
    states = [
        c.concat(b, [c.unsqueeze(b, v, (0,)) for v in last], 0) for last in zip(*(r[1:] for r in runs), strict=True)
    ]
    if s.batch_first:
        y = c.transpose(b, y, (2, 0, 1, 3))
        states = [c.transpose(b, v, (1, 0, 2)) for v in states]
    return [y, *states]


def _with_output_sequence(
    handler: Callable[[NodeContext], Sequence[Value]],
) -> Callable[[NodeContext], Sequence[Value]]:
    """Before opset 7 an attribute said whether the first output is wanted; its name among the outputs says the same."""

    def reading(ctx: NodeContext) -> Sequence[Value]:
        ctx.ignore("output_sequence")
        return handler(ctx)

    return reading


def _lstm(*, has_layout: bool) -> Callable[[NodeContext], Sequence[Value]]:
    def handler(ctx: NodeContext) -> Sequence[Value]:
        b = ctx.b
        s = _read(ctx, ("Sigmoid", "Tanh", "Tanh"), has_layout=has_layout)
        coupled = bool(ctx.int("input_forget", 0))
        peepholes = ctx.optional(7)
        runs = []
        for i, reverse in enumerate(s.reverses):
            x = _projected(ctx, s, i, 4, None)
            if ctx.optional(3) is not None:
                x = c.binary(b, "add", x, c.binary(b, "add", *biases(ctx, i, 4 * s.hidden)))
            op = Lstm(s.activations[i], reverse, s.clip, coupled, bool(s.lengths), peepholes is not None)
            rest = (
                *s.lengths,
                *(() if peepholes is None else (c.rebind(b, _direction(b, peepholes, i), (3 * s.hidden,)),)),
            )
            states = initial_state(ctx, s, 5, i), initial_state(ctx, s, 6, i)
            runs.append(b.emit_all(op, x, _recurrent(ctx, s, i, 4), *states, *rest))
        return assembled(ctx, s, runs)

    return handler


onnx_op("LSTM", 1)(_with_output_sequence(_lstm(has_layout=False)))
onnx_op("LSTM", 7)(_lstm(has_layout=False))
onnx_op("LSTM", 14, 22)(_lstm(has_layout=True))


def _gru(*, has_layout: bool) -> Callable[[NodeContext], Sequence[Value]]:
    def handler(ctx: NodeContext) -> Sequence[Value]:
        b = ctx.b
        s = _read(ctx, ("Sigmoid", "Tanh"), has_layout=has_layout)
        linear = bool(ctx.int("linear_before_reset", 0))
        runs = []
        for i, reverse in enumerate(s.reverses):
            of_input, of_state = biases(ctx, i, 3 * s.hidden)
            x = _projected(ctx, s, i, 3, None if ctx.optional(3) is None else of_input)
            op = Gru(s.activations[i], reverse, s.clip, linear, bool(s.lengths))
            runs.append(b.emit_all(op, x, _recurrent(ctx, s, i, 3), of_state, initial_state(ctx, s, 5, i), *s.lengths))
        return assembled(ctx, s, runs)

    return handler


onnx_op("GRU", 3)(_with_output_sequence(_gru(has_layout=False)))
onnx_op("GRU", 7)(_gru(has_layout=False))
onnx_op("GRU", 14, 22)(_gru(has_layout=True))


def _rnn(*, has_layout: bool) -> Callable[[NodeContext], Sequence[Value]]:
    def handler(ctx: NodeContext) -> Sequence[Value]:
        b = ctx.b
        s = _read(ctx, ("Tanh",), has_layout=has_layout)
        runs = []
        for i, reverse in enumerate(s.reverses):
            x = _projected(ctx, s, i, 1, None)
            if ctx.optional(3) is not None:
                x = c.binary(b, "add", x, c.binary(b, "add", *biases(ctx, i, s.hidden)))
            op = Rnn(s.activations[i][0], reverse, s.clip, bool(s.lengths))
            runs.append(b.emit_all(op, x, _recurrent(ctx, s, i, 1), initial_state(ctx, s, 5, i), *s.lengths))
        return assembled(ctx, s, runs)

    return handler


onnx_op("RNN", 1)(_with_output_sequence(_rnn(has_layout=False)))
onnx_op("RNN", 7)(_rnn(has_layout=False))
onnx_op("RNN", 14, 22)(_rnn(has_layout=True))
