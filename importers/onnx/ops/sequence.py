"""Sequences whose length is known at compile time, and optional values whose presence is."""

from __future__ import annotations

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.ops.shape import join
from fornaxc.importers.onnx.ops.slice import split_at_run_time
from fornaxc.importers.onnx.registry import Item, TensorList, onnx_op
from fornaxc.importers.onnx.steering import entries, vector
from fornaxc.ir import compose as c
from fornaxc.ir.dims import Dim, ceildiv, static
from fornaxc.ir.graph import Value
from fornaxc.ir.types import DType


@onnx_op("SequenceEmpty", 11)
def sequence_empty(ctx: NodeContext) -> Item:
    ctx.ignore("dtype")
    return TensorList(())


@onnx_op("SequenceConstruct", 11)
def sequence_construct(ctx: NodeContext) -> Item:
    return TensorList(tuple(ctx.variadic))


@onnx_op("SequenceLength", 11)
def sequence_length(ctx: NodeContext) -> Item:
    return c.scalar(ctx.b, len(ctx.sequence(0)), DType.I64)


def _place(ctx: NodeContext, index: int, count: int, what: str) -> int:
    """A position of `count` ones, from the end where negative."""
    place = int(ctx.constant(index, what).reshape(()).item())
    ctx.require(-count <= place < count, f"position {place} of {count}")
    return place % count


@onnx_op("SequenceAt", 11)
def sequence_at(ctx: NodeContext) -> Item:
    elements = ctx.sequence(0)
    return elements[_place(ctx, 1, len(elements), "the position")]


@onnx_op("SequenceInsert", 11)
def sequence_insert(ctx: NodeContext) -> Item:
    """Before the given position, by default at the end."""
    elements = ctx.sequence(0)
    place = len(elements)
    if ctx.optional(2) is not None:
        place = int(ctx.constant(2, "the position").reshape(()).item())
        ctx.require(-len(elements) <= place <= len(elements), f"position {place} of {len(elements)}")
    return TensorList((*elements[:place], ctx.input(1), *elements[place:]))


@onnx_op("SequenceErase", 11)
def sequence_erase(ctx: NodeContext) -> Item:
    """Without the element at the given position, by default the last one."""
    elements = ctx.sequence(0)
    ctx.require(bool(elements), "nothing to erase")
    place = len(elements) - 1 if ctx.optional(1) is None else _place(ctx, 1, len(elements), "the position")
    return TensorList((*elements[:place], *elements[place + 1 :]))


@onnx_op("ConcatFromSequence", 11)
def concat_from_sequence(ctx: NodeContext) -> Item:
    elements = ctx.sequence(0)
    ctx.require(bool(elements), "the concatenation of no tensors")
    stacks = ctx.int("new_axis", 0)
    axis = ctx.axis(ctx.int("axis"), elements[0].type.rank + (1 if stacks else 0))
    return join(ctx.b, [c.unsqueeze(ctx.b, v, (axis,)) for v in elements] if stacks else elements, axis)


@onnx_op("SplitToSequence", 11, 24)
def split_to_sequence(ctx: NodeContext) -> Item:
    """In parts of the given size or sizes; without them in slices of size 1, whose axis goes where keepdims is 0."""
    b, x = ctx.b, ctx.input(0)
    axis = ctx.axis(ctx.int("axis", 0), x.type.rank)
    keep = bool(ctx.int("keepdims", 1))
    size = x.type.shape[axis]
    if ctx.optional(1) is not None and ctx.input(1).type.rank == 1 and ctx.content(ctx.input(1)) is None:
        computed = vector(b, ctx.input(1))
        ctx.refuse_unless(entries(ctx, computed, "the sizes") > 0, "a split in no parts")
        return TensorList(tuple(split_at_run_time(b, x, axis, computed)))
    given = None if ctx.optional(1) is None else ctx.constant(1, "the sizes")
    sizes: list[Dim]
    if given is not None and given.ndim == 1:
        sizes = [int(v) for v in given]
        total = sum(int(v) for v in given)
        if isinstance(size, int):
            ctx.require(total == size, f"sizes {sizes} of an axis of size {size}")
        else:
            x = c.rebind(b, x, [total if i == axis else d for i, d in enumerate(x.type.shape)])
    else:
        ctx.refuse_unless(isinstance(size, int), f"a sequence whose length depends on the size {size}")
        assert isinstance(size, int)
        each = 1 if given is None else int(given.item())
        ctx.require(each > 0, f"parts of {each}")
        sizes = [min(each, size - i * each) for i in range(static(ceildiv(size, each)))]
    parts: list[Value] = []
    start: Dim = 0
    for part in sizes:
        taken = c.slice_axis(b, x, axis, start, part)
        parts.append(taken if keep or given is not None else c.squeeze(b, taken, (axis,)))
        start = start + part
    return TensorList(tuple(parts))


@onnx_op("SequenceMap", 17)
def sequence_map(ctx: NodeContext) -> list[Item]:
    """The body on the elements of the sequences at each position in turn; a tensor is the same for all."""
    count = len(ctx.sequence(0))
    body = ctx.graph("body")
    columns: list[list[Value]] = [[] for _ in body.outputs]
    for place in range(count):
        given: list[Item] = []
        for index in range(len(ctx.inputs)):
            item = ctx.item(index)
            if isinstance(item, TensorList):
                ctx.require(len(item.elements) == count, f"sequences of {count} and {len(item.elements)} tensors")
                item = item.elements[place]
            assert item is not None
            given.append(item)
        for column, result in zip(columns, ctx.importer.tensors(ctx.importer.inline(body, given)), strict=True):
            column.append(result)
    return [TensorList(tuple(column)) for column in columns]


@onnx_op("Optional", 15, 28)
def optional(ctx: NodeContext) -> Item:
    """An optional that holds its input is the input."""
    ctx.ignore("type")
    item = ctx.item(0)
    ctx.refuse_unless(item is not None, "an optional value that is empty")
    assert item is not None
    return item


@onnx_op("OptionalHasElement", 15, 18, 28)
def optional_has_element(ctx: NodeContext) -> Item:
    return c.scalar(ctx.b, ctx.item(0) is not None, DType.BOOL)


@onnx_op("OptionalGetElement", 15, 18, 28)
def optional_get_element(ctx: NodeContext) -> Item:
    item = ctx.item(0)
    ctx.require(item is not None, "the content of an empty optional")
    assert item is not None
    return item
