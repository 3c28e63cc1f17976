"""Reductions that find the place of an extreme: recognised, because exporters spell them out as a reduction of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fornaxc.importers.stablehlo.context import OpContext
from fornaxc.importers.stablehlo.types import Operand
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Array, Value
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import ArgReduce
from fornaxc.ir.types import DType, TensorType

# operations that see the order of their arguments and nothing else
_ORDER_ONLY = {
    "stablehlo.compare",
    "stablehlo.select",
    "stablehlo.and",
    "stablehlo.or",
    "stablehlo.not",
    "stablehlo.return",
}


def arg_reduction(
    ctx: OpContext, operands: Sequence[Operand], inits: Sequence[Operand], axes: Sequence[int]
) -> list[Operand] | None:
    """The extreme along an axis and its first place; None where the reduction is another one.

    What a region of comparisons and selections does is known once it has seen every order of two values and two places.
    """
    if len(operands) != 2 or len(axes) != 1 or not all(isinstance(o, Value) for o in (*operands, *inits)):
        return None
    x, places, start, first = (o for o in (*operands, *inits) if isinstance(o, Value))
    axis = axes[0]
    if x.type.shape[axis] == 0 or x.type.dtype is DType.BOOL or x.type.dtype.bits < 8:
        return None
    if not _counts_along(ctx.op.operands[1], axis) or ctx.known_ints(first) != (0,):
        return None
    block = ctx.op.regions[0].blocks[0]
    if not all(op.operation.name in _ORDER_ONLY for op in block.operations):
        return None
    for fn in ("max", "min"):
        if _starts_at(ctx, start, fn) and _is_extreme(block, fn, x.type.dtype, places.type.dtype):
            b = ctx.b
            place = c.cast(b, b.emit(ArgReduce(fn, axis), x), places.type.dtype)
            return [c.squeeze(b, c.reduce(b, fn, x, axes), axes), c.squeeze(b, place, axes)]
    return None


def _counts_along(value: Any, axis: int) -> bool:
    """Whether an MLIR value is 0, 1, 2, ... along an axis."""
    owner = getattr(value.owner, "operation", value.owner)
    if getattr(owner, "name", "") not in ("stablehlo.iota", "stablehlo.dynamic_iota"):
        return False
    return int(owner.attributes["iota_dimension"].value) == axis


def _starts_at(ctx: OpContext, start: Value, fn: str) -> bool:
    from fornaxc.importers.stablehlo.ops.reduction import is_identity

    return is_identity(ctx, fn, start)


def _is_extreme(block: Any, fn: str, dtype: DType, index: DType) -> bool:
    """Whether the region keeps the extreme of two values, NaN before all, and of equal ones the first, which comes from the left."""
    numbers = [-np.inf, -1.0, 0.0, 2.0, np.inf, np.nan] if dtype.is_float else [0, 1, 5]
    pairs = [(x, i, y, j) for x in numbers for y in numbers for i, j in ((0, 1), (3, 7))]
    columns = [np.array(column) for column in zip(*pairs, strict=True)]
    arrays = [column.astype((index if n % 2 else dtype).numpy) for n, column in enumerate(columns)]
    x, i, y, j = columns
    with np.errstate(invalid="ignore"):
        found = _evaluate(block, arrays)
        left = np.isnan(x) | (~np.isnan(y) & ((x >= y) if fn == "max" else (x <= y)))
    wanted = np.where(left, x, y), np.where(left, i, j)
    return len(found) == 2 and all(
        np.array_equal(a.astype(np.float64), np.asarray(w, np.float64), equal_nan=True)
        for a, w in zip(found, wanted, strict=True)
    )


def _evaluate(block: Any, arrays: list[Array]) -> list[Array]:
    """The region's results for arrays in place of its scalars; none where it uses values from outside."""
    from fornaxc.importers.stablehlo.block import BlockImporter, Broken, Program
    from fornaxc.ir.types import dtype_of

    builder = GraphBuilder()
    inputs = [builder.input(TensorType(dtype_of(a.dtype), a.shape), f"x{n}") for n, a in enumerate(arrays)]
    x, i, y, j = inputs
    try:
        results = BlockImporter(Program({}, builder), builder, lifted=True).run(block, [x, i, y, j])
    except Broken:
        return []
    if not all(isinstance(r, Value) for r in results):
        return []
    return run(builder.finish([r for r in results if isinstance(r, Value)]), arrays)
