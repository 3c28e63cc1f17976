"""Operations of the CPU's own kernels: channels last, weights packed ahead of time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fornaxc.ir.dims import Dim, static
from fornaxc.ir.ops.base import Array, NotFoldable, Op, concrete, want
from fornaxc.ir.ops.linear import Conv
from fornaxc.ir.ops.nn import Gru, Lstm, Rnn
from fornaxc.ir.types import DType, TensorType

PANEL = 16  # filters of a panel
ACTIVATIONS = ("none", "relu", "clip", "silu", "sigmoid", "hardswish")


def packed_size(filters: int, channels: int, window: int, groups: int) -> int:
    """The elements of packed weights: each group's filters rounded up to whole panels; depthwise ones are not padded."""
    if channels == 1 and groups == filters and groups > 1:
        return filters * window
    per_group = filters // groups
    return groups * (-(-per_group // PANEL) * PANEL) * channels * window


@dataclass(frozen=True, slots=True)
class PackConv(Op):
    """Filters [K, C/groups, R, S] as the 1-D panels that `ConvNhwc` reads (see `fornaxc.kernels.packing`)."""

    groups: int

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        (w,) = types
        want(
            w.rank == 4 and w.is_static and w.dtype is DType.F32, lambda: f"pack_conv wants static f32 filters, not {w}"
        )
        k, c, r, s = (static(d) for d in w.shape)
        return (w.with_shape((packed_size(k, c, r * s, self.groups),)),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        from fornaxc.kernels.packing import pack_conv_weight

        return (pack_conv_weight(arrays[0], self.groups),)

    def parts(self, *arrays: Array) -> Iterator[Array]:
        from fornaxc.kernels.packing import conv_weight_parts

        return conv_weight_parts(arrays[0], self.groups)


@dataclass(frozen=True, slots=True)
class ConvNhwc(Op):
    """A convolution of x [N, H, W, C] with packed weights, a bias [K], then a residual [N, Ho, Wo, K], then an activation.

    `window` is (R, S). The activation is one of `ACTIVATIONS`; "clip" bounds to [`least`, `greatest`]. f32.
    """

    filters: int
    window: tuple[int, int]
    strides: tuple[int, int]
    low: tuple[int, int]
    high: tuple[int, int]
    dilations: tuple[int, int]
    groups: int
    activation: str = "none"
    least: float = 0.0
    greatest: float = 0.0
    residual: bool = False

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        x, w, bias, *rest = types
        want(x.rank == 4 and x.dtype is DType.F32, lambda: f"conv_nhwc wants f32 of rank 4, not {x}")
        want(isinstance(x.shape[3], int), "conv_nhwc wants a static channel count")
        want(self.activation in ACTIVATIONS, lambda: f"no activation {self.activation!r}")
        channels = static(x.shape[3])
        size = packed_size(self.filters, channels // self.groups, self.window[0] * self.window[1], self.groups)
        want(w.shape == (size,), lambda: f"the packed weights must have {size} elements, not {w}")
        want(bias.shape == (self.filters,), lambda: f"the bias must be f32[{self.filters}], not {bias}")
        (plain,) = self.conv().infer(self._nchw(x), self._filters(x))
        n, k, ho, wo = plain.shape
        result = x.with_shape((n, ho, wo, k))
        want(len(rest) == self.residual, "conv_nhwc got another number of operands than `residual` says")
        want(all(r == result for r in rest), lambda: f"the residual must be {result}")
        return (result,)

    def conv(self) -> Conv:
        """The same convolution, channels first."""
        return Conv(self.strides, self.low, self.high, self.dilations, self.groups)

    def _nchw(self, x: TensorType) -> TensorType:
        n, h, w, c = x.shape
        return x.with_shape((n, c, h, w))

    def _filters(self, x: TensorType) -> TensorType:
        shape: tuple[Dim, ...] = (self.filters, static(x.shape[3]) // self.groups, *self.window)
        return x.with_shape(shape)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        from fornaxc.kernels.packing import unpack_conv_weight

        concrete(*arrays)
        x, w, bias, *rest = arrays
        shape = (self.filters, x.shape[3] // self.groups, *self.window)
        filters = unpack_conv_weight(w, shape, self.groups)
        (y,) = self.conv().evaluate(np.moveaxis(x, 3, 1), filters)
        result = np.moveaxis(y, 1, 3) + bias
        if rest:
            result = result + rest[0]
        return (self._activate(result).astype(x.dtype),)

    def _activate(self, x: Array) -> Array:
        with np.errstate(all="ignore"):
            match self.activation:
                case "none":
                    return x
                case "relu":
                    return np.where(x < 0, np.float32(0), x)
                case "clip":
                    return np.clip(x, np.float32(self.least), np.float32(self.greatest))
                case "sigmoid":
                    return np.asarray(1 / (1 + np.exp(-x)))
                case "silu":
                    return np.asarray(x / (1 + np.exp(-x)))
                case "hardswish":
                    return np.asarray(x * np.clip(x / 6 + 0.5, 0, 1))
        raise NotFoldable(self.activation)


@dataclass(frozen=True, slots=True)
class FromPool(Op):
    """Constants of `shape` from `offset` on of a 1-D pool of them, read where they lie: packing the weights leaves them together."""

    offset: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        (pool,) = types
        want(pool.rank == 1 and pool.is_static, lambda: f"a pool of constants has one static dim, unlike {pool}")
        want(
            0 <= self.offset <= self.offset + self.size <= static(pool.shape[0]),
            lambda: f"{self.size} numbers from {self.offset} on are not in {pool}",
        )
        return (pool.with_shape(self.shape),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        return (arrays[0][self.offset : self.offset + self.size].reshape(self.shape),)


RECURRENT_ACTIVATIONS = ("relu", "sigmoid", "tanh")
_GATES = {"lstm": 4, "gru": 3, "rnn": 1}


@dataclass(frozen=True, slots=True)
class PackedRecurrence(Op):
    """`Lstm`, `Gru` or `Rnn` (by `kind`) whose recurrent weights r are packed panels; the other operands are theirs.

    The panels are those of `PackConv` for r as 1 x 1 filters; a GRU's are those of the gates z and r, then those of h.
    """

    kind: str
    hidden: int
    activations: tuple[str, ...]
    reverse: bool = False
    clip: float = 0.0
    input_forget: bool = False
    linear_before_reset: bool = False
    lengths: bool = False
    peephole: bool = False

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        x, r, *rest = types
        want(self.kind in _GATES, lambda: f"no recurrence {self.kind!r}")
        want(
            all(a in RECURRENT_ACTIVATIONS for a in self.activations),
            lambda: f"no such activation in {self.activations}",
        )
        want(x.dtype is DType.F32, lambda: f"a packed recurrence wants f32, not {x}")
        size = sum(packed_size(rows, self.hidden, 1, 1) for rows in self._parts())
        want(r.shape == (size,), lambda: f"the packed weights must have {size} elements, not {r}")
        plain = x.with_shape((_GATES[self.kind] * self.hidden, self.hidden))
        return self.plain().infer(x, plain, *rest)

    def plain(self) -> Op:
        """The recurrence on weights that are not packed."""
        shared: dict[str, Any] = {"reverse": self.reverse, "clip": self.clip, "lengths": self.lengths}
        if self.kind == "lstm":
            return Lstm(self.activations, input_forget=self.input_forget, peephole=self.peephole, **shared)
        if self.kind == "gru":
            return Gru(self.activations, linear_before_reset=self.linear_before_reset, **shared)
        return Rnn(self.activations[0], **shared)

    def _parts(self) -> tuple[int, ...]:
        """The rows of each matrix that is packed by itself."""
        return (2 * self.hidden, self.hidden) if self.kind == "gru" else (_GATES[self.kind] * self.hidden,)

    def unpack(self, r: Array) -> Array:
        """The recurrent weights that `plain` takes, from the packed ones."""
        from fornaxc.kernels.packing import unpack_conv_weight

        matrices, offset = [], 0
        for rows in self._parts():
            size = packed_size(rows, self.hidden, 1, 1)
            part = r[offset : offset + size]
            matrices.append(unpack_conv_weight(part, (rows, self.hidden, 1, 1), 1)[:, :, 0, 0])
            offset += size
        return np.concatenate(matrices)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        x, r, *rest = arrays
        return self.plain().evaluate(x, self.unpack(r), *rest)
