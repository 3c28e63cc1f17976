"""Loops that carry several matrices, real or complex."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fornaxc.importers.stablehlo.ops.matrices import real
from fornaxc.importers.stablehlo.ops.solve import Matrix
from fornaxc.importers.stablehlo.types import Complex, Operand, parts, rebuild
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import While
from fornaxc.ir.types import DType

State = Sequence[Matrix]


def iterate(
    b: GraphBuilder,
    start: State,
    goes_on: Callable[[GraphBuilder, State], Value],
    step: Callable[[GraphBuilder, State], State],
) -> State:
    """`start` after `step`, again and again while `goes_on`, a rank-0 bool, holds."""
    condition, body = GraphBuilder(b), GraphBuilder(b)
    seen, carried = (_like_all(start, [region.input(v.type) for v in _flat(start)]) for region in (condition, body))
    regions = (condition.finish([goes_on(condition, seen)]), body.finish(_flat(step(body, carried))))
    return _like_all(start, b.emit_all(While(), *_flat(start), regions=regions))


def repeat(b: GraphBuilder, count: int, start: State, step: Callable[[GraphBuilder, Value, State], State]) -> State:
    """`start` after `step` for i = 0, 1, ... count - 1, a rank-0 i64."""

    def goes_on(condition: GraphBuilder, state: State) -> Value:
        return c.compare(condition, "lt", real(state[0]), c.scalar(condition, count, DType.I64))

    def counted(body: GraphBuilder, state: State) -> State:
        i = real(state[0])
        return [c.with_scalar(body, "add", i, 1), *step(body, i, state[1:])]

    return iterate(b, [c.scalar(b, 0, DType.I64), *start], goes_on, counted)[1:]


def _flat(state: State) -> list[Value]:
    return parts(tuple(state))


def _like_all(state: State, values: Sequence[Value]) -> State:
    found: Operand = rebuild(tuple(state), values)
    assert isinstance(found, tuple)
    return [x for x in found if isinstance(x, Value | Complex)]
