"""The axes of a reduction, known at compile time or at run time only; reduced axes stay with size 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fornaxc.importers.onnx.steering import reduce_where
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, product
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import DynamicBroadcast
from fornaxc.ir.types import DType


class Axes(Protocol):
    """What a reduction needs to know of its axes."""

    def reduce(self, fn: str, x: Value) -> Value:
        """`ops.Reduce` of `x`."""

    def count(self, x: Value) -> Value:
        """How many elements of `x` each result is made of: i64[]."""

    def spread(self, x: Value, like: Value) -> Value:
        """A reduced tensor in a form that broadcasts with the tensor `like` that was reduced."""


class KnownAxes:
    """`Axes` that the program tells."""

    def __init__(self, b: GraphBuilder, axes: tuple[int, ...]) -> None:
        self.b = b
        self.axes = axes

    def reduce(self, fn: str, x: Value) -> Value:
        return c.reduce(self.b, fn, x, self.axes)

    def count(self, x: Value) -> Value:
        return c.reshape(self.b, self.b.dims((product([x.type.shape[a] for a in self.axes]),)), ())

    def spread(self, x: Value, like: Value) -> Value:
        return x


class MaskedAxes:
    """`Axes` in a mask (bool[rank]), for operands of one shape."""

    def __init__(self, b: GraphBuilder, mask: Value, shape: Sequence[Dim]) -> None:
        self.b = b
        self.mask = mask
        self.result = tuple(1 if d == 1 else b.fresh_dim() for d in shape)

    def reduce(self, fn: str, x: Value) -> Value:
        return reduce_where(self.b, fn, x, self.mask, self.result)

    def count(self, x: Value) -> Value:
        sizes = c.select(self.b, self.mask, self.b.dims(x.type.shape), c.scalar(self.b, 1, DType.I64))
        return c.reshape(self.b, c.reduce(self.b, "prod", sizes, (0,)), ())

    def spread(self, x: Value, like: Value) -> Value:
        return self.b.emit(DynamicBroadcast(like.type.shape), x, self.b.dims(like.type.shape))
