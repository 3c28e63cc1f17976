"""Matrix products, convolutions and window reductions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product as cartesian

import numpy as np

from fornaxc.ir.dims import Dim, static
from fornaxc.ir.ops.base import Array, NotFoldable, Op, concrete, concrete_dims, want
from fornaxc.ir.types import DType, TensorType

Shape = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class MatMul(Op):
    """a [..., M, K] times b [..., K, N]: [..., M, N]; b has a's leading axes, or none. Integers wrap; K = 0 gives 0."""

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        a, b = types
        want(a.dtype == b.dtype and a.dtype is not DType.BOOL, lambda: f"matmul wants one number type, not {a} and {b}")
        want(a.rank >= 2 and b.rank >= 2, lambda: f"matmul wants matrices, not {a} and {b}")
        want(b.rank == 2 or b.shape[:-2] == a.shape[:-2], lambda: f"the leading axes of {a} and {b} differ")
        want(
            a.shape[-1] == b.shape[-2],
            lambda: f"matmul cannot contract {a.shape[-1]} of {a} with {b.shape[-2]} of {b}",
        )
        return (a.with_shape((*a.shape[:-1], b.shape[-1])),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        concrete(*arrays)
        a, b = arrays
        wide = np.float32 if a.dtype.name in ("float16", "bfloat16") else a.dtype
        with np.errstate(all="ignore"):
            return (np.asarray(a.astype(wide) @ b.astype(wide)).astype(a.dtype),)


def window_size(size: Dim, low: int, high: int, window: int, stride: int, dilation: int) -> Dim:
    """The number of windows along one axis: floor((size + low + high - dilation*(window-1) - 1) / stride) + 1."""
    free = size + low + high - dilation * (window - 1) - 1
    return max(0, free // stride + 1) if isinstance(free, int) else free // stride + 1


def _want_windows(rank: int, **fields: tuple[int, ...]) -> None:
    for name, values in fields.items():
        want(len(values) == rank, f"{name} must have {rank} entries, not {len(values)}")


@dataclass(frozen=True, slots=True)
class Conv(Op):
    """Cross-correlation: x [N, C, ...], w [K, C/groups, ...]: [N, K, ...], zero padding `low` and `high` (never negative)."""

    strides: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int = 1

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        x, w = types
        want(x.rank >= 3 and x.rank == w.rank, lambda: f"conv wants equal ranks of 3 and more, not {x} and {w}")
        want(x.dtype == w.dtype, lambda: f"conv wants one element type, not {x} and {w}")
        _want_windows(x.rank - 2, strides=self.strides, low=self.low, high=self.high, dilations=self.dilations)
        want(
            isinstance(w.shape[1], int) and x.shape[1] == w.shape[1] * self.groups,
            lambda: f"{x.shape[1]} channels of {x} do not fit {w} in {self.groups} groups",
        )
        filters = w.shape[0]
        want(
            isinstance(filters, int) and filters % self.groups == 0,
            lambda: f"{filters} filters, {self.groups} groups",
        )
        spatial = []
        for size, window, *rest in zip(
            x.shape[2:], w.shape[2:], self.low, self.high, self.strides, self.dilations, strict=True
        ):
            want(isinstance(window, int), lambda: f"the window of {w} must be static")
            low, high, stride, dilation = rest
            spatial.append(window_size(size, low, high, static(window), stride, dilation))
        return (x.with_shape((x.shape[0], filters, *spatial)),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        concrete(*arrays)
        x, w = arrays
        out = concrete_dims(self.infer(_type(x), _type(w))[0].shape)
        padded = np.pad(x, [(0, 0), (0, 0), *zip(self.low, self.high, strict=True)])
        wide = np.float32 if x.dtype.name in ("float16", "bfloat16") else x.dtype
        grouped = w.reshape(self.groups, w.shape[0] // self.groups, *w.shape[1:]).astype(wide)
        result = np.zeros((x.shape[0], self.groups, w.shape[0] // self.groups, *out[2:]), wide)
        for tap in cartesian(*(range(k) for k in w.shape[2:])):
            window = at_tap(padded, tap, out[2:], self.strides, self.dilations)
            part = window.reshape(x.shape[0], self.groups, w.shape[1], *out[2:]).astype(wide)
            with np.errstate(all="ignore"):
                result += np.einsum("ngc...,gkc->ngk...", part, grouped[(Ellipsis, *tap)])  # type: ignore[arg-type]
        return (result.reshape(out).astype(x.dtype),)


@dataclass(frozen=True, slots=True)
class Pool(Op):
    """The `max` or `sum` of each window over the last len(window) axes; padding counts as the identity (-inf, 0).

    Where `channels_last`, the window is over the axes before the last one.
    """

    fn: str
    window: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    dilations: tuple[int, ...]
    channels_last: bool = False

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        (x,) = types
        rank = len(self.window)
        want(self.fn in ("max", "sum"), lambda: f"no pool {self.fn!r}")
        want(x.rank >= rank + self.channels_last, lambda: f"a window of rank {rank} does not fit {x}")
        want(x.dtype is not DType.BOOL, "pool wants numbers, not bool")
        _want_windows(rank, strides=self.strides, low=self.low, high=self.high, dilations=self.dilations)
        shape = list(x.shape)
        axes = range(x.rank - rank - self.channels_last, x.rank - self.channels_last)
        for axis, *rest in zip(axes, self.low, self.high, self.window, self.strides, self.dilations, strict=True):
            shape[axis] = window_size(shape[axis], *rest)
        return (x.with_shape(tuple(shape)),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        from fornaxc.ir.ops.reduction import reduce_array

        concrete(*arrays)
        if self.channels_last:
            (pooled,) = replace(self, channels_last=False).evaluate(np.moveaxis(arrays[0], -1, 0))
            return (np.moveaxis(pooled, 0, -1),)
        (x,) = arrays
        lead = x.ndim - len(self.window)
        out = concrete_dims(self.infer(_type(x))[0].shape)[lead:]
        identity = reduce_array(self.fn, x.reshape(-1)[:0], (0,)).item()
        padded = np.pad(x, [(0, 0)] * lead + list(zip(self.low, self.high, strict=True)), constant_values=identity)
        taps = [
            at_tap(padded, tap, out, self.strides, self.dilations)
            for tap in cartesian(*(range(k) for k in self.window))
        ]
        return (reduce_array(self.fn, np.stack(taps), (0,))[0],)


def _type(x: Array) -> TensorType:
    from fornaxc.ir.types import dtype_of

    return TensorType(dtype_of(x.dtype), x.shape)


def at_tap(
    padded: Array,
    tap: tuple[int, ...],
    out: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> Array:
    """What one position of the window sees, for every window."""
    if any(n < 0 for n in out):
        raise NotFoldable("a window larger than its operand")
    cuts = tuple(
        slice(t * d, t * d + (n - 1) * s + 1 if n else t * d, s)
        for t, n, s, d in zip(tap, out, strides, dilations, strict=True)
    )
    return padded[(Ellipsis, *cuts)]  # type: ignore[arg-type]
