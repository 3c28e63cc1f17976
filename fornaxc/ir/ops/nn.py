"""Normalisations and recurrences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fornaxc.ir.ops.base import Array, IrError, NotFoldable, Op, concrete, want, want_axis
from fornaxc.ir.types import DType, TensorType


@dataclass(frozen=True, slots=True)
class Softmax(Op):
    """exp(x) over its sum along `axis`, shifted by the maximum; its logarithm where `log`. Floats."""

    axis: int
    log: bool = False

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        (x,) = types
        want(x.dtype.is_float, lambda: f"softmax wants floating point, not {x.dtype}")
        want_axis(self.axis, x.rank)
        return (x,)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        (x,) = arrays
        wide = x.astype(np.float64)
        if not x.size:
            return (x,)
        with np.errstate(all="ignore"):
            shifted = wide - np.max(wide, axis=self.axis, keepdims=True)
            total = np.sum(np.exp(shifted), axis=self.axis, keepdims=True)
            result = shifted - np.log(total) if self.log else np.exp(shifted) / total
        return (result.astype(x.dtype),)


@dataclass(frozen=True, slots=True)
class LayerNorm(Op):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over the axes from `axis` on, which scale and bias have."""

    axis: int
    epsilon: float

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        x, scale, bias = types
        _want_norm(x, self.axis, scale, bias)
        return (x,)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        x, scale, bias = (a.astype(np.float64) for a in arrays)
        axes = tuple(range(self.axis, x.ndim))
        with np.errstate(all="ignore"):
            centred = x - x.mean(axis=axes, keepdims=True)
            spread = np.sqrt((centred**2).mean(axis=axes, keepdims=True) + self.epsilon)
            return ((centred / spread * scale + bias).astype(arrays[0].dtype),)


@dataclass(frozen=True, slots=True)
class RmsNorm(Op):
    """x / sqrt(mean(x^2) + epsilon) * scale over the axes from `axis` on, which scale has."""

    axis: int
    epsilon: float

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        x, scale = types
        _want_norm(x, self.axis, scale)
        return (x,)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        x, scale = (a.astype(np.float64) for a in arrays)
        with np.errstate(all="ignore"):
            mean = (x**2).mean(axis=tuple(range(self.axis, x.ndim)), keepdims=True)
            return ((x / np.sqrt(mean + self.epsilon) * scale).astype(arrays[0].dtype),)


@dataclass(frozen=True, slots=True)
class LocalResponseNorm(Op):
    """x / (bias + alpha * the sum of squares of its neighbours on the last axis, `before` and `after` it) ^ beta. bias > 0, alpha >= 0. f32."""

    before: int
    after: int
    alpha: float
    beta: float
    bias: float

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        (x,) = types
        want(x.dtype is DType.F32 and x.rank >= 1, lambda: f"a local normalisation wants f32 with an axis, not {x}")
        want(self.bias > 0 and self.alpha >= 0, "a local normalisation wants a positive bias and no negative alpha")
        return (x,)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        wide = arrays[0].astype(np.float64)
        around = [(0, 0)] * (wide.ndim - 1) + [(self.before, self.after)]
        with np.errstate(all="ignore"):
            squares = np.pad(wide**2, around)
            size = wide.shape[-1]
            total = sum(squares[..., i : i + size] for i in range(self.before + self.after + 1))
            return ((wide / (self.bias + self.alpha * total) ** self.beta).astype(arrays[0].dtype),)


def _want_norm(x: TensorType, axis: int, *parameters: TensorType) -> None:
    want(x.dtype.is_float, lambda: f"a normalisation wants floating point, not {x.dtype}")
    want_axis(axis, x.rank)
    for p in parameters:
        if p != x.with_shape(x.shape[axis:]):
            raise IrError(f"scale and bias must be {x.with_shape(x.shape[axis:])}, not {p}")


@dataclass(frozen=True, slots=True)
class Lstm(Op):
    """One direction of an LSTM whose input projection is already done.

    Operands: x [time, batch, 4*hidden] (W x + both biases, gates in the order i o f c), r [4*hidden, hidden], the initial h and c
    [batch, hidden], then where `lengths` the i64 [batch] sequence lengths, and where `peephole` p [3*hidden] (i o f).
    Results: y [time, batch, hidden] (0 past a length), the last h and c [batch, hidden]. `reverse` runs each sequence from
    its own end. `activations` are f, g, h of the ONNX specification; `clip` bounds the gate sums (0: no bound);
    `input_forget` couples f = 1 - i.
    """

    activations: tuple[str, ...] = ("sigmoid", "tanh", "tanh")
    reverse: bool = False
    clip: float = 0.0
    input_forget: bool = False
    lengths: bool = False
    peephole: bool = False

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        x, r, h, c, *rest = types
        want(
            len(rest) == self.lengths + self.peephole,
            "lstm got another number of operands than its flags say",
        )
        _want_recurrence(x, r, h, 4, rest[0] if self.lengths else None)
        want(c == h, lambda: f"the initial c must be {h}, not {c}")
        if self.peephole:
            want(rest[-1] == x.with_shape((3 * h.shape[1],)), lambda: f"peepholes do not fit: {rest[-1]}")
        return x.with_shape((*x.shape[:2], h.shape[1])), h, c

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        concrete(*arrays)
        x, r, h, c, *rest = arrays
        lengths = rest[0] if self.lengths else np.full(x.shape[1], x.shape[0])
        p = rest[-1].reshape(3, -1) if self.peephole else np.zeros((3, h.shape[1]), x.dtype)
        f, g, act_h = (activation(a) for a in self.activations)
        y = np.zeros((*x.shape[:2], h.shape[1]), x.dtype)
        for step in range(x.shape[0]):
            rows = np.flatnonzero(step < lengths)
            at = lengths[rows] - 1 - step if self.reverse else np.full(len(rows), step)
            sums = x[at, rows] + h[rows] @ r.T
            i, o, fg, n = np.split(sums, 4, axis=1)
            i = f(_bounded(i + p[0] * c[rows], self.clip))
            fg = 1 - i if self.input_forget else f(_bounded(fg + p[2] * c[rows], self.clip))
            cell = fg * c[rows] + i * g(_bounded(n, self.clip))
            o = f(_bounded(o + p[1] * cell, self.clip))
            h, c = h.copy(), c.copy()
            c[rows], h[rows] = cell, o * act_h(cell)
            y[at, rows] = h[rows]
        return y, h, c


@dataclass(frozen=True, slots=True)
class Gru(Op):
    """One direction of a GRU whose input projection is already done.

    Operands: x [time, batch, 3*hidden] (W x + its bias, gates z r h), r [3*hidden, hidden], its bias [3*hidden], the initial h
    [batch, hidden], and where `lengths` the i64 [batch] sequence lengths. Results: y [time, batch, hidden] (0 past a
    length), the last h. `reverse`, `clip` as in `Lstm`; `linear_before_reset` as in the ONNX specification.
    """

    activations: tuple[str, ...] = ("sigmoid", "tanh")
    reverse: bool = False
    clip: float = 0.0
    linear_before_reset: bool = False
    lengths: bool = False

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        x, r, b, h, *rest = types
        want(len(rest) == self.lengths, "gru got another number of operands than its flags say")
        _want_recurrence(x, r, h, 3, rest[0] if self.lengths else None)
        want(b == x.with_shape((r.shape[0],)), lambda: f"the bias does not fit: {b}")
        return x.with_shape((*x.shape[:2], h.shape[1])), h

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        concrete(*arrays)
        x, r, b, h, *rest = arrays
        size = h.shape[1]
        lengths = rest[0] if self.lengths else np.full(x.shape[1], x.shape[0])
        f, g = (activation(a) for a in self.activations)
        y = np.zeros((*x.shape[:2], size), x.dtype)
        for step in range(x.shape[0]):
            rows = np.flatnonzero(step < lengths)
            at = lengths[rows] - 1 - step if self.reverse else np.full(len(rows), step)
            old, inputs = h[rows], x[at, rows]
            gates = f(_bounded(inputs[:, : 2 * size] + old @ r[: 2 * size].T + b[: 2 * size], self.clip))
            z, reset = gates[:, :size], gates[:, size:]
            if self.linear_before_reset:
                carried = reset * (old @ r[2 * size :].T + b[2 * size :])
            else:
                carried = (reset * old) @ r[2 * size :].T + b[2 * size :]
            n = g(_bounded(inputs[:, 2 * size :] + carried, self.clip))
            h = h.copy()
            h[rows] = (1 - z) * n + z * old
            y[at, rows] = h[rows]
        return y, h


@dataclass(frozen=True, slots=True)
class Rnn(Op):
    """One direction of a plain RNN: h = f(x + R h). Operands and results as in `Gru`, without the recurrent bias."""

    activation: str = "tanh"
    reverse: bool = False
    clip: float = 0.0
    lengths: bool = False

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        x, r, h, *rest = types
        want(len(rest) == self.lengths, "rnn got another number of operands than its flags say")
        _want_recurrence(x, r, h, 1, rest[0] if self.lengths else None)
        return x.with_shape((*x.shape[:2], h.shape[1])), h

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        concrete(*arrays)
        x, r, h, *rest = arrays
        lengths = rest[0] if self.lengths else np.full(x.shape[1], x.shape[0])
        f = activation(self.activation)
        y = np.zeros((*x.shape[:2], h.shape[1]), x.dtype)
        for step in range(x.shape[0]):
            rows = np.flatnonzero(step < lengths)
            at = lengths[rows] - 1 - step if self.reverse else np.full(len(rows), step)
            h = h.copy()
            h[rows] = f(_bounded(x[at, rows] + h[rows] @ r.T, self.clip))
            y[at, rows] = h[rows]
        return y, h


def _want_recurrence(x: TensorType, r: TensorType, h: TensorType, gates: int, lengths: TensorType | None) -> None:
    want(x.dtype.is_float and x.dtype == r.dtype == h.dtype, "a recurrence wants one floating-point type")
    want(x.rank == 3 and r.rank == 2 and h.rank == 2, lambda: f"a recurrence cannot take {x}, {r}, {h}")
    size = h.shape[1]
    want(
        x.shape[2] == gates * size and r.shape == (gates * size, size),
        lambda: f"the gates of {x} and {r} do not fit {h}",
    )
    want(h.shape[0] == x.shape[1], lambda: f"the batches of {x} and {h} differ")
    if lengths is not None:
        want(
            lengths == TensorType(DType.I64, (x.shape[1],)),
            lambda: f"lengths must be i64[{x.shape[1]}], not {lengths}",
        )


def activation(name: str):  # type: ignore[no-untyped-def]
    """The numpy function of a recurrent activation."""
    from fornaxc.ir.ops.elementwise import FLOAT_UNARY, NUMBER_UNARY

    function = FLOAT_UNARY.get(name) or NUMBER_UNARY.get(name)
    if function is None:
        raise NotFoldable(f"the activation {name}")
    return lambda x: np.asarray(function(x)).astype(x.dtype)


def _bounded(x: Array, clip: float) -> Array:
    return np.clip(x, -clip, clip) if clip else x
