"""Loops whose bodies are ONNX graphs: unrolled where the count is a small constant or shapes change, else `While` over carried tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fornaxc.importers.onnx.context import Invalid, NodeContext, Refused
from fornaxc.importers.onnx.registry import Item
from fornaxc.importers.onnx.structure import RawGraph
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, symbols
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import DynamicBroadcast, IrError, ScatterNd, StridedSlice, While
from fornaxc.ir.types import DType, TensorType

UNROLL_TRIPS = 32
MOST_TRIPS = 256  # of a loop that can only be unrolled: its carried values change their shapes, or are sequences

Inputs = Callable[[GraphBuilder, Value, Value, Sequence[Item]], Sequence[Item]]


@dataclass(frozen=True, slots=True)
class Loop:
    """A body that runs `trips` times (i64[]; None: without a bound) or until its condition is false.

    `count` is what the sizes tell of `trips`. `inputs(builder, i, condition, carried)` are the body's inputs in trip i.
    The body yields a condition first where `conditional`; then the next `carried` values; then one value for each
    collected result, of which those in `reversed_results` are collected from the last to the first.
    """

    body: RawGraph
    trips: Value | None
    count: Dim | None
    condition: Value
    initial: tuple[Item, ...]
    inputs: Inputs
    conditional: bool
    reversed_results: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class _Step:
    """What the body yields."""

    condition: Value
    carried: list[Item]
    collected: list[Value]


def run_loop(ctx: NodeContext, loop: Loop) -> tuple[list[Item], list[Value]]:
    """The final carried values, and the collected results stacked along a new first axis."""
    if isinstance(loop.count, int) and loop.count <= UNROLL_TRIPS:
        unrolled = _unrolled(ctx, loop, loop.count)
        if unrolled is not None:
            return unrolled
    constraints = len(ctx.b.constraints)
    try:
        return _while(ctx, loop)
    except _OtherType:
        del ctx.b.constraints[constraints:]
        if isinstance(loop.count, int) and UNROLL_TRIPS < loop.count <= MOST_TRIPS:
            unrolled = _unrolled(ctx, loop, loop.count)
            if unrolled is not None:
                return unrolled
        raise


class _OtherType(Refused):
    """A carried value that is no tensor, or whose type changes from one trip to the next."""


def _step(
    ctx: NodeContext, loop: Loop, b: GraphBuilder, index: Value, condition: Value, carried: Sequence[Item]
) -> _Step:
    results = ctx.importer.inline(loop.body, loop.inputs(b, index, condition, carried), b)
    if len(results) < len(carried) + loop.conditional:
        raise Invalid(f"its body yields {len(results)} values for {len(carried)} carried ones")
    if loop.conditional:
        (going,) = ctx.importer.tensors(results[:1])
        condition, results = c.reshape(b, going, ()), results[1:]
    return _Step(condition, results[: len(carried)], ctx.importer.tensors(results[len(carried) :]))


def _truth(ctx: NodeContext, value: Value, b: GraphBuilder) -> bool | None:
    known = b.known(value)
    known = ctx.content(value) if known is None else known
    return None if known is None or known.dtype == object else bool(known.item())


def _unrolled(ctx: NodeContext, loop: Loop, count: int) -> tuple[list[Item], list[Value]] | None:
    """None where the condition is not known at each trip; what was emitted by then is left unused."""
    b, findings = ctx.b, ctx.importer.findings
    marks = len(b.constraints), len(findings.refused), len(findings.invalid)
    carried: list[Item] = list(loop.initial)
    condition = loop.condition
    collected: list[list[Value]] = []
    for trip in range(count):
        going = _truth(ctx, condition, b)
        if going is None:
            del b.constraints[marks[0] :], findings.refused[marks[1] :], findings.invalid[marks[2] :]
            return None
        if not going:
            break
        step = _step(ctx, loop, b, b.literal(np.array(trip, np.int64)), condition, carried)
        condition, carried = step.condition, step.carried
        collected.append(step.collected)
    if not collected:
        return (carried, _nothing(ctx, loop)) if _truth(ctx, loop.condition, b) is not None or count == 0 else None
    stacked = []
    for place, values in enumerate(zip(*collected, strict=True)):
        order = values[::-1] if place < len(loop.reversed_results) and loop.reversed_results[place] else values
        stacked.append(c.concat(b, [c.unsqueeze(b, v, (0,)) for v in order], 0))
    return carried, stacked


def _nothing(ctx: NodeContext, loop: Loop) -> list[Value]:
    """The collected results of no trips; the body tells their types."""
    b = ctx.b
    step = _step(ctx, loop, GraphBuilder(b), c.scalar(b, 0, DType.I64), loop.condition, loop.initial)
    return [c.full(b, False, v.type.with_shape((0, *v.type.shape))) for v in step.collected]


def _while(ctx: NodeContext, loop: Loop) -> tuple[list[Item], list[Value]]:
    b = ctx.b
    goes_on = _truth(ctx, loop.condition, b) is True
    try:
        initial = ctx.importer.tensors(loop.initial)
    except Refused as refusal:  # a sequence, which a region cannot carry
        raise _OtherType(str(refusal)) from refusal
    probe = GraphBuilder(b)
    flag = probe.input(TensorType(DType.BOOL, ()))
    index = probe.input(TensorType(DType.I64, ()))
    step = _step(ctx, loop, probe, index, flag, [probe.input(v.type) for v in initial])
    always = goes_on and (step.condition is flag or _truth(ctx, step.condition, probe) is True)
    if loop.trips is None and (step.collected or always):
        raise Refused("a loop without a bound" + (" that collects results" if step.collected else ""))
    for before, after in zip(initial, ctx.importer.tensors(step.carried), strict=True):
        _same_type(before.type, after.type)
    declared = loop.body.outputs[len(loop.body.outputs) - len(step.collected) :]
    elements = [_element(b, v.type, info.dims) for v, info in zip(step.collected, declared, strict=True)]
    buffers = [_buffer(ctx, loop, t) for t in elements]
    start = c.scalar(b, 0, DType.I64)
    condition = c.reshape(b, loop.condition, ())
    operands = [start, condition, *initial, *buffers]
    types = [v.type for v in operands]

    test = GraphBuilder(b)
    at, going, *_ = (test.input(t) for t in types)
    if loop.trips is not None:
        below = c.compare(test, "lt", at, loop.trips)
        going = below if always else c.binary(test, "and", below, going)

    body = GraphBuilder(b)
    at, flag, *rest = (body.input(t) for t in types)
    carried, filled = rest[: len(initial)], rest[len(initial) :]
    step = _step(ctx, loop, body, at, flag, carried)
    results = [c.with_scalar(body, "add", at, 1), step.condition]
    results += [
        c.rebind(body, new, old.type.shape)
        for old, new in zip(carried, ctx.importer.tensors(step.carried), strict=True)
    ]
    for place, (buffer, value, element) in enumerate(zip(filled, step.collected, elements, strict=True)):
        row = at
        if place < len(loop.reversed_results) and loop.reversed_results[place]:
            assert loop.trips is not None
            row = c.binary(body, "sub", c.with_scalar(body, "sub", loop.trips, 1), at)
        update = c.unsqueeze(body, c.rebind(body, value, element.shape), (0,))
        results.append(body.emit(ScatterNd(), buffer, c.reshape(body, row, (1, 1)), update))
    last, _, *final = b.emit_all(While(), *operands, regions=(test.finish([going]), body.finish(results)))
    carried, filled = final[: len(initial)], final[len(initial) :]
    if not always:
        filled = [_head(b, v, last) for v in filled]
    return list(carried), list(filled)


def _same_type(before: TensorType, after: TensorType) -> None:
    same = before.dtype is after.dtype and before.rank == after.rank
    if same:
        same = all(
            a == b or not (isinstance(a, int) and isinstance(b, int))
            for a, b in zip(before.shape, after.shape, strict=True)
        )
    if not same:
        raise _OtherType(f"a carried value changes from {before} to {after}")


def _element(b: GraphBuilder, found: TensorType, declared: Sequence[int | str | None] | None) -> TensorType:
    """The type of a collected result. A size that only the loop knows is the one that the body declares: each trip asserts it."""
    if declared is None or len(declared) != found.rank:
        return found
    known = b.input_symbols()
    return found.with_shape(
        tuple(
            e if isinstance(e, int) and not symbols(d) <= known else d
            for d, e in zip(found.shape, declared, strict=True)
        )
    )


def _buffer(ctx: NodeContext, loop: Loop, element: TensorType) -> Value:
    """Zeros for as many elements as there are trips at most."""
    b = ctx.b
    if any(not symbols(d) <= b.input_symbols() for d in element.shape):
        raise Refused(f"a collected result of the type {element}, whose size is only known in the loop")
    if loop.count is not None:
        return c.full(b, False, element.with_shape((loop.count, *element.shape)))
    assert loop.trips is not None
    shape: tuple[Dim, ...] = (b.fresh_dim(), *element.shape)
    trips = c.with_scalar(b, "max", c.reshape(b, loop.trips, (1,)), 0)
    sizes = c.concat(b, [trips, b.dims(element.shape)], 0) if element.rank else trips
    zero = c.reshape(b, c.scalar(b, False, element.dtype), (1,) * len(shape))
    return b.emit(DynamicBroadcast(shape), zero, sizes)


def _head(b: GraphBuilder, x: Value, count: Value) -> Value:
    """The first `count` elements."""
    rank = x.type.rank
    far = np.iinfo(np.int64).max
    rest = [b.literal(np.full(rank - 1, far, np.int64))] if rank > 1 else []
    ends = c.concat(b, [c.reshape(b, count, (1,)), *rest], 0)
    zeros, ones = b.dims((0,) * rank), b.dims((1,) * rank)
    try:
        return b.emit(StridedSlice((b.fresh_dim(), *x.type.shape[1:])), x, zeros, ends, ones)
    except IrError as error:
        raise Refused(str(error)) from error
