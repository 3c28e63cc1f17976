"""Control flow. A region's values stay inside it; the condition is read on the host."""

from __future__ import annotations

from collections.abc import Sequence

from max.graph import TensorValue, ops

from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.ops import If, While
from fornaxc.lowering.context import LoweringContext
from fornaxc.lowering.registry import lower

T = TensorValue


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
    types = [c.type(t) for t in op.types]

    def branch(region: Graph) -> list[T]:
        return [c.conform(t, want) for t, want in zip(_body(c, region, []), op.types, strict=True)]

    return ops.cond(condition, types, lambda: branch(yes), lambda: branch(no))


@lower(While)
def _while(c: LoweringContext, op: While, *carried: T) -> Sequence[T]:
    """All that the regions use of the outside is carried too: a nested condition may not reach out of its loop in MAX."""
    assert c.node is not None
    condition, step = c.node.regions
    outer = [v for v in dict.fromkeys((*condition.captures(), *step.captures())) if not c.is_literal(v)]
    seen = [c.read(v, c.device) for v in outer]
    count = len(carried)

    def bound(region: Graph, values: Sequence[T]) -> list[tuple[Value, T]]:
        return list(zip((*region.inputs, *outer), values, strict=True))

    def test(*values: T) -> T:
        (answer,) = _body(c, condition, bound(condition, values))
        return ops.transfer_to(answer, c.host)

    def advance(*values: T) -> list[T]:
        assert c.node is not None
        new = _body(c, step, bound(step, values))
        return [*(c.conform(t, v.type) for t, v in zip(new, step.inputs, strict=True)), *values[count:]]

    return [v.tensor for v in ops.while_loop([*carried, *seen], test, advance)[:count]]
