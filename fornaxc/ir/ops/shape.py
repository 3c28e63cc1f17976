"""Operations that move, repeat, select or describe elements without computing on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fornaxc.ir.dims import Dim, product
from fornaxc.ir.ops.base import (
    Array,
    IrError,
    NotFoldable,
    Op,
    concrete,
    concrete_dims,
    is_symbolic,
    want,
    want_axis,
)
from fornaxc.ir.types import DType, TensorType

Shape = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Reshape(Op):
    """The same elements in row-major order under another shape of as many elements."""

    shape: Shape

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        (x,) = types
        want(
            x.elements == product(self.shape),
            lambda: f"a reshape of {x} to [{', '.join(map(str, self.shape))}] changes the element count",
        )
        return (x.with_shape(self.shape),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        return (arrays[0].reshape(concrete_dims(self.shape)),)


@dataclass(frozen=True, slots=True)
class DynamicReshape(Op):
    """Reshape `a` to the sizes in the 1-D i64 tensor `b`; `shape` is what the checker knows of the result.

    The sizes are non-negative and agree with `shape` at run time.
    """

    shape: Shape

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        x, sizes = types
        want(
            sizes == TensorType(DType.I64, (len(self.shape),)),
            lambda: f"sizes must be i64[{len(self.shape)}], not {sizes}",
        )
        return (x.with_shape(self.shape),)


@dataclass(frozen=True, slots=True)
class BroadcastTo(Op):
    """Repeat along axes: each axis of the operand is 1 or equal to the axis of `shape`; ranks are equal."""

    shape: Shape

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        (x,) = types
        want(x.rank == len(self.shape), lambda: f"broadcast_to wants equal ranks, not {x} and {len(self.shape)}")
        for have, wanted in zip(x.shape, self.shape, strict=True):
            if have not in (1, wanted):
                raise IrError(f"an axis of {x} is neither 1 nor {wanted}")
        return (x.with_shape(self.shape),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        return (np.broadcast_to(arrays[0], concrete_dims(self.shape)),)


@dataclass(frozen=True, slots=True)
class Repeat(Op):
    """Each element of axis i `times[i]` times, one after the other (numpy's repeat on every axis)."""

    times: tuple[int, ...]

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        (x,) = types
        want(
            x.rank == len(self.times) and all(n > 0 for n in self.times),
            lambda: f"repeat wants a positive count for each axis of {x}, not {self.times}",
        )
        return (x.with_shape(tuple([product([d, n]) for d, n in zip(x.shape, self.times, strict=True)])),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        (x,) = arrays
        for axis, count in enumerate(self.times):
            x = np.repeat(x, count, axis) if count > 1 else x
        return (x,)


@dataclass(frozen=True, slots=True)
class DynamicBroadcast(Op):
    """Broadcast `a` to the sizes in the 1-D i64 tensor `b` (as numpy does, ranks equal); `shape` is the result's."""

    shape: Shape

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        x, sizes = types
        want(x.rank == len(self.shape), lambda: f"dynamic_broadcast wants equal ranks, not {x} and {len(self.shape)}")
        want(
            sizes == TensorType(DType.I64, (len(self.shape),)),
            lambda: f"sizes must be i64[{len(self.shape)}], not {sizes}",
        )
        return (x.with_shape(self.shape),)


@dataclass(frozen=True, slots=True)
class Rebind(Op):
    """The operand, whose shape is asserted at run time to equal `shape`; the ranks are equal."""

    shape: Shape

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        (x,) = types
        want(x.rank == len(self.shape), lambda: f"rebind wants equal ranks, not {x} and {len(self.shape)}")
        for have, wanted in zip(x.shape, self.shape, strict=True):
            if isinstance(have, int) and isinstance(wanted, int) and have != wanted:
                raise IrError(f"an axis of {x} can never be {wanted}")
        return (x.with_shape(self.shape),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        want(arrays[0].shape == concrete_dims(self.shape), lambda: f"the shape {arrays[0].shape} is not {self.shape}")
        return arrays


@dataclass(frozen=True, slots=True)
class Transpose(Op):
    """Axis `i` of the result is axis `perm[i]` of the operand."""

    perm: tuple[int, ...]

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        (x,) = types
        want(sorted(self.perm) == list(range(x.rank)), lambda: f"{list(self.perm)} does not permute the axes of {x}")
        return (x.with_shape(tuple(x.shape[p] for p in self.perm)),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        return (np.transpose(arrays[0], self.perm),)


@dataclass(frozen=True, slots=True)
class Concat(Op):
    """Join one or more tensors along `axis`; their other axes are equal."""

    axis: int

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        want(len(types) > 0, "concat wants at least one tensor")
        first = types[0]
        want_axis(self.axis, first.rank)
        size: Dim = 0
        for t in types:
            if (
                t.dtype != first.dtype
                or t.rank != first.rank
                or any(a != b for i, (a, b) in enumerate(zip(t.shape, first.shape, strict=True)) if i != self.axis)
            ):
                raise IrError(f"concat on axis {self.axis} cannot join {first} and {t}")
            size = size + t.shape[self.axis]
        return (first.with_shape((*first.shape[: self.axis], size, *first.shape[self.axis + 1 :])),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        return (np.concatenate(arrays, axis=self.axis),)


@dataclass(frozen=True, slots=True)
class Slice(Op):
    """On each axis the elements start, start + step, ... (`sizes` of them), all within bounds; steps are not 0."""

    starts: Shape
    sizes: Shape
    steps: tuple[int, ...]

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        (x,) = types
        want(
            x.rank == len(self.starts) == len(self.sizes) == len(self.steps),
            lambda: f"slice wants a start, a size and a step for each axis of {x}",
        )
        want(all(self.steps), "a slice step is 0")
        for have, start, size, step in zip(x.shape, self.starts, self.sizes, self.steps, strict=True):
            if isinstance(have, int) and isinstance(start, int) and isinstance(size, int) and size > 0:
                last = start + (size - 1) * step
                if not (0 <= start < have and 0 <= last < have):
                    raise IrError(f"a slice from {start} to {last} leaves {x}")
        return (x.with_shape(self.sizes),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        index = tuple(
            start + step * np.arange(size)
            for start, size, step in zip(concrete_dims(self.starts), concrete_dims(self.sizes), self.steps, strict=True)
        )
        return (arrays[0][np.ix_(*index)] if index else arrays[0],)


@dataclass(frozen=True, slots=True)
class DynamicSlice(Op):
    """A window of `sizes` at the start given by the 1-D i64 tensor `b`, which clamps so that the window fits.

    StableHLO `dynamic_slice`; `sizes` may be dims that only the run time knows.
    """

    sizes: Shape

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        x, starts = types
        want(x.rank == len(self.sizes), lambda: f"dynamic_slice wants a size for each axis of {x}")
        want(starts == TensorType(DType.I64, (x.rank,)), lambda: f"starts must be i64[{x.rank}], not {starts}")
        return (x.with_shape(self.sizes),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        concrete(*arrays)
        x, starts = arrays
        sizes = concrete_dims(self.sizes)
        first = [int(np.clip(s, 0, n - k)) for s, n, k in zip(starts, x.shape, sizes, strict=True)]
        return (x[tuple(slice(s, s + k) for s, k in zip(first, sizes, strict=True))],)


@dataclass(frozen=True, slots=True)
class StridedSlice(Op):
    """ONNX Slice with run-time bounds: `x`, `starts`, `ends`, `steps` (i64, one per axis), bounds as ONNX Slice-13.

    Negative bounds count from the end, out-of-range ones clamp; `sizes` names the result's dims.
    """

    sizes: Shape

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        x, *bounds = types
        want(x.rank == len(self.sizes), lambda: f"strided_slice wants a size for each axis of {x}")
        for bound in bounds:
            want(bound == TensorType(DType.I64, (x.rank,)), f"bounds must be i64[{x.rank}], not {bound}")
        return (x.with_shape(self.sizes),)


@dataclass(frozen=True, slots=True)
class Pad(Op):
    """Extend each axis by `low` elements before and `high` after (never negative).

    mode constant fills with the rank-0 second operand; reflect (without the edge), edge and wrap take one operand.
    `interior` (constant mode only) inserts that many fill elements between neighbours, as in StableHLO pad.
    """

    low: Shape
    high: Shape
    mode: str = "constant"
    interior: tuple[int, ...] = ()

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        x = types[0]
        want(self.mode in ("constant", "reflect", "edge", "wrap"), lambda: f"no pad mode {self.mode!r}")
        want(
            len(types) == (2 if self.mode == "constant" else 1),
            lambda: f"pad mode {self.mode} got {len(types)} operands",
        )
        want(x.rank == len(self.low) == len(self.high), lambda: f"pad wants low and high for each axis of {x}")
        want(all(not isinstance(p, int) or p >= 0 for p in (*self.low, *self.high)), "a pad is negative")
        if self.mode == "constant":
            want(types[1] == TensorType(x.dtype, ()), lambda: f"the fill must be {x.dtype}[], not {types[1]}")
        inner = self.interior or (0,) * x.rank
        shape: list[Dim] = []
        for size, low, high, gap in zip(x.shape, self.low, self.high, inner, strict=True):
            spread = (
                size
                if gap == 0
                else (max(0, size + (size - 1) * gap) if isinstance(size, int) else size + (size - 1) * gap)
            )
            shape.append(spread + low + high)
        return (x.with_shape(tuple(shape)),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        concrete(*arrays[:1])
        x = arrays[0]
        if self.interior and any(self.interior):
            spread = tuple(max(0, n + (n - 1) * g) for n, g in zip(x.shape, self.interior, strict=True))
            spaced = np.full(spread, arrays[1], x.dtype)
            spaced[tuple(slice(None, None, g + 1) for g in self.interior)] = x
            x = spaced
        widths = list(zip(concrete_dims(self.low), concrete_dims(self.high), strict=True))
        if self.mode == "constant":
            return (np.pad(x, widths, constant_values=arrays[1].item()) if x.ndim else x,)
        if self.mode == "edge":
            return (np.pad(x, widths, mode="edge"),)
        return (np.pad(x, widths, mode="reflect" if self.mode == "reflect" else "wrap"),)


@dataclass(frozen=True, slots=True)
class Dims(Op):
    """The i64 tensor of rank 1 that holds `values`, which are known once the input shapes are."""

    values: Shape

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        want(not types, "dims takes no operand")
        return (TensorType(DType.I64, (len(self.values),)),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        return (np.array(concrete_dims(self.values), np.int64),)


@dataclass(frozen=True, slots=True)
class Iota(Op):
    """0, 1, 2, ... along `axis` of a tensor of `shape`, repeated along the other axes."""

    shape: Shape
    axis: int
    dtype: DType

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        want_axis(self.axis, len(self.shape))
        want(self.dtype is not DType.BOOL, "iota wants a number type")
        return (TensorType(self.dtype, self.shape),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        shape = concrete_dims(self.shape)
        line = np.arange(shape[self.axis]).astype(self.dtype.numpy)
        line = line.reshape([-1 if i == self.axis else 1 for i in range(len(shape))])
        return (np.broadcast_to(line, shape),)


@dataclass(frozen=True, slots=True)
class DynamicRange(Op):
    """start, start + delta, ... before limit, from three rank-0 tensors of one type; `size` names the result's dim."""

    size: Dim

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        start, limit, delta = types
        want(start == limit == delta and start.rank == 0, "range wants three scalars of one type")
        return (TensorType(start.dtype, (self.size,)),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        if any(is_symbolic(a) for a in arrays):
            raise NotFoldable("a range of symbolic size")
        start, limit, delta = (a.item() for a in arrays)
        return (np.arange(start, limit, delta).astype(arrays[0].dtype),)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The numpy broadcast of shapes whose axes are 1 or provably equal; `IrError` where they are not."""
    rank = max((len(s) for s in shapes), default=0)
    result: list[Dim] = []
    for axis in range(rank):
        sizes = [s[axis - rank + len(s)] for s in shapes if axis - rank + len(s) >= 0]
        wide = [s for s in dict.fromkeys(sizes) if s != 1]
        if len(wide) > 1:
            raise IrError(f"the sizes {' and '.join(map(str, wide))} of one axis do not broadcast")
        result.append(wide[0] if wide else 1)
    return tuple(result)
