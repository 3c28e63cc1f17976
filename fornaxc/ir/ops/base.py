"""What every IR operation is: a frozen dataclass that is its own schema, hash, printed form and documentation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, ClassVar

import numpy as np

from fornaxc.ir.dims import Dim, DimExpr
from fornaxc.ir.types import TensorType

Array = np.ndarray[Any, np.dtype[Any]]


class IrError(Exception):
    """An operation applied to types that it does not accept; the text says what was wanted."""


class NotFoldable(Exception):
    """This operation cannot be evaluated on these values at compile time."""


@dataclass(frozen=True, slots=True)
class Op:
    """Base of all operations.

    Canonical by construction: axes are non-negative, shapes are explicit, nothing broadcasts and no dtype is
    promoted. `infer` maps input types to output types and raises `IrError`; `evaluate` computes the
    outputs with numpy and raises `NotFoldable` where an operation has no such definition. Integer
    inputs of `evaluate` may be object arrays of `Dim`, for arithmetic on shapes.
    """

    regions: ClassVar[int] = 0

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        raise NotImplementedError

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        raise NotFoldable(self.name)

    @property
    def name(self) -> str:
        """The printed name: the class name in snake case."""
        text = type(self).__name__
        return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(text))

    def attributes(self) -> dict[str, Any]:
        """The fields in order of declaration."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __str__(self) -> str:
        inner = ", ".join(f"{key}={format_attribute(value)}" for key, value in self.attributes().items())
        return f"{self.name}({inner})" if inner else self.name


def format_attribute(value: Any) -> str:
    """One attribute in printed form."""
    if isinstance(value, tuple):
        return "[" + ", ".join(format_attribute(v) for v in value) + "]"
    if isinstance(value, Enum):
        return str(value.value)
    return str(value)


def want(condition: bool, message: str | Callable[[], str]) -> None:
    """Raise `IrError(message)` unless `condition`. A function makes the message only then: types take long to spell."""
    if not condition:
        raise IrError(message if isinstance(message, str) else message())


def want_axis(axis: int, rank: int) -> None:
    want(0 <= axis < rank, lambda: f"axis {axis} is outside a tensor of rank {rank}")


def is_symbolic(array: Array) -> bool:
    """True for an object array that holds dims."""
    return array.dtype == object


def concrete(*arrays: Array) -> None:
    """Raise `NotFoldable` where an array holds a dim that is not an integer."""
    for array in arrays:
        if is_symbolic(array):
            raise NotFoldable("a symbolic dim")


def concrete_dims(dims: tuple[Dim, ...]) -> tuple[int, ...]:
    """Dims as ints; `NotFoldable` where one is symbolic."""
    if any(isinstance(d, DimExpr) for d in dims):
        raise NotFoldable("a symbolic dim")
    return tuple(int(d) for d in dims if not isinstance(d, DimExpr))
