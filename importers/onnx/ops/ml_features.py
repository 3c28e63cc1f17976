"""Features of ai.onnx.ml on numbers: scaling, encoding, selecting. What holds strings or maps is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.ops.gather import axis_size, wrapped
from fornaxc.importers.onnx.ops.ml_scores import ML, rows
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Array, Value
from fornaxc.ir.ops import Gather
from fornaxc.ir.ops.elementwise import integer_range
from fornaxc.ir.types import DType


@onnx_op("ArrayFeatureExtractor", 1, domain=ML)
def array_feature_extractor(ctx: NodeContext) -> Value:
    """Elements of the last axis; a vector is one row."""
    b, x, index = ctx.b, ctx.input(0), ctx.input(1)
    x = rows(ctx, x) if x.type.rank == 1 else x
    index = c.reshape(b, index, (index.type.elements,))
    axis = x.type.rank - 1
    return b.emit(Gather(axis), x, wrapped(ctx, index, axis_size(b, x.type.shape[axis])))


@onnx_op("Binarizer", 1, domain=ML)
def binarizer(ctx: NodeContext) -> Value:
    """1 above the threshold, else 0, in the type of the input."""
    b, x = ctx.b, ctx.input(0)
    threshold = ctx.float("threshold", 0.0)
    if not x.type.dtype.is_float:
        low, high = integer_range(x.type.dtype)
        fits = threshold.is_integer() and low <= threshold <= high
        ctx.refuse_unless(fits, f"the threshold {threshold} of {x.type.dtype}")
    above = c.compare(b, "gt", x, c.scalar(b, threshold, x.type.dtype))
    return c.cast(b, above, x.type.dtype)


def _per_column(ctx: NodeContext, x: Value, values: Sequence[float], dtype: DType) -> Value:
    """One number for all columns of `x`, or one for each."""
    columns = x.type.shape[-1] if x.type.rank else 1
    if len(values) == 1:
        return c.scalar(ctx.b, values[0], dtype)
    ctx.require(columns == len(values) or not isinstance(columns, int), f"{len(values)} numbers for {x.type}")
    return ctx.b.literal(np.array(values).astype(dtype.numpy))


@onnx_op("Scaler", 1, domain=ML)
def scaler(ctx: NodeContext) -> Value:
    """(x - offset) * scale, in f32."""
    b, x = ctx.b, c.cast(ctx.b, ctx.input(0), DType.F32)
    offset, scale = (_per_column(ctx, x, ctx.floats(name), DType.F32) for name in ("offset", "scale"))
    return c.binary(b, "mul", c.binary(b, "sub", x, offset), scale)


@onnx_op("Normalizer", 1, domain=ML)
def normalizer(ctx: NodeContext) -> Value:
    """Each row over its largest element, the sum of its magnitudes, or its length; a row of zeros stays."""
    b, norm = ctx.b, ctx.string("norm", "MAX")
    shape = ctx.input(0).type.shape
    x = rows(ctx, c.cast(b, ctx.input(0), DType.F32))
    ctx.refuse_unless(norm in ("MAX", "L1", "L2"), f"the norm {norm}")
    if norm == "MAX":
        size = c.reduce(b, "max", x, (1,))
    elif norm == "L1":
        size = c.reduce(b, "sum", c.unary(b, "abs", x), (1,))
    else:
        size = c.unary(b, "sqrt", c.reduce(b, "sum", c.binary(b, "mul", x, x), (1,)))
    nothing = c.compare(b, "eq", size, c.scalar(b, 0, DType.F32))
    result = c.binary(b, "div", x, c.select(b, nothing, c.scalar(b, 1, DType.F32), size))
    return c.reshape(b, result, shape)


@onnx_op("Imputer", 1, domain=ML)
def imputer(ctx: NodeContext) -> Value:
    """Elements that equal the replaced value (NaN is itself) replaced, for all columns alike or for each."""
    b, x = ctx.b, ctx.input(0)
    if x.type.dtype.is_float:
        ctx.ignore("replaced_value_int64", "imputed_value_int64s")
        replaced, imputed = ctx.float("replaced_value_float", 0.0), ctx.floats("imputed_value_floats")
        if np.isnan(replaced):
            missing = c.unary(b, "is_nan", x)
        else:
            missing = c.compare(b, "eq", x, c.scalar(b, replaced, x.type.dtype))
        return c.select(b, missing, _per_column(ctx, x, imputed, x.type.dtype), x)
    ctx.ignore("replaced_value_float", "imputed_value_floats")
    missing = c.compare(b, "eq", x, c.scalar(b, ctx.int("replaced_value_int64", 0), x.type.dtype))
    return c.select(b, missing, _per_column(ctx, x, ctx.ints("imputed_value_int64s"), x.type.dtype), x)


@onnx_op("OneHotEncoder", 1, domain=ML)
def one_hot_encoder(ctx: NodeContext) -> Value:
    """A last axis over the categories, 1 (f32) at the element's own.

    Of an unknown category, which NaN is too, all are 0; NaN where `zeros` is 0, for which the specification has an error of the run time.
    """
    b, x = ctx.b, ctx.input(0)
    ctx.refuse_unless(not ctx.strings("cats_strings", ()), "categories that are strings")
    categories = ctx.b.literal(np.array(ctx.ints("cats_int64s"), np.int64))
    same = c.compare(b, "eq", c.unsqueeze(b, c.cast(b, x, DType.I64), (x.type.rank,)), categories)
    if x.type.dtype.is_float:
        number = c.unary(b, "not", c.unary(b, "is_nan", x))
        same = c.binary(b, "and", same, c.unsqueeze(b, number, (x.type.rank,)))
    ones = c.cast(b, same, DType.F32)
    if ctx.int("zeros", 1):
        return ones
    ctx.warn("an unknown category gives NaN, where the specification wants an error")
    found = c.reduce(b, "max", same, (x.type.rank,))
    return c.select(b, found, ones, c.scalar(b, float("nan"), DType.F32))


@onnx_op("FeatureVectorizer", 1, domain=ML)
def feature_vectorizer(ctx: NodeContext) -> Value:
    """The columns of all inputs side by side, in f32; a vector is one sample."""
    b, widths = ctx.b, ctx.ints("inputdimensions")
    ctx.require(len(widths) == len(ctx.inputs), f"inputdimensions of {len(widths)} inputs")
    parts = []
    for value, width in zip(ctx.variadic, widths, strict=True):
        columns = rows(ctx, value)
        have = columns.type.shape[1]
        ctx.refuse_unless(have == width, f"{have} columns where inputdimensions says {width}")
        parts.append(c.cast(b, columns, DType.F32))
    return c.concat(b, parts, 1)


@onnx_op("ZipMap", 1, domain=ML)
def zip_map(ctx: NodeContext) -> Value:
    """The tensor whose columns the maps would hold."""
    names = ctx.strings("classlabels_strings", ()) or ctx.ints("classlabels_int64s", ())
    ctx.warn(f"its output is the tensor of scores, with a column for each of {list(names)}, not a list of maps")
    return ctx.input(0)


_KINDS = {"int64s": np.int64, "floats": np.float32}


def _entries(ctx: NodeContext, what: str) -> Array:
    """The keys or the values of a LabelEncoder, where they are numbers."""
    found = [np.array(ctx.attribute(f"{what}_{kind}"), t) for kind, t in _KINDS.items() if ctx.has(f"{what}_{kind}")]
    if ctx.has(f"{what}_tensor"):
        found.append(ctx.tensor(f"{what}_tensor").load().reshape(-1))
    ctx.refuse_unless(not ctx.has(f"{what}_strings"), f"{what} that are strings")
    ctx.require(len(found) == 1, f"{len(found)} lists of {what}")
    ctx.refuse_unless(found[0].dtype.kind in "if", f"{what} of {found[0].dtype}")
    return found[0]


def _label_encoder(defaults: Callable[[NodeContext, np.dtype], float], *, nan: bool) -> Callable[[NodeContext], Value]:
    def handler(ctx: NodeContext) -> Value:
        """The value beside the first key that equals the element (NaN equals itself); the default where none does."""
        b, x = ctx.b, ctx.input(0)
        keys, values = _entries(ctx, "keys"), _entries(ctx, "values")
        ctx.require(len(keys) == len(values), f"{len(keys)} keys and {len(values)} values")
        default = defaults(ctx, values.dtype)
        ctx.refuse_unless(nan or not np.isnan(keys).any(), "NaN as a key")  # the tools disagree on version 2
        ctx.require(x.type.dtype.numpy == keys.dtype, f"keys of {keys.dtype} for {x.type}")
        return _looked_up(b, x, keys, values, default)

    return handler


def _looked_up(b: GraphBuilder, x: Value, keys: Array, values: Array, default: float) -> Value:
    wide = c.unsqueeze(b, x, (x.type.rank,))
    same = c.compare(b, "eq", wide, b.literal(keys))
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        missing = c.binary(b, "and", c.unary(b, "is_nan", wide), b.literal(np.isnan(keys)))
        same = c.binary(b, "or", same, missing)
    places = b.literal(np.arange(len(keys), dtype=np.int64))
    place = c.select(b, same, places, c.scalar(b, len(keys), DType.I64))
    first = c.reshape(b, c.reduce(b, "min", place, (x.type.rank,)), x.type.shape)
    table = np.append(values, np.array(default, values.dtype))
    return b.emit(Gather(0), b.literal(table), first)


def _defaults_2(ctx: NodeContext, dtype: np.dtype) -> float:
    ctx.ignore("default_string")
    return ctx.float("default_float", -0.0) if dtype.kind == "f" else ctx.int("default_int64", -1)


def _defaults_4(ctx: NodeContext, dtype: np.dtype) -> float:
    older = _defaults_2(ctx, dtype)
    if not ctx.has("default_tensor"):
        return older
    given = ctx.tensor("default_tensor").load()
    ctx.require(given.size == 1, f"a default_tensor of {given.size} elements")
    return float(given.item()) if dtype.kind == "f" else int(given.item())


onnx_op("LabelEncoder", 2, domain=ML)(_label_encoder(_defaults_2, nan=False))
onnx_op("LabelEncoder", 4, domain=ML)(_label_encoder(_defaults_4, nan=True))
