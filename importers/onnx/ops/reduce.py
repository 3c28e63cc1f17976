"""The Reduce family, ArgMax and ArgMin."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.reductions import Axes, KnownAxes, MaskedAxes
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.steering import axis_mask, vector, without_axes
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import static
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import ArgReduce, Binary
from fornaxc.ir.types import DType

Over = Callable[[GraphBuilder, Value, Axes], Value]


def _plain(fn: str) -> Over:
    return lambda b, x, axes: axes.reduce(fn, x)


def _mean(b: GraphBuilder, x: Value, axes: Axes) -> Value:
    """Integers: the sum over the count, towards zero."""
    if x.type.dtype.is_float:
        return axes.reduce("mean", x)
    return c.binary(b, "div", axes.reduce("sum", x), c.cast(b, axes.count(x), x.type.dtype))


def _l1(b: GraphBuilder, x: Value, axes: Axes) -> Value:
    return axes.reduce("sum", c.unary(b, "abs", x) if x.type.dtype.is_signed else x)


def _sum_square(b: GraphBuilder, x: Value, axes: Axes) -> Value:
    return axes.reduce("sum", b.emit(Binary("mul"), x, x))


def _l2(b: GraphBuilder, x: Value, axes: Axes) -> Value:
    """Of integers: the root in float64, towards zero."""
    wide = x if x.type.dtype.is_float else c.cast(b, x, DType.F64)
    return c.cast(b, c.unary(b, "sqrt", _sum_square(b, wide, axes)), x.type.dtype)


def _log_sum(b: GraphBuilder, x: Value, axes: Axes) -> Value:
    return c.unary(b, "log", axes.reduce("sum", x))


def _log_sum_exp(b: GraphBuilder, x: Value, axes: Axes) -> Value:
    """log(sum(exp(x))), shifted by the maximum where that is finite."""
    top = axes.reduce("max", x)
    wild = c.compare(b, "eq", c.unary(b, "abs", top), c.scalar(b, float("inf"), x.type.dtype))
    shift = c.select(b, wild, c.scalar(b, 0, x.type.dtype), top)
    total = axes.reduce("sum", c.unary(b, "exp", c.binary(b, "sub", x, axes.spread(shift, x))))
    return c.binary(b, "add", c.unary(b, "log", total), shift)


def drop_axes(b: GraphBuilder, x: Value, axes: Sequence[int]) -> Value:
    """`x` without axes that have size 1."""
    return c.reshape(b, x, [d for i, d in enumerate(x.type.shape) if i not in axes])


def _checked(ctx: NodeContext, over: Over) -> Value:
    """The operand, of a type that the reduction is for."""
    x = ctx.input(0)
    dtype = x.type.dtype
    if dtype is DType.BOOL:
        ctx.refuse_unless(over in (_MAX, _MIN), "a reduction of bool other than max and min")
    ctx.refuse_unless(
        dtype.is_float or over not in (_log_sum, _log_sum_exp), f"a logarithm of {dtype}: the tools disagree"
    )
    return x


def _reduced(ctx: NodeContext, x: Value, axes: Sequence[int], over: Over) -> Value:
    result = over(ctx.b, x, KnownAxes(ctx.b, tuple(axes)))
    return result if ctx.int("keepdims", 1) else drop_axes(ctx.b, result, axes)


def _reduced_at_run_time(ctx: NodeContext, x: Value, over: Over, noop: bool) -> Value:
    """Without keepdims the number of axes must be known, for it tells the rank of the result."""
    b, given = ctx.b, vector(ctx.b, ctx.input(1))
    keep = ctx.int("keepdims", 1)
    mask = axis_mask(b, given, x.type.rank)
    (named,) = given.type.shape
    if not isinstance(named, int):
        ctx.refuse_unless(bool(keep), "the rank of the result depends on the run-time sizes")
        if not noop:
            none = c.compare(b, "eq", b.dims((named,)), b.dims((0,)))
            mask = c.binary(b, "or", mask, none)
    narrow = x.type.dtype in (DType.F16, DType.BF16)
    wide = c.cast(b, x, DType.F32) if narrow else x
    result = c.cast(b, over(b, wide, MaskedAxes(b, mask, x.type.shape)), x.type.dtype)
    return result if keep else without_axes(b, result, mask, static(named))


def _axes_attribute(over: Over) -> Callable[[NodeContext], Value]:
    """No axes, or an empty list of them: all axes."""

    def handler(ctx: NodeContext) -> Value:
        x = _checked(ctx, over)
        given = ctx.ints("axes", ())
        return _reduced(ctx, x, ctx.axes(given, x.type.rank) or range(x.type.rank), over)

    return handler


def _axes_input(over: Over) -> Callable[[NodeContext], Value]:
    """No axes, or an empty list: all axes, or with noop_with_empty_axes none (the elementwise part still applies)."""

    def handler(ctx: NodeContext) -> Value:
        x = _checked(ctx, over)
        noop = bool(ctx.int("noop_with_empty_axes", 0))
        given = ctx.optional(1)
        known = () if given is None or given.type.elements == 0 else ctx.ints_or_none(1)
        if known is None:
            return _reduced_at_run_time(ctx, x, over, noop)
        axes = ctx.axes(known, x.type.rank)
        return _reduced(ctx, x, axes or (() if noop else range(x.type.rank)), over)

    return handler


_MAX, _MIN = _plain("max"), _plain("min")

for _name, _over, _attribute, _input in (
    ("ReduceSum", _plain("sum"), (1, 11), (13,)),
    ("ReduceMean", _mean, (1, 11, 13), (18,)),
    ("ReduceMax", _MAX, (1, 11, 12, 13), (18, 20)),
    ("ReduceMin", _MIN, (1, 11, 12, 13), (18, 20)),
    ("ReduceProd", _plain("prod"), (1, 11, 13), (18,)),
    ("ReduceL1", _l1, (1, 11, 13), (18,)),
    ("ReduceL2", _l2, (1, 11, 13), (18,)),
    ("ReduceLogSum", _log_sum, (1, 11, 13), (18, 28)),
    ("ReduceLogSumExp", _log_sum_exp, (1, 11, 13), (18, 28)),
    ("ReduceSumSquare", _sum_square, (1, 11, 13), (18,)),
):
    onnx_op(_name, *_attribute)(_axes_attribute(_over))
    onnx_op(_name, *_input)(_axes_input(_over))


def _arg(fn: str, selects_last: bool) -> Callable[[NodeContext], Value]:
    def handler(ctx: NodeContext) -> Value:
        x = ctx.input(0)
        axis = ctx.axis(ctx.int("axis", 0), x.type.rank)
        keep = ctx.int("keepdims", 1)
        last = bool(ctx.int("select_last_index", 0)) if selects_last else False
        result = ctx.b.emit(ArgReduce(fn, axis, last), x)
        return result if keep else drop_axes(ctx.b, result, (axis,))

    return handler


for _name, _fn in (("ArgMax", "max"), ("ArgMin", "min")):
    onnx_op(_name, 1, 11)(_arg(_fn, selects_last=False))
    onnx_op(_name, 12, 13)(_arg(_fn, selects_last=True))
