"""Tree ensembles of ai.onnx.ml: what their lists of nodes mean, and what becomes of the scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.ops.ml_scores import (
    ML,
    TRANSFORMS,
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
from fornaxc.importers.onnx.trees import AGGREGATES, MODES, Ensemble, arranged, leaf_of, scores, table
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Array, Value
from fornaxc.ir.types import DType

# --- versions 1 and 3: one list of nodes, named by tree and number


def _array(ctx: NodeContext, name: str) -> Array:
    """A list of floats, or the tensor that stands for it from version 3 on."""
    if ctx.has(f"{name}_as_tensor"):
        ctx.require(not ctx.has(name), f"{name} is given twice")
        return ctx.tensor(f"{name}_as_tensor").load().reshape(-1)
    return np.array(ctx.floats(name, ()), np.float32)


def _integers(ctx: NodeContext, name: str) -> Array:
    return np.array(ctx.ints(name, ()), np.int64)


def _each(ctx: NodeContext, values: Array, count: int) -> Array:
    """`values`, of which there must be one for each node."""
    ctx.require(len(values) == count, "the lists of nodes have different lengths")
    return values


def _tracked(ctx: NodeContext, count: int) -> Array:
    """Whether NaN takes the true branch of each node."""
    tracked = _integers(ctx, "nodes_missing_value_tracks_true")
    return _each(ctx, tracked != 0, count) if len(tracked) else np.zeros(count, np.bool_)


def listed(ctx: NodeContext, what: str, targets: int) -> Ensemble:
    """The ensemble of TreeEnsembleClassifier (`what` is "class") or TreeEnsembleRegressor ("target")."""
    ctx.ignore("nodes_hitrates", "nodes_hitrates_as_tensor")
    tree, number = _integers(ctx, "nodes_treeids"), _integers(ctx, "nodes_nodeids")
    names = ctx.strings("nodes_modes", ())
    count = len(names)
    ctx.require(count > 0 and len(tree) == len(number) == count, "the lists of nodes have different lengths")
    kinds = {name: i for i, name in enumerate(MODES)} | {"LEAF": -1}
    for name in sorted(set(names)):
        ctx.refuse_unless(name in kinds, f"nodes of the mode {name}")
    mode = np.array([kinds[name] for name in names], np.int64)
    place = {key: i for i, key in enumerate(zip(tree.tolist(), number.tolist(), strict=True))}
    ctx.require(len(place) == count, "two nodes have one number")

    def found(trees: Array, numbers: Array, what: str) -> Array:
        places = [place.get(key, -1) for key in zip(trees.tolist(), numbers.tolist(), strict=True)]
        ctx.require(min(places, default=0) >= 0, f"{what} lead to a node that does not exist")
        return np.array(places, np.int64)

    inner = mode >= 0
    yes, no = np.zeros(count, np.int64), np.zeros(count, np.int64)
    to_yes, to_no = (_each(ctx, _integers(ctx, f"nodes_{side}nodeids"), count) for side in ("true", "false"))
    yes[inner] = found(tree[inner], to_yes[inner], "true branches")
    no[inner] = found(tree[inner], to_no[inner], "false branches")
    missing = _tracked(ctx, count)
    first = np.unique(tree, return_index=True)[1]
    weights, target = _array(ctx, f"{what}_weights"), _integers(ctx, f"{what}_ids")
    trees, numbers = _integers(ctx, f"{what}_treeids"), _integers(ctx, f"{what}_nodeids")
    ctx.require(
        len(weights) == len(target) == len(trees) == len(numbers), "the lists of weights have different lengths"
    )
    at = found(trees, numbers, "weights")
    ctx.require(targets > 0, f"{targets} targets")
    ctx.require(bool(((target >= 0) & (target < targets)).all()), f"weights of a target beyond {targets}")
    leaves = np.full((count, targets), np.nan, weights.dtype)
    for row, column, weight in zip(at.tolist(), target.tolist(), weights, strict=True):
        leaves[row, column] = weight if np.isnan(leaves[row, column]) else leaves[row, column] + weight
    roots = _roots(ctx, tree, yes, no, inner, first)
    features = _each(ctx, _integers(ctx, "nodes_featureids"), count)
    splits = _each(ctx, _array(ctx, "nodes_values"), count)
    return arranged(features, splits, mode, yes, no, missing, roots, leaves)


def _roots(ctx: NodeContext, tree: Array, yes: Array, no: Array, inner: Array, first: Array) -> Array:
    """The first node of each tree, to which nothing may lead."""
    led = np.zeros(len(tree), np.bool_)
    led[yes[inner]] = True
    led[no[inner]] = True
    ctx.refuse_unless(not led[first].any(), "a tree whose first node is not its root")
    return first


def _base(ctx: NodeContext, b: GraphBuilder, dtype: DType) -> tuple[Value | None, int]:
    values = _array(ctx, "base_values")
    return (table(b, values.astype(dtype.numpy)) if len(values) else None), len(values)


def _features(ctx: NodeContext, trees: Ensemble, x: Value) -> Value:
    """The samples in the type of the splits; they must have every feature that a tree looks at."""
    width, last = x.type.shape[1], int(trees.feature.max(initial=0))
    ctx.require(int(trees.feature.min(initial=0)) >= 0, "a tree looks at a feature below 0")
    if isinstance(width, int):
        ctx.require(width > last, f"feature {last} of samples with {width}")
    else:
        ctx.b.require(width, ">=", last + 1, "a tree looks at a feature")
    return x


@onnx_op("TreeEnsembleRegressor", 1, 3, 5, domain=ML)
def tree_ensemble_regressor(ctx: NodeContext) -> Value:
    b, x = ctx.b, rows(ctx, numbers(ctx, ctx.input(0)))
    targets, aggregate = ctx.int("n_targets", 1), ctx.string("aggregate_function", "SUM")
    transform = ctx.string("post_transform", "NONE")
    ctx.refuse_unless(aggregate in AGGREGATES, f"the aggregate_function {aggregate}")
    ctx.refuse_unless(
        targets > 1 or transform in ("NONE", "PROBIT"), f"the post_transform {transform} of a single target"
    )
    trees = listed(ctx, "target", targets)
    at = leaf_of(b, _features(ctx, trees, x), trees)
    total = scores(b, at, trees, aggregate, x.type.dtype)
    base, count = _base(ctx, b, x.type.dtype)
    if base is not None:
        ctx.require(count == targets, f"{count} base_values for {targets} targets")
        total = c.binary(b, "add", total, base)
    return c.cast(b, transformed(b, total, transform), DType.F32)


@onnx_op("TreeEnsembleClassifier", 1, 3, 5, domain=ML)
def tree_ensemble_classifier(ctx: NodeContext) -> Sequence[Item]:
    """The label of the largest score, and the scores. Where all weights are for one class of two, the other's follow from it."""
    b, x = ctx.b, rows(ctx, numbers(ctx, ctx.input(0)))
    classes, names = class_count(ctx, "classlabels_int64s"), class_names(ctx, "classlabels_int64s")
    ctx.require(classes > 0, "no class labels")
    transform = ctx.string("post_transform", "NONE")
    held = set(ctx.ints("class_ids", ()))
    trees = listed(ctx, "class", max(classes, 2))
    at = leaf_of(b, _features(ctx, trees, x), trees)
    total = scores(b, at, trees, "SUM", x.type.dtype)
    base, count = _base(ctx, b, x.type.dtype)
    ctx.refuse_unless(classes > 1, "a single class")
    if classes == 2 and len(held) == 1:
        (own,) = held
        ctx.refuse_unless(count <= 1, "two base_values beside the scores of one class")
        ctx.refuse_unless(own == 0, "weights of the second of two classes alone")
        score = c.slice_axis(b, total, 1, 0, 1)
        score = score if base is None else c.binary(b, "add", score, base)
        whole = bool((np.nan_to_num(trees.leaves, nan=0.0) >= 0).all())
        place = positive(b, score, 0.5 if whole else 0.0)
        total = two_classes(b, score, transform, probability=whole)
    else:
        if base is not None:
            ctx.refuse_unless(count == classes, f"{count} base_values for {classes} classes")
            total = c.binary(b, "add", total, base)
        place = best(b, total)
        total = transformed(b, total, transform)
    return [labels(ctx, place, names), c.cast(b, total, DType.F32)]


# --- TreeEnsemble: inner nodes and leaves in lists of their own


@onnx_op("TreeEnsemble", 5, domain=ML)
def tree_ensemble(ctx: NodeContext) -> Value:
    b, x = ctx.b, rows(ctx, ctx.input(0))
    targets, aggregate, transform = (
        ctx.int(name, default) for name, default in (("n_targets", 1), ("aggregate_function", 1), ("post_transform", 0))
    )
    ctx.require(0 <= aggregate < len(AGGREGATES), f"no aggregate_function {aggregate}")
    ctx.require(0 <= transform < len(TRANSFORMS), f"no post_transform {transform}")
    trees = _split_lists(ctx, targets)
    at = leaf_of(b, _features(ctx, trees, x), trees)
    total = scores(b, at, trees, AGGREGATES[aggregate], x.type.dtype)
    return transformed(b, total, TRANSFORMS[transform])


def _split_lists(ctx: NodeContext, targets: int) -> Ensemble:
    ctx.ignore("nodes_hitrates")
    feature, split = _integers(ctx, "nodes_featureids"), ctx.tensor("nodes_splits").load().reshape(-1)
    mode = ctx.tensor("nodes_modes").load().reshape(-1).astype(np.int64)
    weights = ctx.tensor("leaf_weights").load().reshape(-1)
    target = _integers(ctx, "leaf_targetids")
    count, ends = len(mode), len(weights)
    ctx.require(len(feature) == len(split) == count and len(target) == ends, "lists of different lengths")
    known = bool(((mode >= 0) & (mode <= len(MODES))).all())
    ctx.require(known, f"a node of a mode that is not 0 to {len(MODES)}")
    missing = _tracked(ctx, count)
    branches = []
    for side in ("true", "false"):
        to, leaf = _integers(ctx, f"nodes_{side}nodeids"), _integers(ctx, f"nodes_{side}leafs") != 0
        ctx.require(len(to) == len(leaf) == count, "lists of different lengths")
        ctx.require(bool(((to >= 0) & (to < np.where(leaf, ends, count))).all()), f"a {side} branch to no node")
        branches.append(np.where(leaf, to + count, to))
    ctx.require(targets > 0, f"{targets} targets")
    leaves = np.full((count + ends, targets), np.nan, weights.dtype)
    ctx.require(bool(((target >= 0) & (target < targets)).all()), f"weights of a target beyond {targets}")
    leaves[count + np.arange(ends), target] = weights
    extra = ends  # leaves take part as nodes without a condition
    roots = _integers(ctx, "tree_roots")
    ctx.require(len(roots) > 0, "no tree_roots")
    ctx.require(bool(((roots >= 0) & (roots < count)).all()), f"a root that is none of the {count} nodes")
    nodes = [
        np.concatenate([a, np.full(extra, fill, a.dtype)])
        for a, fill in ((feature, 0), (split, 0), (mode, -1), (branches[0], 0), (branches[1], 0), (missing, False))
    ]
    if (mode == len(MODES)).any():
        nodes, leaves = _without_members(ctx, nodes, leaves, count)
    return arranged(nodes[0], nodes[1], nodes[2], nodes[3], nodes[4], nodes[5], roots, leaves)


def _without_members(ctx: NodeContext, nodes: list[Array], leaves: Array, count: int) -> tuple[list[Array], Array]:
    """Each test for a set as a chain of tests for its members, the first in place of the node. NaN ends a set in the list of members."""
    ctx.require(ctx.has("membership_values"), "a test for a set without membership_values")
    members = ctx.tensor("membership_values").load().reshape(-1)
    sets = np.split(members, np.flatnonzero(np.isnan(members)) + 1)
    sets = [s[~np.isnan(s)] for s in sets]
    tests = np.flatnonzero(nodes[2][:count] == len(MODES)).tolist()
    ctx.require(len(sets) >= len(tests), f"{len(sets)} sets of members for {len(tests)} tests")
    added: list[list[float]] = [[] for _ in nodes]
    feature, split, mode, yes, no, missing = (a.copy() for a in nodes)
    total = len(mode)
    for at, values in zip(tests, sets, strict=False):
        ctx.require(len(values) > 0, "a set without members")
        mode[at], split[at] = MODES.index("BRANCH_EQ"), values[0]
        last = no[at]
        for step, value in enumerate(values[1:].tolist()):
            new = total + len(added[0])
            if step == 0:
                no[at] = new
            else:
                added[4][-1] = new
            for column, item in zip(added, (feature[at], value, mode[at], yes[at], last, missing[at]), strict=True):
                column.append(item)
    found = (feature, split, mode, yes, no, missing)
    longer = [np.concatenate([a, np.array(more, a.dtype)]) for a, more in zip(found, added, strict=True)]
    rows_added = np.full((len(added[0]), leaves.shape[1]), np.nan, leaves.dtype)
    return longer, np.concatenate([leaves, rows_added])
