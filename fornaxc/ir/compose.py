"""Small compositions of IR operations that importers and passes share: broadcasting, arithmetic, slicing, reshaping."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, product, symbols
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import (
    Binary,
    BroadcastTo,
    Cast,
    Compare,
    Concat,
    IrError,
    Rebind,
    Reduce,
    Reshape,
    Select,
    Slice,
    Transpose,
    Unary,
)
from fornaxc.ir.types import DType, TensorType


def scalar(b: GraphBuilder, value: complex | bool, dtype: DType) -> Value:
    """A rank-0 literal."""
    return b.literal(np.array(value).astype(dtype.numpy))


def full(b: GraphBuilder, value: complex | bool, type: TensorType) -> Value:
    """A tensor of `type` that holds `value` everywhere."""
    return expand(b, scalar(b, value, type.dtype), type.shape)


def full_like(b: GraphBuilder, value: complex | bool, like: Value) -> Value:
    return full(b, value, like.type)


def cast(b: GraphBuilder, x: Value, dtype: DType) -> Value:
    return x if x.type.dtype is dtype else b.emit(Cast(dtype), x)


def reshape(b: GraphBuilder, x: Value, shape: Sequence[Dim]) -> Value:
    """`x` under another shape. Dims that only may be equal are asserted to be so at run time."""
    wanted = tuple(shape)
    if x.type.shape == wanted:
        return x
    if x.type.elements == product(wanted):
        return b.emit(Reshape(wanted), x)
    if x.type.rank == len(wanted):
        return rebind(b, x, wanted)
    return dynamic_reshape(b, x, wanted)


def dynamic_reshape(b: GraphBuilder, x: Value, shape: Sequence[Dim]) -> Value:
    """Reshape where only the run time can tell that the element counts agree."""
    from fornaxc.ir.ops import DynamicReshape

    if x.type.is_static and all(isinstance(d, int) for d in shape):
        raise IrError(f"{x.type} does not have the {product(shape)} elements of [{', '.join(map(str, shape))}]")
    require_equal(b, x.type.elements, product(shape), "a reshape keeps the element count")
    return b.emit(DynamicReshape(tuple(shape)), x, b.dims(shape))


def require_equal(b: GraphBuilder, left: Dim, right: Dim, why: str) -> None:
    """Record left == right, where that is a condition on the input sizes alone."""
    if symbols(left) | symbols(right) <= b.input_symbols():
        b.require(left, "==", right, why)


def rebind(b: GraphBuilder, x: Value, shape: Sequence[Dim]) -> Value:
    """`x` with dims asserted equal to `shape`; `IrError` where they never are."""
    wanted = tuple(shape)
    if x.type.shape == wanted:
        return x
    for have, want in zip(x.type.shape, wanted, strict=True):
        if have != want:
            require_equal(b, have, want, "the sizes must agree")
    return b.emit(Rebind(wanted), x)


def transpose(b: GraphBuilder, x: Value, perm: Sequence[int]) -> Value:
    if list(perm) == list(range(x.type.rank)):
        return x
    return b.emit(Transpose(tuple(perm)), x)


def move_axis(b: GraphBuilder, x: Value, source: int, target: int) -> Value:
    """`x` with axis `source` moved to position `target`."""
    order = [i for i in range(x.type.rank) if i != source]
    order.insert(target, source)
    return transpose(b, x, order)


def unsqueeze(b: GraphBuilder, x: Value, axes: Sequence[int]) -> Value:
    """`x` with axes of size 1 at these positions of the result."""
    rest = iter(x.type.shape)
    rank = x.type.rank + len(axes)
    return reshape(b, x, [1 if i in axes else next(rest) for i in range(rank)])


def squeeze(b: GraphBuilder, x: Value, axes: Sequence[int]) -> Value:
    """`x` without these axes, which must be of size 1 (asserted at run time where symbolic)."""
    assumed = tuple(1 if i in axes else d for i, d in enumerate(x.type.shape))
    x = rebind(b, x, assumed)
    return reshape(b, x, [d for i, d in enumerate(x.type.shape) if i not in axes])


def broadcast_dims(*sizes: Dim) -> Dim:
    """The size that these broadcast to. A symbolic size beside a static one above 1 is taken to equal it."""
    wide = [s for s in dict.fromkeys(sizes) if s != 1]
    if not wide:
        return 1
    static = [s for s in wide if isinstance(s, int)]
    if len(static) > 1:
        raise IrError(f"the sizes {' and '.join(map(str, static))} of one axis do not broadcast")
    return static[0] if static else wide[0]


def broadcast_shape(*shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """numpy's broadcast of these shapes; axes are aligned from the last."""
    rank = max((len(s) for s in shapes), default=0)
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    return tuple(broadcast_dims(*axis) for axis in zip(*padded, strict=True))


def expand(b: GraphBuilder, x: Value, shape: Sequence[Dim]) -> Value:
    """`x` broadcast to exactly `shape` (numpy's rule); sizes that only may agree are asserted at run time."""
    wanted = tuple(shape)
    if x.type.shape == wanted:
        return x
    if x.type.rank > len(wanted):
        raise IrError(f"{x.type} has more axes than [{', '.join(map(str, wanted))}]")
    x = reshape(b, x, (1,) * (len(wanted) - x.type.rank) + x.type.shape)
    x = rebind(b, x, [have if have == 1 else want for have, want in zip(x.type.shape, wanted, strict=True)])
    return x if x.type.shape == wanted else b.emit(BroadcastTo(wanted), x)


def broadcast(b: GraphBuilder, *values: Value) -> tuple[Value, ...]:
    """All values expanded to their common shape."""
    shape = broadcast_shape(*(v.type.shape for v in values))
    return tuple(expand(b, v, shape) for v in values)


def binary(b: GraphBuilder, fn: str, left: Value, right: Value) -> Value:
    """`fn` of two values of one element type, broadcast as numpy does."""
    return b.emit(Binary(fn), *broadcast(b, left, right))


def compare(b: GraphBuilder, fn: str, left: Value, right: Value) -> Value:
    return b.emit(Compare(fn), *broadcast(b, left, right))


def select(b: GraphBuilder, condition: Value, yes: Value, no: Value) -> Value:
    return b.emit(Select(), *broadcast(b, condition, yes, no))


def unary(b: GraphBuilder, fn: str, x: Value) -> Value:
    return b.emit(Unary(fn), x)


def with_scalar(b: GraphBuilder, fn: str, x: Value, value: float) -> Value:
    """`fn(x, value)`, the number in x's element type."""
    return binary(b, fn, x, scalar(b, value, x.type.dtype))


def reduce(b: GraphBuilder, fn: str, x: Value, axes: Sequence[int]) -> Value:
    """A reduction whose axes stay with size 1; the operand itself where there are no axes."""
    return b.emit(Reduce(fn, tuple(sorted(axes))), x) if axes else x


def concat(b: GraphBuilder, values: Sequence[Value], axis: int) -> Value:
    return values[0] if len(values) == 1 else b.emit(Concat(axis), *values)


def slice_axis(b: GraphBuilder, x: Value, axis: int, start: Dim, size: Dim, step: int = 1) -> Value:
    """`size` elements of one axis from `start` on; the other axes whole."""
    if start == 0 and step == 1 and x.type.shape[axis] == size:
        return x
    rank = x.type.rank
    return b.emit(
        Slice(
            tuple(start if i == axis else 0 for i in range(rank)),
            tuple(size if i == axis else d for i, d in enumerate(x.type.shape)),
            tuple(step if i == axis else 1 for i in range(rank)),
        ),
        x,
    )
