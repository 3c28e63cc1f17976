"""Support vector machines of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.ops.ml_scores import (
    ML,
    best,
    class_count,
    class_names,
    labels,
    rows,
    transformed,
    two_classes,
)
from fornaxc.importers.onnx.registry import Item, onnx_op
from fornaxc.importers.onnx.trees import table
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Array, Value
from fornaxc.ir.ops import MatMul, While
from fornaxc.ir.types import DType, TensorType

COUPLING_ROUNDS = 100
SMALLEST_CHANCE = 1e-7


def _kernels(ctx: NodeContext, x: Value, vectors: Array) -> Value:
    """The kernel of each sample with each vector: [samples, vectors]."""
    b, kind = ctx.b, ctx.string("kernel_type", "LINEAR")
    params = ctx.floats("kernel_params", ()) or (0.0, 0.0, 0.0)
    ctx.require(len(params) == 3, f"{len(params)} kernel_params, not gamma, coef0 and degree")
    gamma, offset, degree = params
    x = c.rebind(b, x, (x.type.shape[0], vectors.shape[1]))
    dots = b.emit(MatMul(), x, table(b, vectors.T))
    if kind == "LINEAR":
        return dots
    if kind == "RBF":
        apart = c.binary(b, "sub", c.unsqueeze(b, x, (1,)), c.unsqueeze(b, table(b, vectors), (0,)))
        squares = c.reduce(b, "sum", c.binary(b, "mul", apart, apart), (2,))
        return c.unary(b, "exp", c.with_scalar(b, "mul", c.reshape(b, squares, squares.type.shape[:2]), -gamma))
    line = c.with_scalar(b, "add", c.with_scalar(b, "mul", dots, gamma), offset)
    if kind == "POLY":
        return c.with_scalar(b, "pow", line, degree)
    ctx.refuse_unless(kind == "SIGMOID", f"the kernel {kind}")
    return c.unary(b, "tanh", line)


def _samples(ctx: NodeContext) -> Value:
    return rows(ctx, c.cast(ctx.b, ctx.input(0), DType.F32))


def _floats(ctx: NodeContext, name: str) -> Array:
    return np.array(ctx.floats(name, ()), np.float32)


def _vectors(ctx: NodeContext, x: Value, count: int) -> Array:
    """The support vectors: [count, features]."""
    numbers, features = _floats(ctx, "support_vectors"), x.type.shape[1]
    fits = (
        count > 0 and len(numbers) % count == 0 and (not isinstance(features, int) or len(numbers) == count * features)
    )
    ctx.require(fits, f"{len(numbers)} numbers for {count} support vectors of {features} features")
    return numbers.reshape(count, -1)


@onnx_op("SVMRegressor", 1, domain=ML)
def svm_regressor(ctx: NodeContext) -> Value:
    """The weighted kernels of the support vectors plus rho: [samples, 1]; its sign for a one-class machine."""
    b, x = ctx.b, _samples(ctx)
    count, weights, rho = ctx.int("n_supports", 0), _floats(ctx, "coefficients"), _floats(ctx, "rho")
    transform = ctx.string("post_transform", "NONE")
    ctx.refuse_unless(transform == "NONE", f"the post_transform {transform}")
    ctx.require(len(rho) == 1, f"{len(rho)} entries of rho")
    if count:
        ctx.require(len(weights) == count, f"{len(weights)} coefficients for {count} support vectors")
        kernels = _kernels(ctx, x, _vectors(ctx, x, count))
    else:
        ctx.refuse_unless(ctx.string("kernel_type", "LINEAR") == "LINEAR", "a kernel without support vectors")
        ctx.ignore("support_vectors", "kernel_params")
        features = x.type.shape[1]
        ctx.require(
            not isinstance(features, int) or len(weights) == features, f"{len(weights)} coefficients for {x.type}"
        )
        kernels = c.rebind(b, x, (x.type.shape[0], len(weights)))
    total = b.emit(MatMul(), kernels, table(b, weights.reshape(-1, 1)))
    total = c.with_scalar(b, "add", total, float(rho[0]))
    if not ctx.int("one_class", 0):
        return total
    inside = c.compare(b, "gt", total, c.scalar(b, 0, DType.F32))
    return c.select(b, inside, c.scalar(b, 1, DType.F32), c.scalar(b, -1, DType.F32))


@onnx_op("SVMClassifier", 1, domain=ML)
def svm_classifier(ctx: NodeContext) -> Sequence[Item]:
    """One machine for each two classes: the label of most votes (the first of equal ones), and the chances of the classes
    where prob_a and prob_b are given, else the scores of the pairs."""
    b, x = ctx.b, _samples(ctx)
    classes, names = class_count(ctx, "classlabels_ints"), class_names(ctx, "classlabels_ints")
    each = np.array(ctx.ints("vectors_per_class", ()), np.int64)
    transform = ctx.string("post_transform", "NONE")
    ctx.refuse_unless(len(each) > 0, "a machine without support vectors")
    ctx.require(len(each) == classes and classes > 1, f"vectors_per_class of {len(each)} of {classes} classes")
    ctx.require(bool((each >= 0).all()), f"vectors_per_class {each.tolist()}")
    vectors, weights, rho = _vectors(ctx, x, int(each.sum())), _floats(ctx, "coefficients"), _floats(ctx, "rho")
    wanted = (classes - 1) * len(vectors)
    ctx.require(len(weights) == wanted, f"{len(weights)} coefficients, not {wanted}")
    ctx.refuse_unless(bool((weights < 0).any()), "weights that are all positive")
    pairs = list(combinations(range(classes), 2))
    ctx.require(len(rho) == len(pairs), f"{len(rho)} entries of rho for {len(pairs)} pairs of classes")
    machines = _machines(weights.reshape(classes - 1, -1), each, pairs)
    scores = b.emit(MatMul(), _kernels(ctx, x, vectors), table(b, machines))
    scores = c.binary(b, "add", scores, table(b, rho))
    label = labels(ctx, best(b, _votes(b, scores, pairs, classes)), names)
    first, second = _floats(ctx, "prob_a"), _floats(ctx, "prob_b")
    if len(first):
        ctx.require(len(first) == len(second) == len(pairs), "prob_a and prob_b do not fit the pairs of classes")
        chances = _coupled(b, _pair_chances(b, scores, first, second), pairs, classes)
        return [label, transformed(b, chances, transform)]
    if classes > 2:
        return [label, transformed(b, scores, transform)]
    return [label, two_classes(b, scores, transform, probability=False)]


def _machines(weights: Array, each: Array, pairs: Sequence[tuple[int, int]]) -> Array:
    """What each support vector weighs in the score of each pair: [vectors, pairs]."""
    start = np.concatenate([[0], np.cumsum(each)])
    result = np.zeros((weights.shape[1], len(pairs)), np.float32)
    for column, (one, other) in enumerate(pairs):
        ours, theirs = (slice(start[k], start[k + 1]) for k in (one, other))
        result[ours, column] = weights[other - 1, ours]
        result[theirs, column] = weights[one, theirs]
    return result


def _votes(b: GraphBuilder, scores: Value, pairs: Sequence[tuple[int, int]], classes: int) -> Value:
    """How many pairs each class wins: [samples, classes]. A positive score is a vote for the first of the pair."""
    gains, losses = np.zeros((2, len(pairs), classes), np.float32)
    for row, (one, other) in enumerate(pairs):
        gains[row, one], losses[row, other] = 1, 1
    won = c.cast(b, c.compare(b, "gt", scores, c.scalar(b, 0, DType.F32)), DType.F32)
    return c.binary(b, "add", b.emit(MatMul(), won, b.literal(gains - losses)), b.literal(losses.sum(axis=0)))


def _pair_chances(b: GraphBuilder, scores: Value, first: Array, second: Array) -> Value:
    """The chance of the first of each pair, by Platt's scaling, away from 0 and 1."""
    line = c.binary(b, "add", c.binary(b, "mul", scores, table(b, first)), table(b, second))
    chance = c.unary(b, "sigmoid", c.unary(b, "neg", line))
    return c.with_scalar(b, "min", c.with_scalar(b, "max", chance, SMALLEST_CHANCE), 1 - SMALLEST_CHANCE)


def _coupled(b: GraphBuilder, chances: Value, pairs: Sequence[tuple[int, int]], classes: int) -> Value:
    """The chances of the classes from those of the pairs (Wu, Lin and Weng 2004, second method), as exact as its stopping rule.

    The rule is each sample's own: its chances stay once no class is off by more than 0.005 / classes.
    """
    samples = chances.type.shape[0]
    columns: dict[tuple[int, int], Value] = {}
    for column, (one, other) in enumerate(pairs):
        columns[one, other] = c.slice_axis(b, chances, 1, column, 1)
        columns[other, one] = c.with_scalar(b, "add", c.unary(b, "neg", columns[one, other]), 1)
    lines = []
    for row in range(classes):
        entries = []
        for column in range(classes):
            if row != column:
                product = c.binary(b, "mul", columns[column, row], columns[row, column])
                entries.append(c.unary(b, "neg", product))
                continue
            others = [columns[k, row] for k in range(classes) if k != row]
            total = c.binary(b, "mul", others[0], others[0])
            for value in others[1:]:
                total = c.binary(b, "add", total, c.binary(b, "mul", value, value))
            entries.append(total)
        lines.append(c.unsqueeze(b, c.concat(b, entries, 1), (1,)))
    matrix = c.concat(b, lines, 1)
    start = c.full(b, 1 / classes, TensorType(DType.F32, (samples, classes)))
    operands = [c.scalar(b, 0, DType.I64), c.scalar(b, True, DType.BOOL), matrix, start]
    test = GraphBuilder(b)
    count, going, *_ = (test.input(v.type) for v in operands)
    below = c.compare(test, "lt", count, c.scalar(test, COUPLING_ROUNDS, DType.I64))
    body = GraphBuilder(b)
    count, _, held, now = (body.input(v.type) for v in operands)
    going_on, after = _round(body, held, now, classes)
    results = [c.with_scalar(body, "add", count, 1), going_on, held, after]
    regions = (test.finish([c.binary(test, "and", below, going)]), body.finish(results))
    return b.emit_all(While(), *operands, regions=regions)[3]


def _round(b: GraphBuilder, matrix: Value, now: Value, classes: int) -> tuple[Value, Value]:
    """One round over the classes: whether any sample went on, and the chances after it."""
    samples = now.type.shape[0]
    gradient = c.reshape(b, b.emit(MatMul(), matrix, c.unsqueeze(b, now, (2,))), (samples, classes))
    value = c.reduce(b, "sum", c.binary(b, "mul", now, gradient), (1,))
    error = c.reduce(b, "max", c.unary(b, "abs", c.binary(b, "sub", gradient, value)), (1,))
    active = c.compare(b, "ge", error, c.scalar(b, 0.005 / classes, DType.F32))
    after = now
    for place in range(classes):
        row = c.reshape(b, c.slice_axis(b, matrix, 1, place, 1), (samples, classes))
        own, slope = c.slice_axis(b, row, 1, place, 1), c.slice_axis(b, gradient, 1, place, 1)
        step = c.binary(b, "div", c.binary(b, "sub", value, slope), own)
        whole = c.with_scalar(b, "add", step, 1)
        grown = c.binary(b, "add", c.binary(b, "mul", step, own), c.with_scalar(b, "mul", slope, 2))
        value = c.binary(b, "add", value, c.binary(b, "mul", step, grown))
        value = c.binary(b, "div", c.binary(b, "div", value, whole), whole)
        ones = np.zeros((1, classes), np.float32)
        ones[0, place] = 1
        after = c.binary(b, "add", after, c.binary(b, "mul", step, b.literal(ones)))
        after = c.binary(b, "div", after, whole)
        gradient = c.binary(b, "div", c.binary(b, "add", gradient, c.binary(b, "mul", step, row)), whole)
    going = c.reshape(b, c.reduce(b, "max", active, (0, 1)), ())
    return going, c.select(b, active, after, now)
