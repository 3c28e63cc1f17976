"""TfIdfVectorizer on numbers: how often each n-gram of a pool occurs in each row."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fornaxc.importers.onnx.context import NodeContext, Refused
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.sampling import size_as
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Array, Value
from fornaxc.ir.ops import Gather, Iota, Pad
from fornaxc.ir.types import DType


@onnx_op("TfIdfVectorizer", 9)
def tf_idf_vectorizer(ctx: NodeContext) -> Value:
    """[columns] of a vector, [rows, columns] of a matrix: f32. The elements of an n-gram may lie up to max_skip_count apart."""
    b, x = ctx.b, ctx.input(0)
    ctx.refuse_unless(not ctx.has("pool_strings"), "n-grams of strings")
    ctx.require(x.type.rank in (1, 2), f"{x.type} is neither a vector nor a matrix")
    columns_of = np.array(ctx.ints("ngram_indexes"), np.int64)
    pools = _pools(ctx, len(columns_of))
    least, most, skips = (ctx.int(name) for name in ("min_gram_length", "max_gram_length", "max_skip_count"))
    ctx.require(1 <= least <= most and skips >= 0, f"n-grams of {least} to {most} elements with {skips} skips")
    weights = _column_weights(ctx, columns_of)
    rows = c.cast(b, x if x.type.rank == 2 else c.unsqueeze(b, x, (0,)), DType.I64)
    counts: list[Value] = []
    targets: list[Array] = []
    first = 0
    for length, grams in enumerate(pools, 1):
        if len(grams) and least <= length <= most:
            steps = range(1, skips + 2) if length > 1 else range(1, 2)  # nothing is skipped inside a single element
            counts.append(_occurrences(b, rows, grams, steps))
            targets.append(columns_of[first : first + len(grams)])
        first += len(grams)
    width = int(columns_of.max()) + 1 if len(columns_of) else 0
    if counts:
        y = _in_columns(b, c.concat(b, counts, 1), np.concatenate(targets), width)
    else:
        y = c.expand(b, c.scalar(b, 0, DType.F32), (rows.type.shape[0], width))
    if ctx.string("mode") == "IDF":
        y = c.with_scalar(b, "min", y, 1)
    if weights is not None:
        y = c.binary(b, "mul", y, b.literal(weights))
    return y if x.type.rank == 2 else c.reshape(b, y, (width,))


def _pools(ctx: NodeContext, count: int) -> list[Array]:
    """The n-grams of 1, 2, … elements: i64[n-grams, elements] each."""
    pool = np.array(ctx.ints("pool_int64s"), np.int64)
    starts = [*ctx.ints("ngram_counts"), len(pool)]
    ctx.require(starts[0] == 0 and starts == sorted(starts), f"ngram_counts {starts[:-1]} of {len(pool)} elements")
    found: list[Array] = []
    for length, (start, end) in enumerate(pairwise(starts), 1):
        ctx.require((end - start) % length == 0, f"{end - start} elements are no {length}-grams")
        found.append(pool[start:end].reshape(-1, length))
    total = sum(len(grams) for grams in found)
    ctx.require(total == count, f"{count} ngram_indexes for {total} n-grams")
    return found


def _column_weights(ctx: NodeContext, columns_of: Array) -> Array | None:
    """What each column is multiplied by, None where it is 1.

    The specification gives a weight to each n-gram of the pool, onnxruntime and onnx's evaluator to each column: they must agree.
    """
    mode, given = ctx.string("mode"), np.array(ctx.floats("weights", ()), np.float32)
    ctx.require(mode in ("TF", "IDF", "TFIDF"), f"no mode {mode!r}")
    ctx.require(bool((columns_of >= 0).all()), "a negative ngram_indexes")
    if mode == "TF" or not len(given):
        return None
    ctx.require(len(given) == len(columns_of), f"{len(given)} weights for {len(columns_of)} n-grams")
    width = int(columns_of.max()) + 1
    if width > len(given) or not np.array_equal(given[columns_of], given):
        raise Refused("weights in another order than the columns: the tools disagree")
    return given[:width]


def _occurrences(b: GraphBuilder, rows: Value, grams: Array, steps: range) -> Value:
    """How often each n-gram is found in each row with its elements `step` apart, over all steps: f32[rows, n-grams]."""
    length, size = grams.shape[1], rows.type.shape[1]
    place = b.emit(Iota((size,), 0, DType.I64))
    total: Value | None = None
    for step in steps:
        reach = (length - 1) * step
        padded = b.emit(Pad((0, 0), (0, reach), "constant"), rows, c.scalar(b, 0, DType.I64)) if reach else rows
        fits = c.compare(b, "lt", c.with_scalar(b, "add", place, reach), size_as(b, size, DType.I64))
        hits = c.unsqueeze(b, fits, (0, 2))
        for element in range(length):
            shifted = c.unsqueeze(b, c.slice_axis(b, padded, 1, element * step, size), (2,))
            hits = c.binary(
                b, "and", hits, c.compare(b, "eq", shifted, b.literal(np.ascontiguousarray(grams[:, element])))
            )
        found = c.reduce(b, "sum", c.cast(b, hits, DType.F32), (1,))
        found = c.reshape(b, found, (rows.type.shape[0], len(grams)))
        total = found if total is None else c.binary(b, "add", total, found)
    assert total is not None
    return total


def _in_columns(b: GraphBuilder, counts: Value, targets: Array, width: int) -> Value:
    """Count i in column targets[i] of `width`; those that share a column are added, the other columns are 0."""
    rows, none = counts.type.shape[0], len(targets)
    counts = c.concat(b, [counts, c.expand(b, c.scalar(b, 0, DType.F32), (rows, 1))], 1)
    left = list(range(none))
    total: Value | None = None
    while left:
        source = np.full(width, none, np.int64)
        later = []
        for i in left:
            if source[targets[i]] == none:
                source[targets[i]] = i
            else:
                later.append(i)
        part = b.emit(Gather(1), counts, b.literal(source))
        total, left = part if total is None else c.binary(b, "add", total, part), later
    assert total is not None
    return total
