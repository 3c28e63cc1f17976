"""Gather, scatter and searches. Indices are i64 or i32, non-negative and within bounds unless said otherwise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fornaxc.ir.dims import Dim
from fornaxc.ir.ops.base import Array, NotFoldable, Op, concrete, is_symbolic, want, want_axis
from fornaxc.ir.types import DType, TensorType

REDUCTIONS = ("none", "add", "mul", "min", "max")


def _want_indices(t: TensorType) -> None:
    want(t.dtype in (DType.I32, DType.I64), lambda: f"indices must be i32 or i64, not {t.dtype}")


@dataclass(frozen=True, slots=True)
class Gather(Op):
    """Rows of `a` along `axis` at the indices `b`; the result has b's shape in place of that axis."""

    axis: int

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        x, index = types
        _want_indices(index)
        want_axis(self.axis, x.rank)
        return (x.with_shape((*x.shape[: self.axis], *index.shape, *x.shape[self.axis + 1 :])),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        x, index = arrays
        if is_symbolic(index):
            raise NotFoldable("a symbolic index")
        if index.size and (index.min() < 0 or index.max() >= x.shape[self.axis]):
            raise NotFoldable("an index out of bounds")
        return (np.take(x, index, axis=self.axis),)


@dataclass(frozen=True, slots=True)
class GatherElements(Op):
    """result[i][j][k] = a[index[i][j][k]][j][k] for axis 0, and so on (ONNX GatherElements)."""

    axis: int

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        x, index = types
        _want_indices(index)
        want_axis(self.axis, x.rank)
        want(index.rank == x.rank, lambda: f"gather_elements wants equal ranks, not {x} and {index}")
        return (x.with_shape(index.shape),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        concrete(*arrays)
        x, index = arrays
        grid: list[Array] = list(np.indices(index.shape, sparse=True))
        grid[self.axis] = index
        return (x[tuple(grid)],)


@dataclass(frozen=True, slots=True)
class GatherNd(Op):
    """Slices of `a` at the index tuples in the last axis of `b`; `batch_dims` leading axes are shared (ONNX GatherND)."""

    batch_dims: int = 0

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        x, index = types
        _want_indices(index)
        want(index.rank > self.batch_dims and x.rank > self.batch_dims, "batch_dims is not below both ranks")
        want(
            x.shape[: self.batch_dims] == index.shape[: self.batch_dims],
            lambda: f"batch axes of {x} and {index} differ",
        )
        depth = index.shape[-1]
        want(isinstance(depth, int), lambda: f"the last axis of the indices {index} must be static")
        assert isinstance(depth, int)
        want(depth + self.batch_dims <= x.rank, lambda: f"index tuples of {depth} are too long for {x}")
        return (x.with_shape((*index.shape[:-1], *x.shape[self.batch_dims + depth :])),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        concrete(*arrays)
        x, index = arrays
        batch = np.indices(index.shape[: self.batch_dims], sparse=True)
        pad = (1,) * (index.ndim - 1 - self.batch_dims)
        grid = [b.reshape(b.shape + pad) for b in batch]
        return (x[(*grid, *np.moveaxis(index, -1, 0))],)


_UFUNC = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


@dataclass(frozen=True, slots=True)
class ScatterElements(Op):
    """A copy of `a` with `c` written at the places that `b` names along `axis` (ONNX ScatterElements)."""

    axis: int
    reduction: str = "none"

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        x, index, updates = types
        _want_indices(index)
        want_axis(self.axis, x.rank)
        want(self.reduction in REDUCTIONS, lambda: f"no scatter reduction {self.reduction!r}")
        want(
            updates.dtype == x.dtype and updates.shape == index.shape,
            lambda: f"updates {updates} do not fit {x} at {index}",
        )
        return (x,)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        concrete(*arrays)
        x, index, updates = arrays
        grid: list[Array] = list(np.indices(index.shape, sparse=True))
        grid[self.axis] = index
        result = x.copy()
        if self.reduction == "none":
            result[tuple(grid)] = updates
        else:
            _UFUNC[self.reduction].at(result, tuple(grid), updates)
        return (result,)


@dataclass(frozen=True, slots=True)
class ScatterNd(Op):
    """A copy of `a` with the slices `c` written at the index tuples `b` (ONNX ScatterND)."""

    reduction: str = "none"

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        x, index, updates = types
        _want_indices(index)
        want(self.reduction in REDUCTIONS, lambda: f"no scatter reduction {self.reduction!r}")
        depth = index.shape[-1] if index.rank else 0
        want(isinstance(depth, int), lambda: f"the last axis of the indices {index} must be static")
        assert isinstance(depth, int)
        shape = (*index.shape[:-1], *x.shape[depth:])
        want(updates == x.with_shape(shape), lambda: f"updates must be {x.with_shape(shape)}, not {updates}")
        return (x,)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        concrete(*arrays)
        x, index, updates = arrays
        result = x.copy()
        where = tuple(np.moveaxis(index, -1, 0))
        if self.reduction == "none":
            result[where] = updates
        else:
            _UFUNC[self.reduction].at(result, where, updates)
        return (result,)


@dataclass(frozen=True, slots=True)
class NonZero(Op):
    """The indices of the non-zero elements in row-major order: i64 [rank, size]; `size` names the run-time count."""

    size: Dim

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        return (TensorType(DType.I64, (types[0].rank, self.size)),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        concrete(*arrays)
        return (np.array(np.nonzero(arrays[0]), np.int64).reshape(arrays[0].ndim, -1),)


@dataclass(frozen=True, slots=True)
class TopK(Op):
    """The `k` largest (or smallest) along `axis`, sorted, ties to the lower index; NaN counts as the largest.

    Two results: values, and their i64 indices.
    """

    k: Dim
    axis: int
    largest: bool = True

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        (x,) = types
        want_axis(self.axis, x.rank)
        values = x.with_shape((*x.shape[: self.axis], self.k, *x.shape[self.axis + 1 :]))
        return values, values.with_dtype(DType.I64)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        concrete(*arrays)
        (x,) = arrays
        if not isinstance(self.k, int):
            raise NotFoldable("a symbolic k")
        if self.largest:  # a stable descending sort: sort the reversed array, then reverse
            order = (
                x.shape[self.axis]
                - 1
                - np.flip(np.argsort(np.flip(x, self.axis), axis=self.axis, kind="stable"), self.axis)
            )
        else:
            order = np.argsort(x, axis=self.axis, kind="stable")
        index = np.take(order, np.arange(self.k), axis=self.axis).astype(np.int64)
        return np.take_along_axis(x, index, self.axis), index
