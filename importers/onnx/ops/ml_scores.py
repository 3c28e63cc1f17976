"""What classifiers and regressors of ai.onnx.ml share: scores, their post-transforms, and labels."""

from __future__ import annotations

import numpy as np

from fornaxc.importers.onnx.context import NodeContext, Refused
from fornaxc.importers.onnx.registry import Foreign, Item
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import ArgReduce, Gather, Softmax
from fornaxc.ir.types import DType

ML = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def rows(ctx: NodeContext, x: Value) -> Value:
    """`x` as a matrix of samples: a vector is one sample."""
    if x.type.rank == 1:
        return c.unsqueeze(ctx.b, x, (0,))
    ctx.require(x.type.rank == 2, f"samples of {x.type}")
    return x


def numbers(ctx: NodeContext, x: Value) -> Value:
    """`x` in f32, f64 as it is."""
    return x if x.type.dtype is DType.F64 else c.cast(ctx.b, x, DType.F32)


def transformed(b: GraphBuilder, scores: Value, name: str) -> Value:
    """The post-transform `name` of scores [samples, classes]."""
    if name == "NONE":
        return scores
    if name == "SOFTMAX":
        return b.emit(Softmax(1), scores)
    if name == "LOGISTIC":
        return c.unary(b, "sigmoid", scores)
    if name == "SOFTMAX_ZERO":
        return _softmax_zero(b, scores)
    if name == "PROBIT":
        return _probit(b, scores)
    raise Refused(f"the post_transform {name}")


def _softmax_zero(b: GraphBuilder, scores: Value) -> Value:
    """Softmax over the scores that are not 0 (within 1e-7); the others stay 0."""
    top = c.reduce(b, "max", scores, (1,))
    powers = c.unary(b, "exp", c.binary(b, "sub", scores, top))
    present = c.compare(b, "gt", c.unary(b, "abs", scores), c.scalar(b, 1e-7, scores.type.dtype))
    kept = c.select(b, present, powers, c.scalar(b, 0, scores.type.dtype))
    small = c.binary(b, "mul", scores, c.unary(b, "exp", c.unary(b, "neg", top)))
    return c.binary(b, "div", c.select(b, present, powers, small), c.reduce(b, "sum", kept, (1,)))


def _probit(b: GraphBuilder, scores: Value) -> Value:
    """The quantile function of the normal distribution, with the approximation of erfinv that the reference has."""
    centred = c.with_scalar(b, "sub", c.with_scalar(b, "mul", scores, 2), 1)
    logarithm = c.unary(b, "log", c.binary(b, "mul", _one_minus(b, centred), c.with_scalar(b, "add", centred, 1)))
    half = c.with_scalar(b, "add", c.with_scalar(b, "mul", logarithm, 0.5), 2 / (3.14159 * 0.147))
    ratio = c.with_scalar(b, "mul", logarithm, 1 / 0.147)
    root = c.unary(b, "sqrt", c.binary(b, "sub", c.binary(b, "mul", half, half), ratio))
    size = c.unary(b, "sqrt", c.binary(b, "sub", root, half))
    below = c.compare(b, "lt", centred, c.scalar(b, 0, centred.type.dtype))
    signed = c.select(b, below, c.unary(b, "neg", size), size)
    return c.with_scalar(b, "mul", signed, 1.41421356)


def _one_minus(b: GraphBuilder, x: Value) -> Value:
    return c.with_scalar(b, "add", c.unary(b, "neg", x), 1)


def two_classes(b: GraphBuilder, score: Value, transform: str, *, probability: bool) -> Value:
    """[samples, 2] from the score of the second class alone: beside its complement to 1 where it is a probability, else its negative.

    LOGISTIC is of the score and its negative either way; of other post-transforms the tools make different things.
    """
    if transform not in ("NONE", "LOGISTIC"):
        raise Refused(f"the post_transform {transform} of one score for two classes")
    logistic = transform == "LOGISTIC"
    other = _one_minus(b, score) if probability and not logistic else c.unary(b, "neg", score)
    both = c.concat(b, [other, score], 1)
    return c.unary(b, "sigmoid", both) if logistic else both


def class_names(ctx: NodeContext, integers: str) -> tuple[int, ...] | None:
    """The integer labels; None where the labels are strings."""
    strings = ctx.strings("classlabels_strings", ())
    return None if strings else ctx.ints(integers, ())


def class_count(ctx: NodeContext, integers: str) -> int:
    return len(ctx.strings("classlabels_strings", ())) or len(ctx.ints(integers, ()))


def labels(ctx: NodeContext, place: Value, names: tuple[int, ...] | None) -> Item:
    """The label at each place of a vector of class indices."""
    if names is None:
        return Foreign("class labels that are strings")
    if names == tuple(range(len(names))):
        return c.cast(ctx.b, place, DType.I64)
    return ctx.b.emit(Gather(0), ctx.b.literal(np.array(names, np.int64)), place)


def best(b: GraphBuilder, scores: Value) -> Value:
    """The index of the largest score of each sample, the first of equal ones: i64 [samples]."""
    return c.reshape(b, b.emit(ArgReduce("max", 1), scores), scores.type.shape[:1])


def positive(b: GraphBuilder, score: Value, threshold: float) -> Value:
    """1 where the score [samples, 1] is above the threshold, else 0: i64 [samples]."""
    above = c.compare(b, "gt", score, c.scalar(b, threshold, score.type.dtype))
    return c.cast(b, c.reshape(b, above, score.type.shape[:1]), DType.I64)
