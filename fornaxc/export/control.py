"""Control flow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fornaxc.export.context import ExportContext, Tensor, passing
from fornaxc.export.registry import export
from fornaxc.ir.ops import If, While


@export(If)
def _if(c: ExportContext, op: If, condition: Tensor) -> Sequence[Tensor]:
    assert c.node is not None
    yes, no = (c.subgraph("branch", [], partial(c.region, region, [])) for region in c.node.regions)
    found = c.raw("If", [condition], [passing(t.dtype) for t in op.types], then_branch=yes, else_branch=no)
    return [c.cast(x, t.dtype) for x, t in zip(found, op.types, strict=True)]


@export(While)
def _while(c: ExportContext, op: While, *carried: Tensor) -> Sequence[Tensor]:
    """The condition is computed before the loop, and at the end of each round."""
    assert c.node is not None
    test, step = c.node.regions

    def body(index: Tensor, *held: Tensor) -> tuple[Tensor, Sequence[Tensor], Sequence[Tensor]]:
        following = c.region(step, held)
        return c.region(test, following)[0], following, []

    with c.scope():
        (first,) = c.region(test, carried)
    return c.loop(None, first, carried, body)[0]
