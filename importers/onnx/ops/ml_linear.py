"""Linear models of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.ops.ml_scores import (
    ML,
    best,
    class_count,
    class_names,
    labels,
    numbers,
    positive,
    rows,
    transformed,
    two_classes,
)
from fornaxc.importers.onnx.registry import Item, onnx_op
from fornaxc.importers.onnx.trees import table
from fornaxc.ir import compose as c
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import MatMul
from fornaxc.ir.types import DType


def _linear(ctx: NodeContext, x: Value, count: int) -> Value:
    """x * coefficients' + intercepts, in f32: [samples, count]."""
    b = ctx.b
    weights = np.array(ctx.floats("coefficients"), np.float32)
    features = x.type.shape[1]
    fits = (
        count > 0 and len(weights) % count == 0 and (len(weights) // count == features or not isinstance(features, int))
    )
    ctx.require(fits, f"{len(weights)} coefficients for {count} scores of {features} features")
    matrix = weights.reshape(count, -1).T
    x = c.rebind(b, c.cast(b, x, DType.F32), (x.type.shape[0], matrix.shape[0]))
    total = b.emit(MatMul(), x, table(b, matrix))
    offsets = np.array(ctx.floats("intercepts", ()), np.float32)
    if not len(offsets):
        return total
    ctx.require(len(offsets) == count, f"{len(offsets)} intercepts for {count} scores")
    return c.binary(b, "add", total, table(b, offsets))


@onnx_op("LinearRegressor", 1, domain=ML)
def linear_regressor(ctx: NodeContext) -> Value:
    x = rows(ctx, numbers(ctx, ctx.input(0)))
    targets, transform = ctx.int("targets", 1), ctx.string("post_transform", "NONE")
    ctx.refuse_unless(targets > 1 or transform == "NONE", f"the post_transform {transform} of a single target")
    return transformed(ctx.b, _linear(ctx, x, targets), transform)


@onnx_op("LinearClassifier", 1, domain=ML)
def linear_classifier(ctx: NodeContext) -> Sequence[Item]:
    """The label of the largest score, and the scores; a single score is that of the second of two classes."""
    b, x = ctx.b, rows(ctx, numbers(ctx, ctx.input(0)))
    classes, names = class_count(ctx, "classlabels_ints"), class_names(ctx, "classlabels_ints")
    transform = ctx.string("post_transform", "NONE")
    ctx.ignore("multi_class")  # says how the weights were found, not what they mean
    offsets, weights = len(ctx.floats("intercepts", ())), len(ctx.floats("coefficients"))
    single = classes == 2 and (offsets == 1 or (not offsets and weights == x.type.shape[1]))
    scores = _linear(ctx, x, 1 if single else classes)
    if not single:
        ctx.refuse_unless(classes > 1, "a single class")
        return [labels(ctx, best(b, scores), names), transformed(b, scores, transform)]
    ctx.refuse_unless(transform == "LOGISTIC", f"the post_transform {transform} of one score for two classes")
    both = two_classes(b, scores, transform, probability=False)
    return [labels(ctx, positive(b, scores, 0.0), names), both]
