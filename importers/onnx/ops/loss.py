"""Losses and the optimisers of the preview training domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.ops.reduce import drop_axes
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Gather, GatherElements, Softmax
from fornaxc.ir.types import DType, TensorType

TRAINING = "ai.onnx.preview.training"


def _negative_log_likelihood(ctx: NodeContext, log_probabilities: Value) -> Value:
    """Minus the log probability of each target class, weighted; targets equal to ignore_index do not count."""
    b, x = ctx.b, log_probabilities
    reduction = ctx.string("reduction", "mean")
    ctx.require(reduction in ("none", "sum", "mean"), f"no reduction {reduction!r}")
    ctx.require(x.type.rank >= 2, f"a loss of {x.type}")
    shape = (x.type.shape[0], *x.type.shape[2:])
    target = c.cast(b, c.rebind(b, ctx.input(1), shape), DType.I64)
    ignored = None
    if ctx.has("ignore_index"):
        ignored = c.compare(b, "eq", target, c.scalar(b, ctx.int("ignore_index"), DType.I64))
    last = c.reshape(b, b.dims((x.type.shape[1] - 1,)), ())
    place = c.binary(b, "min", c.with_scalar(b, "max", target, 0), last)
    loss = drop_axes(b, b.emit(GatherElements(1), x, c.unsqueeze(b, place, (1,))), (1,))
    loss = c.unary(b, "neg", loss)
    weight = ctx.optional(2)
    if weight is None and ignored is None:
        return _reduced(b, loss, reduction)
    zero = c.scalar(b, 0, x.type.dtype)
    if weight is None:
        share = c.full(b, 1, TensorType(x.type.dtype, shape))
    else:
        share = b.emit(Gather(0), c.rebind(b, weight, (x.type.shape[1],)), place)
    if ignored is not None:
        share, loss = c.select(b, ignored, zero, share), c.select(b, ignored, zero, loss)
    loss = c.binary(b, "mul", loss, share)
    if reduction != "mean":
        return _reduced(b, loss, reduction)
    return c.binary(b, "div", _reduced(b, loss, "sum"), _reduced(b, share, "sum"))


def _reduced(b: GraphBuilder, x: Value, reduction: str) -> Value:
    if reduction == "none":
        return x
    axes = range(x.type.rank)
    return drop_axes(b, c.reduce(b, reduction, x, axes), axes)


@onnx_op("NegativeLogLikelihoodLoss", 12, 13, 22)
def negative_log_likelihood_loss(ctx: NodeContext) -> Value:
    return _negative_log_likelihood(ctx, ctx.input(0))


@onnx_op("SoftmaxCrossEntropyLoss", 12, 13)
def softmax_cross_entropy_loss(ctx: NodeContext) -> Sequence[Value]:
    scores = ctx.input(0)
    ctx.require(scores.type.rank >= 2, f"a loss of {scores.type}")
    log_probabilities = ctx.b.emit(Softmax(1, log=True), scores)
    return [_negative_log_likelihood(ctx, log_probabilities), log_probabilities]


Update = Callable[[NodeContext, Value, Value, list[Value]], list[Value]]


def _optimizer(states: int, update: Update) -> Callable[[NodeContext], Sequence[Value]]:
    """Inputs: the learning rate, the update count, then all tensors, all gradients, and each kind of state of all.

    Results: the new tensors, then the new states in the same order.
    """

    def handler(ctx: NodeContext) -> Sequence[Value]:
        rate, count, *rest = ctx.variadic
        kinds = 2 + states
        ctx.require(len(rest) % kinds == 0, f"{len(rest)} tensors do not come in {kinds} kinds")
        number = len(rest) // kinds
        results = []
        for i in range(number):
            mine = rest[i::number]
            shape = mine[0].type.shape
            mine = [c.rebind(ctx.b, v, shape) for v in mine]
            step = c.reshape(ctx.b, c.cast(ctx.b, rate, mine[0].type.dtype), ())
            results.append(update(ctx, step, c.reshape(ctx.b, count, ()), mine))
        return [result[k] for k in range(1 + states) for result in results]

    return handler


def _mix(b: GraphBuilder, old: Value, kept: float, new: Value, added: float) -> Value:
    """kept * old + added * new."""
    return c.binary(b, "add", c.with_scalar(b, "mul", old, kept), c.with_scalar(b, "mul", new, added))


def _regularized(ctx: NodeContext, x: Value, gradient: Value) -> Value:
    return _mix(ctx.b, x, ctx.float("norm_coefficient", 0.0), gradient, 1.0)


def _is_later(b: GraphBuilder, count: Value) -> Value:
    return c.compare(b, "gt", count, c.scalar(b, 0, count.type.dtype))


def _momentum(ctx: NodeContext, rate: Value, count: Value, tensors: list[Value]) -> list[Value]:
    b, (x, gradient, velocity) = ctx.b, tensors
    alpha, beta, mode = ctx.float("alpha"), ctx.float("beta"), ctx.string("mode")
    ctx.require(mode in ("standard", "nesterov"), f"no mode {mode!r}")
    gradient = _regularized(ctx, x, gradient)
    one, later = c.scalar(b, 1, x.type.dtype), c.scalar(b, beta, x.type.dtype)
    share = c.select(b, _is_later(b, count), later, one)
    new = c.binary(b, "add", c.with_scalar(b, "mul", velocity, alpha), c.binary(b, "mul", gradient, share))
    step = new if mode == "standard" else _mix(b, gradient, 1.0, new, alpha)
    return [c.binary(b, "sub", x, c.binary(b, "mul", step, rate)), new]


def _adagrad(ctx: NodeContext, rate: Value, count: Value, tensors: list[Value]) -> list[Value]:
    b, (x, gradient, squares) = ctx.b, tensors
    gradient = _regularized(ctx, x, gradient)
    decay = c.with_scalar(b, "mul", c.cast(b, count, x.type.dtype), ctx.float("decay_factor", 0.0))
    rate = c.binary(b, "div", rate, c.with_scalar(b, "add", decay, 1))
    new = c.binary(b, "add", squares, c.binary(b, "mul", gradient, gradient))
    root = c.with_scalar(b, "add", c.unary(b, "sqrt", new), ctx.float("epsilon", 1e-6))
    step = c.binary(b, "div", c.binary(b, "mul", gradient, rate), root)
    return [c.binary(b, "sub", x, step), new]


def _adam(ctx: NodeContext, rate: Value, count: Value, tensors: list[Value]) -> list[Value]:
    b, (x, gradient, mean, squares) = ctx.b, tensors
    alpha, beta = ctx.float("alpha", 0.9), ctx.float("beta", 0.999)
    gradient = _regularized(ctx, x, gradient)
    new_mean = _mix(b, mean, alpha, gradient, 1 - alpha)
    new_squares = _mix(b, squares, beta, c.binary(b, "mul", gradient, gradient), 1 - beta)
    root = c.with_scalar(b, "add", c.unary(b, "sqrt", new_squares), ctx.float("epsilon", 1e-6))
    step = c.binary(b, "div", c.binary(b, "mul", new_mean, _bias_corrected(b, rate, count, alpha, beta)), root)
    moved = c.binary(b, "sub", x, step)
    return [c.with_scalar(b, "mul", moved, 1 - ctx.float("norm_coefficient_post", 0.0)), new_mean, new_squares]


def _bias_corrected(b: GraphBuilder, rate: Value, count: Value, alpha: float, beta: float) -> Value:
    """rate * sqrt(1 - beta^t) / (1 - alpha^t) after the first update (t > 0)."""
    dtype = rate.type.dtype
    times, one = c.cast(b, count, dtype), c.scalar(b, 1, dtype)

    def rest(base: float) -> Value:
        return c.binary(b, "sub", one, c.binary(b, "pow", c.scalar(b, base, dtype), times))

    corrected = c.binary(b, "div", c.binary(b, "mul", rate, c.unary(b, "sqrt", rest(beta))), rest(alpha))
    return c.select(b, _is_later(b, count), corrected, rate)


onnx_op("Momentum", 1, domain=TRAINING)(_optimizer(1, _momentum))
onnx_op("Adagrad", 1, domain=TRAINING)(_optimizer(1, _adagrad))
onnx_op("Adam", 1, domain=TRAINING)(_optimizer(2, _adam))
