"""If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fornaxc.importers.onnx.context import NodeContext, Refused
from fornaxc.importers.onnx.graph import BROKEN_BODY
from fornaxc.importers.onnx.loops import Loop, run_loop
from fornaxc.importers.onnx.registry import Item, onnx_op
from fornaxc.importers.onnx.steering import require_at_run_time
from fornaxc.importers.onnx.structure import RawGraph
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, symbols
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Gather, If
from fornaxc.ir.types import DType, TensorType

_MAX_BATCH = 8


@onnx_op("If", 1, 11, 13, 16, 19, 21, 23, 24, 25)
def if_(ctx: NodeContext) -> Sequence[Item]:
    """A branch that is chosen at compile time takes the node's place."""
    b = ctx.b
    condition = c.reshape(b, ctx.input(0), ())
    yes, no = ctx.graph("then_branch"), ctx.graph("else_branch")
    known = ctx.content(condition)
    if known is not None:
        return ctx.importer.inline(yes if bool(known.item()) else no, [])
    names = ("then_branch", "else_branch")
    builders = GraphBuilder(b), GraphBuilder(b)
    marks = ctx.importer.findings.marks()
    branches = [_Branch(ctx, raw, inner) for raw, inner in zip((yes, no), builders, strict=True)]
    impossible = [branch for branch in branches if branch.results is None]
    if len(impossible) == 2:
        raise Refused(BROKEN_BODY)
    if impossible:
        (place,) = (i for i, branch in enumerate(branches) if branch.results is None)
        types = tuple(v.type for v in branches[1 - place].results or [])
        branches[place].stop(b, c.unary(b, "not", condition) if place == 0 else condition, types)
        ctx.importer.findings.forget_since(marks)
        ctx.warn(
            f"its {names[place]} cannot run with these sizes ({branches[place].problem}); a run that chooses it stops"
        )
    results = [branch.results or [] for branch in branches]
    ctx.require(len(results[0]) == len(results[1]), "the branches yield different numbers of values")
    types = tuple(_common(b, one.type, two.type) for one, two in zip(*results, strict=True))
    regions = tuple(
        branch.b.finish([c.rebind(branch.b, v, t.shape) for v, t in zip(values, types, strict=True)])
        for branch, values in zip(branches, results, strict=True)
    )
    return b.emit_all(If(types), condition, regions=regions)


class _Branch:
    """What a branch yields; `results` is None where a node of it breaks the specification, `problem` says how.

    A model may hold a branch for another size of its inputs than the one it is compiled for.
    """

    def __init__(self, ctx: NodeContext, raw: RawGraph, b: GraphBuilder) -> None:
        self.b = b
        self.problem = ""
        self.results: list[Value] | None = None
        findings = ctx.importer.findings
        marks, constraints = findings.marks(), len(b.constraints)
        try:
            self.results = ctx.importer.tensors(ctx.importer.inline(raw, [], b))
        except Refused:
            invalid = findings.invalid_since(marks)
            if invalid is None:
                raise
            self.problem = f"{invalid['op']} {invalid['node']!r}: {invalid['reason']}"
            del b.constraints[constraints:]

    def stop(self, outer: GraphBuilder, others: Value, types: Sequence[TensorType]) -> None:
        """Stop the run, and yield these types; `others` says whether the other branch is chosen."""
        self.b = GraphBuilder(outer)
        known = outer.input_symbols()
        never = require_at_run_time(self.b, self.b.literal(np.zeros(1, np.int64)), c.reshape(self.b, others, (1,)))
        self.results = []
        for type in types:
            shape = [d if symbols(d) <= known else 1 for d in type.shape]
            value = c.reshape(self.b, c.cast(self.b, never, type.dtype), (1,) * type.rank)
            self.results.append(c.expand(self.b, value, shape))


def _common(b: GraphBuilder, one: TensorType, two: TensorType) -> TensorType:
    """The type of what either branch yields; sizes that differ are new unknowns."""
    if one.dtype is not two.dtype or one.rank != two.rank:
        raise Refused(f"the branches yield {one} and {two}; where a size decides between them, it must be given")
    return one.with_shape(tuple(d if d == e else b.fresh_dim() for d, e in zip(one.shape, two.shape, strict=True)))


@onnx_op("Loop", 1, 11, 13, 16, 19, 21, 23, 24, 25)
def loop(ctx: NodeContext) -> list[Item]:
    """Inputs: the trip count and the condition (both may be absent), then the carried values."""
    b = ctx.b
    trips = None if ctx.optional(0) is None else c.reshape(b, ctx.input(0), ())
    condition = c.scalar(b, True, DType.BOOL) if ctx.optional(1) is None else c.reshape(b, ctx.input(1), ())
    count: Dim | None = None
    if trips is not None:
        known = ctx.content(trips)
        count = None if known is None else known.reshape(()).item()
        count = max(count, 0) if isinstance(count, int) else count
    initial = tuple(item for item in ctx.inputs[2:] if item is not None)
    ctx.require(len(initial) == len(ctx.inputs[2:]), "a carried value is missing")
    carried, collected = run_loop(
        ctx,
        Loop(
            ctx.graph("body"),
            trips,
            count,
            condition,
            initial,
            lambda _, index, flag, values: (index, flag, *values),
            conditional=True,
        ),
    )
    return [*carried, *collected]


@onnx_op("Scan", 9, 11, 16, 19, 21, 23, 24, 25)
def scan(ctx: NodeContext) -> list[Value]:
    count = ctx.int("num_scan_inputs")
    values = ctx.variadic
    ctx.require(0 < count <= len(values), f"{count} scan inputs of {len(values)} inputs")
    states, scanned = values[: len(values) - count], values[len(values) - count :]
    body = ctx.graph("body")
    results = len(body.outputs) - len(states)
    axes = ctx.ints("scan_input_axes", (0,) * count)
    ctx.require(len(axes) == count, f"{len(axes)} axes for {count} scan inputs")
    placed = [ctx.axis(axis, x.type.rank) for axis, x in zip(axes, scanned, strict=True)]
    backwards = _directions(ctx, "scan_input_directions", count)
    result_axes = ctx.ints("scan_output_axes", (0,) * results)
    result_backwards = _directions(ctx, "scan_output_directions", results)
    finals, collected = _scan(ctx, states, scanned, placed, backwards, result_backwards)
    ctx.require(len(result_axes) == len(collected), f"{len(result_axes)} axes for {len(collected)} scan outputs")
    moved = [
        c.move_axis(ctx.b, v, 0, ctx.axis(axis, v.type.rank)) for axis, v in zip(result_axes, collected, strict=True)
    ]
    return [*finals, *moved]


def _directions(ctx: NodeContext, name: str, count: int) -> tuple[bool, ...]:
    given = ctx.ints(name, (0,) * count)
    ctx.require(len(given) == count and set(given) <= {0, 1}, f"{name} {list(given)}")
    return tuple(bool(v) for v in given)


def _scan(
    ctx: NodeContext,
    states: Sequence[Value],
    scanned: Sequence[Value],
    axes: Sequence[int],
    backwards: Sequence[bool],
    result_backwards: Sequence[bool],
) -> tuple[list[Value], list[Value]]:
    """The body applied to each element of the scanned tensors in turn."""
    b = ctx.b
    lengths = [x.type.shape[axis] for axis, x in zip(axes, scanned, strict=True)]
    length = next((n for n in lengths if isinstance(n, int)), lengths[0])
    tensors = []
    for axis, x in zip(axes, scanned, strict=True):
        tensors.append(c.rebind(b, x, [length if i == axis else d for i, d in enumerate(x.type.shape)]))
    trips = c.reshape(b, b.dims((length,)), ())

    def inputs(inner: GraphBuilder, index: Value, _: Value, carried: Sequence[Item]) -> list[Item]:
        last = c.with_scalar(inner, "sub", trips, 1)
        elements: list[Item] = []
        for axis, x, backward in zip(axes, tensors, backwards, strict=True):
            place = c.binary(inner, "sub", last, index) if backward else index
            elements.append(inner.emit(Gather(axis), x, place))
        return [*carried, *elements]

    always = c.scalar(b, True, DType.BOOL)
    spec = Loop(ctx.graph("body"), trips, length, always, tuple(states), inputs, False, tuple(result_backwards))
    finals, collected = run_loop(ctx, spec)
    return ctx.importer.tensors(finals), collected


@onnx_op("Scan", 8)
def scan_batched(ctx: NodeContext) -> list[Value]:
    """Axis 0 is a batch of independent scans, axis 1 is scanned."""
    b = ctx.b
    ctx.refuse_unless(ctx.optional(0) is None, "Scan with sequence_lens")
    count = ctx.int("num_scan_inputs")
    values = [ctx.input(i) for i in range(1, len(ctx.inputs))]
    ctx.require(0 < count <= len(values), f"{count} scan inputs of {len(values)} inputs")
    backwards = _directions(ctx, "directions", count)
    batch = values[-1].type.shape[0]
    if not isinstance(batch, int) or not 0 < batch <= _MAX_BATCH:
        raise Refused(f"Scan over a batch of {batch}")
    samples = []
    for sample in range(batch):
        rows = []
        for value in values:
            row = c.slice_axis(b, value, 0, sample, 1)
            rows.append(c.reshape(b, row, row.type.shape[1:]))
        states, scanned = rows[: len(rows) - count], rows[len(rows) - count :]
        finals, collected = _scan(ctx, states, scanned, (0,) * count, backwards, ())
        samples.append([c.unsqueeze(b, v, (0,)) for v in (*finals, *collected)])
    return [c.concat(b, list(parts), 0) for parts in zip(*samples, strict=True)]
