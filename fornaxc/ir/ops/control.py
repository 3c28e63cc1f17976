"""Control flow. A region is a `Graph` whose body may use values defined outside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fornaxc.ir.ops.base import Op, want
from fornaxc.ir.types import DType, TensorType


@dataclass(frozen=True, slots=True)
class If(Op):
    """Run the first region where the rank-0 bool operand is true, else the second; both yield `types`."""

    types: tuple[TensorType, ...]
    regions: ClassVar[int] = 2

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        want(types == (TensorType(DType.BOOL, ()),), lambda: f"if wants one bool[] operand, not {types}")
        return self.types


@dataclass(frozen=True, slots=True)
class While(Op):
    """Carry the operands: while the first region yields true, replace them by what the second yields.

    Both regions take the carried values as inputs; types do not change across iterations.
    """

    regions: ClassVar[int] = 2

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        return types
