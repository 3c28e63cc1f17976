"""Regions that compute on scalars: recognised as a known function, applied to whole tensors, or to their elements one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fornaxc.importers.stablehlo.names import symbol_of
from fornaxc.importers.stablehlo.registry import is_elementwise
from fornaxc.importers.stablehlo.types import Operand, UnknownType, parts, rebuild, tensor_info
from fornaxc.ir.ops import Cast
from fornaxc.ir.types import DType

if TYPE_CHECKING:
    from fornaxc.importers.stablehlo.block import BlockImporter
    from fornaxc.ir.builder import GraphBuilder

FUNCTIONS = {
    "stablehlo.add": "add",
    "stablehlo.multiply": "mul",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
    "stablehlo.and": "and",
    "stablehlo.or": "or",
    "stablehlo.xor": "xor",
}


class Region:
    """A region of one block, of an operation that `outer` imports."""

    def __init__(self, outer: BlockImporter, region: Any) -> None:
        self.outer = outer
        self.block = region.blocks[0]

    @property
    def function(self) -> str | None:
        """`add`, `mul`, `max`, `min`, `and`, `or` or `xor` where the region is that function of its two arguments;
        `second` or `first` where it returns that argument; else None."""
        operations = [op.operation for op in self.block.operations]
        arguments = list(self.block.arguments)
        if len(arguments) != 2 or len(operations[-1].operands) != 1:
            return None
        returned = operations[-1].operands[0]
        if returned == arguments[1]:
            return "second"
        if returned == arguments[0]:
            return "first"
        if len(operations) != 2 or len(operations[0].results) != 1 or returned != operations[0].results[0]:
            return None
        operands = list(operations[0].operands)
        if operands not in (arguments, arguments[::-1]):
            return None
        return FUNCTIONS.get(operations[0].name)

    def apply(self, operands: Sequence[Operand]) -> list[Operand]:
        """The region's results where whole tensors, which broadcast, stand for its scalar arguments."""
        return self.lifted_within(self.outer.b, operands)

    def promoted(self, operands: Sequence[Operand], first: int = 0) -> list[Operand]:
        """Operands as the element types of the region's arguments from `first` on, which may be wider ones."""
        arguments = list(self.block.arguments)[first : first + len(operands)]
        return [_as(self.outer.b, o, tensor_info(a.type).dtype) for o, a in zip(operands, arguments, strict=True)]

    def inline(self, operands: Sequence[Operand]) -> list[Operand]:
        """The region's results for these arguments."""
        from fornaxc.importers.stablehlo.block import BlockImporter

        body = BlockImporter(self.outer.program, self.outer.b, self.outer, lifted=self.outer.lifted)
        return body.run(self.block, operands)

    def within(self, builder: GraphBuilder, operands: Sequence[Operand]) -> list[Operand]:
        """As `inline`, into the builder of a body of control flow."""
        from fornaxc.importers.stablehlo.block import BlockImporter

        body = BlockImporter(self.outer.program, builder, self.outer, lifted=self.outer.lifted)
        builder.origin = self.outer.b.origin
        return body.run(self.block, operands)

    def lifted_within(self, builder: GraphBuilder, operands: Sequence[Operand]) -> list[Operand]:
        """As `apply`, into the builder of a body of control flow."""
        from fornaxc.importers.stablehlo.block import BlockImporter
        from fornaxc.importers.stablehlo.elements import one_by_one

        if not self.lifts:
            return one_by_one(builder, self, operands)
        body = BlockImporter(self.outer.program, builder, self.outer, lifted=True)
        builder.origin = self.outer.b.origin
        return body.run(self.block, operands)

    @property
    def lifts(self) -> bool:
        """Whether whole tensors may stand for the region's scalars."""
        return self._lifts(self.block, set())

    def _lifts(self, block: Any, above: set[str]) -> bool:
        """Whether whole tensors may stand for the scalars of a block: all it does is elementwise. `above` are functions around it."""
        for op in (entry.operation for entry in block.operations):
            if op.name in ("func.return", "stablehlo.return"):
                continue
            if not is_elementwise(op.name) or not all(_is_scalar(v) for v in (*op.operands, *op.results)):
                return False
            called = _called(op)
            if called and (called in above or not self._function_lifts(called, above)):
                return False
        return True

    def _function_lifts(self, name: str, above: set[str]) -> bool:
        function = self.outer.program.functions.get(name)
        blocks = () if function is None else function.regions[0].blocks
        return all(self._lifts(block, above | {name}) for block in blocks)


def _as(b: GraphBuilder, operand: Operand, dtype: DType) -> Operand:
    """An operand with parts of this element type."""
    return rebuild(
        operand, [v if v.type.dtype is dtype else b.emit(Cast(dtype, saturate=False), v) for v in parts(operand)]
    )


def _called(op: Any) -> str:
    """The function that an operation stands for; empty where it is none."""
    name = {"func.call": "callee", "stablehlo.composite": "decomposition"}.get(op.name)
    return symbol_of(op.attributes[name]) if name is not None else ""


def _is_scalar(value: Any) -> bool:
    try:
        return tensor_info(value.type).rank == 0
    except UnknownType:
        return False
