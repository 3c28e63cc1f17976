"""Ensembles of decision trees in the IR: all trees at once walk down one table of nodes, level by level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fornaxc.importers.onnx.context import Invalid
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Array, Value
from fornaxc.ir.ops import Gather, GatherElements, MatMul, While
from fornaxc.ir.types import DType, TensorType, dtype_of

UNROLLED_LEVELS = 8
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_COMPARISONS = ("le", "lt", "ge", "gt", "eq", "ne")


@dataclass(frozen=True, slots=True)
class Ensemble:
    """Trees as arrays. Node i compares feature[i] with split[i] as mode[i] (of `MODES`) says and leads to yes[i] or no[i].

    Nodes 0 to len(leaves)-1 are leaves, which lead to themselves; leaves[i] holds a weight for each target, NaN for none.
    `missing[i]`: NaN leads to yes[i]. `roots`: where each tree starts; `depth`: the longest way to a leaf.
    """

    feature: Array
    split: Array
    mode: Array
    yes: Array
    no: Array
    missing: Array
    roots: Array
    leaves: Array
    depth: int


def arranged(
    feature: Array, split: Array, mode: Array, yes: Array, no: Array, missing: Array, roots: Array, leaves: Array
) -> Ensemble:
    """An `Ensemble` from nodes in any order: a leaf is a node whose mode is -1, with its weights in its row of `leaves`."""
    is_leaf = mode < 0
    place = np.empty(len(mode), np.int64)
    count = int(is_leaf.sum())
    place[is_leaf] = np.arange(count)
    place[~is_leaf] = np.arange(count, len(mode))
    order = np.argsort(place)
    own = np.arange(len(mode))
    yes, no = np.where(is_leaf, own, yes), np.where(is_leaf, own, no)
    inner = ~is_leaf[order]
    return Ensemble(
        np.where(inner, feature[order], 0),
        np.where(inner, split[order], 0),
        np.where(inner, mode[order], mode[order].max(initial=0)),
        place[yes[order]],
        place[no[order]],
        np.where(inner, missing[order], False),
        place[roots],
        leaves[order[:count]],
        _depth(yes, no, is_leaf, roots),
    )


def _depth(yes: Array, no: Array, is_leaf: Array, roots: Array) -> int:
    level, depth = np.unique(roots), 0
    while True:
        level = level[~is_leaf[level]]
        if not len(level):
            return depth
        depth += 1
        if depth > len(is_leaf):
            raise Invalid("the nodes of a tree lead in a circle")
        level = np.unique(np.concatenate([yes[level], no[level]]))


def leaf_of(b: GraphBuilder, x: Value, trees: Ensemble) -> Value:
    """The leaf that each sample of `x` [samples, features] reaches in each tree: i64 [samples, trees]."""
    tables = _tables(b, trees, x.type.dtype)
    samples = x.type.shape[0]
    at = c.expand(b, table(b, trees.roots), (samples, len(trees.roots)))
    if trees.depth <= UNROLLED_LEVELS:
        for _ in range(trees.depth):
            at = _next(b, x, at, tables)
        return at
    start = c.scalar(b, 0, DType.I64)
    test = GraphBuilder(b)
    level = test.input(start.type)
    test.input(at.type)
    going = c.compare(test, "lt", level, c.scalar(test, trees.depth, DType.I64))
    body = GraphBuilder(b)
    level, here = body.input(start.type), body.input(at.type)
    results = [c.with_scalar(body, "add", level, 1), _next(body, x, here, tables)]
    return b.emit_all(While(), start, at, regions=(test.finish([going]), body.finish(results)))[1]


@dataclass(frozen=True, slots=True)
class _Tables:
    feature: Value
    split: Value
    yes: Value
    no: Value
    modes: tuple[int, ...]
    mode: Value | None
    missing: Value | None


def table(b: GraphBuilder, array: Array) -> Value:
    """A constant that stays outside the program: another forest of the same shape is the same program."""
    array = np.ascontiguousarray(array)
    return b.weight(TensorType(dtype_of(array.dtype), array.shape), lambda: array)


def _tables(b: GraphBuilder, trees: Ensemble, dtype: DType) -> _Tables:
    modes = tuple(int(m) for m in np.unique(trees.mode))
    return _Tables(
        table(b, trees.feature.astype(np.int64)),
        table(b, trees.split.astype(dtype.numpy)),
        table(b, trees.yes),
        table(b, trees.no),
        modes,
        table(b, trees.mode.astype(np.int64)) if len(modes) > 1 else None,
        table(b, trees.missing) if trees.missing.any() else None,
    )


def _next(b: GraphBuilder, x: Value, at: Value, tables: _Tables) -> Value:
    """One step down from the nodes `at` [samples, trees]."""
    value = b.emit(GatherElements(1), x, b.emit(Gather(0), tables.feature, at))
    split = b.emit(Gather(0), tables.split, at)
    holds = c.compare(b, _COMPARISONS[tables.modes[0]], value, split)
    if tables.mode is not None:
        mode = b.emit(Gather(0), tables.mode, at)
        for other in tables.modes[1:]:
            chosen = c.compare(b, "eq", mode, c.scalar(b, other, DType.I64))
            holds = c.select(b, chosen, c.compare(b, _COMPARISONS[other], value, split), holds)
    if tables.missing is not None:
        tracked = c.binary(b, "and", c.unary(b, "is_nan", value), b.emit(Gather(0), tables.missing, at))
        holds = c.binary(b, "or", holds, tracked)
    return c.select(b, holds, b.emit(Gather(0), tables.yes, at), b.emit(Gather(0), tables.no, at))


def scores(b: GraphBuilder, at: Value, trees: Ensemble, aggregate: str, dtype: DType) -> Value:
    """The weights of the leaves `at` [samples, trees] put together for each target: [samples, targets]; 0 where there are none."""
    targets = trees.leaves.shape[1]
    present = ~np.isnan(trees.leaves)
    only = _own_targets(trees, present) if aggregate in ("SUM", "AVERAGE") else None
    if only is not None:
        values = np.where(present, trees.leaves, 0).sum(axis=1)
        taken = b.emit(Gather(0), table(b, values.astype(dtype.numpy)), at)
        if targets == 1:
            total = c.reduce(b, "sum", taken, (1,))
        else:
            total = b.emit(MatMul(), taken, table(b, np.eye(targets)[only].astype(dtype.numpy)))
    else:
        fill = {"MIN": np.inf, "MAX": -np.inf}.get(aggregate, 0.0)
        weights = table(b, np.where(present, trees.leaves, fill).astype(dtype.numpy))
        each = b.emit(Gather(0), weights, at)
        fn = {"MIN": "min", "MAX": "max"}.get(aggregate, "sum")
        total = c.reshape(b, c.reduce(b, fn, each, (1,)), (each.type.shape[0], targets))
        if fill and not present.all():
            nothing = c.compare(b, "eq", total, c.scalar(b, fill, dtype))
            total = c.select(b, nothing, c.scalar(b, 0, dtype), total)
    return c.with_scalar(b, "div", total, len(trees.roots)) if aggregate == "AVERAGE" else total


def _own_targets(trees: Ensemble, present: Array) -> Array | None:
    """The one target of each tree, where each has one; None otherwise."""
    if trees.leaves.shape[1] == 1:
        return np.zeros(len(trees.roots), np.int64)
    if (present.sum(axis=1) > 1).any():
        return None
    target = np.where(present.any(axis=1), present.argmax(axis=1), -1)
    low = np.full(len(trees.feature), np.iinfo(np.int64).max)
    high = np.full(len(trees.feature), -1)
    low[: len(target)], high[: len(target)] = np.where(target < 0, low[: len(target)], target), target
    for _ in range(trees.depth):
        low = np.minimum(low, np.minimum(low[trees.yes], low[trees.no]))
        high = np.maximum(high, np.maximum(high[trees.yes], high[trees.no]))
    low, high = low[trees.roots], high[trees.roots]
    return np.maximum(high, 0) if ((low == high) | (high < 0)).all() else None
