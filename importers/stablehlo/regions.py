"""Regions that compute on scalars: recognised as a known function, or applied to whole tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fornaxc.importers.stablehlo.types import Operand

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
        from fornaxc.importers.stablehlo.block import BlockImporter

        body = BlockImporter(self.outer.program, self.outer.b, self.outer, lifted=True)
        return body.run(self.block, operands)

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

        body = BlockImporter(self.outer.program, builder, self.outer, lifted=True)
        builder.origin = self.outer.b.origin
        return body.run(self.block, operands)
