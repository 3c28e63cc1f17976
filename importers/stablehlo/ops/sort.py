"""sort and top_k: by keys where the comparator compares keys, else by comparing elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fornaxc.importers.stablehlo.context import OpContext
from fornaxc.importers.stablehlo.names import attribute_names
from fornaxc.importers.stablehlo.ops.arithmetic import total_order_key, wide_type
from fornaxc.importers.stablehlo.ops.exchange import beside, exchanged_order, precedes
from fornaxc.importers.stablehlo.ops.reduction import same_shape
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Operand, parts, rebuild
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, at_most, symbols
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import GatherElements, Iota, Reduce, TopK
from fornaxc.ir.types import DType

if TYPE_CHECKING:
    from fornaxc.importers.stablehlo.regions import Region

COUNTED = 256  # elements along the axis up to which an arbitrary comparator is evaluated on all pairs


@dataclass(frozen=True, slots=True)
class Key:
    """Sort by an MLIR value of the comparator that depends on left arguments alone."""

    value: Any
    descending: bool
    total: bool


@stablehlo_op("stablehlo.sort")
def sort(ctx: OpContext) -> list[Operand]:
    """Always stable."""
    operands = same_shape(ctx, ctx.operands)
    rank = parts(operands[0])[0].type.rank
    axis = ctx.int("dimension", -1)
    return in_order(ctx, ctx.region(0), operands, axis + rank if axis < 0 else axis)


def in_order(ctx: OpContext, comparator: Region, operands: list[Operand], axis: int) -> list[Operand]:
    """Operands of one shape, sorted along an axis, equal elements as they were."""
    b = ctx.b
    shape = parts(operands[0])[0].type.shape
    size = shape[axis] if shape else 1
    if size in (0, 1) or 0 in shape:
        return operands
    keys = _keys(comparator)
    if keys is not None:
        order = _key_order(ctx, comparator, keys, operands, axis)
    elif isinstance(size, int) and size <= COUNTED and comparator.lifts:
        order = _counted_order(b, comparator, operands, axis, size)
    else:
        order = exchanged_order(b, operands, axis, lambda b, sides: _less(b, comparator, sides))
    return [rebuild(o, [b.emit(GatherElements(axis), v, order) for v in parts(o)]) for o in operands]


def _key_order(ctx: OpContext, comparator: Region, keys: list[Key], operands: list[Operand], axis: int) -> Value:
    """The permutation that sorts by the keys: a stable sort by each, the last one first."""
    b = ctx.b
    order: Value | None = None
    for key in reversed(keys):
        values = _key_values(ctx, comparator, key, operands)
        moved = values if order is None else b.emit(GatherElements(axis), values, order)
        _, places = b.emit_all(TopK(values.type.shape[axis], axis, key.descending), moved)
        order = places if order is None else b.emit(GatherElements(axis), order, places)
    assert order is not None
    return order


def _key_values(ctx: OpContext, comparator: Region, key: Key, operands: list[Operand]) -> Value:
    """What the comparator compares, for every element."""
    from fornaxc.importers.stablehlo.block import BlockImporter

    b = ctx.b
    body = BlockImporter(ctx.importer.program, b, ctx.importer, lifted=True)
    body.run(comparator.block, [operand for operand in operands for _ in range(2)])
    found = body.lookup(key.value)
    assert isinstance(found, Value)
    values = c.expand(b, found, parts(operands[0])[0].type.shape)
    dtype = values.type.dtype
    if dtype is DType.BOOL:
        return c.cast(b, values, DType.I32)
    if key.total and dtype.is_float:
        return total_order_key(b, values)
    return c.cast(b, values, wide_type(dtype))


def _less(b: GraphBuilder, comparator: Region, sides: list[Operand]) -> Value:
    """What the comparator says of operands on its left and on its right, side by side."""
    (answer,) = comparator.lifted_within(b, sides)
    assert isinstance(answer, Value)
    return c.expand(b, answer, parts(sides[0])[0].type.shape)


def _keys(comparator: Region) -> list[Key] | None:
    """The keys of a comparator; None where it is not lexicographic in keys."""
    if not comparator.lifts:
        return None
    returned = list(comparator.block.operations)[-1].operation.operands[0]
    return _Comparator(list(comparator.block.arguments)).keys(returned)


class _Comparator:
    """Recognises f(left) < f(right), and chains: select(eq(f, g), rest, lt(f, g)), or(lt, and(eq, rest))."""

    def __init__(self, arguments: list[Any]) -> None:
        self.arguments = arguments

    def keys(self, value: Any) -> list[Key] | None:
        op = _owner(value)
        if op is None:
            return None
        if op.name == "stablehlo.compare":
            key = self._less(op)
            return None if key is None else [key]
        if op.name == "stablehlo.select":
            return self._chain(_owner(op.operands[0]), op.operands[1], op.operands[2])
        if op.name == "stablehlo.or":
            for first, second in ((0, 1), (1, 0)):
                both = _owner(op.operands[second])
                if both is not None and both.name == "stablehlo.and":
                    for equal, rest in ((0, 1), (1, 0)):
                        found = self._chain(_owner(both.operands[equal]), both.operands[rest], op.operands[first])
                        if found is not None:
                            return found
        return None

    def _chain(self, equal: Any, rest: Any, less: Any) -> list[Key] | None:
        """The keys of: by `less`, and where its sides are `equal`, by `rest`."""
        first, others = self.keys(less), self.keys(rest)
        if equal is None or equal.name != "stablehlo.compare" or first is None or others is None or len(first) != 1:
            return None
        sides = _owner(less)
        if _direction(equal) != "EQ" or sides is None:
            return None
        if {*equal.operands} != {*sides.operands} or _in_total_order(equal) != first[0].total:
            return None
        return [*first, *others]

    def _less(self, op: Any) -> Key | None:
        left, right = op.operands
        direction = _direction(op)
        if direction not in ("LT", "GT"):
            return None
        total = _in_total_order(op)
        if self._mirrored(left, right, 0):
            return Key(left, direction == "GT", total)
        if self._mirrored(right, left, 0):
            return Key(right, direction == "LT", total)
        return None

    def _mirrored(self, left: Any, right: Any, parity: int) -> bool:
        """Whether `right` is `left` with every left argument replaced by its right one."""
        if left in self.arguments or right in self.arguments:
            if left not in self.arguments or right not in self.arguments:
                return False
            place = self.arguments.index(left)
            return place % 2 == parity and self.arguments.index(right) == place + 1 - 2 * parity
        a, b = _owner(left), _owner(right)
        if a is None or b is None:
            return bool(left == right)
        if a == b or a.name != b.name or len(a.operands) != len(b.operands) or len(a.regions):
            return bool(a == b) and not self._uses_arguments(left)
        if {n: str(v) for n, v in _attributes(a)} != {n: str(v) for n, v in _attributes(b)}:
            return False
        return all(self._mirrored(x, y, parity) for x, y in zip(a.operands, b.operands, strict=True))

    def _uses_arguments(self, value: Any) -> bool:
        if value in self.arguments:
            return True
        op = _owner(value)
        return op is not None and any(self._uses_arguments(v) for v in op.operands)


def _in_total_order(op: Any) -> bool:
    return "compare_type" in op.attributes and "TOTALORDER" in str(op.attributes["compare_type"])


def _attributes(op: Any) -> list[tuple[str, Any]]:
    return [(name, op.attributes[name]) for name in attribute_names(op)]


def _owner(value: Any) -> Any:
    """The operation that makes a value; None for block arguments."""
    owner = getattr(value.owner, "operation", value.owner)
    return owner if hasattr(owner, "attributes") else None


def _direction(op: Any) -> str:
    return str(op.attributes["comparison_direction"]).rstrip(">").split()[-1]


def _counted_order(b: GraphBuilder, comparator: Region, operands: list[Operand], axis: int, size: int) -> Value:
    """The permutation by rank: how many elements come before each, of all pairs."""
    shape = parts(operands[0])[0].type.shape
    shape = (*shape[:axis], size, size, *shape[axis + 1 :])

    def spread(place: int) -> list[Operand]:
        wide = [[c.expand(b, c.unsqueeze(b, v, [place]), shape) for v in parts(o)] for o in operands]
        return [rebuild(o, values) for o, values in zip(operands, wide, strict=True)]

    rows, columns = spread(axis + 1), spread(axis)
    # element i (axis) comes after j (axis + 1) if the comparator has it so, or if it has neither first and j is earlier
    after, before = _less(b, comparator, beside(columns, rows)), _less(b, comparator, beside(rows, columns))
    i = b.emit(Iota(shape, axis, DType.I64))
    j = b.emit(Iota(shape, axis + 1, DType.I64))
    smaller = precedes(b, after, before, c.compare(b, "lt", j, i))
    rank = b.emit(Reduce("sum", (axis + 1,)), c.cast(b, smaller, DType.I64))
    rank = c.squeeze(b, rank, [axis + 1])
    return _inverse(b, rank, axis)


def _inverse(b: GraphBuilder, rank: Value, axis: int) -> Value:
    """The permutation whose inverse is `rank`: the places in order of rank."""
    _, places = b.emit_all(TopK(rank.type.shape[axis], axis, False), rank)
    return places


@stablehlo_op("chlo.top_k")
def top_k(ctx: OpContext) -> list[Operand]:
    """The largest of the last axis, by total order."""
    x = ctx.value(0)
    return list(top(ctx.b, x, ctx.int("k"), ctx.result_info(1).dtype))


@stablehlo_op("stablehlo.dynamic_top_k")
def dynamic_top_k(ctx: OpContext) -> list[Operand]:
    """The custom call by which jax writes top_k where `k` depends on sizes: `k` is the second operand."""
    x = ctx.value(0)
    k, *_ = ctx.dims(ctx.value(1), "the k of top_k")
    return list(top(ctx.b, x, k, ctx.result_info(1).dtype))


def top(b: GraphBuilder, x: Value, k: Dim, index_type: DType) -> tuple[Value, Value]:
    """The `k` largest along the last axis in total order, ties to the lower index, and their places."""
    axis = x.type.rank - 1
    size = x.type.shape[axis]
    if not at_most(k, size) and symbols(k) | symbols(size) <= b.input_symbols():
        b.require(size, ">=", k, "top_k takes no more elements than there are")
    key = c.cast(b, x, DType.I32) if x.type.dtype is DType.BOOL else c.cast(b, x, wide_type(x.type.dtype))
    if x.type.dtype.is_float:
        key = total_order_key(b, key)
    _, places = b.emit_all(TopK(k, axis, True), key)
    return b.emit(GatherElements(axis), x, places), c.cast(b, places, index_type)
