"""What a handler sees of the operation that it imports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fornaxc.importers.stablehlo.names import entries, symbol_of, text_of
from fornaxc.importers.stablehlo.sizes import SizeFacts, bind_sizes
from fornaxc.importers.stablehlo.types import Complex, Operand, TensorInfo, Token, UnknownType, tensor_info
from fornaxc.ir import compose as c
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Array, Value
from fornaxc.ir.types import DType

if TYPE_CHECKING:
    from fornaxc.importers.stablehlo.block import BlockImporter
    from fornaxc.importers.stablehlo.regions import Region


class Refused(Exception):
    """An operation that fornaxc does not support; the text is the reason, `hint` what to do, where that is known."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


class Invalid(Exception):
    """An operation that breaks the specification; the text says how."""


Int = int


class OpContext:
    """One operation: its operands as IR values, its attributes, and the builder to emit into."""

    def __init__(self, importer: BlockImporter, op: Any, operands: Sequence[Operand]) -> None:
        self.importer = importer
        self.b = importer.b
        self.op = op
        self.name: str = op.name
        self.operands = list(operands)

    # --- operands and results

    def operand(self, index: Int) -> Operand:
        """An operand of any kind. `Invalid` where a custom call has too few."""
        if index >= len(self.operands):
            raise Invalid(f"it has {len(self.operands)} operands; number {index} is missing")
        return self.operands[index]

    def value(self, index: Int) -> Value:
        """An operand that is a tensor of real numbers, integers or bools."""
        operand = self.operand(index)
        if not isinstance(operand, Value):
            raise Refused(f"operand {index} is {_kind(operand)}, which {self.name} does not take here")
        return operand

    @property
    def values(self) -> list[Value]:
        """All operands, which must be real tensors."""
        return [self.value(i) for i in range(len(self.operands))]

    @property
    def has_complex(self) -> bool:
        return any(isinstance(operand, Complex) for operand in self.operands)

    def part_wise(self, function: Callable[..., Value], *operands: Operand) -> Operand:
        """`function` of real tensors, applied to the real and to the imaginary parts where operands are complex."""
        if not any(isinstance(operand, Complex) for operand in operands):
            return function(*operands)
        pairs = [operand if isinstance(operand, Complex) else None for operand in operands]
        if any(pair is None for pair in pairs):
            raise Refused("complex and real operands together")
        return Complex(function(*(p.re for p in pairs if p)), function(*(p.im for p in pairs if p)))

    def operand_info(self, index: Int) -> TensorInfo:
        return _info(self.op.operands[index].type)

    def result_info(self, index: Int = 0) -> TensorInfo:
        if index >= len(self.op.results):
            raise Invalid(f"it has {len(self.op.results)} results; number {index} is missing")
        return _info(self.op.results[index].type)

    @property
    def result_count(self) -> Int:
        return len(self.op.results)

    @property
    def lifted(self) -> bool:
        """Whether whole tensors stand for the scalars of a region."""
        return self.importer.lifted

    # --- attributes

    def attribute(self, name: str) -> Any:
        """The MLIR attribute, None where it is absent."""
        attributes = self.op.attributes
        return attributes.get(name, None)

    def ints(self, name: str, default: Sequence[Int] | None = None) -> tuple[Int, ...]:
        """An array or dense attribute of integers, flat."""
        found = self.attribute(name)
        if found is None:
            if default is None:
                raise Invalid(f"the attribute {name} is missing")
            return tuple(default)
        return tuple(int(v) for v in _array(found).reshape(-1))

    def pairs(self, name: str, count: Int) -> tuple[tuple[Int, Int], ...]:
        """A dense attribute of `count` pairs; zeros where it is absent."""
        flat = self.ints(name, (0,) * (2 * count))
        return tuple((flat[2 * i], flat[2 * i + 1]) for i in range(count))

    def int(self, name: str, default: Int | None = None) -> Int:
        from jaxlib.mlir import ir

        found = self.attribute(name)
        if found is None:
            if default is None:
                raise Invalid(f"the attribute {name} is missing")
            return default
        return int(ir.IntegerAttr(found).value)

    def flag(self, name: str, default: bool = False) -> bool:
        from jaxlib.mlir import ir

        found = self.attribute(name)
        return default if found is None else bool(ir.BoolAttr(found).value)

    def flags(self, name: str, count: Int) -> tuple[bool, ...]:
        """An array of bools; all false where it is absent."""
        found = self.attribute(name)
        return (False,) * count if found is None else tuple(bool(v) for v in _array(found).reshape(-1))

    def string(self, name: str, default: str = "") -> str:
        found = self.attribute(name)
        return default if found is None else text_of(found)

    def word(self, name: str, default: str = "") -> str:
        """The keyword of an enumeration attribute: `#stablehlo<comparison_direction LT>` is LT."""
        found = self.attribute(name)
        return default if found is None else str(found).rstrip(">").split()[-1].split("<")[-1]

    def config(self) -> dict[str, Int]:
        """The integers and the truth values that the configuration of a custom call holds."""
        from jaxlib.mlir import ir

        found = self.attribute("mhlo.backend_config") or self.attribute("backend_config")
        named = entries(ir.DictAttr(found)) if isinstance(found, ir.DictAttr) else []
        return {name: int(value.value) for name, value in named if isinstance(value, ir.IntegerAttr | ir.BoolAttr)}

    def symbol(self, name: str) -> str:
        return symbol_of(self.attribute(name))

    # --- content and sizes

    @property
    def sizes(self) -> SizeFacts:
        return self.importer.program.sizes

    def known(self, value: Value) -> Array | None:
        """The content of a value, as an array of numbers or dims, where the program determines it."""
        return self.b.known(value)

    def known_ints(self, value: Value) -> tuple[Int, ...] | None:
        """The content of an integer tensor, flat, where the program determines it as numbers."""
        found = self.known(value)
        return None if found is None or found.dtype == object else tuple(int(v) for v in found.reshape(-1))

    def dims(self, value: Value, what: str) -> tuple[Dim, ...]:
        """The entries of an integer tensor as dims; those that data determines are bound to fresh sizes."""
        found = self.known(value)
        if found is not None:
            return tuple(found.reshape(-1).tolist())
        if not value.type.is_static or value.type.rank > 2:
            raise Refused(f"{what} is a tensor of type {value.type}")
        bind_sizes(self.b, value)
        return self.dims(value, what)

    def region(self, index: Int) -> Region:
        """A region of the operation, applied to IR values."""
        from fornaxc.importers.stablehlo.regions import Region

        return Region(self.importer, self.op.regions[index])

    def called_region(self) -> Region:
        """The body of the one function that a custom call names."""
        from jaxlib.mlir import ir

        from fornaxc.importers.stablehlo.regions import Region

        found = self.attribute("called_computations")
        called = [] if found is None else [symbol_of(name) for name in ir.ArrayAttr(found)]
        function = self.importer.program.functions.get(called[0]) if len(called) == 1 else None
        if function is None or not function.regions[0].blocks:
            raise Invalid("called_computations must name one function of the module")
        return Region(self.importer, function.regions[0])

    # --- small constructions

    def scalar(self, value: complex | bool, dtype: DType) -> Value:
        return c.scalar(self.b, value, dtype)

    def align(self, *values: Value) -> tuple[Value, ...]:
        """Operands of an elementwise operation under one shape.

        Their sizes are equal by the specification, so those that only may be are asserted; where a region is lifted to whole tensors, scalars broadcast.
        """
        if self.lifted or any(v.type.rank == 0 for v in values):
            return c.broadcast(self.b, *values)
        shape = tuple(_settle(sizes) for sizes in zip(*(v.type.shape for v in values), strict=True))
        return tuple(c.rebind(self.b, v, shape) for v in values)

    def refuse_unless(self, condition: bool, reason: str) -> None:
        if not condition:
            raise Refused(reason)


def _settle(sizes: Sequence[Dim]) -> Dim:
    """Of sizes that must be equal, the most definite."""
    return next((s for s in sizes if isinstance(s, int)), sizes[0])


def _info(type: Any) -> TensorInfo:
    try:
        return tensor_info(type)
    except UnknownType as error:
        raise Refused(f"{error} is not supported") from None


def _array(attribute: Any) -> Array:
    from jaxlib.mlir import ir

    if isinstance(attribute, ir.DenseIntElementsAttr):
        return np.array(attribute)
    return np.array([_plain(v) for v in attribute])


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float) else value.value


def _kind(operand: Operand) -> str:
    if isinstance(operand, Complex):
        return "complex"
    return "a token" if isinstance(operand, Token) else "a tuple"
