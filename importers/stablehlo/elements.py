"""Regions that no whole tensors can stand in for, because they branch, loop or make tensors: applied in a loop over the elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fornaxc.importers.stablehlo.types import Complex, Operand, TensorInfo, parts, rebuild, tensor_info
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import product
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Gather, ScatterNd, While
from fornaxc.ir.types import DType, TensorType

if TYPE_CHECKING:
    from fornaxc.importers.stablehlo.regions import Region


def one_by_one(b: GraphBuilder, region: Region, operands: Sequence[Operand]) -> list[Operand]:
    """The region's results for each place of tensors that broadcast, in tensors of their common shape."""
    aligned = c.broadcast(b, *(v for o in operands for v in parts(o)))
    shape = aligned[0].type.shape
    if not shape:
        return region.within(b, _regrouped(operands, aligned))
    count = product(shape)
    flat = [c.reshape(b, v, (count,)) for v in aligned]
    kinds = [tensor_info(v.type) for v in list(region.block.operations)[-1].operation.operands]
    made = [c.full(b, 0, TensorType(k.dtype, (count,))) for k in kinds for _ in range(2 if k.complex else 1)]
    condition, body = GraphBuilder(b), GraphBuilder(b)
    start = c.scalar(b, 0, DType.I64)
    seen, place = condition.input(start.type), body.input(start.type)
    for v in made:
        condition.input(v.type)
    go_on = c.compare(condition, "lt", seen, c.reshape(condition, condition.dims((count,)), ()))
    carried = [body.input(v.type) for v in made]
    scalars = [body.emit(Gather(0), v, place) for v in flat]
    found = [v for o in region.within(body, _regrouped(operands, scalars)) for v in parts(o)]
    at = c.reshape(body, place, (1, 1))
    written = [
        body.emit(ScatterNd(), old, at, c.reshape(body, new, (1,))) for old, new in zip(carried, found, strict=True)
    ]
    regions = (condition.finish([go_on]), body.finish([c.with_scalar(body, "add", place, 1), *written]))
    results = b.emit_all(While(), start, *made, regions=regions)[1:]
    return _by_kind(kinds, [c.reshape(b, v, shape) for v in results])


def _regrouped(like: Sequence[Operand], values: Sequence[Value]) -> list[Operand]:
    rest = iter(values)
    return [rebuild(o, [next(rest) for _ in parts(o)]) for o in like]


def _by_kind(kinds: Sequence[TensorInfo], values: Sequence[Value]) -> list[Operand]:
    rest = iter(values)
    return [Complex(next(rest), next(rest)) if kind.complex else next(rest) for kind in kinds]
