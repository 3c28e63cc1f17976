"""Control flow. A region's values stay inside it; the condition is read on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from max.dtype import DType as MaxDType
from max.graph import TensorValue, ops

from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.ops import If, While
from fornaxc.ir.types import DType
from fornaxc.lowering import raw
from fornaxc.lowering.context import LoweringContext
from fornaxc.lowering.registry import lower

T: TypeAlias = TensorValue


def _body(c: LoweringContext, region: Graph, inputs: Sequence[tuple[Value, T]]) -> list[T]:
    from fornaxc.lowering.lower import lower_body

    with c.scope():
        for value, tensor in inputs:
            c.bind(value, tensor)
        return lower_body(c, region)


@lower(If, host=(0,))
def _if(c: LoweringContext, op: If, condition: T) -> Sequence[T]:
    assert c.node is not None
    yes, no = c.node.regions
    if any(not c.is_near(v) for region in (yes, no) for v in region.captures()):
        return _once(c, op, condition)
    types = [c.type(t) for t in op.types]

    def branch(region: Graph) -> list[T]:
        return [c.conform(t, want) for t, want in zip(_body(c, region, []), op.types, strict=True)]

    return [v.tensor for v in ops.cond(condition, types, lambda: branch(yes), lambda: branch(no))]


def _once(c: LoweringContext, op: If, condition: T) -> Sequence[T]:
    """The branches as two loops, one of which runs once: a loop is handed what it uses, which no nested `cond` of MAX may reach out for."""
    assert c.node is not None
    yes, no = c.node.regions
    outer = [v for v in dict.fromkeys((*yes.captures(), *no.captures())) if not c.is_literal(v)]
    seen = [c.read(v, c.device) for v in outer]
    results: list[T] = []
    for type in op.types:
        zero = c.scalar(False if type.dtype is DType.BOOL else 0, c.dtype(type.dtype))
        results.append(ops.broadcast_to(zero, c.shape(type.shape)) if type.rank else zero)
    count = len(results)
    for region, wanted in ((yes, condition), (no, ops.logical_not(condition))):

        def advance(_: T, *values: T, region: Graph = region) -> list[T]:
            made = _body(c, region, list(zip(outer, values[count:], strict=True)))
            new = [c.conform(t, want) for t, want in zip(made, op.types, strict=True)]
            return [ops.constant(False, MaxDType.bool, c.host), *new, *values[count:]]

        found = ops.while_loop([wanted, *results, *seen], lambda again, *_: again, advance)
        results = [v.tensor for v in found[1 : count + 1]]
    return results


@lower(While)
def _while(c: LoweringContext, op: While, *carried: T) -> Sequence[T]:
    """The condition is computed ahead of each iteration and carried on the host, and so is all that the regions use of the outside.

    MAX's own predicate may neither reach out of an inner loop nor transfer anything.
    """
    assert c.node is not None
    condition, step = c.node.regions
    outer = [v for v in dict.fromkeys((*condition.captures(), *step.captures())) if not c.is_literal(v)]
    seen = [c.read(v, c.device) for v in outer]
    count = len(carried)

    def run(region: Graph, values: Sequence[T]) -> list[T]:
        return _body(c, region, list(zip((*region.inputs, *outer), values, strict=True)))

    def test(values: Sequence[T]) -> T:
        return raw.transfer_to(run(condition, values)[0], c.host)

    def advance(_: T, *values: T) -> list[T]:
        new = [c.conform(t, v.type) for t, v in zip(run(step, values), step.inputs, strict=True)]
        following = [*new, *values[count:]]
        return [test(following), *following]

    start = [*carried, *seen]
    found = ops.while_loop([test(start), *start], lambda again, *_: again, advance)
    return [v.tensor for v in found[1 : count + 1]]
