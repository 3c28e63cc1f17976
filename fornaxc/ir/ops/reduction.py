"""Reductions and scans. A reduced axis stays, with size 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fornaxc.ir.dims import Dim
from fornaxc.ir.ops.base import Array, NotFoldable, Op, concrete, is_symbolic, want, want_axis
from fornaxc.ir.ops.elementwise import integer_range
from fornaxc.ir.types import DType, TensorType, dtype_of

REDUCE = ("sum", "prod", "max", "min", "mean")


@dataclass(frozen=True, slots=True)
class Reduce(Op):
    """sum, prod, max, min or mean (floats only) over `axes`; they stay with size 1.

    Of no elements: 0, 1, the least value (-inf), the greatest (inf), NaN. NaN in, NaN out. `max` and `min` of bool are
    any and all. Integer sums wrap.
    """

    fn: str
    axes: tuple[int, ...]

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        (x,) = types
        want(self.fn in REDUCE, lambda: f"no reduction {self.fn!r}")
        want(list(self.axes) == sorted(set(self.axes)), lambda: f"the axes {list(self.axes)} are not sorted and unique")
        for axis in self.axes:
            want_axis(axis, x.rank)
        want(self.fn != "mean" or x.dtype.is_float, lambda: f"mean wants floating point, not {x.dtype}")
        want(x.dtype is not DType.BOOL or self.fn in ("max", "min"), lambda: f"{self.fn} wants numbers, not bool")
        shape: tuple[Dim, ...] = tuple(1 if i in self.axes else d for i, d in enumerate(x.shape))
        return (x.with_shape(shape),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        (x,) = arrays
        if is_symbolic(x):
            if self.fn not in ("sum", "prod") or x.ndim != 1:
                raise NotFoldable(f"{self.fn} of symbolic dims")
            total = np.empty((1,), object)
            total[0] = sum(x.tolist()) if self.fn == "sum" else np.prod(x)
            return (total if self.axes else x,)
        return (reduce_array(self.fn, x, self.axes),)


def reduce_array(fn: str, x: Array, axes: tuple[int, ...]) -> Array:
    """numpy's answer by the rules of `Reduce`."""
    wide: Any = x
    if x.dtype.name in ("float16", "bfloat16") or x.dtype.name.startswith("float8"):
        wide = x.astype(np.float32)
    with np.errstate(all="ignore"):
        if fn == "mean":
            count = np.prod([x.shape[a] for a in axes]) if axes else 1
            result = np.sum(wide, axis=axes, keepdims=True) / wide.dtype.type(count)
        elif fn in ("sum", "prod"):
            total: Any = np.sum if fn == "sum" else np.prod
            result = total(wide, axis=axes, keepdims=True, dtype=wide.dtype)
        else:
            extreme: Any = np.max if fn == "max" else np.min
            result = extreme(wide, axis=axes, keepdims=True, initial=_identity(fn, x))
    return np.asarray(result).astype(x.dtype)


def _identity(fn: str, x: Array) -> Any:
    dtype = dtype_of(x.dtype)
    if dtype is DType.BOOL:
        return fn == "min"
    if dtype.is_float:
        return -np.inf if fn == "max" else np.inf
    low, high = integer_range(dtype)
    return low if fn == "max" else high


@dataclass(frozen=True, slots=True)
class ArgReduce(Op):
    """The i64 index of the largest (`max`) or smallest (`min`) element along `axis`, which stays with size 1.

    The first such index, or the last where `last`. NaN counts as the extreme.
    """

    fn: str
    axis: int
    last: bool = False

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        (x,) = types
        want(self.fn in ("max", "min"), lambda: f"no arg reduction {self.fn!r}")
        want_axis(self.axis, x.rank)
        shape: tuple[Dim, ...] = tuple(1 if i == self.axis else d for i, d in enumerate(x.shape))
        return (TensorType(DType.I64, shape),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        concrete(*arrays)
        (x,) = arrays
        if x.shape[self.axis] == 0:
            raise NotFoldable("the extreme of no elements")
        function = np.argmax if self.fn == "max" else np.argmin
        if not self.last:
            return (np.asarray(function(x, axis=self.axis, keepdims=True), np.int64),)
        flipped = function(np.flip(x, self.axis), axis=self.axis, keepdims=True)
        return (np.asarray(x.shape[self.axis] - 1 - flipped, np.int64),)


@dataclass(frozen=True, slots=True)
class Cumulative(Op):
    """The running sum or prod along `axis`; `exclusive` leaves out the element itself, `reverse` runs from the end."""

    fn: str
    axis: int
    exclusive: bool = False
    reverse: bool = False

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        (x,) = types
        want(self.fn in ("sum", "prod"), lambda: f"no cumulative {self.fn!r}")
        want_axis(self.axis, x.rank)
        want(x.dtype is not DType.BOOL, "cumulative wants numbers, not bool")
        return (x,)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        concrete(*arrays)
        (x,) = arrays
        line = np.flip(x, self.axis) if self.reverse else x
        function = np.cumsum if self.fn == "sum" else np.cumprod
        result = function(line, axis=self.axis, dtype=x.dtype)
        if self.exclusive and x.shape[self.axis]:
            kept = np.take(result, np.arange(x.shape[self.axis] - 1), axis=self.axis)
            first = np.take(np.zeros_like(x) if self.fn == "sum" else np.ones_like(x), [0], axis=self.axis)
            result = np.concatenate([first, kept], axis=self.axis)
        return (np.flip(result, self.axis) if self.reverse else result,)
