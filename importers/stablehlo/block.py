"""Imports the operations of one block (a function's body or a region) into a builder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fornaxc.importers.stablehlo.context import Invalid, OpContext, Refused
from fornaxc.importers.stablehlo.names import NotText
from fornaxc.importers.stablehlo.quantized import quantized_handler
from fornaxc.importers.stablehlo.registry import handler_for, is_elementwise
from fornaxc.importers.stablehlo.sizes import SizeFacts
from fornaxc.importers.stablehlo.types import Complex, Operand, UnknownType, parts, rebuild, tensor_info
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Origin, Value
from fornaxc.ir.ops import IrError

CALL_DEPTH = 64


class Broken(Exception):
    """A value that depends on a refused operation."""


class Program:
    """What all blocks of a module share: its functions, what is known of sizes, and what was refused or is invalid."""

    def __init__(self, functions: Mapping[str, Any], builder: GraphBuilder, label: str = "") -> None:
        self.functions = functions
        self.label = label  # what the file is called in places of the text
        self.refused: list[dict[str, Any]] = []
        self.invalid: list[dict[str, Any]] = []
        self.hints: list[str] = []  # what to do about the refused ones
        self.sizes = SizeFacts(builder)

    def refuse(self, op: Any, reason: str, hint: str = "") -> None:
        self._add(self.refused, op, reason)
        if hint and hint not in self.hints:
            self.hints.append(hint)

    def _add(self, findings: list[dict[str, Any]], op: Any, reason: str) -> None:
        entry = {"op": op.name, "location": self.place(op), "reason": reason}
        if entry not in findings:
            findings.append(entry)

    def place(self, op: Any) -> str:
        """Where an operation comes from: a name, or file:line:column."""
        text = location_text(op.location)
        return f"{self.label}{text[1:]}" if text.startswith("-:") else text

    def reject(self, op: Any, reason: str) -> None:
        self._add(self.invalid, op, reason)


class BlockImporter:
    """Values of one block; `outer` is the block around it, whose values a region may use."""

    def __init__(
        self, program: Program, builder: GraphBuilder, outer: BlockImporter | None = None, *, lifted: bool = False
    ) -> None:
        self.program = program
        self.b = builder
        self.outer = outer
        self.lifted = lifted
        self.depth: int = outer.depth if outer is not None else 0
        self.env: dict[Any, Operand | None] = {}

    def lookup(self, value: Any) -> Operand:
        """What an MLIR value is here. `Broken` where it depends on a refused operation."""
        block: BlockImporter | None = self
        while block is not None:
            if value in block.env:
                found = block.env[value]
                if found is None:
                    raise Broken
                return found
            block = block.outer
        raise Broken

    def run(self, block: Any, arguments: Sequence[Operand]) -> list[Operand]:
        """Import a block with these arguments; what its terminator returns. `Broken` where that was refused."""
        for argument, operand in zip(block.arguments, arguments, strict=True):
            self.env[argument] = operand
        for op in block.operations:
            raw = op.operation
            if raw.name in ("func.return", "stablehlo.return"):
                return [self.lookup(v) for v in raw.operands]
            self._operation(raw)
        return []

    def _operation(self, op: Any) -> None:
        try:
            operands = [self.lookup(v) for v in op.operands]
            results = self.apply(op, operands)
        except Broken:
            results = [None] * len(op.results)
        except Refused as refusal:
            self.program.refuse(op, str(refusal), refusal.hint)
            results = [None] * len(op.results)
        except UnknownType as unknown:
            self.program.refuse(op, f"{unknown} is not supported")
            results = [None] * len(op.results)
        except (Invalid, IrError, NotText) as problem:
            self.program.reject(op, str(problem))
            results = [None] * len(op.results)
        for result, operand in zip(op.results, results, strict=True):
            self.env[result] = operand

    def apply(self, op: Any, operands: Sequence[Operand]) -> list[Operand | None]:
        """The results of one operation on operands that are given."""
        handler = handler_for(op.name)
        if handler is None:
            raise Refused("the operation is not supported")
        if self.lifted and not is_elementwise(op.name):
            raise Refused("the operation is not supported in the body of a reduction, a scatter or a sort")
        self.b.origin = Origin(location_text(op.location), op.name, 0)
        found = (quantized_handler(op) or handler)(OpContext(self, op, operands))
        results: list[Operand] = list(found) if isinstance(found, list) else [found]
        if len(results) != len(op.results):
            raise Invalid(f"it has {len(op.results)} results, and gives {len(results)}")
        if self.lifted:
            return list(results)
        return [self._fit(r, v.type) for r, v in zip(results, op.results, strict=True)]

    def _fit(self, operand: Operand, type: Any) -> Operand:
        """The result with the sizes that its declared type adds to what is known."""
        if not isinstance(operand, Value | Complex):
            return operand
        declared = tensor_info(type)
        for v in parts(operand):
            if v.type.dtype is not declared.dtype:
                raise Refused(f"a result of {v.type.dtype} that is declared as {type}")
        return rebuild(operand, [fit_shape(self.b, v, declared.shape) for v in parts(operand)])

    def call(self, name: str, arguments: Sequence[Operand]) -> list[Operand]:
        """The results of a function of the module, inlined."""
        function = self.program.functions.get(name)
        if function is None:
            raise Invalid(f"the module has no function {name!r}")
        if self.depth >= CALL_DEPTH:
            raise Refused(f"calls of {name!r} that are {CALL_DEPTH} deep")
        if not function.regions[0].blocks:
            raise Invalid(f"the function {name!r} has no body")
        body = BlockImporter(self.program, self.b, lifted=self.lifted)
        body.depth = self.depth + 1
        return body.run(function.regions[0].blocks[0], arguments)


def fit_shape(b: GraphBuilder, value: Value, declared: Sequence[int | None]) -> Value:
    """`value` with its symbolic sizes asserted to be those that are declared."""
    if len(declared) != value.type.rank:
        raise IrError(f"a result of rank {value.type.rank} is declared with rank {len(declared)}")
    wanted = [have if want is None else want for have, want in zip(value.type.shape, declared, strict=True)]
    return c.rebind(b, value, wanted)


def location_text(location: Any) -> str:
    """An MLIR location in short: a name, or file:line:column."""
    text = str(location)[4:-1] if str(location).startswith("loc(") else str(location)
    return "" if text == "unknown" else text.split("(callsite")[0].split('("')[0].strip('"').replace('":', ":")[:120]
