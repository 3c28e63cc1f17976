"""Decompositions that StableHLO's own passes know: one operation is put in a module, rewritten there, and imported in its place."""

from __future__ import annotations

from typing import Any

from fornaxc.importers.stablehlo.context import OpContext, Refused
from fornaxc.importers.stablehlo.reader import run_passes
from fornaxc.importers.stablehlo.types import Operand

PIPELINE = (
    "func.func(chlo-legalize-to-stablehlo)",
    "func.func(shape-legalize-to-stablehlo)",
    "func.func(stablehlo-complex-math-expander)",
)
QUANTIZED = ("func.func(stablehlo-legalize-quantized-op-to-qdq)",)


def decomposed(ctx: OpContext, pipeline: tuple[str, ...] = PIPELINE) -> list[Operand]:
    """The results of the operation by its decomposition; `Refused` where the passes leave it as it is."""
    from fornaxc.importers.stablehlo.block import BlockImporter, Broken, Program

    module = _rewritten(ctx.op, pipeline)
    block = module.body.operations[0].operation.regions[0].blocks[0]
    if any(_same(op.operation, ctx.op) for op in block.operations):
        raise Refused("no decomposition of the operation is known for these types")
    program = Program({}, ctx.b)
    program.sizes = ctx.sizes
    body = BlockImporter(program, ctx.b, lifted=ctx.lifted)
    try:
        return body.run(block, ctx.operands)
    except Broken:
        first = (program.refused + program.invalid)[0]
        raise Refused(f"its decomposition needs {first['op']}: {first['reason']}") from None


def _same(op: Any, original: Any) -> bool:
    """Whether an operation applies the original's function to operands of its types."""
    if op.name != original.name:
        return False
    return [str(v.type) for v in (*op.operands, *op.results)] == [
        str(v.type) for v in (*original.operands, *original.results)
    ]


def _rewritten(op: Any, pipeline: tuple[str, ...]) -> Any:
    """A module whose one function holds a copy of `op` alone, after the passes."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import func

    with op.context, ir.Location.unknown():
        module = ir.Module.create()
        types = [v.type for v in op.operands]
        results = [v.type for v in op.results]
        with ir.InsertionPoint(module.body):
            function: Any = func.FuncOp("main", ir.FunctionType.get(types, results))
            block = function.add_entry_block()
        with ir.InsertionPoint(block):
            copy = op.clone()
            for i, argument in enumerate(block.arguments):
                copy.operands[i] = argument
            func.ReturnOp(list(copy.operation.results))
        try:
            run_passes(module, *pipeline)
        except ir.MLIRError as error:
            raise Refused(f"MLIR cannot decompose it: {str(error).splitlines()[-1]}") from None
        return module
