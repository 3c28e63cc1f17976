"""NonMaxSuppression."""

from __future__ import annotations

from dataclasses import dataclass

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.sampling import size_as
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.ops import ArgReduce, GatherElements, GatherNd, Iota, NonZero, While
from fornaxc.ir.types import DType, TensorType


@dataclass(frozen=True, slots=True)
class _Boxes:
    """Corners and areas of all boxes, each [batch, classes, boxes], and the scores in that shape."""

    corners: tuple[Value, Value, Value, Value]
    area: Value
    scores: Value
    threshold: Value
    most: Value

    @property
    def type(self) -> TensorType:
        return self.scores.type


@onnx_op("NonMaxSuppression", 10, 11)
def non_max_suppression(ctx: NodeContext) -> Value:
    """In each batch and class: take the best box left, drop those that overlap it too much, again and again.

    All batches and classes take their step at once. The results are [batch, class, box] rows in the order of batch,
    class, and choice; of equal scores the first counts.
    """
    b, boxes, scores = ctx.b, ctx.input(0), ctx.input(1)
    ctx.require(boxes.type.rank == 3 and scores.type.rank == 3, f"{boxes.type} and {scores.type} have not three axes")
    batch, _, count = scores.type.shape
    boxes = c.rebind(b, boxes, (batch, count, 4))
    dtype = boxes.type.dtype
    corners = _corners(b, boxes, bool(ctx.int("center_point_box", 0)), scores.type)
    overlap = ctx.optional(3)
    most = ctx.optional(2)
    limit = c.scalar(b, 0, DType.I64) if most is None else c.reshape(b, most, ())
    threshold = c.scalar(b, 0, dtype) if overlap is None else c.reshape(b, overlap, ())
    area = _area(b, *corners)
    held = _Boxes(corners, area, scores, threshold, c.binary(b, "min", limit, size_as(b, count, DType.I64)))
    least = ctx.optional(4)
    alive = c.full(b, True, scores.type.with_dtype(DType.BOOL))
    if least is not None:
        alive = c.compare(b, "gt", scores, c.reshape(b, least, ()))
    chosen = c.full(b, -1, scores.type.with_dtype(DType.I64))
    start = (c.scalar(b, 0, DType.I64), alive, chosen)
    regions = _condition(b, held), _step(b, held)
    _, _, chosen = b.emit_all(While(), *start, regions=regions)
    found = c.compare(b, "ge", chosen, c.scalar(b, 0, DType.I64))
    places = c.transpose(b, b.emit(NonZero(b.fresh_dim("selected")), found), (1, 0))
    picked = c.unsqueeze(b, b.emit(GatherNd(), chosen, places), (1,))
    return c.concat(b, [c.slice_axis(b, places, 1, 0, 2), picked], 1)


def _corners(b: GraphBuilder, boxes: Value, centred: bool, type: TensorType) -> tuple[Value, Value, Value, Value]:
    """The lower and upper bounds on both axes: [batch, classes, boxes] each."""
    parts = [
        c.expand(b, c.reshape(b, c.slice_axis(b, boxes, 2, i, 1), (type.shape[0], 1, type.shape[2])), type.shape)
        for i in range(4)
    ]
    first, second, third, fourth = parts
    if not centred:
        return (
            c.binary(b, "min", first, third),
            c.binary(b, "min", second, fourth),
            c.binary(b, "max", first, third),
            c.binary(b, "max", second, fourth),
        )
    wide, high = (c.with_scalar(b, "mul", v, 0.5) for v in (third, fourth))
    low = [c.binary(b, "sub", at, half) for at, half in ((first, wide), (second, high))]
    top = [c.binary(b, "add", at, half) for at, half in ((first, wide), (second, high))]
    return low[0], low[1], top[0], top[1]


def _area(b: GraphBuilder, left: Value, low: Value, right: Value, top: Value) -> Value:
    """The area between two corners; 0 where they are the wrong way round."""
    width, height = c.binary(b, "sub", right, left), c.binary(b, "sub", top, low)
    return c.binary(b, "mul", c.with_scalar(b, "max", width, 0), c.with_scalar(b, "max", height, 0))


def _carried(b: GraphBuilder, boxes: _Boxes) -> tuple[GraphBuilder, Value, Value, Value]:
    """A builder of a region, with its step number, the boxes left, and the choices so far."""
    inner = GraphBuilder(b)
    inner.origin = b.origin
    step = inner.input(TensorType(DType.I64, ()))
    return inner, step, inner.input(boxes.type.with_dtype(DType.BOOL)), inner.input(boxes.type.with_dtype(DType.I64))


def _condition(b: GraphBuilder, boxes: _Boxes) -> Graph:
    """While fewer boxes than asked for were taken, and one is left."""
    inner, step, alive, _ = _carried(b, boxes)
    left = c.reshape(inner, c.reduce(inner, "max", alive, (0, 1, 2)), ())
    return inner.finish([c.binary(inner, "and", c.compare(inner, "lt", step, boxes.most), left)])


def _step(b: GraphBuilder, boxes: _Boxes) -> Graph:
    inner, step, alive, chosen = _carried(b, boxes)
    lowest = c.scalar(inner, float("-inf"), boxes.type.dtype)
    best = inner.emit(ArgReduce("max", 2), c.select(inner, alive, boxes.scores, lowest))
    any_left = c.reduce(inner, "max", alive, (2,))
    here = inner.emit(Iota(boxes.type.shape, 2, DType.I64))
    now = c.compare(inner, "eq", here, step)
    taken = c.binary(inner, "and", now, any_left)
    chosen = c.select(inner, taken, best, chosen)
    near = _overlaps(inner, boxes, best)
    gone = c.binary(inner, "or", near, c.compare(inner, "eq", here, best))
    alive = c.binary(inner, "and", alive, c.unary(inner, "not", gone))
    return inner.finish([c.with_scalar(inner, "add", step, 1), alive, chosen])


def _overlaps(b: GraphBuilder, boxes: _Boxes, best: Value) -> Value:
    """Where the intersection over the union with the box `best` [batch, classes, 1] is above the threshold."""
    left, low, right, top = boxes.corners
    mine = [b.emit(GatherElements(2), v, best) for v in (left, low, right, top, boxes.area)]
    shared = _area(
        b,
        c.binary(b, "max", left, mine[0]),
        c.binary(b, "max", low, mine[1]),
        c.binary(b, "min", right, mine[2]),
        c.binary(b, "min", top, mine[3]),
    )
    union = c.binary(b, "sub", c.binary(b, "add", boxes.area, mine[4]), shared)
    zero = c.scalar(b, 0, boxes.type.dtype)
    real = c.binary(b, "and", c.compare(b, "gt", shared, zero), c.compare(b, "gt", union, zero))
    return c.binary(b, "and", real, c.compare(b, "gt", c.binary(b, "div", shared, union), boxes.threshold))
